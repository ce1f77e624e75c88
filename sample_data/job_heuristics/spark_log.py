"""Writes event logs of made-up Spark applications, in the layout of Spark 3.5."""

from __future__ import annotations

import heapq
import json
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

MB = 2**20
Event = tuple[int, dict[str, Any]]
"""The time of an event (epoch ms) and its fields."""


@dataclass(frozen=True)
class StagePlan:
    """One stage: its tasks, the seconds of a task, and the bytes each reads and writes."""

    name: str
    tasks: int
    seconds: float
    input_mb: float = 0.0
    shuffle_read_mb: float = 0.0
    shuffle_write_mb: float = 0.0
    output_mb: float = 0.0
    spread: float = 0.1
    hot: int = 0
    hot_factor: float = 1.0
    spill: float = 0.0
    gc_share: float = 0.02
    failing: float = 0.0


@dataclass(frozen=True)
class AppPlan:
    """One application: its executors, its jobs (each a chain of stages), and what is set."""

    name: str
    user: str
    queue: str
    jobs: tuple[tuple[StagePlan, ...], ...]
    executors: int = 4
    cores: int = 2
    memory_mb: int = 4096
    heap_mb: float = 2500.0
    driver_s: float = 2.0
    table: str = ""
    files: int = 40
    lost: int = 0
    conf: dict[str, str] = field(default_factory=dict)


def line(event: dict[str, Any]) -> bytes:
    """Write one event."""
    return json.dumps(event, separators=(",", ":")).encode() + b"\n"


def text(events: list[Event]) -> bytes:
    """Write all events."""
    return b"".join(line(event) for _, event in events)


def properties(plan: AppPlan, app_id: str) -> dict[str, str]:
    """The Spark properties of an application."""
    return {
        "spark.app.id": app_id,
        "spark.app.name": plan.name,
        "spark.master": "yarn",
        "spark.submit.deployMode": "cluster",
        "spark.yarn.queue": plan.queue,
        "spark.driver.memory": "2g",
        "spark.driver.cores": "1",
        "spark.executor.instances": str(plan.executors),
        "spark.executor.memory": f"{plan.memory_mb}m",
        "spark.executor.cores": str(plan.cores),
        "spark.serializer": "org.apache.spark.serializer.KryoSerializer",
        "spark.shuffle.service.enabled": "true",
        "spark.dynamicAllocation.enabled": "false",
        "spark.sql.shuffle.partitions": "200",
    } | plan.conf


class _Writer:
    """Builds the events of one application in the order of time."""

    def __init__(self, plan: AppPlan, app_id: str, start_ms: int, seed: int) -> None:
        self.plan, self.app_id, self.start = plan, app_id, start_ms
        self.draw = random.Random(f"{seed} {app_id}")
        self.events: list[Event] = []
        self.now = start_ms
        self.task = self.stage = 0

    def add(self, ms: int, name: str, **fields: Any) -> None:
        self.events.append((ms, {"Event": name} | {key.replace("_", " "): value for key, value in fields.items()}))

    def run(self) -> list[Event]:
        """Return all events, sorted by time."""
        self._begin()
        for number, stages in enumerate(self.plan.jobs):
            self.now += int(self.plan.driver_s * 1000)
            self._job(number, stages)
        self.now += int(self.plan.driver_s * 500)
        self.add(self.now, "SparkListenerApplicationEnd", Timestamp=self.now)
        self.events.sort(key=lambda event: event[0])
        return self.events

    def _begin(self) -> None:
        plan, start = self.plan, self.start
        self.add(start, "SparkListenerLogStart", Spark_Version="3.5.1")
        asked = {
            name: {"Resource Name": name, "Amount": amount, "Discovery Script": "", "Vendor": ""}
            for name, amount in (("cores", plan.cores), ("memory", plan.memory_mb))
        }
        self.add(start, "SparkListenerResourceProfileAdded", Resource_Profile_Id=0, Executor_Resource_Requests=asked,
                 Task_Resource_Requests={"cpus": {"Resource Name": "cpus", "Amount": 1.0}})  # fmt: skip
        self._manager(start, "driver", "node-0")
        self.add(start, "SparkListenerEnvironmentUpdate", JVM_Information={"Java Version": "17.0.9"},
                 Spark_Properties=properties(plan, self.app_id), Hadoop_Properties={}, System_Properties={},
                 Classpath_Entries={})  # fmt: skip
        self.add(start, "SparkListenerApplicationStart", App_Name=plan.name, App_ID=self.app_id, Timestamp=start,
                 User=plan.user)  # fmt: skip
        for number in range(1, plan.executors + 1):
            at = start + 900 + 40 * number
            info = {"Host": f"node-{number}", "Total Cores": plan.cores, "Log Urls": {}, "Resource Profile Id": 0}
            self.add(at, "SparkListenerExecutorAdded", Timestamp=at, Executor_ID=str(number), Executor_Info=info)
            self._manager(at, str(number), f"node-{number}")
        self.now = start + 1500

    def _manager(self, at: int, executor: str, host: str) -> None:
        self.add(at, "SparkListenerBlockManagerAdded", Maximum_Memory=int(self.plan.memory_mb * 0.6 * MB), Timestamp=at,
                 Block_Manager_ID={"Executor ID": executor, "Host": host, "Port": 7000})  # fmt: skip

    def _job(self, number: int, stages: tuple[StagePlan, ...]) -> None:
        first = self.stage
        facts: dict[str, str] = {"spark.job.description": f"{self.plan.name}, part {number + 1}"}
        if self.plan.table:
            self._sql_start(number, stages)
            facts["spark.sql.execution.id"] = str(number)
        infos = [self._info(first + k, stage, first) for k, stage in enumerate(stages)]
        self.add(self.now, "SparkListenerJobStart", Job_ID=number, Submission_Time=self.now, Stage_Infos=infos,
                 Stage_IDs=[first + k for k in range(len(stages))], Properties=facts)  # fmt: skip
        for k, stage in enumerate(stages):
            self._run_stage(first + k, stage, first, number)
        self.stage += len(stages)
        self.add(self.now, "SparkListenerJobEnd", Job_ID=number, Completion_Time=self.now,
                 Job_Result={"Result": "JobSucceeded"})  # fmt: skip
        if self.plan.table:
            self.add(self.now, f"{_SQL}End", executionId=number, time=self.now)

    @staticmethod
    def _info(number: int, stage: StagePlan, first: int, **times: int) -> dict[str, Any]:
        rdd = {
            "RDD ID": number, "Name": "MapPartitionsRDD", "Callsite": stage.name, "Parent IDs": [],
            "Storage Level": {"Use Disk": False, "Use Memory": False, "Deserialized": False, "Replication": 1},
            "Number of Partitions": stage.tasks, "Number of Cached Partitions": 0, "Memory Size": 0, "Disk Size": 0,
        }  # fmt: skip
        return {
            "Stage ID": number, "Stage Attempt ID": 0, "Stage Name": stage.name, "Number of Tasks": stage.tasks,
            "RDD Info": [rdd], "Parent IDs": [number - 1] if number > first else [], "Details": "", "Accumulables": [],
            "Resource Profile Id": 0,
        } | times  # fmt: skip

    def _run_stage(self, number: int, stage: StagePlan, first: int, job: int) -> None:
        begin = self.now + 20
        submitted = {"Submission Time": begin}
        self.add(
            begin,
            "SparkListenerStageSubmitted",
            Stage_Info=self._info(number, stage, first, **submitted),
            Properties={},
        )
        slots = [(begin + 10, str(1 + k % self.plan.executors)) for k in range(self.plan.executors * self.plan.cores)]
        heapq.heapify(slots)
        end = begin
        waiting = [(index, 0) for index in range(stage.tasks)]
        while waiting:
            index, attempt = waiting.pop(0)
            launch, executor = heapq.heappop(slots)
            fails = attempt == 0 and self.draw.random() < stage.failing
            finish = self._run_task(number, stage, (index, attempt), (launch, executor), fails, job)
            if fails:
                waiting.append((index, 1))
            heapq.heappush(slots, (finish + 2, executor))
            end = max(end, finish)
        self.now = end + 15
        times = {"Submission Time": begin, "Completion Time": self.now}
        self.add(self.now, "SparkListenerStageCompleted", Stage_Info=self._info(number, stage, first, **times))

    def _run_task(
        self, number: int, stage: StagePlan, who: tuple[int, int], slot: tuple[int, str], fails: bool, job: int
    ) -> int:
        """Add one attempt of a task; returns when it ends."""
        (index, attempt), (launch, executor) = who, slot
        factor = max(0.2, self.draw.gauss(1, stage.spread)) * (stage.hot_factor if index < stage.hot else 1)
        run = max(1, int(stage.seconds * 1000 * factor * (0.3 if fails else 1)))
        finish = launch + run + 25
        info = {
            "Task ID": self.task, "Index": index, "Attempt": attempt, "Partition ID": index, "Launch Time": launch,
            "Executor ID": executor, "Host": f"node-{executor}", "Locality": "NODE_LOCAL", "Speculative": False,
            "Getting Result Time": 0, "Finish Time": 0, "Failed": False, "Killed": False, "Accumulables": [],
        }  # fmt: skip
        self.task += 1
        self.add(launch, "SparkListenerTaskStart", Stage_ID=number, Stage_Attempt_ID=0, Task_Info=info)
        reason: dict[str, Any] = {"Reason": "Success"}
        if fails:
            reason = {"Reason": "ExceptionFailure", "Class Name": "java.io.IOException",
                      "Description": f"connection to shard {index} lost", "Stack Trace": []}  # fmt: skip
        metrics = self._metrics(stage, run, factor)
        ended = info | {"Finish Time": finish, "Failed": fails, "Accumulables": self._updates(metrics, job)}
        heap = int(self.plan.heap_mb * MB * self.draw.uniform(0.7, 1))
        memory = dict.fromkeys(_MEMORY, 0) | {"JVMHeapMemory": heap, "OnHeapUnifiedMemory": heap // 3}
        self.add(finish, "SparkListenerTaskEnd", Stage_ID=number, Stage_Attempt_ID=0, Task_Type="ShuffleMapTask",
                 Task_End_Reason=reason, Task_Info=ended, Task_Executor_Metrics=memory, Task_Metrics=metrics)  # fmt: skip
        return finish

    def _metrics(self, stage: StagePlan, run: int, factor: float) -> dict[str, Any]:
        def share(mb: float) -> int:
            return int(mb * MB * factor)

        read = share(stage.shuffle_read_mb)
        return {
            "Executor Deserialize Time": 12, "Executor Deserialize CPU Time": 9_000_000, "Executor Run Time": run,
            "Executor CPU Time": int(run * 0.7) * 1_000_000, "Peak Execution Memory": share(stage.shuffle_read_mb) * 2,
            "Result Size": 2100, "JVM GC Time": int(run * stage.gc_share), "Result Serialization Time": 1,
            "Memory Bytes Spilled": share(stage.spill * 3), "Disk Bytes Spilled": share(stage.spill),
            "Shuffle Read Metrics": {
                "Remote Blocks Fetched": 3, "Local Blocks Fetched": 1, "Fetch Wait Time": run // 50,
                "Remote Bytes Read": read - read // 4, "Remote Bytes Read To Disk": 0, "Local Bytes Read": read // 4,
                "Total Records Read": read // 100, "Remote Requests Duration": 0,
                "Push Based Shuffle": dict.fromkeys(_PUSH, 0),
            },
            "Shuffle Write Metrics": {
                "Shuffle Bytes Written": share(stage.shuffle_write_mb), "Shuffle Write Time": run * 20_000,
                "Shuffle Records Written": share(stage.shuffle_write_mb) // 100,
            },
            "Input Metrics": {"Bytes Read": share(stage.input_mb), "Records Read": share(stage.input_mb) // 200},
            "Output Metrics": {"Bytes Written": share(stage.output_mb), "Records Written": share(stage.output_mb) // 200},
            "Updated Blocks": [],
        }  # fmt: skip

    def _updates(self, metrics: dict[str, Any], job: int) -> list[dict[str, Any]]:
        found = [
            {"ID": 900 + k, "Name": f"internal.metrics.{name}", "Update": value, "Value": value, "Internal": True,
             "Count Failed Values": True}
            for k, (name, value) in enumerate(
                (("executorRunTime", metrics["Executor Run Time"]), ("executorCpuTime", metrics["Executor CPU Time"]),
                 ("resultSize", 2100), ("jvmGCTime", metrics["JVM GC Time"]), ("executorDeserializeTime", 12),
                 ("shuffle.write.bytesWritten", metrics["Shuffle Write Metrics"]["Shuffle Bytes Written"]))
            )
        ]  # fmt: skip
        if self.plan.table:
            rows = metrics["Input Metrics"]["Records Read"]
            for k, value in ((2, rows), (3, rows // 20), (4, metrics["Executor Run Time"])):
                found.append({"ID": 10 * job + k, "Name": "", "Update": str(value), "Value": str(value), "Internal": True,
                              "Count Failed Values": True, "Metadata": "sql"})  # fmt: skip
        return found

    def _sql_start(self, number: int, stages: tuple[StagePlan, ...]) -> None:
        """Add a SQL execution: a scan, a filter above it, an aggregate."""
        first = 10 * number

        def node(name: str, text: str, below: list[Any], *metrics: tuple[str, int, str]) -> dict[str, Any]:
            listed = [{"name": n, "accumulatorId": first + k, "metricType": kind} for n, k, kind in metrics]
            return {"nodeName": name, "simpleString": text, "children": below, "metadata": {}, "metrics": listed}

        table = self.plan.table
        scan = node(f"Scan parquet {table}", f"FileScan parquet {table}[day#1,amount#2] PartitionFilters: []", [],
                    ("number of files read", 0, "sum"), ("size of files read", 1, "size"),
                    ("number of output rows", 2, "sum"))  # fmt: skip
        kept = node("Filter", "Filter (amount#2 > 0)", [scan], ("number of output rows", 3, "sum"))
        plan = node("HashAggregate", "HashAggregate(keys=[day#1], functions=[sum(amount#2)])", [kept],
                    ("time in aggregation build", 4, "timing"))  # fmt: skip
        self.add(self.now, f"{_SQL}Start", executionId=number, rootExecutionId=number, details="",
                 description=f"select day, sum(amount) from {table}", physicalPlanDescription="", sparkPlanInfo=plan,
                 time=self.now, modifiedConfigs={})  # fmt: skip
        size = int(sum(stage.input_mb * stage.tasks for stage in stages) * MB)
        self.add(self.now + 1, "org.apache.spark.sql.execution.ui.SparkListenerDriverAccumUpdates", executionId=number,
                 accumUpdates=[[first, self.plan.files], [first + 1, size]])  # fmt: skip


_SQL = "org.apache.spark.sql.execution.ui.SparkListenerSQLExecution"
_MEMORY = (
    "JVMHeapMemory", "JVMOffHeapMemory", "OnHeapExecutionMemory", "OffHeapExecutionMemory", "OnHeapStorageMemory",
    "OffHeapStorageMemory", "OnHeapUnifiedMemory", "OffHeapUnifiedMemory", "DirectPoolMemory", "MappedPoolMemory",
    "ProcessTreeJVMRSSMemory", "ProcessTreePythonRSSMemory", "ProcessTreeOtherRSSMemory", "MinorGCCount", "MinorGCTime",
    "MajorGCCount", "MajorGCTime", "TotalGCTime",
)  # fmt: skip
_PUSH = (
    "Corrupt Merged Block Chunks", "Merged Fetch Fallback Count", "Merged Remote Blocks Fetched",
    "Merged Local Blocks Fetched", "Merged Remote Bytes Read", "Merged Local Bytes Read",
)  # fmt: skip


def events(plan: AppPlan, app_id: str, start_ms: int, seed: int = 1) -> list[Event]:
    """Return the events of an application that starts at ``start_ms``, in the order of time."""
    return _Writer(plan, app_id, start_ms, seed).run()


def grown(found: list[Event], until_ms: int) -> Iterator[bytes]:
    """Yield the lines that are written by ``until_ms``, and take them from ``found``."""
    while found and found[0][0] <= until_ms:
        yield line(found.pop(0)[1])
