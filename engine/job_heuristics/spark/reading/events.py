"""The events used of a log as typed structures, and their decoding, which skips all other fields; SQL plans as flat lists.

Field names are those of Spark's ``JsonProtocol``, 1.3 to 4.x; what older or newer versions lack has a default.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from types import GenericAlias, UnionType
from typing import Annotated, Any, TypeVar, get_args

import msgspec

from engine.core.reading import clean
from engine.formats import json_text

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

S = TypeVar("S", bound=msgspec.Struct)
NO_EVENT = "bad-event"  # problem kind of a line that is not an event
MOST_ODD = 8 << 20
"""Most bytes of an invalid event that is decoded field by field, which takes over ten times the memory."""


@cache
def _decoder(kind: type[msgspec.Struct]) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(kind)


def event(line: bytes, kind: type[S], problem: Callable[[str, str], None]) -> S | None:
    """Decode a line. A field of another type is a problem and counts as absent; None if the line is not JSON or lacks
    its subject."""
    try:
        return _decoder(kind).decode(line)
    except json_text.ERRORS:
        pass
    if len(line) > MOST_ODD:
        problem(NO_EVENT, f"no event: {len(line) >> 20} MB of another form than {kind.__name__} has")
        return None
    try:
        document = json_text.parse("", line)
    except json_text.ERRORS as error:
        problem(NO_EVENT, f"no event: {error}")
        return None
    for odd in document.problems:
        problem("bad-record", odd.reason)
    value = document.value
    if not isinstance(value, dict):
        problem(NO_EVENT, "no event: no object")
        return None
    return convert(value, kind, problem)


def convert(value: dict[str, Any], kind: type[S], problem: Callable[[str, str], None]) -> S | None:
    """Convert a decoded object field by field."""
    fields: dict[str, Any] = {}
    for field in msgspec.structs.fields(kind):
        given = value.get(field.encode_name, msgspec.UNSET)
        if given is not msgspec.UNSET:
            good = _field(given, field.type, field.encode_name, problem)
            if good is not msgspec.UNSET:
                fields[field.name] = good
                continue
        if field.required:
            problem("bad-record", f"an event without {field.encode_name}")
            return None
    return kind(**fields)


def _field(given: Any, kind: Any, name: str, problem: Callable[[str, str], None]) -> Any:
    """Return one field, UNSET if invalid."""
    inner = (
        next((each for each in get_args(kind) if each is not type(None)), kind) if isinstance(kind, UnionType) else kind
    )
    if isinstance(given, dict) and isinstance(inner, type) and issubclass(inner, msgspec.Struct):
        made = convert(given, inner, problem)
        return msgspec.UNSET if made is None else made
    if isinstance(given, list) and get_args(inner) and isinstance(get_args(inner)[0], type):
        item = get_args(inner)[0]
        if issubclass(item, msgspec.Struct):
            made_items = [convert(each, item, problem) for each in given if isinstance(each, dict)]
            return [each for each in made_items if each is not None]
    try:
        if inner is msgspec.Raw:
            return msgspec.Raw(msgspec.json.encode(given))
        if not isinstance(given, float) or math.isfinite(given):
            return msgspec.convert(given, kind)
    except json_text.ERRORS:
        pass
    if given is not None:
        problem("bad-field", f"{name} is invalid: left out")
    return msgspec.UNSET


MOST_TEXT = 600  # most characters of a task's error, or of the description of a job or a node of a plan
MOST_TRACE = 4_000  # most characters of an error in full


MOST_NODES = 5000  # most nodes of one plan; the largest real queries have some hundreds


class Metric(Event):
    """One metric of a node: its name, accumulator and type (sum, size, timing, nsTiming, average)."""

    name: str = ""
    accumulatorId: Int = -1
    metricType: str = ""


class Node(Event):
    """A node as the log holds it."""

    nodeName: str = ""
    simpleString: str = ""
    children: list[Node] = msgspec.field(default_factory=list)
    metrics: list[Metric] = msgspec.field(default_factory=list)


class PlanNode(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """A node of the flat list: ``depth`` below the root, ``name``, ``text``, and its metrics (name, accumulator, type)."""

    depth: int
    name: str
    text: str
    metrics: list[tuple[str, int, str]]


_LIST = msgspec.msgpack.Decoder(list[PlanNode])


def packed(plan: bytes, problem: Callable[[str, str], None]) -> bytes | None:
    """Flatten the JSON of a plan; None if it is unreadable."""
    if not plan:
        return None
    root = event(plan, Node, problem)
    if root is None:
        return None
    nodes: list[PlanNode] = []
    stack: list[tuple[int, Node]] = [(0, root)]
    while stack and len(nodes) < MOST_NODES:
        depth, node = stack.pop()
        metrics = [(clean(m.name, 80), m.accumulatorId, clean(m.metricType, 20)) for m in node.metrics[:100]]
        nodes.append(PlanNode(depth, clean(node.nodeName, 120), clean(node.simpleString, MOST_TEXT), metrics))
        stack += [(depth + 1, child) for child in reversed(node.children)]
    if stack:
        problem("deep-plan", f"a SQL plan of more than {MOST_NODES} nodes is cut")
    return msgspec.msgpack.encode(nodes)


def unpacked(plan: Any) -> list[PlanNode]:
    """Return the nodes of a value of column ``plan``."""
    try:
        return _LIST.decode(plan) if plan else []
    except msgspec.DecodeError:
        return []
