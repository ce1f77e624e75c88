"""Two clusters below one root are reported; one cluster over time is not."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.core.incremental import Memo
from engine.core.view import Result
from tests.engine.broker_load.inputs import compute, read

HEADER = "Topic: {0}\tTopicId: {1}\tPartitionCount: {2}\tReplicationFactor: 2\tConfigs:\n"
PLAIN = "Topic: {0}\tPartitionCount: {2}\tReplicationFactor: 2\tConfigs:\n"
ROW = "\tTopic: {}\tPartition: {}\tLeader: {}\tReplicas: {},{}\tIsr: {},{}\n"


def describe(topics: dict[str, str], first: int, header: str = HEADER, count: int = 2) -> str:
    """A description of ``topics`` (id by name) on brokers ``first`` and the next one."""
    text = ""
    for name, topic_id in topics.items():
        text += header.format(name, topic_id, count)
        for number in range(count):
            text += ROW.format(name, number, first, first, first + 1, first, first + 1)
    return text


def signs(result: Result) -> list[str]:
    """Reasons of the problems that say so."""
    found = [p.reason for p in result.problems if p.kind == "mixed-clusters"]
    assert bool(found) == any("more than one cluster" in note for note in result.notes)
    assert bool(found) == any(f.subject == "mixed clusters" for f in result.findings)
    return found


@pytest.mark.parametrize(
    ("one", "two", "mixed"),
    [
        (describe({"t": "A", "u": "B"}, 1), describe({"t": "C", "u": "D"}, 1), True),
        (describe({"t": "A", "u": "B"}, 1), describe({"t": "A", "u": "B"}, 5), False),  # a reassignment
        (describe({"t": "A", "u": "B"}, 1), describe({"t": "A", "u": "C"}, 1), False),  # one topic created again
        (describe({"t": "A"}, 1), describe({"u": "B"}, 1), False),  # one topic at a time
        (describe({"t": "", "u": ""}, 1, PLAIN), describe({"t": "", "u": ""}, 5, PLAIN), True),
        (describe({"t": "", "u": ""}, 1, PLAIN), describe({"t": "", "u": ""}, 2, PLAIN), False),
        (describe({"t": ""}, 1, PLAIN, 1), describe({"t": ""}, 5, PLAIN, 1), False),  # too little to tell
    ],
)
def test_descriptions_by_topic_ids_or_else_by_place(tmp_path: Path, one: str, two: str, mixed: bool) -> None:
    (tmp_path / "topics-1700000000.txt").write_text(one)
    (tmp_path / "topics-1700000300.txt").write_text(two)
    memo = Memo()
    inputs = read(tmp_path)
    fresh = compute(inputs, memo=memo)
    assert bool(signs(fresh)) == mixed
    assert compute(inputs, memo=memo).same_as(fresh)


def test_broker_lists_with_other_hosts(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("broker,host,rack,alive\n1,kafka-1.example.com,a,true\n2,kafka-2,a,true\n")
    (tmp_path / "topics.txt").write_text(describe({"t": "A"}, 1))
    assert signs(compute(read(tmp_path))) == []
    (tmp_path / "b.csv").write_text("broker,host,rack,alive\n1,kafka-1,a,true\n2,kafka-2.example.com,a,true\n")
    assert signs(compute(read(tmp_path))) == []  # short names are the same hosts
    (tmp_path / "c.csv").write_text("broker,host,rack,alive\n1,other-1,a,true\n2,other-2,a,true\n")
    (found,) = signs(compute(read(tmp_path)))
    assert "broker 1 is on other-1 here" in found
    assert "1 more" in found


def test_scrapes_that_claim_one_id(tmp_path: Path) -> None:
    (tmp_path / "topics.txt").write_text(describe({"t": "A"}, 1))
    text = 'kafka_server_app_info_starttimems{{id="{}"}} 1\n'
    text += 'kafka_server_BrokerTopicMetrics_OneMinuteRate{{name="BytesInPerSec"}} 5\n'
    for place, broker in (("x-1", 1), ("x-2", 2)):
        (tmp_path / f"{place}_7071").mkdir()
        (tmp_path / f"{place}_7071" / "1700000040.prom").write_text(text.format(broker))
    assert signs(compute(read(tmp_path))) == []
    (tmp_path / "y-1_7071").mkdir()
    (tmp_path / "y-1_7071" / "1700000040.prom").write_text(text.format(1))
    (found,) = signs(compute(read(tmp_path)))
    assert "x-1 and y-1" in found
