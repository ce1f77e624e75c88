"""One Spark application: its attempts, properties, jobs, stages, executors and tasks, as the history server sums them up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from engine.job_heuristics.spark.tables import METRIC_NAMES, PEAKS

Ints = NDArray[np.int64]
DRIVER = "driver"
"""Id of the driver among the executors."""
NO_SUMS: dict[str, int] = dict.fromkeys(METRIC_NAMES, 0)


@dataclass(slots=True)
class SparkJob:
    """One Spark job. ``status`` RUNNING, SUCCEEDED or FAILED;
    ``stages``: ids of its stages; counts of tasks are the history server's."""

    number: int
    name: str = ""
    status: str = "RUNNING"
    submit_ms: int | None = None
    finish_ms: int | None = None
    stages: tuple[int, ...] = ()
    completed_tasks: int = 0
    failed_tasks: int = 0
    execution: int | None = None
    error: str | None = None


@dataclass(slots=True)
class Stage:
    """One attempt of a stage. ``status`` PENDING, ACTIVE, COMPLETE, FAILED or SKIPPED; ``sums``: its tasks' metrics;
    ``outside``: processes of Python, R or a pipe do a part of its work, whose processor time Spark does not count."""

    stage: int
    attempt: int
    name: str = ""
    status: str = "PENDING"
    tasks: int = 0
    submit_ms: int | None = None
    finish_ms: int | None = None
    failure: str | None = None
    parents: tuple[int, ...] = ()
    jobs: tuple[int, ...] = ()
    cached: tuple[int, ...] = ()
    profile: int = 0
    outside: bool = False
    active_tasks: int = 0
    completed_tasks: int = 0
    failed_tasks: int = 0
    killed_tasks: int = 0
    sums: Mapping[str, int] = field(default_factory=lambda: NO_SUMS)

    @property
    def key(self) -> tuple[int, int]:
        """Id and attempt."""
        return self.stage, self.attempt

    @property
    def shuffle_read_bytes(self) -> int:
        """Shuffle bytes read, from other executors and its own."""
        return self.sums["remote_bytes"] + self.sums["local_bytes"]


@dataclass(slots=True)
class Executor:
    """One executor, or the driver. ``duration_ms``: time of its tasks, for the driver that of the application;
    ``active`` False: removed."""

    name: str
    host: str = ""
    active: bool = True
    cores: int = 0
    profile: int = 0
    add_ms: int | None = None
    remove_ms: int | None = None
    reason: str | None = None
    max_memory: int = 0
    memory_used: int = 0
    rdd_blocks: int = 0
    completed_tasks: int = 0
    failed_tasks: int = 0
    total_tasks: int = 0
    duration_ms: int = 0
    gc_ms: int = 0
    input_bytes: int = 0
    shuffle_read: int = 0
    shuffle_write: int = 0
    task_ms: int = 0
    run_ms: int = 0
    peaks: Mapping[str, int] = field(default_factory=lambda: dict.fromkeys(PEAKS, 0))


@dataclass(frozen=True, slots=True)
class Stored:
    """A stored RDD: peak bytes in memory and on disk, numbers of blocks stored and dropped."""

    memory: int = 0
    disk: int = 0
    blocks: int = 0
    dropped: int = 0


@dataclass(frozen=True, slots=True)
class AppAttempt:
    """One attempt of an application; ``end_ms`` None: no end in its log."""

    attempt: str | None
    start_ms: int | None
    end_ms: int | None
    user: str
    version: str


@dataclass(frozen=True, slots=True)
class SqlExecution:
    """One execution of SQL: ``plan`` as packed by ``reading.spark.plans``."""

    number: int
    root: int | None
    description: str
    start_ms: int | None
    end_ms: int | None
    error: str | None
    plan: bytes | None


@dataclass(frozen=True, slots=True, eq=False)
class App:
    """One application. ``attempts``: newest first, all else is of the newest. ``properties``: its Spark properties
    (None: not a text); ``state`` SUCCEEDED, FAILED, KILLED, RUNNING or UNKNOWN; ``end_ms``: its end, or the newest
    time in the log while running.

    Jobs, stages and executors descend by number (executors by name), as the history server lists them. ``tasks``: ended
    attempts of tasks (columns of SPARK_TASKS), ``running``: those not ended (SPARK_TASK_STARTS), in the order of the log.
    ``cpus``: cores of a task by resource profile, ``gpu_profiles``: those with GPUs. ``stored``: RDDs with logged block
    updates.
    """

    app_id: str
    name: str
    user: str
    state: str
    attempts: tuple[AppAttempt, ...]
    start_ms: int | None
    end_ms: int | None
    properties: Mapping[str, str | None]
    jobs: tuple[SparkJob, ...]
    stages: tuple[Stage, ...]
    executors: tuple[Executor, ...]
    tasks: pl.DataFrame
    running: pl.DataFrame
    sql: tuple[SqlExecution, ...] = ()
    sql_metrics: Mapping[int, int] = field(default_factory=dict)
    batches: pl.DataFrame | None = None
    cpus: Mapping[int, int] = field(default_factory=dict)
    gpu_profiles: frozenset[int] = frozenset()
    stored: Mapping[int, Stored] = field(default_factory=dict)
    upstream_error: str = ""
    notes: tuple[str, ...] = ()

    @property
    def ended(self) -> bool:
        """Whether the application has ended."""
        return self.state != "RUNNING"

    @property
    def active(self) -> list[Executor]:
        """The executors that the history server lists as active, the driver included."""
        return [executor for executor in self.executors if executor.active]

    @property
    def runtime_ms(self) -> int | None:
        """From start to end (or until now) of the newest attempt."""
        return None if self.start_ms is None or self.end_ms is None else self.end_ms - self.start_ms

    def number(self, key: str, default: int) -> int:
        """Return a property that is a whole number, else ``default``."""
        value: Any = self.properties.get(key)
        text = value.strip() if isinstance(value, str) else ""
        return int(text) if text.isascii() and text.isdecimal() and len(text) < 12 else default
