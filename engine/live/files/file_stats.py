"""Number, size and age of all files together, for a status line, kept up to date file by file."""

from __future__ import annotations

from itertools import islice

from engine.core.text import clean
from engine.live.files.scan import Scanner
from engine.live.files.tracked_file import TrackedFile
from engine.live.status import Ignored, Status

IGNORED = 200
"""Ignored files that a status names; the rest are counted."""


class FileStats:
    """Bytes and newest modification time (ns) of the files that some reader takes, and the files that none does."""

    def __init__(self) -> None:
        self._stats: dict[TrackedFile, tuple[int, int]] = {}
        self._ignored: dict[TrackedFile, None] = {}
        self._newest = -1
        self._newest_is_exact = True  # else the newest is at least _newest's
        self.bytes = 0

    def put(self, file: TrackedFile) -> None:
        """Count ``file`` as it is now."""
        self.drop(file)
        if not file.readers or file.is_copy:
            self._ignored[file] = None
        elif file.stat is not None:
            size, mtime, _ = file.stat
            self._stats[file] = (size, mtime)
            self.bytes += size
            if mtime >= self._newest:
                self._newest, self._newest_is_exact = mtime, True

    def drop(self, file: TrackedFile) -> None:
        """Forget ``file``."""
        self._ignored.pop(file, None)
        old = self._stats.pop(file, None)
        if old is not None:
            self.bytes -= old[0]
            self._newest_is_exact &= old[1] != self._newest

    def _newest_ns(self) -> int:
        """Return the modification time of the newest file, -1 without one."""
        if not self._newest_is_exact:
            self._newest = max((mtime for _, mtime in self._stats.values()), default=-1)
            self._newest_is_exact = True
        return self._newest

    def status(self, scanner: Scanner) -> Status:
        """Return what a status line says of all files. Roots, views and scans are left to the caller."""
        ignored = [Ignored(clean(file.path, 4096), file.reason) for file in islice(self._ignored, IGNORED)]
        for path, reason in islice(scanner.skipped.items(), IGNORED - len(ignored)):
            ignored.append(Ignored(clean(path, 4096), reason))
        newest = self._newest_ns()
        return Status(
            files=scanner.count,
            ignored=tuple(sorted(ignored, key=lambda item: item.path)),
            ignored_count=len(self._ignored) + len(scanner.skipped),
            bytes=self.bytes,
            newest_ms=newest // 1_000_000 if newest >= 0 else None,
        )
