"""Readers: they recognise a file by name and first bytes, and turn its bytes into rows and problems."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from engine.core.compression import MOST_UNPACKED, Budget
from engine.core.problems import Problem, Problems
from engine.core.tables import Rows, Table

HEAD = 8192
"""Bytes (after decompression) that recognition sees."""


@dataclass(frozen=True, slots=True)
class Source:
    """Where bytes come from. ``path`` is absolute, ``name`` the base name without a compression ending, ``mtime_ms``
    the file's modification time (epoch ms), ``size`` its size on disk in bytes, ``offset`` the byte (after
    decompression) at which the data given to ``read`` begin: 0, or where the last read of an append kind stopped.
    ``most_unpacked``: bytes that the file may unpack to (setting max-unpacked-mb)."""

    path: str
    name: str
    mtime_ms: int
    size: int
    offset: int = 0
    most_unpacked: int = MOST_UNPACKED

    def budget(self) -> Budget:
        """Return the budget for a reader that unpacks parts of the file by itself."""
        return Budget(self.size, self.most_unpacked)


@dataclass(slots=True)
class Reading:
    """The outcome of one ``read``.

    ``rows``: per declared table, columns (lists or arrays of equal length), a frame or, for very many rows, ``Parts``, without
    the ``file`` column, which the store adds. ``consumed``: bytes of ``data`` that were complete records; the rest is given
    again with what follows. ``state``: what the next ``read`` of this file needs; cached on disk, so it must survive msgspec's
    MessagePack (plain dicts, lists, strings, numbers, bytes). ``complete`` False: a document that does not parse *yet*; the
    store keeps the last good version and tries again.
    """

    rows: dict[str, Rows] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=Problems)
    consumed: int = 0
    state: Any = None
    complete: bool = True


@runtime_checkable
class FileKind(Protocol):
    """One file format as one view understands it.

    ``append`` True: the file grows by whole records and ``read`` is called with only the new bytes (``source.offset``
    > 0) and the ``state`` it returned last. False: ``read`` gets the whole file each time and replaces its rows.
    ``id`` names the kind, once per view; ``title`` is its line in ``docs/reference/files.md``. ``version`` changes whenever
    ``read`` would give other rows for the same bytes: it is part of the cache key. ``tables``: all tables that it may
    fill; rows of any other are refused.

    ``ends_cut = True``: a compressed file of this kind may end anywhere while it is being written, without a problem.

    A kind whose documents close themselves, as JSON does, may say so by
    ``closes = True``: one that parses has ended, with or without a line end, and is not read again once it is quiet.
    A kind that unpacks parts of its files by itself says ``unpacks = True``: even a small one is read outside of
    the session's process.
    A kind of documents that are overwritten in place, of which earlier versions are worth a look, says so by
    ``keeps_versions = True`` (``Inputs.past``).
    """

    id: str
    title: str
    append: bool
    version: int
    tables: tuple[Table, ...]

    def recognise(self, name: str, head: bytes) -> bool:
        """Whether a file called ``name`` (no compression ending) that begins with ``head`` is of this kind. Cheap.

        Every kind of every view is asked, and each that says yes reads the file, so never accept another tool's files."""
        ...

    def read(self, source: Source, data: bytes, state: Any, final: bool) -> Reading:
        """Turn bytes into rows. Never raises for bad data.

        ``final``: nothing will follow for now (a one-shot report, or the file has been quiet for some seconds), so a last record
        without its terminator is taken if it parses, or becomes a problem. With ``final`` False an incomplete last record is not
        consumed. A log is always read with ``final`` False first; the rest is given again with True, and its rows are undone
        when the file grows. A document is read with False while it may still be written.
        """
        ...


class Document:
    """Base of kinds whose files are read whole each time; a subclass raises ``version`` when its rows change."""

    append = False
    version = 1
    tables: tuple[Table, ...]


class Log(Document):
    """Base of kinds whose files grow by whole records, of which only the new bytes are read."""

    append = True


def from_first_character(head: bytes) -> bytes:
    """Strip leading blanks and byte order marks."""
    return head.lstrip(b"\xef\xbb\xbf \t\r\n")


def whole_lines(data: bytes, final: bool) -> bytes:
    """Return ``data`` up to its last line end; all of it if ``final``."""
    return data if final else data[: data.rfind(b"\n") + 1]
