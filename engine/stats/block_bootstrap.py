"""Cut intervals into the blocks that a bootstrap resamples (Künsch 1989)."""

from __future__ import annotations

import math

import numpy as np

SLOW = 0.15
"""Autocorrelation of residuals three intervals apart above which errors are slow drift."""

MOST_BYTES = 100e6
"""Bytes of memory for the Gram matrices of all blocks."""

FEWEST_FITS = 24
"""Number of bootstrap fits below which their mean still jumps: as many are made even where no intervals are wanted."""


def block_length(rows: int, memory: float = 1.0) -> int:
    """Return the length of blocks, at least 1: about the cube root of ``rows`` for errors without memory, else 0.75 sqrt(rows).

    ``memory``: autocorrelation of the residuals (see ``SLOW``).
    """
    return max(1, round(0.75 * math.sqrt(rows) if memory > SLOW else rows ** (1 / 3)))


def blocks(a: np.ndarray, t: np.ndarray, memory: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """Return Gram matrices (K, P, P) and right sides (K, P) of the consecutive blocks of rows of ``a`` (T, P) and ``t`` (T,)."""
    length = block_length(len(t), memory)
    # not so many that the matrices fill the memory
    length = max(length, math.ceil(len(t) * a.shape[1] ** 2 * 8 / MOST_BYTES))
    starts = range(0, len(t), length)
    grams = np.stack([a[i : i + length].T @ a[i : i + length] for i in starts])
    rights = np.stack([a[i : i + length].T @ t[i : i + length] for i in starts])
    return grams, rights
