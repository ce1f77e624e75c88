"""What a job really cost: every attempt and the application master, split by cause so that the parts add up exactly.

Upstream counts only the attempt that succeeded. Here each attempt's container (MB) times its run time (ms) goes to one
cause; a successful attempt is divided into waiting, over-sizing and useful parts. Integers throughout.
"""

from __future__ import annotations

import polars as pl

from engine.job_heuristics.beyond_tables import COSTS
from engine.job_heuristics.facts import DEFAULT_AM_MB, DEFAULT_CONTAINER_MB, MB
from engine.job_heuristics.model import Model

CAUSES: tuple[tuple[str, str], ...] = (
    ("useful", "memory that tasks needed, while they worked"),
    ("over-sizing", "container memory above peak x head-room, while tasks worked"),
    ("idle reducers", "reducers holding a container before the last map had finished"),
    ("failures", "attempts that failed, and successes whose output was lost"),
    ("speculation", "losers of speculative races"),
    ("killed", "other killed attempts: preemption, lost nodes, a killed job"),
    ("running", "attempts that still run, so far"),
    ("application master", "the container that ran the job"),
)
"""Causes in the order they are shown, with their meaning."""
NAMES = tuple(name for name, _ in CAUSES)


_KEYS = {
    "map_vcores": ("mapreduce.map.cpu.vcores", 1),
    "reduce_vcores": ("mapreduce.reduce.cpu.vcores", 1),
    "am_mb": ("yarn.app.mapreduce.am.resource.mb", DEFAULT_AM_MB),
    "am_vcores": ("yarn.app.mapreduce.am.resource.cpu-vcores", 1),
}


def _settings(conf: pl.DataFrame, jobs: pl.DataFrame) -> pl.DataFrame:
    """Per job the conf values that cost depends on; Hadoop's defaults where unset, not a number or not positive."""
    known = conf.filter(pl.col("key").is_in([key for key, _ in _KEYS.values()])).with_columns(
        pl.col("value").str.strip_chars().cast(pl.Int64, strict=False)
    )
    given = (
        known.filter(pl.col("value").is_between(1, 2**31))
        .group_by("job_id")
        .agg(pl.col("value").filter(pl.col("key") == key).first().alias(name) for name, (key, _) in _KEYS.items())
    )
    return (
        jobs.select("job_id")
        .join(given, "job_id", "left", maintain_order="left")
        .with_columns(pl.col(name).fill_null(default) for name, (_, default) in _KEYS.items())
    )


def parts(model: Model, headroom: float = 1.5) -> pl.DataFrame:
    """Per attempt: job_id, attempt_id, cause, ``mb_ms`` and ``vcore_ms``; a successful attempt has up to three rows.

    ``headroom`` times the side's largest known peak is what a task needed at most; where no memory was measured
    nothing counts as over-sizing. Uber jobs ran inside the application master: their attempts cost nothing more.
    """
    jobs = model.jobs.select(
        "job_id",
        pl.coalesce("finish_ms", "last_event_ms").alias("until"),
        "uberized",
        pl.col("map_memory_mb").fill_null(DEFAULT_CONTAINER_MB),
        pl.col("reduce_memory_mb").fill_null(DEFAULT_CONTAINER_MB),
    ).join(_settings(model.conf, model.jobs), "job_id", "left", maintain_order="left")
    good = pl.col("chosen").fill_null(False) & (pl.col("state") == "SUCCEEDED")
    attempts = (
        model.attempts.select(
            "job_id", "task_id", "attempt_id", "side", "state", "chosen", "start_ms", "finish_ms",
            "shuffle_finish_ms", "avataar",
        )
        .filter(pl.col("start_ms") > 0)
        .join(jobs, "job_id", "left", maintain_order="left")
        .join(_needs(model.tasks, headroom), ["job_id", "side"], "left", maintain_order="left")
        .with_columns(
            is_map=pl.col("side") == "map",
            raced=((pl.col("avataar") == "SPECULATIVE").fill_null(False)).any().over("task_id"),
            last_map=pl.col("finish_ms").filter((pl.col("side") == "map") & good).max().over("job_id"),
            ms=(pl.coalesce("finish_ms", "until") - pl.col("start_ms")).clip(0, 2**42).fill_null(0),
        )
        .with_columns(
            mb=pl.when(pl.col("uberized").fill_null(False)).then(0)
            .when(pl.col("is_map")).then(pl.col("map_memory_mb")).otherwise(pl.col("reduce_memory_mb"))
            .clip(0, 2**20),
            cores=pl.when(pl.col("uberized").fill_null(False)).then(0)
            .when(pl.col("is_map")).then(pl.col("map_vcores")).otherwise(pl.col("reduce_vcores")).clip(0, 2**16),
            idle_ms=pl.when(~pl.col("is_map"))
            .then(pl.min_horizontal(pl.col("last_map"), pl.col("shuffle_finish_ms")) - pl.col("start_ms"))
            .otherwise(0).fill_null(0).clip(0),
        )
        .with_columns(idle_ms=pl.min_horizontal("idle_ms", "ms"), needed=pl.min_horizontal("need_mb", "mb"))
        .with_columns(needed=pl.coalesce("needed", "mb"))
    )  # fmt: skip
    worked = pl.col("ms") - pl.col("idle_ms")
    done = attempts.filter(good)
    rest = attempts.filter(~good.fill_null(False))
    cause = (
        pl.when(pl.col("state") == "RUNNING").then(pl.lit("running"))
        .when(pl.col("raced") & pl.col("state").is_in(["KILLED", "SUCCEEDED"])).then(pl.lit("speculation"))
        .when(pl.col("state") == "KILLED").then(pl.lit("killed"))
        .otherwise(pl.lit("failures"))
    )  # fmt: skip
    name = ["job_id", "attempt_id"]
    none = pl.lit(0, pl.Int64)
    masters = model.jobs.join(jobs, "job_id", "left", maintain_order="left").with_columns(
        ms=(pl.col("until") - pl.col("am_start_ms")).clip(0, 2**42).fill_null(0)
    )
    return pl.concat(
        [
            done.select(
                *name, pl.lit("useful").alias("cause"), mb_ms=pl.col("needed") * worked,
                vcore_ms=pl.col("cores") * worked,
            ),
            done.filter(pl.col("mb") > pl.col("needed")).select(
                *name, pl.lit("over-sizing").alias("cause"), mb_ms=(pl.col("mb") - pl.col("needed")) * worked,
                vcore_ms=none,
            ),
            done.filter(pl.col("idle_ms") > 0).select(
                *name, pl.lit("idle reducers").alias("cause"), mb_ms=pl.col("mb") * pl.col("idle_ms"),
                vcore_ms=pl.col("cores") * pl.col("idle_ms"),
            ),
            rest.select(
                *name, cause.alias("cause"), mb_ms=pl.col("mb") * pl.col("ms"), vcore_ms=pl.col("cores") * pl.col("ms")
            ),
            masters.filter(pl.col("ms") > 0).select(
                "job_id", pl.lit("").alias("attempt_id"), pl.lit("application master").alias("cause"),
                mb_ms=pl.col("am_mb") * pl.col("ms"), vcore_ms=pl.col("am_vcores") * pl.col("ms"),
            ),
        ]
    )  # fmt: skip


def _needs(tasks: pl.DataFrame, headroom: float) -> pl.DataFrame:
    """Per job and side: MB that no task of it exceeded, times ``headroom``; null where memory was not measured."""
    peak = pl.max_horizontal(
        "physical_bytes", pl.when(pl.col("side") == "map").then("map_physical_max_bytes"),
        pl.when(pl.col("side") == "reduce").then("reduce_physical_max_bytes"),
    )  # fmt: skip
    return (
        tasks.filter(pl.col("timed"))
        .group_by("job_id", "side", maintain_order=True)
        .agg(peak.max().alias("peak"))
        .select(
            "job_id",
            "side",
            need_mb=pl.when(pl.col("peak") > 0)
            .then((pl.col("peak") * headroom / MB).ceil().clip(1, 2**30))
            .cast(pl.Int64),
        )
    )


def costs(
    model: Model, headroom: float = 1.5, price_gb_h: float | None = None, price_vcore_h: float | None = None
) -> pl.DataFrame:
    """Rows of ``COSTS``: jobs in model order, causes in ``CAUSES`` order, only causes that cost something."""
    order = pl.DataFrame({"cause": NAMES, "rank": range(len(NAMES))}, schema={"cause": pl.String, "rank": pl.Int64})
    ranked = model.jobs.select("job_id").with_row_index("at")
    summed = (
        parts(model, headroom)
        .group_by("job_id", "cause", maintain_order=True)
        .agg(pl.col("mb_ms").sum(), pl.col("vcore_ms").sum(), pl.len().cast(pl.Int64).alias("attempts"))
        .filter((pl.col("mb_ms") > 0) | (pl.col("vcore_ms") > 0))
        .join(order, "cause", "left", maintain_order="left")
        .join(ranked, "job_id", "left", maintain_order="left")
        .sort("at", "rank")
    )
    price = pl.lit(None, pl.Float64)
    if price_gb_h is not None or price_vcore_h is not None:
        price = pl.col("mb_ms") / 1024 / 3.6e6 * (price_gb_h or 0) + pl.col("vcore_ms") / 3.6e6 * (price_vcore_h or 0)
    return COSTS.frame(
        summed.select(
            "job_id",
            "cause",
            "attempts",
            "mb_ms",
            mb_s=pl.col("mb_ms") / 1000,
            vcore_s=pl.col("vcore_ms") / 1000,
            share=100 * pl.col("mb_ms") / pl.col("mb_ms").sum().over("job_id"),
            price=price,
        )
    )


WASTE = ("over-sizing", "idle reducers", "failures", "speculation", "killed")
"""Causes that a better set-up could avoid."""


def waste(costs_frame: pl.DataFrame) -> pl.DataFrame:
    """Per job: ``cost_mb_s`` of all attempts and ``avoidable_mb_s`` of the causes in ``WASTE``."""
    return costs_frame.group_by("job_id", maintain_order=True).agg(
        pl.col("mb_s").sum().alias("cost_mb_s"),
        pl.col("mb_s").filter(pl.col("cause").is_in(list(WASTE))).sum().alias("avoidable_mb_s"),
    )
