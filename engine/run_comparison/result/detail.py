"""Give the screen what it draws beyond the tables: the samples themselves."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from engine.run_comparison.insight.change_points import Axis, MetricChanges, series_of
from engine.run_comparison.runs.measurements import Floats
from engine.run_comparison.runs.runs import Run
from engine.run_comparison.runs.samples import Samples


@dataclass(frozen=True, eq=False)
class Detail:
    """Samples by the ``row`` column of the metrics table, and what is drawn with them.

    Runs of both sides are newest first; ``axis``: all runs in time order; ``changes``: change points by row; ``margin`` and
    ``upper``: the limits of the ratio in force.
    """

    samples: Samples
    left: tuple[Run, ...]
    right: tuple[Run, ...]
    axis: Axis
    changes: tuple[MetricChanges, ...]
    margin: float
    upper: float
    alpha: float
    left_patterns: tuple[str, ...] = ()
    right_patterns: tuple[str, ...] = ()

    def sample(self, row: int) -> tuple[Floats, Floats]:
        """Return the left and the right values of a metric."""
        return self.samples.left.of(row), self.samples.right.of(row)

    def series(self, row: int) -> tuple[Floats, Floats, Floats]:
        """Return the mean per run along the time axis: positions on the axis, values, side of each (0 left, 1 right)."""
        values, places = series_of(self.samples, self.axis, row)
        return places.astype(np.float64), values, self.axis.sides[places].astype(np.float64)

    def histogram(self, row: int, bins: int) -> tuple[Floats, Floats, Floats]:
        """Return common edges (one more than bins) and both samples' counts; empty without values."""
        left, right = self.sample(row)
        both = np.concatenate([left, right])
        if not both.size:
            return np.zeros(0), np.zeros(0), np.zeros(0)
        low, high = float(both.min()), float(both.max())
        if low == high:
            low, high = low - 0.5, high + 0.5
        edges = np.linspace(low, high, bins + 1)
        counts = [np.histogram(side, edges)[0].astype(np.float64) for side in (left, right)]
        return edges, counts[0], counts[1]

    def change_points(self, row: int) -> MetricChanges | None:
        """Return the change points of a metric, None if it has none or was not searched."""
        return next((changes for changes in self.changes if changes.metric == row), None)

    def __eq__(self, other: object) -> bool:
        """Whether samples, limits and runs are equal, so that both draw the same."""
        if not isinstance(other, Detail):
            return False
        mine, theirs = self.samples, other.samples
        return (
            (self.margin, self.upper, self.alpha, self.changes)
            == (other.margin, other.upper, other.alpha, other.changes)
            and (self.left_patterns, self.right_patterns) == (other.left_patterns, other.right_patterns)
            and [run.key for run in self.axis.runs] == [run.key for run in other.axis.runs]
            and [run.key for run in self.left + self.right] == [run.key for run in other.left + other.right]
            and (
                mine is theirs
                or all(
                    np.array_equal(a.values, b.values) and np.array_equal(a.offsets, b.offsets)
                    for a, b in ((mine.left, theirs.left), (mine.right, theirs.right))
                )
            )
        )

    def __hash__(self) -> int:
        """Hash what is cheap to hash."""
        return hash((self.margin, self.upper, self.alpha, len(self.axis.runs)))
