"""Tables of Spark applications: events as the logs hold them, and results."""

from __future__ import annotations

import polars as pl
from msgspec.structs import replace

from engine.core.tables import Column, Kind, Table
from engine.job_heuristics.tables import INSIGHTS, SEQ, count, flag, fraction, percent, text, time, whole

LOG = text("log", "the log inside an archive, null: the file itself")
STAGE = count("stage_id", "number of the stage")
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
        text("name", "its name; of an unknown event its name; of a broken line the reason; PROFILE: its resources"),
        text("user", "who submitted it"),
        text("version", "version of Spark"),
        whole("number", "END: exit code; UNKNOWN: how many; PROFILE: its id"),
        whole("cpus", "PROFILE: cores of a task"),
    ),
)

SPARK_CONF = Table(
    "spark_conf",
    "One row per Spark property of an environment update, or of a saved answer",
    (SEQ, LOG, text("key", "property that was changed"), text("value", "value; null: not a text in the log")),
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
        text("name", "name in the program"),
        count("tasks", "number of tasks"),
        text("parents", "stages it depends on, separated by commas"),
        time("submit_ms", "when it was submitted"),
        time("complete_ms", "completed"),
        text("failure", "why it failed, null: it did not"),
        text("cached", "RDDs of it that are to be stored, separated by commas"),
        count("profile", "resource profile"),
        flag("outside", "whether a part of its work is done by another process: Python, R, a pipe"),
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
        text("host", "machine that it ran on"),
        count("cores", "CPU cores that it has"),
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
    time("launch_ms", "when it was launched"),
    EXECUTOR,
    text("host", "machine that it ran on"),
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
        time("finish_ms", "when it ended"),
        whole("getting_ms", "moment from which its result was fetched, 0: it was not", kind="time_ms"),
        text("reason", "Spark's word for how it ended; Success"),
        text("error", "the cause of what went wrong, null: nothing"),
        text(
            "trace", "the first error of each cause in full, cleaned and cut, null: another of it, or none", hidden=True
        ),
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
"""All input tables of Spark applications."""


STAGES = Table(
    "stages",
    "One row per stage attempt of one Spark application (option job), as Spark's history server sums it up",
    (
        count("stage_id", "number of the stage", title="stage", priority=0, width=6),
        count("attempt", "attempt of the stage", priority=2, width=7),
        text("name", "name in the program", priority=0, width=28),
        text("status", "PENDING, ACTIVE, COMPLETE, FAILED or SKIPPED", priority=0, width=9),
        text("jobs", "Spark jobs that list it", priority=2, width=8),
        count("tasks", "tasks planned", priority=0, width=7),
        count("completed", "tasks that succeeded", priority=2),
        count("failed", "attempts of tasks that failed", priority=1, width=6),
        count("killed", "attempts of tasks that were killed", priority=2, width=6),
        count("active", "tasks that run", priority=2, width=6),
        time("submit_ms", "when it was submitted", title="submitted", priority=2),
        whole("took_ms", "from submission to completion", kind="ms", title="took", priority=0),
        whole("run_ms", "run time of its tasks", kind="ms", title="run time", priority=1),
        whole(
            "cpu_ms",
            "processor time of its tasks, null: Python or R did the work, which Spark does not count",
            kind="ms",
            title="CPU",
            priority=2,
        ),
        whole("gc_ms", "garbage collection in its tasks", kind="ms", title="GC", priority=1),
        whole("median_ms", "median run time of a task", kind="ms", title="median task", priority=1),
        whole("longest_ms", "longest run time of a task", kind="ms", title="longest task", priority=1),
        fraction(
            "waves", "tasks over all task slots: how often each slot is filled", kind="number", priority=1, width=6
        ),
        percent("longest_share", "longest task in the time of the stage", title="longest share", priority=2),
        text("skew", "why its longest task is so long: data, host or keys; empty: it is not", priority=1, width=6),
        whole("input_bytes", "bytes read", kind="bytes", title="input", priority=1),
        whole("output_bytes", "bytes written", kind="bytes", title="output", priority=1),
        whole("shuffle_read_bytes", "shuffle bytes read", kind="bytes", title="shuffle read", priority=1),
        whole("shuffle_write_bytes", "shuffle bytes written", kind="bytes", title="shuffle write", priority=1),
        whole("memory_spilled", "bytes in memory of what was spilled", kind="bytes", title="spilled", priority=1),
        whole("disk_spilled", "bytes on disk of what was spilled", kind="bytes", title="on disk", priority=2),
        whole("fetch_wait_ms", "time waiting for shuffle data", kind="ms", title="fetch wait", priority=2),
        text("failure", "why it failed", priority=3, width=40),
    ),
    key=("stage_id", "attempt"),
)

EXECUTORS = Table(
    "executors",
    "One row per executor of one Spark application (option job), the driver and removed ones included",
    (
        text("executor", "number of the executor", priority=0, width=8, kind="id"),
        text("host", "machine that it ran on", priority=1, width=20),
        flag("active", "whether it was there at the end: Dr. Elephant sees only those", priority=1),
        count("cores", "CPU cores that it has", priority=1, width=6),
        time("add_ms", "when it was added", title="added", priority=1),
        time("remove_ms", "when it was removed", title="removed", priority=2),
        whole("life_ms", "how long it was there", kind="ms", title="life", priority=1),
        percent("busy", "part of its task slots that had a task", priority=0, width=7),
        whole("idle_ms", "time in which none of its slots had a task", kind="ms", title="idle", priority=1),
        count("tasks", "attempts of tasks that ended", priority=0, width=7),
        count("failed", "of them failed", priority=1, width=6),
        whole(
            "task_ms", "time of its tasks (the driver: of the application)", kind="ms", title="task time", priority=1
        ),
        whole("gc_ms", "garbage collection, counted for each task at once", kind="ms", title="GC", priority=1),
        whole("input_bytes", "bytes read", kind="bytes", title="input", priority=1),
        whole("shuffle_read_bytes", "shuffle bytes read", kind="bytes", title="shuffle read", priority=1),
        whole("shuffle_write_bytes", "shuffle bytes written", kind="bytes", title="shuffle write", priority=1),
        whole("max_memory", "memory for storage and execution", kind="bytes", title="memory", priority=2),
        whole("memory_used", "memory of stored blocks", kind="bytes", title="stored", priority=2),
        whole("peak_heap", "largest heap, null: not logged", kind="bytes", title="peak heap", priority=2),
        text("reason", "why it was removed", priority=2, width=40),
    ),
    key=("executor",),
)

SQL = Table(
    "sql",
    "One row per SQL execution of one Spark application (option job), with its costliest node",
    (
        count("execution", "number of the query", title="sql", priority=0, width=5),
        count("root", "execution it is part of, null: none", priority=3),
        text("description", "what was run", priority=0, width=32),
        text("state", "RUNNING, SUCCEEDED or FAILED", priority=0, width=9),
        time("start_ms", "when it started", title="started", priority=2),
        whole("took_ms", "how long it took", kind="ms", title="took", priority=0),
        text("jobs", "its Spark jobs", priority=2, width=10),
        count("nodes", "nodes of its last plan", priority=1, width=6),
        text("costliest", "node with the longest own time", priority=1, width=24),
        whole("costliest_ms", "its own time, summed over tasks", kind="ms", title="its time", priority=1),
        text("most_rows", "node that gave the most rows", title="most rows", priority=2, width=20),
        count("most_rows_number", "rows that this operator made", title="its rows", priority=2),
        text("largest", "node with the most bytes", title="most bytes", priority=2, width=20),
        whole("largest_bytes", "bytes that this operator made", kind="bytes", title="its bytes", priority=2),
        count("rows", "rows read from files and tables", priority=2),
        count("files", "files read", priority=2),
        whole("read_bytes", "bytes of the files read", kind="bytes", title="read", priority=1),
        text("error", "why it failed", priority=3, width=40),
    ),
    key=("execution",),
)

PLAN = Table(
    "plan_nodes",
    "One row per node of the plans of SQL executions (option job), root first",
    (
        count("execution", "SQL execution", title="sql", priority=0, width=5),
        count("node", "place in its plan", priority=2, width=5),
        count("depth", "how far below the root", priority=2, width=5),
        text("name", "name of the operator", priority=0, width=28),
        whole("time_ms", "largest of its times, summed over tasks", kind="ms", title="time", priority=0),
        count("rows", "rows it gave", priority=0),
        whole("bytes", "its largest size", kind="bytes", priority=1),
        percent("share", "its own time in that of all nodes; of generated code without the nodes in it", priority=1),
        text("costly", "by what it is costly in its plan: time, rows, bytes; empty: it is not", priority=0, width=16),
        text("text", "what it does", priority=2, width=60),
        text("metrics", "all its metrics, JSON", kind="json", hidden=True),
    ),
    key=("execution", "node"),
    title="plans",
)

SCALE = Table(
    "other_executors",
    "Predicted run time of one Spark application (option job) on other numbers of executors",
    (
        count("executors", "number of executors", priority=0),
        percent("of_now", "of those it had at most", priority=1),
        whole("runtime_ms", "predicted run time", kind="ms", title="run time", priority=0),
        percent("change", "against the same model of those it had", priority=0),
        percent("utilisation", "part of its task slots that would work", priority=0),
        fraction("core_h", "cores x time, in hours", unit="core h", kind="number", title="core h", priority=1),
        text("mark", "now, ideal or empty", priority=0, width=8),
    ),
    key=("executors",),
    title="executors needed",
)

_SHOWN = tuple(
    replace(c, meaning="moment from which its result was fetched, null: it was not") if c.name == "getting_ms" else c
    for c in SPARK_TASKS.columns
    if c.name not in ("seq", "log", "start_seq", "measured")
)
SPARK_TASK_LIST = Table(
    "spark_tasks",
    "The ended tasks of one Spark application (option job), in the order of its log",
    _SHOWN,
    key=("task_id", "finish_ms"),
    title="tasks",
)

SPARK_TABLES: tuple[Table, ...] = (STAGES, EXECUTORS, SQL, PLAN, INSIGHTS, SCALE, SPARK_TASK_LIST)
