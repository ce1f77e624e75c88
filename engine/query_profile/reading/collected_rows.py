"""Collect rows, statements of logs and problems: what the readers of the query profile share."""

from __future__ import annotations

import csv
import hashlib
import math
import re
from array import array
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

import numpy as np
import polars as pl

from engine.core.reading import Document, Problem, Problems, Reading, Source, clean, not_utf8
from engine.core.tables import Table
from engine.formats import json_text
from engine.formats.delimited import header_fields, records
from engine.formats.sql_text import fingerprint, query_hash, shape
from engine.formats.timestamps import instant_ms, name_instant_ms, name_stem
from engine.query_profile.tables import HOST, SNAPSHOTS

STATES = ("user_us", "system_us", "iowait_us", "idle_us", "steal_us")
"""States of a CPU. User time includes nice time, system time interrupts."""

LARGEST = 1e21  # largest value of a counter (2^64 microseconds are 1.8e19)

LONGEST_S = 1e7  # longest stretch between two samples in seconds; beyond, the number is damaged


class Bad(ValueError):
    """Why a record is left out: kind and reason of the problem."""


class Rows:
    """Base of classes that collect rows: a source, and the problems of its lines."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.problems: list[Problem] = Problems()

    def problem(self, kind: str, reason: str, line: int | None = None, count: int = 1) -> None:
        """Note a problem of the file."""
        self.problems.append(Problem.at(self.source.path, kind, reason, line=line, count=count))

    @contextmanager
    def attempt(
        self, line: int | None, kind: str = "bad-number", words: str = "{}; the row is left out"
    ) -> Iterator[None]:
        """Turn an error inside the block into a problem of ``line``; errors other than ``Bad`` get ``kind`` and ``words``."""
        try:
            yield
        except Bad as error:
            kind, words = error.args
            self.problem(kind, words, line)
        except (*json_text.ERRORS, TypeError, LookupError, AttributeError, csv.Error) as error:
            self.problem(kind, words.format(json_text.reason(error)), line)


class Known(Document):
    """A kind whose files begin with what ``known`` matches."""

    known: re.Pattern[bytes]

    def recognise(self, name: str, head: bytes) -> bool:
        """Recognise the begin of a file."""
        return self.known.match(head) is not None


class Headed(Document):
    """A table with a header that has all ``columns`` (by default the ``marks``; alternatives with ``|``) and none ``without``."""

    columns: tuple[str, ...] = ()
    without: frozenset[str] = frozenset({"calls"})

    def recognise(self, name: str, head: bytes) -> bool:
        """Recognise the column names."""
        fields = set(header_fields(head))
        needed = (set(mark.split("|")) for mark in self.columns or self.marks)
        return bool(fields) and all(fields & mark for mark in needed) and not fields & self.without


class TableRows(Rows):
    """Rows of a ``table`` that is read from a delimited file."""

    def __init__(self, source: Source, table: Table) -> None:
        super().__init__(source)
        self.table = table
        self.columns: dict[str, list[Any]] = {name: [] for name in table.schema}

    def records(self, data: bytes, final: bool) -> Iterator[tuple[int, dict[str, str]]]:
        """Yield line number and fields of each row of a delimited file."""
        self.problems += not_utf8(self.source.path, data)
        yield from ((line, row) for line, row in records(self.source, data, self.problems, final) if row is not None)

    def add(self, *row: Any) -> None:
        """Add a row: a value for each column of the table."""
        for column, item in zip(self.columns.values(), row, strict=True):
            column.append(item)

    def reading(self) -> Reading:
        """Return the rows as a reading of a whole file."""
        return Reading(rows={self.table.name: self.columns}, problems=self.problems)


class HostRows(TableRows):
    """Rows of the ``host`` table. ``host``, ``machine``, ``cores`` and ``series`` (by default the
    file's name without its moment) apply to the rows that are added next."""

    def __init__(self, source: Source, kind: str, *, cores: float | None = None) -> None:
        super().__init__(source, HOST)
        self.kind = kind
        self.host = ""
        self.machine: str | None = None
        self.cores = cores
        self.series = name_stem(source.name)

    def used(self, at_ms: int, name: str, value: float, seconds: float | None = None) -> None:
        """Add a cumulative ``value`` in microseconds, or percent over the ``seconds`` before ``at_ms``."""
        host, series = clean(self.host), clean(self.series)
        self.add(self.kind, host, series, at_ms, seconds, self.cores, clean(name, 200), value, self.machine)

    def states(self, at_ms: int, values: Sequence[float | None], seconds: float | None = None) -> None:
        """Add a value for each of ``STATES``; None where a state is unknown."""
        for name, value in zip(STATES, values, strict=True):
            if value is not None:
                self.used(at_ms, name, value, seconds)


class HostKind(Known):
    """Base of the file kinds that give rows of the ``host`` table."""

    tables: tuple[Table, ...] = (HOST,)


def finite(text: Any) -> float:
    """Parse a counter or percentage. Raises ValueError or TypeError for anything else."""
    try:
        value = float(text)
    except (OverflowError, ValueError):  # a whole number of hundreds of digits, or other text
        value = math.inf
    if not abs(value) <= LARGEST:
        raise ValueError(f"{str(text)[:40]!r} is no counter")
    return value


def non_negative(text: Any) -> float:
    """Parse a counter or percentage of at least 0. Raises ValueError or TypeError."""
    value = finite(text)
    if value < 0:
        raise ValueError(f"{str(text)[:40]!r} is below 0")
    return value


STEM = "~"  # prefix of a series named after its file (without the moment), since the file names no host

TIME_COLUMNS = (
    "captured_at", "snapshot_time", "snapshot_at", "snapshot_timestamptz", "sampled_at", "collected_at",
    "snapshot", "now", "ts", "timestamp", "time",
)  # fmt: skip
"""Names of the column with the time of a snapshot, preferred ones first."""

HOST_COLUMNS = ("host", "hostname", "server", "instance", "server_name", "port")
"""Names of columns that identify the server of a row."""


def time_column(row: Collection[str]) -> str | None:
    """Return the preferred one of ``TIME_COLUMNS`` among the names in ``row``."""
    return next((name for name in TIME_COLUMNS if name in row), None)


def text_key(query: str) -> str:
    """Return a stable id for a query that has none: a hash of its text."""
    return "md5:" + hashlib.md5(query.encode("utf-8", "surrogatepass"), usedforsecurity=False).hexdigest()


def class_key(*parts: str) -> str:
    """Return the key of a class: its cleaned parts, joined by a character that none of them can contain."""
    return "\x1f".join(clean(part) for part in parts)


def number(text: str | float | int | None) -> float:
    """Parse a counter: NaN if absent or NULL. Raises ValueError for anything but a finite number."""
    return math.nan if text is None or text in ("", "NULL", "\\N") else finite(text)


CHUNK = 1 << 16  # rows collected as Python objects before they are packed into a frame, which takes less memory


HIDDEN = "<insufficient privilege>"
"""What pg_stat_statements shows instead of a statement that the asking role may not see."""


def counters(row: Mapping[str, Any], names: Sequence[str], calls: str, times: Sequence[str]) -> dict[str, float]:
    """Parse the counters ``names`` of a row; ``calls`` and one of ``times`` are required. Raises ValueError or TypeError."""
    values = {name: number(row[name]) if name in row else math.nan for name in names}
    if math.isnan(values[calls]) or all(math.isnan(values[name]) for name in times):
        raise Bad("bad-record", "a row without calls or time; the row is left out")
    if [value for value in values.values() if value < 0]:
        raise Bad("negative-value", "a negative counter; the row is left out")
    return values


class SnapshotRows(Rows):
    """Rows of the ``snapshots`` table, collected column by column.

    Without a time of their own, snapshots one after another are told apart by a key that comes again (``_is_twin`` knows the
    exceptions). Rows of one key in one snapshot add up later.

    A file has millions of counters and repeats its texts in every snapshot: each text is held once, counters as numbers.
    """

    def __init__(self, source: Source, system: str) -> None:
        super().__init__(source)
        self.system = system
        self.part = 0
        self.queryids: list[str] = []
        self._columns: dict[str, list[Any]] = {name: [] for name in SNAPSHOTS.schema if name != "counters"}
        self._counters = array("d")
        self._frames: list[pl.DataFrame] = []
        self._text = cache(clean)  # equal texts share one object
        self._keys: dict[str, str] = {}
        self.seen: set[tuple[str, str]] = set()
        self.moment: tuple[str, int | None] = ("", None)
        self.timed: str | None = None  # name of the time column, where there is one
        self._named_ms = name_instant_ms(source.name)
        self._stem = STEM + clean(name_stem(source.name))
        self._first = self._last = ("", "")

    def records(self, data: bytes, final: bool) -> Iterator[tuple[int, dict[str, str]]]:
        """Yield line number and fields of each row of a delimited file; a repeated header starts the next snapshot."""
        self.problems += not_utf8(self.source.path, data)
        for line, row in records(self.source, data, self.problems, final):
            if row is None:
                self.next_part()
                continue
            self.timed = self.timed or time_column(row)
            yield line, row
        if self.part > 0 and self.timed is None:
            count = f"{self.part + 1} snapshots one after another without a time column"
            self.problem("no-time", f"{count}: their order is known, their times are not")

    def next_part(self) -> None:
        """Start the next snapshot of the file."""
        if self.seen:
            self.part += 1
            self.seen.clear()

    def add(
        self,
        row: Mapping[str, Any],
        line: int | None,
        *,
        key: str,
        counters: Sequence[float],
        **values: Any,
    ) -> None:
        """Add a row of the file with its ``values`` of the table's columns; a new time starts the next snapshot.

        ``counters``: the same number of them in every row of a file.
        """
        stamp = str(row.get(self.timed, "")) if self.timed else ""
        at_ms = instant_ms(stamp) if self.timed else None
        if self.timed and at_ms is None:
            at_ms = self._named_ms
            told = "the moment in the file's name counts" if at_ms is not None else "the row is left out"
            reason = f"{stamp[:40]!r} is no time that can be read; {told} (write times with: set datestyle = ISO)"
            self.problem("bad-time", reason, line)
            if at_ms is None:
                return
        series = "/".join(str(row[name]) for name in HOST_COLUMNS if row.get(name))
        place = (series, key)
        if (place in self.seen and not self._is_twin(place, values["query"])) or (
            self.timed and self.seen and (stamp, at_ms) != self.moment
        ):
            self.next_part()
        self.moment = stamp, at_ms
        self._first = self._first if self.seen else place
        self._last = place
        self.seen.add(place)
        values |= {"at_ms": at_ms, "system": self.system, "part": self.part, "series": self._text(series) or self._stem}
        for name in ("query", "user", "database", "queryid"):
            values[name] = self._text(values[name] or "")
        values["key"] = self._keys.setdefault(key, key)
        self.queryids.append(values["queryid"])
        self._counters.extend(counters)
        for name, column in self._columns.items():
            column.append(values.get(name))
        if len(self._columns["key"]) == CHUNK:
            self._frames.append(self._taken())

    def _is_twin(self, place: tuple[str, str], query: str) -> bool:
        """Whether a row whose key was seen belongs to the same snapshot as the first one: the server lists a class twice, or
        hides whose row it is. Where rows have one moment only one like the very first begins another snapshot."""
        alone = query == HIDDEN or place == self._last or self._named_ms is not None
        return alone or (self.timed is not None and place != self._first)

    def reading(self, moment: int | None = None) -> Reading:
        """Return the rows as a reading. A single snapshot without a time gets ``moment``, else the time of the file."""
        moment = next((each for each in (moment, self._named_ms, self.source.mtime_ms) if each is not None), None)
        if self.part == 0:
            self._frames = [frame.with_columns(pl.col("at_ms").fill_null(moment)) for frame in self._frames]
            self._columns["at_ms"] = [moment if at_ms is None else at_ms for at_ms in self._columns["at_ms"]]
        frame = pl.concat([*self._frames, self._taken()], rechunk=False)
        return Reading(rows={"snapshots": frame}, problems=self.problems)

    def _taken(self) -> pl.DataFrame:
        """Return the rows collected since the last call as a frame, and forget them."""
        columns, height = self._columns, len(self._columns["key"])
        counters = np.frombuffer(self._counters).reshape(height, -1) if height else np.empty((0, 1))
        schema = {name: dtype for name, dtype in SNAPSHOTS.schema.items() if name != "counters"}
        self._columns, self._counters = {name: [] for name in columns}, array("d")
        # A cast, and no query: there is a file, and thus a frame, for every snapshot.
        packed = pl.Series("counters", counters).cast(pl.List(pl.Float64))
        return pl.DataFrame(columns, schema=schema, strict=False).hstack([packed])


SECOND = 1000  # milliseconds per bucket of statements; longer ones stay by themselves

KNOWN, LONGEST_KNOWN = 2000, 4000  # shapes of statements whose class is remembered, and their most characters

SESSIONS, MOST_INSIDE, CARRIED = 500, 1000, 20
"""Sessions whose statements may turn out to have run inside another, and how many of each: within a reading, and to the next."""

NOTHING = 1e-3  # sums of a group that was taken back: calls, or microseconds

Entry = tuple[float, bool, tuple[Any, ...], tuple[float, ...]]
"""A statement of a session: its end (epoch ms), whether the log marks it as part of a routine, its group and its values."""


def loaded(source: Source, data: bytes, problems: list[Problem]) -> Any:
    """Decode a JSON document, or a list of JSON lines; or return the reading that says it does not parse (yet)."""
    lines = json_text.lines(source.path, data, problems)
    document = (
        json_text.decode(source, data, records=(2, 1), ends_cut=True) if lines is None else json_text.Document(lines)
    )
    if isinstance(document, Reading):
        return document
    problems += document.problems
    return document.value


CARRIERS = re.compile(rb'\s*(?:\{\s*"|\[\s*[\[{]|"?@?timestamp"?,|[^\n]{0,200},"?@?message"?\s*\n)')
"""Begin of JSON or CSV that carries a log's lines as its texts: such files belong to ``CarriedLog``."""


class Statements(Rows):
    """The ``interval_classes`` rows of one reading of a log of kind ``system``. ``spread``: long statements belong to all seconds
    that they ran, else to the one they ended in. ``sessions``: newest statements of each session, for the reading behind."""

    def __init__(
        self, source: Source, system: str, *, spread: bool = False, sessions: dict[str, list[Any]] | None = None
    ) -> None:
        super().__init__(source)
        self.system = system
        self.spread = spread
        self.sessions: dict[str, list[Entry]] = {name: [*entries] for name, entries in (sessions or {}).items()}
        self._groups: dict[tuple[Any, ...], list[float]] = {}
        self._known: dict[str, str] = {}

    def add(
        self,
        end_ms: float | None,
        seconds: float,
        text: str,
        owner: tuple[str, str],
        *,
        calls: float = 1.0,
        rows: float = 0.0,
        errors: float = 0.0,
        lock_s: float = 0.0,
        rate: float = 1.0,
        session: str = "",
        marked: bool = False,
        grain_ms: float = 1.0,
        holds: bool = False,
    ) -> None:
        """Add a statement that ended at ``end_ms`` (None: unknown) of ``owner``: user and database. It stands for ``rate``.

        A statement that ``holds`` others, as a CALL does, ended after those of its ``session`` that ran inside it; they count as
        nested. The log has ``marked`` them, or their times tell, which are exact to ``grain_ms`` (infinite: they do not tell).
        """
        folded = self._folded(text)
        stretch: tuple[int | None, int | None] = (None, None)
        if end_ms is not None:
            second = int(end_ms) // SECOND * SECOND
            long = self.spread and seconds * 1000 > SECOND
            stretch = (round(end_ms - seconds * 1000), int(end_ms)) if long else (second, second + SECOND)
        group = (*stretch, folded, *owner, False)
        values = tuple(value * rate for value in (calls, seconds * 1e6, rows, errors, lock_s * 1e6))
        self._sum(group, values)
        if session and end_ms is not None:
            if holds or folded.startswith("call "):
                self._hide(self.sessions.get(session, []), end_ms - seconds * 1000, grain_ms)
            entries = self.sessions.setdefault(session, [])
            entries.append((end_ms, marked, group, values))
            del entries[: -MOST_INSIDE if len(entries) > 2 * MOST_INSIDE else 0]
            if len(self.sessions) > SESSIONS:
                del self.sessions[next(iter(self.sessions))]

    def _folded(self, text: str) -> str:
        """Return the fingerprint of a statement; those of its shape share it."""
        postgres = self.system.startswith("postgres")
        known = shape(text, postgres=postgres) if len(text) <= LONGEST_KNOWN else None
        folded = self._known.get(known or "")
        if folded is None:
            folded = fingerprint(text, postgres=postgres)
            if known and len(self._known) < KNOWN:
                self._known[known] = folded
        return folded

    def _sum(self, group: tuple[Any, ...], values: Sequence[float], sign: int = 1) -> None:
        sums = self._groups.setdefault(group, [0.0] * 5)
        for i, value in enumerate(values):
            sums[i] += sign * value

    def _hide(self, entries: list[Entry], begin_ms: float, grain_ms: float) -> None:
        """Count those ``entries`` of a session as nested that ran inside a statement that began at ``begin_ms``: they are marked,
        or ended later by more than ``grain_ms``."""
        beside = []
        while entries and entries[-1][0] + SECOND > begin_ms:
            end_ms, marked, group, values = entries.pop()
            if marked or end_ms - grain_ms > begin_ms:
                self._sum(tuple(group), values, -1)
                self._sum((*group[:-1], True), values)
            else:
                beside.append((end_ms, marked, group, values))
        entries += reversed(beside)

    def carried(self) -> dict[str, list[Entry]]:
        """Return the newest statements of the sessions, for the next reading."""
        return {name: entries[-CARRIED:] for name, entries in [*self.sessions.items()][-CARRIED:]}

    def put(self, reading: Reading) -> Reading:
        """Put the rows and problems into ``reading``."""
        reading.problems += self.problems
        groups = {group: sums for group, sums in self._groups.items() if max(map(abs, sums)) > NOTHING}
        if not groups:
            return reading
        starts, ends, texts, users, databases, nested = map(list, zip(*groups, strict=True))
        hashes = [query_hash(text) for text in texts]
        names = ("calls", "time_us", "rows", "errors", "lock_us")
        reading.rows["interval_classes"] = {
            "series": [STEM + clean(name_stem(self.source.name))] * len(hashes),
            "key": [
                class_key(*parts, *["n"] * inside)
                for *parts, inside in zip(hashes, users, databases, nested, strict=True)
            ],
            "nested": nested,
            "queryid": hashes,
            "query": [clean(text) for text in texts],
            "user": [clean(user) for user in users],
            "database": [clean(database) for database in databases],
            "system": [self.system] * len(hashes),
            "start_ms": starts,
            "end_ms": ends,
            **dict(zip(names, map(list, zip(*groups.values(), strict=True)), strict=True)),
        }
        return reading
