"""What is seen along the runs: resample whole ones with replacement, since the metrics of a run move together, score each, and
find change points along the common time axis of both sides and along the runs of each job.

See docs/models/run-comparison.md, Resampling of whole runs, Influence of single runs and Change points. Run means are whole
numbers of small steps from the median of their side: sums of a draw are then exact in single precision, and the same on every
machine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from engine.core.incremental import Memo
from engine.run_comparison.insight.statistical import Evidence, limits, transform
from engine.run_comparison.parameters import ComparisonParameters
from engine.run_comparison.runs.measurements import Floats, Ints
from engine.run_comparison.runs.runs import Run
from engine.run_comparison.runs.samples import Samples, Side, cell_means
from engine.stats.edivisive import ChangePoint, change_points_of
from engine.stats.significance import draw_counts, percentile_interval

CLIP = 4.0
"""Limit of run means in robust standard deviations (winsorising), so that one wild value cannot decide a resample."""

OUTLIER = 3.5  # robust deviations beyond which a value is an outlier (Iglewicz and Hoaglin)

_EXACT_BITS = 23  # bits of a sum of steps: single precision counts exactly up to 2^24

_BLOCK = 128  # draws compared at a time, so that they stay in the cache

Singles = NDArray[np.float32]


class Scale(msgspec.Struct, frozen=True, eq=False):
    """Per metric of a side: the median over runs, its robust standard deviation (0: nothing deviates), size of a step."""

    centre: Floats
    spread: Floats
    step: Floats

    def value(self, steps: NDArray[np.floating], columns: Ints | slice = slice(None)) -> Floats:
        """Convert steps to values on the metrics' own scale."""
        return np.asarray(self.centre[columns] + steps * self.step[columns])


class SideResamples(msgspec.Struct, frozen=True, eq=False):
    """One side's runs, the oldest first, and their resamples; all in steps of ``scale``.

    ``steps`` [runs, metrics]: 0 if a run lacks the metric; ``present``: whether it has it. ``counts`` [draws, runs]: how often
    a draw has a run. ``least``, ``greatest``: the smallest and largest mean of each metric over the draws; NaN if no run of a
    draw has the metric. ``badness``, ``outliers``: scores of each run, the newest first.
    """

    scale: Scale
    steps: Singles
    present: NDArray[np.bool_]
    counts: Singles
    least: Floats
    greatest: Floats
    badness: Floats
    outliers: Floats


class Resamples(msgspec.Struct, frozen=True, eq=False):
    """Resamples of both sides over ``metrics``, the ones that count."""

    metrics: Ints
    draws: int
    left: SideResamples
    right: SideResamples


def resample(
    samples: Samples,
    evidence: Evidence,
    counted: NDArray[np.bool_],
    draws: int,
    seed: int,
    memo: Memo,
    check: Callable[[], None] = lambda: None,
) -> Resamples:
    """Draw whole runs of each side ``draws`` times with replacement, over the metrics that are ``counted`` and compared.

    Each side has its own random numbers, so a new run on one side does not change the draws of the other.
    """
    metrics = np.flatnonzero(counted & evidence.compared)
    sides = []
    for number, side in enumerate((samples.left, samples.right)):
        check()
        sides.append(
            memo.value(
                f"resamples of side {number}",
                (side, metrics.tobytes(), evidence.logarithmic[metrics].tobytes(), draws, seed),
                lambda side=side, number=number: _resample_side(  # type: ignore[misc]
                    run_values(side, metrics, evidence.logarithmic), draws, (seed, number)
                ),
            )
        )
    return Resamples(metrics, draws, *sides)


def run_values(side: Side, metrics: Ints, logarithmic: NDArray[np.bool_]) -> Floats:
    """Return the mean of transformed values of each run, oldest first: [runs, metrics]; NaN if a run has no value."""
    n = side.n_runs
    if side.single:
        return np.ascontiguousarray(transform(side.rows(metrics, n), logarithmic[metrics])[:, ::-1].T)
    taken = side.take(metrics)
    column = np.repeat(np.arange(metrics.size), taken.sizes)
    logs = logarithmic[metrics][column]
    values = np.where(logs, np.log(np.where(logs, taken.values, 1.0)), taken.values)
    return cell_means((n - 1 - taken.runs.astype(np.int64)) * metrics.size + column, values, (n, metrics.size))


def _resample_side(values: Floats, draws: int, seed: tuple[int, int]) -> SideResamples:
    n = len(values)
    most = float(2.0 ** (_EXACT_BITS - max(n.bit_length(), 7)))
    scale = _scale(values, most)
    present = ~np.isnan(values)
    steps = np.clip(np.rint((values - scale.centre) / scale.step), -most, most)
    steps = np.where(present, np.nan_to_num(steps), 0.0).astype(np.float32)
    counts = draw_counts(n, draws, seed)
    least = np.full(values.shape[1], np.inf, dtype=np.float32)
    greatest = -least
    for _, means in _means(counts, steps, present):
        np.minimum(least, means.min(axis=0), out=least)
        np.maximum(greatest, means.max(axis=0), out=greatest)
    badness, outliers = _run_scores(values, scale)
    return SideResamples(
        scale, steps, present, counts, scale.value(least), scale.value(greatest), badness[::-1], outliers[::-1]
    )


def _means(counts: Singles, steps: Singles, present: NDArray[np.bool_]) -> Iterator[tuple[slice, Singles]]:
    """Yield the means of some draws at a time, [draws, metrics] in steps: all of them may take hundreds of megabytes."""
    each = present.astype(np.float32)
    for start in range(0, len(counts), _BLOCK):
        block = counts[start : start + _BLOCK]
        yield slice(start, start + _BLOCK), block @ steps / (block @ each)


def _scale(values: Floats, most: float) -> Scale:
    """Return the scale of run means [runs, metrics], with ``most`` steps from the centre to the winsorising limit."""
    if not len(values):
        nothing = np.zeros(values.shape[1])
        return Scale(nothing, nothing, np.ones(values.shape[1]))
    rows = np.ascontiguousarray(values.T)
    centre = np.nan_to_num(_medians(rows))
    spread = np.nan_to_num(1.4826 * _medians(np.abs(rows - centre[:, None])))
    reach = CLIP * spread
    still = np.flatnonzero(spread == 0)
    if still.size:
        # If most values are equal nothing is winsorised: steps reach the farthest value. A power of two keeps steps of
        # round values round.
        far = np.nan_to_num(np.abs(values[:, still] - centre[still]), posinf=1e300).max(axis=0, initial=0.0)
        reach[still] = np.where(far > 0, np.ldexp(1.0, np.frexp(far)[1]), 1.0)
    return Scale(centre, spread, reach / most)


def _medians(rows: Floats) -> Floats:
    """Return the median of each row without its NaN; sorting whole rows is faster than ``np.median``'s partition."""
    ordered = np.sort(rows, axis=1)
    present = rows.shape[1] - np.isnan(ordered).sum(axis=1)
    row = np.arange(len(rows))
    return np.asarray((ordered[row, np.maximum(present - 1, 0) // 2] + ordered[row, present // 2]) / 2)


def _run_scores(values: Floats, scale: Scale) -> tuple[Floats, Floats]:
    """Return the median robust deviation of each run's metrics from the side's centre, and their share of outliers.

    NaN with fewer than three runs or without any deviation.
    """
    deviating = np.flatnonzero(scale.spread > 0)
    if not deviating.size or len(values) < 3:
        nothing = np.full(len(values), np.nan)
        return nothing, nothing
    if deviating.size < values.shape[1]:
        values = np.take(values, deviating, axis=1)
    deviations = np.abs(values - scale.centre[deviating]) / scale.spread[deviating]
    return _medians(deviations), (deviations > OUTLIER).sum(axis=1) / (~np.isnan(deviations)).sum(axis=1)


def shares(resamples: Resamples, evidence: Evidence, margin: float) -> Floats:
    """Return the share of metrics whose shift lies inside the margin, in each draw.

    Metrics missing from a draw are left out of its share. Only metrics whose shift is inside in some draws and outside in
    others are compared draw by draw.
    """
    lower, upper = limits(evidence, margin)
    low, high = lower[resamples.metrics], upper[resamples.metrics]
    left, right = resamples.left, resamples.right
    least, greatest = right.least - left.greatest, right.greatest - left.least
    within = (least >= low) & (greatest <= high)
    outside = (greatest < low) | (least > high)
    inside = np.full(resamples.draws, np.count_nonzero(within), dtype=np.int64)
    compared = np.full(resamples.draws, np.count_nonzero(within | outside), dtype=np.int64)
    columns = np.flatnonzero(~(within | outside))
    blocks = [_means(side.counts, side.steps[:, columns], side.present[:, columns]) for side in (left, right)]
    for (draws, of_left), (_, of_right) in zip(*blocks, strict=True) if columns.size else ():
        shift = right.scale.value(of_right, columns) - left.scale.value(of_left, columns)
        inside[draws] += np.count_nonzero((shift >= low[columns]) & (shift <= high[columns]), axis=1)
        compared[draws] += np.count_nonzero(~np.isnan(shift), axis=1)
    return np.asarray(inside / np.where(compared > 0, compared, np.nan))


def share_interval(
    resamples: Resamples, evidence: Evidence, margin: float, confidence: float, share: float
) -> tuple[float, float]:
    """Return the interval of the ``share`` of metrics whose shift lies inside the margin, over the resamples.

    A resample is noisier than the sample, so fewer of its shifts lie inside. The draws are shifted by that bias, so that
    their mean equals ``share``. (nan, nan) without draws or metrics.
    """
    drawn = shares(resamples, evidence, margin) if resamples.draws and resamples.metrics.size else np.zeros(0)
    if np.isnan(drawn).all():
        return float("nan"), float("nan")
    low, high = percentile_interval(drawn + (share - float(np.nanmean(drawn))), confidence)
    return min(max(low, 0.0), 1.0), min(max(high, 0.0), 1.0)


class RunScores(msgspec.Struct, frozen=True):
    """Scores per run of one side, the newest first.

    ``influence``: change of the matched share without the run. ``badness``: median robust deviation of its metrics from
    the side's centre. ``outliers``: share of its metrics beyond ``OUTLIER``.
    """

    influence: Floats
    badness: Floats
    outliers: Floats

    @property
    def bad(self) -> NDArray[np.bool_]:
        """Runs that stand out in at least half of their metrics."""
        return np.asarray((self.outliers >= 0.5) | (self.badness > OUTLIER))


def score_runs(resamples: Resamples, evidence: Evidence, margin: float) -> tuple[RunScores, RunScores]:
    """Score the left and the right runs from their means per metric."""
    lower, upper = limits(evidence, margin)
    low, high = lower[resamples.metrics], upper[resamples.metrics]
    left, right = resamples.left, resamples.right
    mean_left, mean_right = (
        side.scale.value(side.steps.sum(axis=0, dtype=np.float64) / side.present.sum(axis=0)) for side in (left, right)
    )
    shift = mean_right - mean_left
    inside = (shift >= low) & (shift <= high)
    # Without a left run: low <= right - left' <= high, that is right - high <= left' <= right - low.
    of_left = _influence(left, mean_right - high, mean_right - low, inside, ~np.isnan(shift))
    of_right = _influence(right, mean_left + low, mean_left + high, inside, ~np.isnan(shift))
    return RunScores(of_left, left.badness, left.outliers), RunScores(of_right, right.badness, right.outliers)


def _influence(
    side: SideResamples, low: Floats, high: Floats, inside: NDArray[np.bool_], compared: NDArray[np.bool_]
) -> Floats:
    """Return the change of the share of metrics whose side mean lies in ``low`` to ``high`` when each run is left out."""
    total, count = side.steps.sum(axis=0, dtype=np.float64), side.present.sum(axis=0)

    def without(steps: Floats, columns: Ints | slice) -> Floats:
        return side.scale.value((total[columns] - steps) / (count[columns] - 1), columns)

    # Check run by run only the metrics that a single run could move into or out of the range.
    lowest = without(side.steps.min(axis=0, initial=np.inf), slice(None))
    highest = without(side.steps.max(axis=0, initial=-np.inf), slice(None))
    alike = np.logical_and.reduce([((end >= low) & (end <= high)) == inside for end in (lowest, highest)]) & (count > 1)
    sure = alike & (inside | ((np.minimum(lowest, highest) > high) | (np.maximum(lowest, highest) < low))) & compared
    columns = np.flatnonzero(~sure)
    steps, present = side.steps[::-1, columns].astype(np.float64), side.present[::-1, columns]
    without_run = without(steps, columns)
    now_inside = np.where(present, (without_run >= low[columns]) & (without_run <= high[columns]), inside[columns])
    now_compared = np.where(present, ~np.isnan(without_run), compared[columns])
    inside_counts = np.count_nonzero(sure & inside) + np.count_nonzero(now_inside, axis=1)
    counts = np.count_nonzero(sure) + np.count_nonzero(now_compared, axis=1)
    whole = np.count_nonzero(inside) / np.count_nonzero(compared) if compared.any() else np.nan
    return np.asarray(np.where(counts > 0, inside_counts / np.maximum(counts, 1), np.nan) - whole)


class Axis(msgspec.Struct, frozen=True):
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
    order = np.argsort(np.array([run.time_ms or 0 for run in runs], dtype=np.int64), kind="stable")
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


_AXES_KEPT = 9  # axes whose change points are cached: both sides and up to eight jobs

_CHECKS = 32  # fewest positions along the axis at which a drift is measured; at most twice that

_CELLS = 100_000  # values of all series handled at a time, so that they stay in the cache


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
        # Distances from the first value keep the sums small.
        apart = np.where(present, rows - rows[np.arange(len(rows)), present.argmax(axis=1)][:, None], 0.0)
        total, count = apart.sum(axis=1), present.sum(axis=1)
        largest = np.abs(cumulated(apart) - cumulated(present) * (total / count)[:, None]).max(axis=1)
        drift[start : start + step] = largest / np.sqrt(np.vecdot(apart, apart) - total**2 / count)
    return np.nan_to_num(drift, nan=0.0, posinf=0.0)


class MetricChanges(msgspec.Struct, frozen=True):
    """Change points of one metric; ``positions``: where on the axis each new level begins."""

    metric: int
    points: tuple[ChangePoint, ...]
    positions: tuple[int, ...]


class Changes(msgspec.Struct, frozen=True, eq=False):
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
        changes = (
            MetricChanges(metric, points[metric], tuple(int(at[point.index]) for point in points[metric]))
            for metric, mask in zip(chosen.tolist(), present, strict=True)
            if points[metric]
            for at in (np.flatnonzero(mask),)
        )
        return Changes(tuple(changes), chosen.size)

    return memo.value("change points", (samples, choices, along), search, _AXES_KEPT)
