"""A pool of processes that read files, because the interpreter's lock binds parsing to one core.

The list of files is cut into tasks. Workers do them from the last to
the first; the session goes through them from the first to the last, does those of small files that no worker has begun,
and takes the results of the others. What was read lies in files of a temporary folder. No result depends on a worker: files
being read when one died or was late are suspects and read one by one later; a new pool reads the rest.
"""

from __future__ import annotations

import contextlib
import gc
import itertools
import logging
import os
import sys
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

from engine.core.compression import PACKED
from engine.core.processes import Processes
from engine.live.files.scan import Stat
from engine.live.options import LiveSettings
from engine.live.pool import tasks
from engine.live.pool.tasks import FileTask, Task

if TYPE_CHECKING:
    from engine.live.pool.worker import FilesRead

log = logging.getLogger(__name__)

WORTH = 192 << 20
"""Bytes to read from which a pool pays: below, one process has read them before the workers have loaded their modules and handed
their rows over."""
SMALLEST_TASK, LARGEST_TASK = 2 << 20, 32 << 20
"""Bytes that one task reads. Making frames takes some 50 ms a task however few its rows are; on the other hand
the session waits for the last ones."""
RENEWALS = 3  # number of times the pool is restarted without a suspect
PATIENCE_S = 30.0
"""Seconds to wait for a task, and one more for each MB of it, before the process that does it counts as hanging."""


class ReadingPool:
    """Worker processes that read ``files`` for the views in ``modules`` (each holds one as ``VIEW``)."""

    def __init__(
        self,
        files: Sequence[FileTask],
        modules: Sequence[str],
        settings: LiveSettings,
        roots: tuple[str, ...],
        *,
        workers: int,
        final: bool,
    ) -> None:
        """Start reading. ``roots``: what the session watches; ``final``: nothing will follow (``Session.scan``).

        Raises OSError if no process can start.
        """
        self._processes = Processes(workers, tasks.memory(settings))
        self._settings, self._roots = settings, roots
        self._modules, self._final = tuple(modules), final
        sizes = _sizes(sum(file.stat[2] for file in files), workers)
        self.tasks = list(_tasks(sorted(files, key=lambda file: file.path), sizes))
        self._place = {file.path: index for index in reversed(range(len(self.tasks))) for file in self.tasks[index]}
        self._suspects: set[str] = set()
        self._futures: dict[int, Future[Any]] = {}
        self._open = list(range(len(self.tasks)))  # not begun yet
        self._changed = threading.Condition()  # guards what follows the tasks
        self._broken = False
        self._renewals = RENEWALS
        self._feed_all()

    # -- results -----------------------------------------------------------------------------------------------

    def place(self, path: str, stat: Stat) -> int:
        """Return the index of the first task that reads ``path``, -1 if none does or the file was another one then."""
        index = self._place.get(path, -1)
        same = index >= 0 and any(file.path == path and file.stat == stat for file in self.tasks[index])
        return index if same else -1

    def suspects(self, path: str) -> bool:
        """Whether ``path`` was being read when a worker died or was late."""
        return path in self._suspects

    def result(self, index: int) -> FilesRead | None:
        """Wait for task ``index`` and return what it gave, None if it must be done here: no worker has begun it, nor ought to."""
        with self._changed:
            if index in self._open and all(file.stat[2] <= tasks.SMALL for file in self.tasks[index]):
                self._open.remove(index)
            if index not in self._futures and index not in self._open:
                return None
        future = self._begun(index)
        if future is None:
            return None
        try:
            return future.result(PATIENCE_S + sum(file.stat[2] for file in self.tasks[index]) / (1 << 20))
        except Exception as error:
            log.warning("reading in a worker process failed (%s: %s)", type(error).__name__, error)
            self._recover()
            return None

    def _begun(self, index: int) -> Future[Any] | None:
        """Wait until a worker has begun task ``index``. Returns None if none will."""
        with self._changed:
            if index in self._open:  # the next one to be done
                self._open.remove(index)
                self._open.append(index)
        while self._processes.running:
            with self._changed:
                if index not in self._open:
                    break
                self._changed.wait(1.0)
            if self._broken:
                self._recover()
        return self._futures.get(index)

    def _recover(self) -> None:
        """Restart the pool without the files that were being read: one of them ended it."""
        came_up = self._processes.came_up
        self._processes.end(wait=True)
        with self._changed:
            done = {at: future for at, future in self._futures.items() if future.done() and future.exception() is None}
            self._suspects |= {file.path for at in self._futures.keys() - done.keys() for file in self.tasks[at]}
            self._renewals -= len(done) == len(self._futures)
            self._futures, self._broken = done, False
            self._open = [at for at in self._open if not any(self.suspects(file.path) for file in self.tasks[at])]
        if self._open and self._renewals and came_up:
            with contextlib.suppress(OSError):
                self._processes.start()
                self._feed_all()

    # -- work --------------------------------------------------------------------------------------------------

    def _feed_all(self) -> None:
        """Give every worker a task as soon as it is ready: until then the session can do it."""
        for _ in range(self._processes.count):
            with contextlib.suppress(RuntimeError):  # broken already
                self._processes.submit(prepare).add_done_callback(self._feed)

    def _feed(self, _done: object = None) -> None:
        """Give the last open task to the workers, and another one when it is done."""
        # Not all at once: one that is cancelled before a worker dies brings down the executor's thread (Python 3.11).
        with self._changed:
            self._changed.notify_all()
            if not self._processes.running or not self._open:
                return
            files, folder = tuple(self.tasks[self._open[-1]]), self._processes.folder.name
            task = Task(files, self._modules, self._roots, self._final, folder, self._settings)
            try:
                future = self._processes.submit(read, task)
            except RuntimeError:  # broken or shut down
                self._broken = True
                return
            self._futures[self._open.pop()] = future
        future.add_done_callback(self._feed)

    def close(self) -> None:
        """End the workers and remove what they have read; may be called twice."""
        self._processes.close()


def start(
    files: Sequence[FileTask],
    modules: Sequence[str],
    settings: LiveSettings,
    roots: tuple[str, ...],
    *,
    final: bool,
) -> ReadingPool | None:
    """Return a pool that reads those of ``files`` that are not compressed, None if it would not pay or cannot start."""
    plain = [file for file in files if not file.path.endswith(PACKED)]  # a compressed one may be a copy of another
    large = any(file.stat[2] > tasks.SMALL for file in plain)
    workers = settings.workers or _cores()
    if workers < 2 or not all(modules) or sum(file.stat[2] for file in plain) < WORTH:
        return None
    if not large:
        workers -= 1  # this process reads as much as one worker
    try:
        return ReadingPool(plain, modules, settings, roots, workers=workers, final=final)
    except (OSError, ValueError, ImportError, RuntimeError) as error:
        log.warning("no worker processes: %s", error)
        return None


def prepare() -> None:
    """Load in a worker process what ``read`` needs."""
    from engine.live.pool import worker  # noqa: F401

    gc.freeze()


def read(task: Task) -> FilesRead:
    """Do ``task`` in a worker process."""
    from engine.live.pool import worker

    done = worker.run(task)
    gc.collect()
    return done


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


def _tasks(files: Sequence[FileTask], sizes: Iterator[int]) -> Iterator[Sequence[FileTask]]:
    """Yield ``files`` in their order as batches of about these sizes."""
    batch: list[FileTask] = []
    gathered, size = 0, next(sizes)
    for file in files:
        batch.append(file)
        gathered += file.stat[2]
        if gathered >= size:
            yield batch
            batch, gathered, size = [], 0, next(sizes)
    if batch:
        yield batch
