"""The plain methods beside the default one: global ratio, ordinary and non-negative least squares."""

from __future__ import annotations

import numpy as np

from engine.query_profile.estimators.design import Costs, build_design
from engine.query_profile.estimators.residuals import weights
from engine.stats import nonnegative as normal_equations


def global_ratio(x: np.ndarray, y: np.ndarray) -> Costs:
    """Give all classes one cost: sum y / sum x."""
    total = float(x.sum())
    cost = float(y.sum()) / total if total > 0 else 0.0
    return Costs(np.full(x.shape[1], cost), np.zeros(x.shape[1]), 0.0)


def ordinary(x: np.ndarray, y: np.ndarray) -> Costs:
    """Fit times by ordinary least squares with an intercept (minimum norm where classes cannot be told apart)."""
    design = build_design(x, None, np.full(len(y), np.nan))
    if not len(y):
        return design.costs(np.zeros(design.columns.shape[1]))
    scale = column_scale(design.columns)
    return design.costs(np.linalg.lstsq(design.columns / scale, y, rcond=1e-12)[0] / scale)


def nonnegative(x: np.ndarray, calls: np.ndarray | None, y: np.ndarray, seconds: np.ndarray) -> Costs:
    """Fit times (and calls) with a background by non-negative least squares on relative errors."""
    design = build_design(x, calls, seconds)
    if not len(y):
        return design.costs(np.zeros(design.columns.shape[1]))
    from scipy.optimize import nnls

    w = weights(y)
    a = design.columns * w[:, None]
    scale = column_scale(a)
    a, t = a / scale, y * w
    try:
        cost = nnls(a, t, maxiter=50 * a.shape[1])[0]
    except RuntimeError:  # no convergence: the normal equations with a little ridge do
        cost = normal_equations.solve(a.T @ a + 1e-9 * len(y) * np.eye(a.shape[1]), a.T @ t)
    return design.costs(cost / scale)


def column_scale(columns: np.ndarray) -> np.ndarray:
    """Return the root mean square (P,) of each column, 1 for one of zeros."""
    scale = np.sqrt((columns**2).mean(axis=0))
    return np.where(scale == 0, 1.0, scale)
