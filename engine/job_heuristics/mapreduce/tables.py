"""Tables of MapReduce jobs: events as files hold them, and the model that ``model.assembly`` makes of them.

Events are one row per record, so that a growing history only ever appends.
"""

from __future__ import annotations

import polars as pl

from engine.core.tables import Column, Kind, Table
from engine.job_heuristics.tables import SEQ, count, flag, text, time, whole

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
    *(whole(column, meaning, kind=kind, hidden=True) for column, _, meaning, kind in _TASK_COUNTERS),
    *(whole(column, meaning, kind="bytes", hidden=True) for column, _, meaning in _FILE_COUNTERS),
)
"""Counter columns, the same in task ends, attempt ends and the model. Null: the file does not have that counter
(Dr. Elephant reads a missing counter as 0)."""
COUNTER_COLUMNS: tuple[str, ...] = tuple(c.name for c in COUNTERS)

JOB = text("job_id", "job id from the content, null: not known", kind="id", priority=0)
TASK = text("task_id", "name of the task in the cluster", kind="id", priority=0)
ATTEMPT = text("attempt_id", "task attempt id", kind="id", priority=0)
TYPE = text("type", "MAP, REDUCE, and in old files SETUP and CLEANUP")
STATE = text("state", "state in Hadoop's words")
ERROR = text("error", "error text of the attempt or task, cleaned and cut; empty: none")
PROGRESS = Column(
    "progress",
    pl.Binary,
    "the four 12-bucket arrays (wall ms, CPU ms, virtual, physical kB) as in the file; progress.decode reads it",
    hidden=True,
)


JOB_EVENTS = Table(
    "job_events",
    "One row per job-level fact: an event of the history, a REST answer. Null: not in this row",
    (
        SEQ,
        JOB,
        text("event", "event type (AM_STARTED, JOB_SUBMITTED ... ; REST_JOB, BEGIN)"),
        text("source", "history, rest or am (answer of a running application master)"),
        time("time_ms", "when the event happened, null: unknown"),
        time("submit_ms", "when it was submitted"),
        time("launch_ms", "initialised by the application master"),
        time("finish_ms", "finished"),
        time("am_start_ms", "application master started"),
        text("name", "job name in full"),
        text("user", "who submitted it"),
        text("queue", "queue of the cluster that it was submitted to"),
        text("state", "SUCCEEDED, FAILED, KILLED, ERROR, RUNNING ..."),
        count("maps", "maps planned"),
        count("reduces", "reduces planned"),
        count("maps_finished", "maps finished"),
        count("reduces_finished", "reduces finished"),
        count("attempts_running", "attempts running, where the source says so"),
        flag("uberized", "whole job ran inside the application master"),
        text("am_host", "host of the application master"),
        text("am_container", "container of the application master"),
        text("workflow", "workflow id, name and node where the submitter set them, joined by /"),
        text("diagnostics", "diagnostics of the job's end"),
        text("broken", "what Hadoop's own parser would stumble over in this file, empty: nothing"),
    ),
)

TASK_STARTS = Table(
    "task_starts",
    "One row per TASK_STARTED: when a task was scheduled",
    (SEQ, JOB, TASK, TYPE, time("scheduled_ms", "task scheduled"), text("locations", "split hosts")),
)

TASK_ENDS = Table(
    "task_ends",
    "One row per TASK_FINISHED or TASK_FAILED, with the counters of the task",
    (
        SEQ,
        JOB,
        TASK,
        TYPE,
        STATE,
        time("scheduled_ms", "task scheduled, where the same record says so"),
        time("finish_ms", "task ended"),
        text("chosen_id", "successfulAttemptId or failedDueToAttempt, null: absent", kind="id"),
        flag("has_counters", "whether the record carries counters at all"),
        ERROR,
        *COUNTERS,
    ),
)

ATTEMPT_STARTS = Table(
    "attempt_starts",
    "One row per attempt started",
    (
        SEQ,
        JOB,
        TASK,
        ATTEMPT,
        TYPE,
        time("start_ms", "attempt started"),
        text("host", "host of the container"),
        text("container", "container id", kind="id"),
        text("locality", "NODE_LOCAL, RACK_LOCAL, OFF_SWITCH; null: unknown"),
        text("avataar", "VIRGIN or SPECULATIVE; null: unknown"),
    ),
)

ATTEMPT_ENDS = Table(
    "attempt_ends",
    "One row per attempt that finished, failed or was killed; counters only of those that did not succeed, since the "
    "task's own record repeats the others",
    (
        SEQ,
        JOB,
        TASK,
        ATTEMPT,
        TYPE,
        STATE,
        time("finish_ms", "attempt ended"),
        time("map_finish_ms", "map phase of a map ended"),
        time("shuffle_finish_ms", "shuffle of a reduce ended"),
        time("sort_finish_ms", "merge of a reduce ended"),
        text("host", "machine that it ran on"),
        text("rack", "rack"),
        ERROR,
        text("split", "status text of the attempt: names the input split of many maps"),
        PROGRESS,
        flag("counted", "whether the counter columns below were read from this record"),
        *COUNTERS,
    ),
)

CONF = Table(
    "conf",
    "One row per property of a job's configuration, unresolved: ${other} stands as in the file",
    (
        JOB,
        text("key", "property name", priority=0),
        text("value", "its value, variables not replaced"),
        text("origin", "where Hadoop says the value came from (last source element)"),
    ),
)

INPUTS: tuple[Table, ...] = (JOB_EVENTS, TASK_STARTS, TASK_ENDS, ATTEMPT_STARTS, ATTEMPT_ENDS, CONF)


JOB_MODEL = Table(
    "job_model",
    "One row per job",
    (
        JOB,
        text("name", "job name"),
        text("user", "who submitted it"),
        text("queue", "queue of the cluster that it was submitted to"),
        text("job_type", "job type by Dr. Elephant's JobTypeConf.xml"),
        text("state", "SUCCEEDED, FAILED, KILLED, ERROR, RUNNING or UNKNOWN (no event names one)"),
        time("submit_ms", "when it was submitted"),
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
        text("host", "machine that it ran on"),
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
