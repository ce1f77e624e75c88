"""Listings of a cluster by other tools: ``kafka-broker-api-versions``, ``kcat -L``, ``rpk topic describe``, and the
reassignments in progress."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from engine.broker_load.reading.fields import MOST_REPLICAS, columns, file_time, integer, text_of
from engine.broker_load.tables.inputs import BROKERS_IN, REASSIGNING, TOPOLOGY
from engine.core.reading import Document, Problem, Reading, Source, clean
from engine.core.tables import Table
from engine.formats import json_text

_LINE = re.compile(
    r"(?P<version>[^\s()]{1,255}?):\d{1,5} \(id: (?P<id>\d{1,9}) rack: (?P<rack>[^\s()]{1,255})"
    r"(?: isFenced: (?P<fenced>\w+))?\) -> .*|"
    r"\s*broker (?P<kcat>\d{1,9}) at (?P<host>[^\s]{1,255}?):\d{1,5}(?: \(controller\))?|"
    r"(?:\s*topic \"(?P<topic>[A-Za-z0-9._-]{1,255})\" with \d+ partitions:.*|NAME\s+(?P<name>[A-Za-z0-9._-]{1,255}))|"
    r"\s*partition (?P<partition>\d{1,9}), leader (?P<leader>-?\d{1,9}), replicas: (?P<replicas>[\d,]*), "
    r"isrs: (?P<isr>[\d,]*)(?:, .*)?|"
    r"(?P<part>\d{1,9})\s+(?P<lead>-?\d{1,9})\s+-?\d+\s+\[(?P<held>[\d ]*)\](?:\s+\[(?P<off>[\d ]*)\])?(?:\s.*)?|"
    r"(?:Reassignment of partition )?(?P<moved>[A-Za-z0-9._-]{1,255})-(?P<at>\d{1,9})"
    r"(?: is still in progress|: replicas: (?P<all>[\d,]+)\.(?: adding: (?P<to>[\d,]+)\.)?(?: removing: (?P<from>[\d,]+))?)\.?"
)  # fmt: skip
"""A line that says something: a broker with its rack, a broker of kcat, a topic, a partition of kcat, one of rpk, one that a
reassignment moves."""
_SEEN = re.compile(
    rb"^\S+:\d+ \(id: \d+ rack: |^Metadata for (?:all topics|\S+) \(from broker|^PARTITION\s+LEADER\s+EPOCH\s+REPLICAS|"
    rb"^(?:Current partition reassignments:|No partition reassignments found|Status of partition reassignment:|"
    rb"There is no active reassignment of partition )",
    re.MULTILINE,
)
_NOT_DONE = re.compile(
    rb"^There is no active reassignment of partition ([A-Za-z0-9._-]{1,255}-\d{1,9}), but replica set is ([\d, ]{0,400}?)"
    rb" rather than ([\d, ]{1,400}?)\.?[ \t\r]*$", re.MULTILINE,
)  # fmt: skip
"""What ``kafka-reassign-partitions --verify`` says of a move that is neither done nor running."""
_MOST_TOLD = 20
_JSON = (b'"originating_broker"', b'"isrs"', b'"high_watermark"')  # one of these keys is in the JSON of kcat or rpk


class ClusterListing(Document):
    """Brokers with their racks, partitions with leader and replicas, or reassignments, line by line or as JSON."""

    id = "cluster-listing"
    title = "kafka-broker-api-versions, kcat -L, rpk topic describe, kafka-reassign-partitions --list and --verify"
    tables: tuple[Table, ...] = (BROKERS_IN, TOPOLOGY, REASSIGNING)

    def recognise(self, name: str, head: bytes) -> bool:
        """Recognise by a line that only these tools print, or by the keys of their JSON."""
        return _SEEN.search(head) is not None or (
            head.lstrip()[:1] in (b"{", b"[") and any(key in head for key in _JSON) and b'"partitions"' in head
        )

    def read(self, source: Source, data: bytes, state: Any, final: bool) -> Reading:
        """Read one listing to rows of ``broker_list``, ``topology`` and ``reassigning``.

        rpk sorts replicas and names none in sync: the leader comes first, and all that are not offline count as in sync.
        """
        time, problems = file_time(source), list[Problem]()
        brokers, moving = list[tuple[Any, ...]](), list[tuple[Any, ...]]()
        parts: Iterator[tuple[Any, ...]] = _of_lines(text_of(data), brokers, moving, time)
        if data.lstrip()[:1] in (b"{", b"["):
            try:
                document = json_text.parse(source.path, data)
            except json_text.ERRORS as error:
                return Reading(problems=[Problem.at(source.path, "bad-json", str(error))], complete=False)
            problems += document.problems
            parts = _of_json(document.value, brokers)
        problems += _failed(source.path, data)
        rows = [_placed(time, *part) for part in parts]
        odd = rows.count(None)
        reason = "a topic that no line names, a replica that is listed twice, or more replicas than can be"
        problems += [Problem.at(source.path, "bad-record", reason, count=odd)] if odd else []
        filled = ((BROKERS_IN, brokers), (TOPOLOGY, filter(None, rows)), (REASSIGNING, moving))
        by_table = {table.name: columns(table, found) for table, found in filled}
        return Reading(rows=dict(by_table), problems=problems, consumed=len(data))


def _failed(path: str, data: bytes) -> Iterator[Problem]:
    """Yield a problem for each move that ``--verify`` finds neither done nor running; after some, how many more there are."""
    found = list(_NOT_DONE.finditer(data))
    for one in found[:_MOST_TOLD]:
        name, now, wanted = (part.decode("ascii") for part in one.groups())
        reason = f"the move of {name} to brokers {wanted} failed or was overwritten: it is on {now}; plan and execute it again"
        yield Problem.at(path, "move-failed", reason, line=data.count(b"\n", 0, one.start()) + 1)
    if len(found) > _MOST_TOLD:
        reason = "more moves failed or were overwritten; plan and execute them again"
        yield Problem.at(path, "move-failed", reason, count=len(found) - _MOST_TOLD)


def _of_lines(
    text: str, brokers: list[tuple[Any, ...]], moving: list[tuple[Any, ...]], time_ms: int
) -> Iterator[tuple[Any, ...]]:
    """Append brokers and reassignments; yield topic, number, leader, replicas, in sync and offline of each partition."""
    topic = ""
    for line in text.split("\n"):
        said = _LINE.fullmatch(line.rstrip())
        if said is None:
            continue
        topic = said["topic"] or said["name"] or topic
        if said["id"] or said["kcat"]:
            rack = "" if said["rack"] == "null" else said["rack"]
            host = said["version"] or said["host"]
            brokers.append(
                (int(said["id"] or said["kcat"]), clean(host), rack and clean(rack), said["fenced"] != "true", None)
            )
        elif said["moved"]:
            every, to, off = (_ids(said[name]) if said["all"] else None for name in ("all", "to", "from"))
            moving.append((time_ms, said["moved"], int(said["at"]), every, to, off))
        elif said["partition"]:
            yield topic, int(said["partition"]), int(said["leader"]), _ids(said["replicas"]), _ids(said["isr"]), []
        elif said["part"]:
            yield topic, int(said["part"]), int(said["lead"]), _ids(said["held"]), None, _ids(said["off"])


def _of_json(value: Any, brokers: list[tuple[Any, ...]]) -> Iterator[tuple[Any, ...]]:
    """Do the same as ``_of_lines`` for the output of ``kcat -L -J`` and ``rpk topic describe --format json``."""
    for node in value if isinstance(value, list) else [value]:
        for broker in _listed(node, "brokers"):
            number, host = integer(broker.get("id")), str(broker.get("name", "")).rpartition(":")[0]
            if number is not None:
                brokers.append((number, clean(host), None, True, None))
        for topic in _listed(node, "topics") or _listed({"topics": [node]}, "topics"):
            summary = topic.get("summary")
            name = topic.get("topic", summary.get("name") if isinstance(summary, dict) else "")
            for one in _listed(topic, "partitions"):
                lists = [
                    [integer(each.get("id") if isinstance(each, dict) else each) for each in found]
                    if isinstance(found := one.get(key), list) else None
                    for key in ("replicas", "isrs", "offline_replicas")
                ]  # fmt: skip
                yield name, integer(one.get("partition")), integer(one.get("leader"), -1), lists[0], lists[1], lists[2]


def _listed(node: Any, key: str) -> list[dict[str, Any]]:
    """Return the objects in the list ``key`` of ``node``; none if there is no such list."""
    found = node.get(key) if isinstance(node, dict) else None
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []


def _ids(text: str | None) -> list[int]:
    return [int(number) for number in re.split(r"[ ,]+", text or "") if number and len(number) < 10]


def _placed(
    time_ms: int, topic: Any, number: Any, leader: Any, replicas: Any, isr: Any, away: Any
) -> tuple[Any, ...] | None:
    """Return a partition's row of ``topology``, None if it makes no sense. ``isr`` None: the tool does not tell."""
    held, off = replicas or [], away or []
    if isr is None:
        held = sorted(held, key=lambda broker: broker != leader)
        isr = [broker for broker in held if broker not in off]
    if (
        not (topic and isinstance(topic, str))
        or number is None
        or not 0 < len(held) <= MOST_REPLICAS
        or len(set(held)) < len(held)
        or {*isr} - {*held}
        or None in {*held, *off}
    ):
        return None
    row = {"time_ms": time_ms, "topic": clean(topic), "partition": number, "topic_id": "",
           "leader": leader if leader in held else -1, "replicas": held, "isr": isr, "offline": off}  # fmt: skip
    return tuple(row.get(name) for name in TOPOLOGY.schema)
