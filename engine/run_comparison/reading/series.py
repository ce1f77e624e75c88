"""Name measured series, collect their values into columns, and check that JSON values have the shape of a tool's output."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Literal, NamedTuple

from engine.core.reading import MAX_FIELD, Document, Problem, Problems, Reading, Source, clean
from engine.core.tables import Rows, Table
from engine.formats import json_text
from engine.formats.delimited import BOM
from engine.run_comparison.reading.go_json import looks_cut
from engine.run_comparison.tables import MEASUREMENTS, RUN_FACTS

SEPARATOR = "\x1f"
"""ASCII unit separator between packed fields: ``clean`` removes control characters, so no field holds one."""

NOT_AN_INTEGER = -(2**63)  # count of an item whose ``Count`` label is no integer; the benchmark tool drops such items


REQUEST = "request"  # bucket of single requests: values inside a run, which are compared only where a side has one run
MOST_CHARACTERS, PER_BYTE = 32 << 20, 50
"""Limit on packed series per file: a fixed allowance plus a factor per input byte."""


_NEVER_BELOW_0 = re.compile(r"[pnuµμm]?s(?:/op)?|.{1,40}/s")


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
        whole = "".join(self)
        if len(whole) <= MAX_FIELD and whole.isascii() and whole.isprintable():  # as nearly always: nothing to clean
            return SEPARATOR.join(self)
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


class RunFile(Document):
    """Base of kinds whose files hold what was measured in a run."""

    tables: tuple[Table, ...] = (MEASUREMENTS, RUN_FACTS)


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
        self.part = False  # whether another file of the tool holds what this one holds, too
        self.no_values = False  # whether perf-tests' benchmark tool reads the file and finds nothing in it
        self.report_ms: int | None = None
        self.note = ""  # what was decided about the file, for the notes of the result
        self.result: str | None = None  # how the run ended, where the file says it: SUCCESS or FAILURE
        self.directions: dict[Direction, None] = {}  # the file's statements on which values are better
        self.problems = Problems()

    def add(self, series: Series, value: Any, *, line: int | None = None) -> None:
        """Add one value. Anything but a finite number becomes a problem (at ``line``), null also a missing value."""
        number = self.number(value, series, line)
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

    def end(self, passed: bool) -> None:
        """Note whether the run passed; one that failed stays failed."""
        self.result = "SUCCESS" if passed and self.result != "FAILURE" else "FAILURE"

    def direct(self, kind: str, field: Literal["unit", "verb"], name: str, better: str) -> None:
        """Note a ``Direction`` that the file states."""
        self.directions[Direction(kind, field, name, better)] = None

    def _odd(self, kind: str, series: Series, reason: str, line: int | None, path: str) -> None:
        what = (series.verb, series.resource, series.metric, series.bucket, path and f"({path})")
        self.problem(kind, f"{' '.join(part for part in what if part)}: {reason}", line=line)

    def number(self, value: Any, series: Series, line: int | None = None, path: str = "") -> float | None:
        """Return a finite number that may stand for the series; a problem (with its ``path`` in a document)
        and None for anything else."""
        if value is None:
            self._odd("null-value", series, "null where a number belongs", line, path)
            return None
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            self._odd("bad-value", series, f"{value!r:.40} is not a number", line, path)
            return None
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        if not math.isfinite(number) or (number < 0 and _NEVER_BELOW_0.fullmatch(series.unit)):
            what = f"{number:g}, but no time or rate is below 0" if math.isfinite(number) else "not a finite number"
            self._odd("bad-value", series, what, line, path)
            return None
        return number

    def ends(self, data: bytes, final: bool, what: str = "file") -> None:
        """Note that a text's last line has no end: it may hold half a number. Nothing will follow if ``final``."""
        if final and data[data.rfind(b"\n") + 1 :].strip():
            self.problem("cut-file", "the last line has no end and is left out", line=data.count(b"\n") + 1)
        if final and not self.series and not self.problems and not self.part:
            self.problem("no-values", f"the {what} holds no result")

    def problem(self, kind: str, reason: str, *, line: int | None = None, count: int = 1) -> None:
        """Note something wrong in this file."""
        self.problems.append(Problem.at(self.source.path, kind, reason, line=line, count=count))

    def reading(self, consumed: int, *, complete: bool = True) -> Reading:
        """Return what a reader's ``read`` returns. ``consumed``: bytes read; ``complete``: the file parses to its end."""
        rows: dict[str, Rows] = {}
        if self.series:
            refused = [True] * len(self.series) if self.refused else None
            some = {"refused": refused, "count": self.count, "run": self.run, "time_ms": self.time_ms}
            known = {name: values for name, values in some.items() if values is not None}
            rows["measurements"] = {"series": self.series, "value": self.value, **known}
        # (whether it is known, fact, time, text)
        told: tuple[tuple[bool, str, int | None, str | None], ...] = (
            (bool(self.note), "note", None, self.note),
            (self.no_values, "no-values", None, None),
            (self.report_ms is not None, "report", self.report_ms, None),
            (self.result is not None, "finished", None, self.result),
        )
        facts = [
            *(("direction", None, direction.pack()) for direction in self.directions),
            *(fact for known, *fact in told if known),
        ]
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
    return (stem, None) if stamp is None else (stem[: stamp.start()], time_ms(stamp[1]))


def time_ms(text: Any) -> int | None:
    """Convert an ISO 8601 time (UTC without an offset) to epoch ms; None for anything else, and before 1970: programs in Go
    write the year 1 if nothing happened."""
    if not isinstance(text, str):
        return None
    try:
        moment = datetime.fromisoformat(text.strip())
        ms = round((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)
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


class BadShape(ValueError):
    """A document, or a part of it, that does not have its tool's shape; the message says what is wrong."""


def load_document(out: Collected, data: bytes, *, skipped: str = "") -> tuple[Any, bool]:
    """Return the parsed document and whether there is one; else a problem is noted, its reason followed by ``skipped``."""
    if data.startswith(BOM):
        out.problem("byte-order-mark", "the file begins with a byte order mark")
    try:
        document = json_text.parse(out.source.path, data)
    except ValueError as error:
        text = data.removeprefix(BOM).decode("utf-8", errors="replace")
        out.problem("cut-file" if looks_cut(text, error) else "refused-file", f"not JSON: {error}{skipped}")
        return None, False
    out.problems += document.problems
    return document.value, True


_DURATION = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(ns|us|µs|μs|ms|s|m|h)")
_DURATION_MS = {"ns": 1e-6, "us": 1e-3, "µs": 1e-3, "μs": 1e-3, "ms": 1.0, "s": 1e3, "m": 6e4, "h": 3.6e6}


def duration_ms(text: Any) -> float:
    """Convert a Go duration (``1m5.2s``) or a number of nanoseconds to ms. Raises BadShape."""
    if isinstance(text, (int, float)) and not isinstance(text, bool):
        return (as_number(text, "duration") or 0.0) * 1e-6
    if text == "0":
        return 0.0
    total, at = 0.0, 0
    body = text.removeprefix("-") if isinstance(text, str) else ""
    while part := _DURATION.match(body, at):
        total += float(part[1]) * _DURATION_MS[part[2]]
        at = part.end()
    if not body or at != len(body):
        raise BadShape(f"{text!r:.80} is not a duration")
    return -total if text != body else total


def as_object(value: Any, what: str = "") -> dict[str, Any]:
    """Return ``value`` if it is an object. Raises BadShape that names it, if given, as ``what``."""
    if not isinstance(value, dict):
        raise BadShape(f"{what} is not an object" if what else "it is not a JSON object where one belongs")
    return value


def as_list(value: Any, what: str = "") -> list[Any]:
    """Return ``value`` if it is a list. Raises BadShape that names it, if given, as ``what``."""
    if not isinstance(value, list):
        raise BadShape(f"{what} is not a list" if what else "it is not a list where one belongs")
    return value


def as_text(value: Any) -> str:
    """Return a name or label as text; empty for objects, lists and null."""
    return str(value) if isinstance(value, (str, int, float)) else ""


def as_number(value: Any, name: str) -> float | None:
    """Return a finite number, or None for null. Raises BadShape that names it."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise BadShape(f"{name} is not a number")
    try:
        number = float(value)
    except OverflowError:
        raise BadShape(f"{name} is beyond the range of a double") from None
    if not math.isfinite(number):
        raise BadShape(f"{name} is not a finite number")
    return number
