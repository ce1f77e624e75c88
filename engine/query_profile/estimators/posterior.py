"""Draw the costs of all classes from the posterior of a log-normal hierarchy.

Each class costs exp(v_j) with v_j around one common value, spread tau, tails of a Student t (a sleeping class may cost
next to nothing); the background is positive and probably small; errors are relative and of unknown size. The common
value, tau and the size of the errors are drawn with the costs, so that the intervals include their uncertainty. See
docs/models/query-profile.md, "The log-normal hierarchy".

Hamiltonian Monte Carlo (Neal 2011) of many short chains at once: the data enter by their Gram matrix only, so a step of
all chains is one matrix product whatever the number of intervals.
"""

from __future__ import annotations

import math

import msgspec
import numpy as np

MODE_DEGREES = 8.0  # degrees of freedom of the t prior of log costs in the search for the mode

DEGREES = np.array([5.0, 10.0, 60.0])
"""Degrees of freedom that each chain chooses from: from heavy tails to a normal prior."""

ASLEEP_SHARE, ASLEEP_MEAN, ASLEEP_SD = 0.1, -5.0, 1.5
"""Prior of classes that hardly use CPU (sleeping, waiting for locks): their share, and mean and standard deviation of their
log cost relative to the common one."""

ASLEEP_WEIGHT = 20.0  # weight of the prior share of sleeping classes, in classes

SMALL_BACKGROUND = 0.0005
"""Offset in the prior density of the background ~ 1/(background + this), as a share of the median interval."""

TAU_SCALE = 1.0  # scale of the half-normal prior of tau: costs that differ by factors of e are usual, of e^3 rare

USUAL_NOISE, NOISE_SPREAD = 0.05, 1.0  # median and log standard deviation of the log-normal prior of the relative error

LEAPS, WARM_UP, STATES, THINNING = 8, 24, 4, 2
"""Leapfrog steps of a transition, transitions before the first recorded state, states per chain, transitions per state."""

MOST_WORK = 4e6  # limit on chains times columns squared; ``FEWEST_CHAINS`` takes precedence

FEWEST_CHAINS = 30  # fewest chains

_LOG_TAU = np.linspace(math.log(0.03), math.log(6.0), 48)[:, None]
_LOG_NOISE = np.linspace(math.log(0.002), 0.0, 60)[:, None]
_TAU_PRIOR = -0.5 * (np.exp(_LOG_TAU) / TAU_SCALE) ** 2
_NOISE_PRIOR = -0.5 * ((_LOG_NOISE - math.log(USUAL_NOISE)) / NOISE_SPREAD) ** 2
_TAU_PRECISION, _NOISE_PRECISION = np.exp(-2 * _LOG_TAU), np.exp(-2 * _LOG_NOISE)
_LOG_PEAK = np.array([math.lgamma((n + 1) / 2) - math.lgamma(n / 2) - 0.5 * math.log(n * math.pi) for n in DEGREES])


class Start(msgspec.Struct, frozen=True):
    """Where the chains start: ``costs`` (S, P) of rough fits (bootstrap), zeros allowed; ``common``: the common cost;
    ``spread``: tau on the log scale; ``noise``: relative error."""

    costs: np.ndarray
    common: float
    spread: float
    noise: float


class _Target:
    """The log density of v = log costs (P, C), the last row the background, for hyperparameters per chain.

    A column is a chain: what holds for a chain is multiplied along rows, which lie in one piece.
    """

    def __init__(self, a: np.ndarray, t: np.ndarray) -> None:
        self.gram, self.right, self.square = a.T @ a, (a.T @ t)[:, None], float(t @ t)
        self.rows = len(t)
        self.classes = a.shape[1] - 1

    def misfit(self, b: np.ndarray, product: np.ndarray | None = None) -> np.ndarray:
        """Compute the sum of squared errors (C,) of costs ``b`` (P, C); ``product`` with the Gram matrix, if known."""
        half = (self.gram @ b if product is None else product) - 2 * self.right
        return np.asarray(np.maximum(self.square + (half * b).sum(axis=0), 1e-12))

    def slope(
        self, v: np.ndarray, mean: np.ndarray, pull: np.ndarray, precision: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Compute the gradient (P, C) of the log density, and costs and their product with the Gram matrix (P, C). ``mean`` and
        ``pull`` (P, C): prior mean and precision of each class, 0 of the background; ``precision`` (C,) of the errors."""
        b = np.exp(v)
        product = self.gram @ b
        slope = self.right - product
        slope *= b
        slope *= precision
        slope -= pull * (v - mean)
        slope[-1] += 1 - b[-1] / (b[-1] + SMALL_BACKGROUND)
        return slope, b, product

    def density(
        self, v: np.ndarray, mean: np.ndarray, pull: np.ndarray, precision: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Compute gradient, log density (C,) and sum of squared errors (C,); arguments as those of ``slope``."""
        slope, b, product = self.slope(v, mean, pull, precision)
        misfit = self.misfit(b, product)
        value = -0.5 * misfit * precision - 0.5 * (pull * (v - mean) ** 2).sum(axis=0)
        return slope, value + v[-1] - np.log(b[-1] + SMALL_BACKGROUND), misfit


def sample(a: np.ndarray, t: np.ndarray, start: Start, *, draws: int, seed: int, scatter: float = 1.0) -> np.ndarray:
    """Draw costs (about 4 ``draws``, P) from the posterior of t = a b + error.

    ``a`` (T, P): weighted columns, the last one the background in units of the median interval; ``t`` (T,) so weighted
    that errors are relative. ``scatter``: factor on the size of the errors that makes up for robust weights.
    """
    target = _Target(a, t)
    random = np.random.default_rng(seed)
    size = a.shape[1]
    j = target.classes
    chains = int(np.clip(MOST_WORK / size**2, FEWEST_CHAINS, max(draws, FEWEST_CHAINS)))
    states_each = max(1, math.ceil(STATES * draws / chains))
    common = math.log(max(start.common, 1e-300))
    mode, noise, spread_out = _mode(target, start, common)
    floor = 1e-3 * np.r_[np.full(j, math.exp(common)), 1.0]
    starts = start.costs[random.permutation(len(start.costs))]
    starts = starts[np.arange(chains) % len(starts)]
    # a cost of 0 in the rough fit starts below the mode
    width = 1 / np.sqrt(np.diag(spread_out @ spread_out.T))
    below = 2 * np.minimum(width, 1) * np.abs(random.standard_normal((chains, size)))
    low = np.log(np.maximum(np.exp(mode), floor)) - below
    v = np.ascontiguousarray(np.where(starts > floor, np.log(np.maximum(starts, 1e-300)), low).T)
    mean = np.full(chains, common)
    tau = start.spread * np.exp(0.3 * random.standard_normal(chains))
    sigma = np.full(chains, noise)
    tails, asleep = np.ones((j, chains)), np.zeros((j, chains), bool)
    choice, chance = np.ones(chains, int), np.full(chains, ASLEEP_SHARE)
    center, pull = np.zeros((size, chains)), np.zeros((size, chains))
    to_v = np.linalg.inv(spread_out)
    step = 1.2 / size**0.25
    states: list[np.ndarray] = []
    for turn in range(WARM_UP + states_each * THINNING):
        center[:j] = np.where(asleep, mean + ASLEEP_MEAN, mean)
        pull[:j] = np.where(asleep, ASLEEP_SD**-2, tails / tau**2)
        v, misfit, accepted = _leap(target, v, center, pull, sigma**-2, to_v, step, random)
        if turn < WARM_UP:
            step *= math.exp(0.6 * (accepted - 0.8))
        # what the awake classes have in common, given their costs
        off = v[:j] - mean
        ratio = (off / tau) ** 2
        degrees = DEGREES[choice]
        awake = (1 - chance) / tau * np.exp(_LOG_PEAK[choice] - (degrees + 1) / 2 * np.log1p(ratio / degrees))
        deep = chance / (ASLEEP_SD * math.sqrt(2 * math.pi)) * np.exp(-0.5 * ((off - ASLEEP_MEAN) / ASLEEP_SD) ** 2)
        asleep = random.random((chains, j)).T * (awake + deep) < deep
        sleeping = asleep.sum(axis=0)
        few, many = ASLEEP_SHARE * ASLEEP_WEIGHT, (1 - ASLEEP_SHARE) * ASLEEP_WEIGHT
        chance = random.beta(few + sleeping, many + j - sleeping)
        choice = _choose(np.where(asleep, 0.0, ratio), j - sleeping, random)
        degrees = DEGREES[choice]
        tails = random.gamma((degrees[:, None] + 1) / 2, 1.0, (chains, j)).T / ((degrees + ratio) / 2)
        counted = np.where(asleep, 0.0, tails)
        weight = np.maximum(counted.sum(axis=0), 0.5)
        mean = (counted * v[:j]).sum(axis=0) / weight + random.standard_normal(chains) * tau / np.sqrt(weight)
        squares = (counted * (v[:j] - mean) ** 2).sum(axis=0)
        tau = _pick(_TAU_PRIOR - (j - sleeping - 1) * _LOG_TAU - squares / 2 * _TAU_PRECISION, _LOG_TAU, random)
        sigma = scatter * _pick(
            _NOISE_PRIOR - target.rows * _LOG_NOISE - misfit / 2 * _NOISE_PRECISION, _LOG_NOISE, random
        )
        v, mean, tau = _together(target, v, mean, tau, sigma, misfit, asleep, random)
        if turn >= WARM_UP and (turn - WARM_UP) % THINNING == THINNING - 1:
            states.append(np.exp(v.T))
    return np.concatenate(states)


def _mode(target: _Target, start: Start, common: float) -> tuple[np.ndarray, float, np.ndarray]:
    """Find the mode (P,), the size of the errors and the Cholesky factor (P, P) of the curvature there (Gauss and Newton).
    ``common``: log of the common cost."""
    j = target.classes
    inside = np.arange(j)
    v = np.log(np.maximum(np.median(start.costs, axis=0), 0.05 * np.r_[np.full(j, math.exp(common)), 0.2]))
    noise, tau = start.noise, start.spread

    def value(v: np.ndarray) -> float:
        off = v[:j] - common
        return float(
            -0.5 * target.misfit(np.exp(v)[:, None])[0] / noise**2
            - (0.5 * (MODE_DEGREES + 1) * np.log1p(off * off / (MODE_DEGREES * tau * tau)).sum())
            + v[j]
            - math.log(math.exp(v[j]) + SMALL_BACKGROUND)
        )

    curve = np.eye(j + 1)
    now = value(v)
    for turn in range(40):
        b = np.exp(v)
        off = v[:j] - common
        pull = (MODE_DEGREES + 1) / (MODE_DEGREES + off * off / tau**2) / tau**2
        slope = (target.right[:, 0] - target.gram @ b) * b / noise**2
        slope[:j] -= pull * off
        slope[j] += 1 - b[j] / (b[j] + SMALL_BACKGROUND)
        curve = b[:, None] * target.gram * b / noise**2
        curve[inside, inside] += pull
        curve[j, j] += 0.3
        move = np.clip(np.linalg.solve(curve, slope), -2, 2)
        share = 1.0
        while share > 1e-3 and value(v + share * move) < now:
            share /= 2
        if share <= 1e-3:
            break
        v = v + share * move
        if turn > 2 and target.rows > 2 * j:
            noise = math.sqrt(max(float(target.misfit(np.exp(v)[:, None])[0]) / target.rows, 1e-8))
        before, now = now, value(v)
        if abs(now - before) < 1e-3:
            break
    return v, noise, np.linalg.cholesky(curve)


def _leap(
    target: _Target,
    v: np.ndarray,
    mean: np.ndarray,
    pull: np.ndarray,
    precision: np.ndarray,
    to_v: np.ndarray,
    step: float,
    random: np.random.Generator,
) -> tuple[np.ndarray, np.ndarray, float]:
    """Make one transition of all chains; returns the new states, their sums of squared errors (C,) and the mean probability of
    acceptance."""
    slope, value, misfit = target.density(v, mean, pull, precision)
    momentum = random.standard_normal(v.shape[::-1]).T
    energy = value - 0.5 * (momentum**2).sum(axis=0)
    step = step * random.uniform(0.7, 1.2)
    new, momentum = v, momentum + 0.5 * step * (to_v @ slope)
    for _ in range(LEAPS - 1):
        new = np.maximum(np.minimum(new + step * (to_v.T @ momentum), 60), -60)
        momentum += step * (to_v @ target.slope(new, mean, pull, precision)[0])
    new = np.maximum(np.minimum(new + step * (to_v.T @ momentum), 60), -60)
    slope, value, then = target.density(new, mean, pull, precision)
    momentum += 0.5 * step * (to_v @ slope)
    gain = np.nan_to_num(value - 0.5 * (momentum**2).sum(axis=0) - energy, nan=-1e9, neginf=-1e9)
    accepted = np.log(random.random(len(gain))) < gain
    return np.where(accepted, new, v), np.where(accepted, then, misfit), float(np.exp(np.clip(gain, -50, 0)).mean())


def _pick(log_chance: np.ndarray, grid: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """Draw from the density (G, C) on a ``grid`` (G, 1) of logarithms for each chain; returns exp of the draws (C,)."""
    chance = np.exp(log_chance - log_chance.max(axis=0)).cumsum(axis=0)
    place = (random.random(chance.shape[1]) * chance[-1] <= chance).argmax(axis=0)
    return np.asarray(np.exp(grid[place, 0] + (random.uniform(-0.5, 0.5, len(place)) * (grid[1] - grid[0]))))


def _choose(ratio: np.ndarray, awake: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """Draw which of ``DEGREES`` each chain takes (C,), by the likelihood of its squared distances (J, C) in units of tau (0 for
    sleeping classes) and the number of classes ``awake`` (C,)."""
    sums = [(degrees + 1) / 2 * np.log1p(ratio / degrees).sum(axis=0) for degrees in DEGREES]
    log_chance = awake * _LOG_PEAK[:, None] - sums
    return np.asarray(np.argmax(log_chance + random.gumbel(size=log_chance.shape), axis=0))


def _together(
    target: _Target,
    v: np.ndarray,
    mean: np.ndarray,
    tau: np.ndarray,
    sigma: np.ndarray,
    misfit: np.ndarray,
    asleep: np.ndarray,
    random: np.random.Generator,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Propose moves of all classes at once (spread out, shift up): single moves mix slowly where data say little.

    Returns the states, common values and tau of the chains.
    """
    j = target.classes
    chains = len(mean)
    factor = np.exp(0.3 * random.standard_normal(chains))
    other, wider = v.copy(), tau * factor
    other[:j] = np.where(asleep, v[:j], mean + (v[:j] - mean) * factor)
    then = target.misfit(np.exp(other))
    gain = -0.5 * (then - misfit) / sigma**2 - 0.5 * (wider**2 - tau**2) / TAU_SCALE**2 + np.log(factor)
    accepted = (np.log(random.random(chains)) < gain) & (wider < 6) & (wider > 0.03)
    v, tau = np.where(accepted, other, v), np.where(accepted, wider, tau)
    misfit = np.where(accepted, then, misfit)
    shift = 0.05 * random.standard_normal(chains)
    other = v.copy()
    other[:j] += shift
    accepted = np.log(random.random(chains)) < -0.5 * (target.misfit(np.exp(other)) - misfit) / sigma**2
    return np.where(accepted, other, v), np.where(accepted, mean + shift, mean), tau
