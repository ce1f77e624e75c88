"""Archives with event logs, as the history server gives them for download (``eventLogs-APPID.zip``)."""

from __future__ import annotations

import io
import zipfile
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import polars as pl

from engine.core.compression import Budget, Damaged, TooBig, sniff
from engine.core.problems import Problem, Problems
from engine.core.reading import HEAD, Document, Reading, Source
from engine.core.tables import Table
from engine.core.text import clean
from engine.formats.unpack import unpacked
from engine.job_heuristics.spark.reading.event_log import MOST_LINE, EventLog
from engine.job_heuristics.spark.tables import SPARK_INPUTS

MOST_ENTRIES = 10_000
_BLOCK = 4 << 20
"""Bytes of a log that are read at once."""
_MAGIC = b"PK\x03\x04"


class Archive(Document):
    """A zip of event logs: one log, or the parts of a rolling one, plain or compressed by a codec of Spark."""

    id = "spark-archive"
    title = "Archives of Spark event logs as the history server gives them (.zip)"
    tables: tuple[Table, ...] = SPARK_INPUTS
    unpacks = True

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
        budget = source.budget()
        try:
            with zipfile.ZipFile(io.BytesIO(data)) as archive:
                for entry in archive.infolist()[:MOST_ENTRIES]:
                    if entry.filename and not entry.is_dir() and entry.file_size:
                        self._entry(source, archive, entry, budget, frames, problems)
        except TooBig as error:
            problems.append(Problem.at(source.path, "too-big", f"{error}; the rest of the archive is left out"))
        except (zipfile.BadZipFile, ValueError, NotImplementedError, OSError) as error:
            problems.append(Problem.at(source.path, "damaged-archive", f"unreadable zip: {error}"))
            return Reading({}, problems, 0, complete=False)
        return Reading({name: pl.concat(parts) for name, parts in frames.items()}, problems, len(data))

    def _entry(
        self, source: Source, archive: zipfile.ZipFile, entry: zipfile.ZipInfo, budget: Budget,
        frames: dict[str, list[pl.DataFrame]], problems: list[Problem],
    ) -> None:  # fmt: skip
        """Read one log, block by block. Raises TooBig."""
        name = clean(entry.filename, 1000)
        within = Source(source.path, name.rpartition("/")[2], source.mtime_ms, entry.file_size)

        def damaged(reason: str) -> None:
            problems.append(Problem.at(source.path, "damaged-archive", f"{name}: {reason}"))

        def take(reading: Reading) -> None:
            problems.extend(reading.problems)
            for table in SPARK_INPUTS:
                if table.name in reading.rows:
                    frame = table.frame(reading.rows[table.name]).with_columns(log=pl.lit(name))
                    frames.setdefault(table.name, []).append(frame)

        waiting, state = b"", None
        for block in _blocks(archive, entry, budget, damaged):
            if state is None and not self._log.recognise(name, block[:HEAD]):
                return
            waiting += block
            if len(waiting) > _BLOCK + MOST_LINE:
                raise TooBig(f"no line end in {MOST_LINE >> 20} MB")
            reading = self._log.read(within, waiting, state, False)
            take(reading)
            waiting, state = waiting[reading.consumed :], reading.state
        take(self._log.read(within, waiting, state, True))


def _blocks(
    archive: zipfile.ZipFile, entry: zipfile.ZipInfo, budget: Budget, damaged: Callable[[str], None]
) -> Iterator[bytes]:
    """Yield the decompressed content of an entry; errors go to ``damaged``. Raises TooBig."""
    parts: list[bytes] = []
    total = 0
    try:
        with archive.open(entry) as stream:
            assert isinstance(stream, zipfile.ZipExtFile)
            for piece in unpacked(lambda length, offset: stream.read(length), sniff(stream.peek(16)), budget):
                parts.append(piece)
                total += len(piece)
                if total >= _BLOCK:
                    yield b"".join(parts)
                    parts, total = [], 0
    except (zipfile.BadZipFile, zlib.error, Damaged, EOFError, RuntimeError, OSError) as error:
        damaged(str(error) or type(error).__name__)
    yield b"".join(parts)
