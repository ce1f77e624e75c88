"""Session: roots and views in, immutable inputs and results out. The one object that front ends hold."""

from __future__ import annotations

import contextlib
import dataclasses
import gc
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import polars as pl

from engine.incremental import Memo
from engine.inputs import Inputs
from engine.live.cache.cache_files import Cache
from engine.live.cache.keep import Keeper
from engine.live.crew import LATE, Crew, module_of, start, worth
from engine.live.files.compressed_twins import PACKED
from engine.live.files.file_stats import Tally
from engine.live.files.first_look import Look
from engine.live.files.scan import Changes, Scanner, Stat
from engine.live.files.tracked_file import File
from engine.live.files.watch import GIVES_WAY_S, Watcher
from engine.live.ingest.follower import Follower
from engine.live.options import LiveSettings
from engine.live.status import Ignored, RootStatus, Status
from engine.live.store import Store
from engine.live.team import Team
from engine.problems import Problem, fold
from engine.result import Result
from engine.text import clean
from engine.view import Context, Preparing, View

__all__ = ["LiveSettings", "Session", "Status", "wall_clock"]

IGNORED = 200
"""Ignored files that ``status`` names; the rest are counted."""
BATCH_FILES = 1000
"""Files whose rows become one piece of the store, at most."""
FREEZE_EVERY = 32 << 20
"""With every so many bytes what is in memory is taken out of the garbage collector's sight."""
DUE_AT_ONCE = 4
"""So many files that are due are always looked at together."""
SAVE_EVERY_S = 60.0
"""A live session writes to the cache at most so often."""


def wall_clock() -> int:
    """The time of day in epoch milliseconds."""
    return time.time_ns() // 1_000_000


class Session:
    """What is below some roots, as the inputs of some views, kept up to date.

    ``scan`` looks once; ``watch`` keeps looking until told to stop. Both may run in another thread than ``inputs`` and
    ``compute``: snapshots are immutable. The views are given; this module knows none. ``strict`` lets a reader's
    programming error through instead of making it a problem (tests).
    """

    def __init__(
        self,
        roots: Sequence[str | Path],
        views: Sequence[View],
        *,
        settings: LiveSettings | None = None,
        now_ms: Callable[[], int] = wall_clock,
        strict: bool = False,
        look: Look | None = None,
        crew: Crew | None = None,
    ) -> None:
        """``look``: a first look at these roots, just taken: then ``scan`` does not look once more. ``crew``: a helper
        already reading what was found."""
        self.roots = tuple(dict.fromkeys(os.path.abspath(os.path.expanduser(root)) for root in roots))
        self.views = {view.name: view for view in views}
        if len(self.views) != len(views):
            raise ValueError("two views have the same name")
        self.settings = settings or LiveSettings()
        self._now_ms = now_ms
        if look is None or look.roots != self.roots:
            look = None
            self._scanner = Scanner(
                self.roots, ignore=self.settings.ignore, follow_symlinks=self.settings.follow_symlinks
            )
        else:
            self._scanner = look.scanner
        self._seen = look.changes if look is not None else None
        self._stores = {name: _store(view) for name, view in self.views.items()}
        kinds = [(view.name, kind) for view in views for kind in view.kinds]
        self._follower = Follower(kinds, self._stores, self.settings, now_ms, strict=strict)
        self._files: dict[tuple[int, int], File] = {}
        self._by_path: dict[str, File] = {}
        self._newcomers: list[str] = []
        self._waiting: set[File] = set()
        self._troubled: set[File] = set()
        self._general: tuple[Problem, ...] = ()
        self._troubles: tuple[Problem, ...] = ()
        self._folded: tuple[tuple[tuple[Problem, ...], Problem | None], tuple[Problem, ...]] = (((), None), ())
        self._last: tuple[int | None, float] = (None, 0.0)
        self._lock = threading.RLock()
        self._compute_locks = {name: threading.Lock() for name in self.views}
        self._memos = {name: Memo() for name in self.views}
        self._inputs = {name: Inputs(0, MappingProxyType({}), (), self._stores[name].snapshot()) for name in self.views}
        self._keeper: Keeper | None = None
        if self.settings.cache and self.settings.cache_max_mb > 0:
            cache = Cache(self.settings.cache_dir, self.settings.cache_max_mb)
            self._keeper = Keeper(cache, self.views, self._follower, self._stores)
        self._saver: threading.Thread | None = None
        self._saved_at = -SAVE_EVERY_S
        self._saved_read = 0
        self._frozen_at = 0
        self._watcher = Watcher(self.roots, self.settings, self)
        self._crew = crew
        self._status = Status(roots=tuple(RootStatus(clean(root, 4096), "idle") for root in self.roots))
        self._tally = Tally()
        self._counted = False  # whether the counts in _status are those of now
        self._scans = 0
        self._cost_s = 0.0
        self._closed = False

    def admit(self, views: Sequence[View]) -> None:
        """Take more views in, as if they had been given at the beginning; the next ``scan`` reads for them.

        So a front end can show one view before the modules of the others are loaded. What was read stays; every known
        file is offered to the new readers. Raises ValueError for a name that the session has.
        """
        with self._lock:
            for view in views:
                if view.name in self.views:
                    raise ValueError(f"the session has a view {view.name!r}")
                store = _store(view)
                self._memos[view.name] = Memo()
                self._compute_locks[view.name] = threading.Lock()
                self._follower.admit(view.name, view.kinds, store)
                self._stores[view.name] = store
                self._inputs[view.name] = Inputs(0, MappingProxyType({}), self._general, store.snapshot())
                self.views[view.name] = view
            self._newcomers += [view.name for view in views]

    # -- looking -----------------------------------------------------------------------------------------------

    def scan(self, *, final: bool = False, progress: Callable[[float, str], None] | None = None) -> frozenset[str]:
        """Look at all roots once and read what is new; returns the names of the views whose inputs changed.

        ``final``: a one-shot report: nothing will follow, so last records without a line end are taken at once.
        ``progress`` is told a fraction 0-1 and what is being read.
        """
        return self._look(None, final=final, progress=progress)

    def look(self, hints: set[str] | None, *, interrupted: Callable[[], bool] | None = None) -> frozenset[str]:
        """Look at some paths (None: everything) and at the files that are due; as ``scan``. A look at everything ends early
        when ``interrupted`` says so, and then was not ``complete``."""
        return self._look(hints, interrupted=interrupted)

    @property
    def complete(self) -> bool:
        """Whether the last look at everything was not interrupted."""
        return self._scanner.complete

    def ahead(self) -> bool:
        """Let the views do a piece of work ahead, for the time when nothing happens. Whether there was any."""
        held = max(self._follower.bytes_read, self._tally.bytes)  # what comes from the cache is not read
        if held - self._frozen_at >= FREEZE_EVERY:
            # What was read stays: the garbage collector need not go through it again and again, 100 ms each time.
            gc.freeze()
            self._frozen_at = held
            return True
        if self._lock.acquire(blocking=False):
            try:
                if any(store.tidy() for store in self._stores.values()):
                    return True
            finally:
                self._lock.release()
        return any(self._prepare(name) for name in self.views)

    def _prepare(self, name: str) -> bool:
        """Let a view that has computed do a piece of work ahead, unless it is computing."""
        view, lock = self.views[name], self._compute_locks[name]
        if not isinstance(view, Preparing) or not self._memos[name] or not lock.acquire(blocking=False):
            return False
        try:
            with _uncollected():
                return view.prepare(self.inputs(name), Context(now_ms=self._now_ms(), memo=self._memos[name]))
        finally:
            lock.release()

    def due(self) -> float | None:
        """Monotonic time at which some file must be looked at again, None if none waits."""
        return min((file.due for file in tuple(self._waiting) if file.due is not None), default=None)

    def cost_s(self) -> float:
        """Seconds that the last full comparison with the disk took, reading aside."""
        return self._cost_s

    def identities(self) -> dict[str, tuple[int, int] | None]:
        """Device and inode of each root as last seen, None for a missing one."""
        return dict(self._scanner.root_identities)

    def watch(self, changed: Callable[[frozenset[str]], None], stop: threading.Event) -> None:
        """Keep the inputs up to date until ``stop`` is set; blocks, so run it in a thread. Never raises.

        ``changed`` is called (in this thread) with the names of the views whose inputs changed.
        """
        self._watcher.run(changed, stop)

    def _look(
        self,
        hints: set[str] | None,
        *,
        final: bool = False,
        progress: Callable[[float, str], None] | None = None,
        interrupted: Callable[[], bool] | None = None,
    ) -> frozenset[str]:
        with self._lock:
            if self._closed:
                return frozenset()
            begin = time.perf_counter()
            changes, self._seen = self._seen, None
            if changes is None and hints is not None:
                changes = self._scanner.look(hints)
            if changes is None:
                changes = self._scanner.scan(interrupted)
                self._counted = False
                if self._scanner.complete:
                    self._cost_s = time.perf_counter() - begin
                    self._scans += 1
            with _uncollected():
                todo = self._apply(changes)
                seen = {*todo, *(self._files.values() if self._newcomers else ())}
                self._restore(todo, changes)
                self._introduce(todo)
                for file in self._due(hints, final):
                    todo.setdefault(file, False)
                self._read(todo, final, progress)
                seen.update(todo)
                for file in seen:
                    self._tally.put(file)
                self._counted &= not seen and not changes
            names = self._publish()
            self._save(final)
            self._last = (self._now_ms(), (time.perf_counter() - begin) * 1000)
            return names

    def _due(self, hints: set[str] | None, final: bool) -> list[File]:
        """Files to be looked at again. What is known to have changed goes before them, for a moment; and of many that are due
        together a part is enough for one look: they are as they have been for seconds, and a change may come meanwhile."""
        until = float("inf") if final else time.monotonic() - (GIVES_WAY_S if hints else 0.0)
        found = [file for file in self._waiting if file.due is not None and file.due <= until]
        if hints is None or len(found) <= DUE_AT_ONCE:
            return found
        found.sort(key=lambda file: file.due or 0.0)
        return found[: max(DUE_AT_ONCE, len(found) // 4)]

    def settled(self) -> dict[str, Stat] | None:
        """Path and identity of every file, if the inputs are exactly what these files hold for good; None while one is
        being written, waits for another look, could not be read or keeps rows of an older state."""
        with self._lock:
            if self._scanner.problems or self._waiting or self._troubled:
                return None
            found: dict[str, Stat] = {}
            for path, file in self._by_path.items():
                if file.stat is None or file.verify or file.due is not None or file.problems:
                    return None
                if any(feed.stale or feed.held for feed in file.feeds):
                    return None
                found[path] = (*file.identity, *file.stat)
            return found

    def _apply(self, changes: Changes) -> dict[File, bool]:
        """Bring the book of files up to date; the files to visit, and whether only because of a sibling."""
        touched: dict[File, None] = {}
        lost: list[tuple[str, File]] = []
        for path in changes.gone:
            file = self._by_path.pop(path, None)
            if file is not None:
                file.paths.discard(path)
                touched[file] = None
                lost.append((path, file))
        for path, stat in changes.changed.items():
            identity = stat[:2]
            old = self._by_path.get(path)
            if old is not None and old.identity != identity:
                old.paths.discard(path)
                touched[old] = None
                lost.append((path, old))
            file = self._files.get(identity)
            if file is None:
                file = self._files[identity] = File(identity)
            file.paths.add(path)
            self._by_path[path] = file
            touched[file] = None
        todo: dict[File, bool] = {}
        groups = set()
        for file in touched:
            groups.add(file.group)
            if file.paths:
                path = self._best(file.paths)
                self._follower.copies.place(file, path, self.roots[self._scanner.root_of(path)])
                groups.add(file.group)
                todo[file] = False
        for path, file in lost:
            heir = self._by_path.get(path)
            if not file.paths and heir is not None and heir is not file:
                self._follower.inherit(heir, file)
        for file in touched:
            if not file.paths:
                self._follower.drop(file)
                self._follower.copies.leave(file)
                self._tally.drop(file)
                self._waiting.discard(file)
                self._troubled.discard(file)
                if self._files.get(file.identity) is file:
                    del self._files[file.identity]
        for file in list(todo):
            for sibling in self._follower.copies.packed(file):
                todo.setdefault(sibling, True)
        for group in groups:
            for sibling in self._follower.copies.groups.get(group, ()):
                if sibling.packing:
                    todo.setdefault(sibling, True)
        return todo

    def _restore(self, todo: dict[File, bool], changes: Changes) -> None:
        """Take new files from the cache where it knows them; what it knows for certain need not be visited."""
        if self._keeper is None:
            return
        stats = {stat[:2]: stat for stat in changes.changed.values()}
        new = [
            (file, stats[file.identity])
            for file in sorted(todo, key=lambda file: file.path)
            if file.stat is None and file.head_length < 0 and not file.feeds and file.identity in stats
        ]
        if not new:
            return
        for file in self._keeper.restore(new):
            if file.packing and len(self._follower.copies.groups[file.group]) > 1:
                todo[file] = True
            else:
                del todo[file]

    def _introduce(self, todo: dict[File, bool]) -> None:
        """Offer the files read so far to the views that were admitted since; the cache may know what they will say."""
        if not self._newcomers:
            return
        names, self._newcomers = self._newcomers, []
        self._follower.touched.update(names)
        old = [file for file in self._files.values() if file.stat is not None and todo.get(file, True)]
        known: set[File] = set()
        if self._keeper is not None:
            pairs = [(file, (*file.identity, *file.stat)) for file in old if file.stat is not None]
            known = self._keeper.restore(pairs, names)
        for file in old:
            if file not in known:
                file.head_length = -1  # recognise it anew
                todo[file] = False

    def _save(self, final: bool, *, wait: bool = False) -> None:
        """Put what was read into the cache, in the background, if it is much or long ago."""
        if self._keeper is None or (self._saver is not None and self._saver.is_alive()):
            return
        read = self._follower.bytes_read - self._saved_read
        least = int(self.settings.cache_min_mb * (1 << 20))
        now = time.monotonic()
        if read < least or not (final or wait or now - self._saved_at >= SAVE_EVERY_S):
            return
        work = self._keeper.collect(self._files.values(), least)
        self._saved_at, self._saved_read = now, self._follower.bytes_read
        if work is not None:
            # A daemon: nobody waits for a cache who does not call close. What is written half is never used.
            self._saver = threading.Thread(target=work, name="loadlens-cache", daemon=True)
            self._saver.start()

    @staticmethod
    def _best(paths: set[str]) -> str:
        """The path a file with several names is known by: a real one rather than a link, then the first."""
        if len(paths) == 1:
            return next(iter(paths))
        return min(paths, key=lambda path: (os.path.islink(path), os.path.realpath(path) != path, path))

    def _read(self, todo: dict[File, bool], final: bool, progress: Callable[[float, str], None] | None) -> None:
        """Visit these files, with a helping process if that pays."""
        crew, self._crew = self._crew, None
        try:
            # Plain files first: a packed copy beside one is then known as such.
            order = (
                sorted(todo, key=lambda file: (file.path.endswith(PACKED), file.path)) if len(todo) > 1 else list(todo)
            )
            new = [file for file in order if file.stat is None and not file.path.endswith(PACKED)]
            stats = {file: self._scanner.stat_of(file.path) for file in new} if crew is not None or len(new) > 1 else {}
            if crew is None and worth(sum(s[2] for s in stats.values() if s is not None), self.settings, LATE):
                modules = [module_of(view) for view in self.views.values()]
                if all(modules):
                    listed = [(file.path, file.root, stat) for file, stat in stats.items() if stat is not None]
                    crew = start(listed, modules, self.settings, final=final)
            if crew is None:
                self._visit(order, todo, final, progress)
                return
            places = {file: crew.place(file.path, stat) for file, stat in stats.items() if stat is not None}
            team = Team(crew, self._follower, self.views, places)
            self._visit(order, todo, final, progress, team, places)
        finally:
            self._follower.rear = None
            if crew is not None:
                crew.close()

    def _visit(
        self,
        order: Sequence[File],
        todo: dict[File, bool],
        final: bool,
        progress: Callable[[float, str], None] | None,
        team: Team | None = None,
        places: Mapping[File, int] = MappingProxyType({}),
    ) -> None:
        follower = self._follower
        total = len(order)
        left: list[tuple[int, File]] = []
        for count, file in enumerate(order):
            if self._closed:
                return
            place = places.get(file, -1)
            if team is not None and not team.mine(place):
                left.append((place, file))
                continue
            self._one(file, final, todo[file])
            if team is not None and count % 128 == 127:
                team.poll()
            if count % BATCH_FILES == BATCH_FILES - 1:
                for name, store in self._stores.items():
                    if store.gathered:
                        follower.flush(name)
            if progress is not None and (count % 64 == 0 or count == total - 1):
                progress((count + 1) / total if team is None else team.share, clean(os.path.basename(file.path)))
        if team is not None:
            for name in self._stores:
                follower.flush(name)  # what both have read becomes frames at the same time
            for place, file in team.take(left):
                if self._closed:
                    return
                team.number(place)
                self._one(file, final, todo[file])
            team.number(-1)
            for _, file in left:
                (self._waiting.add if file.due is not None else self._waiting.discard)(file)
            if progress is not None:
                progress(1.0, "")

    def _one(self, file: File, final: bool, force: bool) -> None:
        try:
            self._follower.visit(file, final=final, force=force)
        # A mistake of ours with one file must not keep the others from being read; one of Polars is no Exception.
        except (Exception, pl.exceptions.PanicException) as error:
            self._follower.give_up(file, error)
        (self._waiting.add if file.due is not None else self._waiting.discard)(file)
        (self._troubled.add if file.problems else self._troubled.discard)(file)

    def _publish(self) -> frozenset[str]:
        """Make new snapshots of the views that were touched."""
        follower = self._follower
        general = tuple(self._scanner.problems[path] for path in sorted(self._scanner.problems))
        names = set(follower.touched)
        if general != self._general:
            self._general = general
            names.update(self.views)
        follower.touched = set()
        for name in names:
            follower.flush(name)
            found: list[Problem] = list(general)
            for feed in follower.troubled[name]:
                found += feed.problems
                found += feed.late
            for file in self._troubled:
                if not file.feeds or any(feed.view == name for feed in file.feeds):
                    found += file.problems
            follower.versions[name] += 1
            version, store = follower.versions[name], self._stores[name]
            known = follower.infos[name].snapshot(version)
            self._inputs[name] = Inputs(
                version, known.files, fold(found), store.snapshot(), store.growth(version), known
            )
        follower.touched = set()
        self._troubles = (*general, *(problem for file in self._troubled for problem in file.problems))
        return frozenset(names)

    # -- asking ------------------------------------------------------------------------------------------------

    def inputs(self, view: str) -> Inputs:
        """The newest snapshot of ``view``'s inputs. Raises KeyError for a view the session does not have."""
        return self._inputs[view]

    def compute(
        self,
        view: str,
        parameters: Any,
        *,
        at_ms: int | None = None,
        now_ms: int | None = None,
        stop: Callable[[], bool] = lambda: False,
        progress: Callable[[float, str], None] = lambda fraction, text: None,
        inputs: Inputs | None = None,
        quick: bool = False,
    ) -> Result:
        """``view``'s result for ``parameters`` over its newest inputs (or over an older snapshot, ``inputs``). ``quick``: see
        ``Context``.

        One computation per view at a time; they share a memo. Raises Cancelled when ``stop`` says so, NoInput when
        there is nothing to compute on, KeyError for an unknown view.
        """
        with self._compute_locks[view]:
            context = Context(
                now_ms=self._now_ms() if now_ms is None else now_ms,
                at_ms=at_ms,
                memo=self._memos[view],
                stop=stop,
                progress=progress,
                quick=quick,
            )
            context.check()
            with _uncollected():
                return self.views[view].compute(self.inputs(view) if inputs is None else inputs, parameters, context)

    @property
    def problems(self) -> tuple[Problem, ...]:
        """What is wrong with the live path itself: unreadable files and folders, missing roots, bombs, a failing watch."""
        known = (self._troubles, self._watcher.problem)
        if self._folded[0][0] is not known[0] or self._folded[0][1] is not known[1]:
            self._folded = (known, fold([*known[0], *([known[1]] if known[1] is not None else [])]))
        return self._folded[1]

    @property
    def status(self) -> Status:
        """What the live path is doing, for a status line. Never waits: during a long scan it is the last known one."""
        if self._lock.acquire(blocking=False):
            try:
                self._status = self._describe()
            finally:
                self._lock.release()
        return self._status

    def _describe(self) -> Status:
        if not self._counted:
            self._status = self._count()
            self._counted = True
        return dataclasses.replace(
            self._status,
            roots=self._watcher.modes(),
            cached=self._keeper.restored if self._keeper is not None else 0,
            scans=self._scans,
            last_scan_ms=self._last[0],
            last_scan_took_ms=self._last[1],
            pending=len(self._waiting),
        )

    def _count(self) -> Status:
        """What is said of all files; made anew only after a look that found something."""
        recognised = {name: len(infos) for name, infos in self._follower.infos.items()}
        tally, newest = self._tally, self._tally.newest_ns()
        ignored = [Ignored(clean(file.path, 4096), file.reason) for file in tally.ignored(IGNORED)]
        for path, reason in self._scanner.skipped.items():
            if len(ignored) >= IGNORED:
                break
            ignored.append(Ignored(clean(path, 4096), reason))
        return Status(
            files=self._scanner.count,
            recognised=MappingProxyType(recognised),
            ignored=tuple(sorted(ignored, key=lambda item: item.path)),
            ignored_count=tally.ignored_count + len(self._scanner.skipped),
            bytes=tally.bytes,
            bytes_read=self._follower.bytes_read,
            newest_ms=newest // 1_000_000 if newest >= 0 else None,
        )

    def close(self, timeout: float | None = None) -> None:
        """End background work; a scan under way ends at its next file. The snapshots stay usable.

        What was read is put into the cache if that is done within ``timeout`` seconds (None: however long it takes);
        else it is given up and will be parsed again.
        """
        self._closed = True  # without the lock, which a long scan holds
        until = None if timeout is None else time.monotonic() + timeout

        def left() -> float:
            return -1 if until is None else max(0.0, until - time.monotonic())

        if not self._lock.acquire(timeout=left()):
            return
        try:
            saver = self._saver
        finally:
            self._lock.release()
        if saver is not None:
            saver.join(None if until is None else left())
            if saver.is_alive():
                return
        with self._lock:
            self._save(False, wait=True)
            saver = self._saver
        if saver is not None:
            saver.join(None if until is None else left())


@contextlib.contextmanager
def _uncollected() -> Iterator[None]:
    """Collect no garbage meanwhile: of millions of short-lived values collections would take a third of the time, and
    what a session holds for good makes each of them long. Threads may overlap: then the first to end collects again.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _store(view: View) -> Store:
    return Store(table for kind in view.kinds for table in kind.tables)
