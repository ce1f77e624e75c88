"""Read what is no JSON: go test -bench, sysbench, and CSV with a time column (one run per row, as Otava reads it)."""

from __future__ import annotations

import math
import re
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import pairwise
from typing import Any

from engine.core import units
from engine.core.reading import Document, Problem, Reading, Source, clean, decode, whole_lines
from engine.core.tables import Table
from engine.formats.delimited import rows
from engine.run_comparison.reading.series import Collected, Series, epoch_ms, plain_number, time_ms
from engine.run_comparison.tables import MEASUREMENTS, RUN_FACTS

_LINE = re.compile(rb"^Benchmark\S*[ \t]+\d+[ \t]+\S+[ \t]+\S", re.MULTILINE)
_CONFIG = re.compile(r"^([a-z][^\s:A-Z]*):(?:[ \t]+(.*))?$")


class GoBenchmark(Document):
    """Output of ``go test -bench``: repeated lines of one name are the sample of a run."""

    id = "go-benchmark"
    title = "Go benchmark text (go test -bench)"
    marks = ("benchmark", "ns/op")
    tables: tuple[Table, ...] = (MEASUREMENTS, RUN_FACTS)

    def recognise(self, name: str, head: bytes) -> bool:
        """Recognise a result line near the beginning, or the configuration lines that precede them."""
        if name.endswith((".json", ".csv", ".xml", ".py", ".go", ".md")) or name == "build-log.txt":
            return False
        if _LINE.search(head):
            return True
        return head.startswith(b"goos: ") and b"\ngoarch: " in head[:400] and b"\npkg: " in head

    def read(self, source: Source, data: bytes, state: Any, final: bool) -> Reading:
        """Read every complete result line; half a line may have a cut unit and so mean another metric."""
        out = Collected(source)
        config: dict[str, str] = {}
        whole = decode(whole_lines(data, final=False))
        if final and data.rpartition(b"\n")[2].strip():
            out.problem("cut-file", "the last line has no end and is left out", line=whole.count("\n") + 1)
        for number, line in enumerate(whole.split("\n"), start=1):
            if line.startswith("Benchmark"):
                self._result(out, line.split(), config, number)
            elif line.startswith("Unit "):
                fields = line.split()
                for part in fields[2:]:
                    key, _, value = part.partition("=")
                    if key == "better" and value in ("higher", "lower"):
                        out.direct("go-benchmark", "unit", fields[1], value)
            elif setting := _CONFIG.match(line):
                if setting[2]:
                    config[setting[1]] = setting[2].strip()
                else:
                    config.pop(setting[1], None)
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
                series = Series("go-benchmark", config.get("pkg", ""), name, bucket=unit, unit=unit)
                out.add(series, measured, line=number)


FEWEST_SECONDS = 60
"""Rows whose median gap is smaller are a log of one run, not a history."""
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
    iso_ms = time_ms(text)
    if iso_ms is not None:
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


class CsvSeries(Document):
    """A history of runs in one table."""

    id = "csv-series"
    title = "CSV with a time column (a history: one run per row)"
    marks = ("time|date", ",")
    version = 2
    tables: tuple[Table, ...] = (MEASUREMENTS, RUN_FACTS)

    def recognise(self, name: str, head: bytes) -> bool:
        """Recognise ``.csv`` or ``.tsv`` whose header begins with a time column.

        Otherwise the first row must have a time in the time column and a number elsewhere.
        """
        header, _, rest = head.decode("utf-8", errors="replace").lstrip("\ufeff").partition("\n")
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

    def read(self, source: Source, data: bytes, state: Any, final: bool) -> Reading:
        """Read rows with a readable time; a last line without an end waits unless nothing will follow.

        Then it is read, since many programs end no last line, with a problem: it may hold half a number.
        """
        out = Collected(source)
        if final and (last := data.rpartition(b"\n")[2].strip()):
            line = data.count(b"\n") + 1
            out.problem("cut-file", f"the last line has no end: {clean(decode(last[-20:]))} may be cut", line=line)
        text = decode(whole_lines(data, final)).lstrip("\ufeff")
        separator = max(",;\t", key=text.partition("\n")[0].count)
        header = [cell.strip() for cell in next((row for _, row in rows(source, text, separator, True, [])), [])]
        if header:
            columns = _Columns.of(source, text, separator, header)
            if 0 < columns.widest < max((at for at, name in enumerate(header, 1) if name), default=0):
                out.problem("bad-header", "it names more columns than any row has: two headers in one line?", line=1)
                return out.reading(len(data))
            gap = columns.gap_s()
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


@dataclass(frozen=True, slots=True)
class _Columns:
    """A table: access to its rows, and the roles of its columns (places in a row).

    ``when``: the time; ``run``: what names the run, None without; ``numbers``: name and unit of each column that has a
    number anywhere; ``attributes``: the others; ``widest``: fields of the longest row; ``times``: the different times in ms.
    """

    source: Source
    text: str
    separator: str
    header: list[str]
    when: int
    run: int | None
    numbers: dict[int, tuple[str, str]]
    attributes: list[int]
    widest: int
    times: tuple[int, ...] = ()

    def gap_s(self) -> float | None:
        """Return the median gap between the rows' different times in seconds; None with one time."""
        gaps = sorted(after - before for before, after in pairwise(self.times))
        return gaps[len(gaps) // 2] / 1000 if gaps else None

    @classmethod
    def of(cls, source: Source, text: str, separator: str, header: list[str]) -> _Columns:
        """Find the columns that hold numbers in any row."""
        place = {name.lower(): at for at, name in reversed(list(enumerate(header)))}
        when = _time_column(header) or 0
        others = [at for at in range(len(header)) if at != when]
        made, widest = cls(source, text, separator, header, when, None, {}, others, 0), 0
        names: dict[int, set[str]] = {place[name]: set() for name in _RUNS if name in place}
        times = set()
        for _, row in made.rows([]):
            widest = max(widest, len(row))
            times.add(parse_time(row[when]) if when < len(row) else None)
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
        return replace(
            made, widest=widest, run=run, times=tuple(sorted(moment for moment in times if moment is not None))
        )

    def rows(self, problems: list[Problem]) -> Iterator[tuple[int, list[str]]]:
        """Yield line and cells of each row below the header that is not blank."""
        lines = rows(self.source, self.text, self.separator, True, problems)
        next(lines, None)
        return ((line, row) for line, row in lines if any(cell.strip() for cell in row))


_MOST_LABELS = 1000
"""Characters of a row's attributes that identify its values."""


def _read_rows(out: Collected, columns: _Columns) -> None:
    """Take the numbers of all rows."""
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
    separator = max(",;\t", key=line.count)
    return [cell.strip().strip('"') for cell in line.split(separator)]


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
