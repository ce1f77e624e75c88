"""A pool of processes that read files: parsing is bound to one core by the interpreter's lock.

The list of files is cut into tasks: batches of small files, and pieces of large ones. Workers do them from the last to
the first; the session goes through them from the first to the last, does those that no worker has begun, and takes the
results of the others. What was read lies in files of a temporary folder. Nothing depends on a worker: what it cannot be
sure of, or does not deliver because it was killed or hangs, the session reads itself.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import os
import signal
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, TimeoutError
from typing import TYPE_CHECKING, Any

from engine.live.files.compression import PACKED
from engine.live.files.scan import Stat
from engine.live.options import LiveSettings
from engine.live.pool import worker_process
from engine.live.pool.tasks import FileTask, PieceTask

if TYPE_CHECKING:
    from concurrent.futures import ProcessPoolExecutor

    from engine.live.pool.worker import FilesRead, PieceRead

log = logging.getLogger(__name__)

WORTH_EARLY = 48 << 20
"""Bytes to read from which a pool pays that starts together with this process."""
WORTH_LATE = 160 << 20
"""Bytes to read from which a pool pays that starts when everything here is loaded already."""
SMALLEST_TASK, LARGEST_TASK = 2 << 20, 32 << 20
"""Bytes that one task reads. Making frames takes some 50 ms a task however few its rows are; on the other hand
the session waits for the last ones."""
SPLIT = 32 << 20
"""Bytes from which a file is read in pieces."""
PATIENCE_S = 30.0
"""Seconds to wait for a task, and one more for each MB of it, before the pool is given up."""
RENEWALS = 1
"""Pools that replace one whose worker died."""
_STEP = 1 << 20


class ReadingPool:
    """Worker processes that read ``files`` for the views in ``modules`` (each holds one as ``VIEW``)."""

    def __init__(
        self, files: Sequence[FileTask], modules: Sequence[str], settings: LiveSettings, *, workers: int, final: bool
    ) -> None:
        """Start reading. ``final``: nothing will follow (``Session.scan``). Raises OSError if no process can start."""
        self._folder = tempfile.TemporaryDirectory(prefix="loadlens-", ignore_cleanup_errors=True)
        self._start = (self._folder.name, tuple(modules), settings, final)
        self._workers = workers
        self._renewals = RENEWALS
        self._lock = threading.Lock()
        self._open: list[int] = []  # not begun yet, in order
        self._futures: dict[int, Future[Any]] = {}
        self._executor: ProcessPoolExecutor | None = self._new_executor()
        sizes = _sizes(sum(file.stat[2] for file in files), workers)
        self.tasks = list(_tasks(sorted(files, key=lambda file: file.path), sizes))
        self._place = {file.path: index for index in reversed(range(len(self.tasks))) for file in self.files(index)}
        self._open = list(range(len(self.tasks)))
        self._feed_all()

    def files(self, index: int) -> Sequence[FileTask]:
        """Return the files of task ``index``."""
        task = self.tasks[index]
        return (task.file,) if isinstance(task, PieceTask) else task

    # -- results -----------------------------------------------------------------------------------------------

    def place(self, path: str, stat: Stat) -> int:
        """Return the index of the first task that reads ``path``, -1 if none does or the file was another one then."""
        index = self._place.get(path, -1)
        same = index >= 0 and any(file.path == path and file.stat == stat for file in self.files(index))
        return index if same else -1

    def claim(self, index: int) -> bool:
        """Take task ``index`` back to do it here. Returns False if a worker has begun it or done it."""
        with self._lock:
            if index in self._open:
                self._open.remove(index)
            return index not in self._futures

    def result(self, index: int) -> FilesRead | PieceRead | None:
        """Wait for task ``index`` and return what it gave, None if it must be done here."""
        task, future = self.tasks[index], self._futures.get(index)
        if future is None:
            return None
        size = task.end - task.begin if isinstance(task, PieceTask) else sum(file.stat[2] for file in task)
        try:
            result: FilesRead | PieceRead | None = future.result(PATIENCE_S + size / (1 << 20))
            return result
        except Exception as error:
            log.warning("reading in a worker process failed (%s: %s)", type(error).__name__, error)
            self._recover(error, index)
            return None

    def _recover(self, error: Exception, index: int) -> None:
        """Replace the pool if one of its workers died, for the tasks behind ``index``; end it if one hangs."""
        from concurrent.futures.process import BrokenProcessPool

        if isinstance(error, TimeoutError):
            self._end()
        elif isinstance(error, BrokenProcessPool):
            self._end(wait=True)
            with self._lock:
                failed = {at for at, future in self._futures.items() if future.exception() is not None}
                self._open = sorted({*self._open, *(at for at in failed if at != index)})
                self._futures = {at: future for at, future in self._futures.items() if at not in failed}
            if self._renewals:
                self._renewals -= 1
                self._executor = self._new_executor()
                self._feed_all()

    # -- processes ---------------------------------------------------------------------------------------------

    def _new_executor(self) -> ProcessPoolExecutor:
        """Return an executor whose processes are starting."""
        import multiprocessing
        from concurrent.futures import ProcessPoolExecutor

        spawn = multiprocessing.get_context("spawn")  # a fork would copy locks held by other threads
        executor = ProcessPoolExecutor(self._workers, spawn, worker_process.initialise, self._start)
        with _without_interrupt():
            for _ in range(self._workers):
                executor.submit(os.getpid)
        return executor

    def _feed_all(self) -> None:
        """Give every worker a task as soon as it is ready: until then the session can do it."""
        for _ in range(self._workers):
            assert self._executor is not None
            with contextlib.suppress(RuntimeError):  # broken already
                self._executor.submit(os.getpid).add_done_callback(self._feed)

    def _feed(self, _done: object = None) -> None:
        """Give the last open task to the workers, and another one when it is done."""
        # Not all at once: one that is cancelled before a worker dies brings down the executor's thread (Python 3.11).
        with self._lock:
            if self._executor is None or not self._open:
                return
            index = self._open[-1]
            try:
                future = self._futures[index] = self._executor.submit(worker_process.run, self.tasks[index])
            except RuntimeError:  # broken or shut down
                return
            self._open.pop()
        future.add_done_callback(self._feed)

    def _end(self, *, wait: bool = False) -> None:
        """End the workers; with ``wait``, until they are gone."""
        executor, self._executor = self._executor, None
        if executor is not None:
            for process in (executor._processes or {}).values():  # ``kill_workers`` is new in Python 3.14
                process.kill()
            ending = threading.Thread(target=executor.shutdown, daemon=True)
            ending.start()
            if wait:
                ending.join()

    def close(self) -> None:
        """End the workers and remove what they have read; may be called twice."""
        self._end()
        self._folder.cleanup()


def start(
    files: Sequence[FileTask], modules: Sequence[str], settings: LiveSettings, *, worth: int, final: bool
) -> ReadingPool | None:
    """Return a pool that reads those of ``files`` that are not compressed, None if it would not pay or cannot start.

    ``worth``: bytes to read from which it pays.
    """
    workers = (settings.workers or _cores()) - 1
    plain = [file for file in files if not file.path.endswith(PACKED)]  # a compressed one may be a copy of another
    if workers < 1 or not all(modules) or sum(file.stat[2] for file in plain) < worth:
        return None
    try:
        return ReadingPool(plain, modules, settings, workers=workers, final=final)
    except (OSError, ValueError, ImportError, RuntimeError) as error:
        log.warning("no worker processes: %s", error)
        return None


def module_of(view: object) -> str:
    """Return the module that holds ``view`` as its ``VIEW``, empty if none does: then no worker can have it."""
    name = type(view).__module__
    return name if getattr(sys.modules.get(name), "VIEW", None) is view else ""


def _cores() -> int:
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:
        return os.cpu_count() or 1


def _sizes(total: int, workers: int) -> Iterator[int]:
    """Yield the bytes of each task, from the first to the last, for ``total`` bytes; the last size again and again.

    Workers begin at the end: each takes a third of its share of what is open then, this process reading as fast as
    each of them. So the tasks are small where all meet, and those before that are for this process alone.
    """
    sizes = []
    left, unread = total, float(total)
    while left > 0:
        size = min(max(int(unread / (3 * (workers + 1))), SMALLEST_TASK), LARGEST_TASK)
        sizes.append(size)
        left -= size
        unread -= size * (workers + 1) / workers
    yield from reversed(sizes)
    yield from itertools.repeat(LARGEST_TASK)


def _tasks(files: Sequence[FileTask], sizes: Iterator[int]) -> Iterator[Sequence[FileTask] | PieceTask]:
    """Yield ``files`` in their order as batches of about these sizes, large ones in pieces."""
    batch: list[FileTask] = []
    gathered, size = 0, next(sizes)
    for file in files:
        large = file.stat[2] >= SPLIT
        if batch and (large or gathered >= size):
            yield batch
            batch, gathered, size = [], 0, next(sizes)
        if large:
            yield from _pieces(file, sizes)
        else:
            batch.append(file)
            gathered += file.stat[2]
    if batch:
        yield batch


def _pieces(file: FileTask, sizes: Iterator[int]) -> Iterator[PieceTask]:
    """Yield the pieces of a large file, and count the line breaks before each."""
    at = breaks = 0
    try:
        with open(file.path, "rb", buffering=0) as opened:
            while at < file.stat[2]:
                end = min(file.stat[2], at + next(sizes))
                yield PieceTask(file, at, end, breaks)
                while at < end and (data := opened.read(min(_STEP, end - at))):
                    breaks += data.count(b"\n")
                    at += len(data)
                at = end
    except OSError:
        return  # the session will meet it, too


@contextlib.contextmanager
def _without_interrupt() -> Iterator[None]:
    """Let processes that start meanwhile never see Ctrl+C: it is this process that ends them."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
