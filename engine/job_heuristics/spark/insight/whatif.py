"""A Spark application on other executors, cores, memory or shuffle partitions: predicted metrics, judged again.

Only the difference to the same model of the actual application is used. See docs/models/job-heuristics.md, "Spark:
what if".
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from engine.job_heuristics.spark.insight.resources import Resources, resources
from engine.job_heuristics.spark.insight.schedule import Group, Schedule, schedule
from engine.job_heuristics.spark.model.app import DRIVER, App, Executor
from engine.job_heuristics.spark.rules import metrics
from engine.job_heuristics.spark.rules.heuristic import SparkRules, tree_of


@dataclass(frozen=True, slots=True)
class Scenario:
    """Other executors, cores of each, MB of each, and tasks of stages that read shuffled data; None: unchanged."""

    executors: int | None = None
    cores: int | None = None
    memory_mb: int | None = None
    partitions: int | None = None

    @property
    def empty(self) -> bool:
        """Whether nothing changes."""
        return self == Scenario()


@dataclass(frozen=True, slots=True)
class Numbers:
    """Numbers that a scenario changes: Dr. Elephant's metrics, run time, and executor cost, MB s."""

    used_mb_s: int
    wasted_mb_s: int
    runtime_ms: int
    cost_mb_s: float


@dataclass(frozen=True, slots=True)
class Prediction:
    """Numbers and severities (0-4, by name of the heuristic) under a scenario."""

    numbers: Numbers
    levels: dict[str, int]


def numbers(app: App, held: Resources | None = None) -> Numbers:
    """Return the actual numbers of the application."""
    held = held or resources(app)
    counted = metrics.metrics(app)
    cost = sum(one.mb * one.life_ms for one in held.held) + held.driver_mb * held.driver_ms
    return Numbers(counted.used_mb_s, counted.wasted_mb_s, app.runtime_ms or 0, cost / 1000)


def predict(app: App, scenario: Scenario, rules: SparkRules) -> Prediction:
    """Return the numbers and verdicts under ``scenario``, by ``rules`` (those of Spark)."""
    held = resources(app)
    now = schedule(app, held)
    slots = now.slots_each
    if scenario.cores is not None:
        cpus = max(1, app.number("spark.task.cpus", 1))
        slots = max(1, scenario.cores // cpus)
    other = repartitioned(now, scenario.partitions) if scenario.partitions else now
    count = scenario.executors or now.executors
    change = other.time_ms(count, slots) - now.time_ms(now.executors)
    changed = changed_app(app, scenario, (app.runtime_ms or 0) + change, count)
    levels = {rule.name: int(tree_of(rule, [changed]).levels()[0]) for rule in rules.rules}
    counted = numbers(changed)
    mb = resources(changed).held[0].mb if changed.executors and resources(changed).held else 0
    driver = held.driver_mb * max(0, changed.runtime_ms or 0) if held.driver_ms else 0
    cost = (count * mb * max(0, changed.runtime_ms or 0) + driver) / 1000
    return Prediction(replace(counted, cost_mb_s=cost), levels)


def changed_app(app: App, scenario: Scenario, runtime_ms: int, count: int) -> App:
    """Return the changed application: properties, run time, and evenly distributed work if the number of executors
    changes."""
    properties = dict(app.properties)
    if scenario.executors is not None:
        properties["spark.executor.instances"] = str(scenario.executors)
    if scenario.cores is not None:
        properties["spark.executor.cores"] = str(scenario.cores)
    if scenario.memory_mb is not None:
        properties["spark.executor.memory"] = f"{scenario.memory_mb}m"
    runtime_ms = max(0, runtime_ms)
    end = (app.start_ms or 0) + runtime_ms
    attempts = tuple(
        replace(each, end_ms=end) if k == 0 or (k == len(app.attempts) - 1 and len(app.attempts) == 1) else each
        for k, each in enumerate(app.attempts)
    )
    executors = app.executors
    workers = [one for one in executors if one.name != DRIVER]
    if scenario.executors is not None and workers and scenario.executors != sum(one.active for one in workers):
        executors = _dealt(workers, scenario.executors, scenario.cores) + tuple(
            e for e in executors if e.name == DRIVER
        )
    executors = tuple(replace(e, duration_ms=runtime_ms) if e.name == DRIVER else e for e in executors)
    return replace(app, properties=properties, attempts=attempts, end_ms=end, executors=executors)


def _dealt(workers: list[Executor], count: int, cores: int | None) -> tuple[Executor, ...]:
    """Return ``count`` executors that share the work of ``workers`` evenly."""
    names = ("memory_used", "duration_ms", "gc_ms", "input_bytes", "shuffle_read", "shuffle_write", "task_ms", "run_ms")
    share = {name: sum(getattr(one, name) for one in workers) // count for name in names}
    first = workers[0]
    return tuple(
        replace(first, name=str(k), active=True, remove_ms=None, cores=cores or first.cores, **share)
        for k in range(count)
    )


def repartitioned(now: Schedule, partitions: int) -> Schedule:
    """Return the schedule with ``partitions`` tasks in each stage that depends on another: the same work with the
    same skew; starting a task costs as much as the shortest one took, at most 50 ms."""
    groups = []
    for group in now.groups:
        tasks = []
        for parents, ms in zip(group.parents, group.tasks, strict=True):
            if not parents or not ms:
                tasks.append(ms)
                continue
            values = np.array(ms, dtype=np.float64)
            start = min(float(values.min()), 50.0)
            work = np.sort(values - start)
            at = np.linspace(0, 1, partitions) if partitions > 1 else np.array([0.5])
            spread = np.interp(at, np.linspace(0, 1, len(work)), work)
            total = spread.sum()
            scaled = spread * (work.sum() / total) if total else spread
            tasks.append(tuple((scaled + start).astype(np.int64).tolist()))
        groups.append(Group(group.stages, group.parents, tuple(tasks)))
    return now.with_groups(tuple(groups))
