"""sysbench's text output."""

from __future__ import annotations

import re
from typing import Any

from engine.reading import Reading, Source
from engine.run_comparison.reading.rows import Collected
from engine.run_comparison.reading.series import Series
from engine.run_comparison.tables import MEASUREMENTS
from engine.tables import Table

_NUMBER = re.compile(r"^\s*(?P<name>[A-Za-z0-9 ]+?):\s+(?P<value>-?\d+(?:\.\d+)?)\s*(?P<unit>s)?\s*(?:\(.*\))?$")
_SECTION = re.compile(r"^(?P<name>[A-Za-z][A-Za-z ()]*):\s*$")
_STATISTICS = {"min": "min", "avg": "avg", "max": "max", "95th percentile": "Perc95", "99th percentile": "Perc99"}


class Sysbench:
    """One sysbench run: events per second and latency."""

    id = "sysbench"
    title = "sysbench text"
    append = False
    version = 1
    tables: tuple[Table, ...] = (MEASUREMENTS,)

    def recognise(self, name: str, head: bytes) -> bool:
        """The banner in the first line."""
        return head.startswith(b"sysbench ")

    def read(self, source: Source, data: bytes, state: Any, final: bool) -> Reading:
        """Events per second, latency statistics, totals; nothing while the run has not ended."""
        out = Collected(source)
        text = data.decode("utf-8", errors="replace")
        if "Latency (ms):" not in text:
            out.problem("cut-file", "the run has not printed its latencies")
            return out.reading(len(data), complete=False)
        section = ""
        for line in text.split("\n"):
            if found := _SECTION.match(line):
                section = found["name"]
                continue
            measured = _NUMBER.match(line)
            if measured is None:
                continue
            name, value = measured["name"].strip(), float(measured["value"])
            if name == "events per second":
                out.add(Series("sysbench", "", "events", bucket="rate", unit="events/s"), value)
            elif section.startswith("Latency") and name.lower() in _STATISTICS:
                out.add(Series("sysbench", "", "latency", bucket=_STATISTICS[name.lower()], unit="ms"), value)
            elif name == "total time":
                out.add(Series("sysbench", "", "total time", bucket="value", unit="s"), value)
        return out.reading(len(data))
