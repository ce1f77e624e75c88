"""The plain methods that stand beside the default: one ratio for all, ordinary and non-negative least squares."""

from __future__ import annotations

import numpy as np

from engine.query_profile.estimators.design import Costs, design, split
from engine.query_profile.estimators.residuals import weights
from engine.stats import nonnegative


def global_ratio(x: np.ndarray, y: np.ndarray) -> Costs:
    """One cost for all: sum y / sum x."""
    total = float(x.sum())
    b = float(y.sum()) / total if total > 0 else 0.0
    return Costs("ratio", np.full(x.shape[1], b), np.zeros(x.shape[1]), 0.0, shared=b)


def ordinary(x: np.ndarray, y: np.ndarray, seconds: np.ndarray) -> Costs:
    """Ordinary least squares on times with an intercept (minimum norm where classes cannot be told apart)."""
    found = design(x, None, y, np.full(len(y), np.nan))
    scale = np.sqrt((found.columns**2).mean(axis=0)) if len(y) else np.ones(found.columns.shape[1])
    scale[scale == 0] = 1.0
    cost = np.linalg.lstsq(found.columns / scale, y, rcond=1e-12)[0] / scale if len(y) else np.zeros(len(scale))
    return split(found, cost, "ols")


def plain_nonnegative(x: np.ndarray, calls: np.ndarray | None, y: np.ndarray, seconds: np.ndarray) -> Costs:
    """Non-negative least squares on times (and calls) with a background, relative errors, nothing else."""
    found = design(x, calls, y, seconds)
    if not len(y):
        return split(found, np.zeros(found.columns.shape[1]), "nnls")
    from scipy.optimize import nnls

    w = weights(y)
    a = found.columns * w[:, None]
    scale = np.sqrt((a**2).mean(axis=0))
    scale[scale == 0] = 1.0
    try:
        cost = nnls(a / scale, y * w, maxiter=50 * a.shape[1])[0] / scale
    except RuntimeError:  # no convergence: the normal equations with a little ridge do
        g = (a / scale).T @ (a / scale)
        cost = nonnegative.solve(g + 1e-9 * len(y) * np.eye(len(g)), (a / scale).T @ (y * w)) / scale
    return split(found, cost, "nnls")
