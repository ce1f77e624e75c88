"""Entry of a worker process: what it runs first, before anything heavy is loaded."""

from __future__ import annotations

import os
import shutil
import threading
from typing import Any

from engine.live.options import LiveSettings
from engine.live.pool.tasks import Task


def initialise(folder: str, settings: LiveSettings) -> None:
    """Load what a worker process needs. ``folder``: where it writes rows."""
    threading.Thread(target=_end_with_parent, args=(folder,), daemon=True).start()
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # the terminal belongs to the dashboard
    os.environ.setdefault("POLARS_MAX_THREADS", "1")  # each core has a worker already
    from engine.live.pool import limits, worker

    limits.bound_memory(settings.max_memory_mb)
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
