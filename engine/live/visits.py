"""Visits to files: which are due, which process reads them, and how rows read elsewhere get into the stores."""

from __future__ import annotations

import io
import logging
import time
from collections.abc import Callable, Mapping, Sequence

import polars as pl

from engine.core.compression import PACKED
from engine.core.reading import clean
from engine.core.view import View
from engine.live.files.scan import Scanner, Stat
from engine.live.files.tracked_file import TrackedFile
from engine.live.files.watch import GIVES_WAY_S
from engine.live.ingest.follower import Follower
from engine.live.options import LiveSettings
from engine.live.pool import tasks
from engine.live.pool.file_state import adopt
from engine.live.pool.guard import Answer, Guard
from engine.live.pool.read_ahead import ReadAhead
from engine.live.pool.reading_pool import ReadingPool, module_of, start
from engine.live.pool.tasks import FileTask
from engine.live.pool.worker import FilesRead

log = logging.getLogger(__name__)


class Batch:
    """Files read elsewhere, taken one by one; ``flush`` puts their rows into the stores."""

    def __init__(self, read: FilesRead, follower: Follower) -> None:
        """Open the rows. Raises OSError, PolarsError, ValueError if they cannot be used."""
        self._follower = follower
        self._stores = follower.registry.stores
        self._files = read.files
        self._file, self._places = read.open(), read.places
        self._ids: dict[str, dict[int, int]] = {}
        self._taken: list[TrackedFile] = []
        follower.bytes_read += read.bytes_read
        if self._file.seek(0, io.SEEK_END) < max((place[-1] for place in self._places), default=0):
            raise ValueError("rows are missing")
        if not all(self._stores[view].fits([(name, schema)]) for view, name, _, schema, _, _ in self._places):
            raise ValueError("rows of other tables")

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
            for view in self._ids:
                self._follower.registry.flush(view)
            for view, name, provisional, _, begin, end in self._places:
                if view in self._ids:
                    self._file.seek(begin)
                    frame = pl.read_ipc_stream(io.BytesIO(self._file.read(end - begin)))
                    self._stores[view].put_frames(name, frame, self._ids[view], provisional=provisional)
        except (OSError, pl.exceptions.PolarsError) as error:
            for file in self._taken:
                self._follower.registry.release_all(file)
                self._follower.failed(file, error)
        self._ids, self._taken = {}, []


class Merger:
    """Takes files from a pool instead of reading them, in the order in which a session comes to them."""

    def __init__(self, pool: ReadingPool | ReadAhead, follower: Follower) -> None:
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
            read = self._pool.result(index)
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


BATCH_FILES = 1000  # files whose rows become one piece of the store, at most
DUE_AT_ONCE = 4  # files up to which all that are due are looked at together
REST = 10  # factor of the time spent on a file that was given up: it is not tried again before
_STEP_S = 0.1
Progress = Callable[[float, str], None]  # called with a fraction 0-1 and what is being done


class Visits:
    """Visits files with a follower; remembers which must be visited again, and which have problems."""

    def __init__(
        self,
        follower: Follower,
        scanner: Scanner,
        views: Mapping[str, View],
        settings: LiveSettings,
        pool: ReadingPool | ReadAhead | None,
    ) -> None:
        """``pool``: worker processes that already read what a first scan has found."""
        self._follower = follower
        self._registry = follower.registry
        self._scanner = scanner
        self._views = views
        self._settings = settings
        self._pool = pool
        self.guard = Guard(settings, scanner.roots, lambda names: tuple(module_of(views[name]) for name in names))
        self.waiting: set[TrackedFile] = set()
        self.with_problems: set[TrackedFile] = set()
        self.closed = False
        self._elsewhere = False  # whether another process can have all views

    def forget(self, file: TrackedFile) -> None:
        """Forget a file that is gone."""
        self.waiting.discard(file)
        self.with_problems.discard(file)
        self.guard.forget(file)

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

    def read(
        self, visits: Mapping[TrackedFile, bool], final: bool, progress: Progress | None, patience_s: float
    ) -> set[TrackedFile]:
        """Visit these files, with a pool of worker processes if that pays. Returns others that were read meanwhile.

        Another process reads what is too much for this one. A ``final`` visit waits for each such file; any other waits
        ``patience_s`` seconds at the end for all of them, unless it has read others and these are small, and leaves the
        rest to a later call.
        """
        self._elsewhere = all(module_of(view) for view in self._views.values())
        done = self._collect(final)
        # Plain files first: a packed copy beside one is then known as such.
        order = sorted(visits, key=lambda file: (file.path.endswith(PACKED), file.path))
        pool, self._pool = self._pool or self._new_pool(order, final), None
        merger = Merger(pool, self._follower) if pool is not None else None
        try:
            for count, file in enumerate(order, 1):
                if self.closed:
                    return done
                self._visit(file, final, visits[file], merger)
                if final:
                    done |= self._settle(float("inf"), final, progress)
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
        small = all(file.seen_stat is not None and file.seen_stat[0] <= tasks.SMALL for file in self.guard)
        if small and any(file.stat is not None for file in order):
            patience_s = 0.0  # other data can be shown, and these come as soon as a process has started
        return done | self._settle(patience_s, final, progress)

    def _new_pool(self, order: Sequence[TrackedFile], final: bool) -> ReadingPool | None:
        """Start worker processes for the files never read before, if that pays."""
        stats = {file: self._scanner.stat_of(file.path) for file in order if file.stat is None}
        files = [FileTask(file.path, file.root, stat) for file, stat in stats.items() if stat is not None]
        modules = [module_of(view) for view in self._views.values()]
        return start(files, modules, self._settings, self._scanner.roots, final=final)

    def _visit(self, file: TrackedFile, final: bool, force: bool, merger: Merger | None) -> None:
        """Read what is new of one file, or take what a worker has read, or let another process read it."""
        if file in self.guard:
            return
        here = True
        try:
            stat = self._scanner.stat_of(file.path) if merger is not None else None
            if merger is None or stat is None or not merger.take(file, stat):
                can_pass_on = self.guard.usable and self._elsewhere
                at_most = (0 if file.suspect else tasks.SMALL) if can_pass_on else None
                here = self._follower.visit(file, final=final, force=force, at_most=at_most)
        # A bug hit by one file must not stop the others; a panic of Polars is not an Exception.
        except (Exception, pl.exceptions.PanicException) as error:
            self._follower.failed(file, error)
        if not here:
            if final or time.monotonic() >= file.rests_until:
                self.guard.put(file, final=final)
            else:
                file.due = file.rests_until
        self._note(file)

    def _note(self, file: TrackedFile) -> None:
        """Remember whether ``file`` must be visited again, and whether it has problems."""
        (self.waiting.add if file.due is not None else self.waiting.discard)(file)
        (self.with_problems.add if file.problems else self.with_problems.discard)(file)

    # -- what another process reads ------------------------------------------------------------------------------

    def _settle(self, patience_s: float, final: bool, progress: Progress | None) -> set[TrackedFile]:
        """Wait at most ``patience_s`` for the other process. Returns the files that it has read."""
        done: set[TrackedFile] = set()
        until = time.monotonic() + patience_s
        while self.guard and not self.closed and (left := until - time.monotonic()) > 0:
            if progress is not None and not final:
                progress(1.0, clean(next(iter(self.guard)).path.rpartition("/")[2]))
            self.guard.wait(min(left, _STEP_S))
            done |= self._collect(final)
        return done

    def _collect(self, final: bool) -> set[TrackedFile]:
        """Take over what another process has read. Returns those files."""
        done: set[TrackedFile] = set()
        while (answer := self.guard.take()) is not None:
            self._take(answer)
            done.add(answer.file)
            self._note(answer.file)
            stat = self._scanner.stat_of(answer.file.path)
            changed = stat is not None and stat[2:] != answer.stat
            unread = answer.read is None and answer.problem is None
            if changed or unread or answer.file.path != answer.path or answer.file.head_length < 0:
                self._visit(answer.file, final, False, None)
        return done

    def _take(self, answer: Answer) -> None:
        file = answer.file
        if answer.read is not None:
            try:
                batch = Batch(answer.read, self._follower)
                batch.take(file, answer.path, recognised=True)
                batch.flush()
                file.suspect = False
            except (OSError, ValueError, pl.exceptions.PolarsError) as error:
                self._follower.failed(file, error)
        elif answer.problem is not None:
            self._follower.give_up(file, answer.problem)
            file.suspect, file.rests_until = True, time.monotonic() + REST * answer.took
