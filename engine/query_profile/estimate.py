"""CPU per query class from all classes at once: what each microsecond and each call of a class costs.

The model is y = sum_j (b_j time_j + c_j calls_j) + background, nothing negative: parse, plan and protocol work lie outside
the time that servers measure, so calls carry a cost of their own. Where calls are known the data decide; where only
times are known, single classes are pulled towards a common cost as strongly as the data themselves suggest (marginal
likelihood), since times alone tell small classes apart badly. Outlying intervals are weighed down (Huber).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import numpy as np

from engine.query_profile import nonnegative, posterior

FLOOR = 0.05
"""Weights go with 1/y, but not below this share of the median y."""


SLOW = 0.15
"""Correlation of residuals three intervals apart from which errors count as slow drift."""

MOST_BYTES = 100e6
"""Memory for the block sums of the bootstrap."""

FEWEST_FITS = 24
"""A mean over fewer bootstrap fits still jumps, so as many are made even where no intervals are wanted."""

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

FEWEST = 4
"""With fewer intervals nothing can be told apart: all classes get the same cost."""


@dataclass(frozen=True)
class Design:
    """What a fit is made on: ``columns`` (T, P) of which ``owner`` (P,) names the class of each (-1: background), and
    ``role`` (P,) what it counts: 0 time, 1 calls, 2 background. ``y`` (T,)."""

    columns: np.ndarray
    owner: np.ndarray
    role: np.ndarray
    y: np.ndarray
    classes: int

    def totals(self, cost: np.ndarray) -> np.ndarray:
        """CPU per class (classes,) for the costs (P,)."""
        own = self.owner >= 0
        return np.bincount(
            self.owner[own], weights=(self.columns.sum(axis=0) * cost)[own], minlength=self.classes
        )  # fmt: skip


@dataclass(frozen=True)
class Costs:
    """Costs of one method. ``time`` (J,) CPU us per us of elapsed time, ``call`` (J,) CPU us per call, ``background`` CPU
    us per interval of usual length; ``draws`` (B, J) CPU totals of the bootstrap, empty where the method has none."""

    method: str
    time: np.ndarray
    call: np.ndarray
    background: float
    draws: np.ndarray = field(default_factory=lambda: np.zeros((0, 0)))
    sigma: float = float("nan")
    shared: float = float("nan")
    """Cost that an unknown class would be given (prior mean)."""
    spread: float = float("nan")
    """How far single classes may lie from it (prior standard deviation)."""
    ahead: np.ndarray | None = None
    """(J,) costs per time that predict other intervals best (some below 0), where they are not ``time``."""
    ahead_background: float = 0.0

    def explained(self, x: np.ndarray, calls: np.ndarray | None, length: np.ndarray) -> np.ndarray:
        """CPU (T,) of intervals by the costs of the classes; ``length`` (T,) relative to the usual one."""
        row = np.maximum(x, 0) @ self.time + self.background * length
        return np.asarray(row if calls is None else row + np.maximum(calls, 0) @ self.call)

    def predict(self, x: np.ndarray, calls: np.ndarray | None, length: np.ndarray) -> np.ndarray:
        """CPU (T,) of other intervals."""
        explained = self.explained(x, calls, length)
        if self.ahead is None:
            return explained
        better = np.maximum(x, 0) @ self.ahead + self.ahead_background * length
        return np.asarray(np.clip(better, 0.5 * explained, 2 * explained))


def lengths(seconds: np.ndarray) -> np.ndarray:
    """Background column: interval lengths relative to the usual one; ones where they are not known."""
    known = np.isfinite(seconds) & (seconds > 0)
    if not known.all() or not len(seconds):
        return np.ones(len(seconds))
    return np.asarray(seconds / np.median(seconds))


def design(x: np.ndarray, calls: np.ndarray | None, y: np.ndarray, seconds: np.ndarray) -> Design:
    """The design of all classes that did anything in these intervals."""
    classes = x.shape[1]
    own = np.flatnonzero((x > 0).any(axis=0))
    parts = [np.maximum(x[:, own], 0.0)]
    owners, roles = [own], [np.zeros(len(own), int)]
    if calls is not None:
        called = np.flatnonzero((calls > 0).any(axis=0))
        parts.append(np.maximum(calls[:, called], 0.0))
        owners.append(called)
        roles.append(np.ones(len(called), int))
    parts.append(lengths(seconds)[:, None])
    owners.append(np.array([-1]))
    roles.append(np.array([2]))
    return Design(np.hstack(parts), np.concatenate(owners), np.concatenate(roles), y, classes)


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


def split(found: Design, cost: np.ndarray, method: str) -> Costs:
    """Costs (P,) of a design as costs per class."""
    time, call = np.zeros(found.classes), np.zeros(found.classes)
    time[found.owner[found.role == 0]] = cost[found.role == 0]
    call[found.owner[found.role == 1]] = cost[found.role == 1]
    return Costs(method, time, call, float(cost[found.role == 2].sum()))


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


@dataclass(frozen=True)
class Recipe:
    """How the default estimate weighs. ``power``: see ``weights``; ``k``: Huber's limit in robust standard deviations;
    ``draws``: bootstrap replicates; ``seed`` of the only random generator; ``sampled``: draw from the posterior of times
    (without it only what predicts is fitted)."""

    power: float = 1.0
    k: float = USUAL_LIMIT
    rounds: int = 6
    draws: int = 100
    seed: int = 1
    sampled: bool = True


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


def block_length(rows: int, memory: float = 1.0) -> int:
    """Length of bootstrap blocks, at least 1: about the cube root of T for errors without memory, 0.75 sqrt(T) else."""
    return max(1, round(0.75 * math.sqrt(rows) if memory > SLOW else rows ** (1 / 3)))


def _blocks(a: np.ndarray, t: np.ndarray, memory: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """Gram matrices (K, P, P) and right sides (K, P) of the consecutive blocks of rows."""
    length = block_length(len(t), memory)
    # not so many that the matrices fill the memory
    length = max(length, math.ceil(len(t) * a.shape[1] ** 2 * 8 / MOST_BYTES))
    starts = range(0, len(t), length)
    grams = np.stack([a[i : i + length].T @ a[i : i + length] for i in starts])
    rights = np.stack([a[i : i + length].T @ t[i : i + length] for i in starts])
    return grams, rights


def by_time_and_calls(x: np.ndarray, calls: np.ndarray, y: np.ndarray, seconds: np.ndarray, recipe: Recipe) -> Costs:
    """Bagged non-negative regression on time and calls.

    A class whose every call does the same work is described by its calls better than by its time (which contains
    waiting), one whose work varies better by its time; single fits jump between the two. The mean over block-bootstrap
    fits does not, and its spread is the uncertainty.
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
    grams, rights = _blocks(a0 * root[:, None], t0 * root)
    count = len(grams)
    random = np.random.default_rng(recipe.seed)
    fits = np.empty((max(recipe.draws, FEWEST_FITS), a0.shape[1]))
    for i in range(len(fits)):
        times = random.multinomial(count, np.full(count, 1 / count))
        fits[i] = nonnegative.solve(np.tensordot(times, grams, 1) + ridge, times @ rights, cost)
    fits /= scale
    mean = fits.mean(axis=0)
    draws = np.stack([found.totals(fit) for fit in fits])
    spread = float(np.sqrt(np.mean((row * (t0 - (a0 * scale) @ mean)) ** 2)))
    costs = split(found, mean, "default")
    return Costs(costs.method, costs.time, costs.call, costs.background, draws, spread)


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
    grams, rights = _blocks(
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
    lam = np.maximum(values.max(), 1e-300) * np.exp(np.linspace(np.log(1e-12), np.log(1.0), 57))
    shrink = 1.0 / (values[None, :] + lam[:, None])
    a_uu = uu - (shrink * vu**2).sum(axis=1)
    a_tu = tu - (shrink * vu * vt).sum(axis=1)
    a_tt = tt - (shrink * vt**2).sum(axis=1)
    b0 = np.maximum(a_tu / np.maximum(a_uu, 1e-300), 0.0)
    sigma2 = np.maximum((a_tt - 2 * b0 * a_tu + b0**2 * a_uu) / rows, 1e-300)
    likelihood = -0.5 * rows * np.log(sigma2) - 0.5 * np.log1p(values[None, :] / lam[:, None]).sum(axis=1)
    chance = np.exp(likelihood - likelihood.max())
    return _Strengths(lam, b0, sigma2, chance / chance.sum())
