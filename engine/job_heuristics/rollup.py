"""Fleet view: used, wasted, wait and severities by user, queue, type and hour; the Pareto of waste."""

from __future__ import annotations

import polars as pl

from engine.job_heuristics.beyond_tables import ROLLUP
from engine.job_heuristics.tables import SEVERITIES

GROUPS: tuple[str, ...] = ("user", "queue", "job_type", "hour")
"""What jobs can be grouped by; ``hour`` is the UTC hour in which they finished (or were submitted)."""


_SUMMED = (
    "jobs", "running", "failed", "used_mb_s", "wasted_mb_s", "cost_mb_s", "avoidable_mb_s", "saving_mb_s", "wait_ms",
    *(word.lower() for word in SEVERITIES),
)  # fmt: skip


def rollup(jobs: pl.DataFrame, costs: pl.DataFrame, recommendations: pl.DataFrame) -> pl.DataFrame:
    """Rows of ``ROLLUP`` from the ``jobs`` result, ``cost.waste`` and the recommendations."""
    saved = recommendations.group_by("job_id", maintain_order=True).agg(pl.col("saving_mb_s").clip(0).sum())
    base = (
        jobs.select(
            "job_id", "user", "queue", "job_type", "state", "severity", "used_mb_s", "wasted_mb_s", "wait_ms",
            jobs=pl.lit(1, pl.Int64),
            running=(pl.col("state") == "RUNNING").fill_null(False).cast(pl.Int64),
            failed=pl.col("state").is_in(["FAILED", "KILLED", "ERROR"]).fill_null(False).cast(pl.Int64),
            **{w.lower(): (pl.col("severity") == w).fill_null(False).cast(pl.Int64) for w in SEVERITIES},
            hour=pl.from_epoch(pl.coalesce("finish_ms", "submit_ms"), "ms").dt.strftime("%Y-%m-%d %H:00"),
        )
        .join(costs, "job_id", "left", maintain_order="left")
        .join(saved, "job_id", "left", maintain_order="left")
    )  # fmt: skip
    found = []
    for by in GROUPS:
        grouped = (
            base.group_by(pl.col(by).fill_null("?").alias("group"), maintain_order=True)
            .agg(pl.col(*_SUMMED).sum())
            .sort(["wasted_mb_s", "used_mb_s", "group"], descending=[True, True, False])
        )
        waste = pl.col("wasted_mb_s")
        found.append(
            ROLLUP.frame(
                grouped.with_columns(
                    by=pl.lit(by),
                    wasted_percent=pl.when(pl.col("used_mb_s") > 0).then(100 * waste / pl.col("used_mb_s")),
                    share=pl.when(waste.sum() > 0).then(100 * waste / waste.sum()),
                    cumulated=pl.when(waste.sum() > 0).then(100 * waste.cum_sum() / waste.sum()),
                )
            )
        )
    return pl.concat(found)
