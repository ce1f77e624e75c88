"""Find a change of costs within the window: after a new version or a lost index two fits explain clearly more than one."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from engine.query_profile.estimators import residuals
from engine.query_profile.estimators.design import build_design
from engine.query_profile.estimators.least_squares import column_scale
from engine.stats import nonnegative

GAIN = 0.08
"""Share by which two fits must lower the absolute error, beyond what twice as many costs do anyway (without a change up to
0.04, with correlated errors 0.055, in 540 made-up workloads). Elbows look like changes too, and are looked for first."""

SMALLEST_SIDE = 30
"""Intervals on each side of a change."""

MOST_ROWS, MOST_COLUMNS = 20_000, 400
"""Size of the design above which nothing is looked for."""

PIECES, STEPS = 24, 12
"""Candidates of the coarse search over all intervals, and of the fine one around the best of them."""


@dataclass(frozen=True)
class ChangePoint:
    """``row``: first interval with the new costs, or -1; ``gain``: share by which two fits lower the absolute error."""

    row: int
    gain: float


NO_CHANGE = ChangePoint(-1, 0.0)


def find_change_point(x: np.ndarray, calls: np.ndarray | None, y: np.ndarray, seconds: np.ndarray) -> ChangePoint:
    """Find the split of the intervals into two fits that lowers the absolute error most."""
    rows = len(y)
    columns = build_design(x, calls, seconds).columns
    size = columns.shape[1]
    least = max(SMALLEST_SIDE, int(1.5 * size) if calls is None else size)
    if rows < 2 * least or rows > MOST_ROWS or size > MOST_COLUMNS:
        return NO_CHANGE
    w = residuals.weights(y, 0.5)
    a, t = columns * w[:, None], y * w
    a = a / column_scale(a)
    # a little shrinkage keeps the short sides from winning by fitting noise
    ridge = 1e-3 * rows * np.eye(size)
    edges = np.unique(np.linspace(0, rows, PIECES + 1).astype(int))
    grams = np.cumsum([a[i:j].T @ a[i:j] for i, j in pairwise(edges)], axis=0)
    rights = np.cumsum([a[i:j].T @ t[i:j] for i, j in pairwise(edges)], axis=0)
    whole = nonnegative.solve(grams[-1] + ridge, rights[-1])
    error = float(np.abs(t - a @ whole).sum())
    if error <= 0:
        return NO_CHANGE

    def error_of_two(gram: np.ndarray, right: np.ndarray, row: int) -> float:
        left = nonnegative.solve(gram + ridge, right, whole)
        rest = nonnegative.solve(grams[-1] - gram + ridge, rights[-1] - right, whole)
        return float(np.abs(t[:row] - a[:row] @ left).sum() + np.abs(t[row:] - a[row:] @ rest).sum())

    coarse = [
        (error_of_two(grams[i], rights[i], int(edges[i + 1])), i)
        for i in range(len(edges) - 2)
        if least <= edges[i + 1] <= rows - least
    ]
    if not coarse:
        return NO_CHANGE
    best, piece = min(coarse)
    row = int(edges[piece + 1])
    # between the neighbours of the best edge, row by row in steps
    begin = int(edges[piece])
    low, high = max(begin, least), min(int(edges[min(piece + 2, len(edges) - 1)]), rows - least)
    gram_before = grams[piece - 1] if piece else np.zeros_like(grams[0])
    right_before = rights[piece - 1] if piece else np.zeros_like(rights[0])
    for candidate in range(low, high + 1, max(1, (high - low) // STEPS)):
        gram = gram_before + a[begin:candidate].T @ a[begin:candidate]
        right = right_before + a[begin:candidate].T @ t[begin:candidate]
        value = error_of_two(gram, right, candidate)
        if value < best:
            best, row = value, candidate
    gain = 1 - best / error
    return ChangePoint(row if gain >= GAIN + 0.5 * size / (rows - size) else -1, gain)
