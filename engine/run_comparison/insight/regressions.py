"""Tell changes for the worse from those for the better, mark the regressions among them, and grade what ``check`` fails for.

See docs/models/run-comparison.md, Verdicts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import polars as pl
from numpy.typing import NDArray

from engine.core.result import Level
from engine.run_comparison.insight.statistical import DIFFERENT
from engine.run_comparison.parameters import ComparisonParameters
from engine.run_comparison.runs.measurements import Floats
from engine.run_comparison.runs.metric_units import canonical_unit, is_time
from engine.run_comparison.runs.samples import Samples

DIFFERENT_METRICS = (pl.col("verdict") == DIFFERENT) & ~pl.col("pooled")
"""Metrics that are different, the benchmark tool's pools of several metrics left out."""
IMPROVED = DIFFERENT_METRICS & ~pl.col("muted") & (pl.col("effect") == "better")
"""Metrics that are different for the better: they never fail a check."""
WORSENED = DIFFERENT_METRICS & ~pl.col("muted") & (pl.col("effect") == "worse")
"""Metrics that are different for the worse, by however little."""


def effects(
    shift: Floats, real: NDArray[Any], samples: Samples, units: Iterable[str], directions: Sequence[str]
) -> list[str]:
    """Return ``worse`` or ``better`` for each ``real`` change, by the sign of its shift from left to right and the direction of
    the metric, else an empty text.

    A time of zero everywhere on a side was not measured: going to or from it is neither.
    """
    unmeasured = (samples.left.means == 0) | (samples.right.means == 0)
    found = []
    rows = zip(shift.tolist(), real.tolist(), unmeasured.tolist(), units, directions, strict=True)
    for moved, is_real, zeros, unit, better in rows:
        if not is_real or moved != moved or moved == 0 or (zeros and is_time(canonical_unit(unit).name)):
            found.append("")
        else:
            found.append("worse" if (moved > 0) == (better == "lower") else "better")
    return found


def mark(metrics: pl.DataFrame, parameters: ComparisonParameters) -> pl.DataFrame:
    """Add the column ``regression`` to the metrics: different, for the worse, by at least ``worse_by`` of the left side."""
    ratio = pl.col("ratio") if parameters.mode == "statistical" else 1.0 / pl.col("ratio")
    means = pl.col("mean_right") / pl.col("mean_left")
    ratio = pl.coalesce(ratio, pl.when(means.is_not_nan()).then(means), float("inf"))
    size = pl.when(pl.col("direction") == "lower").then(ratio - 1.0).otherwise(1.0 - ratio)
    # A change from 0 has no size: it is larger than any.
    large = (size >= parameters.worse_by) | (pl.col("mean_left") == 0)
    is_worse = DIFFERENT_METRICS & ~pl.col("muted") & (pl.col("effect") == "worse") & large
    return metrics.with_columns(is_worse.fill_null(False).alias("regression"))


def level_of(summary: Mapping[str, Any], parameters: ComparisonParameters) -> Level:
    """Return the level of each regression: severe if there are more than may pass."""
    return "severe" if summary["regressions"] > parameters.regressions else "low"


def overall_level(summary: Mapping[str, Any], parameters: ComparisonParameters) -> Level:
    """Return the level of the verdict on the whole: metrics that became better are no reason to fail."""
    share = summary["share"]
    if summary["pass"]:
        return "ok"
    if share is not None and share < parameters.pass_share <= _share_not_better(summary):
        return "low"
    return "severe" if summary["pass"] is False else "moderate"


def _share_not_better(summary: Mapping[str, Any]) -> float:
    """Return the share of metrics that matched or became better."""
    return float((summary["matched"] + min(summary["better"], summary["mismatched"])) / max(summary["total"], 1))
