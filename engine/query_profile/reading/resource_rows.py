"""Collect rows of the ``host`` table: what all readers of resource series share."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from engine.core.problems import Problem, Problems
from engine.core.reading import Reading, Source
from engine.core.tables import Table
from engine.core.text import clean
from engine.formats.timestamps import name_stem
from engine.query_profile.tables import HOST

STATES = ("user_us", "system_us", "iowait_us", "idle_us", "steal_us")
"""States of a CPU. User time includes nice time, system time interrupts."""

LARGEST = 1e21
"""Value beyond which a number is no counter (2^64 microseconds are 1.8e19)."""

LONGEST_S = 1e7
"""Seconds beyond which a stretch between two samples is a damaged number."""


class HostRows:
    """Rows of the ``host`` table, collected column by column. ``host``, ``machine``, ``cores`` and ``series`` (the file's name
    without its moment, unless the reader knows better) hold for the rows that are added next."""

    def __init__(self, source: Source, kind: str, *, cores: float | None = None) -> None:
        self.source = source
        self.kind = kind
        self.host = ""
        self.machine: str | None = None
        self.cores = cores
        self.series = name_stem(source.name)
        self.columns: dict[str, list[Any]] = {name: [] for name in HOST.schema}
        self.problems: list[Problem] = Problems()

    def add(self, at_ms: int, name: str, value: float, seconds: float | None = None) -> None:
        """Add a cumulative ``value`` in microseconds, or percent over the ``seconds`` before ``at_ms``."""
        host, series = clean(self.host), clean(self.series)
        row = (self.kind, host, series, at_ms, seconds, self.cores, clean(name, 200), value, self.machine)
        for column, item in zip(self.columns.values(), row, strict=True):
            column.append(item)

    def states(self, at_ms: int, values: Sequence[float | None], seconds: float | None = None) -> None:
        """Add a value for each of ``STATES``; None where a state is unknown."""
        for name, value in zip(STATES, values, strict=True):
            if value is not None:
                self.add(at_ms, name, value, seconds)

    def problem(self, kind: str, reason: str, line: int | None = None) -> None:
        """Report what is wrong with the file."""
        self.problems.append(Problem.at(self.source.path, kind, reason, line=line))

    def reading(self) -> Reading:
        """Return the rows as a reading of a whole file."""
        return Reading(rows={"host": self.columns}, problems=self.problems)


class HostKind:
    """Base of the file kinds that give rows of the ``host`` table."""

    append = False
    version = 1
    tables: tuple[Table, ...] = (HOST,)


def finite(text: Any) -> float:
    """Parse a number that can be a counter or a percentage. Raises ValueError (TypeError) for any other."""
    try:
        value = float(text)
    except OverflowError:  # a whole number of hundreds of digits
        value = math.inf
    if not math.isfinite(value) or abs(value) > LARGEST:
        raise ValueError(f"{str(text)[:40]!r} is no counter")
    return value


def non_negative(text: Any) -> float:
    """Parse a counter or percentage of resource use. Raises ValueError (TypeError) also for what is below 0."""
    value = finite(text)
    if value < 0:
        raise ValueError(f"{str(text)[:40]!r} is below 0")
    return value
