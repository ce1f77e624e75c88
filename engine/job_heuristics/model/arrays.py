"""Tasks and attempts of some jobs as NumPy arrays: what sums, verdicts, costs and recommendations look at.

A call of Polars costs 50-200 microseconds however few rows there are, one of NumPy a few: on the live path, where one job
changes at a time, that decides. The same kernels serve one job and all of them, so that both give the same numbers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import polars as pl

Array = np.ndarray[Any, Any]

RUNNING, SUCCEEDED, KILLED, OTHER = 0, 1, 2, 3
"""States of tasks and attempts as numbers."""
STATES = {"RUNNING": RUNNING, "SUCCEEDED": SUCCEEDED, "KILLED": KILLED}

TASK_NUMBERS: tuple[str, ...] = (
    "total_ms", "shuffle_ms", "sort_ms", "start_ms", "finish_ms", "input_bytes", "cpu_ms", "gc_ms", "physical_bytes",
    "virtual_bytes", "spilled_records", "map_output_records", "map_output_bytes", "reduce_shuffle_bytes",
)  # fmt: skip
"""Columns of the task model that are kept as they are, null as 0."""
PEAK = pl.max_horizontal(
    "physical_bytes",
    pl.when(pl.col("side") == "map").then("map_physical_max_bytes"),
    pl.when(pl.col("side") == "reduce").then("reduce_physical_max_bytes"),
).fill_null(0)
"""Best known peak of a task's physical memory, bytes; 0: not measured."""


@dataclass(frozen=True)
class TaskArrays:
    """Tasks in the order of the task model. ``job``: index into the list of jobs asked for; ``state``: ``STATES``;
    ``numbers``: int64 by name, ``TASK_NUMBERS`` and ``peak``, of those tasks alone that are ``timed``."""

    job: Array
    is_map: Array
    state: Array
    timed: Array
    fallback: Array
    numbers: Mapping[str, Array]

    @cached_property
    def side(self) -> Array:
        """For each task the number of its job's side: 2 x job for maps, one more for reduces."""
        found: Array = self.job * 2 + ~self.is_map
        return found

    def only(self, mask: Array) -> TaskArrays:
        """The tasks where ``mask`` is set."""
        timed = mask[self.timed]
        return TaskArrays(
            self.job[mask], self.is_map[mask], self.state[mask], self.timed[mask], self.fallback[mask],
            {name: values[timed] for name, values in self.numbers.items()},
        )  # fmt: skip


@dataclass(frozen=True)
class AttemptArrays:
    """Attempts that have started, in the order of the attempt model. ``finished`` and ``shuffled`` say where
    ``finish_ms`` and ``shuffle_finish_ms`` are known; ``raced``: some attempt of the same task was speculative."""

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
    """For each of ``names`` its place in ``jobs``, -1 where it is not one of them. Equal names lie together."""
    place = {job: k for k, job in enumerate(jobs)}
    runs = names.rle().struct.unnest()
    found = np.array([place.get(name, -1) for name in runs["value"].to_list()], dtype=np.int64)
    return np.repeat(found, runs["len"].to_numpy())


def filled(column: pl.Series, value: int) -> Array:
    """A column of whole numbers with ``value`` for nulls. Few are filled one by one: a query takes longer."""
    if len(column) <= 1000:
        return np.array([value if one is None else one for one in column.to_list()], dtype=np.int64)
    return np.array(column.fill_null(value).to_numpy(), dtype=np.int64)


def _codes(column: str) -> pl.Expr:
    return pl.col(column).replace_strict(STATES, default=OTHER, return_dtype=pl.Int8).fill_null(OTHER)


def tasks_of(frame: pl.DataFrame, jobs: Sequence[str]) -> TaskArrays:
    """``frame``: TASK_MODEL rows; those of jobs that are not in ``jobs`` are left out."""
    made = frame.select(
        (pl.col("side") == "map").fill_null(False).alias("is_map"),
        _codes("state").alias("state"),
        pl.col("timed").fill_null(False),
        pl.col("fallback").fill_null(False),
        PEAK.alias("peak"),
        *(pl.col(name).fill_null(0) for name in TASK_NUMBERS),
    )
    timed = made["timed"].to_numpy()
    numbers = made.select("peak", *TASK_NUMBERS)
    if not timed.all():
        numbers = numbers.filter(made["timed"])
    found = TaskArrays(
        job_index(frame["job_id"], jobs), made["is_map"].to_numpy(), made["state"].to_numpy(), timed,
        made["fallback"].to_numpy(), {name: numbers[name].to_numpy() for name in numbers.columns},
    )  # fmt: skip
    known = found.job >= 0
    return found if known.all() else found.only(known)


ATTEMPT_COLUMNS = (
    "is_map", "state", "chosen", "raced", "finished", "shuffled", "start_ms", "finish_ms", "shuffle_finish_ms",
)  # fmt: skip
"""Columns of ``AttemptArrays`` beside ``job``."""


def attempt_columns(frame: pl.DataFrame) -> dict[str, Array]:
    """``ATTEMPT_COLUMNS`` of ATTEMPT_MODEL rows."""
    speculative = frame.filter((pl.col("avataar") == "SPECULATIVE") & (pl.col("start_ms") > 0))["task_id"]
    made = frame.select(
        (pl.col("side") == "map").fill_null(False).alias("is_map"),
        _codes("state").alias("state"),
        pl.col("chosen").fill_null(False),
        pl.lit(False).alias("raced")
        if speculative.is_empty()
        else pl.col("task_id").is_in(speculative.unique().implode()).fill_null(False).alias("raced"),
        pl.col("finish_ms").is_not_null().alias("finished"),
        pl.col("shuffle_finish_ms").is_not_null().alias("shuffled"),
        *(pl.col(name).fill_null(0) for name in ("start_ms", "finish_ms", "shuffle_finish_ms")),
    )
    return {name: made[name].to_numpy() for name in ATTEMPT_COLUMNS}


def started(job: Array, columns: Mapping[str, Array]) -> AttemptArrays:
    """The attempts of known jobs that have started."""
    wanted = (job >= 0) & (columns["start_ms"] > 0)
    if wanted.all():
        return AttemptArrays(job, **{name: columns[name] for name in ATTEMPT_COLUMNS})
    return AttemptArrays(job[wanted], **{name: columns[name][wanted] for name in ATTEMPT_COLUMNS})


def attempts_of(frame: pl.DataFrame, jobs: Sequence[str]) -> AttemptArrays:
    """``frame``: ATTEMPT_MODEL rows; those of jobs that are not in ``jobs`` and those never started are left out."""
    return started(job_index(frame["job_id"], jobs), attempt_columns(frame))


def one_after_another(parts: Sequence[tuple[TaskArrays, AttemptArrays]]) -> tuple[TaskArrays, AttemptArrays]:
    """The arrays of several jobs, each given with one job, as of a list of these jobs."""
    if len(parts) == 1:
        return parts[0]

    def glue(one: Sequence[Any], name: str) -> Array:
        if name == "job":
            return np.repeat(np.arange(len(one)), [len(each.job) for each in one])
        return np.concatenate([getattr(each, name) for each in one])

    tasks, attempts = [task for task, _ in parts], [attempt for _, attempt in parts]
    numbers = {
        name: np.concatenate([one.numbers[name] for one in tasks]) for name in (tasks[0].numbers if tasks else ())
    }
    return (
        TaskArrays(
            job=glue(tasks, "job"),
            is_map=glue(tasks, "is_map"),
            state=glue(tasks, "state"),
            timed=glue(tasks, "timed"),
            fallback=glue(tasks, "fallback"),
            numbers=numbers,
        ),
        AttemptArrays(**{name: glue(attempts, name) for name in ("job", *ATTEMPT_COLUMNS)}),
    )
