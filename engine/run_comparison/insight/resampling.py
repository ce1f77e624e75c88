"""Whole runs drawn with replacement: means of all metrics in many draws, kept so that one more run is an addition.

Values are transformed and averaged per run; each is told as a whole number of small steps from the median of its side,
so that sums are exact and the same whatever order runs arrived in. Medians and deviations are those of the side's
oldest runs, as many as the largest power of two: they, and with them all sums, are made anew when a side has doubled.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from engine.run_comparison.insight.evidence import Evidence, limits, transform
from engine.run_comparison.runs.measurements import Floats
from engine.run_comparison.runs.samples import Added, Samples, Side
from engine.stats.balls import SMALL, Balls, Step, base_size
from engine.stats.bootstrap import percentile_interval

CLIP = 4.0
"""Winsorising limit of run means, in robust standard deviations: one wild value must not decide a resample."""

OUTLIER = 3.5
"""Robust deviations beyond which a value is an outlier (Iglewicz and Hoaglin)."""

Numbers = NDArray[np.int64]


class Scale(NamedTuple):
    """Per metric: the middle of a side, its robust standard deviation (0: nothing deviates) and the size of a step."""

    centre: Floats
    spread: Floats
    step: Floats


def _steps(n: int) -> float:
    """Steps from the middle to the winsorising limit: sums over twice as many runs as the scale was made for stay below
    2^24, where single precision counts exactly."""
    return float(2.0 ** (23 - max(base_size(n), SMALL).bit_length()))


def _scale(runs: Floats) -> Scale:
    """From run means [runs, metrics], NaN where a run has none, the oldest first."""
    n = base_size(len(runs))
    rows = np.ascontiguousarray(runs[:n].T)
    whole = not np.isnan(rows).any()
    middle = np.median if whole else np.nanmedian
    centre = np.nan_to_num(np.asarray(middle(rows, axis=1))) if n else np.zeros(runs.shape[1])
    rows -= centre[:, None]
    np.abs(rows, out=rows)
    spread = np.nan_to_num(1.4826 * np.asarray(middle(rows, axis=1))) if n else np.zeros(runs.shape[1])
    reach = CLIP * spread
    still = np.flatnonzero(spread == 0)
    if still.size:
        # Where most values are equal nothing is drawn in: the steps reach to the farthest value.
        far = np.nan_to_num(np.abs(runs[:, still] - centre[still]), posinf=1e300).max(axis=0, initial=0.0)
        reach[still] = _reach(far)
    return Scale(centre, spread, reach / _steps(len(runs)))


def _reach(far: Floats) -> Floats:
    """The power of two above, so that it seldom changes."""
    return np.where(far > 0, np.ldexp(1.0, np.frexp(far)[1]), 1.0)


def _in_steps(values: Floats, scale: Scale, most: float) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Values of runs as whole steps, 0 where there is none, and whether there is one (1 or 0)."""
    held = ~np.isnan(values)
    with np.errstate(over="ignore", invalid="ignore"):
        steps = np.clip(np.rint((values - scale.centre) / scale.step), -most, most)
    return np.where(held, np.nan_to_num(steps), 0.0).astype(np.float32), held.astype(np.float32)


def run_values(side: Side, metrics: Numbers, logarithmic: NDArray[np.bool_]) -> Floats:
    """Mean per run, the oldest first, and metric of transformed values: [runs, metrics]; NaN where a run has none."""
    n = side.n_runs
    if side.single:
        return np.ascontiguousarray(transform(side.rows(metrics, n), logarithmic[metrics])[:, ::-1].T)
    cells = n * metrics.size
    flats: list[Numbers] = [np.zeros(0, dtype=np.int64)]
    weights: list[Floats] = [np.zeros(0)]
    sizes = side.sizes[metrics]
    for size in np.unique(sizes[sizes > 0]).tolist():
        columns = np.flatnonzero(sizes == size)
        rows = transform(side.rows(metrics[columns], size), logarithmic[metrics[columns]])
        ages = side.ages_of(metrics[columns], size)
        # Within a run in the order of the file: a sum must not depend on how many runs there are.
        flats.append((ages.astype(np.int64) * metrics.size + columns[:, None]).ravel())
        weights.append(rows.ravel())
    flat = np.concatenate(flats)
    sums = np.bincount(flat, weights=np.concatenate(weights), minlength=cells).astype(np.float64)
    counts = np.bincount(flat, minlength=cells)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.where(counts > 0, sums / counts, np.nan).reshape(n, metrics.size))


class Draws:
    """One side's runs and their resamples. ``number``: 0 left, 1 right; each side has random numbers of its own, so that
    a run on one leaves the other's draws as they are."""

    def __init__(
        self, side: Side, metrics: Numbers, logarithmic: NDArray[np.bool_], draws: int, seed: int, number: int
    ) -> None:
        """Draw ``draws`` times as many runs as ``side`` has, with replacement."""
        self._wish = (draws, seed, metrics.tobytes(), logarithmic[metrics].tobytes())
        self._metrics, self._logarithmic = metrics, logarithmic[metrics]
        self._side = side
        self._column = np.full(side.count, -1, dtype=np.int64)
        self._column[metrics] = np.arange(metrics.size)
        values = run_values(side, metrics, logarithmic)
        n = len(values)
        self._scale = _scale(values)
        self._most = _steps(n)
        self._balls = Balls(n, draws, (seed, number))
        room = n + max(n // 4, 16)
        self._steps = np.zeros((room, metrics.size), dtype=np.float32)
        self._held: NDArray[np.float32] | None = None
        self._steps[:n], held = _in_steps(values, self._scale, self._most)
        counts = self._balls.counts()
        self._sums = counts @ self._steps[:n]
        self._drawn: NDArray[np.float32] | None = None
        if not held.all():
            self._held = np.zeros(self._steps.shape, dtype=np.float32)
            self._held[:n] = held
            self._drawn = counts @ held
        self._badness, self._outliers = np.full(room, np.nan), np.full(room, np.nan)
        self._badness[:n], self._outliers[:n] = _apart(values, self._scale)
        self.n = n
        steps = self._steps[:n]
        self.total = steps.sum(axis=0, dtype=np.float64)
        self.count = held.sum(axis=0, dtype=np.float64)
        self.lowest = steps.min(axis=0, initial=np.float32(np.inf)).astype(np.float64)
        self.highest = steps.max(axis=0, initial=np.float32(-np.inf)).astype(np.float64)
        self._sweep(None)

    @property
    def whole(self) -> bool:
        """Whether every run has every metric."""
        return self._held is None

    def _sweep(self, step: Step | None) -> None:
        """Put the newest run into the sums, block by block so that each stays in the cache, and find the least and
        greatest mean of each metric over the draws; NaN where a draw holds no run with the metric."""
        columns = self._metrics.size
        self.least, self.greatest = np.full(columns, np.inf), np.full(columns, -np.inf)
        pairs = [(self._sums, self._steps)]
        if self._drawn is not None and self._held is not None:
            pairs.append((self._drawn, self._held))
        for start in range(0, len(self._sums), _BLOCK):
            stop = start + _BLOCK
            if step is not None:
                fresh = step.fresh[start:stop, None].astype(np.float32)
                for matrix, runs in pairs:
                    matrix[start:stop] += fresh * runs[self.n - 1]
                for rows, units, sign in step.swaps:
                    some = slice(*np.searchsorted(rows, (start, stop)))
                    if rows[some].size:
                        for matrix, runs in pairs:
                            matrix[rows[some]] += np.float32(sign) * runs[units[some]]
            means = self.block(slice(start, stop))
            np.minimum(self.least, means.min(axis=0), out=self.least)
            np.maximum(self.greatest, means.max(axis=0), out=self.greatest)

    def block(self, rows: slice, columns: Numbers | None = None) -> NDArray[np.float32]:
        """Means of metrics (all, or those at ``columns``) in some of the draws, in steps: [draws, metrics]; NaN where a
        draw holds no run with the metric."""
        sums = self._sums[rows] if columns is None else self._sums[rows][:, columns]
        if self._drawn is None:
            return np.asarray(sums / np.float32(max(self.n, 1)))
        drawn = self._drawn[rows] if columns is None else self._drawn[rows][:, columns]
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(sums / drawn)

    def value(self, steps: NDArray[np.floating[Any]], columns: Numbers | slice = slice(None)) -> Floats:
        """Steps as values on the metrics' own scale."""
        return np.asarray(self._scale.centre[columns] + steps * self._scale.step[columns])

    def scores(self) -> tuple[Floats, Floats]:
        """Of each run, newest first: median robust deviation of its metrics from the side's middle, and the share of
        metrics beyond ``OUTLIER``; NaN with fewer than three runs."""
        if self.n < 3:
            return np.full(self.n, np.nan), np.full(self.n, np.nan)
        return self._badness[: self.n][::-1].copy(), self._outliers[: self.n][::-1].copy()

    def runs(self, columns: Numbers) -> tuple[Floats, NDArray[np.bool_]]:
        """Steps of each run, newest first, in the metrics at ``columns``, and whether it has one: [runs, columns]."""
        steps = self._steps[: self.n, columns][::-1].astype(np.float64)
        if self._held is None:
            return steps, np.ones(steps.shape, dtype=bool)
        return steps, self._held[: self.n, columns][::-1] > 0

    def holds(self, side: Side, metrics: Numbers, logarithmic: NDArray[np.bool_], draws: int, seed: int) -> bool:
        """Whether these are the draws of ``side`` as it is now, after runs newer than all others were put in if need be:
        then ``side`` costs these runs. Of no use any more if not."""
        if self._wish != (draws, seed, metrics.tobytes(), logarithmic[metrics].tobytes()):
            return False
        added = side.since(self._side)
        if added is None or not all(self._put(run) for run in added):
            return False
        self._side = side
        return True

    def _put(self, added: Added) -> bool:
        """One run more; False where all must be made anew."""
        values = self._values(added)
        with np.errstate(invalid="ignore", over="ignore"):
            far = np.abs(values - self._scale.centre) > self._scale.step * self._most
        steps, held = _in_steps(values[None, :], self._scale, self._most)
        if (far & (self._scale.spread == 0)).any() or (self._held is None and not held.all()):
            return False
        step = self._balls.grow()
        if step is None:
            return False
        n = self.n
        if n == len(self._steps):
            self._widen()
        self._steps[n] = steps[0]
        if self._held is not None:
            self._held[n] = held[0]
        self._badness[n : n + 1], self._outliers[n : n + 1] = _apart(values[None, :], self._scale)
        self.n = n + 1
        self.total, self.count = self.total + steps[0], self.count + held[0]
        self.lowest, self.highest = np.minimum(self.lowest, steps[0]), np.maximum(self.highest, steps[0])
        self._sweep(step)
        return True

    def _values(self, added: Added) -> Floats:
        """The transformed mean of each metric of a run; NaN where it has none."""
        columns = self._column[added.metrics]
        some = columns >= 0
        columns, values = columns[some], added.values[some]
        logarithmic = self._logarithmic[columns]
        values = np.where(logarithmic, np.log(np.where(logarithmic, values, 1.0)), values)
        sums = np.bincount(columns, weights=values, minlength=self._metrics.size)
        counts = np.bincount(columns, minlength=self._metrics.size)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(np.where(counts > 0, sums / counts, np.nan))

    def _widen(self) -> None:
        more = max(self.n // 4, 16)
        self._steps = np.concatenate([self._steps, np.zeros((more, self._metrics.size), dtype=np.float32)])
        if self._held is not None:
            self._held = np.concatenate([self._held, np.zeros((more, self._metrics.size), dtype=np.float32)])
        self._badness = np.concatenate([self._badness, np.full(more, np.nan)])
        self._outliers = np.concatenate([self._outliers, np.full(more, np.nan)])


_BLOCK = 128
"""Draws handled at a time."""


def _apart(values: Floats, scale: Scale) -> tuple[Floats, Floats]:
    """Of each run: the median robust deviation of its metrics from the side's middle, and the share of outliers."""
    deviating = scale.spread > 0
    runs = len(values)
    badness, outliers = np.full(runs, np.nan), np.full(runs, np.nan)
    if not deviating.any():
        return badness, outliers
    with np.errstate(over="ignore", invalid="ignore"):
        scores = np.abs(values[:, deviating] - scale.centre[deviating]) / scale.spread[deviating]
        held = ~np.isnan(scores)
        known = held.any(axis=1)
        badness[known] = (np.median if held.all() else np.nanmedian)(scores[known], axis=1)
        outliers[known] = (scores[known] > OUTLIER).sum(axis=1) / held[known].sum(axis=1)
    return badness, outliers


@dataclass(frozen=True, slots=True)
class Overall:
    """Both sides' draws over ``metrics``, the ones that count."""

    metrics: Numbers
    draws: int
    left: Draws
    right: Draws


def resample(
    samples: Samples,
    evidence: Evidence,
    counted: NDArray[np.bool_],
    draws: int,
    seed: int,
    check: Callable[[], None] = lambda: None,
    kept: dict[int, Draws] | None = None,
) -> Overall:
    """Draw whole runs with replacement on each side, since the metrics of a run move together. ``kept``: draws of
    earlier calls by side; a side that did not change since is not drawn again, one that grew is added to."""
    metrics = np.flatnonzero(counted & evidence.compared)
    kept = {} if kept is None else kept
    for number, side in enumerate((samples.left, samples.right)):
        check()
        before = kept.pop(number, None)
        if before is None or not before.holds(side, metrics, evidence.logarithmic, draws, seed):
            before = None  # its memory is free before the new ones are drawn
            before = Draws(side, metrics, evidence.logarithmic, draws, seed, number)
        kept[number] = before
    return Overall(metrics, draws, kept[0], kept[1])


def _bounds(overall: Overall, evidence: Evidence, margin: float) -> tuple[Floats, Floats]:
    lower, upper = limits(evidence, margin)
    return lower[overall.metrics], upper[overall.metrics]


def shares(overall: Overall, evidence: Evidence, margin: float) -> Floats:
    """The share of metrics whose shift lies inside the margin, in each draw. Metrics that a draw does not hold are left
    out of its share; only those are looked at draw by draw whose shift lies inside in some draws and not in others."""
    low, high = _bounds(overall, evidence, margin)
    left, right = overall.left, overall.right
    with np.errstate(invalid="ignore", over="ignore"):
        least = right.value(right.least) - left.value(left.greatest)
        greatest = right.value(right.greatest) - left.value(left.least)
        within = (least >= low) & (greatest <= high)
        outside = (greatest < low) | (least > high)
    inside = np.full(overall.draws, np.count_nonzero(within), dtype=np.int64)
    held = np.full(overall.draws, np.count_nonzero(within | outside), dtype=np.int64)
    columns = np.flatnonzero(~(within | outside))
    whole = 4 * columns.size > low.size  # gathering so many columns costs more than comparing all
    if whole:
        inside[:], held[:] = 0, 0
        columns = np.arange(low.size)
    some = None if whole else columns
    for start in range(0, overall.draws if columns.size else 0, _BLOCK):
        rows = slice(start, start + _BLOCK)
        with np.errstate(invalid="ignore", over="ignore"):
            shift = right.value(right.block(rows, some), columns) - left.value(left.block(rows, some), columns)
            inside[rows] += np.count_nonzero((shift >= low[columns]) & (shift <= high[columns]), axis=1)
        if left.whole and right.whole:
            held[rows] += columns.size
        else:
            held[rows] += np.count_nonzero(~np.isnan(shift), axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(inside / np.where(held > 0, held, np.nan))


def share_interval(
    overall: Overall, evidence: Evidence, margin: float, confidence: float, share: float
) -> tuple[float, float]:
    """Interval of the ``share`` of metrics whose shift lies inside the margin, over the resamples.

    A resample is noisier than the sample, so fewer of its shifts lie inside: the draws are moved by that bias, their
    mean onto ``share``.
    """
    found = shares(overall, evidence, margin) if overall.draws and overall.metrics.size else np.zeros(0)
    if np.isnan(found).all():
        return float("nan"), float("nan")
    low, high = percentile_interval(found + (share - float(np.nanmean(found))), confidence)
    return max(0.0, low), min(1.0, high)
