"""Writes histories of made-up Tez applications: events, and from them proto files, text histories and a server's answers."""

from __future__ import annotations

import json
import random
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

MB = 2**20
CLASSES = {
    "map": "org.apache.hadoop.hive.ql.exec.tez.MapTezProcessor",
    "reduce": "org.apache.hadoop.hive.ql.exec.tez.ReduceTezProcessor",
    "scope": "org.apache.pig.backend.hadoop.executionengine.tez.runtime.PigProcessor",
}
CONF = {
    "hive.execution.engine": "tez", "hive.tez.container.size": "4096", "tez.am.resource.memory.mb": "1024",
    "mapreduce.job.reduce.slowstart.completedmaps": "0.05", "tez.runtime.io.sort.mb": "256",
}  # fmt: skip
SYNC = bytes(range(100, 116))
"""Sync mark of the sequence files."""


@dataclass(frozen=True)
class VertexPlan:
    """One vertex: tasks, seconds and MB of each; ``inputs``: (vertex, how data move); ``hot``: tasks with ten times as much."""

    name: str
    side: str
    tasks: int
    seconds: float
    mb: float = 64.0
    inputs: tuple[tuple[str, str], ...] = ()
    hot: int = 0
    memory_mb: float = 900.0
    failing: int = 0
    spilled: float = 1.0
    processor: str = ""


@dataclass(frozen=True)
class DagPlan:
    """One DAG: its vertices, those that others read first; ``slots``: tasks at once; ``ends``: its final state."""

    name: str
    vertices: tuple[VertexPlan, ...]
    slots: int = 8
    ends: str = "SUCCEEDED"
    caller: str = ""


@dataclass(frozen=True)
class Event:
    """One event: what happened (``TASK_FINISHED``), when (epoch ms), the type and id of its entity, and what it says."""

    kind: str
    at_ms: int
    entity: str
    name: str
    facts: dict[str, Any] = field(default_factory=dict)


def counters(plan: VertexPlan, task: int, ms: int) -> dict[str, Any]:
    """Make a task's counters."""
    read = int(plan.mb * MB * (10 if task < plan.hot else 1))
    records = max(1, read // 200)
    files = {"HDFS_BYTES_READ": 0 if plan.inputs else read, "FILE_BYTES_READ": 1000}
    own = {
        "SPILLED_RECORDS": int(records * plan.spilled), "GC_TIME_MILLIS": ms // 200, "CPU_MILLISECONDS": ms * 7 // 10,
        "PHYSICAL_MEMORY_BYTES": int(plan.memory_mb * MB), "VIRTUAL_MEMORY_BYTES": int(plan.memory_mb * 2 * MB),
        "OUTPUT_RECORDS": records, "OUTPUT_BYTES": read // 4, "SHUFFLE_BYTES": read if plan.inputs else 0,
    }  # fmt: skip
    groups = (("FileSystemCounter", files), ("TaskCounter", own))
    return {
        "counterGroups": [
            {
                "counterGroupName": f"org.apache.tez.common.counters.{name}",
                "counters": [{"counterName": key, "counterValue": value} for key, value in counts.items() if value],
            }
            for name, counts in groups
        ]
    }


def events(
    app_id: str,
    dags: Sequence[DagPlan],
    start_ms: int,
    seed: int,
    *,
    user: str = "ana",
    conf: dict[str, str] | None = None,
) -> list[Event]:
    """Make all events of an application, in order of time."""
    dice, ids = random.Random(seed), app_id.removeprefix("application_")
    found = [
        Event("APP_LAUNCHED", start_ms, "TEZ_APPLICATION", f"tez_{app_id}", {
            "config": CONF if conf is None else conf, "applicationId": app_id, "user": user, "tezVersion": {"version": "0.10.4"},
        })
    ]  # fmt: skip
    at = start_ms + 4_000
    for number, plan in enumerate(dags, 1):
        made, at = _dag(plan, f"{ids}_{number}", at, dice, user)
        found += made
        at += 3_000
    return sorted(found, key=lambda event: event.at_ms)


def _dag(plan: DagPlan, ids: str, at: int, dice: random.Random, user: str) -> tuple[list[Event], int]:
    """Make the events of one DAG that is submitted at a time, and say when it ends."""
    dag = f"dag_{ids}"
    edges = [
        {"edgeId": f"{a}{v.name}", "inputVertexName": a, "outputVertexName": v.name, "dataMovementType": how}
        for v in plan.vertices for a, how in v.inputs
    ]  # fmt: skip
    names = {v.name: f"vertex_{ids}_{k:02d}" for k, v in enumerate(plan.vertices)}
    submitted = {"dagName": plan.name, "queueName": "etl", "user": user, "callerId": plan.caller or f"{user}_{plan.name}",
                 "callerType": "HIVE_QUERY_ID", "dagPlan": {"dagName": plan.name, "vertices": [], "edges": edges}}  # fmt: skip
    begin = at + 800
    out = [
        Event("DAG_SUBMITTED", at, "TEZ_DAG_ID", dag, submitted),
        Event("DAG_INITIALIZED", at + 300, "TEZ_DAG_ID", dag, {"vertexNameIdMapping": names}),
        Event("DAG_STARTED", begin, "TEZ_DAG_ID", dag, {"startTime": begin, "status": "RUNNING"}),
    ]
    ends: dict[str, int] = {}
    slots = [begin] * plan.slots
    last: tuple[int, str] = (begin, "")
    for k, v in enumerate(plan.vertices):
        vertex = names[v.name]
        ready = max((ends[a] for a, _ in v.inputs), default=begin)
        out.append(Event("VERTEX_INITIALIZED", ready, "TEZ_VERTEX_ID", vertex, {
            "vertexName": v.name, "numTasks": v.tasks, "processorClassName": v.processor or CLASSES[v.side], "initTime": ready,
        }))  # fmt: skip
        out.append(Event("VERTEX_STARTED", ready, "TEZ_VERTEX_ID", vertex, {"startTime": ready, "status": "RUNNING"}))
        source = last
        for t in range(v.tasks):
            task, slot = f"{ids}_{k:02d}_{t:06d}", slots.index(min(slots))
            given = max(ready, slots[slot])
            for attempt in range(1 + (t < v.failing)):
                wrong = attempt < (t < v.failing)
                ms = int(v.seconds * 1000 * dice.uniform(0.9, 1.1) * (8 if t < v.hot else 1)) // (2 if wrong else 1)
                start, end = given + 900, given + 900 + ms
                facts: dict[str, Any] = {
                    "creationTime": ready, "allocationTime": given, "startTime": start, "endTime": end,
                    "status": "FAILED" if wrong else "SUCCEEDED", "nodeId": f"node{slot % 4 + 1}.example:45454",
                    "containerId": f"container_{ids.rpartition('_')[0]}_01_{slot + 2:06d}",
                    "diagnostics": "Error: Java heap space" if wrong else "", "counters": counters(v, t, ms),
                }  # fmt: skip
                if wrong:
                    facts |= {"taskAttemptErrorEnum": "FRAMEWORK_ERROR", "taskFailureType": "NON_FATAL"}
                if source[1]:
                    facts["lastDataEvents"] = [{"timestamp": source[0], "taskAttemptId": source[1]}]
                name = f"attempt_{task}_{attempt}"
                began = {"startTime": start, "status": "RUNNING"}
                out.append(Event("TASK_ATTEMPT_STARTED", start, "TEZ_TASK_ATTEMPT_ID", name, began))
                out.append(Event("TASK_ATTEMPT_FINISHED", end, "TEZ_TASK_ATTEMPT_ID", name, facts))
                given = end
            out.append(
                Event(
                    "TASK_STARTED", start, "TEZ_TASK_ID", f"task_{task}", {"scheduledTime": ready, "status": "RUNNING"}
                )
            )
            out.append(Event("TASK_FINISHED", end, "TEZ_TASK_ID", f"task_{task}", {
                "status": "SUCCEEDED", "successfulAttemptId": name, "counters": counters(v, t, ms), "endTime": end,
            }))  # fmt: skip
            slots[slot] = end
            ends[v.name] = max(ends.get(v.name, 0), end)
            last = max(last, (end, name))
        out.append(
            Event(
                "VERTEX_FINISHED",
                ends[v.name],
                "TEZ_VERTEX_ID",
                vertex,
                {"status": "SUCCEEDED", "endTime": ends[v.name]},
            )
        )
    end = max(ends.values()) + 50
    why = "" if plan.ends == "SUCCEEDED" else "Vertex did not succeed due to OWN_TASK_FAILURE"
    out.append(Event("DAG_FINISHED", end, "TEZ_DAG_ID", dag, {
        "startTime": begin, "endTime": end, "status": plan.ends, "diagnostics": why,
    }))  # fmt: skip
    return out, end


def grown(waiting: list[Event], now_ms: int) -> list[Event]:
    """Remove from ``waiting`` the events that have happened by now."""
    due = [event for event in waiting if event.at_ms <= now_ms]
    del waiting[: len(due)]
    return due


# --- as Tez's proto logger writes them -----------------------------------------------------------------------------------


def proto_head() -> bytes:
    """The header of a sequence file."""
    names = (b"org.apache.hadoop.io.NullWritable", b"org.apache.tez.dag.history.logging.proto.ProtoMessageWritable")
    codec = b"org.apache.hadoop.io.compress.DefaultCodec"
    return (
        b"SEQ\x06"
        + b"".join(bytes([len(n)]) + n for n in names)
        + b"\x01\x00"
        + bytes([len(codec)])
        + codec
        + bytes(4)
        + SYNC
    )


def proto(found: Iterable[Event]) -> bytes:
    """Records of a sequence file, each after a sync mark."""
    return b"".join(map(_record, found))


_FIELDS = {"TEZ_DAG_ID": 6, "TEZ_VERTEX_ID": 7, "TEZ_TASK_ID": 8, "TEZ_TASK_ATTEMPT_ID": 9}


def _record(event: Event) -> bytes:
    app = "_".join(event.name.removeprefix("tez_").split("_")[1:3])
    message = (
        _text(1, event.kind) + _varint(16) + _varint(event.at_ms) + _text(3, "ana") + _text(4, f"application_{app}")
    )
    if event.entity in _FIELDS:
        message += _text(_FIELDS[event.entity], event.name)
    for key, value in event.facts.items():
        shown = value if isinstance(value, str) else json.dumps(value)
        pair = _text(1, key) + _text(2, shown)
        message += _varint(10 << 3 | 2) + _varint(len(pair)) + pair
    value = zlib.compress(_varint(len(message)) + message)
    return b"\xff\xff\xff\xff" + SYNC + len(value).to_bytes(4, "big") + bytes(4) + value


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def _text(number: int, text: str) -> bytes:
    data = text.encode()
    return _varint(number << 3 | 2) + _varint(len(data)) + data


# --- as text -------------------------------------------------------------------------------------------------------------


def simple(found: Iterable[Event]) -> bytes:
    """A simple history: a record per event."""
    records = (
        {
            "entityId": e.name,
            "entityType": e.entity,
            "events": [{"ts": e.at_ms, "eventType": e.kind}],
            "otherInfo": e.facts,
        }
        for e in found
    )
    return b"".join(json.dumps(record).encode() + b"\x01\n" for record in records)


def entities(found: Iterable[Event]) -> list[dict[str, Any]]:
    """What a timeline server makes of events: one entity each, the newest first."""
    merged: dict[tuple[str, str], dict[str, Any]] = {}
    for e in found:
        one = merged.setdefault((e.entity, e.name), {
            "events": [], "entitytype": e.entity, "entity": e.name, "starttime": e.at_ms, "domain": "DEFAULT",
            "relatedentities": {}, "primaryfilters": {}, "otherinfo": {},
        })  # fmt: skip
        one["events"].insert(0, {"timestamp": e.at_ms, "eventtype": e.kind, "eventinfo": {}})
        one["otherinfo"] |= e.facts
    return sorted(merged.values(), key=lambda one: (-one["starttime"], one["entity"]))


def answer(found: Iterable[Event], kind: str) -> bytes:
    """A server's answer: all entities of a type."""
    return json.dumps({"entities": [one for one in entities(found) if one["entitytype"] == kind]}).encode()


def answers(found: Sequence[Event]) -> dict[str, bytes]:
    """The five answers that hold an application, by file name."""
    kinds = ("TEZ_DAG_ID", "TEZ_VERTEX_ID", "TEZ_TASK_ID", "TEZ_TASK_ATTEMPT_ID")
    one = next(one for one in entities(found) if one["entitytype"] == "TEZ_APPLICATION")
    return {"TEZ_APPLICATION.json": json.dumps(one).encode(), **{f"{kind}.json": answer(found, kind) for kind in kinds}}
