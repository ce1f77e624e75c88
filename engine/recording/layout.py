"""The layout of a recording: a line of text, then Zstandard frames of entries, each a small head and up to 1 MB of content.

Nothing in it is trusted: heads are typed and short, a window of decompression is bounded, and names are checked before a path is
made of them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Annotated, BinaryIO, Literal
from urllib.parse import quote_from_bytes, unquote_to_bytes

import msgspec
import zstandard

MAGIC = b"loadlens recording 1\n"
PIECE = 1 << 20  # bytes of content in one entry at most
LATEST_NS = (1 << 63) - 1  # the latest time of modification that an entry can have, epoch ns; the earliest one is 0
_HEAD = 64 << 10  # bytes of a head at most
_DEEPEST, _LONGEST, _NAME = 64, 4096, 255  # levels of folders, bytes of a path and of one name, at most


class BadRecording(Exception):
    """The file is no recording, or damaged."""


class Entry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One entry. ``kind``: ``begin`` with the ``roots``, ``end``, or what happened to the file ``path`` at ``at_ms`` (epoch ms).

    ``size`` bytes of content follow it: of a file that is there from now on (``replace``; ``more`` pieces follow) or grown
    (``append``). ``path`` and ``roots``, as ``packed`` makes them, begin with the number of the root and its name;
    the name of a root that is a folder ends in ``/``. ``modified_ns``: the file's time of modification, epoch ns.
    """

    kind: Literal["begin", "replace", "append", "remove", "end"]
    at_ms: Annotated[int, msgspec.Meta(ge=0, le=253_402_300_799_000)]
    path: str = ""
    size: Annotated[int, msgspec.Meta(ge=0, le=PIECE)] = 0
    more: bool = False
    modified_ns: Annotated[int, msgspec.Meta(ge=0, le=LATEST_NS)] = 0
    roots: tuple[str, ...] = ()


def packed(path: str) -> str:
    """Return a relative path as plain ASCII, whatever bytes are in it."""
    return quote_from_bytes(os.fsencode(path))


def unpacked(path: str) -> str:
    """Return the relative path that ``packed`` was given. Raises BadRecording if it could lead anywhere else."""
    raw = unquote_to_bytes(path)
    names = raw.removesuffix(b"/").split(b"/")
    if len(raw) > _LONGEST or len(names) > _DEEPEST or b"\0" in raw:
        raise BadRecording("a path is too long")
    if any(name in (b"", b".", b"..") or len(name) > _NAME for name in names):
        raise BadRecording("a path leads out of the recording")
    return os.fsdecode(raw)


class Writer:
    """Writes entries to a new file; ``flush`` makes what was written readable, whenever the process ends."""

    def __init__(self, file: BinaryIO) -> None:
        file.write(MAGIC)
        self._file = file
        self._stream = zstandard.ZstdCompressor(level=3).stream_writer(file, closefd=False)

    def write(self, entry: Entry, content: bytes = b"") -> None:
        """Write one entry with its ``entry.size`` bytes of content. Raises OSError."""
        head = msgspec.json.encode(entry)
        self._stream.write(len(head).to_bytes(4, "little") + head + content)

    def flush(self) -> None:
        """Hand everything to the system, as a whole frame of the stream. Raises OSError."""
        self._stream.flush(zstandard.FLUSH_FRAME)
        self._file.flush()

    def close(self) -> None:
        """End the stream and close the file. Raises OSError."""
        try:
            self._stream.close()  # type: ignore[no-untyped-call]
        finally:
            self._file.close()


def entries(file: BinaryIO) -> Iterator[tuple[Entry, bytes]]:
    """Yield the entries of a recording with their content. Raises BadRecording, OSError; an end that is cut off is an end."""
    if file.read(len(MAGIC)) != MAGIC:
        raise BadRecording("this is no recording of loadlens")
    stream = zstandard.ZstdDecompressor(max_window_size=1 << 27).stream_reader(file, read_across_frames=True)

    def take(size: int) -> bytes:
        parts = []
        while size > 0 and (part := stream.read(size)):
            parts.append(part)
            size -= len(part)
        return b"".join(parts)

    decoder = msgspec.json.Decoder(Entry)
    try:
        while len(prefix := take(4)) == 4:
            length = int.from_bytes(prefix, "little")
            if length > _HEAD:
                raise BadRecording("damaged: the head of an entry is too long")
            head = take(length)
            if len(head) < length:
                return
            entry = decoder.decode(head)
            content = take(entry.size)
            if len(content) < entry.size:
                return
            yield entry, content
    except (zstandard.ZstdError, msgspec.DecodeError) as error:
        raise BadRecording(f"damaged: {error}") from error
