"""Protocol buffers wire format without a schema: fields in order, and the little needed to write them.

Source: the "Encoding" page of the Protocol Buffers documentation.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5


class WireError(ValueError):
    """Bytes that are no protocol buffer; ``byte`` says where."""

    def __init__(self, reason: str, byte: int) -> None:
        super().__init__(reason)
        self.byte = byte


def varint(data: bytes, at: int, end: int) -> tuple[int, int]:
    """An unsigned varint (at most 64 bits) at ``at``: its value and the byte after it. Raises WireError."""
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
    """Fields of the message in ``data[start:end]``: (number, wire type, value or first byte, end).

    For VARINT the third is the value; for BYTES, FIXED32 and FIXED64 it is where the content begins and the fourth
    where it ends. Raises WireError at the place of the damage.
    """
    end = len(data) if end is None else end
    at = start
    while at < end:
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


def packed(data: bytes, start: int, end: int) -> list[int]:
    """The varints of a packed repeated field. Raises WireError."""
    values = []
    while start < end:
        value, start = varint(data, start, end)
        values.append(value)
    return values


def signed(value: int) -> int:
    """A 64-bit varint as int64."""
    return value - (1 << 64) if value >= 1 << 63 else value


def write_varint(value: int) -> bytes:
    """``value`` (negative ones as 64-bit two's complement) as a varint."""
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def write_int(number: int, value: int) -> bytes:
    """A varint field; nothing for 0, as proto3 leaves defaults out."""
    return write_varint(number << 3 | VARINT) + write_varint(value) if value else b""


def write_bytes(number: int, content: bytes, always: bool = False) -> bytes:
    """A length-delimited field; nothing if it is empty, unless ``always`` (elements of repeated fields)."""
    return write_varint(number << 3 | BYTES) + write_varint(len(content)) + content if content or always else b""


def write_packed(number: int, values: Iterable[int]) -> bytes:
    """A packed repeated varint field."""
    return write_bytes(number, b"".join(write_varint(v) for v in values))
