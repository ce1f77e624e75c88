"""Session: roots and views in, immutable inputs and results out. The one object that front ends hold."""

from __future__ import annotations

import contextlib
import gc
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from types import MappingProxyType
from typing import Any

import msgspec

from engine.core.incremental import Memo
from engine.core.memory import limit
from engine.core.reading import Problem, clean, fold
from engine.core.view import Context, Inputs, Result, View
from engine.live.cache.cache_session import CacheSession
from engine.live.cache.location import make_rows_folder
from engine.live.files.scan import Changes, FirstScan, Scanner, absolute
from engine.live.files.tracked_file import FileStats, TrackedFile
from engine.live.files.watch import Watcher
from engine.live.ingest.catalogue import Catalogue
from engine.live.ingest.follower import Follower
from engine.live.ingest.registry import UNKNOWN
from engine.live.options import LiveSettings
from engine.live.pool.read_ahead import ReadAhead
from engine.live.pool.reading_pool import ReadingPool
from engine.live.status import RootStatus, Status
from engine.live.store import RowFiles, Store
from engine.live.visits import Progress, Visits

__all__ = ["LiveSettings", "Session", "Status", "wall_clock"]

ROWS_SHARE = 8  # divisor of the memory limit: the rows of one view may take an eighth of it
PATIENCE_S = 5.0  # seconds that a scan waits for files that another process reads, after all others


def wall_clock() -> int:
    """Return the time of day in epoch milliseconds."""
    return time.time_ns() // 1_000_000


ENDINGS = (".json", ".txt", ".csv", ".tsv", ".xml", ".jtl")
"""Endings of files that are to hold data: an empty one is worth a word."""


class Session:
    """What is below some roots, as the inputs of some views, kept up to date.

    ``scan`` looks once; ``watch`` keeps looking until stopped. Both may run in another thread than ``inputs`` and
    ``compute``: snapshots are immutable. The session gets its views; this module imports none. ``strict`` raises a
    reader's programming error instead of making it a problem (tests).
    """

    def __init__(
        self,
        roots: Sequence[str | Path],
        views: Sequence[View],
        *,
        settings: LiveSettings | None = None,
        now_ms: Callable[[], int] = wall_clock,
        strict: bool = False,
        first_scan: FirstScan | None = None,
        pool: ReadingPool | ReadAhead | None = None,
        budget: Callable[[int], AbstractContextManager[object]] = contextlib.nullcontext,
    ) -> None:
        """``first_scan``: a scan of these roots, just done, with which ``scan`` begins; ``pool``: processes that already
        read what it found; ``budget``: a context for each call of a reader, by the number of bytes it is given."""
        self.roots = absolute(roots)
        self.views: dict[str, View] = {}
        self.settings = settings or LiveSettings()
        self._now_ms = now_ms
        usable = first_scan if first_scan is not None and first_scan.roots == self.roots else None
        self._scanner = usable.scanner if usable is not None else Scanner(self.roots, self.settings)
        self._scanned = usable.changes if usable is not None else None
        self._follower = Follower([], {}, self.settings, self.roots, now_ms, strict=strict)
        self._registry = self._follower.registry
        self._registry.budget = budget
        self._registry.ahead = pool if isinstance(pool, ReadAhead) else None
        self._catalogue = Catalogue(self._follower)
        self._newcomers: list[str] = []
        self._visits = Visits(self._follower, self._scanner, self.views, self.settings, pool)
        self._general: tuple[Problem, ...] = ()
        self._problems: tuple[Problem, ...] = ()
        self._lock = threading.RLock()
        self._compute_locks: dict[str, threading.Lock] = {}
        self._memos: dict[str, Memo] = {}
        self._inputs: dict[str, Inputs] = {}
        self._keeping: dict[str, frozenset[str]] = {}  # by view, its kinds of which earlier versions are kept
        self.memory = limit(self.settings.memory_mb)
        self._row_files = RowFiles(lambda: make_rows_folder(self.settings))
        self._cache: CacheSession | None = None
        if self.settings.cache and self.settings.cache_max_mb > 0:
            self._cache = CacheSession(self.settings, self.views, self._registry)
        self._watcher = Watcher(self.roots, self.settings, self)
        self._visits.guard.done = self._watcher.wake
        self._status = Status(roots=tuple(RootStatus(clean(root, 4096), "idle") for root in self.roots))
        self._stats = FileStats()
        self._counted = False  # whether the counts in _status are up to date
        self._cost_s = 0.0
        self.admit(views)
        self._newcomers = []

    def admit(self, views: Sequence[View]) -> None:
        """Add views as if they had been there from the start; the next ``scan`` reads for them.

        So a front end can show one view before the modules of the others are loaded. What was read stays; every known
        file is offered to the new readers. Raises ValueError for a name that the session has.
        """
        with self._lock:
            for view in views:
                if view.name in self.views:
                    raise ValueError(f"the session has a view {view.name!r}")
                tables = (table for kind in view.kinds for table in kind.tables)
                store = Store(tables, self._row_files, self.memory // ROWS_SHARE)
                self._memos[view.name] = Memo()
                self._compute_locks[view.name] = threading.Lock()
                self._follower.admit(view.name, view.kinds, store)
                self._inputs[view.name] = Inputs(0, MappingProxyType({}), self._general, store.snapshot())
                self._keeping[view.name] = frozenset(k.id for k in view.kinds if getattr(k, "keeps_versions", False))
                self.views[view.name] = view
            self._newcomers += [view.name for view in views]

    # -- looking -----------------------------------------------------------------------------------------------

    def scan(
        self, *, final: bool = False, progress: Progress | None = None, patience_s: float = PATIENCE_S
    ) -> frozenset[str]:
        """Look at all roots once and read new content. Returns the names of the views whose inputs changed.

        ``final``: a one-shot report: nothing will follow, so last records without a line end are taken at once.
        ``progress``: called with the share of the files that were visited, and the name of the last one.
        ``patience_s``: seconds to wait in the end for files that another process reads; those that take longer
        come with a later look. A ``final`` scan waits for all.
        """
        names = self.look(None, final=final, progress=progress, patience_s=patience_s)
        missed = {file.path for file in self._catalogue.files.values() if file.stat is None and not file.problems}
        return names | self.look(missed, final=True) if final and missed else names  # replaced before their turn came

    @property
    def complete(self) -> bool:
        """Whether the last look at everything was not interrupted."""
        return self._scanner.complete

    def due(self) -> float | None:
        """Return the monotonic time at which some file must be looked at again, None if none waits."""
        if self._visits.guard.ready:
            return 0.0
        return min((file.due for file in tuple(self._visits.waiting) if file.due is not None), default=None)

    def cost_s(self) -> float:
        """Return the seconds that the last full comparison with the disk took, reading aside."""
        return self._cost_s

    def identities(self) -> dict[str, tuple[int, int] | None]:
        """Return device and inode of each root as last seen, None for a missing one."""
        return dict(self._scanner.root_identities)

    def watch(self, changed: Callable[[frozenset[str]], None], stop: threading.Event) -> None:
        """Keep the inputs up to date until ``stop`` is set; blocks, so run it in a thread. Never raises.

        ``changed`` is called (in this thread) with the names of the views whose inputs changed.
        """
        self._watcher.run(changed, stop)

    def look(
        self,
        hints: set[str] | None,
        *,
        final: bool = False,
        progress: Progress | None = None,
        interrupted: Callable[[], bool] | None = None,
        patience_s: float = 0.0,
    ) -> frozenset[str]:
        """Look at some paths (None: everything) and at the files that are due. Arguments and result as of ``scan``.

        A look at everything ends early when ``interrupted`` returns True, and then was not ``complete``.
        """
        with self._lock:
            if self._visits.closed:
                return frozenset()
            begin = time.perf_counter()
            changes = self._changes(hints, interrupted)
            with _without_gc():
                visits, gone = self._catalogue.apply(changes, lambda path: self.roots[self._scanner.root_of(path)])
                for file in gone:
                    self._stats.drop(file)
                    self._visits.forget(file)
                seen = {*visits, *(self._catalogue.files.values() if self._newcomers else ())}
                self._restore(visits, changes)
                self._introduce(visits)
                for file in self._visits.due(hints, final):
                    visits.setdefault(file, False)
                seen |= self._visits.read(visits, final, progress, patience_s)
                seen.update(visits)
                for file in seen:
                    self._stats.put(file)
                self._counted &= not seen and not changes
            names = self._publish()
            if self._cache is not None:
                self._cache.save(self._catalogue.files.values(), self._follower.bytes_read, at_once=final)
            took_ms = (time.perf_counter() - begin) * 1000
            self._status = msgspec.structs.replace(self._status, last_scan_ms=self._now_ms(), last_scan_took_ms=took_ms)
            return names

    def _changes(self, hints: set[str] | None, interrupted: Callable[[], bool] | None) -> Changes:
        """Return what has changed on disk below ``hints``, or everywhere."""
        changes, self._scanned = self._scanned, None
        if changes is None and hints is not None:
            changes = self._scanner.look(hints)
        if changes is None:
            begin = time.perf_counter()
            changes = self._scanner.scan(interrupted)
            self._counted = False
            if self._scanner.complete:
                self._cost_s = time.perf_counter() - begin
                self._status = msgspec.structs.replace(self._status, scans=self._status.scans + 1)
        return changes

    def _restore(self, visits: dict[TrackedFile, bool], changes: Changes) -> None:
        """Restore new files from the cache; those fully restored need no visit."""
        if self._cache is None:
            return
        stats = {stat[:2]: stat for stat in changes.changed.values()}
        new = [
            (file, stats[file.identity])
            for file in sorted(visits, key=lambda file: file.path)
            if file.stat is None and file.head_length < 0 and not file.readers and file.identity in stats
        ]
        for file in self._cache.restore(new) if new else ():
            if file.packing and not self._follower.twins.alone(file):
                visits[file] = True
            else:
                del visits[file]

    def _introduce(self, visits: dict[TrackedFile, bool]) -> None:
        """Offer the files read so far to the views admitted since; the cache may know what they will find."""
        if not self._newcomers:
            return
        names, self._newcomers = self._newcomers, []
        self._registry.touched.update(names)
        old = [file for file in self._catalogue.files.values() if file.stat is not None and visits.get(file, True)]
        restored: set[TrackedFile] = set()
        if self._cache is not None:
            pairs = [(file, (*file.identity, *file.stat)) for file in old if file.stat is not None]
            restored = self._cache.restore(pairs, names)
        for file in old:
            if file not in restored:
                file.head_length = -1  # to be recognised again
                visits[file] = False
        for file in self._visits.guard:
            file.head_length = -1

    def _publish(self) -> frozenset[str]:
        """Make new snapshots of the views that were touched. Returns their names."""
        registry = self._registry
        general = tuple(self._scanner.problems[path] for path in sorted(self._scanner.problems))
        names = set(registry.touched)
        if general != self._general:
            self._general = general
            names.update(self.views)
        for name in names:
            mine = (file for file in self._visits.with_problems if name in file.views(self.views))
            made, keeping = registry.publish(name, general, mine, self.roots), self._keeping[name]
            self._inputs[name] = made.follow(self._inputs[name], keeping, self._now_ms()) if keeping else made
        registry.touched = set()
        self._problems = (*general, *(problem for file in self._visits.with_problems for problem in file.problems))
        return frozenset(names)

    # -- asking ------------------------------------------------------------------------------------------------

    def inputs(self, view: str) -> Inputs:
        """Return the newest snapshot of ``view``'s inputs. Raises KeyError for a view the session does not have."""
        return self._inputs[view]

    def compute(
        self,
        view: str,
        parameters: Any,
        *,
        at_ms: int | None = None,
        now_ms: int | None = None,
        stop: Callable[[], bool] = lambda: False,
        progress: Progress = lambda fraction, text: None,
        inputs: Inputs | None = None,
    ) -> Result:
        """Compute ``view`` for ``parameters`` on its newest inputs, or on an older snapshot, ``inputs``.

        One computation per view at a time; they share a memo. Raises Cancelled when ``stop`` returns True, NoInput when
        there is nothing to compute on, KeyError for an unknown view.
        """
        with self._compute_locks[view]:
            context = Context(
                now_ms=self._now_ms() if now_ms is None else now_ms,
                at_ms=at_ms,
                memo=self._memos[view],
                stop=stop,
                progress=progress,
                memory=self.memory,
            )
            context.check()
            with _without_gc():
                return self.views[view].compute(self.inputs(view) if inputs is None else inputs, parameters, context)

    def followed(self) -> list[str]:
        """Return the paths of the files that some view reads, those modified last first. Waits for a look under way."""
        with self._lock:
            read = [file for file in self._catalogue.files.values() if file.readers]
        return [file.path for file in sorted(read, key=lambda file: -(file.seen_stat or (0, 0))[1])]

    @property
    def problems(self) -> tuple[Problem, ...]:
        """What is wrong with the live path itself: what cannot be read, missing roots, a failing watch or cache."""
        caching = self._cache.problem if self._cache is not None else None
        found = (self._watcher.problem, caching, self._row_files.problem)
        return fold([*self._problems, *(problem for problem in found if problem is not None)])

    @property
    def unread(self) -> tuple[Problem, ...]:
        """A problem for each of the first files that no reader takes, or that are empty though they have a format's ending."""
        ignored = [
            item for item in self.status.ignored
            if item.reason.startswith(UNKNOWN) or (item.reason == "empty" and item.path.endswith(ENDINGS))
        ]  # fmt: skip
        return tuple(Problem.at(item.path, "not-read", item.reason) for item in ignored)

    @property
    def status(self) -> Status:
        """What the live path is doing, for a status line. Never waits: during a long scan it is the last one known."""
        if self._lock.acquire(blocking=False):
            try:
                old = self._status
                if not self._counted:
                    recognised = {name: len(index) for name, index in self._registry.indexes.items()}
                    old = msgspec.structs.replace(
                        self._stats.status(self._scanner),
                        recognised=MappingProxyType(recognised),
                        bytes_read=self._follower.bytes_read,
                        scans=old.scans,
                        last_scan_ms=old.last_scan_ms,
                        last_scan_took_ms=old.last_scan_took_ms,
                    )
                    self._counted = True
                self._status = msgspec.structs.replace(
                    old,
                    roots=self._watcher.modes(),
                    cached=self._cache.restored if self._cache is not None else 0,
                    pending=len(self._visits.waiting),
                    reading=len(self._visits.guard),
                )
            finally:
                self._lock.release()
        return self._status

    def close(self, timeout: float | None = None) -> None:
        """End background work; a scan under way ends at its next file. The snapshots stay usable.

        What was read is written to the cache if that is done within ``timeout`` seconds (None: however long it takes);
        else it will be read again.
        """
        self._visits.closed = True  # without the lock, which a long scan holds
        self._visits.guard.stop()
        until = None if timeout is None else time.monotonic() + timeout

        def left() -> float | None:
            return None if until is None else max(0.0, until - time.monotonic())

        if not self._lock.acquire(timeout=-1 if until is None else left() or 0):
            return
        try:
            self._visits.guard.close()
            if self._cache is not None and self._cache.wait(left()):
                self._cache.save(self._catalogue.files.values(), self._follower.bytes_read, at_once=True)
                self._cache.wait(left())
        finally:
            self._lock.release()


@contextlib.contextmanager
def _without_gc() -> Iterator[None]:
    """Switch the garbage collector off: with millions of short-lived values it would take a third of the time, and
    what a session holds for good makes each of them long. Threads may overlap: then the first to end collects again.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
