"""Measure how far the default attribution can be trusted, and grade it in one word."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from engine.query_profile.estimators import design, estimate, residuals
from engine.query_profile.estimators.design import FitOptions

Grade = Literal["good", "fair", "poor", "none"]


@dataclass(frozen=True)
class Trust:
    """Measures of trust.

    ``correlation`` of summed time and y; ``blocked_mape``: mean relative error on blocks of intervals that were left out of
    the fit; ``attributed``: share of y given to classes; ``disagreement``: share of y that WLR and the default give to
    different classes; ``score`` 0-1 and its ``grade``; ``reasons``: what lowers it, worst first.
    """

    correlation: float
    blocked_mape: float
    attributed: float
    disagreement: float
    score: float
    grade: Grade
    reasons: tuple[str, ...]


_UNKNOWN = (float("nan"),) * 4
NO_TRUST = Trust(*_UNKNOWN, 0.0, "none", ("there is no CPU series",))
UNTESTED = Trust(*_UNKNOWN, 0.0, "none", ("too much data to test the fit",))


_QUICK = FitOptions(draws=12, rounds=4, sample=False)


def blocked_error(
    x: np.ndarray, calls: np.ndarray | None, y: np.ndarray, seconds: np.ndarray, blocks: int = 5
) -> float:
    """Return the mean |(y - p)/y| over ``blocks`` consecutive parts, each predicted from the others by the default estimate;
    NaN for too few intervals."""
    rows = len(y)
    if rows < 2 * blocks:
        return float("nan")
    errors = []
    length = design.lengths(seconds)
    for part in np.array_split(np.arange(rows), blocks):
        rest = np.setdiff1d(np.arange(rows), part)
        rest_calls, part_calls = (None, None) if calls is None else (calls[rest], calls[part])
        costs = estimate.fit(x[rest], rest_calls, y[rest], seconds[rest], _QUICK)
        predicted = costs.predict(x[part], part_calls, length[part])
        positive = y[part] > 0
        errors.append(np.abs((y[part] - predicted) / np.where(positive, y[part], 1.0))[positive])
    joined = np.concatenate(errors)
    return float(joined.mean()) if len(joined) else float("nan")


def assess(
    s: np.ndarray,
    y: np.ndarray,
    by_wlr: np.ndarray,
    by_default: np.ndarray,
    blocked_mape: float,
    *,
    elbow: bool,
    changed: bool,
    doubtful: int,
) -> Trust:
    """Grade the default attribution; the penalties stand in docs/models/query-profile.md, "Trust".

    ``s``, ``y``: (T,) summed time and resource use; ``by_wlr``, ``by_default``: (J,) CPU per class; ``elbow``, ``changed``:
    whether an elbow or a change of costs was found; ``doubtful``: how many intervals are left out.
    """
    total = float(y.sum())
    if not len(y) or total <= 0:
        return NO_TRUST
    correlation = residuals.correlation(s, y) if len(y) > 2 else float("nan")
    attributed = float(by_default.sum()) / total
    disagreement = float(np.abs(by_wlr - by_default).sum()) / 2 / total
    reasons: list[tuple[float, str]] = []

    def mark(penalty: float, text: str) -> None:
        if penalty > 0.02:
            reasons.append((penalty, text))

    mape = blocked_mape if np.isfinite(blocked_mape) else 0.3
    mark(min(mape / 0.25, 1) * 0.5, f"left-out intervals are missed by {mape * 100:.1f} %" if np.isfinite(blocked_mape)
         else "too few intervals to test the fit")  # fmt: skip
    mark(min(abs(attributed - 1), 1) * 0.4, f"{attributed * 100:.0f} % of the CPU is explained by query classes")
    mark(min(max(disagreement - 0.1, 0), 0.5) * 0.4, f"WLR puts {disagreement * 100:.0f} % of the CPU elsewhere")
    if np.isfinite(correlation):
        mark(max(0.7 - correlation, 0) * 0.2, f"time and CPU hardly go together (correlation {correlation:.2f})")
    if elbow:
        mark(0.15, "past the queueing elbow time is mostly waiting")
    if changed:
        mark(0.05, "costs changed within the window: both sides are fitted alone")
    rows = len(y)
    mark(min(doubtful / max(rows + doubtful, 1), 1) * 0.2, f"{doubtful} doubtful intervals are left out")
    mark(0.3 if rows < 20 else 0.1 if rows < 60 else 0.0, f"only {rows} intervals")
    reasons.sort(reverse=True)
    score = max(0.0, 1 - sum(penalty for penalty, _ in reasons))
    grade: Grade = "good" if score >= 0.75 else "fair" if score >= 0.5 else "poor"
    return Trust(correlation, blocked_mape, attributed, disagreement, score, grade, tuple(t for _, t in reasons))
