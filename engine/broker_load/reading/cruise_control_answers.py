"""Cruise Control's answers as JSON, and the rows that answers in any format become.

Answers of ``load``, ``partition_load``, ``kafka_cluster_state`` and proposals.
"""

from __future__ import annotations

import re
from typing import Any

from engine.broker_load.reading.fields import file_time, id_list, integer, number, word
from engine.broker_load.tables.inputs import (
    ANSWER_BROKERS,
    ANSWER_DIRS,
    ANSWER_GOALS,
    ANSWER_HOSTS,
    ANSWER_PARTITIONS,
    LOG_DIRS,
    TOPOLOGY,
)
from engine.core.reading import Document, Problem, Reading, Source, clean
from engine.core.tables import Table
from engine.formats import json_text

FIELDS = {
    "NumCore": "cores",
    "CpuPct": "cpu_pct",
    "DiskMB": "disk_mb",
    "DiskPct": "disk_pct",
    "DiskCapacityMB": "disk_cap_mb",
    "NetworkInCapacity": "nw_in_cap_kbs",
    "NetworkOutCapacity": "nw_out_cap_kbs",
    "LeaderNwInRate": "leader_nw_in_kbs",
    "FollowerNwInRate": "follower_nw_in_kbs",
    "NwOutRate": "nw_out_kbs",
    "PnwOutRate": "pnw_out_kbs",
    "Leaders": "leaders",
    "Replicas": "replicas",
}


_STATES = frozenset({"ALIVE", "DEAD", "NEW", "DEMOTED", "BAD_DISKS"})


TABLES = (ANSWER_BROKERS, ANSWER_HOSTS, ANSWER_DIRS, ANSWER_PARTITIONS, ANSWER_GOALS, TOPOLOGY, LOG_DIRS)


class AnswerRows:
    """Rows being collected from one answer, its problems, and the number of records that could not be read."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.time = file_time(source)
        self.tables: dict[str, dict[str, list[Any]]] = {t.name: {c.name: [] for c in t.columns} for t in TABLES}
        self.problems: list[Problem] = []
        self.bad = 0
        self.bad_line: int | None = None

    def add(self, table: Table, row: dict[str, Any]) -> None:
        """Append a row to ``table``; missing columns are null."""
        for name, values in self.tables[table.name].items():
            values.append(row.get(name))

    def wrong(self, line: int | None = None) -> None:
        """Count something that could not be read."""
        self.bad += 1
        self.bad_line = self.bad_line or line

    def reading(self, size: int, what: str) -> Reading:
        """Return the rows read from ``size`` bytes; ``what`` names the expected file in the problem's text."""
        if self.bad:
            reason = f"rows that do not belong in {what}"
            problem = Problem.at(self.source.path, "bad-record", reason, line=self.bad_line, count=self.bad)
            self.problems.append(problem)
        filled = {name: rows for name, rows in self.tables.items() if next(iter(rows.values()))}
        return Reading(rows=dict(filled), problems=self.problems, consumed=size)

    def broker(self, answer: str, item: Any, is_host: bool = False, line: int | None = None) -> None:
        """Add a broker or host row with Cruise Control's JSON keys (values may be texts with thousands separators)."""
        if not isinstance(item, dict):
            return self.wrong(line)
        row: dict[str, Any] = {"answer": answer, "host": word(item.get("Host")), "rack": word(item.get("Rack"))}
        if is_host and not row["host"]:
            return self.wrong(line)
        if not is_host:
            broker, state = integer(item.get("Broker")), word(item.get("BrokerState"))
            if broker is None:
                return self.wrong(line)
            row |= {"broker": broker, "state": state if state in _STATES else None}
        for theirs, ours in FIELDS.items():
            if theirs in item:
                value = number(item[theirs])
                if value is None:
                    self.wrong(line)
                elif ours in ("leaders", "replicas"):
                    row[ours] = int(value) if 0 <= value < 2**53 else None
                else:
                    row[ours] = value
        self.add(ANSWER_HOSTS if is_host else ANSWER_BROKERS, row)
        if not is_host:
            for folder, content in as_map(item.get("DiskState")).items():
                self.directory(answer, row["broker"], folder, content)
        return None

    def counts(self, broker: int | None, leaders: int | None, replicas: int | None) -> None:
        """Add a broker of ``kafka_cluster_state`` with its replica counts."""
        row = {"answer": "kafka_cluster_state", "broker": broker, "leaders": leaders, "replicas": replicas}
        self.add(ANSWER_BROKERS, row)

    def directory(self, answer: str, broker: int, folder: str, content: Any) -> None:
        """Add a log directory of a broker: its load, or the word that marks it dead."""
        row: dict[str, Any] = {"answer": answer, "broker": broker, "log_dir": clean(folder)}
        if isinstance(content, str):
            row["error"] = clean(content)
        elif isinstance(content, dict):
            row |= {"disk_mb": number(content.get("DiskMB")), "disk_pct": number(content.get("DiskPct"))}
            row["leaders"], row["replicas"] = (integer(content.get(k)) for k in ("NumLeaderReplicas", "NumReplicas"))
        if row.get("error") is None and row.get("disk_mb") is None:
            self.wrong()
        else:
            self.add(ANSWER_DIRS, row)

    def partition(self, item: Any, line: int | None = None) -> None:
        """Add a record of ``partition_load``."""
        topic = item.get("topic") if isinstance(item, dict) else None
        if not isinstance(topic, str) or not topic:
            return self.wrong(line)
        partition, leader = integer(item.get("partition")), integer(item.get("leader"))
        followers = id_list(item.get("followers"))
        names = ("cpu", "disk", "networkInbound", "networkOutbound", "msg_in")
        values = [number(item.get(name)) for name in names]
        if partition is None or leader is None or followers is None or any(value is None for value in values):
            return self.wrong(line)
        row = {"topic": clean(topic), "partition": partition, "leader": leader, "followers": followers}
        self.add(ANSWER_PARTITIONS, row | dict(zip(("cpu", "disk", "nw_in", "nw_out", "msg_in"), values, strict=True)))
        return None

    def placement(self, item: Any, line: int | None = None) -> None:
        """Add a partition of ``kafka_cluster_state`` as a row of topology."""
        topic = item.get("topic") if isinstance(item, dict) else None
        if not isinstance(topic, str) or not topic:
            return self.wrong(line)
        partition, leader = integer(item.get("partition")), integer(item.get("leader"), low=-1)
        replicas, in_sync = id_list(item.get("replicas")), id_list(item.get("in-sync"))
        if partition is None or leader is None or not replicas or in_sync is None or not set(in_sync) <= set(replicas):
            return self.wrong(line)
        if leader >= 0 and leader not in replicas:
            return self.wrong(line)
        row = {"time_ms": self.time, "topic": clean(topic), "partition": partition, "leader": leader}
        row |= {"replicas": replicas, "isr": in_sync, "offline": id_list(item.get("offline")) or []}
        self.add(TOPOLOGY, row | {"min_isr": integer(item.get("min-isr"))})
        return None


def as_list(value: Any) -> list[Any]:
    """Return a list unchanged, an empty one for anything else."""
    return value if isinstance(value, list) else []


def as_map(value: Any) -> dict[str, Any]:
    """Return a map unchanged, an empty one for anything else."""
    return value if isinstance(value, dict) else {}


class CruiseControlJson(Document):
    """``load``, ``partition_load``, ``kafka_cluster_state`` and optimisation answers as JSON."""

    id = "cruise-control-json"
    title = "Cruise Control answers as JSON (load, partition_load, kafka_cluster_state, proposals)"
    tables: tuple[Table, ...] = TABLES

    def recognise(self, name: str, head: bytes) -> bool:
        """Recognise by keys that only these answers have."""
        return head.lstrip()[:1] == b"{" and any(
            key in head
            for key in (
                b'"FollowerNwInRate"', b'"PnwOutRate"', b'"KafkaBrokerState"', b'"KafkaPartitionState"',
                b'"networkInbound"', b'"goalSummary"', b'"loadAfterOptimization"', b'"DiskMB"',
            )
        )  # fmt: skip

    def read(self, source: Source, data: bytes, state: Any, final: bool) -> Reading:
        """Read one answer to rows of the answer tables; a verbose cluster state also gives topology."""
        document = json_text.decode(source, data)
        if isinstance(document, Reading):
            return document
        content, rows = document.value, AnswerRows(source)
        rows.problems += document.problems
        if not isinstance(content, dict):
            rows.wrong()
            return rows.reading(len(data), "an answer")
        if re.search(rb"[:\[,]\s*-?(?:NaN|Infinity)\b", data):
            reason = (
                "NaN or Infinity in JSON, which Cruise Control itself refuses to print outside of optimisation answers"
            )
            rows.problems.append(Problem.at(source.path, "nan-in-json", reason))
        for answer in ("load", "loadBeforeOptimization", "loadAfterOptimization"):
            part = content if answer == "load" else as_map(content.get(answer))
            for item in as_list(part.get("brokers")):
                rows.broker(answer, item)
            for item in as_list(part.get("hosts")):
                rows.broker(answer, item, is_host=True)
        for record in as_list(content.get("records")):
            rows.partition(record)
        _cluster_state(rows, content)
        summary = as_map(content.get("summary"))
        overall = {
            "score_before": number(summary.get("onDemandBalancednessScoreBefore")),
            "score_after": number(summary.get("onDemandBalancednessScoreAfter")),
            "provision": word(summary.get("provisionStatus")),
        }
        for goal in as_list(content.get("goalSummary")):
            if not isinstance(goal, dict) or not isinstance(goal.get("goal"), str):
                rows.wrong()
                continue
            rows.add(ANSWER_GOALS, {"goal": clean(goal["goal"]), "status": word(goal.get("status"))} | overall)
        return rows.reading(len(data), "an answer")


_PARTS = ("offline", "with-offline-replicas", "urp", "under-min-isr", "other")


def _cluster_state(rows: AnswerRows, content: dict[str, Any]) -> None:
    partitions = as_map(content.get("KafkaPartitionState"))
    if "other" in partitions:
        # Only a verbose answer lists every partition; a short one would look like a tiny cluster.
        listed: set[tuple[str, int]] = set()
        for part in _PARTS:
            for item in as_list(partitions.get(part)):
                named = as_map(item)
                topic, partition = named.get("topic"), named.get("partition")
                if isinstance(topic, str) and isinstance(partition, int):
                    if (topic, partition) in listed:
                        continue
                    listed.add((topic, partition))
                rows.placement(item)
    brokers = as_map(content.get("KafkaBrokerState"))
    leaders, replicas = as_map(brokers.get("LeaderCountByBrokerId")), as_map(brokers.get("ReplicaCountByBrokerId"))
    for broker, count in replicas.items():
        number_of = integer(broker)
        if number_of is None:
            rows.wrong()
            continue
        rows.counts(number_of, integer(leaders.get(broker, 0)), integer(count))
    for key, error in (("OnlineLogDirsByBrokerId", None), ("OfflineLogDirsByBrokerId", "offline")):
        for broker, folders in as_map(brokers.get(key)).items():
            number_of = integer(broker)
            for folder in as_list(folders):
                if number_of is not None and isinstance(folder, str):
                    rows.add(
                        LOG_DIRS, {"time_ms": rows.time, "broker": number_of, "log_dir": clean(folder), "error": error}
                    )
