"""Prometheus' answers give the numbers of the scrapes they were made of, in every form they are handed out."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

from engine.broker_load.reading import metric_scrape
from engine.broker_load.reading.metric_scrape import MetricScrape
from engine.broker_load.tables import raw_metrics
from engine.core.reading import Source
from engine.core.tables import Parts
from engine.core.view import Result
from tests.bench import feeds
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


def test_machines_are_known_by_the_name_that_node_exporter_gives(tmp_path: Path) -> None:
    """Its series have addresses, as in Kubernetes; ``node_uname_info`` names the machine."""
    names: dict[str, str] = {}
    for path in (reference("feeds") / "kafka-small/range-gauges").iterdir():
        document = json.loads(path.read_text())
        series = document["data"]["result"]
        for one in series:
            if one["metric"]["__name__"] == "node_cpu_seconds_total":
                host = one["metric"]["instance"].rpartition(":")[0]
                one["metric"]["instance"] = names.setdefault(host, f"10.0.0.{len(names) + 1}:9100")
        for host, address in names.items():
            labels = {"__name__": "node_uname_info", "instance": address, "nodename": host.partition(".")[0]}
            series.append({"metric": labels, "values": [[AT, "1"]]})
        (tmp_path / path.name).write_text(json.dumps(document))
    assert len(names) == 4
    result = loads(tmp_path)
    samples_match(reference("broker-load") / "small/expected_kafka", result, 1e-9)
    assert not result.problems and not result.tables["ledger"].filter(pl.col("kind") == "unmatched-host").height


# --- names and odd answers, against the rows of plain scrapes ----------------------------------------------------------

AT = 1_700_000_040
Points = list[tuple[float, float]]


def rows(data: bytes, name: str = "a.json") -> pl.DataFrame:
    reading = MetricScrape().read(Source(f"/m/{name}", name, 0, len(data)), data, None, True)
    assert not reading.problems, reading.problems
    frame = reading.rows["metrics"]
    assert isinstance(frame, pl.DataFrame)
    return frame.select("time_ms", "host", "broker", "metric", "topic", "partition", "value", "counter")


def answer(*series: tuple[dict[str, str], Points]) -> bytes:
    result = [{"metric": metric, "values": [[at, str(value)] for at, value in points]} for metric, points in series]
    return json.dumps({"status": "success", "data": {"resultType": "matrix", "result": result}}).encode()


def of(name: str, /, **labels: str) -> dict[str, str]:
    return {"__name__": name, "instance": "b1:9404", **labels}


TWO: Points = [(AT, 5.0), (AT + 60, 65.0)]
BYTES_IN = "kafka_server_brokertopicmetrics_bytesin"


@pytest.mark.parametrize(
    ("metric", "counter"),
    [
        (of(f"{BYTES_IN}_total", topic="t"), True),
        (of(f"{BYTES_IN}_count", topic="t"), True),
        (of(f"{BYTES_IN}_count_total", topic="t"), True),
        (of(f"{BYTES_IN}persec", topic="t"), True),
        (of(f"{BYTES_IN}persec_count_total", topic="t"), True),
        (of("kafka_server_BrokerTopicMetrics_Count", name="BytesInPerSec", topic="t"), True),
        (of("kafka_server_BrokerTopicMetrics_OneMinuteRate", name="BytesInPerSec", topic="t"), False),
        (of("kafka_server_BrokerTopicMetrics_FiveMinuteRate", name="BytesInPerSec", topic="t"), False),
        (of(f"{BYTES_IN}_total:rate", topic="t"), False),
        (of(f"{BYTES_IN}_total:rate5m", topic="t"), False),
        (of(f"{BYTES_IN}_total", exported_topic="t"), True),
        (of("redpanda_kafka_request_bytes_total", redpanda_topic="t", redpanda_request="produce"), True),
    ],
)
def test_bytes_in_are_known_by_all_their_names(metric: dict[str, str], counter: bool) -> None:
    found = rows(answer((metric, TWO)))
    kind = raw_metrics.ID["TOPIC_BYTES_IN"]
    assert found.rows() == [(round(at * 1000), "b1:9404", None, kind, "t", None, value, counter) for at, value in TWO]


def test_a_mean_since_the_start_is_never_a_rate() -> None:
    assert not rows(answer((of("kafka_server_BrokerTopicMetrics_MeanRate", name="BytesInPerSec"), TWO))).height


def test_rates_go_before_counters_and_those_before_slower_rates() -> None:
    one, count, five = (
        of(f"kafka_server_brokertopicmetrics_bytesinpersec_{ending}")
        for ending in ("oneminuterate", "count", "fiveminuterate")
    )
    assert set(rows(answer((five, TWO), (count, [(AT, 7.0)]), (one, [(AT, 9.0)])))["value"]) == {9.0}
    assert set(rows(answer((five, TWO), (count, [(AT, 7.0)])))["value"]) == {7.0}


def test_copies_slices_and_extra_labels_change_nothing() -> None:
    metric = of(f"{BYTES_IN}_total", topic="t")
    plain = rows(answer((metric, TWO)))
    later = [(at + 7, value + 1) for at, value in TWO[:1]]
    assert rows(answer(({**metric, "replica": "a"}, later), ({**metric, "replica": "b"}, TWO))).equals(plain)
    assert rows(answer(({**metric, "env": "x", "namespace": "y"}, TWO))).equals(plain)
    assert rows(answer((metric, TWO[:1]), (metric, TWO))).equals(plain)


def test_conflicting_duplicates_are_a_problem() -> None:
    metric = of(f"{BYTES_IN}_total", topic="t")
    data = answer((metric, TWO), (metric, [(AT, 6.0)]))
    reading = MetricScrape().read(Source("/m/a.json", "a.json", 0, len(data)), data, None, True)
    assert [problem.kind for problem in reading.problems] == ["duplicate-series"]
    found = reading.rows["metrics"]
    assert isinstance(found, pl.DataFrame) and found["value"].to_list() == [5.0, 65.0]


def test_pods_containers_and_ids() -> None:
    pod = {"pod": "c-kafka-2", "container": "kafka"}
    found = rows(
        answer(
            ({"__name__": f"{BYTES_IN}_total", "instance": "10.1.2.3:9404", "pod": "c-kafka-2", "topic": "t"}, TWO),
            ({"__name__": "container_cpu_usage_seconds_total", "instance": "n1:10250", "cpu": "total", **pod}, TWO),
            ({"__name__": "container_cpu_usage_seconds_total", "instance": "n1:10250", "pod": "c-kafka-2"}, TWO),
            (
                {
                    "__name__": "container_cpu_usage_seconds_total",
                    "pod": "c-kafka-exporter-x",
                    "container": "kafka-exporter",
                },
                TWO,
            ),
            ({"__name__": "kube_pod_container_resource_limits", "resource": "cpu", **pod}, TWO),
            ({"__name__": "kube_pod_container_resource_limits", "resource": "memory", **pod}, TWO),
            ({"__name__": "process_cpu_seconds_total", "instance": "b7:1", "broker_id": "7"}, TWO[:1]),
        )
    )
    by_metric = dict(found.group_by("metric").len().iter_rows())
    assert by_metric == {
        raw_metrics.ID["TOPIC_BYTES_IN"]: 2, raw_metrics.CONTAINER_CPU_SECONDS: 2, raw_metrics.CONTAINER_CORES: 2,
        raw_metrics.PROCESS_CPU_SECONDS: 1,
    }  # fmt: skip
    assert set(found["host"]) == {"c-kafka-2", "b7:1"}
    assert found.filter(pl.col("host") == "b7:1")["broker"].to_list() == [7]


def test_brokers_of_the_whole_cluster() -> None:
    text = b'kafka_broker_info{address="k1.example.com:9092",id="1"} 1\nkafka_broker_info{address="k2:9092",id="2"} 1\n'
    listed = MetricScrape().read(Source("/m/e.prom", "e.prom", 0, 0), text, None, True).rows["broker_list"]
    assert isinstance(listed, pl.DataFrame)
    assert listed.select("broker", "host").rows() == [(1, "k1.example.com"), (2, "k2")]


def test_rows_of_a_large_answer_are_made_in_parts_in_order_of_time(monkeypatch: pytest.MonkeyPatch) -> None:
    name = "kafka_server_brokertopicmetrics_bytesin_total"
    data = answer(*(
        (of(name, instance=f"b{broker}:9404", topic="t"), [(AT + 60 * n + broker % 2, n * 5.0) for n in range(9)])
        for broker in range(4)
    ))  # fmt: skip
    whole = rows(data)
    assert whole["time_ms"].is_sorted() and whole.height == 36
    monkeypatch.setattr(metric_scrape, "MOST_ROWS", 7)
    made = MetricScrape().read(Source("/m/a.json", "a.json", 0, len(data)), data, None, True).rows["metrics"]
    assert isinstance(made, Parts) and made.height == 36
    parts = list(made.frames())
    assert [part.height for part in parts] == [7, 7, 7, 7, 7, 1]
    assert pl.concat(parts).select(whole.columns).equals(whole)


def test_memory_is_bounded_by_the_points_of_an_answer(tmp_path: Path) -> None:
    """In a process of its own: beside the file's bytes less than Python's own decoder takes (eight times them)."""
    path = tmp_path / "kafka.json"
    points = feeds.write(path, 12)
    _, megabytes = feeds.measure("read", path)
    assert points > 400_000 and megabytes < 8 * 12
