"""A pool of processes that read files: parsing is bound to one core by the interpreter's lock.

The list of files is cut into tasks: batches of small files, and pieces of large ones. Workers do them in order; the
session takes their results in the same order and puts them where its own reading would. Nothing depends on a worker:
what it cannot be sure of, or does not deliver because it was killed or hangs, the session reads itself.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, TimeoutError
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from engine.live.files.compression import PACKED
from engine.live.files.scan import Stat
from engine.live.options import LiveSettings

if TYPE_CHECKING:
    from concurrent.futures import ProcessPoolExecutor

    from engine.live.pool.worker import FilesRead, PieceRead

log = logging.getLogger(__name__)

WORTH_EARLY = 48 << 20
"""Bytes to read from which a pool pays that starts together with this process."""
WORTH_LATE = 160 << 20
"""Bytes to read from which a pool pays that starts when everything here is loaded already."""
SMALLEST_BATCH, LARGEST_BATCH = 1 << 20, 8 << 20
"""Bytes of files that one task reads."""
TASKS_PER_WORKER = 12
"""Tasks to aim at, between these sizes: with more, the last ones end at about the same time."""
SPLIT = 32 << 20
"""Bytes from which a file is read in pieces."""
PATIENCE_S = 30.0
"""Seconds to wait for a task, and one more for each MB of it, before the pool is given up."""
RENEWALS = 1
"""Pools that replace one whose worker died."""
_STEP = 1 << 20


@dataclass(frozen=True, slots=True)
class FileTask:
    """One file to read: its path, the root it was found under, and its identity."""

    path: str
    root: str
    stat: Stat


@dataclass(frozen=True, slots=True)
class PieceTask:
    """The records of a large file that begin in the bytes from ``begin`` to ``end``, after ``breaks`` line breaks."""

    file: FileTask
    begin: int
    end: int
    breaks: int


class ReadingPool:
    """Worker processes that read ``files`` for the views in ``modules`` (each holds one as ``VIEW``)."""

    def __init__(
        self, files: Sequence[FileTask], modules: Sequence[str], settings: LiveSettings, *, workers: int, final: bool
    ) -> None:
        """Start reading. ``final``: nothing will follow (``Session.scan``). Raises OSError if no process can start."""
        self.tasks: list[Sequence[FileTask] | PieceTask] = []
        self._futures: list[Future[Any] | None] = []
        self._place: dict[str, int] = {}
        self._renewals = RENEWALS
        self._start = (tuple(modules), settings, final)
        self._workers = workers
        self._executor: ProcessPoolExecutor | None = self._new_executor()
        total = sum(file.stat[2] for file in files)
        size = min(max(total // (workers * TASKS_PER_WORKER), SMALLEST_BATCH), LARGEST_BATCH)
        for task in _tasks(sorted(files, key=lambda file: file.path), size):
            for file in _files(task):
                self._place.setdefault(file.path, len(self.tasks))
            self.tasks.append(task)
            self._submit(task)

    # -- results -----------------------------------------------------------------------------------------------

    def place(self, path: str, stat: Stat) -> int:
        """Return the index of the first task that reads ``path``, -1 if none does or the file was another one then."""
        index = self._place.get(path, -1)
        same = index >= 0 and any(file.path == path and file.stat == stat for file in _files(self.tasks[index]))
        return index if same else -1

    def result(self, index: int) -> FilesRead | PieceRead | None:
        """Wait for task ``index`` and return what it gave, None if it gave nothing. Its result is returned once only."""
        task = self.tasks[index]
        size = task.end - task.begin if isinstance(task, PieceTask) else sum(file.stat[2] for file in task)
        while self._executor is not None and (future := self._futures[index]) is not None:
            try:
                result: FilesRead | PieceRead | None = future.result(PATIENCE_S + size / (1 << 20))
            except Exception as error:
                if not self._recovered(error, index):
                    return None
            else:
                self._futures[index] = None  # many rows
                return result
        return None

    def _recovered(self, error: Exception, index: int) -> bool:
        """Replace the pool if one of its workers died. Returns whether to wait for task ``index`` once more."""
        from concurrent.futures.process import BrokenProcessPool

        log.warning("reading in a worker process failed (%s: %s)", type(error).__name__, error)
        if not isinstance(error, (BrokenProcessPool, TimeoutError)):
            return False  # this task only: its files are read here
        self.close()
        if isinstance(error, TimeoutError) or not self._renewals:
            return False
        self._renewals -= 1
        self._executor = self._new_executor()
        rest, self._futures = self.tasks[index:], self._futures[:index]
        for task in rest:
            self._submit(task)
        return True

    # -- processes ---------------------------------------------------------------------------------------------

    def _new_executor(self) -> ProcessPoolExecutor:
        import multiprocessing
        from concurrent.futures import ProcessPoolExecutor

        modules, settings, final = self._start
        spawn = multiprocessing.get_context("spawn")  # a fork would copy locks held by other threads
        return ProcessPoolExecutor(self._workers, spawn, _initialise, (modules, settings, final))

    def _submit(self, task: Sequence[FileTask] | PieceTask) -> None:
        assert self._executor is not None
        with _without_interrupt():
            try:
                self._futures.append(self._executor.submit(_run, task))
            except Exception as error:  # broken already
                future: Future[Any] = Future()
                future.set_exception(error)
                self._futures.append(future)

    def close(self) -> None:
        """End the workers; may be called twice. Nobody waits until they are gone."""
        executor, self._executor = self._executor, None
        if executor is None:
            return
        for process in (executor._processes or {}).values():  # ``kill_workers`` is new in Python 3.14
            process.kill()
        threading.Thread(target=executor.shutdown, kwargs={"cancel_futures": True}, daemon=True).start()


def start(
    files: Sequence[FileTask], modules: Sequence[str], settings: LiveSettings, *, worth: int, final: bool
) -> ReadingPool | None:
    """Return a pool that reads those of ``files`` that are not compressed, None if it would not pay or cannot start.

    ``worth``: bytes to read from which it pays.
    """
    workers = settings.workers or _cores()
    plain = [file for file in files if not file.path.endswith(PACKED)]  # a compressed one may be a copy of another
    if workers < 2 or not all(modules) or sum(file.stat[2] for file in plain) < worth:
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


def _files(task: Sequence[FileTask] | PieceTask) -> Sequence[FileTask]:
    return (task.file,) if isinstance(task, PieceTask) else task


def _tasks(files: Sequence[FileTask], size: int) -> Iterator[Sequence[FileTask] | PieceTask]:
    """Yield ``files`` in their order as batches of about ``size`` bytes, large ones in pieces."""
    batch: list[FileTask] = []
    gathered = 0
    for file in files:
        large = file.stat[2] >= SPLIT
        if batch and (large or gathered >= size):
            yield batch
            batch, gathered = [], 0
        if large:
            yield from _pieces(file, size)
        else:
            batch.append(file)
            gathered += file.stat[2]
    if batch:
        yield batch


def _pieces(file: FileTask, size: int) -> Iterator[PieceTask]:
    """Yield the pieces of a large file, and count the line breaks before each."""
    count = max(2, file.stat[2] // size)
    begins = [file.stat[2] * number // count for number in range(count + 1)]
    breaks = 0
    try:
        with open(file.path, "rb", buffering=0) as opened:
            for begin, end in zip(begins, begins[1:], strict=False):
                yield PieceTask(file, begin, end, breaks)
                for at in range(begin, end, _STEP):
                    breaks += opened.read(min(_STEP, end - at)).count(b"\n")
    except OSError:
        return  # the session will meet it, too


@contextmanager
def _without_interrupt() -> Iterator[None]:
    """Let processes that start meanwhile never see Ctrl+C: it is this process that ends them."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


# -- in the worker ---------------------------------------------------------------------------------------------


def _initialise(modules: Sequence[str], settings: LiveSettings, final: bool) -> None:
    threading.Thread(target=_end_with_parent, daemon=True).start()
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # the terminal belongs to the dashboard
    os.environ.setdefault("POLARS_MAX_THREADS", "1")  # each core has a worker already
    from engine.live.pool import worker

    worker.initialise(modules, settings, final)


def _end_with_parent() -> None:
    """End this process when the session's has ended, however that came."""
    from multiprocessing import parent_process

    parent = parent_process()
    if parent is not None:
        parent.join()
    while parent is not None and parent.is_alive():
        time.sleep(1)
    os._exit(0)


def _run(task: Sequence[FileTask] | PieceTask) -> Any:
    from engine.live.pool import worker

    return worker.run(task)
