"""The default estimate: what each microsecond and each call of a class costs, fitted for all classes together.

The model is y = sum_j (b_j time_j + c_j calls_j) + background, nothing negative: parsing, planning and the protocol lie
outside the time that servers measure, so calls have a cost of their own. Where calls are known the data decide; where only
times are known, the costs of single classes are shrunk towards a common one (``shrinkage``). Outlying intervals are
down-weighted (Huber). See docs/models/query-profile.md, "The default estimator".
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from engine.query_profile.estimators.design import Costs, FitOptions, build_design, column_scale
from engine.query_profile.estimators.residuals import huber, weights
from engine.query_profile.estimators.shrinkage import fit_times
from engine.stats import nonnegative
from engine.stats.resampling import FEWEST_FITS, blocks


def global_ratio(x: np.ndarray, y: np.ndarray) -> Costs:
    """Give all classes one cost: sum y / sum x."""
    total = float(x.sum())
    cost = float(y.sum()) / total if total > 0 else 0.0
    return Costs(np.full(x.shape[1], cost), np.zeros(x.shape[1]), 0.0)


def ols(x: np.ndarray, y: np.ndarray) -> Costs:
    """Fit times by ordinary least squares with an intercept (minimum norm where classes cannot be told apart)."""
    design = build_design(x, None, np.full(len(y), np.nan))
    if not len(y):
        return design.costs(np.zeros(design.columns.shape[1]))
    scale = column_scale(design.columns)
    return design.costs(np.linalg.lstsq(design.columns / scale, y, rcond=1e-12)[0] / scale)


def nnls(x: np.ndarray, calls: np.ndarray | None, y: np.ndarray, seconds: np.ndarray) -> Costs:
    """Fit times (and calls) with a background by non-negative least squares on relative errors."""
    design = build_design(x, calls, seconds)
    if not len(y):
        return design.costs(np.zeros(design.columns.shape[1]))
    from scipy import optimize

    w = weights(y)
    a = design.columns * w[:, None]
    scale = column_scale(a)
    a, t = a / scale, y * w
    try:
        cost = optimize.nnls(a, t, maxiter=50 * a.shape[1])[0]
    except RuntimeError:  # no convergence: the normal equations with a little ridge do
        cost = nonnegative.solve(a.T @ a + 1e-9 * len(y) * np.eye(a.shape[1]), a.T @ t)
    return design.costs(cost / scale)


WORSE = 6
"""Power of the error in the weight of a bootstrap fit: one with twice the error of the best fit counts 2**6 times less."""

FEWEST = 4
"""Number of intervals below which nothing can be told apart: all classes get the same cost."""


def fit(x: np.ndarray, calls: np.ndarray | None, y: np.ndarray, seconds: np.ndarray, options: FitOptions) -> Costs:
    """Fit the default estimate: by time and calls where calls are known, else by time with shrinkage.

    ``x``, ``calls``: (T, J); ``y``, ``seconds``: (T,).
    """
    if len(y) < FEWEST or not (x > 0).any():
        return global_ratio(np.maximum(x, 0.0), y)
    if calls is not None and (calls > 0).any():
        return fit_times_and_calls(x, calls, y, seconds, options)
    return fit_times(x, y, seconds, options)


def fit_times_and_calls(
    x: np.ndarray, calls: np.ndarray, y: np.ndarray, seconds: np.ndarray, options: FitOptions
) -> Costs:
    """Fit times and calls by bagged non-negative regression.

    A class whose every call does the same work is described by its calls better than by its time (which contains
    waiting), one whose work varies better by its time; single fits jump between the two. The mean over block-bootstrap
    fits does not, and its spread is the uncertainty. Where intervals are few, a bootstrap fit may have wild costs for
    classes it hardly saw: fits that explain all the intervals worse count less.
    """
    design = build_design(x, calls, seconds)
    w = weights(y, 0.5)
    a0, t0 = design.columns * w[:, None], y * w
    scale = column_scale(a0)
    a0 = a0 / scale
    ridge = 1e-7 * len(y) * np.eye(a0.shape[1])
    row = np.ones(len(y))
    cost = None
    for _ in range(options.rounds):
        a = a0 * row[:, None]
        cost = nonnegative.solve(a.T @ a0 + ridge, a.T @ t0, cost)
        row = huber(t0 - a0 @ cost, 3.0)
    root = np.sqrt(row)
    grams, rights = blocks(a0 * root[:, None], t0 * root)
    count = len(grams)
    random = np.random.default_rng(options.seed)
    fits = np.empty((max(options.draws, FEWEST_FITS), a0.shape[1]))
    for i in range(len(fits)):
        times = random.multinomial(count, np.full(count, 1 / count))
        fits[i] = nonnegative.solve(np.tensordot(times, grams, 1) + ridge, times @ rights, cost)
    errors = np.array([np.abs(row * (t0 - a0 @ each)).sum() for each in fits])
    weight = (np.maximum(errors.min(), 1e-300) / np.maximum(errors, 1e-300)) ** WORSE
    fits /= scale
    costs = design.costs(np.average(fits, axis=0, weights=weight))
    return replace(costs, draws=design.totals(fits))
