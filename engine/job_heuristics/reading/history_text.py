"""Job histories in Avro-Json, the text form of Hadoop 0.23 to 3.x."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, BinaryIO

import msgspec

from engine.job_heuristics.reading.event_collector import HANDLERS, Collector
from engine.job_heuristics.reading.history_fast import FastLines
from engine.job_heuristics.reading.records import IGNORED, NAMESPACE, RECORDS, missing_fields
from engine.text import decode

_START = b'{"type":"'
_TYPE = re.compile(rb'\s*\{\s*"type"\s*:\s*"([A-Z_]{1,64})"')
_ANY: msgspec.json.Decoder[Any] = msgspec.json.Decoder()


def _decoder(record: str, kind: type[Any]) -> msgspec.json.Decoder[Any]:
    """A decoder of whole lines of one event type: ``line.event.e`` is the record."""
    event = msgspec.defstruct(record + "Event", [("e", kind, msgspec.field(name=NAMESPACE + record))], gc=False)
    line = msgspec.defstruct(record + "Line", [("event", event)], gc=False)
    return msgspec.json.Decoder(line)


_FAST = {
    kind.encode(): (_decoder(record, shape), HANDLERS[shape], kind, record) for kind, (record, shape) in RECORDS.items()
}
_SKIP = {kind.encode() for kind in IGNORED}


def is_event(line: bytes) -> bool:
    """Whether a line begins as an event of a known type."""
    match = _TYPE.match(line)
    return match is not None and (match.group(1) in _FAST or match.group(1) in _SKIP)


@lru_cache(maxsize=64)
def schema_problems(line: bytes) -> dict[str, str] | None:
    """What Hadoop 2.7.3 would say per record about the schema line; None: it is no schema."""
    try:
        schema = _ANY.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    if not isinstance(schema, dict) or schema.get("type") != "record":
        return None
    return missing_fields(schema)


def read_events(
    lines: BinaryIO,
    number: int,
    says: dict[str, str],
    to: Collector,
    size: int,
    patterns: FastLines | None = None,
) -> int:
    """The next ``size`` bytes of ``lines``, which end with a line, into ``to``; ``number`` is the number of the line
    before. Returns that of the last.

    ``patterns`` take what they know; the decoder gets the rest. ``says``: what Hadoop would throw at the first event of
    a record (from the schema). Bad lines become problems.
    """
    fast = _FAST
    for line in lines:
        number += 1
        size -= len(line)
        if size < 0:
            return number - 1
        if line.startswith(_START):
            key = line[9 : line.find(b'"', 9, 80)]
            found = fast.get(key)
            # The first event of a record that Hadoop would throw at is read the long way, so that it is said.
            if patterns is not None and not (says and found and found[3] in says) and patterns.take(key, line, number):
                continue
            if found is not None:
                decoder, handle, kind, record = found
                try:
                    event = decoder.decode(line).event.e
                except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
                    _slow(line, number, kind, error, to)
                    continue
                handle(to, number, kind, event)
                if says and record in says:
                    to.says(number, says.pop(record))
                if patterns is not None:
                    patterns.learn(key, line)
                continue
            if key in _SKIP:
                continue
        elif not line or line.isspace():
            continue
        _other(line, number, says, to)
    return number


def _other(line: bytes, number: int, says: dict[str, str], to: Collector) -> None:
    """A line that does not begin as Hadoop writes it: blanks in front, another spelling, or rubbish."""
    begin = _TYPE.match(line)
    if begin is None:
        to.problem("bad-record", f"not an event: {decode(line[:60])}", line=number)
        to.says(number, cannot_parse(to.path, "Unexpected character"))
        return
    kind = begin.group(1)
    if kind in _SKIP:
        return
    found = _FAST.get(kind)
    if found is None:
        to.problem("unknown-event", f"unknown event type {decode(kind)}", line=number)
        return
    decoder, handle, name, record = found
    try:
        event = decoder.decode(line).event.e
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        _slow(line, number, name, error, to)
        return
    handle(to, number, name, event)
    if record in says:
        to.says(number, says.pop(record))


def _slow(line: bytes, number: int, kind: str, error: Exception, to: Collector) -> None:
    """A line its decoder refused: say why, and keep what is sound of it.

    Not UTF-8: decoded with replacement. A number beyond 64 bit: left out. Another wrapping: taken as it is.
    """
    reason = str(error)
    text = line
    if not _valid_utf8(line):
        reason = "text that is not UTF-8"
        text = decode(line).encode()
    shape = RECORDS[kind][1]
    try:
        value = _ANY.decode(text)
        event = value["event"]
        inner = next((v for v in event.values() if isinstance(v, dict)), event)
        dropped = _drop_big(inner)
        record = msgspec.convert(_raws(inner), shape)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        to.problem("bad-record", f"{kind}: {reason}", line=number)
        to.says(number, cannot_parse(to.path, reason))
        return
    except (KeyError, TypeError, AttributeError, ValueError) as second:
        to.problem("bad-record", f"{kind}: {second}", line=number)
        to.says(number, cannot_parse(to.path, reason))
        return
    if dropped:
        to.problem("bad-number", f"{kind}: {dropped} number(s) beyond 64 bit left out", line=number)
        to.says(number, cannot_parse(to.path, "Numeric value out of range of long"))
    elif text is not line:
        to.problem("bad-text", f"{kind}: {reason}", line=number)
    HANDLERS[shape](to, number, kind, record)


def _valid_utf8(line: bytes) -> bool:
    try:
        line.decode()
    except UnicodeDecodeError:
        return False
    return True


def _drop_big(value: Any) -> int:
    """Take counters whose value is no Java long out of a decoded record; how many there were."""
    dropped = 0
    counters = value.get("counters") if isinstance(value, dict) else None
    if isinstance(counters, dict):
        counters = counters.get(NAMESPACE + "JhCounters", counters)
        for group in counters.get("groups") or ():
            counts = group.get("counts") or []
            sound = [c for c in counts if isinstance(c.get("value"), int) and -(2**63) <= c["value"] < 2**63]
            dropped += len(counts) - len(sound)
            group["counts"] = sound
    return dropped


def _raws(value: dict[str, Any]) -> dict[str, Any]:
    """The four arrays back to JSON text, as the records want them."""
    for name in ("clockSplits", "cpuUsages", "vMemKbytes", "physMemKbytes"):
        if name in value:
            value[name] = msgspec.Raw(msgspec.json.encode(value[name]))
    return value


def cannot_parse(path: str, reason: str) -> str:
    """The exception upstream throws when Hadoop's parser met ``reason`` in the file."""
    name = path.rsplit("/", 1)[-1]
    return (
        f"java.lang.RuntimeException: Could not parse history file {name} "
        f"<- org.codehaus.jackson.JsonParseException: {reason}"
    )
