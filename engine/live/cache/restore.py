"""Files that were read elsewhere: by an earlier process (``keep``) or by a helping one (``worker``)."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
import polars as pl

from engine.inputs import FILE, FileInfo
from engine.live.cache.cache_files import Entry
from engine.live.files.scan import Stat
from engine.live.files.tracked_file import Feed, File
from engine.live.ingest.follower import Follower
from engine.live.ingest.unpack import Packing
from engine.live.store import Store
from engine.reading import FileKind


def entry_of(file: File, feed: Feed, stat: Stat, segment: str, number: int) -> Entry | None:
    """What must be known of a file to go on with it in another process, None if that cannot be said."""
    digest = feed.hasher.intdigest() if feed.hasher is not None else feed.digest
    if digest is None or feed.info is None:
        return None
    try:
        state: bytes = msgspec.msgpack.encode(feed.state)
    except (TypeError, OverflowError, ValueError):
        return None
    return Entry(
        path=relative(file),
        stat=stat,
        head_length=file.head_length,
        head_mark=file.head_mark,
        packing=file.packing,
        kind=feed.kind.id,
        name=feed.name,
        segment=segment,
        number=number,
        consumed=feed.consumed,
        mark=feed.mark,
        digest=digest,
        rest=feed.rest,
        tried_final=feed.tried_final,
        mtime_ms=feed.info.mtime_ms,
        state=state,
        problems=feed.problems,
    )


def feed_of(follower: Follower, view: str, kind: FileKind, file: File, entry: Entry) -> Feed:
    """``file`` as a reader saw it in another process, with a new id."""
    feed = Feed(view, kind, entry.name)
    follower.adopt(feed)
    feed.version = follower.versions[view] + 1
    feed.consumed, feed.mark, feed.digest = entry.consumed, entry.mark, entry.digest
    feed.rest, feed.tried_final, feed.problems = entry.rest, entry.tried_final, entry.problems
    feed.state = msgspec.msgpack.decode(entry.state)
    feed.info = FileInfo(feed.id, file.shown, file.label, entry.kind, entry.mtime_ms, entry.stat[2], feed.version)
    file.feeds.append(feed)
    follower.infos[view].put(feed.info)
    follower.note(feed)
    file.reason = ""
    return feed


def mark_read(file: File, stat: Stat) -> None:
    """``file`` counts as read in the state ``stat``."""
    file.stat = file.noted = stat[2:]
    file.noted_at = time.monotonic()
    file.read_path = file.path


def fits(frames: Mapping[str, pl.DataFrame], store: Store) -> bool:
    """Whether these frames are such as the store's tables are."""
    return all(
        name in store.tables and not _differs(frame, store.tables[name].schema) for name, frame in frames.items()
    )


def put(store: Store, frames: Mapping[str, pl.DataFrame], numbers: Sequence[tuple[int, int]]) -> None:
    """Rows of ``frames`` into ``store``; ``numbers``: value of their ``file`` column and the id here. Rows of other
    files are left out."""
    top = max((int(frame[FILE].max() or 0) for frame in frames.values() if frame.height), default=0)  # type: ignore[arg-type]
    ids = np.zeros(max(top, *(number for number, _ in numbers)) + 1, dtype=np.uint32)
    for number, mine in numbers:
        ids[number] = mine
    files = frozenset(mine for _, mine in numbers)
    for name, frame in frames.items():
        if not frame.height:
            continue
        mapped = ids[frame[FILE].to_numpy()]
        frame = frame.with_columns(pl.Series(FILE, mapped))
        if not mapped.all():
            frame = frame.filter(pl.col(FILE) != 0)
        store.put_frame(name, frame, files)


def relative(file: File) -> bytes:
    """Path of a file below its root."""
    prefix = file.root.rstrip("/") + "/"
    path = file.path[len(prefix) :] if file.path.startswith(prefix) else os.path.relpath(file.path, file.root)
    return os.fsencode(path)


def packing_of(text: str) -> Packing:
    """A compression by its name, the empty text for none or an unknown one."""
    return "gzip" if text == "gzip" else "zstd" if text == "zstd" else ""


def _differs(frame: pl.DataFrame, schema: Any) -> bool:
    found = dict(frame.schema)
    return found.pop(FILE, None) != pl.UInt32 or found != dict(schema)
