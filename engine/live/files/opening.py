"""Open files that may be replaced at any time, and say where a path lies. Opening never blocks; only regular files are read."""

from __future__ import annotations

import os
import stat as modes
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from typing import Protocol

from engine.core.reading import clean

_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY


class NotRegular(OSError):
    """The path does not hold a regular file that may be read."""


def open_regular(path: str, roots: Sequence[str] = ()) -> tuple[int, os.stat_result]:
    """Open a regular file for reading. Returns its descriptor and status. Raises OSError, NotRegular.

    ``roots``: folders, one of which holds ``path``; a file that lies below none of them, wherever links lead, is not opened.
    None: it may lie anywhere. The open file is asked, since ``path`` may lead elsewhere a moment later.
    """
    descriptor = os.open(path, _FLAGS)
    try:
        status = os.fstat(descriptor)
        if not modes.S_ISREG(status.st_mode):
            raise NotRegular("not a regular file")
        if roots and (place := _place(descriptor, path)) != path and not inside(place, map(os.path.realpath, roots)):
            raise NotRegular("link to elsewhere")
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor, status


def _place(descriptor: int, path: str) -> str:
    """Return where an open file lies, by a path without links; without /proc, where ``path`` leads now."""
    try:
        return os.readlink(f"/proc/self/fd/{descriptor}")
    except OSError:
        return os.path.realpath(path)


class Opened(Protocol):
    """An open file: its status when it was opened, and its bytes."""

    status: os.stat_result

    def read(self, length: int, offset: int) -> bytes:
        """Return ``length`` bytes from ``offset`` on, fewer at the end. Raises OSError."""

    def close(self) -> None:
        """Close it."""


Open = Callable[[str], Opened]  # opens the file at a path. Raises OSError, NotRegular.


class RegularFile:
    """An open regular file. Nothing is mapped into memory: a file truncated meanwhile is short, not fatal."""

    def __init__(self, path: str, roots: Sequence[str] = ()) -> None:
        """``roots``: folders that the file must lie in (see ``open_regular``). Raises OSError, NotRegular."""
        self.path = path
        self.descriptor, self.status = open_regular(path, roots)

    def read(self, length: int, offset: int) -> bytes:
        """Return ``length`` bytes from ``offset`` on, fewer at the end. Raises OSError."""
        parts, done = [os.pread(self.descriptor, length, offset)], 0
        while parts[-1] and done + len(parts[-1]) < length:
            done += len(parts[-1])
            parts.append(os.pread(self.descriptor, min(length - done, 1 << 30), offset + done))
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def close(self) -> None:
        """Close it."""
        os.close(self.descriptor)


def inside(place: str, roots: Iterable[str]) -> bool:
    """Whether ``place`` is or lies below one of ``roots``, all without links."""
    return any(place == root or place.startswith(root.rstrip("/") + "/") for root in roots)


def below(path: str, folders: Iterable[str]) -> set[str]:
    """Return those of ``folders`` that are ``path`` or lie below it."""
    prefix = path.rstrip("/") + "/"
    return {folder for folder in folders if folder == path or folder.startswith(prefix)}


def canonical(path: str, aliases: Mapping[str, str], folders: Container[str]) -> str | None:
    """Resolve ``path``, which may go through linked folders, to one of ``folders``; ``aliases``: link to folder."""
    probe, rest = path, ""
    while probe not in ("/", ""):
        target = aliases.get(probe)
        if target is not None:
            place = os.path.join(target, rest) if rest else target
            return place if place in folders else None
        probe, tail = os.path.split(probe)
        rest = os.path.join(tail, rest) if rest else tail
    return None


def relative(path: str, roots: Iterable[str]) -> str:
    """Return ``path`` from the first of ``roots`` that holds it, unchanged if none does."""
    above = (root.rstrip("/") + "/" for root in roots)
    return path.removeprefix(next((prefix for prefix in above if path.startswith(prefix)), ""))


def label(path: str, root: str) -> str:
    """Return ``path`` as an operator would write it: relative to ``root``, harmless for a terminal."""
    prefix = root.rstrip("/") + "/"
    return clean(path[len(prefix) :] if path.startswith(prefix) else os.path.basename(path))
