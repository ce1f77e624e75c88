"""Compute quantiles of Student's t distribution without SciPy, whose import takes longer than a whole report."""

from __future__ import annotations

import math
from statistics import NormalDist

_SERIES_TO = 200
"""Degrees of freedom up to which the finite series is used."""


def t_quantile(share: float, degrees: int) -> float:
    """Return the value below which ``share`` (0.5 to 1, exclusive) of t with ``degrees`` of freedom lies.

    Up to 200 degrees the finite series of the distribution is solved (Abramowitz & Stegun 26.7.3 and 26.7.4), above
    that the expansion about the normal quantile is used (26.7.5); both to about 1e-10. Raises ValueError.
    """
    if not 0.5 < share < 1 or degrees < 1:
        raise ValueError(f"no t quantile at {share!r} with {degrees!r} degrees of freedom")
    if degrees > _SERIES_TO:
        return _expansion(share, degrees)
    # t = tan(angle) * sqrt(degrees), so the angle is bounded and bisection always ends.
    low, high, inside = 0.0, math.pi / 2, 2 * share - 1
    for _ in range(80):
        middle = (low + high) / 2
        if _between(middle, degrees) < inside:
            low = middle
        else:
            high = middle
    return math.tan((low + high) / 2) * math.sqrt(degrees)


def _between(angle: float, degrees: int) -> float:
    """Return the probability of |t| < tan(angle) * sqrt(degrees)."""
    sine, cosine = math.sin(angle), math.cos(angle)
    term = cosine if degrees % 2 else 1.0
    total = term if degrees > 1 else 0.0
    for k in range(3 if degrees % 2 else 2, degrees - 1, 2):
        term *= cosine * cosine * (k - 1) / k
        total += term
    return 2 / math.pi * (angle + sine * total) if degrees % 2 else sine * total


def _expansion(share: float, degrees: int) -> float:
    """Expand the quantile about the normal one (Abramowitz & Stegun 26.7.5)."""
    x = NormalDist().inv_cdf(share)
    n = float(degrees)
    terms = (
        (x**3 + x) / 4,
        (5 * x**5 + 16 * x**3 + 3 * x) / 96,
        (3 * x**7 + 19 * x**5 + 17 * x**3 - 15 * x) / 384,
        (79 * x**9 + 776 * x**7 + 1482 * x**5 - 1920 * x**3 - 945 * x) / 92160,
    )
    return x + terms[0] / n + terms[1] / n**2 + terms[2] / n**3 + terms[3] / n**4
