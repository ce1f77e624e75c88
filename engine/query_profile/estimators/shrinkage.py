"""Costs where only times are known: single classes are pulled towards a common cost as strongly as the data themselves
suggest (marginal likelihood), since times alone tell small classes apart badly."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from engine.query_profile.estimators import posterior
from engine.query_profile.estimators.design import Costs, Recipe, design, split
from engine.query_profile.estimators.residuals import (
    USUAL_LIMIT,
    huber,
    lagged,
    short_memory,
    trusted,
    tuned,
    weights,
    whiten,
)
from engine.stats import nonnegative
from engine.stats.block_bootstrap import FEWEST_FITS, blocks

REWEIGHED = 3
"""Rounds of the fit on times after which the weights of the intervals are set anew."""

MOST_STARTS = 100
"""Bootstrap fits of which the chains of the posterior begin, at most."""

UNSIGNED = 0.2
"""Part of a fit with costs of either sign in predictions of total CPU. Costs below 0 mean nothing for a class, but the
border at 0 biases sums: the mixture predicts left-out intervals of the public data better than both its parts."""

NORMAL = ((0.2, 0.45, 0.65, 0.9), (0.0, 0.35, 0.35, 0.0))
"""Part of the fit with a normal prior in the attribution, by the spread of costs relative to the common one; the rest is
the posterior of the log-normal one. Two priors are right more often than one. But where costs are much alike, both say
the same, and the posterior says it better; where they differ by factors, the normal one reaches far below 0."""


def by_time(
    x: np.ndarray,
    y: np.ndarray,
    seconds: np.ndarray,
    recipe: Recipe,
    weight: np.ndarray | None = None,
    *,
    background: bool = True,
) -> Costs:
    """Non-negative regression on times, single classes pulled towards a common cost.

    First empirical Bayes: prior b_j ~ N(b0, tau^2) with one b0; the strength sigma^2/tau^2 has the largest marginal
    likelihood; the background is not pulled. Errors that hang together for a few intervals are whitened. It says which
    intervals are outliers, what to predict with, and where the chains of the posterior (``posterior.sample``) begin,
    whose mean and draws are the attribution. Without ``recipe.sampled`` the first is the result. Without ``background``
    classes are to explain everything. ``weight`` (T,): of the intervals, instead of 1/y.
    """
    found = design(x, None, y, seconds)
    if not background:
        found = replace(found, columns=np.where(found.role == 2, 0.0, found.columns))
    own = found.role == 0
    size = int(own.sum())
    if not size or not len(y):
        return split(found, np.zeros(len(own)), "default")
    w = weights(y, recipe.power) if weight is None else weight
    unit = float(np.median(y)) or 1.0
    a0, t0 = found.columns * w[:, None], y * w
    a0[:, -1] *= unit
    # a power of two changes no digit, and keeps squares of very large times finite
    top = 2.0 ** math.floor(math.log2(float(a0[:, :-1].max())))
    a0[:, :-1] /= top
    row = np.ones(len(y))
    cost: np.ndarray | None = None
    lam = b0 = sigma2 = rho = 0.0
    strengths = _Strengths(*np.ones((4, 1)))
    k = recipe.k
    gram = np.zeros((size + 1, size + 1))
    right = np.zeros(size + 1)
    for step in range(recipe.rounds):
        root = np.sqrt(row)
        a, t = whiten(a0, rho) * root[:, None], whiten(t0, rho) * root
        strengths = _evidence(a[:, :-1], a[:, -1], t)
        lam, b0, sigma2 = strengths.best()
        gram = a.T @ a
        right = a.T @ t
        gram[np.arange(size), np.arange(size)] += lam
        right[:size] += lam * b0
        gram[size, size] = gram[size, size] or 1.0  # without a background the system still has a solution
        cost = nonnegative.solve(gram, right, cost)
        fitted = a0 @ cost
        if step < REWEIGHED and weight is None and len(y) > 1.5 * size:
            # errors are relative to what is expected: relative to what came, low outliers and low errors would weigh more
            better = weights(fitted / w, recipe.power) / w
            w, fitted = w * better, fitted * better
            a0, t0 = a0 * better[:, None], t0 * better
        residual = t0 - fitted
        if step < 3:
            rho = short_memory(residual)
            k = tuned(whiten(residual, rho))
        row = huber(whiten(residual, rho), k)
    assert cost is not None
    tau = math.sqrt(sigma2 / lam) if lam > 0 else 0.0
    ahead = (1 - UNSIGNED) * cost + UNSIGNED * _unsigned(gram, right, cost)
    back = np.r_[np.full(size, 1 / top), unit]
    costs = split(found, cost * back, "default")
    ahead_by_class = np.zeros(found.classes)
    ahead_by_class[found.owner[own]] = ahead[:size] / top
    costs = replace(
        costs,
        sigma=math.sqrt(sigma2),
        shared=b0 / top,
        spread=tau / top,
        ahead=ahead_by_class,
        ahead_background=ahead[size] * unit,
    )
    if not recipe.sampled:
        return costs
    fits = _disturbed(a0, t0, cost, row, rho, strengths, recipe)
    drawn = _posterior(a0, t0, cost, row, rho, k, (b0, tau), fits, recipe)
    if drawn is None:
        drawn = fits
    else:
        share = float(np.interp(tau / b0, *NORMAL)) if b0 > 0 else 0.0
        better = split(found, ((1 - share) * drawn.mean(axis=0) + share * cost) * back, "default")
        costs = replace(costs, time=better.time, background=better.background)
    return replace(costs, draws=np.stack([found.totals(fit * back) for fit in drawn]))


def _unsigned(gram: np.ndarray, right: np.ndarray, cost: np.ndarray) -> np.ndarray:
    """The same shrunk fit with costs of either sign (P,)."""
    try:
        return np.linalg.solve(gram, right)
    except np.linalg.LinAlgError:
        return cost


def _disturbed(
    a0: np.ndarray, t0: np.ndarray, cost: np.ndarray, row: np.ndarray, rho: float, strengths: _Strengths, recipe: Recipe
) -> np.ndarray:
    """Fits (B, P) of a posterior bootstrap: blocks of intervals drawn again, prior means disturbed by tau, the strength
    itself drawn by its likelihood."""
    size = a0.shape[1] - 1
    root = np.sqrt(row)
    grams, rights = blocks(
        whiten(a0, rho) * root[:, None], whiten(t0, rho) * root, lagged(whiten(t0 - a0 @ cost, rho), 3)
    )
    count = len(grams)
    random = np.random.default_rng(recipe.seed)
    fits = np.empty((int(np.clip(recipe.draws, FEWEST_FITS, MOST_STARTS)), size + 1))
    pull = np.zeros(size + 1)
    picks = random.choice(len(strengths.lam), len(fits), p=strengths.probability)
    for i, pick in enumerate(picks):
        times = random.multinomial(count, np.full(count, 1 / count))
        lam, spread = strengths.lam[pick], math.sqrt(strengths.sigma2[pick] / strengths.lam[pick])
        pull[:size] = lam * (strengths.b0[pick] + spread * random.standard_normal(size))
        gram = np.tensordot(times, grams, 1)
        gram[np.arange(size), np.arange(size)] += lam
        gram[size, size] = gram[size, size] * (1 + 1e-9) or 1.0
        fits[i] = nonnegative.solve(gram, times @ rights + pull, cost)
    return fits


def _posterior(
    a0: np.ndarray,
    t0: np.ndarray,
    cost: np.ndarray,
    row: np.ndarray,
    rho: float,
    k: float,
    prior: tuple[float, float],
    fits: np.ndarray,
    recipe: Recipe,
) -> np.ndarray | None:
    """Draws (N, P) of the costs, or None where numbers are too wild for it; ``prior``: b0 and tau of the first fit."""
    residual = t0 - a0 @ cost
    if len(t0) < 1.5 * len(cost):
        # residuals of so few intervals are small whatever the errors are: they say nothing about tails and memory
        rho, k, white = 0.0, 9.0, residual
        row = huber(residual, 9.0)
    else:
        white = whiten(residual, rho)
        if k < USUAL_LIMIT:
            # what predicts best with heavy tails throws away too much of what tells classes apart
            k, row = USUAL_LIMIT, huber(white, USUAL_LIMIT)
        row = row * trusted(white)
    limit = k * 1.4826 * float(np.median(np.abs(white)))
    spread2 = float((np.clip(white, -limit, limit) ** 2).mean())
    inside = max(float((np.abs(white) < limit).mean()), 0.05)
    weighted = float((row * white**2).mean())
    scatter = math.sqrt(row.mean() * spread2 / weighted) / inside if weighted > 0 and spread2 > 0 else 1.0
    root = np.sqrt(row)
    total = float(a0[:, :-1].sum())
    shared = max(prior[0], 0.05 * float(t0.sum()) / total) if total > 0 else 1.0
    if not shared > 0:  # no CPU at all, or less than none: there is no log cost to draw
        return None
    start = posterior.Start(
        fits, shared, float(np.clip(math.sqrt(math.log1p((prior[1] / shared) ** 2)), 0.1, 2.0)),
        max(math.sqrt(spread2), 0.003),
    )  # fmt: skip
    try:
        with np.errstate(over="ignore", invalid="ignore"):
            drawn = posterior.sample(
                whiten(a0, rho) * root[:, None], whiten(t0, rho) * root, start,
                draws=max(recipe.draws, FEWEST_FITS), seed=recipe.seed, scatter=scatter,
            )  # fmt: skip
    except (np.linalg.LinAlgError, ValueError, OverflowError):
        return None
    if not a0[:, -1].any():  # no background: nothing holds its draws
        drawn[:, -1] = 0.0
    return drawn if np.isfinite(drawn).all() else None


@dataclass(frozen=True)
class _Strengths:
    """Grid of shrinkage strengths ``lam`` = sigma^2/tau^2 with prior mean, sigma^2 and probability of each."""

    lam: np.ndarray
    b0: np.ndarray
    sigma2: np.ndarray
    probability: np.ndarray

    def best(self) -> tuple[float, float, float]:
        i = int(np.argmax(self.probability))
        return float(self.lam[i]), float(self.b0[i]), float(self.sigma2[i])


def _evidence(a: np.ndarray, background: np.ndarray, t: np.ndarray) -> _Strengths:
    """Marginal likelihood of each shrinkage strength (flat prior on its logarithm).

    The background is projected out; b0 by generalised least squares; lambda on a log grid through one decomposition.
    """
    norm = float(background @ background)
    unit = background / np.sqrt(norm) if norm > 0 else background
    ap = a - np.outer(unit, unit @ a)
    tp = t - unit * float(unit @ t)
    together = ap.sum(axis=1)
    values, vectors = np.linalg.eigh(ap.T @ ap)
    values = np.maximum(values, 0.0)
    vt, vu = vectors.T @ (ap.T @ tp), vectors.T @ (ap.T @ together)
    tt, uu, tu = float(tp @ tp), float(together @ together), float(tp @ together)
    rows = max(len(t) - 1, 1)
    lam = np.maximum(values.max(), 1e-200) * np.exp(np.linspace(np.log(1e-12), np.log(1.0), 57))
    shrink = 1.0 / (values[None, :] + lam[:, None])
    a_uu = uu - (shrink * vu**2).sum(axis=1)
    a_tu = tu - (shrink * vu * vt).sum(axis=1)
    a_tt = tt - (shrink * vt**2).sum(axis=1)
    b0 = np.maximum(a_tu / np.maximum(a_uu, 1e-300), 0.0)
    sigma2 = np.maximum((a_tt - 2 * b0 * a_tu + b0**2 * a_uu) / rows, 1e-300)
    likelihood = -0.5 * rows * np.log(sigma2) - 0.5 * np.log1p(values[None, :] / lam[:, None]).sum(axis=1)
    chance = np.exp(likelihood - likelihood.max())
    return _Strengths(lam, b0, sigma2, chance / chance.sum())
