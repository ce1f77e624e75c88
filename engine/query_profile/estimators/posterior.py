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
from dataclasses import dataclass

import numpy as np

MODE_DEGREES = 8.0
"""Degrees of freedom of the t prior of log costs in the search for the mode."""

DEGREES = np.array([5.0, 10.0, 60.0])
"""Degrees of freedom that each chain chooses from: from heavy tails to a normal prior."""

ASLEEP_SHARE, ASLEEP_MEAN, ASLEEP_SD = 0.1, -5.0, 1.5
"""Prior of classes that hardly use CPU (sleeping, waiting for locks): their share, and mean and standard deviation of their
log cost relative to the common one."""

ASLEEP_WEIGHT = 20.0
"""Weight of the prior share of sleeping classes, in classes."""

SMALL_BACKGROUND = 0.0005
"""Offset in the prior density of the background ~ 1/(background + this), as a share of the median interval."""

TAU_SCALE = 1.0
"""Scale of the half-normal prior of tau: costs that differ by factors of e are usual, of e^3 rare."""

USUAL_NOISE, NOISE_SPREAD = 0.05, 1.0
"""Median and log standard deviation of the log-normal prior of the relative error."""

LEAPS, WARM_UP, STATES, THINNING = 8, 60, 4, 2
"""Leapfrog steps of a transition, transitions before the first recorded state, states per chain, transitions per state."""

MANY, WARM_UP_OF_MANY = 100, 24
"""Number of columns above which a shorter warm-up keeps the time below a second."""

MOST_WORK = 4e6
"""Limit on chains times columns squared; ``FEWEST_CHAINS`` takes precedence."""

FEWEST_CHAINS = 30
"""Fewest chains."""

_LOG_TAU = np.linspace(math.log(0.03), math.log(6.0), 48)
_LOG_NOISE = np.linspace(math.log(0.002), 0.0, 60)
_LOG_PEAK = np.array([math.lgamma((n + 1) / 2) - math.lgamma(n / 2) - 0.5 * math.log(n * math.pi) for n in DEGREES])


@dataclass(frozen=True)
class Start:
    """Where the chains start: ``costs`` (S, P) of rough fits (bootstrap), zeros allowed; ``common``: the common cost;
    ``spread``: tau on the log scale; ``noise``: relative error."""

    costs: np.ndarray
    common: float
    spread: float
    noise: float


class _Target:
    """The log density of v = log costs (C, P), the last one the background, for hyperparameters per chain."""

    def __init__(self, a: np.ndarray, t: np.ndarray) -> None:
        self.gram, self.right, self.square = a.T @ a, a.T @ t, float(t @ t)
        self.rows = len(t)
        self.classes = a.shape[1] - 1

    def misfit(self, v: np.ndarray) -> np.ndarray:
        """Compute the sum of squared errors (C,)."""
        b = np.exp(v)
        return np.asarray(np.maximum(self.square - 2 * b @ self.right + ((b @ self.gram) * b).sum(axis=1), 1e-12))

    def density(
        self, v: np.ndarray, mean: np.ndarray, pull: np.ndarray, precision: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Compute log density (C,) and gradient (C, P); ``mean`` and ``pull`` (C, J): prior mean and precision of each class,
        ``precision`` (C,) of the errors."""
        j = self.classes
        b = np.exp(v)
        product = b @ self.gram
        misfit = self.square - 2 * b @ self.right + (product * b).sum(axis=1)
        off = v[:, :j] - mean
        value = -0.5 * misfit * precision - 0.5 * (pull * off * off).sum(axis=1)
        value += v[:, j] - np.log(b[:, j] + SMALL_BACKGROUND)
        slope = (self.right - product) * b * precision[:, None]
        slope[:, :j] -= pull * off
        slope[:, j] += 1 - b[:, j] / (b[:, j] + SMALL_BACKGROUND)
        return value, slope


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
    v = np.where(starts > floor, np.log(np.maximum(starts, 1e-300)), low)
    mean = np.full(chains, common)
    tau = start.spread * np.exp(0.3 * random.standard_normal(chains))
    sigma = np.full(chains, noise)
    tails, asleep = np.ones((chains, j)), np.zeros((chains, j), bool)
    choice, chance = np.ones(chains, int), np.full(chains, ASLEEP_SHARE)
    to_v = np.linalg.inv(spread_out)
    step = 1.2 / size**0.25
    states: list[np.ndarray] = []
    warm_up = WARM_UP if size <= MANY else WARM_UP_OF_MANY
    for turn in range(warm_up + states_each * THINNING):
        center = mean[:, None] + np.where(asleep, ASLEEP_MEAN, 0.0)
        pull = np.where(asleep, ASLEEP_SD**-2, tails / (tau**2)[:, None])
        v, accepted = _leap(target, v, center, pull, sigma**-2, to_v, step, random)
        if turn < warm_up:
            step *= math.exp(0.6 * (accepted - 0.8))
        # what the awake classes have in common, given their costs
        off = v[:, :j] - mean[:, None]
        ratio = off * off / (tau**2)[:, None]
        degrees = DEGREES[choice][:, None]
        share = np.log1p(ratio / degrees)
        awake = (1 - chance)[:, None] / tau[:, None] * np.exp(_LOG_PEAK[choice][:, None] - (degrees + 1) / 2 * share)
        peak = chance[:, None] / (ASLEEP_SD * math.sqrt(2 * math.pi))
        deep = peak * np.exp(-0.5 * ((off - ASLEEP_MEAN) / ASLEEP_SD) ** 2)
        asleep = random.random((chains, j)) * (awake + deep) < deep
        sleeping, awake_ones = asleep.sum(axis=1), (~asleep).sum(axis=1)
        few, many = ASLEEP_SHARE * ASLEEP_WEIGHT, (1 - ASLEEP_SHARE) * ASLEEP_WEIGHT
        chance = random.beta(few + sleeping, many + awake_ones)
        choice = _choose(np.where(asleep, 0.0, ratio), awake_ones, random)
        degrees = DEGREES[choice][:, None]
        tails = random.gamma((degrees + 1) / 2, 1.0, (chains, j)) / ((degrees + ratio) / 2)
        counted = np.where(asleep, 0.0, tails)
        weight = np.maximum(counted.sum(axis=1), 0.5)
        mean = (counted * v[:, :j]).sum(axis=1) / weight + random.standard_normal(chains) * tau / np.sqrt(weight)
        squares = (counted * (v[:, :j] - mean[:, None]) ** 2).sum(axis=1)
        prior = -(awake_ones[:, None] - 1) * _LOG_TAU - 0.5 * (np.exp(_LOG_TAU) / TAU_SCALE) ** 2
        tau = _pick(prior - squares[:, None] / 2 * np.exp(-2 * _LOG_TAU), _LOG_TAU, random)
        misfit = target.misfit(v)
        prior = -target.rows * _LOG_NOISE - 0.5 * ((_LOG_NOISE - math.log(USUAL_NOISE)) / NOISE_SPREAD) ** 2
        sigma = scatter * _pick(prior - misfit[:, None] / 2 * np.exp(-2 * _LOG_NOISE), _LOG_NOISE, random)
        v, mean, tau = _together(target, v, mean, tau, sigma, misfit, asleep, random)
        if turn >= warm_up and (turn - warm_up) % THINNING == THINNING - 1:
            states.append(np.exp(v))
    return np.concatenate(states)


def _mode(target: _Target, start: Start, common: float) -> tuple[np.ndarray, float, np.ndarray]:
    """Find the mode (P,), the size of the errors and the Cholesky factor (P, P) of the curvature there (Gauss and Newton).
    ``common``: log of the common cost."""
    j = target.classes
    inside = np.arange(j)
    middle = np.median(start.costs, axis=0)
    v = np.log(np.maximum(middle, 0.05 * np.r_[np.full(j, math.exp(common)), 0.2]))
    noise, tau = start.noise, start.spread

    def value(v: np.ndarray) -> float:
        off = v[:j] - common
        prior = 0.5 * (MODE_DEGREES + 1) * np.log1p(off * off / (MODE_DEGREES * tau * tau)).sum()
        return float(
            -0.5 * target.misfit(v[None, :])[0] / noise**2 - prior + v[j] - math.log(math.exp(v[j]) + SMALL_BACKGROUND)
        )

    curve = np.eye(j + 1)
    now = value(v)
    for turn in range(40):
        b = np.exp(v)
        off = v[:j] - common
        pull = (MODE_DEGREES + 1) / (MODE_DEGREES + off * off / tau**2) / tau**2
        slope = (target.right - target.gram @ b) * b / noise**2
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
            noise = math.sqrt(max(float(target.misfit(v[None, :])[0]) / target.rows, 1e-8))
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
) -> tuple[np.ndarray, float]:
    """Make one transition of all chains; returns the new states and the mean probability of acceptance."""
    value, slope = target.density(v, mean, pull, precision)
    momentum = random.standard_normal(v.shape)
    energy = value - 0.5 * (momentum**2).sum(axis=1)
    step = step * random.uniform(0.7, 1.2)
    back = to_v.T
    momentum += 0.5 * step * (slope @ back)
    new = v
    for leap in range(LEAPS):
        new = np.clip(new + step * (momentum @ to_v), -60, 60)
        value, slope = target.density(new, mean, pull, precision)
        momentum += (step if leap < LEAPS - 1 else 0.5 * step) * (slope @ back)
    gain = np.nan_to_num(value - 0.5 * (momentum**2).sum(axis=1) - energy, nan=-1e9, neginf=-1e9)
    accepted = np.log(random.random(len(v))) < gain
    return np.where(accepted[:, None], new, v), float(np.exp(np.clip(gain, -50, 0)).mean())


def _pick(log_chance: np.ndarray, grid: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """Draw from the density on a grid of logarithms, one row per chain; returns exp of the draws (C,)."""
    chance = np.cumsum(np.exp(log_chance - log_chance.max(axis=1, keepdims=True)), axis=1)
    place = (random.random(len(chance))[:, None] * chance[:, -1:] > chance).sum(axis=1)
    jitter = random.uniform(-0.5, 0.5, len(chance)) * (grid[1] - grid[0])
    return np.asarray(np.exp(grid[np.minimum(place, len(grid) - 1)] + jitter))


def _choose(ratio: np.ndarray, awake: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """Draw which of ``DEGREES`` each chain takes (C,), by the likelihood of its squared distances (C, J) in units of tau (0 for
    sleeping classes) and the number of classes ``awake`` (C,)."""
    sums = np.stack([(degrees + 1) / 2 * np.log1p(ratio / degrees).sum(axis=1) for degrees in DEGREES])
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
    chains = len(v)
    factor = np.exp(0.3 * random.standard_normal(chains))
    other, wider = v.copy(), tau * factor
    spread = mean[:, None] + (v[:, :j] - mean[:, None]) * factor[:, None]
    other[:, :j] = np.where(asleep, v[:, :j], spread)
    then = target.misfit(other)
    gain = -0.5 * (then - misfit) / sigma**2 - 0.5 * (wider**2 - tau**2) / TAU_SCALE**2 + np.log(factor)
    accepted = (np.log(random.random(chains)) < gain) & (wider < 6) & (wider > 0.03)
    v, tau = np.where(accepted[:, None], other, v), np.where(accepted, wider, tau)
    misfit = np.where(accepted, then, misfit)
    shift = 0.05 * random.standard_normal(chains)
    other = v.copy()
    other[:, :j] += shift[:, None]
    accepted = np.log(random.random(chains)) < -0.5 * (target.misfit(other) - misfit) / sigma**2
    return np.where(accepted[:, None], other, v), np.where(accepted, mean + shift, mean), tau
