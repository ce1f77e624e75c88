"""Opening of files that anybody may replace by something else: never waits, never opens what is no regular file for long."""

from __future__ import annotations

import contextlib
import os
import stat as modes
from collections.abc import Iterator

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
