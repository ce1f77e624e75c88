"""Whose scrape a file is."""

from __future__ import annotations

import polars as pl
import pytest

from engine.broker_load.reading.metric_scrape import MetricScrape, instance
from engine.core.reading import Source


@pytest.mark.parametrize(
    ("path", "host"),
    [
        ("b1/1700000000.prom", "b1"), ("b1/metrics-001.prom", "b1"), ("b1/001.txt", "b1"), ("b2/node_exporter.prom", "b2"),
        ("kafka-1_7071/metrics.prom", "kafka-1:7071"), ("kafka-1_7071/a.prom", "kafka-1:7071"),
        ("10.0.0.1_7071/s.prom", "10.0.0.1:7071"), ("any/kafka-1_7071.prom", "kafka-1:7071"), ("b1/kafka-3.prom", "kafka-3"),
        ("x/kafka-1.example.com_9100-1700000000.prom", "kafka-1.example.com:9100"),
        ("x/kafka-2_7071-20260101T000000Z.prom", "kafka-2:7071"), ("2026-01-01/kafka-3.prom", "kafka-3"),
    ],
)  # fmt: skip
def test_a_scrape_belongs_to_the_host_in_its_name_or_folder(path: str, host: str) -> None:
    """The file's name, or the folder's if that says more."""
    assert instance(Source(f"/metrics/{path}", path.rpartition("/")[2], 0, 0)) == host


def test_a_series_given_at_several_times_is_that_many_readings() -> None:
    """As ``/federate`` and VictoriaMetrics' export write it, with times in milliseconds."""
    text = (
        b'kafka_log_log_size{instance="b1:7071",topic="t",partition="0"} 5 1700000040000\n'
        b'kafka_log_log_size{instance="b1:7071",topic="t",partition="0"} 7 1700000100000\n'
    )
    reading = MetricScrape().read(Source("/m/x.prom", "x.prom", 0, 0), text, None, True)
    rows = reading.rows["metrics"]
    assert isinstance(rows, pl.DataFrame) and not reading.problems
    assert rows.select("time_ms", "host", "value").rows() == [
        (1700000040000, "b1:7071", 5.0),
        (1700000100000, "b1:7071", 7.0),
    ]
