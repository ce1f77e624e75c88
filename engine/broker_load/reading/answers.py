"""Answers of Cruise Control: JSON, its plain text, and the tables its Python client prints."""

from __future__ import annotations

import re
from typing import Any

from engine.broker_load.reading.common import file_time, id_list, integer, load_json, not_json, number, text_of
from engine.broker_load.tables import (
    ANSWER_BROKERS,
    ANSWER_DIRS,
    ANSWER_GOALS,
    ANSWER_HOSTS,
    ANSWER_PARTITIONS,
    LOG_DIRS,
    TOPOLOGY,
)
from engine.problems import Problem
from engine.reading import Reading, Source
from engine.tables import Table
from engine.text import clean

_FIELDS = {
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
_PARTS = ("offline", "with-offline-replicas", "urp", "under-min-isr", "other")
_TABLES = (ANSWER_BROKERS, ANSWER_HOSTS, ANSWER_DIRS, ANSWER_PARTITIONS, ANSWER_GOALS, TOPOLOGY, LOG_DIRS)


class _Rows:
    """Rows being collected from one answer, its problems, and what could not be read."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.time = file_time(source)
        self.tables: dict[str, dict[str, list[Any]]] = {t.name: {c.name: [] for c in t.columns} for t in _TABLES}
        self.problems: list[Problem] = []
        self.bad = 0
        self.bad_line: int | None = None

    def add(self, table: Table, row: dict[str, Any]) -> None:
        for name, values in self.tables[table.name].items():
            values.append(row.get(name))

    def wrong(self, line: int | None = None) -> None:
        self.bad += 1
        self.bad_line = self.bad_line or line

    def reading(self, size: int, what: str) -> Reading:
        if self.bad:
            self.problems.append(
                Problem.at(
                    self.source.path,
                    "bad-record",
                    f"rows that {what} does not have",
                    line=self.bad_line,
                    count=self.bad,
                )
            )
        filled = {name: rows for name, rows in self.tables.items() if next(iter(rows.values()))}
        return Reading(rows=dict(filled), problems=self.problems, consumed=size)

    def broker(self, answer: str, item: Any, is_host: bool = False, line: int | None = None) -> None:
        """One broker or host row with upstream's JSON keys (values may be texts with thousands separators)."""
        if not isinstance(item, dict):
            return self.wrong(line)
        row: dict[str, Any] = {"answer": answer, "host": _word(item.get("Host")), "rack": _word(item.get("Rack"))}
        if not is_host:
            broker = integer(item.get("Broker"))
            state = item.get("BrokerState")
            if broker is None:
                return self.wrong(line)
            row |= {"broker": broker, "state": state if state in _STATES else None}
        for theirs, ours in _FIELDS.items():
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
            for folder, found in _map(item.get("DiskState")).items():
                self.directory(answer, row["broker"], folder, found)
        return None

    def directory(self, answer: str, broker: int, folder: str, found: Any) -> None:
        """One log directory of a broker: its load, or the word that says it is dead."""
        row: dict[str, Any] = {"answer": answer, "broker": broker, "log_dir": clean(folder)}
        if isinstance(found, str):
            row["error"] = clean(found)
        elif isinstance(found, dict):
            row |= {"disk_mb": number(found.get("DiskMB")), "disk_pct": number(found.get("DiskPct"))}
            row |= {"leaders": integer(found.get("NumLeaderReplicas")), "replicas": integer(found.get("NumReplicas"))}
            if row["disk_mb"] is None:
                return self.wrong()
        else:
            return self.wrong()
        self.add(ANSWER_DIRS, row)
        return None

    def partition(self, item: Any, line: int | None = None) -> None:
        """One record of ``partition_load``."""
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
        """One partition of ``kafka_cluster_state``, as a row of topology."""
        topic = item.get("topic") if isinstance(item, dict) else None
        if not isinstance(topic, str) or not topic:
            return self.wrong(line)
        partition, leader = integer(item.get("partition")), integer(item.get("leader"), low=-1)
        replicas, in_sync = id_list(item.get("replicas")), id_list(item.get("in-sync"))
        if partition is None or leader is None or not replicas or in_sync is None or not set(in_sync) <= set(replicas):
            return self.wrong(line)
        if leader >= 0 and leader not in replicas:
            return self.wrong(line)
        self.add(
            TOPOLOGY,
            {
                "time_ms": self.time,
                "topic": clean(topic),
                "partition": partition,
                "leader": leader,
                "replicas": replicas,
                "isr": in_sync,
                "offline": id_list(item.get("offline")) or [],
                "min_isr": integer(item.get("min-isr")),
            },
        )
        return None


def _word(value: Any) -> str | None:
    return clean(value) if isinstance(value, str) else None


class CruiseControlJson:
    """``load``, ``partition_load``, ``kafka_cluster_state`` and optimisation answers as JSON."""

    id = "cruise-control-json"
    title = "Cruise Control answers as JSON (load, partition_load, kafka_cluster_state, proposals)"
    append = False
    version = 2
    tables: tuple[Table, ...] = _TABLES

    def recognise(self, name: str, head: bytes) -> bool:
        """By keys that only these answers have."""
        return head.lstrip()[:1] == b"{" and any(
            key in head
            for key in (
                b'"FollowerNwInRate"', b'"PnwOutRate"', b'"KafkaBrokerState"', b'"KafkaPartitionState"',
                b'"networkInbound"', b'"goalSummary"', b'"loadAfterOptimization"', b'"DiskMB"',
            )
        )  # fmt: skip

    def read(self, source: Source, data: bytes, state: Any, final: bool) -> Reading:
        """One answer to rows of the answer tables; a verbose cluster state also gives topology."""
        text = text_of(data)
        try:
            content = load_json(text)
        except ValueError as error:
            return not_json(source, error, final)
        rows = _Rows(source)
        if not isinstance(content, dict):
            rows.wrong()
            return rows.reading(len(data), "an answer")
        if re.search(r"[:\[,]\s*-?(?:NaN|Infinity)\b", text):
            reason = "NaN or Infinity in JSON, which upstream itself refuses to print outside of optimisation answers"
            rows.problems.append(Problem.at(source.path, "nan-in-json", reason))
        self._load(rows, "load", content)
        for part in ("loadBeforeOptimization", "loadAfterOptimization"):
            if isinstance(content.get(part), dict):
                self._load(rows, part, content[part])
        for record in _list(content.get("records")):
            rows.partition(record)
        _cluster_state(rows, content)
        summary = _map(content.get("summary"))
        for goal in _list(content.get("goalSummary")):
            if not isinstance(goal, dict) or not isinstance(goal.get("goal"), str):
                rows.wrong()
                continue
            rows.add(
                ANSWER_GOALS,
                {
                    "goal": clean(goal["goal"]),
                    "status": _word(goal.get("status")),
                    "score_before": number(summary.get("onDemandBalancednessScoreBefore")),
                    "score_after": number(summary.get("onDemandBalancednessScoreAfter")),
                    "provision": _word(summary.get("provisionStatus")),
                },
            )
        return rows.reading(len(data), "an answer")

    @staticmethod
    def _load(rows: _Rows, answer: str, content: dict[str, Any]) -> None:
        for item in _list(content.get("brokers")):
            rows.broker(answer, item)
        for item in _list(content.get("hosts")):
            rows.broker(answer, item, is_host=True)


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _map(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _cluster_state(rows: _Rows, content: dict[str, Any]) -> None:
    partitions = _map(content.get("KafkaPartitionState"))
    if "other" in partitions:
        # Only a verbose answer lists every partition; a short one would look like a tiny cluster.
        seen: set[tuple[str, int]] = set()
        for part in _PARTS:
            for item in _list(partitions.get(part)):
                named = _map(item)
                topic, partition = named.get("topic"), named.get("partition")
                if isinstance(topic, str) and isinstance(partition, int):
                    if (topic, partition) in seen:
                        continue
                    seen.add((topic, partition))
                rows.placement(item)
    brokers = _map(content.get("KafkaBrokerState"))
    leaders, replicas = _map(brokers.get("LeaderCountByBrokerId")), _map(brokers.get("ReplicaCountByBrokerId"))
    for broker, held in replicas.items():
        number_of = integer(broker)
        if number_of is None:
            rows.wrong()
            continue
        rows.add(
            ANSWER_BROKERS,
            {
                "answer": "kafka_cluster_state",
                "broker": number_of,
                "leaders": integer(leaders.get(broker, 0)),
                "replicas": integer(held),
            },
        )
    for key, error in (("OnlineLogDirsByBrokerId", None), ("OfflineLogDirsByBrokerId", "offline")):
        for broker, folders in _map(brokers.get(key)).items():
            number_of = integer(broker)
            for folder in _list(folders):
                if number_of is not None and isinstance(folder, str):
                    rows.add(
                        LOG_DIRS,
                        {"time_ms": rows.time, "broker": number_of, "log_dir": clean(folder), "error": error},
                    )


_LOAD_HEADER = re.compile(r"^\s*HOST\s+BROKER\s+(?:RACK\s+)?.*LEADERS/REPLICAS\s*$")
_PARTITION_HEADER = re.compile(r"^\s*PARTITION\s+LEADER\s+FOLLOWERS\s+CPU")
_STATE_ROW = re.compile(
    r"^\s*(\S+)\s+(\d+)\s+(-?\d+)\s+\[([^\]]*)\]\s+\[([^\]]*)\]\s+\[([^\]]*)\]\s+\[([^\]]*)\]\s+(\d+)\s*$"
)
_PARTITION_ROW = re.compile(r"^\s*(\S+)-(\d+)\s+(\d+)\s+\[([^\]]*)\]\s+(\S+)\s+(\S+)\s+(\S+)\s+(\S+)\s+(\S+)\s*$")
_GOAL_TEXT = re.compile(r"Stats for (\w+)\(([A-Z-]+)\)")
_GOAL_CLIENT = re.compile(r"^(\w+Goal): (NO-ACTION|FIXED|VIOLATED)\s*$")
_SCORES = re.compile(r"Balancedness Score Before \((-?[\d.]+)\) After ?\((-?[\d.]+)\)")
_PROVISION = re.compile(r"Provision Status: (\w+)")
_SEEN = (
    re.compile(rb"^\s*HOST\s+BROKER\s", re.M),
    re.compile(rb"^\s*PARTITION\s+LEADER\s+FOLLOWERS\s", re.M),
    re.compile(rb"^Summary: The cluster has \d+ brokers", re.M),
    re.compile(rb"^'(?:brokers|hosts|loadAfterOptimization|goalSummary|KafkaBrokerState|KafkaPartitionState)':", re.M),
    re.compile(rb"^Optimization has \d+ inter-broker", re.M),
)


class CruiseControlText:
    """The same answers as plain text, or as the Python client prints them (pandas-like, thousands separators)."""

    id = "cruise-control-text"
    title = "Cruise Control answers as text, from the server or its Python client"
    append = False
    version = 1
    tables: tuple[Table, ...] = _TABLES

    def recognise(self, name: str, head: bytes) -> bool:
        """By the titles of the tables."""
        return any(pattern.search(head) for pattern in _SEEN)

    def read(self, source: Source, data: bytes, state: Any, final: bool) -> Reading:
        """One answer to rows of the answer tables."""
        rows = _Rows(source)
        lines = text_of(data).split("\n")
        goals: list[tuple[str, str]] = []
        before = after = provision = None
        caption = ""
        position = 0
        while position < len(lines):
            line = lines[position]
            position += 1
            stripped = line.strip()
            if _LOAD_HEADER.match(line):
                lowered = caption.lower()
                moved = "after" in lowered and "load" in lowered
                answer = "loadAfterOptimization" if moved else "load"
                if "before" in lowered:
                    answer = "loadBeforeOptimization"
                position = _server_load(rows, line, lines, position, answer)
            elif _PARTITION_HEADER.match(line):
                position = _server_partitions(rows, lines, position)
            elif stripped == "All Partitions in the Cluster (verbose):":
                position = _server_state(rows, lines, position)
            elif re.match(r"^\s*BROKER\s+LEADER\(S\)\s+REPLICAS", line):
                position = _server_counts(rows, lines, position)
            elif re.match(r"^'?\w+'?:?$", stripped) and stripped.strip("':") in _CLIENT:
                position = _client_table(rows, stripped.strip("':"), lines, position)
            elif (found := _GOAL_CLIENT.match(stripped)) or (found := _GOAL_TEXT.search(line)):
                goals.append((found[1], found[2]))
            elif found := _SCORES.search(line):
                before, after = number(found[1]), number(found[2])
            elif found := _PROVISION.search(line):
                provision = clean(found[1])
            if stripped:
                caption = stripped
        for goal, status in goals:
            rows.add(
                ANSWER_GOALS,
                {"goal": goal, "status": status, "score_before": before, "score_after": after, "provision": provision},
            )
        return rows.reading(len(data), "a printed answer")


_COLUMNS = {
    "HOST": "Host",
    "BROKER": "Broker",
    "RACK": "Rack",
    "DISK_CAP(MB)": "DiskCapacityMB",
    "DISK(MB)/_(%)_": "disk",
    "CORE_NUM": "NumCore",
    "CPU(%)": "CpuPct",
    "NW_IN_CAP(KB/s)": "NetworkInCapacity",
    "LEADER_NW_IN(KB/s)": "LeaderNwInRate",
    "FOLLOWER_NW_IN(KB/s)": "FollowerNwInRate",
    "NW_OUT_CAP(KB/s)": "NetworkOutCapacity",
    "NW_OUT(KB/s)": "NwOutRate",
    "PNW_OUT(KB/s)": "PnwOutRate",
    "LEADERS/REPLICAS": "counts",
}


def _server_load(rows: _Rows, header: str, lines: list[str], position: int, answer: str) -> int:
    """Rows under a ``HOST BROKER …`` title; indented log-directory rows (no comma after the first word) are passed."""
    names = [_COLUMNS.get(word) for word in header.split()]
    while position < len(lines) and lines[position].strip():
        fields = [field.strip() for field in lines[position].split(",")]
        position += 1
        if len(fields) < 3:
            continue
        if len(fields) != len(names):
            rows.wrong(position)
            continue
        item: dict[str, Any] = {}
        for name, field in zip(names, fields, strict=True):
            if name == "disk":
                item["DiskMB"], _, item["DiskPct"] = field.partition("/")
            elif name == "counts":
                item["Leaders"], _, item["Replicas"] = field.partition("/")
            elif name is not None:
                item[name] = field
        rows.broker(answer, item, line=position)
    return position


def _ids(text: str) -> list[Any]:
    return [int(part) if part.strip().isdigit() else None for part in text.split(",") if part.strip()]


def _server_partitions(rows: _Rows, lines: list[str], position: int) -> int:
    while position < len(lines) and lines[position].strip():
        found = _PARTITION_ROW.match(lines[position])
        position += 1
        if not found:
            rows.wrong(position)
            continue
        values = dict(
            zip(("cpu", "disk", "networkInbound", "networkOutbound", "msg_in"), found.groups()[4:], strict=True)
        )
        rows.partition(
            {"topic": found[1], "partition": found[2], "leader": found[3], "followers": _ids(found[4])} | values,
            position,
        )
    return position


def _server_state(rows: _Rows, lines: list[str], position: int) -> int:
    seen = set()
    while position < len(lines) and lines[position].strip():
        line = lines[position]
        position += 1
        found = _STATE_ROW.match(line)
        if found:
            key = (found[1], found[2])
            if key not in seen:
                seen.add(key)
                rows.placement(
                    {
                        "topic": found[1],
                        "partition": found[2],
                        "leader": found[3],
                        "replicas": _ids(found[4]),
                        "in-sync": _ids(found[5]),
                        "offline": _ids(found[7]),
                        "min-isr": found[8],
                    },
                    position,
                )
        elif not line.rstrip().endswith(":") and "PARTITION" not in line:
            rows.wrong(position)
    return position


def _server_counts(rows: _Rows, lines: list[str], position: int) -> int:
    while position < len(lines) and lines[position].strip():
        words = lines[position].split()
        position += 1
        if len(words) < 5 or not all(word.isdigit() for word in words[:5]):
            rows.wrong(position)
            continue
        rows.add(
            ANSWER_BROKERS,
            {
                "answer": "kafka_cluster_state",
                "broker": integer(words[0]),
                "leaders": integer(words[1]),
                "replicas": integer(words[2]),
            },
        )
    return position


_CLIENT = {
    "brokers": "load",
    "hosts": "load",
    "loadAfterOptimization": "loadAfterOptimization",
    "loadBeforeOptimization": "loadBeforeOptimization",
    "KafkaBrokerState": "kafka_cluster_state",
}


def _client_table(rows: _Rows, title: str, lines: list[str], position: int) -> int:
    """A table of the Python client: column names, the index's name on its own line, then rows."""
    answer = _CLIENT[title]
    while position < len(lines) and not lines[position].strip():
        position += 1
    if position >= len(lines):
        return position
    names = lines[position].split()
    known = set(_FIELDS) | {"Host", "Rack", "BrokerState", "ReplicaCountByBrokerId", "LeaderCountByBrokerId"}
    if not set(names) & known:
        return position
    position += 1
    index = lines[position].strip() if position < len(lines) else ""
    if index not in ("Broker", "Host", "BrokerId"):
        return position
    position += 1
    while position < len(lines) and lines[position].strip():
        words = lines[position].split()
        position += 1
        if answer == "kafka_cluster_state":
            values = dict(zip(names, words[1:], strict=False))
            broker = integer(words[0])
            if broker is None:
                rows.wrong(position)
                continue
            rows.add(
                ANSWER_BROKERS,
                {
                    "answer": answer,
                    "broker": broker,
                    "leaders": integer(values.get("LeaderCountByBrokerId")),
                    "replicas": integer(values.get("ReplicaCountByBrokerId")),
                },
            )
            continue
        if len(words) != len(names) + 1:
            rows.wrong(position)
            continue
        item: dict[str, Any] = dict(zip(names, words[1:], strict=True))
        item[index] = words[0]
        rows.broker(answer, item, is_host=index == "Host", line=position)
    return position
