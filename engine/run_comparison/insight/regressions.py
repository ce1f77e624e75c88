"""Judge the changes: which metrics are muted, which became worse or better, what fails ``check``, and the whole in one number.

See docs/models/run-comparison.md, Verdicts.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from engine.core.view import Level
from engine.run_comparison.insight.statistical import DIFFERENT
from engine.run_comparison.parameters import ComparisonParameters
from engine.run_comparison.runs.measurements import Floats, canonical_unit, is_time
from engine.run_comparison.runs.samples import Samples
from engine.run_comparison.tables import GROUPS

NAMING = ("test", "verb", "resource", "subresource", "scope", "bucket")
"""Columns whose words make up the name of a metric."""


def muted(columns: dict[str, Any], patterns: Sequence[str]) -> NDArray[np.bool_]:
    """Return per row of ``columns`` of the metrics table whether one of ``patterns`` matches it.

    A pattern (``*`` and ``?`` match any text, case is ignored) is compared with the words of the name joined by spaces, and
    with the metric's further labels.
    """
    rows = len(columns["test"])
    if not patterns:
        return np.zeros(rows, dtype=bool)
    wanted = [pattern.lower() for pattern in patterns]
    names = zip(*(columns[name] for name in NAMING), columns["metric"], strict=True)
    texts = ((" ".join(word for word in words if word).lower(), str(label).lower()) for *words, label in names)
    return np.fromiter((any(fnmatchcase(t, p) for t in both if t for p in wanted) for both in texts), bool, rows)


def name_of(row: Mapping[str, Any]) -> str:
    """Name a row of the metrics table in words."""
    return " ".join(str(row[name]) for name in NAMING if row[name])


def pattern_of(row: Mapping[str, Any]) -> str:
    """Return a pattern that matches one row of the metrics table."""
    return name_of(row).replace("[", "?").replace("*", "?")


DIFFERENT_METRICS = (pl.col("verdict") == DIFFERENT) & ~pl.col("pooled")
"""Metrics that are different, without the benchmark tool's pools of several metrics."""
IMPROVED = DIFFERENT_METRICS & ~pl.col("muted") & (pl.col("effect") == "better")
"""Metrics that are different for the better: they never fail a check."""
WORSENED = DIFFERENT_METRICS & ~pl.col("muted") & (pl.col("effect") == "worse")
"""Metrics that are different for the worse, by however little."""


def effects(
    shift: Floats, real: NDArray[Any], samples: Samples, units: Iterable[str], directions: Sequence[str]
) -> list[str]:
    """Return ``worse`` or ``better`` for each ``real`` change, by the sign of its shift and the direction of the metric; empty
    otherwise.

    A time that is zero throughout a side was not measured: a change to or from it is neither.
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
    # A change from 0 exceeds any size.
    large = (size >= parameters.worse_by) | (pl.col("mean_left") == 0)
    is_worse = DIFFERENT_METRICS & ~pl.col("muted") & (pl.col("effect") == "worse") & large
    return metrics.with_columns(is_worse.fill_null(False).alias("regression"))


def level_of(summary: Mapping[str, Any], parameters: ComparisonParameters) -> Level:
    """Return the level of each regression: severe if there are more than may pass."""
    return "severe" if summary["regressions"] > parameters.regressions else "low"


def overall_level(summary: Mapping[str, Any], parameters: ComparisonParameters) -> Level:
    """Return the level of the overall verdict; improvements are no reason to fail."""
    share = summary["share"]
    if summary["pass"]:
        return "ok"
    matched_or_better = summary["matched"] + min(summary["better"], summary["mismatched"])
    if share is not None and share < parameters.pass_share <= matched_or_better / max(summary["total"], 1):
        return "low"
    return "severe" if summary["pass"] is False else "moderate"


def verdicts_by_label(metrics: pl.DataFrame, by: str) -> pl.DataFrame:
    """Return table ``groups``: verdicts of the ``metrics`` table by one of its labels, most worse ones first."""
    verdict = pl.col("verdict")
    return GROUPS.sorted(
        GROUPS.frame(
            metrics.filter(~pl.col("pooled") & ~pl.col("muted"))
            .group_by(pl.col(by).alias("group"), maintain_order=True)
            .agg(
                pl.len().cast(pl.Int64).alias("metrics"),
                (verdict == "different").sum().cast(pl.Int64).alias("different"),
                ((pl.col("effect") == "worse") & (verdict == "different")).sum().cast(pl.Int64).alias("worse"),
                (verdict == "equivalent").sum().cast(pl.Int64).alias("equivalent"),
                (verdict == "undecided").sum().cast(pl.Int64).alias("undecided"),
                (verdict == "missing").sum().cast(pl.Int64).alias("missing"),
                pl.col("matched").filter(verdict != "missing").mean().alias("share"),
                pl.col("ratio").filter(pl.col("ratio").is_finite()).median().alias("ratio"),
            )
            .with_columns(pl.lit(by).alias("by"))
        )
    )


def geometric_mean(metrics: pl.DataFrame, *, right_over_left: bool) -> tuple[float | None, int]:
    """Return the geometric mean over the counted rows of the ``metrics`` table (None without any) and their number.

    Ratios right to left of metrics for which higher is better are inverted, so that above 1 is worse. Ratios that are 0,
    infinite or unknown are left out. ``right_over_left``: the column ``ratio`` is right to left, else left to right.
    """
    counted = metrics.filter(~pl.col("pooled") & ~pl.col("muted") & (pl.col("ratio") > 0) & pl.col("ratio").is_finite())
    if not counted.height:
        return None, 0
    worse_above = (counted["direction"] == "lower") == right_over_left
    logs = counted["ratio"].log()
    total = math.fsum(log if above else -log for log, above in zip(logs.to_list(), worse_above.to_list(), strict=True))
    return math.exp(total / counted.height), counted.height
