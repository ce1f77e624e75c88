"""What the run comparison's screen draws beyond the tables: the samples themselves."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from engine.run_comparison.insight.change_points import Axis, Found, series_of
from engine.run_comparison.runs.measurements import Floats
from engine.run_comparison.runs.runs import Run
from engine.run_comparison.runs.samples import Samples


@dataclass(frozen=True, eq=False)
class Detail:
    """Samples by the ``row`` column of the metrics table, runs of both sides (newest first), the common time axis and
    the change points by row. ``margin``: the lower limit in force; ``upper``: the higher one."""

    samples: Samples
    left: tuple[Run, ...]
    right: tuple[Run, ...]
    axis: Axis
    found: tuple[Found, ...]
    margin: float
    upper: float
    alpha: float
    left_patterns: tuple[str, ...] = ()
    right_patterns: tuple[str, ...] = ()

    def sample(self, row: int) -> tuple[Floats, Floats]:
        """Left and right values of a metric."""
        return self.samples.left.of(row), self.samples.right.of(row)

    def series(self, row: int) -> tuple[Floats, Floats, Floats]:
        """Mean per run along the time axis: positions on the axis, values, side of each (0 left, 1 right)."""
        values, places = series_of(self.samples, self.axis, row)
        return places.astype(np.float64), values, self.axis.sides[places].astype(np.float64)

    def histogram(self, row: int, bins: int) -> tuple[Floats, Floats, Floats]:
        """Common edges (one more than bins) and both samples' counts; empty without values."""
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

    def change_points(self, row: int) -> Found | None:
        """Change points of a metric, None if it has none or was not searched."""
        return next((found for found in self.found if found.metric == row), None)

    def __eq__(self, other: object) -> bool:
        """Equal samples, limits and runs draw the same."""
        if not isinstance(other, Detail):
            return False
        mine, theirs = self.samples, other.samples
        return (
            (self.margin, self.upper, self.alpha, self.found) == (other.margin, other.upper, other.alpha, other.found)
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
        """By what is cheap to hash."""
        return hash((self.margin, self.upper, self.alpha, len(self.axis.runs)))
