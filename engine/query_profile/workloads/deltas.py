"""Counters to work: snapshots of cumulative counters become intervals, and every doubt is written down.

Rules: neighbours are joined on the class key. A class that was not there before counts in full only if the server says
that it began within the interval, or nothing was evicted meanwhile. A counter that fell, or is counted from a later moment
than before, is a reset (or the class was evicted and came back): the new value is what is known. A class that vanished took
its last part with it. When the statistics were reset, or most classes fell at once, the interval is not used at all; nor is
any where the snapshots of several servers are mixed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import polars as pl

from engine.query_profile.tables import METRICS
from engine.query_profile.workloads.workload import ClassInfo, Workload, unique_names

NAMES = tuple(name for name, _ in METRICS)
NOISE = 1e-9
"""Relative fall of a counter that is only rounding (counters are printed from doubles)."""

RESET_SHARE = 0.5
"""More than this share of the classes fell: the statistics were reset or the server restarted."""

TORN_SHARE, SLIGHT = 0.25, 0.05
"""A snapshot does not go on from another if more than the first share of the common classes began anew, or less than that
share is common; it does if at least half are common and no more than the second share of those began anew."""

MOST_ENDS, MOST_RETURNS = 4, 2
"""So many snapshots before a break are kept; so many returns to one of them cannot be chance."""


@dataclass
class Snapshot:
    """One moment: rows of classes by index into the run's list of classes."""

    at_ms: int | None
    index: np.ndarray
    values: np.ndarray
    """(rows, metrics), NaN where the source has none."""
    counters: np.ndarray
    since_ms: np.ndarray
    """(rows,) epoch ms or -1."""
    dealloc: float | None = None
    reset_ms: int | None = None


@dataclass
class Interval:
    """Work between two snapshots."""

    start_ms: int | None
    end_ms: int | None
    index: np.ndarray
    values: np.ndarray
    reasons: list[str]
    torn: bool = False
    """The later snapshot does not go on from the earlier one: many counters fell, or the classes are others."""


@dataclass
class Run:
    """Snapshots of one server, one after another; keeps only the last one and the intervals.

    Snapshots of two servers under one name would make intervals that no server ever saw. They give themselves away:
    a snapshot that does not go on from its predecessor goes on from an earlier one. ``ends`` are the last snapshots
    before such a break, ``returns`` counts how often one of them was gone on from.
    """

    keys: dict[str, int] = field(default_factory=dict)
    infos: list[ClassInfo] = field(default_factory=list)
    intervals: list[Interval] = field(default_factory=list)
    last: Snapshot | None = None
    ends: list[Snapshot] = field(default_factory=list)
    returns: int = 0

    def copy(self) -> Run:
        """The same, to be carried on without changing this one."""
        return Run(dict(self.keys), list(self.infos), list(self.intervals), self.last, list(self.ends), self.returns)

    @property
    def mixed(self) -> bool:
        """Whether these seem to be the snapshots of several servers (or one server's in disorder)."""
        return self.returns >= MOST_RETURNS

    def add(self, snapshot: Snapshot) -> None:
        """The next snapshot: O(classes)."""
        before, self.last = self.last, snapshot
        if before is None:
            return
        torn_before = bool(self.intervals) and self.intervals[-1].torn
        interval = difference(before, snapshot, len(self.infos))
        self.intervals.append(interval)
        # One server's counters may overtake what they were before a restart some day, but not in the very next snapshot.
        asked = self.ends if interval.torn else self.ends[-1:] if torn_before else []
        followed = [end for end in asked if _goes_on(end, snapshot, len(self.infos))]
        self.returns += bool(followed)
        self.ends = [end for end in self.ends if not any(end is one for one in followed)]
        if interval.torn:
            self.ends = [*self.ends, before][-MOST_ENDS:]


def _matched(before: Snapshot, after: Snapshot, classes: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """For each row of ``after``: the row of ``before`` of the same class or -1, whether there is one, and (only for
    those) whether the class began anew in between: a counter fell, or the server counts it from a later moment."""
    width = before.counters.shape[1]
    place = np.full(classes, -1, np.int64)
    place[before.index] = np.arange(len(before.index))
    where = place[after.index]
    old = where >= 0
    counted, now = before.counters[where[old]], after.counters[old, :width]
    began, begins = before.since_ms[where[old]], after.since_ms[old]
    with np.errstate(invalid="ignore"):
        anew = (now < counted - NOISE * np.abs(counted)).any(axis=1)
    return where, old, anew | ((began >= 0) & (begins > began))


def _goes_on(before: Snapshot, after: Snapshot, classes: int) -> bool:
    """Whether ``after`` can be a later snapshot of the server of ``before``: the same classes, hardly one anew."""
    _, old, anew = _matched(before, after, classes)
    return 2 * int(old.sum()) >= len(before.index) and int(anew.sum()) <= SLIGHT * int(old.sum())


def difference(before: Snapshot, after: Snapshot, classes: int) -> Interval:
    """What happened between two snapshots of one server."""
    reasons: list[str] = []
    if before.at_ms is not None and after.at_ms is not None and after.at_ms <= before.at_ms:
        reasons.append("the clock ran backwards")
    where, old, fell = _matched(before, after, classes)
    values = after.values.copy()
    old_values = before.values[where[old]]
    told = before.reset_ms is not None and after.reset_ms is not None and before.reset_ms != after.reset_ms
    with np.errstate(invalid="ignore"):
        change = values[old] - old_values
    change = np.where(np.abs(change) <= NOISE * np.abs(old_values), 0.0, change)
    change = np.where(fell[:, None] | told, values[old], np.maximum(change, 0.0))
    values[old] = change

    reset = told or (old.any() and fell.sum() > RESET_SHARE * old.sum())
    gone = ~np.isin(before.index, after.index)
    new = ~old
    if reset:
        reasons.append("the statistics were reset")
    elif fell.any():
        since = after.since_ms[old][fell]
        proven = (since >= 0) & (since >= (before.at_ms if before.at_ms is not None else np.inf))
        # A class that began anew within the interval has lost what it did before that.
        what = "reset" if proven.all() else "reset, or evicted and back"
        reasons.append(f"{_count(int(fell.sum()), 'class')} fell or began anew ({what})")
    if not reset and new.any():
        since = after.since_ms[new]
        begun = (since >= 0) & (before.at_ms is not None) & (since >= (before.at_ms or 0) - 1000)
        if before.dealloc is not None and after.dealloc is not None:
            kept = after.dealloc == before.dealloc
        else:
            kept = not gone.any()  # an eviction takes several classes at once: some would be missing
        unproven = np.flatnonzero(new)[~begun] if not kept else np.zeros(0, np.int64)
        if len(unproven):
            # it may have been there for long: how much of it is new cannot be known (and what is not counted stays so)
            values[unproven] *= 0.0
            reasons.append(f"{_count(len(unproven), 'class')} appeared while others were evicted")
    if not reset and gone.any():
        reasons.append(f"{_count(int(gone.sum()), 'class')} vanished with the last part of their work")
    lost = 0.0
    time = NAMES.index("time_us")
    matched = float(np.nansum(change[~fell, time])) if old.any() else 0.0
    if matched > 0:
        unmatched = float(np.nansum(after.values[new, time])) if new.any() else 0.0
        missing = float(np.nansum(before.values[gone, time]))
        lost = (unmatched + missing) / 2 / matched
        if lost > 0 and reasons and not reset:
            percent = f"{lost * 100:.3g}" if lost < 10 else f"{lost * 100:,.0f}"
            reasons[-1] += f" (unmatched: {percent} % of the matched time)"
    shared = int(old.sum())
    torn = int(fell.sum()) > TORN_SHARE * shared or shared < TORN_SHARE * min(len(before.index), len(after.index))
    return Interval(before.at_ms, after.at_ms, after.index, values, reasons, torn)


def _count(number: int, what: str) -> str:
    plural = what + ("es" if what.endswith("s") else "s")
    return f"{number} {what if number == 1 else plural}"


Asker = Callable[[int | None], tuple[float | None, int | None]]
"""Evictions and last reset at a moment."""


def snapshots(frame: pl.DataFrame, run: Run, info: Asker) -> None:
    """Feed all rows of ``frame`` (the ``snapshots`` table with a ``moment`` column that numbers the snapshots in order)
    into ``run``. ``info`` tells evictions and the last reset at a moment."""
    frame = frame.sort("moment", maintain_order=True)
    keys = frame["key"].to_list()
    index = np.empty(len(keys), np.int64)
    columns = [frame[name] for name in ("queryid", "query", "user", "database", "nested")]
    for i, key in enumerate(keys):
        found = run.keys.get(key)
        if found is None:
            found = run.keys[key] = len(run.infos)
            queryid, query, user, database, nested = (column[i] for column in columns)
            name = queryid or query[:64] or "(no text)"
            run.infos.append(ClassInfo(name, queryid, query, user, database, bool(nested)))
        index[i] = found
    values = frame.select(pl.col(name).fill_null(float("nan")) for name in NAMES).to_numpy()
    width = int(frame["counters"].list.len().max() or 0)  # type: ignore[arg-type]
    counters = frame["counters"].list.eval(pl.element().fill_null(float("nan"))).list.to_array(width).to_numpy()
    since = frame["since_ms"].fill_null(-1).to_numpy()
    moments = frame["moment"].to_numpy()
    starts = np.flatnonzero(np.r_[True, moments[1:] != moments[:-1]]) if len(moments) else np.zeros(0, np.int64)
    for start, end in zip(starts, np.r_[starts[1:], len(moments)], strict=True):
        at = frame["at_ms"][int(start)]
        dealloc, reset_ms = info(at)
        run.add(
            Snapshot(
                at,
                index[start:end],
                values[start:end],
                np.asarray(counters[start:end], float),
                since[start:end],
                dealloc,
                reset_ms,
            )
        )


ONE = "only one snapshot: totals since the statistics began"
MIXED = "snapshots of several servers are mixed, or not in order"


def workload(label: str, kind: str, run: Run) -> Workload:
    """All intervals of a run as one workload; classes in order of first appearance, y not known yet.

    A single snapshot gives one interval without a begin: what was counted since the statistics began.
    """
    notes: tuple[str, ...] = ()
    intervals = run.intervals
    if not intervals and run.last is not None:
        intervals = [Interval(None, run.last.at_ms, run.last.index, run.last.values, [ONE])]
        notes = (
            "there is one snapshot: the totals since the statistics began are shown, and nothing can be attributed",
        )
    if run.mixed:
        notes = (f"{MIXED}: their differences are nobody's work, so nothing is shown (see problems)",)
    count, classes = len(intervals), len(run.infos)
    metrics: dict[str, np.ndarray] = {}
    for m, name in enumerate(NAMES):
        table = np.zeros((count, classes))
        known = False
        for t, interval in enumerate(intervals):
            row = interval.values[:, m]
            fine = np.isfinite(row)
            known |= bool(fine.any())
            if not run.mixed:  # differences between two servers are nobody's work
                table[t, interval.index[fine]] = row[fine]
        if known:
            metrics[name] = table
    metrics.setdefault("time_us", np.zeros((count, classes)))
    more = [(i.user, i.database, "nested" if i.nested else "", i.query[:24]) for i in run.infos]
    names = unique_names([info.name for info in run.infos], more)
    infos = tuple(
        ClassInfo(name, i.queryid, i.query, i.user, i.database, i.nested)
        for name, i in zip(names, run.infos, strict=True)
    )
    start = np.array([-1 if i.start_ms is None else i.start_ms for i in intervals], np.int64)
    end = np.array([-1 if i.end_ms is None else i.end_ms for i in intervals], np.int64)
    seconds = np.where((start >= 0) & (end >= 0), (end - start) / 1000, np.nan)
    return Workload(
        label,
        kind,
        infos,
        metrics,
        np.full(count, np.nan),
        start,
        end,
        seconds,
        tuple("; ".join([MIXED, *i.reasons] if run.mixed else i.reasons) for i in intervals),
        notes=notes,
        returns=run.returns if run.mixed else 0,
    )
