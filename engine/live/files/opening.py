"""Opening of files that anybody may replace by something else: never waits, never opens what is no regular file for long."""

from __future__ import annotations

import contextlib
import os
import stat as modes
from collections.abc import Callable, Iterator
from typing import Protocol

_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY


class NotRegular(OSError):
    """What is at the path now is no regular file."""


def open_regular(path: str) -> tuple[int, os.stat_result]:
    """Open a regular file for reading. Returns its descriptor and status. Raises OSError, NotRegular."""
    descriptor = os.open(path, _FLAGS)
    try:
        status = os.fstat(descriptor)
        if not modes.S_ISREG(status.st_mode):
            raise NotRegular("not a regular file")
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor, status


@contextlib.contextmanager
def opened(path: str) -> Iterator[int]:
    """Open a regular file for reading and close it in the end. Raises OSError, NotRegular."""
    descriptor, _ = open_regular(path)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


class Opened(Protocol):
    """An open file: its status when it was opened, and its bytes."""

    status: os.stat_result

    def read(self, length: int, offset: int) -> bytes:
        """Return ``length`` bytes from ``offset`` on, fewer at the end. Raises OSError."""
        ...

    def close(self) -> None:
        """Close it."""
        ...


Open = Callable[[str], Opened]
"""Opens the file at a path. Raises OSError, NotRegular."""


class RegularFile:
    """An open regular file. Nothing is mapped into memory: a file truncated meanwhile is short, not fatal."""

    def __init__(self, path: str) -> None:
        """Raises OSError, NotRegular."""
        self._descriptor, self.status = open_regular(path)

    def read(self, length: int, offset: int) -> bytes:
        """Return ``length`` bytes from ``offset`` on, fewer at the end. Raises OSError."""
        data = os.pread(self._descriptor, length, offset)
        if len(data) == length or not data:
            return data
        parts = [data]
        done = len(data)
        while done < length:
            data = os.pread(self._descriptor, min(length - done, 1 << 30), offset + done)
            if not data:
                break
            parts.append(data)
            done += len(data)
        return b"".join(parts)

    def close(self) -> None:
        """Close it."""
        os.close(self._descriptor)
