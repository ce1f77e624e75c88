"""The file kinds of Spark applications: event logs, and archives of them."""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Iterable, Iterator
from typing import Any

import polars as pl

from engine.core.compression import Budget, TooBig
from engine.core.reading import HEAD, Document, FileKind, Log, Problem, Problems, Reading, Source, clean
from engine.core.tables import Table
from engine.formats import archives, json_text
from engine.job_heuristics.spark.reading.events import NO_EVENT, event
from engine.job_heuristics.spark.reading.log_rows import HANDLERS, IGNORED, LogRows
from engine.job_heuristics.spark.tables import SPARK_INPUTS

_HEAD = re.compile(rb'\s*\{\s*"Event"\s*:\s*"(?:SparkListener|org\.apache\.spark\.|com\.databricks\.|DBCEventLogging)')
_NAME = re.compile(rb'\s*\{\s*"Event"\s*:\s*"([^"\\]{1,300})"')
PREFIX = b'{"Event":"'  # how Spark begins each line
MOST_LINE = 64 << 20
"""Most bytes of a line. The longest in real logs, plans of huge queries, have a few MB; decoded, they take several
times as much memory."""
_RUN = b"\n" * 64
_BLANK_LINES = re.compile(_RUN + rb"\n*+")
"""Runs of blank lines, skipped at once: one by one they would take longer than events."""
GROWING = ".inprogress"  # suffix of a log's name while its application runs


def read_lines(rows: LogRows, lines: Iterable[bytes]) -> None:
    """Read complete lines; ``rows.line`` counts them."""
    start = len(PREFIX)
    for line in lines:
        rows.line += 1
        if len(line) > MOST_LINE:
            rows.problem("long-line", f"an event of {len(line) >> 20} MB is left out: more than {MOST_LINE >> 20} MB")
            continue
        if line.startswith(PREFIX):
            name = line[start : line.find(b'"', start, start + 300)]
        else:
            if not line or line.isspace():
                continue
            found = _NAME.match(line)
            if found is None:
                rows.problem(NO_EVENT, "no event of Spark")
                continue
            name = found.group(1)
        if name in HANDLERS:
            kind, handle = HANDLERS[name]
            if (decoded := event(line, kind, rows.problem)) is not None:
                handle(rows, decoded)
        elif name not in IGNORED:
            rows.unknown(name)


def is_whole(line: bytes) -> bool:
    """Whether an unterminated last line is a whole event."""
    try:
        return isinstance(json_text.parse("", line).value, dict)
    except json_text.ERRORS:
        return False


class EventLog(Log):
    """Spark's event logs, single files and parts of rolling ones."""

    id = "spark-event-log"
    marks = ('"event"', "sparklistener")
    title = (
        "Spark event logs, 1.3 to 4.x: single files, rolling folders and Databricks' parts, also packed by zstd, lz4, snappy, "
        "lzf or gzip"
    )
    tables: tuple[Table, ...] = SPARK_INPUTS
    ends_cut = True

    def recognise(self, name: str, head: bytes) -> bool:
        """Recognise it by the first event."""
        return _HEAD.match(head) is not None

    def read(self, source: Source, data: bytes, state: Any, final: bool) -> Reading:
        """Read new lines. ``state``: number of lines read, and length of an incomplete last line."""
        state = dict(state) if isinstance(state, dict) else {"line": 0}
        rows = LogRows(source.path, int(state.get("line", 0)))
        end, at = data.rfind(b"\n") + 1, 0
        tail = data[end:]
        for run in _BLANK_LINES.finditer(data) if _RUN in data else ():
            read_lines(rows, data[at : run.start()].split(b"\n"))
            rows.line += len(run[0]) - 1
            at = run.end()
        read_lines(rows, data[at:end].split(b"\n")[:-1])
        if final and tail and not tail.isspace() and state.get("cut") != len(tail):
            if is_whole(tail):
                read_lines(rows, (tail,))
                rows.line -= 1  # its line end comes later
                end = len(data)
            else:
                rows.line += 1
                rows.app_event("CUT", name=f"line {rows.line} is cut")
                # A log may be incomplete because its application runs; names of rolling logs do not tell.
                if not (source.name.endswith(GROWING) or source.name.startswith("events_")):
                    rows.problem("cut-file", "the log ends inside its last event")
                rows.line -= 1
                state["cut"] = len(tail)
        state["line"] = rows.line
        return rows.reading(end, state)


MOST_ENTRIES = 10_000
_BLOCK = 4 << 20  # bytes of a log that are read at once


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
        first = archives.first_name(head)
        logs = (b"eventlog_v2_", b"events_", b"application_", b"app-", b"local-", b"spark-")
        return first is not None and (name.startswith("eventLogs") or first.startswith(logs))

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
                    frames.setdefault(table.name, []).append(
                        table.frame(reading.rows[table.name]).with_columns(log=pl.lit(name))
                    )

        waiting, state = b"", None
        for block in _blocks(archives.pieces(archive, entry, budget, damaged, packed=True)):
            if state is None and not self._log.recognise(name, block[:HEAD]):
                return
            waiting += block
            if len(waiting) > _BLOCK + MOST_LINE:
                raise TooBig(f"no line end in {MOST_LINE >> 20} MB")
            reading = self._log.read(within, waiting, state, False)
            take(reading)
            waiting, state = waiting[reading.consumed :], reading.state
        take(self._log.read(within, waiting, state, True))


def _blocks(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Join ``pieces`` to blocks; the last block, with the rest, may be empty."""
    parts: list[bytes] = []
    total = 0
    for piece in pieces:
        parts.append(piece)
        total += len(piece)
        if total >= _BLOCK:
            yield b"".join(parts)
            parts, total = [], 0
    yield b"".join(parts)


KINDS: tuple[FileKind, ...] = (EventLog(), Archive())  # in the order of the page of formats
