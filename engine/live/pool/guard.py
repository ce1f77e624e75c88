"""Read what is too much for the session's own process: one file after another, each within its budget.

The session goes on meanwhile. A file that ends the process reading it costs only that
process: the next file gets a new one.
"""

from __future__ import annotations

import contextlib
import logging
import signal
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import BrokenExecutor, Future, wait
from typing import TYPE_CHECKING

import msgspec

from engine.core.processes import Processes
from engine.core.reading import Problem
from engine.live.files.tracked_file import TrackedFile
from engine.live.options import LiveSettings
from engine.live.pool import tasks
from engine.live.pool.file_state import state_of
from engine.live.pool.reading_pool import read
from engine.live.pool.tasks import FileTask, Task

if TYPE_CHECKING:
    from engine.live.pool.worker import FilesRead

log = logging.getLogger(__name__)

IDLE_S = 90.0  # seconds without a file after which the process is ended: files that come every minute find it ready
LARGE = 64 << 20  # bytes read after which it is ended at once: it would hold the memory that they took
_FROM_OUTSIDE = (-signal.SIGKILL, -signal.SIGTERM)  # exit codes of a process that a signal from outside has ended


class Answer(msgspec.Struct, frozen=True):
    """The outcome for a file: what was read, or its problem, or neither if no process can be started.

    ``path`` and ``stat``: as they were when it was asked for; ``took``: seconds.
    """

    file: TrackedFile
    path: str
    stat: tuple[int, int, int] | None
    took: float
    read: FilesRead | None
    problem: Problem | None


class Guard:
    """The queue of files for another process, and that process. For one thread at a time.

    ``usable`` is False once no process could be started: then the session reads everything itself.
    """

    def __init__(
        self, settings: LiveSettings, roots: tuple[str, ...], modules: Callable[[Iterable[str]], tuple[str, ...]]
    ) -> None:
        """``roots``: what the session watches; ``modules``: returns those of some views."""
        self.usable = settings.workers != 1
        self.done: Callable[[], None] = lambda: None  # called, in any thread, when an answer is there
        self._settings = settings
        self._modules, self._roots = modules, roots
        self._waiting: dict[TrackedFile, bool] = {}
        self._file: TrackedFile | None = None
        self._asked = FileTask("", "", (0, 0, 0, 0, 0))
        self._final = self._again = False
        self._answer: Future[FilesRead] = Future()
        self._began = 0.0
        self._processes: Processes | None = None

    def __contains__(self, file: object) -> bool:
        return file is self._file or file in self._waiting

    def __len__(self) -> int:
        return len(self._waiting) + (self._file is not None)

    def __iter__(self) -> Iterator[TrackedFile]:
        if self._file is not None:
            yield self._file
        yield from self._waiting

    @property
    def ready(self) -> bool:
        """Whether ``take`` would return an answer."""
        late = time.monotonic() - self._began > tasks.patience(self._asked.stat[2])
        return self._file is not None and (self._answer.done() or late)

    def put(self, file: TrackedFile, *, final: bool) -> None:
        """Append ``file`` to the queue."""
        self._waiting[file] = final
        self._next()

    def forget(self, file: TrackedFile) -> None:
        """Forget a file that is gone; there will be no answer for it."""
        self._waiting.pop(file, None)
        if file is self._file:
            self._file = None
            self._end()
            self._next()

    def wait(self, seconds: float) -> None:
        """Wait for an answer, at most so long."""
        wait((self._answer,), seconds)

    def take(self) -> Answer | None:
        """Return the next available answer and start the next file."""
        if not self.ready:
            idle = self._file is None and time.monotonic() - self._began > IDLE_S
            if idle:
                self._end()
            return None
        file, self._file = self._file, None
        assert file is not None
        read, problem = None, None
        try:
            read = self._answer.result(0)
            if read.bytes_read > LARGE:
                self._end()
        except TimeoutError:
            self._end()
            problem = self._problem("too-slow", "reading it does not end")
        except BrokenExecutor:
            status = self._end()
            if self.usable and status in _FROM_OUTSIDE and not self._again:
                self._ask(file, self._final, again=True)
                return None
            problem = self._why(status) if self.usable else None
        except Exception as error:  # the request or the answer cannot be sent between processes
            log.error("%s: reading in another process failed", file.shown, exc_info=error)
            problem = self._problem("internal-error", f"reading it failed ({type(error).__name__}: {error})")
        answer = Answer(file, self._asked.path, self._asked.stat[2:], time.monotonic() - self._began, read, problem)
        self._began = time.monotonic()
        self._next()
        return answer

    def _why(self, status: int | None) -> Problem:
        """Return the problem of a file that ended the process with ``status``."""
        memory = tasks.memory(self._settings) >> 20
        if status == -signal.SIGPROF:
            budget = f"{tasks.CPU_S:g} s and {tasks.CPU_S_PER_MB:g} s for each MB"
            return self._problem("too-slow", f"reading it takes longer than {budget}")
        if status == tasks.MEMORY:
            return self._problem("too-big", f"reading it needs more than {memory:,} MB of memory (memory-mb)")
        how = f"exit status {status}"
        if status is not None and status < 0:
            with contextlib.suppress(ValueError):
                how = signal.Signals(-status).name
        more = f": perhaps it needs more than {memory:,} MB of memory" if status == -signal.SIGABRT else ""
        return self._problem("reader-crash", f"it ends the process that reads it ({how}{more})")

    def _problem(self, kind: str, reason: str) -> Problem:
        log.warning("%s: %s", self._asked.path, reason)
        return Problem.at(self._asked.path, kind, f"{reason}: given up until it changes")

    def _next(self) -> None:
        if self._file is None and self._waiting:
            file = next(iter(self._waiting))
            self._ask(file, self._waiting.pop(file), again=False)

    def _ask(self, file: TrackedFile, final: bool, *, again: bool) -> None:
        assert file.seen_stat is not None
        self._file, self._final, self._again, self._began = file, final, again, time.monotonic()
        self._asked = FileTask(file.path, file.root, (*file.identity, *file.seen_stat), state_of(file))
        self._answer = self._submit(self._modules(dict.fromkeys(reader.view for reader in file.readers)), final)
        self._answer.add_done_callback(lambda _: self.done())

    def _submit(self, modules: tuple[str, ...], final: bool) -> Future[FilesRead]:
        """Return the future of the process's answer; it fails with BrokenExecutor if there is no process."""
        for _ in range(2 if self.usable else 0):
            try:
                if self._processes is None:
                    self._processes = Processes(1, tasks.memory(self._settings))
                elif not self._processes.running:
                    self._processes.start()
                task = Task((self._asked,), modules, self._roots, final, self._processes.folder.name, self._settings)
                return self._processes.submit(read, task)
            except BrokenExecutor:
                self._end()  # it has died while there was nothing to do
            except (OSError, ValueError, ImportError, RuntimeError) as error:
                log.warning("no worker process: %s", error)
                break
        self.usable = False
        failed: Future[FilesRead] = Future()
        failed.set_exception(BrokenExecutor())
        return failed

    def _end(self) -> int | None:
        """End the process. Returns how it has ended."""
        if self._processes is None or not self._processes.running:
            return None
        self.usable &= self._processes.came_up or not self._answer.done()
        self._processes.end(wait=True)
        return self._processes.exit_status

    def stop(self) -> None:
        """End the process, in any thread; what waits is not read."""
        self.usable = False
        if self._processes is not None:
            self._processes.kill()

    def close(self) -> None:
        """End the process and forget what waits."""
        self._waiting.clear()
        self._file = None
        if self._processes is not None:
            self._processes.close()
