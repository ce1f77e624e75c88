"""Shared by the readers of this view: files read whole, collected problems, rows turned into columns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from engine.core.reading import Problem, Problems, Reading, Source
from engine.core.tables import Table
from engine.formats import json_text

SANE_RATE = 2**53  # largest plausible rate (bytes per second) or size (bytes): above it doubles are no longer exact


MOST_MEMBERS = 20_000  # most members of a ring that are read: rings have hundreds
_MOST_VALUES = 5_000_000  # most values in a document of a ring: tokens of all members


def ring_document(source: Source, data: bytes) -> Any:
    """Decode a ring as JSON, or return the reading that says that it is too large or does not parse (yet)."""
    if data.count(b"{") > MOST_MEMBERS + 10 or data.count(b",") > _MOST_VALUES:
        return unreadable(
            source, "too-large", f"more than {MOST_MEMBERS:,} members, or {_MOST_VALUES:,} values, are not read"
        )
    return json_text.decode(source, data)


class Found:
    """Collects the problems of one file, after those of its document."""

    def __init__(self, path: str, problems: Iterable[Problem] = ()) -> None:
        self.path, self.problems = path, Problems(problems)

    def problem(self, kind: str, reason: str, line: int | None = None, byte: int | None = None) -> None:
        """Record a problem of this file; ``line`` is 1-based."""
        self.problems.append(Problem.at(self.path, kind, reason, line=line, byte=byte))


def columns_of(table: Table, rows: Iterable[Sequence[Any]]) -> dict[str, list[Any]]:
    """Transpose ``rows``, each in the order of ``table``'s columns. Returns column name to values."""
    columns: dict[str, list[Any]] = {column.name: [] for column in table.columns}
    for row in rows:
        for values, value in zip(columns.values(), row, strict=True):
            values.append(value)
    return columns


def unreadable(source: Source, kind: str, reason: str, byte: int | None = None) -> Reading:
    """Return the reading of a file that does not parse, so that its last good version stays in use."""
    return Reading(problems=[Problem.at(source.path, kind, reason, byte=byte)], complete=False)


class KeyLines:
    """Finds the line numbers of JSON strings that are looked up in file order, scanning each byte once."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at, self.line = 0, 1
        self._lost = False

    def of(self, text: Any) -> int:
        """Return the 1-based line of the next ``"text"``, or the line reached so far if it is not found.

        After a text that is not found (written with escapes) the search ends: each further one would scan the rest of the file.
        """
        if self._lost or not isinstance(text, str):
            return self.line
        at = self._data.find(msgspec.json.encode(text.encode("utf-8", "replace").decode()), self._at)
        self._lost = at < 0
        if at >= 0:
            self.line += self._data.count(b"\n", self._at, at)
            self._at = at
        return self.line


def line_of(data: bytes, text: str) -> int | None:
    """Return the 1-based line of the first ``"text"`` in JSON ``data``, or None."""
    at = data.find(msgspec.json.encode(text))
    return data.count(b"\n", 0, at) + 1 if at >= 0 else None
