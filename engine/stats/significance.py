"""Compute p-values, adjust them for multiple tests, compute quantiles of Student's t, and resample whole units: runs with
replacement (Efron 1979), consecutive intervals as blocks (Künsch 1989).

scipy.stats has all of the tests, but takes more than a second to import: these functions use scipy.special or nothing.
"""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from engine.stats.ranks import Floats

EXACT_PAIRS = 10_000  # largest n1 * n2 for which lattice paths are counted; above, Kolmogorov's limit is used


def _exact(n1: int, n2: int, gaps: NDArray[np.int64]) -> list[float]:
    """Return P(D >= gap / (n1 n2)) for some gaps: one minus the share of lattice paths strictly inside the band.

    Hodges (1958). All gaps at once: rows of counts of paths to (i, j).
    """
    limit = gaps[:, None]
    j = np.arange(n2 + 1, dtype=np.int64)
    ways = np.where(j * n1 < limit, 1.0, 0.0)
    for i in range(1, n1 + 1):
        inside = np.abs(i * n2 - j * n1) < limit
        ways = np.where(inside, np.cumsum(np.where(inside, ways, 0.0), axis=1), 0.0)
    total = math.comb(n1 + n2, n1)
    return [
        min(1.0, max(1.0 - stay / total, 0.0 if gap > n1 * n2 else min(1.0, 2.0 / total)))
        for gap, stay in zip(gaps.tolist(), ways[:, n2].tolist(), strict=True)
    ]


def ks_p_values(distance: Floats, n1: int, n2: int) -> Floats:
    """Return P(D >= distance) for two samples of ``n1`` and ``n2`` values from one distribution, two-sided, per row.

    Exact for continuous data up to ``EXACT_PAIRS`` pairs (conservative with ties), else asymptotic.
    """
    if not (n1 and n2):
        return np.full(len(distance), np.nan)
    if n1 * n2 <= EXACT_PAIRS:
        gaps, back = np.unique(np.rint(distance * n1 * n2).astype(np.int64), return_inverse=True)
        return np.array(_exact(n1, n2, gaps))[back]
    from engine.stats.compiled import kolmogorov

    return np.asarray(kolmogorov(distance * math.sqrt(n1 * n2 / (n1 + n2))), dtype=np.float64)


def brown_forsythe_p(left: Floats, right: Floats) -> float:
    """Return p of Brown and Forsythe's test (1974): one-way analysis of variance of distances from the median.

    NaN with fewer than two values on a side, or where the distances vary within each side by rounding only: then they cannot
    tell chance from a difference.
    """
    n1, n2 = left.size, right.size
    if min(n1, n2) < 2:
        return float("nan")
    apart = [np.abs(side - np.median(side)) for side in (left, right)]
    means = [float(side.mean()) for side in apart]
    grand = (n1 * means[0] + n2 * means[1]) / (n1 + n2)
    between = n1 * (means[0] - grand) ** 2 + n2 * (means[1] - grand) ** 2
    within = sum(float(((side - mean) ** 2).sum()) for side, mean in zip(apart, means, strict=True))
    if not within > (n1 + n2) * (np.finfo(float).eps * max(float(np.abs(side).max()) for side in (left, right))) ** 2:
        return float("nan")
    from engine.stats.compiled import fdtrc

    freedom = n1 + n2 - 2
    return float(fdtrc(1, freedom, between * freedom / within))


def benjamini_hochberg(p: Floats) -> Floats:
    """Return q-values (adjusted p) of Benjamini and Hochberg (1995). NaN stays NaN and is not counted as a test."""
    q = np.full(p.shape, np.nan)
    tested = np.flatnonzero(~np.isnan(p))
    m = tested.size
    if m:
        order = tested[np.argsort(p[tested], kind="stable")]
        q[order] = np.minimum(1.0, np.minimum.accumulate((p[order] * m / np.arange(1, m + 1))[::-1])[::-1])
    return q


_SERIES_TO = 200  # degrees of freedom up to which the finite series is used


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


def draw_counts(n: int, draws: int, seed: tuple[int, ...]) -> NDArray[np.float32]:
    """Return how often each of ``n`` units is drawn in each resample: [draws, n]; rows sum to ``n``.

    Resamples depend on ``n``, ``draws`` and ``seed`` alone.
    """
    units = np.random.default_rng([*seed, n, 0]).integers(0, max(n, 1), size=(draws, n))
    cells = units + (np.arange(draws, dtype=np.int64) * n)[:, None]
    return np.bincount(cells.ravel(), minlength=draws * n).reshape(draws, n).astype(np.float32)


def percentile_interval(values: Floats, confidence: float) -> tuple[float, float]:
    """Return the central interval of the resampled ``values``, ignoring NaN; (nan, nan) if all are NaN."""
    finite: NDArray[np.float64] = values[~np.isnan(values)]
    if not finite.size:
        return float("nan"), float("nan")
    tail = (1.0 - confidence) / 2.0
    low, high = np.quantile(finite, [tail, 1.0 - tail])
    return float(low), float(high)


SLOW = 0.15  # autocorrelation of residuals three intervals apart above which errors are slow drift

MOST_BYTES = 100e6  # bytes of memory for the Gram matrices of all blocks

FEWEST_FITS = 24  # number of bootstrap fits below which their mean still jumps; made even if no intervals are wanted


def block_length(rows: int, memory: float = 1.0) -> int:
    """Return the length of blocks, at least 1: about the cube root of ``rows`` for errors without memory, else 0.75 sqrt(rows).

    ``memory``: autocorrelation of the residuals (see ``SLOW``).
    """
    return max(1, round(0.75 * math.sqrt(rows) if memory > SLOW else rows ** (1 / 3)))


def blocks(a: np.ndarray, t: np.ndarray, memory: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """Return Gram matrices (K, P, P) and right sides (K, P) of the consecutive blocks of rows of ``a`` (T, P) and ``t`` (T,)."""
    length = block_length(len(t), memory)
    # few enough blocks for the matrices to fit into memory
    length = max(length, math.ceil(len(t) * a.shape[1] ** 2 * 8 / MOST_BYTES))
    starts = range(0, len(t), length)
    grams = np.stack([a[i : i + length].T @ a[i : i + length] for i in starts])
    return grams, np.stack([a[i : i + length].T @ t[i : i + length] for i in starts])
