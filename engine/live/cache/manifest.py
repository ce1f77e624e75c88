"""What the cache stores about a file so that reading can continue from there."""

from __future__ import annotations

import os
import time

import msgspec

from engine.core.reading import FileKind, Problem
from engine.core.view import FileInfo
from engine.live.files.scan import Stat
from engine.live.files.tracked_file import ReaderState, TrackedFile
from engine.live.ingest.registry import Registry


class Entry(msgspec.Struct, array_like=True, frozen=True):
    """One file as one reader has read it, up to ``consumed``.

    ``path`` is relative to the root, as bytes; ``stat`` is device, inode, size, mtime, ctime; ``number`` is the value
    of the ``file`` column in the frames of ``segment``; ``state`` the reader's state as MessagePack.
    """

    path: bytes
    stat: Stat
    head_length: int
    head_mark: int
    packing: str
    kind: str
    name: str
    segment: str
    number: int
    consumed: int
    mark: int
    digest: int
    rest: bool
    tried_final: bool
    mtime_ms: int
    state: bytes
    problems: tuple[Problem, ...]


class Unread(msgspec.Struct, array_like=True, frozen=True):
    """One file that no reader of the view takes."""

    path: bytes
    stat: Stat
    head_length: int
    head_mark: int
    packing: str
    reason: str


class Manifest(msgspec.Struct, array_like=True, frozen=True):
    """What a cache folder holds: entries, files that are not read, and per segment and table the XXH3 of its files."""

    entries: tuple[Entry, ...]
    unread: tuple[Unread, ...]
    segments: dict[str, dict[str, tuple[int, ...]]]


def entry_of(file: TrackedFile, reader: ReaderState, stat: Stat, segment: str, number: int) -> Entry | None:
    """Return the entry of ``file`` as ``reader`` has read it, None if its state cannot be written down."""
    digest = reader.hasher.intdigest() if reader.hasher is not None else reader.digest
    if digest is None or reader.info is None:
        return None
    try:
        state: bytes = msgspec.msgpack.encode(reader.state)
    except (TypeError, OverflowError, ValueError):
        return None
    return Entry(
        path=relative(file),
        stat=stat,
        head_length=file.head_length,
        head_mark=file.head_mark,
        packing=file.packing,
        kind=reader.kind.id,
        name=reader.name,
        segment=segment,
        number=number,
        consumed=reader.consumed,
        mark=reader.mark,
        digest=digest,
        rest=reader.rest,
        tried_final=reader.tried_final,
        mtime_ms=reader.info.mtime_ms,
        state=state,
        problems=reader.problems,
    )


def add_reader(registry: Registry, view: str, kind: FileKind, file: TrackedFile, entry: Entry) -> ReaderState:
    """Add to ``file`` the reader that ``entry`` describes, with a new id, and return it."""
    reader = ReaderState(view, kind, entry.name)
    registry.register(reader)
    reader.version = registry.versions[view] + 1
    reader.consumed, reader.mark, reader.digest = entry.consumed, entry.mark, entry.digest
    reader.rest, reader.tried_final, reader.problems = entry.rest, entry.tried_final, entry.problems
    reader.state = msgspec.msgpack.decode(entry.state)
    reader.info = FileInfo(reader.id, file.shown, file.label, entry.kind, entry.mtime_ms, entry.stat[2], reader.version)
    file.readers.append(reader)
    registry.indexes[view].put(reader.info)
    registry.note_problems(reader)
    registry.touched.add(view)
    file.reason = ""
    return reader


def mark_read(file: TrackedFile, stat: Stat) -> None:
    """Let ``file`` count as read in the state ``stat``."""
    file.stat = file.seen_stat = stat[2:]
    file.seen_at = time.monotonic()
    file.read_path = file.path


def relative(file: TrackedFile) -> bytes:
    """Return the path of a file below its root."""
    prefix = file.root.rstrip("/") + "/"
    path = file.path[len(prefix) :] if file.path.startswith(prefix) else os.path.relpath(file.path, file.root)
    return os.fsencode(path)
