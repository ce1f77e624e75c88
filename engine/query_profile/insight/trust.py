"""How far an attribution can be trusted: a few plain measures and one word."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from engine.query_profile.estimators import design, estimate
from engine.query_profile.estimators.design import Recipe

Grade = Literal["good", "fair", "poor", "none"]


@dataclass(frozen=True)
class Trust:
    """``correlation`` of summed time and y; ``blocked_mape``: mean relative error on blocks of intervals that were left
    out of the fit; ``attributed``: share of y given to classes; ``disagreement``: share of y on which WLR and the default
    put different classes; ``score`` 0-1 and its ``grade``; ``reasons``: what lowers it, worst first."""

    correlation: float
    blocked_mape: float
    attributed: float
    disagreement: float
    score: float
    grade: Grade
    reasons: tuple[str, ...]


NO_TRUST = Trust(float("nan"), float("nan"), float("nan"), float("nan"), 0.0, "none", ("there is no CPU series",))

UNTESTED = Trust(
    float("nan"), float("nan"), float("nan"), float("nan"), 0.0, "none", ("too much data to test the fit",)
)


def blocked_error(
    x: np.ndarray, calls: np.ndarray | None, y: np.ndarray, seconds: np.ndarray, blocks: int = 5
) -> float:
    """Mean |(y - p)/y| over ``blocks`` consecutive parts, each predicted from the others (default estimate)."""
    rows = len(y)
    if rows < 2 * blocks:
        return float("nan")
    errors = []
    length = design.lengths(seconds)
    for part in np.array_split(np.arange(rows), blocks):
        rest = np.setdiff1d(np.arange(rows), part)
        costs = estimate.best(
            x[rest],
            calls[rest] if calls is not None else None,
            y[rest],
            seconds[rest],
            Recipe(draws=12, rounds=4, sampled=False),
        )
        predicted = costs.predict(x[part], calls[part] if calls is not None else None, length[part])
        fine = y[part] > 0
        errors.append(np.abs((y[part] - predicted) / np.where(fine, y[part], 1.0))[fine])
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
    broken: bool,
    doubtful: int,
) -> Trust:
    """The gauge. ``s``, ``y``: (T,); ``by_wlr``, ``by_default``: (J,) CPU per class; ``doubtful``: intervals left out."""
    total = float(y.sum())
    if not len(y) or total <= 0:
        return NO_TRUST
    correlation = float(np.corrcoef(s, y)[0, 1]) if len(y) > 2 and s.std() > 0 and y.std() > 0 else float("nan")
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
    if broken:
        mark(0.05, "costs changed within the window: both sides are fitted alone")
    rows = len(y)
    mark(min(doubtful / max(rows + doubtful, 1), 1) * 0.2, f"{doubtful} doubtful intervals are left out")
    mark(0.3 if rows < 20 else 0.1 if rows < 60 else 0.0, f"only {rows} intervals")
    reasons.sort(reverse=True)
    score = max(0.0, 1 - sum(penalty for penalty, _ in reasons))
    grade: Grade = "good" if score >= 0.75 else "fair" if score >= 0.5 else "poor"
    return Trust(correlation, blocked_mape, attributed, disagreement, score, grade, tuple(t for _, t in reasons))
