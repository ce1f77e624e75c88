"""Tasks and attempts of some jobs as NumPy arrays, the input of sums, verdicts, costs and recommendations.

A Polars call costs 50-200 microseconds even for few rows, a NumPy call a few, which matters while single jobs change.
One job and all jobs use the same kernels and so give the same numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property

import msgspec
import numpy as np
import polars as pl

from engine.job_heuristics.dr_elephant.gates import Array
from engine.job_heuristics.dr_elephant.side_stats import Measure, SideTasks, row_count

RUNNING, SUCCEEDED, KILLED, OTHER = 0, 1, 2, 3  # states of tasks and attempts as numbers
STATES = {"RUNNING": RUNNING, "SUCCEEDED": SUCCEEDED, "KILLED": KILLED}

TASK_NUMBERS: tuple[str, ...] = (
    "total_ms", "shuffle_ms", "sort_ms", "start_ms", "finish_ms", "input_bytes", "cpu_ms", "gc_ms", "physical_bytes",
    "virtual_bytes", "spilled_records", "map_output_records", "map_output_bytes", "reduce_shuffle_bytes",
)  # fmt: skip
"""Columns of the task model available to heuristics; null is 0."""
OF_ALL_TASKS: tuple[str, ...] = (
    "input_bytes", "reduce_shuffle_bytes", "spilled_records", "map_output_records",
)  # fmt: skip
"""Counters that Dr. Elephant also sums over tasks without times (mostly 0 there)."""
PEAK = pl.max_horizontal(
    "physical_bytes",
    pl.when(pl.col("side") == "map").then("map_physical_max_bytes"),
    pl.when(pl.col("side") == "reduce").then("reduce_physical_max_bytes"),
).fill_null(0)
"""Largest known physical memory of a task, bytes; 0: not measured."""


class TaskArrays(msgspec.Struct, frozen=True, dict=True):
    """Tasks in the order of the task model. ``job``: index into the list of jobs asked for; ``state``: ``STATES``;
    ``numbers``: int64 by name (``TASK_NUMBERS``, ``peak``) of ``timed`` tasks only; ``counters``: int64 by name
    (``OF_ALL_TASKS``) of all tasks."""

    job: Array
    is_map: Array
    state: Array
    timed: Array
    fallback: Array
    numbers: Mapping[str, Array]
    counters: Mapping[str, Array]

    @cached_property
    def side(self) -> Array:
        """Number of each task's side: 2 x job for maps, one more for reduces."""
        return self.job * 2 + ~self.is_map

    def only(self, mask: Array) -> TaskArrays:
        """The tasks where ``mask`` is set."""
        timed = mask[self.timed]
        return TaskArrays(
            self.job[mask], self.is_map[mask], self.state[mask], self.timed[mask], self.fallback[mask],
            {name: values[timed] for name, values in self.numbers.items()},
            {name: values[mask] for name, values in self.counters.items()},
        )  # fmt: skip


class AttemptArrays(msgspec.Struct, frozen=True):
    """Attempts that have started, in the order of the attempt model. ``finished`` and ``shuffled``: whether
    ``finish_ms`` and ``shuffle_finish_ms`` are known; ``raced``: an attempt of the same task was speculative."""

    job: Array
    is_map: Array
    state: Array
    chosen: Array
    raced: Array
    finished: Array
    shuffled: Array
    start_ms: Array
    finish_ms: Array
    shuffle_finish_ms: Array


def job_index(names: pl.Series, jobs: Sequence[str]) -> Array:
    """Return the index in ``jobs`` of each of ``names``, -1 if absent. Equal names must be adjacent."""
    places = {job: place for place, job in enumerate(jobs)}
    runs = names.rle().struct.unnest()
    place_of_run = np.array([places.get(name, -1) for name in runs["value"].to_list()], dtype=np.int64)
    return np.repeat(place_of_run, runs["len"].to_numpy())


def filled(column: pl.Series, value: int) -> Array:
    """Return a column of whole numbers with nulls replaced by ``value``."""
    return np.array((column.fill_null(value) if column.null_count() else column).to_numpy(), dtype=np.int64)


def _codes(column: str) -> pl.Expr:
    return pl.col(column).replace_strict(STATES, default=OTHER, return_dtype=pl.Int8).fill_null(OTHER)


def tasks_of(frame: pl.DataFrame, jobs: Sequence[str]) -> TaskArrays:
    """Make arrays of the TASK_MODEL rows of ``jobs``."""
    made = frame.select(
        (pl.col("side") == "map").fill_null(False).alias("is_map"),
        _codes("state").alias("state"),
        pl.col("timed").fill_null(False),
        pl.col("fallback").fill_null(False),
        PEAK.alias("peak"),
        *(pl.col(name).fill_null(0) for name in TASK_NUMBERS),
    )
    timed = made["timed"].to_numpy()
    counters = {name: made[name].to_numpy() for name in OF_ALL_TASKS}
    numbers = (made if timed.all() else made.filter("timed")).select("peak", *TASK_NUMBERS)
    tasks = TaskArrays(
        job_index(frame["job_id"], jobs), made["is_map"].to_numpy(), made["state"].to_numpy(), timed,
        made["fallback"].to_numpy(), {name: numbers[name].to_numpy() for name in numbers.columns}, counters,
    )  # fmt: skip
    wanted = tasks.job >= 0
    return tasks if wanted.all() else tasks.only(wanted)


def attempts_of(frame: pl.DataFrame, jobs: Sequence[str]) -> AttemptArrays:
    """Make arrays of the started ATTEMPT_MODEL rows of ``jobs``."""
    speculative = frame.filter((pl.col("avataar") == "SPECULATIVE") & (pl.col("start_ms") > 0))["task_id"].unique()
    made = frame.select(
        (pl.col("side") == "map").fill_null(False).alias("is_map"),
        _codes("state").alias("state"),
        pl.col("chosen").fill_null(False),
        pl.col("task_id").is_in(speculative.implode()).fill_null(False).alias("raced"),
        pl.col("finish_ms").is_not_null().alias("finished"),
        pl.col("shuffle_finish_ms").is_not_null().alias("shuffled"),
        *(pl.col(name).fill_null(0) for name in ("start_ms", "finish_ms", "shuffle_finish_ms")),
    )
    job = job_index(frame["job_id"], jobs)
    wanted = (job >= 0) & (made["start_ms"].to_numpy() > 0)
    return AttemptArrays(job[wanted], **{column.name: column.to_numpy()[wanted] for column in made})


def _side_tasks(segment: Array, jobs: int, columns: Mapping[str, Array]) -> SideTasks:
    """Return tasks of ``jobs`` jobs; segment 2 x job holds its maps, the next one its reduces."""
    data = np.where((segment & 1) == 0, columns["input_bytes"], columns["reduce_shuffle_bytes"])
    return SideTasks(segment, 2 * jobs, {**columns, "data": data})


def measure(judged: Array, tasks: TaskArrays, measures: Iterable[Measure]) -> tuple[dict[str, Array], SideTasks]:
    """Compute ``measures`` of all jobs: by name, one value per job and side (map then reduce); and the timed tasks
    used.

    ``judged``: jobs (succeeded or failed) whose tasks all count; of other jobs only ended tasks do. Beside the
    declared measures: ``n`` tasks that count, ``ended``, ``timed`` (with times), ``fallback`` (of those the tasks
    whose attempt is our choice).
    """
    count = 2 * len(judged)
    counted = judged[tasks.job] | (tasks.state != RUNNING)
    if not counted.all():
        tasks = tasks.only(counted)
    stats = _side_tasks(tasks.side[tasks.timed], len(judged), tasks.numbers)
    everything = stats if tasks.timed.all() else _side_tasks(tasks.side, len(judged), tasks.counters)
    values = {
        "n": row_count(tasks.side, count),
        "ended": row_count(tasks.side[tasks.state != RUNNING], count),
        "timed": stats.size,
        "fallback": row_count(tasks.side[tasks.timed & tasks.fallback], count),
    }
    for each in measures:
        values.update(zip(each.names, each.compute(everything if each.of_all else stats), strict=True))
    return values, stats
