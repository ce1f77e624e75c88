"""Costs that change within the window: after a new version or a lost index two fits explain clearly more than one."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from engine.query_profile.estimators import design, residuals
from engine.stats import nonnegative

GAIN = 0.08
"""A break is only reported if two fits lower the absolute error by this share more than twice as many costs do anyway
(without a break up to 0.04, with correlated errors 0.055, in 540 made-up workloads). Elbows look like breaks too, and are
looked for first."""

SMALLEST_SIDE = 30


@dataclass(frozen=True)
class Break:
    """``row``: first interval with the new costs, or -1; ``gain``: share by which two fits lower the absolute error."""

    row: int
    gain: float


def find_break(x: np.ndarray, calls: np.ndarray | None, y: np.ndarray, seconds: np.ndarray) -> Break:
    """The split of the intervals into two fits that lowers the absolute error most."""
    rows = len(y)
    found = design.design(x, calls, y, seconds)
    size = found.columns.shape[1]
    least = max(SMALLEST_SIDE, int(1.5 * size) if calls is None else size)
    if rows < 2 * least or rows > 20_000 or size > 400:
        return Break(-1, 0.0)
    w = residuals.weights(y, 0.5)
    a, t = found.columns * w[:, None], y * w
    scale = np.sqrt((a**2).mean(axis=0))
    scale[scale == 0] = 1.0
    a = a / scale
    # a little shrinkage keeps the short sides from winning by fitting noise
    ridge = 1e-3 * rows * np.eye(size)
    pieces = 24
    edges = np.unique(np.linspace(0, rows, pieces + 1).astype(int))
    grams = np.cumsum([a[i:j].T @ a[i:j] for i, j in pairwise(edges)], axis=0)
    rights = np.cumsum([a[i:j].T @ t[i:j] for i, j in pairwise(edges)], axis=0)
    whole = nonnegative.solve(grams[-1] + ridge, rights[-1])
    error = float(np.abs(t - a @ whole).sum())
    if error <= 0:
        return Break(-1, 0.0)

    def sides(gram: np.ndarray, right: np.ndarray, row: int) -> float:
        left = nonnegative.solve(gram + ridge, right, whole)
        rest = nonnegative.solve(grams[-1] - gram + ridge, rights[-1] - right, whole)
        return float(np.abs(t[:row] - a[:row] @ left).sum() + np.abs(t[row:] - a[row:] @ rest).sum())

    scan = [
        (sides(grams[i], rights[i], int(edges[i + 1])), i)
        for i in range(len(edges) - 2)
        if least <= edges[i + 1] <= rows - least
    ]
    if not scan:
        return Break(-1, 0.0)
    _, piece = min(scan)
    # between the neighbours of the best edge, row by row in steps
    low, high = int(edges[piece]), int(edges[min(piece + 2, len(edges) - 1)])
    low, high = max(low, least), min(high, rows - least)
    top, row = min(scan)[0], int(edges[piece + 1])
    base_gram = grams[piece - 1] if piece else np.zeros_like(grams[0])
    base_right = rights[piece - 1] if piece else np.zeros_like(rights[0])
    begin = int(edges[piece])
    for candidate in range(low, high + 1, max(1, (high - low) // 12)):
        if candidate < begin:
            continue
        gram = base_gram + a[begin:candidate].T @ a[begin:candidate]
        right = base_right + a[begin:candidate].T @ t[begin:candidate]
        value = sides(gram, right, candidate)
        if value < top:
            top, row = value, candidate
    gain = 1 - top / error
    return Break(row if gain >= GAIN + 0.5 * size / (rows - size) else -1, gain)
