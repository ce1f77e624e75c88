"""Tables of Tez applications: facts as the files hold them, and results."""

from __future__ import annotations

from engine.core.tables import Column, Table
from engine.job_heuristics.tables import SEQ, count, mb_s, percent, text, time, whole

APP = text("app_id", "application id", kind="id")
DAG = count("dag", "number of the DAG in its application")
VERTEX = count("vertex", "number of the vertex in its DAG")
TASK = count("task", "number of the task in its vertex")

APP_FACTS = Table(
    "tez_app_facts",
    "One row per answer or event about an application; null: not said",
    (
        SEQ, APP,
        text("name", "YARN: name"), text("user", "YARN: user"), text("queue", "YARN: queue"), text("state", "YARN: state"),
        time("start_ms", "YARN: started"), time("finish_ms", "YARN: finished"),
        text("am_user", "Tez: user"), text("config", "Tez: configuration", kind="json"),
        text("config_error", "Tez: why Dr. Elephant cannot read the configuration"), text("version", "Tez: version"),
    ),
)  # fmt: skip

DAG_FACTS = Table(
    "tez_dag_facts",
    "One row per answer or event about a DAG; null: not said",
    (
        SEQ, APP, DAG,
        text("status", "RUNNING, SUCCEEDED, FAILED, KILLED, ERROR"), time("order_ms", "the server's order: submitted"),
        time("init_ms", "initialised"), time("start_ms", "when it started"), time("end_ms", "ended"),
        text("name", "name in the program"),
        text("user", "who submitted it"), text("queue", "queue of the cluster that it was submitted to"),
        text("caller", "id of the caller, a query of Hive for example"),
        text("caller_type", "kind of caller"), text("diagnostics", "diagnostics"),
        text("edges", "edges of its plan: from, to, how data move", kind="json"),
        text("vertices", "names of its vertices", kind="json"), text("counters", "those of DAGCounter and LLAP", kind="json"),
    ),
)  # fmt: skip

VERTEX_FACTS = Table(
    "tez_vertex_facts",
    "One row per answer or event about a vertex; null: not said",
    (
        SEQ, APP, DAG, VERTEX,
        text("name", "name in the program"), text("processor", "class of its processor"), count("tasks", "tasks"),
        count("planned", "tasks when it was initialised"), text("status", "state"), time("init_ms", "initialised"),
        time("start_ms", "when it started"), time("end_ms", "ended"), text("diagnostics", "diagnostics"),
        text("plugin", "service that runs its tasks: LLAP"),
    ),
)  # fmt: skip

COUNTED = ("input_bytes", "shuffle_bytes", "output_records", "spilled_records", "gc_ms", "cpu_ms", "physical_bytes",
           "virtual_bytes")  # fmt: skip
"""Counters that heuristics use: by Dr. Elephant's lookup with the prefix ``first_``, and of Tez's own groups."""
MORE_COUNTED = {
    "shuffle_ms": "SHUFFLE_PHASE_TIME", "merge_ms": "MERGE_PHASE_TIME", "last_event_ms": "LAST_EVENT_RECEIVED",
    "groups": "REDUCE_INPUT_GROUPS", "records": "REDUCE_INPUT_RECORDS", "output_bytes": "OUTPUT_BYTES",
    "spills": "ADDITIONAL_SPILL_COUNT", "failed_inputs": "NUM_FAILED_SHUFFLE_INPUTS",
}  # fmt: skip
"""Columns and counters that only ``insight`` uses."""


def _numbers(names: tuple[str, ...], prefix: str = "") -> tuple[Column, ...]:
    return tuple(whole(prefix + name, f"counter: {name.replace('_', ' ')}; null: not counted") for name in names)


TASK_FACTS = Table(
    "tez_task_facts",
    "One row per answer or event about a task; null: not said",
    (
        SEQ, APP, DAG, VERTEX, TASK,
        text("status", "state"), count("chosen", "attempt that succeeded, -1: not one of this task"),
        time("scheduled_ms", "scheduled"), time("start_ms", "when it started"), time("end_ms", "ended"),
        text("diagnostics", "diagnostics"), text("broken", "Dr. Elephant's exception over its counters"),
        *_numbers(COUNTED, "first_"), *_numbers(COUNTED), *_numbers(tuple(MORE_COUNTED)),
    ),
)  # fmt: skip

ATTEMPT_FACTS = Table(
    "tez_attempt_facts",
    "One row per answer or event about an attempt of a task; null: not said",
    (
        SEQ, APP, DAG, VERTEX, TASK, count("attempt", "number of the attempt"),
        text("status", "state"), time("created_ms", "created"), time("allocated_ms", "container given"),
        time("start_ms", "when it started"), time("end_ms", "ended"), text("cause", "attempt because of which it was made"),
        text("error", "why it failed or was killed"), text("failure", "fatal or not"), text("diagnostics", "diagnostics"),
        text("node", "host it ran on"), text("container", "container it ran in"),
        time("last_data_ms", "when the last data arrived that it read"), text("last_data", "attempt that sent them"),
    ),
)  # fmt: skip

EDGE_COUNTED = {
    "shuffle_bytes": "SHUFFLE_BYTES", "groups": "REDUCE_INPUT_GROUPS", "records": "REDUCE_INPUT_RECORDS",
    "spills": "ADDITIONAL_SPILL_COUNT", "output_bytes": "OUTPUT_BYTES",
}  # fmt: skip
EDGE_FACTS = Table(
    "tez_edge_facts",
    "One row per task and edge with counters of its own (tez.task.generate.counters.per.io)",
    (SEQ, APP, DAG, VERTEX, TASK, text("edge", "this vertex, INPUT or OUTPUT, the other one"), *_numbers(tuple(EDGE_COUNTED))),
)  # fmt: skip

CONTAINER_FACTS = Table(
    "tez_container_facts",
    "One row per event of a container; null: not said",
    (
        SEQ,
        APP,
        text("container", "container id"),
        time("start_ms", "launched"),
        time("end_ms", "ended"),
        whole("exit", "exit"),
    ),
)

FACTS: tuple[Table, ...] = (
    APP_FACTS, DAG_FACTS, VERTEX_FACTS, TASK_FACTS, ATTEMPT_FACTS, EDGE_FACTS, CONTAINER_FACTS,
)  # fmt: skip

DAGS = Table(
    "tez_dags",
    "One row per DAG of one Tez application (option job), judged by itself: own counters, true containers, any processor",
    (
        text("dag_id", "name of the DAG in the cluster", kind="id", priority=2, width=22),
        count("dag", "its number in the application", priority=1, width=4),
        text("name", "name of the DAG, or of its caller", priority=0, width=16),
        text("state", "SUCCEEDED, FAILED, KILLED, ERROR or RUNNING", priority=0, width=9),
        text("severity", "worst verdict over its ended tasks; null: none has ended", kind="level", priority=0, width=10),
        count("score", "sum of severity x tasks over verdicts of MODERATE and worse", priority=1, width=6),
        time("start_ms", "when it started", title="started", priority=2),
        whole("ms", "from start to end; null while running", unit="ms", kind="ms", title="took", priority=0, width=8),
        whole("wait_ms", "from submission to start", unit="ms", kind="ms", title="waited", priority=1, width=8),
        count("vertices", "vertices in the files", priority=1),
        count("tasks", "tasks in the files", priority=0, width=6),
        count("failed", "attempts that failed or were killed", priority=1, width=6),
        mb_s("used_mb_s", "container memory x time of its tasks", title="used", priority=1),
        mb_s("wasted_mb_s", "of it above 1.5 x the peak; null: memory was not measured", title="wasted", priority=1),
        text("user", "who submitted it", priority=2, width=8),
        text("queue", "queue of the cluster that it was submitted to", priority=2, width=8),
        text("caller", "id of the caller, a query of Hive for example", priority=3, width=24),
        text("critical", "vertices on the critical path, in order", title="critical path", priority=3, width=30),
        text("diagnostics", "why it failed, or the first attempt that did", priority=3, width=60),
    ),
    key=("dag_id",),
    title="DAGs",
)  # fmt: skip

VERTICES = Table(
    "tez_vertices",
    "One row per vertex of one Tez application (option job), by DAG and wave",
    (
        count("dag", "number of the DAG", priority=1, width=4),
        count("wave", "0 without inputs, else one more than the latest of them", priority=0, width=4),
        text("vertex", "name of the vertex", priority=0, width=14),
        text("waits_for", "vertices whose output it reads, and how it moves", title="waits for", priority=0, width=24),
        text("state", "how it stands or ended", priority=1, width=9),
        count("tasks", "tasks planned", priority=0, width=6), count("ended", "tasks that have ended", priority=1, width=6),
        whole("ms", "from the first task's start to the last one's end", unit="ms", kind="ms", title="took", priority=0, width=8),
        whole("critical_ms", "its part of the critical path", unit="ms", kind="ms", title="critical", priority=0, width=8),
        whole("wait_ms", "median from creation of an attempt to its container", unit="ms", kind="ms", title="waited", priority=2),
        whole("median_ms", "median run time of a task", unit="ms", kind="ms", title="median", priority=1),
        whole("longest_ms", "longest run time of a task", unit="ms", kind="ms", title="longest", priority=1),
        whole("bytes", "bytes its tasks read or fetched", unit="bytes", kind="bytes", title="read", priority=2),
        whole("largest_bytes", "most of one task", unit="bytes", kind="bytes", title="largest", priority=2),
        percent("physical", "mean memory of a task of its container; null: not measured", title="memory", priority=2),
    ),
    key=("dag", "vertex"),
    title="vertices",
)  # fmt: skip

TASK_LIST = Table(
    "tez_tasks",
    "One row per task of one Tez application (option job), the attempt that counts",
    (
        DAG, text("vertex", "name of the vertex", priority=0, width=14), TASK,
        text("state", "how it stands or ended", priority=1, width=9),
        text("host", "machine that it ran on", priority=0, width=20),
        text("container", "container that it ran in", kind="id", priority=3),
        time("begin_ms", "when it started", title="started", priority=2),
        whole("ms", "run time; null: not ended", unit="ms", kind="ms", title="took", priority=0),
        whole("wait_ms", "from creation to container", unit="ms", kind="ms", title="waited", priority=1),
        whole("input_bytes", "bytes read", unit="bytes", kind="bytes", title="input", priority=1),
        whole("shuffle_bytes", "bytes fetched", unit="bytes", kind="bytes", title="shuffle", priority=1),
        whole("physical_bytes", "physical memory; null: not measured", unit="bytes", kind="bytes", title="memory", priority=2),
    ),
    key=("dag", "vertex", "task"),
    title="task list",
)  # fmt: skip

TEZ_TABLES: tuple[Table, ...] = (DAGS, VERTICES, TASK_LIST)
