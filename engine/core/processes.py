"""Processes that do what might end them: started by *spawn*, ended with this process, replaced when one has died.

The forks of ``report`` and ``check``, which need what is loaded already, are in ``engine.live.pool``: ``trial``, ``read_ahead``.
"""

from __future__ import annotations

import contextlib
import gc
import os
import resource
import shutil
import signal
import sys
import tempfile
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing.process import BaseProcess


class Processes:
    """``count`` processes, each with at most ``memory`` bytes and ``threads`` threads of Polars, that may write to ``folder``."""

    def __init__(self, count: int, memory: int, threads: int = 1) -> None:
        """Start them. Raises OSError if none can be started."""
        self.count = count
        self.folder = tempfile.TemporaryDirectory(prefix="loadlens-", ignore_cleanup_errors=True)
        self._memory, self._threads = memory, threads
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
        arguments = (self.folder.name, self._memory, self._threads)
        self._executor = ProcessPoolExecutor(self.count, spawn, _initialise, arguments)
        # Ctrl+C is kept from processes that start meanwhile: this process ends them.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            for _ in range(self.count):
                self._ready = self._executor.submit(os.getpid)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        self._processes = list(self._executor._processes.values())

    @property
    def running(self) -> bool:
        """Whether they were started and not ended; those that have died count."""
        return self._executor is not None

    @property
    def came_up(self) -> bool:
        """Whether one of them has ever been ready for a task."""
        return self._ready is not None and self._ready.done() and self._ready.exception() is None

    def submit(self, function: Callable[..., Any], *given: Any) -> Future[Any]:
        """Let a process call ``function``. Raises RuntimeError if one has died."""
        assert self._executor is not None
        return self._executor.submit(function, *given)

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


def bound_memory(limit: int) -> None:
    """Refuse this process more than ``limit`` bytes, and let SIGPROF end it.

    The limit covers private writable memory (Linux), not what an allocator only reserves.
    """
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    if hard != resource.RLIM_INFINITY:
        limit = min(limit, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (limit, hard))
    signal.signal(signal.SIGPROF, signal.SIG_DFL)


def _start_tracker() -> None:
    """Start the standard library's process that removes semaphores when this one has ended, unless it runs.

    A dashboard replaces standard error by something without a descriptor, with which no process can be started. Its warnings are
    off: this process ends without finalising and leaves semaphores to it.
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


def _initialise(folder: str, memory: int, threads: int) -> None:
    """Prepare a new process, before anything heavy is loaded."""
    threading.Thread(target=_end_with_parent, args=(folder,), daemon=True).start()
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # the terminal belongs to the dashboard
    os.environ.setdefault("POLARS_MAX_THREADS", str(threads))
    gc.disable()  # readers make rows, hardly any cycles
    bound_memory(memory)


def _end_with_parent(folder: str) -> None:
    """End this process when the one that started it has ended, however that came about, and remove ``folder``."""
    from multiprocessing import parent_process

    parent = parent_process()
    if parent is not None:
        parent.join()
    shutil.rmtree(folder, ignore_errors=True)
    os._exit(0)
