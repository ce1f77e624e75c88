"""Go benchmark text (golang/perf ``benchfmt``)."""

from __future__ import annotations

import re
from typing import Any

from engine.reading import Reading, Source, whole_lines
from engine.run_comparison.reading.rows import Collected
from engine.run_comparison.reading.series import Series
from engine.run_comparison.tables import MEASUREMENTS, RUN_FACTS
from engine.tables import Rows, Table
from engine.text import decode

_LINE = re.compile(rb"^Benchmark\S*[ \t]+\d+[ \t]+\S+[ \t]+\S", re.MULTILINE)
_CONFIG = re.compile(r"^([a-z][^\s:A-Z]*):(?:[ \t]+(.*))?$")


class GoBenchmark:
    """Output of ``go test -bench``: repeated lines of one name are the sample of a run."""

    id = "go-benchmark"
    title = "Go benchmark text (go test -bench)"
    append = False
    version = 1
    tables: tuple[Table, ...] = (MEASUREMENTS, RUN_FACTS)

    def recognise(self, name: str, head: bytes) -> bool:
        """A result line near the beginning, or the configuration lines that precede them."""
        if name.endswith((".json", ".csv", ".xml", ".py", ".go", ".md")) or name == "build-log.txt":
            return False
        if _LINE.search(head):
            return True
        return head.startswith(b"goos: ") and b"\ngoarch: " in head[:400] and b"\npkg: " in head

    def read(self, source: Source, data: bytes, state: Any, final: bool) -> Reading:
        """Every result line; lines that are none are ignored, half a line waits for its end."""
        out = Collected(source)
        config: dict[str, str] = {}
        better: dict[str, str] = {}
        for number, line in enumerate(decode(whole_lines(data, final)).split("\n"), start=1):
            if line.startswith("Benchmark"):
                self._result(out, line.split(), config, number)
            elif line.startswith("Unit "):
                fields = line.split()
                for part in fields[2:]:
                    key, _, value = part.partition("=")
                    if key == "better" and value in ("higher", "lower"):
                        better[fields[1]] = value
            elif found := _CONFIG.match(line):
                if found[2]:
                    config[found[1]] = found[2].strip()
                else:
                    config.pop(found[1], None)
        reading = out.reading(len(data))
        if better:
            rows: Rows = {
                "fact": ["direction"] * len(better),
                "time_ms": [None] * len(better),
                "result": [f"{unit}={word}" for unit, word in better.items()],
            }
            reading.rows["run_facts"] = rows
        return reading

    def _result(self, out: Collected, fields: list[str], config: dict[str, str], number: int) -> None:
        if len(fields) < 2:
            return  # only a name: what -v prints before a benchmark runs
        if len(fields) < 4 or len(fields) % 2 or not fields[1].isdigit():
            if fields[1].isdigit():
                out.problem("bad-record", "a benchmark line without pairs of value and unit", line=number)
            return
        name = fields[0].removeprefix("Benchmark") or fields[0]
        for value, unit in zip(fields[2::2], fields[3::2], strict=True):
            try:
                measured = float(value)
            except ValueError:
                out.problem("bad-value", f"{name}: {value[:40]} is not a number", line=number)
                continue
            out.add(Series("go-benchmark", config.get("pkg", ""), name, bucket=unit, unit=unit), measured)
