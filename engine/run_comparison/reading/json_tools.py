"""Read tools that write one JSON document: k6, pytest-benchmark, hyperfine, JMH, fio, pyperf, kube-burner."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, ClassVar, TypeVar

from engine.core.reading import Document, Reading, Source, from_first_character
from engine.core.tables import Table
from engine.run_comparison.reading.series import (
    BadShape,
    Collected,
    Series,
    as_list,
    as_object,
    as_text,
    epoch_ms,
    join_labels,
    load_document,
    time_ms,
)
from engine.run_comparison.tables import MEASUREMENTS, RUN_FACTS

T = TypeVar("T")


class JsonTool(Document):
    """Base of tools that write one JSON document: a subclass says how to recognise it and what to take.

    Cut files and wrong shapes become problems.
    """

    id = ""
    title = ""
    closes = True
    tables: tuple[Table, ...] = (MEASUREMENTS, RUN_FACTS)

    def recognise(self, name: str, head: bytes) -> bool:
        """Recognise a JSON object or list with the tool's marks, but no page or source that quotes one."""
        return from_first_character(head)[:1] in (b"{", b"[") and self.marked(head)

    def marked(self, head: bytes) -> bool:
        """Whether a JSON document that begins with ``head`` (8 KB) is this tool's."""
        raise NotImplementedError

    def read(self, source: Source, data: bytes, state: Any, final: bool) -> Reading:
        """Read the whole document; parts of another shape become problems."""
        out = Collected(source)
        document, parsed = load_document(out, data)
        if not parsed:
            return out.reading(len(data), complete=False)
        try:
            self.take(out, document)
        except BadShape as error:
            out.problem("bad-shape", f"{self.id}: {error}")
        if not out.series and not out.problems:
            out.problem("no-values", "the document holds no values")
        return out.reading(len(data))

    def take(self, out: Collected, document: Any) -> None:
        """Add the values of a parsed document, its time (``out.report_ms``) and the directions it states. Raises BadShape."""
        raise NotImplementedError

    def each(self, out: Collected, entries: Iterable[T], take: Callable[[T], None]) -> None:
        """Call ``take`` for each entry; entries of another shape become problems."""
        for entry in entries:
            try:
                take(entry)
            except BadShape as error:
                out.problem("bad-shape", f"{self.id}: {error}")


def _labels(values: Any) -> str:
    return join_labels({str(key): as_text(value) for key, value in values.items()}) if isinstance(values, dict) else ""


_TROUBLE = re.compile(r"fail|error|drop|reject|timeout|retr", re.IGNORECASE)


class K6Summary(JsonTool):
    """k6's end-of-test summary."""

    id = "k6-summary"
    title = "k6 end-of-test summary (JSON)"
    marks = ('"metrics"', '"http_req_duration"')

    _units: ClassVar = {"time": "ms", "data": "bytes"}

    def marked(self, head: bytes) -> bool:
        """Recognise the root group, or metrics with k6's percentile names."""
        if b'"root_group"' in head or b'"summaryTrendStats"' in head:
            return True
        return b'"metrics"' in head and (b'"p(9' in head or b'"contains"' in head)

    def take(self, out: Collected, document: Any) -> None:
        """Take every number of every metric; also the flat form of ``--summary-export``."""
        metrics = as_object(as_object(document, "the document").get("metrics"), "metrics")
        self.each(out, metrics.items(), lambda item: self._take_metric(out, *item))

    def _take_metric(self, out: Collected, name: str, metric: Any) -> None:
        fields = as_object(metric, name)
        values = fields.get("values")
        kind, contains = as_text(fields.get("type")), as_text(fields.get("contains"))
        if not isinstance(values, dict):
            skip = ("thresholds", "type", "contains")
            values = {k: v for k, v in fields.items() if k not in skip and not isinstance(v, (dict, list))}
            contains = contains or ("time" if "avg" in values and "duration" in name else "")
        if kind == "counter" or (not kind and set(values) == {"count", "rate"}):
            # Work done in a run: count and rate have the same direction.
            out.direct("k6", "verb", name, "lower" if _TROUBLE.search(name) else "higher")
        for bucket, value in values.items():
            unit = self._units.get(contains, "")
            if kind == "counter" and bucket == "rate":
                unit = (unit or "count") + "/s"
            elif kind == "rate" and bucket in ("passes", "fails"):
                unit = "count"
            out.add(Series("k6", "", name, bucket=bucket, unit=unit), value)


class PytestBenchmark(JsonTool):
    """pytest-benchmark: minimum, median and mean of each benchmark, and its rounds where they are stored and few."""

    id = "pytest-benchmark"
    title = "pytest-benchmark JSON"
    marks = ('"benchmarks"', '"machine_info"')

    rounds = 500

    def marked(self, head: bytes) -> bool:
        """Recognise machine and commit information, or a benchmark with its full name."""
        if b'"machine_info"' in head and (b'"python_' in head or b'"benchmarks"' in head):
            return True
        return b'"benchmarks"' in head and b'"fullname"' in head

    def take(self, out: Collected, document: Any) -> None:
        """Take statistics in seconds, and rounds where they are few."""
        fields = as_object(document, "the document")
        out.report_ms = time_ms(fields.get("datetime"))
        benchmarks = as_list(fields.get("benchmarks"), "benchmarks")
        self.each(out, benchmarks, lambda entry: self._take_benchmark(out, as_object(entry, "a benchmark")))

    def _take_benchmark(self, out: Collected, benchmark: dict[str, Any]) -> None:
        stats = as_object(benchmark.get("stats"), "stats")
        report = as_text(benchmark.get("group"))
        name = as_text(benchmark.get("fullname") or benchmark.get("name"))
        for bucket in ("min", "median", "mean"):
            if bucket in stats:
                out.add(Series("pytest-benchmark", report, name, bucket=bucket, unit="s"), stats[bucket])
        rounds = stats.get("data")
        if isinstance(rounds, list) and len(rounds) <= self.rounds:
            for value in rounds:
                out.add(Series("pytest-benchmark", report, name, bucket="round", unit="s"), value)


class Hyperfine(JsonTool):
    """hyperfine: every timing, and user and system time."""

    id = "hyperfine"
    title = "hyperfine --export-json"

    def marked(self, head: bytes) -> bool:
        """Recognise a list of results with commands."""
        return b'"results"' in head and b'"command"' in head

    def take(self, out: Collected, document: Any) -> None:
        """Take timings in seconds; commands that failed are kept, with a problem."""
        results = as_list(as_object(document, "the document").get("results"), "results")
        self.each(out, results, lambda entry: self._take_result(out, as_object(entry, "a result")))

    def _take_result(self, out: Collected, result: dict[str, Any]) -> None:
        command, metric = as_text(result.get("command")), _labels(result.get("parameters"))
        times = result.get("times")
        if isinstance(times, list) and times:
            for value in times:
                out.add(Series("hyperfine", "", command, metric=metric, bucket="time", unit="s"), value)
        elif "mean" in result:
            out.add(Series("hyperfine", "", command, metric=metric, bucket="mean", unit="s"), result["mean"])
        for bucket in ("user", "system"):
            if bucket in result:
                out.add(Series("hyperfine", "", command, metric=metric, bucket=bucket, unit="s"), result[bucket])
        memory = result.get("memory_usage_byte")
        for value in memory if isinstance(memory, list) else ():
            out.add(Series("hyperfine", "", command, metric=metric, bucket="memory", unit="bytes"), value)
        codes = result.get("exit_codes")
        failed = sum(1 for code in codes if code != 0) if isinstance(codes, list) else 0
        if failed:
            out.problem("failed-command", f"{command}: runs that did not exit with 0", count=failed)


class Jmh(JsonTool):
    """JMH: every iteration of every fork."""

    id = "jmh"
    title = "JMH -rf json"
    marks = ('"benchmark"', '"primarymetric"')

    def marked(self, head: bytes) -> bool:
        """Recognise a list of benchmarks with a primary metric, or the version field."""
        return b'"jmhVersion"' in head or (b'"benchmark"' in head and b'"primaryMetric"' in head)

    def take(self, out: Collected, document: Any) -> None:
        """Take raw data if stored, else the score. "NaN", "+INF" and "-INF" are texts there and become problems."""
        entries = as_list(document, "the document")
        self.each(out, entries, lambda entry: self._take_benchmark(out, as_object(entry, "a benchmark")))

    def _take_benchmark(self, out: Collected, benchmark: dict[str, Any]) -> None:
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


class Fio(JsonTool):
    """fio: rates, latencies and CPU of each job."""

    id = "fio"
    title = "fio --output-format=json"
    marks = ('"fio version"', '"jobs"')

    _percentiles: ClassVar = {
        "50.000000": "Perc50",
        "90.000000": "Perc90",
        "95.000000": "Perc95",
        "99.000000": "Perc99",
    }

    def marked(self, head: bytes) -> bool:
        """Recognise the version field."""
        return b'"fio version"' in head

    def take(self, out: Collected, document: Any) -> None:
        """Take rates, latencies and CPU; directions of transfer without any operation are left out."""
        fields = as_object(document, "the document")
        out.report_ms = epoch_ms(fields.get("timestamp_ms"), 1.0) or epoch_ms(fields.get("timestamp"))
        jobs = as_list(fields.get("jobs"), "jobs")
        self.each(out, jobs, lambda entry: self._take_job(out, as_object(entry, "a job")))

    def _take_job(self, out: Collected, job: dict[str, Any]) -> None:
        report = as_text(job.get("jobname"))
        for verb in ("read", "write", "trim"):
            part = job.get(verb)
            if not isinstance(part, dict) or not part.get("total_ios"):
                continue
            for key, unit in (("iops", "io/s"), ("bw_bytes", "bytes/s")):
                if key in part:
                    out.add(Series("fio", report, verb, key, bucket="mean", unit=unit), part[key])
            for key in ("lat_ns", "clat_ns"):
                self._latency(out, Series("fio", report, verb, key.removesuffix("_ns"), unit="ns"), part.get(key))
        for key in ("usr_cpu", "sys_cpu"):
            if key in job:
                out.add(Series("fio", report, "cpu", key, bucket="mean", unit="%"), job[key])
        if job.get("error"):
            out.problem("failed-job", f"{report}: error {job['error']!r:.40}")

    def _latency(self, out: Collected, series: Series, latency: Any) -> None:
        if not isinstance(latency, dict) or not latency.get("N"):
            return
        for bucket in ("mean", "max"):
            if bucket in latency:
                out.add(series._replace(bucket=bucket), latency[bucket])
        percentiles = latency.get("percentile")
        for key, value in percentiles.items() if isinstance(percentiles, dict) else ():
            if key in self._percentiles:
                out.add(series._replace(bucket=self._percentiles[key]), value)


class Pyperf(JsonTool):
    """pyperf: every value of every worker run; calibrations have none."""

    id = "pyperf"
    title = "pyperf JSON"

    _units: ClassVar = {"second": "s", "byte": "bytes", "integer": "count"}

    def marked(self, head: bytes) -> bool:
        """Recognise benchmarks that hold runs, or pyperf's metadata."""
        if b'"benchmarks"' not in head:
            return False
        dense = head.replace(b" ", b"").replace(b"\n", b"")
        return b'"benchmarks":[{' in dense and (b'"runs":[' in dense or b'"perf_version"' in dense)

    def take(self, out: Collected, document: Any) -> None:
        """Take every value; the name stands in the metadata of the benchmark or of the file."""
        fields = as_object(document, "the document")
        common = fields.get("metadata")
        common = common if isinstance(common, dict) else {}
        for entry in as_list(fields.get("benchmarks"), "benchmarks"):
            try:
                benchmark = as_object(entry, "a benchmark")
                own = as_object(benchmark.get("metadata") or {}, "metadata")
                runs = as_list(benchmark.get("runs"), "runs")
            except BadShape as error:
                out.problem("bad-shape", f"{self.id}: {error}")
                continue
            name, unit = (own.get(key, common.get(key)) for key in ("name", "unit"))
            series = Series(
                "pyperf", "", as_text(name), bucket="value", unit=self._units.get(as_text(unit or "second"), "")
            )
            self.each(out, runs, partial(self._take_run, out, series))

    @staticmethod
    def _take_run(out: Collected, series: Series, run: Any) -> None:
        values = as_object(run, "a run").get("values")
        for value in values if isinstance(values, list) else ():
            out.add(series, value)


class KubeBurner(JsonTool):
    """kube-burner's indexed documents in a local file."""

    id = "kube-burner"
    title = "kube-burner metric documents (JSON)"

    _quantiles = ("P50", "P90", "P95", "P99", "max", "avg", "min")

    def marked(self, head: bytes) -> bool:
        """Recognise documents with a metric name and a uuid."""
        return b'"metricName"' in head and b'"uuid"' in head

    def take(self, out: Collected, document: Any) -> None:
        """Take values by metric, job and labels; of quantile documents one value per quantile (ms)."""
        entries = document if isinstance(document, list) else [document]
        self.each(out, entries, lambda entry: self._take_document(out, as_object(entry, "a document")))

    def _take_document(self, out: Collected, fields: dict[str, Any]) -> None:
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
            for bucket in self._quantiles:
                if bucket in fields:
                    series = Series("kube-burner", job, name, as_text(quantile), bucket=bucket, unit="ms")
                    out.add(series, fields[bucket])
        elif "value" in fields:
            labels = _labels(fields.get("labels"))
            out.add(Series("kube-burner", job, name, metric=labels, bucket="value"), fields["value"])
