"""Resample whole units: runs with replacement (Efron 1979), consecutive intervals as blocks (Künsch 1989)."""

from __future__ import annotations

import math

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
    """Return the central interval of the resampled ``values``, ignoring NaN; (nan, nan) if all are NaN."""
    finite: NDArray[np.float64] = values[~np.isnan(values)]
    if not finite.size:
        return float("nan"), float("nan")
    tail = (1.0 - confidence) / 2.0
    low, high = np.quantile(finite, [tail, 1.0 - tail])
    return float(low), float(high)


SLOW = 0.15
"""Autocorrelation of residuals three intervals apart above which errors are slow drift."""

MOST_BYTES = 100e6
"""Bytes of memory for the Gram matrices of all blocks."""

FEWEST_FITS = 24
"""Number of bootstrap fits below which their mean still jumps; made even if no intervals are wanted."""


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
