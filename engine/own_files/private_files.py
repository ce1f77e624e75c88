"""Files of the program itself (state, log, cache, copies): for their owner alone, written whole or not at all.

Folders get mode 0700, files 0600. Files of another user are neither read nor written: ``sudo`` with another user's home leaves
nothing there that its owner cannot change.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
import time
from collections.abc import Iterator
from pathlib import Path

from engine.core.bounded_read import read_bounded

_OTHERS = 0o077  # rights of group and others
PATIENCE_S = 1.0  # seconds after which a lock that another process holds is given up


def make_folder(path: Path) -> None:
    """Create the folder ``path`` for its owner alone, or take rights of others away. Raises OSError, also if it is another's.

    Missing folders above it get mode 0700, too, as the XDG base directory specification asks.
    """
    for folder in reversed([folder for folder in (path, *path.parents) if not folder.exists()]):
        folder.mkdir(mode=0o700, exist_ok=True)
    status = path.stat()
    _require_own(path, status)
    if status.st_mode & _OTHERS:
        path.chmod(0o700)


def open_file(path: str | Path, flags: int) -> int:
    """Open or create a regular file for its owner alone, and return its descriptor. Raises OSError, also if it is another's."""
    descriptor = os.open(path, flags | os.O_CLOEXEC | os.O_NONBLOCK, 0o600)  # a named pipe must not hold the program up
    try:
        status = os.fstat(descriptor)
        _require_own(path, status)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "not a regular file", str(path))
        if status.st_mode & _OTHERS:
            os.fchmod(descriptor, 0o600)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def read_file(path: Path, most: int) -> bytes:
    """Return the content of a file of this user, at most ``most`` bytes. Raises OSError, also if it is larger or another's."""
    _require_own(path, path.stat())
    return read_bounded(path, most)


def replace_file(path: Path, data: bytes | memoryview) -> None:
    """Write ``path`` whole or not at all, through a neighbour and a rename. Raises OSError.

    If the process is killed, ``path`` has the old or the new content. A neighbour that it leaves behind is removed by
    ``remove_leftovers``.
    """
    neighbour = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    try:
        with open(open_file(neighbour, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), "wb") as file:
            file.write(data)
        neighbour.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            neighbour.unlink()
        raise


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Keep other processes of this program out of the same ``with`` on ``folder``. Raises OSError if another one stays in it.

    Where a file system cannot lock a folder there is no lock.
    """
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        try:
            lock(descriptor, PATIENCE_S)
        except BlockingIOError:
            raise
        except OSError:
            pass
        yield
    finally:
        os.close(descriptor)


def lock(descriptor: int, patience_s: float = 0.0) -> None:
    """Keep other processes of this program from locking an open file or folder until it is closed.

    Raises BlockingIOError if another one still holds it after ``patience_s`` seconds, OSError where it cannot be locked at all.
    """
    until = time.monotonic() + patience_s
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError as error:
            if time.monotonic() >= until:
                raise BlockingIOError(errno.EBUSY, "another loadlens is writing there") from error
            time.sleep(0.01)


def remove_leftovers(path: Path) -> None:
    """Remove the neighbours of ``path`` that processes left behind when they were killed. Never raises."""
    with contextlib.suppress(OSError):
        for neighbour in path.parent.glob(f"{path.name}.*.tmp"):
            number = neighbour.name[len(path.name) + 1 : -len(".tmp")]
            if number.isascii() and number.isdecimal() and not _runs(int(number)):
                with contextlib.suppress(OSError):
                    neighbour.unlink()


def why_not_writable(path: Path) -> str:
    """Return why a file at ``path`` cannot be written, as far as that can be seen without writing; else an empty text."""
    for place in (path.parent, *path.parent.parents):
        try:
            status = place.stat()
        except FileNotFoundError:
            continue
        except OSError as error:
            return error.strerror or str(error)
        if place == path.parent and status.st_uid != os.geteuid():
            return "the folder belongs to another user"
        if not os.access(place, os.W_OK | os.X_OK):
            read_only = os.statvfs(place).f_flag & os.ST_RDONLY
            return "the file system is read-only" if read_only else f"no permission to write to {place}"
        return ""
    return ""


def _require_own(path: str | Path, status: os.stat_result) -> None:
    """Raise PermissionError for a file or folder of another user."""
    if status.st_uid != os.geteuid():
        raise PermissionError(errno.EPERM, "belongs to another user", str(path))


def _runs(process: int) -> bool:
    """Whether a process of this number runs."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return process < 1 << 31
    return True
