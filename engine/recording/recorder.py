"""Records a session: the content of the files that its views read, as it comes, in one file of bounded size."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import msgspec
import xxhash

from engine.live.files.opening import RegularFile
from engine.own_files.private_files import open_file
from engine.recording.layout import LATEST_NS, PIECE, Entry, Writer, packed

if TYPE_CHECKING:
    from engine.live.session import Session

log = logging.getLogger(__name__)

MARK = 1024  # bytes at the beginning of a file and before its recorded end that tell growth from a rewrite


class _Known(msgspec.Struct):
    """What was recorded of one file: who it is, ``hasher`` of all its bytes, ``marks`` of its beginning and its end."""

    stat: tuple[int, int, int, int]
    size: int
    hasher: Any
    head: bytes
    tail: bytes


class Full(Exception):
    """The recording has reached its limit."""


class Recorder:
    """One recording. ``look`` is called about once a second, from any thread; writing happens in a thread of its own.

    ``limit``: bytes of content after which it ends. ``state`` says how it stands, for a status line; ``problem`` why it ended
    early, or empty.
    """

    def __init__(self, path: Path, limit: int, now_ms: Callable[[], int] | None = None) -> None:
        """Raises OSError, also if the file exists: nothing is ever overwritten."""
        self._writer = Writer(os.fdopen(open_file(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL), "wb"))
        self._limit = limit
        self._now_ms = now_ms or _steady_clock()
        self._known: dict[str, _Known] = {}
        self._versions: tuple[object, ...] = ()
        self._content = 0
        self._begun = False
        self._closed = False
        self.problem = ""
        self.state = "recording"
        self._wake = threading.Condition()
        self._session: Session | None = None
        self._thread = threading.Thread(target=self._run, name="recorder", daemon=True)

    def look(self, session: Session | None) -> None:
        """Ask for a look at the files of ``session``."""
        with self._wake:
            if session is None or self._closed:
                return
            self._session = session
            if self._thread.ident is None:
                self._thread.start()
            self._wake.notify()

    def close(self) -> None:
        """End the recording; waits for a look under way. Never raises."""
        with self._wake:
            self._closed = True
            self._wake.notify()
        if self._thread.ident is not None:
            self._thread.join()
        else:
            self._end()

    # -- its thread -------------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        while True:
            with self._wake:
                self._wake.wait_for(lambda: self._session is not None or self._closed)
                session, self._session = self._session, None
            if session is not None and not self.problem:
                self._take(session)
            if self._closed:
                self._end()
                return

    def _take(self, session: Session) -> None:
        """Record changes; note the reason if recording has to stop."""
        versions = tuple(session.inputs(name) for name in session.views)
        if self._begun and list(map(id, versions)) == list(map(id, self._versions)):
            return
        try:
            self.take(session.roots, session.followed(), follow=session.settings.follow_symlinks)
        except Full:
            self.problem = f"it holds {self._limit >> 20:,} MB, as much as it may (max-unpacked-mb)"
        except OSError as error:
            self.problem = error.strerror or str(error)
        self._versions = versions
        if self.problem:
            log.warning("recording ended: %s", self.problem)
        self.state = f"recording ended: {self.problem}" if self.problem else f"recording {self._content / 1e6:,.1f} MB"

    def take(self, roots: Iterable[str], paths: Iterable[str], *, follow: bool = False) -> None:
        """Record changes below ``roots`` in the files ``paths``, and the files that are gone. Raises OSError, Full.

        ``follow``: whether links may lead elsewhere.
        """
        places = list(roots)
        now = self._now_ms()
        if not self._begun:
            self._begun = True
            names = [_place(number, root, root) + "/" * Path(root).is_dir() for number, root in enumerate(places)]
            self._writer.write(Entry(kind="begin", at_ms=now, roots=tuple(packed(name) for name in names)))
        there = {name: path for path in paths if (name := _name(places, path))}
        for name in [name for name in self._known if name not in there]:
            del self._known[name]
            self._writer.write(Entry(kind="remove", at_ms=now, path=packed(name)))
        for name, path in there.items():
            self._record(name, path, () if follow else places, now)
        self._writer.flush()

    def _record(self, name: str, path: str, within: Sequence[str], now: int) -> None:
        """Record the changes of one file; an unreadable one is left for the next look."""
        try:
            status = os.stat(path)  # noqa: PTH116  (once a second for each file)
            known = self._known.get(name)
            if known is not None and known.stat == _stat(status):
                return
            file = RegularFile(path, within)
        except OSError:
            return
        try:
            if known is not None and known.stat[:2] == _stat(file.status)[:2] and self._same_so_far(file, known):
                for piece in _pieces(file, known.size):
                    self._write("append", name, file, known, now, piece)
                known.stat = _stat(file.status)
            else:
                self._replace(name, file, now)
        finally:
            file.close()

    @staticmethod
    def _same_so_far(file: RegularFile, known: _Known) -> bool:
        """Whether a file still begins with what was recorded of it: by its marks if it has grown, else by all its bytes."""
        size = file.status.st_size
        if size > known.size:
            tail = file.read(len(known.tail), known.size - len(known.tail))
            return file.read(len(known.head), 0) == known.head and tail == known.tail
        if size < known.size:
            return False
        hasher = xxhash.xxh3_64()
        for at in range(0, size, PIECE):
            hasher.update(file.read(PIECE, at))
        return bool(hasher.digest() == known.hasher.digest())

    def _replace(self, name: str, file: RegularFile, now: int) -> None:
        known = self._known[name] = _Known(_stat(file.status), 0, xxhash.xxh3_64(), b"", b"")
        for piece in _pieces(file, 0):
            self._write("replace", name, file, known, now, piece, more=True)
        self._write("replace", name, file, known, now, b"")

    def _write(
        self,
        kind: Literal["append", "replace"],
        name: str,
        file: RegularFile,
        known: _Known,
        now: int,
        piece: bytes,
        *,
        more: bool = False,
    ) -> None:
        """Write one piece of a file and update its record. Raises OSError, Full."""
        self._content += len(piece)
        if self._content > self._limit:
            raise Full
        known.hasher.update(piece)
        known.head = known.head + piece[: MARK - len(known.head)]
        known.tail = (known.tail + piece[-MARK:])[-MARK:]
        known.size += len(piece)
        changed = min(max(file.status.st_mtime_ns, 0), LATEST_NS)
        self._writer.write(
            Entry(kind=kind, at_ms=now, path=packed(name), size=len(piece), more=more, modified_ns=changed), piece
        )

    def _end(self) -> None:
        try:
            if self._begun:
                self._writer.write(Entry(kind="end", at_ms=self._now_ms()))
            self._writer.close()
        except OSError as error:
            self.problem = self.problem or error.strerror or str(error)


def _steady_clock() -> Callable[[], int]:
    """Return a clock (epoch ms) that starts at the current time and runs evenly: where the machine's clock is set meanwhile, a
    recording must neither pause for the difference nor run through it."""
    begin_ns = time.time_ns() - time.monotonic_ns()
    return lambda: max(0, begin_ns + time.monotonic_ns()) // 1_000_000


def _stat(status: os.stat_result) -> tuple[int, int, int, int]:
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


def _pieces(file: RegularFile, offset: int) -> Iterable[bytes]:
    """Yield the content from ``offset`` to the size that the file had when it was opened."""
    while offset < file.status.st_size:
        piece = file.read(min(PIECE, file.status.st_size - offset), offset)
        if not piece:
            return
        offset += len(piece)
        yield piece


def _name(roots: list[str], path: str) -> str:
    """Return the path that a file has in the recording; empty for one below no root."""
    for number, root in enumerate(roots):
        if path == root or path.startswith(root.rstrip("/") + "/"):
            return _place(number, root, path)
    return ""


def _place(number: int, root: str, path: str) -> str:
    below = path[len(root.rstrip("/")) :].lstrip("/") if path != root else ""
    return "/".join(part for part in (str(number), os.path.basename(root.rstrip("/")) or "root", below) if part)  # noqa: PTH119
