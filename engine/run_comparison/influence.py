"""Is one run behind it all? Leave-one-run-out influence and a bad-run score."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engine.run_comparison.chunks import Floats
from engine.run_comparison.statistical import Columns, Evidence, Overall, RunMeans, count_inside, limits

OUTLIER = 3.5
"""Robust deviations beyond which a value is an outlier (Iglewicz and Hoaglin)."""


@dataclass(frozen=True, slots=True)
class RunScores:
    """Per run of one side, newest first. ``influence``: change of the matched share without the run; ``badness``:
    median robust deviation of its metrics from the side's median; ``outliers``: share of metrics beyond ``OUTLIER``."""

    influence: Floats
    badness: Floats
    outliers: Floats

    @property
    def bad(self) -> NDArray[np.bool_]:
        """Runs that stand out in at least half of their metrics."""
        with np.errstate(invalid="ignore"):
            return np.asarray((self.outliers >= 0.5) | (self.badness > OUTLIER))


@dataclass(frozen=True, slots=True)
class Deviations:
    """Badness and outliers of the runs of one side, the side's mean of each metric without each run ([runs, metrics],
    float32) and how many metrics that leaves; none depends on a margin."""

    badness: Floats
    outliers: Floats
    without: Columns
    held: NDArray[np.int64]


def deviations(means: RunMeans) -> Deviations:
    """How far each run lies from its side's median, over its metrics, and the side without it."""
    badness, outliers = _apart(means)
    runs, metrics = means.sums.shape
    if means.scores is not None and runs > 1:
        alone = ((means.sums.sum(axis=0) - means.sums) / (runs - 1)).astype(np.float32)
        return Deviations(badness, outliers, Columns.of(alone), np.full(runs, metrics, dtype=np.int64))
    with np.errstate(divide="ignore", invalid="ignore"):
        without = _without(means).astype(np.float32)
        return Deviations(badness, outliers, Columns.of(without), np.isfinite(without).sum(axis=1))


def _apart(means: RunMeans) -> tuple[Floats, Floats]:
    runs = means.counts.shape[0]
    badness, outliers = np.full(runs, np.nan), np.full(runs, np.nan)
    if runs < 3 or not means.counts.size:
        return badness, outliers
    if means.scores is not None:
        deviating = np.isfinite(means.scores[:, 0])
        if deviating.any():
            scores = np.ascontiguousarray(means.scores[deviating].T)
            badness[:] = np.median(scores, axis=1)
            outliers[:] = (scores > OUTLIER).mean(axis=1)
        return badness, outliers
    with np.errstate(divide="ignore", invalid="ignore"):
        # Metrics in rows: medians over contiguous memory, and without NaN no masked copy.
        values = np.ascontiguousarray((means.sums / means.counts).T)
        finite = np.isfinite(values)
        whole = bool(finite.all())
        if not whole:
            values = np.where(finite, values, np.nan)[finite.any(axis=1)]
        middle = np.median if whole else np.nanmedian
        values -= np.asarray(middle(values, axis=1))[:, None]
        np.abs(values, out=values)
        spread = 1.4826 * np.asarray(middle(values, axis=1))
        scores = np.ascontiguousarray((values[spread > 0] / spread[spread > 0][:, None]).T)
        if not scores.size:
            return badness, outliers
        held = np.isfinite(scores)
        known = held.any(axis=1)
        badness[known] = (np.median if held.all() else np.nanmedian)(scores[known], axis=1)
        outliers[known] = (scores[known] > OUTLIER).sum(axis=1) / held[known].sum(axis=1)
    return badness, outliers


def score_runs(
    overall: Overall, evidence: Evidence, margin: float, apart: tuple[Deviations, Deviations]
) -> tuple[RunScores, RunScores]:
    """Scores of the left and of the right runs from their means per metric; ``apart``: their ``deviations``."""
    lower, upper = limits(evidence, margin)
    low, high = lower[overall.metrics].astype(np.float32), upper[overall.metrics].astype(np.float32)
    with np.errstate(divide="ignore", invalid="ignore"):
        mean_left = (overall.left.sums.sum(axis=0) / overall.left.counts.sum(axis=0)).astype(np.float32)
        mean_right = (overall.right.sums.sum(axis=0) / overall.right.counts.sum(axis=0)).astype(np.float32)
        shift = mean_right - mean_left
        whole = _share(count_inside(Columns(shift[None, :], shift, shift), low, high), np.isfinite(shift).sum()[None])
        # Without a left run: low <= right - left' <= high, that is right - high <= left' <= right - low.
        inside = count_inside(apart[0].without, mean_right - high, mean_right - low)
        without_left = _share(inside, apart[0].held) - whole
        inside = count_inside(apart[1].without, mean_left + low, mean_left + high)
        without_right = _share(inside, apart[1].held) - whole
    return (
        RunScores(without_left, apart[0].badness, apart[0].outliers),
        RunScores(without_right, apart[1].badness, apart[1].outliers),
    )


def _without(means: RunMeans) -> Floats:
    counts = means.counts.sum(axis=0) - means.counts
    return np.where(counts > 0, (means.sums.sum(axis=0) - means.sums) / counts, np.nan)


def _share(inside: NDArray[np.int64], held: NDArray[np.int64]) -> Floats:
    """Share of metrics inside the margin; NaN where there are none."""
    return np.asarray(np.where(held > 0, inside / np.maximum(held, 1), np.nan))
