"""Read files that an operator names (settings, state, option attachments), bounded in size and waiting time."""

from __future__ import annotations

import errno
import os
import select
import stat
from pathlib import Path

MAX_BYTES = 64 << 20  # largest file that is read, in bytes
PATIENCE_S = 5.0  # seconds to wait for data of a pipe (``<(command)``)


def read_bounded(path: Path | str, limit: int = MAX_BYTES) -> bytes:
    """Read a regular file or pipe to its end.

    Raises OSError: as ``open`` does, and for devices, silent pipes, and more than ``limit`` bytes.
    """
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        mode = os.fstat(fd).st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if not (stat.S_ISREG(mode) or stat.S_ISFIFO(mode)):
            raise OSError(errno.EINVAL, "neither a regular file nor a pipe")
        data = bytearray()
        while part := _next_part(fd):
            data += part
            if len(data) > limit:
                raise OSError(errno.EFBIG, f"larger than {limit >> 20} MB")
        return bytes(data)
    finally:
        os.close(fd)


def _next_part(fd: int) -> bytes:
    """Read the next bytes; empty at the end. Raises OSError."""
    try:
        return os.read(fd, 1 << 20)
    except BlockingIOError:
        if not select.select([fd], [], [], PATIENCE_S)[0]:
            raise TimeoutError(errno.ETIMEDOUT, "nothing comes from this pipe") from None
        return os.read(fd, 1 << 20)
