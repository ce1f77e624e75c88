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


_SYSBENCH = re.compile(r"sysbench \d[\d.]*")
_SYSBENCH_STATISTICS = {"min": "min", "avg": "avg", "max": "max"}
_SYSBENCH_PERCENTILE = re.compile(r"(\d{1,2})th percentile")
_LATENCIES_END = re.compile(r"^ *sum:.*\n", re.MULTILINE)


class Sysbench(Document):
    """sysbench: events per second, latency and total time of each run in the file."""

    id = "sysbench"
    title = "sysbench text"
    tables: tuple[Table, ...] = (MEASUREMENTS,)

    def recognise(self, name: str, head: bytes) -> bool:
        """Recognise the banner in the first line."""
        return head.startswith(b"sysbench ")

    def read(self, source: Source, data: bytes, state: Any, final: bool) -> Reading:
        """Read each run that has printed its latencies up to their sum, so that no earlier line is cut."""
        out = Collected(source)
        text = decode(whole_lines(data, final=False))
        # A killed run may end anywhere, and the next one begins there.
        begins = [match.start() for match in _SYSBENCH.finditer(text)]
        complete = False
        line = 1 + text.count("\n", 0, begins[0] if begins else 0)
        for begin, end in pairwise([*begins, len(text)]):
            run = text[begin:end]
            if _LATENCIES_END.search(run.partition("Latency (ms):")[2]):
                self._run(out, run, line)
                complete = True
            elif final or end < len(text):
                out.problem("cut-file", "the run has not printed its latencies up to their sum", line=line)
            line += run.count("\n")
        if not begins and final:
            out.problem("cut-file", "no run has printed its first line")
        return out.reading(len(data), complete=complete)

    def _run(self, out: Collected, run: str, first: int) -> None:
        section, sections, seen = "", set(), set()
        for number, line in enumerate(run.split("\n"), start=first):
            title, colon, rest = (part.strip() for part in line.partition(":"))
            if colon and not rest and line[:1].isalpha():
                section = title
                sections.add(title)
                continue
            series = _sysbench_series(section, title.lower())
            if colon and series is not None:
                seen.add(series.bucket if series.verb == "latency" else series.verb)
                value = plain_number(rest.partition("(")[0].strip().removesuffix("s"))
                if value is None or value < 0:
                    out.problem("bad-value", f"{title}: {rest[:40]} is no number from 0 on", line=number)
                else:
                    out.add(series, value, line=number)
        wanted = {"total time", "min", "avg", "max"} | ({"events"} if "CPU speed" in sections else set())
        for name in sorted(wanted - seen):
            out.problem("bad-record", f"the run has no {name}", line=first)
        if "percentile stats" not in run and not any(name.startswith("Perc") for name in seen):
            out.problem("bad-record", "the run has no percentile", line=first)


def _sysbench_series(section: str, title: str) -> Series | None:
    """Return the series of a line of sysbench (1.0 or 1.1) by its title, None if it is not read."""
    if title in ("events per second", "events/s (eps)"):
        return Series("sysbench", "", "events", bucket="rate", unit="events/s")
    if title in ("total time", "time elapsed"):
        return Series("sysbench", "", "total time", bucket="value", unit="s")
    if not section.startswith("Latency"):
        return None
    percentile = _SYSBENCH_PERCENTILE.fullmatch(title)
    bucket = f"Perc{percentile[1]}" if percentile else _SYSBENCH_STATISTICS.get(title)
    return Series("sysbench", "", "latency", bucket=bucket, unit="ms") if bucket else None


_TIMES = frozenset({"time", "timestamp", "date", "datetime", "start_time", "started"})
_RUNS = ("run", "build", "commit", "revision", "version", "sha")
_FORMATS = ("%Y.%m.%d %H:%M:%S %z", "%Y/%m/%d %H:%M:%S", "%Y.%m.%d %H:%M:%S", "%d.%m.%Y %H:%M:%S")


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
    title = "CSV with a time column (one run per row)"
    marks = ("time|date", ",")
    tables: tuple[Table, ...] = (MEASUREMENTS,)

    def recognise(self, name: str, head: bytes) -> bool:
        """Recognise ``.csv`` or ``.tsv`` whose header begins with a time column.

        Otherwise the first row must have a time in the time column and a number elsewhere.
        """
        header, _, rest = head.decode("utf-8", errors="replace").lstrip("\ufeff").partition("\n")
        cells = _cells(header)
        at = _time_column(cells)
        if len(cells) < 2 or at is None or "user_host" in cells:  # a row of mysql.slow_log is a statement
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
            _read_rows(out, columns)
        return out.reading(len(data))


@dataclass(frozen=True, slots=True)
class _Columns:
    """A table: access to its rows, and the roles of its columns (places in a row).

    ``when``: the time; ``run``: what names the run, None without; ``numbers``: name and unit of each column that has a
    number anywhere; ``attributes``: the others; ``widest``: fields of the longest row.
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

    @classmethod
    def of(cls, source: Source, text: str, separator: str, header: list[str]) -> _Columns:
        """Find the columns that hold numbers in any row."""
        place = {name.lower(): at for at, name in reversed(list(enumerate(header)))}
        when = _time_column(header) or 0
        run = next((place[name] for name in _RUNS if name in place), None)
        others = [at for at in range(len(header)) if at not in (when, run)]
        made, widest = cls(source, text, separator, header, when, run, {}, others, 0), 0
        for _, row in made.rows([]):
            widest = max(widest, len(row))
            # Skip columns already known to hold numbers, and those beyond the end of a short row.
            fitting = others[: bisect_left(others, len(row))]
            found = [at for at in fitting if at not in made.numbers and plain_number(row[at]) is not None]
            made.numbers.update((at, _column(header[at])) for at in found)
        made.attributes[:] = [at for at in others if at not in made.numbers]
        return replace(made, widest=widest)

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
