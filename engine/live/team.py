"""What a helping process (``crew``) has read, put where the session's own reading is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import polars as pl
import xxhash

from engine.inputs import FILE
from engine.live.cache.cache_files import Entry
from engine.live.cache.restore import feed_of, fits, mark_read, put
from engine.live.crew import STRIDE, Crew, Delivery, Found, Rear
from engine.live.files.tracked_file import Feed, File
from engine.live.ingest.file_content import BLOCK, MARK, Content, fingerprint
from engine.live.ingest.follower import Follower
from engine.reading import Resumable
from engine.view import View


class Team:
    """The session's follower and a helper, reading the same list."""

    def __init__(self, crew: Crew, follower: Follower, views: Mapping[str, View], places: Mapping[File, int]) -> None:
        """``places``: files that are in the crew's list, and where."""
        self._crew = crew
        self._follower = follower
        self._base = follower.last_id
        self._free = self._base + len(crew.items) * STRIDE
        self._outside = False
        self._files = {place: file for file, place in places.items() if place >= 0}
        self._taken: set[File] = set()
        self._noted: list[tuple[dict[str, dict[str, pl.DataFrame]], dict[str, list[tuple[int, int]]]]] = []
        self._kinds = {(view.name, kind.id): kind for view in views.values() for kind in view.kinds}
        follower.rear = self._rear

    def mine(self, place: int) -> bool:
        """Whether the session is to read the file at ``place`` of the list (-1: it is not there), now."""
        if place >= 0 and not self._crew.mine(place):
            return False
        self.number(place)
        return True

    def number(self, place: int) -> None:
        """Give the next file ids that follow the list: by its place there; behind all others if it is not in it (-1)."""
        if self._outside:
            self._free = self._follower.last_id
        self._outside = place < 0
        self._follower.go_on_from(self._free if place < 0 else self._base + place * STRIDE)

    @property
    def share(self) -> float:
        """Part of the list that was come to."""
        return self._crew.share

    # -- whole files -------------------------------------------------------------------------------------------

    def poll(self) -> None:
        """Take note of what the helper has read by now. Its rows wait, so that they follow the list in the end."""
        for delivery in self._crew.deliveries(wait=False):
            self._note(delivery)

    def take(self, left: Sequence[tuple[int, File]]) -> list[tuple[int, File]]:
        """Take over what the helper has read, with the files ``left`` to it (and their places). Returns those that must be
        read here."""
        follower = self._follower
        follower.rear = None
        if left:
            for delivery in self._crew.deliveries():
                self._note(delivery)
        for frames, numbers in reversed(self._noted):  # it has gone through the list from the back
            for view, pairs in numbers.items():
                if pairs:
                    put(follower.stores[view], frames[view], pairs)
                    follower.touched.add(view)
        return [(place, file) for place, file in left if file not in self._taken]

    def _note(self, delivery: Delivery) -> None:
        follower = self._follower
        frames: dict[str, dict[str, pl.DataFrame]] = {}
        try:
            for view, places in delivery.frames.items():
                frames[view] = {name: self._crew.frame(place) for name, place in places.items()}
                if not fits(frames[view], follower.stores[view]):
                    return
        except (OSError, EOFError, ValueError, KeyError, pl.exceptions.PolarsError):
            return
        numbers: dict[str, list[tuple[int, int]]] = {view: [] for view in frames}
        for read in delivery.found:
            file = self._files.get(read.index)
            if file is None or file.feeds or file.stat is not None:
                continue
            self.number(read.index)
            self._adopt(file, self._crew.items[read.index].stat, read, numbers)
            self._taken.add(file)
        self._noted.append((frames, numbers))
        follower.bytes_read += delivery.bytes_read

    def _adopt(
        self, file: File, stat: tuple[int, int, int, int, int], read: Found, numbers: dict[str, list[tuple[int, int]]]
    ) -> None:
        file.head_length, file.head_mark, file.reason = read.head_length, read.head_mark, read.reason
        for view, raw in zip(read.views, read.entries, strict=True):
            entry = msgspec.msgpack.decode(raw, type=Entry)
            feed = feed_of(self._follower, view, self._kinds[view, entry.kind], file, entry)
            numbers[view].append((entry.number, feed.id))
        mark_read(file, stat)
        file.verify, file.due = read.verify, read.due

    # -- the rear of a large one -------------------------------------------------------------------------------

    def _rear(self, file: File, feed: Feed, content: Content) -> Any:
        """For ``Follower.rear``."""
        if not isinstance(feed.kind, Resumable):
            return None
        status = content.status
        stat = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
        about = self._crew.begin(self._crew.place(file.path, stat))
        begin = content.cut(feed.kind, about) if about else 0
        return (begin, self._join) if begin else None

    def _join(self, feed: Feed, content: Content) -> bool:
        """Take the rear part of a large file, if it was read from just the state its front has led to."""
        follower = self._follower
        follower.flush(feed.view)
        hashed = _Hashed(feed, content)  # while the helper is still at it
        rear: Rear | None = self._crew.rear()
        if rear is None or (rear.view, rear.kind, rear.begin) != (feed.view, feed.kind.id, feed.consumed):
            return False
        try:
            same = msgspec.msgpack.decode(rear.before) == msgspec.msgpack.decode(msgspec.msgpack.encode(feed.state))
            frames = {name: self._crew.frame(where) for name, where in rear.frames.items()}
        except (OSError, EOFError, ValueError, TypeError, OverflowError, pl.exceptions.PolarsError):
            return False
        if not same:
            return False
        number = pl.lit(feed.id, dtype=pl.UInt32).alias(FILE)
        frames = {name: frame.with_columns(number) for name, frame in frames.items()}
        store = follower.stores[feed.view]
        if not fits(frames, store) or not hashed.up_to(rear.end):
            return False
        for name, frame in frames.items():
            store.put_frame(name, frame, frozenset({feed.id}))
        feed.state = msgspec.msgpack.decode(rear.after)
        feed.problems = (*feed.problems, *rear.problems)
        return True


class _Hashed:
    """The fingerprints of what a feed has not read of its file, so that it can go on behind it."""

    def __init__(self, feed: Feed, content: Content) -> None:
        self._feed = feed
        self._hasher = feed.hasher.copy() if feed.hasher is not None else xxhash.xxh3_64()
        self._content = content
        self._at = feed.consumed
        self._last = b""
        # The helper stops at the last line break; what is behind it is small.
        self._to(content.size - BLOCK)

    def _to(self, end: int) -> None:
        while self._at < end:
            data = self._content.piece(self._at, min(BLOCK, end - self._at))
            if not data:
                return
            self._hasher.update(data)
            self._at += len(data)
            self._last = (self._last + data[-MARK:])[-MARK:]

    def up_to(self, end: int) -> bool:
        """Move the feed to byte ``end``; False if that cannot be, and nothing is changed."""
        self._to(end)
        if self._at != end:
            return False
        self._feed.hasher, self._feed.digest, self._feed.consumed = self._hasher, None, end
        self._feed.mark = fingerprint(self._last) if len(self._last) == MARK else -1
        return True
