"""Files that an operator names one by one: settings, state, attachments of options. Nothing they are can hold the program up."""

from __future__ import annotations

import errno
import os
import select
import stat
from pathlib import Path

MOST = 64 << 20
"""Bytes above which a named file is not what was meant."""
PATIENCE_S = 5.0
"""A pipe (``<(command)``) is given up when nothing comes from it for so long."""


def contents(path: Path | str, most: int = MOST) -> bytes:
    """Everything in a regular file or pipe. Raises OSError: as ``open`` does, and for devices, silent pipes, and more than
    ``most`` bytes."""
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        mode = os.fstat(fd).st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if not (stat.S_ISREG(mode) or stat.S_ISFIFO(mode)):
            raise OSError(errno.EINVAL, "neither a regular file nor a pipe")
        data = bytearray()
        while part := _part(fd):
            data += part
            if len(data) > most:
                raise OSError(errno.EFBIG, f"larger than {most >> 20} MB")
        return bytes(data)
    finally:
        os.close(fd)


def _part(fd: int) -> bytes:
    """What comes next, empty at the end. Raises OSError."""
    try:
        return os.read(fd, 1 << 20)
    except BlockingIOError:
        if not select.select([fd], [], [], PATIENCE_S)[0]:
            raise TimeoutError(errno.ETIMEDOUT, "nothing comes from this pipe") from None
        return os.read(fd, 1 << 20)
