"""Times, ids and amounts that no cluster has: a problem each, and the rows around them stay."""

from __future__ import annotations

import pytest

from engine.broker_load.reading.fields import LATEST_MS
from engine.broker_load.reading.kinds import KINDS
from engine.core.reading import HEAD, Reading, Source
from tests.engine.broker_load.clusters import T0

TIMES = (-1, LATEST_MS + 1, 2**63 - 1, -(2**63))


def take(name: str, data: bytes) -> Reading:
    """Read a file by the kind that recognises it."""
    kind = next(kind for kind in KINDS if kind.recognise(name, data[:HEAD]))
    return kind.read(Source(f"/in/{name}", name, T0, len(data)), data, None, True)


def times(reading: Reading, table: str) -> list[int]:
    """The times of the rows."""
    rows = reading.rows[table]
    return list(rows["time_ms"])


@pytest.mark.parametrize("time", TIMES)
def test_impossible_times_of_metrics(time: int) -> None:
    """CSV rows are left out; samples of a scrape are taken at the file's time."""
    head, row = "time_ms,metric,broker,topic,partition,value\n", "{},ALL_TOPIC_BYTES_IN,1,,,5\n"
    reading = take("metrics.csv", (head + row.format(T0) + row.format(time) + row.format(T0)).encode())
    assert times(reading, "metrics") == [T0, T0]
    assert [(problem.line, problem.kind) for problem in reading.problems] == [(3, "bad-record")]
    line = 'kafka_log_Log_Value{{name="Size",topic="t",partition="{}",}} 5 {}\n'
    reading = take(f"k_7071_{T0 // 1000}.prom", (line.format(0, T0 + 7) + line.format(1, time)).encode())
    assert times(reading, "metrics") == [T0, T0 + 7]
    # A number at the edge of 64 bits is no time at all to the reader of the format.
    assert [problem.kind for problem in reading.problems] == ["bad-time"] * (abs(time) < 2**62)


def test_descriptions_without_ids() -> None:
    """Partitions whose number or replicas are missing or too large are left out."""
    line = "\tTopic: t\tPartition: {}\tLeader: {}\tReplicas: {}\tIsr: 1\n"
    good, bad = (
        line.format(0, 1, 1),
        [(2**31, 1, 1), (1, 2**31, 1), (1, 1, 2**40), (1, 1, ",".join(map(str, range(200))))],
    )
    text = "Topic: t\tTopicId: x\tPartitionCount: 9\tReplicationFactor: 1\tConfigs: \n" + good
    reading = take("d.txt", (text + "".join(line.format(*row) for row in bad)).encode())
    assert list(reading.rows["topology"]["partition"]) == [0]
    assert "bad-record" in {problem.kind for problem in reading.problems}
