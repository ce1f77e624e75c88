"""Archives with event logs, as the history server gives them for download (``eventLogs-APPID.zip``)."""

from __future__ import annotations

import io
import zipfile
import zlib
from collections.abc import Callable
from typing import Any

import polars as pl
import zstandard

from engine.core.problems import Problem, Problems
from engine.core.reading import HEAD, Reading, Source
from engine.core.tables import Table
from engine.core.text import clean
from engine.formats.unpack import BadBlock, Lz4Blocks, LzfBlocks, SnappyBlocks, Unpacker
from engine.job_heuristics.spark.reading.event_log import EventLog
from engine.job_heuristics.spark.tables.input import SPARK_INPUTS

MOST_UNPACKED = 2 << 30
"""Bytes of all logs of one archive that are unpacked."""
MOST_ENTRIES = 10_000
_STEP = 1 << 20
_MAGIC = b"PK\x03\x04"


class Archive:
    """A zip of event logs: one log, or the parts of a rolling one, each plain or packed by a codec of Spark."""

    id = "spark-archive"
    title = "Archives of Spark event logs as the history server gives them (.zip)"
    append = False
    version = 2
    tables: tuple[Table, ...] = SPARK_INPUTS

    def __init__(self) -> None:
        self._log = EventLog()

    def recognise(self, name: str, head: bytes) -> bool:
        """Recognise a zip by its magic bytes, and by its name or that of its first entry."""
        if not head.startswith(_MAGIC):
            return False
        first = head[30 : 30 + int.from_bytes(head[26:28], "little")]
        return name.startswith("eventLogs") or first.startswith(
            (b"eventlog_v2_", b"events_", b"application_", b"app-", b"local-", b"spark-")
        )

    def read(self, source: Source, data: bytes, state: Any, final: bool) -> Reading:
        """Read all logs of the archive."""
        problems: list[Problem] = Problems()
        frames: dict[str, list[pl.DataFrame]] = {}
        try:
            with zipfile.ZipFile(io.BytesIO(data)) as archive:
                left = MOST_UNPACKED
                for entry in archive.infolist()[:MOST_ENTRIES]:
                    if entry.filename and not entry.is_dir() and entry.file_size:
                        left -= self._entry(source, archive, entry, left, frames, problems)
        except (zipfile.BadZipFile, ValueError, NotImplementedError, OSError) as error:
            problems.append(Problem.at(source.path, "damaged-archive", f"no zip that can be read: {error}"))
            return Reading({}, problems, 0, complete=False)
        return Reading({name: pl.concat(parts) for name, parts in frames.items()}, problems, len(data))

    def _entry(
        self, source: Source, archive: zipfile.ZipFile, entry: zipfile.ZipInfo, left: int,
        frames: dict[str, list[pl.DataFrame]], problems: list[Problem],
    ) -> int:  # fmt: skip
        """Read one log. Returns how many bytes it unpacked to."""
        name = clean(entry.filename, 1000)
        content, damage = _unpacked(archive, entry, left)
        if damage:
            problems.append(Problem.at(source.path, "damaged-archive", f"{name}: {damage}"))
        if not self._log.recognise(name, content[:HEAD]):
            return len(content)
        within = Source(source.path, name.rpartition("/")[2], source.mtime_ms, len(content))
        reading = self._log.read(within, content, None, False)
        rest = self._log.read(within, content[reading.consumed :], reading.state, True)
        for one in (reading, rest):
            problems += one.problems
            for table in SPARK_INPUTS:
                if table.name in one.rows:
                    frame = table.frame(one.rows[table.name]).with_columns(log=pl.lit(name))
                    frames.setdefault(table.name, []).append(frame)
        return len(content)


def _unpacked(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, most: int) -> tuple[bytes, str]:
    """Return the content of an entry without its codec, at most ``most`` bytes, and what is wrong with it."""
    parts: list[bytes] = []
    total = 0
    codec: Unpacker | None = None
    try:
        with archive.open(entry) as stream:
            while raw := stream.read(_STEP):
                if not parts and codec is None:
                    codec = _codec(raw)
                for piece in codec.pieces(raw) if codec else (raw,):
                    parts.append(piece)
                    total += len(piece)
                    if total > most:
                        return b"".join(parts)[:most], f"more than {MOST_UNPACKED >> 20} MB in one archive"
    except (zipfile.BadZipFile, zlib.error, BadBlock, zstandard.ZstdError, EOFError, RuntimeError, OSError) as error:
        return b"".join(parts), str(error) or type(error).__name__
    return b"".join(parts), ""


class _Zstd:
    """A stream of Zstandard frames."""

    eof, unused = True, b""

    def __init__(self) -> None:
        self._inner = zstandard.ZstdDecompressor(max_window_size=1 << 27).decompressobj(read_across_frames=True)

    def pieces(self, data: bytes) -> list[bytes]:
        """Return what ``data`` unpacks to. Raises ZstdError."""
        return [self._inner.decompress(data[begin : begin + 4096]) for begin in range(0, len(data), 4096)]


def _codec(head: bytes) -> Unpacker | None:
    """Return what unpacks a stream that begins so, None if it is not packed."""
    codecs: tuple[tuple[bytes, Callable[[], Any]], ...] = (
        (b"\x28\xb5\x2f\xfd", _Zstd), (b"LZ4Block", Lz4Blocks), (b"\x82SNAPPY\x00", SnappyBlocks), (b"ZV", LzfBlocks),
    )  # fmt: skip
    return next((make() for magic, make in codecs if head.startswith(magic)), None)
