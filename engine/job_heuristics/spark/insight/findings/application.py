"""Insights on the whole application: time and executors, memory; and all insights, the worst first."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping

import polars as pl
from msgspec.structs import replace

from engine.core import units
from engine.job_heuristics.dr_elephant.advice import GROWS, MORE, PROVISIONAL, Insight, level
from engine.job_heuristics.spark.insight.findings.stages import locality_insights, plan_insights, stage_insights
from engine.job_heuristics.spark.insight.resources import Resources, job_intervals
from engine.job_heuristics.spark.insight.skew import StageTasks
from engine.job_heuristics.spark.insight.sql import PlanRow
from engine.job_heuristics.spark.insight.whatif import Schedule
from engine.job_heuristics.spark.model.app import (
    HIGH_PEAK,
    LOW_PEAK,
    MB,
    App,
    fitting_heap_mb,
    heap_bytes,
    is_dynamic,
    is_local,
    peak_heap,
)
from engine.job_heuristics.spark.rules.settings import DYNAMIC, all_ran, executors_wish, may_be_dynamic, tasks_wish

APP = "application"
RESERVED = 300 * MB  # heap reserved by Spark
_GC = (0.08, 0.1, 0.15, 0.2)
LEAST_RUN_MS = 10_000  # least task time of a stage or executor to be considered


def memory_insights(app: App, held: Resources, tasks: Mapping[tuple[int, int], StageTasks]) -> Iterator[Insight]:
    """Yield the insights on memory."""
    if not held.held:
        return
    mb_ms = sum(one.mb * one.life_ms for one in held.held)
    heap, peak = heap_bytes(app), peak_heap(app)
    share = peak / heap if peak else None
    used = f"; of the heap {share:.0%} was used at most" if share is not None else "; no peaks were logged"
    yield Insight(
        "memory x time", APP, units.text("mb_s", mb_ms / 1000), "", 0,
        f"{len(held.held):,} x {held.held[0].mb:,} MB (overhead included) over their lives{used}.",
    )  # fmt: skip
    key = f"spark.{'driver' if is_local(app) else 'executor'}.memory"
    if share is not None:
        wanted = f"{int(heap * 1.2) // MB}m" if share > HIGH_PEAK else f"{fitting_heap_mb(peak)}m"
        fits = LOW_PEAK <= share <= HIGH_PEAK
        yield Insight(
            "peak heap", APP, f"{share:.0%}", "70 to 95%", 0 if fits else 3 if share > HIGH_PEAK else level(1 - share, 0.3, 0.6),
            f"The fullest heap held {units.text('bytes', peak)} of {units.text('bytes', heap)}.",
            "" if fits else key, "" if fits else wanted,
        )  # fmt: skip
    yield from _unified(app, heap, key)
    yield from _spill(app, tasks)
    yield from _collections(app, held, key)
    run = sum(one.executor.run_ms for one in held.held)
    gc = sum(stage.sums["gc_ms"] for stage in app.stages)
    if run:
        yield Insight(
            "garbage collection", APP, f"{gc / run:.1%}", "8%", level(gc / run, *_GC),
            f"Tasks spent {units.duration(gc)} of {units.duration(run)} in garbage collection; an executor's is counted for "
            "each of its tasks.", key if gc / run >= _GC[0] else "", MORE if gc / run >= _GC[0] else "",
        )  # fmt: skip
    stored = sum(one.memory_used for one in app.executors)
    room = sum(one.max_memory for one in app.executors if one.active)
    if stored and room:
        yield Insight(
            "cached blocks", APP, units.text("bytes", stored), units.text("bytes", room), level(stored / room, 0.5, 0.8, 0.95),
            f"Blocks stored at the end fill {stored / room:.0%} of the memory for storage and execution.",
            key if stored / room >= 0.5 else "", MORE if stored / room >= 0.5 else "",
        )  # fmt: skip


def _collections(app: App, held: Resources, key: str) -> Iterator[Insight]:
    """Find stages, and at most five executors, with a larger share of garbage collection than the application."""
    slow = [
        (f"stage {stage.stage}", stage.sums["gc_ms"], stage.sums["run_ms"]) for stage in app.stages
    ]  # fmt: skip
    run, gc = (sum(getattr(one.executor, name) for one in held.held) for name in ("run_ms", "gc_ms"))
    executors = [(f"executor {one.executor.name}", one.executor.gc_ms, one.executor.run_ms) for one in held.held]
    slow += sorted([each for each in executors if each[1] * run >= 2 * gc * each[2]], key=lambda each: -each[1])[:5]
    for subject, collecting, ran in slow:
        if ran >= LEAST_RUN_MS and collecting >= _GC[0] * ran:
            yield Insight(
                "garbage collection", subject, f"{collecting / ran:.1%}", f"{_GC[0]:.0%}", level(collecting / ran, *_GC),
                f"Its tasks spent {units.duration(collecting)} of {units.duration(ran)} in garbage collection.", key, MORE,
            )  # fmt: skip


def _unified(app: App, heap: int, key: str) -> Iterator[Insight]:
    """Compare the peak of unified memory (execution and storage) with its share of the heap."""
    peak = max((one.peaks["unified"] for one in app.executors), default=0)
    fraction = share_of(app, "spark.memory.fraction", 0.6)
    room = int((heap - RESERVED) * fraction)
    if peak and room > 0:
        share = peak / room
        yield Insight(
            "unified memory", APP, f"{share:.0%}", "95%", level(share, 0.95, 0.99),
            f"Execution and storage held {units.text('bytes', peak)} at most of {units.text('bytes', room)} "
            f"(heap less 300 MB, times spark.memory.fraction {fraction:g}).",
            key if share >= 0.95 else "", MORE if share >= 0.95 else "",
        )  # fmt: skip

    storage = max((one.peaks["storage"] for one in app.executors), default=0)
    part = share_of(app, "spark.memory.storageFraction", 0.5)
    if storage and room > 0 and part > 0:
        share = storage / (room * part)
        yield Insight(
            "storage memory", APP, f"{share:.0%}", "100%", level(share, 1.0, 1.5, 1.9),
            f"Cached blocks held {units.text('bytes', storage)} at most; {units.text('bytes', int(room * part))} of the "
            f"unified memory cannot be taken from them (spark.memory.storageFraction {part:g}).",
            key if share >= 1 else "", MORE if share >= 1 else "",
        )  # fmt: skip


def share_of(app: App, key: str, default: float) -> float:
    """Return a property that is a share, 0 to 1; the default if unreadable."""
    try:
        return min(max(float(app.properties.get(key) or default), 0.0), 1.0)
    except ValueError:
        return default


def _spill(app: App, tasks: Mapping[tuple[int, int], StageTasks]) -> Iterator[Insight]:
    for stage in app.stages:
        memory, disk = stage.sums["memory_spilled"], stage.sums["disk_spilled"]
        if not memory and not disk:
            continue
        moved = stage.shuffle_read_bytes + stage.sums["input_bytes"] + stage.sums["shuffle_write_bytes"]
        share = disk / moved if moved else 1.0
        done = max(1, stage.tasks)
        # Partitions grow by the ratio of spilled bytes to the memory of a task.
        held = max(1, stage.sums["peak_memory"] // done)
        wanted = min(100_000, done + -(-memory // held)) if stage.sums["peak_memory"] else done * 2
        one = tasks.get(stage.key)
        spilling = f" by {one.spilling / one.tasks:.0%} of its tasks" if one is not None and one.spilling else ""
        alone = one is not None and one.cause == "data"
        fit = "more tasks do not divide the largest part, see skew" if alone else f"{wanted:,} tasks would fit"
        yield Insight(
            "spill", f"stage {stage.stage}", units.text("bytes", disk), "0", level(share, 0.0001, 0.1, 0.5, 1.0),
            f"{units.text('bytes', memory)} of memory went to disk as {units.text('bytes', disk)}{spilling}, {share:.0%} of "
            f"the bytes that the stage moved; {fit}.",
        ).wishing(tasks_wish(app, stage, wanted, f"spill of stage {stage.stage}"), helps=not alone)  # fmt: skip


def cache_insights(app: App) -> Iterator[Insight]:
    """Yield the insights on cached data."""
    yield from _unread(app, sum(one.max_memory for one in app.executors if one.active))
    dropped = {rdd: stored.dropped for rdd, stored in app.stored.items() if stored.dropped}
    if dropped:
        count = sum(dropped.values())
        blocks = sum(stored.blocks for stored in app.stored.values())
        yield Insight(
            "evicted blocks", APP, f"{count:,}", "0", level(count / max(1, blocks), 0.0001, 0.1, 0.5, 1.0),
            f"{units.plural(count, 'cached block')} {'was' if count == 1 else 'were'} dropped to make room "
            f"({blocks:,} were stored, of {_named(list(dropped))}); whoever "
            "needs them computes them again.", f"spark.{'driver' if is_local(app) else 'executor'}.memory", MORE,
        )  # fmt: skip


def unread(app: App) -> list[int]:
    """Return stored RDDs that no later stage reads.

    A stage names all RDDs it computes or reads; its repeated attempts do not count as readers.
    """
    users: dict[int, set[int]] = defaultdict(set)
    for stage in app.stages:
        if stage.completed_tasks:
            for rdd in stage.cached:
                users[rdd].add(stage.stage)
    return sorted(rdd for rdd, stages in users.items() if len(stages) == 1)


def _unread(app: App, room: int) -> Iterator[Insight]:
    found = unread(app)
    if not found:
        return
    held = sum(app.stored[rdd].memory + app.stored[rdd].disk for rdd in found if rdd in app.stored)
    size = f", {units.size(held)} at most," if held else ""
    yield Insight(
        "cached, never read", APP, units.size(held) if held else f"{len(found):,} RDDs", "0",
        max(1, level(held / room, 0.0001, 0.1, 0.3, 0.6) if room else 1),
        f"{_named(found)}{size} {'was' if len(found) == 1 else 'were'} stored by the stage that computed "
        f"{'it' if len(found) == 1 else 'them'}, and no later stage reads {'it' if len(found) == 1 else 'them'}: leave out "
        "cache() or persist(), or call unpersist() early.",
    )  # fmt: skip


def _named(rdds: list[int]) -> str:
    return f"RDD{'s' if len(rdds) > 1 else ''} {units.named(rdds, 5)}"


DRIVER_SHARES = (0.3, 0.5, 0.7, 0.9)
IDLE_SHARES = (0.5, 0.65, 0.8, 0.9)
HOUR_MS = 3_600_000
RAMP_MS = 30_000  # least wait from the first job to its first task: executors came late


def time_insights(
    app: App, held: Resources, plan: Schedule, tasks: Mapping[tuple[int, int], StageTasks]
) -> Iterator[Insight]:
    """Yield the insights on time and executors."""
    runtime = app.runtime_ms or 0
    # A driver that was killed stopped before the log ends, and without a job nothing tells what the driver did.
    if runtime > 0 and app.jobs and app.state in ("SUCCEEDED", "FAILED", "RUNNING"):
        share = plan.driver_ms / runtime
        yield Insight(
            "driver time", APP, units.text("ms", plan.driver_ms), "30% of the time", level(share, *DRIVER_SHARES),
            f"For {share:.0%} of the time no Spark job ran: the driver worked alone and executors waited. Between jobs it "
            "collects results, lists files, or runs plain code of the program.",
        )  # fmt: skip
    scheduled = bool(plan.groups and plan.executors and all_ran(app))
    if scheduled:
        yield from _schedule(app, held, plan, runtime)
    yield from _cores(app, held, tasks)
    yield from _executors(app, held, predicted=scheduled and plan.ideal() < plan.executors)
    yield from _batches(app)


def _schedule(app: App, held: Resources, plan: Schedule, runtime: int) -> Iterator[Insight]:
    ms = units.duration
    longest = plan.critical_ms
    yield Insight(
        "critical path", APP, ms(longest), f"run time {ms(runtime)}", 0,
        f"On any number of executors it takes {ms(longest)}: the driver's time and the longest task of each stage on the "
        f"longest chain; if all slots always worked, the {plan.executors} it had would need "
        f"{ms(plan.driver_ms + plan.run_ms / max(1, plan.executors * plan.slots_each))}.",
    )  # fmt: skip
    if is_local(app):
        return
    ideal = plan.ideal()
    over = plan.executors / ideal if ideal else 1.0
    yield Insight(
        "ideal executors", APP, f"{ideal:,}", f"it had {plan.executors:,}", level(over, 1.5, 2, 4, 8),
        f"On {ideal:,} {'executor' if ideal == 1 else 'executors'} it takes {ms(plan.time_ms(ideal))}, within 5% of twice as "
        f"many; on {plan.executors:,} {ms(plan.time_ms(plan.executors))} (both predicted from the real tasks).",
    ).wishing(executors_wish(app, ideal, held.held[0].cores, plan.executors))  # fmt: skip


def _cores(app: App, held: Resources, tasks: Mapping[tuple[int, int], StageTasks]) -> Iterator[Insight]:
    if not held.slot_ms:
        return
    idle = max(0.0, 1 - sum(one.executor.task_ms for one in held.held) / held.slot_ms)
    advised = idle >= IDLE_SHARES[0] and may_be_dynamic(app)
    yield Insight(
        "idle cores", APP, f"{idle:.0%}", "50%", level(idle, *IDLE_SHARES),
        f"{idle:.0%} of the task slots had no task, over all executors and their lives.",
        DYNAMIC if advised else "", "true" if advised else "",
    )  # fmt: skip
    words = ", ".join(f"{ms / held.core_ms:.0%} {what}" for what, ms in core_split(app, held, tasks).items() if ms)
    yield Insight(
        "core hours", APP, f"{held.core_ms / HOUR_MS:,.2f} h", "", 0,
        f"Of {held.core_ms / HOUR_MS:,.2f} core hours {words}.",
    )  # fmt: skip


def core_split(app: App, held: Resources, tasks: Mapping[tuple[int, int], StageTasks]) -> dict[str, int]:
    """Split all core ms by use: successful tasks, other tasks, slots idle during the last tasks of a stage, other
    idle slots during jobs, and the driver's time outside of jobs."""
    times, cores = held.timeline([one.cores for one in held.held])
    inside = 0
    for begin, end in job_intervals(app):
        for k in range(len(times) - 1):
            inside += int(cores[k]) * max(0, min(end, int(times[k + 1])) - max(begin, int(times[k])))
    inside = min(inside, held.core_ms)
    each = held.core_ms / held.slot_ms  # cores of a slot
    took = (pl.col("finish_ms") - pl.col("launch_ms")).clip(lower_bound=0)
    ended = app.tasks.filter(pl.col("reason") != "Resubmitted")
    good = int(ended.filter(pl.col("reason") == "Success").select(took.sum()).item()) if app.tasks.height else 0
    whole = int(ended.select(took.sum()).item()) if app.tasks.height else sum(one.executor.task_ms for one in held.held)
    parts, left = {}, inside
    for what, ms in (
        ("in tasks that succeeded", good if app.tasks.height else whole),
        ("in attempts that failed or were killed", whole - good if app.tasks.height else 0),
        ("idle while the last tasks of a stage ran (skew)", sum(one.tail_ms for one in tasks.values())),
    ):
        parts[what] = min(left, int(ms * each))
        left -= parts[what]
    return parts | {"idle for other reasons while a job ran": left, "outside of jobs": held.core_ms - inside}


def _executors(app: App, held: Resources, predicted: bool) -> Iterator[Insight]:
    """Find executors that were lost, that had no task, and that came late. ``predicted``: the schedule gives their number."""
    lost = [
        one for one in [one.executor for one in held.held if not one.executor.active] if one.name not in held.given_back
    ]
    if lost:
        reasons = dict.fromkeys((one.reason or "no reason given")[:160].rstrip(".") for one in lost[:5])
        memory = any("memory" in (one.reason or "").lower() for one in lost)
        yield Insight(
            "lost executors", APP, f"{len(lost):,}", "0", level(len(lost) / max(1, len(held.held)), 0.0001, 0.1, 0.25, 0.5),
            f"Removed before the end: {'; '.join(reasons)}.",
            "spark.executor.memoryOverhead" if memory else "", MORE if memory else "",
        )  # fmt: skip
    unused = [one for one in held.held if not one.executor.total_tasks and one.life_ms > 0]
    if unused:
        used = len(held.held) - len(unused) if app.tasks.height else held.count
        yield Insight(
            "unused executors",
            APP,
            f"{len(unused):,}",
            "0",
            level(len(unused) / len(held.held), 0.0001, 0.2, 0.5, 0.8),
            f"{len(unused):,} of {len(held.held):,} executors never had a task.",
        ).wishing(executors_wish(app, held.count if predicted else used, held.held[0].cores, held.count))  # fmt: skip
    first = min((job.submit_ms for job in app.jobs if job.submit_ms is not None), default=None)
    launched = app.tasks["launch_ms"].min() if app.tasks.height else None
    if first is not None and isinstance(launched, int):
        late = launched - first
        dynamic = late >= RAMP_MS and is_dynamic(app)
        yield Insight(
            "ramp-up", APP, units.duration(max(0, late)), units.duration(RAMP_MS), level(late, RAMP_MS, 60_000, 300_000, 900_000),
            f"From the start of the first job to its first task {units.duration(max(0, late))} passed.",
            "spark.dynamicAllocation.initialExecutors" if dynamic else "", str(held.count) if dynamic else "",
        )  # fmt: skip


def _batches(app: App) -> Iterator[Insight]:
    frame = app.batches
    if frame is None or not frame.height:
        return
    for (query,), part in frame.partition_by("query", maintain_order=True, as_dict=True).items():
        rates = part.select("input_per_s", "processed_per_s").drop_nulls().tail(20)
        came, done = float(rates["input_per_s"].sum()), float(rates["processed_per_s"].sum())
        ratio = came / done if done else 0.0
        longest = part["duration_ms"].max()
        busy = _trigger_share(part)
        growing = [word for word, column in (("rows", "state_rows"), ("memory", "state_bytes")) if _grows(part[column])]
        words = f" They take {busy:.0%} of the time from one to the next." if busy is not None else ""
        if growing:
            words += f" The {' and '.join(growing)} of its state keep growing: a watermark would drop what is old."
        yield Insight(
            "streaming", f"query {str(query)[:20]}", f"{ratio:.2f}", "1",
            max(level(ratio, 0.9, 1.0, 1.2, 1.5), level(busy or 0, 0.8, 0.95), 2 * bool(growing)),
            f"{units.plural(part.height, 'batch', 'es')}, the longest {units.duration(longest or 0)}; "  # type: ignore[arg-type]
            f"in the last {rates.height} rows came at "
            f"{ratio:.2f} times the rate at which they were processed.{words}",
            "spark.sql.streaming.stateStore.providerClass" if growing else "",
            "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider" if growing else "",
        )  # fmt: skip


def _trigger_share(batches: pl.DataFrame) -> float | None:
    """Return the median duration of the last batches over the median interval between their starts."""
    last = batches.select("time_ms", "duration_ms").drop_nulls().tail(21)
    steps = last["time_ms"].diff().drop_nulls()
    step = steps.median() if len(steps) >= 3 else None
    took = last["duration_ms"].median()
    return float(took) / float(step) if step and took is not None else None  # type: ignore[arg-type]


def _grows(values: pl.Series) -> bool:
    """Whether the last of at least three values is more than twice the middle one."""
    known = values.drop_nulls()
    return len(known) >= 3 and int(known[-1]) > 2 * max(1, int(known[len(known) // 2]))


GROWING = frozenset({"failed attempts", "speculation", "lost executors", "stage retries", "spill", "evicted blocks"})
"""Topics whose number can only grow while an application runs."""


def insights(
    app: App,
    held: Resources,
    plan: Schedule,
    tasks: Mapping[tuple[int, int], StageTasks],
    executions: Mapping[int, list[PlanRow]],
) -> tuple[Insight, ...]:
    """Return the insights of an application; if it is running, they say what may still change."""
    found = [
        *time_insights(app, held, plan, tasks),
        *memory_insights(app, held, tasks),
        *cache_insights(app),
        *stage_insights(app, held, tasks),
        *locality_insights(app, held),
        *plan_insights(app, executions),
    ]
    if not app.ended:
        settled = _settled(app)
        found = [one if one.subject in settled else so_far(one) for one in found]
    found.sort(key=lambda one: -one.level)
    worst: dict[tuple[str, str], Insight] = {}
    for one in found:
        worst.setdefault((one.topic, one.subject), one)  # the worst per plan, or over attempts of a stage
    return tuple(worst.values())


def _settled(app: App) -> frozenset[str]:
    """Return the final subjects of a running application: ended stages and executions."""
    open_stages = {stage.stage for stage in app.stages if stage.status in ("ACTIVE", "PENDING")}
    ended = {f"stage {stage.stage}" for stage in app.stages if stage.stage not in open_stages}
    return frozenset(ended | {f"sql {one.number}" for one in app.sql if one.end_ms is not None})


def so_far(one: Insight) -> Insight:
    """Mark an insight as provisional."""
    return replace(one, status=GROWS if one.topic in GROWING else PROVISIONAL, reason=f"So far: {one.reason}")
