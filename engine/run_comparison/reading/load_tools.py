"""Declare load generators: their JSON reports, tables of statistics and logs of requests."""

from __future__ import annotations

import re
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from engine.core.reading import FileKind, Reading, Source, from_first_character, whole_lines
from engine.core.units import finite
from engine.formats import json_text
from engine.formats.delimited import BOM
from engine.run_comparison.reading.frames import (
    PERCENTILES,
    DelimitedRows,
    DelimitedTool,
    JsonReport,
    Taken,
    XmlTool,
    at,
    each,
    take_all,
    take_success,
)
from engine.run_comparison.reading.json_tools import TROUBLE
from engine.run_comparison.reading.series import (
    REQUEST,
    Collected,
    RunFile,
    Series,
    as_list,
    as_object,
    as_text,
    join_labels,
    time_ms,
)
from engine.run_comparison.reading.text_tools import parse_time

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

# -- JSON reports ------------------------------------------------------------------------------------------------------

_VEGETA = (
    *(Taken(f"latencies.{key}", "latency", key, "ns") for key in ("min", "mean", "max")),
    *(Taken(f"latencies.{key}th", "latency", f"Perc{key}", "ns") for key in ("50", "90", "95", "99")),
    Taken("throughput", "throughput", "rate", "requests/s"),
)
_OHA = (
    Taken("summary.average", "latency", "mean", "s"), Taken("summary.fastest", "latency", "min", "s"),
    Taken("summary.slowest", "latency", "max", "s"), Taken("summary.requestsPerSec", "throughput", "rate", "requests/s"),
)  # fmt: skip
_GHZ = (
    Taken("average", "latency", "mean", "ns"), Taken("fastest", "latency", "min", "ns"),
    Taken("slowest", "latency", "max", "ns"), Taken("rps", "throughput", "rate", "requests/s"),
)  # fmt: skip
_AUTOCANNON = (
    *(Taken(f"latency.{key}", "latency", key, "ms") for key in ("mean", "min", "max")),
    *(Taken(f"latency.p{key.replace('.', '_')}", "latency", bucket, "ms") for key, bucket in PERCENTILES.items()),
    Taken("requests.mean", "throughput", "rate", "requests/s"),
)
_JMETER = (
    *(Taken(f"{key}ResTime", "latency", key, "ms") for key in ("mean", "median", "min", "max")),
    *(Taken(f"pct{at}ResTime", "latency", f"Perc{share}", "ms") for at, share in ((1, 90), (2, 95), (3, 99))),
    Taken("throughput", "throughput", "rate", "requests/s"),
)


def _sum(counts: Any, keep: Callable[[str], bool] = lambda key: True) -> float:
    """Return the sum of the counts in an object whose keys are to be kept."""
    counts = counts if isinstance(counts, dict) else {}
    return sum(
        value for key, value in counts.items() if keep(key) and isinstance(value, (int, float)) and abs(value) < 2**63
    )


def _vegeta(out: Collected, document: Any) -> None:
    report, base = as_object(document, "the document"), Series("vegeta", "", "request")
    out.report_ms = time_ms(report.get("earliest"))
    share, asked = finite(report.get("success")), report.get("requests", 1)
    if asked and (share is None or take_success(out, base, share, 1)):
        take_all(out, base, report, (each for each in _VEGETA if at(report, each.path) != 0))  # 0: it was not ended


def _oha(out: Collected, document: Any) -> None:
    report, base = as_object(document, "the document"), Series("oha", "", "request")
    codes = report.get("statusCodeDistribution")
    errors = _sum(report.get("errorDistribution"), lambda key: key != "aborted due to deadline")
    if not take_success(out, base, _sum(codes, lambda key: key[:1] in "23"), _sum(codes) + errors):
        return
    take_all(out, base, report, _OHA)
    percentiles = report.get("latencyPercentilesSuccessful") or report.get("latencyPercentiles")
    for key, bucket in PERCENTILES.items():
        value = percentiles.get(f"p{key}") if isinstance(percentiles, dict) else None
        if value is not None:
            out.add(base._replace(resource="latency", bucket=bucket, unit="s"), value)


def _ghz(out: Collected, document: Any) -> None:
    report = as_object(document, "the document")
    base = Series("ghz", "", as_text(at(report, "options.call")) or "request")
    out.report_ms = time_ms(report.get("date"))
    codes = report.get("statusCodeDistribution")
    if not take_success(out, base, _sum(codes, lambda key: key == "OK"), _sum(codes)):
        return
    take_all(out, base, report, _GHZ)
    for part in as_list(report.get("latencyDistribution") or [], "latencyDistribution"):
        bucket = PERCENTILES.get(f"{finite(at(part, 'percentage')) or 0:g}")
        if bucket is not None:
            out.add(base._replace(resource="latency", bucket=bucket, unit="ns"), at(part, "latency"))


def _autocannon(out: Collected, document: Any) -> None:
    report, base = as_object(document, "the document"), Series("autocannon", "", "request")
    out.report_ms = time_ms(report.get("start"))
    good = _sum(report, lambda key: key in ("2xx", "3xx"))
    if take_success(out, base, good, good + _sum(report, lambda key: key in ("1xx", "4xx", "5xx", "errors"))):
        take_all(out, base, report, _AUTOCANNON)


def _jmeter(out: Collected, document: Any) -> None:
    each(out, "jmeter-statistics", as_object(document, "the document").items(), lambda item: _jmeter_label(out, *item))


def _jmeter_label(out: Collected, label: str, entry: Any) -> None:
    base, asked = (
        Series("jmeter-statistics", "", label),
        finite(as_object(entry, label).get("sampleCount")) or 0.0,
    )
    if take_success(out, base, asked - (finite(at(entry, "errorCount")) or 0.0), asked):
        take_all(out, base, entry, _JMETER)


_GATLING = (
    *(Taken(f"{key}ResponseTime.ok", "latency", key, "ms") for key in ("mean", "min", "max")),
    *(Taken(f"percentiles{at}.ok", "latency", f"Perc{share}", "ms") for at, share in enumerate((50, 75, 95, 99), 1)),
    Taken("meanNumberOfRequestsPerSecond.ok", "throughput", "rate", "requests/s"),
)


def _gatling(out: Collected, document: Any) -> None:
    """Take the successful requests of all, and of each request and group below; old versions write numbers as texts."""
    waiting = [as_object(document, "the document")]
    while waiting:
        entry = waiting.pop()
        stats = as_object(entry.get("stats", entry), "stats")
        good, asked = (finite(at(stats, f"numberOfRequests.{which}")) or 0.0 for which in ("ok", "total"))
        base = Series("gatling", "", as_text(entry.get("path") or stats.get("name")) or "all requests")
        if take_success(out, base, good, asked):
            take_all(out, base, stats, _GATLING)
        below = entry.get("contents")
        waiting += [each for each in below.values() if isinstance(each, dict)] if isinstance(below, dict) else []


REPORTS = (
    JsonReport("vegeta", "vegeta report -type=json", ((b'"latencies"', b'"bytes_in"'),), _vegeta),
    JsonReport("oha", "oha --output-format json", ((b'"successRate"', b'"requestsPerSec"'),), _oha),
    JsonReport("ghz", "ghz --format json", (
        (b'"fastest"', b'"slowest"', b'"rps"', b'"count"'), (b'"fastest"', b'"slowest"', b'"rps"', b'"latencyDistribution"'),
        (b'"average"', b'"count"', b'"details":[{"timestamp"'),
    ), _ghz),
    JsonReport("autocannon", "autocannon -j", ((b'"latency"', b'"p97_5"', b'"non2xx"'),), _autocannon),
    JsonReport("gatling", "Gatling's js/stats.json and global_stats.json", (
        (b'"numberOfRequests"', b'"meanResponseTime"', b'"ok"'),
    ), _gatling),
    JsonReport("jmeter-statistics", "JMeter's statistics.json", ((b'"transaction"', b'"pct1ResTime"'),), _jmeter),
)  # fmt: skip

# -- tables and logs of requests ---------------------------------------------------------------------------------------


MOST_REQUESTS = 500  # most requests of a label that are values of their own, too
_STATISTICS = (("Perc50", 50), ("Perc90", 90), ("Perc95", 95), ("Perc99", 99), ("max", 100))


class Requests(msgspec.Struct):
    """Requests of one label: times of the successful ones in ms, all and failed ones, first start and last end in ms."""

    times: array[float] = msgspec.field(default_factory=lambda: array("d"))
    count: int = 0
    failed: int = 0
    first_ms: float = float("inf")
    last_ms: float = float("-inf")

    def add(self, took_ms: float, start_ms: float | None, *, good: bool, count: int = 1, failed: int = 0) -> None:
        """Add one row of a log; a row of several requests is one time."""
        self.count += count
        self.failed += failed if count > 1 else not good
        if good:
            self.times.append(took_ms)
        if start_ms is not None:
            self.first_ms = min(self.first_ms, start_ms)
            self.last_ms = max(self.last_ms, start_ms + took_ms)


def take_log(out: Collected, kind: str, labels: Mapping[str, Requests]) -> None:
    """Add the statistics of a log of requests, one run: per label the share of successes, the times of the successful
    requests, and requests per second over the span of the log (10 s and 100 requests at least: less is noise)."""
    for label, requests in labels.items():
        base = Series(kind, "", label, "latency", unit="ms")
        good = take_success(out, base, requests.count - requests.failed, requests.count)
        times = np.frombuffer(requests.times, dtype=np.float64)
        if not good or not times.size:
            continue
        out.add(base._replace(bucket="mean"), float(times.mean()))
        for bucket, share in _STATISTICS:
            out.add(base._replace(bucket=bucket), float(np.percentile(times, share)))
        span = (requests.last_ms - requests.first_ms) / 1000
        if span >= 10 and requests.count >= 100:
            out.add(base._replace(resource="throughput", bucket="rate", unit="requests/s"), requests.count / span)
        for time in requests.times if times.size <= MOST_REQUESTS else ():
            out.add(base._replace(bucket=REQUEST), time)


def _number(out: Collected, row: Mapping[str, str], name: str, line: int) -> float | None:
    """Return a number of a row; a bad one is a problem."""
    value = finite(row.get(name, ""))
    if value is None or value < 0:
        out.problem("bad-value", f"{name}: {row.get(name, '')[:40]!r} is no number from 0 on", line=line)
        return None
    return value


def _jtl(out: Collected, kind: str, rows: DelimitedRows) -> None:
    labels: dict[str, Requests] = {}
    for line, row in rows:
        took = _number(out, row, "elapsed", line)
        if took is None:
            continue
        label = row.get("label") or "request"
        if row.get("responsemessage", "").startswith("Number of samples in transaction"):
            label += " (transaction)"
        good = row.get("success", "true").lower() == "true"
        count, failed = (
            int(finite(row.get(name, "")) or least) for name, least in (("samplecount", 1), ("errorcount", 0))
        )
        start = parse_time(row.get("timestamp", ""))
        labels.setdefault(label, Requests()).add(took, start, good=good, count=count, failed=failed)
    take_log(out, kind, labels)


def _requests(took: str, start: str, unit_ms: float, out: Collected, kind: str, rows: DelimitedRows) -> None:
    """Take a log of requests of one kind: the columns of duration (in ``unit_ms``) and start (in seconds)."""
    requests = Requests()
    for line, row in rows:
        value = _number(out, row, took, line)
        if value is not None:
            begin = finite(row.get(start, ""))
            requests.add(unit_ms * value, begin and 1000 * begin, good=row.get("status-code", "200")[:1] in ("2", "3"))
    take_log(out, kind, {"request": requests} if requests.count else {})


def _take_row(out: Collected, base: Series, row: Mapping[str, str], wanted: Iterable[Taken], line: int) -> None:
    for column, quantity, bucket, unit in wanted:
        value = _number(out, row, column, line) if row.get(column, "N/A") not in ("N/A", "") else None
        if value is not None:
            out.add(base._replace(resource=quantity, bucket=bucket, unit=unit), value, line=line)


def _statistics(name: str, wanted: Iterable[Taken], out: Collected, kind: str, rows: DelimitedRows) -> None:
    """Take a table of results: one row for each ``name``, one column for each statistic."""
    for line, row in rows:
        if name in row:
            labels = join_labels({key[10:]: row[key] for key in row if key.startswith("parameter_")})
            _take_row(out, Series(kind, "", row[name], metric=labels), row, wanted, line)


_HYPERFINE = tuple(
    Taken(key, "" if key in ("mean", "median", "min", "max") else key, key, "s")
    for key in ("mean", "median", "min", "max", "user", "system")
)
_REDIS = (
    Taken("rps", "throughput", "rate", "requests/s"), Taken("avg_latency_ms", "latency", "mean", "ms"),
    *(Taken(f"p{share}_latency_ms", "latency", f"Perc{share}", "ms") for share in (50, 95, 99)),
    Taken("min_latency_ms", "latency", "min", "ms"), Taken("max_latency_ms", "latency", "max", "ms"),
)  # fmt: skip


_LOCUST = (
    *(Taken(f"{key} response time", "latency", bucket, "ms") for key, bucket in (
        ("average", "mean"), ("median", "median"), ("min", "min"), ("max", "max"),
    )),
    *(Taken(f"{share}%", "latency", bucket, "ms") for share, bucket in PERCENTILES.items() if share != "50"),
    Taken("requests/s", "throughput", "rate", "requests/s"),
)  # fmt: skip


def _locust(out: Collected, kind: str, rows: DelimitedRows) -> None:
    name = "Total"
    for line, row in rows:
        asked = finite(row.get("request count", row.get("# requests", ""))) or 0.0
        failed = finite(row.get("failure count", row.get("# failures", ""))) or 0.0
        name = " ".join(word for word in (row.get("type", row.get("method", "")), row.get("name", "")) if word)
        if asked and take_success(out, Series(kind, "", name), asked - failed, asked):
            _take_row(out, Series(kind, "", name), row, _LOCUST, line)
    if kind == "locust" and not name.endswith(("Total", "Aggregated")):
        out.problem("cut-file", "the last row is not that over all requests: the file was cut, and rows are missing")


_PARTS = re.compile(r"_(?:stats_history|failures|exceptions)\.csv$")


def _locust_parts(out: Collected, kind: str, rows: DelimitedRows) -> None:
    """Take the totals in the last rows of the history if the statistics are not beside it."""
    path = Path(out.source.path)
    out.part = bool(_PARTS.search(path.name)) and path.with_name(_PARTS.sub("_stats.csv", path.name)).exists()
    last: dict[str, tuple[int, dict[str, str]]] = {}
    for line, row in rows if not out.part else ():
        if "total request count" in row:
            totals = {key.removeprefix("total "): row[key] for key in row if key.startswith("total ")}
            last[f"{row['type']} {row['name']}"] = line, totals | {"type": row["type"], "name": row["name"]}
    _locust(out, kind, iter(last.values()))


_K6_RATES = re.compile(r"checks|http_req_failed|.{0,200}_failed|.{0,200}_rate")
_K6_COUNTERS = re.compile(
    r"http_reqs|iterations|data_(?:sent|received)|dropped_iterations|.{0,200}(?:_msgs_.{0,20}|_count)"
)
_K6_GAUGES = frozenset({"vus", "vus_max"})
_K6_TIMES = re.compile(r".{0,200}(?:duration|blocked|connecting|handshaking|sending|waiting|receiving|_time|ping)")
_K6_STATISTICS = (("avg", None), ("min", 0), ("med", 50), ("max", 100), ("p(90)", 90), ("p(95)", 95))


class _K6:
    """Points of k6's metrics, and what the stream says of their types and units."""

    def __init__(self) -> None:
        self.points: dict[str, Requests] = {}
        self.types: dict[str, tuple[str, str]] = {}

    def add(self, name: str, value: float) -> None:
        """Add one point."""
        self.points.setdefault(name, Requests()).times.append(value)

    def finish(self, out: Collected) -> None:
        """Add what k6's summary would give."""
        for name, points in self.points.items():
            known = "rate" if _K6_RATES.fullmatch(name) else "counter" if _K6_COUNTERS.fullmatch(name) else "trend"
            guess = ("gauge" if name in _K6_GAUGES else known, "time" if _K6_TIMES.fullmatch(name) else "")
            kind, contains = self.types.get(name, guess)
            unit = {"time": "ms", "data": "bytes"}.get(contains, "bytes" if name.startswith("data_") else "")
            values = np.frombuffer(points.times, dtype=np.float64)
            base = Series("k6", "", name, unit=unit)
            if kind == "rate":
                out.add(base._replace(bucket="rate"), float(values.mean()))
            elif kind == "counter":
                out.direct("k6", "verb", name, "lower" if TROUBLE.search(name) else "higher")
                out.add(base._replace(bucket="count"), float(values.sum()))
            elif kind == "trend":
                for bucket, share in _K6_STATISTICS:
                    out.add(
                        base._replace(bucket=bucket),
                        float(values.mean() if share is None else np.percentile(values, share)),
                    )


def _k6_csv(out: Collected, kind: str, rows: DelimitedRows) -> None:
    metrics = _K6()
    for line, row in rows:
        value = finite(row.get("metric_value", ""))
        if value is None:
            out.problem("bad-value", f"{row.get('metric_value', '')[:40]!r} is no number", line=line)
        else:
            metrics.add(row["metric_name"], value)
    metrics.finish(out)


DELIMITED = (
    DelimitedTool("jmeter-jtl", "JMeter's JTL (CSV)", ({"timestamp", "elapsed"},), _jtl),
    DelimitedTool("hey-csv", "hey -o csv", ({"response-time", "status-code"},),
        partial(_requests, "response-time", "offset", 1000.0)),
    DelimitedTool("ab-gnuplot", "ab -g", ({"starttime", "seconds", "ctime", "ttime"},),
        partial(_requests, "ttime", "seconds", 1.0)),
    DelimitedTool("hyperfine-csv", "hyperfine --export-csv", ({"command", "mean", "stddev"},),
        partial(_statistics, "command", _HYPERFINE)),
    DelimitedTool("redis-benchmark", "redis-benchmark --csv", ({"test", "rps", "avg_latency_ms"},),
        partial(_statistics, "test", _REDIS)),
    DelimitedTool("locust", "locust --csv: statistics", (
        {"type", "name", "request count", "failure count"}, {"method", "name", "# requests", "# failures"},
    ), _locust),
    DelimitedTool("locust-parts", "locust --csv: history, failures and exceptions, beside the statistics", (
        {"timestamp", "user count", "type", "name", "total request count"}, {"method", "name", "error", "occurrences"},
        {"count", "message", "traceback", "nodes"},
    ), _locust_parts),
    DelimitedTool("k6-csv", "k6 run --out csv", ({"metric_name", "timestamp", "metric_value"},), _k6_csv),
)  # fmt: skip


class _Point(msgspec.Struct):
    metric: str = ""
    type: str = ""
    data: dict[str, Any] = {}


class K6Stream(RunFile):
    """k6's stream of points: its statistics as the summary has them."""

    id = "k6-json"
    title = "k6 run --out json (NDJSON)"

    def recognise(self, name: str, head: bytes) -> bool:
        """Recognise a first line with a metric, its type and data."""
        line = from_first_character(head).partition(b"\n")[0].replace(b" ", b"")
        return line[:1] == b"{" and b'"metric":' in line and (b'"type":"Metric"' in line or b'"type":"Point"' in line)

    def read(self, source: Source, data: bytes, state: Any, final: bool) -> Reading:
        """Read every complete line; one that is no point becomes a problem."""
        out, metrics, decoder = Collected(source), _K6(), msgspec.json.Decoder(_Point)
        for number, line in enumerate(BytesIO(whole_lines(data.removeprefix(BOM), final)), start=1):
            if not line.strip():
                continue
            try:
                point = decoder.decode(line)
            except json_text.ERRORS:
                out.problem("bad-record", "no point of k6", line=number)
                continue
            if point.type == "Metric":
                metrics.types[point.metric] = (as_text(point.data.get("type")), as_text(point.data.get("contains")))
            elif point.type == "Point":
                value = finite(point.data.get("value"))
                if value is not None:
                    metrics.add(point.metric, value)
                else:
                    out.problem("bad-value", f"{point.metric}: its value is no finite number", line=number)
        metrics.finish(out)
        return out.reading(len(data))


def _jtl_xml(out: Collected, kind: str, elements: Iterator[tuple[int, Element]]) -> None:
    labels: dict[str, Requests] = {}
    for depth, element in elements:
        if depth != 1 or element.tag not in ("httpSample", "sample"):
            continue  # a sample inside another one is a part of it
        took = finite(element.get("t", ""))
        if took is None or took < 0:
            out.problem("bad-value", f"t: {element.get('t', '')[:40]!r} is no time")
            continue
        start = finite(element.get("ts", ""))
        labels.setdefault(element.get("lb") or "request", Requests()).add(
            took, start, good=element.get("s", "true") == "true"
        )
    take_log(out, kind, labels)


READERS: tuple[FileKind, ...] = (
    *REPORTS,
    *DELIMITED,
    K6Stream(),
    XmlTool("jmeter-jtl-xml", "JMeter's JTL (XML)", b"<testResults", _jtl_xml),
)
"""Every reader of this module."""
