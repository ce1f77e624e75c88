"""Answers of Cruise Control as plain text, and the tables its Python client prints."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from engine.broker_load.reading.cruise_control_answers import FIELDS, TABLES, AnswerRows
from engine.broker_load.reading.fields import integer, number, text_of
from engine.broker_load.tables.inputs import ANSWER_GOALS
from engine.core.reading import Document, Reading, Source, clean
from engine.core.tables import Table

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
