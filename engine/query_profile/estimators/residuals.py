"""What intervals say: how much each weighs, which are outliers, and whether neighbours hang together."""

from __future__ import annotations

import math

import numpy as np

FLOOR = 0.05
"""Weights go with 1/y, but not below this share of the median y."""


def weights(y: np.ndarray, power: float = 1.0) -> np.ndarray:
    """Row weights (T,): errors grow with y to ``power``. Scaled so that the median row weighs 1/median y."""
    median = float(np.median(y)) if len(y) else 1.0
    median = median if median > 0 else max(float(y.max(initial=0.0)), 1.0)
    return np.asarray(np.maximum(y, FLOOR * median) ** -power * median ** (power - 1))


def robust_scale(residual: np.ndarray) -> float:
    """Standard deviation of normal residuals (T,) by the median absolute deviation."""
    return 1.4826 * float(np.median(np.abs(residual - np.median(residual)))) if len(residual) else 0.0


def huber(residual: np.ndarray, k: float) -> np.ndarray:
    """Huber weights (T,) of residuals, scale by the median absolute deviation."""
    scale = robust_scale(residual)
    if scale <= 0:
        return np.ones(len(residual))
    return np.asarray(np.minimum(1.0, k * scale / np.maximum(np.abs(residual), 1e-300)))


GROSS = 5.0
"""Robust standard deviations from which an interval loses more than Huber's limit takes; at twice as many it says nothing."""

USUAL_LIMIT = 1.345
"""Huber's limit with which normal errors lose 5 % of what they say."""

LIMITS = (0.4, 0.7, 1.0, 1.345, 2.0)
"""Huber limits that may be chosen: from almost least absolute errors to almost least squares."""


def trusted(residual: np.ndarray) -> np.ndarray:
    """What is left (T,), 0-1, of an interval whose residual is gross: something was at work that is no class."""
    scale = robust_scale(residual)
    if scale <= 0:
        return np.ones(len(residual))
    return np.asarray(np.clip(2 - np.abs(residual) / (GROSS * scale), 0.0, 1.0) ** 2)


def tuned(residual: np.ndarray) -> float:
    """The smallest of ``LIMITS`` whose estimated variance E[psi^2] / E[psi']^2 is about the best: errors with heavy tails
    get a small one, normal errors a large one."""
    scale = robust_scale(residual)
    if scale <= 0:
        return 1.345
    u = residual / scale
    variances = [float((np.clip(u, -k, k) ** 2).mean()) / max(float((np.abs(u) < k).mean()), 1e-3) ** 2 for k in LIMITS]
    return next((k for k, v in zip(LIMITS, variances, strict=True) if v <= 1.06 * min(variances)), USUAL_LIMIT)


def lagged(residual: np.ndarray, lag: int) -> float:
    """Correlation of residuals ``lag`` intervals apart, outliers clipped."""
    if len(residual) <= 4 * lag:
        return 0.0
    limit = 4 * float(np.median(np.abs(residual)))
    clipped = np.clip(residual, -limit, limit)
    if clipped[lag:].std() <= 0 or clipped[:-lag].std() <= 0:
        return 0.0
    return float(np.corrcoef(clipped[lag:], clipped[:-lag])[0, 1])


def short_memory(residual: np.ndarray) -> float:
    """The part of the residuals' correlation that is gone after a few intervals, 0-0.8. It is noise, and taking it out
    makes the estimate sharper; slow drift is a misfit, and taking differences would only enlarge it."""
    return float(np.clip(lagged(residual, 1) - max(lagged(residual, 3), 0.0), 0.0, 0.8))


def whiten(rows: np.ndarray, rho: float) -> np.ndarray:
    """Rows (T, ...) less ``rho`` times the row before (Prais and Winsten)."""
    if rho == 0 or not len(rows):
        return rows
    out = rows.copy()
    out[1:] -= rho * rows[:-1]
    out[0] *= math.sqrt(1 - rho * rho)
    return out
