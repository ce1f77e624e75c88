"""The tables of job heuristics: what readers deliver, the model assembled from it, and what results show.

Three layers. *Input* tables hold events as the files hold them, so that a growing history only ever appends.
*Model* frames (``incremental_assembly.assemble``) hold one row per job, task and attempt; everything that analyses jobs is a
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
(Dr. Elephant reads a missing counter as 0)."""
COUNTER_COLUMNS: tuple[str, ...] = tuple(c.name for c in COUNTERS)

SEQ = Column("seq", INT, "place of the record in its file, growing: line number or byte", kind="count")
JOB = Column("job_id", TEXT, "job id from the content, null: not known", kind="id", priority=0)
TASK = Column("task_id", TEXT, "task id", kind="id", priority=0)
ATTEMPT = Column("attempt_id", TEXT, "task attempt id", kind="id", priority=0)
TYPE = Column("type", TEXT, "MAP, REDUCE, and in old files SETUP and CLEANUP")
STATE = Column("state", TEXT, "state in Hadoop's words")
ERROR = Column("error", TEXT, "error text of the attempt or task, cleaned and cut; empty: none")
PROGRESS = Column(
    "progress",
    pl.Binary,
    "the four 12-bucket arrays (wall ms, CPU ms, virtual, physical kB) as in the file; progress.decode reads it",
    hidden=True,
)


def times(*columns: tuple[str, str]) -> Iterable[Column]:
    """Columns of epoch milliseconds from pairs of name and meaning."""
    return (Column(name, INT, meaning, unit="epoch ms", kind="time_ms") for name, meaning in columns)


JOB_EVENTS = Table(
    "job_events",
    "One row per job-level fact: an event of the history, a REST answer, a summary line. Null: this row does not say",
    (
        SEQ,
        JOB,
        Column("event", TEXT, "event type (AM_STARTED, JOB_SUBMITTED ... ; REST_JOB, RUMEN_JOB, SUMMARY, BEGIN)"),
        Column("source", TEXT, "history, rest, am (answer of a running application master), rumen or summary"),
        *times(
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
    (SEQ, JOB, TASK, TYPE, *times(("scheduled_ms", "task scheduled")), Column("locations", TEXT, "split hosts")),
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
        *times(("scheduled_ms", "task scheduled, where the same record says so"), ("finish_ms", "task ended")),
        Column("chosen_id", TEXT, "successfulAttemptId or failedDueToAttempt, null: absent", kind="id"),
        Column("has_counters", FLAG, "whether the record carries counters at all", kind="flag"),
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
        *times(("start_ms", "attempt started")),
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
        SEQ,
        JOB,
        TASK,
        ATTEMPT,
        TYPE,
        STATE,
        *times(
            ("finish_ms", "attempt ended"),
            ("map_finish_ms", "map phase of a map ended"),
            ("shuffle_finish_ms", "shuffle of a reduce ended"),
            ("sort_finish_ms", "merge of a reduce ended"),
        ),
        Column("host", TEXT, "host"),
        Column("rack", TEXT, "rack"),
        ERROR,
        Column("split", TEXT, "status text of the attempt: names the input split of many maps"),
        PROGRESS,
        Column("counted", FLAG, "whether the counter columns below were read from this record", kind="flag"),
        *COUNTERS,
    ),
)

CONF = Table(
    "conf",
    "One row per property of a job's configuration, unresolved: ${other} stands as in the file",
    (
        JOB,
        Column("key", TEXT, "property name", priority=0),
        Column("value", TEXT, "its value, variables not replaced"),
        Column("origin", TEXT, "where Hadoop says the value came from (last source element)"),
    ),
)

INPUTS: tuple[Table, ...] = (JOB_EVENTS, TASK_STARTS, TASK_ENDS, ATTEMPT_STARTS, ATTEMPT_ENDS, CONF)
