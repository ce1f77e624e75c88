"""When the linear picture fails: the queueing elbow and a change of costs, detected and remedied.

Past the elbow, time is mostly waiting: it grows faster than CPU, so sum of times bends upwards over y. After a break (a new
version, a lost index) the costs are others than before: two fits explain clearly more than one.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from engine.query_profile import estimate, nonnegative
from engine.query_profile.estimate import Costs, Recipe

ELBOW_BEND = 0.1
ELBOW_T = 5.0
FLAT_SHARE = 0.75
FLAT_QUANTILE = 0.8
BREAK_GAIN = 0.25
"""A break is only reported if two fits lower the absolute error by at least this share."""

SMALLEST_SIDE = 30


@dataclass(frozen=True)
class Elbow:
    """``bend``: quadratic term of S/mean S over standardised y; ``t``: its t value with errors that allow for drift;
    ``flat``: (T,) intervals below the elbow."""

    bend: float
    t: float
    found: bool
    flat: np.ndarray


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
    """(B, J) totals of the bootstrap, widened as ``low`` and ``high`` are."""


def elbow(s: np.ndarray, y: np.ndarray) -> Elbow:
    """Test whether time bends away from CPU. ``s``, ``y``: (T,) sums of times and resource use."""
    rows = len(y)
    none = Elbow(0.0, 0.0, False, np.ones(rows, bool))
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
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(s > 0, y / s, 0.0)
    flat = ratio >= FLAT_SHARE * float(np.quantile(ratio, FLAT_QUANTILE))
    return Elbow(float(b[2]), t, found, flat)


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
    return Break(row if gain >= BREAK_GAIN else -1, gain)


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

    Elbow: fit below it, scale what the fit says of the other intervals to their y. Break: fit each side alone.
    """
    rows, classes = x.shape
    s = np.maximum(x, 0).sum(axis=1)
    bent = elbow(s, y) if remedies and calls is None else None
    broken = find_break(x, calls, y, seconds) if remedies and not (bent and bent.found) else None
    spans = [(0, rows)]
    if broken is not None and broken.row > 0:
        spans = [(0, broken.row), (broken.row, rows)]
    total, time, call = np.zeros(classes), np.zeros(classes), np.zeros(classes)
    predicted = np.zeros(rows)
    background = 0.0
    parts = []
    draws = np.zeros((recipe.draws, classes))
    length = estimate.lengths(seconds)
    for begin, end in spans:
        here = slice(begin, end)
        use = np.ones(end - begin, bool)
        if bent is not None and bent.found and bent.flat[here].sum() >= 20:
            use = bent.flat[here]
        part_calls = calls[here] if calls is not None else None
        costs = estimate.best(
            x[here][use], part_calls[use] if part_calls is not None else None, y[here][use], seconds[here][use], recipe
        )
        parts.append(costs)
        work = np.maximum(x[here], 0) * costs.time
        if part_calls is not None:
            work = work + np.maximum(part_calls, 0) * costs.call
        level_y = costs.background * length[here]
        fitted = work.sum(axis=1) + level_y
        factor = np.ones(end - begin)
        if not use.all():
            factor = np.where(use | (fitted <= 0), 1.0, y[here] / np.maximum(fitted, 1e-300))
        sums = (work * factor[:, None]).sum(axis=0)
        total += sums
        background += float((level_y * factor).sum())
        predicted[here] = fitted
        if len(costs.draws):
            fit_sum = work[use].sum(axis=0)
            with np.errstate(divide="ignore", invalid="ignore"):
                grow = np.where(fit_sum > 0, sums / fit_sum, 1.0)
            spread = widen(costs, y[here][use], fitted[use], fit_sum)
            draws += np.maximum(fit_sum + spread, 0.0) * grow
        share = (end - begin) / rows if rows else 0.0
        time += costs.time * share
        call += costs.call * share
    low = high = np.full(classes, np.nan)
    if recipe.draws >= 20 and all(len(part.draws) for part in parts):
        tail = (1 - level) / 2
        low, high = np.quantile(draws, [tail, 1 - tail], axis=0)
        low, high = np.minimum(low, total), np.maximum(high, total)
    return Attribution(total, low, high, predicted, time, call, background, tuple(parts), bent, broken, draws)


def widen(costs: Costs, y: np.ndarray, fitted: np.ndarray, center: np.ndarray) -> np.ndarray:
    """Deviations (B, J) of the draws from ``center``, widened for drift that blocks do not hold in full: by
    sqrt((1 + rho)/(1 - rho)) of the residuals' correlation at the distance of one block, and by a factor for the few
    blocks there are."""
    deviation = costs.draws - center
    with np.errstate(divide="ignore", invalid="ignore"):
        residual = np.where(y > 0, (y - fitted) / y, 0.0)
    lag = estimate.block_length(len(y))
    rho = 0.0
    if len(residual) > 3 * lag and residual.std() > 0:
        rho = float(np.clip(np.corrcoef(residual[lag:], residual[:-lag])[0, 1], 0.0, 0.8))
    blocks = max(len(y) / lag, 2.0)
    factor = np.sqrt((1 + rho) / (1 - rho)) * np.sqrt(blocks / (blocks - 1))
    return np.asarray(deviation * factor)
