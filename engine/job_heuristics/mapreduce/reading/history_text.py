"""Job histories in Avro-Json, the text form of Hadoop 0.23 to 3.x."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, BinaryIO

import msgspec

from engine.core.text import decode
from engine.formats import json_text
from engine.job_heuristics.mapreduce.reading.counters import MOST_COUNTERS
from engine.job_heuristics.mapreduce.reading.event_collector import HANDLERS, Collector
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

_START = b'{"type":"'
_PLACE = re.compile(r" \(byte \d+\)$")
"""Position of a fault in its line: removed, so that equal faults become one counted problem."""
_PER_COUNTER = b'"displayName"'
"""Markers that occur once per counter and per group."""
_TYPE = re.compile(rb'\s*\{\s*"type"\s*:\s*"([A-Z_]{1,64})"')
_ANY: msgspec.json.Decoder[Any] = msgspec.json.Decoder()


def _decoder(record: str, kind: type[Any]) -> msgspec.json.Decoder[Any]:
    """A decoder of whole lines of one event type: ``line.event.e`` is the record."""
    event = msgspec.defstruct(record + "Event", [("e", kind, msgspec.field(name=NAMESPACE + record))], gc=False)
    line = msgspec.defstruct(record + "Line", [("event", event)], gc=False)
    return msgspec.json.Decoder(line)


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
    if not isinstance(schema, dict) or schema.get("type") != "record":
        return None
    return missing_fields(schema)


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
        if line.startswith(_START):
            key = line[9 : line.find(b'"', 9, 80)]
            if key in by_type:
                _event(line, number, key, errors, to)
                continue
            if key in _SKIP:
                continue
        elif not line or line.isspace():
            continue
        _unusual_line(line, number, errors, to)
    return number


def _event(line: bytes, number: int, key: bytes, errors: dict[str, str], to: Collector) -> None:
    """Decode one line of event type ``key`` and collect its facts."""
    decoder, handle, kind, record = _BY_TYPE[key]
    try:
        event = decoder.decode(line).event.e
    except json_text.ERRORS as error:
        _salvage(line, number, kind, error, to)
        return
    handle(to, number, kind, event)
    if key in _COUNTED and line.count(_PER_COUNTER) > MOST_COUNTERS:
        _check_limits(line, number, key, to)
    if errors and record in errors:
        to.parser_error(number, errors.pop(record))


def _check_limits(line: bytes, number: int, key: bytes, to: Collector) -> None:
    """Check the number of counters of a record whose counters are not read."""
    try:
        counted = _COUNTED[key].decode(line).event.e
    except json_text.ERRORS:
        return
    for counters in (counted.counters, counted.totalCounters, counted.mapCounters, counted.reduceCounters):
        to.check_limits(number, counters)


def _unusual_line(line: bytes, number: int, errors: dict[str, str], to: Collector) -> None:
    """Read a line that does not begin like Hadoop's: leading blanks, another spelling, or garbage."""
    begin = _TYPE.match(line)
    if begin is None:
        to.problem("bad-record", "not an event", line=number)
        to.parser_error(number, cannot_parse(to.path, "Unexpected character"))
        return
    key = begin.group(1)
    if key in _BY_TYPE:
        _event(line, number, key, errors, to)
    elif key not in _SKIP:
        to.problem("unknown-event", f"unknown event type {decode(key)}", line=number)
        to.parser_error(number, f"org.apache.avro.AvroTypeException: Unknown symbol in enum {decode(key)}")


def _salvage(line: bytes, number: int, kind: str, error: Exception, to: Collector) -> None:
    """Note why a line was refused, and collect its valid part.

    Invalid UTF-8 is replaced, counters beyond 64 bit are left out, fractions are truncated as by Hadoop's parser,
    other wrappings are accepted.
    """
    reason = _PLACE.sub("", str(error))
    text = line
    if not _valid_utf8(line):
        reason = "text that is not UTF-8"
        text = decode(line).encode()
    shape = RECORDS[kind][1]
    try:
        value = _ANY.decode(text)
        event = value["event"]
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
    elif text is not line:
        to.problem("bad-text", f"{kind}: {reason}", line=number)
    HANDLERS[shape](to, number, kind, record)


def _valid_utf8(line: bytes) -> bool:
    try:
        line.decode()
    except UnicodeDecodeError:
        return False
    return True


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
