"""Read the wire format of protocol buffers without a schema, field by field.

Source: the "Encoding" page of the Protocol Buffers documentation.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from typing import Any

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
"""Wire types of a field. ``BYTES`` is length-delimited: texts, nested messages, packed lists."""
MOST_FIELDS = 500_000  # most fields of one message, which take half a second


class WireError(ValueError):
    """Raised for bytes that are not a protocol buffer; ``byte`` is the offset of the damage."""

    def __init__(self, reason: str, byte: int) -> None:
        super().__init__(reason)
        self.byte = byte


def varint(data: bytes, at: int, end: int) -> tuple[int, int]:
    """Read an unsigned varint of at most 64 bits at ``at``. Returns its value and the offset after it. Raises WireError."""
    value = shift = 0
    start = at
    while at < end:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value >= 1 << 64:
                raise WireError("a number has more than 64 bits", start)
            return value, at
        shift += 7
        if shift > 63:
            raise WireError("a number has more than 64 bits", start)
    raise WireError("the data end inside a number", start)


def fields(data: bytes, start: int = 0, end: int | None = None) -> Iterator[tuple[int, int, int, int]]:
    """Yield the fields of the message ``data[start:end]`` as (number, wire type, value or start, end).

    For VARINT the third item is the value; for BYTES, FIXED32 and FIXED64 it is the offset of the content's first byte,
    and the fourth the offset behind its last one. Raises WireError, also for more than ``MOST_FIELDS``.
    """
    end = len(data) if end is None else end
    at = start
    for count in itertools.count():
        if at >= end:
            return
        if count >= MOST_FIELDS:
            raise WireError(f"a message has more than {MOST_FIELDS:,} fields", at)
        begin = at
        key, at = varint(data, at, end)
        number, kind = key >> 3, key & 7
        if number == 0:
            raise WireError("a field has the number 0", begin)
        if kind == VARINT:
            value, at = varint(data, at, end)
            yield number, kind, value, at
            continue
        if kind == BYTES:
            length, at = varint(data, at, end)
        elif kind == FIXED64:
            length = 8
        elif kind == FIXED32:
            length = 4
        else:
            raise WireError(f"wire type {kind} is not used by proto3", begin)
        if at + length > end:
            raise WireError("a field is longer than the data", begin)
        yield number, kind, at, at + length
        at += length


def expect(kind: int, wanted: int, number: int, at: int) -> None:
    """Raise WireError unless field ``number`` has the wire type ``wanted``."""
    if kind != wanted:
        raise WireError(f"field {number} has wire type {kind} instead of {wanted}", at)


def text(data: bytes, start: int, end: int) -> str:
    """Decode the UTF-8 text ``data[start:end]``. Raises WireError."""
    try:
        return data[start:end].decode("utf-8")
    except UnicodeDecodeError as error:
        raise WireError("a text is not UTF-8", start) from error


def scalars(
    data: bytes, start: int, end: int, *, numbers: Iterable[int] = (), texts: Iterable[int] = ()
) -> dict[int, Any]:
    """Read the listed varint and text fields of the message ``data[start:end]``, skipping all others.

    Returns field number to value (the last one given; 0 or "" where the field is absent). Raises WireError.
    """
    values: dict[int, Any] = dict.fromkeys(numbers, 0) | dict.fromkeys(texts, "")
    for number, kind, value, stop in fields(data, start, end):
        if number not in values:
            continue
        if number in texts:
            expect(kind, BYTES, number, value)
            values[number] = text(data, value, stop)
        else:
            expect(kind, VARINT, number, stop)
            values[number] = value
    return values


def packed(data: bytes, start: int, end: int) -> list[int]:
    """Read the varints of a packed repeated field. Raises WireError."""
    values = []
    while start < end:
        value, start = varint(data, start, end)
        values.append(value)
    return values


_NUMBER_ENDS = bytes(range(0x80, 0x100))


def count_packed(data: bytes, start: int, end: int) -> int:
    """Count the varints of a packed repeated field without making them. Raises WireError where the last one is cut."""
    if start < end and data[end - 1] >= 0x80:
        raise WireError("the data end inside a number", end - 1)
    return len(data[start:end].translate(None, _NUMBER_ENDS))


def signed(value: int) -> int:
    """Convert a 64-bit varint to the int64 it encodes."""
    return value - (1 << 64) if value >= 1 << 63 else value
