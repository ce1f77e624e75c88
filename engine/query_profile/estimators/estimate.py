"""CPU per query class from all classes at once: what each microsecond and each call of a class costs.

The model is y = sum_j (b_j time_j + c_j calls_j) + background, nothing negative: parse, plan and protocol work lie outside
the time that servers measure, so calls carry a cost of their own. Where calls are known the data decide; where only
times are known, single classes are pulled towards a common cost as strongly as the data themselves suggest (marginal
likelihood), since times alone tell small classes apart badly. Outlying intervals are weighed down (Huber).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from engine.query_profile.estimators.design import Costs, Recipe, design, split
from engine.query_profile.estimators.least_squares import global_ratio
from engine.query_profile.estimators.residuals import huber, weights
from engine.query_profile.estimators.shrinkage import by_time
from engine.stats import nonnegative
from engine.stats.block_bootstrap import FEWEST_FITS, blocks

WORSE = 6
"""A bootstrap fit that misses all the intervals by twice as much as the best one counts 2 to this power less."""

FEWEST = 4
"""With fewer intervals nothing can be told apart: all classes get the same cost."""


def best(
    x: np.ndarray, calls: np.ndarray | None, y: np.ndarray, seconds: np.ndarray, recipe: Recipe | None = None
) -> Costs:
    """The default estimate: by time and calls where calls are known, else by time with shrinkage."""
    recipe = recipe or Recipe()
    if len(y) < FEWEST or not (x > 0).any():
        return replace(global_ratio(np.maximum(x, 0.0), y), method="default")
    if calls is not None and (calls > 0).any():
        return by_time_and_calls(x, calls, y, seconds, recipe)
    return by_time(x, y, seconds, recipe)


def by_time_and_calls(x: np.ndarray, calls: np.ndarray, y: np.ndarray, seconds: np.ndarray, recipe: Recipe) -> Costs:
    """Bagged non-negative regression on time and calls.

    A class whose every call does the same work is described by its calls better than by its time (which contains
    waiting), one whose work varies better by its time; single fits jump between the two. The mean over block-bootstrap
    fits does not, and its spread is the uncertainty. Where intervals are few, a bootstrap fit may hold wild costs for
    classes it hardly saw: fits that explain all the intervals worse count less.
    """
    found = design(x, calls, y, seconds)
    w = weights(y, 0.5)
    a0, t0 = found.columns * w[:, None], y * w
    scale = np.sqrt((a0**2).mean(axis=0))
    scale[scale == 0] = 1.0
    a0 = a0 / scale
    ridge = 1e-7 * len(y) * np.eye(a0.shape[1])
    row = np.ones(len(y))
    cost = None
    for _ in range(recipe.rounds):
        a = a0 * row[:, None]
        cost = nonnegative.solve(a.T @ a0 + ridge, a.T @ t0, cost)
        row = huber(t0 - a0 @ cost, 3.0)
    root = np.sqrt(row)
    grams, rights = blocks(a0 * root[:, None], t0 * root)
    count = len(grams)
    random = np.random.default_rng(recipe.seed)
    fits = np.empty((max(recipe.draws, FEWEST_FITS), a0.shape[1]))
    for i in range(len(fits)):
        times = random.multinomial(count, np.full(count, 1 / count))
        fits[i] = nonnegative.solve(np.tensordot(times, grams, 1) + ridge, times @ rights, cost)
    missed = np.array([np.abs(row * (t0 - a0 @ fit)).sum() for fit in fits])
    trust = (np.maximum(missed.min(), 1e-300) / np.maximum(missed, 1e-300)) ** WORSE
    fits /= scale
    mean = np.average(fits, axis=0, weights=trust)
    draws = np.stack([found.totals(fit) for fit in fits])
    spread = float(np.sqrt(np.mean((row * (t0 - (a0 * scale) @ mean)) ** 2)))
    costs = split(found, mean, "default")
    return Costs(costs.method, costs.time, costs.call, costs.background, draws, spread)
