"""Time and executors: the driver's own time, the critical path, idle cores, core hours, lost and unused executors, batches."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import polars as pl

from engine.core import units
from engine.job_heuristics.spark.insight.findings.insight import Insight, level
from engine.job_heuristics.spark.insight.resources import Resources, is_local, job_intervals
from engine.job_heuristics.spark.insight.schedule import Schedule
from engine.job_heuristics.spark.insight.skew import StageTasks
from engine.job_heuristics.spark.model.app import App

APP = "application"
DRIVER_SHARES = (0.3, 0.5, 0.7, 0.9)
IDLE_SHARES = (0.5, 0.65, 0.8, 0.9)
HOUR_MS = 3_600_000
RAMP_MS = 30_000
"""Least wait from the first job to its first task: executors came late."""
_WANTED_REASONS = ("idle", "decommission", "Executor killed by driver", "shut down", "shutdown")
"""Words in the removal reason of released executors."""


def insights(
    app: App, held: Resources, plan: Schedule, tasks: Mapping[tuple[int, int], StageTasks]
) -> Iterator[Insight]:
    """Yield the insights on time and executors."""
    runtime = app.runtime_ms or 0
    if runtime > 0:
        share = plan.driver_ms / runtime
        yield Insight(
            "driver time", APP, units.text("ms", plan.driver_ms), "30 % of the time", level(share, *DRIVER_SHARES),
            f"For {share:.0%} of the time no Spark job ran: the driver worked alone and executors waited. Between jobs it "
            "collects results, lists files, or runs plain code of the program.",
        )  # fmt: skip
    if plan.groups and plan.executors:
        yield from _schedule(app, plan, runtime)
    yield from _cores(app, held, tasks)
    yield from _executors(app, held)
    yield from _batches(app)


def _schedule(app: App, plan: Schedule, runtime: int) -> Iterator[Insight]:
    ms = units.duration
    longest = plan.critical_ms
    yield Insight(
        "critical path", APP, ms(longest), f"run time {ms(runtime)}", 0,
        f"On any number of executors it takes {ms(longest)}: the driver's time and the longest task of each stage on the "
        f"longest chain; if all slots always worked, the {plan.executors} it had would need "
        f"{ms(plan.perfect_ms(plan.executors))}.",
    )  # fmt: skip
    if is_local(app):
        return
    ideal = plan.ideal()
    over = plan.executors / ideal if ideal else 1.0
    yield Insight(
        "ideal executors", APP, f"{ideal:,}", f"it had {plan.executors:,}", level(over, 1.5, 2, 4, 8),
        f"{ideal:,} executors take {ms(plan.time_ms(ideal))}, within 5 % of twice as many; {plan.executors:,} take "
        f"{ms(plan.time_ms(plan.executors))} (both predicted from the real tasks).",
        "spark.executor.instances" if ideal < plan.executors else "", str(ideal) if ideal < plan.executors else "",
    )  # fmt: skip


def _cores(app: App, held: Resources, tasks: Mapping[tuple[int, int], StageTasks]) -> Iterator[Insight]:
    if not held.slot_ms:
        return
    busy = sum(one.executor.task_ms for one in held.held)
    idle = max(0.0, 1 - busy / held.slot_ms)
    yield Insight(
        "idle cores", APP, f"{idle:.0%}", "50 %", level(idle, *IDLE_SHARES),
        f"{idle:.0%} of the task slots had no task, over all executors and their lives.",
        "spark.dynamicAllocation.enabled" if idle >= IDLE_SHARES[0] and not is_local(app) else "",
        "true" if idle >= IDLE_SHARES[0] and not is_local(app) else "",
    )  # fmt: skip
    parts = core_split(app, held, tasks)
    words = ", ".join(f"{ms / held.core_ms:.0%} {what}" for what, ms in parts.items() if ms)
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
    return parts | {"idle for other reasons while a job ran": left, "outside of jobs (driver)": held.core_ms - inside}


def _executors(app: App, held: Resources) -> Iterator[Insight]:
    lost = [
        one.executor for one in held.held
        if not one.executor.active and not any(word in (one.executor.reason or "") for word in _WANTED_REASONS)
    ]  # fmt: skip
    if lost:
        memory = any("memory" in (one.reason or "").lower() for one in lost)
        yield Insight(
            "lost executors", APP, f"{len(lost):,}", "0", level(len(lost) / max(1, len(held.held)), 0.0001, 0.1, 0.25, 0.5),
            f"Removed before the end: {'; '.join(dict.fromkeys((one.reason or 'no reason given')[:160] for one in lost[:5]))}.",
            "spark.executor.memoryOverhead" if memory else "", "more" if memory else "",
        )  # fmt: skip
    unused = [one for one in held.held if not one.executor.total_tasks and one.life_ms > 0]
    if unused:
        yield Insight(
            "unused executors", APP, f"{len(unused):,}", "0", level(len(unused) / len(held.held), 0.0001, 0.2, 0.5, 0.8),
            f"{len(unused):,} of {len(held.held):,} executors never had a task.",
            "spark.dynamicAllocation.maxExecutors", str(max(1, len(held.held) - len(unused))),
        )  # fmt: skip
    first = min((job.submit_ms for job in app.jobs if job.submit_ms is not None), default=None)
    launched = app.tasks["launch_ms"].min() if app.tasks.height else None
    if first is not None and isinstance(launched, int):
        late = launched - first
        dynamic = late >= RAMP_MS and (app.properties.get("spark.dynamicAllocation.enabled") or "").lower() == "true"
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
            f"{part.height:,} batches, the longest {units.duration(longest or 0)}; in the last {rates.height} rows came at "  # type: ignore[arg-type]
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
