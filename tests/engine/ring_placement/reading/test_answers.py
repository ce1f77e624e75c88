"""Answers of Prometheus and VictoriaMetrics place what the text they were made of places."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from engine.core.reading import Source
from engine.core.view import FileInfo, Inputs, Result
from engine.ring_placement import tables
from engine.ring_placement.parameters import RingParameters
from engine.ring_placement.reading.load_table import Metrics
from engine.ring_placement.scenarios.load_sources import counter_totals, present
from tests.contract.samples import opened
from tests.reference import reference


def placed(folder: Path, ring: Path, feed: Path) -> Result:
    folder.mkdir()
    (folder / "ring3.page.json").write_bytes(ring.read_bytes())
    (folder / feed.name).write_bytes(feed.read_bytes())
    session = opened("ring-placement", folder)
    try:
        return session.compute("ring-placement", RingParameters())
    finally:
        session.close()


@pytest.mark.parametrize("name", ["vector.json", "export.jsonl"])
def test_an_answer_of_prometheus_gives_the_same_placement_as_the_text(tmp_path: Path, name: str) -> None:
    native = reference("ring-placement") / "native"
    of_text = placed(tmp_path / "text", native / "ring3.page.json", native / "metrics.prom")
    of_answer = placed(tmp_path / "answer", native / "ring3.page.json", reference("feeds") / "ring" / name)
    assert not of_answer.problems
    for table in ("nodes", "shards"):
        assert of_answer.tables[table].equals(of_text.tables[table]), table
        assert of_answer.tables[table].height


SENT = "pyroscope_segment_writer_client_sent_bytes_sum"


def totals(*series: tuple[str, list[tuple[int, float]]]) -> tuple[list[tuple[Any, ...]], bool]:
    """Bytes of one tenant's shard as several distributors count them, each at times of its own."""
    result = [
        {
            "metric": {"__name__": SENT, "tenant": "t", "shard": "3", "addr": "w:1", "instance": instance},
            "values": [[at, str(value)] for at, value in points],
        }
        for instance, points in series
    ]
    data = json.dumps({"status": "success", "data": {"resultType": "matrix", "result": result}}).encode()
    rows = Metrics().read(Source("/m/a.json", "a.json", 0, len(data)), data, None, True).rows["metrics"]
    frame = tables.METRICS.frame(rows).with_columns(pl.lit(1, pl.UInt32).alias("file"))
    files = {1: FileInfo(1, "/m/a.json", "a.json", "placement-metrics", 0, len(data), 1)}
    found, rated = counter_totals(frame, Inputs(1, files, (), lambda name: frame), SENT)
    return found.select("tenant", "shard", "instance", "bytes").rows(), rated


def test_counters_of_several_distributors_are_rates_that_add_up_and_survive_a_restart() -> None:
    one = ("d-0:4040", [(1_700_000_000, 5_000.0), (1_700_000_060, 11_000.0)])
    two = ("d-1:4040", [(1_700_000_007, 9e6), (1_700_000_037, 9e6 + 3_000), (1_700_000_067, 6_000.0)])
    assert totals(one) == ([("t", 3, "w:1", 100.0)], True)
    assert totals(one, two) == ([("t", 3, "w:1", 250.0)], True)


def test_an_ended_series_of_a_gauge_is_dropped() -> None:
    frame = pl.DataFrame({"t": [0, 100_000, 400_001], "time_ms": [0, 100_000, 400_001], "value": [1.0, 2.0, 3.0]})
    assert present(frame)["value"].to_list() == [3.0]
    untimed = frame.with_columns(pl.lit(None, pl.Int64).alias("time_ms"))
    assert present(untimed).height == 3
