"""A result of the view while it is built: each step adds what it found."""

from __future__ import annotations

import copy
from typing import Any

import msgspec
import polars as pl

from engine.core.reading import Problem
from engine.core.view import Finding, Headline


class ResultBuilder(msgspec.Struct):
    """Tables by name and the other parts of a ``Result``, still open to additions."""

    frames: dict[str, pl.DataFrame] = msgspec.field(default_factory=dict)
    summary: dict[str, Any] = msgspec.field(default_factory=dict)
    headline: list[Headline] = msgspec.field(default_factory=list)
    outcome: Headline | None = None
    findings: list[Finding] = msgspec.field(default_factory=list)
    notes: list[str] = msgspec.field(default_factory=list)
    problems: list[Problem] = msgspec.field(default_factory=list)

    def copy(self) -> ResultBuilder:
        """Return a copy to add to; frames are shared, as they never change."""
        return ResultBuilder(*(copy.copy(getattr(self, part)) for part in self.__struct_fields__))
