"""Read the last part of all files in a second process, which is forked before anything heavy is loaded (``report``, ``check``).

Reading is bound to one core by the interpreter's lock. What the process hands over are outcomes of readers, each with the state
it began with: they are used where a session would call the reader with just that, so that no result depends on them. A large log
is cut at the end of a line, from where the process begins in a state that the reader foresees (``foresee``).
"""

from __future__ import annotations

import contextlib
import copy
import os
import pickle
import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import IO, TYPE_CHECKING, Any

from engine.core.compression import PACKED
from engine.core.processes import bound_memory
from engine.core.reading import HEAD, FileKind, Reading, Source, clean
from engine.live.files.opening import open_regular
from engine.live.ingest import file_content

if TYPE_CHECKING:
    from engine.live.options import LiveSettings

WORTH = 48 << 20  # bytes of job histories from which the process pays: fewer are read before it has loaded the readers
SHARE = 0.5  # of the bytes is what it reads: handing them over takes as long as what it need not load
FRONT = 1 << 20  # bytes of a log from which its reader foresees a later state; most bytes of a line where it is cut


class ReadAhead:
    """What the process reads: of each path in ``begins`` all from that byte on."""

    def __init__(self, begins: dict[str, int], ended: int, file: IO[bytes]) -> None:
        """``ended``: a pipe that closes with the process; ``file``: to which it writes outcomes."""
        self.begins = begins
        self._ended, self._file = ended, file
        self._read: dict[tuple[Any, ...], tuple[Any, Reading]] | None = None

    def take(
        self, path: str, status: os.stat_result, kind: str, offset: int, length: int, state: Any
    ) -> Reading | None:
        """Return what the reader has made of these bytes of the file with ``status`` in this state, once; None if it was not
        given them."""
        if offset < self.begins.get(path, sys.maxsize):
            return None
        if self._read is None:
            os.read(self._ended, 1)
            self._file.seek(0)
            self._read = {}
            with contextlib.suppress(EOFError, pickle.UnpicklingError):  # the process was ended
                while True:
                    self._read.update([pickle.load(self._file)])
        before, reading = self._read.pop((path, *_identity(status), kind, offset, length), (None, None))
        return reading if before == state else None


def _identity(status: os.stat_result) -> tuple[int, int, int, int]:
    """Return what tells a file from one that took its place, and from itself after a change."""
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


def _open(path: str, roots: Sequence[str]) -> IO[bytes]:
    return os.fdopen(open_regular(path, roots)[0], "rb")


def start(
    sizes: Mapping[str, int],
    roots: Sequence[str],
    kinds: Callable[[], Iterable[FileKind]],
    settings: LiveSettings,
    memory: int,
    budget: Callable[[int], AbstractContextManager[object]],
    effort: int = 1,
) -> ReadAhead | None:
    """Fork the process. Returns None if it would not pay, or once threads run or Polars is loaded.

    ``sizes``: of all files below ``roots``, by path; ``kinds``: loads the readers. The process may take ``memory`` bytes;
    ``budget`` bounds its time for some bytes; ``effort``: of reading a byte (``Entry``).
    """
    plain = {path: size for path, size in sizes.items() if not path.endswith(PACKED)}
    size = sum(plain.values())
    if settings.workers == 1 or size * effort < WORTH or threading.active_count() > 1 or "polars" in sys.modules:
        return None
    begins = dict(_begins(plain, roots, int(size * SHARE)))
    file = tempfile.TemporaryFile()  # noqa: SIM115
    ended, alive = os.pipe()
    if os.fork():
        os.close(alive)
        return ReadAhead(begins, ended, file)
    try:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        bound_memory(memory)
        os.environ.setdefault("POLARS_MAX_THREADS", "1")
        with budget(size):
            write(begins, roots, kinds(), settings, file)
    finally:
        os._exit(0)


def _begins(sizes: dict[str, int], roots: Sequence[str], share: int) -> Iterator[tuple[str, int]]:
    """Yield the last paths with ``share`` bytes, each with the byte from which on it is read: 0, or the begin of a line."""
    for path in sorted(sizes, reverse=True):
        begin = max(0, sizes[path] - share) if sizes[path] > file_content.BLOCK else 0
        if begin:
            with contextlib.suppress(OSError), _open(path, roots) as file:
                file.seek(begin)
                begin += len(file.readline(FRONT))
        yield path, begin
        share -= sizes[path] - begin
        if begin or share <= 0:
            return


def write(
    begins: dict[str, int], roots: Sequence[str], kinds: Iterable[FileKind], settings: LiveSettings, file: IO[bytes]
) -> None:
    """Read files as a session would, each from its byte on, and write the outcomes to ``file``.

    A file that cannot be opened, or lies outside of ``roots``, is left to the session, which says so.
    """
    for path in sorted(begins):
        with contextlib.suppress(OSError), _open(path, roots) as source:
            head, name = source.read(HEAD), os.path.basename(path)
            kind = next((kind for kind in kinds if kind.recognise(name, head)), None)
            if kind is not None and (not begins[path] or hasattr(kind, "foresee")):
                for key, *outcome in _outcomes(path, source, begins[path], kind, settings.max_unpacked_mb << 20):
                    pickle.dump((key, outcome), file, pickle.HIGHEST_PROTOCOL)
    file.flush()


def _outcomes(
    path: str, file: IO[bytes], begin: int, kind: Any, most_unpacked: int
) -> Iterator[tuple[tuple[Any, ...], Any, Reading]]:
    """Yield what names the bytes that the reader is given from byte ``begin`` on, the state before, and what it returns."""
    status = os.fstat(file.fileno())

    def read(at: int, length: int, state: Any) -> tuple[bytes, Reading]:
        file.seek(at)
        data = file.read(length)
        mtime_ms = status.st_mtime_ns // 1_000_000
        source = Source(clean(path, 4096), os.path.basename(path), mtime_ms, status.st_size, at, most_unpacked)
        return data, kind.read(source, data, copy.deepcopy(state), not kind.append)

    state, at = None, begin
    if begin:
        front = read(0, FRONT, None)[1]
        pieces = range(front.consumed, begin, FRONT)
        file.seek(front.consumed)
        state = kind.foresee(front.state, sum(file.read(min(FRONT, begin - piece)).count(b"\n") for piece in pieces))
    while at < status.st_size:
        data, reading = read(at, file_content.BLOCK if kind.append else status.st_size, state)
        yield (path, *_identity(status), kind.id, at, len(data)), state, reading
        if not reading.consumed or at + len(data) >= status.st_size:
            return
        state, at = reading.state, at + reading.consumed
