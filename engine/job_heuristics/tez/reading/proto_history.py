"""Tez's proto histories: Hadoop sequence files whose values are protocol buffers, one per event.

A header names classes and codec; a record is its length, that of its key, the key, and the value; a length of -1 is followed
by the sync mark. See docs/models/job-heuristics.md, "Tez: proto histories".
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Any

import msgspec

from engine.core.compression import Budget, TooBig
from engine.core.reading import Reading, Source, clean
from engine.formats import json_text, protobuf
from engine.job_heuristics.tez.reading.entities import Entities

_ZLIB = {"org.apache.hadoop.io.compress.DefaultCodec": 15, "org.apache.hadoop.io.compress.DeflateCodec": 15,
         "org.apache.hadoop.io.compress.GzipCodec": 31}  # fmt: skip
"""Codecs that are read, with zlib's window bits."""
_SYNC = 16
MOST_RECORD = 256 << 20
"""Most bytes of a record; longer ones are taken for damage."""
_KINDS = (("TASK_ATTEMPT_", "TEZ_TASK_ATTEMPT_ID", 9), ("TASK_", "TEZ_TASK_ID", 8), ("VERTEX_", "TEZ_VERTEX_ID", 7),
          ("DAG_", "TEZ_DAG_ID", 6), ("CONTAINER_", "TEZ_CONTAINER_ID", 0), ("APP_", "TEZ_APPLICATION", 4))  # fmt: skip
"""Beginning of an event's type, the entity that it is about, and the field with its id."""


class _Damaged(ValueError):
    """Raised for a header that cannot be read; ``cut``: more bytes may mend it."""

    def __init__(self, reason: str, *, cut: bool) -> None:
        super().__init__(reason)
        self.cut = cut


def _text(data: bytes, at: int) -> tuple[str, int]:
    """Read a length and as many bytes of text. Raises _Damaged."""
    if at >= len(data):
        raise _Damaged("it ends inside its header", cut=True)
    length, at = data[at], at + 1
    if length >= 128:  # 256 - 112 - n, then n bytes
        more = 144 - length
        if not 0 < more <= 4:
            raise _Damaged("a length in its header is damaged", cut=False)
        length, at = int.from_bytes(data[at : at + more], "big"), at + more
    if length > 10_000:
        raise _Damaged("a text of its header is too long", cut=False)
    if at + length > len(data):
        raise _Damaged("it ends inside its header", cut=True)
    return data[at : at + length].decode("utf-8", "replace"), at + length


def _header(data: bytes) -> tuple[dict[str, Any], int]:
    """Return window bits of the codec (0: not compressed) and sync mark, and where records begin. Raises _Damaged."""
    _, at = _text(data, 4)
    _, at = _text(data, at)
    packed, blocks = data[at : at + 1] == b"\x01", data[at + 1 : at + 2] == b"\x01"
    codec, at = _text(data, at + 2) if packed else ("", at + 2)
    if blocks or (packed and codec not in _ZLIB):
        raise _Damaged(
            f"compressed {'in blocks' if blocks else f'by {clean(codec, 200)}'}, which is not read", cut=False
        )
    pairs, at = int.from_bytes(data[at : at + 4], "big"), at + 4
    for _ in range(2 * min(pairs, 1000)):
        _, at = _text(data, at) if int.from_bytes(data[at : at + 1], "big") else ("", at + 1)
    if at + _SYNC > len(data):
        raise _Damaged("it ends inside its header", cut=True)
    return {"bits": _ZLIB.get(codec, 0), "sync": data[at : at + _SYNC]}, at + _SYNC


def read(source: Source, data: bytes, state: Any, final: bool) -> Reading:
    """Read the new records of a file; ``state`` as left by the last call."""
    state = dict(state) if isinstance(state, dict) else {}
    to = Entities(source.path, state.get("seq", 0))
    at = 0
    if "sync" not in state:
        try:
            header, at = _header(data)
        except _Damaged as error:
            if error.cut and not final:
                return Reading()
            to.problem("cut-file" if error.cut else "bad-header", str(error))
            return to.reading(0 if error.cut else len(data), state)
        state |= header
    budget = source.budget()
    try:
        at = _records(to, data, at, state, source.offset, budget)
    except TooBig as error:
        to.problem("too-big", f"{error}; the rest of the history is left out")
        at = len(data)
    if final and at < len(data):
        to.problem("cut-file", "the history ends inside a record", byte=source.offset + at)
    state["seq"] = to.seq
    return to.reading(at, state)


def _records(to: Entities, data: bytes, at: int, state: dict[str, Any], offset: int, budget: Budget) -> int:
    """Take whole records from ``at`` on; return where they end. Raises TooBig."""
    bits, mark = state["bits"], b"\xff\xff\xff\xff" + state["sync"]
    while at + 8 <= len(data):
        length = int.from_bytes(data[at : at + 4], "big", signed=True)
        key = int.from_bytes(data[at + 4 : at + 8], "big", signed=True)
        if length == -1 and data.startswith(mark, at):
            at += len(mark)
            continue
        if length == -1 and at + len(mark) > len(data):
            break
        end = at + 8 + length
        if not 0 <= key <= length <= MOST_RECORD or (end > len(data) and data.find(mark, at) >= 0):
            reason = "a length is damaged; records up to the next sync mark are left out"
            to.problem("bad-record", reason, byte=offset + at)
            later = data.find(mark, at + 1)
            at = later if later >= 0 else len(data)
            continue
        if end > len(data):
            break
        try:
            value = data[at + 8 + key : end]
            _event(to, _inflated(value, bits, budget) if bits else value)
        except (zlib.error, protobuf.WireError) as error:
            to.problem("bad-record", f"{error}; the record is left out", byte=offset + at)
        at = end
    return at


def _inflated(value: bytes, bits: int, budget: Budget) -> bytes:
    """Decompress one value. Raises zlib.error, TooBig."""
    made = zlib.decompressobj(bits).decompress(value, max(1, budget.limit - budget.taken + 1))
    budget.take(len(made))
    return made


_PAIR, _KEY = 10 << 3 | protobuf.BYTES, 1 << 3 | protobuf.BYTES
"""Tags of a pair, and of the key in it."""


def _chunk(value: bytes, at: int, end: int) -> tuple[int, int]:
    """Return begin and end of the content of a length-delimited field. Raises WireError."""
    size, start = value[at + 1] if at + 1 < end else 0x80, at + 2
    if size > 0x7F:
        size, start = protobuf.varint(value, at + 1, end)
    if start + size > end:
        raise protobuf.WireError("a field is longer than the data", at)
    return start, start + size


def _event(to: Entities, value: bytes) -> None:
    """Take one event. Raises WireError."""
    length, at = protobuf.varint(value, 0, len(value))
    if at + length > len(value):
        raise protobuf.WireError("an event is longer than its record", at)
    found: dict[int, str] = {}
    pairs: dict[str, bytes] = {}
    moment, end = 0, at + length
    while at < end:
        tag = value[at]
        if tag & 7 == protobuf.BYTES and tag < 0x80:
            start, at = _chunk(value, at, end)
            if tag == _PAIR and start < at and value[start] == _KEY:
                begin, until = _chunk(value, start, at)
                text = _chunk(value, until, at)[0] if until < at else at
                pairs[value[begin:until].decode("utf-8", "replace")] = value[text:at]
            else:
                found[tag >> 3] = value[start:at].decode("utf-8", "replace")
        else:
            number, _, start, at = next(protobuf.fields(value, at, end))
            moment = start if number == 2 else moment
    event = found.get(1, "")
    for begins, entity, field in _KINDS:
        if event.startswith(begins):
            facts = {key: fact for key, data in pairs.items() if (fact := _value(key, data, entity)) is not None}
            if 3 in found and entity != "TEZ_TASK_ATTEMPT_ID":
                facts.setdefault("user", found[3])
            name = found.get(field) or str(facts.get("containerId", ""))
            name = f"tez_{name}" if entity == "TEZ_APPLICATION" else name
            to.take(entity, name, facts, {event: moment}, moment if event == "DAG_SUBMITTED" else None)
            return
    if not event.startswith("AM_"):
        to.problem("unknown-event", f"events of type {clean(event or '(none)', 100)} are not known")


_PARSED: dict[str, Callable[[bytes], Any]] = {
    **dict.fromkeys(("config", "dagPlan", "vertexNameIdMapping", "lastDataEvents", "counters", "tezVersion"),
                    msgspec.json.decode),
    **dict.fromkeys(("startTime", "endTime", "initTime", "creationTime", "allocationTime", "scheduledTime", "numTasks",
                     "exitStatus"), int),
}  # fmt: skip
"""How the text of a value is parsed; others stay texts."""


def _value(key: str, data: bytes, entity: str) -> Any:
    if key == "counters" and entity in ("TEZ_TASK_ATTEMPT_ID", "TEZ_VERTEX_ID"):
        return None  # not used, and most of the bytes
    parse = _PARSED.get(key)
    if parse is None:
        return data.decode("utf-8", "replace")
    try:
        return parse(data) if len(data) < 20 or parse is not int else None
    except json_text.ERRORS:
        return None
