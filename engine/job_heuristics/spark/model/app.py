"""One Spark application: its attempts, properties, jobs, stages, executors and tasks, as the history server sums them up; and how
it was set up: its cluster, version, switches, heaps and containers, as its properties tell."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec
import numpy as np
import polars as pl
from numpy.typing import NDArray

from engine.job_heuristics.dr_elephant.advice import LEAST_MB, STEP_MB
from engine.job_heuristics.spark.tables import METRIC_NAMES, PEAKS

Ints = NDArray[np.int64]
DRIVER = "driver"  # id of the driver among the executors
NO_SUMS: dict[str, int] = dict.fromkeys(METRIC_NAMES, 0)


class SparkJob(msgspec.Struct):
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


class Stage(msgspec.Struct):
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
    sums: Mapping[str, int] = msgspec.field(default_factory=lambda: NO_SUMS)

    @property
    def key(self) -> tuple[int, int]:
        """Id and attempt."""
        return self.stage, self.attempt

    @property
    def shuffle_read_bytes(self) -> int:
        """Shuffle bytes read, from other executors and its own."""
        return self.sums["remote_bytes"] + self.sums["local_bytes"]


class Executor(msgspec.Struct):
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
    peaks: Mapping[str, int] = msgspec.field(default_factory=lambda: dict.fromkeys(PEAKS, 0))


class Stored(msgspec.Struct, frozen=True):
    """A stored RDD: peak bytes in memory and on disk, numbers of blocks stored and dropped."""

    memory: int = 0
    disk: int = 0
    blocks: int = 0
    dropped: int = 0


class AppAttempt(msgspec.Struct, frozen=True):
    """One attempt of an application; ``end_ms`` None: no end in its log."""

    attempt: str | None
    start_ms: int | None
    end_ms: int | None
    user: str
    version: str


class SqlExecution(msgspec.Struct, frozen=True):
    """One execution of SQL: ``plan`` as packed by ``reading.spark.plans``."""

    number: int
    root: int | None
    description: str
    start_ms: int | None
    end_ms: int | None
    error: str | None
    plan: bytes | None


class App(msgspec.Struct, frozen=True, eq=False):
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
    sql_metrics: Mapping[int, int] = msgspec.field(default_factory=dict)
    batches: pl.DataFrame | None = None
    cpus: Mapping[int, int] = msgspec.field(default_factory=dict)
    gpu_profiles: frozenset[int] = frozenset()
    stored: Mapping[int, Stored] = msgspec.field(default_factory=dict)
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


MB = 2**20
_SIZE = re.compile(r"\s*(\d{1,15})\s*+([bkmgtp]?)b?\s*", re.IGNORECASE | re.ASCII)
_FACTOR = {"b": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40, "p": 2**50}
_SPAN = re.compile(r"\s*(\d{1,12})\s*+(us|ms|s|m|min|h|d|)\s*", re.IGNORECASE | re.ASCII)
_SPANS = {"us": 0.001, "ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}
LEAST_OVERHEAD_MB, OVERHEAD_SHARE = 384, 0.1  # Spark's default memory overhead: a tenth of the memory, at least 384 MB
FOREIGN_SHARE = 0.4  # its share on Kubernetes for programs in Python and R
PEAK_ROOM = 1.2  # recommended heap as a multiple of the largest used heap
HIGH_PEAK, LOW_PEAK = 0.95, 0.7  # peak heap usage above which the heap should grow, and below which it may shrink
MOST_MB = 2**24  # largest plausible container, MB


def spark_bytes(text: str | None, default: str, unit: str = "m") -> int:
    """Parse a size like Spark: ``2g``; without a unit in ``unit``. Unreadable: the default."""
    found = _SIZE.fullmatch(text) if text is not None else None
    if found is None:
        return spark_bytes(default, "0b", unit)
    return min(int(found.group(1)) * _FACTOR[(found.group(2) or unit).lower()], MOST_MB * MB)


def spark_ms(text: str | None, default: int) -> int:
    """Parse a time like Spark: ``3s``; without a unit in ms. Unreadable: the default."""
    found = _SPAN.fullmatch(text) if text is not None else None
    return default if found is None else int(int(found.group(1)) * _SPANS[found.group(2).lower() or "ms"])


LOCAL, STANDALONE, YARN, KUBERNETES, MESOS = "local mode", "a standalone cluster", "YARN", "Kubernetes", "Mesos"
_MASTERS = {
    "local-cluster": STANDALONE,
    "local": LOCAL,
    "spark:": STANDALONE,
    "yarn": YARN,
    "k8s:": KUBERNETES,
    "mesos:": MESOS,
}
_IDS = {"application_": YARN, "local-": LOCAL, "app-": STANDALONE, "spark-": KUBERNETES}
WITH_OVERHEAD = (YARN, KUBERNETES, MESOS)  # clusters whose containers are larger than the heap


def cluster(app: App) -> str:
    """Return what ran the executors, by ``spark.master`` or the form of the id; empty if neither tells."""
    master = app.properties.get("spark.master") or ""
    known = [kind for sign, kind in _MASTERS.items() if master.startswith(sign)]
    return (known or [kind for sign, kind in _IDS.items() if app.app_id.startswith(sign)] or [""])[0]


def version(app: App) -> tuple[int, ...]:
    """Return the first two numbers of Spark's version; empty if it is unknown."""
    parts = (app.attempts[0].version if app.attempts else "").split(".")[:2]
    return tuple(int(part) for part in parts if part.isascii() and part.isdecimal() and len(part) < 4)


def is_on(app: App, key: str, default: str = "false") -> bool:
    """Whether a switch is on."""
    return (app.properties.get(key) or default).strip().lower() == "true"


def is_dynamic(app: App) -> bool:
    """Whether Spark adds and gives back executors itself."""
    return is_on(app, "spark.dynamicAllocation.enabled") and not is_local(app)


def on_databricks(app: App) -> bool:
    """Whether Databricks ran it, where the cluster decides on executors."""
    return any(key.startswith("spark.databricks.") for key in app.properties)


def container_mb(app: App, who: str) -> int:
    """Return the MB of a container of the driver or of an executor."""
    of, where = app.properties.get, cluster(app)
    heap = spark_bytes(of(f"spark.{who}.memory"), "1g") // MB
    if where not in WITH_OVERHEAD:
        return min(max(1, heap), MOST_MB)
    asked = of(f"spark.{who}.memoryOverhead") or of(f"spark.yarn.{who}.memoryOverhead")
    foreign = where == KUBERNETES and of("spark.kubernetes.resource.type") in ("python", "r")
    share = FOREIGN_SHARE if foreign else OVERHEAD_SHARE
    for key in (f"spark.{who}.memoryOverheadFactor", "spark.kubernetes.memoryOverheadFactor"):
        text = of(key)
        if text is not None and re.fullmatch(r"0?\.\d{1,6}|0|1(\.0+)?", text):
            share = float(text)
            break
    overhead = spark_bytes(asked, "0") // MB if asked else max(LEAST_OVERHEAD_MB, int(heap * share))
    more = 0
    if who == "executor":
        more = spark_bytes(of("spark.executor.pyspark.memory"), "0") // MB
        if is_on(app, "spark.memory.offHeap.enabled"):
            more += spark_bytes(of("spark.memory.offHeap.size"), "0", "b") // MB
    return min(max(1, heap + overhead + more), MOST_MB)


def heap_bytes(app: App) -> int:
    """Return the heap of an executor (of the driver in local mode), in bytes."""
    who = DRIVER if is_local(app) else "executor"
    return max(1, spark_bytes(app.properties.get(f"spark.{who}.memory"), "1g"))


def peak_heap(app: App) -> int:
    """Return the largest heap used by an executor, 0 if not logged."""
    return max((one.peaks["heap"] for one in app.executors), default=0)


def fitting_heap_mb(peak: int) -> int:
    """Return the MB of a heap that holds ``peak`` bytes with some room."""
    return max(LEAST_MB, -(-int(peak * PEAK_ROOM) // (STEP_MB * MB)) * STEP_MB)


def has_gpu(app: App, profile: int) -> bool:
    """Whether tasks of a resource profile work on GPUs."""
    of = app.properties
    asked = any(key.endswith(".resource.gpu.amount") and value not in (None, "0") for key, value in of.items())
    return profile in app.gpu_profiles or (not profile and asked) or "rapids" in (of.get("spark.plugins") or "").lower()


def is_local(app: App) -> bool:
    """Whether the driver runs the tasks itself."""
    return cluster(app) == LOCAL
