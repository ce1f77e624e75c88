"""Listings of a cluster by other tools: ``kafka-broker-api-versions``, ``kcat -L``, ``rpk topic describe``."""

from __future__ import annotations

import re
from typing import Any

from engine.broker_load.reading.fields import MOST_REPLICAS, file_time, text_of
from engine.broker_load.tables.inputs import BROKERS_IN, TOPOLOGY
from engine.core.reading import Document, Problem, Reading, Source
from engine.core.tables import Table

_LINE = re.compile(
    r"(?P<version>[^\s()]{1,255}?):\d{1,5} \(id: (?P<id>\d{1,9}) rack: (?P<rack>[^\s()]{1,255})"
    r"(?: isFenced: (?P<fenced>\w+))?\) -> .*|"
    r"\s*broker (?P<kcat>\d{1,9}) at (?P<host>[^\s]{1,255}?):\d{1,5}(?: \(controller\))?|"
    r"(?:\s*topic \"(?P<topic>[A-Za-z0-9._-]{1,255})\" with \d+ partitions:.*|NAME\s+(?P<name>[A-Za-z0-9._-]{1,255}))|"
    r"\s*partition (?P<partition>\d{1,9}), leader (?P<leader>-?\d{1,9}), replicas: (?P<replicas>[\d,]*), "
    r"isrs: (?P<isr>[\d,]*)(?:, .*)?|"
    r"(?P<part>\d{1,9})\s+(?P<lead>-?\d{1,9})\s+-?\d+\s+\[(?P<held>[\d ]*)\](?:\s+\[(?P<off>[\d ]*)\])?(?:\s.*)?"
)  # fmt: skip
"""A line that says something: a broker with its rack, a broker of kcat, a topic, a partition of kcat, one of rpk."""
_SEEN = re.compile(
    rb"^\S+:\d+ \(id: \d+ rack: |^Metadata for (?:all topics|\S+) \(from broker|^PARTITION\s+LEADER\s+EPOCH\s+REPLICAS",
    re.MULTILINE,
)


class ClusterListing(Document):
    """Brokers with their racks, or partitions with leader and replicas, line by line."""

    id = "cluster-listing"
    title = "kafka-broker-api-versions, kcat -L, rpk topic describe"
    tables: tuple[Table, ...] = (BROKERS_IN, TOPOLOGY)

    def recognise(self, name: str, head: bytes) -> bool:
        """Recognise by a line that only these tools print."""
        return _SEEN.search(head) is not None

    def read(self, source: Source, data: bytes, state: Any, final: bool) -> Reading:
        """Read one listing to rows of ``broker_list`` and ``topology``.

        rpk sorts replicas and names none in sync: the leader comes first, and all that are not offline count as in sync.
        """
        lines = text_of(data).split("\n")
        brokers: dict[str, list[Any]] = {column.name: [] for column in BROKERS_IN.columns}
        rows: dict[str, list[Any]] = {column.name: [] for column in TOPOLOGY.columns}
        topic, odd = "", 0
        for line in lines:
            said = _LINE.fullmatch(line.rstrip())
            if said is None:
                continue
            topic = said["topic"] or said["name"] or topic
            if said["id"] or said["kcat"]:
                rack = "" if said["rack"] == "null" else said["rack"]
                row = (
                    int(said["id"] or said["kcat"]),
                    said["version"] or said["host"],
                    rack,
                    said["fenced"] != "true",
                    None,
                )
                for values, value in zip(brokers.values(), row, strict=True):
                    values.append(value)
            elif said["partition"] or said["part"]:
                odd += not _add(rows, file_time(source), topic, said)
        reason = "a topic that no line names, a replica that is listed twice, or more replicas than can be"
        problems = [Problem.at(source.path, "bad-record", reason, count=odd)] if odd else []
        return Reading(rows={"broker_list": brokers, "topology": rows}, problems=problems, consumed=len(data))


def _add(rows: dict[str, list[Any]], time_ms: int, topic: str, said: re.Match[str]) -> bool:
    """Append a partition to ``rows`` of ``topology``; return whether it makes sense."""
    replicas, away = (
        [int(number) for number in re.split(r"[ ,]+", text or "") if len(number) < 10 and number]
        for text in (said["replicas"] or said["held"], said["off"])
    )
    isr = [int(number) for number in (said["isr"] or "").split(",") if number and len(number) < 10]
    leader = int(said["leader"] or said["lead"])
    if said["held"] is not None:
        replicas.sort(key=lambda broker: broker != leader)
        isr = [broker for broker in replicas if broker not in away]
    if (
        not topic
        or not 0 < len(replicas) <= MOST_REPLICAS
        or len(set(replicas)) < len(replicas)
        or {*isr} - {*replicas}
    ):
        return False
    row = {"time_ms": time_ms, "topic": topic, "partition": int(said["partition"] or said["part"]), "topic_id": "",
           "leader": leader if leader in replicas else -1, "replicas": replicas, "isr": isr, "offline": away}  # fmt: skip
    for name, values in rows.items():
        values.append(row.get(name))
    return True
