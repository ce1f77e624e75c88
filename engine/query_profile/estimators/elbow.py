"""Past the elbow of queueing time is mostly waiting: the times of all classes grow faster than the CPU they stand for.

The CPU of an interval is then a bent function of its work z = sum_j b_j time_j, the same for all classes (a single-index
model with an unknown link, Ichimura 1993). Nothing is assumed of the queue: neither its capacity nor its servers. Costs
and curve are fitted in turn, costs by linear fits along the tangent of the curve (Gauss and Newton).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from engine.query_profile.estimators import design, least_squares, residuals, shrinkage
from engine.query_profile.estimators.design import Costs, Recipe
from engine.stats import block_bootstrap

BEND, T = 0.03, 2.0
"""A bend of this size and t value, or"""

FALL = 0.6
"""CPU per time in the fullest tenth of the intervals below this share of the emptier half's: reason to try the curve."""

SURE_BEND, SURE_T = 0.1, 5.0
"""A bend of both is an elbow. A weaker one counts if the curve lowers the relative error to less than"""

BETTER = 0.9
"""this share of the straight fit's."""

FEWEST = 20
"""Intervals below which nothing is looked for."""

SEGMENTS, ROWS_EACH = 8, 20
"""Straight pieces of the curve on log scales, at most, and intervals for each; they are shorter towards full load."""

STIFF = 0.04
"""How much slopes of neighbouring pieces are pulled together."""

FLATTEST = 0.05
"""Least slope that a linear fit is made along: beyond, an interval says next to nothing about costs."""

ROUNDS, AGAIN, DOUBTS = 8, 3, 4
"""Rounds of both fits; rounds for a curve of resampled intervals, and how many such curves the draws know of."""


@dataclass(frozen=True)
class Curve:
    """CPU (us) over work z (us at the lowest load): straight pieces between ``knots`` (K,) log z with ``slopes`` (K - 1,)
    in [0, 1], and ``level`` log CPU at the first knot."""

    knots: np.ndarray
    slopes: np.ndarray
    level: float

    def cpu(self, work: np.ndarray) -> np.ndarray:
        """CPU (T,) of work (T,); the outer pieces go on."""
        return np.asarray(np.exp(self.level + _along(self.knots, _log(work)) @ self.slopes))

    def slope(self, work: np.ndarray) -> np.ndarray:
        """d log CPU / d log work (T,)."""
        place = np.searchsorted(self.knots, _log(work), side="right") - 1
        return np.asarray(self.slopes[np.clip(place, 0, len(self.slopes) - 1)])

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
    """Quadratic term of s/mean s over standardised y, and its t value (HAC errors, Newey and West 1987); zeros where
    there is none to tell. ``s``, ``y``: (T,) sums of times and resource use."""
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


def find(x: np.ndarray, y: np.ndarray, seconds: np.ndarray, recipe: Recipe) -> Elbow:
    """Whether time bends away from CPU. ``x`` (T, J) times, ``y`` (T,), ``seconds`` (T,) lengths of the intervals."""
    s = np.maximum(x, 0).sum(axis=1)
    size, t = bend(s, y)
    if size > SURE_BEND and t >= SURE_T:
        return Elbow(size, t, True)
    if not (size > BEND and t > T) and not _falls(s, y):
        return Elbow(size, t, False)
    quick = replace(recipe, rounds=3, sampled=False)
    straight = shrinkage.by_time(x, y, seconds, quick)
    unbent = straight.explained(x, None, design.lengths(seconds))
    _, _, curve, work = _fitted(x, y, seconds, quick, ROUNDS)

    def off(explained: np.ndarray) -> float:
        return float(np.abs(y / np.maximum(explained, 1e-300) - 1).mean())

    return Elbow(size, t, off(curve.cpu(work)) < BETTER * off(unbent))


def _falls(s: np.ndarray, y: np.ndarray) -> bool:
    """Whether CPU per time is much lower in the fullest intervals."""
    if len(y) < FEWEST or not (s > 0).all():
        return False
    ratio = y / s
    half, full = np.quantile(y, [0.5, 0.9])
    return bool(np.median(ratio[y >= full]) < FALL * np.median(ratio[y <= half]))


def straightened(x: np.ndarray, y: np.ndarray, seconds: np.ndarray, recipe: Recipe) -> tuple[Costs, np.ndarray, Curve]:
    """Costs per time without waiting, such times (T, J), and the curve. Nothing goes to a background: it bends the curve
    too, and the two cannot be told apart. A part of the draws is made with curves of resampled blocks of intervals."""
    costs, held, curve, work = _fitted(x, y, seconds, recipe, ROUNDS)
    if not len(costs.draws):
        return costs, held, curve
    random = np.random.default_rng(recipe.seed)
    length = block_bootstrap.block_length(len(y))
    begins = np.arange(0, len(y), length)
    parts, fewer = [costs.draws], replace(recipe, draws=recipe.draws // DOUBTS)
    for _ in range(DOUBTS):
        picked = random.choice(begins, len(begins))
        rows = (picked[:, None] + np.arange(length)).ravel()
        other = _fitted(x, y, seconds, fewer, AGAIN, work, rows[rows < len(y)])[0]
        parts.append(other.draws)
    return replace(costs, draws=np.concatenate(parts)), held, curve


def _fitted(
    x: np.ndarray,
    y: np.ndarray,
    seconds: np.ndarray,
    recipe: Recipe,
    rounds: int,
    work: np.ndarray | None = None,
    rows: np.ndarray | None = None,
) -> tuple[Costs, np.ndarray, Curve, np.ndarray]:
    """Costs, times without waiting (T, J), curve and work (T,) after ``rounds`` of both fits, from ``work`` on where it is
    given; curves by the intervals ``rows`` only."""
    x = np.maximum(x, 0.0)
    scale = residuals.weights(y)
    quick = replace(recipe, rounds=3, draws=1, sampled=False)
    if work is None:
        # CPU per time, if it only depends on the load, falls with it
        free = _falling(y, x.sum(axis=1))
        work = x @ shrinkage.by_time(x * free[:, None], y, seconds, quick, scale, background=False).time
    costs, held = least_squares.global_ratio(x, y), x
    curve = _curve(work, y, rows)
    for step in range(rounds):
        cpu, slope = curve.cpu(work), np.maximum(curve.slope(work), FLATTEST)
        held = x * (cpu / np.maximum(work, 1e-300))[:, None]
        # along the tangent y = cpu + slope (sum_j b_j held_j - cpu)
        costs = shrinkage.by_time(
            held, cpu + (y - cpu) / slope, seconds, recipe if step == rounds - 1 else quick, scale * slope,
            background=False,
        )  # fmt: skip
        work = x @ costs.time
        curve = _curve(work, y, rows)
    free = curve.cpu(work) / np.maximum(work, 1e-300)
    return costs, x * free[:, None], curve, work


def _falling(y: np.ndarray, s: np.ndarray) -> np.ndarray:
    """y/s (T,) as the nearest function that falls with y (isotonic regression), its largest value 1."""
    from scipy.optimize import isotonic_regression

    ratio = y / np.maximum(s, 1e-300)
    order = np.argsort(y, kind="stable")
    found: np.ndarray = np.empty(len(y))
    found[order] = isotonic_regression(ratio[order], increasing=False).x
    found = np.maximum(found, 1e-3 * float(np.median(ratio)))
    top = float(found.max())
    return np.asarray(found / top) if top > 0 else np.ones(len(y))


def _curve(work: np.ndarray, y: np.ndarray, rows: np.ndarray | None = None) -> Curve:
    """The curve nearest to y over work on log scales (Huber weights), slopes between 0 and 1."""
    from scipy.optimize import lsq_linear

    if rows is not None:
        work, y = work[rows], y[rows]
    known = (work > 0) & (y > 0)
    if known.sum() < FEWEST:
        return Curve(np.array([0.0, 1.0]), np.ones(1), 0.0)
    u, v = _log(work[known]), _log(y[known])
    pieces = int(np.clip(len(u) // ROWS_EACH, 1, SEGMENTS))
    knots = np.unique(np.quantile(u, 1 - (1 - np.arange(pieces + 1) / pieces) ** 1.6))
    if len(knots) < 2:
        return Curve(np.array([u[0], u[0] + 1.0]), np.ones(1), float(np.median(v)))
    pieces = len(knots) - 1
    columns = np.column_stack([np.ones(len(u)), _along(knots, u)])
    pull = STIFF * np.sqrt(len(u)) * np.diff(np.eye(pieces), axis=0)
    pull = np.column_stack([np.zeros(pieces - 1), pull])
    least, most = np.r_[-np.inf, np.zeros(pieces)], np.r_[np.inf, np.ones(pieces)]
    row = np.ones(len(u))
    for _ in range(3):
        root = np.sqrt(row)
        stacked = np.vstack([columns * root[:, None], pull])
        found = lsq_linear(stacked, np.r_[v * root, np.zeros(len(pull))], bounds=(least, most)).x
        row = residuals.huber(v - columns @ found, residuals.USUAL_LIMIT)
    return Curve(knots, found[1:], float(found[0]))


def _along(knots: np.ndarray, u: np.ndarray) -> np.ndarray:
    """How far (T, K - 1) each u has gone in each piece; the outer pieces have no end."""
    way: np.ndarray = np.clip(u[:, None] - knots[:-1], 0.0, np.diff(knots))
    way[:, 0] = np.minimum(u - knots[0], knots[1] - knots[0])
    way[:, -1] = np.where(u > knots[-2], u - knots[-2], way[:, -1])
    return way


def _log(values: np.ndarray) -> np.ndarray:
    return np.asarray(np.log(np.maximum(values, 1e-300)))
