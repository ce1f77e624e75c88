"""The tables of job heuristics: what readers deliver, the model assembled from it, and what results show.

Three layers. *Input* tables hold events as the files hold them, so that a growing history only ever appends.
*Model* frames (``upkeep.assemble``) hold one row per job, task and attempt; everything that analyses jobs is a
pure function of them. *Result* tables are what ``report`` prints.
"""

from __future__ import annotations

from collections.abc import Iterable

import polars as pl

from engine.tables import Column, Kind, Table

TEXT = pl.String
INT = pl.Int64
FLAG = pl.Boolean

_TASK_COUNTERS: tuple[tuple[str, str, str, Kind], ...] = (
    ("cpu_ms", "CPU_MILLISECONDS", "CPU time spent", "ms"),
    ("gc_ms", "GC_TIME_MILLIS", "time in garbage collection", "ms"),
    ("physical_bytes", "PHYSICAL_MEMORY_BYTES", "physical memory, last snapshot", "bytes"),
    ("virtual_bytes", "VIRTUAL_MEMORY_BYTES", "virtual memory, last snapshot", "bytes"),
    ("heap_bytes", "COMMITTED_HEAP_BYTES", "committed heap", "bytes"),
    ("map_physical_max_bytes", "MAP_PHYSICAL_MEMORY_BYTES_MAX", "peak physical memory of a map (Hadoop 3)", "bytes"),
    ("map_virtual_max_bytes", "MAP_VIRTUAL_MEMORY_BYTES_MAX", "peak virtual memory of a map (Hadoop 3)", "bytes"),
    (
        "reduce_physical_max_bytes",
        "REDUCE_PHYSICAL_MEMORY_BYTES_MAX",
        "peak physical memory of a reduce (Hadoop 3)",
        "bytes",
    ),
    (
        "reduce_virtual_max_bytes",
        "REDUCE_VIRTUAL_MEMORY_BYTES_MAX",
        "peak virtual memory of a reduce (Hadoop 3)",
        "bytes",
    ),
    ("spilled_records", "SPILLED_RECORDS", "records spilled to disk", "count"),
    ("map_input_records", "MAP_INPUT_RECORDS", "records read by the map", "count"),
    ("map_output_records", "MAP_OUTPUT_RECORDS", "records written by the map", "count"),
    ("map_output_bytes", "MAP_OUTPUT_BYTES", "bytes written by the map, before compression", "bytes"),
    (
        "map_output_materialized_bytes",
        "MAP_OUTPUT_MATERIALIZED_BYTES",
        "bytes of map output on disk, as the shuffle moves them",
        "bytes",
    ),
    ("combine_input_records", "COMBINE_INPUT_RECORDS", "records into the combiner", "count"),
    ("combine_output_records", "COMBINE_OUTPUT_RECORDS", "records out of the combiner", "count"),
    ("reduce_shuffle_bytes", "REDUCE_SHUFFLE_BYTES", "bytes fetched by the reduce", "bytes"),
    ("reduce_input_groups", "REDUCE_INPUT_GROUPS", "keys of the reduce", "count"),
    ("reduce_input_records", "REDUCE_INPUT_RECORDS", "records into the reduce", "count"),
    ("reduce_output_records", "REDUCE_OUTPUT_RECORDS", "records out of the reduce", "count"),
    ("shuffled_maps", "SHUFFLED_MAPS", "map outputs fetched", "count"),
    ("failed_shuffle", "FAILED_SHUFFLE", "fetches of map output that failed", "count"),
)
_FILE_COUNTERS: tuple[tuple[str, str, str], ...] = (
    ("hdfs_read_bytes", "HDFS_BYTES_READ", "bytes read from HDFS"),
    ("s3_read_bytes", "S3_BYTES_READ", "bytes read from S3 (s3:)"),
    ("s3a_read_bytes", "S3A_BYTES_READ", "bytes read from S3 (s3a:)"),
    ("s3n_read_bytes", "S3N_BYTES_READ", "bytes read from S3 (s3n:)"),
    ("file_read_bytes", "FILE_BYTES_READ", "bytes read from local disk"),
    ("hdfs_written_bytes", "HDFS_BYTES_WRITTEN", "bytes written to HDFS"),
    ("file_written_bytes", "FILE_BYTES_WRITTEN", "bytes written to local disk"),
)

TASK_COUNTER_NAMES: dict[str, str] = {counter: column for column, counter, _, _ in _TASK_COUNTERS}
"""Counter of group TaskCounter → our column."""
FILE_COUNTER_NAMES: dict[str, str] = {counter: column for column, counter, _ in _FILE_COUNTERS}
"""Counter of group FileSystemCounter → our column."""

COUNTERS: tuple[Column, ...] = (
    *(Column(c, INT, m, kind=k, hidden=True) for c, _, m, k in _TASK_COUNTERS),
    *(Column(c, INT, m, kind="bytes", hidden=True) for c, _, m in _FILE_COUNTERS),
)
"""Counter columns, the same in task ends, attempt ends and the model. Null: the file does not have that counter
(upstream reads a missing counter as 0)."""
COUNTER_COLUMNS: tuple[str, ...] = tuple(c.name for c in COUNTERS)

# --- what readers deliver --------------------------------------------------------------------------------------------

_SEQ = Column("seq", INT, "place of the record in its file, growing: line number or byte", kind="count")
_JOB = Column("job_id", TEXT, "job id from the content, null: not known", kind="id", priority=0)
_TASK = Column("task_id", TEXT, "task id", kind="id", priority=0)
_ATTEMPT = Column("attempt_id", TEXT, "task attempt id", kind="id", priority=0)
_TYPE = Column("type", TEXT, "MAP, REDUCE, and in old files SETUP and CLEANUP")
_STATE = Column("state", TEXT, "state in Hadoop's words")
_ERROR = Column("error", TEXT, "error text of the attempt or task, cleaned and cut; empty: none")
_PROGRESS = Column(
    "progress",
    pl.Binary,
    "the four 12-bucket arrays (wall ms, CPU ms, virtual, physical kB) as in the file; progress.decode reads it",
    hidden=True,
)


def _times(*columns: tuple[str, str]) -> Iterable[Column]:
    return (Column(name, INT, meaning, unit="epoch ms", kind="time_ms") for name, meaning in columns)


JOB_EVENTS = Table(
    "job_events",
    "One row per job-level fact: an event of the history, a REST answer, a summary line. Null: this row does not say",
    (
        _SEQ,
        _JOB,
        Column("event", TEXT, "event type (AM_STARTED, JOB_SUBMITTED ... ; REST_JOB, RUMEN_JOB, SUMMARY, BEGIN)"),
        Column("source", TEXT, "history, rest, am (answer of a running application master), rumen or summary"),
        *_times(
            ("time_ms", "when the event happened, null: it does not say"),
            ("submit_ms", "submitted"),
            ("launch_ms", "initialised by the application master"),
            ("finish_ms", "finished"),
            ("am_start_ms", "application master started"),
        ),
        Column("name", TEXT, "job name in full"),
        Column("user", TEXT, "user"),
        Column("queue", TEXT, "queue"),
        Column("state", TEXT, "SUCCEEDED, FAILED, KILLED, ERROR, RUNNING ..."),
        Column("maps", INT, "maps planned", kind="count"),
        Column("reduces", INT, "reduces planned", kind="count"),
        Column("maps_finished", INT, "maps finished", kind="count"),
        Column("reduces_finished", INT, "reduces finished", kind="count"),
        Column("attempts_running", INT, "attempts running, where the source says so", kind="count"),
        Column("uberized", FLAG, "whole job ran inside the application master", kind="flag"),
        Column("am_host", TEXT, "host of the application master"),
        Column("am_container", TEXT, "container of the application master"),
        Column("workflow", TEXT, "workflow id, name and node where the submitter set them, joined by /"),
        Column("diagnostics", TEXT, "diagnostics of the job's end"),
        Column("broken", TEXT, "what Hadoop's own parser would stumble over in this file, empty: nothing"),
    ),
)

TASK_STARTS = Table(
    "task_starts",
    "One row per TASK_STARTED: when a task was scheduled",
    (_SEQ, _JOB, _TASK, _TYPE, *_times(("scheduled_ms", "task scheduled")), Column("locations", TEXT, "split hosts")),
)

TASK_ENDS = Table(
    "task_ends",
    "One row per TASK_FINISHED or TASK_FAILED, with the counters of the task",
    (
        _SEQ,
        _JOB,
        _TASK,
        _TYPE,
        _STATE,
        *_times(("scheduled_ms", "task scheduled, where the same record says so"), ("finish_ms", "task ended")),
        Column("chosen_id", TEXT, "successfulAttemptId or failedDueToAttempt, null: absent", kind="id"),
        Column("has_counters", FLAG, "whether the record carries counters at all", kind="flag"),
        _ERROR,
        *COUNTERS,
    ),
)

ATTEMPT_STARTS = Table(
    "attempt_starts",
    "One row per attempt started",
    (
        _SEQ,
        _JOB,
        _TASK,
        _ATTEMPT,
        _TYPE,
        *_times(("start_ms", "attempt started")),
        Column("host", TEXT, "host of the container"),
        Column("container", TEXT, "container id", kind="id"),
        Column("locality", TEXT, "NODE_LOCAL, RACK_LOCAL, OFF_SWITCH; null: not said"),
        Column("avataar", TEXT, "VIRGIN or SPECULATIVE; null: not said"),
    ),
)

ATTEMPT_ENDS = Table(
    "attempt_ends",
    "One row per attempt that finished, failed or was killed; counters only of those that did not succeed, since the "
    "task's own record repeats the others",
    (
        _SEQ,
        _JOB,
        _TASK,
        _ATTEMPT,
        _TYPE,
        _STATE,
        *_times(
            ("finish_ms", "attempt ended"),
            ("map_finish_ms", "map phase of a map ended"),
            ("shuffle_finish_ms", "shuffle of a reduce ended"),
            ("sort_finish_ms", "merge of a reduce ended"),
        ),
        Column("host", TEXT, "host"),
        Column("rack", TEXT, "rack"),
        _ERROR,
        Column("split", TEXT, "status text of the attempt: names the input split of many maps"),
        _PROGRESS,
        Column("counted", FLAG, "whether the counter columns below were read from this record", kind="flag"),
        *COUNTERS,
    ),
)

CONF = Table(
    "conf",
    "One row per property of a job's configuration, unresolved: ${other} stands as in the file",
    (
        _JOB,
        Column("key", TEXT, "property name", priority=0),
        Column("value", TEXT, "its value, variables not replaced"),
        Column("origin", TEXT, "where Hadoop says the value came from (last source element)"),
    ),
)

INPUTS: tuple[Table, ...] = (JOB_EVENTS, TASK_STARTS, TASK_ENDS, ATTEMPT_STARTS, ATTEMPT_ENDS, CONF)

# --- the assembled model ---------------------------------------------------------------------------------------------

JOB_MODEL = Table(
    "job_model",
    "One row per job",
    (
        _JOB,
        Column("name", TEXT, "job name"),
        Column("user", TEXT, "user"),
        Column("queue", TEXT, "queue"),
        Column("job_type", TEXT, "job type by upstream's JobTypeConf.xml"),
        Column("state", TEXT, "SUCCEEDED, FAILED, KILLED, ERROR, RUNNING or UNKNOWN (no event said)"),
        *_times(
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
        Column("diagnostics", TEXT, "upstream's diagnostics of the job (REST: of its failed task)"),
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
    _JOB,
    _TASK,
    Column("side", TEXT, "map or reduce: upstream counts everything that is no MAP as a reduce"),
    _TYPE,
    Column("state", TEXT, "SUCCEEDED, FAILED, KILLED, or RUNNING while the task has not ended"),
)

TASK_MODEL = Table(
    "task_model",
    "One row per task, with the one attempt upstream would take (times null: none)",
    (
        *_MODEL_TASK,
        Column("attempt_id", TEXT, "chosen attempt, null: none", kind="id"),
        Column("timed", FLAG, "whether start and finish of that attempt are known (upstream's T and B)", kind="flag"),
        Column(
            "fallback",
            FLAG,
            "whether the attempt is our choice, since the file names none and upstream stops",
            kind="flag",
        ),
        *_times(
            ("scheduled_ms", "task scheduled"),
            ("start_ms", "chosen attempt started"),
            ("finish_ms", "chosen attempt finished"),
            ("ended_ms", "task ended, null while running"),
        ),
        Column("total_ms", INT, "finish - start of the chosen attempt", kind="ms"),
        Column("shuffle_ms", INT, "shuffle of the chosen attempt, 0 for maps", kind="ms"),
        Column("sort_ms", INT, "merge of the chosen attempt, 0 for maps", kind="ms"),
        Column("input_bytes", INT, "map input as upstream counts it: HDFS + S3 + S3A + S3N bytes read", kind="bytes"),
        Column("host", TEXT, "host of the chosen attempt"),
        Column("rack", TEXT, "its rack"),
        Column("locality", TEXT, "its locality"),
        Column("attempts", INT, "attempts started", kind="count"),
        _ERROR,
        *COUNTERS,
    ),
    key=("job_id", "task_id"),
    order=("job_id", "side", "task_id"),
)

ATTEMPT_MODEL = Table(
    "attempt_model",
    "One row per attempt, also of those that lost, failed or still run",
    (
        _JOB,
        _TASK,
        _ATTEMPT,
        Column("side", TEXT, "map or reduce"),
        _TYPE,
        Column("state", TEXT, "SUCCEEDED, FAILED, KILLED or RUNNING"),
        Column("chosen", FLAG, "whether the task's times and counters are this attempt's", kind="flag"),
        *_times(
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
        _ERROR,
        _PROGRESS,
        *COUNTERS,
    ),
    key=("job_id", "attempt_id"),
    order=("job_id", "side", "task_id", "attempt_id"),
)

CONF_MODEL = Table(
    "conf_model",
    "One row per property of each job's one configuration, unresolved",
    (
        _JOB,
        Column("key", TEXT, "property name"),
        Column("value", TEXT, "value as in the file"),
        Column("origin", TEXT, "where Hadoop says it came from"),
    ),
    key=("job_id", "key"),
    order=("job_id", "key"),
)

# --- what results show -----------------------------------------------------------------------------------------------

SEVERITIES: tuple[str, ...] = ("NONE", "LOW", "MODERATE", "SEVERE", "CRITICAL")
"""Severity words by value 0-4."""

JOBS = Table(
    "jobs",
    "One row per job with upstream's four metrics, its severity and score",
    (
        Column("job_id", TEXT, "job id from the content", kind="id", priority=0, width=24),
        Column("name", TEXT, "job name in full", priority=0, width=24),
        Column("user", TEXT, "user", priority=1),
        Column("queue", TEXT, "queue", priority=2),
        Column("job_type", TEXT, "job type", title="type", priority=3),
        Column("state", TEXT, "SUCCEEDED, FAILED, KILLED, ERROR, RUNNING or UNKNOWN", priority=0),
        Column("submit_ms", INT, "submitted", unit="epoch ms", kind="time_ms", title="submitted", priority=2),
        Column("launch_ms", INT, "initialised", unit="epoch ms", kind="time_ms", title="launched", hidden=True),
        Column("finish_ms", INT, "finished; null while running", unit="epoch ms", kind="time_ms", title="finished"),
        Column("maps", INT, "map tasks (running jobs: planned)", kind="count", priority=1),
        Column("reduces", INT, "reduce tasks (running jobs: planned)", kind="count", priority=1),
        Column("severity", TEXT, "worst verdict, null: none could be given", kind="level", priority=0),
        Column("score", INT, "sum of severity x tasks over verdicts of MODERATE and worse", kind="count", priority=0),
        Column("used_mb_s", INT, "container memory x time of the chosen attempts", unit="MB s", kind="mb_s"),
        Column(
            "wasted_mb_s", INT, "of it above 1.5 x the peak (mode published: above the peak)", unit="MB s", kind="mb_s"
        ),
        Column(
            "wait_ms",
            INT,
            "time the job ran longer than its longest map and reduce",
            unit="ms",
            kind="ms",
            title="wait",
        ),
        Column("runtime_ms", INT, "submit to finish", unit="ms", kind="ms", title="run time"),
        Column("upstream_says", TEXT, "upstream's error where it would show nothing, else empty", hidden=True),
        Column("maps_finished", INT, "maps that succeeded so far", kind="count", hidden=True),
        Column("reduces_finished", INT, "reduces that succeeded so far", kind="count", hidden=True),
        Column("attempts_running", INT, "attempts running now", kind="count", hidden=True),
        Column("source", TEXT, "history, rest, am, rumen or summary", hidden=True),
        Column("notes", TEXT, "what was assumed for this job", hidden=True),
    ),
    key=("job_id",),
    order=("-submit_ms", "job_id"),
)

HEURISTICS = Table(
    "heuristics",
    "One row per job and heuristic that gave a result, in upstream's order",
    (
        Column("job_id", TEXT, "job id", kind="id", priority=0),
        Column("heuristic", TEXT, "upstream's name of the heuristic", priority=0),
        Column("severity", TEXT, "NONE, LOW, MODERATE, SEVERE or CRITICAL", kind="level", priority=0),
        Column("score", INT, "severity x tasks of the side from MODERATE on", kind="count"),
        Column("details", TEXT, "upstream's labels and values, JSON", kind="json"),
    ),
    key=("job_id", "heuristic"),
)

DIFFERENCES = Table(
    "differences",
    "Where Dr. Elephant's published description and its code give another number or verdict for a job",
    (
        Column("job_id", TEXT, "job id", kind="id", priority=0),
        Column("what", TEXT, "metric or heuristic", priority=0),
        Column("upstream", TEXT, "by Dr. Elephant's code", priority=0),
        Column("published", TEXT, "by its published description", priority=0),
        Column("reason", TEXT, "the rule that differs", priority=1),
    ),
    key=("job_id", "what"),
)

TASKS = Table(
    "tasks",
    "The tasks of one job (option job), as upstream sees them",
    (
        *(c for c in TASK_MODEL.columns if c.name not in COUNTER_COLUMNS),
        *COUNTERS,
    ),
    key=("job_id", "task_id"),
    order=("job_id", "side", "task_id"),
)
