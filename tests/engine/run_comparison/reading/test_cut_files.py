"""A report that was cut gives the values of the whole one or none of them, and says so."""

from __future__ import annotations

import pytest

from engine.core.reading import Reading, Source
from engine.run_comparison.reading.series import Series
from engine.run_comparison.view import READERS
from tests.contract.file_samples import SAMPLES
from tests.reference import reference

READER = {kind.id: kind for kind in READERS}
LOGS = {
    "csv-series", "jmeter-jtl", "jmeter-jtl-xml", "hey-csv", "ab-gnuplot", "k6-csv", "k6-json", "locust-parts",
    "go-benchmark", "build-log", "redis-benchmark", "hyperfine-csv", "google-benchmark-csv", "kafka-producer-perf",
}  # fmt: skip
"""Kinds of whole lines without an end: fewer lines are a shorter file."""
REPORTS = {
    "ycsb": "[OVERALL], RunTime(ms), 2000\n[OVERALL], Throughput(ops/sec), 50.0\n[READ], Operations, 58\n"
    "[READ], AverageLatency(us), 400\n[READ], Return=OK, 58\n[READ], Return=NOT_FOUND, 2\n[UPDATE], Operations, 39\n"
    "[UPDATE], AverageLatency(us), 700\n[UPDATE], Return=OK, 39\n[UPDATE], Return=ERROR, 1\n",
    "hey": "\nSummary:\n  Total:\t2.0000 secs\n  Slowest:\t0.0100 secs\n  Fastest:\t0.0010 secs\n  Average:\t0.0050 secs\n"
    "  Requests/sec:\t50.0000\n\nLatency distribution:\n  50% in 0.0040 secs\n  99% in 0.0090 secs\n\n"
    "Status code distribution:\n  [200]\t80 responses\n  [503]\t15 responses\n\nError distribution:\n  [5]\tGet refused\n",
    "libtest": "running 2 tests\ntest a ... bench:   1,200 ns/iter (+/- 5)\ntest b ... bench:   1,300 ns/iter (+/- 5)\n\n"
    "test result: ok. 0 passed; 2 measured\n",
    "catch2-text": "benchmark name      samples     iterations  estimated\n"
    "encode 3                                       100             2     6.6254 ms \n"
    "                                        33.2 us     32.9 us    33.5 us \n\n===\nAll tests passed\n",
}
SHARED = {
    "ab": "ab/left/1/ab.txt", "libtest": "cargo-bench-text/left/1/bench.txt", "gungraun": "gungraun/left/1/bench.txt",
    "criterion-text": "criterion-text/left/1/bench.txt", "hey": "hey/left/1/hey.txt", "wrk": "wrk2/left/1/wrk2.txt",
    "locust": "locust/left/1/shop_stats.csv", "mlperf": "mlperf/left/1/mlperf_log_summary.txt",
    "pgbench": "pgbench/left/1/pgbench.txt", "oha": "oha/left/1/oha.json", "catch2": "catch2-xml/left/1/bench.xml",
}  # fmt: skip


def read(kind: str, name: str, data: bytes) -> tuple[dict[str, list[float]], Reading]:
    reading = READER[kind].read(Source(f"/none/{name}", name, 0, len(data)), data, None, True)
    values: dict[str, list[float]] = {}
    table = reading.rows.get("measurements", {"series": [], "value": []})
    for series, value in zip(table["series"], table["value"], strict=True):
        values.setdefault(series, []).append(value)
    return values, reading


def test_what_holds_other_operations_is_missed() -> None:
    text = REPORTS["ycsb"].replace("[UPDATE], Return=ERROR, 1\n", "") + "[UPDATE], Return=OK, 21\n"
    whole = text + "[READ-MODIFY-WRITE], Operations, 20\n"
    assert not read("ycsb", "report.txt", whole.encode())[1].problems
    problems = read("ycsb", "report.txt", text.encode())[1].problems
    assert (
        "how 120 of 100 requests ended: the file was cut, or lacks the operations that hold others"
        in problems[0].reason
    )


def check(kind: str, name: str, data: bytes, *, open_ended: bool) -> None:
    whole, _ = read(kind, name, data)
    ends = [at + 1 for at, byte in enumerate(data) if byte == 10]
    cuts = {*ends[:: len(ends) // 120 + 1], *range(1, len(data), len(data) // 60 + 1)} - {len(data)}
    for cut in sorted(cuts):
        values, reading = read(kind, name, data[:cut])
        other = [Series.unpack(each) for each, found in values.items() if not {*found} <= {*whole.get(each, ())}]
        assert not other, (cut, other)
        if values != whole and not (open_ended and data[:cut].rstrip(b" ").endswith(b"\n")):
            assert reading.problems, (cut, data[:cut][-60:])


@pytest.mark.parametrize("kind", sorted({*SAMPLES["run-comparison"]} - LOGS))
def test_a_cut_sample_keeps_its_values_or_says_so(kind: str) -> None:
    name, data = SAMPLES["run-comparison"][kind]
    check(kind, name, data, open_ended=False)


@pytest.mark.parametrize("kind", sorted(REPORTS))
def test_a_cut_report_tells_no_other_share(kind: str) -> None:
    check(kind, "report.txt", REPORTS[kind].encode(), open_ended=False)


def test_cut_files_of_the_tools_themselves() -> None:
    formats = reference("run-comparison") / "formats"
    for kind, path in SHARED.items():
        check(kind, path.rsplit("/", 1)[1], (formats / path).read_bytes(), open_ended=kind == "criterion-text")


@pytest.mark.parametrize(
    ("kind", "text", "path"),
    [
        ("pytest-benchmark", '{"machine_info":{},"benchmarks":[{"name":"a","stats":{"min":null,"mean":1.5}}]}', "(min)"),
        ("pytest-benchmark", '{"machine_info":{},"benchmarks":[{"name":"a","stats":{"mean":1.5,"data":7}}]}', "(stats.data)"),
        ("hyperfine", '{"results":[{"command":"a","times":[1.5,null],"user":0.5}]}', "(times)"),
        ("hyperfine", '{"results":[{"command":"a","mean":1.5,"user":null}]}', "(user)"),
        ("hyperfine", '{"results":[{"command":"a","mean":1.5,"times":null}]}', "a (times): null"),
        ("hyperfine", '{"results":[{"command":"a","mean":1.5,"memory_usage_byte":null}]}', "(memory_usage_byte)"),
        ("asv", '{"commit_hash":"c","result_columns":["result","params"],"results":{"a.time_b":[[0.5,null],[["1","2"]]],'
         '"a.time_c":[null,[]]}}', "a.time_b (result[1]): null"),
        ("asv", '{"commit_hash":"c","result_columns":["result","params"],"results":{"a.time_b":[[0.5],[]],"a.time_c":null}}',
         "a.time_c (result): null"),
        ("hyperfine", '{"results":[{"command":"a","mean":1.5,"user":NaN}]}', "(user)"),
        ("fio", '{"fio version":"3","jobs":[{"jobname":"a","read":{"total_ios":1,"iops":[],"bw_bytes":5}}]}', "(iops)"),
        ("kube-burner", '[{"metricName":"a","uuid":"b","quantileName":"Ready","P50":5,"P99":null}]', "(P99)"),
        ("benchmarkdotnet", '{"HostEnvironmentInfo":{},"BenchmarkDotNetVersion":"1","Benchmarks":[{"FullName":"a","Statistics":'
         '{"OriginalValues":[5]},"Memory":{"BytesAllocatedPerOperation":null}}]}', "(Memory.BytesAllocatedPerOperation)"),
        ("vegeta", '{"latencies":{"mean":null,"99th":5},"bytes_in":{},"requests":5,"success":1}', "(latencies.mean)"),
        ("vegeta", '{"latencies":7,"throughput":5,"bytes_in":{},"requests":5,"success":1}', "(latencies.mean)"),
        ("iperf3", '{"start":{},"end":{"sum_sent":{"bits_per_second":"fast","retransmits":1}}}', "(sum_sent.bits_per_second)"),
    ],
)  # fmt: skip
def test_what_is_no_number_is_named_by_its_path(kind: str, text: str, path: str) -> None:
    values, reading = read(kind, "report.json", text.encode())
    assert values and path in " ".join(problem.reason for problem in reading.problems)
