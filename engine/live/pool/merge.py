"""Merging of what worker processes have read into the session's stores."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping

import polars as pl

from engine.live.cache.manifest import add_reader, mark_read
from engine.live.files.scan import Stat
from engine.live.files.tracked_file import TrackedFile
from engine.live.ingest.follower import Follower
from engine.live.ingest.log_reader import Piece
from engine.live.pool.reading_pool import ReadingPool
from engine.live.pool.tasks import PieceTask
from engine.live.pool.worker import FilesRead, PieceRead
from engine.view import View

log = logging.getLogger(__name__)


class Merger:
    """Takes files from a pool instead of reading them, in the order in which a session comes to them."""

    def __init__(self, pool: ReadingPool, follower: Follower, views: Mapping[str, View]) -> None:
        self._pool = pool
        self._follower = follower
        self._kinds = {(view.name, kind.id): kind for view in views.values() for kind in view.kinds}
        self._index = -1
        self._batch: FilesRead | None = None
        self._first: PieceRead | None = None
        self._frames: dict[str, dict[str, pl.DataFrame]] = {}
        self._ids: dict[str, dict[int, int]] = {}

    def take(self, file: TrackedFile, stat: Stat) -> bool:
        """Merge ``file`` as a worker has read it. Returns False if it must be read here."""
        index = self._pool.place(file.path, stat)
        if index < 0 or file.readers or file.stat is not None:
            return False
        if index != self._index:
            self.flush()
            self._index, self._batch, self._first = index, None, None
            if not self._pool.claim(index):
                self._open(self._pool.result(index))
        read = self._batch.files.get(file.path) if self._batch is not None else None
        if read is None:
            return False
        file.head_length, file.head_mark, file.reason = read.head_length, read.head_mark, read.reason
        for view, entry in read.entries:
            reader = add_reader(self._follower.registry, view, self._kinds[view, entry.kind], file, entry)
            self._ids[view][entry.number] = reader.id
        mark_read(file, stat)
        file.verify, file.due = read.verify, read.due
        return True

    def _open(self, batch: FilesRead | PieceRead | None) -> None:
        if not isinstance(batch, FilesRead):
            self._first = batch
            return
        stores = self._follower.registry.stores
        try:
            frames = {view: saved.load() for view, saved in batch.frames.items()}
        except (OSError, pl.exceptions.PolarsError):
            log.warning("rows of a worker process cannot be used", exc_info=True)
            return
        if all(stores[view].fits(tables) for view, tables in frames.items()):
            self._batch, self._frames, self._ids = batch, frames, {view: {} for view in stores}
            self._follower.bytes_read += batch.bytes_read

    def flush(self) -> None:
        """Put the rows of the files taken so far into the stores."""
        for view, ids in self._ids.items():
            if ids:
                self._follower.registry.flush(view)
                self._follower.registry.stores[view].put_frames(self._frames[view], ids)
        self._frames, self._ids = {}, {}

    def pieces(self, file: TrackedFile, stat: Stat) -> Iterator[Piece | int]:
        """Yield, for a file that ``take`` has just left to be read here, what workers have read of it, in file order.

        An integer stands for a piece that they have not: the byte up to which to read here. Waits for each piece.
        """
        index = self._pool.place(file.path, stat)
        if index < 0 or index != self._index:
            return
        first = self._pool.tasks[index]
        for at in range(index, len(self._pool.tasks)):
            task = self._pool.tasks[at]
            if not (isinstance(task, PieceTask) and isinstance(first, PieceTask) and task.file is first.file):
                return
            read: FilesRead | PieceRead | None = self._first
            if at != index:
                read = None if self._pool.claim(at) else self._pool.result(at)
            try:
                yield read.piece() if isinstance(read, PieceRead) else task.end
            except (OSError, pl.exceptions.PolarsError):
                log.warning("rows of a worker process cannot be used", exc_info=True)
