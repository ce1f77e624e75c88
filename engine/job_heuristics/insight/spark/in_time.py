"""Time and executors: the driver's own time, the critical path, idle cores, core hours, lost and unused executors, batches."""

from __future__ import annotations

from collections.abc import Iterator

from engine import units
from engine.job_heuristics.insight.spark.insight import Insight, level
from engine.job_heuristics.insight.spark.resources import Resources, is_local, job_intervals
from engine.job_heuristics.insight.spark.schedule import Schedule
from engine.job_heuristics.model.spark.app import App

APP = "application"
DRIVER_SHARES = (0.3, 0.5, 0.7, 0.9)
IDLE_SHARES = (0.5, 0.65, 0.8, 0.9)
RAMP_MS = 30_000
"""From the start of the first job to its first task: executors came late."""
_WANTED_REASONS = ("idle", "decommission", "Executor killed by driver", "shut down", "shutdown")
"""Words in the reason of executors that were given back."""


def insights(app: App, held: Resources, plan: Schedule) -> Iterator[Insight]:
    """Yield the insights on time and executors."""
    runtime = app.runtime_ms or 0
    if runtime > 0:
        share = plan.driver_ms / runtime
        yield Insight(
            "driver time", APP, units.text("ms", plan.driver_ms), "30 % of the time", level(share, *DRIVER_SHARES),
            f"For {share:.0%} of the time no Spark job ran: the driver worked alone and executors waited.",
        )  # fmt: skip
    if plan.groups and plan.executors:
        yield from _schedule(app, plan, runtime)
    yield from _cores(app, held)
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


def _cores(app: App, held: Resources) -> Iterator[Insight]:
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
    times, cores = held.timeline([one.cores for one in held.held])
    inside = 0
    for begin, end in job_intervals(app):
        for k in range(len(times) - 1):
            inside += int(cores[k]) * max(0, min(end, int(times[k + 1])) - max(begin, int(times[k])))
    used = sum(one.executor.run_ms for one in held.held)
    hours = 3_600_000
    yield Insight(
        "core hours", APP, f"{held.core_ms / hours:.2f}", "", 0,
        f"Of {held.core_ms / hours:.2f} core hours {used / hours:.2f} ran tasks, {max(0, inside - used) / hours:.2f} had "
        f"none while jobs ran (skew, waves, dependencies), {max(0, held.core_ms - inside) / hours:.2f} passed outside of jobs.",
    )  # fmt: skip


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
        yield Insight(
            "ramp-up", APP, units.duration(max(0, late)), units.duration(RAMP_MS), level(late, RAMP_MS, 60_000, 300_000, 900_000),
            f"From the start of the first job to its first task {units.duration(max(0, late))} passed.",
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
        state = part["state_rows"].drop_nulls()
        growing = len(state) >= 3 and int(state[-1]) > 2 * max(1, int(state[len(state) // 2]))
        yield Insight(
            "streaming", f"query {str(query)[:20]}", f"{ratio:.2f}", "1", max(level(ratio, 0.9, 1.0, 1.2, 1.5), 2 * growing),
            f"{part.height:,} batches, the longest {units.duration(longest or 0)}; in the last {rates.height} rows came at "  # type: ignore[arg-type]
            f"{ratio:.2f} times the rate at which they were processed" + ("; its state keeps growing." if growing else "."),
        )  # fmt: skip
