"""Parsed files on disk, so that a second start costs little more than a scan.

One folder per root and view: a manifest (which file, in which state, gave which rows) and segments (the rows of many
files at once, Parquet). Nothing in it is trusted: the key holds the reader's versions and table schemas, an entry is
used only for a file of the same device, inode, size and times, sums guard against damage, and anything odd means that
the files are parsed again, silently. Nothing from it is ever executed.
"""

from __future__ import annotations

import contextlib
import io
import logging
import os
import shutil
import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec
import polars as pl
import xxhash

from engine import __version__
from engine.core.view import View
from engine.live.cache.location import make_folders, parsed_folder, prefix
from engine.live.cache.manifest import Entry, Manifest, Unread
from engine.live.options import LiveSettings
from engine.own_files.private_files import lock, open_file, replace_file

log = logging.getLogger(__name__)

_MAGIC = b"loadlens-cache-2"
_MANIFEST = "manifest"
_DECODER = msgspec.msgpack.Decoder(Manifest)


@dataclass(frozen=True, slots=True)
class Segment:
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
    """Return the path of one part of a table of a segment."""
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


def new_segment() -> str:
    """Return an unused name for a segment."""
    return uuid.uuid4().hex


def _sum(data: bytes | memoryview) -> int:
    return xxhash.xxh3_64_intdigest(data)
