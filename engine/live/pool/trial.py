"""Reading everything in one process that a reader may end: a fork, made before anything heavy is loaded.

A worker process loads its own modules and hands rows over by way of files, which costs more than reading some hundred MB. A fork
of a process that has loaded next to nothing costs milliseconds, and what it has read is already where it is needed.
"""

from __future__ import annotations

import os
import resource
import select
import signal
import sys
import threading
from collections.abc import Callable

from engine.core.processes import bound_memory
from engine.live.pool import tasks


def attempt(memory: int, patience_s: float) -> Callable[[], None] | None:
    """Fork. Returns a function in the child, which calls it when all is read; None in this process if reading ended the child.

    If the child ends in any other way, by Ctrl+C too, this process ends likewise (SystemExit). Until all is read the child may
    take ``memory`` bytes and ``patience_s`` seconds. Returns None without a fork once threads run or Polars is loaded.
    """
    if threading.active_count() > 1 or "polars" in sys.modules:
        return None
    done, report = os.pipe()
    ended, held = os.pipe()  # nothing is ever written: it closes when this process ends
    child = os.fork()
    if not child:
        os.close(held)
        threading.Thread(target=_end_with_parent, args=(ended,), daemon=True).start()
        bound_memory(memory)

        def passed() -> None:
            hard = resource.getrlimit(resource.RLIMIT_DATA)[1]  # the bound is taken back
            resource.setrlimit(resource.RLIMIT_DATA, (hard, hard))
            os.write(report, b"+")

        return passed
    os.close(report)
    os.close(ended)
    before = signal.signal(signal.SIGINT, lambda number, _: os.kill(child, number))
    if not select.select([done], [], [], patience_s)[0]:
        os.kill(child, signal.SIGKILL)
    all_read = os.read(done, 1)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    os.close(done)
    os.close(held)
    signal.signal(signal.SIGINT, before)
    if all_read or code == -signal.SIGINT or (code >= 0 and code != tasks.MEMORY):
        if code < 0:
            signal.signal(-code, signal.SIG_DFL)
            os.kill(os.getpid(), -code)
        raise SystemExit(code)
    return None


def _end_with_parent(ended: int) -> None:
    os.read(ended, 1)
    os._exit(1)
