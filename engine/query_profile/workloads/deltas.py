"""Turn snapshots of cumulative counters into work per interval, and record every doubt about an interval.

The rules are in docs/models/query-profile.md, "From snapshots to intervals". Classes of neighbouring snapshots are matched
by key. A new class counts in full only if the server says that it began within the interval, or nothing was evicted
meanwhile. A counter that fell, or is counted from a later moment than before, was reset (or the class was evicted and came
back): its new value counts. A class that vanished took its last part with it. If the statistics were reset, or most classes
fell at once, the interval is not used; nor is any interval if the snapshots of several servers are mixed.

postgres_exporter lists at most 100 classes (those with the most time), mysqld_exporter 250: classes enter and leave. Their
series come in slices and are repeated by range queries. A class that leaves keeps its counters; one that enters a cut list
has no first value, so its work counts from then on.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import polars as pl

from engine.core.view import FILE
from engine.query_profile.reading.exporter_series import MYSQL, POSTGRES
from engine.query_profile.tables import METRICS
from engine.query_profile.workloads.workload import ClassInfo, Workload, unique_names

NAMES = tuple(name for name, _ in METRICS)
"""Columns of ``Snapshot.values`` and ``Interval.values``."""

NOISE = 1e-9
"""Relative fall of a counter that counts as rounding (counters are printed from doubles)."""

RESET_SHARE = 0.5
"""Share of common classes that fell from which on the statistics were reset, or the server restarted."""

TORN_SHARE, SLIGHT = 0.25, 0.05
"""A snapshot does not continue another if more than the first share of their common classes was reset, or less than that share
of classes is common. It does if at least half are common and at most the second share of them was reset."""

MOST_ENDS = 4
"""Snapshots before a break that are compared with later ones."""

FEWEST = 10
"""Snapshots that are kept whatever memory they take."""

MOST_RETURNS = 2
"""Returns to a snapshot before a break from which on several servers are assumed to take turns."""


@dataclass(frozen=True)
class Snapshot:
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
        return replace(
            self, classes=self.classes[:1].copy(), values=self.values[:1].copy(), counters=self.counters[:1].copy(),
            since_ms=self.since_ms[:1].copy(), texts=self.texts.clear(), is_reduced=True,
        )  # fmt: skip


CLASS_TEXTS = ("queryid", "query", "user", "database", "nested")


class Statistics(NamedTuple):
    """What pg_stat_statements_info says at a moment: evictions so far and the last reset (None: unknown)."""

    evictions: float | None = None
    reset_ms: int | None = None


@dataclass(frozen=True)
class Interval:
    """Work between two snapshots: ``values`` (rows, metrics) of ``classes`` (rows,); ``reasons`` why it is doubtful;
    ``torn``: the later snapshot does not continue the earlier one (many counters fell, or the classes are others)."""

    start_ms: int | None
    end_ms: int | None
    classes: np.ndarray
    values: np.ndarray
    reasons: tuple[str, ...]
    torn: bool = False


def snapshots(rows: pl.DataFrame, files: Collection[int]) -> dict[int, list[Snapshot]]:
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
            by_file[file].append(snapshot)
    return by_file


def _matched(before: Snapshot, after: Snapshot) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Match the rows of two snapshots by class.

    Returns for each row of ``after`` the row of ``before`` of the same class or -1, whether there is one, and (for matched
    rows) whether the class was reset: a counter fell, or the server counts it from a later moment.
    """
    width = before.counters.shape[1]
    _, rows, earlier = np.intersect1d(after.classes, before.classes, assume_unique=True, return_indices=True)
    where = np.full(len(after.classes), -1)
    where[rows] = earlier
    old = where >= 0
    counted, now = before.counters[where[old]], after.counters[old, :width]
    began, begins = before.since_ms[where[old]], after.since_ms[old]
    with np.errstate(invalid="ignore"):
        fell = (now < counted - NOISE * np.abs(counted)).any(axis=1)
    return where, old, fell | ((began >= 0) & (begins > began))


def _continues(before: Snapshot, after: Snapshot) -> bool:
    """Tell whether ``after`` can be a later snapshot of the server of ``before``: the same classes, hardly one reset."""
    _, old, reset = _matched(before, after)
    return 2 * int(old.sum()) >= len(before.classes) and int(reset.sum()) <= SLIGHT * int(old.sum())


def difference(before: Snapshot, after: Snapshot, was: Statistics, now: Statistics) -> Interval:
    """Compute the work between two snapshots of one server, and why it may be wrong."""
    reasons: list[str] = []
    if before.at_ms is not None and after.at_ms is not None and after.at_ms <= before.at_ms:
        reasons.append("the clock ran backwards")
    where, old, fell = _matched(before, after)
    gone = ~np.isin(before.classes, after.classes)
    new = ~old
    values = after.values.copy()
    old_values = before.values[where[old]]
    known_reset = was.reset_ms is not None and now.reset_ms is not None and was.reset_ms != now.reset_ms
    with np.errstate(invalid="ignore"):
        change = values[old] - old_values
    change = np.where(np.abs(change) <= NOISE * np.abs(old_values), 0.0, change)
    change = np.where(fell[:, None] | known_reset, values[old], np.maximum(change, 0.0))
    values[old] = change

    reset = known_reset or (old.any() and fell.sum() > RESET_SHARE * old.sum())
    if reset:
        reasons.append("the statistics were reset")
    elif fell.any():
        since = after.since_ms[old][fell]
        proven = (since >= 0) & (since >= (before.at_ms if before.at_ms is not None else np.inf))
        # A class that was reset within the interval lost its earlier work.
        what = "reset" if proven.all() else "reset, or evicted and back"
        reasons.append(f"{_count(int(fell.sum()), 'class')} fell or restarted from zero ({what})")
    if after.listed:
        values[new] *= 0.0
    elif not reset and new.any():
        unproven = _unproven(before, after, new, was, now, evicted=bool(gone.any()))
        if len(unproven):
            # it may be old: how much of its work is new is unknown (uncounted metrics stay NaN)
            values[unproven] *= 0.0
            reasons.append(f"{_count(len(unproven), 'class')} appeared while others were evicted")
    if not reset and gone.any():
        reasons.append(f"{_count(int(gone.sum()), 'class')} vanished with the last part of their work")
    if reasons and not reset:
        reasons[-1] += _unmatched_time(before, after, change[~fell], new, gone)
    shared = int(old.sum())
    torn = int(fell.sum()) > TORN_SHARE * shared or shared < TORN_SHARE * min(len(before.classes), len(after.classes))
    return Interval(before.at_ms, after.at_ms, after.classes, values, tuple(reasons), torn)


def _unproven(
    before: Snapshot, after: Snapshot, new: np.ndarray, was: Statistics, now: Statistics, *, evicted: bool
) -> np.ndarray:
    """Return the rows of ``after`` whose class is new, but may have been evicted earlier."""
    if was.evictions is not None and now.evictions is not None:
        evicted = now.evictions != was.evictions
    if not evicted:  # an eviction removes several classes at once: some would be missing
        return np.zeros(0, np.int64)
    since = after.since_ms[new]
    begun = (since >= 0) & (before.at_ms is not None) & (since >= (before.at_ms or 0) - 1000)
    return np.asarray(np.flatnonzero(new)[~begun])


def _unmatched_time(
    before: Snapshot, after: Snapshot, matched_change: np.ndarray, new: np.ndarray, gone: np.ndarray
) -> str:
    """Word the time of new and vanished classes relative to the matched time (postgres-checkup's measure of error)."""
    time = NAMES.index("time_us")
    matched = float(np.nansum(matched_change[:, time]))
    unmatched = float(np.nansum(after.values[new, time])) + float(np.nansum(before.values[gone, time]))
    if matched <= 0 or unmatched <= 0:
        return ""
    lost = unmatched / 2 / matched
    return f" (unmatched: {f'{lost * 100:.3g}' if lost < 10 else f'{lost * 100:,.0f}'} % of the matched time)"


def _count(number: int, what: str) -> str:
    plural = what + ("es" if what.endswith("s") else "s")
    return f"{number} {what if number == 1 else plural}"


def returns(run: Sequence[Snapshot], intervals: Sequence[Interval]) -> int:
    """Count how often a snapshot of ``run`` continues an earlier one than its predecessor.

    Differences between snapshots of two servers under one name are nobody's work. Such runs are recognised by snapshots that do
    not continue their predecessor but an earlier one, the last before such a break.
    """
    count, ends, torn_before = 0, list[Snapshot](), False
    for before, after, interval in zip(run, run[1:], intervals, strict=False):
        # After a restart a server's counters may exceed their old values some day, but not in the very next snapshot.
        candidates = ends if interval.torn else ends[-1:] if torn_before else []
        continued = [end.key for end in candidates if _continues(end, after)]
        count += bool(continued)
        ends = [end for end in ends if end.key not in continued]
        if interval.torn:
            ends = [*ends, before][-MOST_ENDS:]
        torn_before = interval.torn
    return count


ONE = "only one snapshot: totals since the statistics began"
MIXED = "snapshots of several servers are mixed, or not in order"


def newest(run: list[Snapshot], most: int, memory: int) -> list[Snapshot]:
    """Return the newest snapshots of ``run``: those of at most ``most`` intervals, fewer where all metrics of all their classes
    would take more than ``memory`` bytes, and none before one that was reduced."""
    whole = max((place + 1 for place, one in enumerate(run) if one.is_reduced), default=0)
    length = most + 1
    while True:
        part = run[max(whole, len(run) - length) :]
        classes = pl.Series(np.concatenate([one.classes for one in part])).n_unique()
        if len(part) <= FEWEST or len(part) * classes * len(NAMES) * 8 <= memory:
            return part
        length = length * 7 // 8  # lengths do not depend on history, so a fresh start gives the same result


def workload(label: str, run: Sequence[Snapshot], intervals: Sequence[Interval]) -> Workload:
    """Join the intervals between the snapshots of ``run`` (in order) into a workload whose y is not known yet.

    Classes are in order of first appearance. A single snapshot gives one interval without a begin: what was counted since
    the statistics began.
    """
    notes: tuple[str, ...] = ()
    if not intervals:
        intervals = [Interval(None, run[-1].at_ms, run[-1].classes, run[-1].values, (ONE,))]
        notes = (
            "there is one snapshot: the totals since the statistics began are shown, and nothing can be attributed",
        )
    turns = returns(run, intervals)
    mixed = turns >= MOST_RETURNS
    if mixed:
        notes = (f"{MIXED}: their differences are the work of no single server, so nothing is shown (see problems)",)
    column, infos = _class_columns(run)
    count = len(intervals)
    row = np.repeat(np.arange(count), [len(i.classes) for i in intervals])
    place = column[len(column) - len(row) :]  # the first snapshot has no interval
    values = np.concatenate([i.values for i in intervals])
    metrics: dict[str, np.ndarray] = {}
    for m, name in enumerate(NAMES):
        finite = np.isfinite(values[:, m])
        if finite.any() or name == "time_us":
            metrics[name] = np.zeros((count, len(infos)))
            if not mixed:  # differences between two servers are nobody's work
                metrics[name][row[finite], place[finite]] = values[finite, m]
    start = np.array([-1 if i.start_ms is None else i.start_ms for i in intervals], np.int64)
    end = np.array([-1 if i.end_ms is None else i.end_ms for i in intervals], np.int64)
    return Workload(
        label,
        run[-1].system,
        infos,
        metrics,
        np.full(count, np.nan),
        start,
        end,
        tuple("; ".join((MIXED, *i.reasons) if mixed else i.reasons) for i in intervals),
        notes=notes,
        returns=turns if mixed else 0,
        counted=_counted(values),
    )


def _counted(values: np.ndarray) -> float:
    """Return the share of all time (rows, metrics) whose CPU the server counted."""
    time, cpu = values[:, NAMES.index("time_us")], values[:, NAMES.index("cpu_us")]
    whole = float(np.nansum(time))
    return float(np.nansum(time[np.isfinite(cpu)])) / whole if whole > 0 else 0.0


def _class_columns(run: Sequence[Snapshot]) -> tuple[np.ndarray, tuple[ClassInfo, ...]]:
    """Return the column of each row of all snapshots, and the classes by column, in order of their ids.

    Draws of the estimates depend on this order, so it follows the server's own ids, not the order of snapshots.
    """
    joined = np.concatenate([snapshot.classes for snapshot in run])
    _, first, place = np.unique(joined, return_index=True, return_inverse=True)
    ends = np.cumsum([len(snapshot.classes) for snapshot in run])
    found = []
    for position in first:
        at = int(np.searchsorted(ends, position, side="right"))
        found.append(run[at].texts.row(int(position - ends[at])))  # negative offset: counts from the end
    order = np.array(sorted(range(len(first)), key=lambda i: (found[i], first[i])), np.int64)
    column = np.argsort(order)[place]
    texts = [found[i] for i in order]
    names = [queryid or query[:64] or "(no text)" for queryid, query, *_ in texts]
    more = [(user, database, "nested" if nested else "", query[:24]) for _, query, user, database, nested in texts]
    return column, tuple(ClassInfo(name, *text) for name, text in zip(unique_names(names, more), texts, strict=True))


LONGEST = {POSTGRES: 100, MYSQL: 250}
"""Most classes that an exporter lists, by system."""

NOTE = (
    "the exporter lists only the classes with the most time: what a class did before it was listed first, and the work of "
    "classes never listed, is unknown"
)
"""Note on a list that is cut."""


def in_time(run: Sequence[Snapshot]) -> list[Snapshot]:
    """Sort snapshots by time, join those of one moment (several files) and drop repeats and classes without a time. If the list
    is cut (``listed``), classes that have left are carried along."""
    joined: list[Snapshot] = []
    for snapshot in sorted(run, key=lambda one: one.at_ms or 0):
        if joined and joined[-1].at_ms == snapshot.at_ms:
            joined[-1] = _joined(joined[-1], snapshot)
        else:
            joined.append(snapshot)
    ordered: list[Snapshot] = []
    for snapshot in map(_timed, joined):
        if len(snapshot.classes) and not (ordered and _repeats(ordered[-1], snapshot)):
            ordered.append(snapshot)
    if not _is_cut(ordered):
        return ordered
    carried: list[Snapshot] = []
    for snapshot in ordered:
        one = replace(snapshot, listed=True)
        carried.append(_with_rows(one, carried[-1]) if carried else one)
    return carried


def _timed(one: Snapshot) -> Snapshot:
    known = np.isfinite(one.values[:, NAMES.index("time_us")])
    if known.all():
        return one
    return replace(
        one, classes=one.classes[known], values=one.values[known], counters=one.counters[known],
        since_ms=one.since_ms[known], texts=one.texts.filter(pl.Series(known)),
    )  # fmt: skip


def _is_cut(run: Sequence[Snapshot]) -> bool:
    """Whether some class has left, or the list is as long as it can be."""
    if any(len(one.classes) >= LONGEST.get(one.system, 0) for one in run):
        return True
    return any(not np.isin(a.classes, b.classes).all() for a, b in pairwise(run))


def _repeats(before: Snapshot, after: Snapshot) -> bool:
    """Whether a range query only repeated earlier samples: counters of a queried server never stand still."""
    return np.array_equal(before.classes, after.classes) and np.array_equal(
        before.counters, after.counters, equal_nan=True
    )


def _joined(one: Snapshot, two: Snapshot) -> Snapshot:
    """Join two files' snapshots of one moment: the second fills in numbers that the first lacks."""
    place = {key: row for row, key in enumerate(two.classes.tolist())}
    rows = np.array([place.get(key, -1) for key in one.classes.tolist()])
    values, counters = one.values.copy(), one.counters.copy()
    for mine, theirs in ((values, two.values), (counters, two.counters)):
        other = np.where((rows >= 0)[:, None], theirs[rows], np.nan) if len(theirs) else np.full(mine.shape, np.nan)
        np.copyto(mine, other, where=np.isnan(mine))
    return _with_rows(replace(one, values=values, counters=counters), two)


def _with_rows(one: Snapshot, other: Snapshot) -> Snapshot:
    """Add the classes that only ``other`` has."""
    missing = ~np.isin(other.classes, one.classes)
    if not missing.any():
        return one
    return replace(
        one,
        classes=np.concatenate([one.classes, other.classes[missing]]),
        values=np.concatenate([one.values, other.values[missing]]),
        counters=np.concatenate([one.counters, other.counters[missing]]),
        since_ms=np.concatenate([one.since_ms, other.since_ms[missing]]),
        texts=pl.concat([one.texts, other.texts.filter(pl.Series(missing))]),
    )


NEAR_MS = 2000
"""Distance within which snapshots of both extensions count as simultaneous."""

_CPU = NAMES.index("cpu_us")


def with_cpu(run: Sequence[Snapshot], counted: Sequence[Snapshot]) -> list[Snapshot]:
    """Return the snapshots ``run`` with the CPU of the ``counted`` ones taken at the same moments.

    Classes match by all their ids, or by query id alone if user or database ids are unknown and only one class has it.
    """
    times = np.array([one.at_ms or 0 for one in counted], np.int64)
    out = []
    for snapshot in run:
        if snapshot.at_ms is None or not len(times):
            out.append(snapshot)
            continue
        nearest = int(np.argmin(np.abs(times - snapshot.at_ms)))
        near = abs(int(times[nearest]) - snapshot.at_ms) <= NEAR_MS
        out.append(_with_counted_cpu(snapshot, counted[nearest]) if near else snapshot)
    return out


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
        for queryid, value in zip(counted.texts["queryid"].to_list(), cpu.tolist(), strict=True):
            by_id[queryid] = by_id.get(queryid, 0.0) + value
        ids = one.texts["queryid"].to_list()
        times = {queryid: ids.count(queryid) for queryid in set(ids)} if len(ids) < 10_000 else {}
        for row in np.flatnonzero(missing).tolist():
            if times.get(ids[row]) == 1:
                found[row] = by_id.get(ids[row], np.nan)
    values = one.values.copy()
    values[:, _CPU] = np.where(np.isnan(found), values[:, _CPU], found)
    return replace(one, values=values)
