"""Order the snapshots of one server, and join them with the CPU that pg_stat_kcache counted.

postgres_exporter lists at most 100 classes (those with the most time), mysqld_exporter 250: classes enter and leave. Their
series come in slices and are repeated by range queries. A class that leaves keeps its counters; one that enters a cut list
has no first value, so its work counts from then on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np
import polars as pl

from engine.query_profile.reading.exporter_series import MYSQL, POSTGRES
from engine.query_profile.workloads.deltas import NAMES, Snapshot

LONGEST = {POSTGRES: 100, MYSQL: 250}
"""How many classes an exporter lists at most, by system."""

NOTE = (
    "the exporter lists only the classes with the most time: what a class did before it was listed first, and the work of "
    "classes never listed, is unknown"
)
"""What an operator must know of a list that is cut."""


def in_time(run: Sequence[Snapshot]) -> list[Snapshot]:
    """Return the snapshots in order of time: those of one moment (of several files) joined, those that only repeat the one
    before left out, and classes that have left carried along where the list is cut (``listed``). Classes without a time are
    left out."""
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
    """Whether a range query has only repeated the samples before: counters of a server that is asked never stand still."""
    return np.array_equal(before.classes, after.classes) and np.array_equal(
        before.counters, after.counters, equal_nan=True
    )


def _joined(one: Snapshot, two: Snapshot) -> Snapshot:
    """Join what two files say of one moment: the numbers that the first lacks are the second's."""
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
"""Distance within which snapshots of both extensions are of one moment."""

_CPU = NAMES.index("cpu_us")


def with_cpu(run: Sequence[Snapshot], counted: Sequence[Snapshot]) -> list[Snapshot]:
    """Return the snapshots ``run`` with the CPU of the ``counted`` ones taken at the same moments.

    Classes are the same by all their ids; where the ids of users or databases are not known, by the query's own id, if one
    class alone has it.
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
    """Return a number that changes with the CPU of a snapshot's classes."""
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
