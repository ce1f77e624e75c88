"""Write job histories in Hadoop's native formats from plans: text and binary, with configuration and file name.

The formats are Hadoop's (Events.avpr of hadoop-mapreduce-client-core) and Avro's ("Binary Encoding" of the Avro 1.11
specification); the plans, names and numbers are ours.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, lru_cache
from typing import Any
from urllib.parse import quote_plus
from xml.sax.saxutils import escape

NAMESPACE = "org.apache.hadoop.mapreduce.jobhistory"
_TASK_GROUP = ("org.apache.hadoop.mapreduce.TaskCounter", "Map-Reduce Framework")
_FILE_GROUP = ("org.apache.hadoop.mapreduce.FileSystemCounter", "File System Counters")

_TYPES = (
    "JOB_SUBMITTED", "JOB_INITED", "JOB_FINISHED", "JOB_PRIORITY_CHANGED", "JOB_STATUS_CHANGED", "JOB_QUEUE_CHANGED",
    "JOB_FAILED", "JOB_KILLED", "JOB_ERROR", "JOB_INFO_CHANGED", "TASK_STARTED", "TASK_FINISHED", "TASK_FAILED",
    "TASK_UPDATED", "NORMALIZED_RESOURCE", "MAP_ATTEMPT_STARTED", "MAP_ATTEMPT_FINISHED", "MAP_ATTEMPT_FAILED",
    "MAP_ATTEMPT_KILLED", "REDUCE_ATTEMPT_STARTED", "REDUCE_ATTEMPT_FINISHED", "REDUCE_ATTEMPT_FAILED",
    "REDUCE_ATTEMPT_KILLED", "AM_STARTED",
)  # fmt: skip
# s string, l long, i int, b boolean, ? nullable string, c counters, C nullable counters, a array of int, m map
_RECORDS: dict[str, str] = {
    "JobFinished": "jobid:s finishTime:l finishedMaps:i finishedReduces:i failedMaps:i failedReduces:i "
    "totalCounters:c mapCounters:c reduceCounters:c",
    "JobInfoChange": "jobid:s submitTime:l launchTime:l",
    "JobInited": "jobid:s launchTime:l totalMaps:i totalReduces:i jobStatus:s uberized:b",
    "AMStarted": "applicationAttemptId:s startTime:l containerId:s nodeManagerHost:s nodeManagerPort:i "
    "nodeManagerHttpPort:i",
    "JobQueueChange": "jobid:s jobQueueName:s",
    "JobSubmitted": "jobid:s jobName:s userName:s submitTime:l jobConfPath:s acls:m jobQueueName:s workflowId:? "
    "workflowName:? workflowNodeName:? workflowAdjacencies:? workflowTags:?",
    "JobUnsuccessfulCompletion": "jobid:s finishTime:l finishedMaps:i finishedReduces:i jobStatus:s diagnostics:?",
    "MapAttemptFinished": "taskid:s attemptId:s taskType:s taskStatus:s mapFinishTime:l finishTime:l hostname:s "
    "port:i rackname:s state:s counters:c clockSplits:a cpuUsages:a vMemKbytes:a physMemKbytes:a",
    "ReduceAttemptFinished": "taskid:s attemptId:s taskType:s taskStatus:s shuffleFinishTime:l sortFinishTime:l "
    "finishTime:l hostname:s port:i rackname:s state:s counters:c clockSplits:a cpuUsages:a vMemKbytes:a "
    "physMemKbytes:a",
    "TaskAttemptStarted": "taskid:s taskType:s attemptId:s startTime:l trackerName:s httpPort:i shufflePort:i "
    "containerId:s locality:? avataar:?",
    "TaskAttemptUnsuccessfulCompletion": "taskid:s taskType:s attemptId:s finishTime:l hostname:s port:i rackname:s "
    "status:s error:s counters:C clockSplits:a cpuUsages:a vMemKbytes:a physMemKbytes:a",
    "TaskFailed": "taskid:s taskType:s finishTime:l error:s failedDueToAttempt:? status:s counters:C",
    "TaskFinished": "taskid:s taskType:s finishTime:l status:s counters:c successfulAttemptId:?",
    "TaskStarted": "taskid:s taskType:s startTime:l splitLocations:s",
}


@cache
def schema() -> dict[str, Any]:
    """The Avro schema of ``Event`` as line two of a history holds it."""
    counter = _record("JhCounter", [("name", "string"), ("displayName", "string"), ("value", "long")])
    group = _record(
        "JhCounterGroup",
        [("name", "string"), ("displayName", "string"), ("counts", {"type": "array", "items": counter})],
    )
    counters = _record("JhCounters", [("name", "string"), ("groups", {"type": "array", "items": group})])
    plain: dict[str, Any] = {
        "s": "string", "l": "long", "i": "int", "b": "boolean", "?": ["null", "string"], "C": ["null", "JhCounters"],
        "a": {"type": "array", "items": "int"}, "m": {"type": "map", "values": "string"},
    }  # fmt: skip
    defined = False
    records = []
    for name, fields in _RECORDS.items():
        made = []
        for each in fields.split():
            key, _, kind = each.partition(":")
            if kind == "c":
                made.append((key, "JhCounters" if defined else counters))
                defined = True
            else:
                made.append((key, plain[kind]))
        records.append(_record(name, made))
    kinds = {"type": "enum", "name": "EventType", "symbols": list(_TYPES)}
    return {
        "type": "record",
        "name": "Event",
        "namespace": NAMESPACE,
        "fields": [{"name": "type", "type": kinds}, {"name": "event", "type": records}],
    }


def _record(name: str, fields: list[tuple[str, Any]]) -> dict[str, Any]:
    return {
        "type": "record",
        "name": name,
        "fields": [
            {"name": key, "type": kind, **({"default": None} if isinstance(kind, list) else {})} for key, kind in fields
        ],
    }


_DISPLAY = {
    "CPU_MILLISECONDS": "CPU time spent (ms)", "GC_TIME_MILLIS": "GC time elapsed (ms)",
    "PHYSICAL_MEMORY_BYTES": "Physical memory (bytes) snapshot",
    "VIRTUAL_MEMORY_BYTES": "Virtual memory (bytes) snapshot",
    "COMMITTED_HEAP_BYTES": "Total committed heap usage (bytes)", "SPILLED_RECORDS": "Spilled Records",
    "HDFS_BYTES_READ": "HDFS: Number of bytes read", "FILE_BYTES_READ": "FILE: Number of bytes read",
    "HDFS_BYTES_WRITTEN": "HDFS: Number of bytes written", "FILE_BYTES_WRITTEN": "FILE: Number of bytes written",
}  # fmt: skip


@cache
def _display(name: str) -> str:
    return _DISPLAY.get(name, name.capitalize().replace("_", " "))


_SHUFFLE_ERRORS = ("BAD_ID", "CONNECTION", "IO_ERROR", "WRONG_LENGTH", "WRONG_MAP", "WRONG_REDUCE")


@dataclass(frozen=True)
class Attempt:
    """One attempt of a task. ``finish_ms`` None: still running (a job's last events)."""

    start_ms: int
    finish_ms: int | None
    state: str = "SUCCEEDED"
    host: str = "worker01.example.com"
    rack: str = "/rack1"
    shuffle_ms: int = 0
    sort_ms: int = 0
    error: str = ""
    locality: str = "NODE_LOCAL"
    avataar: str = "VIRGIN"


@dataclass(frozen=True)
class Task:
    """One task: attempts in order; counters of the task by name, file-system ones apart."""

    kind: str
    scheduled_ms: int
    attempts: tuple[Attempt, ...]
    counters: Mapping[str, int] = field(default_factory=dict)
    files: Mapping[str, int] = field(default_factory=dict)
    state: str = "SUCCEEDED"


@dataclass(frozen=True)
class Job:
    """One job, planned in full; ``events`` says what its history holds at a time."""

    cluster: int
    sequence: int
    name: str
    user: str
    queue: str
    submit_ms: int
    launch_ms: int
    finish_ms: int
    maps: tuple[Task, ...]
    reduces: tuple[Task, ...]
    conf: Mapping[str, str]
    state: str = "SUCCEEDED"
    diagnostics: str = ""

    @property
    def id(self) -> str:
        """Job id."""
        return f"job_{self.cluster}_{self.sequence:04d}"

    @property
    def file_name(self) -> str:
        """Name of the history in the done folder."""
        done = [sum(t.state == "SUCCEEDED" for t in side) for side in (self.maps, self.reduces)]
        parts = (
            self.id, self.submit_ms, _encoded(self.user), _encoded(self.name[:50]), self.finish_ms, *done, self.state,
            _encoded(self.queue), self.launch_ms,
        )  # fmt: skip
        return "-".join(map(str, parts)) + ".jhist"


def _encoded(text: str) -> str:
    return quote_plus(text, safe="*.").replace("-", "%2D") or "NA"


def _counters(task: Task, *, empty: bool = False) -> dict[str, Any]:
    groups = []
    for (name, shown), values in ((_FILE_GROUP, task.files), (_TASK_GROUP, task.counters)):
        if values and not empty:
            groups.append(
                {
                    "name": name,
                    "displayName": shown,
                    "counts": [{"name": k, "displayName": _display(k), "value": v} for k, v in values.items()],
                }
            )
    if groups and task.kind == "MAP":
        name = "org.apache.hadoop.mapreduce.lib.input.FileInputFormatCounter"
        count = {"name": "BYTES_READ", "displayName": "Bytes Read", "value": task.files.get("HDFS_BYTES_READ", 0)}
        groups.append({"name": name, "displayName": "File Input Format Counters ", "counts": [count]})
    if groups:
        errors = [{"name": e, "displayName": e, "value": 0} for e in _SHUFFLE_ERRORS]
        groups.append({"name": "Shuffle Errors", "displayName": "Shuffle Errors", "counts": errors})
    return {"name": "COUNTERS", "groups": groups}


def _buckets(attempt: Attempt, task: Task) -> dict[str, list[int]]:
    wall = (attempt.finish_ms or attempt.start_ms) - attempt.start_ms
    cpu = task.counters.get("CPU_MILLISECONDS", 0) if attempt.state == "SUCCEEDED" else 0
    virtual = task.counters.get("VIRTUAL_MEMORY_BYTES", 0) // 1024
    physical = task.counters.get("PHYSICAL_MEMORY_BYTES", 0) // 1024
    return {
        "clockSplits": [wall // 12] * 12,
        "cpuUsages": [cpu // 12] * 12,
        "vMemKbytes": [virtual * (i + 1) // 12 for i in range(12)],
        "physMemKbytes": [physical * (i + 1) // 12 for i in range(12)],
    }


Event = tuple[int, str, str, dict[str, Any]]
"""Time (ms), event type, record, fields."""


def _task_events(job: Job, task: Task, number: int, containers: Iterator[int]) -> Iterator[Event]:
    letter = "m" if task.kind == "MAP" else "r"
    tail = f"{job.cluster}_{job.sequence:04d}_{letter}_{number:06d}"
    task_id = f"task_{tail}"
    both = {"taskid": task_id, "taskType": task.kind}
    hosts = ",".join(sorted({a.host for a in task.attempts})) if task.kind == "MAP" else ""
    yield task.scheduled_ms, "TASK_STARTED", "TaskStarted", {
        **both, "startTime": task.scheduled_ms, "splitLocations": hosts,
    }  # fmt: skip
    chosen = None
    end = task.scheduled_ms
    running = False
    for index, attempt in enumerate(task.attempts):
        name = f"attempt_{tail}_{index}"
        yield attempt.start_ms, f"{task.kind}_ATTEMPT_STARTED", "TaskAttemptStarted", {
            **both, "attemptId": name, "startTime": attempt.start_ms, "trackerName": attempt.host, "httpPort": 8042,
            "shufflePort": 13562,
            "containerId": f"container_{job.cluster}_{job.sequence:04d}_01_{next(containers):06d}",
            "locality": attempt.locality, "avataar": attempt.avataar,
        }  # fmt: skip
        if attempt.finish_ms is None:
            running = True
            continue
        end = max(end, attempt.finish_ms)
        place = {"hostname": attempt.host, "port": 45454, "rackname": attempt.rack}
        buckets = _buckets(attempt, task)
        if attempt.state != "SUCCEEDED":
            yield attempt.finish_ms, f"{task.kind}_ATTEMPT_{attempt.state}", "TaskAttemptUnsuccessfulCompletion", {
                **both, "attemptId": name, "finishTime": attempt.finish_ms, **place, "status": attempt.state,
                "error": attempt.error, "counters": _counters(task, empty=True), **buckets,
            }  # fmt: skip
            if attempt.state == "FAILED" and task.state == "FAILED":
                chosen = name
            continue
        chosen = name
        if task.kind == "MAP":
            times = {"mapFinishTime": attempt.finish_ms - 1}
        else:
            shuffled = attempt.start_ms + attempt.shuffle_ms
            times = {"shuffleFinishTime": shuffled, "sortFinishTime": shuffled + attempt.sort_ms}
        record = "MapAttemptFinished" if task.kind == "MAP" else "ReduceAttemptFinished"
        yield attempt.finish_ms, f"{task.kind}_ATTEMPT_FINISHED", record, {
            **both, "attemptId": name, "taskStatus": "SUCCEEDED", **times, "finishTime": attempt.finish_ms, **place,
            "state": "map" if task.kind == "MAP" else "reduce > reduce", "counters": _counters(task), **buckets,
        }  # fmt: skip
    if running and task.state == "SUCCEEDED" and chosen is None:
        return
    if task.state == "SUCCEEDED":
        yield end, "TASK_FINISHED", "TaskFinished", {
            **both, "finishTime": end, "status": "SUCCEEDED", "counters": _counters(task),
            "successfulAttemptId": chosen,
        }  # fmt: skip
    else:
        error = next((a.error for a in reversed(task.attempts) if a.error), "")
        yield end, "TASK_FAILED", "TaskFailed", {
            **both, "finishTime": end, "error": error, "failedDueToAttempt": chosen, "status": task.state,
            "counters": _counters(task, empty=True),
        }  # fmt: skip


def events(job: Job) -> list[Event]:
    """Everything that happens to a job, in the order of time."""
    app = f"{job.cluster}_{job.sequence:04d}"
    am = job.submit_ms + 2_500
    found: list[Event] = [
        (am, "AM_STARTED", "AMStarted", {
            "applicationAttemptId": f"appattempt_{app}_000001", "startTime": am,
            "containerId": f"container_{app}_01_000001", "nodeManagerHost": "worker01.example.com",
            "nodeManagerPort": 45454, "nodeManagerHttpPort": 8042,
        }),
        (am, "JOB_SUBMITTED", "JobSubmitted", {
            "jobid": job.id, "jobName": job.name, "userName": job.user, "submitTime": job.submit_ms,
            "jobConfPath": f"hdfs://namenode:8020/user/{job.user}/.staging/{job.id}/job.xml", "acls": {},
            "jobQueueName": job.queue, "workflowId": "", "workflowName": "", "workflowNodeName": "",
            "workflowAdjacencies": "", "workflowTags": "",
        }),
        (am, "JOB_QUEUE_CHANGED", "JobQueueChange", {"jobid": job.id, "jobQueueName": job.queue}),
        (job.launch_ms, "JOB_INITED", "JobInited", {
            "jobid": job.id, "launchTime": job.launch_ms, "totalMaps": len(job.maps),
            "totalReduces": len(job.reduces), "jobStatus": "INITED", "uberized": False,
        }),
        (job.launch_ms, "JOB_INFO_CHANGED", "JobInfoChange", {
            "jobid": job.id, "submitTime": job.submit_ms, "launchTime": job.launch_ms,
        }),
    ]  # fmt: skip
    containers = iter(range(2, 10**6))
    tasks: list[Event] = []
    for side in (job.maps, job.reduces):
        for number, task in enumerate(side):
            tasks += _task_events(job, task, number, containers)
    tasks.sort(key=lambda event: event[0])
    found += tasks
    done = [sum(t.state == "SUCCEEDED" for t in side) for side in (job.maps, job.reduces)]
    ended = {"jobid": job.id, "finishTime": job.finish_ms, "finishedMaps": done[0], "finishedReduces": done[1]}
    if job.state == "SUCCEEDED":
        none = {"name": "TOTAL_COUNTERS", "groups": []}
        found.append((job.finish_ms, "JOB_FINISHED", "JobFinished", {
            **ended, "failedMaps": 0, "failedReduces": 0, "totalCounters": none, "mapCounters": none,
            "reduceCounters": none,
        }))  # fmt: skip
    elif job.state != "RUNNING":
        found.append((job.finish_ms, f"JOB_{job.state}", "JobUnsuccessfulCompletion", {
            **ended, "jobStatus": job.state, "diagnostics": job.diagnostics,
        }))  # fmt: skip
    return found


_NULLABLE = {
    name: [(e.partition(":")[0], e.endswith(":C")) for e in fields.split() if e[-1] in "?C"]
    for name, fields in _RECORDS.items()
}


_ORDER = {name: [e.partition(":")[0] for e in fields.split()] for name, fields in _RECORDS.items()}


def text_line(event: Event) -> bytes:
    """One event as Avro-Json, with the empty line Hadoop leaves behind it."""
    _, kind, record, given = event
    fields = {name: given[name] for name in _ORDER[record]}
    for name, counters in _NULLABLE[record]:
        value = fields[name]
        if value is not None:
            fields = {**fields, name: {f"{NAMESPACE}.JhCounters" if counters else "string": value}}
    body = json.dumps({"type": kind, "event": {f"{NAMESPACE}.{record}": fields}}, separators=(",", ":"))
    return body.encode() + b"\n\n"


def head(*, binary: bool) -> bytes:
    """Header and schema of a history."""
    return (
        (b"Avro-Binary\n" if binary else b"Avro-Json\n") + json.dumps(schema(), separators=(",", ":")).encode() + b"\n"
    )


def text(job: Job) -> bytes:
    """The whole history as Avro-Json."""
    return head(binary=False) + b"".join(map(text_line, events(job)))


def _long(value: int) -> bytes:
    """Avro's variable-length zig-zag number."""
    left = value << 1 ^ value >> 63
    found = bytearray()
    while left > 127:
        found.append(left & 127 | 128)
        left >>= 7
    found.append(left)
    return bytes(found)


@lru_cache(4096)  # names of counters, again and again
def _string(value: str) -> bytes:
    data = value.encode()
    return _long(len(data)) + data


def _array(items: list[bytes]) -> bytes:
    return (_long(len(items)) + b"".join(items) if items else b"") + b"\0"


def _encoded_counters(value: Mapping[str, Any]) -> bytes:
    groups = []
    for group in value["groups"]:
        counts = [_string(c["name"]) + _string(c["displayName"]) + _long(c["value"]) for c in group["counts"]]
        groups.append(_string(group["name"]) + _string(group["displayName"]) + _array(counts))
    return _string(value["name"]) + _array(groups)


_ENCODERS: dict[str, Callable[[Any], bytes]] = {
    "s": _string, "l": _long, "i": _long, "b": lambda value: b"\1" if value else b"\0", "c": _encoded_counters,
    "?": lambda value: b"\0" if value is None else b"\2" + _string(value),
    "C": lambda value: b"\0" if value is None else b"\2" + _encoded_counters(value),
    "a": lambda value: _array([_long(each) for each in value]),
    "m": lambda value: _array([_string(key) + _string(each) for key, each in value.items()]),
}  # fmt: skip
"""By the letter of a field's type: its value in Avro's binary encoding."""
_BRANCH = {name: number for number, name in enumerate(_RECORDS)}


def binary_record(event: Event) -> bytes:
    """One event as Avro-Binary."""
    _, kind, record, fields = event
    parts = [_long(_TYPES.index(kind)), _long(_BRANCH[record])]
    for each in _RECORDS[record].split():
        name, _, letter = each.partition(":")
        parts.append(_ENCODERS[letter](fields[name]))
    return b"".join(parts)


def binary(job: Job) -> bytes:
    """The whole history as Avro-Binary."""
    return head(binary=True) + b"".join(map(binary_record, events(job)))


def conf_xml(job: Job) -> bytes:
    """The configuration beside a history."""
    rows = [
        f"<property><name>{escape(k)}</name><value>{escape(v)}</value><source>job.xml</source></property>"
        for k, v in job.conf.items()
    ]
    return (
        '<?xml version="1.0" encoding="UTF-8"?><configuration>\n' + "\n".join(rows) + "\n</configuration>\n"
    ).encode()
