"""What a view computes on: an immutable snapshot of all rows read so far, and which file gave which."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field, replace
from functools import cached_property

import polars as pl

from engine.core.compression import PACKED
from engine.core.problems import Problem

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
    """All rows of one view at one moment. ``version`` grows with every change; ``files`` maps file id to its info.

    ``past``: earlier snapshots, oldest first, whose files were overwritten or removed meanwhile; only of kinds that say
    ``keeps_versions``, and only what the session saw. ``since_ms``: when these versions of such files came (epoch ms).
    What is computed for the present does not depend on either.
    """

    version: int
    files: Mapping[int, FileInfo]
    problems: tuple[Problem, ...] = ()
    _load: Callable[[str], pl.DataFrame] = field(repr=False, compare=False, default=lambda name: pl.DataFrame())
    _of: Callable[[str, Set[int]], pl.DataFrame] | None = field(repr=False, compare=False, default=None)
    _touched: Callable[[int], frozenset[int] | None] = field(repr=False, compare=False, default=lambda version: None)
    past: tuple[Inputs, ...] = field(repr=False, compare=False, default=())
    _parts: Callable[[str, Set[int], pl.Expr | None], Iterable[pl.DataFrame]] | None = field(
        repr=False, compare=False, default=None
    )
    since_ms: int = field(repr=False, compare=False, default=0)

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

    def parts(self, name: str, files: Set[int], where: pl.Expr | None = None) -> Iterable[pl.DataFrame]:
        """Return the rows of ``of(name, files)``, or those ``where`` it is so, in parts, in the same order: rows that lie on disk
        need not all be in memory at once. One file may be in several parts."""
        if self._parts is not None:
            return self._parts(name, files, where)
        rows = self.of(name, files)
        return [rows if where is None else rows.filter(where)]

    def batches(self, files: Iterable[int], most: int = 128 << 20) -> Iterator[frozenset[int]]:
        """Yield ``files`` in sets of at most ``most`` bytes on disk, or of one file: for work that need not see all at once."""
        batch: set[int] = set()
        left = most
        for number in files:
            size = self.files[number].size
            if batch and size > left:
                yield frozenset(batch)
                batch, left = set(), most
            batch.add(number)
            left -= size
        if batch:
            yield frozenset(batch)

    def filtered(self, keep: Callable[[str, pl.DataFrame], pl.DataFrame], mark: int) -> Inputs:
        """Return these inputs with ``keep(name, rows)`` for the rows of each table. Versions of files get ``mark`` (32 bits), so
        that stamps differ from those of other choices."""
        made: dict[str, pl.DataFrame] = {}

        def load(name: str) -> pl.DataFrame:
            if name not in made:
                made[name] = keep(name, self.table(name))
            return made[name]

        files = {number: replace(info, version=(info.version << 32) | mark) for number, info in self.files.items()}
        return replace(
            self,
            files=files,
            _load=load,
            _of=lambda name, numbers: keep(name, self.of(name, numbers)),
            _parts=lambda name, numbers, where: (keep(name, rows) for rows in self.parts(name, numbers, where)),
        )

    def within(self, memory: int, per_byte: float, kinds: Set[str] | None = None) -> tuple[Inputs, tuple[str, ...]]:
        """Return these inputs without the oldest files (of ``kinds``, None for any), where all would take more than ``memory``
        bytes, and a note that says so: the last resort of a view that cannot do with less.

        ``per_byte``: bytes of memory that computing takes for each byte of a file; a packed one counts ``UNPACKED`` times.
        """
        takes = {number: info.size * per_byte * _unpacked(info) for number, info in self.files.items()}
        over = sum(takes.values()) - memory
        if over <= 0:
            return self, ()
        left_out: set[int] = set()
        for info in sorted(self.files.values(), key=lambda info: (info.mtime_ms, info.id)):
            if over > 0 and (kinds is None or info.kind in kinds):
                left_out.add(info.id)
                over -= takes[info.id]
        if not left_out:
            return self, ()
        files = {number: info for number, info in self.files.items() if number not in left_out}
        kept = replace(
            self,
            files=files,
            _load=lambda name: self.of(name, files.keys()),
            _of=lambda name, numbers: self.of(name, numbers & files.keys()),
            _parts=lambda name, numbers, where: self.parts(name, numbers & files.keys(), where),
            _touched=lambda version: None,  # a file may be left out without a change
        )
        note = f"For want of memory the {len(left_out):,} oldest of {len(self.files):,} files are left out (memory-mb)."
        return kept, (note,)

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

    def as_of(self, at_ms: int | None) -> tuple[Inputs, int | None]:
        """Return the snapshot in force at ``at_ms`` (None: live) and the moment up to which its files count, None for all.

        Before the first version that was seen, the oldest snapshot holds what its files tell of that time themselves.
        """
        if at_ms is None or not self.past or at_ms >= self.since_ms:
            return self, at_ms
        seen = [snapshot for snapshot in self.past if snapshot.since_ms <= at_ms]
        return (seen[-1], None) if seen else (self.past[0], at_ms)

    def follow(self, old: Inputs, kinds: Set[str], now_ms: int) -> Inputs:
        """Return these inputs with the past of ``old``, the snapshot before, and with ``old`` itself if a file of ``kinds`` is
        in another version now. The past is bounded by ``VERSIONS`` and ``PAST_BYTES``."""
        came = {_version(self.files[number]) for number in self.files.keys() - old.files.keys()}
        lost = {_version(old.files[number]) for number in old.files.keys() - self.files.keys()}
        # A document may be read twice, as it comes and once it is quiet: the same version under another id.
        came, lost = (
            {found for found in one - other if found[1] in kinds} for one, other in ((came, lost), (lost, came))
        )
        if not came and not lost:
            return replace(self, past=old.past, since_ms=old.since_ms)
        past = (*old.past, replace(old, past=())) if lost else old.past
        while len(past) > VERSIONS or _bytes_gone(past, self) > PAST_BYTES:
            past = past[1:]
        return replace(self, past=past, since_ms=max(now_ms, old.since_ms + 1))


UNPACKED = 10
"""How many times as large a packed file is taken to be when it is unpacked."""
VERSIONS = 60
"""Snapshots of the past that are kept: an hour of a page that is written once a minute."""
PAST_BYTES = 128 << 20
"""Size on disk of the versions of files that only the past still holds, at most."""


def _unpacked(info: FileInfo) -> int:
    return UNPACKED if info.path.endswith(PACKED) else 1


def _version(info: FileInfo) -> tuple[str, str, int, int]:
    """Return what one version of a file is known by: path, kind, modification time and size."""
    return info.path, info.kind, info.mtime_ms, info.size


def _bytes_gone(past: Iterable[Inputs], present: Inputs) -> int:
    """Sum the sizes (on disk) of files that are in ``past`` and no longer in ``present``, each version once."""
    sizes = {number: info.size for snapshot in past for number, info in snapshot.files.items()}
    return sum(size for number, size in sizes.items() if number not in present.files)
