"""Read the last part of all files in a second process, a fork of this one once it has loaded the readers (``report``, ``check``).

Reading is bound to one core by the interpreter's lock. Files that the process reads whole are taken as from a pool of
processes. A large log is cut at the end of a line, from where the process begins in a state that the reader foresees
(``foresee``): an outcome of a reader is used where a session would call it in just that state, so that no result depends on it.
"""

from __future__ import annotations

import contextlib
import copy
import os
import pickle
import select
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from mmap import PROT_READ, mmap
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from engine.core.compression import PACKED
from engine.core.processes import bound_memory
from engine.core.reading import HEAD, FileKind, Reading, Source, clean
from engine.live.files.opening import open_regular
from engine.live.files.scan import Stat, stat_of
from engine.live.ingest import file_content
from engine.live.pool import tasks, worker
from engine.live.pool.tasks import FileTask, Task

if TYPE_CHECKING:
    from engine.core.view import View
    from engine.live.options import LiveSettings

WORTH = 24 << 20  # bytes of job histories from which the process pays: fewer are read before it could hand them over
SHARE = 0.54  # share of the bytes that it reads: more than half, since this process has other things to do as well
FRONT = 1 << 20  # bytes of a log from which its reader foresees a later state; most bytes of a line where it is cut
PATIENCE_S = 5.0  # seconds without news, beyond three times those since the process began, after which it is given up


class ReadAhead:
    """What the process reads: of each path in ``begins`` all from that byte on. For a session it is a pool that reads the files
    of its only task."""

    suspects = frozenset[str]().__contains__  # none: what ends the process may have been any file

    def __init__(self, begins: Mapping[str, int], stats: Mapping[str, Stat]) -> None:
        """``stats``: of these paths. Raises OSError."""
        self.begins, self._stats = begins, stats
        self._outcomes, self._rows = tempfile.TemporaryFile(), tempfile.TemporaryFile()  # noqa: SIM115
        self._began = time.monotonic()
        self._process, self._at = 0, 0
        self._sizes, self._told = os.pipe()  # how many bytes of ``_outcomes`` the next one takes
        self._read: dict[Any, Any] = {}

    def fork(self, task: Task, kinds: Sequence[FileKind]) -> None:
        """Let a fork of this process ``write``."""
        self._process = os.fork()
        if self._process:
            os.close(self._told)
            return
        try:
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            bound_memory(tasks.memory(task.settings))
            os.environ.setdefault("POLARS_MAX_THREADS", "1")
            self.write(task, kinds)
        finally:
            os._exit(0)

    def write(self, task: Task, kinds: Sequence[FileKind]) -> None:
        """Read the rear of a file that is cut as a session would, then the files of ``task``.

        A file that cannot be opened, or lies outside of the roots, is left to the session, which says so.
        """
        for path in filter(self.begins.get, self.begins):
            with (
                contextlib.suppress(OSError, ValueError),
                _open(path, task.roots) as file,
                tasks.budget(self._stats[path][2]),
            ):
                head, name = file.read(HEAD), os.path.basename(path)
                kind = next((kind for kind in kinds if kind.recognise(name, head)), None)
                if hasattr(kind, "foresee"):
                    for key, *outcome in _outcomes(
                        path, file, self.begins[path], kind, task.settings.max_unpacked_mb << 20
                    ):
                        self._tell(key, outcome)
        self._tell(0, worker.run(task, self._rows))

    def _tell(self, key: Any, outcome: Any) -> None:
        data = pickle.dumps((key, outcome), pickle.HIGHEST_PROTOCOL)
        self._outcomes.write(data)
        self._outcomes.flush()
        os.write(self._told, len(data).to_bytes(8, "big"))

    def result(self, key: Any) -> Any:
        """Wait until the process has read what ``key`` names (0: the whole files). Returns that once; None if it never does."""
        while key not in self._read:
            if not select.select([self._sizes], [], [], PATIENCE_S + 3 * (time.monotonic() - self._began))[0]:
                self.close()
            size = int.from_bytes(os.read(self._sizes, 8), "big")
            if not size:
                return None
            # The process writes on in the same open file: reading must not move its place.
            self._read.update([pickle.loads(os.pread(self._outcomes.fileno(), size, self._at))])
            self._at += size
        return self._read.pop(key)

    def take(
        self, path: str, status: os.stat_result, kind: str, offset: int, length: int, state: Any
    ) -> Reading | None:
        """Return what the reader has made of these bytes of the file with ``status`` in this state, once; None if it was not
        given them."""
        if offset < (self.begins.get(path) or sys.maxsize):
            return None
        before, reading = self.result((stat_of(status), kind, offset, length)) or (None, None)
        return reading if before == state else None

    def place(self, path: str, stat: Stat) -> int:
        """Return 0 if the process reads the whole file, -1 if it does not or the file was another one then."""
        return 0 if self.begins.get(path) == 0 and self._stats[path] == stat else -1

    def close(self) -> None:
        """End the process."""
        if self._process:
            os.kill(self._process, signal.SIGKILL)


def _open(path: str, roots: Sequence[str]) -> IO[bytes]:
    return os.fdopen(open_regular(path, roots)[0], "rb")


def start(
    files: Sequence[FileTask], view: View, module: str, settings: LiveSettings, roots: Sequence[str], effort: int
) -> ReadAhead | None:
    """Fork the process, before this one has other threads of Python or a thread of Polars. Returns None if it would not pay.

    ``module`` holds the ``view``; ``effort``: of reading a byte (``Entry``).
    """
    plain = {file.path: file for file in files if not file.path.endswith(PACKED)}
    size = sum(file.stat[2] for file in plain.values())
    if settings.workers == 1 or size * effort < WORTH:
        return None
    begins = dict(_begins({path: file.stat[2] for path, file in plain.items()}, roots, int(size * SHARE)))
    whole = tuple(plain[path] for path in sorted(begins) if not begins[path])
    ahead = ReadAhead(begins, {path: plain[path].stat for path in begins})
    ahead.fork(Task(whole, (module,), tuple(roots), True, tempfile.gettempdir(), settings), view.kinds)
    return ahead


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

    front = read(0, FRONT, None)[1]
    with mmap(file.fileno(), begin, prot=PROT_READ) as mapped, memoryview(mapped) as view:
        lines = sum(
            int(np.count_nonzero(np.frombuffer(view[at : at + FRONT], np.uint8) == ord("\n")))
            for at in range(front.consumed, begin, FRONT)
        )
    state = kind.foresee(front.state, lines)
    tables, at = {table.name: table for table in kind.tables}, begin
    while at < status.st_size:
        data, reading = read(at, file_content.BLOCK, state)
        reading.rows = {name: tables[name].frame(rows) for name, rows in reading.rows.items()}
        yield (stat_of(status), kind.id, at, len(data)), state, reading
        if not reading.consumed or at + len(data) >= status.st_size:
            return
        state, at = reading.state, at + reading.consumed
