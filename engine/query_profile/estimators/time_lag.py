"""Find a lag between times and CPU: a series that is read later than the other lags by a part of an interval.

A CPU series that is read a quarter of an interval before the statements contains a quarter of the interval before. Then
y_t = (1 - s) u_t + s u_(t-1) with u the CPU of the statements of interval t; the fit is best at the true s.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from engine.query_profile.estimators import residuals
from engine.query_profile.estimators.design import build_design
from engine.query_profile.estimators.least_squares import column_scale
from engine.stats import nonnegative

STEP, FARTHEST = 0.05, 0.5
"""Distance of the lags that are tried, and the largest one either way; both in intervals."""

GAIN = 40.0
"""Least gain in twice the log likelihood (of normal errors, outliers down-weighted) for a lag to be believed."""

SHARE = 0.05
"""Least share of the squared error that a lag must take away to be believed."""

FEWEST = 60
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
    if rows < max(FEWEST, 1.5 * size) or size > MOST_COLUMNS:
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
    clear = gain >= SHARE and rows * np.log(before / least) >= GAIN
    return Lag(float(_lowest(share, errors)), gain) if clear else NO_LAG


def _lowest(share: float, errors: dict[float, float]) -> float:
    """Return the lowest point of the parabola through the best lag ``share`` and its neighbours."""
    left, right = (next((v for k, v in errors.items() if abs(k - share - d) < 1e-9), None) for d in (-STEP, STEP))
    if left is None or right is None:
        return share
    bend = left - 2 * errors[share] + right
    return float(share + 0.5 * STEP * (left - right) / bend) if bend > 0 else share
