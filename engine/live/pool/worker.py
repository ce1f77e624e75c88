"""What a worker process does: read files."""

from __future__ import annotations

import importlib
import os
import time
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


class FilesRead(msgspec.Struct, frozen=True):
    """Files that were visited, by path, and their rows: in the file at ``path``, or with that descriptor, each frame as a stream
    of Arrow IPC. A pipe would cost the session's thread its turn for every 64 KB.

    ``places``: view, table, whether rows are provisional, schema, begin and end of each; a table of many rows has several.
    """

    files: dict[str, FileState]
    path: str | int
    places: tuple[tuple[str, str, bool, pl.Schema, int, int], ...]
    bytes_read: int

    def open(self) -> IO[bytes]:
        """Open the file of rows, which is deleted: closing it frees its space. Works once. Raises OSError."""
        file = open(self.path, "rb", closefd=isinstance(self.path, str))  # noqa: SIM115
        if isinstance(self.path, str):
            os.unlink(self.path)
        return file


def run(task: Task, rows: IO[bytes] | None = None) -> FilesRead:
    """Read the files of ``task`` as a session would; their rows go to ``rows``, by default a new file in its folder."""
    rows = rows or open(f"{task.folder}/{os.getpid()}-{time.monotonic_ns()}", "xb")  # noqa: SIM115
    views: list[View] = [importlib.import_module(module).VIEW for module in task.modules]
    aside = RowFiles(lambda: Path(task.folder))
    stores = {view.name: Store((t for kind in view.kinds for t in kind.tables), aside) for view in views}
    kinds = [(view.name, kind) for view in views for kind in view.kinds]
    follower = Follower(kinds, stores, task.settings, task.roots, lambda: time.time_ns() // 1_000_000)
    follower.registry.budget = tasks.budget
    visited = ((each.path, _visited(follower, each, task.final)) for each in task.files)
    files = {path: file for path, file in visited if file is not None}
    places = []
    for view, store in stores.items():
        follower.registry.flush(view)
        for provisional in (False, True):
            for name, frame in store.frames(provisional=provisional):
                if frame.height:
                    begin = rows.tell()
                    frame.write_ipc_stream(rows, compression="uncompressed")
                    places.append((view, name, provisional, frame.schema, begin, rows.tell()))
    rows.flush()
    states = {path: state_of(file) for path, file in files.items()}
    return FilesRead(states, rows.name, tuple(places), follower.bytes_read)


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
