"""Is one run behind it all? Leave-one-run-out influence and a bad-run score."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engine.run_comparison.chunks import Floats
from engine.run_comparison.statistical import Evidence, Overall, RunMeans, limits

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


def score_runs(overall: Overall, evidence: Evidence, margin: float) -> tuple[RunScores, RunScores]:
    """Scores of the left and of the right runs from their means per metric."""
    lower, upper = limits(evidence, margin)
    low, high = lower[overall.metrics], upper[overall.metrics]
    with np.errstate(divide="ignore", invalid="ignore"):
        mean_left = overall.left.sums.sum(axis=0) / overall.left.counts.sum(axis=0)
        mean_right = overall.right.sums.sum(axis=0) / overall.right.counts.sum(axis=0)
        whole = _share(mean_right - mean_left, low, high)
        without_left = _without(overall.left)
        without_right = _without(overall.right)
        left = _share(mean_right - without_left, low, high) - whole
        right = _share(without_right - mean_left, low, high) - whole
    return _scores(overall.left, left), _scores(overall.right, right)


def _without(means: RunMeans) -> Floats:
    counts = means.counts.sum(axis=0) - means.counts
    return np.where(counts > 0, (means.sums.sum(axis=0) - means.sums) / counts, np.nan)


def _share(shift: Floats, low: Floats, high: Floats) -> Floats:
    """Share of metrics inside the margin along the last axis; metrics without a value do not count."""
    inside = ((shift >= low) & (shift <= high)).sum(axis=-1)
    held = np.isfinite(shift).sum(axis=-1)
    return np.asarray(np.where(held > 0, inside / np.maximum(held, 1), np.nan))


def _scores(means: RunMeans, influence: Floats) -> RunScores:
    runs = means.counts.shape[0]
    badness, outliers = np.full(runs, np.nan), np.full(runs, np.nan)
    if runs >= 3 and means.counts.size:
        with np.errstate(divide="ignore", invalid="ignore"):
            values = np.where(means.counts > 0, means.sums / means.counts, np.nan)
            deviation = np.abs(values - np.nanmedian(values, axis=0))
            spread = 1.4826 * np.nanmedian(deviation, axis=0)
            scores = np.where(spread > 0, deviation / spread, np.nan)
        for run in range(runs):
            held = scores[run][np.isfinite(scores[run])]
            if held.size:
                badness[run] = np.median(held)
                outliers[run] = np.mean(held > OUTLIER)
    return RunScores(influence, badness, outliers)
