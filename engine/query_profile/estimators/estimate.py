"""Fit the default estimate: CPU per microsecond and per call of each class, for all classes together.

The model is y = sum_j (b_j time_j + c_j calls_j) + background, nothing negative: parsing, planning and the protocol lie
outside the time that servers measure, so calls have a cost of their own. If only times are known, the costs of single
classes are shrunk towards a common one as strongly as the data suggest (``fit_times``), since times alone separate small
classes badly. Outlying intervals are
down-weighted (Huber). See docs/models/query-profile.md, "The default estimator".
"""

from __future__ import annotations

import math
from contextlib import suppress

import msgspec
import numpy as np

from engine.query_profile.estimators import posterior
from engine.query_profile.estimators.design import (
    BACKGROUND,
    TIME,
    USUAL_LIMIT,
    Costs,
    FitOptions,
    autocorrelation,
    best_limit,
    build_design,
    column_scale,
    gross_weights,
    huber,
    short_memory,
    weights,
    whiten,
)
from engine.stats import nonnegative
from engine.stats.significance import FEWEST_FITS, blocks

REWEIGHED = 3  # number of rounds after which the weights of the intervals are recomputed from the fit

MOST_STARTS = 100  # most bootstrap fits from which the chains of the posterior start

NOT_SEEN = 1e-14
"""Share of the sum of squares at or below which an eigenvalue is rounding: its direction is not determined by the data."""

FEW_ROWS_LIMIT = 9.0
"""Huber's limit if there are hardly more intervals than costs: only wild outliers are down-weighted."""

UNSIGNED = 0.2
"""Weight of a fit with costs of either sign in predictions of total CPU. Negative costs are meaningless for a class, but
the border at 0 biases sums: the mixture predicts left-out intervals of the public data better than either part."""

NORMAL = ((0.2, 0.45, 0.65, 0.9), (0.0, 0.35, 0.35, 0.0))
"""Weight of the fit with a normal prior in the attribution over the spread of costs relative to the common one (points of a
piecewise linear function); the rest is the posterior of the log-normal prior. Two priors are right more often than one, but
if costs are similar both agree and the posterior is more precise, and if they differ by factors the normal prior reaches
far below 0."""


def fit_times(
    x: np.ndarray,
    y: np.ndarray,
    seconds: np.ndarray,
    options: FitOptions,
    weight: np.ndarray | None = None,
    *,
    background: bool = True,
) -> Costs:
    """Fit times by non-negative regression, the costs of single classes shrunk towards a common one.

    First empirical Bayes: prior b_j ~ N(b0, tau^2) with one b0; the strength sigma^2/tau^2 maximises the marginal likelihood;
    the background is not shrunk. Errors correlated over a few intervals are whitened. This fit finds outliers, gives the
    predictive costs and starts the chains of the posterior (``posterior.sample``), whose mean and draws are the attribution.
    Without ``options.sample`` the first fit is the result. Without ``background`` the classes must explain everything.
    ``weight`` (T,): weights of the intervals, instead of 1/y.
    """
    design = build_design(x, None, seconds)
    if not background:
        design = msgspec.structs.replace(design, columns=np.where(design.role == BACKGROUND, 0.0, design.columns))
    own = design.role == TIME
    size = int(own.sum())
    if not size or not len(y):
        return design.costs(np.zeros(len(own)))
    w = weights(y) if weight is None else weight
    unit = float(np.median(y)) or 1.0
    a0, t0 = design.columns * w[:, None], y * w
    a0[:, -1] *= unit
    # a power of two changes no digit, and keeps squares of very large times finite
    top = 2.0 ** math.floor(math.log2(float(a0[:, :-1].max())))
    a0[:, :-1] /= top
    row = np.ones(len(y))
    cost: np.ndarray | None = None
    rho = 0.0
    limit = USUAL_LIMIT
    for step in range(options.rounds):
        a, t = _Weighted(a0, t0, row, rho).whitened()
        strengths = _evidence(a[:, :-1], a[:, -1], t)
        best = int(np.argmax(strengths.probability))
        lam, b0, sigma2 = (float(each[best]) for each in (strengths.lam, strengths.b0, strengths.sigma2))
        gram = a.T @ a
        right = a.T @ t
        gram[np.arange(size), np.arange(size)] += lam
        right[:size] += lam * b0
        gram[size, size] = gram[size, size] or 1.0  # without a background the system still has a solution
        cost = nonnegative.solve(gram, right, cost)
        fitted = a0 @ cost
        if step < REWEIGHED and weight is None and len(y) > 1.5 * size:
            # relative to the fitted, not the measured y: else low outliers and low errors would weigh more
            better = weights(fitted / w) / w
            w, fitted = w * better, fitted * better
            a0, t0 = a0 * better[:, None], t0 * better
        residual = t0 - fitted
        rho = short_memory(residual) if step < 3 else rho
        white = whiten(residual, rho)
        limit = best_limit(white) if step < 3 else limit
        row = huber(white, limit)
    assert cost is not None
    tau = math.sqrt(sigma2 / lam) if lam > 0 else 0.0
    unsigned = cost
    with suppress(np.linalg.LinAlgError):
        unsigned = np.linalg.solve(gram, right)
    predictive = (1 - UNSIGNED) * cost + UNSIGNED * unsigned
    predictive_by_class = np.zeros(design.classes)
    predictive_by_class[design.owner[own]] = predictive[:size] / top
    rescale = np.r_[np.full(size, 1 / top), unit]
    costs = msgspec.structs.replace(
        design.costs(cost * rescale), predictive=predictive_by_class, predictive_background=predictive[size] * unit
    )
    if not options.sample:
        return costs
    data = _Weighted(a0, t0, row, rho)
    fits = _disturbed(data, cost, strengths, options)
    draws = _posterior(data, cost, limit, (b0, tau), fits, options)
    if draws is None:
        draws = fits
    else:
        share = float(np.interp(tau / b0, *NORMAL)) if b0 > 0 else 0.0
        mixed = design.costs(((1 - share) * draws.mean(axis=0) + share * cost) * rescale)
        costs = msgspec.structs.replace(costs, time=mixed.time, background=mixed.background)
    return msgspec.structs.replace(costs, draws=design.totals(draws * rescale))


class _Weighted(msgspec.Struct, frozen=True):
    """Weighted columns ``a`` (T, P) and targets ``t`` (T,), robust weights ``row`` (T,), and the correlation ``rho`` of the
    errors of neighbouring intervals."""

    a: np.ndarray
    t: np.ndarray
    row: np.ndarray
    rho: float

    def whitened(self) -> tuple[np.ndarray, np.ndarray]:
        """Return columns and targets with robust weights and uncorrelated errors."""
        root = np.sqrt(self.row)
        return whiten(self.a, self.rho) * root[:, None], whiten(self.t, self.rho) * root


def _disturbed(data: _Weighted, cost: np.ndarray, strengths: _Strengths, options: FitOptions) -> np.ndarray:
    """Compute the fits (B, P) of a posterior bootstrap: blocks of intervals are resampled, prior means disturbed by tau, the
    strength of the prior drawn by its likelihood."""
    size = data.a.shape[1] - 1
    grams, rights = blocks(*data.whitened(), autocorrelation(whiten(data.t - data.a @ cost, data.rho), 3))
    count = len(grams)
    random = np.random.default_rng(options.seed)
    fits = np.empty((int(np.clip(options.draws, FEWEST_FITS, MOST_STARTS)), size + 1))
    pull = np.zeros(size + 1)
    for i, pick in enumerate(random.choice(len(strengths.lam), len(fits), p=strengths.probability)):
        times = random.multinomial(count, np.full(count, 1 / count))
        lam, spread = strengths.lam[pick], math.sqrt(strengths.sigma2[pick] / strengths.lam[pick])
        pull[:size] = lam * (strengths.b0[pick] + spread * random.standard_normal(size))
        gram = (times @ grams.reshape(count, -1)).reshape(grams.shape[1:])
        gram[np.arange(size), np.arange(size)] += lam
        gram[size, size] = gram[size, size] * (1 + 1e-9) or 1.0
        fits[i] = nonnegative.solve(gram, times @ rights + pull, cost)
    return fits


def _posterior(
    data: _Weighted, cost: np.ndarray, limit: float, prior: tuple[float, float], fits: np.ndarray, options: FitOptions
) -> np.ndarray | None:
    """Draw costs (N, P) from the posterior; None where numbers are out of range for it. ``limit``: Huber's; ``prior``: b0 and
    tau of the first fit; ``fits`` (B, P): where chains start."""
    row, rho = data.row, data.rho
    residual = data.t - data.a @ cost
    if len(residual) < 1.5 * len(cost):
        # residuals of this few intervals are always small: they say nothing about tails and memory
        rho, limit, white = 0.0, FEW_ROWS_LIMIT, residual
        row = huber(residual, limit)
    else:
        white = whiten(residual, rho)
        if limit < USUAL_LIMIT:
            # the limit that predicts best with heavy tails discards too much of what separates classes
            limit, row = USUAL_LIMIT, huber(white, USUAL_LIMIT)
        row = row * gross_weights(white)
    clip = limit * 1.4826 * float(np.median(np.abs(white)))
    spread2 = float((np.clip(white, -clip, clip) ** 2).mean())
    inside = max(float((np.abs(white) < clip).mean()), 0.05)
    weighted = float((row * white**2).mean())
    scatter = math.sqrt(row.mean() * spread2 / weighted) / inside if weighted > 0 and spread2 > 0 else 1.0
    total = float(data.a[:, :-1].sum())
    common = max(prior[0], 0.05 * float(data.t.sum()) / total) if total > 0 else 1.0
    if not common > 0:  # no CPU, or negative: there is no log cost to draw
        return None
    spread = float(np.clip(math.sqrt(math.log1p((prior[1] / common) ** 2)), 0.1, 2.0))
    start = posterior.Start(fits, common, spread, max(math.sqrt(spread2), 0.003))
    try:
        with np.errstate(over="ignore", invalid="ignore"):
            a, t = msgspec.structs.replace(data, row=row, rho=rho).whitened()
            draws = posterior.sample(
                a, t, start, draws=max(options.draws, FEWEST_FITS), seed=options.seed, scatter=scatter
            )
    except (np.linalg.LinAlgError, ValueError, OverflowError):
        return None
    if not data.a[:, -1].any():  # no background: nothing bounds its draws
        draws[:, -1] = 0.0
    return draws if np.isfinite(draws).all() else None


class _Strengths(msgspec.Struct, frozen=True):
    """A grid of shrinkage strengths ``lam`` = sigma^2/tau^2 with prior mean, sigma^2 and probability of each."""

    lam: np.ndarray
    b0: np.ndarray
    sigma2: np.ndarray
    probability: np.ndarray


def _evidence(a: np.ndarray, background: np.ndarray, t: np.ndarray) -> _Strengths:
    """Compute the marginal likelihood of each shrinkage strength (flat prior on its logarithm).

    The background is projected out; b0 by generalised least squares; lambda on a log grid through one decomposition. With
    a = U diag(s) V', every quadratic form in (I + a a'/lambda)^-1 is a sum of non-negative terms; differences of large sums
    would leave only rounding where columns are (nearly) copies of each other.
    """
    norm = float(background @ background)
    unit = background / np.sqrt(norm) if norm > 0 else background
    ap = a - np.outer(unit, unit @ a)
    tp = t - unit * float(unit @ t)
    values, vectors = np.linalg.eigh(ap.T @ ap)
    size = float((a * a).sum())
    known = values > NOT_SEEN * size
    values, vectors = values[known], vectors[:, known]
    # t and the sum of all columns along the directions U of the columns
    along_t = (vectors.T @ (ap.T @ tp)) / np.sqrt(values)
    along_u = vectors.sum(axis=0) * np.sqrt(values)
    outside = max(float(tp @ tp) - float(along_t @ along_t), 0.0)
    rows = max(len(t) - 1, 1)
    lam = max(float(values.max(initial=0.0)), NOT_SEEN * size) * np.exp(np.linspace(np.log(1e-12), np.log(1.0), 57))
    left = lam[:, None] / (values[None, :] + lam[:, None])
    a_uu, a_tu = left @ along_u**2, left @ (along_u * along_t)
    summed = a.sum(axis=1)
    if float(along_u @ along_u) > NOT_SEEN * float(summed @ summed):
        b0 = np.maximum(a_tu / a_uu, 0.0)
    else:  # total time is the same in every interval: its cost cannot be told from a background
        b0 = np.full(len(lam), max(float(summed @ t) / float(summed @ summed), 0.0))
    sigma2 = np.maximum((outside + (left * (along_t - b0[:, None] * along_u) ** 2).sum(axis=1)) / rows, 1e-300)
    likelihood = -0.5 * rows * np.log(sigma2) - 0.5 * np.log1p(values[None, :] / lam[:, None]).sum(axis=1)
    relative = np.exp(likelihood - likelihood.max())
    return _Strengths(lam, b0, sigma2, relative / relative.sum())


def global_ratio(x: np.ndarray, y: np.ndarray) -> Costs:
    """Give all classes one cost: sum y / sum x."""
    total = float(x.sum())
    return Costs(np.full(x.shape[1], float(y.sum()) / total if total > 0 else 0.0), np.zeros(x.shape[1]), 0.0)


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
    from engine.stats.compiled import nnls as solve

    w = weights(y)
    a = design.columns * w[:, None]
    scale = column_scale(a)
    a, t = a / scale, y * w
    try:
        cost = solve(a, t, maxiter=50 * a.shape[1])[0]
    except RuntimeError:  # no convergence: solve the normal equations with a little ridge
        cost = nonnegative.solve(a.T @ a + 1e-9 * len(y) * np.eye(a.shape[1]), a.T @ t)
    return design.costs(cost / scale)


WORSE = 6
"""Power of the error in the weight of a bootstrap fit: one with twice the error of the best fit counts 2**6 times less."""

FEWEST = 4  # fewest intervals that can separate classes; with fewer, all classes get the same cost


def fit(x: np.ndarray, calls: np.ndarray | None, y: np.ndarray, seconds: np.ndarray, options: FitOptions) -> Costs:
    """Fit the default estimate: by time and calls where calls are known, else by time with shrinkage.

    ``x``, ``calls``: (T, J); ``y``, ``seconds``: (T,).
    """
    if len(y) < FEWEST or not (x > 0).any():
        return global_ratio(np.maximum(x, 0.0), y)
    return (
        fit_times(x, y, seconds, options)
        if calls is None or not (calls > 0).any()
        else fit_times_and_calls(x, calls, y, seconds, options)
    )


def fit_times_and_calls(
    x: np.ndarray, calls: np.ndarray, y: np.ndarray, seconds: np.ndarray, options: FitOptions
) -> Costs:
    """Fit times and calls by bagged non-negative regression.

    Calls describe a class with equal work per call better than its time does (time contains waiting); time describes
    varying work better. Single fits jump between the two; the mean over block-bootstrap fits does not, and their spread is
    the uncertainty. With few intervals a bootstrap fit may have wild costs for classes it hardly saw, so fits that explain
    all intervals worse count less.
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
    sums = design.columns.sum(axis=0)
    for group in design.inseparable():
        # all that the group used may belong to any one of its columns
        takers = random.choice(np.flatnonzero(group), len(fits))
        used = fits[:, group] @ sums[group]
        fits[:, group] = 0.0
        fits[np.arange(len(fits)), takers] = used / sums[takers]
    return msgspec.structs.replace(costs, draws=design.totals(fits))
