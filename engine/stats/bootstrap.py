"""Resampling whole units (runs, blocks) with replacement."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from engine.stats.ranks import Floats


def resample_counts(n: int, draws: int, rng: np.random.Generator) -> NDArray[np.float32]:
    """How often each of ``n`` units is drawn in each of ``draws`` resamples of size n: [draws, n]; rows sum to n."""
    if not n:
        return np.zeros((draws, 0), dtype=np.float32)
    picked = rng.integers(0, n, size=(draws, n))
    flat = (picked + np.arange(draws)[:, None] * n).ravel()
    return np.bincount(flat, minlength=draws * n).reshape(draws, n).astype(np.float32)


def percentile_interval(values: Floats, confidence: float) -> tuple[float, float]:
    """Central interval of the resampled ``values``; (nan, nan) without any."""
    kept: NDArray[np.float64] = values[~np.isnan(values)]
    if not kept.size:
        return float("nan"), float("nan")
    tail = (1.0 - confidence) / 2.0
    low, high = np.quantile(kept, [tail, 1.0 - tail])
    return float(low), float(high)


def wilson_interval(successes: float, n: int, z: float = 1.959963984540054) -> tuple[float, float]:
    """Wilson's interval of a share of independent trials; (0, 1) without any."""
    if not n:
        return 0.0, 1.0
    share = successes / n
    centre = (share + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * np.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    return float(max(0.0, centre - half)), float(min(1.0, centre + half))
