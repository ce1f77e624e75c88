"""What an application held and spent: executors, heaps, slots, time and its true cost; skewed stages and their cause (more data,
a slow host, or costly keys); the costly nodes of its SQL executions, with the numbers of Spark's metrics."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import polars as pl
from numpy.typing import NDArray

from engine.job_heuristics.dr_elephant.side_stats import Part, costs_of
from engine.job_heuristics.spark.model.app import (
    DRIVER,
    MB,
    App,
    Executor,
    SqlExecution,
    Stage,
    container_mb,
    is_dynamic,
    is_local,
    is_on,
    spark_bytes,
    spark_ms,
    version,
)
from engine.job_heuristics.spark.reading.events import PlanNode, unpacked
from engine.job_heuristics.spark.rules.settings import is_sql

Ints = NDArray[np.int64]
_LOCAL = re.compile(r"local\[\s*(\d{1,5}|\*)")
_GIVEN_BACK = re.compile(
    r"explicit termination request|killed by driver|\bidle\b|decommission|shut ?down", re.IGNORECASE
)
"""Reasons of a removal that the driver asked for."""
_UNCLEAR = re.compile(r"deleted by|code:? (?:0|143)\b|^$")
"""Reasons of a removal that the driver may have asked for: of an idle executor it did."""
IDLE_TIMEOUT, IDLE_MS, IDLE_SHARE = "spark.dynamicAllocation.executorIdleTimeout", 60_000, 0.95
"""Idle time, by default, after which dynamic allocation gives an executor back; and the part of it that tells."""


@dataclass(frozen=True, slots=True)
class Held:
    """One executor: its container, cores, task slots (cores over cores of a task), start and end."""

    executor: Executor
    mb: int
    cores: int
    slots: int
    begin_ms: int
    end_ms: int

    @property
    def life_ms(self) -> int:
        """Its lifetime."""
        return self.end_ms - self.begin_ms


@dataclass(frozen=True)
class Resources:
    """All executors that run tasks, and the container of a driver that runs none."""

    app: App
    held: tuple[Held, ...]
    driver_mb: int
    driver_ms: int

    @cached_property
    def given_back(self) -> frozenset[str]:
        """Executors that Spark gave back: by the reason in the log, or, where that tells nothing, idle for as long as dynamic
        allocation waits. All others that were removed are lost."""
        wait = (self.app.properties.get(IDLE_TIMEOUT) or "").strip()
        least = IDLE_SHARE * spark_ms(f"{wait}s" if wait.isdecimal() else wait, IDLE_MS)
        last = dict(self.app.tasks.group_by("executor").agg(pl.col("finish_ms").max()).iter_rows())
        found = set()
        for one in self.held:
            reason, name = one.executor.reason or "", one.executor.name
            idle = one.end_ms - max(one.begin_ms, last.get(name, 0))
            unclear = is_dynamic(self.app) and idle >= least and _UNCLEAR.search(reason)
            if not one.executor.active and (unclear or _GIVEN_BACK.search(reason)):
                found.add(name)
        return frozenset(found)

    @cached_property
    def core_ms(self) -> int:
        """Cores x time of all executors."""
        return sum(one.cores * one.life_ms for one in self.held)

    @cached_property
    def slot_ms(self) -> int:
        """Task slots x time of all executors."""
        return sum(one.slots * one.life_ms for one in self.held)

    @cached_property
    def slots(self) -> int:
        """Peak number of task slots."""
        return self._most([one.slots for one in self.held])

    @cached_property
    def count(self) -> int:
        """Peak number of executors."""
        return self._most([1] * len(self.held))

    def _most(self, weights: list[int]) -> int:
        times, levels = self.timeline(weights)
        return int(levels.max()) if len(times) else 0

    def timeline(self, weights: list[int]) -> tuple[Ints, Ints]:
        """Return the moments at which executors were added or removed, and their number (or weight) from then on."""
        if not self.held:
            return np.zeros(0, np.int64), np.zeros(0, np.int64)
        values = np.array(weights, dtype=np.int64)
        moments = np.array([[one.begin_ms, one.end_ms] for one in self.held], dtype=np.int64)
        times, place = np.unique(moments.ravel(), return_inverse=True)
        change = np.zeros(len(times), dtype=np.int64)
        np.add.at(change, place.reshape(-1), np.column_stack([values, -values]).ravel())
        return times, np.cumsum(change)


def resources(app: App) -> Resources:
    """Return the resources of an application, until now while running."""
    end, local = app.end_ms or 0, is_local(app)
    start = app.start_ms if app.start_ms is not None else end
    default_cpus = max(1, app.number("spark.task.cpus", 1))
    mb = container_mb(app, DRIVER) if local else container_mb(app, "executor")
    held = []
    for executor in app.executors:
        if executor.name == DRIVER and not (local or executor.task_ms):
            continue
        cores = executor.cores or (
            _local_cores(app) if executor.name == DRIVER else app.number("spark.executor.cores", 1)
        )
        cpus = app.cpus.get(executor.profile, default_cpus) if executor.profile else default_cpus
        begin = executor.add_ms if executor.add_ms is not None else start
        until = executor.remove_ms if executor.remove_ms is not None else end
        held.append(Held(executor, mb, cores, max(1, cores // cpus), begin, max(begin, until)))
    drives = not local and not any(one.executor.name == DRIVER for one in held)
    return Resources(app, tuple(held), container_mb(app, DRIVER) if drives else 0, max(0, end - start) if drives else 0)


def _local_cores(app: App) -> int:
    found = _LOCAL.match(app.properties.get("spark.master") or "")
    return int(found.group(1)) if found and found.group(1).isdecimal() else 1


def busy_ms(app: App) -> dict[str, int]:
    """Return the time with at least one task by executor; running tasks count until now."""
    columns = ("executor", "launch_ms", "finish_ms")
    running = app.running.select("executor", "launch_ms", finish_ms=pl.lit(app.end_ms or 0, pl.Int64))
    spans = pl.concat([app.tasks.select(columns), running]).sort("executor", "launch_ms")
    before = pl.col("finish_ms").cum_max().shift(1).over("executor")  # end of all tasks that began earlier
    return dict(
        spans.with_columns(ms=(pl.col("finish_ms") - pl.max_horizontal("launch_ms", before)).clip(lower_bound=0))
        .group_by("executor")
        .agg(pl.col("ms").sum())
        .iter_rows()
    )


def job_intervals(app: App) -> list[tuple[int, int]]:
    """Return the intervals with at least one Spark job, in order."""
    spans = sorted(
        (job.submit_ms, job.finish_ms if job.finish_ms is not None else app.end_ms or job.submit_ms)
        for job in app.jobs
        if job.submit_ms is not None
    )
    union: list[tuple[int, int]] = []
    for begin, end in spans:
        if union and begin <= union[-1][1]:
            union[-1] = (union[-1][0], max(union[-1][1], end))
        else:
            union.append((begin, max(begin, end)))
    return union


CAUSES = ("useful", "over-sizing", "idle executors", "failures", "speculation", "killed", "running", "driver")
"""Causes in the order they are shown."""


def costs(
    apps: Mapping[str, App], headroom: float, price_gb_h: float | None = None, price_vcore_h: float | None = None
) -> pl.DataFrame:
    """Return the rows of ``COSTS``: applications in their order, causes in ``CAUSES`` order, only causes that cost
    something. An executor needed at most ``headroom`` times its largest heap; without logged memory nothing counts as
    over-sizing."""
    parts = {app_id: split(resources(app), headroom) for app_id, app in apps.items()}
    return costs_of(parts, CAUSES, price_gb_h, price_vcore_h)


def split(held: Resources, headroom: float = 1.5) -> dict[str, Part]:
    """Return attempts, MB ms and core ms by cause."""
    found: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0])
    by_executor = _task_times(held.app)
    for one in held.held:
        _add(found, one, by_executor.get(one.executor.name, {}), headroom)
    if held.driver_ms:
        found["driver"] = [1, held.driver_mb * held.driver_ms, held.driver_ms]
    return {cause: (a, b, c) for cause, (a, b, c) in found.items()}


def _add(found: dict[str, list[int]], one: Held, times: Mapping[str, tuple[int, int]], headroom: float) -> None:
    """Add the costs of one executor; ``times``: attempts and ms of its tasks by cause."""
    whole = one.mb * one.life_ms
    # Host clocks differ: more task time than slot time means full slots.
    room = max(one.slots * one.life_ms, sum(ms for _, ms in times.values()))
    left = whole
    cores_left = one.cores * one.life_ms
    for cause, (attempts, ms) in times.items():
        mb_ms, core_ms = (value * ms // room if room else 0 for value in (whole, one.cores * one.life_ms))
        left, cores_left = left - mb_ms, cores_left - core_ms
        part = found[cause]
        part[0], part[2] = part[0] + attempts, part[2] + core_ms
        over = mb_ms * (one.mb - (_needed_mb(one, headroom) if cause == "useful" else one.mb)) // one.mb
        part[1] += mb_ms - over
        if over:
            found["over-sizing"][0] += attempts
            found["over-sizing"][1] += over
    idle = found["idle executors"]
    idle[:] = idle[0] + 1, idle[1] + left, idle[2] + cores_left


def _needed_mb(one: Held, headroom: float) -> int:
    """Return the MB an executor needed: its container without the unused heap."""
    peaks = one.executor.peaks
    peak = (peaks["jvm_rss"] + peaks["python_rss"] + peaks["other_rss"]) or peaks["heap"] + peaks["off_heap"]
    return min(one.mb, int(peak * headroom) // MB + 1) if peak else one.mb


def _task_times(app: App) -> dict[str, dict[str, tuple[int, int]]]:
    """Return attempts and ms of tasks by executor and cause."""
    killed = pl.col("reason").is_in(["TaskKilled", "TaskCommitDenied"])
    cause = (
        pl.when(pl.col("reason") == "Success").then(pl.lit("useful"))
        .when(pl.col("speculative") | (pl.col("error").fill_null("").str.contains("another attempt succeeded", literal=True)))
        .then(pl.lit("speculation")).when(killed).then(pl.lit("killed")).otherwise(pl.lit("failures"))
    )  # fmt: skip
    columns = ("executor", "launch_ms", "finish_ms", "cause")
    ended = app.tasks.filter(pl.col("reason") != "Resubmitted").with_columns(cause=cause).select(columns)
    running = app.running.with_columns(finish_ms=pl.lit(app.end_ms, pl.Int64), cause=pl.lit("running")).select(columns)
    ms = (pl.col("finish_ms") - pl.col("launch_ms")).clip(lower_bound=0)
    both = pl.concat([ended, running]).drop_nulls("finish_ms").group_by("executor", "cause")
    found: dict[str, dict[str, tuple[int, int]]] = defaultdict(dict)
    for executor, why, attempts, total in both.agg(pl.len(), ms.sum().alias("ms")).iter_rows():
        found[executor][why] = (attempts, total)
    return found


MOST_RATIO, LEAST_MS = 5.0, 5_000
"""A stage is skewed if its longest task takes more than 5 times the median, and 5 s."""
DATA_RATIO, HOST_RATIO = 2.0, 1.5


@dataclass(frozen=True, slots=True)
class StageTasks:
    """Distribution of a stage attempt's successful tasks: times in ms, bytes read (input and shuffle). ``cause``:
    data, host, keys, or empty if not skewed; ``host``: of the longest task; ``host_ratio``: slowdown there in a
    skewed stage; ``tail_ms``: slot time idle while the last tasks ran."""

    stage: Stage
    tasks: int
    median_ms: int
    longest_ms: int
    median_bytes: int
    longest_bytes: int
    largest_bytes: int
    host: str
    host_ratio: float
    cause: str
    spilling: int
    overhead_ms: int
    duration_ms: int
    tail_ms: int

    @property
    def ratio(self) -> float:
        """Ratio of longest to median."""
        return self.longest_ms / self.median_ms if self.median_ms else float("inf") if self.longest_ms else 0.0


def stage_tasks(app: App, slots: int) -> dict[tuple[int, int], StageTasks]:
    """Return the stages with successful tasks by id and attempt; ``slots``: peak number of slots."""
    good = app.tasks.filter((pl.col("reason") == "Success") & pl.col("measured"))
    if not good.height:
        return {}
    stages = {stage.key: stage for stage in app.stages}
    found = {}
    columns = good.select(
        "stage_id", "stage_attempt", "run_ms", "host", "memory_spilled", "finish_ms",
        read=pl.col("input_bytes") + pl.col("remote_bytes") + pl.col("local_bytes"),
        moved=pl.max_horizontal(
            "input_bytes", "output_bytes", "shuffle_write_bytes", pl.col("remote_bytes") + pl.col("local_bytes")
        ),
        took=(pl.col("finish_ms") - pl.col("launch_ms")).clip(lower_bound=0),
        worked=pl.col("run_ms") + pl.col("deserialize_ms") + pl.col("serialize_ms"),
        fetched=pl.when(pl.col("getting_ms") > 0).then(pl.col("finish_ms") - pl.col("getting_ms")).otherwise(0),
    )  # fmt: skip
    for key, part in columns.partition_by("stage_id", "stage_attempt", maintain_order=True, as_dict=True).items():
        stage = stages.get((int(key[0]), int(key[1])))
        if stage is not None:
            found[stage.key] = _one(stage, part, slots)
    return found


def waves(app: App, slots: int) -> dict[tuple[int, int], tuple[int, ...]]:
    """Return when each wave of a stage attempt began, epoch ms: tasks by launch, ``slots`` per wave, including
    running ones."""
    columns = ("stage_id", "stage_attempt", "launch_ms")
    launched = pl.concat([app.tasks.select(columns), app.running.select(columns)]).sort(columns)
    first = pl.int_range(pl.len()).over("stage_id", "stage_attempt") % max(1, slots) == 0
    found: dict[tuple[int, int], list[int]] = defaultdict(list)
    for stage, attempt, ms in launched.filter(first).iter_rows():
        found[stage, attempt].append(ms)
    return {key: tuple(starts) for key, starts in found.items()}


def _one(stage: Stage, part: pl.DataFrame, slots: int) -> StageTasks:
    run, read = part["run_ms"].to_numpy(), part["read"].to_numpy()
    longest = int(run.argmax())
    median, middle = int(np.median(run)), int(np.median(read))
    host = part["host"][longest]
    skewed = run[longest] > LEAST_MS and run[longest] > MOST_RATIO * max(median, 1)
    ratio = _host_ratio(part, host) if skewed else 1.0
    # Why the longest task took long: its bytes relative to the median, its host relative to others, else its keys.
    much = read[longest] > DATA_RATIO * max(middle, 1)
    cause = "" if not skewed else "data" if much else "host" if ratio >= HOST_RATIO else "keys"
    took = part["took"].to_numpy()
    overhead = np.maximum(took - part["worked"].to_numpy() - part["fetched"].to_numpy(), 0)
    # The last task of each slot: after its end the slot is idle for this stage.
    last = np.sort(part["finish_ms"].to_numpy())[-max(1, slots) :]
    return StageTasks(
        stage, part.height, median, int(run[longest]), middle, int(read[longest]), int(part["moved"].max() or 0),  # type: ignore[arg-type]
        host, ratio, cause,
        int((part["memory_spilled"] > 0).sum()),
        int(overhead.sum()), int(took.sum()), int((last[-1] - last).sum()),
    )  # fmt: skip


def _host_ratio(part: pl.DataFrame, host: str) -> float:
    """Return the ratio of a host's median task time to that of the others; 1 with too few tasks."""
    mine, others = part.filter(pl.col("host") == host)["run_ms"], part.filter(pl.col("host") != host)["run_ms"]
    if len(mine) < 2 or len(others) < 2:
        return 1.0
    a, b = float(np.median(mine.to_numpy())), float(np.median(others.to_numpy()))
    return a / b if b else 1.0


def split_up(one: StageTasks, ms: int) -> list[int]:
    """Return the times of a task of a skewed stage split into parts as long as the median."""
    if ms <= MOST_RATIO * max(one.median_ms, 1):
        return [ms]
    parts = max(2, round(ms / max(one.median_ms, 1)))
    return [ms // parts] * parts


def skew_setting(app: App, one: StageTasks) -> tuple[str, str]:
    """Return the property, and its value, by which Spark divides the large partitions of a join: adaptive execution
    (since 3.0, default since 3.2) if it is off, else a lower threshold of skewed partitions. Empty if none helps:
    before 3.0, outside of SQL, or if a large enough partition was not split because it does not belong to a join."""
    numbers = version(app)
    if (numbers and numbers < (3,)) or not is_sql(app, one.stage):
        return "", ""
    if not is_on(app, "spark.sql.adaptive.enabled", str(not numbers or numbers >= (3, 2))):
        return "spark.sql.adaptive.enabled", "true"
    if not is_on(app, "spark.sql.adaptive.skewJoin.enabled", "true"):
        return "spark.sql.adaptive.skewJoin.enabled", "true"
    key = "spark.sql.adaptive.skewJoin.skewedPartitionThresholdInBytes"
    return (
        ("", "")
        if one.longest_bytes > spark_bytes(app.properties.get(key), "256m", "b")
        else (key, f"{max(1, one.longest_bytes >> 21)}m")
    )


_NANOS = 1_000_000
TIME_SHARE = 0.25
"""Share of the own times of all nodes from which one is costly."""
LEAST_TIME_MS, LEAST = 1000, {"rows": 100_000, "bytes": 1 << 20}
"""Thresholds below which costs are ignored."""
_IDS = re.compile(r"#\d+L?")


@dataclass(frozen=True, slots=True)
class PlanRow:
    """One node of a plan: ``depth`` below the root, ``name``, ``text``, and its metrics by name (times in ms)."""

    depth: int
    name: str
    text: str
    metrics: dict[str, int] = field(default_factory=dict)

    @property
    def time_ms(self) -> int:
        """The largest of its (overlapping) times."""
        return max((value for name, value in self.metrics.items() if "time" in name or "duration" in name), default=0)

    @property
    def bytes(self) -> int | None:
        """The largest of its sizes."""
        return max((v for name, v in self.metrics.items() if "size" in name or "bytes" in name), default=None)

    @property
    def rows(self) -> int | None:
        """Output rows."""
        return self.metrics.get("number of output rows")


def plan_rows(app: App, execution: SqlExecution) -> list[PlanRow]:
    """Return the nodes of an execution's last plan, root first, without empty metrics."""
    return [_row(app, node) for node in unpacked(execution.plan)]


def _row(app: App, node: PlanNode) -> PlanRow:
    metrics: dict[str, int] = {}
    for name, accumulator, kind in node.metrics:
        value = app.sql_metrics.get(accumulator)
        if value is not None and value >= 0:
            metrics[name] = value // _NANOS if kind == "nsTiming" else value
    return PlanRow(node.depth, node.name, _IDS.sub("", node.text), metrics)


def own_times(rows: list[PlanRow]) -> list[int]:
    """Return the own time of each node: generated code measures a whole chain of nodes at once, up to its input."""
    own = [row.time_ms for row in rows]
    above: list[tuple[int, int | None]] = []  # depth of the ancestors, and the generated code each belongs to
    for at, row in enumerate(rows):
        while above and above[-1][0] >= row.depth:
            above.pop()
        code = above[-1][1] if above else None
        if row.name.startswith("WholeStageCodegen"):
            code = at
        elif row.name.startswith("InputAdapter"):
            code = None
        elif code is not None:
            own[code] = max(0, own[code] - row.time_ms)
        above.append((row.depth, code))
    return own


def costly(rows: list[PlanRow]) -> list[str]:
    """Return per node the comma-separated criteria by which it is costly: ``time`` (a quarter of all nodes' own
    times, and a second), ``rows`` (the most of all nodes, and 100,000) and ``bytes`` (the most, and 1 MiB); empty if
    none."""
    own = own_times(rows)
    enough = max(LEAST_TIME_MS, TIME_SHARE * sum(own))
    most = {what: max([least, *(getattr(row, what) or 0 for row in rows)]) for what, least in LEAST.items()}
    found = []
    for row, ms in zip(rows, own, strict=True):
        marks = ["time"] if ms >= enough else []
        marks += [what for what, value in most.items() if getattr(row, what) == value]
        found.append(", ".join(marks))
    return found


def children(rows: list[PlanRow], at: int) -> list[int]:
    """Return the indices of a node's children."""
    found = []
    for place in range(at + 1, len(rows)):
        if rows[place].depth <= rows[at].depth:
            break
        if rows[place].depth == rows[at].depth + 1:
            found.append(place)
    return found


def size_below(rows: list[PlanRow], at: int) -> int | None:
    """Return a node's output bytes: from the first node with a size at or below it, along single children."""
    while True:
        metrics = rows[at].metrics
        for name in ("data size", "size of files read", "shuffle bytes written"):
            if name in metrics:
                return metrics[name]
        below = children(rows, at)
        if len(below) != 1:
            return None
        at = below[0]
