"""Read go test -bench, CSV with a time column (a run per row, as Otava reads it), and the texts of load
generators."""

from __future__ import annotations

import math
import re
from array import array
from bisect import bisect_left
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import msgspec
import numpy as np

from engine.core import units
from engine.core.reading import (
    HEAD,
    Problem,
    Reading,
    Source,
    clean,
    decode,
    form_of,
    from_first_character,
    whole_lines,
)
from engine.formats.delimited import BOM, rows
from engine.run_comparison.reading.frames import Line, TextReport
from engine.run_comparison.reading.series import Collected, RunFile, Series, epoch_ms, plain_number, time_ms

_LINE = re.compile(rb"^Benchmark\S*[ \t]+\d+[ \t]+\S+[ \t]+\S", re.MULTILINE)
_CONFIG = re.compile(r"^([a-z][^\s:A-Z]*):(?:[ \t]+(.*))?$")
_FAILED = ("--- FAIL: Benchmark", "FAIL\t", "panic: ")


class GoBenchmark(RunFile):
    """Output of ``go test -bench``: repeated lines of one name are the sample of a run."""

    id = "go-benchmark"
    title = "Go benchmark text (go test -bench)"
    marks = ("ns/op",)

    def recognise(self, name: str, head: bytes) -> bool:
        """Recognise a result line near the beginning, or the configuration lines that precede them."""
        if name.endswith((".json", ".csv", ".xml", ".py", ".go", ".md")) or name == "build-log.txt":
            return False
        begun = head.startswith(b"goos: ") and b"\ngoarch: " in head[:400] and b"\npkg: " in head
        return begun or _LINE.search(head) is not None

    def read(self, source: Source, data: bytes, state: Any, final: bool) -> Reading:
        """Read every complete result line; half a line may have a cut unit and so mean another metric."""
        out = Collected(source)
        config: dict[str, str] = {}
        for number, line in enumerate(decode(whole_lines(data, final=False)).split("\n"), start=1):
            if line.startswith("Benchmark"):
                self._result(out, line.split(), config, number)
            elif line.startswith("Unit "):
                fields = line.split()
                for part in fields[2:]:
                    key, _, value = part.partition("=")
                    if key == "better" and value in ("higher", "lower"):
                        out.direct("go-benchmark", "unit", fields[1], value)
            elif line.startswith(_FAILED):
                out.problem("failed-benchmark", f"{clean(line, 80)}: what would follow is missing", line=number)
                out.end(False)
            elif setting := _CONFIG.match(line):
                if setting[2]:
                    config[setting[1]] = setting[2].strip()
                else:
                    config.pop(setting[1], None)
        out.ends(data, final)
        return out.reading(len(data))

    def _result(self, out: Collected, fields: list[str], config: dict[str, str], number: int) -> None:
        if len(fields) < 2:
            return  # only a name: -v prints it before a benchmark runs
        if len(fields) < 4 or len(fields) % 2 or not fields[1].isdecimal():
            if fields[1].isdecimal():
                out.problem("bad-record", "a benchmark line without pairs of value and unit", line=number)
            return
        name = fields[0].removeprefix("Benchmark") or fields[0]
        for value, unit in zip(fields[2::2], fields[3::2], strict=True):
            measured = plain_number(value)
            if measured is None:
                out.problem("bad-value", f"{name}: {value[:40]} is not a number", line=number)
            else:
                out.add(
                    Series("go-benchmark", config.get("pkg", ""), name, bucket=unit, unit=unit), measured, line=number
                )


FEWEST_SECONDS = 60  # rows whose median gap is smaller are a log of one run, not a history
KNOWN_LOGS = (
    {"timestamp", "elapsed"}, {"metric_name", "metric_value"}, {"response-time", "status-code"}, {"timestamp", "user count"},
    {"starttime", "ctime"}, {"user_host", "query_time"},
)  # fmt: skip
"""Columns of logs and streams of known tools, whose rows are never runs."""
_TIMES = frozenset({"time", "timestamp", "date", "datetime", "start_time", "started"})
_RUNS = ("run", "build", "commit", "revision", "version", "sha")
_FORMATS = (
    "%Y.%m.%d %H:%M:%S %z",
    "%Y/%m/%d %H:%M:%S",
    "%Y/%m/%d %H:%M:%S.%f",
    "%Y.%m.%d %H:%M:%S",
    "%d.%m.%Y %H:%M:%S",
)


_LIKE_FORMATS = re.compile(r"\s*\d{1,4}[./]\d{1,2}[./]\d{1,4} .{5,30}$")


def parse_time(text: str) -> int | None:
    """Convert ISO 8601, epoch seconds or ms, or one of Otava's notations to epoch ms; None for anything else."""
    if not text[:10].isdecimal() and (iso_ms := time_ms(text)) is not None:  # ten digits are no date
        return iso_ms
    number = plain_number(text)
    if number is not None:
        return epoch_ms(number, 1.0 if abs(number) > 1e11 else 1000.0)
    if not _LIKE_FORMATS.match(text):
        return None  # trying the formats takes a hundred times as long
    for form in _FORMATS:
        try:
            moment = datetime.strptime(text.strip(), form)
        except ValueError:
            continue
        return time_ms(moment.isoformat())
    return None


class CsvSeries(RunFile):
    """A history of runs in one table."""

    id = "csv-series"
    title = "CSV with a time column (a history: one run per row)"
    version = 2

    def recognise(self, name: str, head: bytes) -> bool:
        """Recognise ``.csv`` or ``.tsv`` whose header begins with a time column.

        Otherwise the first row must have a time in the time column and a number elsewhere.
        """
        header, _, rest = decode(from_first_character(head)).partition("\n")
        cells = _cells(header)
        at = _time_column(cells)
        if len(cells) < 2 or at is None or any(log <= {cell.lower() for cell in cells} for log in KNOWN_LOGS):
            return False
        if at == 0 and name.endswith((".csv", ".tsv")):
            return True
        row = _cells(rest.partition("\n")[0])
        return (
            len(row) == len(cells)
            and parse_time(row[at]) is not None
            and any(plain_number(cell) is not None for i, cell in enumerate(row) if i != at)
        )

    def lacks(self, head: bytes) -> tuple[float, str]:
        """Return that a table with times in its first row names none."""
        header, first, *_ = [*map(_cells, decode(from_first_character(head)).split("\n", 2)), []]
        if form_of(head) == "text" and len(header) > 2 and len(header[0]) > 9 and parse_time(header[0]) is not None:
            return 0.5, "a first line that names the columns"
        named = zip(header, first, strict=True) if form_of(head) == "text" and len(header) == len(first) > 1 else ()
        when = [name for name, cell in named if time_ms(cell) is not None or _LIKE_FORMATS.match(cell)]
        return (0.5, f"the name time, timestamp or date for the column {clean(when[0], 40)}") if when else (0.0, "")

    def read(self, source: Source, data: bytes, state: Any, final: bool) -> Reading:
        """Read rows with a readable time; a last line without an end waits unless nothing will follow.

        Then it is read, since many programs end no last line, with a problem: it may hold half a number.
        """
        out = Collected(source)
        if final and (last := data[data.rfind(b"\n") + 1 :].strip()):
            line = data.count(b"\n") + 1
            out.problem("cut-file", f"the last line has no end: {clean(decode(last[-20:]))} may be cut", line=line)
        table = whole_lines(data, final).removeprefix(BOM)
        separator = max(",;\t", key=decode(from_first_character(table[:HEAD])).partition("\n")[0].count)
        header = [cell.strip() for cell in next((row for _, row in rows(source, table, separator, True, [])), [])]
        if header:
            columns = _Columns.of(source, table, separator, header)
            if 0 < columns.widest < max((at for at, name in enumerate(header, 1) if name), default=0):
                out.problem("bad-header", "it names more columns than any row has: two headers in one line?", line=1)
                return out.reading(len(data))
            gap = columns.gap_s
            if columns.run is None and gap is not None and gap < FEWEST_SECONDS:
                reason = f'rows are {gap:g} s apart: a log, not a history; a column "run" would name its runs'
                out.problem("log-not-history", reason)
                return out.reading(len(data))
            _read_rows(out, columns)
            runs = len(set(out.run or ()))
            by = (
                f"by column {header[columns.run]}"
                if columns.run is not None
                else "one a row"
                if gap
                else "all rows have one time"
            )
            apart = f", {units.duration(1000 * gap)} apart" if gap else ""
            rows_of = f", {len(out.series)} values" if columns.run is not None else ""
            out.note = f"{runs} run{'' if runs == 1 else 's'} from {source.name}, {by}{apart}{rows_of}"
        return out.reading(len(data))


class _Columns(msgspec.Struct, frozen=True):
    """A table: access to its rows, and the roles of its columns (places in a row).

    ``when``: the time; ``run``: what names the run, None without; ``numbers``: name and unit of each column that has a
    number anywhere; ``attributes``: the others; ``widest``: fields of the longest row; ``gap_s``: the median gap between the
    rows' different times in seconds, None with one time.
    """

    source: Source
    table: bytes
    separator: str
    header: list[str]
    when: int
    run: int | None
    numbers: dict[int, tuple[str, str]]
    attributes: list[int]
    widest: int
    gap_s: float | None = None

    @classmethod
    def of(cls, source: Source, table: bytes, separator: str, header: list[str]) -> _Columns:
        """Find the columns that hold numbers in any row."""
        place = {name.lower(): at for at, name in reversed(list(enumerate(header)))}
        when = _time_column(header) or 0
        others = [at for at in range(len(header)) if at != when]
        made, widest = cls(source, table, separator, header, when, None, {}, others, 0), 0
        names: dict[int, set[str]] = {place[name]: set() for name in _RUNS if name in place}
        times = array("q")
        for _, row in made.rows([]):
            widest = max(widest, len(row))
            moment = parse_time(row[when]) if when < len(row) else None
            times.extend(() if moment is None else (moment,))
            for at, found_names in names.items():
                if at < len(row) and len(found_names) < 2:
                    found_names.add(row[at].strip())
            # Skip columns already known to hold numbers, and those beyond the end of a short row.
            fitting = others[: bisect_left(others, len(row))]
            found = [at for at in fitting if at not in made.numbers and plain_number(row[at]) is not None]
            made.numbers.update((at, _column(header[at])) for at in found)
        run = next((at for at, found_names in names.items() if len(found_names) > 1), None)
        made.numbers.pop(-1 if run is None else run, None)
        made.attributes[:] = [at for at in others if at not in made.numbers and at != run]
        moments = np.frombuffer(times, dtype=np.int64)
        moments.sort()
        gaps = np.diff(moments)
        gaps.sort()  # in place, as above: a log of 100 MB has millions of times
        gaps = gaps[np.searchsorted(gaps, 1) :]
        return msgspec.structs.replace(
            made, widest=widest, run=run, gap_s=float(gaps[gaps.size // 2]) / 1000 if gaps.size else None
        )

    def rows(self, problems: list[Problem]) -> Iterator[tuple[int, list[str]]]:
        """Yield line and cells of each row below the header that is not blank."""
        lines = rows(self.source, self.table, self.separator, True, problems)
        next(lines, None)
        return ((line, row) for line, row in lines if any(cell.strip() for cell in row))


_MOST_LABELS = 1000  # characters of a row's attributes that identify its values


def _read_rows(out: Collected, columns: _Columns) -> None:
    header, run_at = columns.header, columns.run
    report = columns.source.name.rpartition(".")[0]
    numeric = sorted(columns.numbers)
    packed: dict[int, str] = {}
    packed_labels = ""
    for line, row in columns.rows(out.problems):
        moment = row[columns.when].strip() if columns.when < len(row) else ""
        stamp = parse_time(moment)
        if stamp is None:
            out.problem("bad-time", f"{moment!r:.60} is not a time", line=line)
            continue
        if len(row) < len(header):
            out.problem("bad-record", "fewer fields than the header", line=line)
        run = clean(row[run_at].strip() if run_at is not None and run_at < len(row) else moment, 200)
        fitting = columns.attributes[: bisect_left(columns.attributes, len(row))]
        labels = ", ".join(f"{header[at]}={row[at].strip()}" for at in fitting if row[at].strip())[:_MOST_LABELS]
        if labels != packed_labels:
            packed, packed_labels = {}, labels
        for at in numeric[: bisect_left(numeric, len(row))]:
            if not row[at].strip():
                continue
            number = plain_number(row[at])
            if number is None or not math.isfinite(number):
                out.problem("bad-value", f"{header[at]}: {row[at][:40]!r} is not a finite number", line=line)
                continue
            if at not in packed:
                name, unit = columns.numbers[at]
                packed[at] = Series("csv", report, name, metric=labels, bucket="value", unit=unit).pack()
            out.add_of_run(packed[at], number, run or moment, stamp)


def _cells(line: str) -> list[str]:
    """Split one line into fields, ignoring quotes."""
    return [cell.strip().strip('"') for cell in line.split(max(",;\t", key=line.count))]


def _time_column(names: list[str]) -> int | None:
    """Return the place of the first column named like a time."""
    return next((at for at, name in enumerate(names) if name.lower() in _TIMES), None)


def _column(header: str) -> tuple[str, str]:
    """Split a title such as ``latency [ms]`` into name and unit."""
    for opening, closing in ("[]", "()"):
        name, bracket, unit = header[:-1].rpartition(opening)
        if header.endswith(closing) and bracket and unit and "]" not in unit and ")" not in unit:
            return name.strip(), unit
    return header, ""


# -- load generators -----------------------------------------------------------------------------------------------------

_N = r"(?P<value>[0-9][0-9.,]{0,30}[kMG]?)"
_T = r"(?P<value>[0-9][0-9.]{0,30}) ?(?P<unit>us|ms|secs|s|m|h)"
_P = r"(?P<p>50|75|90|95|99|99\.9)"
_E = r"(?P<value>[0-9][0-9.]{0,30}(?:E-?[0-9]{1,3})?)"
_YCSB = r"\[(?P<name>(?!CLEANUP|OVERALL|TOTAL)[A-Z][A-Z-]{0,40})\], "
_SENT = r"(?=.{1,400}th\.$)[0-9]{1,15} records sent"
READERS = (
    TextReport("wrk", "wrk and wrk2", r"Running [0-9.]{1,9}[smh] test @ ", (
        Line(rf" {{1,8}}Latency {{1,12}}{_T} ", "latency", "mean", always=True),
        Line(rf" {{1,8}}{_P}(?:\.?0{{1,3}})?% {{1,12}}{_T}$", "latency"),
        Line(rf" {{1,8}}{_N} requests in [0-9.]{{1,9}}[smh], ", "", "requests", always=True),
        *(Line(rf" {{1,8}}Socket errors: .{{0,80}}\b{kind} {_N}\b", "", "lost", more=True)
          for kind in ("connect", "read", "write", "timeout")),
        Line(rf" {{1,8}}Non-2xx or 3xx responses: {_N}$", "", "failed"),
        Line(rf"Requests/sec: {{1,12}}{_N}$", "throughput", "rate", "requests/s", always=True),
    )),
    TextReport("hey", "hey", r"Summary:\n {0,4}Total:[ \t]", (
        Line(rf"\s{{1,8}}Total:\s{{1,8}}{_T}$", "", "seconds"),
        Line(rf"\s{{1,8}}Average:\s{{1,8}}{_T}$", "latency", "mean", always=True),
        Line(rf"\s{{1,8}}Fastest:\s{{1,8}}{_T}$", "latency", "min", always=True),
        Line(rf"\s{{1,8}}Slowest:\s{{1,8}}{_T}$", "latency", "max", always=True),
        Line(rf"\s{{1,8}}Requests/sec:\s{{1,8}}{_N}$", "throughput", "rate", "requests/s", always=True),
        Line(rf"\s{{1,8}}{_P}% in {_T}$", "latency"),
        Line(r"\s{1,8}\[(?P<code>[1-5][0-9]{2})\]\s{1,8}(?P<value>[0-9]{1,15}) responses"),
        Line(r"\s{1,8}\[(?P<value>[0-9]{1,15})\]\t(?P<code>[A-Z])"),
    )),
    TextReport("ab", "ab (ApacheBench)", r"This is ApacheBench", (
        Line(rf"Requests per second: {{1,8}}{_N} \[", "requests", "rate", "requests/s", always=True),
        Line(r"Time per request: {1,8}(?P<value>[0-9.]{1,30}) \[(?P<unit>ms)\] \(mean\)",
             "latency", "mean", always=True),
        Line(r" {1,4}(?P<p>50|75|90|95|99)% {1,12}(?P<value>[0-9]{1,15})$", "latency", unit="ms"),
        Line(rf"Complete requests: {{1,12}}{_N}$", "", "requests", always=True),
        Line(rf"Non-2xx responses: {{1,12}}{_N}$", "", "failed"),
    ), ends=(r"(?m)^This is ApacheBench", r"(?m)^ 100%")),
    TextReport("pgbench", "pgbench", r"transaction type: ", (
        Line(rf"number of failed transactions: .{{1,15}} \({_N}%\)$", "failed transactions", "value", "%"),
        Line(rf"latency average(?: =|:) {_T}(?:$| \()", "latency", "mean", always=True),
        Line(rf"tps = {_N} \((?:without initial|excluding|including reconnection)",
             "transactions", "rate", "transactions/s", always=True),
        Line(r"(?P<name>SQL script [0-9]{1,4}: .{1,200})$"),
        Line(rf" - latency average = {_T}$", "latency", "mean"),
    ), work="transaction"),
    TextReport("sysbench", "sysbench text", r"Running the test with following options", (
        Line(rf"\s{{1,8}}events(?: per second|/s \(eps\)):\s{{1,60}}{_N}$", "events", "rate", "events/s"),
        Line(rf"\s{{1,8}}transactions:\s{{1,60}}[0-9]{{1,15}}\s{{1,8}}\({_N} per sec\.\)$",
             "transactions", "rate", "transactions/s"),
        Line(rf"\s{{1,8}}queries:\s{{1,60}}[0-9]{{1,15}}\s{{1,8}}\({_N} per sec\.\)$",
             "queries", "rate", "queries/s"),
        Line(rf"\s{{1,8}}(?:total time|time elapsed):\s{{1,60}}{_T}$", "total time", "value", always=True),
        Line(rf"\s{{1,60}}min:\s{{1,60}}{_N}$", "latency", "min", "ms", always=True),
        Line(rf"\s{{1,60}}avg:\s{{1,60}}{_N}$", "latency", "mean", "ms", always=True),
        Line(rf"\s{{1,60}}max:\s{{1,60}}{_N}$", "latency", "max", "ms", always=True),
        Line(rf"\s{{1,60}}(?:(?P<p>[0-9]{{2}})th percentile:\s{{1,60}}{_N}$|percentile stats)",
             "latency", "", "ms", always=True),
        Line(r"\s{1,60}sum:\s", "latency", "sum", always=True),
    ), work="test"),
    TextReport("mlperf", "MLPerf summary of LoadGen", r"MLPerf Results Summary", (
        Line(rf"Samples per second *: {_N}$", "samples", "rate", "samples/s"),
        Line(rf"{_P}(?:\.?0{{1,2}})?(?:th)? percentile latency \(ns\) *: {_N}$", "latency", unit="ns"),
        Line(rf"Mean latency \(ns\) *: {_N}$", "latency", "mean", "ns"),
        Line(r"Result is : (?P<value>VALID|INVALID)$", "result", "passed", always=True),
    ), work="query", ends=(r"(?m)^MLPerf Results Summary", r"(?m)^Test Parameters Used")),
    TextReport("ycsb", "YCSB", r"\[OVERALL\], RunTime\(ms\), ", (
        Line(rf"\[OVERALL\], RunTime\((?P<unit>ms)\), {_E}$", "", "seconds"),
        Line(rf"\[READ-MODIFY-WRITE\], Operations, {_E}$", "", "inner"),
        Line(rf"\[OVERALL\], Throughput\(ops/sec\), {_E}$", "throughput", "rate", "operations/s", always=True),
        Line(rf"{_YCSB}AverageLatency\((?P<unit>us|ms)\), {_E}$", "latency", "mean"),
        Line(rf"{_YCSB}MinLatency\((?P<unit>us|ms)\), {_E}$", "latency", "min"),
        Line(rf"{_YCSB}MaxLatency\((?P<unit>us|ms)\), {_E}$", "latency", "max"),
        Line(rf"{_YCSB}{_P}(?:th)?PercentileLatency\((?P<unit>us|ms)\), {_E}$", "latency"),
        Line(rf"(?!\[VERIFY){_YCSB}Return=(?P<code>[A-Z0-9-]\w{{0,40}}), {_E}$"),
    ), work="all"),
    TextReport("kafka-producer-perf", "kafka-producer-perf-test", r"[0-9]{1,15} records sent, [0-9.]{1,30} rec", (
        Line(rf"{_SENT}, {_N} records/sec ", "throughput", "rate", "records/s", more=True),
        Line(rf"{_SENT}.{{1,80}}, {_T} avg latency", "latency", "mean", more=True),
        Line(rf"{_SENT}.{{1,99}}, {_T} max latency", "latency", "max", more=True),
        Line(rf"{_SENT}.{{1,99}}, {_T} (?P<p>50)th", "latency", more=True),
        Line(rf"{_SENT}.{{1,120}}, {_T} (?P<p>95)th", "latency", more=True),
        Line(rf"{_SENT}.{{1,140}}, {_T} (?P<p>99)th", "latency"),
    ), work="produce", repeat=True),
)  # fmt: skip
