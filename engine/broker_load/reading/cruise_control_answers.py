"""Cruise Control's answers: JSON, plain text and the tables that its Python client prints, all to the same rows.

Answers of ``load``, ``partition_load``, ``kafka_cluster_state`` and proposals.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from engine.broker_load.reading.fields import file_time, id_list, integer, number, text_of, word
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


_PARTITION_HEADER = re.compile(r"^\s*PARTITION\s+LEADER\s+FOLLOWERS\s+CPU")
_COUNTS_HEADER = re.compile(r"^\s*BROKER\s+LEADER\(S\)\s+REPLICAS")
_CLIENT_TITLE = re.compile(r"^'?\w+'?:?$")
_STATE_ROW = re.compile(
    r"^\s*(\S+)\s+(\d+)\s+(-?\d+)\s+\[([^\]]*)\]\s+\[([^\]]*)\]\s+\[([^\]]*)\]\s+\[([^\]]*)\]\s+(\d+)\s*$"
)
_PARTITION_ROW = re.compile(r"^\s*(\S+)-(\d+)\s+(\d+)\s+\[([^\]]*)\]\s+(\S+)\s+(\S+)\s+(\S+)\s+(\S+)\s+(\S+)\s*$")
_GOAL_TEXT = re.compile(r"Stats for (\w+)\(([A-Z-]+)\)")
_GOAL_CLIENT = re.compile(r"^(\w+Goal): (NO-ACTION|FIXED|VIOLATED)\s*$")
_SCORES = re.compile(r"Balancedness Score Before \((-?[\d.]+)\) After ?\((-?[\d.]+)\)")
_PROVISION = re.compile(r"Provision Status: (\w+)")
_SEEN = (
    re.compile(rb"^[ \t]*HOST[ \t]+BROKER[ \t]", re.M),
    re.compile(rb"^[ \t]*PARTITION[ \t]+LEADER[ \t]+FOLLOWERS[ \t]", re.M),
    re.compile(rb"^Summary: The cluster has \d+ brokers", re.M),
    re.compile(rb"^'(?:brokers|hosts|loadAfterOptimization|goalSummary|KafkaBrokerState|KafkaPartitionState)':", re.M),
    re.compile(rb"^Optimization has \d+ inter-broker", re.M),
)


class CruiseControlText(Document):
    """Answers as plain text, or as the Python client prints them (pandas-like, thousands separators)."""

    id = "cruise-control-text"
    title = "Cruise Control answers as text, from the server or its Python client"
    tables: tuple[Table, ...] = TABLES

    def recognise(self, name: str, head: bytes) -> bool:
        """Recognise by the titles of the tables."""
        return any(pattern.search(head) for pattern in _SEEN)

    def read(self, source: Source, data: bytes, state: Any, final: bool) -> Reading:
        """Read one answer to rows of the answer tables."""
        rows = AnswerRows(source)
        # A comprehension: unlike one call that lists millions of pairs it lets the screen's thread run.
        lines = [(number, line) for number, line in enumerate(text_of(data).split("\n"), 1)]
        lines.reverse()
        goals: list[tuple[str, str]] = []
        summary: dict[str, Any] = {}
        caption = ""
        while lines:
            _, line = lines.pop()
            stripped = line.strip()
            if not stripped:
                continue  # skip the patterns: a file may have millions of blank lines
            is_table = _read_table(rows, line, lines, caption)
            caption = stripped
            if is_table:
                continue
            if goal := _GOAL_CLIENT.match(stripped) or _GOAL_TEXT.search(line):
                goals.append((goal[1], goal[2]))
            elif scores := _SCORES.search(line):
                summary |= {"score_before": number(scores[1]), "score_after": number(scores[2])}
            elif provision := _PROVISION.search(line):
                summary["provision"] = clean(provision[1])
        for goal_name, status in goals:
            rows.add(ANSWER_GOALS, {"goal": goal_name, "status": status} | summary)
        return rows.reading(len(data), "a printed answer")


Lines = list[tuple[int, str]]
"""Lines left to read, with their numbers, in reverse order."""


def _until_blank(lines: Lines) -> Iterator[tuple[int, str]]:
    """Take the lines up to the next blank one."""
    while lines and lines[-1][1].strip():
        yield lines.pop()


def _read_table(rows: AnswerRows, title: str, lines: Lines, caption: str) -> bool:
    """Read the table below ``title``; return whether it is a table's title. ``caption``: the last text before it."""
    stripped = title.strip()
    if stripped.startswith("HOST ") and stripped.endswith("LEADERS/REPLICAS") and title.split()[1] == "BROKER":
        lowered = caption.lower()
        answer = "loadAfterOptimization" if "after" in lowered and "load" in lowered else "load"
        if "before" in lowered:
            answer = "loadBeforeOptimization"
        _server_load(rows, title, lines, answer)
    elif _PARTITION_HEADER.match(title):
        _server_partitions(rows, lines)
    elif stripped == "All Partitions in the Cluster (verbose):":
        _server_state(rows, lines)
    elif _COUNTS_HEADER.match(title):
        _server_counts(rows, lines)
    elif _CLIENT_TITLE.match(stripped) and stripped.strip("':") in _CLIENT:
        _client_table(rows, _CLIENT[stripped.strip("':")], lines)
    else:
        return False
    return True


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


def _server_load(rows: AnswerRows, header: str, lines: Lines, answer: str) -> None:
    """Read the rows under a ``HOST BROKER …`` title; indented log-directory rows (no comma after the first word) are skipped."""
    names = [_COLUMNS.get(word) for word in header.split()]
    for number_of, line in _until_blank(lines):
        fields = [field.strip() for field in line.split(",")]
        if len(fields) < 3:
            continue
        if len(fields) != len(names):
            rows.wrong(number_of)
            continue
        item: dict[str, Any] = {}
        for name, field in zip(names, fields, strict=True):
            if name == "disk":
                item["DiskMB"], _, item["DiskPct"] = field.partition("/")
            elif name == "counts":
                item["Leaders"], _, item["Replicas"] = field.partition("/")
            elif name is not None:
                item[name] = field
        rows.broker(answer, item, line=number_of)


def _ids(text: str) -> list[Any]:
    return [integer(part) if part.strip().isdecimal() else None for part in text.split(",") if part.strip()]


def _server_partitions(rows: AnswerRows, lines: Lines) -> None:
    names = ("topic", "partition", "leader", "followers", "cpu", "disk", "networkInbound", "networkOutbound", "msg_in")
    for number_of, line in _until_blank(lines):
        if match := _PARTITION_ROW.match(line):
            rows.partition(dict(zip(names, match.groups(), strict=True)) | {"followers": _ids(match[4])}, number_of)
        else:
            rows.wrong(number_of)


def _server_state(rows: AnswerRows, lines: Lines) -> None:
    listed = set()
    for number_of, line in _until_blank(lines):
        if match := _STATE_ROW.match(line):
            topic, partition, leader, replicas, in_sync, _, offline, min_isr = match.groups()
            if (topic, partition) not in listed:
                listed.add((topic, partition))
                lists = {"replicas": _ids(replicas), "in-sync": _ids(in_sync), "offline": _ids(offline)}
                item = {"topic": topic, "partition": partition, "leader": leader, "min-isr": min_isr}
                rows.placement(item | lists, number_of)
        elif not line.rstrip().endswith(":") and "PARTITION" not in line:
            rows.wrong(number_of)


def _server_counts(rows: AnswerRows, lines: Lines) -> None:
    for number_of, line in _until_blank(lines):
        words = line.split()
        if len(words) < 5 or not all(word.isdecimal() for word in words[:5]):
            rows.wrong(number_of)
        else:
            rows.counts(integer(words[0]), integer(words[1]), integer(words[2]))


_CLIENT = {
    "brokers": "load",
    "hosts": "load",
    "loadAfterOptimization": "loadAfterOptimization",
    "loadBeforeOptimization": "loadBeforeOptimization",
    "KafkaBrokerState": "kafka_cluster_state",
}


def _client_table(rows: AnswerRows, answer: str, lines: Lines) -> None:
    """Read a table of the Python client: column names, the index's name on its own line, then rows."""
    while lines and not lines[-1][1].strip():
        lines.pop()
    names = lines[-1][1].split() if lines else []
    columns = set(FIELDS) | {"Host", "Rack", "BrokerState", "ReplicaCountByBrokerId", "LeaderCountByBrokerId"}
    if not set(names) & columns:
        return
    lines.pop()
    index = lines[-1][1].strip() if lines else ""
    if index not in ("Broker", "Host", "BrokerId"):
        return
    lines.pop()
    for number_of, line in _until_blank(lines):
        words = line.split()
        values: dict[str, Any] = dict(zip(names, words[1:], strict=False))
        if answer == "kafka_cluster_state":
            leaders, replicas = values.get("LeaderCountByBrokerId"), values.get("ReplicaCountByBrokerId")
            if (broker := integer(words[0])) is None:
                rows.wrong(number_of)
            else:
                rows.counts(broker, integer(leaders), integer(replicas))
        elif len(words) != len(names) + 1:
            rows.wrong(number_of)
        else:
            rows.broker(answer, values | {index: words[0]}, is_host=index == "Host", line=number_of)
