"""Read zip archives of unknown origin entry by entry; nothing is written anywhere."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Callable, Iterator
from typing import cast

from engine.core.compression import Budget, Damaged, Packing, sniff
from engine.formats.unpack import unpacked

MAGIC = b"PK\x03\x04"  # first bytes of an archive, and of the header in front of each entry


def first_name(head: bytes) -> bytes | None:
    """Return the name of the first entry of an archive that begins with ``head``; None if that is no archive."""
    return head[30 : 30 + int.from_bytes(head[26:28], "little")] if head.startswith(MAGIC) else None


def pieces(
    archive: zipfile.ZipFile, entry: zipfile.ZipInfo, budget: Budget, damaged: Callable[[str], None], *, packed: bool
) -> Iterator[bytes]:
    """Yield the content of an entry; ``packed``: if the entry is itself a compressed file, unpack that too.

    ``damaged`` is told what ends the entry early. Raises TooBig where ``budget`` ends.
    """
    try:
        with archive.open(entry) as stream:
            packing: Packing = sniff(cast("zipfile.ZipExtFile", stream).peek(16) if packed else b"")
            yield from unpacked(lambda length, offset: stream.read(length), packing, budget)
    except (zipfile.BadZipFile, zlib.error, Damaged, EOFError, RuntimeError, OSError) as error:
        damaged(str(error) or type(error).__name__)
