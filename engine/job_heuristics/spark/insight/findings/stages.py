"""Insights on stages (skew, partitions, failures, stragglers, where tasks ran) and on SQL plans."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import polars as pl

from engine.core import units
from engine.job_heuristics.dr_elephant.advice import MORE, Insight, level
from engine.job_heuristics.dr_elephant.errors import grouped
from engine.job_heuristics.spark.insight.resources import Resources
from engine.job_heuristics.spark.insight.skew import StageTasks, from_files, skew_setting
from engine.job_heuristics.spark.insight.sql import PlanRow, children, size_below
from engine.job_heuristics.spark.model.app import App, has_gpu, spark_ms
from engine.job_heuristics.spark.rules.settings import SHUFFLE_SERVICE, tasks_wish

LARGE, GOOD = 5 << 30, 128 << 20  # excessive and good bytes per task
MANY, SHORT_MS = 5_000, 500  # stages with more tasks than this and a shorter median have too small tasks
SLOW_HOST, LEAST_TASKS, LEAST_LOST_MS = 1.5, 10, 10_000
"""A host is slow if at least ten tasks take 1.5 times as long as elsewhere, losing 10 s."""
BEFORE_MS = 120_000  # an executor lost at most this long before a stage restarted counts as the cause
_CAUSES = {
    "data": ("it read {0} where the median read {1}", "", ""),
    "host": ("its host {2} takes {3:.1f} times as long as the others", "spark.speculation", "true"),
    "keys": ("it read no more than others, on no slower host: its records cost more", "", ""),
}


_BY_HAND = {
    False: "; no property divides it: salt its key, or aggregate in two steps",
    True: "; no property divides a file that cannot be split (gzip): write smaller ones, or in a format that can be",
}
"""What divides a large part of data by hand: a key, and a file (see ``from_files``)."""


def stage_insights(app: App, held: Resources, stages: Mapping[tuple[int, int], StageTasks]) -> Iterator[Insight]:
    """Yield the insights on stages."""
    for one in stages.values():
        yield from _skew(app, one)
        yield from _sizes(app, one)
        yield from _waits(app, one, held)
    yield from _hosts(app)
    yield from _lost_time(app)
    yield from _retries(app, held)


def _skew(app: App, one: StageTasks) -> Iterator[Insight]:
    if not one.cause:
        return
    words, key, setting = _CAUSES[one.cause]
    if one.cause == "data":
        key, setting = skew_setting(app, one)
        words += "" if key else _BY_HAND[from_files(one)]
    size = units.size
    reason = words.format(size(one.longest_bytes), size(one.median_bytes), one.host, one.host_ratio)
    yield Insight(
        "skew", f"stage {one.stage.stage}", f"{one.ratio:.1f} x", "5 x the median", level(one.ratio, 5, 7, 10, 20),
        f"The longest task takes {units.duration(one.longest_ms)}, the median {units.duration(one.median_ms)}: {reason}.",
        key, setting,
    )  # fmt: skip


def _sizes(app: App, one: StageTasks) -> Iterator[Insight]:
    subject = f"stage {one.stage.stage}"
    if one.tasks > MANY and one.median_ms < SHORT_MS:
        yield Insight(
            "small tasks", subject, f"{one.tasks:,} tasks", f"{MANY:,}", level(one.tasks, MANY, 2 * MANY, 10 * MANY, 20 * MANY),
            f"{one.tasks:,} tasks of {units.duration(one.median_ms)}: a tenth of them would do.",
        ).wishing(tasks_wish(app, one.stage, one.stage.tasks // 10, f"small tasks of {subject}"))  # fmt: skip
    if one.largest_bytes > LARGE:
        wanted = -(-one.largest_bytes // GOOD)
        tasks = min(100_000, one.stage.tasks * wanted)
        alone = one.cause == "data"
        yield Insight(
            "large partition", subject, units.size(one.largest_bytes), units.size(LARGE),
            level(one.largest_bytes, LARGE, 2 * LARGE, 4 * LARGE, 8 * LARGE),
            f"One task moved {units.size(one.largest_bytes)}; {units.size(GOOD)} are good: "
            + ("more tasks do not divide it, see skew." if alone else f"{wanted:,} times as many tasks."),
        ).wishing(tasks_wish(app, one.stage, tasks, f"large partition of {subject}"), helps=not alone)  # fmt: skip


def _waits(app: App, one: StageTasks, held: Resources) -> Iterator[Insight]:
    sums, subject = one.stage.sums, f"stage {one.stage.stage}"
    run = sums["run_ms"]
    if run < 10_000:
        return
    if (share := sums["fetch_wait_ms"] / run) >= 0.1:
        yield Insight(
            "fetch wait", subject, f"{share:.0%}", "10%", level(share, 0.1, 0.2, 0.4, 0.6),
            f"Tasks waited {units.duration(sums['fetch_wait_ms'])} for shuffle data of other executors.",
            "spark.reducer.maxSizeInFlight", "96m", way=1,
        )  # fmt: skip
    if (share := sums["shuffle_write_ns"] / 1e6 / run) >= 0.1:
        yield Insight(
            "shuffle write", subject, f"{share:.0%}", "10%", level(share, 0.1, 0.2, 0.4, 0.6),
            f"Tasks wrote shuffle data for {units.duration(sums['shuffle_write_ns'] / 1e6)} of {units.duration(run)}: the disks "
            "are slow, or it is flushed in pieces that are too small.", "spark.shuffle.file.buffer", "1m", way=1,
        )  # fmt: skip
    if one.duration_ms and (share := one.overhead_ms / one.duration_ms) >= 0.1:
        yield Insight(
            "scheduler delay", subject, f"{share:.0%}", "10%", level(share, 0.1, 0.2, 0.4, 0.6),
            f"{units.duration(one.overhead_ms)} of the tasks' time was neither work nor packing: the driver hands out tasks "
            "too slowly, or they are too small.",
        ).wishing(tasks_wish(app, one.stage, max(1, one.stage.tasks // 4), f"scheduler delay of {subject}"))  # fmt: skip
    counted = sums["cpu_ns"] and not one.stage.outside and not has_gpu(app, one.stage.profile)
    if counted and (share := sums["cpu_ns"] / 1e6 / run) < 0.5:
        yield Insight(
            "CPU", subject, f"{share:.0%}", "50%", 1,
            f"Tasks used a processor for {share:.0%} of their time: the stage waits for input and output, "
            "and more tasks could run at once.", "spark.executor.cores", MORE,
        )  # fmt: skip
    slots, tasks = held.slots, one.stage.tasks
    if slots and tasks < slots and run > 60_000:
        yield Insight(
            "few tasks", subject, units.plural(tasks, "task"), units.plural(slots, "slot"),
            level(slots / max(1, tasks), 1.5, 3, 6, 12),
            f"{units.plural(tasks, 'task')} cannot fill {units.plural(slots, 'task slot')}.",
        ).wishing(tasks_wish(app, one.stage, 2 * slots, f"few tasks of {subject}"))  # fmt: skip


def _hosts(app: App) -> Iterator[Insight]:
    """Find hosts on which tasks take longer than the same stage's tasks elsewhere."""
    usual = pl.col("run_ms").median().over("stage_id", "stage_attempt")
    good = app.tasks.filter((pl.col("reason") == "Success") & pl.col("measured"))
    by_host = good.select("host", "run_ms", usual=usual).filter(pl.col("usual") > 0).group_by("host").agg(
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
                f"Its {units.plural(tasks, 'task')} {'takes' if tasks == 1 else 'take'} {slower:.1f} times as long "
                f"as those of the same stages on other hosts, "
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
            "of speculative copies lost the race",
        ),
    ):
        found = app.tasks.filter(which)
        if found.height and whole:
            lost = int(found.select(took.sum()).item())
            told = found["error"].drop_nulls().value_counts(sort=True)
            errors = grouped(((text, n, "") for text, n in told.iter_rows()), MOST_CAUSES)
            named = "; ".join(f"{count:,} x {text.rstrip('.')}" for text, count, *_ in errors)
            attempts = f"{found.height:,} attempt{'' if found.height == 1 else 's'}"
            yield Insight(
                topic, "application", units.duration(lost), "0", level(lost / whole, 0.0001, 0.05, 0.2, 0.4),
                f"{attempts} {words}, with {lost / whole:.1%} of all task time{f': {named}' if named else ''}.",
            )  # fmt: skip


def _retries(app: App, held: Resources) -> Iterator[Insight]:
    """Find repeated stages, and the lost executors that caused them."""
    again = [stage for stage in app.stages if stage.attempt > 0]
    if not again:
        return
    reason = next((stage.failure for stage in app.stages if stage.failure), "") or "no reason given"
    starts = {stage.submit_ms for stage in again if stage.submit_ms is not None}
    lost = [one for one in app.executors if not one.active and one.remove_ms is not None]
    before = [one for one in lost if any(0 <= start - (one.remove_ms or 0) <= BEFORE_MS for start in starts)]
    words = "".join(
        f" Executor {one.name} was {'given back' if one.name in held.given_back else 'lost'} just before: "
        f"{(one.reason or 'no reason given')[:160]}."
        for one in before[:3]
    )
    memory = any("memory" in (one.reason or "").lower() for one in before)
    key, setting = ("spark.executor.memoryOverhead", MORE) if memory else (SHUFFLE_SERVICE, "true")
    yield Insight(
        "stage retries", "application", f"{len(again):,}", "0", level(len(again), 1, 2, 4, 8),
        f"{units.plural(len(again), 'stage attempt')} {'was' if len(again) == 1 else 'were'} repeated: {reason[:200]}.{words}",
        key, setting,
    )  # fmt: skip


MOST_CAUSES = 3  # most causes of errors that are named
LEVELS = ("PROCESS_LOCAL", "NODE_LOCAL", "RACK_LOCAL", "ANY")  # nearest first
FAR = LEVELS.index("RACK_LOCAL")
LEAST_PLACED, FAR_SHARE = 20, 0.1
"""Least tasks of a stage to be considered; more than a tenth of them far from their data is reported."""
LEAST_WAIT_MS, WAIT_SHARE = 10_000, 0.05  # least wait to be reported, if above a twentieth of the stage's task time
WAIT = "spark.locality.wait"
DEFAULT_WAIT_MS = 3_000


def locality_insights(app: App, held: Resources) -> Iterator[Insight]:
    """Yield the insights on locality, by stage."""
    placed = app.tasks.with_columns(gap=launch_gaps(app, held)).filter(
        (pl.col("reason") == "Success") & pl.col("locality").is_in(LEVELS)
    )
    if placed.height < LEAST_PLACED or placed["locality"].n_unique() == 1:
        return
    placed = placed.with_columns(
        place=pl.col("locality").replace_strict(LEVELS, range(len(LEVELS)), return_dtype=pl.Int64)
    )
    wait = spark_ms(app.properties.get(WAIT), DEFAULT_WAIT_MS)
    for (stage, _), tasks in placed.partition_by(
        "stage_id", "stage_attempt", maintain_order=True, as_dict=True
    ).items():
        if tasks.height >= LEAST_PLACED:
            yield from _far(f"stage {stage}", tasks, wait)
            yield from _waited(f"stage {stage}", tasks, wait)


def _far(subject: str, tasks: pl.DataFrame, wait: int) -> Iterator[Insight]:
    """Compare tasks far from their data with those near it."""
    far, near = tasks.filter(pl.col("place") >= FAR), tasks.filter(pl.col("place") < FAR)
    share = far.height / tasks.height
    moved = int(far.select((pl.col("input_bytes") + pl.col("remote_bytes")).sum()).item() or 0)
    if share < FAR_SHARE or not moved:
        return
    usual = pl.lit(near["run_ms"].median())
    lost = int(far.select((pl.col("run_ms") - usual).clip(lower_bound=0).sum()).item() or 0) if near.height else 0
    each = lost / far.height
    longer = f"{min(60, round(each / 1000))}s" if each > max(wait, 1000) else ""
    words = (
        f"they took {units.duration(lost)} longer than as many near theirs" if near.height else "none ran near its data"
    )
    yield Insight(
        "locality", subject, f"{share:.0%}", f"{FAR_SHARE:.0%}",
        max(1, level(lost / max(1, int(tasks["run_ms"].sum())), 0.02, 0.1, 0.25, 0.5)),
        f"{far.height:,} of {tasks.height:,} tasks ran on other hosts than their data and read {units.size(moved)}; {words}.",
        WAIT if longer else "", longer,
    )  # fmt: skip


def _waited(subject: str, tasks: pl.DataFrame, wait: int) -> Iterator[Insight]:
    """Sum up slot time spent waiting for better locality."""
    late = tasks.filter((pl.col("place") > tasks["place"].min()) & (pl.col("gap") > 0))
    waited, took = int(late["gap"].sum()), int(tasks["run_ms"].sum())
    if not wait or waited < LEAST_WAIT_MS or waited < WAIT_SHARE * took:
        return
    yield Insight(
        "locality wait", subject, units.duration(waited), f"{WAIT_SHARE:.0%} of task time",
        level(waited / max(1, took), WAIT_SHARE, 0.1, 0.3, 0.5),
        f"Task slots were free for {units.duration(waited)} in all before "
            f"{units.plural(late.height, 'task')} that had waited for a nearer "
        f"place started elsewhere ({WAIT} {units.duration(wait)}); its tasks ran {units.duration(took)}.",
        WAIT, "0s",
    )  # fmt: skip


def launch_gaps(app: App, held: Resources) -> pl.Series:
    """Return per ended task the ms that a slot of its executor was free while it waited: from the end of the previous
    task on that slot, or its stage's submission, to its launch. Slots are reused in the order in which they become
    free."""
    slots = {one.executor.name: one.slots for one in held.held}
    stages = {stage.key: stage.submit_ms for stage in app.stages if stage.submit_ms is not None}
    keys = ("stage_id", "stage_attempt")
    submitted = pl.DataFrame([(*key, ms) for key, ms in stages.items()], [*keys, "since"], orient="row")
    tasks = app.tasks.select("executor", "task_id", "launch_ms", "finish_ms", *keys).with_row_index()
    if submitted.height:
        tasks = tasks.join(submitted, on=keys, how="inner")
    gaps = np.zeros(app.tasks.height, dtype=np.int64)
    for (executor,), each in tasks.partition_by("executor", as_dict=True).items():
        if executor not in slots or "since" not in each.columns:
            continue
        count, part = slots[executor], each.sort("launch_ms", "task_id")
        free = np.zeros(part.height, dtype=np.int64)
        free[count:] = np.sort(part["finish_ms"].to_numpy())[: max(0, part.height - count)]
        begun = np.maximum(free, part["since"].to_numpy())
        gaps[part["index"].to_numpy()] = np.maximum(part["launch_ms"].to_numpy() - begun, 0)
    return pl.Series("gap", gaps)


MB, GB, TB = 1 << 20, 1 << 30, 1 << 40
SMALL_FILE, MANY_FILES, GOOD_FILE = 3 * MB, 100, 128 * MB
BROADCAST_LIMIT = GB
LARGE_SCAN = GB  # least bytes of a scan of all partitions to be reported
_ASYMMETRIC = ((10 * MB, 0), (100 * MB, 10 * GB), (GB, 300 * GB), (5 * GB, TB))
"""Broadcast a side below the first size if the other is above the second."""
ROWS_LIMIT = 10**10
_NESTED = ("BroadcastNestedLoopJoin", "CartesianProduct")


def plan_insights(app: App, plans: Mapping[int, list[PlanRow]]) -> Iterator[Insight]:
    """Yield the insights on the plans of SQL executions."""
    for number, rows in plans.items():
        subject = f"sql {number}"
        for at, node in enumerate(rows):
            yield from _files(subject, node)
            yield from _full_scan(subject, node)
            yield from _partial_read(subject, rows, at)
            yield from _joins(subject, rows, at)


def _files(subject: str, node: PlanRow) -> Iterator[Insight]:
    metrics = node.metrics
    for files, size, words, key in (
        ("number of files read", "size of files read", "reads", ""),
        ("number of written files", "written output", "writes", "spark.sql.shuffle.partitions"),
    ):
        count, whole = metrics.get(files, 0), metrics.get(size, 0)
        if count > MANY_FILES and whole < SMALL_FILE * count:
            good = max(1, whole // GOOD_FILE)
            yield Insight(
                "small files", subject, f"{count:,} files", f"{units.size(SMALL_FILE)} each",
                level(count, MANY_FILES, 1000, 10_000, 100_000),
                f"{node.name} {words} {count:,} files of {units.size(whole / count)} each; {good:,} would hold as much.",
                key, str(good) if key else "",
            )  # fmt: skip


def _full_scan(subject: str, node: PlanRow) -> Iterator[Insight]:
    """Find scans that read every partition of a table or skip few files. Spark counts partitions only of partitioned
    tables; pruned files only with dynamic pruning or table statistics."""
    if not node.name.startswith("Scan"):
        return
    metrics = node.metrics
    partitions, size = metrics.get("number of partitions read", 0), metrics.get("size of files read", 0)
    if partitions > 1 and "PartitionFilters: []" in node.text and size >= LARGE_SCAN:
        yield Insight(
            "full scan", subject, f"{partitions:,} partitions", "a filter", level(size, LARGE_SCAN, 100 * GB, TB, 10 * TB),
            f"{node.name} reads all {partitions:,} partitions ({units.size(size)}): no filter names the columns that the "
            "table is partitioned by.",
        )  # fmt: skip
    files = metrics.get("number of files read", 0)
    every = metrics.get("static number of files read", 0) or files + metrics.get("number of files pruned", 0)
    if files > MANY_FILES and every > files and files / every > 0.9:
        yield Insight(
            "file pruning", subject, f"{1 - files / every:.1%}", "10%", 1,
            f"{node.name} could leave out only {every - files:,} of {every:,} files: sort the table by the columns that are "
            "filtered or joined.",
        )  # fmt: skip


def _partial_read(subject: str, rows: list[PlanRow], at: int) -> Iterator[Insight]:
    node = rows[at]
    if not node.name.startswith("Filter"):
        return
    below = children(rows, at)
    scan = rows[below[0]] if len(below) == 1 else None
    if scan is not None and scan.name == "ColumnarToRow":
        deeper = children(rows, below[0])
        scan = rows[deeper[0]] if len(deeper) == 1 else None
    if scan is None or not scan.name.startswith("Scan") or not scan.rows or node.rows is None or scan.rows < 1_000_000:
        return
    kept = node.rows / scan.rows
    read = scan.metrics.get("size of files read", 0)
    if kept < 0.1:
        yield Insight(
            "partial read", subject, f"{kept:.1%}", "10%", level(1 - kept, 0.9, 0.95, 0.99),
            f"Of {scan.rows:,} rows ({units.size(read)}) that {scan.name} read, the filter above it kept {node.rows:,}: "
            "partition or sort the table by what is filtered.",
        )  # fmt: skip


def _joins(subject: str, rows: list[PlanRow], at: int) -> Iterator[Insight]:
    node = rows[at]
    if node.name == "BroadcastExchange" and (size := node.metrics.get("data size", 0)) > BROADCAST_LIMIT:
        yield Insight(
            "large broadcast", subject, units.size(size), units.size(BROADCAST_LIMIT), level(size, GB, 2 * GB, 4 * GB, 8 * GB),
            f"{units.size(size)} are sent to every executor.", "spark.sql.autoBroadcastJoinThreshold", "-1",
        )  # fmt: skip
    if node.name == "SortMergeJoin":
        sides = [size_below(rows, child) for child in children(rows, at)]
        if len(sides) == 2 and sides[0] is not None and sides[1] is not None:
            small, large = sorted(side for side in sides if side is not None)
            if any(small < limit and large > least for limit, least in _ASYMMETRIC):
                yield Insight(
                    "broadcast a side", subject, units.size(small), f"other side {units.size(large)}", 2,
                    f"{node.name} sorts and moves both sides; {units.size(small)} could be sent to every executor instead.",
                    "spark.sql.autoBroadcastJoinThreshold", str(small + small // 5),
                )  # fmt: skip
    if node.name in _NESTED and (node.rows or 0) > ROWS_LIMIT:
        yield Insight(
            "cross join", subject, f"{node.rows:,} rows", f"{ROWS_LIMIT:,}", 4,
            f"{node.name} pairs every row of one side with every row of the other: {node.rows:,} rows.",
        )  # fmt: skip
