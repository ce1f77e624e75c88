"""Tell whether one run is behind it all: leave-one-run-out influence and a bad-run score.

See docs/models/run-comparison.md, Influence of single runs.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engine.run_comparison.insight.evidence import Evidence, limits
from engine.run_comparison.insight.resampling import OUTLIER, Resamples, SideResamples
from engine.run_comparison.runs.measurements import Floats, Ints


@dataclass(frozen=True, slots=True)
class RunScores:
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
        with np.errstate(invalid="ignore"):
            return np.asarray((self.outliers >= 0.5) | (self.badness > OUTLIER))


def score_runs(resamples: Resamples, evidence: Evidence, margin: float) -> tuple[RunScores, RunScores]:
    """Score the left and the right runs from their means per metric."""
    lower, upper = limits(evidence, margin)
    low, high = lower[resamples.metrics], upper[resamples.metrics]
    left, right = resamples.left, resamples.right
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        mean_left, mean_right = (side.scale.value(_total(side) / _count(side)) for side in (left, right))
        shift = mean_right - mean_left
        inside = (shift >= low) & (shift <= high)
        # Without a left run: low <= right - left' <= high, that is right - high <= left' <= right - low.
        of_left = _influence(left, mean_right - high, mean_right - low, inside, ~np.isnan(shift))
        of_right = _influence(right, mean_left + low, mean_left + high, inside, ~np.isnan(shift))
    return RunScores(of_left, left.badness, left.outliers), RunScores(of_right, right.badness, right.outliers)


def _total(side: SideResamples) -> Floats:
    return np.asarray(side.steps.sum(axis=0, dtype=np.float64))


def _count(side: SideResamples) -> Floats:
    return np.asarray(side.present.sum(axis=0, dtype=np.float64))


def _influence(
    side: SideResamples, low: Floats, high: Floats, inside: NDArray[np.bool_], compared: NDArray[np.bool_]
) -> Floats:
    """Return by how much the share of metrics whose side mean lies in ``low`` to ``high`` changes without each run."""
    total, count = _total(side), _count(side)

    def without(steps: Floats, columns: Ints | slice) -> Floats:
        return side.scale.value((total[columns] - steps) / (count[columns] - 1), columns)

    # Only metrics that some run could take out of the range or into it are looked at run by run.
    lowest = without(side.steps.min(axis=0, initial=np.inf), slice(None))
    highest = without(side.steps.max(axis=0, initial=-np.inf), slice(None))
    alike = np.logical_and.reduce([((end >= low) & (end <= high)) == inside for end in (lowest, highest)]) & (count > 1)
    beyond = (np.minimum(lowest, highest) > high) | (np.maximum(lowest, highest) < low)
    sure = alike & (inside | beyond) & compared
    columns = np.flatnonzero(~sure)
    steps, present = side.steps[::-1, columns].astype(np.float64), side.present[::-1, columns]
    without_run = without(steps, columns)
    now_inside = np.where(present, (without_run >= low[columns]) & (without_run <= high[columns]), inside[columns])
    now_compared = np.where(present, ~np.isnan(without_run), compared[columns])
    inside_counts = np.count_nonzero(sure & inside) + np.count_nonzero(now_inside, axis=1)
    counts = np.count_nonzero(sure) + np.count_nonzero(now_compared, axis=1)
    share = np.where(counts > 0, inside_counts / np.maximum(counts, 1), np.nan)
    whole = np.count_nonzero(inside) / np.count_nonzero(compared) if compared.any() else np.nan
    return np.asarray(share - whole)
