"""In the place of worker processes: their tasks are done here, at once or in a thread."""

from __future__ import annotations

import importlib
import tempfile
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from typing import Any

from engine.live.options import LiveSettings
from engine.live.pool.tasks import Task
from engine.live.pool.worker import Worker


class AtOnce(Executor):
    def submit(self, function: Any, /, *given: Any, **named: Any) -> Future[Any]:
        future: Future[Any] = Future()
        try:
            future.set_result(function(*given, **named))
        except Exception as error:
            future.set_exception(error)
        return future


class Inline:
    """As ``Processes``."""

    came_up = True
    exit_status = 0

    def __init__(self, settings: LiveSettings, count: int, executor: Executor | None = None) -> None:
        self.folder = tempfile.TemporaryDirectory(prefix="loadlens-test-", ignore_cleanup_errors=True)
        self.count = count
        self.running = True
        self._settings = settings
        self._executor = executor or AtOnce()

    def idle(self) -> Future[Any]:
        return self._executor.submit(int)

    def submit(self, task: Task) -> Future[Any]:
        return self._executor.submit(self.run, task)

    def run(self, task: Task) -> Any:
        views = [importlib.import_module(module).VIEW for module in task.modules]
        return Worker(self.folder.name, views, self._settings).run(task)

    def start(self) -> None:
        self.running = True

    def kill(self) -> None:
        pass

    def end(self, **_: Any) -> None:
        self.running = False

    def close(self) -> None:
        self.folder.cleanup()


def in_a_thread(settings: LiveSettings, count: int) -> Inline:
    """As processes that take their time."""
    return Inline(settings, count, ThreadPoolExecutor(count))
