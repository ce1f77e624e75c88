"""A second process that reads files too: parsing is bound to one processor by the interpreter's lock.

The files to read stand in a list, sorted by path. The session goes through it from the front, the helper (``worker``)
from the back, until they meet; each says in shared memory how far it has come. What the helper has read comes over
at once, as entries and frames like those of the cache. Of one file larger than all others together the helper reads
the rear part, from a state it predicts; its rows are used only if the session, coming to that place, has just that
state. Nothing depends on the helper: what it does not deliver, because it could not be sure, died or hangs, is read here.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import mmap
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec

from engine.live.options import LiveSettings
from engine.problems import Problem

log = logging.getLogger(__name__)

LEAST = 48 << 20
"""Bytes to read below which a helper that starts together with this process does not pay."""
LATE = 160 << 20
"""The same for one that starts when everything here is loaded already."""
REAR = 0.46
"""Share of the bytes that is the helper's where one file is larger than all others: less than half, for it begins later,
must count the lines before its part and hand its rows over."""
STRIDE = 16
"""File ids set apart for each file of the list, so that ids follow the list whoever reads."""
PATIENCE_S = 5.0
"""A helper is given up when it says nothing for so long and three times the time it has worked until then."""
_LOOK_S = 0.25
"""So often a helper that says nothing is looked at: somebody may have stopped it."""
_CELLS = 24
Stat = tuple[int, int, int, int, int]


class Item(msgspec.Struct, array_like=True, frozen=True):
    """One file to read: its path, the root it was found under, and its device, inode, size and times."""

    path: bytes
    root: bytes
    stat: Stat


class Request(msgspec.Struct, array_like=True, frozen=True):
    """What a helper is to do. ``modules`` hold the views by name; of file ``large`` (-1: none) from about byte ``rear`` on
    it reads the rest."""

    items: tuple[Item, ...]
    modules: tuple[str, ...]
    settings: LiveSettings
    final: bool
    large: int = -1
    rear: int = 0


class Found(msgspec.Struct, array_like=True, frozen=True):
    """One file that was read: its place in the list, what it is, and per reader an entry as the cache has it (as
    MessagePack). ``due`` is a time of the monotonic clock, which all processes share."""

    index: int
    head_length: int
    head_mark: int
    reason: str
    verify: bool
    due: float | None
    entries: tuple[msgspec.Raw, ...]
    views: tuple[str, ...]


class Rear(msgspec.Struct, array_like=True, frozen=True):
    """The rear part of the large file: rows between the bytes ``begin`` and ``end``, read from state ``before``."""

    view: str
    kind: str
    begin: int
    end: int
    before: bytes
    after: bytes
    problems: tuple[Problem, ...]
    frames: dict[str, tuple[int, int]]


class Delivery(msgspec.Struct, array_like=True, frozen=True):
    """Small files that were read; per view and table where their frame lies on the board."""

    found: tuple[Found, ...]
    frames: dict[str, dict[str, tuple[int, int]]]
    bytes_read: int
    last: bool


class Board:
    """A nameless file that both processes see: how far each has come, the request, and what was read."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self.cells = mmap.mmap(fd, _CELLS)
        self.view = memoryview(self.cells).cast("Q")
        self.end = os.fstat(fd).st_size

    @classmethod
    def make(cls, request: bytes) -> Board:
        """A new one with a request. Raises OSError."""
        if hasattr(os, "memfd_create"):
            fd = os.memfd_create("loadlens")
        else:
            import tempfile

            with tempfile.TemporaryFile() as file:
                fd = os.dup(file.fileno())
        fd = _high(fd)
        try:
            _write_all(fd, bytes(_CELLS) + request)
            board = cls(fd)
        except BaseException:
            os.close(fd)
            raise
        board.view[2] = len(request)
        return board

    def request(self) -> bytes:
        """The request."""
        return os.pread(self.fd, self.view[2], _CELLS)

    def add(self, data: bytes | memoryview) -> tuple[int, int]:
        """Put ``data`` at the end: its place and length."""
        place = self.end = -(-self.end // 64) * 64
        os.lseek(self.fd, place, os.SEEK_SET)
        _write_all(self.fd, data)
        self.end += len(data)
        return place, len(data)

    def read(self, place: int, length: int) -> bytes:
        """What was put there."""
        parts = []
        while length > 0:
            part = os.pread(self.fd, min(length, 1 << 30), place)
            if not part:
                raise EOFError
            parts.append(part)
            place += len(part)
            length -= len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def close(self) -> None:
        """Let go of it; may be called twice."""
        fd, self.fd = self.fd, -1
        if fd >= 0:
            self.view.release()
            self.cells.close()
            # Giving back hundreds of megabytes takes its time: nobody needs to wait for that.
            threading.Thread(target=os.close, args=(fd,), daemon=True).start()


def _write_all(fd: int, data: bytes | memoryview) -> None:
    left = memoryview(data)
    while left:
        left = left[os.write(fd, left) :]


class _Process:
    """The process of a helper. Started without ``subprocess``, which takes longer to load than all else here."""

    def __init__(self, board: int) -> None:
        """``board``: descriptor that it gets as number 3. Raises OSError."""
        code = f"import sys; sys.path[:] = {sys.path!r}; from engine.live.crew import helping; helping()"
        theirs, self._life = _pipe()
        try:
            self.answers, answers = _pipe()
        except OSError:
            os.close(theirs)
            os.close(self._life)
            raise
        try:
            self._pid = os.posix_spawn(
                sys.executable,
                [sys.executable, "-c", code],
                os.environ,
                file_actions=[
                    (os.POSIX_SPAWN_DUP2, theirs, 0),
                    (os.POSIX_SPAWN_DUP2, answers, 1),
                    (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0),
                    (os.POSIX_SPAWN_DUP2, board, 3),
                ],
            )
        except BaseException:
            os.close(self._life)
            os.close(self.answers)
            raise
        finally:
            os.close(theirs)
            os.close(answers)

    @property
    def stopped(self) -> bool:
        """Whether a signal has stopped it, so that it will say nothing."""
        if not hasattr(os, "waitid"):
            return False
        try:
            found = os.waitid(os.P_PID, self._pid, os.WSTOPPED | os.WNOHANG | os.WNOWAIT)
        except OSError:
            return False
        return found is not None and found.si_code == os.CLD_STOPPED

    def kill(self) -> None:
        """End it and wait until it has ended, elsewhere: taking down a large process takes its time."""
        with contextlib.suppress(OSError):
            os.kill(self._pid, signal.SIGKILL)
        os.close(self._life)
        os.close(self.answers)
        threading.Thread(target=self._reap, daemon=True).start()

    def _reap(self) -> None:
        with contextlib.suppress(OSError):
            os.waitpid(self._pid, 0)


def _high(fd: int) -> int:
    """``fd`` under a number that a started process does not use itself. Raises OSError, and ``fd`` is closed then."""
    if fd > 9:
        return fd
    try:
        return fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 10)
    finally:
        os.close(fd)


def _pipe() -> tuple[int, int]:
    """Both ends of a pipe, under high numbers. Raises OSError."""
    reading, writing = os.pipe()
    try:
        reading = _high(reading)
    except OSError:
        os.close(writing)
        raise
    try:
        return reading, _high(writing)
    except OSError:
        os.close(reading)
        raise


class Crew:
    """One helper at work on a list of files, as the session sees it."""

    def __init__(self, items: Sequence[Item], board: Board, process: _Process, large: tuple[int, int]) -> None:
        self.items = items
        self.index = {item.path: number for number, item in enumerate(items)}
        self._board = board
        self._process: _Process | None = process
        self._large, self._begin = large
        self._began = time.monotonic()
        self._buffer = b""
        self._over = False
        self.meanwhile: Callable[[], None] | None = None
        """Something useful to do, once, when there is nothing left but to wait for the helper."""

    # -- while reading -----------------------------------------------------------------------------------------

    def place(self, path: str, stat: Stat) -> int:
        """Place of a file in the list, -1 if it is not there or was another then."""
        at = self.index.get(os.fsencode(path), -1)
        return at if at >= 0 and self.items[at].stat == stat else -1

    def mine(self, index: int) -> bool:
        """Whether the session reads file ``index``: the helper has not come there, and will not now."""
        if self._process is None or index == self._large:
            return True
        view = self._board.view
        if view[0] <= index:
            view[0] = index + 1
        return index < view[1]

    @property
    def share(self) -> float:
        """Part of the list that one of the two has come to."""
        view, total = self._board.view, len(self.items)
        return min(1.0, (view[0] + total - min(view[1], total)) / total) if self._process is not None else 1.0

    # -- what was read -----------------------------------------------------------------------------------------

    def begin(self, index: int) -> int:
        """About where the rear part of file ``index`` begins that the helper reads; 0: it reads none of it."""
        return self._begin if index >= 0 and index == self._large and self._process is not None else 0

    def rear(self) -> Rear | None:
        """The rear part of the large file, if the helper has it; waits for it."""
        if self._large < 0 or self._process is None:
            return None
        self._large = -1
        try:
            return msgspec.msgpack.decode(self._message(), type=Rear | None)
        except (OSError, EOFError, ValueError, msgspec.DecodeError) as error:
            self._give_up(error)
            return None

    def deliveries(self, *, wait: bool = True) -> Iterator[Delivery]:
        """What else it has read and not handed over yet, piece by piece: everything, or what is there without waiting. Ends
        early if it does not come."""
        try:
            if self._process is not None and self._large >= 0:
                if not wait:
                    return
                self._message()
                self._large = -1
            while self._process is not None and not self._over and (wait or self._ready()):
                delivery = msgspec.msgpack.decode(self._message(), type=Delivery)
                self._over = delivery.last
                yield delivery
        except (OSError, EOFError, ValueError, msgspec.DecodeError) as error:
            self._give_up(error)

    def frame(self, place: tuple[int, int]) -> Any:
        """A delivered frame."""
        import io

        import polars as pl

        return pl.read_ipc(io.BytesIO(self._board.read(*place)))

    def _ready(self) -> bool:
        """Whether something was said that has not been heard yet."""
        process = self._process
        return b"\n" in self._buffer or (process is not None and bool(select.select([process.answers], [], [], 0)[0]))

    def _message(self) -> bytes:
        """The next message: a line with its place and length on the board. Raises OSError, EOFError, ValueError."""
        process = self._process
        assert process is not None
        fd = process.answers
        work = self.meanwhile
        if work is not None and not self._ready():
            self.meanwhile = None
            work()
        while b"\n" not in self._buffer:
            began = time.monotonic()
            late = began + PATIENCE_S + 3 * (began - self._began)
            while not select.select([fd], [], [], _LOOK_S)[0]:
                if process.stopped:
                    raise EOFError("it has been stopped")
                if time.monotonic() > late:
                    raise EOFError("no answer")
            data = os.read(fd, 4096)
            if not data:
                raise EOFError("it has ended")
            self._buffer += data
        line, _, self._buffer = self._buffer.partition(b"\n")
        place, length = map(int, line.split())
        return self._board.read(place, length)

    def _give_up(self, error: Exception) -> None:
        log.warning("the helping process is of no use (%s: %s): its files are read here", type(error).__name__, error)
        self._end()

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()

    def close(self) -> None:
        """End the helper and let go of everything; may be called twice."""
        self._end()
        self._board.close()


def worth(size: int, settings: LiveSettings, least: int) -> bool:
    """Whether a helper pays for so many bytes."""
    return settings.helper and size >= least and _processors() > 1


def _processors() -> int:
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:
        return os.cpu_count() or 1


def start(
    files: Sequence[tuple[str, str, Stat]], modules: Sequence[str], settings: LiveSettings, *, final: bool
) -> Crew | None:
    """A helper for ``files`` (path, root, identity), None if none can be started. ``modules``: where each view of the
    session is (``VIEW``)."""
    items = tuple(Item(os.fsencode(path), os.fsencode(root), stat) for path, root, stat in sorted(files))
    total = sum(item.stat[2] for item in items)
    large = max(range(len(items)), key=lambda at: items[at].stat[2], default=-1)
    rear = 0
    if large >= 0:
        rear = items[large].stat[2] - int(total * REAR)
        if rear <= 0:
            large = -1
    request = Request(items, tuple(modules), settings, final, large, max(0, rear))
    try:
        board = Board.make(msgspec.msgpack.encode(request))
    except (OSError, ValueError, TypeError) as error:
        log.warning("no helping process: %s", error)
        return None
    board.view[1] = len(items)
    try:
        process = _Process(board.fd)
    except (OSError, ValueError, TypeError, AttributeError) as error:
        log.warning("no helping process: %s", error)
        board.close()
        return None
    return Crew(items, board, process, (large, rear))


def helping() -> None:
    """What the helping process runs. Its standard input ends when the session has gone, however it ended: so does it, also
    while it is still loading what it needs."""

    def watch() -> None:
        while os.read(0, 64):
            pass
        os._exit(0)

    threading.Thread(target=watch, daemon=True).start()
    from engine.live import worker

    worker.main(3)


def module_of(view: object) -> str:
    """The module that holds ``view`` as its ``VIEW``, empty if there is none: then no other process can have it."""
    name = type(view).__module__
    return name if getattr(sys.modules.get(name), "VIEW", None) is view else ""
