"""Split values into the two groups with the least variance within them.

Fisher, "On grouping for maximum homogeneity" (1958); Jenks' natural breaks with two classes.
"""

from __future__ import annotations

import msgspec
import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


class Split(msgspec.Struct, frozen=True):
    """Values in two groups: ``low_n`` values below ``at`` with mean ``low_mean``, ``high_n`` from it on.

    ``fit`` 0-1 is the share of the variance that the split explains (1: two points); 0 without a split.
    """

    at: float
    low_n: int
    low_mean: float
    high_n: int
    high_mean: float
    fit: float = 0.0

    @property
    def factor(self) -> float:
        """How many times larger the high group's mean is; infinite above a mean of 0, 1 without two groups."""
        return (
            1.0
            if not self.low_n or not self.high_n
            else self.high_mean / self.low_mean
            if self.low_mean > 0
            else float("inf")
        )


def natural_break(values: Floats) -> Split:
    """Return the split of ``values`` (any order, finite) into two groups with the least within-group sum of squares.

    Exact: in one dimension the best groups are contiguous, so one sort and prefix sums visit every candidate,
    O(n log n). Equal values stay together. Fewer than two different values: everything is in the high group.
    """
    ordered = np.sort(np.asarray(values, dtype=np.float64))
    n = len(ordered)
    if n == 0:
        return Split(0.0, 0, 0.0, 0, 0.0)
    origin = ordered[n // 2]
    shifted = ordered - origin
    width = max(-shifted[0], shifted[-1])
    if width <= 0:
        return Split(float(ordered[0]), 0, 0.0, n, float(ordered[0]))
    shifted = shifted / width
    sums = np.cumsum(shifted)
    total = sums[-1]
    low_n = np.arange(1, n)
    low_sum = sums[:-1]
    # Between-group sum of squares; the within part is the total minus this, so the largest is best.
    between = low_sum**2 / low_n + (total - low_sum) ** 2 / (n - low_n) - total**2 / n
    between[ordered[1:] == ordered[:-1]] = -1.0
    best = int(np.argmax(between))
    spread = float(np.sum((shifted - total / n) ** 2))
    low = best + 1
    return Split(
        at=float(ordered[low]),
        low_n=low,
        low_mean=float(low_sum[best] / low * width + origin),
        high_n=n - low,
        high_mean=float((total - low_sum[best]) / (n - low) * width + origin),
        fit=min(1.0, max(0.0, float(between[best]) / spread)) if spread > 0 else 0.0,
    )
