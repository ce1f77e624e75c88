"""Snappy's raw block format (no framing), as memberlist values are stored.

Source: the format description in the Snappy project.
"""

from __future__ import annotations

LIMIT = 64 << 20
"""Largest unpacked size that is accepted."""


class SnappyError(ValueError):
    """Bytes that are no Snappy block; ``byte`` says where."""

    def __init__(self, reason: str, byte: int) -> None:
        super().__init__(reason)
        self.byte = byte


def unpack(data: bytes, part: bool = False) -> bytes:
    """The unpacked block. Raises SnappyError. ``part``: the data may be cut; what can be unpacked is returned."""
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
    out = bytearray()
    while at < len(data):
        tag_at, tag = at, data[at]
        at += 1
        if tag & 3 == 0:
            length = tag >> 2
            if length >= 60:
                extra = length - 59
                length = int.from_bytes(data[at : at + extra], "little")
                at += extra
            length += 1
            if at + length > len(data):
                if part:
                    return bytes(out + data[at:])
                raise SnappyError("the data end inside a literal", tag_at)
            out += data[at : at + length]
            at += length
        else:
            if tag & 3 == 1:
                length, offset = (tag >> 2 & 7) + 4, (tag >> 5) << 8 | int.from_bytes(data[at : at + 1], "little")
                at += 1
            else:
                width = 2 if tag & 3 == 2 else 4
                length, offset = (tag >> 2) + 1, int.from_bytes(data[at : at + width], "little")
                at += width
            if at > len(data):
                if part:
                    return bytes(out)
                raise SnappyError("the data end inside a copy", tag_at)
            if not 0 < offset <= len(out):
                raise SnappyError("a copy points before the data", tag_at)
            if offset >= length:
                start = len(out) - offset
                out += out[start : start + length]
            else:
                # The copied part overlaps what it writes: the pattern repeats.
                pattern = bytes(out[-offset:])
                out += (pattern * (length // offset + 1))[:length]
        if len(out) > size:
            raise SnappyError("unpacks to more than its stated length", tag_at)
    if len(out) != size and not part:
        raise SnappyError(f"unpacks to {len(out)} bytes instead of {size}", len(data))
    return bytes(out)


def pack(data: bytes) -> bytes:
    """A valid block of ``data`` made of literals only."""
    out = bytearray()
    size = len(data)
    while size > 0x7F:
        out.append(size & 0x7F | 0x80)
        size >>= 7
    out.append(size)
    for start in range(0, len(data), 65536):
        piece = data[start : start + 65536]
        out += bytes([61 << 2]) + (len(piece) - 1).to_bytes(2, "little") + piece
    return bytes(out)
