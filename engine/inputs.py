"""What a view computes on: an immutable snapshot of all rows read so far, and which file gave which."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import dataclass, field
from functools import cached_property

import polars as pl

from engine.problems import Problem

FILE = "file"
"""Name of the column (UInt32) that the store adds to every input table: the id of the file that gave the row."""


@dataclass(frozen=True, slots=True)
class FileInfo:
    """One file that gave rows. ``id`` is unique for the life of the session and never reused: a replaced file gets a
    new id, an appended one keeps its id and takes a higher ``version``. ``label`` is the path as an operator would
    write it: relative to the watched root. ``stale``: the file on disk does not parse (yet); these are its last good
    rows."""

    id: int
    path: str
    label: str
    kind: str
    mtime_ms: int
    size: int
    version: int
    stale: bool = False


@dataclass(frozen=True)
class Inputs:
    """All rows of one view at one moment. ``version`` grows with every change; ``files`` maps file id to its info."""

    version: int
    files: Mapping[int, FileInfo]
    problems: tuple[Problem, ...] = ()
    _load: Callable[[str], pl.DataFrame] = field(repr=False, compare=False, default=lambda name: pl.DataFrame())
    _of: Callable[[str, Set[int]], pl.DataFrame] | None = field(repr=False, compare=False, default=None)
    _touched: Callable[[int], frozenset[int] | None] = field(repr=False, compare=False, default=lambda version: None)

    def table(self, name: str) -> pl.DataFrame:
        """Return the input table ``name`` over all files: its declared columns plus ``file``.

        Row order: the order of reading; rows of one file are in file order, but what was appended to it later comes
        after rows of other files. Raises KeyError for an undeclared table.
        """
        return self._load(name)

    def of(self, name: str, files: Set[int]) -> pl.DataFrame:
        """Return the rows of ``table(name)`` that come from ``files``, without a look at most others. Raises KeyError."""
        if self._of is not None:
            return self._of(name, files)
        return self.table(name).filter(pl.col(FILE).is_in(pl.Series(sorted(files), dtype=pl.UInt32).implode()))

    def stamp(self, files: Iterable[int]) -> tuple[tuple[int, int], ...]:
        """Return id and version of each of ``files`` that is there, sorted: equal stamps mean equal rows."""
        return tuple((number, self.files[number].version) for number in sorted(files) if number in self.files)

    def touched(self, version: int, known: Iterable[int]) -> frozenset[int]:
        """Return ids of files that came, changed or went since ``version``, when the files ``known`` were there.

        All files and all of ``known``, if too much has happened since.
        """
        touched = self._touched(version)
        return frozenset(self.files).union(known) if touched is None else touched

    @cached_property
    def newest_ms(self) -> int | None:
        """Modification time (epoch ms) of the newest file, or None without files."""
        return max([info.mtime_ms for info in self.files.values()], default=None)

    @cached_property
    def stale(self) -> int:
        """Number of files of which only the last good rows are here."""
        return sum(info.stale for info in self.files.values())
