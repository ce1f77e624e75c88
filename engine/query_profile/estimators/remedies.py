"""Find what a plain fit cannot explain: a change of costs within the window, and a lag between times and CPU.

After a new version or a lost index two fits explain clearly more than one. A CPU series that is read a quarter of an
interval before the statements contains a quarter of the interval before: y_t = (1 - s) u_t + s u_(t-1) with u the CPU of
the statements of interval t; the fit is best at the true s.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from engine.query_profile.estimators import residuals
from engine.query_profile.estimators.design import build_design, column_scale
from engine.stats import nonnegative

CHANGE_GAIN = 0.08
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
    return ChangePoint(row if gain >= CHANGE_GAIN + 0.5 * size / (rows - size) else -1, gain)


STEP, FARTHEST = 0.05, 0.5
"""Distance of the lags that are tried, and the largest one either way; both in intervals."""

LAG_GAIN = 40.0
"""Least gain in twice the log likelihood (of normal errors, outliers down-weighted) for a lag to be believed."""

LAG_SHARE = 0.05
"""Least share of the squared error that a lag must take away to be believed."""

LAG_FEWEST = 60
"""Number of intervals below which nothing is looked for."""

MOST_ROWS, MOST_COLUMNS = 20_000, 400
"""Intervals, the last ones, that are looked at: how samples are taken does not change. Number of columns of the design above
which nothing is looked for."""


@dataclass(frozen=True)
class Lag:
    """``share`` of an interval by which y lags the times (below 0: times lag y), 0 if none was found; ``gain``: share of
    the squared error that it takes away."""

    share: float
    gain: float


NO_LAG = Lag(0.0, 0.0)


def shifted(table: np.ndarray, share: float) -> np.ndarray:
    """Return rows (T, ...) as they would have been read ``share`` of an interval earlier (below 0: later)."""
    if share == 0 or len(table) < 2:
        return table
    other = np.concatenate([table[:1], table[:-1]]) if share > 0 else np.concatenate([table[1:], table[-1:]])
    return np.asarray((1 - abs(share)) * table + abs(share) * other)


def find_lag(x: np.ndarray, calls: np.ndarray | None, y: np.ndarray, seconds: np.ndarray) -> Lag:
    """Find the lag of y (T,) against times (T, J) and calls that explains y clearly better than none."""
    x, y, seconds = x[-MOST_ROWS:], y[-MOST_ROWS:], seconds[-MOST_ROWS:]
    columns = build_design(x, None if calls is None else calls[-MOST_ROWS:], seconds).columns
    rows, size = columns.shape
    if rows < max(LAG_FEWEST, 1.5 * size) or size > MOST_COLUMNS:
        return NO_LAG
    w = residuals.weights(y)
    columns = columns / column_scale(columns * w[:, None])
    target = y * w
    ridge = 1e-4 * rows * np.eye(size)
    a = columns * w[:, None]
    cost = nonnegative.solve(a.T @ a + ridge, a.T @ target)
    for _ in range(3):
        row = residuals.huber(target - a @ cost, residuals.USUAL_LIMIT)
        cost = nonnegative.solve((a * row[:, None]).T @ a + ridge, (a * row[:, None]).T @ target, cost)
    root = np.sqrt(row)

    def squared_error(share: float, other: np.ndarray) -> float:
        a = ((1 - abs(share)) * columns + abs(share) * other) * (w * root)[:, None]
        fitted = a @ nonnegative.solve(a.T @ a + ridge, a.T @ (target * root), cost)
        return float(((target * root - fitted) ** 2).sum())

    errors = {0.0: squared_error(0.0, columns)}
    for sign in (1.0, -1.0):
        other = shifted(columns, sign)
        for part in np.arange(STEP, FARTHEST + STEP / 2, STEP):
            errors[sign * part] = squared_error(sign * part, other)
    before = errors[0.0]
    least, share = min((error, share) for share, error in errors.items())
    if before <= 0 or least <= 0:
        return NO_LAG
    gain = 1 - least / before
    clear = gain >= LAG_SHARE and rows * np.log(before / least) >= LAG_GAIN
    return Lag(float(_lowest(share, errors)), gain) if clear else NO_LAG


def _lowest(share: float, errors: dict[float, float]) -> float:
    """Return the lowest point of the parabola through the best lag ``share`` and its neighbours."""
    left, right = (next((v for k, v in errors.items() if abs(k - share - d) < 1e-9), None) for d in (-STEP, STEP))
    if left is None or right is None:
        return share
    bend = left - 2 * errors[share] + right
    return float(share + 0.5 * STEP * (left - right) / bend) if bend > 0 else share
