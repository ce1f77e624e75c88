"""What a view computes on: an immutable snapshot of all rows read so far, by file."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field, replace
from functools import cached_property

import polars as pl

from engine.core.compression import PACKED
from engine.core.problems import Problem

FILE = "file"
"""Column (UInt32) that the store adds to every input table: the id of the file that the row comes from."""


@dataclass(frozen=True, slots=True)
class FileInfo:
    """One file that gave rows. ``id`` is unique within the session: a replaced file gets a new id, an appended one keeps its
    id and gets a higher ``version``. ``label``: its path relative to the watched root. ``stale``: the file on disk does not
    parse (yet); these are its last good rows."""

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

    ``past``: earlier snapshots of files since overwritten or removed, oldest first; only of kinds with ``keeps_versions``, and
    only as far as the session saw them. ``since_ms``: when the current versions of such files appeared (epoch ms). Results for
    the present depend on neither.
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

        Rows are in the order of reading: those of one file in file order, but rows appended later may follow rows of other
        files. Raises KeyError for an undeclared table.
        """
        return self._load(name)

    def of(self, name: str, files: Set[int]) -> pl.DataFrame:
        """Return the rows of ``table(name)`` from ``files``, without scanning most others. Raises KeyError."""
        if self._of is not None:
            return self._of(name, files)
        return self.table(name).filter(pl.col(FILE).is_in(pl.Series(sorted(files), dtype=pl.UInt32).implode()))

    def parts(self, name: str, files: Set[int], where: pl.Expr | None = None) -> Iterable[pl.DataFrame]:
        """Yield the rows of ``of(name, files)`` that satisfy ``where``, in parts and in the same order, so that rows on disk need
        not be in memory at once. A file may span several parts."""
        if self._parts is not None:
            return self._parts(name, files, where)
        rows = self.of(name, files)
        return [rows if where is None else rows.filter(where)]

    def batches(self, files: Iterable[int], most: int = 128 << 20) -> Iterator[frozenset[int]]:
        """Yield ``files`` in sets of at most ``most`` bytes on disk (or a single larger file), to work on them batch by batch."""
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
        """Return these inputs with the rows of each table filtered by ``keep(name, rows)``. ``mark`` (32 bits) goes into the
        files' versions, so that different filters give different stamps."""
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
        """Return these inputs, less the oldest files (of ``kinds``, None for any) that do not fit ``memory`` bytes, and a note
        that says so: the last resort of a view that cannot compute in parts.

        ``per_byte``: bytes of memory needed per byte of a file; a compressed file counts ``UNPACKED`` times.
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
        note = f"Skipped the {len(left_out):,} oldest of {len(self.files):,} files to stay within memory-mb."
        return kept, (note,)

    def stamp(self, files: Iterable[int]) -> tuple[tuple[int, int], ...]:
        """Return (id, version) of each existing file of ``files``, sorted. Equal stamps mean equal rows."""
        return tuple((number, self.files[number].version) for number in sorted(files) if number in self.files)

    def touched(self, version: int, known: Iterable[int]) -> frozenset[int]:
        """Return the ids of files added, changed or removed since ``version``, when the files were ``known``.

        If ``version`` is too old to tell: all files and all of ``known``.
        """
        touched = self._touched(version)
        return frozenset(self.files).union(known) if touched is None else touched

    @cached_property
    def newest_ms(self) -> int | None:
        """Modification time (epoch ms) of the newest file, or None without files."""
        return max([info.mtime_ms for info in self.files.values()], default=None)

    @cached_property
    def stale(self) -> int:
        """Number of files represented by their last good rows."""
        return sum(info.stale for info in self.files.values())

    def as_of(self, at_ms: int | None) -> tuple[Inputs, int | None]:
        """Return the snapshot in force at ``at_ms`` (None: live), and the moment up to which its rows count (None: all).

        For moments before the first snapshot: the oldest one, limited to rows up to then.
        """
        if at_ms is None or not self.past or at_ms >= self.since_ms:
            return self, at_ms
        seen = [snapshot for snapshot in self.past if snapshot.since_ms <= at_ms]
        return (seen[-1], None) if seen else (self.past[0], at_ms)

    def follow(self, old: Inputs, kinds: Set[str], now_ms: int) -> Inputs:
        """Return these inputs with the past of ``old``, the previous snapshot, and ``old`` itself if the version of a file of
        ``kinds`` has changed. The past is bounded by ``VERSIONS`` and ``PAST_BYTES``."""
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
"""Assumed compression ratio of compressed files."""
VERSIONS = 60
"""Past snapshots kept: an hour of a page that is written once a minute."""
PAST_BYTES = 128 << 20
"""Most bytes (size on disk) of file versions that only the past still holds."""


def _unpacked(info: FileInfo) -> int:
    return UNPACKED if info.path.endswith(PACKED) else 1


def _version(info: FileInfo) -> tuple[str, str, int, int]:
    """Return the identity of one version of a file: path, kind, modification time and size."""
    return info.path, info.kind, info.mtime_ms, info.size


def _bytes_gone(past: Iterable[Inputs], present: Inputs) -> int:
    """Sum the sizes on disk of file versions that are in ``past`` but not in ``present``."""
    sizes = {number: info.size for snapshot in past for number, info in snapshot.files.items()}
    return sum(size for number, size in sizes.items() if number not in present.files)
