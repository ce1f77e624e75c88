"""The frames on which formats are declared: a report in JSON, text or XML, a table, and a log of requests."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import msgspec

from engine.core.reading import (
    HEAD,
    Reading,
    Source,
    clean,
    decode,
    form_of,
    from_first_character,
    whole_lines,
)
from engine.core.units import finite
from engine.formats.delimited import BOM, header_fields, records
from engine.run_comparison.reading.series import (
    BadShape,
    Collected,
    RunFile,
    Series,
    as_list,
    as_object,
    load_document,
)

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

T = TypeVar("T")

PERCENTILES = {"50": "Perc50", "75": "Perc75", "90": "Perc90", "95": "Perc95", "99": "Perc99", "99.9": "Perc99.9"}
"""Percentiles that are taken, and their buckets."""
_MS = {
    "ps": 1e-9,
    "ns": 1e-6,
    "us": 1e-3,
    "µs": 1e-3,
    "μs": 1e-3,
    "ms": 1.0,
    "s": 1e3,
    "secs": 1e3,
    "m": 6e4,
    "h": 3.6e6,
}
_MANY = {"k": 1e3, "M": 1e6, "G": 1e9}


@dataclass(eq=False)
class Declared(RunFile):
    """Base of the frames: a reader that is declared, not written."""

    id: str
    title: str


@dataclass(eq=False)
class JsonReport(Declared):
    """A declared tool that writes one JSON document: its head, written without blanks, holds all of one of ``keys`` (and
    fits ``begin``); ``take`` adds the values of a parsed document, and may raise BadShape. Cut files and wrong shapes become
    problems. ``listed``: where the list of entries stands and what one is called, if ``take`` takes them one by one."""

    closes = True
    keys: Sequence[Sequence[bytes]]
    take: Callable[[Collected, Any], None]
    begin: re.Pattern[bytes] = re.compile(rb"[{\[]")
    listed: tuple[str, str] | None = None

    def recognise(self, name: str, head: bytes) -> bool:
        """Recognise a JSON object or list with the tool's marks, but no page or source that quotes one."""
        dense = _dense(head)
        begins = self.begin.match(dense) is not None
        return begins and any(keys[0] in dense and all(key in dense for key in keys) for keys in self.keys)

    def lacks(self, head: bytes) -> tuple[float, str]:
        """Return how near the head comes to the nearest of the tool's versions, and the keys that it lacks."""
        script = _SCRIPT.match(head)
        dense, best = _dense(head[script.end() :] if script else head), (0.0, "")
        for marks in self.keys if script or form_of(head) == "JSON" else ():
            missing = [mark.strip(b"{[:").decode() for mark in marks if mark not in dense]
            if any(mark in dense and mark not in _COMMON for mark in marks) and 1 - len(missing) / len(marks) > best[0]:
                best = 1 - len(missing) / len(marks), ", ".join(missing) or "JSON without JavaScript around it"
        return best

    def read(self, source: Source, data: bytes, state: Any, final: bool) -> Reading:
        """Read the whole document; parts of another shape become problems."""
        out = Collected(source)
        document, parsed = load_document(out, data)
        if not parsed:
            return out.reading(len(data), complete=False)
        try:
            if self.listed is None:
                self.take(out, document)
            else:
                take_each(out, self.id, document, *self.listed, self.take)
        except BadShape as error:
            out.problem("bad-shape", f"{self.id}: {error}")
        if not out.series and not out.problems:
            out.problem("no-values", "the document holds no values")
        return out.reading(len(data))


_SCRIPT = re.compile(rb"\s{0,9}(?:var|let|const|window\.)[^={]{1,80}=\s{0,9}(?=[{\[])")
"""The beginning of a script that holds a document."""
_COMMON = frozenset(
    f'"{key}"{end}'.encode()
    for key in (
        "fastest",
        "slowest",
        "results",
        "benchmarks",
        "benchmark",
        "metrics",
        "context",
        "name",
        "unit",
        "value",
        "count",
        "average",
    )
    for end in ("", ":", ":{", ":[{")
) | {b'"runs":[', b'"values":[', b'"metadata":', b'"latency"', b'"command"'}
"""Keys that documents of any tool may have: alone they bring a file near to none."""


@lru_cache(maxsize=4)
def _dense(head: bytes) -> bytes:
    """Return the head of a JSON document without blanks: all declared tools look at it."""
    return b"".join(from_first_character(head).split())


def each(out: Collected, kind: str, entries: Iterable[T], take: Callable[[T], None]) -> None:
    """Call ``take`` for each entry; entries of another shape become problems."""
    for entry in entries:
        try:
            take(entry)
        except BadShape as error:
            out.problem("bad-shape", f"{kind}: {error}")


def take_each(
    out: Collected, kind: str, document: Any, key: str, what: str, take: Callable[[Collected, Any], None]
) -> None:
    """Call ``take`` for each object (``what``: its name) of the list at ``key`` of a document, or of a document that is a list;
    entries of another shape become problems. Raises BadShape."""
    entries = as_object(document, "the document").get(key) if key else document
    each(out, kind, as_list(entries, key or "the document"), lambda entry: take(out, as_object(entry, what)))


class Taken(NamedTuple):
    """A number to take: where it stands (keys joined by dots), the quantity, the statistic and the unit as written."""

    path: str
    quantity: str
    bucket: str
    unit: str


def at(entry: Any, path: str) -> Any:
    """Return what stands at ``path`` in nested objects, None if nothing does."""
    for key in path.split("."):
        entry = entry.get(key) if isinstance(entry, dict) else None
    return entry


def take_all(out: Collected, base: Series, entry: Any, wanted: Iterable[Taken]) -> None:
    """Add each number of ``wanted`` that ``entry`` has; what stands there and is none is a problem that names its path.

    A missing key belongs to another version of the tool.
    """
    for path, quantity, bucket, unit in wanted:
        above, _, key = path.rpartition(".")
        inside = at(entry, above) if above else entry
        value = inside.get(key, "-") if isinstance(inside, dict) else "-" if inside is None else [inside]
        number = finite(value) if isinstance(value, str) else None
        series = base._replace(resource=quantity, bucket=bucket, unit=unit)
        number = out.number(value if number is None else number, series, path=path) if value != "-" else None
        if number is not None:  # Gatling writes texts, and - for nothing
            out.append(series.pack(), number)


def take_list(out: Collected, series: Series, entry: Any, path: str) -> None:
    """Add every number of the list at ``path``; null and other values are problems that name it.

    A missing key belongs to another version of the tool.
    """
    above, _, key = path.rpartition(".")
    inside = at(entry, above) if above else entry
    values = inside.get(key, []) if isinstance(inside, dict) else []
    if not isinstance(values, list):
        is_null = values is None
        reason = f"{series.verb} ({path}): {'null' if is_null else 'it'} is no list of numbers"
        out.problem("null-value" if is_null else "bad-value", reason)
    for value in values if isinstance(values, list) else ():
        number = out.number(value, series, path=path)
        if number is not None:
            out.append(series.pack(), number)


def take_success(out: Collected, base: Series, good: float, of: float) -> bool:
    """Add the share of successes, if anything was asked. Returns whether any succeeded: a refused request is no fast one."""
    if of > 0:
        out.direct(base.kind, "unit", "share", "higher")
        out.add(base._replace(resource="success", bucket="value", unit="share"), max(min(good / of, 1.0), 0.0))
    return good > 0 or of <= 0


class Line(NamedTuple):
    """A kind of line of a text report. Groups of ``pattern``: ``value`` (with ``unit`` if the tool chooses it), ``p`` (the
    percentile), ``name`` (of what follows, or what is measured); ``code`` counts answers by status.

    ``bucket`` "requests", "failed" (of these) and "lost" (beside these) are counts behind the share of successes; "seconds"
    (of the run) and "inner" (requests inside of others) with the rate tell how many requests it must be of. "passed" is
    VALID or not. ``always``: no whole report lacks it. ``more``: other rules take the same line, too.
    """

    pattern: str
    quantity: str = ""
    bucket: str = ""
    unit: str = ""
    always: bool = False
    more: bool = False


@dataclass(eq=False)
class TextReport(Declared):
    """A declared text tool: its reports begin with ``begin``, and ``lines`` say what to take.

    If some lines are ``always`` there, a file may hold several reports, one behind the other; each that is whole counts. The
    first value of a series counts (wrk2 prints a second, uncorrected distribution), all of them if names ``repeat``.
    ``work``: what is measured until a line names it. ``ends``: how a part begins, and how a line behind all its values does.
    """

    begin: str
    lines: Sequence[Line]
    work: str = "request"
    repeat: bool = False
    ends: tuple[str, str] | None = None

    def recognise(self, name: str, head: bytes) -> bool:
        """Recognise the tool's own words at the beginning of a line."""
        if name.endswith((".json", ".csv", ".xml", ".py", ".md", ".rs", ".go")) or name == "build-log.txt":
            return False
        text = _plain(head)
        begins = (match.start() for match in re.finditer(self.begin, text))
        return any(begin == 0 or text[begin - 1] == "\n" for begin in begins)

    def lacks(self, head: bytes) -> tuple[float, str]:
        """Return how many of the lines that every report has are there, and how the missing first one begins."""
        always = [rule for rule in self.lines if rule.always]
        lines = _plain(head).split("\n")[:60] if always and form_of(head) == "text" else []
        found = sum(any(re.match(rule.pattern, line) for line in lines) for rule in always)
        begin = re.match(r"[\w :]*", self.begin)
        return found / max(len(always), 1), f"a line that begins with {begin[0] if begin else ''}".rstrip(" :")

    def read(self, source: Source, data: bytes, state: Any, final: bool) -> Reading:
        """Read every complete line; half a line may hold half a number."""
        out = Collected(source)
        text = _plain(whole_lines(data, final=False))
        rules = [(rule, re.compile(rule.pattern).match) for rule in self.lines]
        always = [rule for rule in self.lines if rule.always]
        begins = [match.start() for match in re.finditer(self.begin, text)] if always else [0]
        line = 1 + text.count("\n", 0, begins[0] if begins else 0)
        for begin, end in pairwise([*begins, len(text)]):
            report = text[begin : text.rfind("\n", begin, end) + 1]  # a killed run ends where the next one begins
            found = _Found(self.id, self.work, self.repeat)
            seen = [
                rule
                for number, each in enumerate(report.split("\n"), line)
                for rule in found.line(out, rules, each, number)
            ]
            missing = [rule for rule in always if rule not in seen]
            if not missing:
                found.finish(out)
            elif final or end < len(text):
                lacks = " or ".join(f"{rule.quantity} {rule.bucket}".strip() for rule in missing)
                said = re.search(r"(?m)^.{0,99}\b(?i:fatal|error|panic|aborted): .{1,200}", report)
                why = f"; it says: {clean(said[0], 200)}" if said else ""
                out.problem("cut-file", f"the run has no {lacks} and is left out{why}", line=line)
            if not missing and (final or end < len(text)):
                self._close(out, report, line)
            line += text.count("\n", begin, end)
        out.ends(data, final)
        return out.reading(len(data), complete=bool(out.series))

    def _close(self, out: Collected, report: str, line: int) -> None:
        """Say that the last part of a report has no end: what would follow may be missing."""
        begin = max(re.finditer(self.ends[0], report), key=re.Match.start, default=None) if self.ends else None
        if self.ends and begin is not None and not re.compile(self.ends[1]).search(report, begin.end()):
            reason = f"nothing closes {clean(begin[0], 60)!r}: if the file was cut, results behind it are missing"
            out.problem("cut-file", reason, line=line + report.count("\n", 0, begin.start()))


_COLOUR = re.compile(r"\x1b\[[0-9;]{0,20}m")


def _plain(data: bytes) -> str:
    """Return a report's text without byte order mark, Windows' line ends and colours."""
    return _COLOUR.sub("", decode(data).removeprefix("\ufeff").replace("\r\n", "\n"))


class _Found(msgspec.Struct):
    """What the lines of a text report gave: the work of the lines that follow, values by series, requests and failures."""

    kind: str
    work: str
    repeat: bool
    name: str = ""
    values: dict[Series, list[tuple[float, int]]] = msgspec.field(default_factory=dict)
    counts: dict[str, float] = msgspec.field(
        default_factory=lambda: dict.fromkeys(("requests", "failed", "lost", "seconds", "inner"), 0.0)
    )

    def line(
        self,
        out: Collected,
        rules: Sequence[tuple[Line, Callable[[str], re.Match[str] | None]]],
        text: str,
        number: int,
    ) -> Iterator[Line]:
        """Take one line. Yields the rules that it matched."""
        for rule, matches in rules:
            match = matches(text)
            if match is not None:
                self.take(out, rule, match.groupdict(), number)
                yield rule
                if not rule.more:
                    return

    def take(self, out: Collected, rule: Line, groups: Mapping[str, str | None], line: int) -> None:
        """Take one line that matched ``rule``."""
        self.name = (groups.get("name") or self.name or self.work).strip()
        text = (groups.get("value") or "").replace(",", "")
        if rule.bucket == "passed":
            out.end(text == "VALID")
            return
        value = finite(text.rstrip("kMG"))
        if value is None:
            if text:
                out.problem("bad-value", f"{text[:40]} is not a number", line=line)
            return
        if groups.get("code"):
            self.counts["failed"] += value if (groups["code"] or "")[0] not in "023" and groups["code"] != "OK" else 0.0
            self.counts["requests"] += value
        elif rule.bucket in self.counts:
            self.counts[rule.bucket] += value * _MS.get(groups.get("unit") or "s", 1e3) / 1e3
        else:
            value *= _MANY.get(text[-1], 1.0)
            unit = groups.get("unit") or rule.unit
            if unit in _MS:
                value *= _MS[unit]
                unit = "ms"
            bucket = f"Perc{groups['p']}" if groups.get("p") else rule.bucket
            values = self.values.setdefault(
                Series(self.kind, "", self.name, rule.quantity, bucket=bucket, unit=unit), []
            )
            if self.repeat or not values:
                values.append((value, line))

    def finish(self, out: Collected) -> None:
        """Add the values; only the share of successes if nothing succeeded."""
        asked, seconds = self.counts["requests"], self.counts["seconds"]
        rate = next((each[0][0] for series, each in self.values.items() if series.bucket == "rate"), 0.0)
        wanted = rate * seconds + self.counts["inner"]
        doubt = wanted * 1e-4 / (seconds or 1.0) + 0.5  # times have four decimals
        cut = (
            asked < wanted - doubt or 0 < wanted * 1.05 < asked
        )  # far more: what says that some are inside others is gone
        if cut:
            lacks = "the others" if asked < wanted else "the operations that hold others"
            reason = (
                f"it tells how {asked:.0f} of {rate * seconds:.0f} requests ended: the file was cut, or lacks {lacks}"
            )
            out.problem("cut-file", reason)
        good = cut or take_success(
            out, Series(self.kind, "", self.work), asked - self.counts["failed"], asked + self.counts["lost"]
        )
        for series, values in self.values.items() if good else ():
            for value, line in values:
                out.add(series, value, line=line)


DelimitedRows = Iterator[tuple[int, dict[str, str]]]


@dataclass(eq=False)
class DelimitedTool(Declared):
    """A declared table of another tool: ``columns`` that its header has, and what takes its rows as one run. ``header``: how the
    header begins, where other lines may stand above it."""

    columns: tuple[set[str], ...]
    take: Callable[[Collected, str, DelimitedRows], None]
    header: bytes = b""

    def recognise(self, name: str, head: bytes) -> bool:
        """Recognise the columns of the header."""
        found = header_fields(self._table(head))
        return any(columns.issubset(found) for columns in self.columns)

    def _table(self, data: bytes) -> bytes:
        above = (
            data.find(b"\n" + self.header)
            if self.header and not data.startswith((self.header, BOM + self.header))
            else -1
        )
        return data[above + 1 :]

    def lacks(self, head: bytes) -> tuple[float, str]:
        """Return how many of the tool's columns are there, and the names of the others."""
        found = set(header_fields(head) if form_of(head) == "text" else ())
        columns = max(self.columns, key=lambda columns: len(columns & found))
        return (len(columns & found) / len(columns)) if len(columns & found) > 1 else 0.0, ", ".join(
            sorted(columns - found)
        )

    def read(self, source: Source, data: bytes, state: Any, final: bool) -> Reading:
        """Read every complete row."""
        out = Collected(source)
        if self.recognise(source.name, data[:HEAD]):
            rows = records(source, self._table(data), out.problems, False)
            self.take(out, self.id, ((line, row) for line, row in rows if row is not None))
        out.ends(data, final, "table")
        return out.reading(len(data))


@dataclass(eq=False)
class XmlTool(Declared):
    """A declared XML tool: its ``root``'s beginning, and what takes the elements that end, with their depths."""

    root: bytes
    take: Callable[[Collected, str, Iterator[tuple[int, Element]]], None]

    def recognise(self, name: str, head: bytes) -> bool:
        """Recognise the root's beginning."""
        return head.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"<") and self.root in head

    def read(self, source: Source, data: bytes, state: Any, final: bool) -> Reading:
        """Read the elements that are whole; a cut file keeps what stands before the cut."""
        out = Collected(source)
        self.take(out, self.id, _elements(out, data))
        return out.reading(len(data))


def _elements(out: Collected, data: bytes) -> Iterator[tuple[int, Element]]:
    """Yield each element that ends, with its depth (1 below the root); the root is emptied behind each to bound memory."""
    # Few reports are XML, and its modules load a dozen others.
    from io import BytesIO
    from xml.etree.ElementTree import ParseError

    from defusedxml import DefusedXmlException
    from defusedxml.ElementTree import iterparse

    depth = 0
    root = None
    try:
        for event, element in iterparse(BytesIO(data.lstrip()), ("start", "end"), forbid_dtd=True):
            root = element if root is None else root
            depth += 1 if event == "start" else -1
            if event == "end":
                yield depth, element
                if depth == 1:
                    root.clear()
    except ParseError as error:
        out.problem("cut-file", f"no whole XML: {error}", line=error.position[0])
    except (DefusedXmlException, ValueError, LookupError) as error:
        out.problem("refused-file", f"entities and document types are not read ({type(error).__name__})")
