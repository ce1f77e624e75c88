"""Tables of the assembled model: one row per job, task and attempt, and the properties of each job."""

from __future__ import annotations

import polars as pl

from engine.core.tables import Column, Table
from engine.job_heuristics.mapreduce.tables.input import (
    ATTEMPT,
    COUNTER_COLUMNS,
    COUNTERS,
    ERROR,
    JOB,
    PROGRESS,
    TASK,
    TYPE,
)
from engine.job_heuristics.tables.columns import count, flag, text, time, whole

JOB_MODEL = Table(
    "job_model",
    "One row per job",
    (
        JOB,
        text("name", "job name"),
        text("user", "user"),
        text("queue", "queue"),
        text("job_type", "job type by Dr. Elephant's JobTypeConf.xml"),
        text("state", "SUCCEEDED, FAILED, KILLED, ERROR, RUNNING or UNKNOWN (no event names one)"),
        time("submit_ms", "submitted"),
        time("am_start_ms", "first application master started"),
        time("launch_ms", "initialised by the application master"),
        time("finish_ms", "finished; null while running"),
        time("last_event_ms", "newest time in the job's files"),
        count("maps", "maps planned"),
        count("reduces", "reduces planned"),
        count("maps_finished", "map tasks that ended successfully"),
        count("reduces_finished", "reduce tasks that ended successfully"),
        count("tasks_seen", "tasks the files mention"),
        count("attempts_running", "attempts started and not ended (null: unknown)"),
        flag("uberized", "whole job ran inside the application master"),
        count("am_starts", "application master attempts"),
        text("workflow", "workflow the job belongs to"),
        text("diagnostics", "Dr. Elephant's diagnostics of the job (REST: of its failed task, null: none)"),
        text("source", "history, rest or am: what the tasks come from"),
        Column("file", pl.UInt32, "id of the file the events come from", kind="id"),
        Column("conf_file", pl.UInt32, "id of the file the configuration comes from, null: none found", kind="id"),
        whole("map_memory_mb", "container of a map as the metrics see it (2048 where unset)", unit="MB"),
        whole("reduce_memory_mb", "container of a reduce as the metrics see it (2048 where unset)", unit="MB"),
        text("broken", "why Hadoop's parser would refuse the file, empty: it would not"),
    ),
    key=("job_id",),
    order=("-submit_ms", "job_id"),
)

_MODEL_TASK = (
    JOB,
    TASK,
    text("side", "map or reduce: Dr. Elephant counts everything that is no MAP as a reduce"),
    TYPE,
    text("state", "SUCCEEDED, FAILED, KILLED, or RUNNING while the task has not ended"),
)

TASK_MODEL = Table(
    "task_model",
    "One row per task, with the one attempt Dr. Elephant would take (times null: none)",
    (
        *_MODEL_TASK,
        text("attempt_id", "chosen attempt, null: none", kind="id"),
        flag("timed", "whether start and finish of that attempt are known (Dr. Elephant's T and B)"),
        flag("fallback", "whether the attempt is our choice, since the file names none and Dr. Elephant stops"),
        time("scheduled_ms", "task scheduled"),
        time("start_ms", "chosen attempt started"),
        time("finish_ms", "chosen attempt finished"),
        time("ended_ms", "task ended, null while running"),
        whole("total_ms", "finish - start of the chosen attempt", kind="ms"),
        whole("shuffle_ms", "shuffle of the chosen attempt, 0 for maps", kind="ms"),
        whole("sort_ms", "merge of the chosen attempt, 0 for maps", kind="ms"),
        whole("input_bytes", "map input as Dr. Elephant counts it: HDFS + S3 + S3A + S3N bytes read", kind="bytes"),
        text("host", "host of the chosen attempt"),
        text("rack", "its rack"),
        text("locality", "its locality"),
        count("attempts", "attempts started"),
        ERROR,
        *COUNTERS,
    ),
    key=("job_id", "task_id"),
    order=("job_id", "side", "task_id"),
)

ATTEMPT_MODEL = Table(
    "attempt_model",
    "One row per attempt, also of those that lost, failed or still run",
    (
        JOB,
        TASK,
        ATTEMPT,
        text("side", "map or reduce"),
        TYPE,
        text("state", "SUCCEEDED, FAILED, KILLED or RUNNING"),
        flag("chosen", "whether the task's times and counters are this attempt's"),
        time("scheduled_ms", "task scheduled"),
        time("start_ms", "container started"),
        time("finish_ms", "ended, null while running"),
        time("map_finish_ms", "map phase of a map ended"),
        time("shuffle_finish_ms", "shuffle of a reduce ended"),
        time("sort_finish_ms", "merge of a reduce ended"),
        text("host", "host"),
        text("rack", "rack"),
        text("container", "container id", kind="id"),
        text("locality", "locality"),
        text("avataar", "VIRGIN or SPECULATIVE"),
        ERROR,
        PROGRESS,
        *COUNTERS,
    ),
    key=("job_id", "attempt_id"),
    order=("job_id", "side", "task_id", "attempt_id"),
)

CONF_MODEL = Table(
    "conf_model",
    "One row per property of each job's one configuration, unresolved",
    (
        JOB,
        text("key", "property name"),
        text("value", "value as in the file"),
        text("origin", "where Hadoop says it came from"),
    ),
    key=("job_id", "key"),
    order=("job_id", "key"),
)

TASKS = Table(
    "tasks",
    "The tasks of one job (option job), as Dr. Elephant sees them",
    (*(c for c in TASK_MODEL.columns if c.name not in COUNTER_COLUMNS), *COUNTERS),
    key=("job_id", "task_id"),
    order=("job_id", "side", "task_id"),
)
