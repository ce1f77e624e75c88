"""Processes that read files: started by *spawn*, ended with this process, replaced when one has died.

A new process runs ``initialise`` before it loads anything heavy.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import sys
import tempfile
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

from engine.live.options import LiveSettings
from engine.live.pool.tasks import Task

if TYPE_CHECKING:
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing.process import BaseProcess


class Processes:
    """``count`` processes that do tasks (``worker.run``) and write rows to files of a temporary folder."""

    def __init__(self, settings: LiveSettings, count: int) -> None:
        """Start them. Raises OSError if none can be started."""
        self.count = count
        self.folder = tempfile.TemporaryDirectory(prefix="loadlens-", ignore_cleanup_errors=True)
        self._settings = settings
        self._processes: list[BaseProcess] = []
        self._executor: ProcessPoolExecutor | None = None
        self._ready: Future[int] | None = None
        try:
            self.start()
        except BaseException:
            self.folder.cleanup()
            raise

    def start(self) -> None:
        """Start new ones in the place of those that were ended. Raises OSError."""
        import multiprocessing
        from concurrent.futures import ProcessPoolExecutor

        _start_tracker()
        spawn = multiprocessing.get_context("spawn")  # a fork would copy locks held by other threads
        arguments = (self.folder.name, self._settings)
        self._executor = ProcessPoolExecutor(self.count, spawn, initialise, arguments)
        with _without_interrupt():
            for _ in range(self.count):
                self._ready = self._executor.submit(os.getpid)
        self._processes = list(self._executor._processes.values())

    @property
    def running(self) -> bool:
        """Whether they were started and not ended; those that have died count."""
        return self._executor is not None

    @property
    def pids(self) -> list[int]:
        """The processes' ids."""
        return [process.pid or 0 for process in self._processes]

    @property
    def came_up(self) -> bool:
        """Whether one of them has ever been ready for a task."""
        return self._ready is not None and self._ready.done() and self._ready.exception() is None

    def idle(self) -> Future[int]:
        """Return a future that is done when a process is ready for a task. Raises RuntimeError if one has died."""
        assert self._executor is not None
        return self._executor.submit(os.getpid)

    def submit(self, task: Task) -> Future[Any]:
        """Let a process do ``task``. Raises RuntimeError if one has died."""
        assert self._executor is not None
        return self._executor.submit(run, task)

    @property
    def exit_status(self) -> int | None:
        """How the first of them has ended: a status, or a negative signal; None while it runs."""
        return self._processes[0].exitcode

    def kill(self) -> None:
        """Kill them, in any thread."""
        for process in self._processes:
            process.kill()  # ``kill_workers`` is new in Python 3.14

    def end(self, *, wait: bool = False) -> None:
        """End them; with ``wait``, until they are gone."""
        executor, self._executor = self._executor, None
        if executor is None:
            return
        self.kill()
        ending = threading.Thread(target=executor.shutdown, daemon=True)
        ending.start()
        if wait:
            ending.join()

    def close(self) -> None:
        """End them and remove what they have written; may be called twice."""
        self.end()
        self.folder.cleanup()


def _start_tracker() -> None:
    """Start the standard library's process that removes semaphores when this one has ended, unless it runs.

    A program that draws on the terminal puts something without a descriptor in the place of standard error: then it could not be
    started, and no other process. It is not to warn of what this process leaves to it, which ends without finalising.
    """
    from multiprocessing import resource_tracker

    before = os.environ.get("PYTHONWARNINGS")
    os.environ["PYTHONWARNINGS"] = "ignore"
    try:
        with contextlib.redirect_stderr(sys.__stderr__):
            resource_tracker.ensure_running()
    finally:
        if before is None:
            del os.environ["PYTHONWARNINGS"]
        else:
            os.environ["PYTHONWARNINGS"] = before


@contextlib.contextmanager
def _without_interrupt() -> Iterator[None]:
    """Let processes that start meanwhile never see Ctrl+C: it is this process that ends them."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def initialise(folder: str, settings: LiveSettings) -> None:
    """Load what a worker process needs. ``folder``: where it writes rows."""
    threading.Thread(target=_end_with_parent, args=(folder,), daemon=True).start()
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # the terminal belongs to the dashboard
    os.environ.setdefault("POLARS_MAX_THREADS", "1")  # each core has a worker already
    from engine.live.pool import tasks, worker

    tasks.bound_memory(settings.max_memory_mb)
    worker.initialise(folder, settings)


def _end_with_parent(folder: str) -> None:
    """End this process when the session's has ended, however that came about, and remove what was read."""
    from multiprocessing import parent_process

    parent = parent_process()
    if parent is not None:
        parent.join()
    shutil.rmtree(folder, ignore_errors=True)
    os._exit(0)


def run(task: Task) -> Any:
    """Do ``task`` in an initialised process."""
    from engine.live.pool import worker

    return worker.run(task)
