"""Change points of the metrics along the common time axis of both sides."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engine.run_comparison.chunks import Floats
from engine.run_comparison.runs import Run
from engine.run_comparison.samples import Samples, Side
from engine.stats.edivisive import ChangePoint, Windows, change_points_of


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
        return side.values.reshape(metrics, side.n_runs)
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


def drift(series: Floats) -> Floats:
    """How far a series wanders: largest cumulated deviation from its mean over sd * sqrt(n) (a CUSUM)."""
    held = np.isfinite(series)
    if held.all() and series.size:
        centred = series - series.mean(axis=1)[:, None]
        spread = np.sqrt(np.einsum("ij,ij->i", centred, centred))
        np.cumsum(centred, axis=1, out=centred)
        with np.errstate(divide="ignore", invalid="ignore"):
            reach = np.maximum(centred.max(axis=1), -centred.min(axis=1)) / spread
        return np.asarray(np.nan_to_num(reach, nan=0.0, posinf=0.0))
    n = held.sum(axis=1)
    filled = np.where(held, series, 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = filled.sum(axis=1) / n
        centred = np.where(held, series - mean[:, None], 0.0)
        spread = np.sqrt((centred**2).sum(axis=1) / n)
        reach = np.abs(np.cumsum(centred, axis=1)).max(axis=1, initial=0.0) / (spread * np.sqrt(n))
    return np.asarray(np.nan_to_num(reach, nan=0.0, posinf=0.0))


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
    windows: Windows | None = None,
) -> tuple[list[Found], int]:
    """Change points of the ``limit`` metrics that drift most, and how many metrics were searched. ``windows`` of an
    earlier call spare the work for all runs but the new ones."""
    windows = windows or Windows()
    windows.begin()
    series = all_series(samples, axis)
    reach = drift(series)
    reach[~eligible] = -1.0
    order = np.argsort(-reach, kind="stable")[:limit]
    chosen = np.sort(order[reach[order] > 0])
    held = np.isfinite(series[chosen])
    sizes = held.sum(axis=1)
    points: dict[int, tuple[ChangePoint, ...]] = {}
    for size in np.unique(sizes).tolist():
        alike = sizes == size
        rows = series[chosen[alike]][held[alike]].reshape(-1, size)
        parts = change_points_of(
            rows, window=window, max_p_value=max_p_value, min_magnitude=min_magnitude, windows=windows, check=check
        )
        points.update(zip(chosen[alike].tolist(), parts, strict=True))
    found = []
    for metric, mask in zip(chosen.tolist(), held, strict=True):
        if points[metric]:
            at = np.flatnonzero(mask)
            found.append(Found(metric, points[metric], tuple(int(at[p.index]) for p in points[metric])))
    return found, chosen.size
