"""Which values of a metric are better: by the operator's rule, by what a file of the same tool states, by unit and name."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from engine.run_comparison.parameters import parse_direction_rules
from engine.run_comparison.reading.series import Direction
from engine.run_comparison.runs.measurements import MetricKey, better_direction, directions_of
from tests.engine.run_comparison.folder import compute

K6 = {
    "root_group": {},
    "metrics": {
        "http_req_failed": {"type": "rate", "contains": "default", "values": {"rate": 0.1, "passes": 1, "fails": 9}},
        "dropped_iterations": {"type": "counter", "contains": "default", "values": {"count": 4, "rate": 0.2}},
    },
}
GO = "Unit rate better=higher\nUnit MB/s better=lower\nUnit http_req_failed better=higher\n"


def directions(root: Path, go: str) -> dict[tuple[str, str, str], str]:
    """Directions by test, verb and bucket of two sides with one run each."""
    for side in ("left", "right"):
        (root / side / "1").mkdir(parents=True)
        (root / side / "1" / "k6.json").write_text(json.dumps(K6))
        (root / side / "1" / "bench.txt").write_text(go)
    metrics = compute(root, left=("left",), right=("right",), draws=20).tables["metrics"]
    return {row[:3]: row[3] for row in metrics.select("test", "verb", "bucket", "direction").iter_rows()}


def test_what_a_file_states_holds_for_its_own_tool_only(tmp_path: Path) -> None:
    benchmarks = "BenchmarkQueue 10 5 rate 7 MB/s\nBenchmarkrate 10 5 ns/op\n"
    found = directions(tmp_path, GO + benchmarks)
    assert found["k6", "http_req_failed", "rate"] == "lower", "the unit of a Go benchmark says nothing about k6"
    assert found["k6", "dropped_iterations", "count"] == "lower"
    assert found["go-benchmark", "Queue", "rate"] == "higher"
    assert found["go-benchmark", "Queue", "B/s"] == "lower", "stated for the unit as written, which is converted"
    assert found["go-benchmark", "rate", "sec/op"] == "lower", "a benchmark called like a unit is not meant by it"


def test_without_a_statement_unit_and_name_decide(tmp_path: Path) -> None:
    found = directions(tmp_path, "BenchmarkQueue 10 5 rate 7 MB/s\n")
    assert found["go-benchmark", "Queue", "rate"] == "lower"
    assert found["go-benchmark", "Queue", "B/s"] == "higher"


def direction_of(kind: str, verb: str, unit: str, resource: str = "", report: str = "", metric: str = "") -> str:
    (found,) = directions_of([MetricKey(kind, report, verb, resource, "", "", metric, unit, unit)], (), ())
    return found


def test_names_that_people_gave_do_not_turn_a_rate_round() -> None:
    for verb in ("ParseDuration", "ParseError", "errorPath", "RetryLoop"):
        assert direction_of("go-benchmark", verb, "B/s") == "higher", verb
    assert direction_of("fio", "read", "io/s", "iops", report="wait-and-fail") == "higher"
    assert direction_of("jmh", "org.ErrorBench.parse", "ops/s") == "higher"
    assert direction_of("locust", "/login-failed", "requests/s", "requests") == "higher"


def test_labels_say_what_was_run_and_turn_nothing_round() -> None:
    for label in ("url=http://shop/retries", "url=http://failover.example/, connections=8", 'path="a, b/errors"'):
        assert direction_of("hey", "GET", "requests/s", "throughput", metric=label) == "higher", label
        assert direction_of("csv", "throughput", "ops/s", metric=label) == "higher", label
        assert direction_of("csv", "throughput", "", metric=label) == "higher", label
    assert direction_of("hey", "GET", "ms", "connect", metric="url=http://shop/throughput") == "lower"


def test_a_further_name_that_is_no_label_is_part_of_the_quantity() -> None:
    assert direction_of("probes", "", "%", "etcd", metric="availability") == "higher"
    assert direction_of("csv", "etcd", "1/s", metric="restarts") == "lower"


def test_an_operators_rule_may_name_a_label() -> None:
    key = MetricKey("hey", "", "GET", "connect", "", "", "url=http://shop/search", "mean", "ms")
    assert directions_of([key], (), ("*shop/search*=higher",)) == ["higher"]


def test_a_rate_of_failures_is_better_lower() -> None:
    assert direction_of("locust", "/login", "failures/s", "failures") == "lower"
    assert direction_of("go-benchmark", "Queue", "errors/s") == "lower"
    assert direction_of("csv", "errors", "1/s") == "lower"
    assert direction_of("jmh", "org.Bench.parse:·gc.alloc.rate", "B/s") == "lower"
    assert direction_of("k6", "http_req_failed", "count/s") == "lower"


def test_direction_by_rule_unit_and_name() -> None:
    assert better_direction("SchedulingThroughput", "pods/s") == "higher"
    assert better_direction("GET pods", "ms") == "lower"
    assert better_direction("availability", "%") == "higher"
    pods = MetricKey("anything", "", "GET", "pods", "", "", "", "Perc50", "ms")
    assert directions_of([pods], (), ("get*=higher",)) == ["higher"]
    assert directions_of([pods], (Direction("anything", "verb", "GET", "higher"),), ()) == ["higher"]
    for wrong in ("x", "=lower", "x=worse"):
        with pytest.raises(ValueError, match="direction"):
            parse_direction_rules([wrong])
