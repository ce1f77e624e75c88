"""Unpack compressed streams in bounded pieces: gzip, Zstandard, and the block containers of Spark's and Hadoop's Java libraries.

Each class unpacks one stream, fed by pieces of any size. Sources: ``LZ4BlockOutputStream`` of lz4-java,
``SnappyOutputStream`` of snappy-java, ``LZFChunk`` of compress-lzf. A stream may follow another in one file.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import cramjam
import xxhash
import zstandard

from engine.core.compression import Budget, Damaged, Packing

_CHUNK = 1 << 20
LZ4_MAGIC = b"LZ4Block"
SNAPPY_MAGIC = b"\x82SNAPPY\x00"
LZF_MAGIC = b"ZV"
MOST_BLOCK = 64 << 20  # bytes of one unpacked block that are accepted; the libraries write 32 KB to 32 MB
_SNAPPY_RATIO = 22  # bytes that one byte of a Snappy block unpacks to at most: three of them may copy 64
_LZ4_SEED = 0x9747B28C
_LZ4_SUM = 0x0FFFFFFF  # lz4-java keeps 28 bits of the checksum


class BadBlock(ValueError):
    """Raised for bytes that are no block of their container, or hold no block of their codec."""


class _Stream:
    """A gzip member or a Zstandard frame. It is fed in small steps, since the content of a step cannot be bounded."""

    unused = b""  # bytes behind the end of the stream

    def __init__(self, inner: Any, step: int) -> None:
        """``inner``: a decompressor object; ``step``: bytes that it is fed at once."""
        self._inner, self._step = inner, step

    @property
    def eof(self) -> bool:
        """Whether the stream is complete."""
        return bool(self._inner.eof)

    def pieces(self, data: bytes) -> Iterator[bytes]:
        """Yield the content of ``data``, at most 8 MB at once. Raises zlib.error, ZstdError."""
        for begin in range(0, len(data), self._step):
            end = begin + self._step
            yield self._inner.decompress(data[begin:end])
            if self._inner.eof:
                self.unused = self._inner.unused_data + data[end:]
                return


class _Blocks:
    """A container of blocks, which may end behind any of them. An incomplete block waits for more data."""

    unused = b""

    def __init__(self) -> None:
        self._waiting = bytearray()

    @property
    def eof(self) -> bool:
        """Whether the stream may end here: all blocks so far are complete."""
        return not self._waiting

    def pieces(self, data: bytes) -> Iterator[bytes]:
        """Yield the blocks that ``data`` completes. Raises BadBlock."""
        self._waiting += data
        at = 0
        while (block := self._block(at)) is not None:
            content, at = block
            if content:
                yield content
        del self._waiting[:at]

    def _block(self, at: int) -> tuple[bytes, int] | None:
        """Return the content of the block at ``at`` and the place behind it; None if it is not complete. Raises BadBlock."""
        raise NotImplementedError


class Lz4Blocks(_Blocks):
    """LZ4Block of lz4-java: 21 bytes of header (magic, method, both lengths, checksum) in front of each block."""

    def _block(self, at: int) -> tuple[bytes, int] | None:
        if len(self._waiting) < at + 21:
            if not LZ4_MAGIC.startswith(bytes(self._waiting[at : at + 8])):
                raise BadBlock("no LZ4Block header where a block should begin")
            return None
        if self._waiting[at : at + 8] != LZ4_MAGIC:
            raise BadBlock("no LZ4Block header where a block should begin")
        method = self._waiting[at + 8] & 0xF0
        packed, size, checksum = struct.unpack_from("<III", self._waiting, at + 9)
        if size > MOST_BLOCK or packed > MOST_BLOCK or method not in (0x10, 0x20):
            raise BadBlock("an LZ4Block header that no writer makes")
        end = at + 21 + packed
        if len(self._waiting) < end:
            return None
        content = bytes(self._waiting[at + 21 : end])
        if method == 0x20 and size:
            content = _cramjam(cramjam.lz4.decompress_block, content, size)
        if len(content) != size or (size and xxhash.xxh32_intdigest(content, _LZ4_SEED) & _LZ4_SUM != checksum):
            raise BadBlock("a block of LZ4Block does not hold what its header says")
        return content, end


class SnappyBlocks(_Blocks):
    """The stream of snappy-java: a header of 16 bytes, then chunks of a length (big-endian) and a raw Snappy block."""

    def _block(self, at: int) -> tuple[bytes, int] | None:
        begins = bytes(self._waiting[at : at + 8])
        if begins[:1] == SNAPPY_MAGIC[:1]:
            if not SNAPPY_MAGIC.startswith(begins[:8]):
                raise BadBlock("a broken header of a Snappy stream")
            return (b"", at + 16) if len(self._waiting) >= at + 16 else None
        if len(begins) < 4:
            return None
        packed = int.from_bytes(begins[:4], "big")
        if packed > MOST_BLOCK:
            raise BadBlock("a Snappy block of an absurd length")
        end = at + 4 + packed
        if len(self._waiting) < end:
            return None
        return snappy_block(bytes(self._waiting[at + 4 : end])), end


class LzfBlocks(_Blocks):
    """Chunks of compress-lzf: ``ZV``, a type (0 as it is, 1 packed), lengths of 16 bits, at most 64 KB."""

    def _block(self, at: int) -> tuple[bytes, int] | None:
        have = len(self._waiting) - at
        if have >= 2 and self._waiting[at : at + 2] != LZF_MAGIC:
            raise BadBlock("no LZF header where a chunk should begin")
        if have < 5:
            return None
        kind, length = struct.unpack_from(">BH", self._waiting, at + 2)
        if kind > 1:
            raise BadBlock("an LZF chunk of an unknown type")
        begin = at + (7 if kind else 5)
        if len(self._waiting) < begin + length:
            return None
        content = bytes(self._waiting[begin : begin + length])
        return (
            _lzf(content, int.from_bytes(self._waiting[at + 5 : at + 7], "big")) if kind else content
        ), begin + length


def _cramjam(unpack: object, content: bytes, size: int) -> bytes:
    """Unpack one block by the library. Raises BadBlock."""
    if size > MOST_BLOCK:
        raise BadBlock("a block unpacks to an absurd length")
    try:
        return bytes(unpack(content, output_len=size))  # type: ignore[operator]
    except (cramjam.DecompressionError, ValueError, OverflowError) as error:
        raise BadBlock(str(error)) from error


def snappy_size(content: bytes) -> tuple[int, int]:
    """Return the unpacked size that a raw Snappy block states, and the place behind that number. Raises BadBlock."""
    size = 0
    for k, byte in enumerate(content[:5]):
        size |= (byte & 0x7F) << (7 * k)
        if byte < 0x80:
            return size, k + 1
    raise BadBlock("a Snappy block without its length")


def snappy_block(content: bytes, budget: Budget | None = None) -> bytes:
    """Unpack a raw Snappy block (no framing) within ``budget``. Raises BadBlock, TooBig."""
    size, _ = snappy_size(content)
    if budget is not None:
        budget.take(size)
    if size > _SNAPPY_RATIO * len(content):
        raise BadBlock("a Snappy block claims to unpack to more than the format can hold")
    return _cramjam(cramjam.snappy.decompress_raw, content, size)


def snappy_start(head: bytes) -> bytes:
    """Return the bytes that a raw Snappy block of at most ``MOST_BLOCK`` begins with: its first literal. Empty for other data.

    ``head``: the beginning of the file, so the literal may be cut.
    """
    try:
        size, at = snappy_size(head)
    except BadBlock:
        return b""
    if not 0 < size <= MOST_BLOCK or at >= len(head) or head[at] & 3:
        return b""
    length, at = (head[at] >> 2) + 1, at + 1
    if length > 60:  # the length follows in 1 to 4 bytes
        length, at = int.from_bytes(head[at : at + length - 60], "little") + 1, at + length - 60
    return head[at : at + min(length, size)]


def _lzf(data: bytes, size: int) -> bytes:
    """Unpack one LZF chunk. Raises BadBlock."""
    out = bytearray()
    at, end = 0, len(data)
    while at < end:
        control = data[at]
        at += 1
        if control < 32:  # a run of literals
            out += data[at : at + control + 1]
            at += control + 1
            continue
        length = control >> 5
        if length == 7:
            length += data[at] if at < end else 0
            at += 1
        if at >= end:
            raise BadBlock("an LZF chunk ends inside a reference")
        start = len(out) - ((control & 31) << 8 | data[at]) - 1
        at += 1
        if start < 0:
            raise BadBlock("an LZF reference points before the chunk")
        length += 2
        pattern = out[start : start + length]
        # A reference may overlap what it writes: then the pattern repeats.
        out += (pattern * (length // len(pattern) + 1))[:length]
    if len(out) != size or at > end:
        raise BadBlock(f"an LZF chunk unpacks to {len(out)} bytes instead of {size}")
    return bytes(out)


_UNPACKERS: dict[str, Callable[[], _Stream | _Blocks]] = {
    "gzip": lambda: _Stream(zlib.decompressobj(wbits=31), 8192),  # 1 byte may unpack to 1 KB
    # 4 bytes may unpack to 128 KB. The window is that of the program zstd, so that no header asks for gigabytes.
    "zstd": lambda: _Stream(zstandard.ZstdDecompressor(max_window_size=1 << 27).decompressobj(), 256),
    "lz4": Lz4Blocks,
    "snappy": SnappyBlocks,
    "lzf": LzfBlocks,
}


def unpacked(read: Callable[[int, int], bytes], packing: Packing, budget: Budget) -> Iterator[bytes]:
    """Yield the unpacked content of an open file, from its beginning, in pieces; ``read`` gives some bytes from an offset on.

    Concatenated members and frames count as one content; zero bytes or garbage behind a complete member end it
    (garbage raises Damaged). Without a ``packing`` the bytes are the content. Raises TooBig where ``budget`` ends, Damaged for
    cut or broken input.
    """
    inner: _Stream | _Blocks | None = None
    offset = 0
    if not packing:
        while raw := read(_CHUNK, offset):
            offset += len(raw)
            budget.take(len(raw))
            yield raw
        return
    try:
        while raw := read(_CHUNK, offset):
            offset += len(raw)
            while raw:
                if inner is None:
                    if not raw.strip(b"\0"):
                        break
                    inner = _UNPACKERS[packing]()
                for piece in inner.pieces(raw):
                    if piece:
                        yield piece
                    budget.take(len(piece))
                raw = b""
                if inner.eof:
                    raw = inner.unused
                    inner = None
    except (zlib.error, zstandard.ZstdError, BadBlock) as error:
        raise Damaged(f"the packed content is damaged: {error}", cut=False) from error
    if inner is not None:
        raise Damaged("the packed content ends early", cut=True)
