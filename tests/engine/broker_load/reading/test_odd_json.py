"""JSON that no tool writes: deep values, wrong types, names of every kind. A problem each, and the good records stay."""

from __future__ import annotations

import json
from typing import Any

import pytest

from engine.broker_load.reading.fields import MOST_REPLICAS
from engine.broker_load.reading.kinds import KINDS
from engine.core.reading import HEAD, Reading, Source

DEEPER, DEEP = 10_000, 100_000
"""Levels of brackets: more than Python's own stack takes, and more than a stack of the operating system's would."""
ODD: tuple[Any, ...] = (
    None,
    True,
    5,
    -1,
    2.5,
    1e999,
    float("nan"),
    10**400,
    "",
    "x",
    "5",
    [],
    [[]],
    [5],
    {},
    {"a": []},
)
"""One value of every type, and some that only look right."""
GOOD: dict[str, dict[str, Any]] = {
    "capacity": {"brokerId": "1", "capacity": {"DISK": "1", "CPU": "100", "NW_IN": "1", "NW_OUT": "1"}},
    "log_dirs": {"broker": 1, "logDirs": [{"logDir": "/d", "error": None, "partitions": []}]},
    "log_dir_sizes": {"partition": "t-0", "size": 5, "offsetLag": 0, "isFuture": False},
    "plans": {"topic": "t", "partition": 0, "replicas": [1, 2]},
    "answer_brokers": {"Broker": 1, "Host": "h", "BrokerState": "ALIVE", "CpuPct": 5, "DiskMB": 1, "PnwOutRate": 1},
    "answer_hosts": {"Host": "h", "CpuPct": 5, "DiskMB": 1, "PnwOutRate": 1, "Replicas": 2},
    "answer_partitions": {
        "topic": "t", "partition": 0, "leader": 1, "followers": [2], "cpu": 1, "disk": 1, "networkInbound": 1,
        "networkOutbound": 1, "msg_in": 1,
    },
    "topology": {
        "topic": "t", "partition": 0, "leader": 1, "replicas": [1, 2], "in-sync": [1], "out-of-sync": [2], "offline": [],
    },
    "answer_goals": {"goal": "RackAwareGoal", "status": "NO-ACTION"},
}  # fmt: skip
"""A record of every table of JSON."""


def document(table: str, records: Any) -> dict[str, Any]:
    """The document that has the records of a table."""
    match table:
        case "capacity":
            return {"brokerCapacities": records}
        case "log_dirs":
            return {"version": 1, "brokers": records}
        case "log_dir_sizes":
            return {"brokers": [{"broker": 1, "logDirs": [{"logDir": "/d", "partitions": records}]}]}
        case "plans":
            return {"version": 1, "partitions": records}
        case "answer_brokers":
            return {"version": 1, "note": {"DiskMB": 0}, "brokers": records}
        case "answer_hosts":
            return {"version": 1, "note": {"DiskMB": 0}, "brokers": [], "hosts": records}
        case "answer_partitions":
            return {"version": 1, "note": {"networkInbound": 0}, "records": records}
        case "topology":
            return {"KafkaBrokerState": {}, "KafkaPartitionState": {"other": records}}
    return {"goalSummary": records, "summary": {}}


def take(content: str) -> Reading:
    """Read a document by the kind that recognises it."""
    data = content.encode()
    kind = next(kind for kind in KINDS if kind.recognise("x.json", data[:HEAD]))
    reading = kind.read(Source("/in/x.json", "x.json", 1_700_000_000_000, len(data)), data, None, True)
    for name, rows in reading.rows.items():
        next(table for table in kind.tables if table.name == name).frame(rows)
    return reading


def count(reading: Reading, table: str) -> int:
    """How many rows a table has."""
    rows: dict[str, list[Any]] = reading.rows.get(table, {})  # type: ignore[assignment]
    return len(next(iter(rows.values()), []))


@pytest.mark.parametrize("table", GOOD)
def test_good_records_stay_beside_a_deep_one(table: str) -> None:
    """Deeper than Python's own stack: one problem, and the record before it is there."""
    text = json.dumps(document(table, [GOOD[table], "HERE"]))
    for deep in ("[" * DEEPER + "]" * DEEPER, '{"a":' * DEEPER + "1" + "}" * DEEPER):
        reading = take(text.replace('"HERE"', deep))
        assert count(reading, table) == 1
        assert "nested-too-deeply" in {problem.kind for problem in reading.problems}
    unclosed = take(text.replace('"HERE"', "[" * DEEPER))
    assert "bad-json" in {problem.kind for problem in unclosed.problems}


@pytest.mark.parametrize("table", GOOD)
def test_good_records_stay_beside_odd_ones(table: str) -> None:
    """Every value of a record, and the record itself, as every type of JSON; one by one and all together."""
    good = GOOD[table]
    odd = [*ODD, *(good | {key: value} for key in good for value in ODD)]
    for records in (*([good, record] for record in odd), [good, *odd]):
        reading = take(json.dumps(document(table, records)))
        assert 1 <= count(reading, table) <= len(records)
        assert all(problem.reason.isprintable() and len(problem.reason) < 500 for problem in reading.problems)
    assert sum(problem.count for problem in reading.problems) > len(ODD) / 2


@pytest.mark.parametrize("table", GOOD)
def test_any_type_where_a_list_of_records_should_be(table: str) -> None:
    """Nothing is raised, and anything but a list of records gives no rows."""
    for odd in ODD:
        text = json.dumps(document(table, odd))
        if any(kind.recognise("x.json", text.encode()) for kind in KINDS):
            assert count(take(text), table) == 0


def test_lists_of_replicas_that_no_partition_has() -> None:
    """A partition with more brokers than any has is a problem: arrays would be as wide for all."""
    for longest, rows in ((MOST_REPLICAS, 2), (MOST_REPLICAS + 1, 1)):
        plan = [GOOD["plans"], {"topic": "u", "partition": 0, "replicas": list(range(longest))}]
        reading = take(json.dumps(document("plans", plan)))
        assert count(reading, "plans") == rows
        assert len(reading.problems) == 2 - rows


def test_answers_of_log_directories_in_any_order_of_keys() -> None:
    """Keys in any order, over many lines, under any text; of several answers the newest."""
    answer = {
        "brokers": [{"logDirs": [{"partitions": [GOOD["log_dir_sizes"]], "logDir": "/d"}], "broker": 3}],
        "version": 1,
    }
    texts = [
        json.dumps(answer), json.dumps(answer, indent=2), "Querying brokers\nReceived\n" + json.dumps(answer) + "\nbye\n",
        json.dumps({"brokers": []}) + "\n" + json.dumps(answer),
    ]  # fmt: skip
    for text in texts:
        reading = take(text)
        assert not reading.problems
        assert reading.rows["log_dir_sizes"]["broker"] == [3]  # type: ignore[index]
