"""Merge what other processes have read into the session's stores."""

from __future__ import annotations

import logging

import polars as pl

from engine.live.files.scan import Stat
from engine.live.files.tracked_file import TrackedFile
from engine.live.ingest.follower import Follower
from engine.live.pool.file_state import adopt
from engine.live.pool.reading_pool import ReadingPool
from engine.live.pool.worker import FilesRead, Frames, OpenFrames

log = logging.getLogger(__name__)


class Batch:
    """Files read elsewhere, taken one by one; ``flush`` puts their rows into the stores."""

    def __init__(self, read: FilesRead, follower: Follower) -> None:
        """Open the rows. Raises OSError, PolarsError, ValueError if they cannot be used."""
        self._follower = follower
        self._stores = follower.registry.stores
        self._files = read.files
        self._frames = [self._open(frames) for frames in (read.frames, read.provisional)]
        self._ids: dict[str, dict[int, int]] = {}
        self._taken: list[TrackedFile] = []
        follower.bytes_read += read.bytes_read

    def _open(self, saved: dict[str, Frames]) -> dict[str, OpenFrames]:
        opened = {view: frames.open() for view, frames in saved.items()}
        if not all(self._stores[view].fits(frames.schemas()) for view, frames in opened.items()):
            raise ValueError("rows of other tables")
        return opened

    def take(self, file: TrackedFile, path: str, *, recognised: bool) -> bool:
        """Set ``file`` to the state in which it was read. Returns False if it was not read.

        ``recognised``: the other process has gone on with what was known of it here; then all that it found counts.
        """
        state = self._files.get(path)
        if state is None or not (recognised or state.read):
            return False
        kinds, registry = self._follower.recogniser.by_id, self._follower.registry
        for view, ids in adopt(file, state, kinds, registry, recognised=recognised).items():
            self._ids.setdefault(view, {}).update(ids)
        self._taken.append(file)
        return True

    def flush(self) -> None:
        """Put the rows of the files taken so far into the stores; files whose rows are lost are given up."""
        try:
            for view, ids in self._ids.items():
                self._follower.registry.flush(view)
                for frames, provisional in zip(self._frames, (False, True), strict=True):
                    for name, frame in frames.get(view, ()):
                        self._stores[view].put_frames({name: frame}, ids, provisional=provisional)
        except (OSError, pl.exceptions.PolarsError) as error:
            for file in self._taken:
                self._follower.registry.release_all(file)
                self._follower.failed(file, error)
        self._ids, self._taken = {}, []


class Merger:
    """Takes files from a pool instead of reading them, in the order in which a session comes to them."""

    def __init__(self, pool: ReadingPool, follower: Follower) -> None:
        self._pool = pool
        self._follower = follower
        self._index = -1
        self._batch: Batch | None = None

    def take(self, file: TrackedFile, stat: Stat) -> bool:
        """Merge ``file`` as a worker has read it. Returns False if it must be visited here."""
        index = self._pool.place(file.path, stat)
        if index < 0 or file.readers or file.stat is not None:
            return False
        if index != self._index:
            self.flush()
            self._index, self._batch = index, None
            read = None if self._pool.claim(index) else self._pool.result(index)
            try:
                self._batch = Batch(read, self._follower) if read is not None else None
            except (OSError, ValueError, pl.exceptions.PolarsError):
                log.warning("rows of a worker process cannot be used", exc_info=True)
        file.suspect = self._pool.suspects(file.path)
        return self._batch is not None and self._batch.take(file, file.path, recognised=False)

    def flush(self) -> None:
        """Put the rows of the files taken so far into the stores."""
        if self._batch is not None:
            self._batch.flush()
