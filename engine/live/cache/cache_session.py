"""The cache as a session uses it: which files can be taken from it, and which are worth writing to it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from engine.core.compression import packing_of
from engine.core.reading import Problem
from engine.core.view import View
from engine.live.cache.cache import Cache, new_segment
from engine.live.cache.manifest import Entry, Manifest, Unread, add_reader, entry_of, mark_read, relative
from engine.live.files.scan import Stat
from engine.live.files.tracked_file import ReaderState, TrackedFile
from engine.live.ingest.registry import Registry
from engine.live.options import LiveSettings

GROWN = 0.25
"""Share by which a log may grow before its rows are saved again; until then its tail is read at the next start."""
SEGMENT_BYTES = 256 << 20
"""Bytes of files after which their rows start another segment."""
SEGMENTS = 16
"""Segments of a folder above which they are written again as one."""
SAVE_EVERY_S = 60.0
"""Seconds between two writes of a live session to the cache."""
AGAIN_S = 5.0
"""Seconds after a write that failed until the next try."""
Place = tuple[str, str]
"""Root and view."""
Pair = tuple[TrackedFile, ReaderState]


class _Folder:
    """What one folder of the cache holds and has not yet been taken from it."""

    def __init__(self, path: Path, manifest: Manifest | None) -> None:
        self.path = path
        self.manifest = manifest
        self.entries: dict[bytes, list[Entry]] = {}
        for entry in manifest.entries if manifest is not None else ():
            self.entries.setdefault(entry.path, []).append(entry)
        self.unread = {file.path: file for file in manifest.unread} if manifest is not None else {}
        self.sums = dict(manifest.segments) if manifest is not None else {}

    def entries_in(self, segment: str) -> int:
        """Return the number of entries whose rows are in ``segment``; a very large number without a manifest."""
        if self.manifest is None:
            return 1 << 60
        return sum(1 for entry in self.manifest.entries if entry.segment == segment)


class CacheSession:
    """Restores files of a session from the cache and saves them to it."""

    def __init__(self, settings: LiveSettings, views: dict[str, View], registry: Registry) -> None:
        self._cache = Cache(settings)
        self._views = views
        self._registry = registry
        self._folders: dict[Place, _Folder] = {}
        # By reader id, which a restart changes: a rewritten file must not pass for a grown one.
        self._saved: dict[int, Entry] = {}
        self._least = int(settings.cache_min_mb * (1 << 20))
        self._thread: threading.Thread | None = None
        self._saved_at = -SAVE_EVERY_S
        self._saved_bytes = 0
        self.restored = 0

    def _folder(self, place: Place) -> _Folder:
        folder = self._folders.get(place)
        if folder is None:
            path = self._cache.folder(place[0], self._views[place[1]])
            folder = self._folders[place] = _Folder(path, self._cache.load(path))
        return folder

    # -- restoring ---------------------------------------------------------------------------------------------

    def restore(
        self, files: Sequence[tuple[TrackedFile, Stat]], views: Sequence[str] | None = None
    ) -> set[TrackedFile]:
        """Restore files that were never read (for ``views``, None: for any). Returns those that need not be opened."""
        names = tuple(self._views) if views is None else views
        unopened: set[TrackedFile] = set()
        wanted: dict[Place, dict[str, list[tuple[TrackedFile, Entry]]]] = {}
        for file, stat in files:
            head: Entry | Unread | None = None
            exact = True
            for name in names:
                place = (file.root, name)
                entries, unread, complete = self._take(place, relative(file), stat, exactly=views is not None)
                for entry in entries:
                    wanted.setdefault(place, {}).setdefault(entry.segment, []).append((file, entry))
                head = entries[-1] if entries else head or unread
                exact = exact and complete
            if head is not None:
                file.head_length, file.head_mark = head.head_length, head.head_mark
                file.packing = packing_of(head.packing)
                if isinstance(head, Unread) and not file.readers:
                    file.reason = head.reason
                if exact:
                    unopened.add(file)
        for place, segments in wanted.items():
            for segment, pairs in segments.items():
                if not self._restore_segment(place, segment, pairs):
                    unopened.difference_update(file for file, _ in pairs)
        for file, stat in files:
            if file in unopened:
                mark_read(file, stat)
        return unopened

    def _take(self, place: Place, path: bytes, stat: Stat, *, exactly: bool) -> tuple[list[Entry], Unread | None, bool]:
        """Return the usable entries of a file, or that no reader takes it, and whether this covers all views.

        ``exactly``: what other views have read already is not read on, so an entry must be of the file as it is.
        """
        folder = self._folder(place)
        entries, unread = folder.entries.pop(path, None), folder.unread.pop(path, None)
        if entries:
            usable = [e for e in entries if (not exactly or e.stat == stat) and self._usable(place[1], e, stat)]
            complete = len(usable) == len(entries) and all(e.stat == stat and not e.rest for e in usable)
            return usable, None, complete
        if unread is not None and unread.stat == stat:
            return [], unread, True
        return [], None, False

    def _usable(self, view: str, entry: Entry, stat: Stat) -> bool:
        kind = next((kind for kind in self._views[view].kinds if kind.id == entry.kind), None)
        if kind is None or entry.stat[:2] != stat[:2]:
            return False
        # A log may have grown: its reading goes on where it stopped, if the fingerprints agree. What is packed is not
        # compared by size: its prefix is unpacked and compared anyway.
        return entry.stat == stat or (kind.append and (bool(entry.packing) or stat[2] >= entry.consumed))

    def _restore_segment(self, place: Place, segment: str, pairs: list[tuple[TrackedFile, Entry]]) -> bool:
        folder, view = self._folder(place), place[1]
        assert folder.manifest is not None
        rows = self._cache.rows(folder.path, folder.manifest, segment)
        if rows is None:
            folder.sums.pop(segment, None)
            return False
        store = self._registry.stores[view]
        if not store.fits(rows.schemas):
            return False
        kinds = {kind.id: kind for kind in self._views[view].kinds}
        ids = {}
        for file, entry in pairs:
            reader = add_reader(self._registry, view, kinds[entry.kind], file, entry)
            ids[entry.number] = reader.id
            self._saved[reader.id] = entry
        for name, frame in rows.parts:
            store.put_frames({name: frame}, ids)
        self.restored += len(pairs)
        return True

    # -- saving ------------------------------------------------------------------------------------------------

    def save(self, files: Iterable[TrackedFile], bytes_read: int, *, at_once: bool) -> None:
        """Save to the cache in a thread if enough was read and the last save is long ago (or ``at_once``).

        ``bytes_read``: bytes read since the session began.
        """
        now = time.monotonic()
        failed = bool(self._cache.failure)
        if (bytes_read - self._saved_bytes < self._least and not failed) or (
            self._thread is not None and self._thread.is_alive()
        ):
            return
        if not at_once and now - self._saved_at < (AGAIN_S if failed else SAVE_EVERY_S):
            return
        work = self.collect(files, self._least)
        self._saved_at, self._saved_bytes = now, bytes_read
        if work is not None:
            # A daemon: without ``close`` the process does not wait for it. A half-written segment is never used.
            self._thread = threading.Thread(target=work, name="loadlens-cache", daemon=True)
            self._thread.start()

    @property
    def problem(self) -> Problem | None:
        """Why nothing can be written to the cache; None if nothing went wrong."""
        failure = self._cache.failure
        return Problem.at(str(self._cache.directory), "cache", f"cannot be written: {failure}") if failure else None

    def wait(self, timeout: float | None) -> bool:
        """Wait until all is written, at most ``timeout`` seconds. Returns whether it is."""
        if self._thread is not None:
            self._thread.join(timeout)
        return self._thread is None or not self._thread.is_alive()

    def collect(self, files: Iterable[TrackedFile], least: int) -> Callable[[], None] | None:
        """Return a function that saves the current state (in any thread), None if it is not worth it.

        ``least``: bytes of files not saved yet below which nothing is written.
        """
        pairs: dict[Place, list[Pair]] = {}
        unread: dict[Place, list[Unread]] = {}
        fresh = 0
        for file in files:
            if file.stat is None or file.verify or file.due is not None or file.is_copy or file.problems:
                continue
            if file.read_path != file.path:
                continue
            for reader in file.readers:
                settled = not reader.stale and not reader.retained and (reader.kind.append or not reader.rest)
                if reader.info is not None and settled:
                    pairs.setdefault((file.root, reader.view), []).append((file, reader))
                    if not self._still_good(reader):
                        fresh += file.stat[0]
            for view in self._views.keys() - {reader.view for reader in file.readers}:
                unread.setdefault((file.root, view), []).append(_unread(file))
        alive = set().union(*(readers.keys() for readers in self._registry.readers.values()))
        self._saved = {number: entry for number, entry in self._saved.items() if number in alive}
        if fresh < least:
            return None
        jobs = [self._job(place, found, unread.get(place, [])) for place, found in pairs.items()]

        def save() -> None:
            for job in jobs:
                job()

        return save

    def _still_good(self, reader: ReaderState) -> bool:
        """Whether the saved rows of ``reader`` need not be saved again."""
        entry = self._saved.get(reader.id)
        if entry is None:
            return False
        if not reader.kind.append:
            return entry.consumed == reader.consumed and entry.digest == reader.digest
        return reader.consumed <= entry.consumed * (1 + GROWN)

    def _job(self, place: Place, pairs: list[Pair], unread: list[Unread]) -> Callable[[], None]:
        folder = self._folder(place)
        good = {reader: self._saved[reader.id] for _, reader in pairs if self._still_good(reader)}
        reused = self._reused(folder, good.values())
        segments: dict[str, set[int]] = {}
        segment, left = "", 0
        entries: list[Entry] = []
        new: dict[int, Entry] = {}
        for file, reader in pairs:
            stat, before = _stat_of(file), good.get(reader)
            if before is not None and before.segment in reused:
                # A log that has grown keeps its saved prefix as it was; else only what is around the rows may differ.
                again = before
                if reader.consumed == before.consumed:
                    again = entry_of(file, reader, stat, before.segment, before.number) or before
                entries.append(again)
                continue
            if left <= 0:
                segment, left = new_segment(), SEGMENT_BYTES
            entry = entry_of(file, reader, stat, segment, reader.id)
            if entry is not None:
                entries.append(entry)
                new[reader.id] = entry
                segments.setdefault(segment, set()).add(reader.id)
                left -= stat[2]
        store = self._registry.stores[place[1]]
        rows, tables = store.firm_rows(), tuple(store.tables)
        sums = {name: folder.sums[name] for name in reused}

        def job() -> None:
            # Made one after the other: not all rows need be in memory at once.
            made = (
                (name, {table: rows(table, frozenset(files)) for table in tables}) for name, files in segments.items()
            )
            if self._cache.save(folder.path, entries, unread, sums, made):
                saved = self._cache.load(folder.path)
                if saved is not None:
                    folder.sums = dict(saved.segments)
                    folder.manifest = saved
                    self._saved.update(new)

        return job

    def _reused(self, folder: _Folder, entries: Iterable[Entry]) -> set[str]:
        """Return the existing segments of which at least half is still valid; none if there are too many."""
        used: dict[str, int] = {}
        for entry in entries:
            used[entry.segment] = used.get(entry.segment, 0) + 1
        good = [name for name in used.keys() & folder.sums.keys() if 2 * used[name] >= folder.entries_in(name)]
        reused = {name for name in good if self._cache.holds(folder.path, name, folder.sums[name])}
        return reused if len(reused) < SEGMENTS else set()


def _stat_of(file: TrackedFile) -> Stat:
    assert file.stat is not None
    return (*file.identity, *file.stat)


def _unread(file: TrackedFile) -> Unread:
    return Unread(relative(file), _stat_of(file), file.head_length, file.head_mark, file.packing, file.reason)
