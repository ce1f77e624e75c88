"""What a worker process does: read whole files, or a piece of a large one."""

from __future__ import annotations

import gc
import importlib
import io
import os
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any

import msgspec
import polars as pl

from engine.core.compression import stem
from engine.core.inputs import FILE
from engine.core.problems import Problem
from engine.core.reading import HEAD_RESUMED, Resumable, Source
from engine.core.view import View
from engine.live.files.tracked_file import ReaderState, TrackedFile
from engine.live.ingest.file_content import BLOCK, Content
from engine.live.ingest.follower import Follower
from engine.live.ingest.log_reader import Piece
from engine.live.options import LiveSettings
from engine.live.pool import tasks
from engine.live.pool.file_state import FileState, put, state_of
from engine.live.pool.tasks import FileTask, PieceTask, Task
from engine.live.row_files import RowFiles
from engine.live.store import Store


@dataclass(frozen=True, slots=True)
class Frames:
    """Frames of tables in one file, each as Arrow IPC: a pipe would cost the session's thread its turn for every 64 KB.

    ``places``: name of the table, begin and end of each; a table of very many rows has several.
    """

    path: str
    places: tuple[tuple[str, int, int], ...]

    @classmethod
    def save(cls, folder: str, frames: Iterable[tuple[str, pl.DataFrame]]) -> Frames:
        """Write ``frames`` to a new file in ``folder``. Raises OSError."""
        places = []
        descriptor, path = tempfile.mkstemp(dir=folder)
        with open(descriptor, "wb") as file:
            for name, frame in frames:
                if frame.height:
                    begin = file.tell()
                    frame.write_ipc(file, compression="uncompressed")
                    places.append((name, begin, file.tell()))
        return cls(path, tuple(places))

    def open(self) -> OpenFrames:
        """Open the file, once: it is gone with what is returned. Raises OSError."""
        file = open(self.path, "rb")  # noqa: SIM115
        os.unlink(self.path)
        return OpenFrames(file, self.places)


@dataclass(frozen=True, slots=True)
class OpenFrames:
    """The frames of ``Frames``, of which one at a time is in memory."""

    file: IO[bytes]
    places: tuple[tuple[str, int, int], ...]

    def schemas(self) -> Iterator[tuple[str, pl.Schema]]:
        """Read name and schema of each. Raises OSError, PolarsError."""
        for name, data in self._read():
            yield name, pl.Schema(pl.read_ipc_schema(data))

    def __iter__(self) -> Iterator[tuple[str, pl.DataFrame]]:
        """Read them. Raises OSError, PolarsError."""
        for name, data in self._read():
            yield name, pl.read_ipc(data)

    def _read(self) -> Iterator[tuple[str, io.BytesIO]]:
        for name, begin, end in self.places:
            self.file.seek(begin)
            yield name, io.BytesIO(self.file.read(end - begin))


@dataclass(frozen=True, slots=True)
class FilesRead:
    """Files that were visited, by path, and their rows by view and table, firm and provisional ones."""

    files: dict[str, FileState]
    frames: dict[str, Frames]
    provisional: dict[str, Frames]
    bytes_read: int


@dataclass(frozen=True, slots=True)
class PieceRead:
    """A piece of a large file: as ``Piece``, with frames that lie in a file."""

    view: str
    kind: str
    begin: int
    end: int
    before: bytes
    after: bytes
    problems: tuple[Problem, ...]
    frames: Frames

    def piece(self) -> Piece:
        """Return it with its frames. Raises OSError, PolarsError."""
        parts: dict[str, list[pl.DataFrame]] = {}
        for name, frame in self.frames.open():
            parts.setdefault(name, []).append(frame)
        frames = {name: pl.concat(some) for name, some in parts.items()}
        return Piece(self.view, self.kind, self.begin, self.end, self.before, self.after, self.problems, frames)


_folder: str
_settings: LiveSettings
_workers: dict[tuple[str, ...], Worker] = {}


def initialise(folder: str, settings: LiveSettings) -> None:
    """Prepare this process for ``run``, once."""
    global _folder, _settings
    gc.freeze()
    gc.disable()  # readers make rows, hardly any cycles
    _folder, _settings = folder, settings


def run(task: Task) -> FilesRead | PieceRead | None:
    """Do ``task`` in the initialised process."""
    worker = _workers.get(task.modules)
    if worker is None:
        views = [importlib.import_module(module).VIEW for module in task.modules]
        worker = _workers[task.modules] = Worker(_folder, views, _settings)
    try:
        return worker.run(task)
    finally:
        gc.collect()


class Worker:
    """Reads files for ``views`` as a session with ``settings`` would; their rows go to ``folder``."""

    def __init__(self, folder: str, views: Sequence[View], settings: LiveSettings) -> None:
        self._folder = folder
        self._views = views
        self._settings = settings

    def run(self, task: Task) -> FilesRead | PieceRead | None:
        """Do ``task``."""
        if isinstance(task.work, PieceTask):
            return self._piece(task.work, task.final)
        return self._files(task.work, task.final)

    def _follower(self) -> Follower:
        aside = RowFiles(lambda: Path(self._folder))
        stores = {view.name: Store((t for kind in view.kinds for t in kind.tables), aside) for view in self._views}
        kinds = [(view.name, kind) for view in self._views for kind in view.kinds]
        follower = Follower(kinds, stores, self._settings, lambda: time.time_ns() // 1_000_000)
        follower.registry.budget = tasks.budget
        return follower

    # -- whole files -------------------------------------------------------------------------------------------

    def _files(self, tasks: Sequence[FileTask], final: bool) -> FilesRead:
        follower = self._follower()
        files = {task.path: file for task in tasks if (file := self._visited(follower, task, final)) is not None}
        stores = follower.registry.stores
        for view in stores:
            follower.registry.flush(view)
        frames = {view: Frames.save(self._folder, store.frames(provisional=False)) for view, store in stores.items()}
        loose = {view: Frames.save(self._folder, store.frames(provisional=True)) for view, store in stores.items()}
        states = {path: state_of(file) for path, file in files.items()}
        return FilesRead(states, frames, loose, follower.bytes_read)

    @staticmethod
    def _visited(follower: Follower, task: FileTask, final: bool) -> TrackedFile | None:
        """Visit a file. Returns None if the session had better do it, which knows more of it."""
        file = TrackedFile(task.stat[:2])
        follower.twins.place(file, task.path, task.root)
        if task.known is not None:
            put(file, task.known, follower.recogniser.by_id, follower.registry)
        try:
            follower.visit(file, final=final)
        except (Exception, pl.exceptions.PanicException) as error:
            follower.failed(file, error)
        finally:
            follower.twins.leave(file)
        if task.known is None and file.packing:
            follower.registry.release_all(file)  # it may be a copy of a file beside it
            return None
        return file

    # -- a piece of a large file -------------------------------------------------------------------------------

    def _piece(self, task: PieceTask, final: bool) -> PieceRead | FilesRead | None:
        """Read a piece. Returns None if it cannot be read without the bytes before it.

        The first piece of a file that cannot be read in pieces is the whole file.
        """
        file = TrackedFile(task.file.stat[:2])
        follower = self._follower()
        follower.twins.place(file, task.file.path, task.file.root)
        with Content(file.path, max_unpacked=1, max_document=1) as content:
            status = content.status
            if content.packing or (status.st_size, status.st_mtime_ns) != task.file.stat[2:4]:
                return None
            readers = follower.recogniser.readers(file, stem(os.path.basename(file.path), ""), content.head())
            if len(readers) == 1 and readers[0][1].append and isinstance(readers[0][1], Resumable):
                view, kind, name = readers[0]
                source = Source(file.shown, name, status.st_mtime_ns // 1_000_000, content.size)
                return self._records(
                    content, task, source, follower.registry.stores[view], ReaderState(view, kind, name)
                )
        return self._files((task.file,), final) if task.begin == 0 else None

    def _records(
        self, content: Content, task: PieceTask, source: Source, store: Store, reader: ReaderState
    ) -> PieceRead | None:
        kind: Any = reader.kind
        begin, state = 0, None
        if task.begin:
            begin = content.cut(kind, task.begin)
            if not begin:
                return None
            breaks = task.breaks + content.piece(task.begin, begin - task.begin).count(b"\n")
            state = kind.resume(source, content.raw(0, HEAD_RESUMED), breaks)
            if state is None:
                return None
        end = content.size
        if task.end < content.size:
            end = content.cut(kind, task.end)
        if not end:
            return None
        at, before, problems = begin, msgspec.msgpack.encode(state), list[Problem]()
        while at < end:
            data = content.piece(at, min(BLOCK, end - at))
            with tasks.budget(len(data)):
                reading = kind.read(replace(source, offset=at), data, state, False)
            if not reading.consumed:
                break
            store.put(1, reading.rows, store.check(reading.rows))
            problems += reading.problems
            state = reading.state
            at += reading.consumed
        if at == begin or store.flush():
            return None
        frames = ((name, frame.drop(FILE)) for name, frame in store.frames(provisional=False))
        after, saved = msgspec.msgpack.encode(state), Frames.save(self._folder, frames)
        return PieceRead(reader.view, kind.id, begin, at, before, after, tuple(problems), saved)
