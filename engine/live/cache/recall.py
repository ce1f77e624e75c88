"""A report asked for again over the very same files: its result is kept beside the parsed files.

``find`` looks at the files' identities only; nothing of the live path, of readers or of a view's model is loaded or
run. A result is used if the program, the choices, every path and every device, inode, size and time are those of the
run that made it. It is kept only of views that say ``lasting``, and only if every file had been read to its end and
had settled. Damage is noticed and the result computed again, silently.
"""

from __future__ import annotations

import io
import logging
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
import polars as pl
import xxhash

import engine
from engine.live.cache.cache_files import trim, write
from engine.live.files.first_look import Look
from engine.live.files.scan import Stat
from engine.parameters import Parameters
from engine.problems import Problem
from engine.result import Finding, Headline, Result

log = logging.getLogger(__name__)

KEPT = 8
"""Results kept per view and roots: the newest ones."""
RACY_NS = 2_000_000_000
"""A file modified so shortly before the scan may be written again without a trace in its times."""
_MAGIC = b"loadlens-result-1"


class _Saved(msgspec.Struct, array_like=True, frozen=True):
    """Everything of a result but its frames and what only the screen draws."""

    view: str
    summary: dict[str, Any]
    headline: tuple[Headline, ...]
    findings: tuple[Finding, ...]
    notes: tuple[str, ...]
    problems: tuple[Problem, ...]
    newest_ms: int | None
    at_ms: int | None
    focus: dict[str, tuple[str, str]]
    tables: tuple[tuple[str, int], ...]


class Recall:
    """Finds and keeps the result of ``view`` with these choices over the files of ``look``. ``wanted`` False: neither."""

    def __init__(
        self, look: Look, view: Any, parameters: Parameters, at_ms: int | None, *, wanted: bool = True
    ) -> None:
        self._look = look
        self._file: Path | None = None
        self._stamp = b""
        if not (wanted and look.caching and getattr(view, "lasting", False)):
            return
        program = _program()
        if program is None or look.scanner.problems:
            return
        files = sorted((os.fsencode(path), stat) for path, stat in look.changes.changed.items())
        try:
            choices = msgspec.msgpack.encode((parameters, at_ms, look.settings))
            self._stamp = xxhash.xxh3_128_digest(program + msgspec.msgpack.encode(files))
        except (TypeError, OverflowError, ValueError):
            return
        self._file = look.folder(view.name) / f"{xxhash.xxh3_128_hexdigest(choices)}.result"

    def find(self) -> Result | None:
        """The result kept of these very files, None if there is none that can be used."""
        if self._file is None:
            return None
        try:
            if self._file.parent.stat().st_uid != os.geteuid():
                return None
            data = self._file.read_bytes()
            found = _unpacked(data, self._stamp)
            if found is not None:
                os.utime(self._file)
                os.utime(self._file.parent)
            return found
        except (OSError, msgspec.DecodeError, ValueError):
            return None

    def keep(self, result: Result, settled: Mapping[str, Stat] | None) -> bool:
        """Keep ``result``. ``settled``: path and identity of every file as it was read, None if that is not certain.
        False if it is not kept."""
        changed = self._look.changes.changed
        if self._file is None or settled != changed:
            return False
        if max(stat[3] for stat in changed.values()) > self._look.begun_ns - RACY_NS:
            return False
        folder = self._file.parent
        try:
            data = _packed(result, self._stamp)
            limit = self._look.settings.cache_max_mb << 20
            if len(data) > limit // 4:
                return False
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            if folder.stat().st_uid != os.geteuid():
                return False
            write(self._file, data)
            others = sorted(folder.glob("*.result"), key=lambda path: path.stat().st_mtime_ns, reverse=True)
            for path in others[KEPT:]:
                path.unlink(missing_ok=True)
            trim(folder.parent, limit)
        except (OSError, pl.exceptions.PolarsError, TypeError, ValueError, OverflowError) as error:
            log.debug("the result could not be kept: %s", error)
            return False
        return True


def _packed(result: Result, stamp: bytes) -> bytes:
    frames = []
    for name, frame in result.tables.items():
        buffer = io.BytesIO()
        frame.write_ipc(buffer, compression="uncompressed")
        frames.append((name, buffer.getvalue()))
    head = msgspec.msgpack.encode(
        _Saved(
            result.view,
            dict(result.summary),
            result.headline,
            tuple(result.findings),
            result.notes,
            result.problems,
            result.newest_ms,
            result.at_ms,
            dict(result.focus),
            tuple((name, len(data)) for name, data in frames),
        )
    )
    body = b"".join((stamp, len(head).to_bytes(8, "big"), head, *(data for _, data in frames)))
    return b"".join((_MAGIC, xxhash.xxh3_128_digest(body), body))


def _unpacked(data: bytes, stamp: bytes) -> Result | None:
    view = memoryview(data)
    at = len(_MAGIC) + 16
    if data[: len(_MAGIC)] != _MAGIC or data[at : at + 16] != stamp:
        return None
    if xxhash.xxh3_128_digest(view[at:]) != data[len(_MAGIC) : at]:
        return None
    at += 24
    size = int.from_bytes(data[at - 8 : at], "big")
    saved = msgspec.msgpack.decode(view[at : at + size], type=_Saved)
    at += size
    pieces = {}
    for name, length in saved.tables:
        pieces[name] = view[at : at + length]
        at += length
    return Result(
        view=saved.view,
        summary=saved.summary,
        tables=_Frames(pieces),
        headline=saved.headline,
        findings=saved.findings,
        notes=saved.notes,
        problems=saved.problems,
        newest_ms=saved.newest_ms,
        at_ms=saved.at_ms,
        focus=saved.focus,
    )


class _Frames(Mapping[str, pl.DataFrame]):
    """Tables that become frames when they are asked for: most reports show one of them."""

    def __init__(self, pieces: Mapping[str, memoryview]) -> None:
        self._pieces = pieces
        self._made: dict[str, pl.DataFrame] = {}

    def __getitem__(self, name: str) -> pl.DataFrame:
        if name not in self._made:
            self._made[name] = pl.read_ipc(io.BytesIO(self._pieces[name]))
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._pieces)

    def __len__(self) -> int:
        return len(self._pieces)


def _program() -> bytes | None:
    """What stands for this very program: versions and the sizes and times of its files. None: not told."""
    digest = xxhash.xxh3_128(repr((engine.__version__, pl.__version__)).encode())
    folders = [str(Path(engine.__file__).parent)]
    try:
        while folders:
            with os.scandir(folders.pop()) as entries:
                for entry in sorted(entries, key=lambda entry: entry.name):
                    if entry.is_dir():
                        if entry.name != "__pycache__":
                            folders.append(entry.path)
                    elif entry.name.endswith(".py"):
                        status = entry.stat()
                        digest.update(repr((entry.path, status.st_size, status.st_mtime_ns)).encode())
    except OSError:
        return None
    return digest.digest()
