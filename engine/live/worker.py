"""The helping process of ``crew``: reads files from the back of the list until it meets the session, then hands over."""

from __future__ import annotations

import gc
import importlib
import io
import mmap
import os
import time
from typing import Any

import msgspec
import numpy as np
import polars as pl

from engine.inputs import FILE
from engine.live.cache.restore import entry_of
from engine.live.crew import STRIDE, Board, Delivery, Found, Item, Rear, Request
from engine.live.files.tracked_file import Feed, File
from engine.live.ingest.file_content import BLOCK, Content
from engine.live.ingest.follower import Follower
from engine.live.ingest.unpack import stem
from engine.live.store import Store
from engine.problems import Problem
from engine.reading import HEAD_RESUMED, Resumable, Source
from engine.view import View

CLAIM = 2 << 20
"""Bytes of files that are claimed at once."""
HAND_OVER = 48 << 20
"""Bytes of files after which what was read of them is handed over."""
_STEP = 1 << 20


def main(fd: int) -> None:
    """Do what the board at ``fd`` asks, then wait to be ended."""
    gc.disable()
    board = Board(fd)
    request = msgspec.msgpack.decode(board.request(), type=Request)
    views: list[View] = [importlib.import_module(module).VIEW for module in request.modules]
    hand = Hand(board, request, views, answers=1)
    hand.work()
    while True:  # until the session lets go
        time.sleep(60)


class Hand:
    """Reads for a session in another process."""

    def __init__(self, board: Board, request: Request, views: list[View], *, answers: int) -> None:
        """``answers``: descriptor on which the session is told what lies on the board."""
        self.board = board
        self.answers = answers
        self.request = request
        self.views = views
        self.stores = {v.name: Store({t.name: t for k in v.kinds for t in k.tables}.values()) for v in views}
        self.follower = self._follower(self.stores)

    def _follower(self, stores: dict[str, Store]) -> Follower:
        kinds = [(view.name, kind) for view in self.views for kind in view.kinds]
        return Follower(kinds, stores, self.request.settings, lambda: time.time_ns() // 1_000_000)

    def send(self, message: bytes) -> None:
        """Tell the session that a message lies on the board."""
        place, length = self.board.add(message)
        os.write(self.answers, b"%d %d\n" % (place, length))

    def _frame(self, frame: pl.DataFrame) -> tuple[int, int]:
        buffer = io.BytesIO()
        frame.write_ipc(buffer, compression="uncompressed")
        return self.board.add(buffer.getbuffer())

    def work(self) -> None:
        """Everything, in the order in which the session asks for it."""
        if self.request.large >= 0:
            self.send(msgspec.msgpack.encode(self.rear(self.request.items[self.request.large])))
        self.rest()

    # -- small files -------------------------------------------------------------------------------------------

    def rest(self) -> None:
        """Read from the back of the list as far as the session has not come, and hand over now and then: what comes last is
        then little, and the session need not wait long for it."""
        cells, items = self.board.view, self.request.items
        found: list[Found] = []
        good: dict[str, set[int]] = {view.name: set() for view in self.views}
        high, gathered, done = len(items), 0, False
        while not done:
            low, size = high, 0
            while low > 0 and size < CLAIM:
                low -= 1
                size += items[low].stat[2]
            cells[1] = low
            met = cells[0]
            for index in range(max(low, met), high):
                if index != self.request.large:
                    read = self._one(index, items[index], good)
                    if read is not None:
                        found.append(read)
            high, gathered, done = low, gathered + size, met > low or low == 0
            if done or gathered >= HAND_OVER:
                self.send(msgspec.msgpack.encode(self._delivery(found, good, done)))
                found, good, gathered = [], {view.name: set() for view in self.views}, 0

    def _delivery(self, found: list[Found], good: dict[str, set[int]], last: bool) -> Delivery:
        frames: dict[str, dict[str, tuple[int, int]]] = {}
        for view in self.views:
            self.follower.flush(view.name)
            store, frames[view.name] = self.stores[view.name], {}
            for name in store.tables:
                frame = store.firm(name, frozenset(good[view.name]))
                if frame.height:
                    if not frame[FILE].is_sorted():
                        frame = frame.sort(FILE, maintain_order=True)
                    frames[view.name][name] = self._frame(frame)
            store.forget(set(self.follower.infos[view.name]))
        read, self.follower.bytes_read = self.follower.bytes_read, 0
        return Delivery(tuple(sorted(found, key=lambda one: one.index)), frames, read, last)

    def _one(self, index: int, item: Item, good: dict[str, set[int]]) -> Found | None:
        """Read one file; None if the session had better look at it itself."""
        file = File(item.stat[:2])
        path = os.fsdecode(item.path)
        file.paths.add(path)
        follower = self.follower
        follower.copies.place(file, path, os.fsdecode(item.root))
        follower.go_on_from(index * STRIDE)
        try:
            follower.visit(file, final=self.request.final)
        except Exception:
            return None  # the session meets it too and says so
        sound = file.stat == item.stat[2:] and not (file.problems or file.packing or file.twin)
        entries = [
            entry_of(file, feed, item.stat, "", feed.id) if sound and _done(feed) else None for feed in file.feeds
        ]
        whole = [entry for entry in entries if entry is not None]
        if not sound or len(whole) != len(entries) or len(entries) >= STRIDE:
            follower.drop(file)
            return None
        for feed in file.feeds:
            good[feed.view].add(feed.id)
        return Found(
            index,
            file.head_length,
            file.head_mark,
            file.reason,
            file.verify,
            file.due,
            tuple(msgspec.Raw(msgspec.msgpack.encode(entry)) for entry in whole),
            tuple(feed.view for feed in file.feeds),
        )

    # -- the rear of a large one -------------------------------------------------------------------------------

    def rear(self, item: Item) -> Rear | None:
        """The rear part of a large file, None if it cannot be read without its front."""
        path = os.fsdecode(item.path)
        file = File(item.stat[:2])
        follower = self._follower({name: Store(store.tables.values()) for name, store in self.stores.items()})
        follower.copies.place(file, path, os.fsdecode(item.root))
        try:
            with Content(path, max_unpacked=1, max_document=1) as content:
                status = content.status
                if content.packing or (status.st_size, status.st_mtime_ns) != item.stat[2:4]:
                    return None
                name = stem(path.rpartition("/")[2], "")
                readers = follower.recogniser.readers(file, name, content.head())
                if len(readers) != 1:
                    return None
                view, kind, known_as = readers[0]
                if not kind.append or not isinstance(kind, Resumable):
                    return None
                source = Source(file.shown, known_as, status.st_mtime_ns // 1_000_000, content.size)
                begin = content.cut(kind, self.request.rear)
                if not begin:
                    return None
                state = kind.resume(source, content.raw(0, HEAD_RESUMED), _breaks(path, begin))
                if state is None:
                    return None
                return self._rear(content, source, follower.stores[view], (view, kind), begin, state)
        except Exception:
            return None

    def _rear(
        self, content: Content, source: Source, store: Store, reader: tuple[str, Any], begin: int, state: Any
    ) -> Rear | None:
        at, before, problems = begin, msgspec.msgpack.encode(state), list[Problem]()
        while at < content.size:
            data = content.piece(at, min(BLOCK, content.size - at))
            reading = reader[1].read(
                Source(source.path, source.name, source.mtime_ms, source.size, at), data, state, False
            )
            if not reading.consumed:
                break
            store.put(1, reading.rows, store.check(reading.rows))
            problems += reading.problems
            state = reading.state
            at += reading.consumed
        if at == begin or store.flush():
            return None
        frames = {name: self._frame(store.firm(name, frozenset({1})).drop(FILE)) for name in store.tables}
        return Rear(reader[0], reader[1].id, begin, at, before, msgspec.msgpack.encode(state), tuple(problems), frames)


def _done(feed: Feed) -> bool:
    """Whether a reader has taken all there is, so that nothing of it waits for another look."""
    if feed.info is None or feed.stale or feed.held or feed.provisional or feed.late:
        return False
    return not feed.rest


def _breaks(path: str, end: int) -> int:
    """Line breaks before byte ``end``. Mapped into memory, which is quickest; should the file be cut meanwhile, this process
    dies and the session reads alone."""
    with open(path, "rb") as file, mmap.mmap(file.fileno(), end, prot=mmap.PROT_READ) as mapped:
        data = np.frombuffer(mapped, dtype=np.uint8)
        count = sum(int(np.count_nonzero(data[at : at + _STEP] == 10)) for at in range(0, end, _STEP))
        del data
        return count
