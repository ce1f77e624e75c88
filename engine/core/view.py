"""The contract of a view: inputs and a context in, a result out."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from functools import cached_property
from typing import Any, Literal, Protocol, runtime_checkable

import msgspec
import polars as pl

from engine.core.compression import PACKED
from engine.core.incremental import Memo
from engine.core.parameters import Parameters
from engine.core.reading import FileKind, Problem, fold
from engine.core.tables import Table

FILE = "file"  # column (UInt32) that the store adds to every input table: the id of the file that the row comes from


class FileInfo(msgspec.Struct, frozen=True):
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


@dataclasses.dataclass(frozen=True)
class Inputs:
    """All rows of one view at one moment. ``version`` grows with every change; ``files`` maps file id to its info.

    ``past``: earlier snapshots of files since overwritten or removed, oldest first; only of kinds with ``keeps_versions``, and
    only as far as the session saw them. ``since_ms``: when the current versions of such files appeared (epoch ms). Results for
    the present depend on neither. ``roots``: the watched paths, absolute, in the order given.
    """

    version: int
    files: Mapping[int, FileInfo]
    problems: tuple[Problem, ...] = ()
    _load: Callable[[str], pl.DataFrame] = dataclasses.field(
        repr=False, compare=False, default=lambda name: pl.DataFrame()
    )
    _of: Callable[[str, Set[int]], pl.DataFrame] | None = dataclasses.field(repr=False, compare=False, default=None)
    _touched: Callable[[int], frozenset[int] | None] = dataclasses.field(
        repr=False, compare=False, default=lambda version: None
    )
    past: tuple[Inputs, ...] = dataclasses.field(repr=False, compare=False, default=())
    _parts: Callable[[str, Set[int], pl.Expr | None], Iterable[pl.DataFrame]] | None = dataclasses.field(
        repr=False, compare=False, default=None
    )
    since_ms: int = dataclasses.field(repr=False, compare=False, default=0)
    roots: tuple[str, ...] = dataclasses.field(repr=False, compare=False, default=())

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
        rows = self.table(name)
        if not rows.height or files >= self.files.keys():
            return rows
        return rows.filter(pl.col(FILE).is_in(pl.Series(sorted(files), dtype=pl.UInt32).implode()))

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

        files = {
            number: msgspec.structs.replace(info, version=(info.version << 32) | mark)
            for number, info in self.files.items()
        }
        return dataclasses.replace(
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
        kept = dataclasses.replace(
            self,
            files=files,
            _load=lambda name: self.of(name, files.keys()),
            _of=lambda name, numbers: self.of(name, numbers & files.keys()),
            _parts=lambda name, numbers, where: self.parts(name, numbers & files.keys(), where),
            _touched=lambda version: None,  # a file may be left out without a change
        )
        return kept, (f"Skipped the {len(left_out):,} oldest of {len(self.files):,} files to stay within memory-mb.",)

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
            return dataclasses.replace(self, past=old.past, since_ms=old.since_ms)
        past = (*old.past, dataclasses.replace(old, past=())) if lost else old.past
        while len(past) > VERSIONS or _bytes_gone(past, self) > PAST_BYTES:
            past = past[1:]
        return dataclasses.replace(self, past=past, since_ms=max(now_ms, old.since_ms + 1))


UNPACKED = 10  # assumed compression ratio of compressed files
VERSIONS = 60  # past snapshots kept: an hour of a page that is written once a minute
PAST_BYTES = 128 << 20  # most bytes (size on disk) of file versions that only the past still holds


def _unpacked(info: FileInfo) -> int:
    return UNPACKED if info.path.endswith(PACKED) else 1


def _version(info: FileInfo) -> tuple[str, str, int, int]:
    """Return the identity of one version of a file: path, kind, modification time and size."""
    return info.path, info.kind, info.mtime_ms, info.size


def _bytes_gone(past: Iterable[Inputs], present: Inputs) -> int:
    """Sum the sizes on disk of file versions that are in ``past`` but not in ``present``."""
    sizes = {number: info.size for snapshot in past for number, info in snapshot.files.items()}
    return sum(size for number, size in sizes.items() if number not in present.files)


Level = Literal["", "ok", "low", "moderate", "severe", "critical"]
LEVELS: tuple[Level, ...] = ("", "ok", "low", "moderate", "severe", "critical")
"""Levels from harmless to worst; ``""`` is no judgement."""


class Headline(msgspec.Struct, frozen=True):
    """One number of the tab's header line: ``label``, ``value`` as text with its unit, and its window, sample count and
    uncertainty in words (``basis``). ``short``: label and value for narrow screens; numbers without it are hidden there."""

    label: str
    value: str
    basis: str = ""
    level: Level = ""
    short: tuple[str, str] | None = None


class Finding(msgspec.Struct, frozen=True):
    """One line of ``check``: level, subject, and a plain sentence with the numbers.

    ``row``: name of a result table and the key of the row that it is about. ``rest``: number of further findings that this
    one stands for and that are not listed. ``cause``: what several findings come from (``dead brokers``); without it those of
    one ``row`` belong together. ``count``: findings of one cause that a line of the overview stands for.
    """

    level: Level
    subject: str
    text: str
    row: tuple[str, tuple[Any, ...]] | None = None
    rest: int = 0
    cause: str = ""
    count: int = 1


def at_least(findings: Sequence[Finding], level: Level) -> tuple[Finding, ...]:
    """Select the findings that are as bad as ``level`` or worse, in their order."""
    return tuple(f for f in findings if LEVELS.index(f.level) >= LEVELS.index(level))


TREND_LENGTH = 120  # maximum length of a trend


class Trend(msgspec.Struct, frozen=True):
    """History of the number ``label``, oldest first (None: not known). A single value is the current one."""

    label: str
    values: tuple[float | None, ...]

    @classmethod
    def of(cls, label: str, values: pl.Series) -> Trend | None:
        """Make a trend of the last ``TREND_LENGTH`` numbers of ``values``; None without any number."""
        numbers = values.cast(pl.Float64).tail(TREND_LENGTH).fill_nan(None)
        return cls(label, tuple(numbers)) if numbers.drop_nulls().len() else None


class TooLarge(Exception):
    """Raised for a table with too many rows to hold in memory; the message says where they are."""


MadeLater = Callable[[], tuple[pl.DataFrame, Sequence[Problem]]]
"""Reads or makes a table. Returns its rows and the problems of its files. Raises TooLarge."""


@dataclasses.dataclass(frozen=True)
class Result:
    """What a view computes from its inputs and parameters. Equal inputs and parameters give an equal result.

    ``summary`` holds JSON scalars under snake_case names; ``tables`` one frame per declared result table that applies
    (a table that does not apply to these parameters is absent, an empty one is present); ``notes`` the modes and
    assumptions in force, as sentences for the tab; ``detail`` a frozen value that the view's own screen draws beyond the
    tables. ``newest_ms``: modification time of the newest input. ``focus``: where the parameters choose
    one subject, table name to (column, value) of its rows; texts for humans leave the other rows out, data do not.
    ``answer``: the most useful sentence about these data, with names: who holds, wastes, uses or lost most, between what.
    ``outcome``: outcome of the active what-if, None without one. ``trend``: history of the view's main number. ``latest``: name
    of the newest input where inputs arrive one by one (``run 132``), for events. ``later``: makers of the tables that are made
    only on demand (``table``), by name.
    """

    view: str
    summary: Mapping[str, Any]
    tables: Mapping[str, pl.DataFrame]
    headline: tuple[Headline, ...] = ()
    findings: Sequence[Finding] = ()
    notes: tuple[str, ...] = ()
    problems: tuple[Problem, ...] = ()
    newest_ms: int | None = None
    at_ms: int | None = None
    detail: Any = dataclasses.field(default=None, compare=False)
    focus: Mapping[str, tuple[str, str]] = dataclasses.field(default_factory=dict)
    outcome: Headline | None = None
    trend: Trend | None = None
    latest: str = ""
    answer: str = ""
    later: Mapping[str, MadeLater] = dataclasses.field(default_factory=dict, compare=False, repr=False)

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of all tables, made or not."""
        return (*self.tables, *self.later)

    def table(self, name: str) -> pl.DataFrame:
        """Return a table, making it if necessary. Raises KeyError, TooLarge."""
        return self.tables[name] if name in self.tables else self.later[name]()[0]

    def with_tables(self, names: Iterable[str]) -> Result:
        """Return this result with tables ``names`` made, and the problems of their files added. Raises KeyError, TooLarge."""
        made = {name: self.later[name]() for name in names if name not in self.tables}
        if not made:
            return self
        return dataclasses.replace(
            self,
            tables={**self.tables, **{name: frame for name, (frame, _) in made.items()}},
            later={name: get for name, get in self.later.items() if name not in made},
            problems=fold([*self.problems, *(problem for _, problems in made.values() for problem in problems)]),
        )

    def focused(self, table: str, rows: pl.DataFrame | None = None) -> pl.DataFrame:
        """Return the rows of ``table`` that are in focus; ``rows`` saves making it. Raises KeyError, TooLarge."""
        frame = self.table(table) if rows is None else rows
        if table not in self.focus:
            return frame
        column, value = self.focus[table]
        return frame.filter(pl.col(column) == value)

    def same_as(self, other: Result | None) -> bool:
        """Return whether ``other`` would be drawn identically."""
        if other is None or (self.view, self.at_ms) != (other.view, other.at_ms):
            return False
        plain = ("newest_ms", "summary", "headline", "notes", "problems", "findings", "outcome", "trend", "answer")
        return (
            all(getattr(self, name) == getattr(other, name) for name in plain)
            and self.tables.keys() == other.tables.keys()
            and all(frame.equals(other.tables[name]) for name, frame in self.tables.items())
            and self.detail == other.detail
        )


class Cancelled(Exception):
    """Raised by ``Context.check`` when a newer request supersedes this computation."""


class Context(msgspec.Struct, frozen=True):
    """What compute may use beside inputs and parameters.

    ``now_ms``: the current time (epoch ms; compute never reads a clock). ``at_ms``: compute on the data as they were then; None
    is live. ``memo``: values and partial results kept for the session to save time (``engine.core.incremental``); an empty one
    must give an equal result. ``stop``: asked by ``check`` between pieces of long work. ``progress``: called with a fraction 0-1
    and what is being done. ``memory``: bytes that this program may use; a note says what a view leaves out to stay within them.
    """

    now_ms: int
    at_ms: int | None = None
    memo: Memo = msgspec.field(default_factory=Memo)
    stop: Callable[[], bool] = lambda: False
    progress: Callable[[float, str], None] = lambda fraction, text: None
    memory: int = 4 << 30

    def check(self) -> None:
        """Raise Cancelled if the result is no longer wanted."""
        if self.stop():
            raise Cancelled


class NoInput(Exception):
    """Raised by compute when the inputs hold no data for these parameters: ``report`` exits 3."""


class UnknownName(NoInput):
    """Raised by compute when a parameter names something that is not in the inputs: ``report`` exits 2."""


@runtime_checkable
class View(Protocol):
    """One tab: what it reads, what can be chosen, what it computes.

    ``name`` is the word pair with a hyphen; ``kinds`` in the order of the page of formats; ``tables`` the result tables, the
    first one is the main one; ``fail_on`` the level from which ``check`` exits 1 by default.
    """

    name: str
    title: str
    parameters: type[Parameters]
    tables: tuple[Table, ...]
    fail_on: Level

    @property
    def kinds(self) -> tuple[FileKind, ...]:
        """What the view reads."""

    def compute(self, inputs: Inputs, parameters: Any, context: Context) -> Result:
        """Pure: same inputs, parameters, ``now_ms`` and ``at_ms`` give an equal result."""

    def upstream(self, result: Result, parameters: Any) -> str | None:
        """What the re-implemented system prints for this result (``--format upstream``), None if it prints nothing."""
