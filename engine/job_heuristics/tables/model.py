"""Tables of the assembled model: one row per job, task and attempt, and the properties of each job."""

from __future__ import annotations

import polars as pl

from engine.job_heuristics.tables.input import (
    ATTEMPT,
    COUNTERS,
    ERROR,
    FLAG,
    INT,
    JOB,
    PROGRESS,
    TASK,
    TEXT,
    TYPE,
    times,
)
from engine.tables import Column, Table

JOB_MODEL = Table(
    "job_model",
    "One row per job",
    (
        JOB,
        Column("name", TEXT, "job name"),
        Column("user", TEXT, "user"),
        Column("queue", TEXT, "queue"),
        Column("job_type", TEXT, "job type by Dr. Elephant's JobTypeConf.xml"),
        Column("state", TEXT, "SUCCEEDED, FAILED, KILLED, ERROR, RUNNING or UNKNOWN (no event said)"),
        *times(
            ("submit_ms", "submitted"),
            ("am_start_ms", "first application master started"),
            ("launch_ms", "initialised by the application master"),
            ("finish_ms", "finished; null while running"),
            ("last_event_ms", "newest time in the job's files"),
        ),
        Column("maps", INT, "maps planned", kind="count"),
        Column("reduces", INT, "reduces planned", kind="count"),
        Column("maps_finished", INT, "map tasks that ended successfully", kind="count"),
        Column("reduces_finished", INT, "reduce tasks that ended successfully", kind="count"),
        Column("tasks_seen", INT, "tasks the files mention", kind="count"),
        Column("attempts_running", INT, "attempts started and not ended (null: unknown)", kind="count"),
        Column("uberized", FLAG, "whole job ran inside the application master", kind="flag"),
        Column("am_starts", INT, "application master attempts", kind="count"),
        Column("workflow", TEXT, "workflow the job belongs to"),
        Column("diagnostics", TEXT, "Dr. Elephant's diagnostics of the job (REST: of its failed task)"),
        Column("source", TEXT, "history, rest, am, rumen or summary: what the tasks come from"),
        Column("file", pl.UInt32, "id of the file the events come from", kind="id"),
        Column("conf_file", pl.UInt32, "id of the file the configuration comes from, null: none found", kind="id"),
        Column("map_memory_mb", INT, "container of a map as the metrics see it (2048 where unset)", unit="MB"),
        Column("reduce_memory_mb", INT, "container of a reduce as the metrics see it (2048 where unset)", unit="MB"),
        Column("broken", TEXT, "why Hadoop's parser would refuse the file, empty: it would not"),
    ),
    key=("job_id",),
    order=("-submit_ms", "job_id"),
)

_MODEL_TASK = (
    JOB,
    TASK,
    Column("side", TEXT, "map or reduce: Dr. Elephant counts everything that is no MAP as a reduce"),
    TYPE,
    Column("state", TEXT, "SUCCEEDED, FAILED, KILLED, or RUNNING while the task has not ended"),
)

TASK_MODEL = Table(
    "task_model",
    "One row per task, with the one attempt Dr. Elephant would take (times null: none)",
    (
        *_MODEL_TASK,
        Column("attempt_id", TEXT, "chosen attempt, null: none", kind="id"),
        Column(
            "timed", FLAG, "whether start and finish of that attempt are known (Dr. Elephant's T and B)", kind="flag"
        ),
        Column(
            "fallback",
            FLAG,
            "whether the attempt is our choice, since the file names none and Dr. Elephant stops",
            kind="flag",
        ),
        *times(
            ("scheduled_ms", "task scheduled"),
            ("start_ms", "chosen attempt started"),
            ("finish_ms", "chosen attempt finished"),
            ("ended_ms", "task ended, null while running"),
        ),
        Column("total_ms", INT, "finish - start of the chosen attempt", kind="ms"),
        Column("shuffle_ms", INT, "shuffle of the chosen attempt, 0 for maps", kind="ms"),
        Column("sort_ms", INT, "merge of the chosen attempt, 0 for maps", kind="ms"),
        Column(
            "input_bytes", INT, "map input as Dr. Elephant counts it: HDFS + S3 + S3A + S3N bytes read", kind="bytes"
        ),
        Column("host", TEXT, "host of the chosen attempt"),
        Column("rack", TEXT, "its rack"),
        Column("locality", TEXT, "its locality"),
        Column("attempts", INT, "attempts started", kind="count"),
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
        Column("side", TEXT, "map or reduce"),
        TYPE,
        Column("state", TEXT, "SUCCEEDED, FAILED, KILLED or RUNNING"),
        Column("chosen", FLAG, "whether the task's times and counters are this attempt's", kind="flag"),
        *times(
            ("scheduled_ms", "task scheduled"),
            ("start_ms", "container started"),
            ("finish_ms", "ended, null while running"),
            ("map_finish_ms", "map phase of a map ended"),
            ("shuffle_finish_ms", "shuffle of a reduce ended"),
            ("sort_finish_ms", "merge of a reduce ended"),
        ),
        Column("host", TEXT, "host"),
        Column("rack", TEXT, "rack"),
        Column("container", TEXT, "container id", kind="id"),
        Column("locality", TEXT, "locality"),
        Column("avataar", TEXT, "VIRGIN or SPECULATIVE"),
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
        Column("key", TEXT, "property name"),
        Column("value", TEXT, "value as in the file"),
        Column("origin", TEXT, "where Hadoop says it came from"),
    ),
    key=("job_id", "key"),
    order=("job_id", "key"),
)
