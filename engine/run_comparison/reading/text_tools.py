"""Read benchmark tools that print text: go test -bench and sysbench."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Any

from engine.core.reading import Document, Reading, Source, decode, whole_lines
from engine.core.tables import Table
from engine.run_comparison.reading.series import Collected, Series, plain_number
from engine.run_comparison.tables import MEASUREMENTS, RUN_FACTS

_LINE = re.compile(rb"^Benchmark\S*[ \t]+\d+[ \t]+\S+[ \t]+\S", re.MULTILINE)
_CONFIG = re.compile(r"^([a-z][^\s:A-Z]*):(?:[ \t]+(.*))?$")


class GoBenchmark(Document):
    """Output of ``go test -bench``: repeated lines of one name are the sample of a run."""

    id = "go-benchmark"
    title = "Go benchmark text (go test -bench)"
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
