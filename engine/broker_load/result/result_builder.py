"""A result of the view while it is built: each step adds what it found."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field, fields
from typing import Any

import polars as pl

from engine.core.reading import Problem
from engine.core.view import Finding, Headline


@dataclass
class ResultBuilder:
    """Tables by name and the other parts of a ``Result``, still open to additions."""

    frames: dict[str, pl.DataFrame] = field(default_factory=dict)
    summary: dict[str, Any] = field(default_factory=dict)
    headline: list[Headline] = field(default_factory=list)
    outcome: Headline | None = None
    findings: list[Finding] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)

    def copy(self) -> ResultBuilder:
        """Return a copy to add to; frames are shared, as they never change."""
        return ResultBuilder(*(copy.copy(getattr(self, part.name)) for part in fields(self)))
