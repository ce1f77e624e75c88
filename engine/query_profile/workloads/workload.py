"""The workload of one server: what each query class did in each interval, and what the host used meanwhile; its snapshots.

postgres_exporter lists at most 100 classes (those with the most time), mysqld_exporter 250: classes enter and leave. Their
series come in slices and are repeated by range queries. A class that leaves keeps its counters; one that enters a cut list
has no first value, so its work counts from then on.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import UTC, datetime
from functools import reduce
from itertools import accumulate, groupby, pairwise, takewhile
from pathlib import PurePath

import msgspec
import numpy as np
import polars as pl

from engine.core.view import FILE, FileInfo, Inputs
from engine.formats.sql_text import verb
from engine.formats.timestamps import instant_ms, name_instant_ms
from engine.query_profile.reading.exporter_series import MYSQL, POSTGRES
from engine.query_profile.tables import METRICS
from engine.query_profile.wlr.regression import HUGE


class Origin(msgspec.Struct, frozen=True):
    """Where one server's files come from: their folder, and what their names share (or the host's name, if the files give it).
    ``system``: the kind of server, if it matters."""

    folder: str
    name: str
    system: str = ""

    def nearness(self, other: Origin) -> tuple[int, int]:
        """Measure how likely both belong to one server: by common leading folders, then by name: 2 if equal (hosts of one domain
        share their last words), 1 if the first or last word is (``db1-pgss`` and ``db1-cpu``)."""
        mine, theirs = _words(self.name), _words(other.name)
        alike = bool(mine and theirs and (mine[0] == theirs[0] or mine[-1] == theirs[-1]))
        return depth(self.folder, other.folder), 2 if mine and mine == theirs else int(alike)


def _words(name: str) -> list[str]:
    return [word for word in re.split(r"[^a-z0-9]+", name.lower()) if word]


def depth(one: str, other: str) -> int:
    """Count the leading parts that two paths have in common."""
    pairs = zip(PurePath(one).parts, PurePath(other).parts, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def folder(info: FileInfo) -> str:
    """Return the folder of a file as text; one that is named after a moment is part of the file's name."""
    place = PurePath(info.path).parent
    return str(place if name_instant_ms(place.name) is None else place.parent)


def label(info: FileInfo) -> str:
    """Name the file as an operator would."""
    return info.label if info.label not in ("", ".") else PurePath(info.path).name


def of_files(frame: pl.DataFrame, files: Mapping[int, FileInfo], attribute: Callable[[FileInfo], str]) -> pl.Series:
    """Return ``attribute`` of the file of each row of ``frame``."""
    names = {
        i: attribute(files[i]) if i in files else "" for i in (frame[FILE].unique().to_list() if frame.height else [])
    }
    return frame[FILE].replace_strict(names, return_dtype=pl.String).rename("name")


class ClassInfo(msgspec.Struct, frozen=True):
    """Identity and text of one query class. ``nested``: ran inside a function, not at top level."""

    name: str
    queryid: str = ""
    query: str = ""
    user: str = ""
    database: str = ""
    nested: bool = False

    @property
    def verb(self) -> str:
        """First word of the statement; empty without a text."""
        return verb(self.query) if self.query else ""


class Workload(msgspec.Struct, frozen=True):
    """The work of one server: T intervals by J classes.

    ``label``: name on screen; ``kind``: format. ``metrics``: (T, J) per name, at least ``time_us``; ``y``: (T,) resource
    use of the interval in microseconds (NaN where unknown); ``start_ms``/``end_ms``: (T,) epoch milliseconds, or -1;
    ``reasons``: per interval why it is doubtful (empty: no doubt). ``y_name`` and ``y_source`` name the resource and where
    it comes from; ``cores`` of the host, NaN if unknown; ``is_table``: a WLR CSV, whose doubtful rows VividCortex' program
    would use. ``resources``: names of the host's series that can be y; ``returns``: how often a snapshot
    continues an earlier one than its predecessor, where the snapshots of several servers seem to be mixed;
    ``counted``: share of the elapsed time whose CPU the server itself counted by class; ``shared``: y is that of a whole host,
    whose other programs count too.
    """

    label: str
    kind: str
    classes: tuple[ClassInfo, ...]
    metrics: dict[str, np.ndarray]
    y: np.ndarray
    start_ms: np.ndarray
    end_ms: np.ndarray
    reasons: tuple[str, ...]
    y_name: str = ""
    y_source: str = ""
    cores: float = float("nan")
    is_table: bool = False
    notes: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    returns: int = 0
    counted: float = 0.0
    shared: bool = False

    @property
    def seconds(self) -> np.ndarray:
        """Lengths (T,) of the intervals, NaN where unknown."""
        return np.where((self.start_ms >= 0) & (self.end_ms >= 0), (self.end_ms - self.start_ms) / 1000, np.nan)

    @property
    def x(self) -> np.ndarray:
        """Elapsed time (T, J), microseconds."""
        return self.metrics["time_us"]

    @property
    def calls(self) -> np.ndarray | None:
        """Executions (T, J), or None where the source has none."""
        return self.metrics.get("calls")

    @property
    def used(self) -> np.ndarray:
        """Mask (T,) of the intervals that fits use: free of doubt, with a plausible y."""
        return np.asarray(np.array([not reason for reason in self.reasons], bool) & (np.abs(self.y) < HUGE))

    def rows(self, pick: np.ndarray) -> Workload:
        """Return only the intervals that ``pick`` (indices or mask) selects."""
        index = np.flatnonzero(pick) if pick.dtype == bool else pick
        return msgspec.structs.replace(
            self,
            metrics={name: values[index] for name, values in self.metrics.items()},
            y=self.y[index],
            start_ms=self.start_ms[index],
            end_ms=self.end_ms[index],
            reasons=tuple(self.reasons[i] for i in index),
        )

    def with_y(self, y: np.ndarray, name: str, source: str) -> Workload:
        """Return the same work with another resource."""
        return msgspec.structs.replace(self, y=y, y_name=name, y_source=source)


def unique_names(names: list[str], more: Sequence[tuple[str, ...]]) -> list[str]:
    """Make ``names`` unique: equal names get the parts of ``more`` that differ in parentheses, else a number."""
    groups: dict[str, list[int]] = {}
    for i, name in enumerate(names):
        groups.setdefault(name, []).append(i)
    out = list(names)
    for name, members in groups.items():
        if len(members) < 2:
            continue
        parts = [p for p in range(len(more[0])) if len({more[i][p] for i in members}) > 1]
        suffixes = [", ".join(more[i][p] for p in parts if more[i][p]) or str(n) for n, i in enumerate(members, 1)]
        several = len(set(suffixes)) < len(members)
        for n, i in enumerate(members):
            out[i] = f"{name} ({suffixes[n]})" + f" #{n + 1}" * several
    return out


MIXED = "snapshots of several servers are mixed, or not in order"

Names = dict[tuple[str, str], str]  # name by kind (user or database) and id; ids with conflicting names are absent


def names_of(inputs: Inputs, system: str) -> Names:
    """Return the names in the files; empty unless the workload is PostgreSQL's, since other ids mean something else."""
    if system != "postgresql":
        return {}
    found: dict[tuple[str, str], set[str]] = {}
    for what, number, name in inputs.table("server_names").select("what", "id", "name").unique().iter_rows():
        found.setdefault((what, number), set()).add(name)
    return {key: next(iter(names)) for key, names in found.items() if len(names) == 1}


def named(work: Workload, names: Names) -> Workload:
    """Replace ids of users and databases by names; classes keep their own names, which are unique."""
    if not names:
        return work
    infos = tuple(
        msgspec.structs.replace(
            info,
            user=names.get(("user", info.user), info.user),
            database=names.get(("database", info.database), info.database),
        )
        for info in work.classes
    )
    return work if infos == work.classes else msgspec.structs.replace(work, classes=infos)


_ROWS = re.compile(r"\s*+(\d*)\s*+(?:\.\.|:|-)\s*+(\d*)\s*")


def in_words(work: Workload, mask: np.ndarray) -> str:
    """Describe the intervals in ``mask`` (T,): their numbers, and their start and end if times are known."""
    at = np.flatnonzero(mask)
    if not len(at):
        return "no interval"
    rows = f"{at[0] + 1}..{at[-1] + 1}"
    start, end = int(work.start_ms[at[0]]), int(work.end_ms[at[-1]])
    if start < 0 or end < 0:
        return f"intervals {rows}"
    begin, until = (datetime.fromtimestamp(moment / 1000, UTC) for moment in (start, end))
    same_day = begin.date() == until.date()
    return f"intervals {rows}, {begin:%Y-%m-%d %H:%M:%S} to {until:{'%H:%M:%S' if same_day else '%Y-%m-%d %H:%M:%S'}}"


class BadWindow(ValueError):
    """A window that cannot be parsed; the message shows valid ones."""


def window(work: Workload, text: str) -> np.ndarray:
    """Parse a window into a mask (T,): ``10..120`` (rows from 1, both ends included, either optional) or two times joined by
    ``..`` (``2026-11-20T23:40..2026-11-20T23:50``). Empty: all. Raises BadWindow."""
    count = len(work.y)
    if not text.strip():
        return np.ones(count, bool)
    rows = _ROWS.fullmatch(text)
    if rows:
        low, high = rows.groups()
        index = np.arange(1, count + 1)
        return (index >= int(low or 1)) & (index <= int(high or count))
    first, dots, last = text.partition("..")
    start, end = instant_ms(first) if first else 0, instant_ms(last) if last else 1 << 62
    if not dots or start is None or end is None:
        raise BadWindow(f"{text!r} is neither rows (10..120) nor two times (2026-11-20T23:40..2026-11-20T23:50)")
    return (work.start_ms >= start) & (work.end_ms <= end)


NAMES = tuple(name for name, _ in METRICS)  # columns of ``Snapshot.values`` and ``Interval.values``


class Snapshot(msgspec.Struct, frozen=True):
    """Cumulative counters of one server at one moment, one row per class.

    ``series``, ``file``, ``part`` and ``at_ms``: columns of the ``snapshots`` table; ``classes`` (rows,): hashes of
    the classes' keys; ``values`` (rows, metrics): NaN where the source has none; ``counters`` (rows, counters);
    ``since_ms`` (rows,): begin of counting in epoch ms, or -1; ``texts``: the columns of ``CLASS_TEXTS``; ``listed``: an exporter
    lists only some classes, so a new one existed before; ``is_reduced``: the counters were dropped.
    """

    system: str
    series: str
    file: int
    part: int
    at_ms: int | None
    classes: np.ndarray
    values: np.ndarray
    counters: np.ndarray
    since_ms: np.ndarray
    texts: pl.DataFrame
    listed: bool = False
    is_reduced: bool = False

    @property
    def key(self) -> tuple[int, int, str]:
        """Identify the snapshot among all."""
        return self.file, self.part, self.series

    def reduced(self) -> Snapshot:
        """Return the snapshot with its identity and time, but the counters of one class only."""
        return msgspec.structs.replace(
            self, classes=self.classes[:1].copy(), values=self.values[:1].copy(), counters=self.counters[:1].copy(),
            since_ms=self.since_ms[:1].copy(), texts=self.texts.clear(), is_reduced=True,
        )  # fmt: skip


CLASS_TEXTS = ("queryid", "query", "user", "database", "nested")


def taken(rows: pl.DataFrame, files: Collection[int]) -> dict[int, list[Snapshot]]:
    """Split rows of the ``snapshots`` table into the snapshots of each of ``files``, in file order."""
    by_file: dict[int, list[Snapshot]] = {file: [] for file in files}
    for system in rows["system"].unique(maintain_order=True):
        part = rows.filter(pl.col("system") == system)
        # Rows of several servers may alternate within one part; otherwise avoid copying a large table.
        keys = part.select(FILE, "part", "series").with_row_index("row")
        first = keys.select(pl.col("row").first().over(FILE, "part", "series"))["row"].to_numpy()
        if (first[1:] < first[:-1]).any():
            order = np.argsort(first, kind="stable")
            part, first = part[order], first[order]
        classes = part["key"].hash().to_numpy()  # 64 bits: collisions are negligible
        values = part.select(pl.col(name).fill_null(float("nan")) for name in NAMES).to_numpy()
        counters = part["counters"].explode().to_numpy().reshape(len(first), -1)  # equal length within a system
        since = part["since_ms"].fill_null(-1).to_numpy()
        texts = part.select(*CLASS_TEXTS[:-1], pl.col(CLASS_TEXTS[-1]).fill_null(False))
        starts = np.flatnonzero(np.r_[True, first[1:] != first[:-1]])
        heads = part[starts].select("series", FILE, "part", "at_ms").rows()
        for (series, file, number, at_ms), start, end in zip(heads, starts, [*starts[1:], len(first)], strict=True):
            rows_of = slice(start, end)
            snapshot = Snapshot(
                str(system), series, file, number, at_ms, classes[rows_of], values[rows_of],
                counters[rows_of], since[rows_of], texts[rows_of],
            )  # fmt: skip
            by_file[file].append(_added_up(snapshot))
    return by_file


def _added_up(one: Snapshot) -> Snapshot:
    """Return the snapshot with the rows of equal classes added up: a server may list a class twice, or hide the statements of
    several under one name."""
    classes, first, place = np.unique(one.classes, return_index=True, return_inverse=True)
    if len(classes) == len(one.classes):
        return one
    sums = [np.zeros((len(classes), rows.shape[1])) for rows in (one.values, one.counters)]
    np.add.at(sums[0], place, one.values)
    np.add.at(sums[1], place, one.counters)
    since = np.full(len(classes), np.iinfo(np.int64).max)
    np.minimum.at(since, place, one.since_ms)
    return msgspec.structs.replace(
        one, classes=classes, values=sums[0], counters=sums[1], since_ms=since, texts=one.texts[first]
    )


LONGEST = {POSTGRES: 100, MYSQL: 250}  # most classes that an exporter lists, by system

NOTE = (
    "the exporter lists only the classes with the most time: what a class did before it was listed first, and the work of "
    "classes never listed, is unknown"
)
"""Note on a list that is cut."""


def in_time(run: Sequence[Snapshot]) -> list[Snapshot]:
    """Sort snapshots by time, join those of one moment (several files) and drop repeats and classes without a time. If the list
    is cut (``listed``), classes that have left are carried along."""
    in_order = groupby(sorted(run, key=lambda one: one.at_ms or 0), key=lambda one: one.at_ms)
    ordered: list[Snapshot] = []
    for snapshot in (_timed(reduce(_joined, alike)) for _, alike in in_order):
        if len(snapshot.classes) and not (ordered and _repeats(ordered[-1], snapshot)):
            ordered.append(snapshot)
    if not _is_cut(ordered):
        return ordered
    listed = (msgspec.structs.replace(snapshot, listed=True) for snapshot in ordered)
    return [*accumulate(listed, lambda before, one: _with_rows(one, before))]


def _timed(one: Snapshot) -> Snapshot:
    known = np.isfinite(one.values[:, NAMES.index("time_us")])
    if known.all():
        return one
    return msgspec.structs.replace(
        one, classes=one.classes[known], values=one.values[known], counters=one.counters[known],
        since_ms=one.since_ms[known], texts=one.texts.filter(pl.Series(known)),
    )  # fmt: skip


def _is_cut(run: Sequence[Snapshot]) -> bool:
    """Whether the lists of classes were cut: a class has left one, or one is as long as its system allows."""
    full = any(len(one.classes) >= LONGEST.get(one.system, 0) for one in run)
    return full or any(not np.isin(a.classes, b.classes).all() for a, b in pairwise(run))


def _repeats(before: Snapshot, after: Snapshot) -> bool:
    """Whether a range query only repeated earlier samples: counters of a queried server never stand still."""
    return np.array_equal(before.classes, after.classes) and np.array_equal(
        before.counters, after.counters, equal_nan=True
    )


def _joined(one: Snapshot, two: Snapshot) -> Snapshot:
    """Join two files' snapshots of one moment: the second fills in numbers that the first lacks."""
    place = {key: row for row, key in enumerate(two.classes.tolist())}
    rows = np.array([place.get(key, -1) for key in one.classes.tolist()])

    def filled(mine: np.ndarray, theirs: np.ndarray) -> np.ndarray:
        return np.where(np.isnan(mine) & (rows >= 0)[:, None], theirs[rows], mine) if len(theirs) else mine

    values, counters = filled(one.values, two.values), filled(one.counters, two.counters)
    return _with_rows(msgspec.structs.replace(one, values=values, counters=counters), two)


def _with_rows(one: Snapshot, other: Snapshot) -> Snapshot:
    """Add the classes that only ``other`` has."""
    missing = ~np.isin(other.classes, one.classes)
    if not missing.any():
        return one
    return msgspec.structs.replace(
        one,
        classes=np.concatenate([one.classes, other.classes[missing]]),
        values=np.concatenate([one.values, other.values[missing]]),
        counters=np.concatenate([one.counters, other.counters[missing]]),
        since_ms=np.concatenate([one.since_ms, other.since_ms[missing]]),
        texts=pl.concat([one.texts, other.texts.filter(pl.Series(missing))]),
    )


NEAR_MS = 2000  # distance within which snapshots of both extensions count as simultaneous

_CPU = NAMES.index("cpu_us")


def with_cpu(run: Sequence[Snapshot], counted: Sequence[Snapshot]) -> list[Snapshot]:
    """Return the snapshots ``run`` with the CPU of the ``counted`` ones taken at the same moments.

    Classes match by all their ids, or by query id alone if user or database ids are unknown and only one class has it.
    """
    times = np.array([one.at_ms or 0 for one in counted], np.int64)

    def joined(one: Snapshot) -> Snapshot:
        if one.at_ms is None or not len(times):
            return one
        nearest = int(np.argmin(np.abs(times - one.at_ms)))
        return _with_counted_cpu(one, counted[nearest]) if abs(int(times[nearest]) - one.at_ms) <= NEAR_MS else one

    return [*map(joined, run)]


def fingerprint(one: Snapshot) -> int:
    """Return a hash of the CPU of a snapshot's classes."""
    return hash(one.values[:, _CPU].tobytes())


def _with_counted_cpu(one: Snapshot, counted: Snapshot) -> Snapshot:
    cpu = counted.values[:, _CPU]
    by_class = dict(zip(counted.classes.tolist(), cpu.tolist(), strict=True))
    found = np.array([by_class.get(key, np.nan) for key in one.classes.tolist()])
    missing = np.isnan(found)
    if missing.any():
        by_id: dict[str, float] = {}
        for queryid, nested, value in zip(*counted.texts["queryid", "nested"], cpu.tolist(), strict=True):
            by_id[queryid] = by_id.get(queryid, 0.0) + (0.0 if nested else value)
        ids = one.texts["queryid"].to_list()
        times = {queryid: ids.count(queryid) for queryid in set(ids)} if len(ids) < 10_000 else {}
        for row in np.flatnonzero(missing).tolist():
            if times.get(ids[row]) == 1:
                found[row] = by_id.get(ids[row], np.nan)
    values = one.values.copy()
    values[:, _CPU] = np.where(np.isnan(found), values[:, _CPU], found)
    return msgspec.structs.replace(one, values=values)
