"""Find the elbow of queueing, and take the waiting out of times.

Past the elbow time is mostly waiting: the times of all classes grow faster than the CPU that they stand for.

The CPU of an interval is then a bent function of its work z = sum_j b_j time_j, the same for all classes (a single-index
model with an unknown link, Ichimura 1993). Nothing is assumed of the queue, neither its capacity nor its servers. Costs and
curve are fitted in turn, costs by linear fits along the tangent of the curve (Gauss and Newton).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from engine.query_profile.estimators import design, residuals, shrinkage
from engine.query_profile.estimators.design import Costs, FitOptions
from engine.stats import resampling

SURE_BEND, SURE_T = 0.1, 5.0
"""Size and t value from which a bend is an elbow."""

BEND, T = 0.03, 2.0
"""Size and t value from which a weaker bend is a reason to try the curve."""

FALL = 0.6
"""CPU per time in the fullest tenth of the intervals relative to the emptier half: a lower ratio is a reason to try the curve."""

BETTER = 0.9
"""Relative error of the curve, as a share of the straight fit's, below which it is an elbow."""

FEWEST = 20
"""Number of intervals below which nothing is looked for."""

SEGMENTS, ROWS_EACH = 8, 20
"""Most straight pieces of the curve on log scales, and intervals for each; they are shorter towards full load."""

SMOOTHING = 0.04
"""Weight of the differences between slopes of neighbouring pieces."""

FLATTEST = 0.05
"""Least slope along which a linear fit is made: on a flatter curve, an interval says next to nothing about costs."""

ROUNDS = 8
"""Rounds of both fits."""

RESAMPLED_CURVES, RESAMPLED_ROUNDS = 4, 3
"""Curves of resampled intervals among those of the draws, and rounds of both fits for each."""


@dataclass(frozen=True)
class Curve:
    """CPU (us) over work z (us at the lowest load) on log scales: straight pieces between ``knots`` (K,) of log z with
    ``slopes`` (K - 1,) in [0, 1], and ``level``, log CPU at the first knot."""

    knots: np.ndarray
    slopes: np.ndarray
    level: float

    def cpu(self, work: np.ndarray) -> np.ndarray:
        """Return the CPU (T,) of work (T,); the outer pieces extend without end."""
        return np.asarray(np.exp(self.level + _along(self.knots, _log(work)) @ self.slopes))

    def slope(self, work: np.ndarray) -> np.ndarray:
        """Return d log CPU / d log work (T,)."""
        place = np.searchsorted(self.knots, _log(work), side="right") - 1
        return np.asarray(self.slopes[np.clip(place, 0, len(self.slopes) - 1)])

    def within(self, work: np.ndarray) -> np.ndarray:
        """Return ``work`` (T,), but at least that of the first knot: below it, where only classes run that cost nothing, there
        is as little waiting as at it."""
        return np.asarray(np.maximum(work, np.exp(self.knots[0])))

    @property
    def slowdown(self) -> float:
        """How many times longer the same work takes at the highest load than at the lowest."""
        return float(np.exp(((1 - self.slopes) * np.diff(self.knots)).sum()))


@dataclass(frozen=True)
class Elbow:
    """``bend``: quadratic term of S/mean S over standardised y; ``t``: its t value with errors that allow for drift;
    ``curve``: of the last fit, None where none was made."""

    bend: float
    t: float
    found: bool
    curve: Curve | None = None


def bend(s: np.ndarray, y: np.ndarray) -> tuple[float, float]:
    """Return the quadratic term of s/mean s over standardised y and its t value (HAC errors, Newey and West 1987), zeros
    where there are too few intervals. ``s``, ``y``: (T,) sums of times and resource use."""
    rows = len(y)
    if rows < FEWEST or y.std() == 0 or s.mean() <= 0:
        return 0.0, 0.0
    u = (y - y.mean()) / y.std()
    a = np.column_stack([np.ones(rows), u, u * u])
    v = s / s.mean()
    try:
        inverse = np.linalg.inv(a.T @ a)
    except np.linalg.LinAlgError:
        return 0.0, 0.0
    b = inverse @ (a.T @ v)
    score = a * (v - a @ b)[:, None]
    lag = max(1, int(4 * (rows / 100) ** (2 / 9)))
    meat = score.T @ score
    for k in range(1, lag + 1):
        cross = score[k:].T @ score[:-k]
        meat += (1 - k / (lag + 1)) * (cross + cross.T)
    variance = (inverse @ meat @ inverse)[2, 2]
    return float(b[2]), float(b[2] / np.sqrt(variance)) if variance > 0 else 0.0


def find_elbow(x: np.ndarray, y: np.ndarray, seconds: np.ndarray, options: FitOptions) -> Elbow:
    """Decide whether time bends away from CPU. ``x``: (T, J) times; ``y``, ``seconds``: (T,)."""
    s = np.maximum(x, 0).sum(axis=1)
    size, t = bend(s, y)
    if size > SURE_BEND and t >= SURE_T:
        return Elbow(size, t, True)
    if not (size > BEND and t > T) and not _falls(s, y):
        return Elbow(size, t, False)
    quick = replace(options, rounds=3, sample=False)
    straight = shrinkage.fit_times(x, y, seconds, quick)
    explained = straight.explained(x, None, design.lengths(seconds))
    _, _, curve, work = _fitted(x, y, seconds, quick, ROUNDS)

    def error(predicted: np.ndarray) -> float:
        return float(np.abs(y / np.maximum(predicted, 1e-300) - 1).mean())

    return Elbow(size, t, error(curve.cpu(work)) < BETTER * error(explained))


def _falls(s: np.ndarray, y: np.ndarray) -> bool:
    """Tell whether CPU per time is much lower in the fullest intervals than in the emptier half."""
    if len(y) < FEWEST or not (s > 0).all():
        return False
    ratio = y / s
    half, full = np.quantile(y, [0.5, 0.9])
    return bool(np.median(ratio[y >= full]) < FALL * np.median(ratio[y <= half]))


def without_waiting(
    x: np.ndarray, y: np.ndarray, seconds: np.ndarray, options: FitOptions
) -> tuple[Costs, np.ndarray, Curve]:
    """Fit costs per time without waiting; returns them, such times (T, J), and the curve.

    Nothing goes to a background: it bends the curve too, and the two cannot be told apart. A part of the draws is made
    with curves of resampled blocks of intervals.
    """
    costs, free_x, curve, work = _fitted(x, y, seconds, options, ROUNDS)
    if not len(costs.draws):
        return costs, free_x, curve
    random = np.random.default_rng(options.seed)
    length = resampling.block_length(len(y))
    begins = np.arange(0, len(y), length)
    draws, fewer = [costs.draws], replace(options, draws=options.draws // RESAMPLED_CURVES)
    for _ in range(RESAMPLED_CURVES):
        picked = random.choice(begins, len(begins))
        rows = (picked[:, None] + np.arange(length)).ravel()
        other = _fitted(x, y, seconds, fewer, RESAMPLED_ROUNDS, work, rows[rows < len(y)])[0]
        draws.append(other.draws)
    return replace(costs, draws=np.concatenate(draws)), free_x, curve


def _fitted(
    x: np.ndarray,
    y: np.ndarray,
    seconds: np.ndarray,
    options: FitOptions,
    rounds: int,
    work: np.ndarray | None = None,
    rows: np.ndarray | None = None,
) -> tuple[Costs, np.ndarray, Curve, np.ndarray]:
    """Fit costs and curve in turn for ``rounds``, from ``work`` on where it is given; curves by the intervals ``rows`` only.

    Returns costs, times without waiting (T, J), curve and work (T,).
    """
    x = np.maximum(x, 0.0)
    scale = residuals.weights(y)
    quick = replace(options, rounds=3, draws=1, sample=False)
    if work is None:
        # CPU per time, if it only depends on the load, falls with it
        free = _falling(y, x.sum(axis=1))
        work = x @ shrinkage.fit_times(x * free[:, None], y, seconds, quick, scale, background=False).time
    curve = _curve(work, y, rows)
    for step in range(rounds):
        at = curve.within(work)
        cpu, slope = curve.cpu(at), np.maximum(curve.slope(at), FLATTEST)
        free_x = x * (cpu / at)[:, None]
        # along the tangent y = cpu + slope (sum_j b_j free_x_j - cpu)
        costs = shrinkage.fit_times(
            free_x, cpu + (y - cpu) / slope, seconds, options if step == rounds - 1 else quick, scale * slope,
            background=False,
        )  # fmt: skip
        work = x @ costs.time
        curve = _curve(work, y, rows)
    at = curve.within(work)
    return costs, x * (curve.cpu(at) / at)[:, None], curve, work


def _falling(y: np.ndarray, s: np.ndarray) -> np.ndarray:
    """Return the nearest function (T,) to y/s that falls with y (isotonic regression), its largest value 1."""
    from scipy.optimize import isotonic_regression

    with np.errstate(over="ignore"):
        ratio = np.minimum(y / np.maximum(s, 1e-300), 1e300)  # without work a share of any size: large, but a number
    order = np.argsort(y, kind="stable")
    falling: np.ndarray = np.empty(len(y))
    falling[order] = isotonic_regression(ratio[order], increasing=False).x
    falling = np.maximum(falling, 1e-3 * float(np.median(ratio)))
    top = float(falling.max())
    return np.asarray(falling / top) if top > 0 else np.ones(len(y))


def _curve(work: np.ndarray, y: np.ndarray, rows: np.ndarray | None = None) -> Curve:
    """Fit the curve to y over work on log scales (Huber weights), slopes between 0 and 1."""
    from scipy.optimize import lsq_linear

    if rows is not None:
        work, y = work[rows], y[rows]
    positive = (work > 0) & (y > 0)
    if positive.sum() < FEWEST:
        return Curve(np.array([0.0, 1.0]), np.ones(1), 0.0)
    u, v = _log(work[positive]), _log(y[positive])
    pieces = int(np.clip(len(u) // ROWS_EACH, 1, SEGMENTS))
    knots = np.unique(np.quantile(u, 1 - (1 - np.arange(pieces + 1) / pieces) ** 1.6))
    if len(knots) < 2:
        return Curve(np.array([u[0], u[0] + 1.0]), np.ones(1), float(np.median(v)))
    pieces = len(knots) - 1
    columns = np.column_stack([np.ones(len(u)), _along(knots, u)])
    smooth = SMOOTHING * np.sqrt(len(u)) * np.diff(np.eye(pieces), axis=0)
    smooth = np.column_stack([np.zeros(pieces - 1), smooth])
    least, most = np.r_[-np.inf, np.zeros(pieces)], np.r_[np.inf, np.ones(pieces)]
    row = np.ones(len(u))
    for _ in range(3):
        root = np.sqrt(row)
        stacked = np.vstack([columns * root[:, None], smooth])
        fitted = lsq_linear(stacked, np.r_[v * root, np.zeros(len(smooth))], bounds=(least, most)).x
        row = residuals.huber(v - columns @ fitted, residuals.USUAL_LIMIT)
    return Curve(knots, fitted[1:], float(fitted[0]))


def _along(knots: np.ndarray, u: np.ndarray) -> np.ndarray:
    """Return how far (T, K - 1) each u reaches into each piece; the outer pieces have no end."""
    length: np.ndarray = np.clip(u[:, None] - knots[:-1], 0.0, np.diff(knots))
    length[:, 0] = np.minimum(u - knots[0], knots[1] - knots[0])
    length[:, -1] = np.where(u > knots[-2], u - knots[-2], length[:, -1])
    return length


def _log(values: np.ndarray) -> np.ndarray:
    return np.asarray(np.log(np.maximum(values, 1e-300)))
