"""The four 12-bucket arrays of an attempt: wall ms, CPU ms, virtual and physical kB per twelfth of its progress."""

from __future__ import annotations

from typing import Annotated

import msgspec

from engine.formats.avro_binary import BadRecord, length, varint

_ARRAY = msgspec.json.Decoder(list[Annotated[int, msgspec.Meta(ge=-(2**53), le=2**53)]])
_AVRO = b"avro:"
"""Marks arrays in Avro's binary encoding; others are JSON."""


def decode(progress: bytes | None) -> tuple[list[int], list[int], list[int], list[int]] | None:
    """Decode a value of column ``progress`` to its four arrays; None where there are none or they are damaged."""
    if not progress:
        return None
    if progress.startswith(_AVRO):
        return _decode_avro(progress.removeprefix(_AVRO))
    try:
        parts = [_ARRAY.decode(part) if part else [] for part in progress.split(b";")]
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return (parts[0], parts[1], parts[2], parts[3]) if len(parts) == 4 else None


def _decode_avro(data: bytes) -> tuple[list[int], list[int], list[int], list[int]] | None:
    """As ``decode``, of four arrays in Avro's binary encoding, back to back."""
    arrays: list[list[int]] = []
    at = 0
    try:
        for _ in range(4):
            values: list[int] = []
            while True:
                count, at = varint(data, at)
                if count == 0:
                    break
                if count < 0:
                    count = -count
                    _, at = length(data, at)
                if count > len(data):
                    return None
                for _ in range(count):
                    value, at = varint(data, at)
                    values.append(value)
            arrays.append(values)
    except (IndexError, BadRecord):
        return None
    return arrays[0], arrays[1], arrays[2], arrays[3]
