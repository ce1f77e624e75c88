"""Read answers of Prometheus' HTTP API and its relatives, and VictoriaMetrics' export lines, one series at a time.

Sources: "HTTP API" and "Querying" of the Prometheus documentation; "How to export data in JSON line format" of VictoriaMetrics.
Accepts what proxies, jq and Grafana do to them: any order of keys, indentation, a byte order mark, one answer per line.
"""

from __future__ import annotations

import math
import re
from array import array
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec
import numpy as np
import polars as pl

from engine.core.reading import Problem
from engine.formats import json_text
from engine.formats.delimited import BOM

_STATUS = re.compile(rb'"status"\s*+:\s*+"(?:success|error)"')
_TYPE = re.compile(rb'"resultType"\s*+:\s*+"[a-z]')
_RESULT = re.compile(rb'"result"\s*+:\s*+\[\s*+\{')
_SERIES = re.compile(rb'^\s*+\[?\s*+\{\s*+"(?:metric|values?|timestamps)"\s*+:\s*+[\[{]')
_NAME = re.compile(rb'"__name__"\s*+:\s*+"([^"\\]*+)"')
_BETWEEN = re.compile(rb"\}\s*+,\s*+(?=\{)")  # where one series may end and the next begin
_FURTHEST = 9e15  # largest number that is taken for a time, in ms
_MOST_JOINED = 8  # maximum pieces of a damaged document that are tried as one series

NAMELESS = (
    "series without a name: rate(), sum by and arithmetic drop it. Ask for the raw series, or give the name back: "
    'label_replace(rate(x[2m]), "__name__", "x:rate", "", "")'
)
"""Reason and cure for series without a name."""

REFUSED = {
    "11,000 points": "ask for x[1d] by an instant query (/api/v1/query), for shorter slices, or for a larger step",
    "maximum resolution": "ask for x[1d] by an instant query (/api/v1/query), for shorter slices, or for a larger step",
    "too many samples": "ask for fewer series or shorter slices",
    "timeout": "ask for fewer series or shorter slices",
    "timed out": "ask for fewer series or shorter slices",
    "parse error": "correct the query",
}
"""Cure by words of the server's error."""


class _Data(msgspec.Struct):
    result: list[msgspec.Raw] | None = None
    kind: str = msgspec.field(default="", name="resultType")


class _Envelope(msgspec.Struct):
    status: str = ""
    data: _Data | list[msgspec.Raw] | None = None
    error: str = ""
    error_type: str = msgspec.field(default="", name="errorType")
    warnings: list[str] | None = None
    infos: list[str] | None = None
    partial: bool = msgspec.field(default=False, name="isPartial")


class _Range(msgspec.Struct):
    """A series of the API. Native histograms, instead of values or beside them, are not read."""

    metric: dict[str, str]
    values: list[tuple[float, str]] = []
    value: tuple[float, str] | None = None


class _Export(msgspec.Struct):
    """A line of VictoriaMetrics' export: times in milliseconds."""

    metric: dict[str, str]
    values: list[float | str | None]
    timestamps: list[int]


_envelope = msgspec.json.Decoder(_Envelope)
_range = msgspec.json.Decoder(_Range)
_export = msgspec.json.Decoder(_Export)


class Answer(msgspec.Struct):
    """Content of an answer.

    ``path``: of the file; ``metrics``: labels of each wanted series; ``lengths``: number of points of each; ``times``
    (epoch ms) and ``values``: all points, series after series; ``names``: number of series by name, wanted or not;
    ``nameless``: number of series without a name; ``cut``: the end is missing; ``empty``: an empty list of series.
    """

    path: str
    metrics: list[dict[str, str]] = msgspec.field(default_factory=list)
    lengths: list[int] = msgspec.field(default_factory=list)
    times: array[int] = msgspec.field(default_factory=lambda: array("q"))
    values: array[float] = msgspec.field(default_factory=lambda: array("d"))
    names: dict[str, int] = msgspec.field(default_factory=dict)
    nameless: int = 0
    problems: list[Problem] = msgspec.field(default_factory=list)
    infos: list[str] = msgspec.field(default_factory=list)
    cut: bool = False
    empty: bool = False

    def problem(self, kind: str, reason: str, *, line: int | None = None, count: int = 1) -> None:
        """Note one problem of this file."""
        self.problems.append(Problem.at(self.path, kind, reason, line=line, count=count))

    def points(self) -> pl.DataFrame:
        """Return ``series`` (place in ``metrics``), ``value`` and ``time_ms`` of all points, and release them here."""
        value = pl.Series("value", np.frombuffer(self.values, np.float64))
        self.values = array("d")
        time = pl.Series("time_ms", np.frombuffer(self.times, np.int64))
        self.times = array("q")
        series = np.repeat(np.arange(len(self.lengths), dtype=np.uint32), self.lengths)
        return pl.DataFrame([pl.Series("series", series), value, time])


def looks_like(head: bytes) -> bool:
    """Whether a file that begins with ``head`` is an answer, a list of series, or export lines."""
    head = head.removeprefix(BOM).lstrip()
    if head[:1] == b"{" and _STATUS.search(head) and (b'"data"' in head or b'"error"' in head):
        return True
    if head[:1] == b"{" and (_TYPE.search(head) or (_RESULT.search(head) and b'"metric"' in head)):
        return True
    return bool(_SERIES.match(head)) and (b'"metric"' in head or b'"timestamps"' in head)


def read(path: str, data: bytes, wanted: Callable[[Sequence[str]], set[str]]) -> Answer:
    """Read the series whose names are among those that ``wanted`` selects of all names.

    Takes linear time, and memory for the points only.
    """
    answer = Answer(path)
    found = list(_series(data.removeprefix(BOM), answer))
    for name, _ in found:
        answer.names[name] = answer.names.get(name, 0) + 1
    answer.nameless = answer.names.pop("", 0)
    chosen = wanted(list(answer.names))
    bad = 0
    for name, raw in found:
        if name in chosen:
            bad += _add(answer, raw)
    if answer.nameless:
        answer.problem("nameless-series", NAMELESS, count=answer.nameless)
    if bad:
        answer.problem("bad-record", "a value that cannot be read is left out", count=bad)
    return answer


def _series(data: bytes, answer: Answer) -> Iterator[tuple[str, Any]]:
    """Yield name (possibly "") and bytes of each series; the rest of the document goes into ``answer``."""
    text = data.lstrip()
    if text[:1] == b"[":
        data = b'{"status":"success","data":{"result":' + text.rstrip() + b"}}"
        if text.rstrip()[-1:] != b"]":
            data = data[:-2]
    elif _SERIES.match(text[:1024]):
        yield from _lines(data, answer)
        return
    try:
        documents = [_envelope.decode(data)]
    except json_text.ERRORS:
        documents = _appended(data)
    if not documents:
        yield from _damaged(data, answer)
    for document in documents:
        _take_envelope(document, answer)
        body = document.data
        if isinstance(body, _Data) and body.kind in ("", "matrix", "vector"):
            answer.empty = body.result is not None and not body.result
            yield from map(_whole, body.result or ())


def _appended(data: bytes) -> list[_Envelope]:
    """Return the answers of a file with one on each line; empty for any other file."""
    try:
        return [_envelope.decode(line) for line in _each_line(data)]
    except json_text.ERRORS:
        return []


def _each_line(data: bytes) -> Iterator[memoryview]:
    begin, whole = 0, memoryview(data)
    while begin < len(data):
        end = data.find(b"\n", begin)
        end = len(data) if end < 0 else end
        if data[begin:end].strip():
            yield whole[begin:end]
        begin = end + 1


def _name(raw: memoryview) -> str:
    found = _NAME.search(raw)
    return found[1].decode("utf-8", "replace") if found else ""


def _take_envelope(document: _Envelope, answer: Answer) -> None:
    """Note a server's error and warnings, or another type of result."""
    if document.status == "error" or document.error:
        words = ": ".join(part for part in (document.error_type, document.error) if part)
        cure = next((cure for mark, cure in REFUSED.items() if mark in document.error), "")
        answer.problem("error-answer", f"the server answered with an error: {words}" + (f" ({cure})" if cure else ""))
    for warning in document.warnings or ():
        answer.problem("server-warning", f"the server warns: {warning} (data may be missing)")
    if document.partial:
        answer.problem(
            "partial-answer",
            "a partial answer: some of the cluster's stores did not reply, so data are missing; ask again",
        )
    answer.infos += document.infos or ()
    if isinstance(document.data, _Data) and document.data.kind not in ("", "matrix", "vector", "scalar", "string"):
        answer.problem(
            "other-result",
            f"a result of type {document.data.kind} is no series of numbers: ask for x[1d] by /api/v1/query",
        )


def _lines(data: bytes, answer: Answer) -> Iterator[tuple[str, Any]]:
    """Yield the series of export lines. Skips lines that are not JSON; the last one may be cut."""
    bad, first, number = 0, 0, 0
    last: memoryview | None = None
    for number, line in enumerate(_each_line(data), 1):
        if bytes(line[:1]) == b"{" and bytes(line[-2:]).rstrip()[-1:] == b"}":
            yield _whole(line)
            continue
        bad, first, last = bad + 1, first or number, line
    if bad and last is not None and first == number and not data.endswith(b"\n"):
        yield from _last_points(last.tobytes(), answer)
    elif bad:
        answer.problem("bad-record", "a line that is no series", line=first, count=bad)


def _damaged(data: bytes, answer: Answer) -> Iterator[tuple[str, Any]]:
    """Yield the series of a document that does not decode as a whole."""
    start = _RESULT.search(data)
    if start is None:
        answer.cut = True
        answer.problem(
            "cut-file",
            "the answer is cut or no JSON: nothing in it can be read; ask again (curl -f leaves no file of an error)",
        )
        return
    begin, pending, joined, bad = start.end() - 1, -1, 0, 0
    for between in _BETWEEN.finditer(data, begin):
        end = between.start() + 1
        if pending >= 0 and _decodes(data[pending:end]):
            yield _whole(data[pending:end])
            pending = -1
        elif _decodes(data[begin:end]):
            bad += pending >= 0
            pending = -1
            yield _whole(data[begin:end])
        else:
            pending, joined = (begin, 0) if pending < 0 else (pending, joined + 1)
            if joined > _MOST_JOINED:
                bad, pending = bad + 1, -1
        begin = between.end()
    ends = _end(data[begin:])
    if pending >= 0 and (not ends or not _decodes(data[begin : begin + ends])):
        begin, ends = pending, _end(data[pending:])  # what looked like two series is one, and the last
    else:
        bad += pending >= 0
    if ends and _decodes(data[begin : begin + ends]):
        yield _whole(data[begin : begin + ends])
        if not _decodes(b'{"data":{"result":[0' + data[begin + ends :]):
            yield from _last_points(b"", answer)
    elif ends:
        bad += 1
    else:
        yield from _last_points(data[begin:], answer)
    if bad:
        answer.problem("bad-record", "a series that is no JSON is left out", count=bad)


def _end(data: bytes) -> int:
    """Return the end of the object at the start of ``data``; 0 if it has none."""
    return next((end for _, end in json_text.spans(data, 0)), 0)


def _last_points(piece: bytes, answer: Answer) -> Iterator[tuple[str, Any]]:
    """Yield the complete points of a last series without its end."""
    answer.cut = True
    answer.problem("cut-file", "the answer is cut: what came before the cut was read; ask again for the rest")
    closed = json_text.closed(piece, 2)
    if closed is not piece and _decodes(closed):
        yield _whole(closed)


def _whole(piece: bytes | memoryview | msgspec.Raw) -> tuple[str, Any]:
    view = memoryview(piece)
    return _name(view), view


def _decodes(piece: bytes) -> bool:
    try:
        msgspec.json.decode(piece, type=msgspec.Raw)
    except json_text.ERRORS:
        return False
    return True


def _add(answer: Answer, raw: memoryview) -> int:
    """Add one series. Returns the number of unreadable points (1 for a wholly unreadable series)."""
    bad = 0
    try:
        try:
            one = _range.decode(raw)
            pairs = one.values if one.value is None else [*one.values, one.value]
            times = np.array([at for at, _ in pairs]) * 1000.0
            values = np.array([float(text) for _, text in pairs])
            metric = one.metric
        except (msgspec.ValidationError, ValueError):
            line = _export.decode(raw)
            if len(line.values) != len(line.timestamps):
                return 1
            times = np.array(line.timestamps, np.float64)
            values = np.array([math.nan if value is None else float(value) for value in line.values])
            metric = line.metric
    except (*json_text.ERRORS, ValueError, OverflowError):
        try:
            document = msgspec.json.decode(raw.tobytes().decode("utf-8", "replace"))
            metric = {key: value for key, value in document["metric"].items() if isinstance(value, str)}
            times, values, bad = _point_by_point(document)
        except (*json_text.ERRORS, KeyError, TypeError, AttributeError):
            return 1
    timely = np.abs(times) <= _FURTHEST
    if not timely.all():
        bad += int((~timely).sum())
        times, values = times[timely], values[timely]
    answer.metrics.append(metric)
    answer.lengths.append(len(values))
    answer.times.frombytes(np.rint(times).astype(np.int64).tobytes())
    answer.values.frombytes(values.tobytes())
    return bad


def _point_by_point(document: dict[str, Any]) -> tuple[np.ndarray, np.ndarray, int]:
    """Return times (ms) and values of a series with odd points, and the number of points left out."""
    values = document.get("values", [])
    pairs: list[Any] = [*values, *([document["value"]] if "value" in document else [])]
    scale = 1000.0
    if "timestamps" in document:
        pairs, scale = list(zip(document["timestamps"], values, strict=False)), 1.0
    good, bad = [], 0
    for pair in pairs:
        try:
            at, value = pair
            good.append((float(at) * scale, float(value)))
        except (TypeError, ValueError, OverflowError):
            bad += 1
    table = np.array(good, float).reshape(-1, 2)
    return table[:, 0], table[:, 1], bad
