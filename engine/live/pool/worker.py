"""What a worker process does: read files."""

from __future__ import annotations

import gc
import importlib
import io
import os
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO

import msgspec
import polars as pl

from engine.core.view import View
from engine.live.files.tracked_file import TrackedFile
from engine.live.ingest.follower import Follower
from engine.live.pool import tasks
from engine.live.pool.file_state import FileState, put, state_of
from engine.live.pool.tasks import FileTask, Task
from engine.live.store import RowFiles, Store


class Frames(msgspec.Struct, frozen=True):
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


class OpenFrames(msgspec.Struct, frozen=True):
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


class FilesRead(msgspec.Struct, frozen=True):
    """Files that were visited, by path, and their rows by view and table, firm and provisional ones."""

    files: dict[str, FileState]
    frames: dict[str, Frames]
    provisional: dict[str, Frames]
    bytes_read: int


def run(task: Task) -> FilesRead:
    """Read the files of ``task`` as a session would; their rows go to its folder."""
    views: list[View] = [importlib.import_module(module).VIEW for module in task.modules]
    aside = RowFiles(lambda: Path(task.folder))
    stores = {view.name: Store((t for kind in view.kinds for t in kind.tables), aside) for view in views}
    kinds = [(view.name, kind) for view in views for kind in view.kinds]
    follower = Follower(kinds, stores, task.settings, task.roots, lambda: time.time_ns() // 1_000_000)
    follower.registry.budget = tasks.budget
    visited = ((each.path, _visited(follower, each, task.final)) for each in task.files)
    files = {path: file for path, file in visited if file is not None}
    for view in stores:
        follower.registry.flush(view)
    frames = {view: Frames.save(task.folder, store.frames(provisional=False)) for view, store in stores.items()}
    loose = {view: Frames.save(task.folder, store.frames(provisional=True)) for view, store in stores.items()}
    states = {path: state_of(file) for path, file in files.items()}
    gc.collect()
    return FilesRead(states, frames, loose, follower.bytes_read)


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
