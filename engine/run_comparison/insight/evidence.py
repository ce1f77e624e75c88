"""What the samples of each metric say before any margin is chosen: tests, shift and interval."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engine.run_comparison.runs.measurements import Floats
from engine.run_comparison.runs.samples import Samples
from engine.stats.kolmogorov import ks_p_values
from engine.stats.ranks import mann_whitney, merge_sorted
from engine.stats.shift import hodges_lehmann


@dataclass(frozen=True, slots=True)
class Evidence:
    """What the samples say, before any margin is chosen. Shift and interval are right minus left on the log scale
    where all values are positive (``logarithmic``), else in units of ``base``, the left median's absolute value."""

    compared: NDArray[np.bool_]
    logarithmic: NDArray[np.bool_]
    base: Floats
    p_value: Floats
    spread_p: Floats
    cliffs_delta: Floats
    shift: Floats
    low: Floats
    high: Floats
    deviation: Floats

    def with_rows(self, rows: NDArray[np.bool_], other: Evidence) -> Evidence:
        """This evidence with some rows from another."""
        return Evidence(*(np.where(rows, getattr(other, name), getattr(self, name)) for name in Evidence.__slots__))

    def take(self, rows: NDArray[np.int64]) -> Evidence:
        """The evidence of some rows."""
        return Evidence(*(getattr(self, name)[rows] for name in Evidence.__slots__))


def gather(
    samples: Samples,
    alpha: float,
    check: Callable[[], None] = lambda: None,
    only: NDArray[np.bool_] | None = None,
) -> Evidence:
    """Tests and Hodges-Lehmann intervals of every metric (or of those ``only``) with values on both sides."""
    k = samples.count
    nan = [np.full(k, np.nan) for _ in range(8)]
    base, p_value, spread_p, delta, shift, low, high, deviation = nan
    compared = np.zeros(k, dtype=bool)
    logarithmic = np.zeros(k, dtype=bool)
    for metrics, n1, n2 in samples.shapes():
        metrics = metrics if only is None else metrics[only[metrics]]
        if not (n1 and n2 and metrics.size):
            continue
        check()
        left, right = samples.left.rows(metrics, n1), samples.right.rows(metrics, n2)
        compared[metrics] = True
        left, right = np.sort(left, axis=1), np.sort(right, axis=1)
        merged = merge_sorted(left, right)
        p_value[metrics] = mann_whitney(left, right, merged).two_sided
        spread_p[metrics] = gap_p_values(np.rint(merged.distance * n1 * n2), n1, n2)
        delta[metrics] = merged.cliffs_delta
        positive = (left[:, 0] > 0) & (right[:, 0] > 0)
        logarithmic[metrics] = positive
        base[metrics] = np.abs((left[:, (n1 - 1) // 2] + left[:, n1 // 2]) / 2.0)
        left, right = transform(left, positive), transform(right, positive)
        found = hodges_lehmann(left, right, alpha, check, ordered=True)
        shift[metrics], low[metrics], high[metrics] = found.estimate, found.low, found.high
        if n1 + n2 > 2:
            deviation[metrics] = np.sqrt((squares(left) + squares(right)) / (n1 + n2 - 2))
    return Evidence(compared, logarithmic, base, p_value, spread_p, delta, shift, low, high, deviation)


def gap_p_values(gap: Floats, n1: int, n2: int) -> Floats:
    """Kolmogorov and Smirnov's p of a distance, given as a whole number of parts of n1 n2."""
    return ks_p_values(gap / (n1 * n2), n1, n2)


def squares(rows: Floats) -> Floats:
    """Sum of squared distances from the mean of each row."""
    return np.asarray(rows.shape[1] * np.ascontiguousarray(rows).var(axis=1))


def transform(rows: Floats, positive: NDArray[np.bool_]) -> Floats:
    """Logarithms of the rows that are ``positive``; the others as they are."""
    if positive.all():
        return np.asarray(np.log(rows))
    return np.where(positive[:, None], np.log(np.where(rows > 0, rows, 1.0)), rows)


def limits(evidence: Evidence, margin: float) -> tuple[Floats, Floats]:
    """Bounds of the equivalence margin on each metric's own scale: ratio within [margin, 1 / margin]."""
    lower = np.where(evidence.logarithmic, math.log(margin), (margin - 1.0) * evidence.base)
    upper = np.where(evidence.logarithmic, -math.log(margin), (1.0 / margin - 1.0) * evidence.base)
    return lower, upper


def as_ratio(evidence: Evidence, value: Floats) -> Floats:
    """A shift as the ratio right / left; NaN where it has none (a left median of zero that moves)."""
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        relative = np.where(value == 0, 1.0, np.where(evidence.base > 0, 1.0 + value / evidence.base, np.nan))
        return np.where(evidence.logarithmic, np.exp(value), relative)
