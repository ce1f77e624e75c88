"""Compression of files: how it is recognised, how much may be unpacked, names without compression and rotation endings."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Literal, get_args

import msgspec

Packing = Literal["", "gzip", "zstd", "lz4", "snappy", "lzf"]
PACKED = (".gz", ".gzip", ".zst", ".zstd", ".lz4", ".snappy", ".lzf")  # name endings of compressed files
_ROTATED = re.compile(r"(?:[.-]\d{1,3}|[.-]\d{4}-?\d{2}-?\d{2}(?:[-T_.]?\d{2,6})?)$")


MAX_RATIO = 500
"""Maximum compression ratio of a file that unpacks to more than ``RATIO_FROM``; beyond it is taken for a bomb."""
RATIO_FROM = 64 << 20  # unpacked bytes that even the smallest file may have
MOST_UNPACKED = 1 << 30  # default limit of unpacked bytes per file


_BEGINNINGS: dict[bytes, Packing] = {
    b"\x1f\x8b\x08": "gzip", b"\x28\xb5\x2f\xfd": "zstd",
    # The containers of Hadoop's and Spark's Java libraries, see engine/formats/unpack.py.
    b"LZ4Block": "lz4", b"\x82SNAPPY\x00": "snappy", b"ZV\x00": "lzf", b"ZV\x01": "lzf",
}  # fmt: skip


class TooBig(ValueError):
    """Raised for content that is larger than its limit; the message says which and how to raise it."""


class Budget(msgspec.Struct):
    """Limit on unpacked bytes per file, over all members, frames, blocks and archives in it.

    ``packed``: its size on disk; ``limit``: the setting max-unpacked-mb, in bytes; ``taken``: unpacked so far.
    """

    packed: int
    limit: int = MOST_UNPACKED
    taken: int = 0

    def take(self, size: int) -> None:
        """Count ``size`` more unpacked bytes, if possible before unpacking them. Raises TooBig."""
        self.taken += size
        if self.taken > self.limit:
            raise TooBig(f"unpacks to more than {self.limit >> 20} MB (max-unpacked-mb)")
        if self.taken > RATIO_FROM and self.taken > MAX_RATIO * self.packed:
            raise TooBig(f"unpacks to more than {MAX_RATIO} times its size: taken for a bomb")


class Damaged(Exception):
    """Raised for compressed content that is broken or ends early (``cut``); what came before was good."""

    def __init__(self, reason: str, *, cut: bool) -> None:
        super().__init__(reason)
        self.cut = cut

    def __reduce__(self) -> tuple[Callable[..., Damaged], tuple[str]]:
        return partial(Damaged, cut=self.cut), (str(self),)


def sniff(head: bytes) -> Packing:
    """Return how a file that begins with ``head`` is compressed; empty if it is not."""
    return next((packing for begin, packing in _BEGINNINGS.items() if head.startswith(begin)), "")


def packing_of(text: str) -> Packing:
    """Return the compression called ``text``, empty for an unknown name."""
    return next((packing for packing in get_args(Packing) if packing == text), "")


def stem(name: str, packing: Packing) -> str:
    """Return ``name`` without its compression ending, if the file is compressed."""
    if not packing or not name.lower().endswith(PACKED):
        return name
    endings = (ending for ending in PACKED if name.lower().endswith(ending) and len(name) > len(ending))
    return name[: len(name) - len(next(endings, ""))]


def unrotated(name: str) -> str:
    """Return ``name`` without the ending that log rotation gave it (``app.log.1``, ``app.log-20240501``)."""
    return _ROTATED.sub("", name) if name[-1:].isdecimal() else name


def group_of(path: str) -> tuple[str, str]:
    """Return folder and bare name (no compression or rotation ending), which a file shares with its compressed copies."""
    folder, _, name = path.rpartition("/")
    return folder, unrotated(stem(name, "gzip"))
