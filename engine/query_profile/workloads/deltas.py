"""Turn snapshots of cumulative counters into work per interval, and logs and digests likewise, with every doubt about it.

The rules are in docs/models/query-profile.md, "From snapshots to intervals". Classes of neighbouring snapshots are matched
by key. A new class counts in full only if the server says that it began within the interval, or nothing was evicted
meanwhile. A counter that fell, or is counted from a later moment than before, was reset (or the class was evicted and came
back): its new value counts. A class that vanished took its last part with it. If the statistics were reset, or most classes
fell at once, the interval is not used; nor is any interval if the snapshots of several servers are mixed.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from typing import NamedTuple

import msgspec
import numpy as np
import polars as pl

from engine.core import units
from engine.core.view import FILE
from engine.formats.sql_text import label
from engine.query_profile.reading.collected_rows import SECOND
from engine.query_profile.tables import METRICS
from engine.query_profile.workloads import resources
from engine.query_profile.workloads.workload import MIXED, NAMES, ClassInfo, Snapshot, Workload, unique_names

NOISE = 1e-9  # relative fall of a counter that counts as rounding (counters are printed from doubles)

RESET_SHARE = 0.5  # share of common classes that fell from which on the statistics were reset, or the server restarted

TORN_SHARE, SLIGHT = 0.25, 0.05
"""A snapshot does not continue another if more than the first share of their common classes was reset, or less than that share
of classes is common. It does if at least half are common and at most the second share of them was reset."""

PROMPT = 0.1
"""Share of an interval within which counters must have begun again for their new values to stand for all of its work."""

SLACK_MS, QUARTER_MS = 1000, 900_000  # resolution of the moments at which classes began, and the unit of time zones

MOST_ENDS = 4  # snapshots before a break that are compared with later ones

FEWEST = 10  # snapshots that are kept whatever memory they take

MOST_RETURNS = 2  # returns to a snapshot before a break from which on several servers are assumed to take turns


class Statistics(NamedTuple):
    """What pg_stat_statements_info says at a moment: evictions so far and the last reset (None: unknown)."""

    evictions: float | None = None
    reset_ms: int | None = None


class Interval(msgspec.Struct, frozen=True):
    """Work between two snapshots: ``values`` (rows, metrics) of ``classes`` (rows,); ``reasons`` why it is doubtful;
    ``torn``: the later snapshot does not continue the earlier one (many counters fell, or the classes are others)."""

    start_ms: int | None
    end_ms: int | None
    classes: np.ndarray
    values: np.ndarray
    reasons: tuple[str, ...]
    torn: bool = False


def _matched(before: Snapshot, after: Snapshot) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Match the rows of two snapshots by class.

    Returns for each row of ``after`` the row of ``before`` of the same class or -1, whether there is one, and (for matched
    rows) whether the class was reset: a counter fell, or the server counts it from a later moment.
    """
    _, rows, earlier = np.intersect1d(after.classes, before.classes, assume_unique=True, return_indices=True)
    where = np.full(len(after.classes), -1)
    where[rows] = earlier
    old = where >= 0
    counted, now = before.counters[where[old]], after.counters[old, : before.counters.shape[1]]
    began, begins = before.since_ms[where[old]], after.since_ms[old]
    with np.errstate(invalid="ignore"):
        fell = (now < counted - NOISE * np.abs(counted)).any(axis=1)
    return where, old, fell | ((began >= 0) & (begins > began))


def _continues(before: Snapshot, after: Snapshot) -> bool:
    """Tell whether ``after`` can be a later snapshot of the server of ``before``: the same classes, hardly one reset."""
    _, old, reset = _matched(before, after)
    return bool(2 * old.sum() >= len(before.classes) and reset.sum() <= SLIGHT * old.sum())


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
    begins = _begins(before, after, where, old)[fell]
    if known_reset:
        begins = np.array([now.reset_ms or 0])
    elif reset:  # all at once: before the first of them was seen again
        begins = begins.min(keepdims=True)
    lost = int((~(begins - (before.at_ms or 0) <= PROMPT * ((after.at_ms or 0) - (before.at_ms or 0)))).sum())
    if lost:
        # A class that was reset within the interval lost its earlier work.
        what = "reset" if np.isfinite(begins).all() else "reset, or evicted and back"
        fallen = f"{units.plural(lost, 'class', 'es')} fell or restarted from zero ({what})"
        reasons.append("the statistics were reset" if reset else fallen)
    if after.listed:
        values[new] *= 0.0
    elif not reset and new.any():
        unproven = _unproven(before, after, new, was, now, evicted=bool(gone.any()))
        if len(unproven):
            # it may be old: how much of its work is new is unknown (uncounted metrics stay NaN)
            values[unproven] *= 0.0
            reasons.append(f"{units.plural(len(unproven), 'class', 'es')} appeared while others were evicted")
    if not reset and gone.any():
        reasons.append(f"{units.plural(int(gone.sum()), 'class', 'es')} vanished with the last part of their work")
    if reasons and not reset:
        reasons[-1] += _unmatched_time(before, after, change[~fell], new, gone)
    shared = int(old.sum())
    torn = (int(fell.sum()) > TORN_SHARE * shared and lost > 0) or shared < TORN_SHARE * min(
        len(before.classes), len(after.classes)
    )
    return Interval(before.at_ms, after.at_ms, after.classes, values, tuple(reasons), torn)


def _begins(before: Snapshot, after: Snapshot, where: np.ndarray, old: np.ndarray) -> np.ndarray:
    """Return when the classes of both snapshots were counted from zero within the interval (epoch ms, NaN where unknown).

    A server may tell it in local time: whole quarters of an hour bring it into the interval.
    """
    begins = after.since_ms[old].astype(float)
    if before.at_ms is None or after.at_ms is None:
        return np.full(len(begins), np.nan)
    quarters = np.maximum(np.ceil((before.at_ms - SLACK_MS - begins) / QUARTER_MS), 0)
    quarters -= np.maximum(np.ceil((begins - after.at_ms - SLACK_MS) / QUARTER_MS), 0)
    begins += quarters * QUARTER_MS
    inside = (begins >= before.at_ms - SLACK_MS) & (begins <= after.at_ms + SLACK_MS)
    return np.where(inside & (before.since_ms[where[old]] < after.since_ms[old]), begins, np.nan)


def _unproven(
    before: Snapshot, after: Snapshot, new: np.ndarray, was: Statistics, now: Statistics, *, evicted: bool
) -> np.ndarray:
    """Return the rows of ``after`` whose class is new, but may have been evicted earlier."""
    if was.evictions is not None and now.evictions is not None:
        evicted = now.evictions != was.evictions
    since = after.since_ms[new]
    begun = (since >= 0) & (before.at_ms is not None) & (since >= (before.at_ms or 0) - 1000)
    # an eviction removes several classes at once: some would be missing
    return np.asarray(np.flatnonzero(new)[~begun & evicted])


def _unmatched_time(
    before: Snapshot, after: Snapshot, matched_change: np.ndarray, new: np.ndarray, gone: np.ndarray
) -> str:
    """Word the time of new and vanished classes relative to the matched time (postgres-checkup's measure of error)."""
    time = NAMES.index("time_us")
    matched = float(np.nansum(matched_change[:, time]))
    unmatched = float(np.nansum(after.values[new, time])) + float(np.nansum(before.values[gone, time]))
    lost = unmatched / 2 / matched if matched > 0 else 0.0
    return (
        f" (unmatched: {f'{lost * 100:.3g}' if lost < 10 else f'{lost * 100:,.0f}'}% of the matched time)"
        if lost > 0
        else ""
    )


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
        ends = [*(end for end in ends if end.key not in continued), *[before] * interval.torn][-MOST_ENDS:]
        torn_before = interval.torn
    return count


ONE = "only one snapshot: totals since the statistics began"


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


def workload(title: str, run: Sequence[Snapshot], intervals: Sequence[Interval]) -> Workload:
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
    elif turns:
        notes = (
            "a snapshot continues an earlier one than its predecessor: the clock was set back, or it is another server's",
        )
    column, infos = _class_columns(run)
    count = len(intervals)
    row = np.repeat(np.arange(count), [len(i.classes) for i in intervals])
    place = column[len(column) - len(row) :]  # the first snapshot has no interval
    values = np.concatenate([i.values for i in intervals])
    top = np.array([not info.nested for info in infos], bool)
    if top.any() and not top.all():
        time = np.bincount(place, np.nan_to_num(values[:, NAMES.index("time_us")]), len(infos))
        notes += (
            inside_note([(label(info.query) or info.name, time[j]) for j, info in enumerate(infos) if info.nested]),
        )
        kept = top[place]
        row, values, place = row[kept], values[kept], (np.cumsum(top) - 1)[place[kept]]
        infos = tuple(info for info in infos if not info.nested)
    metrics: dict[str, np.ndarray] = {}
    for m, name in enumerate(NAMES):
        finite = np.isfinite(values[:, m])
        if finite.any() or name == "time_us":
            metrics[name] = np.zeros((count, len(infos)))
            if not mixed:  # differences between two servers are nobody's work
                metrics[name][row[finite], place[finite]] = values[finite, m]
    return Workload(
        title,
        run[-1].system,
        infos,
        metrics,
        np.full(count, np.nan),
        np.array([-1 if i.start_ms is None else i.start_ms for i in intervals], np.int64),
        np.array([-1 if i.end_ms is None else i.end_ms for i in intervals], np.int64),
        tuple("; ".join((MIXED, *i.reasons) if mixed else i.reasons) for i in intervals),
        notes=notes,
        returns=turns if mixed else 0,
        counted=_counted(values),
    )


def inside_note(nested: Collection[tuple[str, float]]) -> str:
    """Word that statements (name and time in microseconds) ran inside others."""
    name, time_us = max(nested, key=lambda each: each[1])
    return (
        f"{units.plural(len(nested), 'nested statement')} ran inside others, whose time and CPU hold theirs: not counted again "
        f"(most time: {name}, {time_us / 1e6:,.1f} s)"
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
    at = np.searchsorted(ends, first, side="right")
    behind = (first - ends[at]).tolist()  # negative: counts from the end
    found = [run[number].texts.row(row) for number, row in zip(at.tolist(), behind, strict=True)]
    order = np.array(sorted(range(len(first)), key=lambda i: (found[i], first[i])), np.int64)
    column = np.argsort(order)[place]
    texts = [found[i] for i in order]
    names = [queryid or query[:64] or "(no text)" for queryid, query, *_ in texts]
    more = [(user, database, "nested" if nested else "", query[:24]) for _, query, user, database, nested in texts]
    return column, tuple(ClassInfo(name, *text) for name, text in zip(unique_names(names, more), texts, strict=True))


BUCKETS_S = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 43200, 86400)
"""Interval lengths in seconds for a log without a CPU series."""

LIMITS_US = tuple(step * 10**power for power in range(3, 8) for step in (1, 2, 5))
"""Usual thresholds of logs in microseconds: 1 ms to 50 s."""
MANY, NEAR_LIMIT = 20, 1.5
"""Fewest rows of a log whose shortest statement tells the threshold, and that statement's largest ratio to it."""

MOST_BUCKETS = 720  # approximate limit on intervals of a log without a CPU series


def edges(part: pl.DataFrame, series: Sequence[resources.Series], target: str) -> np.ndarray | None:
    """Choose the interval edges of a log (epoch ms): its CPU samples, or round times.

    ``part``: rows of the ``interval_classes`` table. Returns None where no entry has a time.
    """
    low, high = part["start_ms"].min(), part["end_ms"].max()
    if low is None or high is None:
        return None
    first, last = int(low), int(high)  # type: ignore[arg-type]
    for at_ms in (candidate.at_ms for candidate in series if candidate.name == (target or resources.CPU)):
        inside = at_ms[(at_ms >= first - 1000) & (at_ms <= last + 1000)]
        if len(inside) >= 3 and np.median(np.diff(inside)) >= 900:
            return inside
    seconds = (last - first) / 1000
    days = math.ceil(seconds / MOST_BUCKETS / BUCKETS_S[-1])  # damaged times may be millennia apart
    step = next((s for s in BUCKETS_S if seconds / s <= MOST_BUCKETS), days * BUCKETS_S[-1]) * 1000
    return first // step * step + step * np.arange(int((last - 1 - first // step * step) // step + 1) + 1)


def log_workload(part: pl.DataFrame, name: str, system: str, edges: np.ndarray | None, memory: int) -> Workload:
    """Sum ``part`` (rows of the ``interval_classes`` table) by class between ``edges`` (epoch ms; None: one interval per
    file). ``name``: label of the workload; ``system``: its kind. The oldest intervals are left out where all metrics of all
    classes would take more than ``memory`` bytes."""
    inside_others = pl.col("nested").fill_null(pl.lit(False))
    part, within = part.filter(~inside_others), part.filter(inside_others)
    part = part if edges is None else _split(part, edges)
    interval, inside, start_ms, end_ms = _by_file(part) if edges is None or len(edges) < 2 else _between(part, edges)
    times = within.group_by("key").agg(pl.col("query").first(), pl.col("time_us").sum()).select("query", "time_us")
    nested = [(label(query), time_us) for query, time_us in times.sort("query").rows()]
    notes = _not_counted(part, inside) + _threshold(part) + ((inside_note(nested),) if nested else ())
    tables = max(1, sum(part[metric].count() > 0 for metric, _ in METRICS))
    if (gone := len(start_ms) - max(FEWEST, memory // (max(1, part["key"].n_unique()) * tables * 8))) > 0:
        notes = (*notes, left_out(gone, len(start_ms), "memory-mb"))
        kept = ~inside | (interval >= gone)
        part, interval, inside = part.filter(kept), interval[kept] - gone, inside[kept]
        start_ms, end_ms = start_ms[gone:], end_ms[gone:]
    count = len(start_ms)
    classes = part.unique("key", keep="first", maintain_order=True).with_row_index("index")
    index = part.join(classes.select("key", "index"), on="key", how="left", maintain_order="left")["index"].to_numpy()
    texts = classes.select("queryid", "query", "user", "database").rows()
    metrics: dict[str, np.ndarray] = {}
    for metric, _ in METRICS:
        values = part[metric].to_numpy().astype(float)
        counted = np.isfinite(values) & inside
        if counted.any():
            table = np.zeros((count, len(texts)))
            np.add.at(table, (interval[counted], index[counted]), values[counted])
            metrics[metric] = table
    metrics.setdefault("time_us", np.zeros((count, len(texts))))
    more = [(user, database, query[:24]) for _, query, user, database in texts]
    names = unique_names([queryid for queryid, *_ in texts], more)
    return Workload(
        name,
        system,
        tuple(ClassInfo(name, *text) for name, text in zip(names, texts, strict=True)),
        metrics,
        np.full(count, np.nan),
        start_ms,
        end_ms,
        ("",) * count,
        notes=notes,
        counted=float(part.filter(pl.col("cpu_us").is_not_null())["time_us"].sum())
        / max(float(part["time_us"].sum()), 1e-9),
    )


def _split(part: pl.DataFrame, edges: np.ndarray) -> pl.DataFrame:
    """Split the entries that run across ``edges``: each interval gets its share of the time, the last one the call."""
    starts, ends = part["start_ms"].fill_null(-1).to_numpy(), part["end_ms"].fill_null(-1).to_numpy()
    first, last = np.searchsorted(edges, starts, side="right"), np.searchsorted(edges, ends, side="left")
    across = np.flatnonzero((starts >= 0) & (ends - starts > SECOND) & (first < last))
    if not len(across):
        return part
    inner = [np.r_[starts[i], edges[first[i] : last[i]], ends[i]] for i in across]
    pieces = np.array([len(cuts) - 1 for cuts in inner])
    length = np.concatenate([np.diff(cuts) for cuts in inner])
    share = length / np.repeat(ends[across] - starts[across], pieces)
    whole = np.zeros(len(length))
    whole[np.cumsum(pieces) - 1] = 1.0
    split = part[np.repeat(across, pieces)].with_columns(
        pl.Series("start_ms", np.concatenate([cuts[:-1] for cuts in inner])),
        pl.Series("end_ms", np.concatenate([cuts[1:] for cuts in inner])),
        *(pl.col(name) * pl.lit(share if name.endswith("_us") else whole).alias(name) for name, _ in METRICS),
    )
    rest = np.ones(part.height, bool)
    rest[across] = False
    return pl.concat([part.filter(rest), split])


def _threshold(part: pl.DataFrame) -> tuple[str, ...]:
    """Word from which length on a log has statements, where it seems to leave out shorter ones."""
    per_call = part.filter(pl.col("calls") > 0).select((pl.col("time_us") / pl.col("calls")).min()).item()
    limit = max((each for each in LIMITS_US if each <= (per_call or 0)), default=0)
    if part.height < MANY or not limit or per_call > NEAR_LIMIT * limit:
        return ()
    said = "and more are in the log: the CPU of shorter ones is nobody's here, or blamed on these"
    return (f"only statements of {units.text('ms', limit / 1000)} {said}",)


def left_out(gone: int, count: int, why: str) -> str:
    """Word that only the newest intervals are used."""
    return f"the oldest {gone:,} of {count:,} intervals are left out ({why})"


Cut = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]
"""Interval of each row and whether it counts; begin and end of each interval (epoch ms, -1: unknown)."""


def _between(part: pl.DataFrame, edges: np.ndarray) -> Cut:
    """Assign entries to the intervals between ``edges`` in which they end."""
    timed = part["end_ms"].is_not_null().to_numpy()
    interval = np.searchsorted(edges, np.where(timed, part["end_ms"].to_numpy(), -1), side="left") - 1
    inside = timed & (interval >= 0) & (interval < len(edges) - 1)
    return interval, inside, edges[:-1].astype(np.int64), edges[1:].astype(np.int64)


def _by_file(part: pl.DataFrame) -> Cut:
    """Treat each file as one interval."""
    order = part.group_by(FILE, maintain_order=True).agg(pl.col("start_ms").min(), pl.col("end_ms").max())
    order = order.sort("start_ms", FILE, nulls_last=True).with_row_index("interval")
    numbers = part.join(order.select(FILE, "interval"), on=FILE, how="left", maintain_order="left")["interval"]
    start_ms, end_ms = (order[name].fill_null(-1).to_numpy().astype(np.int64) for name in ("start_ms", "end_ms"))
    return numbers.to_numpy().astype(np.int64), np.ones(part.height, bool), start_ms, end_ms


def _not_counted(part: pl.DataFrame, inside: np.ndarray) -> tuple[str, ...]:
    """Word how many entries belong to no interval."""
    if inside.all():
        return ()
    timeless = int(part["end_ms"].null_count())
    reasons = ((timeless, "have no time"), (int((~inside).sum()) - timeless, "lie outside the CPU samples"))
    return tuple(
        f"{count} log {'entry' if count == 1 else 'entries'} {what}: not counted" for count, what in reasons if count
    )
