"""Odd values and files made to take time: a problem each, and the good parts of the same file stay."""

from __future__ import annotations

import json
from typing import Any

import pytest

from engine.core.reading import Reading, Source
from engine.run_comparison.reading.series import MOST_CHARACTERS, PER_BYTE
from engine.run_comparison.view import READERS
from tests.engine.run_comparison.folder import TABLES

BY_ID = {reader.id: reader for reader in READERS}


def read(kind: str, data: bytes | str, name: str = "x.json") -> Reading:
    """The reading of ``data``; its rows fit their tables."""
    raw = data.encode() if isinstance(data, str) else data
    reading = BY_ID[kind].read(Source(f"/job/1/{name}", name, 0, len(raw)), raw, None, True)
    for table, rows in reading.rows.items():
        TABLES[table].frame(rows)
    return reading


def numbers(reading: Reading) -> list[float]:
    rows: Any = reading.rows.get("measurements", {"value": []})
    return list(rows["value"])


DEEP = json.loads("[" * 150 + "]" * 150)
ODD: list[Any] = [None, True, 0, "x", 10**300, "\x1b[2J", [], {}, [[1]], {"a": {}}, DEEP]

# Each document has a place for an odd entry between two good ones, and the numbers that the good ones give.
ENTRIES: dict[str, tuple[str, str, dict[str, Any], list[float]]] = {
    "pytest-benchmark": ("x.json", '{"benchmarks":%s}', {"fullname": "t", "stats": {"min": 1.0}}, [1.0]),
    "hyperfine": ("x.json", '{"results":%s}', {"command": "a", "times": [1.0, 2.0]}, [1.0, 2.0]),
    "jmh": ("x.json", "%s", {"benchmark": "b", "mode": "thrpt", "primaryMetric": {"score": 3.0}}, [3.0]),
    "fio": ("x.json", '{"jobs":%s}', {"jobname": "j", "usr_cpu": 4.0}, [4.0]),
    "pyperf": ("x.json", '{"benchmarks":%s}', {"metadata": {"name": "n"}, "runs": [{"values": [5.0]}]}, [5.0]),
    "kube-burner": ("x.json", "%s", {"metricName": "m", "uuid": "u", "value": 6.0}, [6.0]),
    "resource usage": ("ResourceUsageSummary_x.json", '{"99":%s}', {"Name": "p/c", "CPU": 1.0, "Mem": 1048576}, [1.0] * 4),
    "etcd": (
        "EtcdMetrics_x.json", '{"backendCommitDuration":%s}', {"labels": {}, "buckets": {"1": 1, "+Inf": 2}}, [50.0] * 2
    ),
    "e2e": (
        "MetricsForE2E_x.json", '{"APIServerMetrics":{"m":%s}}', {"metric": {"a": "b"}, "value": [1, "7"]}, [14.0]
    ),
    "pods": (
        "SystemPodMetrics_x.json", '{"pods":%s}', {"containers": [{"name": "c", "restartCount": 8}]}, [8.0]
    ),
    "restarts": ("ContainerRestarts_x.json", "%s", {"Container": "c", "RestartCount": 9}, [18.0]),
}  # fmt: skip


@pytest.mark.parametrize("kind", ENTRIES)
@pytest.mark.parametrize("odd", range(len(ODD)))
def test_one_odd_entry_leaves_the_others(kind: str, odd: int) -> None:
    name, frame, good, expected = ENTRIES[kind]
    reader = kind if kind in BY_ID else "clusterloader-report"
    wanted = set(expected) if kind != "resource usage" else {1.0}  # its mean counts entries without a value as well
    found = read(reader, frame % json.dumps([good, ODD[odd], good]), name)
    assert wanted <= set(numbers(found))
    if kind in BY_ID:
        assert sum(value in wanted for value in numbers(found)) == 2 * len(expected)
    if not isinstance(ODD[odd], dict):
        assert found.problems
    # The same with each value of the entry odd in turn.
    for key in good:
        found = read(reader, frame % json.dumps([good, {**good, key: ODD[odd]}, good]), name)
        if kind in ("e2e", "restarts"):  # sums
            assert sum(value or 0.0 for value in numbers(found)) >= sum(wanted)
        else:
            assert wanted <= set(numbers(found)), key


def test_parts_of_objects_are_taken_apart() -> None:
    k6 = {"root_group": {}, "metrics": {"a": 5, "b": {"type": "trend", "values": {"avg": 1.5, "max": "x"}}, "c": []}}
    found = read("k6-summary", json.dumps(k6))
    assert numbers(found) == [1.5]
    assert sorted(p.kind for p in found.problems) == ["bad-shape", "bad-shape", "bad-value"]
    latencies = {"a": {"Perc50": "1s", "Perc90": "soon"}, "b": {"Perc50": [], "Perc99": 4}, "c": "2ms", "d": "x"}
    found = read("clusterloader-report", json.dumps(latencies), "JobLifecycleLatency_x.json")
    assert numbers(found) == [1000.0, 4.0, 2.0]
    assert len(found.problems) == 3
    usage = {"50": 5, "90": {}, "99": [{"Name": "a", "CPU": 3.0, "Mem": 1}]}
    found = read("clusterloader-report", json.dumps(usage), "ResourceUsageSummary_x.json")
    assert numbers(found).count(3.0) == 2
    assert sum(p.count for p in found.problems) == 2
    throughput = {"perc50": 1, "perc90": None, "perc99": "x", "max": True}
    found = read("clusterloader-report", json.dumps(throughput), "SchedulingThroughput_x.json")
    assert numbers(found) == [1.0, None]


def test_values_beyond_the_decoders_leave_the_others() -> None:
    for odd in ("[" * 100_000 + "]" * 100_000, "9" * 10_000):
        found = read(
            "hyperfine", f'{{"results":[{{"command":"a","times":[1.0]}},{odd},{{"command":"b","times":[2.0]}}]}}'
        )
        assert numbers(found) == [1.0, 2.0]
        data = f'{{"99":[{{"Name":"a","CPU":1.0,"Mem":1}},{odd},{{"Name":"b","CPU":{odd},"Mem":1}}]}}'
        assert 1.0 in numbers(read("clusterloader-report", data, "ResourceUsageSummary_x.json"))


def test_csv_rows_by_themselves() -> None:
    text = 'time,a,b [ms]\n2024-01-01,1,2\n2024-01-02,"open\n2024-01-03,x,4\nsoon,5,6\n2024-01-04\n2024-01-05,7,1_0\n'
    found = read("csv-series", text, "a.csv")
    assert numbers(found) == [1.0, 2.0, 4.0, 7.0]
    assert {(p.kind, p.line) for p in found.problems} == {
        ("open-quote", 3), ("bad-value", 4), ("bad-time", 5), ("bad-record", 6), ("bad-value", 7),
    }  # fmt: skip


def test_a_document_without_values_is_a_visible_problem() -> None:
    for kind, text in (("k6-summary", '{"metrics":{}}'), ("hyperfine", '{"results":[{"command":"a"}]}'), ("jmh", "[]")):
        assert [p.kind for p in read(kind, text).problems] == ["no-values"]


LONG = 80_000
"""Bytes of the files below: in quadratic time each would take minutes at least."""
API = "APIResponsiveness_load_x.json"


def _repeated(part: bytes, size: int = LONG) -> bytes:
    return part * (size // len(part))


_SYSBENCH = b"Running the test with following options:\nLatency (ms):\n"
SLOW: dict[str, tuple[str, str, bytes]] = {
    "sysbench blanks": ("sysbench", "s.txt", _SYSBENCH + b" " * LONG + b"\nmin: 1" + b" " * LONG + b"x\n"),
    "sysbench words": ("sysbench", "s.txt", _SYSBENCH + _repeated(b"a ") + b"\n"),
    "log blanks": ("build-log", "build-log.txt", b"[k8s.io]" + b" " * LONG + b"!\n[k8s.io] A" + b" " * LONG + b"!\n"),
    "log marks": ("build-log", "build-log.txt", _repeated(b"[k8s.io] A") + _repeated(b"[Result:Performance]")),
    "csv wide": ("csv-series", "a.csv", b"time," + _repeated(b"c,") + b"\n2024-01-01," + _repeated(b"1,")
                 + b"\n" + _repeated(b"2024-01-02\n")),
    "csv quotes": ("csv-series", "a.csv", b"time,a,b\n" + _repeated(b'2024-01-01,"x\n') + _repeated(b'a"b,"c\n')),
    "csv title blanks": ("csv-series", "a.csv", b"time,a" + b" " * LONG + b"x,b" + b"(" * LONG + b"\n2024-01-01,1,2\n"),
    "csv no times": ("csv-series", "a.csv", b"time,a\n" + _repeated(b"x\n")),
    "go pairs": ("go-benchmark", "b.txt", b"Benchmark" + b"A" * 5000 + b" 1" + _repeated(b" 1 u") + b"\n"),
    "go lines": ("go-benchmark", "b.txt", b"pkg: " + b"p" * 4000 + b"\n" + _repeated(b"BenchmarkA 1 1 ns/op\n")),
    "empty items": ("clusterloader-report", API, b'{"dataItems":[' + _repeated(b"{},") + b"{}]}"),
    "repeated lists": ("clusterloader-report", API, b'{"a":1' + _repeated(b',"dataItems":[{"data":{"b":1}}]') + b"}"),
    "brackets": ("clusterloader-report", API, b'{"x":' + b"[" * LONG),
    "many buckets": ("clusterloader-report", API, b'{"dataItems":[{"labels":{"Verb":"' + b"v" * 5000 + b'"},"data":{'
                     + b",".join(b'"%d":1' % i for i in range(LONG // 9)) + b"}}]}"),
    "digits": ("clusterloader-report", "JobLifecycleLatency_x.json", b'{"a":{"b":"' + b"1" * LONG + b'"}}'),
    "client": ("clusterloader-report", "MetricsForE2E_x.json",
               b'{"A":{"m":[{"metric":{"client":"a/' + b"b" * LONG + b'\\nx"}}]}}'),
    "metadata": ("run-metadata", "started.json", b"{" + _repeated(b'"timestamp":1,') + b'"x":' + b"[" * LONG),
}  # fmt: skip


@pytest.mark.parametrize("name", SLOW)
def test_linear_time_and_bounded_memory(name: str) -> None:
    kind, file, data = SLOW[name]
    BY_ID[kind].recognise(file, data[:8192])
    reading = read(kind, data, file)
    assert len(reading.problems) < 1200
    rows: Any = reading.rows.get("measurements", {"series": []})
    assert sum(map(len, rows["series"])) <= MOST_CHARACTERS + PER_BYTE * len(data)
