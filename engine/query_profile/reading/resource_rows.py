"""What all readers of resource series share: rows of the ``host`` table, collected column by column."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from engine.formats.timestamps import name_stem
from engine.problems import Problem
from engine.query_profile.tables import HOST
from engine.reading import Reading, Source
from engine.tables import Table
from engine.text import clean

STATES = ("user_us", "system_us", "iowait_us", "idle_us", "steal_us")
"""What a CPU may be doing. User time includes nice time, system time interrupts."""


class HostRows:
    """Collects rows of the ``host`` table. ``host``, ``cores`` and ``series`` (the file's name without its moment, unless
    the reader knows better) are those of the rows that are added next."""

    def __init__(self, source: Source, kind: str, *, cores: float | None = None) -> None:
        self.source = source
        self.kind = kind
        self.host = ""
        self.cores = cores
        self.series = name_stem(source.name)
        self.columns: dict[str, list[Any]] = {name: [] for name in HOST.schema}
        self.problems: list[Problem] = []

    def add(self, at_ms: int, name: str, value: float, seconds: float | None = None) -> None:
        """A cumulative ``value`` in microseconds, or percent over the ``seconds`` before ``at_ms``."""
        row = (
            self.kind,
            clean(self.host),
            clean(self.series),
            at_ms,
            seconds,
            self.cores,
            clean(name, 200),
            value,
        )
        for column, item in zip(self.columns.values(), row, strict=True):
            column.append(item)

    def states(self, at_ms: int, values: Sequence[float | None], seconds: float | None = None) -> None:
        """``add`` for each of ``STATES``; None where a state is not known."""
        for name, value in zip(STATES, values, strict=True):
            if value is not None:
                self.add(at_ms, name, value, seconds)

    def problem(self, kind: str, reason: str, line: int | None = None) -> None:
        """What is wrong with the file."""
        self.problems.append(Problem.at(self.source.path, kind, reason, line=line))

    def reading(self) -> Reading:
        """The rows as a reading of a whole file."""
        return Reading(rows={"host": self.columns}, problems=self.problems)


class HostKind:
    """What all these file kinds have in common."""

    append = False
    version = 1
    tables: tuple[Table, ...] = (HOST,)


def finite(text: Any) -> float:
    """``text`` as a number that can be a counter or a percentage. Raises ValueError (TypeError) for any other."""
    value = float(text)
    if not math.isfinite(value) or abs(value) > 1e21:
        raise ValueError(f"{str(text)[:40]!r} is no counter")
    return value
