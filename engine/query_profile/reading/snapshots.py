"""Collect rows of the ``snapshots`` table: what all snapshot readers share."""

from __future__ import annotations

import hashlib
import math
from typing import Any

import polars as pl

from engine.formats.timestamps import name_stem
from engine.problems import Problem
from engine.query_profile.tables import SNAPSHOTS
from engine.reading import Reading, Source
from engine.text import clean

STEM = "~"
"""Begin of a series that is only the file's name without its moment: the file names no host."""

LARGEST_COUNTER = 1e21
"""Value beyond which a number is no counter (2^64 microseconds are 1.8e19)."""


def text_key(query: str) -> str:
    """Return a stable id for a query that has none: a hash of its text."""
    return "md5:" + hashlib.md5(query.encode("utf-8", "surrogatepass"), usedforsecurity=False).hexdigest()


def number(text: str | float | int | None) -> float:
    """Parse a counter: NaN for absent or NULL. Raises ValueError for what is no finite number."""
    if text is None or text in ("", "NULL", "\\N"):
        return math.nan
    value = float(text)
    if not math.isfinite(value) or abs(value) > LARGEST_COUNTER:
        raise ValueError(f"{str(text)[:40]!r} is no counter")
    return value


class SnapshotRows:
    """Rows of the ``snapshots`` table, collected column by column; a key met again in the same part starts the next one."""

    def __init__(self, source: Source, system: str) -> None:
        self.source = source
        self.system = system
        self.part = 0
        self.columns: dict[str, list[Any]] = {name: [] for name in SNAPSHOTS.schema}
        self.seen: set[tuple[str, str]] = set()
        self.problems: list[Problem] = []
        self.moment: int | None = None

    def next_part(self) -> None:
        """Start the next snapshot of the file."""
        if self.seen:
            self.part += 1
            self.seen.clear()

    def add(self, *, key: str, series: str, at_ms: int | None, timed: bool, **values: Any) -> None:
        """Add a row. ``timed``: the file has a time column, and a new time starts the next snapshot."""
        if (series, key) in self.seen or (timed and self.seen and at_ms != self.moment):
            self.next_part()
        self.moment = at_ms
        self.seen.add((series, key))
        row = {"key": key, "series": series, "at_ms": at_ms, "system": self.system, "part": self.part, **values}
        for name, column in self.columns.items():
            column.append(row.get(name))

    def reading(self, fallback_ms: int | None) -> Reading:
        """Return the rows as a reading. A single snapshot without a time of its own gets ``fallback_ms``."""
        reading = Reading(problems=self.problems)
        columns = self.columns
        for name in ("query", "user", "database", "queryid", "series"):
            columns[name] = [clean(text or "") for text in columns[name]]
        if self.part == 0 and fallback_ms is not None:
            columns["at_ms"] = [fallback_ms if at is None else at for at in columns["at_ms"]]
        stem = clean(name_stem(self.source.name))
        columns["series"] = [series or STEM + stem for series in columns["series"]]
        reading.rows["snapshots"] = pl.DataFrame(columns, schema=SNAPSHOTS.schema, strict=False)
        return reading
