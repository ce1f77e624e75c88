"""Prometheus' answers give the numbers of the scrapes they were made of, in every form they are handed out."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.result import Result
from tests.engine.broker_load.cruise_control.test_golden import brokers_match, replicas_match, samples_match
from tests.engine.broker_load.inputs import compute, read
from tests.reference import reference

FORMS = (
    "range-gauges", "range-counters", "range-step30", "raw-gauges", "raw-counters", "vector-gauges", "vector-counters",
    "vm-jsonl", "vm-csv", "vm-promapi", "vm-prometheus", "tsdb-dump", "openmetrics",
)  # fmt: skip


def loads(*feeds: Path) -> Result:
    small = reference("broker-load") / "small"
    rest = small / "native/topics-describe.txt", small / "input/capacity.json", small / "input/brokers.csv"
    return compute(read(*feeds, *rest))


@pytest.mark.parametrize("form", FORMS)
def test_each_form_gives_the_golden_numbers(form: str) -> None:
    result = loads(reference("feeds") / "kafka-small" / form)
    expected = reference("broker-load") / "small" / "expected_kafka"
    samples_match(expected, result, 1e-9)
    replicas_match(expected, result)
    brokers_match(expected, result)
    assert not result.problems
