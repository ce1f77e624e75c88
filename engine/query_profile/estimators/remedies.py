"""Find what a plain fit cannot explain, and correct for it: the elbow of queueing, a change of costs, a lag of the CPU series.

Past the elbow time is mostly waiting: the times of all classes grow faster than the CPU that they stand for. The CPU of an
interval is then a bent function of its work z = sum_j b_j time_j, the same for all classes (a single-index model with an
unknown link, Ichimura 1993). Nothing is assumed of the queue, neither its capacity nor its servers. Costs and curve are
fitted in turn, costs by linear fits along the tangent of the curve (Gauss and Newton).

After a new version or a lost index two fits explain clearly more than one. A CPU series that is read a quarter of an
interval before the statements contains a quarter of the interval before: y_t = (1 - s) u_t + s u_(t-1) with u the CPU of
the statements of interval t; the fit is best at the true s.
"""

from __future__ import annotations

from itertools import pairwise

import msgspec
import numpy as np

from engine.query_profile.estimators import design, estimate
from engine.query_profile.estimators.design import Costs, FitOptions, build_design, column_scale
from engine.stats import nonnegative, significance

SURE_BEND, SURE_T = 0.1, 5.0  # size and t value from which a bend is an elbow

BEND, T = 0.03, 2.0  # size and t value from which the curve is tried

FALL = 0.6
"""CPU per time in the busiest tenth of the intervals relative to the quieter half; below this ratio the curve is tried."""

BETTER = 0.9  # relative error of the curve, as a share of the straight fit's, below which it is an elbow

FEWEST = 20  # fewest intervals for a search

SEGMENTS, ROWS_EACH = 8, 20
"""Most straight pieces of the curve on log scales, and intervals per piece; pieces get shorter towards full load."""

SMOOTHING = 0.04  # weight of the differences between slopes of neighbouring pieces

FLATTEST = 0.05  # least slope for a linear fit: where the curve is flatter, an interval says almost nothing about costs

ROUNDS = 8  # rounds of both fits

RESAMPLED_CURVES, RESAMPLED_ROUNDS = 4, 3
"""Curves of resampled intervals among those of the draws, and rounds of both fits for each."""


class Curve(msgspec.Struct, frozen=True):
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
        """Return ``work`` (T,), raised to that of the first knot: below it only classes without cost run, so waiting does not
        shrink further."""
        return np.asarray(np.maximum(work, np.exp(self.knots[0])))

    @property
    def slowdown(self) -> float:
        """How many times longer the same work takes at the highest load than at the lowest."""
        return float(np.exp(((1 - self.slopes) * np.diff(self.knots)).sum()))


class Elbow(msgspec.Struct, frozen=True):
    """``bend``: quadratic term of S/mean S over standardised y; ``t``: its t value with errors that allow for drift;
    ``curve``: of the last fit, None where none was made."""

    bend: float
    t: float
    found: bool
    curve: Curve | None = None


def bend(s: np.ndarray, y: np.ndarray) -> tuple[float, float]:
    """Return the quadratic term of s/mean s over standardised y and its t value (HAC errors, Newey and West 1987); zeros
    for too few intervals. ``s``, ``y``: (T,) sums of times and resource use."""
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
    quick = msgspec.structs.replace(options, rounds=3, sample=False)
    explained = estimate.fit_times(x, y, seconds, quick).explained(x, None, design.lengths(seconds))
    _, _, curve, work = _fitted(x, y, seconds, quick, ROUNDS)

    def error(predicted: np.ndarray) -> float:
        return float(np.abs(y / np.maximum(predicted, 1e-300) - 1).mean())

    return Elbow(size, t, error(curve.cpu(work)) < BETTER * error(explained))


def _falls(s: np.ndarray, y: np.ndarray) -> bool:
    """Tell whether CPU per time is much lower in the busiest intervals than in the quieter half."""
    if len(y) < FEWEST or not (s > 0).all():
        return False
    ratio = y / s
    half, full = np.quantile(y, [0.5, 0.9])
    return bool(np.median(ratio[y >= full]) < FALL * np.median(ratio[y <= half]))


def without_waiting(
    x: np.ndarray, y: np.ndarray, seconds: np.ndarray, options: FitOptions
) -> tuple[Costs, np.ndarray, Curve]:
    """Fit costs per time without waiting; returns the costs, times without waiting (T, J) and the curve.

    There is no background: it bends the curve too, and the two cannot be told apart. Part of the draws use curves of
    resampled blocks of intervals.
    """
    costs, free_x, curve, work = _fitted(x, y, seconds, options, ROUNDS)
    if not len(costs.draws):
        return costs, free_x, curve
    random = np.random.default_rng(options.seed)
    length = significance.block_length(len(y))
    begins = np.arange(0, len(y), length)
    draws, fewer = [costs.draws], msgspec.structs.replace(options, draws=options.draws // RESAMPLED_CURVES)
    for _ in range(RESAMPLED_CURVES):
        rows = (random.choice(begins, len(begins))[:, None] + np.arange(length)).ravel()
        draws.append(_fitted(x, y, seconds, fewer, RESAMPLED_ROUNDS, work, rows[rows < len(y)])[0].draws)
    return msgspec.structs.replace(costs, draws=np.concatenate(draws)), free_x, curve


def _fitted(
    x: np.ndarray,
    y: np.ndarray,
    seconds: np.ndarray,
    options: FitOptions,
    rounds: int,
    work: np.ndarray | None = None,
    rows: np.ndarray | None = None,
) -> tuple[Costs, np.ndarray, Curve, np.ndarray]:
    """Fit costs and curve in turn for ``rounds``, starting from ``work`` if given; fit curves to the intervals ``rows`` only.

    Returns costs, times without waiting (T, J), curve and work (T,).
    """
    x = np.maximum(x, 0.0)
    scale = design.weights(y)
    quick = msgspec.structs.replace(options, rounds=3, draws=1, sample=False)
    if work is None:
        # CPU per time, if it only depends on the load, falls with it
        free = _falling(y, x.sum(axis=1))
        work = x @ estimate.fit_times(x * free[:, None], y, seconds, quick, scale, background=False).time
    curve = _curve(work, y, rows)
    for step in range(rounds):
        at = curve.within(work)
        cpu, slope = curve.cpu(at), np.maximum(curve.slope(at), FLATTEST)
        free_x = x * (cpu / at)[:, None]
        # along the tangent y = cpu + slope (sum_j b_j free_x_j - cpu)
        costs = estimate.fit_times(
            free_x, cpu + (y - cpu) / slope, seconds, options if step == rounds - 1 else quick, scale * slope,
            background=False,
        )  # fmt: skip
        work = x @ costs.time
        curve = _curve(work, y, rows)
    at = curve.within(work)
    return costs, x * (curve.cpu(at) / at)[:, None], curve, work


def _falling(y: np.ndarray, s: np.ndarray) -> np.ndarray:
    """Return the best fit (T,) to y/s that falls with y (isotonic regression), scaled to a maximum of 1."""
    from scipy.optimize import isotonic_regression

    with np.errstate(over="ignore"):
        ratio = np.minimum(y / np.maximum(s, 1e-300), 1e300)  # finite even where there is no work
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
        row = design.huber(v - columns @ fitted, design.USUAL_LIMIT)
    return Curve(knots, fitted[1:], float(fitted[0]))


def _along(knots: np.ndarray, u: np.ndarray) -> np.ndarray:
    """Return how far (T, K - 1) each u reaches into each piece; the outer pieces are unbounded."""
    length: np.ndarray = np.clip(u[:, None] - knots[:-1], 0.0, np.diff(knots))
    length[:, 0] = np.minimum(u - knots[0], knots[1] - knots[0])
    length[:, -1] = np.where(u > knots[-2], u - knots[-2], length[:, -1])
    return length


def _log(values: np.ndarray) -> np.ndarray:
    return np.asarray(np.log(np.maximum(values, 1e-300)))


CHANGE_GAIN = 0.08
"""Share by which two fits must lower the absolute error, beyond what twice as many costs achieve anyway (up to 0.04 without a
change, 0.055 with correlated errors, in 540 generated workloads). Elbows look like changes too, so they are tested first."""

SMALLEST_SIDE = 30  # intervals on each side of a change

MOST_ROWS, MOST_COLUMNS = 20_000, 400
"""Limits on intervals and columns: no change is looked for above them; a lag is looked for in the last ``MOST_ROWS`` intervals,
since the way samples are taken does not change."""

PIECES, STEPS = 24, 12  # candidates of the coarse search over all intervals, and of the fine search around the best one


class ChangePoint(msgspec.Struct, frozen=True):
    """``row``: first interval with the new costs, or -1; ``gain``: share by which two fits lower the absolute error."""

    row: int
    gain: float


NO_CHANGE = ChangePoint(-1, 0.0)


def find_change_point(x: np.ndarray, calls: np.ndarray | None, y: np.ndarray, seconds: np.ndarray) -> ChangePoint:
    """Find the split of the intervals into two fits that lowers the absolute error most."""
    rows = len(y)
    columns = build_design(x, calls, seconds).columns
    size = columns.shape[1]
    least = max(SMALLEST_SIDE, int(1.5 * size) if calls is None else size)
    if rows < 2 * least or rows > MOST_ROWS or size > MOST_COLUMNS:
        return NO_CHANGE
    w = design.weights(y, 0.5)
    a, t = columns * w[:, None], y * w
    a = a / column_scale(a)
    # a little shrinkage keeps the short sides from winning by fitting noise
    ridge = 1e-3 * rows * np.eye(size)
    edges = np.unique(np.linspace(0, rows, PIECES + 1).astype(int))
    grams = np.cumsum([a[i:j].T @ a[i:j] for i, j in pairwise(edges)], axis=0)
    rights = np.cumsum([a[i:j].T @ t[i:j] for i, j in pairwise(edges)], axis=0)
    whole = nonnegative.solve(grams[-1] + ridge, rights[-1])
    error = float(np.abs(t - a @ whole).sum())
    if error <= 0:
        return NO_CHANGE

    def error_of_two(gram: np.ndarray, right: np.ndarray, row: int) -> float:
        left = nonnegative.solve(gram + ridge, right, whole)
        rest = nonnegative.solve(grams[-1] - gram + ridge, rights[-1] - right, whole)
        return float(np.abs(t[:row] - a[:row] @ left).sum() + np.abs(t[row:] - a[row:] @ rest).sum())

    coarse = [
        (error_of_two(grams[i], rights[i], int(edges[i + 1])), i)
        for i in range(len(edges) - 2)
        if least <= edges[i + 1] <= rows - least
    ]
    if not coarse:
        return NO_CHANGE
    best, piece = min(coarse)
    row = int(edges[piece + 1])
    # between the neighbours of the best edge, row by row in steps
    begin = int(edges[piece])
    low, high = max(begin, least), min(int(edges[min(piece + 2, len(edges) - 1)]), rows - least)
    gram_before = grams[piece - 1] if piece else np.zeros_like(grams[0])
    right_before = rights[piece - 1] if piece else np.zeros_like(rights[0])
    for candidate in range(low, high + 1, max(1, (high - low) // STEPS)):
        gram = gram_before + a[begin:candidate].T @ a[begin:candidate]
        right = right_before + a[begin:candidate].T @ t[begin:candidate]
        value = error_of_two(gram, right, candidate)
        if value < best:
            best, row = value, candidate
    gain = 1 - best / error
    return ChangePoint(row if gain >= CHANGE_GAIN + 0.5 * size / (rows - size) else -1, gain)


STEP, FARTHEST = 0.05, 0.5  # step between the lags that are tried, and the largest one either way; both in intervals

LAG_GAIN = 40.0  # least gain in twice the log likelihood (normal errors, outliers down-weighted) for a lag to count

LAG_SHARE = 0.05  # least share of the squared error that a lag must remove to count

LAG_FEWEST = 60  # fewest intervals for a search


class Lag(msgspec.Struct, frozen=True):
    """``share`` of an interval by which y lags the times (below 0: times lag y), 0 if none was found; ``gain``: share of
    the squared error that it removes."""

    share: float
    gain: float


NO_LAG = Lag(0.0, 0.0)


def shifted(table: np.ndarray, share: float) -> np.ndarray:
    """Shift rows (T, ...) as if read ``share`` of an interval earlier (below 0: later)."""
    if share == 0 or len(table) < 2:
        return table
    other = np.concatenate([table[:1], table[:-1]]) if share > 0 else np.concatenate([table[1:], table[-1:]])
    return np.asarray((1 - abs(share)) * table + abs(share) * other)


def find_lag(x: np.ndarray, calls: np.ndarray | None, y: np.ndarray, seconds: np.ndarray) -> Lag:
    """Find the lag of y (T,) against times (T, J) and calls that explains y clearly better than no lag."""
    x, y, seconds = x[-MOST_ROWS:], y[-MOST_ROWS:], seconds[-MOST_ROWS:]
    columns = build_design(x, None if calls is None else calls[-MOST_ROWS:], seconds).columns
    rows, size = columns.shape
    if rows < max(LAG_FEWEST, 1.5 * size) or size > MOST_COLUMNS:
        return NO_LAG
    w = design.weights(y)
    columns = columns / column_scale(columns * w[:, None])
    target = y * w
    ridge = 1e-4 * rows * np.eye(size)
    a = columns * w[:, None]
    cost = nonnegative.solve(a.T @ a + ridge, a.T @ target)
    for _ in range(3):
        row = design.huber(target - a @ cost, design.USUAL_LIMIT)
        cost = nonnegative.solve((a * row[:, None]).T @ a + ridge, (a * row[:, None]).T @ target, cost)
    root = np.sqrt(row)

    def squared_error(share: float, other: np.ndarray) -> float:
        a = ((1 - abs(share)) * columns + abs(share) * other) * (w * root)[:, None]
        return float(
            ((target * root - (a @ nonnegative.solve(a.T @ a + ridge, a.T @ (target * root), cost))) ** 2).sum()
        )

    earlier, later = shifted(columns, 1.0), shifted(columns, -1.0)
    steps = np.arange(STEP, FARTHEST + STEP / 2, STEP)
    shares = np.r_[-steps[::-1], 0.0, steps]
    errors = [squared_error(share, earlier if share > 0 else later) for share in shares]
    before, best = errors[len(steps)], int(np.argmin(errors))
    least, share = errors[best], shares[best]
    if before <= 0 or least <= 0:
        return NO_LAG
    gain = 1 - least / before
    if not (gain >= LAG_SHARE and rows * np.log(before / least) >= LAG_GAIN):
        return NO_LAG
    # the lowest point of the parabola through the best lag and its neighbours
    left, right = (errors[i] if 0 <= i < len(errors) else least for i in (best - 1, best + 1))
    bend = left - 2 * least + right
    inside = 0 < best < len(errors) - 1 and bend > 0
    return Lag(float(share + 0.5 * STEP * (left - right) / bend) if inside else float(share), gain)
