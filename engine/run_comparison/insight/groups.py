"""Count verdicts by one label of the metrics: a cause that metrics share shows as a group."""

from __future__ import annotations

import polars as pl

from engine.run_comparison.tables import GROUPS


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
