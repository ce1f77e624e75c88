"""Blocks of intervals that a bootstrap draws again (Künsch 1989)."""

from __future__ import annotations

import math

import numpy as np

SLOW = 0.15
"""Correlation of residuals three intervals apart from which errors count as slow drift."""

MOST_BYTES = 100e6
"""Memory for the block sums of the bootstrap."""

FEWEST_FITS = 24
"""A mean over fewer bootstrap fits still jumps, so as many are made even where no intervals are wanted."""


def block_length(rows: int, memory: float = 1.0) -> int:
    """Length of bootstrap blocks, at least 1: about the cube root of T for errors without memory, 0.75 sqrt(T) else."""
    return max(1, round(0.75 * math.sqrt(rows) if memory > SLOW else rows ** (1 / 3)))


def blocks(a: np.ndarray, t: np.ndarray, memory: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """Gram matrices (K, P, P) and right sides (K, P) of the consecutive blocks of rows."""
    length = block_length(len(t), memory)
    # not so many that the matrices fill the memory
    length = max(length, math.ceil(len(t) * a.shape[1] ** 2 * 8 / MOST_BYTES))
    starts = range(0, len(t), length)
    grams = np.stack([a[i : i + length].T @ a[i : i + length] for i in starts])
    rights = np.stack([a[i : i + length].T @ t[i : i + length] for i in starts])
    return grams, rights
