"""Parsed files on disk, so that a second start costs little more than a scan; and which files a session takes from there and
writes to it."""

from __future__ import annotations

import contextlib
import io
import logging
import os
import shutil
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec
import polars as pl
import xxhash

from engine import __version__
from engine.core.compression import packing_of
from engine.core.reading import Problem
from engine.core.view import View
from engine.live.cache.location import make_folders, parsed_folder, prefix
from engine.live.cache.manifest import Entry, Manifest, Unread, add_reader, entry_of, mark_read, relative
from engine.live.files.scan import Stat
from engine.live.files.tracked_file import ReaderState, TrackedFile
from engine.live.ingest.registry import Registry
from engine.live.options import LiveSettings
from engine.own_files.private_files import lock, open_file, replace_file

log = logging.getLogger(__name__)

_MAGIC = b"loadlens-cache-2"
_MANIFEST = "manifest"
_DECODER = msgspec.msgpack.Decoder(Manifest)


class Segment(msgspec.Struct, frozen=True):
    """The rows of many files: tables and schemas of its parts, and the parts as an iterator that can be used once."""

    schemas: list[tuple[str, pl.Schema]]
    parts: Iterator[tuple[str, pl.DataFrame]]


class Cache:
    """Reads and writes folders of parsed files, at most ``cache_max_mb`` of them. ``failure``: why the last write failed."""

    def __init__(self, settings: LiveSettings) -> None:
        self._settings = settings
        self.directory = parsed_folder(settings)
        self._limit = settings.cache_max_mb << 20
        self.failure = ""

    def folder(self, root: str, view: View) -> Path:
        """Return the folder of the rows of ``view`` from below ``root``: another one for other readers or tables."""
        readers = [
            (kind.id, kind.version, kind.append, [(table.name, str(table.schema)) for table in kind.tables])
            for kind in view.kinds
        ]
        # 2: raise it when readers give other rows for the same bytes
        versions = xxhash.xxh3_64_hexdigest(repr((2, __version__, pl.__version__, readers)).encode())
        return self.directory / f"{prefix(root, view.name)}-{versions}"

    def load(self, folder: Path) -> Manifest | None:
        """Return the manifest of ``folder``, None if there is none that can be used."""
        try:
            if folder.stat().st_uid != os.geteuid():
                return None  # someone else's: never
            data = (folder / _MANIFEST).read_bytes()
            begin = len(_MAGIC) + 8
            if data[: len(_MAGIC)] != _MAGIC or data[len(_MAGIC) : begin] != _sum(data[begin:]).to_bytes(8, "big"):
                return None
            manifest = _DECODER.decode(data[begin:])
            os.utime(folder)
        except (OSError, msgspec.DecodeError, ValueError):
            return None
        return manifest

    @staticmethod
    def holds(folder: Path, segment: str, sums: Mapping[str, tuple[int, ...]]) -> bool:
        """Whether the files of a segment are still there: another loadlens may have removed it."""
        return all(_part(folder, segment, table, part).exists() for table in sums for part in range(len(sums[table])))

    def rows(self, folder: Path, manifest: Manifest, segment: str) -> Segment | None:
        """Return the rows of a segment, None if it is damaged or gone."""
        parts: list[tuple[str, bytes]] = []
        try:
            for table, sums in sorted(manifest.segments[segment].items()):
                for part, wanted in enumerate(sums):
                    data = _part(folder, segment, table, part).read_bytes()
                    if _sum(data) != wanted:
                        return None
                    parts.append((table, data))
            schemas = [(table, pl.Schema(pl.read_parquet_schema(io.BytesIO(data)))) for table, data in parts]
        except (OSError, KeyError, pl.exceptions.PolarsError):
            return None
        return Segment(schemas, ((table, pl.read_parquet(io.BytesIO(data))) for table, data in parts))

    def save(
        self,
        folder: Path,
        entries: Iterable[Entry],
        unread: Iterable[Unread],
        reused: Mapping[str, Mapping[str, tuple[int, ...]]],
        new: Iterable[tuple[str, Mapping[str, Iterable[pl.DataFrame]]]],
    ) -> bool:
        """Write the ``new`` segments, then the manifest, then remove what it no longer names. Returns whether all was saved.

        ``reused``: segments that are there already, by table the XXH3 of their files; ``new``: by table their rows in parts.
        """
        try:
            make_folders(self._settings, folder)
            with open(open_file(folder / "lock", os.O_WRONLY | os.O_CREAT), "wb") as file:
                try:
                    lock(file.fileno())
                except BlockingIOError:
                    return False  # another loadlens is at it
                segments = {name: dict(sums) for name, sums in reused.items()}
                size = 0
                for name, tables in new:
                    segments[name] = {}
                    for table, frames in tables.items():
                        sums: list[int] = []
                        for frame in frames:
                            buffer = io.BytesIO()
                            frame.write_parquet(buffer, compression="lz4", statistics=False)
                            data = buffer.getbuffer()
                            size += len(data)
                            if size > self._limit:
                                return False
                            replace_file(_part(folder, name, table, len(sums)), data)
                            sums.append(_sum(data))
                        segments[name][table] = tuple(sums)
                body = msgspec.msgpack.encode(Manifest(tuple(entries), tuple(unread), segments))
                replace_file(folder / _MANIFEST, b"".join((_MAGIC, _sum(body).to_bytes(8, "big"), body)))
                for path in folder.iterdir():
                    if path.name not in (_MANIFEST, "lock") and path.name.split(".")[0] not in segments:
                        path.unlink()
            _trim(self.directory, self._limit)
        except (OSError, pl.exceptions.PolarsError) as error:
            log.debug("the cache could not be written: %s", error)
            self.failure = (error.strerror if isinstance(error, OSError) else None) or str(error)
            return False
        self.failure = ""
        return True


def _part(folder: Path, segment: str, table: str, part: int) -> Path:
    return folder / f"{segment}.{table}.{part}.parquet"


def _trim(directory: Path, limit: int) -> None:
    """Delete the folders in ``directory`` that were used least recently until the rest has at most ``limit`` bytes."""
    sizes = []
    for folder in directory.iterdir():
        with contextlib.suppress(OSError):
            size = sum(path.stat().st_size for path in folder.iterdir())
            sizes.append((folder.stat().st_mtime_ns, size, folder))
    total = sum(size for _, size, _ in sizes)
    for _, size, folder in sorted(sizes, key=lambda item: item[0]):
        if total <= limit:
            break
        shutil.rmtree(folder, ignore_errors=True)
        total -= size


def _sum(data: bytes | memoryview) -> int:
    return xxhash.xxh3_64_intdigest(data)


GROWN = 0.25
"""Share by which a log may grow before its rows are saved again; until then its tail is read at the next start."""
SEGMENT_BYTES = 256 << 20  # bytes of files after which their rows start another segment
SEGMENTS = 16  # segments of a folder above which they are written again as one
SAVE_EVERY_S = 60.0  # seconds between two writes of a live session to the cache
AGAIN_S = 5.0  # seconds after a write that failed until the next try
Place = tuple[str, str]  # root and view
Pair = tuple[TrackedFile, ReaderState]


class _Folder:
    """What one folder of the cache holds and has not yet been taken from it."""

    def __init__(self, path: Path, manifest: Manifest | None) -> None:
        self.path, self.manifest = path, manifest or Manifest((), (), {})
        self.entries: dict[bytes, list[Entry]] = {}
        for entry in self.manifest.entries:
            self.entries.setdefault(entry.path, []).append(entry)
        self.unread = {file.path: file for file in self.manifest.unread}
        self.sums = dict(self.manifest.segments)


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
        if not entries:
            same = unread if unread is not None and unread.stat == stat else None
            return [], same, same is not None
        usable = [e for e in entries if (not exactly or e.stat == stat) and self._usable(place[1], e, stat)]
        complete = len(usable) == len(entries) and all(e.stat == stat and not e.rest for e in usable)
        return usable, None, complete

    def _usable(self, view: str, entry: Entry, stat: Stat) -> bool:
        kind = next((kind for kind in self._views[view].kinds if kind.id == entry.kind), None)
        if kind is None or entry.stat[:2] != stat[:2]:
            return False
        # A log may have grown: reading continues where it stopped if the fingerprints agree. A packed log is not compared by
        # size: its prefix is unpacked and compared anyway.
        return entry.stat == stat or (kind.append and (bool(entry.packing) or stat[2] >= entry.consumed))

    def _restore_segment(self, place: Place, segment: str, pairs: list[tuple[TrackedFile, Entry]]) -> bool:
        folder, view = self._folder(place), place[1]
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
            store.put_frames(name, frame, ids)
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
                plain = (file.head_length, file.head_mark, file.packing, file.reason)
                unread.setdefault((file.root, view), []).append(Unread(relative(file), _stat_of(file), *plain))
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
                # A log that has grown keeps its saved prefix as it was; otherwise only what is beside the rows may differ.
                again = before
                if reader.consumed == before.consumed:
                    again = entry_of(file, reader, stat, before.segment, before.number) or before
                entries.append(again)
                continue
            if left <= 0:
                segment, left = uuid.uuid4().hex, SEGMENT_BYTES
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
            saved = (
                self._cache.load(folder.path) if self._cache.save(folder.path, entries, unread, sums, made) else None
            )
            if saved is not None:
                folder.sums, folder.manifest = dict(saved.segments), saved
                self._saved.update(new)

        return job

    def _reused(self, folder: _Folder, entries: Iterable[Entry]) -> set[str]:
        """Return the existing segments of which at least half is still valid; none if there are too many."""
        used: dict[str, int] = {}
        for entry in entries:
            used[entry.segment] = used.get(entry.segment, 0) + 1
        good = [
            name
            for name in used.keys() & folder.sums.keys()
            if 2 * used[name] >= sum(1 for entry in folder.manifest.entries if entry.segment == name)
        ]
        reused = {name for name in good if self._cache.holds(folder.path, name, folder.sums[name])}
        return reused if len(reused) < SEGMENTS else set()


def _stat_of(file: TrackedFile) -> Stat:
    assert file.stat is not None
    return (*file.identity, *file.stat)
