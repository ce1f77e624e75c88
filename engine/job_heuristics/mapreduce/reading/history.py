"""Job histories: the file kind ``jhist`` finds header and schema, and reads the text form (Avro-Json, Hadoop 0.23 to 3.x).

The binary form is read by ``history_binary``; both decode events to ``records`` for the ``Collector`` (``event_collector``),
which turns them into input rows.
"""

from __future__ import annotations

import io
import re
from functools import lru_cache
from typing import Any, BinaryIO

import msgspec

from engine.core.reading import Log, Reading, Source, decode
from engine.core.tables import Table
from engine.formats import json_text
from engine.job_heuristics.mapreduce.reading import history_binary
from engine.job_heuristics.mapreduce.reading.event_collector import HANDLERS, MOST_COUNTERS, Collector
from engine.job_heuristics.mapreduce.reading.history_binary import MOST_SCHEMA
from engine.job_heuristics.mapreduce.reading.records import (
    ARRAYS,
    IGNORED,
    NAMESPACE,
    RECORDS,
    AllCounters,
    JobFinished,
    MapAttemptFinished,
    missing_fields,
)
from engine.job_heuristics.mapreduce.tables import ATTEMPT_ENDS, ATTEMPT_STARTS, JOB_EVENTS, TASK_ENDS, TASK_STARTS

_START = b'{"type":"'
_PLACE = re.compile(r" \(byte \d+\)$")
"""Position of a fault in its line: removed, so that equal faults become one counted problem."""
_PER_COUNTER = b'"displayName"'  # markers that occur once per counter and per group
_MANY = MOST_COUNTERS * len('{"name":"","displayName":"","value":0}')  # bytes that more counters take at least
_TYPE = re.compile(rb'\s*\{\s*"type"\s*:\s*"([A-Z_]{1,64})"')
_ANY: msgspec.json.Decoder[Any] = msgspec.json.Decoder()


def _decoder(record: str, kind: type[Any]) -> msgspec.json.Decoder[Any]:
    """A decoder of whole lines of one event type: ``line.event.e`` is the record."""
    event = msgspec.defstruct(record + "Event", [("e", kind, msgspec.field(name=NAMESPACE + record))], gc=False)
    return msgspec.json.Decoder(msgspec.defstruct(record + "Line", [("event", event)], gc=False))


_BY_TYPE = {
    kind.encode(): (_decoder(record, shape), HANDLERS[shape], kind, record) for kind, (record, shape) in RECORDS.items()
}
"""Event type → decoder, collecting function, its name as text, and name of its Avro record."""
_SKIP = {kind.encode() for kind in IGNORED}
_COUNTED = {
    kind.encode(): _decoder(record, AllCounters)
    for kind, (record, shape) in RECORDS.items()
    if shape in (MapAttemptFinished, JobFinished)
}
"""Event type → decoder of its counters alone."""


def is_event(line: bytes) -> bool:
    """Whether a line begins as an event of a known type."""
    match = _TYPE.match(line)
    return match is not None and (match.group(1) in _BY_TYPE or match.group(1) in _SKIP)


@lru_cache(maxsize=64)
def schema_problems(line: bytes) -> dict[str, str] | None:
    """Exceptions of Hadoop 2.7.3 by record of the schema line; None: not a schema."""
    try:
        schema = _ANY.decode(line) if len(line) <= MOST_SCHEMA else None
    except json_text.ERRORS:
        return None
    return missing_fields(schema) if isinstance(schema, dict) and schema.get("type") == "record" else None


def read_events(lines: BinaryIO, number: int, errors: dict[str, str], to: Collector, size: int) -> int:
    """Read the next ``size`` bytes (whole lines) of ``lines`` into ``to``; ``number``: of the preceding line. Returns
    the number of the last line.

    ``errors``: Hadoop's exceptions by record (from the schema). Bad lines become problems.
    """
    by_type = _BY_TYPE
    for line in lines:
        number += 1
        size -= len(line)
        if size < 0:
            return number - 1
        key = line[9 : line.find(b'"', 9, 80)] if line.startswith(_START) else b""
        if key not in by_type and (line == b"\n" or not (key := _unusual(line, number, to))):
            continue
        decoder, handle, kind, record = by_type[key]
        try:
            event = decoder.decode(line).event.e
        except json_text.ERRORS as error:
            _salvage(line, number, kind, error, to)
            continue
        handle(to, number, kind, event)
        if key in _COUNTED and len(line) > _MANY and line.count(_PER_COUNTER) > MOST_COUNTERS:
            _check_limits(line, number, key, to)
        if errors and record in errors:
            to.parser_error(number, errors.pop(record))
    return number


def _check_limits(line: bytes, number: int, key: bytes, to: Collector) -> None:
    """Check the number of counters of a record whose counters are not read."""
    try:
        counted = _COUNTED[key].decode(line).event.e
    except json_text.ERRORS:
        return
    for counters in (counted.counters, counted.totalCounters, counted.mapCounters, counted.reduceCounters):
        to.counted(number, counters)


def _unusual(line: bytes, number: int, to: Collector) -> bytes:
    """Return the event type of a line that begins in another way than Hadoop's: with blanks, or spelled differently.

    Empty if the line is not read: it is blank, its type is not used, or (a problem) its type is unknown or it is garbage.
    """
    begin = _TYPE.match(line)
    key = begin.group(1) if begin is not None else b""
    if key in _BY_TYPE:
        return key
    if begin is not None and key not in _SKIP:
        to.problem("unknown-event", f"unknown event type {decode(key)}", line=number)
        to.parser_error(number, f"org.apache.avro.AvroTypeException: Unknown symbol in enum {decode(key)}")
    elif begin is None and line and not line.isspace():
        to.problem("bad-record", "not an event", line=number)
        to.parser_error(number, cannot_parse(to.path, "Unexpected character"))
    return b""


def _salvage(line: bytes, number: int, kind: str, error: Exception, to: Collector) -> None:
    """Note why a line was refused, and collect its valid part.

    Invalid UTF-8 is replaced, counters beyond 64 bit are left out, fractions are truncated as by Hadoop's parser,
    other wrappings are accepted.
    """
    reason = _PLACE.sub("", str(error))
    text = decode(line).encode()
    if text != line:
        reason = "text that is not UTF-8"
    shape = RECORDS[kind][1]
    try:
        event = _ANY.decode(text)["event"]
        inner = next((v for v in event.values() if isinstance(v, dict)), event)
        dropped = _drop_counters(_cut_fractions(inner))
        record = msgspec.convert(_raws(inner), shape)
    except (*json_text.ERRORS, KeyError, TypeError, AttributeError):
        to.problem("bad-record", f"{kind}: {reason}", line=number)
        to.parser_error(number, cannot_parse(to.path, reason))
        return
    if dropped:
        to.problem("bad-number", f"{kind}: {dropped} counter(s) beyond 64 bit are left out", line=number)
        to.parser_error(number, cannot_parse(to.path, reason))
    elif text != line:
        to.problem("bad-text", f"{kind}: {reason}", line=number)
    HANDLERS[shape](to, number, kind, record)


def _cut_fractions(value: dict[str, Any]) -> dict[str, Any]:
    """Truncate the numbers of a decoded record or counter."""
    for name, number in value.items():
        if isinstance(number, float) and abs(number) < 2.0**63:
            value[name] = int(number)
    return value


def _drop_counters(record: dict[str, Any]) -> int:
    """Remove counters whose value is not a Java long from a decoded record. Returns their number."""
    dropped = 0
    counters = record.get("counters")
    if isinstance(counters, dict):
        counters = counters.get(NAMESPACE + "JhCounters", counters)
        for group in counters.get("groups") or ():
            counts = [_cut_fractions(count) for count in group.get("counts") or []]
            sound = [c for c in counts if type(c.get("value")) is int and -(2**63) <= c["value"] < 2**63]
            dropped += len(counts) - len(sound)
            group["counts"] = sound
    return dropped


def _raws(value: dict[str, Any]) -> dict[str, Any]:
    """Turn the four arrays back into JSON text, as records hold them."""
    for name in ARRAYS:
        if name in value:
            value[name] = msgspec.Raw(msgspec.json.encode(value[name]))
    return value


def cannot_parse(path: str, reason: str) -> str:
    """Dr. Elephant's exception when Hadoop's parser fails with ``reason``."""
    name = path.rsplit("/", 1)[-1]
    return (
        f"java.lang.RuntimeException: Could not parse history file {name} "
        f"<- org.codehaus.jackson.JsonParseException: {reason}"
    )


_HEADER = re.compile(rb"^[ \t]*Avro-(Json|Binary)[ \t]*\r?$", re.MULTILINE)
_LONGEST_PREFACE = 2**20  # most bytes of foreign text before the header


class History(Log):
    """Job histories (``.jhist``): Avro-Json and Avro-Binary of Hadoop 0.23 to 3.x."""

    id = "jhist"
    title = "Hadoop job histories (.jhist) as text or binary, finished or growing"
    marks = ("avro-json", "job_submitted")
    tables: tuple[Table, ...] = (JOB_EVENTS, TASK_STARTS, TASK_ENDS, ATTEMPT_STARTS, ATTEMPT_ENDS)

    def recognise(self, name: str, head: bytes) -> bool:
        """Recognise it by its header line within the first bytes, or by its name."""
        return name.endswith((".jhist", ".jhist_tmp")) or _HEADER.search(head) is not None

    def read(self, source: Source, data: bytes, state: Any, final: bool) -> Reading:
        """Read new bytes of a history. ``state``: its form; number of the last line (text) or schema (binary);
        current job; pending parser errors by record, those before any job was named, jobs that have one; length of an
        incomplete last record."""
        state = dict(state) if isinstance(state, dict) else {"form": "", "line": 0, "errors": {}, "job": None}
        unplaced, broken = state.get("unplaced") or (), state.get("broken") or ()
        to = Collector(source.path, job=state.get("job"), unplaced=unplaced, broken=broken)
        at = 0
        if not state["form"]:
            at = self._begin(data, state, final, to)
            if at < 0:
                return to.reading(0, None)
        if state["form"] == "json":
            at = self._text(data, at, state, final, to)
        elif state["form"] == "binary":
            at = self._binary(source, data, at, state, final, to)
        else:
            at = len(data)
        state.update(job=to.job, unplaced=[list(each) for each in to.unplaced])
        if to.broken:
            state["broken"] = sorted(to.broken)
        return to.reading(at, state)

    def foresee(self, state: Any, lines: int) -> Any:
        """Return the state of a text history after more ``lines``: only their number changes once its job is known."""
        return {**state, "line": state["line"] + lines}

    def _begin(self, data: bytes, state: dict[str, Any], final: bool, to: Collector) -> int:
        """Find header and schema. Returns where the events begin, -1 if unknown yet. The result does not depend on
        how much of the file exists already."""
        header = None if is_event(data[:256]) else _HEADER.search(data, 0, _LONGEST_PREFACE)
        if header is None or data.find(b"\n", header.end() - 1) < 0:
            return self._without_header(data, state, final, to, begun=header is not None)
        start = data.find(b"\n", header.end() - 1) + 1
        end = data.find(b"\n", start)
        if end < 0:
            if final:
                to.problem("cut-file", "the file ends inside its schema", line=data.count(b"\n") + 1)
            return -1
        preface = data[: header.start()].count(b"\n")
        if preface:
            to.problem("text-before-header", f"{preface} line(s) of other text before the header", line=1)
            first = decode(data[: data.find(b"\n")])
            to.parser_error(0, f"java.io.IOException: Incompatible event log version: {first}")
        begin = self._text_schema if header.group(1) == b"Json" else self._binary_schema
        return begin(data, start, end, preface + 2, state, to)

    @staticmethod
    def _without_header(data: bytes, state: dict[str, Any], final: bool, to: Collector, *, begun: bool) -> int:
        """As ``_begin``, if no header line ends within the available bytes. ``begun``: one has begun."""
        if is_event(data[:256]) and b"\n" in data:
            to.problem("no-header", "the header line Avro-Json is missing; events taken as they are", line=1)
            to.parser_error(
                0, "java.io.IOException: Incompatible event log version: " + decode(data.partition(b"\n")[0][:40])
            )
            state["form"] = "json"
            return 0
        if not data or (len(data) < _LONGEST_PREFACE and not final):
            return -1
        if begun or b"\n" not in data:
            to.problem("cut-file", "the file ends before its first event", line=1)
        else:
            to.problem("no-header", "no line says Avro-Json or Avro-Binary", line=1)
        if len(data) < _LONGEST_PREFACE:
            return -1
        state["form"] = "none"
        return len(data)

    @staticmethod
    def _text_schema(data: bytes, start: int, end: int, line: int, state: dict[str, Any], to: Collector) -> int:
        """Take the schema of a text history, line number ``line``. Returns where the events begin."""
        schema = data[start:end].strip()
        errors = schema_problems(schema)
        if errors is None:
            to.problem("bad-schema", "the second line is not an Avro schema", line=line)
            to.parser_error(line, "org.apache.avro.SchemaParseException: the second line is not an Avro schema")
            errors = {}
            if is_event(schema):
                end = start - 1
                line -= 1
        state.update(form="json", line=line, errors=dict(errors))
        return end + 1

    @staticmethod
    def _binary_schema(data: bytes, start: int, end: int, line: int, state: dict[str, Any], to: Collector) -> int:
        """Take the schema of a binary history, line number ``line``. Returns where the events begin."""
        schema = data[start:end].strip()
        try:
            decoder = history_binary.decoder(schema)
        except history_binary.BadSchema as error:
            to.problem("bad-schema", f"the second line is not a usable Avro schema: {error}", line=line)
            to.parser_error(line, f"org.apache.avro.SchemaParseException: {error}")
            state["form"] = "none"
            return len(data)
        state.update(form="binary", schema=schema, errors=dict(decoder.errors))
        return end + 1

    @staticmethod
    def _text(data: bytes, at: int, state: dict[str, Any], final: bool, to: Collector) -> int:
        """Read text events from ``at`` on, an unfinished last line only if ``final``. Returns where reading stopped."""
        end = data.rfind(b"\n", at) + 1
        line = state["line"]
        errors = dict(state.get("errors") or {})
        if end > at:
            # BytesIO shares the bytes: only one line at a time is copied.
            lines = io.BytesIO(data)
            lines.seek(at)
            line = read_events(lines, line, errors, to, end - at)
            at = end
        tail = data[at:]
        if final and tail and not tail.isspace():
            mark = (line, len(tail))
            if list(mark) != state.get("cut"):
                trial = Collector(to.path, job=to.job)
                read_events(io.BytesIO(tail), line, errors, trial, len(tail))
                if trial.problems:
                    to.problem("cut-file", "the file ends inside its last record", line=line + 1)
                    to.job_event(line + 1, "CUT", broken=cannot_parse(to.path, "Unexpected end-of-input"))
                    state["cut"] = list(mark)
                else:
                    line = read_events(io.BytesIO(tail), line, errors, to, len(tail)) - 1
                    at = len(data)
        state.update(line=line, errors=errors)
        return at

    @staticmethod
    def _binary(source: Source, data: bytes, at: int, state: dict[str, Any], final: bool, to: Collector) -> int:
        """Read binary events from ``at`` on. Returns where reading stopped."""
        try:
            decoder = history_binary.decoder(bytes(state["schema"]))
        except history_binary.BadSchema:
            state["form"] = "none"
            return len(data)
        errors = dict(state.get("errors") or {})
        at, bad = decoder.read(data, at, source.offset, errors, to)
        state["errors"] = errors
        if bad is not None:
            to.problem("bad-record", f"unreadable from here on: {bad}", byte=source.offset + at)
            to.parser_error(source.offset + at, f"org.apache.avro.AvroRuntimeException: Malformed data: {bad}")
            state["form"] = "none"
            return len(data)
        if final and at < len(data) and state.get("cut") != len(data) - at:
            to.problem("cut-file", "the file ends inside its last record", byte=source.offset + at)
            state["cut"] = len(data) - at
        return at
