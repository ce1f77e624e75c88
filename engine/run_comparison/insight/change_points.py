"""Change points of the metrics along the common time axis of both sides."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engine.run_comparison.runs.measurements import Floats
from engine.run_comparison.runs.runs import Run
from engine.run_comparison.runs.samples import Samples, Side
from engine.stats.balls import base_size
from engine.stats.edivisive import ChangePoint, Search, change_points_of


@dataclass(frozen=True, slots=True)
class Axis:
    """All compared runs in time order: their side (0 left, 1 right) and their place on it."""

    runs: tuple[Run, ...]
    sides: NDArray[np.int64]
    places: NDArray[np.int64]


def time_axis(left: Sequence[Run], right: Sequence[Run]) -> Axis:
    """Runs by time; equal times by side, then oldest first."""
    runs = [*reversed(left), *reversed(right)]
    times = np.array([run.time_ms or 0 for run in runs], dtype=np.int64)
    order = np.argsort(times, kind="stable")
    sides = np.repeat(np.array([0, 1], dtype=np.int64), (len(left), len(right)))
    places = np.concatenate([np.arange(len(left) - 1, -1, -1), np.arange(len(right) - 1, -1, -1)]).astype(np.int64)
    return Axis(tuple(runs[i] for i in order.tolist()), sides[order], places[order])


def series_of(samples: Samples, axis: Axis, metric: int) -> tuple[Floats, NDArray[np.int64]]:
    """A metric's mean per run along the axis, and the positions on the axis that have one."""
    positions = {(int(s), int(p)): i for i, (s, p) in enumerate(zip(axis.sides, axis.places, strict=True))}
    at: list[Floats] = []
    where: list[NDArray[np.int64]] = []
    for number, side in enumerate((samples.left, samples.right)):
        values, runs = side.of(metric), side.runs_of(metric)
        if not values.size:
            continue
        sums = np.bincount(runs, weights=values, minlength=side.n_runs)
        counts = np.bincount(runs, minlength=side.n_runs)
        held = np.flatnonzero(counts)
        at.append(sums[held] / counts[held])
        where.append(np.array([positions[number, int(place)] for place in held], dtype=np.int64))
    if not at:
        return np.zeros(0), np.zeros(0, dtype=np.int64)
    places = np.concatenate(where)
    order = np.argsort(places, kind="stable")
    return np.concatenate(at)[order], places[order]


def _matrix(side: Side, metrics: int) -> Floats:
    if side.single:
        return side.rows(np.arange(metrics), side.n_runs)
    which = np.repeat(np.arange(metrics), side.sizes)
    flat = which * side.n_runs + side.runs
    sums = np.bincount(flat, weights=side.values, minlength=metrics * side.n_runs)
    counts = np.bincount(flat, minlength=metrics * side.n_runs)
    with np.errstate(divide="ignore", invalid="ignore"):
        found = np.where(counts > 0, sums / counts, np.nan)
    return np.asarray(found.reshape(metrics, side.n_runs), dtype=np.float64)


def all_series(samples: Samples, axis: Axis) -> Floats:
    """Every metric's mean per run along the axis, [metrics, runs]; NaN where a run has none."""
    both = np.concatenate([_matrix(side, samples.count) for side in (samples.left, samples.right)], axis=1)
    return np.take(both, np.where(axis.sides == 0, 0, samples.left.n_runs) + axis.places, axis=1)


_CHECKS = 32
"""Places along the axis, at least, at which it is looked how far a series has wandered; up to twice as many."""


class Drift:
    """How far each series wanders: its largest cumulated deviation from its mean over sd * sqrt(n) (a CUSUM), looked at
    after every run of the first 64, then after every second, fourth ... A run at the end of the axis is one addition."""

    def __init__(self, series: Floats) -> None:
        """From all series, [metrics, runs], NaN where a run has none."""
        metrics, n = series.shape
        self.n = n
        self._every = max(1, base_size(n) // _CHECKS)
        held = ~np.isnan(series)
        first = held.argmax(axis=1) if n else np.zeros(metrics, dtype=np.int64)
        self._first = series[np.arange(metrics), first] if n else np.full(metrics, np.nan)
        # Distances from the first value, added one by one as they come.
        places = np.arange(self._every, n + 1, self._every) - 1
        room = 2 * _CHECKS + 2
        self._sums, self._counts = np.zeros((room, metrics)), np.zeros((room, metrics))
        self._sum, self._squares, self._count = (
            np.zeros(metrics),
            np.zeros(metrics),
            held.sum(axis=1).astype(np.float64),
        )
        step = max(1, 100_000 // max(n, 1))
        for start in range(0, metrics if n else 0, step):
            rows = slice(start, start + step)
            apart = np.where(held[rows], series[rows] - self._first[rows, None], 0.0)
            sums = np.cumsum(apart, axis=1)
            self._sums[: places.size, rows] = sums[:, places].T
            self._counts[: places.size, rows] = np.cumsum(held[rows], axis=1)[:, places].T
            self._sum[rows] = sums[:, -1]
            self._squares[rows] = np.cumsum(apart * apart, axis=1)[:, -1]

    def add(self, values: Floats) -> None:
        """One more run at the end: its value of each metric, NaN where it has none."""
        held = ~np.isnan(values)
        self._first = np.where(np.isnan(self._first), values, self._first)
        apart = np.where(held, values - self._first, 0.0)
        self._sum, self._squares = self._sum + apart, self._squares + apart * apart
        self._count = self._count + held
        self.n += 1
        every = max(1, base_size(self.n) // _CHECKS)
        if every > self._every:
            half = (self.n - 1) // every
            self._sums[:half], self._counts[:half] = (
                self._sums[1 : 2 * half : 2].copy(),
                self._counts[1 : 2 * half : 2].copy(),
            )
            self._every = every
        if self.n % every == 0:
            self._sums[self.n // every - 1], self._counts[self.n // every - 1] = self._sum, self._count

    def reach(self) -> Floats:
        """The drift of each series; 0 where it does not vary."""
        checks = self.n // self._every
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            cumulated = self._sums[:checks] - self._counts[:checks] / self._count * self._sum
            found = np.abs(cumulated).max(axis=0, initial=0.0) / np.sqrt(self._squares - self._sum**2 / self._count)
        return np.asarray(np.nan_to_num(found, nan=0.0, posinf=0.0))


class Trail:
    """What is known of all series, kept from one look to the next: runs at the end of the time axis are added."""

    def __init__(self) -> None:
        """Nothing known yet."""
        self._samples: Samples | None = None
        self._axis: Axis | None = None
        self._wish: tuple[int, float] | None = None
        self._drift = Drift(np.zeros((0, 0)))
        self._searches: dict[int, Search] = {}

    def follow(self, samples: Samples, axis: Axis, window: int, max_p_value: float) -> Drift:
        """The drift of all series as they are now; searches of series that only grew at their end are kept."""
        known, self._samples = self._samples, None  # nothing is known if this is broken off
        fresh = None if known is None else self._fresh(known, samples, axis)
        if fresh is None:
            self._drift = Drift(all_series(samples, axis))
        else:
            for values in fresh:
                self._drift.add(values)
        if fresh is None or self._wish != (window, max_p_value):
            self._searches = {}
        self._samples, self._axis, self._wish = samples, axis, (window, max_p_value)
        return self._drift

    def searches(self, metrics: NDArray[np.int64]) -> list[Search]:
        """The searches of some metrics."""
        return [self._searches.setdefault(metric, Search()) for metric in metrics.tolist()]

    def _fresh(self, known: Samples, samples: Samples, axis: Axis) -> list[Floats] | None:
        """Values of each run that came at the end of the axis; None if that is not all that happened."""
        before = self._axis
        left, right = samples.left.since(known.left), samples.right.since(known.right)
        if before is None or left is None or right is None or known.count != samples.count:
            return None
        added = left, right
        n = len(before.runs)
        kept = all(run is old for run, old in zip(axis.runs, before.runs, strict=False))
        if not kept or len(axis.runs) != n + len(added[0]) + len(added[1]):
            return None
        sides, places = axis.sides[n:], axis.places[n:]
        for side, runs in enumerate(added):
            if places[sides == side].tolist() != list(range(len(runs) - 1, -1, -1)):
                return None  # by time they come in another order than by number
        waiting = [iter(runs) for runs in added]
        found = []
        for side in sides.tolist():
            run = next(waiting[side])
            sums = np.bincount(run.metrics, weights=run.values, minlength=samples.count)
            counts = np.bincount(run.metrics, minlength=samples.count)
            with np.errstate(divide="ignore", invalid="ignore"):
                found.append(np.asarray(np.where(counts > 0, sums / counts, np.nan)))
        return found


def _series(samples: Samples, axis: Axis, metrics: NDArray[np.int64]) -> Floats:
    """As ``all_series``, of some metrics."""
    both = np.full((metrics.size, samples.left.n_runs + samples.right.n_runs), np.nan)
    first = 0
    for side in (samples.left, samples.right):
        n = side.n_runs
        if side.single:
            both[:, first : first + n] = side.rows(np.arange(side.count), n)[metrics]
        else:
            for row, metric in enumerate(metrics.tolist()):
                runs = side.runs_of(metric)
                sums = np.bincount(runs, weights=side.of(metric), minlength=n)
                counts = np.bincount(runs, minlength=n)
                with np.errstate(divide="ignore", invalid="ignore"):
                    both[row, first : first + n] = np.where(counts > 0, sums / counts, np.nan)
        first += n
    return np.take(both, np.where(axis.sides == 0, 0, samples.left.n_runs) + axis.places, axis=1)


@dataclass(frozen=True, slots=True)
class Found:
    """Change points of one metric: ``positions`` on the axis of each point's first run of the new level."""

    metric: int
    points: tuple[ChangePoint, ...]
    positions: tuple[int, ...]


def find(
    samples: Samples,
    axis: Axis,
    eligible: NDArray[np.bool_],
    *,
    limit: int,
    window: int,
    max_p_value: float,
    min_magnitude: float,
    check: Callable[[], None] = lambda: None,
    trail: Trail | None = None,
) -> tuple[list[Found], int]:
    """Change points of the ``limit`` metrics that drift most, and how many metrics were searched. ``trail``: what earlier
    calls found out; runs at the end of the time axis then cost their own values."""
    trail = Trail() if trail is None else trail
    reach = trail.follow(samples, axis, window, max_p_value).reach()
    reach[~eligible] = -1.0
    order = np.argsort(-reach, kind="stable")[:limit]
    chosen = np.sort(order[reach[order] > 0])
    series = _series(samples, axis, chosen)
    held = np.isfinite(series)
    sizes = held.sum(axis=1)
    points: dict[int, tuple[ChangePoint, ...]] = {}
    for size in np.unique(sizes).tolist():
        alike = sizes == size
        parts = change_points_of(
            series[alike][held[alike]].reshape(-1, size),
            window=window,
            max_p_value=max_p_value,
            min_magnitude=min_magnitude,
            searches=trail.searches(chosen[alike]),
            check=check,
        )
        points.update(zip(chosen[alike].tolist(), parts, strict=True))
    found = []
    for metric, mask in zip(chosen.tolist(), held, strict=True):
        if points[metric]:
            at = np.flatnonzero(mask)
            found.append(Found(metric, points[metric], tuple(int(at[p.index]) for p in points[metric])))
    return found, chosen.size
