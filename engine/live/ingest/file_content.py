"""The content of one file: what is new up to the last complete record, and proof that the rest is unchanged.

A file is known by device and inode; a fingerprint of its beginning and of the bytes before the place where reading
stopped tells an append from a rewrite that happens to be larger.
"""

from __future__ import annotations

from collections.abc import Iterator

import xxhash

from engine.core.compression import Budget, Damaged, Packing, TooBig, sniff
from engine.core.reading import HEAD
from engine.formats.unpack import unpacked
from engine.live.files.opening import Open, RegularFile

BLOCK = 16 << 20  # bytes of a log that are read at once, so that memory stays bounded
MAX_RECORD = 256 << 20  # bytes without a complete record after which a log is given up
MARK = 1024  # bytes at the beginning of a file, and before an offset, that are fingerprinted
WHOLE = 4 << 20  # bytes up to which a file stays in memory while several readers look at it


def fingerprint(data: bytes) -> int:
    """Return the XXH3 of some bytes."""
    return xxhash.xxh3_64_intdigest(data)


class Content:
    """An open file as its unpacked bytes. Use as a context manager.

    Opening never blocks (a FIFO in the place of a file is refused). ``damage`` is set when packed content turned out
    broken or cut.
    """

    def __init__(self, path: str, *, max_unpacked: int, max_document: int, open_file: Open = RegularFile) -> None:
        self._file = open_file(path)
        self.status = self._file.status
        try:
            self.raw_head = self._file.read(HEAD, 0)
        except BaseException:
            self._file.close()
            raise
        self.packing: Packing = sniff(self.raw_head)
        self.damage: Damaged | None = None
        self.unpacked_all = False
        self.bytes_read = 0
        self.max_unpacked = max_unpacked
        self._max_document = max_document
        self._whole: bytes | None = None

    def __enter__(self) -> Content:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    @property
    def size(self) -> int:
        """Size on disk."""
        return self.status.st_size

    def _unpacked(self) -> Iterator[bytes]:
        return unpacked(self._file.read, self.packing, Budget(self.size, self.max_unpacked))

    def raw(self, offset: int, length: int) -> bytes:
        """Return bytes as they are on disk, fewer at the end of the file."""
        return self._file.read(length, offset)

    def head(self) -> bytes:
        """Return the first 8 KB of content. Raises TooBig."""
        if not self.packing:
            return self.raw_head
        parts, total = [], 0
        try:
            for piece in self._unpacked():
                parts.append(piece)
                total += len(piece)
                if total >= HEAD:
                    break
        except Damaged as damage:
            self.damage = damage
        return b"".join(parts)[:HEAD]

    def blocks(self, offset: int) -> Iterator[bytes]:
        """Yield the content from ``offset`` on, in pieces. Raises TooBig."""
        if self._whole is not None:
            if offset < len(self._whole):
                yield self._whole[offset:] if offset else self._whole
        elif not self.packing:
            if offset == 0 and self.size <= WHOLE:
                self._whole = self._file.read(self.size, 0)
                self.bytes_read += len(self._whole)
                if self._whole:
                    yield self._whole
                return
            while offset < self.size:
                data = self._file.read(min(BLOCK, self.size - offset), offset)
                if not data:
                    return
                offset += len(data)
                self.bytes_read += len(data)
                yield data
        else:
            yield from self._unpacked_blocks(offset)

    def exceeds(self, offset: int, limit: int) -> bool:
        """Whether there are more than ``limit`` bytes of content from ``offset`` on. Raises TooBig for what is never read."""
        if not self.packing:
            return self.size - offset > limit
        total = 0
        try:
            for piece in self._unpacked():
                total += len(piece)
                if total > offset + limit:
                    return True
        except Damaged:
            pass
        return False

    @property
    def streamed(self) -> bool:
        """Whether content comes in blocks one after another; else ``piece`` can read anywhere."""
        return bool(self.packing) or self._whole is not None or self.size <= WHOLE

    def piece(self, offset: int, length: int) -> bytes:
        """Return some bytes of a file that is not packed."""
        data = self._file.read(length, offset)
        self.bytes_read += len(data)
        return data

    def _unpacked_blocks(self, offset: int) -> Iterator[bytes]:
        parts: list[bytes] = []
        total = 0
        skip = offset
        try:
            for piece in self._unpacked():
                self.bytes_read += len(piece)
                if skip >= len(piece):
                    skip -= len(piece)
                    continue
                if skip:
                    piece, skip = piece[skip:], 0
                parts.append(piece)
                total += len(piece)
                if total >= BLOCK:
                    yield b"".join(parts)
                    parts, total = [], 0
            self.unpacked_all = True
        except Damaged as damage:
            self.damage = damage
        if parts:
            yield b"".join(parts)

    def whole(self) -> bytes:
        """Return the whole content. Raises TooBig if it does not fit the limit for documents.

        Packed content is unpacked twice, first to count, so that only what fits is kept.
        """
        if self._whole is None:
            too_big = TooBig(f"larger than {self._max_document >> 20} MB (max-file-mb)")
            if self.exceeds(0, self._max_document):
                raise too_big
            parts, total = [], 0
            for block in self.blocks(0):
                total += len(block)
                if total > self._max_document:
                    raise too_big
                parts.append(block)
            self._whole = parts[0] if len(parts) == 1 else b"".join(parts)
        return self._whole

    def prefix(self, length: int) -> tuple[xxhash.xxh3_64, int]:
        """Hash the first ``length`` bytes of content. Returns the hasher, and how many there are. Raises TooBig."""
        digest = xxhash.xxh3_64()
        done = 0
        for block in self.blocks(0):
            part = block[: length - done]
            digest.update(part)
            done += len(part)
            if done >= length:
                break
        return digest, done

    def mark(self, offset: int) -> int:
        """Return the fingerprint of the bytes (at most MARK) before ``offset`` of a file that is not packed."""
        begin = max(0, offset - MARK)
        return fingerprint(self._file.read(offset - begin, begin))
