"""Visits to files: which are due, and reading many of them, with a pool of worker processes if that pays."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

import polars as pl

from engine.live.files.compression import PACKED
from engine.live.files.scan import Scanner
from engine.live.files.tracked_file import TrackedFile
from engine.live.files.watch import GIVES_WAY_S
from engine.live.ingest.follower import Follower
from engine.live.options import LiveSettings
from engine.live.pool.merge import Merger
from engine.live.pool.reading_pool import WORTH_LATE, ReadingPool, module_of, start
from engine.live.pool.tasks import FileTask
from engine.text import clean
from engine.view import View

BATCH_FILES = 1000
"""Files whose rows become one piece of the store, at most."""
DUE_AT_ONCE = 4
"""Files up to which all that are due are looked at together."""
Progress = Callable[[float, str], None]
"""Called with a fraction 0-1 and what is being done."""


class Visits:
    """Visits files with a follower; remembers which must be visited again, and which have problems."""

    def __init__(
        self,
        follower: Follower,
        scanner: Scanner,
        views: Mapping[str, View],
        settings: LiveSettings,
        pool: ReadingPool | None,
    ) -> None:
        """``pool``: worker processes that already read what a first scan has found."""
        self._follower = follower
        self._registry = follower.registry
        self._scanner = scanner
        self._views = views
        self._settings = settings
        self._pool = pool
        self.waiting: set[TrackedFile] = set()
        self.with_problems: set[TrackedFile] = set()
        self.closed = False

    def forget(self, file: TrackedFile) -> None:
        """Forget a file that is gone."""
        self.waiting.discard(file)
        self.with_problems.discard(file)

    def next_due(self) -> float | None:
        """Return the monotonic time at which some file must be visited again, None if none waits."""
        return min((file.due for file in tuple(self.waiting) if file.due is not None), default=None)

    def due(self, hints: set[str] | None, final: bool) -> list[TrackedFile]:
        """Return the files to be looked at again.

        Hinted changes go before them for a moment; and of many that are due together a part is enough for one look:
        they are as they have been for seconds, and a change may come meanwhile.
        """
        until = float("inf") if final else time.monotonic() - (GIVES_WAY_S if hints else 0.0)
        due = [file for file in self.waiting if file.due is not None and file.due <= until]
        if hints is None or len(due) <= DUE_AT_ONCE:
            return due
        due.sort(key=lambda file: file.due or 0.0)
        return due[: max(DUE_AT_ONCE, len(due) // 4)]

    def read(self, visits: Mapping[TrackedFile, bool], final: bool, progress: Progress | None) -> None:
        """Visit these files, with a pool of worker processes if that pays."""
        # Plain files first: a packed copy beside one is then known as such.
        order = sorted(visits, key=lambda file: (file.path.endswith(PACKED), file.path))
        pool, self._pool = self._pool or self._new_pool(order, final), None
        merger = Merger(pool, self._follower, self._views) if pool is not None else None
        try:
            for count, file in enumerate(order, 1):
                if self.closed:
                    return
                self._visit(file, final, visits[file], merger)
                if count % BATCH_FILES == 0:
                    for name, store in self._registry.stores.items():
                        if store.gathered:
                            self._registry.flush(name)
                if progress is not None and (count % 64 == 1 or count == len(order)):
                    progress(count / len(order), clean(file.path.rpartition("/")[2]))
        finally:
            if merger is not None:
                merger.flush()
            if pool is not None:
                pool.close()

    def _new_pool(self, order: Sequence[TrackedFile], final: bool) -> ReadingPool | None:
        """Start worker processes for the files never read before, if that pays."""
        stats = {file: self._scanner.stat_of(file.path) for file in order if file.stat is None}
        files = [FileTask(file.path, file.root, stat) for file, stat in stats.items() if stat is not None]
        modules = [module_of(view) for view in self._views.values()]
        return start(files, modules, self._settings, worth=WORTH_LATE, final=final)

    def _visit(self, file: TrackedFile, final: bool, force: bool, merger: Merger | None) -> None:
        """Read what is new of one file, or take what a worker has read."""
        try:
            stat = self._scanner.stat_of(file.path) if merger is not None else None
            if merger is None or stat is None:
                self._follower.visit(file, final=final, force=force)
            elif not merger.take(file, stat):
                self._follower.visit(file, final=final, force=force, pieces=merger.pieces(file, stat))
        # A mistake of ours with one file must not keep the others from being read; one of Polars is no Exception.
        except (Exception, pl.exceptions.PanicException) as error:
            self._follower.give_up(file, error)
        (self.waiting.add if file.due is not None else self.waiting.discard)(file)
        (self.with_problems.add if file.problems else self.with_problems.discard)(file)
