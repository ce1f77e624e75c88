"""What a view computes on: an immutable snapshot of all rows read so far, and which file gave which."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import dataclass, field
from typing import Protocol

import polars as pl

from engine.problems import Problem
from engine.tables import Rows

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


class Growth(Protocol):
    """What the store knows of how the tables of one snapshot came about; see the methods of ``Inputs``."""

    def added(self, name: str, version: int) -> pl.DataFrame | None:
        """As ``Inputs.added``."""
        ...

    def firm(self, name: str, version: int) -> pl.DataFrame | None:
        """As ``Inputs.added_firm``."""
        ...

    def plain(self, name: str, version: int) -> Rows | None:
        """As ``Inputs.added_plain``."""
        ...

    def provisional(self, name: str) -> pl.DataFrame:
        """As ``Inputs.provisional``."""
        ...

    def of(self, name: str, files: Set[int]) -> pl.DataFrame:
        """As ``Inputs.of``."""
        ...


class Known(Protocol):
    """What is known of the files of one snapshot, so that nobody needs to look at all of them."""

    @property
    def newest_ms(self) -> int | None:
        """As ``Inputs.newest_ms``."""
        ...

    @property
    def stale(self) -> int:
        """As ``Inputs.stale``."""
        ...

    def touched_since(self, version: int) -> frozenset[int] | None:
        """As ``Inputs.touched_since``."""
        ...


@dataclass(frozen=True)
class Inputs:
    """All rows of one view at one moment. ``version`` grows with every change; ``files`` maps file id to its info."""

    version: int
    files: Mapping[int, FileInfo]
    problems: tuple[Problem, ...] = ()
    _load: Callable[[str], pl.DataFrame] = field(repr=False, compare=False, default=lambda name: pl.DataFrame())
    _growth: Growth | None = field(repr=False, compare=False, default=None)
    _known: Known | None = field(repr=False, compare=False, default=None)

    def table(self, name: str) -> pl.DataFrame:
        """The input table ``name`` over all files: its declared columns plus ``file``. Row order: the order of reading;
        rows of one file are in file order, but what was appended to it later comes after rows of other files. Raises
        KeyError for an undeclared table."""
        return self._load(name)

    def of(self, name: str, files: Set[int]) -> pl.DataFrame:
        """The rows of ``table(name)`` that come from ``files``, without a look at most of the others. Raises KeyError."""
        if self._growth is not None:
            return self._growth.of(name, files)
        return self.table(name).filter(pl.col(FILE).is_in(pl.Series(sorted(files), dtype=pl.UInt32).implode()))

    def stamp(self, files: Iterable[int]) -> tuple[tuple[int, int], ...]:
        """Return id and version of each of ``files`` that is there, sorted: equal stamps mean equal rows."""
        return tuple((number, self.files[number].version) for number in sorted(files) if number in self.files)

    def added(self, name: str, version: int) -> pl.DataFrame | None:
        """The rows of ``table(name)`` that were not there at ``version``, by file in file order. None where that is not
        known or where rows were also taken away or changed: then look at the whole table. Raises KeyError."""
        return None if self._growth is None else self._growth.added(name, version)

    def added_firm(self, name: str, version: int) -> pl.DataFrame | None:
        """``added`` without provisional rows, which may come and go meanwhile: the rows of complete records that were not
        there at ``version``. None where that is not known or where such rows were taken away."""
        return None if self._growth is None else self._growth.firm(name, version)

    def added_plain(self, name: str, version: int) -> Rows | None:
        """``added_firm`` as it is at hand: columns of plain values (without ``file``, and without those that hold nothing but
        nulls) where a single file gave all of it, else a frame."""
        return None if self._growth is None else self._growth.plain(name, version)

    def provisional(self, name: str) -> pl.DataFrame:
        """The last rows of ``table(name)``, those of last records without their end: as soon as their files grow they are
        taken back. Raises KeyError."""
        return self.table(name).head(0) if self._growth is None else self._growth.provisional(name)

    def touched_since(self, version: int) -> frozenset[int] | None:
        """Ids of files that came, changed in any way or went since ``version``; None where that is not known."""
        return None if self._known is None else self._known.touched_since(version)

    def touched(self, version: int, known: Iterable[int]) -> frozenset[int]:
        """Ids of files to look at for what changed since ``version``, when the files ``known`` were there: ``touched_since``,
        or where that is not known all files and all of ``known``."""
        found = self.touched_since(version)
        return frozenset(self.files).union(known) if found is None else found

    def changed_since(self, version: int) -> frozenset[int]:
        """Ids of files that are new or have grown since ``version``.

        Gone ones are the ids you knew that are no longer in ``files``.
        """
        return frozenset(i for i, info in self.files.items() if info.version > version)

    @property
    def newest_ms(self) -> int | None:
        """Modification time (epoch ms) of the newest file, or None without files."""
        if self._known is not None:
            return self._known.newest_ms
        return max([info.mtime_ms for info in self.files.values()], default=None)

    @property
    def stale(self) -> int:
        """How many of the files hold their last good rows only."""
        if self._known is not None:
            return self._known.stale
        return sum(info.stale for info in self.files.values())
