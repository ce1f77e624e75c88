"""Read benchmark tools that print text: go test -bench and sysbench."""

from __future__ import annotations

import re
from typing import Any

from engine.reading import Reading, Source, whole_lines
from engine.run_comparison.reading.series import Collected, Series, plain_number
from engine.run_comparison.tables import MEASUREMENTS, RUN_FACTS
from engine.tables import Table
from engine.text import decode

_LINE = re.compile(rb"^Benchmark\S*[ \t]+\d+[ \t]+\S+[ \t]+\S", re.MULTILINE)
_CONFIG = re.compile(r"^([a-z][^\s:A-Z]*):(?:[ \t]+(.*))?$")


class GoBenchmark:
    """Output of ``go test -bench``: repeated lines of one name are the sample of a run."""

    id = "go-benchmark"
    title = "Go benchmark text (go test -bench)"
    append = False
    version = 3
    tables: tuple[Table, ...] = (MEASUREMENTS, RUN_FACTS)

    def recognise(self, name: str, head: bytes) -> bool:
        """Recognise a result line near the beginning, or the configuration lines that precede them."""
        if name.endswith((".json", ".csv", ".xml", ".py", ".go", ".md")) or name == "build-log.txt":
            return False
        if _LINE.search(head):
            return True
        return head.startswith(b"goos: ") and b"\ngoarch: " in head[:400] and b"\npkg: " in head

    def read(self, source: Source, data: bytes, state: Any, final: bool) -> Reading:
        """Read every result line with its end: in half a line the unit may be cut, and the value is of something else."""
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
            return  # only a name: what -v prints before a benchmark runs
        if len(fields) < 4 or len(fields) % 2 or not fields[1].isdigit():
            if fields[1].isdigit():
                out.problem("bad-record", "a benchmark line without pairs of value and unit", line=number)
            return
        name = fields[0].removeprefix("Benchmark") or fields[0]
        for value, unit in zip(fields[2::2], fields[3::2], strict=True):
            measured = plain_number(value)
            if measured is None:
                out.problem("bad-value", f"{name}: {value[:40]} is not a number", line=number)
            else:
                out.add(Series("go-benchmark", config.get("pkg", ""), name, bucket=unit, unit=unit), measured)


_PLAIN_NUMBER = re.compile(r"-?[0-9]+(?:\.[0-9]+)?")
_SYSBENCH_STATISTICS = {
    "min": "min",
    "avg": "avg",
    "max": "max",
    "95th percentile": "Perc95",
    "99th percentile": "Perc99",
}
_LATENCIES_END = re.compile(r"^ *sum:", re.MULTILINE)


class Sysbench:
    """One sysbench run: events per second and latency."""

    id = "sysbench"
    title = "sysbench text"
    append = False
    version = 2
    tables: tuple[Table, ...] = (MEASUREMENTS,)

    def recognise(self, name: str, head: bytes) -> bool:
        """Recognise the banner in the first line."""
        return head.startswith(b"sysbench ")

    def read(self, source: Source, data: bytes, state: Any, final: bool) -> Reading:
        """Read events per second, latency statistics and the total time; nothing before the last of them is a whole line."""
        out = Collected(source)
        text = whole_lines(data, final=False).decode("utf-8", errors="replace")  # half a number would be one, too
        if not _LATENCIES_END.search(text.partition("Latency (ms):")[2]):
            out.problem("cut-file", "the run has not printed its latencies up to their sum")
            return out.reading(len(data), complete=False)
        section = ""
        for line in text.split("\n"):
            name, colon, rest = line.partition(":")
            rest = rest.strip()
            if colon and not rest and name[:1].isalpha():
                section = name
                continue
            number = _PLAIN_NUMBER.match(rest) if colon else None
            if number is None or not _is_unit(rest[number.end() :].strip()):
                continue
            name, value = name.strip(), float(number[0])
            if name == "events per second":
                out.add(Series("sysbench", "", "events", bucket="rate", unit="events/s"), value)
            elif section.startswith("Latency") and name.lower() in _SYSBENCH_STATISTICS:
                out.add(Series("sysbench", "", "latency", bucket=_SYSBENCH_STATISTICS[name.lower()], unit="ms"), value)
            elif name == "total time":
                out.add(Series("sysbench", "", "total time", bucket="value", unit="s"), value)
        return out.reading(len(data))


def _is_unit(text: str) -> bool:
    """Whether nothing stands behind a number of sysbench but seconds and a remark in parentheses."""
    remark = text.removeprefix("s").strip()
    return not remark or (remark.startswith("(") and remark.endswith(")"))
