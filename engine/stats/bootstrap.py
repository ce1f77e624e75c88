"""Resample whole units (runs, blocks) with replacement (Efron 1979)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from engine.stats.ranks import Floats


def draw_counts(n: int, draws: int, seed: tuple[int, ...]) -> NDArray[np.float32]:
    """Return how often each of ``n`` units is drawn in each resample: [draws, n]; rows sum to ``n``.

    Resamples depend on ``n``, ``draws`` and ``seed`` alone.
    """
    units = np.random.default_rng([*seed, n, 0]).integers(0, max(n, 1), size=(draws, n))
    cells = units + (np.arange(draws, dtype=np.int64) * n)[:, None]
    return np.bincount(cells.ravel(), minlength=draws * n).reshape(draws, n).astype(np.float32)


def percentile_interval(values: Floats, confidence: float) -> tuple[float, float]:
    """Return the central interval of the resampled ``values``, NaN left out; (nan, nan) without any."""
    finite: NDArray[np.float64] = values[~np.isnan(values)]
    if not finite.size:
        return float("nan"), float("nan")
    tail = (1.0 - confidence) / 2.0
    low, high = np.quantile(finite, [tail, 1.0 - tail])
    return float(low), float(high)
