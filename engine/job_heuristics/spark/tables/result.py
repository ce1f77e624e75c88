"""Result tables of one Spark application (option job): stages, executors, SQL, insights, other numbers of executors."""

from __future__ import annotations

from dataclasses import replace

from engine.core.tables import Table
from engine.job_heuristics.spark.tables.input import SPARK_TASKS
from engine.job_heuristics.tables.columns import count, flag, fraction, percent, text, time, whole

STAGES = Table(
    "stages",
    "One row per stage attempt of one Spark application (option job), as Spark's history server sums it up",
    (
        count("stage_id", "stage", title="stage", priority=0, width=6),
        count("attempt", "attempt of the stage", priority=2, width=7),
        text("name", "name", priority=0, width=28),
        text("status", "PENDING, ACTIVE, COMPLETE, FAILED or SKIPPED", priority=0, width=9),
        text("jobs", "Spark jobs that list it", priority=2, width=8),
        count("tasks", "tasks planned", priority=0, width=7),
        count("completed", "tasks that succeeded", priority=2),
        count("failed", "attempts of tasks that failed", priority=1, width=6),
        count("killed", "attempts of tasks that were killed", priority=2, width=6),
        count("active", "tasks that run", priority=2, width=6),
        time("submit_ms", "submitted", title="submitted", priority=2),
        whole("took_ms", "from submission to completion", kind="ms", title="took", priority=0),
        whole("run_ms", "run time of its tasks", kind="ms", title="run time", priority=1),
        whole("cpu_ms", "processor time of its tasks", kind="ms", title="CPU", priority=2),
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
        text("executor", "id", priority=0, width=8, kind="id"),
        text("host", "host", priority=1, width=20),
        flag("active", "whether it was there at the end: Dr. Elephant sees only those", priority=1),
        count("cores", "cores", priority=1, width=6),
        time("add_ms", "added", title="added", priority=1),
        time("remove_ms", "removed", title="removed", priority=2),
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
        count("execution", "number", title="sql", priority=0, width=5),
        count("root", "execution it is part of, null: none", priority=3),
        text("description", "what was run", priority=0, width=32),
        text("state", "RUNNING, SUCCEEDED or FAILED", priority=0, width=9),
        time("start_ms", "started", title="started", priority=2),
        whole("took_ms", "how long it took", kind="ms", title="took", priority=0),
        text("jobs", "its Spark jobs", priority=2, width=10),
        count("nodes", "nodes of its last plan", priority=1, width=6),
        text("costliest", "node with the longest own time", priority=1, width=24),
        whole("costliest_ms", "its own time, summed over tasks", kind="ms", title="its time", priority=1),
        text("most_rows", "node that gave the most rows", title="most rows", priority=2, width=20),
        count("most_rows_number", "its rows", title="its rows", priority=2),
        text("largest", "node with the most bytes", title="most bytes", priority=2, width=20),
        whole("largest_bytes", "its bytes", kind="bytes", title="its bytes", priority=2),
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
        text("name", "operator", priority=0, width=28),
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

INSIGHTS = Table(
    "insights",
    "One row per number of one Spark application (option job) that goes beyond Dr. Elephant, the worst first",
    (
        text("topic", "what was looked at", priority=0, width=20),
        text("subject", "application, stage, sql execution, executor, host or query", priority=0, width=12),
        text("severity", "NONE: within its limit", kind="level", priority=0, width=10),
        text("value", "the number", priority=0, width=18),
        text("limit", "what it should be", priority=1, width=18),
        text("key", "property to change", priority=1, width=36),
        text("setting", "value to try", priority=1, width=12),
        text("status", "while it runs: certain, can only get worse, or provisional", priority=2, width=20),
        text("reason", "why, with the application's numbers", priority=2, width=80),
    ),
    key=("topic", "subject"),
)

SCALE = Table(
    "other_executors",
    "Predicted run time of one Spark application (option job) on other numbers of executors",
    (
        count("executors", "executors", priority=0),
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
