"""The events used of a log as typed structures; the decoder skips all other fields.

Field names are those of Spark's ``JsonProtocol``, 1.3 to 4.x; what older or newer versions lack has a default.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

Int = Annotated[int, msgspec.Meta(ge=-(2**46), le=2**46)]
"""Times (ms), bytes, counts: larger values are invalid, and sums of 100,000 tasks stay within 64 bit."""
Nanos = Annotated[int, msgspec.Meta(ge=-(2**56), le=2**56)]


class Event(msgspec.Struct, gc=False):
    """Base of all structures, exempt from garbage collection because there are many."""


def _named(**names: str) -> Any:
    return names.get


class ShuffleRead(Event, rename=_named(remote="Remote Bytes Read", local="Local Bytes Read", wait="Fetch Wait Time",
                                       records="Total Records Read")):  # fmt: skip
    """Shuffle Read Metrics."""

    remote: Int = 0
    local: Int = 0
    wait: Int = 0
    records: Int = 0


class ShuffleWrite(Event, rename=_named(bytes="Shuffle Bytes Written", nanos="Shuffle Write Time",
                                        records="Shuffle Records Written")):  # fmt: skip
    """Shuffle Write Metrics."""

    bytes: Int = 0
    nanos: Nanos = 0
    records: Int = 0


class Input(Event, rename=_named(bytes="Bytes Read", records="Records Read")):
    """Input Metrics."""

    bytes: Int = 0
    records: Int = 0


class Output(Event, rename=_named(bytes="Bytes Written", records="Records Written")):
    """Output Metrics."""

    bytes: Int = 0
    records: Int = 0


NO_READ, NO_WRITE, NO_INPUT, NO_OUTPUT = ShuffleRead(), ShuffleWrite(), Input(), Output()


class Metrics(Event, rename=_named(
    run="Executor Run Time", cpu="Executor CPU Time", gc="JVM GC Time", unpack="Executor Deserialize Time",
    pack="Result Serialization Time", result="Result Size", memory_spilled="Memory Bytes Spilled",
    disk_spilled="Disk Bytes Spilled", peak="Peak Execution Memory", read="Shuffle Read Metrics",
    write="Shuffle Write Metrics", input="Input Metrics", output="Output Metrics",
)):  # fmt: skip
    """Task Metrics. Before 2.0 the four groups are absent when unused."""

    run: Int = 0
    cpu: Nanos = 0
    gc: Int = 0
    unpack: Int = 0
    pack: Int = 0
    result: Int = 0
    memory_spilled: Int = 0
    disk_spilled: Int = 0
    peak: Int = 0
    read: ShuffleRead | None = None
    write: ShuffleWrite | None = None
    input: Input | None = None
    output: Output | None = None


class Memory(Event, rename=_named(
    heap="JVMHeapMemory", off_heap="JVMOffHeapMemory", unified="OnHeapUnifiedMemory",
    off_heap_unified="OffHeapUnifiedMemory", execution="OnHeapExecutionMemory", storage="OnHeapStorageMemory",
    direct="DirectPoolMemory", jvm_rss="ProcessTreeJVMRSSMemory", python_rss="ProcessTreePythonRSSMemory",
    other_rss="ProcessTreeOtherRSSMemory", gc="TotalGCTime",
)):  # fmt: skip
    """Executor metrics: peaks of memory, in bytes; the order is that of ``tables.spark_input.PEAKS``."""

    heap: Int = 0
    off_heap: Int = 0
    unified: Int = 0
    off_heap_unified: Int = 0
    execution: Int = 0
    storage: Int = 0
    direct: Int = 0
    jvm_rss: Int = 0
    python_rss: Int = 0
    other_rss: Int = 0
    gc: Int = 0


class TaskInfo(Event, rename=_named(
    id="Task ID", index="Index", attempt="Attempt", launch="Launch Time", executor="Executor ID", host="Host",
    locality="Locality", speculative="Speculative", getting="Getting Result Time", finish="Finish Time",
    updates="Accumulables",
)):  # fmt: skip
    """Task Info; ``updates`` is decoded only for metrics of SQL."""

    id: Int = -1
    index: Int = 0
    attempt: Int = 0
    launch: Int = 0
    executor: str = ""
    host: str = ""
    locality: str = ""
    speculative: bool = False
    getting: Int = 0
    finish: Int = 0
    updates: msgspec.Raw = msgspec.Raw()


class Reason(Event, rename=_named(
    reason="Reason", class_name="Class Name", description="Description", message="Message", kill="Kill Reason",
    loss="Loss Reason", error="Error", trace="Full Stack Trace",
)):  # fmt: skip
    """Task End Reason."""

    reason: str = ""
    class_name: str | None = None
    description: str | None = None
    message: str | None = None
    kill: str | None = None
    loss: str | None = None
    error: str | None = None
    trace: str | None = None


class TaskStart(Event, rename=_named(stage="Stage ID", attempt="Stage Attempt ID", info="Task Info")):
    """SparkListenerTaskStart."""

    stage: Int
    info: TaskInfo
    attempt: Int = 0


class TaskEnd(Event, rename=_named(
    stage="Stage ID", attempt="Stage Attempt ID", info="Task Info", reason="Task End Reason", metrics="Task Metrics",
    memory="Task Executor Metrics",
)):  # fmt: skip
    """SparkListenerTaskEnd."""

    stage: Int
    info: TaskInfo
    attempt: Int = 0
    reason: Reason = msgspec.field(default_factory=Reason)
    metrics: Metrics | None = None
    memory: Memory | None = None


class Update(Event, rename=_named(id="ID", value="Update", metadata="Metadata")):
    """One entry of a task's Accumulables; the value is a number or a text, by version."""

    id: Int = -1
    value: Any = None
    metadata: Any = None


class StorageLevel(Event, rename=_named(disk="Use Disk", memory="Use Memory", replication="Replication")):
    """Storage Level."""

    disk: bool = False
    memory: bool = False
    replication: Int = 1

    @property
    def valid(self) -> bool:
        """Whether something is stored at all."""
        return (self.disk or self.memory) and self.replication > 0


class Rdd(Event, rename=_named(id="RDD ID", name="Name", scope="Scope", level="Storage Level")):
    """One entry of RDD Info; ``scope``: the operator that made it, JSON in a text."""

    id: Int = -1
    name: str | None = None
    scope: str | None = None
    level: StorageLevel = msgspec.field(default_factory=StorageLevel)


class StageInfo(Event, rename=_named(
    id="Stage ID", attempt="Stage Attempt ID", name="Stage Name", tasks="Number of Tasks", rdds="RDD Info",
    parents="Parent IDs", submitted="Submission Time", completed="Completion Time", failure="Failure Reason",
    profile="Resource Profile Id",
)):  # fmt: skip
    """Stage Info."""

    id: Int
    attempt: Int = 0
    name: str = ""
    tasks: Int = 0
    rdds: list[Rdd] = []
    parents: list[Int] = []
    submitted: Int | None = None
    completed: Int | None = None
    failure: str | None = None
    profile: Int = 0


class JobStart(Event, rename=_named(job="Job ID", time="Submission Time", stages="Stage IDs", infos="Stage Infos",
                                    properties="Properties")):  # fmt: skip
    """SparkListenerJobStart."""

    job: Int
    time: Int | None = None
    stages: list[Int] = []
    infos: list[StageInfo] | None = None
    properties: dict[str, Any] | None = None


class Failure(Event, rename=_named(message="Message")):
    """The exception of a failed job."""

    message: str | None = None


class JobResult(Event, rename=_named(result="Result", exception="Exception")):
    """Job Result."""

    result: str = ""
    exception: Failure | None = None


class JobEnd(Event, rename=_named(job="Job ID", time="Completion Time", result="Job Result")):
    """SparkListenerJobEnd."""

    job: Int
    time: Int | None = None
    result: JobResult = msgspec.field(default_factory=JobResult)


class StageChange(Event, rename=_named(info="Stage Info")):
    """SparkListenerStageSubmitted and -Completed."""

    info: StageInfo


class ExecutorInfo(Event, rename=_named(host="Host", cores="Total Cores", profile="Resource Profile Id")):
    """Executor Info."""

    host: str = ""
    cores: Int = 0
    profile: Int = 0


class ExecutorChange(Event, rename=_named(
    time="Timestamp", old_time="time", executor="Executor ID", old_executor="executorId", info="Executor Info",
    reason="Removed Reason",
)):  # fmt: skip
    """SparkListenerExecutorAdded, -Removed and -Excluded (the latter with the field names of the class)."""

    time: Int | None = None
    old_time: Int | None = None
    executor: str = ""
    old_executor: str = ""
    info: ExecutorInfo = msgspec.field(default_factory=ExecutorInfo)
    reason: str | None = None


class BlockManager(Event, rename=_named(executor="Executor ID", host="Host")):
    """Block Manager ID."""

    executor: str = ""
    host: str = ""


class BlockManagerChange(Event, rename=_named(time="Timestamp", manager="Block Manager ID", memory="Maximum Memory")):
    """SparkListenerBlockManagerAdded."""

    manager: BlockManager
    time: Int | None = None
    memory: Int = 0


class BlockInfo(Event, rename=_named(manager="Block Manager ID", block="Block ID", level="Storage Level",
                                     memory="Memory Size", disk="Disk Size")):  # fmt: skip
    """Block Updated Info."""

    manager: BlockManager
    block: str = ""
    level: StorageLevel = msgspec.field(default_factory=StorageLevel)
    memory: Int = 0
    disk: Int = 0


class BlockUpdated(Event, rename=_named(info="Block Updated Info")):
    """SparkListenerBlockUpdated."""

    info: BlockInfo


class Unpersist(Event, rename=_named(rdd="RDD ID")):
    """SparkListenerUnpersistRDD."""

    rdd: Int


class StageMemory(Event, rename=_named(executor="Executor ID", memory="Executor Metrics")):
    """SparkListenerStageExecutorMetrics."""

    executor: str = ""
    memory: Memory = msgspec.field(default_factory=Memory)


class MemoryUpdate(Event, rename=_named(executor="Executor ID", updates="Executor Metrics Updated")):
    """SparkListenerExecutorMetricsUpdate."""

    executor: str = ""
    updates: list[StageMemory] = []


class LogStart(Event, rename=_named(version="Spark Version")):
    """SparkListenerLogStart."""

    version: str = ""


class AppStart(
    Event, rename=_named(name="App Name", id="App ID", time="Timestamp", user="User", attempt="App Attempt ID")
):
    """SparkListenerApplicationStart."""

    name: str = ""
    id: str | None = None
    time: Int | None = None
    user: str = ""
    attempt: str | None = None


class AppEnd(Event, rename=_named(time="Timestamp", code="ExitCode")):
    """SparkListenerApplicationEnd."""

    time: Int | None = None
    code: Int | None = None


class Environment(Event, rename=_named(spark="Spark Properties")):
    """SparkListenerEnvironmentUpdate: an object, or pairs in early versions."""

    spark: Any = None


class Amount(Event, rename=_named(amount="Amount")):
    """What a resource profile asks for."""

    amount: float = 1.0


class Profile(Event, rename=_named(id="Resource Profile Id", tasks="Task Resource Requests",
                                   executors="Executor Resource Requests")):  # fmt: skip
    """SparkListenerResourceProfileAdded."""

    id: Int = 0
    executors: dict[str, Amount] = {}
    tasks: dict[str, Amount] = {}


class SqlStart(Event, rename=_named(execution="executionId", root="rootExecutionId", description="description",
                                    plan="sparkPlanInfo", time="time")):  # fmt: skip
    """SparkListenerSQLExecutionStart, and -AdaptiveExecutionUpdate."""

    execution: Int
    root: Int | None = None
    description: str = ""
    plan: msgspec.Raw = msgspec.Raw()
    time: Int | None = None


class SqlEnd(Event, rename=_named(execution="executionId", time="time", error="errorMessage")):
    """SparkListenerSQLExecutionEnd."""

    execution: Int
    time: Int | None = None
    error: str | None = None


class DriverUpdates(Event, rename=_named(execution="executionId", updates="accumUpdates")):
    """SparkListenerDriverAccumUpdates."""

    execution: Int = -1
    updates: list[tuple[Int, Int]] = []


class StreamProgress(Event, rename=_named(progress="progress")):
    """QueryProgressEvent: an object, or its text."""

    progress: Any = None
