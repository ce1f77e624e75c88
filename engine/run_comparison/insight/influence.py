"""Is one run behind it all? Leave-one-run-out influence and a bad-run score."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engine.run_comparison.insight.evidence import Evidence, limits
from engine.run_comparison.insight.resampling import OUTLIER, Draws, Overall
from engine.run_comparison.runs.measurements import Floats


@dataclass(frozen=True, slots=True)
class RunScores:
    """Per run of one side, newest first. ``influence``: change of the matched share without the run; ``badness``:
    median robust deviation of its metrics from the side's middle; ``outliers``: share of metrics beyond ``OUTLIER``."""

    influence: Floats
    badness: Floats
    outliers: Floats

    @property
    def bad(self) -> NDArray[np.bool_]:
        """Runs that stand out in at least half of their metrics."""
        with np.errstate(invalid="ignore"):
            return np.asarray((self.outliers >= 0.5) | (self.badness > OUTLIER))


def score_runs(overall: Overall, evidence: Evidence, margin: float) -> tuple[RunScores, RunScores]:
    """Scores of the left and of the right runs, from their means per metric."""
    lower, upper = limits(evidence, margin)
    low, high = lower[overall.metrics], upper[overall.metrics]
    left, right = overall.left, overall.right
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        mean_left, mean_right = left.value(left.total / left.count), right.value(right.total / right.count)
        shift = mean_right - mean_left
        inside = (shift >= low) & (shift <= high)
        # Without a left run: low <= right - left' <= high, that is right - high <= left' <= right - low.
        of_left = _influence(left, mean_right - high, mean_right - low, inside, ~np.isnan(shift))
        of_right = _influence(right, mean_left + low, mean_left + high, inside, ~np.isnan(shift))
    return RunScores(of_left, *left.scores()), RunScores(of_right, *right.scores())


def _influence(side: Draws, low: Floats, high: Floats, inside: NDArray[np.bool_], held: NDArray[np.bool_]) -> Floats:
    """How the share of metrics whose side mean lies within ``low`` to ``high`` changes without each run, newest first.
    Only metrics that one of the runs could take out or in are looked at run by run: the more runs, the fewer."""

    def without(steps: Floats, columns: NDArray[np.int64] | slice) -> Floats:
        return side.value((side.total[columns] - steps) / (side.count[columns] - 1), columns)

    ends = [without(end, slice(None)) for end in (side.lowest, side.highest)]
    alike = np.logical_and.reduce([((end >= low) & (end <= high)) == inside for end in ends]) & (side.count > 1)
    beyond = np.minimum(*ends) > high
    beyond |= np.maximum(*ends) < low
    sure = alike & (inside | beyond) & held
    columns = np.flatnonzero(~sure)
    found = np.full(side.n, np.count_nonzero(sure & inside), dtype=np.int64)
    known = np.full(side.n, np.count_nonzero(sure), dtype=np.int64)
    if columns.size:
        steps, present = side.runs(columns)
        alone = without(steps, columns)
        now = np.where(present, (alone >= low[columns]) & (alone <= high[columns]), inside[columns])
        found += np.count_nonzero(now, axis=1)
        known += np.count_nonzero(np.where(present, ~np.isnan(alone), held[columns]), axis=1)
    share = np.where(known > 0, found / np.maximum(known, 1), np.nan)
    total = np.count_nonzero(held)
    whole = np.count_nonzero(inside) / total if total else np.nan
    return np.asarray(share - whole)
