"""When the linear picture fails: the queueing elbow, a lag and a change of costs, detected and remedied.

Past the elbow, time is mostly waiting: it grows faster than CPU, so sum of times bends upwards over y. After a break (a new
version, a lost index) the costs are others than before: two fits explain clearly more than one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from engine.query_profile import estimate, nonnegative, shift
from engine.query_profile.estimate import Costs, Recipe
from engine.query_profile.shift import Shift

ELBOW_BEND = 0.1
ELBOW_T, SURE_T = 2.0, 5.0
"""A bend with a t value between these counts if the fit past the elbow is clearly better than the straight one."""

ELBOW_STEP = 0.05
BACKGROUND_PENALTY = 0.3
FULLEST = 0.97
"""Utilisation is never taken for more than this: beyond, a queue has no length."""

BREAK_GAIN = 0.15
"""A break is only reported if two fits lower the absolute error by this share more than twice as many costs do anyway."""

WIDER, WIDER_ELBOW, WIDER_BLOCKS = 1.12, 1.12, 1.2
"""What draws of the posterior (chains are short, weights are plugged in) and block bootstrap fits (blocks are few, costs
are bent at 0) lack: set so that nominal 90 % intervals cover about 90 % of the classes that matter in generated scenarios
with known truth; the benchmark reports other seeds, and another generator."""

SMALLEST_SIDE = 30


@dataclass(frozen=True)
class Elbow:
    """``bend``: quadratic term of S/mean S over standardised y; ``t``: its t value with errors that allow for drift;
    ``capacity``: y at which time grows without bounds, ``doubt`` its relative standard error."""

    bend: float
    t: float
    found: bool
    capacity: float = float("inf")
    doubt: float = 0.0


@dataclass(frozen=True)
class Break:
    """``row``: first interval with the new costs, or -1; ``gain``: share by which two fits lower the absolute error."""

    row: int
    gain: float


@dataclass(frozen=True)
class Attribution:
    """CPU by class: ``total`` (J,), ``low`` and ``high`` (J,) (NaN without intervals), ``predicted`` (T,), costs per class
    ``time`` and ``call`` (J,) averaged over the parts, ``background`` in all."""

    total: np.ndarray
    low: np.ndarray
    high: np.ndarray
    predicted: np.ndarray
    time: np.ndarray
    call: np.ndarray
    background: float
    parts: tuple[Costs, ...]
    elbow: Elbow | None = None
    broken: Break | None = None
    draws: np.ndarray | None = None
    """(B, J) totals that the intervals are made of."""
    shift: Shift = shift.NONE


def elbow(s: np.ndarray, y: np.ndarray) -> Elbow:
    """Test whether time bends away from CPU. ``s``, ``y``: (T,) sums of times and resource use."""
    rows = len(y)
    none = Elbow(0.0, 0.0, False)
    if rows < 20 or y.std() == 0 or s.mean() <= 0:
        return none
    u = (y - y.mean()) / y.std()
    a = np.column_stack([np.ones(rows), u, u * u])
    v = s / s.mean()
    try:
        inverse = np.linalg.inv(a.T @ a)
    except np.linalg.LinAlgError:
        return none
    b = inverse @ (a.T @ v)
    score = a * (v - a @ b)[:, None]
    lag = max(1, int(4 * (rows / 100) ** (2 / 9)))
    meat = score.T @ score
    for k in range(1, lag + 1):
        cross = score[k:].T @ score[:-k]
        meat += (1 - k / (lag + 1)) * (cross + cross.T)
    variance = (inverse @ meat @ inverse)[2, 2]
    t = float(b[2] / np.sqrt(variance)) if variance > 0 else 0.0
    found = bool(b[2] > ELBOW_BEND and t > ELBOW_T)
    return Elbow(float(b[2]), t, found, *_capacity(s, y)) if found else Elbow(float(b[2]), t, False)


def _capacity(s: np.ndarray, y: np.ndarray) -> tuple[float, float]:
    """Where CPU per time goes to nothing: y/S = a (1 - y/capacity) is a straight line over y (robust fit); and the
    relative standard error of that."""
    fine = s > 0
    ratio, y = y[fine] / s[fine], y[fine]
    a = np.column_stack([np.ones(len(y)), y / y.mean()])
    row = np.ones(len(y))
    line = np.zeros(2)
    for _ in range(10):
        root = np.sqrt(row)
        line = np.linalg.lstsq(a * root[:, None], ratio * root, rcond=None)[0]
        row = estimate.huber(ratio - a @ line, 1.345)
    if not line[1] < 0 < line[0]:
        return float("inf"), 0.0
    residual = (ratio - a @ line) * row
    bread = np.linalg.inv((a * row[:, None]).T @ a)
    spread = bread @ ((a * residual[:, None] ** 2).T @ a) @ bread
    way = np.array([1 / line[0], -1 / line[1]])
    doubt = float(np.sqrt(max(way @ spread @ way, 0.0)))
    return max(float(-line[0] / line[1] * y.mean()), float(np.quantile(y, 0.99)) / FULLEST), min(doubt, 0.3)


def past_elbow(
    x: np.ndarray, y: np.ndarray, seconds: np.ndarray, capacity: float, recipe: Recipe
) -> tuple[Costs, np.ndarray, np.ndarray]:
    """Costs where time holds queueing: CPU p = z (1 - p/capacity) with z = sum b_j time_j, so p = z/(1 + z/capacity).

    Gauss-Newton: each round is a linear fit of time deflated by the load that the last round explains, full intervals
    weighing little. Returns costs (per deflated time), deflated times (T, J) and the explained CPU (T,).
    """
    load = np.clip(y / capacity, 0.0, 0.9)
    fitted = y.copy()
    scale = estimate.weights(y)
    costs = estimate.global_ratio(x, y)
    rounds = 6
    for step in range(rounds):
        free = 1 - load
        deflated = np.maximum(x, 0.0) * free[:, None]
        target = fitted + (y - fitted) / free
        quick = Recipe(power=recipe.power, k=recipe.k, rounds=3, draws=1, seed=recipe.seed, sampled=False)
        costs = estimate.by_time(deflated, target, seconds, recipe if step == rounds - 1 else quick, scale * free)
        z = (deflated @ costs.time + costs.background) / free
        fitted = z / (1 + z / capacity)
        load = np.clip(fitted / capacity, 0.0, FULLEST)
    deflated = np.maximum(x, 0.0) * (1 - load)[:, None]
    return costs, deflated, deflated @ costs.time + costs.background


def _verified(x: np.ndarray, y: np.ndarray, seconds: np.ndarray, bent: Elbow, recipe: Recipe) -> Elbow:
    """The same elbow, or none where the straight fit explains y about as well and the test was not sure."""
    if not bent.found or bent.t >= SURE_T or not np.isfinite(bent.capacity):
        return bent
    quick = replace(recipe, rounds=3, sampled=False)
    straight = estimate.best(x, None, y, seconds, quick)
    plain = straight.explained(x, None, estimate.lengths(seconds))
    _, _, curved = past_elbow(x, y, seconds, bent.capacity, quick)

    def off(explained: np.ndarray) -> float:
        return float(np.abs(y / np.maximum(explained, 1e-300) - 1).mean())

    return bent if off(curved) < 0.9 * off(plain) else replace(bent, found=False)


def _searched_elbow(
    x: np.ndarray, y: np.ndarray, seconds: np.ndarray, bent: Elbow, recipe: Recipe
) -> tuple[Costs, np.ndarray]:
    """``past_elbow`` at the capacity that fits best, searched from ``bent.capacity`` on.

    A fuller queue and a background explain the same bend, so a background has to earn its place. Draws are of that
    capacity and of its neighbours on both sides, so that intervals know of the doubt. Returns costs (per deflated time)
    and deflated times (T, J).
    """
    least = float(np.quantile(y, 0.99)) / FULLEST
    quick = replace(recipe, rounds=3, sampled=False)
    known: dict[int, float] = {}

    def misfit(step: int) -> float:
        if step not in known:
            capacity = bent.capacity * (1 + ELBOW_STEP * step)
            if capacity < least:
                known[step] = np.inf
            else:
                costs, _, explained = past_elbow(x, y, seconds, capacity, quick)
                share = costs.background * len(y) / max(float(y.sum()), 1e-300)
                off = np.abs(y / np.maximum(explained, 1e-300) - 1)
                known[step] = float(off.mean()) * (1 + BACKGROUND_PENALTY * share)
        return known[step]

    at = 0
    while abs(at) < 5:
        lower = min((at - 1, at + 1), key=misfit)
        if misfit(lower) >= misfit(at):
            break
        at = lower
    best = max(bent.capacity * (1 + ELBOW_STEP * at), least)
    costs, held, _ = past_elbow(x, y, seconds, best, recipe)
    if not len(costs.draws):
        return costs, held
    parts, fewer = [costs.draws], replace(recipe, draws=recipe.draws // 4)
    for way in (-1, 1):
        capacity = max(best * (1 + way * max(ELBOW_STEP, 2 * bent.doubt)), least)
        parts.append(past_elbow(x, y, seconds, capacity, fewer)[0].draws)
    return replace(costs, draws=np.concatenate(parts)), held


def find_break(x: np.ndarray, calls: np.ndarray | None, y: np.ndarray, seconds: np.ndarray) -> Break:
    """The split of the intervals into two fits that lowers the absolute error most."""
    rows = len(y)
    found = estimate.design(x, calls, y, seconds)
    size = found.columns.shape[1]
    least = max(SMALLEST_SIDE, int(1.5 * size) if calls is None else size)
    if rows < 2 * least or rows > 20_000 or size > 400:
        return Break(-1, 0.0)
    w = estimate.weights(y, 0.5)
    a, t = found.columns * w[:, None], y * w
    scale = np.sqrt((a**2).mean(axis=0))
    scale[scale == 0] = 1.0
    a = a / scale
    # a little shrinkage keeps the short sides from winning by fitting noise
    ridge = 1e-3 * rows * np.eye(size)
    pieces = 24
    edges = np.unique(np.linspace(0, rows, pieces + 1).astype(int))
    grams = np.cumsum([a[i:j].T @ a[i:j] for i, j in pairwise(edges)], axis=0)
    rights = np.cumsum([a[i:j].T @ t[i:j] for i, j in pairwise(edges)], axis=0)
    whole = nonnegative.solve(grams[-1] + ridge, rights[-1])
    error = float(np.abs(t - a @ whole).sum())
    if error <= 0:
        return Break(-1, 0.0)

    def sides(gram: np.ndarray, right: np.ndarray, row: int) -> float:
        left = nonnegative.solve(gram + ridge, right, whole)
        rest = nonnegative.solve(grams[-1] - gram + ridge, rights[-1] - right, whole)
        return float(np.abs(t[:row] - a[:row] @ left).sum() + np.abs(t[row:] - a[row:] @ rest).sum())

    scan = [
        (sides(grams[i], rights[i], int(edges[i + 1])), i)
        for i in range(len(edges) - 2)
        if least <= edges[i + 1] <= rows - least
    ]
    if not scan:
        return Break(-1, 0.0)
    _, piece = min(scan)
    # between the neighbours of the best edge, row by row in steps
    low, high = int(edges[piece]), int(edges[min(piece + 2, len(edges) - 1)])
    low, high = max(low, least), min(high, rows - least)
    top, row = min(scan)[0], int(edges[piece + 1])
    base_gram = grams[piece - 1] if piece else np.zeros_like(grams[0])
    base_right = rights[piece - 1] if piece else np.zeros_like(rights[0])
    begin = int(edges[piece])
    for candidate in range(low, high + 1, max(1, (high - low) // 12)):
        if candidate < begin:
            continue
        gram = base_gram + a[begin:candidate].T @ a[begin:candidate]
        right = base_right + a[begin:candidate].T @ t[begin:candidate]
        value = sides(gram, right, candidate)
        if value < top:
            top, row = value, candidate
    gain = 1 - top / error
    return Break(row if gain >= BREAK_GAIN + 0.5 * size / (rows - size) else -1, gain)


def attribute(
    x: np.ndarray,
    calls: np.ndarray | None,
    y: np.ndarray,
    seconds: np.ndarray,
    recipe: Recipe,
    level: float = 0.9,
    remedies: bool = True,
) -> Attribution:
    """The default attribution of ``y`` (T,) to classes, with the remedies where they are needed.

    Elbow: time is deflated by the load (``past_elbow``). Lag: times are mixed with their neighbours'. Break: each side is
    fitted alone.
    """
    rows, classes = x.shape
    s = np.maximum(x, 0).sum(axis=1)
    bent = _verified(x, y, seconds, elbow(s, y), recipe) if remedies and calls is None else None
    late = shift.find(x, calls, y, seconds) if remedies and not (bent and bent.found) else shift.NONE
    if late.share:
        x = shift.shifted(np.maximum(x, 0), late.share)
        calls = None if calls is None else shift.shifted(np.maximum(calls, 0), late.share)
    broken = find_break(x, calls, y, seconds) if remedies and not (bent and bent.found) else None
    spans = [(0, rows)]
    if broken is not None and broken.row > 0:
        spans = [(0, broken.row), (broken.row, rows)]
    total, time, call = np.zeros(classes), np.zeros(classes), np.zeros(classes)
    predicted = np.zeros(rows)
    background = 0.0
    parts = []
    spread: list[np.ndarray] = []
    length = estimate.lengths(seconds)
    for part, (begin, end) in enumerate(spans):
        here = slice(begin, end)
        own = replace(recipe, seed=recipe.seed + part)
        part_calls = calls[here] if calls is not None else None
        held = np.maximum(x[here], 0)
        if bent is not None and bent.found and np.isfinite(bent.capacity):
            costs, held = _searched_elbow(x[here], y[here], seconds[here], bent, own)
        else:
            costs = estimate.best(x[here], part_calls, y[here], seconds[here], own)
        parts.append(costs)
        work = held * costs.time
        if part_calls is not None:
            work = work + np.maximum(part_calls, 0) * costs.call
        level_y = costs.background * length[here]
        fitted = work.sum(axis=1) + level_y
        sums = work.sum(axis=0)
        total += sums
        background += float(level_y.sum())
        predicted[here] = fitted
        if len(costs.draws):
            spread.append(np.maximum(sums + widen(costs, y[here], fitted, sums, bool(bent and bent.found)), 0.0))
        share = (end - begin) / rows if rows else 0.0
        time += costs.time * share
        call += costs.call * share
    low = high = np.full(classes, np.nan)
    draws = np.zeros((0, classes))
    if recipe.draws >= 20 and len(spread) == len(spans):
        count = min(len(part) for part in spread)
        draws = np.sum([part[:count] for part in spread], axis=0)
        tail = (1 - level) / 2
        low, high = np.quantile(draws, [tail, 1 - tail], axis=0)
        low, high = np.minimum(low, total), np.maximum(high, total)
    return Attribution(total, low, high, predicted, time, call, background, tuple(parts), bent, broken, draws, late)


def widen(costs: Costs, y: np.ndarray, fitted: np.ndarray, center: np.ndarray, bent: bool = False) -> np.ndarray:
    """Deviations (B, J) of the draws from ``center``, widened for drift that blocks do not hold in full: by
    sqrt((1 + rho)/(1 - rho)) of the residuals' correlation at the distance of one block, and by ``WIDER`` or
    ``WIDER_BLOCKS`` (past an elbow, whose doubt the draws know already, ``WIDER_ELBOW``)."""
    deviation = costs.draws - center
    with np.errstate(divide="ignore", invalid="ignore"):
        residual = np.where(y > 0, (y - fitted) / y, 0.0)
    lag = estimate.block_length(len(y))
    rho = 0.0
    if len(residual) > 3 * lag and residual.std() > 0:
        rho = float(np.clip(np.corrcoef(residual[lag:], residual[:-lag])[0, 1], 0.0, 0.8))
    wider = WIDER_ELBOW if bent else WIDER if costs.ahead is not None else WIDER_BLOCKS
    factor = wider * np.sqrt((1 + rho) / (1 - rho))
    return np.asarray(deviation * factor)
