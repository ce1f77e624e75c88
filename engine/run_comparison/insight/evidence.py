"""Test and estimate the shift of each metric, before any margin is chosen.

See docs/models/run-comparison.md, Tests of a metric and Shift and interval.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from engine.run_comparison.runs.measurements import Floats, Ints
from engine.run_comparison.runs.samples import Samples
from engine.stats.ranks import mann_whitney, merge_sorted
from engine.stats.shift import hodges_lehmann
from engine.stats.significance import ks_p_values


@dataclass(frozen=True, slots=True, eq=False)
class Evidence:
    """Tests and estimates per metric, NaN where a side has no values (``compared`` is False).

    ``shift`` and its interval ``low`` to ``high`` are right minus left: of logarithms where all values are positive
    (``logarithmic``), else in units of ``base``, the left median's absolute value. ``deviation``: pooled standard
    deviation on the same scale.
    """

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

    def take(self, rows: Ints) -> Evidence:
        """Return the evidence of some rows."""
        return Evidence(*(getattr(self, name)[rows] for name in Evidence.__slots__))


def gather(
    samples: Samples, alpha: float, check: Callable[[], None] = lambda: None, only: NDArray[np.bool_] | None = None
) -> Evidence:
    """Run the tests of every metric (or of those ``only``) with values on both sides, intervals at 1 - 2 ``alpha``."""
    k = samples.count
    base, p_value, spread_p, delta, shift, low, high, deviation = (np.full(k, np.nan) for _ in range(8))
    compared, logarithmic = np.zeros(k, dtype=bool), np.zeros(k, dtype=bool)
    for metrics, n1, n2 in samples.shapes():
        metrics = metrics if only is None else metrics[only[metrics]]
        if not (n1 and n2 and metrics.size):
            continue
        check()
        left = np.sort(samples.left.rows(metrics, n1), axis=1)
        right = np.sort(samples.right.rows(metrics, n2), axis=1)
        compared[metrics] = True
        merged = merge_sorted(left, right)
        p_value[metrics] = mann_whitney(left, right, merged).two_sided
        # The distance is a whole number of parts of n1 n2; rounding keeps the table of exact p-values small.
        spread_p[metrics] = ks_p_values(np.rint(merged.distance * n1 * n2) / (n1 * n2), n1, n2)
        delta[metrics] = merged.cliffs_delta
        positive = (left[:, 0] > 0) & (right[:, 0] > 0)
        logarithmic[metrics] = positive
        base[metrics] = np.abs((left[:, (n1 - 1) // 2] + left[:, n1 // 2]) / 2.0)
        left, right = transform(left, positive), transform(right, positive)
        estimate = hodges_lehmann(left, right, alpha, check, ordered=True)
        shift[metrics], low[metrics], high[metrics] = estimate.estimate, estimate.low, estimate.high
        if n1 + n2 > 2:
            deviation[metrics] = np.sqrt((_squares(left) + _squares(right)) / (n1 + n2 - 2))
    return Evidence(compared, logarithmic, base, p_value, spread_p, delta, shift, low, high, deviation)


def _squares(rows: Floats) -> Floats:
    """Return the sum of squared distances from the mean of each row."""
    return np.asarray(rows.shape[1] * np.ascontiguousarray(rows).var(axis=1))


def transform(rows: Floats, positive: NDArray[np.bool_]) -> Floats:
    """Return logarithms of the rows that are ``positive``, and the others unchanged."""
    if positive.all():
        return np.asarray(np.log(rows))
    return np.where(positive[:, None], np.log(np.where(rows > 0, rows, 1.0)), rows)


def size_times_evidence() -> pl.Expr:
    """Return column ``evidence`` of the metrics table: how far the ratio is from 1, weighed by -log10 q where there is a q.

    Null where the ratio is missing or not positive.
    """
    size = pl.col("ratio").log().abs().clip(0.0, 50.0)
    sure = pl.when(pl.col("q_value").is_null()).then(1.0).otherwise(-pl.col("q_value").clip(1e-300, 1.0).log10())
    return pl.when(pl.col("ratio") > 0).then(size * sure + 0.0)


def limits(evidence: Evidence, margin: float) -> tuple[Floats, Floats]:
    """Return the bounds of the equivalence margin on each metric's own scale: ratio within [margin, 1 / margin]."""
    lower = np.where(evidence.logarithmic, math.log(margin), (margin - 1.0) * evidence.base)
    upper = np.where(evidence.logarithmic, -math.log(margin), (1.0 / margin - 1.0) * evidence.base)
    return lower, upper


def as_ratio(evidence: Evidence, value: Floats) -> Floats:
    """Convert a shift to the ratio right / left, at least 0; NaN where there is none (a left median of zero that moves)."""
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        relative = np.maximum(1.0 + value / evidence.base, 0.0)
        relative = np.where(value == 0, 1.0, np.where(evidence.base > 0, relative, np.nan))
        return np.where(evidence.logarithmic, np.exp(value), relative)
