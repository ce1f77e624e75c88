"""The events used of a log as typed structures; the decoder skips all other fields.

Field names are those of Spark's ``JsonProtocol``, 1.3 to 4.x; what older or newer versions lack has a default.
"""

from __future__ import annotations

from types import GenericAlias
from typing import Annotated, Any

import msgspec

Int = Annotated[int, msgspec.Meta(ge=-(2**46), le=2**46)]
"""Times (ms), bytes, counts: larger values are invalid, and sums of 100,000 tasks stay within 64 bit."""
Nanos = Annotated[int, msgspec.Meta(ge=-(2**56), le=2**56)]


class Event(msgspec.Struct, gc=False):
    """Base of all structures, exempt from garbage collection because there are many."""


def _event(title: str, /, **fields: tuple[Any, ...]) -> Any:
    """Return a structure: of each field the name in the log, the type and a default; without a default it is required."""
    declared = [(name, *field[1:]) for name, field in fields.items()]
    names = {name: field[0] for name, field in fields.items()}
    return msgspec.defstruct(title, declared, bases=(Event,), rename=names, kw_only=True, gc=False)


def _made(kind: Any) -> Any:
    """Return the default of a field that holds another structure: one of its defaults."""
    return msgspec.field(default_factory=kind)


ShuffleRead = _event(
    "ShuffleRead",
    remote=("Remote Bytes Read", Int, 0), local=("Local Bytes Read", Int, 0), wait=("Fetch Wait Time", Int, 0),
    records=("Total Records Read", Int, 0),
)  # fmt: skip
ShuffleWrite = _event(
    "ShuffleWrite",
    bytes=("Shuffle Bytes Written", Int, 0), nanos=("Shuffle Write Time", Nanos, 0),
    records=("Shuffle Records Written", Int, 0),
)  # fmt: skip
Input = _event("Input", bytes=("Bytes Read", Int, 0), records=("Records Read", Int, 0))
Output = _event("Output", bytes=("Bytes Written", Int, 0), records=("Records Written", Int, 0))
NO_READ, NO_WRITE, NO_INPUT, NO_OUTPUT = ShuffleRead(), ShuffleWrite(), Input(), Output()

# Task Metrics. Before 2.0 the four groups are absent when unused.
Metrics = _event(
    "Metrics",
    run=("Executor Run Time", Int, 0), cpu=("Executor CPU Time", Nanos, 0), gc=("JVM GC Time", Int, 0),
    unpack=("Executor Deserialize Time", Int, 0), pack=("Result Serialization Time", Int, 0),
    result=("Result Size", Int, 0), memory_spilled=("Memory Bytes Spilled", Int, 0),
    disk_spilled=("Disk Bytes Spilled", Int, 0), peak=("Peak Execution Memory", Int, 0),
    read=("Shuffle Read Metrics", ShuffleRead | None, None), write=("Shuffle Write Metrics", ShuffleWrite | None, None),
    input=("Input Metrics", Input | None, None), output=("Output Metrics", Output | None, None),
)  # fmt: skip
# Executor metrics: peaks of memory, in bytes; the order is that of ``tables.PEAKS``.
Memory = _event(
    "Memory",
    heap=("JVMHeapMemory", Int, 0), off_heap=("JVMOffHeapMemory", Int, 0), unified=("OnHeapUnifiedMemory", Int, 0),
    off_heap_unified=("OffHeapUnifiedMemory", Int, 0), execution=("OnHeapExecutionMemory", Int, 0),
    storage=("OnHeapStorageMemory", Int, 0), direct=("DirectPoolMemory", Int, 0),
    jvm_rss=("ProcessTreeJVMRSSMemory", Int, 0), python_rss=("ProcessTreePythonRSSMemory", Int, 0),
    other_rss=("ProcessTreeOtherRSSMemory", Int, 0), gc=("TotalGCTime", Int, 0),
)  # fmt: skip
# Task Info; ``updates`` is decoded only for metrics of SQL.
TaskInfo = _event(
    "TaskInfo",
    id=("Task ID", Int, -1), index=("Index", Int, 0), attempt=("Attempt", Int, 0), launch=("Launch Time", Int, 0),
    executor=("Executor ID", str, ""), host=("Host", str, ""), locality=("Locality", str, ""),
    speculative=("Speculative", bool, False), getting=("Getting Result Time", Int, 0), finish=("Finish Time", Int, 0),
    updates=("Accumulables", msgspec.Raw, msgspec.Raw()),
)  # fmt: skip
Reason = _event(
    "Reason",
    reason=("Reason", str, ""), class_name=("Class Name", str | None, None),
    description=("Description", str | None, None), message=("Message", str | None, None),
    kill=("Kill Reason", str | None, None), loss=("Loss Reason", str | None, None), error=("Error", str | None, None),
    trace=("Full Stack Trace", str | None, None),
)  # fmt: skip
TaskStart = _event(
    "TaskStart", stage=("Stage ID", Int), info=("Task Info", TaskInfo), attempt=("Stage Attempt ID", Int, 0)
)
TaskEnd = _event(
    "TaskEnd",
    stage=("Stage ID", Int), info=("Task Info", TaskInfo), attempt=("Stage Attempt ID", Int, 0),
    reason=("Task End Reason", Reason, _made(Reason)), metrics=("Task Metrics", Metrics | None, None),
    memory=("Task Executor Metrics", Memory | None, None),
)  # fmt: skip
# One entry of a task's Accumulables; the value is a number or a text, by version.
Update = _event("Update", id=("ID", Int, -1), value=("Update", Any, None), metadata=("Metadata", Any, None))
StorageLevel = _event(
    "StorageLevel",
    disk=("Use Disk", bool, False), memory=("Use Memory", bool, False), replication=("Replication", Int, 1),
)  # fmt: skip
# One entry of RDD Info; ``scope``: the operator that made it, JSON in a text.
Rdd = _event(
    "Rdd",
    id=("RDD ID", Int, -1), name=("Name", str | None, None), scope=("Scope", str | None, None),
    level=("Storage Level", StorageLevel, _made(StorageLevel)),
)  # fmt: skip
StageInfo = _event(
    "StageInfo",
    id=("Stage ID", Int), attempt=("Stage Attempt ID", Int, 0), name=("Stage Name", str, ""),
    tasks=("Number of Tasks", Int, 0), rdds=("RDD Info", GenericAlias(list, Rdd), []),
    parents=("Parent IDs", list[Int], []), submitted=("Submission Time", Int | None, None),
    completed=("Completion Time", Int | None, None), failure=("Failure Reason", str | None, None),
    profile=("Resource Profile Id", Int, 0),
)  # fmt: skip
JobStart = _event(
    "JobStart",
    job=("Job ID", Int), time=("Submission Time", Int | None, None), stages=("Stage IDs", list[Int], []),
    infos=("Stage Infos", GenericAlias(list, StageInfo) | None, None),
    properties=("Properties", dict[str, Any] | None, None),
)  # fmt: skip
# The exception of a failed job.
Failure = _event("Failure", message=("Message", str | None, None))
JobResult = _event("JobResult", result=("Result", str, ""), exception=("Exception", Failure | None, None))
JobEnd = _event(
    "JobEnd",
    job=("Job ID", Int), time=("Completion Time", Int | None, None), result=("Job Result", JobResult, _made(JobResult)),
)  # fmt: skip
# SparkListenerStageSubmitted and -Completed.
StageChange = _event("StageChange", info=("Stage Info", StageInfo))
ExecutorInfo = _event(
    "ExecutorInfo",
    host=("Host", str, ""), cores=("Total Cores", Int, 0), profile=("Resource Profile Id", Int, 0),
)  # fmt: skip
NO_EXECUTOR = ExecutorInfo()
# SparkListenerExecutorAdded, -Removed and -Excluded (the latter with the field names of the class).
ExecutorChange = _event(
    "ExecutorChange",
    time=("Timestamp", Int | None, None), old_time=("time", Int | None, None), executor=("Executor ID", str, ""),
    old_executor=("executorId", str, ""), info=("Executor Info", ExecutorInfo | None, None),
    reason=("Removed Reason", str | None, None),
)  # fmt: skip
BlockManager = _event("BlockManager", executor=("Executor ID", str, ""), host=("Host", str, ""))
BlockManagerChange = _event(
    "BlockManagerChange",
    manager=("Block Manager ID", BlockManager), time=("Timestamp", Int | None, None), memory=("Maximum Memory", Int, 0),
)  # fmt: skip
BlockInfo = _event(
    "BlockInfo",
    manager=("Block Manager ID", BlockManager), block=("Block ID", str, ""),
    level=("Storage Level", StorageLevel, _made(StorageLevel)), memory=("Memory Size", Int, 0),
    disk=("Disk Size", Int, 0),
)  # fmt: skip
BlockUpdated = _event("BlockUpdated", info=("Block Updated Info", BlockInfo))
Unpersist = _event("Unpersist", rdd=("RDD ID", Int))
StageMemory = _event(
    "StageMemory", executor=("Executor ID", str, ""), memory=("Executor Metrics", Memory, _made(Memory))
)
MemoryUpdate = _event(
    "MemoryUpdate",
    executor=("Executor ID", str, ""), updates=("Executor Metrics Updated", GenericAlias(list, StageMemory), []),
)  # fmt: skip
LogStart = _event("LogStart", version=("Spark Version", str, ""))
AppStart = _event(
    "AppStart",
    name=("App Name", str, ""), id=("App ID", str | None, None), time=("Timestamp", Int | None, None),
    user=("User", str, ""), attempt=("App Attempt ID", str | None, None),
)  # fmt: skip
AppEnd = _event("AppEnd", time=("Timestamp", Int | None, None), code=("ExitCode", Int | None, None))
# SparkListenerEnvironmentUpdate: an object, or pairs in early versions.
Environment = _event("Environment", spark=("Spark Properties", Any, None))


class Amount(Event, rename={"amount": "Amount"}.get):
    """What a resource profile asks for."""

    amount: float = 1.0


Profile = _event(
    "Profile",
    id=("Resource Profile Id", Int, 0), executors=("Executor Resource Requests", dict[str, Amount], {}),
    tasks=("Task Resource Requests", dict[str, Amount], {}),
)  # fmt: skip
# SparkListenerSQLExecutionStart, and -AdaptiveExecutionUpdate.
SqlStart = _event(
    "SqlStart",
    execution=("executionId", Int), root=("rootExecutionId", Int | None, None), description=("description", str, ""),
    plan=("sparkPlanInfo", msgspec.Raw, msgspec.Raw()), time=("time", Int | None, None),
)  # fmt: skip
SqlEnd = _event(
    "SqlEnd",
    execution=("executionId", Int), time=("time", Int | None, None), error=("errorMessage", str | None, None),
)  # fmt: skip
DriverUpdates = _event(
    "DriverUpdates",
    execution=("executionId", Int, -1), updates=("accumUpdates", list[tuple[Int, Int]], []),
)  # fmt: skip
# QueryProgressEvent: an object, or its text.
StreamProgress = _event("StreamProgress", progress=("progress", Any, None))
