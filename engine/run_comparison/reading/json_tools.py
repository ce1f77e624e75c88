"""Read tools that write one JSON document: k6, pytest-benchmark, hyperfine, JMH, fio, pyperf, kube-burner."""

from __future__ import annotations

import math
import re
from functools import partial
from typing import Any

from engine.run_comparison.reading.frames import (
    JsonReport,
    Taken,
    at,
    each,
    take_all,
    take_each,
    take_list,
    take_success,
)
from engine.run_comparison.reading.series import (
    Collected,
    Series,
    as_object,
    as_text,
    epoch_ms,
    join_labels,
    time_ms,
)


def _labels(values: Any) -> str:
    return join_labels({str(key): as_text(value) for key, value in values.items()}) if isinstance(values, dict) else ""


TROUBLE = re.compile(r"fail|error|drop|reject|timeout|retr", re.IGNORECASE)
"""Names of metrics that are better when lower, though they count."""


_K6_SUMMARY_UNITS = {"time": "ms", "data": "bytes"}


def _k6_summary(out: Collected, document: Any) -> None:
    """Take every number of every metric; also the flat form of ``--summary-export``."""
    metrics = as_object(as_object(document, "the document").get("metrics"), "metrics")
    each(out, "k6-summary", metrics.items(), lambda item: _k6_summary_take_metric(out, *item))


def _k6_summary_take_metric(out: Collected, name: str, metric: Any) -> None:
    fields = as_object(metric, name)
    values = fields.get("values")
    kind, contains = as_text(fields.get("type")), as_text(fields.get("contains"))
    if not isinstance(values, dict):
        skip = ("thresholds", "type", "contains")
        values = {k: v for k, v in fields.items() if k not in skip and not isinstance(v, (dict, list))}
        contains = contains or ("time" if "avg" in values and "duration" in name else "")
    kind = kind or ("counter" if set(values) == {"count", "rate"} else "rate" if "passes" in values else "")
    if kind == "counter":
        # Work done in a run: count and rate have the same direction.
        out.direct("k6", "verb", name, "lower" if TROUBLE.search(name) else "higher")
    if kind == "rate" and TROUBLE.search(name):
        values.pop("fails", None)  # the requests that went well
    for bucket, value in values.items():
        unit = _K6_SUMMARY_UNITS.get(contains, "")
        if kind == "counter" and bucket == "rate":
            unit = (unit or "count") + "/s"
        elif kind == "rate":
            bucket = "rate" if bucket == "value" else bucket
            unit = "" if bucket == "rate" else "count"
        out.add(Series("k6", "", name, bucket=bucket, unit=unit), value)


_PYTEST_BENCHMARK_ROUNDS = 500
_PYTEST_BENCHMARK = [Taken(bucket, "", bucket, "s") for bucket in ("min", "median", "mean")]


def _pytest_benchmark(out: Collected, document: Any) -> None:
    """Take statistics in seconds, and rounds where they are few."""
    out.report_ms = time_ms(as_object(document, "the document").get("datetime"))
    take_each(out, "pytest-benchmark", document, "benchmarks", "a benchmark", _pytest_benchmark_take_benchmark)


def _pytest_benchmark_take_benchmark(out: Collected, benchmark: dict[str, Any]) -> None:
    stats = as_object(benchmark.get("stats"), "stats")
    report = as_text(benchmark.get("group"))
    name = as_text(benchmark.get("fullname") or benchmark.get("name"))
    take_all(out, Series("pytest-benchmark", report, name), stats, _PYTEST_BENCHMARK)
    rounds = stats.get("data")
    if not isinstance(rounds, list) or len(rounds) <= _PYTEST_BENCHMARK_ROUNDS:
        take_list(out, Series("pytest-benchmark", report, name, bucket="round", unit="s"), benchmark, "stats.data")


def _hyperfine(out: Collected, result: dict[str, Any]) -> None:
    """Take timings in seconds; commands that failed are kept, with a problem, and lower the share of successes."""
    command, metric = as_text(result.get("command")), _labels(result.get("parameters"))
    base, times = Series("hyperfine", "", command, metric=metric, unit="s"), result.get("times")
    take_list(out, base._replace(bucket="time"), result, "times")
    wanted = ("user", "system") if isinstance(times, list) and times else ("mean", "user", "system")
    take_all(out, base, result, [Taken(bucket, "", bucket, "s") for bucket in wanted])
    take_list(out, base._replace(bucket="memory", unit="bytes"), result, "memory_usage_byte")
    codes = result.get("exit_codes")
    codes = codes if isinstance(codes, list) else []
    failed = sum(1 for code in codes if code != 0)
    take_success(out, base, len(codes) - failed, len(codes))
    if failed:
        out.problem("failed-command", f"{command}: runs that did not exit with 0", count=failed)


def _jmh(out: Collected, benchmark: dict[str, Any]) -> None:
    """Take raw data if stored, else the score. "NaN", "+INF" and "-INF" are texts there and become problems."""
    labels = _labels(benchmark.get("params"))
    metrics = [("", benchmark.get("primaryMetric"))]
    metrics += list(as_object(benchmark.get("secondaryMetrics") or {}, "secondaryMetrics").items())
    name, mode = as_text(benchmark.get("benchmark")), as_text(benchmark.get("mode"))
    for secondary, metric in metrics:
        fields = as_object(metric, "primaryMetric")
        full = f"{name}:{secondary}" if secondary else name
        if mode == "thrpt" and not secondary:
            out.direct("jmh", "verb", full, "higher")
        series = Series("jmh", mode, full, metric=labels, bucket="score", unit=as_text(fields.get("scoreUnit")))
        raw = fields.get("rawData")
        values = (
            [v for fork in raw for v in fork]
            if isinstance(raw, list) and all(isinstance(fork, list) for fork in raw)
            else []
        )
        for value in values or [fields.get("score")]:
            out.add(series, value)


_FIO_RATES = (Taken("iops", "iops", "mean", "io/s"), Taken("bw_bytes", "bw_bytes", "mean", "bytes/s"))
_FIO_CPU = (Taken("usr_cpu", "usr_cpu", "mean", "%"), Taken("sys_cpu", "sys_cpu", "mean", "%"))
_FIO_PERCENTILES = {
    "50.000000": "Perc50",
    "90.000000": "Perc90",
    "95.000000": "Perc95",
    "99.000000": "Perc99",
}
_FIO_LATENCIES = {
    key: [Taken(bucket, key, bucket, "ns") for bucket in ("mean", "max", *_FIO_PERCENTILES.values())]
    for key in ("lat", "clat")
}


def _fio(out: Collected, document: Any) -> None:
    """Take rates, latencies and CPU; directions of transfer without any operation are left out."""
    fields = as_object(document, "the document")
    out.report_ms = epoch_ms(fields.get("timestamp_ms"), 1.0) or epoch_ms(fields.get("timestamp"))
    take_each(out, "fio", document, "jobs", "a job", _fio_take_job)


def _fio_take_job(out: Collected, job: dict[str, Any]) -> None:
    report = as_text(job.get("jobname"))
    each(
        out,
        "fio",
        ("read", "write", "trim"),
        lambda verb: _fio_direction(out, Series("fio", report, verb), job.get(verb)),
    )
    take_all(out, Series("fio", report, "cpu"), job, _FIO_CPU)
    if job.get("error"):
        out.problem("failed-job", f"{report}: error {job['error']!r:.40}")


def _fio_direction(out: Collected, base: Series, part: Any) -> None:
    if not as_object({} if part is None else part, base.verb).get("total_ios"):
        return
    take_all(out, base, part, _FIO_RATES)
    for key, wanted in _FIO_LATENCIES.items():
        latency = as_object(part.get(f"{key}_ns") or {}, f"{base.verb}.{key}_ns")
        shares = (
            as_object(latency.get("percentile") or {}, f"{base.verb}.{key}_ns.percentile") if latency.get("N") else {}
        )
        found = latency | {share: value for number, value in shares.items() if (share := _FIO_PERCENTILES.get(number))}
        take_all(out, base, found if latency.get("N") else {}, wanted)


_IPERF = (
    *(Taken(f"sum{part}.bits_per_second", f"throughput{part.replace('_', ' ')}", "mean", "bits/s")
      for part in ("", "_sent", "_received", "_sent_bidir_reverse", "_received_bidir_reverse")),
    *(Taken(f"{part}.retransmits", f"retransmits of {part}", "count", "packets") for part in ("sum", "sum_sent")),
    Taken("sum.jitter_ms", "jitter", "mean", "ms"), Taken("sum.lost_percent", "lost packets", "mean", "%"),
    *(Taken(f"cpu_utilization_percent.{side}_total", f"CPU of {side}", "mean", "%") for side in ("host", "remote")),
)  # fmt: skip


def _iperf(out: Collected, document: Any) -> None:
    """Take the sums of all streams; what each second held is no run."""
    fields = as_object(document, "the document")
    out.report_ms = epoch_ms(at(fields, "start.timestamp.timesecs"))
    if fields.get("error"):
        out.problem("failed-job", f"{as_text(fields['error'])}; the run is left out")
        return
    work = as_text(at(fields, "start.test_start.protocol")) or "transfer"
    take_all(out, Series("iperf3", "", work), as_object(fields.get("end"), "end"), _IPERF)


_PYPERF_UNITS = {"second": "s", "byte": "bytes", "integer": "count"}


def _pyperf(out: Collected, document: Any) -> None:
    """Take every value; the name stands in the metadata of the benchmark or of the file."""
    common = as_object(document, "the document").get("metadata")
    take = partial(_pyperf_take_benchmark, common if isinstance(common, dict) else {})
    take_each(out, "pyperf", document, "benchmarks", "a benchmark", take)


def _pyperf_take_benchmark(common: dict[str, Any], out: Collected, benchmark: dict[str, Any]) -> None:
    own = common | as_object(benchmark.get("metadata") or {}, "metadata")
    unit = _PYPERF_UNITS.get(as_text(own.get("unit", "second")), "")
    series = Series("pyperf", "", as_text(own.get("name")), bucket="value", unit=unit)
    take_each(out, "pyperf", benchmark, "runs", "a run", lambda out, run: take_list(out, series, run, "values"))


_KUBE_BURNER_QUANTILES = ("P50", "P90", "P95", "P99", "max", "avg", "min")


def _kube_burner(out: Collected, document: Any) -> None:
    """Take values by metric, job and labels; from quantile documents one value per quantile (ms)."""
    entries = document if isinstance(document, list) else [document]
    take_each(out, "kube-burner", entries, "", "a document", _kube_burner_take_document)


def _kube_burner_take_document(out: Collected, fields: dict[str, Any]) -> None:
    name, job = as_text(fields.get("metricName")), as_text(fields.get("jobName"))
    stamp = fields.get("timestamp")
    moment = time_ms(stamp) if isinstance(stamp, str) else epoch_ms(stamp)
    if moment is not None and 0 < moment < (out.report_ms or math.inf):  # 0 means no time
        out.report_ms = moment
    if name == "jobSummary":
        config = fields.get("jobConfig")
        job = as_text(config.get("name")) if isinstance(config, dict) else job
        if "elapsedTime" in fields:
            out.add(Series("kube-burner", job, "elapsedTime", bucket="value", unit="s"), fields["elapsedTime"])
        if isinstance(fields.get("passed"), bool):
            out.end(fields["passed"])
        return
    quantile = fields.get("quantileName")
    if quantile is not None:
        wanted = [Taken(bucket, as_text(quantile), bucket, "ms") for bucket in _KUBE_BURNER_QUANTILES]
        take_all(out, Series("kube-burner", job, name), fields, wanted)
    elif "value" in fields:
        out.add(Series("kube-burner", job, name, metric=_labels(fields.get("labels")), bucket="value"), fields["value"])


READERS = (
    JsonReport("k6-summary", "k6 end-of-test summary (JSON)", (
        (b'"root_group"',), (b'"summaryTrendStats"',), (b'"metrics"', b'"p(9'), (b'"metrics"', b'"contains"'),
    ), _k6_summary),
    JsonReport("pytest-benchmark", "pytest-benchmark JSON", (
        (b'"machine_info"', b'"python_'), (b'"machine_info"', b'"benchmarks"'), (b'"benchmarks"', b'"fullname"'),
    ), _pytest_benchmark),
    JsonReport("hyperfine", "hyperfine --export-json", ((b'"results"', b'"command"'),), _hyperfine,
        listed=("results", "a result")),
    JsonReport("jmh", "JMH -rf json", ((b'"jmhVersion"',), (b'"benchmark"', b'"primaryMetric"')), _jmh,
        listed=("", "a benchmark")),
    JsonReport("fio", "fio --output-format=json", ((b'"fio',),), _fio),
    JsonReport("iperf3", "iperf3 -J", (
        (b'"start":{', b'"connected":[', b'"timestamp":{'), (b'"sum_received":{', b'"bits_per_second":'),
        (b'"system_info":', b'"error":"'),
    ), _iperf),
    JsonReport("pyperf", "pyperf JSON", (
        (b'"benchmarks":[{', b'"runs":[', b'"metadata":'), (b'"benchmarks":[{', b'"runs":[', b'"values":['),
    ), _pyperf),
    JsonReport("kube-burner", "kube-burner metric documents (JSON)", ((b'"metricName"', b'"uuid"'),), _kube_burner),
)  # fmt: skip
"""Every reader of this module; the order is that of the page of formats."""
