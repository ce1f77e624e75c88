"""Snappy's raw block format (no framing), in which memberlist values are stored.

Source: ``format_description.txt`` of the Snappy project.
"""

from __future__ import annotations

LIMIT = 16 << 20
"""Largest unpacked size that is accepted, in bytes: a ring of 1000 members with 512 tokens each takes 3 MB."""


class SnappyError(ValueError):
    """Raised for bytes that are no Snappy block; ``byte`` is the offset of the damage."""

    def __init__(self, reason: str, byte: int) -> None:
        super().__init__(reason)
        self.byte = byte


def unpack(data: bytes, part: bool = False) -> bytes:
    """Unpack a block. With ``part`` the data may be cut: what can be unpacked is returned. Raises SnappyError."""
    size, at = _unpacked_size(data)
    out = bytearray()
    while at < len(data):
        tag_at = at
        if data[at] & 3 == 0:
            start, at = _literal(data, at)
            if at > len(data) and not part:
                raise SnappyError("the data end inside a literal", tag_at)
            out += data[start:at]
            if at > len(data):
                return bytes(out)
        else:
            length, offset, at = _copy(data, at)
            if at > len(data):
                if part:
                    return bytes(out)
                raise SnappyError("the data end inside a copy", tag_at)
            if not 0 < offset <= len(out):
                raise SnappyError("a copy points before the data", tag_at)
            # A copy may overlap what it writes: then the pattern repeats.
            pattern = bytes(out[len(out) - offset : len(out) - offset + length])
            out += (pattern * (length // len(pattern) + 1))[:length]
        if len(out) > size:
            raise SnappyError("unpacks to more than its stated length", tag_at)
    if len(out) != size and not part:
        raise SnappyError(f"unpacks to {len(out)} bytes instead of {size}", len(data))
    return bytes(out)


def _unpacked_size(data: bytes) -> tuple[int, int]:
    """Read the preamble. Returns the unpacked size in bytes and the offset after it. Raises SnappyError."""
    size = shift = at = 0
    while True:
        if at >= len(data) or shift > 28:
            raise SnappyError("the length is cut or too long", at)
        byte = data[at]
        at += 1
        size |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    if size > LIMIT:
        raise SnappyError(f"unpacks to {size} bytes, more than {LIMIT} are not read", 0)
    return size, at


def _literal(data: bytes, at: int) -> tuple[int, int]:
    """Read a literal's tag. Returns the offsets of its first byte and behind its last one (perhaps behind the data)."""
    length = data[at] >> 2
    at += 1
    if length >= 60:
        extra = length - 59
        length = int.from_bytes(data[at : at + extra], "little")
        at += extra
    return at, at + length + 1


def _copy(data: bytes, at: int) -> tuple[int, int, int]:
    """Read a copy's tag. Returns its length, how far back it begins, and the offset after it (perhaps behind the data)."""
    tag = data[at]
    if tag & 3 == 1:
        return (tag >> 2 & 7) + 4, (tag >> 5) << 8 | int.from_bytes(data[at + 1 : at + 2], "little"), at + 2
    width = 2 if tag & 3 == 2 else 4
    return (tag >> 2) + 1, int.from_bytes(data[at + 1 : at + 1 + width], "little"), at + 1 + width
