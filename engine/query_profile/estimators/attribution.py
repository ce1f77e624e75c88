"""Attribute CPU to classes: the default estimate, the remedies that the data need, and intervals for each class.

See docs/models/query-profile.md, "Remedies" and "Intervals".
"""

from __future__ import annotations

import msgspec
import numpy as np

from engine.query_profile.estimators import design, estimate, remedies
from engine.query_profile.estimators.design import Costs, FitOptions
from engine.query_profile.estimators.remedies import NO_CHANGE, NO_LAG, ChangePoint, Elbow, Lag, find_change_point
from engine.stats import significance

WIDER, WIDER_BLOCKS = 1.12, 1.2
"""Factors on the width of intervals: draws of the posterior (chains are short, weights are plugged in) and block-bootstrap
fits (few blocks, costs cut off at 0) are too narrow. Calibrated so that nominal 90 % intervals cover about 90 % of the classes
that matter in generated scenarios with known truth; the benchmark uses other seeds and another generator."""

FEWEST_DRAWS = 20  # draws below which no intervals are given


class Attribution(msgspec.Struct, frozen=True):
    """CPU by class (J,): ``total`` with the ends ``cpu_low_us`` and ``cpu_high_us`` of its interval (NaN without one).

    ``draws`` (B, J): totals as uncertain as they are (B = 0 without them), below 0 where others are above what they used.
    ``predicted`` (T,): CPU of the intervals; ``time`` and ``call`` (J,): costs averaged over the ``parts``; ``background``: sum
    over all intervals.
    """

    total: np.ndarray
    cpu_low_us: np.ndarray
    cpu_high_us: np.ndarray
    predicted: np.ndarray
    time: np.ndarray
    call: np.ndarray
    background: float
    parts: tuple[Costs, ...]
    elbow: Elbow | None = None
    draws: np.ndarray = msgspec.field(default_factory=lambda: np.zeros((0, 0)))
    change_point: ChangePoint = NO_CHANGE
    lag: Lag = NO_LAG

    @property
    def changed(self) -> bool:
        """Whether costs changed within the window."""
        return self.change_point.row > 0


def attribute(
    x: np.ndarray, calls: np.ndarray | None, y: np.ndarray, seconds: np.ndarray, options: FitOptions, level: float = 0.9
) -> Attribution:
    """Attribute ``y`` (T,) to classes by their times ``x`` and ``calls`` (T, J), with the remedies that are needed.

    Elbow: remove waiting from the times (``remedies.without_waiting``). Lag: mix each row of times with its neighbour. Change of
    costs: fit each side alone. ``level``: nominal coverage of the intervals.
    """
    rows, classes = x.shape
    bent = remedies.find_elbow(x, y, seconds, options) if calls is None else None
    past_elbow = bent is not None and bent.found
    lag = NO_LAG if past_elbow else remedies.find_lag(x, calls, y, seconds)
    if lag.share:
        x = remedies.shifted(np.maximum(x, 0), lag.share)
        calls = None if calls is None else remedies.shifted(np.maximum(calls, 0), lag.share)
    change = NO_CHANGE if past_elbow else find_change_point(x, calls, y, seconds)
    spans = [(0, change.row), (change.row, rows)] if change.row > 0 else [(0, rows)]
    total, time, call = np.zeros(classes), np.zeros(classes), np.zeros(classes)
    predicted = np.zeros(rows)
    background = 0.0
    parts = []
    draws: list[np.ndarray] = []
    length = design.lengths(seconds)
    for part, (begin, end) in enumerate(spans):
        here = slice(begin, end)
        part_options = msgspec.structs.replace(options, seed=options.seed + part)
        part_x, part_calls = np.maximum(x[here], 0), calls[here] if calls is not None else None
        if bent is not None and bent.found:
            costs, part_x, curve = remedies.without_waiting(x[here], y[here], seconds[here], part_options)
            bent = msgspec.structs.replace(bent, curve=curve)
        else:
            costs = estimate.fit(x[here], part_calls, y[here], seconds[here], part_options)
        parts.append(costs)
        work = part_x * costs.time + (0.0 if part_calls is None else np.maximum(part_calls, 0) * costs.call)
        part_background = costs.background * length[here]
        predicted[here] = work.sum(axis=1) + part_background
        part_total = work.sum(axis=0)
        total += part_total
        background += float(part_background.sum())
        if len(costs.draws):
            draws.append(part_total + widened(costs, y[here], predicted[here], part_total))
        share = (end - begin) / rows if rows else 0.0
        time += costs.time * share
        call += costs.call * share
    cpu_low_us = cpu_high_us = np.full(classes, np.nan)
    joint = np.zeros((0, classes))
    if options.draws >= FEWEST_DRAWS and len(draws) == len(spans):
        count = min(len(part_draws) for part_draws in draws)
        tail = (1 - level) / 2
        joint = np.sum([part_draws[:count] for part_draws in draws], axis=0)
        summed = np.sum([np.maximum(part_draws[:count], 0.0) for part_draws in draws], axis=0)
        low, high = np.quantile(summed, [tail, 1 - tail], axis=0)
        cpu_low_us, cpu_high_us = np.minimum(low, total), np.maximum(high, total)
    return Attribution(
        total, cpu_low_us, cpu_high_us, predicted, time, call, background, tuple(parts), bent, joint, change, lag
    )


def widened(costs: Costs, y: np.ndarray, fitted: np.ndarray, center: np.ndarray) -> np.ndarray:
    """Return the deviations (B, J) of the draws from ``center`` (J,), widened for drift that is longer than a block.

    The factor is sqrt((1 + rho)/(1 - rho)) of the residuals' correlation at the distance of one block, times ``WIDER`` or
    ``WIDER_BLOCKS``.
    """
    deviation = costs.draws - center
    with np.errstate(divide="ignore", invalid="ignore"):
        residual = np.where(y > 0, (y - fitted) / y, 0.0)
    lag = significance.block_length(len(y))
    far = design.correlation(residual[lag:], residual[:-lag]) if len(residual) > 3 * lag else 0.0
    rho = float(np.clip(np.nan_to_num(far), 0.0, 0.8))
    factor = (WIDER if costs.predictive is not None else WIDER_BLOCKS) * np.sqrt((1 + rho) / (1 - rho))
    return np.asarray(deviation * factor)
