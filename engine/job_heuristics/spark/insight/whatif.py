"""Predicted run time and metrics of a Spark application on other executors, cores, memory or shuffle partitions.

The real tasks are scheduled again on other slots (list scheduling, Graham 1966). The driver's own time is constant. Jobs that
overlapped form a group; groups run in sequence. Within a group a stage waits for its parents, and its tasks, by index, take the
first free slot. Metrics are judged again; only the difference to the same model of the actual application is used. See
docs/models/job-heuristics.md, "Spark: other executors" and "Spark: what if".
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from heapq import heapreplace

import msgspec
import numpy as np
import polars as pl

from engine.job_heuristics.spark.insight.resources import Resources, job_intervals, resources
from engine.job_heuristics.spark.model.app import DRIVER, App, Executor, Stage
from engine.job_heuristics.spark.rules import metrics
from engine.job_heuristics.spark.rules.heuristic import SparkRules, tree_of

MOST_EXECUTORS = 10_000
_UNLIMITED = 2**40  # executors whose slots are more than an application has tasks
NEAR = 1.05  # an application is near its best time within this factor


class Group(msgspec.Struct, frozen=True):
    """Concurrent jobs: their stages in a valid order, each with id, indices of its parents and ms of its tasks."""

    stages: tuple[int, ...]
    parents: tuple[tuple[int, ...], ...]
    tasks: tuple[tuple[int, ...], ...]

    def makespan(self, slots: int) -> int:
        """Return the ms from the group's begin to its end on ``slots``."""
        if slots < 1:
            return 0
        free = [0] * min(slots, sum(map(len, self.tasks)))  # more slots than tasks change nothing
        ends: list[int] = []
        for parents, tasks in zip(self.parents, self.tasks, strict=True):
            ready = max((ends[parent] for parent in parents), default=0)
            end = ready
            for ms in tasks:  # no calls of max: there are many tasks
                first = free[0]
                done = (first if first > ready else ready) + ms
                heapreplace(free, done)
                if done > end:
                    end = done
            ends.append(end)
        return max(ends, default=0)


class Schedule(msgspec.Struct, frozen=True, eq=False):
    """Inputs of the prediction: ``driver_ms`` outside of jobs, groups, slots per executor, peak number of executors."""

    driver_ms: int
    groups: tuple[Group, ...]
    slots_each: int
    executors: int
    run_ms: int
    _known: dict[int, int] = msgspec.field(default_factory=dict)

    def time_ms(self, executors: int, slots_each: int | None = None) -> int:
        """Return the predicted run time on ``executors``."""
        slots = executors * (slots_each or self.slots_each)
        if slots not in self._known:
            self._known[slots] = self.driver_ms + sum(group.makespan(slots) for group in self.groups)
        return self._known[slots]

    @property
    def critical_ms(self) -> int:
        """The time on any number of executors."""
        return self.time_ms(_UNLIMITED)

    def ideal(self) -> int:
        """Return the smallest number of executors within 5 % of the time of twice as many, found by doubling and
        bisection."""
        if not self.groups or not self.executors:
            return 0
        high = 1
        while high < min(MOST_EXECUTORS, 2 * self.executors) and not self._enough(high):
            high *= 2
        low = high // 2
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if self._enough(middle) else (middle, high)
        return high

    def _enough(self, executors: int) -> bool:
        return self.time_ms(executors) <= NEAR * self.time_ms(2 * executors)

    def with_groups(self, groups: tuple[Group, ...]) -> Schedule:
        """Return the schedule with other tasks."""
        return msgspec.structs.replace(self, groups=groups, _known={})


def schedule(app: App, held: Resources | None = None) -> Schedule:
    """Return the schedule of an application from its ended tasks."""
    held = held or resources(app)
    union = job_intervals(app)
    start, end = app.start_ms, app.end_ms
    driver = max(0, (end - start) - sum(b - a for a, b in union)) if start is not None and end is not None else 0
    tasks = _tasks(app)
    by_id: dict[int, list[Stage]] = defaultdict(list)
    for stage in app.stages:
        by_id[stage.stage].append(stage)
    starts = [begin for begin, _ in union]
    members: list[set[int]] = [set() for _ in union]
    for job in app.jobs:
        if job.submit_ms is not None:
            members[bisect_right(starts, job.submit_ms) - 1].update(job.stages)
    groups = tuple(group for wanted in members if (group := _group(wanted, by_id, tasks)) is not None)
    each = max((one.slots for one in held.held), default=1)
    return Schedule(driver, groups, each, held.count, sum(map(sum, tasks.values())))


def _tasks(app: App) -> dict[int, tuple[int, ...]]:
    """Return the ms of the tasks of each stage, in the order of their index; lost copies are left out, failures are not."""
    if not app.tasks.height:
        return {}
    ended = app.tasks.filter(~pl.col("reason").is_in(["TaskKilled", "TaskCommitDenied", "Resubmitted"]))
    times = ended.select("stage_id", "index", ms=(pl.col("finish_ms") - pl.col("launch_ms")).clip(lower_bound=0)).sort(
        "stage_id", "index", maintain_order=True
    )
    return {stage: tuple(ms) for stage, ms in times.group_by("stage_id", maintain_order=True).agg("ms").iter_rows()}


def _group(wanted: set[int], stages: dict[int, list[Stage]], tasks: dict[int, tuple[int, ...]]) -> Group | None:
    """Return the stages ``wanted`` with tasks in a valid order; None without any. Stage ids grow along dependencies."""
    order = sorted(stage for stage in wanted if stage in tasks and stage in stages)
    if not order:
        return None
    place = {stage: k for k, stage in enumerate(order)}
    parents = tuple(
        tuple(
            sorted({place[p] for one in stages[stage] for p in one.parents if p in place and place[p] < place[stage]})
        )
        for stage in order
    )
    return Group(tuple(order), parents, tuple(tasks[stage] for stage in order))


class Scenario(msgspec.Struct, frozen=True):
    """Other executors, cores of each, MB of each, and tasks of stages that read shuffled data; None: unchanged."""

    executors: int | None = None
    cores: int | None = None
    memory_mb: int | None = None
    partitions: int | None = None


class Numbers(msgspec.Struct, frozen=True):
    """Numbers that a scenario changes: Dr. Elephant's metrics, run time, and executor cost, MB s."""

    used_mb_s: int
    wasted_mb_s: int
    runtime_ms: int
    cost_mb_s: float


class Prediction(msgspec.Struct, frozen=True):
    """Numbers and severities (0-4, by name of the heuristic) under a scenario."""

    numbers: Numbers
    levels: dict[str, int]


def numbers(app: App, held: Resources | None = None) -> Numbers:
    """Return the actual numbers of the application."""
    held = held or resources(app)
    used, wasted = metrics.metrics(app)
    cost = sum(one.mb * one.life_ms for one in held.held) + held.driver_mb * held.driver_ms
    return Numbers(used, wasted, app.runtime_ms or 0, cost / 1000)


def predict(app: App, scenario: Scenario, rules: SparkRules) -> Prediction:
    """Return the numbers and verdicts under ``scenario``, by ``rules`` (those of Spark)."""
    held = resources(app)
    now = schedule(app, held)
    slots = (
        max(1, scenario.cores // max(1, app.number("spark.task.cpus", 1)))
        if scenario.cores is not None
        else now.slots_each
    )
    other = repartitioned(now, scenario.partitions) if scenario.partitions else now
    count = scenario.executors or now.executors
    change = other.time_ms(count, slots) - now.time_ms(now.executors)
    changed = changed_app(app, scenario, (app.runtime_ms or 0) + change, count)
    levels = {rule.name: int(tree_of(rule, [changed]).levels()[0]) for rule in rules.rules}
    mb = resources(changed).held[0].mb if changed.executors and resources(changed).held else 0
    driver = held.driver_mb * max(0, changed.runtime_ms or 0) if held.driver_ms else 0
    cost = (count * mb * max(0, changed.runtime_ms or 0) + driver) / 1000
    return Prediction(msgspec.structs.replace(numbers(changed), cost_mb_s=cost), levels)


def changed_app(app: App, scenario: Scenario, runtime_ms: int, count: int) -> App:
    """Return the changed application: properties, run time, and evenly distributed work if the number of executors
    changes."""
    memory = None if scenario.memory_mb is None else f"{scenario.memory_mb}m"
    wanted = {"instances": scenario.executors, "cores": scenario.cores, "memory": memory}
    set_up = {f"spark.executor.{key}": str(value) for key, value in wanted.items() if value is not None}
    runtime_ms = max(0, runtime_ms)
    end = (app.start_ms or 0) + runtime_ms
    attempts = tuple(
        msgspec.structs.replace(each, end_ms=end) if k == 0 else each for k, each in enumerate(app.attempts)
    )
    executors = app.executors
    workers = [one for one in executors if one.name != DRIVER]
    if scenario.executors is not None and workers and scenario.executors != sum(one.active for one in workers):
        executors = _dealt(workers, scenario.executors, scenario.cores) + tuple(
            e for e in executors if e.name == DRIVER
        )
    executors = tuple(msgspec.structs.replace(e, duration_ms=runtime_ms) if e.name == DRIVER else e for e in executors)
    return msgspec.structs.replace(
        app, properties={**app.properties, **set_up}, attempts=attempts, end_ms=end, executors=executors
    )


def _dealt(workers: list[Executor], count: int, cores: int | None) -> tuple[Executor, ...]:
    """Return ``count`` executors that share the work of ``workers`` evenly."""
    names = ("memory_used", "duration_ms", "gc_ms", "input_bytes", "shuffle_read", "shuffle_write", "task_ms", "run_ms")
    share = {name: sum(getattr(one, name) for one in workers) // count for name in names}
    first = workers[0]
    return tuple(
        msgspec.structs.replace(first, name=str(k), active=True, remove_ms=None, cores=cores or first.cores, **share)
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
