"""Write the few kinds of protocol buffer fields that the samples need."""

from __future__ import annotations

from collections.abc import Iterable

from engine.formats.protobuf import BYTES, VARINT


def write_varint(value: int) -> bytes:
    """Encode ``value`` as a varint; negative values as 64-bit two's complement."""
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def write_int(number: int, value: int) -> bytes:
    """Encode a varint field. Returns no bytes for 0, since proto3 omits default values."""
    return write_varint(number << 3 | VARINT) + write_varint(value) if value else b""


def write_bytes(number: int, content: bytes, always: bool = False) -> bytes:
    """Encode a length-delimited field. Returns no bytes for empty content unless ``always`` (elements of repeated fields)."""
    return write_varint(number << 3 | BYTES) + write_varint(len(content)) + content if content or always else b""


def write_packed(number: int, values: Iterable[int]) -> bytes:
    """Encode a packed repeated varint field."""
    return write_bytes(number, b"".join(write_varint(v) for v in values))
