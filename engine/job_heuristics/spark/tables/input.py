"""Input tables of Spark applications: one row per event as the log holds it, so that a growing log only ever appends.

A log is a file, or with others the parts of a rolling one; inside an archive the column ``log`` names it. Stages, tasks and
executors are only known by the numbers of their application, which the first part of its log names.
"""

from __future__ import annotations

import polars as pl

from engine.core.tables import Column, Kind, Table
from engine.job_heuristics.tables.columns import SEQ, count, flag, text, time, whole

LOG = text("log", "the log inside an archive, null: the file itself")
STAGE = count("stage_id", "stage")
ATTEMPT = count("stage_attempt", "attempt of the stage")
EXECUTOR = text("executor", "executor id; driver: the driver itself")

SPARK_EVENTS = Table(
    "spark_events",
    "One row per fact about an application: its start and end, Spark's version, what could not be read",
    (
        SEQ,
        LOG,
        text(
            "event",
            "VERSION, START, END, PROFILE, UNKNOWN (events not known, counted), BAD (no event), CUT (last line)",
        ),
        time("time_ms", "when"),
        text("app_id", "application id", kind="id"),
        text("attempt", "attempt of the application, null: the only one"),
        text("name", "its name; of an unknown event its name; of a broken line the reason"),
        text("user", "user"),
        text("version", "version of Spark"),
        whole("number", "END: exit code; UNKNOWN: how many; PROFILE: its id"),
        whole("cpus", "PROFILE: cores of a task"),
    ),
)

SPARK_CONF = Table(
    "spark_conf",
    "One row per Spark property of an environment update, or of a saved answer",
    (SEQ, LOG, text("key", "property"), text("value", "value; null: not a text in the log")),
)

SPARK_JOBS = Table(
    "spark_jobs",
    "One row per start and end of a Spark job",
    (
        SEQ,
        LOG,
        text("event", "START or END"),
        count("job", "number of the Spark job"),
        time("time_ms", "when"),
        text("name", "START: name of its last stage; END: JobSucceeded or JobFailed"),
        text("stages", "START: its stages, separated by commas"),
        count("tasks", "START: tasks of stages not yet complete"),
        count("execution", "START: SQL execution it belongs to"),
        text("description", "START: description, or job group; END: why it failed"),
    ),
)

SPARK_STAGES = Table(
    "spark_stages",
    "One row per mention of a stage: in the start of a job, submitted, completed",
    (
        SEQ,
        LOG,
        text("event", "LISTED, SUBMITTED or COMPLETED"),
        count("job", "LISTED: the Spark job that lists it"),
        STAGE,
        ATTEMPT,
        text("name", "name"),
        count("tasks", "number of tasks"),
        text("parents", "stages it depends on, separated by commas"),
        time("submit_ms", "submitted"),
        time("complete_ms", "completed"),
        text("failure", "why it failed, null: it did not"),
        text("cached", "RDDs of it that are to be stored, separated by commas"),
        count("profile", "resource profile"),
    ),
)

SPARK_EXECUTORS = Table(
    "spark_executors",
    "One row per executor or block manager added or removed, and per executor excluded",
    (
        SEQ,
        LOG,
        text("event", "ADDED, REMOVED, MANAGER (block manager added) or EXCLUDED"),
        time("time_ms", "when"),
        EXECUTOR,
        text("host", "host"),
        count("cores", "cores"),
        count("profile", "resource profile"),
        whole("memory", "memory for storage", kind="bytes"),
        text("reason", "why it was removed or excluded"),
    ),
)

TASK_COLUMNS: tuple[Column, ...] = (
    STAGE,
    ATTEMPT,
    count("task_id", "task attempt, unique in its application"),
    count("index", "place of the task in its stage"),
    count("attempt", "attempt of the task"),
    time("launch_ms", "launched"),
    EXECUTOR,
    text("host", "host"),
    text("locality", "PROCESS_LOCAL, NODE_LOCAL, RACK_LOCAL, NO_PREF or ANY"),
    flag("speculative", "whether it is a speculative copy"),
)

SPARK_TASK_STARTS = Table(
    "spark_task_starts",
    "One row per task that was started and had not ended by the end of what was read at once",
    (SEQ, LOG, *TASK_COLUMNS),
)

METRICS: tuple[tuple[str, str, Kind], ...] = (
    ("run_ms", "time in the executor", "ms"),
    ("cpu_ns", "processor time, ns", "count"),
    ("gc_ms", "garbage collection of the executor meanwhile", "ms"),
    ("deserialize_ms", "time to unpack the task", "ms"),
    ("serialize_ms", "time to pack the result", "ms"),
    ("result_bytes", "size of the result", "bytes"),
    ("memory_spilled", "bytes in memory of what was spilled", "bytes"),
    ("disk_spilled", "bytes on disk of what was spilled", "bytes"),
    ("peak_memory", "largest execution memory", "bytes"),
    ("input_bytes", "bytes read", "bytes"),
    ("input_records", "records read", "count"),
    ("output_bytes", "bytes written", "bytes"),
    ("output_records", "records written", "count"),
    ("remote_bytes", "shuffle bytes read from other executors", "bytes"),
    ("local_bytes", "shuffle bytes read from its own", "bytes"),
    ("fetch_wait_ms", "time waiting for shuffle data", "ms"),
    ("shuffle_records", "shuffle records read", "count"),
    ("shuffle_write_bytes", "shuffle bytes written", "bytes"),
    ("shuffle_write_ns", "time writing them, ns", "count"),
    ("shuffle_write_records", "shuffle records written", "count"),
)
"""Metrics of a task: column, meaning, kind."""
METRIC_NAMES = tuple(name for name, _, _ in METRICS)

SPARK_TASKS = Table(
    "spark_task_ends",
    "One row per end of a task attempt",
    (
        SEQ,
        LOG,
        *TASK_COLUMNS,
        count("start_seq", "place of its start in the log, null: in an earlier piece, or none"),
        time("finish_ms", "ended"),
        whole("getting_ms", "moment from which its result was fetched, 0: it was not", kind="time_ms"),
        text("reason", "Spark's word for how it ended; Success"),
        text("error", "what went wrong, null: nothing"),
        flag("measured", "whether the event holds metrics"),
        *(whole(name, meaning, kind=kind) for name, meaning, kind in METRICS),
    ),
)

SPARK_BLOCKS = Table(
    "spark_blocks",
    "One row per update of a stored block, and per RDD that is no longer stored",
    (
        SEQ,
        LOG,
        EXECUTOR,
        text("block", "block; null: the whole RDD is no longer stored"),
        count("rdd", "RDD, null: a broadcast"),
        whole("memory", "change of memory used: its size, or less its size", kind="bytes"),
        whole("disk", "change of disk used", kind="bytes"),
        flag("stored", "whether the block is stored now"),
    ),
)

PEAKS = (
    "heap", "off_heap", "unified", "off_heap_unified", "execution", "storage", "direct", "jvm_rss", "python_rss",
    "other_rss", "gc",
)  # fmt: skip
"""Columns of peak memory, in bytes, and of the time in garbage collection, in ms."""

SPARK_PEAKS = Table(
    "spark_peaks",
    "One row per executor: the largest memory it had in what was read at once",
    (
        SEQ,
        LOG,
        EXECUTOR,
        *(whole(name, f"largest {name.replace('_', ' ')}") for name in PEAKS),
    ),
)

SPARK_SQL = Table(
    "spark_sql",
    "One row per start, new plan and end of a SQL execution",
    (
        SEQ,
        LOG,
        text("event", "START, PLAN (a plan that replaces the one before) or END"),
        count("execution", "SQL execution"),
        count("root", "execution it is part of"),
        time("time_ms", "when"),
        text("description", "START: what was run"),
        text("error", "END: why it failed, null or empty: it did not"),
        Column("plan", pl.Binary, "START, PLAN: its nodes as MessagePack, see reading.spark.plans", hidden=True),
    ),
)

SPARK_SQL_METRICS = Table(
    "spark_sql_metrics",
    "One row per metric of a plan's node: the sum in what was read at once",
    (SEQ, LOG, count("accumulator", "its accumulator"), whole("value", "sum of its updates")),
)

SPARK_BATCHES = Table(
    "spark_batches",
    "One row per batch of a streaming query",
    (
        SEQ,
        LOG,
        text("query", "name of the query, or its id"),
        count("batch", "number"),
        time("time_ms", "when it began"),
        whole("duration_ms", "how long it took", kind="ms"),
        whole("rows", "rows read"),
        Column("input_per_s", pl.Float64, "rows that came per second"),
        Column("processed_per_s", pl.Float64, "rows that were processed per second"),
        whole("state_rows", "rows kept as state"),
        whole("state_bytes", "memory of the state", kind="bytes"),
    ),
)

SPARK_INPUTS: tuple[Table, ...] = (
    SPARK_EVENTS, SPARK_CONF, SPARK_JOBS, SPARK_STAGES, SPARK_EXECUTORS, SPARK_TASK_STARTS, SPARK_TASKS, SPARK_BLOCKS,
    SPARK_PEAKS, SPARK_SQL, SPARK_SQL_METRICS, SPARK_BATCHES,
)  # fmt: skip
"""What an event log gives."""
