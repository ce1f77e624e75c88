"""Declare benchmark frameworks: Google Benchmark, criterion, libtest, BenchmarkDotNet, Catch2, asv, gungraun, and the formats of
github-action-benchmark and Bencher."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from itertools import product
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from engine.core.reading import FileKind, Reading, Source, clean, from_first_character
from engine.core.units import finite
from engine.run_comparison.reading.frames import (
    DelimitedRows,
    DelimitedTool,
    JsonReport,
    Line,
    Taken,
    TextReport,
    XmlTool,
    at,
    each,
    take_all,
    take_each,
    take_list,
)
from engine.run_comparison.reading.series import (
    BadShape,
    Collected,
    Series,
    as_list,
    as_object,
    as_text,
    epoch_ms,
    time_ms,
)

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

# -- Google Benchmark --------------------------------------------------------------------------------------------------

_GOOGLE = frozenset(
    {
        "family_index",
        "per_family_instance_index",
        "repetitions",
        "repetition_index",
        "threads",
        "iterations",
        "real_time",
    }
    | {"cpu_time", "bytes_per_second", "items_per_second", "big_o", "rms", "cpu_coefficient", "real_coefficient"}
)
"""Numbers of an entry that are no counters of the user."""
_UNITS = ("ns", "us", "ms", "s")
_AGGREGATES = ("mean", "median")
_OTHERS = ("stddev", "cv", "BigO", "RMS", "min", "max")


def _google_entries(out: Collected, kind: str, entries: Iterable[Mapping[str, Any]]) -> None:
    """Take repetitions; their mean and median only where the repetitions are not there."""
    listed = [entry for entry in entries if not _google_failed(out, entry)]
    repeated = {
        as_text(entry.get("run_name") or entry.get("name")) for entry in listed if not entry.get("aggregate_name")
    }
    for entry in listed:
        name, aggregate = as_text(entry.get("run_name") or entry.get("name")), as_text(entry.get("aggregate_name"))
        if aggregate and (name in repeated or aggregate not in _AGGREGATES):
            continue
        base = Series(kind, "", name, bucket=aggregate or "value")
        for quantity in ("real_time", "cpu_time"):
            if quantity in entry:
                unit = as_text(entry.get("time_unit")) or "ns"
                out.add(base._replace(resource=quantity, unit=unit), entry[quantity])
        rates = (("items_per_second", "items/s"), ("bytes_per_second", "bytes/s"))
        take_all(out, base, entry, [Taken(key, key, base.bucket, unit) for key, unit in rates if entry.get(key) != 0])
        for quantity, value in entry.items():
            # A whole number is a parameter more often than a measurement.
            if quantity not in _GOOGLE and isinstance(value, float) and not value.is_integer():
                unit = "1/s" if re.search("per_?sec|/s$|rate", quantity, re.IGNORECASE) else ""
                out.add(base._replace(resource=quantity, unit=unit), value)


def _google_failed(out: Collected, entry: Mapping[str, Any]) -> bool:
    failed = entry.get("error_occurred") in (True, "true") or bool(entry.get("skipped"))
    if failed:
        why = as_text(entry.get("error_message") or entry.get("skip_message"))
        out.problem("failed-benchmark", f"{as_text(entry.get('name'))}: {why or 'it did not run'}")
    return failed


def _google(out: Collected, document: Any) -> None:
    report = as_object(document, "the document")
    out.report_ms = time_ms(at(report, "context.date"))
    if at(report, "context.library_build_type") == "debug":
        out.note = "A debug build of Google Benchmark's library ran: it adds to times"
    entries: list[dict[str, Any]] = []
    take_each(out, "google-benchmark", report, "benchmarks", "a benchmark", lambda out, entry: entries.append(entry))
    _google_entries(out, "google-benchmark", entries)


def _google_table(out: Collected, kind: str, rows: DelimitedRows) -> None:
    listed = (row for _, row in rows if row["time_unit"] in _UNITS or row.get("error_occurred") == "true")
    # A line end in a name is a quote that a killed run left open.
    _google_entries(out, "google-benchmark", _google_rows(row for row in listed if "\n" not in row["name"]))


def _google_rows(rows: Iterable[dict[str, str]]) -> Iterable[dict[str, Any]]:
    """Return rows in the shape of the JSON entries: numbers, and the aggregate apart from the name."""
    for row in rows:
        entry: dict[str, Any] = {key: value for key, value in row.items() if value}
        counted = {"real_time", "cpu_time", "bytes_per_second", "items_per_second"} & entry.keys()
        entry |= {key: finite(entry[key]) for key in counted}
        base, _, end = as_text(entry.get("name")).rpartition("_")
        if base and end in (*_AGGREGATES, *_OTHERS):
            entry |= {"run_name": base, "aggregate_name": end}
        yield entry


# -- criterion ---------------------------------------------------------------------------------------------------------


class CriterionFolder(JsonReport):
    """criterion's folder of a benchmark: ``new`` is the run; ``base`` is an earlier one, and other names are saved ones."""

    def read(self, source: Source, data: bytes, state: Any, final: bool) -> Reading:
        """Read the samples of the run itself, or its estimate where they are missing."""
        parts = PurePosixPath(source.path).parts
        beside = Path(source.path).with_name("sample.json")
        if ("criterion" in parts and parts[-2] != "new") or (parts[-1] != beside.name and beside.exists()):
            return Collected(source).reading(len(data))
        return super().read(source, data, state, final)


def _criterion(out: Collected, document: Any) -> None:
    """Take times per iteration in ns."""
    parts = PurePosixPath(out.source.path).parts
    begin = max((place for place, part in enumerate(parts) if part == "criterion"), default=-1)
    base = Series("criterion", "", "/".join(parts[begin + 1 : -2] if begin >= 0 else parts[-3:-2]), "time", unit="ns")
    report = as_object(document, "the document")
    if "times" not in report:
        bucket = "slope" if report.get("slope") else "mean"
        out.add(base._replace(bucket=bucket), at(report, f"{bucket}.point_estimate"))
        return
    for time, count in zip(as_list(report["times"], "times"), as_list(report.get("iters"), "iters"), strict=False):
        took, number = finite(time), finite(count)
        if took is not None and number is not None and number > 0:
            out.add(base._replace(bucket="sample"), took / number)
        else:
            out.problem("bad-value", f"{base.verb}: a time or count is no number above 0")


# -- JSON of other frameworks ------------------------------------------------------------------------------------------


def _dotnet(out: Collected, benchmark: dict[str, Any]) -> None:
    name = as_text(benchmark.get("FullName")) or f"{as_text(benchmark.get('Type'))}.{as_text(benchmark.get('Method'))}"
    labels = as_text(benchmark.get("Parameters"))
    base = Series("benchmarkdotnet", "", name, "time", metric="" if labels in name else labels, unit="ns")
    values = at(benchmark, "Statistics.OriginalValues")
    take_list(out, base._replace(bucket="value"), benchmark, "Statistics.OriginalValues")
    if not isinstance(values, list) or not values:
        bucket = "Median" if at(benchmark, "Statistics.Median") is not None else "Mean"
        value = at(benchmark, f"Statistics.{bucket}")
        if value is None:
            out.problem("failed-benchmark", f"{name}: it has no statistics")
            return
        out.add(base._replace(bucket=bucket.lower()), value)
    take_all(out, base, benchmark, (Taken("Memory.BytesAllocatedPerOperation", "allocated memory", "value", "bytes"),))


_ASV = {
    "time": ("time", "s"), "timeraw": ("time", "s"), "mem": ("memory", "bytes"), "peakmem": ("peak memory", "bytes"),
}  # fmt: skip
"""Quantity and unit by the first word of a benchmark's function."""


def _asv(out: Collected, document: Any) -> None:
    report = as_object(document, "the document")
    out.report_ms = epoch_ms(report.get("date"), 1.0)
    columns = as_list(report.get("result_columns"), "result_columns")
    for name, row in as_object(report.get("results"), "results").items():
        fields = dict(zip(map(as_text, columns), row, strict=False)) if isinstance(row, list) else {"result": row}
        values, params = fields.get("result"), fields.get("params") or []
        quantity, unit = _ASV.get(name.rpartition(".")[2].partition("_")[0], ("", ""))
        every = product(*params) if isinstance(params, list) and all(isinstance(each, list) for each in params) else ()
        if not isinstance(values, list):
            out.problem(
                "failed-benchmark", f"{name} (result): {'null: it failed' if values is None else 'it is no list'}"
            )
        for place, (value, chosen) in enumerate(zip(values if isinstance(values, list) else (), every, strict=False)):
            label = f"({', '.join(map(as_text, chosen))})" if chosen else ""
            if value is None:
                out.problem("failed-benchmark", f"{name} (result[{place}]): null: it failed")
            elif value == value:  # NaN: it was skipped
                out.add(Series("asv", "", f"{name}{label}", quantity, bucket="value", unit=unit), value)


def _smaller_or_bigger(out: Collected, benchmark: dict[str, Any]) -> None:
    value = benchmark.get("value")
    value = finite(value) if isinstance(value, str) else value
    unit = as_text(benchmark.get("unit"))
    out.add(Series("github-action-benchmark", "", as_text(benchmark.get("name")), bucket="value", unit=unit), value)


_MEASURES = {"latency": "ns", "throughput": "operations/s", "build-time": "s", "file-size": "bytes"}


def _bencher(out: Collected, document: Any) -> None:
    for name, measures in as_object(document, "the document").items():
        for measure, metric in as_object(measures, name).items():
            value = as_object(metric, measure).get("value")
            out.add(Series("bencher", "", name, measure, bucket="value", unit=_MEASURES.get(measure, "")), value)


_BENCHER = re.compile(
    rb'\{"[^"\\]{1,400}":\{"[^"\\]{1,200}":\{(?:"(?:lower_|upper_)value":[^,]{1,40},){0,2}"(?:lower_|upper_)?value":'
)
"""The nesting of the first benchmark."""


class ActionHistory(JsonReport):
    """github-action-benchmark's data.js: a JSON document behind an assignment."""

    closes = False

    def recognise(self, name: str, head: bytes) -> bool:
        """Recognise the assignment."""
        return from_first_character(head).startswith(b"window.BENCHMARK_DATA")

    def read(self, source: Source, data: bytes, state: Any, final: bool) -> Reading:
        """Read the object between the outer braces."""
        begin, end = data.find(b"{"), data.rfind(b"}") + 1
        reading = super().read(source, data[begin:end] if 0 <= begin < end else data, state, final)
        reading.consumed = len(data)
        return reading


def _history(out: Collected, document: Any) -> None:
    """Take the values of each commit: a run each."""
    for suite, entries in as_object(as_object(document, "the document").get("entries"), "entries").items():
        each(out, "github-action-history", as_list(entries, suite), partial(_commit, out, suite))


def _commit(out: Collected, suite: str, entry: Any) -> None:
    moment, run = epoch_ms(at(entry, "date"), 1.0), clean(as_text(at(entry, "commit.id")))
    if moment is None or not run:
        raise BadShape(f"{suite}: an entry has no commit or date")
    for bench in as_list(at(entry, "benches"), "benches"):
        unit, name = as_text(at(bench, "unit")), as_text(at(bench, "name"))
        if at(entry, "tool") == "customBiggerIsBetter":
            out.direct("github-action-history", "verb", name, "higher")
        series = Series("github-action-history", suite, name, bucket="value", unit=unit)
        value = at(bench, "value")
        number = out.number(finite(value) if isinstance(value, str) else value, series)
        if number is not None:
            out.add_of_run(series.pack(), number, run, moment)


def _catch(out: Collected, kind: str, elements: Iterator[tuple[int, Element]]) -> None:
    for _, element in elements:
        mean, name = element.find("mean") if element.tag == "BenchmarkResults" else None, element.get("name", "")
        if element.tag == "BenchmarkResults" and element.find("failed") is not None:
            out.problem("failed-benchmark", f"{name}: it failed")
        elif mean is not None:
            out.add(Series(kind, "", name, "time", bucket="mean", unit="ns"), finite(mean.get("value", "")))


# -- text --------------------------------------------------------------------------------------------------------------

_T = r"(?P<value>[0-9][0-9.,]{0,30}) (?P<unit>ps|ns|us|µs|μs|ms|s)"
_BENCH = r"test (?P<name>.{1,300}?) {1,8}\.\.\. bench: {1,20}(?P<value>[0-9][0-9.,]{0,30})"
_COUNT = r": {1,60}(?P<value>[0-9]{1,18})(?:[|]| {1,3}\(|$)"
_NAME = r"(?P<name>[^\s].{0,300}?)"
TEXTS = (
    TextReport("criterion-text", "criterion's text (cargo bench)",
        r".{0,300}time: {3}\[[0-9.]{1,30} [^ ]{1,3} [0-9.]", (
        Line(r" {0,60}change:"),
        Line(rf"{_NAME} {{1,60}}time: {{3}}\[[0-9.]{{1,30}} [^ ]{{1,3}} {_T} ", "time", "estimate"),
        Line(rf" {{1,60}}time: {{3}}\[[0-9.]{{1,30}} [^ ]{{1,3}} {_T} ", "time", "estimate"),
        Line(r"(?P<name>[^\s].{0,300})$"),
    ), repeat=True, ends=(r"(?m)^Benchmarking .{1,300}: Warming up",
                     r"(?m)^(?!change:).{0,300}time: {3}\[[0-9]")),
    TextReport("libtest", "libtest's lines (cargo bench)", r"test .{1,300} \.\.\. bench: ", (
        Line(rf"{_BENCH} (?P<unit>ns|us|ms|s)/iter", "time", "value"),
        Line(rf"{_BENCH} cycles/iter", "cycles", "value", "cycles"),
        Line(rf"{_BENCH} MS/s", "rate", "value", "MS/s"),
    ), repeat=True, ends=(r"(?m)^running [0-9]{1,9} test", r"(?m)^test result:")),
    TextReport("gungraun", "gungraun and iai-callgrind", r" {2}Instructions: {1,40}[0-9]", (
        Line(r"(?P<name>[A-Za-z_]\w{0,99}::.{1,300})$"),
        Line(rf" {{1,8}}Instructions{_COUNT}", "instructions", "value", "count"),
        Line(rf" {{1,8}}RAM (?:Hits|Accesses){_COUNT}", "RAM hits", "value", "count"),
        Line(rf" {{1,8}}Estimated Cycles{_COUNT}", "estimated cycles", "value", "count"),
    ), ends=(r"(?m)^ {1,8}Instructions:", r"(?m)^ {1,8}Estimated Cycles:")),
    TextReport("catch2-text", "Catch2's console", r"benchmark name {1,60}samples ", (
        Line(r"(?P<name>[^\s].{0,200}?) {2,80}[0-9]{1,12} {1,40}[0-9]{1,15} {1,40}[0-9.]{1,20} [nmuµμ]?s ?$"),
        Line(rf" {{8,80}}{_T} {{1,40}}[0-9.]{{1,20}} [^ ]{{1,3}} {{1,40}}[0-9.]{{1,20}} [^ ]{{1,3}} ?$",
             "time", "mean"),
    ), ends=(r"(?m)^benchmark name", r"(?m)^(?:test cases:|All tests passed|Passed [0-9])")),
)  # fmt: skip

READERS: tuple[FileKind, ...] = (
    JsonReport("google-benchmark", "Google Benchmark JSON", (
        (b'"real_time"', b'"cpu_time"', b'"time_unit"'), (b'"context":{', b'"num_cpus"', b'"caches":['),
        (b'"context":{', b'"executable"', b'"benchmarks":'), (b'"context":{', b'"library_build_type"'),
    ), _google),
    DelimitedTool("google-benchmark-csv", "Google Benchmark --benchmark_format=csv", ({"name", "iterations", "time_unit"},),
        _google_table, b"name,iterations,real_time,cpu_time,time_unit,"),
    CriterionFolder(
        "criterion", "criterion's target/criterion/BENCHMARK/new/sample.json",
        ((b'"sampling_mode"', b'"iters"'), (b'"confidence_interval"', b'"median_abs_dev"')), _criterion,
    ),
    JsonReport("benchmarkdotnet", "BenchmarkDotNet JSON", ((b'"HostEnvironmentInfo"', b'"BenchmarkDotNetVersion"'),), _dotnet,
        listed=("Benchmarks", "a benchmark")),
    JsonReport("asv", "airspeed velocity: results/MACHINE/COMMIT-ENV.json", ((b'"result_columns"', b'"commit_hash"'),), _asv),
    JsonReport(
        "github-action-benchmark", "github-action-benchmark: list of name, unit, value",
        ((b'"name":', b'"unit":', b'"value":'),), _smaller_or_bigger, re.compile(rb"\[\{"), ("", "a benchmark"),
    ),
    JsonReport("bencher", "Bencher metric format (JSON)", ((b'"value":',),), _bencher, _BENCHER),
    ActionHistory("github-action-history", "github-action-benchmark's data.js (one run per commit)", (), _history),
    XmlTool("catch2", "Catch2 -r xml", b"<Catch", _catch),
    *TEXTS,
)  # fmt: skip
"""Every reader of this module."""
