"""Make snapshots of cumulative counters, put them in order of time, and add the CPU that another extension counts.

postgres_exporter lists at most 100 classes (those with the most time), mysqld_exporter 250: classes enter and leave. Their
series come in slices and are repeated by range queries. A class that leaves keeps its counters; one that enters a cut list
has no first value, so its work counts from then on.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import accumulate, groupby, pairwise

import numpy as np
import polars as pl

from engine.core.view import FILE
from engine.query_profile.reading.exporter_series import MYSQL, POSTGRES
from engine.query_profile.tables import METRICS

NAMES = tuple(name for name, _ in METRICS)
"""Columns of ``Snapshot.values`` and ``Interval.values``."""


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
    return replace(one, classes=classes, values=sums[0], counters=sums[1], since_ms=since, texts=one.texts[first])


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
    in_order = groupby(sorted(run, key=lambda one: one.at_ms or 0), key=lambda one: one.at_ms)
    ordered: list[Snapshot] = []
    for snapshot in (_timed(reduce(_joined, alike)) for _, alike in in_order):
        if len(snapshot.classes) and not (ordered and _repeats(ordered[-1], snapshot)):
            ordered.append(snapshot)
    if not _is_cut(ordered):
        return ordered
    listed = (replace(snapshot, listed=True) for snapshot in ordered)
    return [*accumulate(listed, lambda before, one: _with_rows(one, before))]


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

    def filled(mine: np.ndarray, theirs: np.ndarray) -> np.ndarray:
        return np.where(np.isnan(mine) & (rows >= 0)[:, None], theirs[rows], mine) if len(theirs) else mine

    values, counters = filled(one.values, two.values), filled(one.counters, two.counters)
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
    return replace(one, values=values)
