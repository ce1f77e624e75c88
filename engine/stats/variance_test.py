"""Test whether two samples differ in spread, whatever their level."""

from __future__ import annotations

import numpy as np

from engine.stats.ranks import Floats


def brown_forsythe_p(left: Floats, right: Floats) -> float:
    """Return p of Brown and Forsythe's test (1974): one-way analysis of variance of distances from the median.

    NaN with fewer than two values on a side, or where the distances do not vary within either side by more than rounding does:
    whatever they are then, they do not tell by chance from difference.
    """
    n1, n2 = left.size, right.size
    if min(n1, n2) < 2:
        return float("nan")
    apart = [np.abs(side - np.median(side)) for side in (left, right)]
    means = [float(side.mean()) for side in apart]
    grand = (n1 * means[0] + n2 * means[1]) / (n1 + n2)
    between = n1 * (means[0] - grand) ** 2 + n2 * (means[1] - grand) ** 2
    within = sum(float(((side - mean) ** 2).sum()) for side, mean in zip(apart, means, strict=True))
    rounding = np.finfo(float).eps * max(float(np.abs(side).max()) for side in (left, right))
    if not within > (n1 + n2) * rounding**2:
        return float("nan")
    from scipy.special import fdtrc

    freedom = n1 + n2 - 2
    return float(fdtrc(1, freedom, between * freedom / within))
