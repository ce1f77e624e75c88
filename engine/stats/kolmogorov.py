"""Compute p-values of the two-sample Kolmogorov-Smirnov distance."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from engine.stats.ranks import Floats

EXACT_PAIRS = 10_000
"""Largest n1 * n2 for which lattice paths are counted; above, Kolmogorov's limit is used."""


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
    p_values = []
    for gap, stay in zip(gaps.tolist(), ways[:, n2].tolist(), strict=True):
        least = 0.0 if gap > n1 * n2 else min(1.0, 2.0 / total)
        p_values.append(min(1.0, max(1.0 - stay / total, least)))
    return p_values


def ks_p_values(distance: Floats, n1: int, n2: int) -> Floats:
    """Return P(D >= distance) for two samples of ``n1`` and ``n2`` values from one distribution, two-sided, per row.

    Exact for continuous data up to ``EXACT_PAIRS`` pairs (conservative with ties), else asymptotic.
    """
    if not (n1 and n2):
        return np.full(len(distance), np.nan)
    if n1 * n2 <= EXACT_PAIRS:
        gaps, back = np.unique(np.rint(distance * n1 * n2).astype(np.int64), return_inverse=True)
        return np.array(_exact(n1, n2, gaps))[back]
    from scipy.special import kolmogorov

    return np.asarray(kolmogorov(distance * math.sqrt(n1 * n2 / (n1 + n2))), dtype=np.float64)
