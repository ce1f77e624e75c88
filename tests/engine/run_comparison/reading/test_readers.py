"""Every kind of file an operator has: recognised by content, read into measurements, cut or malformed files are problems."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from engine.core.reading import HEAD, Reading, Source
from engine.run_comparison.reading.metric_kinds import fold_pod_name
from engine.run_comparison.reading.series import BadShape, Direction, Series, duration_ms
from engine.run_comparison.reading.text_tools import parse_time
from engine.run_comparison.runs.measurements import canonical_unit
from engine.run_comparison.view import READERS
from tests.engine.run_comparison.folder import compute, read_folder
from tests.engine.run_comparison.jobs import item, perf_data, write_run
from tests.reference import reference

LEFT, RIGHT = "ci-kubernetes-e2e-gci-gce-scalability", "ci-kubernetes-kubemark-100-gce"


def read(name: str, data: str | bytes, final: bool = True) -> Reading:
    """The reading of the one reader that recognises the file."""
    raw = data.encode() if isinstance(data, str) else data
    found = [reader for reader in READERS if reader.recognise(name, raw[:HEAD])]
    assert len(found) == 1, (name, [reader.id for reader in found])
    return found[0].read(Source(f"/job/1/{name}", name, 0, len(raw)), raw, None, final)


def values(reading: Reading) -> dict[tuple[str, ...], list[float]]:
    """Values by verb, resource, metric, bucket and unit."""
    found: dict[tuple[str, ...], list[float]] = {}
    rows: Any = reading.rows.get("measurements", {"series": [], "value": []})
    for text, value in zip(rows["series"], rows["value"], strict=True):
        series = Series.unpack(text)
        found.setdefault((series.verb, series.resource, series.metric, series.bucket, series.unit), []).append(value)
    return found


def test_go_benchmark_text() -> None:
    text = (
        "goos: linux\npkg: gob\nBenchmarkJoin-2 \t 29402\t 3943 ns/op\t 1280 B/op\nBenchmarkJoin-2 10 4000 ns/op\n"
        "BenchmarkOnlyName\nBenchmarkX/n=100-2 5 2.5 MB/s 7 widgets\nUnit widgets better=higher\npkg:\nPASS\n"
        "BenchmarkHalf 10 4"
    )
    got = values(read("bench.txt", text, final=False))
    assert got["Join-2", "", "", "ns/op", "ns/op"] == [3943.0, 4000.0]
    assert got["X/n=100-2", "", "", "widgets", "widgets"] == [7.0]
    assert len(got) == 4
    final = read("bench.txt", text.replace("BenchmarkHalf 10 4", "BenchmarkHalf 10 4 n"))
    assert values(final) == got, "4 n are not 4 ns/op"
    assert [(problem.kind, problem.line) for problem in final.problems] == [("cut-file", 10)]
    facts: Any = final.rows["run_facts"]
    assert [Direction.unpack(text)[1:] for text in facts["result"]] == [("unit", "widgets", "higher")]


def test_k6_summary_in_both_forms() -> None:
    long = {
        "root_group": {}, "metrics": {
            "http_req_duration": {"type": "trend", "contains": "time", "values": {"avg": 1.5, "p(95)": 3.0}},
            "data_received": {"type": "counter", "contains": "data", "values": {"count": 10, "rate": 2.0}},
        },
    }  # fmt: skip
    got = values(read("summary.json", json.dumps(long)))
    assert got["http_req_duration", "", "", "p(95)", "ms"] == [3.0]
    assert got["data_received", "", "", "rate", "bytes/s"] == [2.0]
    facts: Any = read("summary.json", json.dumps(long)).rows["run_facts"]
    stated = [Direction.unpack(text) for text in facts["result"]]
    assert stated == [("k6", "verb", "data_received", "higher")], "count and rate of a counter say the same"
    flat = {"metrics": {"http_req_duration": {"avg": 1.5, "p(90)": 2.0, "p(95)": 3.0}}}
    assert values(read("summary.json", json.dumps(flat)))["http_req_duration", "", "", "p(95)", "ms"] == [3.0]


def test_pytest_benchmark() -> None:
    stats = {"min": 0.1, "median": 0.2, "mean": 0.25, "data": [0.1, 0.2, 0.45]}
    document = {"machine_info": {"python_version": "3"}, "benchmarks": [{"group": None, "fullname": "t.py::a", "stats": stats}],
                "datetime": "2015-08-15T00:01:46+00:00"}  # fmt: skip
    reading = read("0001_x.json", json.dumps(document))
    assert values(reading)["t.py::a", "", "", "round", "s"] == [0.1, 0.2, 0.45]
    facts: Any = reading.rows["run_facts"]
    assert facts["time_ms"] == [1_439_596_906_000]


def test_hyperfine() -> None:
    result = {"command": "a", "mean": 1.0, "times": [0.9, 1.1], "user": 0.5, "system": 0.1, "exit_codes": [0, 1],
              "parameters": {"n": 3}}  # fmt: skip
    reading = read("r.json", json.dumps({"results": [result]}))
    assert values(reading)["a", "", "n=3", "time", "s"] == [0.9, 1.1]
    assert [p.kind for p in reading.problems] == ["failed-command"]


def test_jmh_tells_its_direction_and_texts_for_nan() -> None:
    entry = {"jmhVersion": "1.37", "benchmark": "a.B.c", "mode": "thrpt", "params": {"n": "1"}, "primaryMetric": {
        "score": 5.0, "scoreUnit": "ops/us", "rawData": [[4.0, 6.0], ["NaN"]]}, "secondaryMetrics": {}}  # fmt: skip
    reading = read("jmh.json", json.dumps([entry]))
    assert values(reading)["a.B.c", "", "n=1", "score", "ops/us"] == [4.0, 6.0]
    assert [p.kind for p in reading.problems] == ["bad-value"]
    facts: Any = reading.rows["run_facts"]
    assert [Direction.unpack(text) for text in facts["result"]] == [("jmh", "verb", "a.B.c", "higher")]


def test_fio_leaves_idle_directions_out() -> None:
    job = {
        "jobname": "j",
        "read": {
            "iops": 10.5,
            "bw_bytes": 1000,
            "total_ios": 4,
            "clat_ns": {"mean": 5.0, "N": 4, "percentile": {"99.000000": 9}},
        },
        "write": {"iops": 0, "total_ios": 0},
        "usr_cpu": 1.0,
    }
    got = values(read("fio.json", json.dumps({"fio version": "fio-3", "timestamp_ms": 5, "jobs": [job]})))
    assert got["read", "clat", "", "Perc99", "ns"] == [9.0]
    assert got["read", "bw_bytes", "", "mean", "bytes/s"] == [1000.0]
    assert not any(key[0] == "write" for key in got)


def test_pyperf_skips_calibrations() -> None:
    document = {"benchmarks": [{"runs": [{"warmups": [[1, 2.0]]}, {"values": [0.5, 0.6]}], "metadata": {"name": "x"}}]}
    assert values(read("p.json", json.dumps(document))) == {("x", "", "", "value", "s"): [0.5, 0.6]}


def test_kube_burner() -> None:
    documents = [
        {
            "metricName": "cpu",
            "uuid": "u",
            "jobName": "j",
            "value": 1.5,
            "labels": {"node": "a"},
            "timestamp": 1,
        },
        {"metricName": "podLatencyQuantilesMeasurement", "uuid": "u", "quantileName": "Ready", "P99": 7, "max": 9},
    ]
    got = values(read("kb.json", json.dumps(documents)))
    assert got["cpu", "", "node=a", "value", ""] == [1.5]
    assert got["podLatencyQuantilesMeasurement", "Ready", "", "P99", "ms"] == [7.0]


@pytest.mark.parametrize("odd", [0, -5, None, "", "yesterday"])
def test_an_invalid_time_is_not_the_start_of_a_kube_burner_run(odd: object) -> None:
    documents = [{"metricName": "cpu", "uuid": "u", "value": 1.5, "timestamp": stamp} for stamp in (90, odd, 80)]
    assert read("kb.json", json.dumps(documents)).rows["run_facts"]["time_ms"] == [80_000]


def test_sysbench_waits_for_its_end() -> None:
    text = (
        "sysbench 1.0.20 (using bundled LuaJIT 2.1.0-beta2)\n\nRunning the test with following options:\n"
        "Number of threads: 1\n\n\n"
        "CPU speed:\n    events per second:  3150.00\n\nGeneral statistics:\n    total time:                          2.0017s\n"
        "Latency (ms):\n         min:                                    0.18\n         avg:     0.31\n         max:     1.25\n"
        "         95th percentile:   0.92\n         sum:    14.37\n"
    )
    reading = read("cpu.txt", text)
    got = values(reading)
    assert not reading.problems
    assert got["test", "events", "", "rate", "events/s"] == [3150.0]
    assert got["test", "latency", "", "Perc95", "ms"] == [0.92]
    assert got["test", "total time", "", "value", "ms"] == [2001.7]
    for end in range(text.index("Number"), len(text)):
        assert not read("cpu.txt", text[:end]).complete, "half a number is a number, too"


def test_sysbench_gives_transactions_and_queries_between_preparing_and_cleaning_up() -> None:
    told = "sysbench 1.0.17 (using bundled LuaJIT 2.1.0-beta2)\n\n"
    text = (
        "Running the test with following options:\nNumber of threads: 4\n\nSQL statistics:\n    queries performed:\n"
        "        total:                           80000\n    transactions:                        4000   (66.64 per sec.)\n"
        "    queries:                             80000  (1332.81 per sec.)\n\nGeneral statistics:\n"
        "    total time:                          60.0163s\n\nLatency (ms):\n"
        "         min:                                    9.15\n         avg:                                   60.02\n"
        "         max:                                  178.86\n         95th percentile:                       87.56\n"
        "         sum:                               240080.00\n\n"
    )
    reading = read("oltp.txt", f"{told}Creating table 'sbtest1'...\n{told}{text}{told}Dropping table 'sbtest1'...\n")
    got = values(reading)
    assert not reading.problems
    assert got["test", "transactions", "", "rate", "transactions/s"] == [66.64]
    assert got["test", "queries", "", "rate", "queries/s"] == [1332.81]
    assert got["test", "latency", "", "Perc95", "ms"] == [87.56]


@pytest.mark.parametrize("bad", ["٣", "-1", "nan", "0.3.1", ""])
def test_a_run_with_a_bad_value_is_left_out_of_those_in_a_file(bad: str) -> None:
    text = (
        "sysbench 1.1.0\nRunning the test with following options:\nCPU speed:\nThroughput:\n"
        "    events/s (eps):  3150.00\n    time elapsed:  2.0017s\n"
        "Latency (ms):\n         min:     0.1\n         avg:     0.3\n         max:     0.5\n"
        "         99th percentile:   0.92\n         sum:    14.37\n"
    )
    reading = read("cpu.txt", "sysbench cpu run\n" + text + text.replace("0.3\n", f"{bad}\n") + text + text[:150])
    assert values(reading)["test", "latency", "", "mean", "ms"] == [0.3, 0.3]
    found = [(problem.kind, problem.line) for problem in reading.problems]
    assert ("cut-file", 39) in found and (("cut-file", 15) in found or ("bad-value", 22) in found)


def test_csv_history_has_a_run_per_row(tmp_path: Path) -> None:
    lines = ["time,commit,branch,latency (ms),rate"]
    lines += [f"2024.01.{day:02d} 3:00:00 +0100,c{day},main,{day * 1.5},{100 - day}" for day in range(1, 9)]
    lines[3] = lines[3].replace("4.5", "oops")
    (tmp_path / "history.csv").write_text("\n".join([*lines, "not-a-time,c9,main,1,2", "2024-01-10T0"]))
    result = compute(tmp_path, mode="statistical", draws=50)
    runs = result.tables["runs"]
    assert set(runs["job"]) == {"history"}
    assert runs["run"].to_list()[:2] == ["c1", "c2"]
    assert runs["time_ms"][0] == 1_704_074_400_000
    assert result.tables["metrics"]["unit"].to_list() == ["ms", ""]
    (problem,) = result.problems
    assert problem.count >= 3


def test_csv_history_under_any_name_and_with_the_time_anywhere(tmp_path: Path) -> None:
    rows = "".join(f"c{day},{day},2024-01-{day:02d}T00:00:00Z,{day % 3}\n" for day in range(1, 7))
    for side in ("left", "right"):
        (tmp_path / side).mkdir()
        (tmp_path / side / "series").write_text("commit,m1,Time,m2\n" + rows)
        (tmp_path / side / "other").write_text("commit,m1,when\n" + rows)
    # The folder stands for the job below it.
    result = compute(tmp_path, left=("left",), right=("right",), mode="statistical", draws=50)
    found = result.tables["metrics"].select("verb", "n_left", "n_right").rows()
    assert found == [("m1", 6, 6), ("m2", 6, 6)]
    assert result.summary["runs_left"] == 6
    assert not result.problems


def test_a_cut_last_csv_line_waits() -> None:
    text = "time,a\n2024-01-01,1\n2024-01-02,25"
    assert len(read("h.csv", text, final=False).rows["measurements"]["value"]) == 1
    final = read("h.csv", text, final=True)
    assert len(final.rows["measurements"]["value"]) == 2
    assert [(problem.kind, problem.line) for problem in final.problems] == [("cut-file", 3)]
    assert not read("h.csv", text + "\n", final=True).problems


def test_times_of_csv() -> None:
    assert (
        parse_time("1704074400")
        == parse_time("1704074400000")
        == parse_time("2024-01-01T02:00:00Z")
        == 1_704_074_400_000
    )
    assert parse_time("yesterday") is None


SHAPES: dict[str, tuple[Any, dict[tuple[str, ...], list[float]]]] = {
    "ResourceUsageSummary_load_2026-07-26T00:50:56Z.json": (
        {"50": [{"Name": "coredns-5d78c9869d-bcdfg/coredns", "CPU": 1.0, "Mem": 1048576},
                {"Name": "coredns-5d78c9869d-x2kvz/coredns", "CPU": 3.0, "Mem": 2097152}]},
        {("", "coredns/coredns", "CPU", "50", "cores"): [3.0], ("", "coredns/coredns", "Memory", "50", "MiB"): [2.0],
         ("", "all-nodes", "CPU", "50", "cores"): [2.0], ("", "all-nodes", "Memory", "50", "MiB"): [1.5]},
    ),
    "SchedulingThroughput_load.json": ({"perc50": 10, "max": 20.5}, {
        ("", "", "", "perc50", "pods/s"): [10.0], ("", "", "", "max", "pods/s"): [20.5]}),
    "SchedulingMetrics_load.json": (
        {"frameworkExtensionPointDuration": {"Filter": {"Perc50": 1500000}}, "e2eSchedulingLatency": {"Perc99": 2e6}},
        {("", "frameworkExtensionPointDuration", "", "Perc50", "ns"): [1500000.0],
         ("", "e2eSchedulingLatency", "", "Perc99", "ns"): [2e6]},
    ),
    "EtcdMetrics_load.json": (
        {"backendCommitDuration": [{"labels": {"__name__": "x"}, "buckets": {"0.001": 25, "+Inf": 100}}],
         "snapshotSaveTotalDuration": [{"labels": {}, "buckets": {"0.01": 0, "+Inf": 0}}], "maxDatabaseSize": 4096},
        {("", "backendCommitDuration", "", "<= 0.001s", "%"): [25.0],
         ("", "snapshotSaveTotalDuration", "", "<= 0.01s", "%"): [0.0],
         ("", "maxDatabaseSize", "", "value", "bytes"): [4096.0]},
    ),
    "MetricsForE2E_load.json": (
        {"APIServerMetrics": {"apiserver_request_count": [
            {"metric": {"__name__": "a", "client": "kubelet/v1.36.2 (linux/amd64) kubernetes/abcdef4",
                        "contentType": kind, "verb": "GET"}, "value": [0, "538"]} for kind in ("x", "y")]},
         "KubeletMetrics": None},
        {("", "apiserver_request_count", "client=kubelet (linux/amd64) kubernetes, verb=GET", "value", "count"): [1076.0]},
    ),
    "SystemPodMetrics_load.json": (
        {"pods": [{"name": "a", "containers": [{"name": "p", "restartCount": 1}]},
                  {"name": "b", "containers": [{"name": "p", "restartCount": 3}]}]},
        {("", "p", "", "RestartCount", "count"): [3.0]},
    ),
    "ContainerRestarts_load.json": (
        [{"Container": "etcd", "RestartCount": 1}, {"Container": "etcd", "RestartCount": 2}],
        {("", "etcd", "", "RestartCount", "count"): [3.0]},
    ),
    "APIAvailability_load.json": (
        {"clusterMetrics": {"availabilityPercentage": 99.5, "longestUnavailablePeriod": "1m5s"}, "hostMetrics": []},
        {("", "cluster", "availability", "value", "%"): [99.5],
         ("", "cluster", "longest unavailable", "value", "ms"): [65000.0]},
    ),
    "ClusterOOMsTracker_load.json": (
        {"failures": [{"node": "a"}], "past": None, "ignored": []},
        {("", "failures", "", "count", "count"): [1.0], ("", "past", "", "count", "count"): [0.0],
         ("", "ignored", "", "count", "count"): [0.0]},
    ),
    "ServiceCreationLatency_x_load.json": (
        {"reachability": {"Perc50": "1.5s", "Perc99": 2000}},
        {("", "reachability", "", "Perc50", "ms"): [1500.0], ("", "reachability", "", "Perc99", "ms"): [2000.0]},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SHAPES)
def test_shapes_that_are_not_perf_data(name: str) -> None:
    document, wanted = SHAPES[name]
    reading = read(name, json.dumps(document))
    assert values(reading) == wanted
    assert reading.problems == []
    reading = read(name, json.dumps([1] if isinstance(document, dict) else {"a": 1}))
    assert [p.kind for p in reading.problems] in (["bad-shape"], ["refused-file"])


def test_a_shape_is_recognised_under_another_name() -> None:
    document = SHAPES["ResourceUsageSummary_load_2026-07-26T00:50:56Z.json"][0]
    assert len(values(read("whatever.json", json.dumps(document)))) == 4
    text = perf_data([item({"Perc50": 1.0}, Metric="x")])
    assert values(read("other-name.json", text)) == {("", "", "x", "Perc50", "ms"): [1.0]}


def test_unrelated_files_are_left_alone() -> None:
    for name, data in (
        ("junit.xml", b"<testsuite/>"), ("a.json", b'{"a": 1}'), ("notes.txt", b"hello"), ("x.csv", b"a,b\n1,2"),
        ("image.png", b"\x89PNG"), ("package.json", b'{"name": "x", "results": []}'),
    ):  # fmt: skip
        assert not [r.id for r in READERS if r.recognise(name, data)], name


def test_small_matches_what_perfdash_reads() -> None:
    folder = reference("run-comparison")
    expected = json.loads(gzip.decompress((folder / "small-expected-perfdash.json.gz").read_bytes()))
    inputs = read_folder(folder / "small")
    result = compute(
        inputs, mode="statistical", draws=10, include_failed=True, left=(LEFT,), right=(RIGHT,), select="all"
    )
    metrics = result.tables["metrics"]
    checked = 0
    for prefix, category, name, kind in (
        ("kubemark", "E2E", "LoadResources", "ResourceUsageSummary"),
        ("kubemark", "DNS", "Load_DNSLookupLatency", "NetworkLatency"),
        ("kubemark", "Etcd", "LoadBackendCommitDuration", "EtcdMetrics"),
    ):  # fmt: skip
        builds = expected[prefix][category][name]["builds"]
        rows = metrics.filter(metrics["kind"] == kind)
        for number, items in builds.items():
            at = next(i for i, run in enumerate(result.detail.right) if str(run.number) == number)
            for entry in items:
                labels = entry.get("labels") or {}
                for bucket, value in entry["data"].items():
                    found = rows.filter(rows["bucket"] == bucket)
                    if "PodName" in labels:
                        metric = "CPU" if labels["Resource"].startswith("CPU") else "Memory"
                        found = found.filter((found["resource"] == labels["PodName"]) & (found["metric"] == metric))
                    if "Metric" in labels:
                        found = found.filter(found["metric"] == labels["Metric"])
                    if category == "Etcd":
                        found = found.filter(found["resource"] == "backendCommitDuration")
                    assert found.height == 1, (entry, bucket)
                    side = result.detail.samples.right
                    row = found["row"][0]
                    mine = side.of(row)[side.runs[side.offsets[row] : side.offsets[row + 1]] == at]
                    mib = 1048576.0 if labels.get("Resource", "").startswith("memory") else 1.0  # perfdash shows MiB
                    assert mine.tolist() == [pytest.approx(value * mib, rel=1e-9)], (entry, bucket)
                    checked += 1
    assert checked > 500


@pytest.mark.parametrize(
    ("name", "folded"),
    [
        ("coredns-5d78c9869d-bcdfg/coredns", "coredns/coredns"), ("kube-apiserver-e2e-big-master/kube-apiserver", None),
        ("metrics-server-v0.3.6-abc/x", "metrics-server/x"), ("5d78c9869d-a/x", None), ("etcd", None),
    ],
)  # fmt: skip
def test_generated_ends_of_pod_names_are_cut(name: str, folded: str | None) -> None:
    assert fold_pod_name(name) == (folded or name)


def test_go_durations() -> None:
    assert duration_ms("1h2m3.5s") == 3_723_500.0
    assert duration_ms("150µs") == pytest.approx(0.15)
    assert duration_ms("0") == 0.0
    assert duration_ms("-5ms") == -5.0
    for wrong in ("", "5", "5 s", "s5", None, True, "-"):
        with pytest.raises(BadShape):
            duration_ms(wrong)


@pytest.mark.parametrize(
    ("written", "name", "factor"),
    [
        ("s", "ms", 1000.0), ("ns", "ms", 1e-6), ("ms", "ms", 1.0), ("MiB", "bytes", 1048576.0), ("ns/op", "sec/op", 1e-9),
        ("MB/s", "B/s", 1e6), ("us/op", "sec/op", 1e-6), ("ops/us", "ops/s", 1e6), ("percentage", "%", 1.0), ("", "", 1.0),
        ("widgets", "widgets", 1.0), ("p99-ns", "p99-sec", 1e-9), ("build-real-ns/op", "build-real-sec/op", 1e-9),
        ("kbytes/sec", "B/s", 1e3),
    ],
)  # fmt: skip
def test_units(written: str, name: str, factor: float) -> None:
    unit = canonical_unit(written)
    assert unit.name == name
    assert unit.factor == pytest.approx(factor)


def test_units_that_differ_are_converted_and_told(tmp_path: Path) -> None:
    for job, unit, factor in (("left-job", "ms", 1000.0), ("right-job", "s", 1.0)):
        for i in range(5):
            text = perf_data([item({"Phase": (3.0 + i / 10) * factor}, unit, test="phases")])
            write_run(tmp_path, job, i, {"Timer_load_T.json": text})
    result = compute(tmp_path, mode="statistical", draws=50)
    (row,) = result.tables["metrics"].iter_rows(named=True)
    assert (row["unit"], row["verdict"]) == ("ms", "equivalent")
    assert row["mean_left"] == pytest.approx(row["mean_right"])
    assert [(p.kind, p.path) for p in result.problems] == [("mixed-units", "left-job/4/artifacts/Timer_load_T.json")]


def test_old_build_log() -> None:
    folder = reference("run-comparison") / "real" / "k8s-perf-tests"
    reading = read("build-log.txt", (folder / "build-log.txt").read_bytes())
    got = values(reading)
    assert got["DELETE", "pods", "", "Perc99", "ms"] == [25.383]
    assert [p.kind for p in reading.problems] == ["cut-file"]
