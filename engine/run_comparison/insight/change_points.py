"""Find change points of the metrics along the common time axis of both sides, and along the runs of each job.

See docs/models/run-comparison.md, Change points.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.core.incremental import Memo
from engine.run_comparison.parameters import ComparisonParameters
from engine.run_comparison.runs.measurements import Floats, Ints
from engine.run_comparison.runs.runs import Run
from engine.run_comparison.runs.samples import Samples
from engine.stats.edivisive import ChangePoint, change_points_of


@dataclass(frozen=True, slots=True)
class Axis:
    """All compared runs in time order: their side (0 left, 1 right) and their place on it."""

    runs: tuple[Run, ...]
    sides: Ints
    places: Ints

    def inside(self, position: int) -> str:
        """Return where the level that begins at ``position`` changes: within ``left`` or ``right``, or ``between`` them."""
        here, before = int(self.sides[position]), int(self.sides[max(position - 1, 0)])
        return ("left", "right")[here] if here == before else "between"


def time_axis(left: Sequence[Run], right: Sequence[Run]) -> Axis:
    """Order the runs by time; equal times by side, then oldest first."""
    runs = [*reversed(left), *reversed(right)]
    times = np.array([run.time_ms or 0 for run in runs], dtype=np.int64)
    order = np.argsort(times, kind="stable")
    sides = np.repeat(np.array([0, 1], dtype=np.int64), (len(left), len(right)))
    places = np.concatenate([np.arange(len(left) - 1, -1, -1), np.arange(len(right) - 1, -1, -1)]).astype(np.int64)
    return Axis(tuple(runs[i] for i in order.tolist()), sides[order], places[order])


def axes_by_job(axis: Axis) -> dict[str, Axis]:
    """Split an axis by job, in the order of the names; empty where all runs are of one job."""
    jobs = np.array([run.job for run in axis.runs], dtype=object)
    names = sorted(set(jobs.tolist()))
    parts = {name: np.flatnonzero(jobs == name) for name in names} if len(names) > 1 else {}
    return {
        name: Axis(tuple(axis.runs[i] for i in at.tolist()), axis.sides[at], axis.places[at])
        for name, at in parts.items()
    }


def all_series(samples: Samples, axis: Axis, metrics: Ints) -> Floats:
    """Return the mean of each of ``metrics`` per run along the axis, [metrics, runs]; NaN if a run has no value."""
    both = np.concatenate([side.run_means(metrics) for side in (samples.left, samples.right)], axis=1)
    return np.take(both, np.where(axis.sides == 0, 0, samples.left.n_runs) + axis.places, axis=1)


_AXES_KEPT = 9
"""Axes whose change points are cached: both sides and up to eight jobs."""

_CHECKS = 32
"""Fewest positions along the axis at which a drift is measured; at most twice that."""

_CELLS = 100_000
"""Values of all series handled at a time, so that they stay in the cache."""


def drifts(series: Floats) -> Floats:
    """Return the drift of each series [metrics, runs] (NaN if a run has no value); 0 for constant series.

    The drift is the largest cumulated deviation from the mean over sd * sqrt(n), a CUSUM. It is measured after every run up
    to 63 runs, after every second up to 127, and so on.
    """
    metrics, n = series.shape
    if not n:
        return np.zeros(metrics)
    every = 1 << max(n.bit_length() - _CHECKS.bit_length(), 0)
    blocks = n // every

    def cumulated(rows: NDArray[Any]) -> Floats:
        block_sums = rows[:, : blocks * every].reshape(len(rows), blocks, every).sum(axis=2, dtype=np.float64)
        return np.asarray(block_sums.cumsum(axis=1))

    drift = np.empty(metrics)
    step = max(1, _CELLS // n)
    for start in range(0, metrics, step):
        rows = series[start : start + step]
        present = ~np.isnan(rows)
        first = rows[np.arange(len(rows)), present.argmax(axis=1)]
        # Distances from the first value keep the sums small.
        apart = np.where(present, rows - first[:, None], 0.0)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            total, count = apart.sum(axis=1), present.sum(axis=1)
            largest = np.abs(cumulated(apart) - cumulated(present) * (total / count)[:, None]).max(axis=1)
            drift[start : start + step] = largest / np.sqrt(np.vecdot(apart, apart) - total**2 / count)
    return np.nan_to_num(drift, nan=0.0, posinf=0.0)


@dataclass(frozen=True, slots=True)
class MetricChanges:
    """Change points of one metric; ``positions``: where on the axis each new level begins."""

    metric: int
    points: tuple[ChangePoint, ...]
    positions: tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Changes:
    """Metrics with change points, and the number of metrics ``searched``."""

    metrics: tuple[MetricChanges, ...]
    searched: int


def find_changes(
    samples: Samples,
    axis: Axis,
    eligible: NDArray[np.bool_],
    parameters: ComparisonParameters,
    memo: Memo,
    check: Callable[[], None] = lambda: None,
    *,
    along: str = "",
) -> Changes:
    """Find the change points of the ``eligible`` metrics with the largest drift, at most ``change_limit``.

    ``along`` names the axis for the memo: empty for both sides, else a job.
    """
    choices = (
        parameters.change_limit, parameters.change_window, parameters.change_p, parameters.change_magnitude,
        eligible.tobytes(),
    )  # fmt: skip

    def search() -> Changes:
        drift = drifts(all_series(samples, axis, np.arange(samples.count)))
        drift[~eligible] = -1.0
        order = np.argsort(-drift, kind="stable")[: parameters.change_limit]
        chosen = np.sort(order[drift[order] > 0])
        series = all_series(samples, axis, chosen)
        present = np.isfinite(series)
        points: dict[int, tuple[ChangePoint, ...]] = {}
        for size in np.unique(present.sum(axis=1)).tolist():
            alike = present.sum(axis=1) == size
            rows = change_points_of(
                series[alike][present[alike]].reshape(-1, size),
                window=parameters.change_window,
                max_p_value=parameters.change_p,
                min_magnitude=parameters.change_magnitude,
                check=check,
            )
            points.update(zip(chosen[alike].tolist(), rows, strict=True))
        changes = []
        for metric, mask in zip(chosen.tolist(), present, strict=True):
            if points[metric]:
                at = np.flatnonzero(mask)
                positions = tuple(int(at[point.index]) for point in points[metric])
                changes.append(MetricChanges(metric, points[metric], positions))
        return Changes(tuple(changes), chosen.size)

    return memo.value("change points", (samples, choices, along), search, _AXES_KEPT)
