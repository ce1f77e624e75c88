"""Sum a comparison up in one number: the geometric mean of all ratios, turned so that above 1 is worse."""

from __future__ import annotations

import math

import polars as pl


def geometric_mean(metrics: pl.DataFrame, *, right_over_left: bool) -> tuple[float | None, int]:
    """Return the geometric mean over the counted rows of the ``metrics`` table, None without any, and of how many.

    Ratios right to left of metrics of which higher is better are turned round. A ratio that is 0, infinite or unknown has
    no logarithm and is left out. ``right_over_left``: the column ``ratio`` is right to left, else left to right.
    """
    counted = metrics.filter(~pl.col("pooled") & ~pl.col("muted") & (pl.col("ratio") > 0) & pl.col("ratio").is_finite())
    if not counted.height:
        return None, 0
    worse_above = (counted["direction"] == "lower") == right_over_left
    logs = counted["ratio"].log()
    total = math.fsum(log if above else -log for log, above in zip(logs.to_list(), worse_above.to_list(), strict=True))
    return math.exp(total / counted.height), counted.height
