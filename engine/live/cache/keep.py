"""Between the book of files and the cache on disk: what can be taken from it, what is worth putting there."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from engine.live.cache.cache_files import Cache, Entry, Manifest, Other, new_segment
from engine.live.cache.restore import entry_of, feed_of, fits, mark_read, packing_of, put, relative
from engine.live.files.scan import Stat
from engine.live.files.tracked_file import Feed, File
from engine.live.ingest.follower import Follower
from engine.live.store import Store
from engine.view import View

GROWN = 0.25
"""A log that grew by less than this share keeps its saved prefix; its tail is parsed at the next start."""
SEGMENTS = 16
"""More segments than this are written anew as one."""


class Keeper:
    """Restores files of a session from the cache and saves them to it."""

    def __init__(self, cache: Cache, views: dict[str, View], follower: Follower, stores: dict[str, Store]) -> None:
        self._cache = cache
        self._views = views
        self._follower = follower
        self._stores = stores
        self._folders: dict[tuple[str, str], Path] = {}
        self._manifests: dict[tuple[str, str], Manifest | None] = {}
        self._entries: dict[tuple[str, str], dict[bytes, list[Entry]]] = {}
        self._others: dict[tuple[str, str], dict[bytes, Other]] = {}
        self._sums: dict[tuple[str, str], dict[str, dict[str, int]]] = {}
        # By feed id, which a restart changes: a rewritten file must not pass for a grown one.
        self._saved: dict[int, Entry] = {}
        self.restored = 0

    # -- taking ------------------------------------------------------------------------------------------------

    def _open(self, root: str) -> None:
        for name, view in self._views.items():
            place = (root, name)
            if place in self._folders:
                continue
            folder = self._folders[place] = self._cache.folder(root, view)
            manifest = self._manifests[place] = self._cache.load(folder)
            entries: dict[bytes, list[Entry]] = {}
            for entry in manifest.entries if manifest is not None else ():
                entries.setdefault(entry.path, []).append(entry)
            self._entries[place] = entries
            self._others[place] = {other.path: other for other in manifest.others} if manifest is not None else {}
            self._sums[place] = dict(manifest.segments) if manifest is not None else {}

    def restore(self, files: Sequence[tuple[File, Stat]], views: Sequence[str] | None = None) -> set[File]:
        """Give files that were never read (for ``views``, None: for any) what the cache knows of them. Returns those
        that need not be opened."""
        names = tuple(self._views) if views is None else views
        known: set[File] = set()
        wanted: dict[tuple[str, str], dict[str, list[tuple[File, Stat, Entry]]]] = {}
        for file, stat in files:
            self._open(file.root)
            path = relative(file)
            exact = True
            head: Entry | Other | None = None
            for name in names:
                place = (file.root, name)
                entries = self._entries[place].pop(path, None)
                other = self._others[place].pop(path, None)
                if entries:
                    # What other views have read already is not read on: it must be there in full.
                    usable = [e for e in entries if (views is None or e.stat == stat) and self._usable(name, e, stat)]
                    for entry in usable:
                        wanted.setdefault(place, {}).setdefault(entry.segment, []).append((file, stat, entry))
                        head = entry
                    exact = exact and len(usable) == len(entries)
                    exact = exact and all(entry.stat == stat and not entry.rest for entry in usable)
                elif other is not None and other.stat == stat:
                    head = head or other
                else:
                    exact = False
            if head is not None:
                file.head_length, file.head_mark = head.head_length, head.head_mark
                file.packing = packing_of(head.packing)
                if isinstance(head, Other) and not file.feeds:
                    file.reason = head.reason
            if exact and head is not None:
                known.add(file)
        for place, segments in wanted.items():
            for segment, items in segments.items():
                if not self._restore_segment(place, segment, items):
                    known.difference_update(file for file, _, _ in items)
        for file, stat in files:
            if file in known:
                mark_read(file, stat)
        return known

    def _usable(self, view: str, entry: Entry, stat: Stat) -> bool:
        kind = next((kind for kind in self._views[view].kinds if kind.id == entry.kind), None)
        if kind is None or entry.stat[:2] != stat[:2]:
            return False
        # A log may have grown: its reading goes on where it stopped, if the fingerprints agree. What is packed is not
        # compared by size: its prefix is unpacked and compared anyway.
        return entry.stat == stat or (kind.append and (bool(entry.packing) or stat[2] >= entry.consumed))

    def _restore_segment(self, place: tuple[str, str], segment: str, items: list[tuple[File, Stat, Entry]]) -> bool:
        manifest = self._manifests[place]
        assert manifest is not None
        view = place[1]
        frames = self._cache.rows(self._folders[place], manifest, segment)
        if frames is None:
            self._sums[place].pop(segment, None)
            return False
        if not fits(frames, self._stores[view]):
            return False
        kinds = {kind.id: kind for kind in self._views[view].kinds}
        numbers = []
        for file, _, entry in items:
            feed = feed_of(self._follower, view, kinds[entry.kind], file, entry)
            numbers.append((entry.number, feed.id))
            self._saved[feed.id] = entry
        self._follower.touched.add(view)
        put(self._stores[view], frames, numbers)
        self.restored += len(items)
        return True

    # -- giving ------------------------------------------------------------------------------------------------

    def collect(self, files: Iterable[File], least: int) -> Callable[[], None] | None:
        """What should be saved now, as a function that does it (in any thread); None if it is not worth it.

        ``least``: bytes of files not saved yet below which nothing is written.
        """
        places: dict[tuple[str, str], list[tuple[File, Feed]]] = {}
        others: dict[tuple[str, str], list[Other]] = {}
        fresh = 0
        for file in files:
            if file.stat is None or file.verify or file.due is not None or file.twin or file.problems:
                continue
            stat = _stat_of(file)
            if stat is None or file.read_path != file.path:
                continue
            wanted = {feed.view for feed in file.feeds}
            for feed in file.feeds:
                if feed.info is not None and not feed.stale and not feed.held and (feed.kind.append or not feed.rest):
                    places.setdefault((file.root, feed.view), []).append((file, feed))
                    if not self._still_good(feed):
                        fresh += file.stat[0]
            for view in self._views:
                if view not in wanted:
                    others.setdefault((file.root, view), []).append(
                        Other(relative(file), stat, file.head_length, file.head_mark, file.packing, file.reason)
                    )
        alive = set().union(*(feeds.keys() for feeds in self._follower.feeds.values()))
        self._saved = {number: entry for number, entry in self._saved.items() if number in alive}
        if fresh < least:
            return None
        jobs = [self._job(place, pairs, others.get(place, [])) for place, pairs in places.items()]

        def work() -> None:
            for job in jobs:
                job()

        return work

    def _still_good(self, feed: Feed) -> bool:
        entry = self._saved.get(feed.id)
        if entry is None:
            return False
        if not feed.kind.append:
            return entry.consumed == feed.consumed and entry.digest == feed.digest
        return feed.consumed <= entry.consumed * (1 + GROWN)

    def _job(self, place: tuple[str, str], pairs: list[tuple[File, Feed]], others: list[Other]) -> Callable[[], None]:
        view = place[1]
        self._open(place[0])
        old = {feed: self._saved[feed.id] for _, feed in pairs if self._still_good(feed)}
        used: dict[str, int] = {}
        for entry in old.values():
            used[entry.segment] = used.get(entry.segment, 0) + 1
        kept = {
            name for name, count in used.items() if name in self._sums[place] and count * 2 >= self._size(place, name)
        }
        if len(kept) >= SEGMENTS:
            kept = set()
        segment = new_segment()
        entries: list[Entry] = []
        new: list[tuple[Feed, Entry]] = []
        for file, feed in pairs:
            stat = _stat_of(file)
            assert stat is not None
            before = old.get(feed)
            if before is not None and before.segment in kept:
                # A log that has grown keeps its saved prefix as it was; else only what is around the rows may differ.
                again = before
                if feed.consumed == before.consumed:
                    again = entry_of(file, feed, stat, before.segment, before.number) or before
                entries.append(again)
                continue
            made = entry_of(file, feed, stat, segment, feed.id)
            if made is not None:
                entries.append(made)
                new.append((feed, made))
        numbered = [(feed.id, made) for feed, made in new]
        ids = frozenset(number for number, _ in numbered)
        store = self._stores[view]
        frames = {name: store.firm(name, ids) for name in store.tables} if ids else {}
        sums = {name: self._sums[place][name] for name in kept}
        folder = self._folders[place]

        def job() -> None:
            if self._cache.save(folder, entries, others, sums, {segment: frames} if frames else {}):
                saved = self._cache.load(folder)
                if saved is not None:
                    self._sums[place] = dict(saved.segments)
                    self._manifests[place] = saved
                    self._saved.update((number, made) for number, made in numbered)

        return job

    def _size(self, place: tuple[str, str], segment: str) -> int:
        manifest = self._manifests[place]
        if manifest is None:
            return 1 << 60
        return sum(1 for entry in manifest.entries if entry.segment == segment)


def _stat_of(file: File) -> Stat | None:
    return None if file.stat is None else (*file.identity, *file.stat)
