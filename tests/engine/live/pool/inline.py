"""In the place of worker processes: their tasks are done here, at once or in a thread."""

from __future__ import annotations

import tempfile
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from typing import Any


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

    def __init__(self, count: int, _memory: int = 0, executor: Executor | None = None) -> None:
        self.folder = tempfile.TemporaryDirectory(prefix="loadlens-test-", ignore_cleanup_errors=True)
        self.count = count
        self.running = True
        self._executor = executor or AtOnce()

    def submit(self, function: Any, *given: Any) -> Future[Any]:
        return self._executor.submit(self.run, function, *given)

    def run(self, function: Any, *given: Any) -> Any:
        return function(*given)

    def start(self) -> None:
        self.running = True

    def kill(self) -> None:
        pass

    def end(self, **_: Any) -> None:
        self.running = False

    def close(self) -> None:
        self.folder.cleanup()


def in_a_thread(count: int, memory: int) -> Inline:
    """Make processes that take their time."""
    return Inline(count, memory, ThreadPoolExecutor(count))
