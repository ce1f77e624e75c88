"""Read what the Kubernetes CI keeps of a run: reports of ClusterLoader2 and what else perfdash reads (PerfData documents, other
JSON shapes, old build logs), and ``started.json`` and ``finished.json``: when a run began and how it ended.

A build log holds PerfData between ``[Result:Performance]`` and ``[Finished:Performance]``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any, NamedTuple

from engine.core.reading import Document, Problem, Reading, Source, clean, from_first_character
from engine.core.tables import Rows, Table
from engine.run_comparison.reading import go_json
from engine.run_comparison.reading.metric_kinds import BY_NAME, Measured, kind_of_content, kind_of_name
from engine.run_comparison.reading.series import (
    NOT_AN_INTEGER,
    BadShape,
    Collected,
    RunFile,
    Series,
    epoch_ms,
    join_labels,
    load_document,
    quoted,
    split_report_name,
)
from engine.run_comparison.tables import RUN_FACTS

BENCHMARK_TOOL_PREFIXES = ("APIResponsiveness_", "PodStartupLatency_")
"""The only reports that perf-tests' benchmark tool reads, by what follows ``artifacts/``."""

_MOST_SERIES = 16_384  # packed series cached per report

_NOT_LABELS = frozenset({"Verb", "Resource", "Subresource", "Scope", "Count", "SlowCount", "Metric"})


def report_of(name: str) -> tuple[str, int | None]:
    """Return a report's name without the parts that differ between runs, and its time in epoch ms if the name has one.

    The benchmark tool's two kinds lose their last piece, a time or an identifier; others lose only a time.
    """
    report, stamp = split_report_name(name)
    if name.startswith(BENCHMARK_TOOL_PREFIXES) and stamp is None:
        pieces = report.split("_")
        if len(pieces) >= 3:
            report = "_".join(pieces[:-1])
    return report, stamp


class ClusterLoaderReport(RunFile):
    """One summary file of a run; recognised by its name, or by its shape under another name."""

    id = "clusterloader-report"
    title = "ClusterLoader2 summaries and perfdash kinds (JSON)"
    closes = True

    def recognise(self, name: str, head: bytes) -> bool:
        """Recognise names of reports, JSON or not (the benchmark tool reads by name), and other JSON by its content."""
        if name.startswith(BENCHMARK_TOOL_PREFIXES):
            return True
        if name == "junit.xml" or name.endswith((".xml", ".log", ".csv", ".md", ".yaml", ".yml")):
            return False
        if from_first_character(head)[:1] not in (b"{", b"["):
            return kind_of_name(name) is not None and name.endswith(".json")
        return kind_of_name(name) is not None or (kind_of_content(head) is not None and b'"kind":' not in head[:200])

    def read(self, source: Source, data: bytes, state: Any, final: bool) -> Reading:
        """Read the whole document; the last good version stays while a new one is written."""
        out = Collected(source)
        report, out.report_ms = report_of(source.name)
        kind = kind_of_name(source.name) or kind_of_content(data[:65536]) or BY_NAME["PerfData"]
        if kind.read is not None and not kind.mixed and b'"dataItems"' not in data[:4096]:
            return _read_shape(out, kind.name, kind.read, report, data)
        common = go_json.decode_api(data)
        by_tool = source.name.startswith(BENCHMARK_TOOL_PREFIXES)
        if common is not None and common.dataItems:
            _take_common(out, kind.name, report, common)
            return out.reading(len(data))
        document = go_json.decode(data)
        if document.bad:
            out.problem(
                "cut-file" if document.cut else "refused-file", f"{document.refused}; the whole file is skipped"
            )
            return out.reading(len(data), complete=False)
        if document.refused:
            out.refused = True
            skipped = "the comparison tool skips the whole file" if by_tool else "the good values are kept"
            out.problem("refused-file", f"{document.refused}; {skipped}")
        if not document.listed and not document.refused and kind.read is not None:
            return _read_shape(out, kind.name, kind.read, report, data)
        take_items(out, kind.name, report, document, exact=by_tool)
        if not out.series and not document.refused:
            out.no_values = by_tool
            out.problem("no-values", "the report holds no values")
        return out.reading(len(data))


def take_items(out: Collected, kind: str, report: str, document: go_json.PerfData, *, exact: bool) -> None:
    """Take rows of decoded items. ``exact``: match label names case-sensitively, as the benchmark tool does."""
    if out.count is None:
        out.count = []
    if document.nulls:
        consequence = "; the comparison tool takes it as 0" if exact else ""
        out.problem("null-value", f"null where a number belongs{consequence}", count=document.nulls)
    bad_counts = 0
    for item in document.items:
        count = _count(item.labels.get("Count", ""))
        bad_counts += count == NOT_AN_INTEGER
        labels = tuple(item.labels.items())
        for bucket, value in item.data.items():
            if out.append(_pack(kind, report, labels, bucket, item.unit, exact), value):
                out.count.append(count)
    if bad_counts:
        out.problem("bad-count", "the Count label is not an integer; the item is dropped", count=bad_counts)


def _pack(kind: str, report: str, labels: tuple[tuple[str, str], ...], bucket: str, unit: str, exact: bool) -> str:
    """Return the packed series of one value."""
    if sum(len(name) + len(value) for name, value in labels) + len(bucket) + len(unit) > _MOST_CACHED:
        return _pack_short.__wrapped__(kind, report, labels, bucket, unit, exact)
    return _pack_short(kind, report, labels, bucket, unit, exact)


_MOST_CACHED = 2000  # longest labels whose packed series are cached; longer ones come from hostile files


@lru_cache(maxsize=65536)
def _pack_short(
    kind: str, report: str, labels: tuple[tuple[str, str], ...], bucket: str, unit: str, exact: bool
) -> str:
    by_name = dict(labels)
    rest = {key: value for key, value in by_name.items() if key not in _NOT_LABELS and value}
    named = {}
    for field in ("Verb", "Resource", "Subresource", "Scope"):
        value = by_name.get(field)
        if value is None and not exact:
            value = rest.pop(field.lower(), None)
        named[field] = value or ""
    metric = join_labels(rest)
    if by_name.get("Metric"):
        metric = quoted(by_name["Metric"]) + (f", {metric}" if metric else "")
    return Series(
        kind, report, named["Verb"], named["Resource"], named["Subresource"], named["Scope"], metric, bucket, unit
    ).pack()


@lru_cache(maxsize=64)
def _packed_percentiles(kind: str, report: str) -> dict[tuple[str, ...], tuple[str, ...]]:
    """Return the cache of packed series of one report by its items' labels, filled while files are read.

    Files share texts, and a look-up costs a third of packing.
    """
    return {}


def _count(text: str) -> int | None:
    parsed = go_json.go_atoi(text)
    return parsed if parsed is not None or not text else NOT_AN_INTEGER


def _take_common(out: Collected, kind: str, report: str, document: go_json.ApiDoc) -> None:
    """Take items of the common shape without a dict per item: there may be half a million."""
    series, values = out.series, out.value
    counts: list[int | None] = []
    series_by_labels = _packed_percentiles(kind, report)
    bad = 0
    for item in document.dataItems:
        labels, data = item.labels, item.data
        key = (labels.Verb, labels.Resource, labels.Subresource, labels.Scope, labels.Metric, item.unit)
        packed = series_by_labels.get(key)
        if packed is None:
            if len(series_by_labels) > _MOST_SERIES:
                series_by_labels.clear()
            start = Series(kind, report, *key[:5], "", item.unit)
            packed = tuple(start._replace(bucket=b).pack() for b in ("Perc50", "Perc90", "Perc99"))
            if len(packed[0]) < _MOST_CACHED:
                series_by_labels[key] = packed
        series += packed
        values += (data.Perc50, data.Perc90, data.Perc99)
        text = labels.Count
        # These labels usually hold plain digits; others follow Go's rules.
        count = int(text) if text.isdecimal() and len(text) < 19 and text.isascii() else _count(text)
        bad += count == NOT_AN_INTEGER
        counts += (count, count, count)
    out.count = counts
    if bad:
        out.problem("bad-count", "the Count label is not an integer; the item is dropped", count=bad)


def _read_shape(
    out: Collected, kind: str, read: Callable[[Any], Iterable[Measured | BadShape]], report: str, data: bytes
) -> Reading:
    """Read a document that is not PerfData by the ``read`` function of its kind."""
    document, parsed = load_document(out, data, skipped="; the whole file is skipped")
    if not parsed:
        return out.reading(len(data), complete=False)
    nulls = 0
    try:
        for item in read(document):
            if isinstance(item, BadShape):
                out.problem("bad-shape", f"{kind}: {item}")
                continue
            labels = (item.verb, item.resource, item.subresource, item.scope, item.metric)
            for bucket, value in item.values.items():
                nulls += value is None
                if value is None or math.isfinite(value):
                    out.append(Series(kind, report, *labels, bucket, item.unit).pack(), value)
                else:
                    out.problem("bad-value", f"{kind}: {bucket} is beyond the range of a double")
    except BadShape as error:
        out.problem("bad-shape", f"{kind}: {error}")
    if nulls:
        out.problem("null-value", "null where a number belongs", count=nulls)
    return out.reading(len(data))


_BEGIN = re.compile(r"\[Result:Performance\]\s*(\{.*)?$")
_END = "[Finished:Performance]"
_PREFIX = re.compile(r"^[IWEF]\d{4} \d\d:\d\d:\d\d\.\d+\] ?")
_ESCAPE = re.compile(r"\x1b\[[0-9;]*m|\[\d+m")
_MARK = "[k8s.io]"
_TEST = re.compile(r"[A-Z][\w ]*")


def _test_named(line: str) -> str:
    """Return the test that a line of Ginkgo's output starts, empty for other lines."""
    if _MARK not in line:
        return ""
    rest = _ESCAPE.sub("", line).partition(_MARK)[2].strip()
    named = _TEST.match(rest)
    return (
        ""
        if named is None or rest[named.end() : named.end() + 1] not in ("", "[", "\x1b")
        else named[0].strip().lower()
    )


class BuildLog(RunFile):
    """Results that e2e tests printed into ``build-log.txt`` before there were report files."""

    id = "build-log"
    title = "build-log.txt with [Result:Performance] blocks"

    def recognise(self, name: str, head: bytes) -> bool:
        """Recognise the file by its name: the blocks come far behind the first bytes."""
        return name == "build-log.txt"

    def read(self, source: Source, data: bytes, state: Any, final: bool) -> Reading:
        """Read every closed block; wait for an open one, or note a problem if nothing will follow."""
        out = Collected(source)
        out.count = []
        test = "build-log"
        block: list[str] | None = None
        opened = 0
        closed = False
        for number, raw in enumerate(data.decode("utf-8", errors="replace").split("\n"), start=1):
            line = _PREFIX.sub("", raw.rstrip("\r"))
            if block is None:
                test = _test_named(line) or test
                begun = _BEGIN.search(line)
                if begun:
                    block, opened = [begun[1] or ""], number
                elif _END in line:
                    if not closed:  # otherwise a bare bracket closed the block
                        out.problem("bad-record", "a result block has no beginning", line=number)
                    closed = False
                continue
            if _END in line or line.rstrip() == "}":
                if _END not in line:
                    block.append(line)
                self._take(out, "\n".join(block), test, opened)
                block, closed = None, _END not in line
                continue
            block.append(line)
        if block is not None and final:
            out.problem("cut-file", "a result block has no end", line=opened)
        return out.reading(len(data))

    def _take(self, out: Collected, text: str, test: str, line: int) -> None:
        document = go_json.decode(text.encode())
        if document.refused:
            out.problem("bad-record", f"result block: {document.refused}", line=line)
        pods = any(item.labels.get("Metric") == "pod_startup" for item in document.items)
        kind = BY_NAME["PodStartupLatency" if pods else "APIResponsiveness"]
        take_items(out, kind.name, f"{kind.name}_{test}", document, exact=True)


_TEXTS = {"started": ("version", "jenkins-node"), "finished": ("result",)}
"""Fields that perf-tests' benchmark tool decodes as texts, beside the time stamp."""


class _Mark(NamedTuple):
    """Content of one of the files: the timestamp as Go reads it (0 if missing) and as any number (None if missing, NaN if not a
    number), the result if it is a string, and why the benchmark tool cannot read the file (empty: it can)."""

    stamp: int
    time: float | None
    result: str | None
    refused: str


class RunMetadata(Document):
    """The two files by which the Kubernetes CI marks a run."""

    id = "run-metadata"
    title = "started.json and finished.json of a run folder"
    closes = True
    tables: tuple[Table, ...] = (RUN_FACTS,)

    def recognise(self, name: str, head: bytes) -> bool:
        """Recognise the files by their names alone, as the CI does."""
        return name in ("started.json", "finished.json")

    def read(self, source: Source, data: bytes, state: Any, final: bool) -> Reading:
        """Read the file, and what perf-tests' benchmark tool reads from it by Go's rules.

        An unreadable file is a problem and leaves the run unstarted or unfinished.
        """
        fact = "started" if source.name == "started.json" else "finished"

        def refuse(reason: str) -> Reading:
            return Reading(
                problems=[Problem.at(source.path, "bad-metadata", reason)], consumed=len(data), complete=False
            )

        text = go_json.go_text(data)
        refused = ""
        if text.startswith("\ufeff"):
            refused, text = "it begins with a byte order mark", text[1:]
        try:
            # The tool reads started.json as a stream and ignores what follows the object.
            document = go_json.parse(text, stream=fact == "started")
        except ValueError as error:
            return refuse(f"{source.name} is not JSON: {error}")
        if not isinstance(document, go_json.Pairs | None):
            return refuse(f"{source.name} is not a JSON object")
        mark = _read_mark(document or go_json.Pairs(), _TEXTS[fact], refused)
        problems = []
        time_ms = epoch_ms(mark.time)
        if time_ms is None and (fact == "started" or mark.time is not None):
            problems.append(Problem.at(source.path, "bad-metadata", f"timestamp of {source.name} is not a time"))
        if fact == "finished" and mark.result is None:
            problems.append(Problem.at(source.path, "bad-metadata", "finished.json tells no result"))
        result = clean(mark.result or "", 200) if fact == "finished" else None
        facts: list[tuple[str, int | None, str | None]] = [(fact, time_ms, result)]
        if mark.refused:
            facts.append((f"refused-{fact}", None, clean(mark.refused, 200)))
        elif fact == "started":
            facts.append(("upstream-start", None, str(mark.stamp)))
        elif mark.result == "SUCCESS":
            facts.append(("upstream-success", None, None))
        rows: Rows = dict(zip(("fact", "time_ms", "result"), map(list, zip(*facts, strict=True)), strict=True))
        return Reading(rows={"run_facts": rows}, problems=problems, consumed=len(data))


def _read_mark(document: go_json.Pairs, texts: tuple[str, ...], refused: str) -> _Mark:
    """Decode the fields in document order; later ones overwrite earlier ones, as in Go, and null changes nothing."""
    stamp, time, result = 0, None, None
    for name, value in go_json.fields(document, (*texts, "timestamp")):
        if value is None:
            continue
        if name == "timestamp":
            number = go_json.uint64(value)
            stamp = stamp if number is None else number
            time = float(value) if isinstance(value, go_json.Literal) else math.nan
            if number is None:
                refused = refused or f"timestamp {_shown(value)} is not an unsigned whole number"
        elif not go_json.is_text(value):
            refused = refused or f"{name} {_shown(value)} is not a text"
        elif name == "result":
            result = go_json.plain_text(value)
    return _Mark(stamp, time, result, refused)


def _shown(value: Any) -> str:
    """Return a parsed scalar in its written form."""
    if isinstance(value, go_json.Literal):
        return f"{value:.40}"
    return f"{value!r:.40}" if isinstance(value, (str, bool)) else "(an object or a list)"
