"""Weights of intervals from their residuals: outliers are down-weighted, and correlated errors are whitened."""

from __future__ import annotations

import math

import numpy as np

FLOOR = 0.05
"""Share of the median y below which the weight of an interval does not grow further."""

GROSS = 5.0
"""Robust standard deviations from which an interval is down-weighted beyond Huber; at twice as many its weight is 0."""

USUAL_LIMIT = 1.345
"""Huber's limit in robust standard deviations at which normal errors lose 5 % of their information."""

LIMITS = (0.4, 0.7, 1.0, USUAL_LIMIT, 2.0)
"""Huber limits to choose from: from almost least absolute errors to almost least squares."""


def weights(y: np.ndarray, power: float = 1.0) -> np.ndarray:
    """Return row weights (T,) for errors that grow with y to ``power``, scaled so that the median row weighs 1/median y."""
    median = float(np.median(y)) if len(y) else 1.0
    median = median if median > 0 else max(float(y.max(initial=0.0)), 1.0)
    return np.asarray(np.maximum(y, FLOOR * median) ** -power * median ** (power - 1))


def robust_scale(residual: np.ndarray) -> float:
    """Estimate the standard deviation of normal residuals (T,) by the median absolute deviation."""
    return 1.4826 * float(np.median(np.abs(residual - np.median(residual)))) if len(residual) else 0.0


def huber(residual: np.ndarray, limit: float) -> np.ndarray:
    """Return Huber weights (T,) of residuals; ``limit`` in robust standard deviations."""
    scale = robust_scale(residual)
    if scale <= 0:
        return np.ones(len(residual))
    return np.asarray(np.minimum(1.0, limit * scale / np.maximum(np.abs(residual), 1e-300)))


def gross_weights(residual: np.ndarray) -> np.ndarray:
    """Return weights (T,) in [0, 1] that drop intervals with a gross residual: something was at work that is no class.

    What most intervals have is not gross, however alike their residuals are: all weigh 1 then.
    """
    scale = robust_scale(residual)
    if scale <= 0:
        return np.ones(len(residual))
    weight = np.asarray(np.clip(2 - np.abs(residual) / (GROSS * scale), 0.0, 1.0) ** 2)
    return weight if 2 * np.count_nonzero(weight) > len(weight) else np.ones(len(weight))


def best_limit(residual: np.ndarray) -> float:
    """Return the smallest of ``LIMITS`` whose estimated variance E[psi^2] / E[psi']^2 is within 6 % of the best: a small one
    for errors with heavy tails, a large one for normal errors."""
    scale = robust_scale(residual)
    if scale <= 0:
        return USUAL_LIMIT
    u = residual / scale
    variances = [float((np.clip(u, -k, k) ** 2).mean()) / max(float((np.abs(u) < k).mean()), 1e-3) ** 2 for k in LIMITS]
    return next((k for k, v in zip(LIMITS, variances, strict=True) if v <= 1.06 * min(variances)), USUAL_LIMIT)


def correlation(one: np.ndarray, other: np.ndarray) -> float:
    """Return the correlation of two series (T,); NaN where either does not vary."""
    if len(one) < 2 or not (one.std() > 0 and other.std() > 0):
        return math.nan
    with np.errstate(invalid="ignore", divide="ignore"):  # what varies by rounding only
        return float(np.corrcoef(one, other)[0, 1])


def autocorrelation(residual: np.ndarray, lag: int) -> float:
    """Return the correlation of residuals ``lag`` intervals apart, outliers clipped; 0 for too few."""
    if len(residual) <= 4 * lag:
        return 0.0
    limit = 4 * float(np.median(np.abs(residual)))
    clipped = np.clip(residual, -limit, limit)
    return float(np.nan_to_num(correlation(clipped[lag:], clipped[:-lag])))


def short_memory(residual: np.ndarray) -> float:
    """Return the part (0-0.8) of the residuals' autocorrelation that is gone after three intervals.

    It is noise, and whitening it makes the estimate sharper; slow drift is a misfit, and differences would only enlarge it.
    """
    return float(np.clip(autocorrelation(residual, 1) - max(autocorrelation(residual, 3), 0.0), 0.0, 0.8))


def whiten(rows: np.ndarray, rho: float) -> np.ndarray:
    """Subtract ``rho`` times the row before from each of ``rows`` (T, ...) (Prais and Winsten)."""
    if rho == 0 or not len(rows):
        return rows
    out = rows.copy()
    out[1:] -= rho * rows[:-1]
    out[0] *= math.sqrt(1 - rho * rho)
    return out
