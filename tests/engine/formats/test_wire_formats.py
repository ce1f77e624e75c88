"""Snappy, protocol buffers and RFC 3339: round trips and nonsense."""

from __future__ import annotations

import cramjam
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.formats import protobuf
from engine.formats.timestamps import epoch_ns
from engine.formats.unpack import BadBlock, snappy_block, snappy_start
from sample_data.ring_placement.protobuf import write_packed, write_varint
from tests.chance import tries


def test_formats_refuse_nonsense() -> None:
    for data in (b"", b"\xff" * 6, b"\xff\xff\xff\xff\x0f", b"\x05\x00a", b"\x05\x01\x00", b"\x02\x08abc"):
        with pytest.raises(BadBlock):
            snappy_block(data)
    for data in (b"\xff" * 11, b"\x00", b"\x0b", b"\x0a\x05a", b"\x09a", b"\x80"):
        with pytest.raises(protobuf.WireError):
            list(protobuf.fields(data))


@tries(12)
@given(st.binary(max_size=3000))
def test_snappy_round_trip(data: bytes) -> None:
    assert snappy_block(_packed(data)) == data
    packed = bytes(cramjam.snappy.compress_raw(data))
    assert snappy_block(packed) == data
    start = snappy_start(packed[:100])
    assert data.startswith(start) and bool(start) == bool(data)


@tries(12)
@given(st.lists(st.integers(0, 2**64 - 1)))
def test_varint_round_trip(values: list[int]) -> None:
    data = write_packed(1, values)
    if values:
        ((_, _, start, end),) = protobuf.fields(data)
        assert protobuf.packed(data, start, end) == values
        assert protobuf.count_packed(data, start, end) == len(values)
        cut = write_varint(values[-1])[:-1]
        if cut:
            with pytest.raises(protobuf.WireError):
                protobuf.count_packed(cut, 0, len(cut))
    assert protobuf.signed(2**64 - 1) == -1


def test_times() -> None:
    assert epoch_ns("1970-01-01T00:00:01.5Z") == 1_500_000_000
    assert epoch_ns("0001-01-01T00:00:00Z") < 0
    assert epoch_ns("2026-11-20 23:31:54 +0000 UTC") == epoch_ns("2026-11-20T23:31:54Z")
    assert epoch_ns("2026-11-20T23:31:54+02:00") == epoch_ns("2026-11-20T21:31:54Z")
    for bad in ("", "now", "2026-13-01T00:00:00Z", "2026-11-20"):
        with pytest.raises(ValueError):
            epoch_ns(bad)


def _packed(data: bytes) -> bytes:
    """Pack ``data`` as a valid block of literals only."""
    out = bytearray()
    size = len(data)
    while size > 0x7F:
        out.append(size & 0x7F | 0x80)
        size >>= 7
    out.append(size)
    for start in range(0, len(data), 60):
        piece = data[start : start + 60]
        out += bytes([len(piece) - 1 << 2]) + piece
    return bytes(out)
