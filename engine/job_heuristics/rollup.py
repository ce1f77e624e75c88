"""Fleet view: used, wasted, wait and severities by user, queue, type and hour; the Pareto of waste."""

from __future__ import annotations

import polars as pl

from engine.job_heuristics.tables import SEVERITIES
from engine.tables import Column, Table

GROUPS: tuple[str, ...] = ("user", "queue", "job_type", "hour")
"""What jobs can be grouped by; ``hour`` is the UTC hour in which they finished (or were submitted)."""

ROLLUP = Table(
    "rollup",
    "One row per group (by user, queue, job_type and hour): jobs, resources and severities; most wasted first",
    (
        Column("by", pl.String, "what the jobs are grouped by: user, queue, job_type, hour", priority=0, width=9),
        Column("group", pl.String, "its value; hours in UTC", priority=0, width=24),
        Column("jobs", pl.Int64, "jobs", kind="count", priority=0),
        Column("running", pl.Int64, "of them running", kind="count", priority=3),
        Column("failed", pl.Int64, "of them failed or killed", kind="count", priority=2),
        Column("used_mb_s", pl.Int64, "upstream's used memory x time", unit="MB s", kind="mb_s", title="used"),
        Column(
            "wasted_mb_s",
            pl.Int64,
            "upstream's wasted memory x time",
            unit="MB s",
            kind="mb_s",
            title="wasted",
            priority=0,
        ),
        Column("wasted_percent", pl.Float64, "wasted of used", unit="%", kind="percent", title="of used"),
        Column(
            "cost_mb_s",
            pl.Float64,
            "true cost of all attempts",
            unit="MB s",
            kind="mb_s",
            title="true cost",
            priority=2,
        ),
        Column(
            "avoidable_mb_s",
            pl.Float64,
            "of it avoidable by a better set-up",
            unit="MB s",
            kind="mb_s",
            title="avoidable",
            priority=2,
        ),
        Column(
            "saving_mb_s",
            pl.Float64,
            "predicted saving of all recommendations",
            unit="MB s",
            kind="mb_s",
            title="saving",
        ),
        Column("wait_ms", pl.Int64, "upstream's wait, summed", unit="ms", kind="ms", title="wait", priority=2),
        Column(
            "share",
            pl.Float64,
            "part of all waste",
            unit="%",
            kind="percent",
            title="of all waste",
            width=14,
            priority=1,
        ),
        Column(
            "cumulated",
            pl.Float64,
            "part of all waste down to here (Pareto)",
            unit="%",
            kind="percent",
            width=14,
            priority=2,
        ),
        *(
            Column(word.lower(), pl.Int64, f"jobs whose worst verdict is {word}", kind="count", priority=3)
            for word in SEVERITIES
        ),
    ),
    key=("by", "group"),
    title="roll-up",
)


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
