"""Answers of Cruise Control as plain text, and the tables its Python client prints."""

from __future__ import annotations

import re
from typing import Any

from engine.broker_load.reading.answer_rows import FIELDS, TABLES, AnswerRows
from engine.broker_load.reading.fields import integer, number, text_of
from engine.broker_load.tables.inputs import ANSWER_BROKERS, ANSWER_GOALS
from engine.reading import Reading, Source
from engine.tables import Table
from engine.text import clean

_LOAD_HEADER = re.compile(r"^\s*HOST\s+BROKER\s+(?:RACK\s+)?.*LEADERS/REPLICAS\s*$")
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
    re.compile(rb"^\s*HOST\s+BROKER\s", re.M),
    re.compile(rb"^\s*PARTITION\s+LEADER\s+FOLLOWERS\s", re.M),
    re.compile(rb"^Summary: The cluster has \d+ brokers", re.M),
    re.compile(rb"^'(?:brokers|hosts|loadAfterOptimization|goalSummary|KafkaBrokerState|KafkaPartitionState)':", re.M),
    re.compile(rb"^Optimization has \d+ inter-broker", re.M),
)


class CruiseControlText:
    """Answers as plain text, or as the Python client prints them (pandas-like, thousands separators)."""

    id = "cruise-control-text"
    title = "Cruise Control answers as text, from the server or its Python client"
    append = False
    version = 1
    tables: tuple[Table, ...] = TABLES

    def recognise(self, name: str, head: bytes) -> bool:
        """Recognise by the titles of the tables."""
        return any(pattern.search(head) for pattern in _SEEN)

    def read(self, source: Source, data: bytes, state: Any, final: bool) -> Reading:
        """Read one answer to rows of the answer tables."""
        rows = AnswerRows(source)
        lines = text_of(data).split("\n")
        goals: list[tuple[str, str]] = []
        summary: dict[str, Any] = {}
        caption = ""
        position = 0
        while position < len(lines):
            line = lines[position]
            stripped = line.strip()
            position += 1
            if after_table := _table(rows, lines, position, caption):
                position = after_table
            elif goal := _GOAL_CLIENT.match(stripped) or _GOAL_TEXT.search(line):
                goals.append((goal[1], goal[2]))
            elif scores := _SCORES.search(line):
                summary |= {"score_before": number(scores[1]), "score_after": number(scores[2])}
            elif provision := _PROVISION.search(line):
                summary["provision"] = clean(provision[1])
            caption = stripped or caption
        for goal_name, status in goals:
            rows.add(ANSWER_GOALS, {"goal": goal_name, "status": status} | summary)
        return rows.reading(len(data), "a printed answer")


def _table(rows: AnswerRows, lines: list[str], position: int, caption: str) -> int | None:
    """Read the table whose title is the line before ``position``; returns the position after it, None for no title.

    ``caption`` is the last line with text before the title.
    """
    line = lines[position - 1]
    stripped = line.strip()
    if _LOAD_HEADER.match(line):
        lowered = caption.lower()
        answer = "loadAfterOptimization" if "after" in lowered and "load" in lowered else "load"
        if "before" in lowered:
            answer = "loadBeforeOptimization"
        return _server_load(rows, line, lines, position, answer)
    if _PARTITION_HEADER.match(line):
        return _server_partitions(rows, lines, position)
    if stripped == "All Partitions in the Cluster (verbose):":
        return _server_state(rows, lines, position)
    if _COUNTS_HEADER.match(line):
        return _server_counts(rows, lines, position)
    if _CLIENT_TITLE.match(stripped) and stripped.strip("':") in _CLIENT:
        return _client_table(rows, stripped.strip("':"), lines, position)
    return None


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


def _server_load(rows: AnswerRows, header: str, lines: list[str], position: int, answer: str) -> int:
    """Read the rows under a ``HOST BROKER …`` title; indented log-directory rows (no comma after the first word) are skipped."""
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


def _server_partitions(rows: AnswerRows, lines: list[str], position: int) -> int:
    while position < len(lines) and lines[position].strip():
        match = _PARTITION_ROW.match(lines[position])
        position += 1
        if not match:
            rows.wrong(position)
            continue
        values = dict(
            zip(("cpu", "disk", "networkInbound", "networkOutbound", "msg_in"), match.groups()[4:], strict=True)
        )
        rows.partition(
            {"topic": match[1], "partition": match[2], "leader": match[3], "followers": _ids(match[4])} | values,
            position,
        )
    return position


def _server_state(rows: AnswerRows, lines: list[str], position: int) -> int:
    listed = set()
    while position < len(lines) and lines[position].strip():
        line = lines[position]
        position += 1
        match = _STATE_ROW.match(line)
        if match:
            key = (match[1], match[2])
            if key not in listed:
                listed.add(key)
                rows.placement(
                    {
                        "topic": match[1],
                        "partition": match[2],
                        "leader": match[3],
                        "replicas": _ids(match[4]),
                        "in-sync": _ids(match[5]),
                        "offline": _ids(match[7]),
                        "min-isr": match[8],
                    },
                    position,
                )
        elif not line.rstrip().endswith(":") and "PARTITION" not in line:
            rows.wrong(position)
    return position


def _server_counts(rows: AnswerRows, lines: list[str], position: int) -> int:
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


def _client_table(rows: AnswerRows, title: str, lines: list[str], position: int) -> int:
    """Read a table of the Python client: column names, the index's name on its own line, then rows."""
    answer = _CLIENT[title]
    while position < len(lines) and not lines[position].strip():
        position += 1
    if position >= len(lines):
        return position
    names = lines[position].split()
    columns = set(FIELDS) | {"Host", "Rack", "BrokerState", "ReplicaCountByBrokerId", "LeaderCountByBrokerId"}
    if not set(names) & columns:
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
