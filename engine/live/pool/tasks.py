"""Tasks of worker processes, and what a process may use for them.

The kernel ends a process that exceeds its processor time or memory, so it does not matter whether a reader loops in Python or
in C, holds the interpreter's lock, or allocates without bound.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator
from typing import TYPE_CHECKING

import msgspec

from engine.core.memory import available, limit
from engine.live.files.scan import Stat

if TYPE_CHECKING:
    from engine.live.options import LiveSettings
    from engine.live.pool.file_state import FileState


class FileTask(msgspec.Struct, frozen=True):
    """One file to read: its path, the root it was found under, its identity, and what is known of it already."""

    path: str
    root: str
    stat: Stat
    known: FileState | None = None


class Task(msgspec.Struct, frozen=True):
    """Some files, to be read for the views in ``modules`` (each holds one as ``VIEW``).

    ``roots``: what the session watches; ``final``: nothing will follow (``Session.scan``); rows are written to ``folder``.
    """

    files: tuple[FileTask, ...]
    modules: tuple[str, ...]
    roots: tuple[str, ...]
    final: bool
    folder: str
    settings: LiveSettings


SMALL = 2 << 20
"""Bytes that a reader is given in the session's own process at most. Every reader is linear, so that this much takes seconds
at worst, and one call of C code, which holds the interpreter's lock, no longer than a person notices at the keys."""
CPU_S = 10.0  # seconds of processor time for one call of a reader,
CPU_S_PER_MB = 2.0  # and more of them for each MB that it is given: six times what the slowest reader takes
PATIENCE_S = 300.0  # seconds to wait for a file, whatever its processor time, and
PATIENCE_S_PER_MB = 60.0
"""more of them for each MB that it has on disk, packed or not: for a process that is stopped, or a disk that hangs."""
MEMORY = 77  # exit status of a process that was refused memory
_SMALLEST = 512 << 20  # bytes that a process needs to load its modules


def memory(settings: LiveSettings) -> int:
    """Return the bytes that a process may take: what ``memory-mb`` allows, at most half of the machine's memory."""
    return max(_SMALLEST, min(limit(settings.memory_mb), available() // 2))


def patience(size: int) -> float:
    """Return the seconds after which a process that reads ``size`` bytes counts as hanging."""
    return PATIENCE_S + PATIENCE_S_PER_MB * size / (1 << 20)


@contextlib.contextmanager
def budget(size: int) -> Iterator[None]:
    """End this process if the block takes too long for ``size`` bytes or runs out of memory."""
    signal.setitimer(signal.ITIMER_PROF, CPU_S + CPU_S_PER_MB * size / (1 << 20))
    try:
        yield
    except MemoryError:
        os._exit(MEMORY)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)
