"""The default attribution: which intervals the costs are fitted on, with the remedies where they are needed, and how sure
the CPU of each class is."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from engine.query_profile.estimators import design, elbow, estimate, time_lag
from engine.query_profile.estimators.change_point import Break, find_break
from engine.query_profile.estimators.design import Costs, Recipe
from engine.query_profile.estimators.elbow import Elbow
from engine.query_profile.estimators.time_lag import Shift
from engine.stats import block_bootstrap

WIDER, WIDER_ELBOW, WIDER_BLOCKS = 1.12, 1.12, 1.2
"""What draws of the posterior (chains are short, weights are plugged in) and block bootstrap fits (blocks are few, costs
are bent at 0) lack: set so that nominal 90 % intervals cover about 90 % of the classes that matter in generated scenarios
with known truth; the benchmark reports other seeds, and another generator."""


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
    shift: Shift = time_lag.NONE


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

    Elbow: waiting is taken out of the times (``elbow.straightened``). Lag: times are mixed with their neighbours'. Break:
    each side is fitted alone.
    """
    rows, classes = x.shape
    bent = elbow.find(x, y, seconds, recipe) if remedies and calls is None else None
    late = time_lag.find(x, calls, y, seconds) if remedies and not (bent and bent.found) else time_lag.NONE
    if late.share:
        x = time_lag.shifted(np.maximum(x, 0), late.share)
        calls = None if calls is None else time_lag.shifted(np.maximum(calls, 0), late.share)
    broken = find_break(x, calls, y, seconds) if remedies and not (bent and bent.found) else None
    spans = [(0, rows)]
    if broken is not None and broken.row > 0:
        spans = [(0, broken.row), (broken.row, rows)]
    total, time, call = np.zeros(classes), np.zeros(classes), np.zeros(classes)
    predicted = np.zeros(rows)
    background = 0.0
    parts = []
    spread: list[np.ndarray] = []
    length = design.lengths(seconds)
    for part, (begin, end) in enumerate(spans):
        here = slice(begin, end)
        own = replace(recipe, seed=recipe.seed + part)
        part_calls = calls[here] if calls is not None else None
        held = np.maximum(x[here], 0)
        if bent is not None and bent.found:
            costs, held, curve = elbow.straightened(x[here], y[here], seconds[here], own)
            bent = replace(bent, curve=curve)
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
    lag = block_bootstrap.block_length(len(y))
    rho = 0.0
    if len(residual) > 3 * lag and residual.std() > 0:
        rho = float(np.clip(np.corrcoef(residual[lag:], residual[:-lag])[0, 1], 0.0, 0.8))
    wider = WIDER_ELBOW if bent else WIDER if costs.ahead is not None else WIDER_BLOCKS
    factor = wider * np.sqrt((1 + rho) / (1 - rho))
    return np.asarray(deviation * factor)
