"""What to set for Spark applications, with the container memory x time that it should save, and the verdict after it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import polars as pl

from engine import units
from engine.job_heuristics.dr_elephant.heuristic_conf import Rules
from engine.job_heuristics.dr_elephant.spark.heuristic import tree_of
from engine.job_heuristics.insight.advice import LEAST_MB, STEP_MB, Advice, frame_of
from engine.job_heuristics.insight.spark.cost import split
from engine.job_heuristics.insight.spark.resources import MB, Resources, heap_bytes, is_local, resources
from engine.job_heuristics.insight.spark.schedule import schedule
from engine.job_heuristics.insight.spark.whatif import Scenario, changed_app
from engine.job_heuristics.model.spark.app import App

CONFIGURATION, EXECUTOR_METRICS = "Spark Configuration", "Spark Executor Metrics"
PEAK_ROOM = 1.2
"""Heap for one byte of the largest heap that was used."""
HIGH_PEAK, LOW_PEAK = 0.95, 0.7
"""Shares of the heap at its peak above which it should grow, and below which it may shrink."""
IDLE_LIMIT = 0.5
"""Share of idle slots from which fewer executors, or dynamic allocation, pay."""
LEAST_MS = 60_000
"""Run time below which no number of executors is advised: starting them takes longer."""


def recommendations(apps: Mapping[str, App], rules: Rules, headroom: float) -> pl.DataFrame:
    """Return the rows of ``RECOMMENDATIONS`` for applications that have ended; most saving first within one."""

    def advised() -> Iterator[tuple[str, float, list[Advice]]]:
        for app_id, app in apps.items():
            held = resources(app)
            found = advise(app, held, rules)
            total = sum(mb_ms for _, mb_ms, _ in split(held, headroom).values()) / 1000 if found else 0.0
            yield app_id, total, found

    return frame_of(advised())


def advise(app: App, held: Resources, rules: Rules) -> list[Advice]:
    """Return what should pay for an application that has ended, most saving first."""
    if not app.ended or not held.held or app.source != "log":
        return []
    found = [one for one in (_memory(app, held, rules), _executors(app, held, rules)) if one is not None]
    return sorted(found, key=lambda one: -one.saving_mb_s)


def _level(app: App, rules: Rules, name: str) -> int:
    """Return the severity of one heuristic; 0 where it is not in force."""
    rule = rules.by_heuristic.get(name)
    return int(tree_of(rule, [app]).levels()[0]) if rule is not None else 0


def peak_heap(app: App) -> int:
    """Return the largest heap that any executor used, 0 where it was not logged."""
    return max((one.peaks["heap"] for one in app.executors), default=0)


def _memory(app: App, held: Resources, rules: Rules) -> Advice | None:
    """Advise less memory for executors whose heap was never full."""
    heap, peak = heap_bytes(app), peak_heap(app)
    if is_local(app) or not peak or peak >= LOW_PEAK * heap:
        return None
    wanted = max(LEAST_MB, -(-int(peak * PEAK_ROOM) // (STEP_MB * MB)) * STEP_MB)
    before = held.held[0].mb
    changed = changed_app(app, Scenario(memory_mb=wanted), app.runtime_ms or 0, held.count)
    after = resources(changed).held[0].mb
    if after >= 0.9 * before:
        return None
    saving = sum((before - after) * one.life_ms for one in held.held) / 1000
    now = _level(app, rules, CONFIGURATION)
    return Advice(
        "executor memory", "spark.executor.memory", f"{wanted}m", f"{heap // MB}m", saving, None, CONFIGURATION, now,
        _level(changed, rules, CONFIGURATION),
        f"No executor used more than {units.text('bytes', peak)} of its {units.text('bytes', heap)} heap; "
        f"{PEAK_ROOM:.1f} times that is enough.",
    )  # fmt: skip


def _executors(app: App, held: Resources, rules: Rules) -> Advice | None:
    """Advise fewer executors where most of their slots had no task, or dynamic allocation where only the number of
    executors over time does not fit."""
    busy = sum(one.executor.task_ms for one in held.held)
    idle = 1 - busy / held.slot_ms if held.slot_ms else 0.0
    if is_local(app) or idle < IDLE_LIMIT or (app.runtime_ms or 0) < LEAST_MS or held.count < 2:
        return None
    plan = schedule(app, held)
    ideal = plan.ideal()
    if not 0 < ideal < held.count:
        return _dynamic(app, held, rules, idle)
    slower = plan.time_ms(ideal) - plan.time_ms(held.count)
    runtime = (app.runtime_ms or 0) + slower
    saving = (sum(one.mb * one.life_ms for one in held.held) - ideal * held.held[0].mb * runtime) / 1000
    if saving <= 0:
        return _dynamic(app, held, rules, idle)
    dynamic = (app.properties.get("spark.dynamicAllocation.enabled") or "").lower() == "true"
    key = "spark.dynamicAllocation.maxExecutors" if dynamic else "spark.executor.instances"
    changed = changed_app(app, Scenario(executors=ideal), runtime, ideal)
    return Advice(
        "executors", key, str(ideal), str(held.count), saving, slower, EXECUTOR_METRICS,
        _level(app, rules, EXECUTOR_METRICS), _level(changed, rules, EXECUTOR_METRICS),
        f"{idle:.0%} of the task slots had no task; {ideal} executors would take {units.text('ms', plan.time_ms(ideal))} "
        f"where {held.count} take {units.text('ms', plan.time_ms(held.count))}, both predicted from the real tasks.",
    )  # fmt: skip


def _dynamic(app: App, held: Resources, rules: Rules, idle: float) -> Advice | None:
    """Advise dynamic allocation: executors that have no task for a minute are given back."""
    if (app.properties.get("spark.dynamicAllocation.enabled") or "").lower() == "true":
        return None
    # Of the idle time, only that of whole executors between jobs can be given back: about that outside of jobs.
    driver = schedule(app, held).driver_ms - LEAST_MS
    saving = max(0, driver) * sum(one.mb for one in held.held) / 1000
    if saving <= 0:
        return None
    level = _level(app, rules, CONFIGURATION)
    return Advice(
        "executors", "spark.dynamicAllocation.enabled", "true", "false", saving, None, CONFIGURATION, level, level,
        f"{idle:.0%} of the task slots had no task, and for {units.text('ms', driver + LEAST_MS)} no job ran at all: dynamic "
        "allocation gives executors back meanwhile (it needs the shuffle service, or shuffle tracking).",
    )  # fmt: skip
