"""Cruise Control's answers: JSON, plain text and the tables that its Python client prints, all to the same rows.

Answers of ``load``, ``partition_load``, ``kafka_cluster_state`` and proposals.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import zip_longest
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


_COUNTS = {"leaders": "LeaderReplicas", "replicas": "Replicas"}
_STATE_COUNTS = {"broker": "BrokerId", "leaders": "LeaderCountByBrokerId", "replicas": "ReplicaCountByBrokerId"}
_LOADS = {"cpu": "cpu", "disk": "disk", "nw_in": "networkInbound", "nw_out": "networkOutbound", "msg_in": "msg_in"}
_REPLICAS = {"replicas": "replicas", "isr": "in-sync", "offline": "offline"}
"""Our columns, and Cruise Control's keys for them."""
_STATES = frozenset({"ALIVE", "DEAD", "NEW", "DEMOTED", "BAD_DISKS"})


TABLES = (ANSWER_BROKERS, ANSWER_HOSTS, ANSWER_DIRS, ANSWER_PARTITIONS, ANSWER_GOALS, TOPOLOGY, LOG_DIRS)


class AnswerRows:
    """Rows being collected from one answer, its problems, and the number of records that could not be read."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.time = file_time(source)
        self.tables: dict[str, dict[str, list[Any]]] = {t.name: {c.name: [] for c in t.columns} for t in TABLES}
        self.problems: list[Problem] = []
        self.listed: set[tuple[str, int]] = set()
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
            self.problems.append(Problem.at(self.source.path, "bad-record", reason, line=self.bad_line, count=self.bad))
        filled = {name: rows for name, rows in self.tables.items() if next(iter(rows.values()))}
        return Reading(rows=dict(filled), problems=self.problems, consumed=size)

    def broker(self, answer: str, item: Any, is_host: bool = False, line: int | None = None) -> None:
        """Add a broker or host row with Cruise Control's JSON keys (values may be texts with thousands separators), and the log
        directories of a broker: the load of each, or the word that marks it dead."""
        item = as_map(item)
        state = word(item.get("BrokerState"))
        row: dict[str, Any] = {
            "answer": answer, "host": word(item.get("Host")), "rack": word(item.get("Rack")),
            "broker": integer(item.get("Broker")), "state": state if state in _STATES else None,
        }  # fmt: skip
        if row["host" if is_host else "broker"] in (None, ""):
            return self.wrong(line)
        for theirs, ours in FIELDS.items():
            if theirs in item:
                row[ours] = number(item[theirs])
                if row[ours] is None:
                    self.wrong(line)
                elif ours in ("leaders", "replicas"):
                    row[ours] = int(row[ours]) if 0 <= row[ours] < 2**53 else None
        self.add(ANSWER_HOSTS if is_host else ANSWER_BROKERS, row)
        for folder, content in as_map(None if is_host else item.get("DiskState")).items():
            load = as_map(content)
            found = {
                "disk_mb": number(load.get("DiskMB")),
                "disk_pct": number(load.get("DiskPct")),
                "error": word(content),
            }
            found |= {ours: integer(load.get(f"Num{theirs}")) for ours, theirs in _COUNTS.items()}
            if found["error"] is None and found["disk_mb"] is None:
                self.wrong()
            else:
                self.add(ANSWER_DIRS, {"answer": answer, "broker": row["broker"], "log_dir": clean(folder)} | found)
        return None

    def counts(self, item: dict[str, Any], line: int | None = None) -> None:
        """Add a broker of ``kafka_cluster_state`` with its replica counts."""
        row = {ours: integer(item.get(theirs)) for ours, theirs in _STATE_COUNTS.items()}
        if row["broker"] is None:
            return self.wrong(line)
        return self.add(ANSWER_BROKERS, {"answer": "kafka_cluster_state"} | row)

    def partition(self, item: Any, line: int | None = None) -> None:
        """Add a record of ``partition_load``."""
        row = _placed(item, 0) | {"followers": id_list(as_map(item).get("followers"))}
        row |= {ours: number(as_map(item).get(theirs)) for ours, theirs in _LOADS.items()}
        if None in row.values():
            return self.wrong(line)
        return self.add(ANSWER_PARTITIONS, row)

    def placement(self, item: Any, line: int | None = None) -> None:
        """Add a partition of ``kafka_cluster_state`` as a row of topology; listed again, it is skipped."""
        row, lists = _placed(item, -1), {ours: as_map(item).get(theirs) for ours, theirs in _REPLICAS.items()}
        replicas, in_sync, offline = (id_list(ids) for ids in lists.values())
        if None not in row.values() and (row["topic"], row["partition"]) in self.listed:
            return None
        self.listed.add((row["topic"], row["partition"]))
        if None in row.values() or not replicas or in_sync is None or not {*in_sync, row["leader"]} <= {*replicas, -1}:
            return self.wrong(line)
        row |= {"replicas": replicas, "isr": in_sync, "offline": offline or [], "min_isr": integer(item.get("min-isr"))}
        return self.add(TOPOLOGY, row | {"time_ms": self.time})


def _placed(item: Any, low: int) -> dict[str, Any]:
    """Return topic, partition and leader (not below ``low``) of a record, each None where the record has none."""
    found = as_map(item)
    leader = integer(found.get("leader"), low)
    return {"topic": word(found.get("topic")) or None, "partition": integer(found.get("partition")), "leader": leader}


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
        for part in _PARTS:
            for item in as_list(partitions.get(part)):
                rows.placement(item)
    brokers = as_map(content.get("KafkaBrokerState"))
    leaders, replicas = as_map(brokers.get("LeaderCountByBrokerId")), as_map(brokers.get("ReplicaCountByBrokerId"))
    for broker, count in replicas.items():
        item = {"BrokerId": broker, "LeaderCountByBrokerId": leaders.get(broker, 0), "ReplicaCountByBrokerId": count}
        rows.counts(item)
    for key, error in (("OnlineLogDirsByBrokerId", None), ("OfflineLogDirsByBrokerId", "offline")):
        for broker, folders in as_map(brokers.get(key)).items():
            for folder in as_list(folders):
                row = {"broker": integer(broker), "log_dir": word(folder)}
                if None not in row.values():
                    rows.add(LOG_DIRS, row | {"time_ms": rows.time, "error": error})


_CLIENT_TITLE = re.compile(r"^'?\w+'?:?$")
_PRINTED = (
    (
        re.compile(r"^\s*PARTITION\s+LEADER\s+FOLLOWERS\s+CPU"),
        re.compile(r"^\s*(\S+)-(\d+)\s+(\d+)\s+\[([^\]]*)\]\s+(\S+)\s+(\S+)\s+(\S+)\s+(\S+)\s+(\S+)\s*$"),
        ("topic", "partition", "leader", "followers", *_LOADS.values()),
        AnswerRows.partition,
    ),
    (
        re.compile(r"^\s*All Partitions in the Cluster \(verbose\):\s*$"),
        re.compile(
            r"^\s*(\S+)\s+(\d+)\s+(-?\d+)\s+\[([^\]]*)\]\s+\[([^\]]*)\]\s+\[[^\]]*\]\s+\[([^\]]*)\]\s+(\d+)\s*$|"
            r"^.*(?:PARTITION|:\s*$)"
        ),
        ("topic", "partition", "leader", "replicas", "in-sync", "offline", "min-isr"),
        AnswerRows.placement,
    ),
    (
        re.compile(r"^\s*BROKER\s+LEADER\(S\)\s+REPLICAS"),
        re.compile(r"^\s*(\d+)\s+(\d+)\s+(\d+)\s+\d+\s+\d+(?:\s|$)"),
        ("BrokerId", "LeaderCountByBrokerId", "ReplicaCountByBrokerId"),
        AnswerRows.counts,
    ),
)
"""Tables that the server prints: the title, a row (one without a first group says nothing), the JSON keys of its groups, and what
adds it."""
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


Lines = list[tuple[int, str]]  # lines left to read, with their numbers, in reverse order


def _until_blank(lines: Lines) -> Iterator[tuple[int, str]]:
    """Take the lines up to the next blank one."""
    while lines and lines[-1][1].strip():
        yield lines.pop()


def _read_table(rows: AnswerRows, title: str, lines: Lines, caption: str) -> bool:
    """Read the table below ``title``; return whether it is a table's title. ``caption``: the last text before it."""
    stripped, lowered = title.strip(), caption.lower()
    if stripped.startswith("HOST ") and stripped.endswith("LEADERS/REPLICAS") and title.split()[1] == "BROKER":
        answer = "loadAfterOptimization" if "after" in lowered and "load" in lowered else "load"
        _server_load(rows, title, lines, "loadBeforeOptimization" if "before" in lowered else answer)
        return True
    for head, pattern, names, add in _PRINTED:
        if head.match(title):
            rows.listed.clear()
            for number_of, line in _until_blank(lines):
                row = pattern.match(line)
                if row is None:
                    rows.wrong(number_of)
                elif row[1]:
                    item = dict(zip(names, row.groups(), strict=True))
                    add(rows, item | {name: _ids(item[name]) for name in _LISTS & item.keys()}, number_of)
            return True
    found = _CLIENT.get(stripped.strip("':")) if _CLIENT_TITLE.match(stripped) else None
    if found:
        _client_table(rows, found, lines)
    return found is not None


_LISTS = {"followers", *_REPLICAS.values()}
_COLUMNS = {
    "HOST": "Host",
    "BROKER": "Broker",
    "RACK": "Rack",
    "DISK_CAP(MB)": "DiskCapacityMB",
    "DISK(MB)/_(%)_": "DiskMB/DiskPct",
    "CORE_NUM": "NumCore",
    "CPU(%)": "CpuPct",
    "NW_IN_CAP(KB/s)": "NetworkInCapacity",
    "LEADER_NW_IN(KB/s)": "LeaderNwInRate",
    "FOLLOWER_NW_IN(KB/s)": "FollowerNwInRate",
    "NW_OUT_CAP(KB/s)": "NetworkOutCapacity",
    "NW_OUT(KB/s)": "NwOutRate",
    "PNW_OUT(KB/s)": "PnwOutRate",
    "LEADERS/REPLICAS": "Leaders/Replicas",
}
"""The server's column titles and the JSON keys of what is in them."""


def _server_load(rows: AnswerRows, header: str, lines: Lines, answer: str) -> None:
    """Read the rows under a ``HOST BROKER …`` title; indented log-directory rows (no comma after the first word) are skipped."""
    names = [_COLUMNS.get(word, "") for word in header.split()]
    for number_of, line in _until_blank(lines):
        fields = [field.strip() for field in line.split(",")]
        if len(fields) == len(names):
            item: dict[str, str] = {}
            for name, field in zip(names, fields, strict=True):
                item |= zip_longest(name.split("/"), field.split("/", name.count("/")), fillvalue="")
            rows.broker(answer, item, line=number_of)
        elif len(fields) >= 3:
            rows.wrong(number_of)


def _ids(text: str) -> list[Any]:
    return [integer(part) if part.strip().isdecimal() else None for part in text.split(",") if part.strip()]


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
    if not {*names} & {*FIELDS, "Host", "Rack", "BrokerState", *_STATE_COUNTS.values()} - {"BrokerId"}:
        return
    lines.pop()
    index = lines[-1][1].strip() if lines else ""
    if index not in ("Broker", "Host", "BrokerId"):
        return
    lines.pop()
    for number_of, line in _until_blank(lines):
        words = line.split()
        item = {**dict(zip(names, words[1:], strict=False)), index: words[0]}
        if answer == "kafka_cluster_state":
            rows.counts(item | {"BrokerId": words[0]}, number_of)
        elif len(words) != len(names) + 1:
            rows.wrong(number_of)
        else:
            rows.broker(answer, item, is_host=index == "Host", line=number_of)
