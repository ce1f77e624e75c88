"""Bytes of a file after decompression: gzip, Zstandard and Java's block containers by their magic bytes, bounded against
bombs."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator

import zstandard

from engine.core.compression import Damaged, Packing
from engine.formats.block_codecs import BadBlock, Lz4Blocks, LzfBlocks, SnappyBlocks, Unpacker

_CHUNK = 1 << 20
_PIECE = 8 << 20
"""Bytes that one step unpacks at most."""
_FED = 256
"""Bytes that Zstandard is fed at once: 128 KB of content may lie in 4 of them."""
_RATIO_FROM = 64 << 20
MAX_RATIO = 500
"""Above 64 MB unpacked, more than this many times the packed size is taken for a bomb."""


class TooBig(Exception):
    """The content is larger than the limit; the message says which and how to raise it."""


class _Gzip:
    """One gzip member, a bounded piece at a time."""

    def __init__(self) -> None:
        self._inner = zlib.decompressobj(wbits=31)

    def pieces(self, data: bytes) -> Iterator[bytes]:
        """Yield what ``data`` unpacks to, in pieces of at most 8 MB. Raises zlib.error."""
        while True:
            piece = self._inner.decompress(data, _PIECE)
            yield piece
            data = self._inner.unconsumed_tail
            if self._inner.eof or (not data and len(piece) < _PIECE):
                return

    @property
    def eof(self) -> bool:
        """Whether the member is complete."""
        return self._inner.eof

    @property
    def unused(self) -> bytes:
        """Bytes behind the end of the member."""
        return self._inner.unused_data


class _Zstd:
    """One Zstandard frame. Its window is limited to that of the program zstd, so that no header asks for gigabytes."""

    def __init__(self) -> None:
        self._inner = zstandard.ZstdDecompressor(max_window_size=1 << 27).decompressobj()
        self._fed = False

    def pieces(self, data: bytes) -> Iterator[bytes]:
        """Yield what ``data`` unpacks to; fed in small steps, since a step cannot be bounded. Raises ZstdError."""
        for begin in range(0, len(data), _FED):
            if self._inner.eof:
                self._rest = self._rest + data[begin:]
                return
            yield self._inner.decompress(data[begin : begin + _FED])
            self._rest = self._inner.unused_data

    _rest: bytes = b""

    @property
    def eof(self) -> bool:
        """Whether the frame is complete."""
        return bool(self._inner.eof)

    @property
    def unused(self) -> bytes:
        """Bytes behind the end of the frame."""
        return self._rest


_UNPACKERS: dict[str, Callable[[], Unpacker]] = {
    "gzip": _Gzip,
    "zstd": _Zstd,
    "lz4": Lz4Blocks,
    "snappy": SnappyBlocks,
    "lzf": LzfBlocks,
}


def _bounded(total: int, limit: int, packed: int) -> None:
    """Raise TooBig if ``total`` bytes of content, unpacked from ``packed``, are above ``limit`` or an absurd ratio."""
    if total > limit:
        raise TooBig(f"unpacks to more than {limit >> 20} MB (max-unpacked-mb)")
    if total > _RATIO_FROM and total > MAX_RATIO * packed:
        raise TooBig(f"unpacks to more than {MAX_RATIO} times its size: taken for a bomb")


def unpacked(read: Callable[[int, int], bytes], packing: Packing, limit: int) -> Iterator[bytes]:
    """Yield the unpacked content of an open file, from its beginning, in pieces; ``read`` gives some bytes from an offset on.

    Concatenated members and frames count as one content; zero bytes or garbage behind a complete member end it
    (garbage raises Damaged). Raises TooBig above ``limit`` bytes or an absurd ratio, Damaged for cut or broken input.
    """
    inner: Unpacker | None = None
    offset = total = 0
    try:
        while True:
            raw = read(_CHUNK, offset)
            if not raw:
                break
            offset += len(raw)
            while raw:
                if inner is None:
                    if not raw.strip(b"\0"):
                        break
                    inner = _UNPACKERS[packing]()
                for piece in inner.pieces(raw):
                    total += len(piece)
                    if piece:
                        yield piece
                    _bounded(total, limit, offset)
                raw = b""
                if inner.eof:
                    raw = inner.unused
                    inner = None
    except (zlib.error, zstandard.ZstdError, BadBlock) as error:
        raise Damaged(f"the packed content is damaged: {error}", cut=False) from error
    if inner is not None:
        raise Damaged("the packed content ends early", cut=True)
