"""The registry: which reader of which file filled which rows of which view."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import polars as pl

from engine.core.compression import unrotated
from engine.core.reading import Document, FileKind, Problem, Reading, Source, clean, fold, form_of
from engine.core.view import FileInfo, Inputs
from engine.live.files.tracked_file import FileIndex, ReaderState, TrackedFile
from engine.live.ingest.file_content import Content
from engine.live.store import BadRows, Store

log = logging.getLogger(__name__)


UNKNOWN = "not recognised"  # begin of the reason why a file is not read

LEAST = 0.5  # share of a format's marks from which on a file is near it


class Registry:
    """The store of each view, the readers that fill it, and the views that changed since they were last published."""

    def __init__(self, stores: dict[str, Store], recogniser: Recogniser) -> None:
        self.stores: dict[str, Store] = {}
        self.recogniser = recogniser
        self.versions: dict[str, int] = {}
        self.touched: set[str] = set()
        self.readers: dict[str, dict[int, ReaderState]] = {}
        self.indexes: dict[str, FileIndex] = {}
        self.with_problems: dict[str, set[ReaderState]] = {}
        self.budget: Callable[[int], AbstractContextManager[object]] = nullcontext  # of a reader for some bytes
        self.ahead: Any = None  # what another process reads of files (``ReadAhead``)
        self._last_id = 0
        for view, store in stores.items():
            self.admit(view, store)

    def admit(self, view: str, store: Store) -> None:
        """Add a view and its store."""
        self.stores[view], self.versions[view] = store, 0
        self.readers[view], self.indexes[view], self.with_problems[view] = {}, FileIndex(), set()

    # -- ids ---------------------------------------------------------------------------------------------------

    def register(self, reader: ReaderState) -> None:
        """Give ``reader`` a new id; rows under its old one are dropped."""
        if reader.id:
            self.release(reader)
        self._last_id += 1
        reader.id = self._last_id
        self.readers[reader.view][reader.id] = reader

    def know(self, reader: ReaderState, number: int) -> None:
        """Give ``reader`` an id that another process chose."""
        reader.id = number
        if number:
            self.readers[reader.view][number] = reader
            self._last_id = max(self._last_id, number)

    def release(self, reader: ReaderState) -> None:
        """Drop the rows of ``reader`` and forget it."""
        if reader.id:
            self.stores[reader.view].forget([reader.id])
            self.readers[reader.view].pop(reader.id, None)
            self.indexes[reader.view].drop(reader.id)
        self.with_problems[reader.view].discard(reader)
        self.touched.add(reader.view)

    def release_all(self, file: TrackedFile) -> None:
        """Drop all rows of ``file``."""
        for reader in file.readers:
            self.release(reader)
        file.readers = []
        file.problems = ()

    def restart(self, reader: ReaderState) -> None:
        """Drop the rows of ``reader`` and restart it at the first byte."""
        self.release(reader)
        fresh = ReaderState(reader.view, reader.kind, reader.name)
        for name in ("id", "consumed", "state", "mark", "hasher", "digest", "problems", "late_problems"):
            setattr(reader, name, getattr(fresh, name))
        reader.provisional = reader.rest = False
        reader.info = None

    def inherit(self, file: TrackedFile, old: TrackedFile) -> None:
        """Keep the last good rows of documents for ``file``, which replaced ``old`` at its path, until it is read."""
        documents = [reader for reader in old.readers if not reader.kind.append]
        old.readers = [reader for reader in old.readers if reader.kind.append]
        taken = {(reader.view, reader.kind.id) for reader in file.readers}
        for reader in documents:
            if (reader.view, reader.kind.id) in taken:
                self.release(reader)
            else:
                file.readers.append(reader)

    # -- reading -----------------------------------------------------------------------------------------------

    def call(
        self, file: TrackedFile, reader: ReaderState, content: Content, data: bytes, state: Any, final: bool
    ) -> tuple[Reading, int] | None:
        """Call the reader on ``data``. Returns its reading and the number of rows, None if it failed.

        Undeclared rows are a failure, too.
        """
        source = Source(
            file.shown,
            reader.name,
            content.status.st_mtime_ns // 1_000_000,
            content.size,
            reader.consumed if reader.kind.append else 0,
            content.max_unpacked,
        )
        try:
            with self.budget(len(data)):
                given = (file.path, content.status, reader.kind.id, source.offset, len(data), state)
                reading = self.ahead and self.ahead.take(*given)
                reading = reading or reader.kind.read(source, data, state, final)
            undeclared = reading.rows.keys() - {table.name for table in reader.kind.tables}
            if undeclared:
                raise BadRows(f"rows of {', '.join(sorted(undeclared))}, which is not among its tables")
            rows = self.stores[reader.view].check(reading.rows)
            if reader.kind.append:
                if not 0 <= reading.consumed <= len(data):
                    raise BadRows(f"consumed {reading.consumed} of {len(data)} bytes")
                if rows and not reading.consumed and not final:
                    raise BadRows("rows without consuming their bytes")
            return reading, rows
        except (Exception, pl.exceptions.PanicException) as error:  # Polars' own mistakes are no Exception
            self.recogniser.failed(file, reader.view, reader.kind, error)
            return None

    def describe(
        self, file: TrackedFile, reader: ReaderState, *, changed: bool, content: Content | None = None
    ) -> None:
        """Bring the reader's file info up to date. ``changed``: its rows have changed."""
        if changed:
            reader.version = self.versions[reader.view] + 1
            self.touched.add(reader.view)
        if reader.kind.append and reader.mark == -1 and content is not None:
            reader.mark = content.mark(reader.consumed) if not content.packing else 0
        if not changed and reader.info is None:
            return
        old = reader.info
        mtime_ms = old.mtime_ms if old is not None else 0
        size = old.size if old is not None else 0
        if content is not None and not (reader.stale and old is not None and not reader.kind.append):
            mtime_ms, size = content.status.st_mtime_ns // 1_000_000, content.size
        self.inform(
            reader,
            FileInfo(reader.id, file.shown, file.label, reader.kind.id, mtime_ms, size, reader.version, reader.stale),
        )

    def inform(self, reader: ReaderState, info: FileInfo | None) -> None:
        """Publish ``info`` for the reader's file."""
        if info is not None and info != reader.info:
            self.indexes[reader.view].put(info)
            self.touched.add(reader.view)
        reader.info = info

    def mark_stale(self, file: TrackedFile) -> None:
        """Mark all rows of ``file`` as stale."""
        for reader in file.readers:
            reader.stale = True
            self.describe(file, reader, changed=False)

    def note_problems(self, reader: ReaderState) -> None:
        """Remember whether ``reader`` has problems, so that a snapshot need not ask every file."""
        with_problems = self.with_problems[reader.view]
        (with_problems.add if reader.problems or reader.late_problems else with_problems.discard)(reader)

    def refuse(self, file: TrackedFile, reader: ReaderState, reason: str) -> None:
        """Give a file up: drop its rows and note the reason as a problem."""
        self.restart(reader)
        reader.stale = False
        reader.digest = None
        file.problems = (*file.problems, Problem.at(file.path, "too-big", reason))
        self.touched.add(reader.view)

    def publish(
        self, view: str, general: Iterable[Problem], files: Iterable[TrackedFile], roots: tuple[str, ...] = ()
    ) -> Inputs:
        """Return a new version of the view's inputs.

        ``general``: problems of no file; ``files``: those with problems of their own that no reader has; ``roots``: the
        watched paths.
        """
        self.flush(view)
        problems = list(general)
        for reader in self.with_problems[view]:
            problems += (*reader.problems, *reader.late_problems)
        for file in files:
            problems += file.problems
        self.versions[view] += 1
        version, rows = self.versions[view], self.stores[view].snapshot()
        infos, touched = self.indexes[view].snapshot(version)
        return Inputs(version, infos, fold(problems), rows, rows.of, touched, _parts=rows.parts, roots=roots)

    def flush(self, view: str) -> None:
        """Make frames of the gathered rows; files whose rows do not fit their tables get a problem."""
        for number, error in self.stores[view].flush().items():
            reader = self.readers[view].get(number)
            if reader is None:
                continue
            if self.recogniser.strict:
                raise error
            log.error("rows of reader %s of %s cannot be taken", reader.kind.id, view, exc_info=error)
            path = reader.info.path if reader.info is not None else reader.name
            reason = f"the reader {reader.kind.id} gave rows that do not fit its tables ({error}): please report"
            reader.problems = (*reader.problems, Problem.at(path, "reader-error", reason))
            self.note_problems(reader)


class Recogniser:
    """Asks the readers of all views; ``strict`` raises their programming errors."""

    def __init__(self, kinds: Sequence[tuple[str, FileKind]], *, strict: bool = False) -> None:
        self.kinds = tuple(kinds)
        self.strict = strict

    @property
    def by_id(self) -> dict[tuple[str, str], FileKind]:
        """All readers by view and id."""
        return {(view, kind.id): kind for view, kind in self.kinds}

    def readers(self, file: TrackedFile, name: str, head: bytes) -> list[tuple[str, FileKind, str]]:
        """Return view, reader and file name for every reader that takes the file.

        A log whose name no reader takes is offered once more without its rotation ending.
        """
        readers = self._ask(file, name, head, self.kinds) if head else []
        if head and not readers:
            bare = unrotated(name)
            if bare and bare != name:
                readers = self._ask(file, bare, head, [pair for pair in self.kinds if pair[1].append])
        return readers

    def nearest(self, head: bytes) -> str:
        """Word why no reader takes a file that begins with ``head``: the format that it comes nearest to, and what it lacks for
        it; if none is near, where the formats are listed."""
        if form_of(head) == "UTF-16":
            return f"{UNKNOWN}: it is UTF-16; write it as UTF-8"
        best, title, lacks = 0.0, "", ""
        for _, kind in self.kinds:
            share, missing = kind.lacks(head) if isinstance(kind, Document) else (0.0, "")
            if share > best:
                best, title, lacks = share, kind.title, missing
        if best < LEAST:
            view = self.kinds[0][0] if len({view for view, _ in self.kinds}) == 1 else "VIEW"
            return f"{UNKNOWN}: no reader knows such {form_of(head)}; loadlens feeds {view} lists what is read"
        return f"{UNKNOWN}; nearest known format: {title}; " + (
            f"missing: {lacks}" if lacks else "no line has its form"
        )

    def _ask(
        self, file: TrackedFile, name: str, head: bytes, kinds: Iterable[tuple[str, FileKind]]
    ) -> list[tuple[str, FileKind, str]]:
        readers = []
        shown = clean(name)
        for view, kind in kinds:
            try:
                if kind.recognise(shown, head):
                    readers.append((view, kind, shown))
            except Exception as error:
                self.failed(file, view, kind, error)
        return readers

    def failed(self, file: TrackedFile, view: str, kind: FileKind, error: BaseException) -> None:
        """Note a reader's programming error as a problem of the file. Raises it if strict."""
        if self.strict:
            raise error
        log.error("%s: reader %s of %s failed", clean(file.path), kind.id, view, exc_info=error)
        reason = f"the reader {kind.id} failed ({type(error).__name__}: {error}): please report"
        file.problems = (*file.problems, Problem.at(file.path, "reader-error", reason))
