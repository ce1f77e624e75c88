"""Name measured series and collect their values into columns."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Literal, NamedTuple

from engine.core.reading import Problem, Problems, Reading, Source, clean
from engine.core.tables import Rows

SEPARATOR = "\x1f"
"""ASCII unit separator between packed fields: ``clean`` removes control characters, so no field holds one."""

NOT_AN_INTEGER = -(2**63)
"""Count of an item whose ``Count`` label is no integer; the benchmark tool drops such items."""


MOST_CHARACTERS, PER_BYTE = 32 << 20, 50
"""Limit on packed series per file: a fixed allowance plus a factor per input byte."""


class Series(NamedTuple):
    """What was measured: ``kind`` of report, ``report`` (its name without the time) and its labels.

    ``metric``: all further labels; ``bucket``: percentile or statistic; ``unit``: as written.
    """

    kind: str
    report: str
    verb: str = ""
    resource: str = ""
    subresource: str = ""
    scope: str = ""
    metric: str = ""
    bucket: str = ""
    unit: str = ""

    def pack(self) -> str:
        """Return the identity as one text; fields are cleaned here, for all readers."""
        return SEPARATOR.join([field and clean(field) for field in self])

    @classmethod
    def unpack(cls, text: str) -> Series:
        """Return the series from the text of ``pack``."""
        return cls(*text.split(SEPARATOR))


class Direction(NamedTuple):
    """A file's statement about its own tool's metrics: metrics of ``kind`` whose ``field`` (``unit`` as written, or ``verb``) is
    ``name`` are better when ``better`` (``lower`` or ``higher``)."""

    kind: str
    field: Literal["unit", "verb"]
    name: str
    better: str

    def pack(self) -> str:
        """Return the statement as one text; fields are cleaned here, for all readers."""
        return SEPARATOR.join([clean(field) for field in self])

    @classmethod
    def unpack(cls, text: str) -> Direction:
        """Return the direction from the text of ``pack``."""
        kind, field, name, better = text.split(SEPARATOR)
        return cls(kind, "unit" if field == "unit" else "verb", name, better)


class Collected:
    """Columns of the ``measurements`` table of one file under construction, and its problems."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self._room = MOST_CHARACTERS + PER_BYTE * source.size
        self.series: list[str] = []
        self.value: list[float | None] = []
        self.count: list[int | None] | None = None
        self.run: list[str] | None = None
        self.time_ms: list[int | None] | None = None
        self.refused = False
        self.no_values = False
        """Whether perf-tests' benchmark tool reads the file and finds nothing in it."""
        self.report_ms: int | None = None
        self.directions: dict[Direction, None] = {}
        """The file's statements on which values are better."""
        self.problems = Problems()

    def add(self, series: Series, value: Any, *, line: int | None = None) -> None:
        """Add one value. Anything but a finite number becomes a problem (at ``line``), null also a missing value."""
        number = self._number(value, series, line)
        if number is not None or value is None:
            self.append(series.pack(), number)

    def add_of_run(self, packed: str, number: float, run: str, time_ms: int) -> None:
        """Add a finite number of one of several runs in the file; ``packed``: its series."""
        if self.run is None or self.time_ms is None:
            self.run, self.time_ms = [], []
        if self.append(packed, number):
            self.run.append(run)
            self.time_ms.append(time_ms)

    def append(self, packed: str, number: float | None) -> bool:
        """Append a value, null or finite. Returns False if the file's names take too much memory: each value repeats them, so a
        few long ones in a small file could exhaust it."""
        self._room -= len(packed)
        if self._room < 0:
            self.problem("too-large", "the names of its metrics are too long: the values from here on are left out")
            return False
        self.series.append(packed)
        self.value.append(number)
        return True

    def direct(self, kind: str, field: Literal["unit", "verb"], name: str, better: str) -> None:
        """Note a ``Direction`` that the file states."""
        self.directions[Direction(kind, field, name, better)] = None

    def _odd(self, kind: str, series: Series, reason: str, line: int | None) -> None:
        what = " ".join(part for part in (series.verb, series.resource, series.metric, series.bucket) if part)
        self.problem(kind, f"{what}: {reason}", line=line)

    def _number(self, value: Any, series: Series, line: int | None) -> float | None:
        if value is None:
            self._odd("null-value", series, "null where a number belongs", line)
            return None
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            self._odd("bad-value", series, f"{value!r:.40} is not a number", line)
            return None
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        if not math.isfinite(number):
            self._odd("bad-value", series, "not a finite number", line)
            return None
        return number

    def problem(self, kind: str, reason: str, *, line: int | None = None, count: int = 1) -> None:
        """Note something wrong in this file."""
        self.problems.append(Problem.at(self.source.path, kind, reason, line=line, count=count))

    def reading(self, consumed: int, *, complete: bool = True) -> Reading:
        """Return what a reader's ``read`` returns. ``consumed``: bytes read; ``complete``: the file parses to its end."""
        rows: dict[str, Rows] = {}
        if self.series:
            columns: dict[str, Any] = {"series": self.series, "value": self.value}
            if self.refused:  # an absent column means False everywhere and saves memory
                columns["refused"] = [True] * len(self.series)
            if self.count is not None:
                columns["count"] = self.count
            if self.run is not None and self.time_ms is not None:
                columns["run"] = self.run
                columns["time_ms"] = self.time_ms
            rows["measurements"] = columns
        facts: list[tuple[str, int | None, str | None]]
        facts = [("direction", None, direction.pack()) for direction in self.directions]
        if self.no_values:
            facts.append(("no-values", None, None))
        if self.report_ms is not None:
            facts.append(("report", self.report_ms, None))
        if facts:
            rows["run_facts"] = dict(
                zip(("fact", "time_ms", "result"), map(list, zip(*facts, strict=True)), strict=True)
            )
        return Reading(rows=rows, problems=self.problems, consumed=consumed, complete=complete)


_STAMP = re.compile(r"[_.-](\d{4}-\d\d-\d\d(?:T[\d:.\-]+(?:Z|[+-]\d\d:?\d\d)?)?)$")


def split_report_name(name: str) -> tuple[str, int | None]:
    """Return a report's file name without ending and time, and the time in epoch ms if the name has one."""
    stem = re.sub(r"\.(json|txt|csv|log|xml)$", "", name)
    stamp = _STAMP.search(stem)
    if stamp is None:
        return stem, None
    return stem[: stamp.start()], time_ms(stamp[1])


def time_ms(text: Any) -> int | None:
    """Convert an ISO 8601 time (UTC without an offset) to epoch ms; None for anything else, and before 1970: programs in Go
    write the year 1 if nothing happened."""
    if not isinstance(text, str):
        return None
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    try:
        ms = round(moment.timestamp() * 1000)
    except (OverflowError, ValueError):
        return None
    return ms if ms >= 0 else None


def plain_number(text: str) -> float | None:
    """Convert a number as programs print it to a float (also NaN and infinities); None for anything else."""
    if "_" in text or not text.isascii():  # Python's own notation for long numbers, and digits of other scripts
        return None
    try:
        return float(text)
    except ValueError:
        return None


def epoch_ms(seconds: Any, scale: float = 1000.0) -> int | None:
    """Convert epoch seconds (ms with ``scale`` 1) to whole ms; None if it is no plausible time."""
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)):
        return None
    try:
        ms = float(seconds) * scale
    except OverflowError:
        return None
    return round(ms) if math.isfinite(ms) and abs(ms) < 2**53 else None


def join_labels(labels: Mapping[str, str]) -> str:
    """Join labels to one text in a fixed order."""
    return ", ".join(f"{quoted(key)}={quoted(labels[key])}" for key in sorted(labels))


def quoted(text: str) -> str:
    """Quote a label or value that contains the separator of labels, so that different sets give different texts."""
    return f'"{text}"' if ", " in text else text
