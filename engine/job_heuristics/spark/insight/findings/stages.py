"""Stages: skew and its cause, small tasks, large partitions, waits, failures, retries, speculation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import polars as pl

from engine.core import units
from engine.job_heuristics.spark.insight.findings.insight import Insight, level
from engine.job_heuristics.spark.insight.resources import Resources, partitions_key
from engine.job_heuristics.spark.insight.skew import StageTasks, skew_setting
from engine.job_heuristics.spark.model.app import App

LARGE, GOOD = 5 << 30, 128 << 20
"""Bytes of a task that are too many, and that are good."""
MANY, SHORT_MS = 5_000, 500
"""More tasks than this with a shorter median are too small."""
SLOW_HOST, LEAST_TASKS, LEAST_LOST_MS = 1.5, 10, 10_000
"""A host is slow if at least ten tasks take 1.5 times as long there as elsewhere, and lose 10 s."""
BEFORE_MS = 120_000
"""An executor that was lost at most so long before a stage began again is named as its reason."""
_CAUSES = {
    "data": ("it read {0} where the median read {1}", "", ""),
    "host": ("its host {2} takes {3:.1f} times as long as the others", "spark.speculation", "true"),
    "keys": ("it read no more than others, on no slower host: its records cost more", "", ""),
}


def insights(app: App, held: Resources, stages: Mapping[tuple[int, int], StageTasks]) -> Iterator[Insight]:
    """Yield the insights on stages."""
    key = partitions_key(app)
    for one in stages.values():
        yield from _skew(app, one)
        yield from _sizes(one, key)
        yield from _waits(one, held, key)
    yield from _hosts(app)
    yield from _lost_time(app)
    yield from _retries(app)


def _skew(app: App, one: StageTasks) -> Iterator[Insight]:
    if not one.cause:
        return
    words, key, setting = _CAUSES[one.cause]
    if one.cause == "data":
        key, setting = skew_setting(app, one)
        words += "" if key else "; no property divides it: salt its key, or aggregate in two steps"
    size = units.size
    reason = words.format(size(one.longest_bytes), size(one.median_bytes), one.host, one.host_ratio)
    yield Insight(
        "skew", f"stage {one.stage.stage}", f"{one.ratio:.1f} x", "5 x the median", level(one.ratio, 5, 7, 10, 20),
        f"The longest task takes {units.duration(one.longest_ms)}, the median {units.duration(one.median_ms)}: {reason}.",
        key, setting,
    )  # fmt: skip


def _sizes(one: StageTasks, key: str) -> Iterator[Insight]:
    subject = f"stage {one.stage.stage}"
    if one.tasks > MANY and one.median_ms < SHORT_MS:
        yield Insight(
            "small tasks", subject, f"{one.tasks:,} tasks", f"{MANY:,}", level(one.tasks, MANY, 2 * MANY, 10 * MANY, 20 * MANY),
            f"{one.tasks:,} tasks of {units.duration(one.median_ms)}: a tenth of them would do.",
            key, str(one.tasks // 10),
        )  # fmt: skip
    if one.largest_bytes > LARGE:
        wanted = -(-one.largest_bytes // GOOD)
        yield Insight(
            "large partition", subject, units.size(one.largest_bytes), units.size(LARGE),
            level(one.largest_bytes, LARGE, 2 * LARGE, 4 * LARGE, 8 * LARGE),
            f"One task moved {units.size(one.largest_bytes)}; {units.size(GOOD)} are good: {wanted:,} times as many partitions.",
            key, str(min(100_000, one.tasks * wanted)),
        )  # fmt: skip


def _waits(one: StageTasks, held: Resources, key: str) -> Iterator[Insight]:
    sums, subject = one.stage.sums, f"stage {one.stage.stage}"
    run = sums["run_ms"]
    if run < 10_000:
        return
    if (share := sums["fetch_wait_ms"] / run) >= 0.1:
        yield Insight(
            "fetch wait", subject, f"{share:.0%}", "10 %", level(share, 0.1, 0.2, 0.4, 0.6),
            f"Tasks waited {units.duration(sums['fetch_wait_ms'])} for shuffle data of other executors.",
            "spark.reducer.maxSizeInFlight", "96m",
        )  # fmt: skip
    if (share := sums["shuffle_write_ns"] / 1e6 / run) >= 0.1:
        yield Insight(
            "shuffle write", subject, f"{share:.0%}", "10 %", level(share, 0.1, 0.2, 0.4, 0.6),
            f"Tasks wrote shuffle data for {units.duration(sums['shuffle_write_ns'] / 1e6)} of {units.duration(run)}: the disks "
            "are slow, or it is flushed in pieces that are too small.", "spark.shuffle.file.buffer", "1m",
        )  # fmt: skip
    if one.duration_ms and (share := one.overhead_ms / one.duration_ms) >= 0.1:
        yield Insight(
            "scheduler delay", subject, f"{share:.0%}", "10 %", level(share, 0.1, 0.2, 0.4, 0.6),
            f"{units.duration(one.overhead_ms)} of the tasks' time was neither work nor packing: the driver hands out tasks "
            "too slowly, or they are too small.",
            key if one.stage.shuffle_read_bytes else "spark.sql.files.maxPartitionBytes",
            str(max(1, one.tasks // 4)) if one.stage.shuffle_read_bytes else "512m",
        )  # fmt: skip
    if sums["cpu_ns"] and (share := sums["cpu_ns"] / 1e6 / run) < 0.5:
        yield Insight(
            "CPU", subject, f"{share:.0%}", "50 %", 1,
            f"Tasks used a processor for {share:.0%} of their time: the stage waits for input and output, "
            "and more tasks could run at once.", "spark.executor.cores", "more",
        )  # fmt: skip
    slots = held.slots
    if slots and one.tasks < slots and run > 60_000:
        yield Insight(
            "few tasks", subject, f"{one.tasks:,} tasks", f"{slots:,} slots", level(slots / one.tasks, 1.5, 3, 6, 12),
            f"{one.tasks:,} tasks cannot fill {slots:,} task slots.", key, str(2 * slots),
        )  # fmt: skip


def _hosts(app: App) -> Iterator[Insight]:
    """Find hosts on which tasks take longer than those of the same stage elsewhere."""
    usual = pl.col("run_ms").median().over("stage_id", "stage_attempt")
    good = app.tasks.filter((pl.col("reason") == "Success") & pl.col("measured"))
    times = good.select("host", "run_ms", usual=usual).filter(pl.col("usual") > 0)
    by_host = times.group_by("host").agg(
        pl.len(), (pl.col("run_ms") / pl.col("usual")).median().alias("times"),
        lost=(pl.col("run_ms") - pl.col("usual")).clip(lower_bound=0).sum(),
    ).sort("times", "host", descending=[True, False])  # fmt: skip
    if by_host.height < 2:
        return
    for host, tasks, ratio, lost in by_host.filter(pl.col("len") >= LEAST_TASKS).head(5).iter_rows():
        others = float(by_host.filter(pl.col("host") != host)["times"].median() or 0)  # type: ignore[arg-type]
        if others and lost >= LEAST_LOST_MS and (slower := ratio / others) >= SLOW_HOST:
            yield Insight(
                "slow host", f"host {host}", f"{slower:.1f} x", f"{SLOW_HOST:g} x", level(slower, SLOW_HOST, 2, 3, 5),
                f"Its {tasks:,} tasks take {slower:.1f} times as long as those of the same stages on other hosts, "
                f"{units.duration(lost)} longer in all.", "spark.speculation", "true",
            )  # fmt: skip


def _lost_time(app: App) -> Iterator[Insight]:
    if not app.tasks.height:
        return
    took = (pl.col("finish_ms") - pl.col("launch_ms")).clip(lower_bound=0)
    whole = int(app.tasks.select(took.sum()).item())
    for topic, which, words in (
        (
            "failed attempts",
            ~pl.col("reason").is_in(["Success", "TaskKilled", "TaskCommitDenied", "Resubmitted"]),
            "failed",
        ),
        (
            "speculation",
            pl.col("speculative") & (pl.col("reason") != "Success"),
            "were speculative and lost their race",
        ),
    ):
        found = app.tasks.filter(which)
        if found.height and whole:
            lost = int(found.select(took.sum()).item())
            errors = found["error"].drop_nulls().value_counts(sort=True).head(1)
            often = f"; most often: {errors[errors.columns[0]][0][:160]}" if errors.height else ""
            yield Insight(
                topic, "application", units.duration(lost), "0", level(lost / whole, 0.0001, 0.05, 0.2, 0.4),
                f"{found.height:,} attempts {words}, with {lost / whole:.1%} of all task time{often}.",
            )  # fmt: skip


def _retries(app: App) -> Iterator[Insight]:
    """Find stages that ran again, and the executors whose loss made them."""
    again = [stage for stage in app.stages if stage.attempt > 0]
    if not again:
        return
    reason = next((stage.failure for stage in app.stages if stage.failure), "") or "no reason given"
    starts = {stage.submit_ms for stage in again if stage.submit_ms is not None}
    lost = [one for one in app.executors if not one.active and one.remove_ms is not None]
    before = [one for one in lost if any(0 <= start - (one.remove_ms or 0) <= BEFORE_MS for start in starts)]
    words = "".join(
        f" Executor {one.name} was lost just before: {(one.reason or 'no reason given')[:160]}." for one in before[:3]
    )
    memory = any("memory" in (one.reason or "").lower() for one in before)
    served = (app.properties.get("spark.shuffle.service.enabled") or "").lower() == "true"
    key, setting = ("spark.executor.memoryOverhead", "more") if memory else ("spark.shuffle.service.enabled", "true")
    yield Insight(
        "stage retries", "application", f"{len(again):,}", "0", level(len(again), 1, 2, 4, 8),
        f"{len(again):,} stage attempts were repeated: {reason[:200]}.{words}",
        "" if served and not memory else key, "" if served and not memory else setting,
    )  # fmt: skip
