"""Recommended settings of Spark applications, with expected savings and verdicts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import polars as pl
from msgspec.structs import replace

from engine.core import units
from engine.job_heuristics.dr_elephant.advice import Advice, Insight, frame_of, granted
from engine.job_heuristics.spark.insight.findings.application import insights
from engine.job_heuristics.spark.insight.resources import Resources, resources, split
from engine.job_heuristics.spark.insight.skew import StageTasks, skew_setting, split_up, stage_tasks
from engine.job_heuristics.spark.insight.sql import PlanRow, plan_rows
from engine.job_heuristics.spark.insight.whatif import Scenario, Schedule, changed_app, repartitioned, schedule
from engine.job_heuristics.spark.model.app import (
    LOW_PEAK,
    MB,
    PEAK_ROOM,
    App,
    fitting_heap_mb,
    heap_bytes,
    is_local,
    peak_heap,
)
from engine.job_heuristics.spark.rules.heuristic import SparkRules, tree_of
from engine.job_heuristics.spark.rules.settings import (
    SETTINGS,
    all_ran,
    executors_wish,
    tasks_wish,
)

CONFIGURATION, EXECUTOR_METRICS, STAGE_METRICS = "Spark Configuration", "Spark Executor Metrics", "Spark Stage Metrics"
IDLE_LIMIT = 0.5  # share of idle slots from which fewer executors or dynamic allocation pay off
LEAST_SHARE = 0.05  # least share of run time that a change of partitions must save
MOST_PARTITIONS = 20_000  # most shuffle partitions that are advised
MOST_PARTITION = 200 * MB  # most bytes of shuffled data per task
LEAST_MS = 60_000  # run time below which only memory is advised: starting executors takes longer


class Facts:
    """What is known of an application whatever the parameters. ``wanted``: its insights before the gate."""

    def __init__(self, app: App) -> None:
        self.app, self.held = app, resources(app)
        self.schedule: Schedule = schedule(app, self.held)
        self.stages: dict[tuple[int, int], StageTasks] = stage_tasks(app, self.held.slots)
        self.plans: dict[int, list[PlanRow]] = {one.number: plan_rows(app, one) for one in app.sql}
        self.wanted = insights(app, self.held, self.schedule, self.stages, self.plans)


def judged(facts: Facts, rules: SparkRules) -> tuple[tuple[Insight, ...], list[Advice]]:
    """Return the insights and the recommendations of an application, most saving first, as the gate answers them all."""
    advice, app = advise(facts, rules), facts.app
    answers = granted(
        [*(one.wish for one in facts.wanted), *(one.wish for one in advice)], SETTINGS, app.properties, app
    )
    found = tuple(one.answered(answer) for one, answer in zip(facts.wanted, answers, strict=False))
    return found, [
        one.answered(answer) for one, answer in zip(advice, answers[len(found) :], strict=True) if answer.value
    ]


def recommendations(apps: Mapping[str, App], rules: SparkRules, headroom: float) -> pl.DataFrame:
    """Return RECOMMENDATIONS rows of ended applications, most saving first within one."""

    def advised() -> Iterator[tuple[str, float, list[Advice]]]:
        for app_id, app in apps.items():
            if app.ended:
                facts = Facts(app)
                _, found = judged(facts, rules)
                total = sum(mb_ms for _, mb_ms, _ in split(facts.held, headroom).values()) / 1000 if found else 0.0
                yield app_id, total, found

    return frame_of(advised())


def advise(facts: Facts, rules: SparkRules) -> list[Advice]:
    """Return what would save something in an ended application, most saving first, before the gate."""
    app, held, plan = facts.app, facts.held, facts.schedule
    if not app.ended or not held.held:
        return []
    found = [_memory(app, held, rules)]
    if (app.runtime_ms or 0) >= LEAST_MS and all_ran(app):
        stages = facts.stages.values()
        skewed = {one.stage.stage: one for one in stages if one.cause == "data"}
        found.append(_executors(app, held, rules, plan))
        if skewed:
            found.append(_skew(app, held, rules, plan, skewed))
        elif not any(one.cause == "keys" for one in stages):  # more partitions do not split one key
            found.append(_partitions(app, held, rules, plan))
    return sorted([one for one in found if one is not None], key=lambda one: -one.saving_mb_s)


def _level(app: App, rules: SparkRules, name: str) -> int:
    """Return the severity of one heuristic; 0 if not in force."""
    rule = rules.by_heuristic.get(name)
    return int(tree_of(rule, [app]).levels()[0]) if rule is not None else 0


def _memory(app: App, held: Resources, rules: SparkRules) -> Advice | None:
    """Advise less memory for executors whose heap was never full."""
    heap, peak = heap_bytes(app), peak_heap(app)
    if is_local(app) or not peak or peak >= LOW_PEAK * heap:
        return None
    wanted = fitting_heap_mb(peak)
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


def _executors(app: App, held: Resources, rules: SparkRules, plan: Schedule) -> Advice | None:
    """Advise fewer executors if most slots had no task, or dynamic allocation if demand varies over time."""
    idle = 1 - sum(one.executor.task_ms for one in held.held) / held.slot_ms if held.slot_ms else 0.0
    if is_local(app) or idle < IDLE_LIMIT or held.count < 2:
        return None
    ideal = plan.ideal()
    if not 0 < ideal < held.count:
        return None
    slower = plan.time_ms(ideal) - plan.time_ms(held.count)
    runtime = (app.runtime_ms or 0) + slower
    saving = (sum(one.mb * one.life_ms for one in held.held) - ideal * held.held[0].mb * runtime) / 1000
    if saving <= 0:
        return None
    wish = executors_wish(app, ideal, held.held[0].cores, held.count)
    changed = changed_app(app, Scenario(executors=ideal), runtime, ideal)
    return Advice(
        "executors", wish.key, wish.value, wish.current, saving, slower, EXECUTOR_METRICS,
        _level(app, rules, EXECUTOR_METRICS), _level(changed, rules, EXECUTOR_METRICS),
        f"{idle:.0%} of the task slots had no task; on {ideal:,} {'executor' if ideal == 1 else 'executors'} it takes "
        f"{units.text('ms', plan.time_ms(ideal))} "
        f"where it takes {units.text('ms', plan.time_ms(held.count))} on {held.count:,}, both predicted from the real tasks.",
    )  # fmt: skip


def _partitions(app: App, held: Resources, rules: SparkRules, plan: Schedule) -> Advice | None:
    """Advise the number of shuffle partitions with the shortest predicted run time."""
    reading = [stage for stage in app.stages if stage.shuffle_read_bytes]
    if not reading or not plan.executors:
        return None
    largest = max(reading, key=lambda stage: stage.shuffle_read_bytes)
    wish = tasks_wish(app, largest, 1, "partitions")
    if not wish.key or wish.open:
        return None
    read, current, slots = largest.shuffle_read_bytes, largest.tasks, plan.executors * plan.slots_each
    least = -(-read // MOST_PARTITION)
    tried = {
        count: repartitioned(plan, count).time_ms(plan.executors)
        for count in sorted({slots, 2 * slots, 3 * slots, 4 * slots, current // 2, 2 * current})
        if least <= count <= MOST_PARTITIONS and count not in (0, current)
    }
    if not tried:
        return None
    wanted = min(tried, key=lambda count: (tried[count], count))
    text = (
        f"With {wanted:,} tasks each, as unevenly spread as they were, stages that read shuffled data would let it end in "
        f"{units.text('ms', tried[wanted])} where it took {units.text('ms', plan.time_ms(plan.executors))}, both predicted "
        "from the real tasks."
    )
    saved = plan.time_ms(plan.executors) - tried[wanted]
    return _sooner(app, held, rules, saved, ("partitions", wish.key, str(wanted), str(current), text))


def _skew(
    app: App, held: Resources, rules: SparkRules, plan: Schedule, skewed: Mapping[int, StageTasks]
) -> Advice | None:
    """Advise to split partitions much larger than the others of their stage; ``skewed``: those stages."""
    worst = max(skewed.values(), key=lambda one: one.longest_ms)
    key, value = skew_setting(app, worst)
    groups = tuple(
        replace(group, tasks=tuple(
            tuple(part for ms in tasks for part in split_up(skewed[stage], ms)) if stage in skewed else tasks
            for stage, tasks in zip(group.stages, group.tasks, strict=True)
        ))
        for group in plan.groups
    )  # fmt: skip
    saved = plan.time_ms(plan.executors) - plan.with_groups(groups).time_ms(plan.executors)
    text = (
        f"The longest task of stage {worst.stage.stage} read {units.size(worst.longest_bytes)} where the median read "
        f"{units.size(worst.median_bytes)}. In parts as large as the others it would let the application end "
        f"{units.duration(max(0, saved))} sooner."
    )
    return _sooner(app, held, rules, saved, ("skew", key, value, app.properties.get(key) or "", text)) if key else None


def _sooner(
    app: App, held: Resources, rules: SparkRules, saved_ms: int, what: tuple[str, str, str, str, str]
) -> Advice | None:
    """Return the advice ``what`` (topic, key, value, value now, text) for a saving of run time; None if negligible."""
    if not held.count or saved_ms < LEAST_SHARE * (app.runtime_ms or 0):
        return None
    topic, key, value, current, text = what
    saving = saved_ms * (held.count * held.held[0].mb + held.driver_mb) / 1000
    level = _level(app, rules, STAGE_METRICS)
    return Advice(topic, key, value, current, saving, -saved_ms, STAGE_METRICS, level, level, text)
