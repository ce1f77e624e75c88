"""Resampling whole units (runs, blocks) with replacement."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from engine.stats.ranks import Floats


def percentile_interval(values: Floats, confidence: float) -> tuple[float, float]:
    """Central interval of the resampled ``values``; (nan, nan) without any."""
    kept: NDArray[np.float64] = values[~np.isnan(values)]
    if not kept.size:
        return float("nan"), float("nan")
    tail = (1.0 - confidence) / 2.0
    low, high = np.quantile(kept, [tail, 1.0 - tail])
    return float(low), float(high)
