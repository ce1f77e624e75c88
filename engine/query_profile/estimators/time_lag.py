"""Do times and CPU belong to the same instants? A series that is read later than the other lags by a part of an interval.

A CPU series that is read a quarter of an interval before the statements holds a quarter of the interval before. Then
y_t = (1 - s) u_t + s u_(t-1) with u the CPU of the statements of interval t; the fit is best at the true s.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from engine.query_profile.estimators import design, residuals
from engine.stats import nonnegative

STEP = 0.05
FARTHEST = 0.5
"""Shifts are looked for up to half an interval either way."""

GAIN = 40.0
"""A shift is believed if it raises twice the log likelihood by this much (of normal errors, outliers weighed down), and"""

SHARE = 0.05
"""lowers the squared error by at least this share."""

FEWEST = 60
MOST_COLUMNS = 400


@dataclass(frozen=True)
class Shift:
    """``share`` of an interval by which y lags the times (below 0: times lag y), 0 if none was found; ``gain``: share of
    the squared error that it takes away."""

    share: float
    gain: float


NONE = Shift(0.0, 0.0)


def shifted(table: np.ndarray, share: float) -> np.ndarray:
    """Rows (T, ...) as they would have been read ``share`` of an interval earlier (below 0: later)."""
    if share == 0 or len(table) < 2:
        return table
    other = np.concatenate([table[:1], table[:-1]]) if share > 0 else np.concatenate([table[1:], table[-1:]])
    return np.asarray((1 - abs(share)) * table + abs(share) * other)


def find(x: np.ndarray, calls: np.ndarray | None, y: np.ndarray, seconds: np.ndarray) -> Shift:
    """The shift of y (T,) against times (T, J) and calls that explains y clearly better than none."""
    found = design.design(x, calls, y, seconds)
    rows, size = found.columns.shape
    if rows < max(FEWEST, 1.5 * size) or size > MOST_COLUMNS:
        return NONE
    w = residuals.weights(y)
    scale = np.sqrt(((found.columns * w[:, None]) ** 2).mean(axis=0))
    scale[scale == 0] = 1.0
    columns = found.columns / scale
    target = y * w
    row = np.ones(rows)
    ridge = 1e-4 * rows * np.eye(size)
    a = columns * w[:, None]
    cost = nonnegative.solve(a.T @ a + ridge, a.T @ target)
    for _ in range(3):
        row = residuals.huber(target - a @ cost, 1.345)
        cost = nonnegative.solve((a * row[:, None]).T @ a + ridge, (a * row[:, None]).T @ target, cost)
    root = (w * np.sqrt(row))[:, None]
    results = [(_squares_at(0.0, columns, columns, root, target * np.sqrt(row), ridge, cost), 0.0)]
    for sign in (1.0, -1.0):
        other = shifted(columns, sign)
        results += [
            (_squares_at(sign * part, columns, other, root, target * np.sqrt(row), ridge, cost), sign * part)
            for part in np.arange(STEP, FARTHEST + STEP / 2, STEP)
        ]
    least, share = min(results)
    before = results[0][0]
    if before <= 0 or least <= 0:
        return NONE
    share = _between(share, {part: squares for squares, part in results})
    gain = 1 - least / before
    return Shift(float(share), gain) if gain >= SHARE and rows * np.log(before / least) >= GAIN else NONE


def _between(share: float, squares: dict[float, float]) -> float:
    """The lowest point of the parabola through the best shift and its neighbours."""
    left, right = (next((v for k, v in squares.items() if abs(k - share - d) < 1e-9), None) for d in (-STEP, STEP))
    if left is None or right is None:
        return share
    bend = left - 2 * squares[share] + right
    return float(share + 0.5 * STEP * (left - right) / bend) if bend > 0 else share


def _squares_at(
    share: float,
    columns: np.ndarray,
    other: np.ndarray,
    root: np.ndarray,
    target: np.ndarray,
    ridge: np.ndarray,
    cost: np.ndarray,
) -> float:
    """Squared error of the fit at one shift."""
    a = ((1 - abs(share)) * columns + abs(share) * other) * root
    found = nonnegative.solve(a.T @ a + ridge, a.T @ target, cost)
    return float(((target - a @ found) ** 2).sum())
