"""What a status line says of all files together, kept up to date file by file."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from engine.live.files.tracked_file import File


class Tally:
    """Number, bytes and newest modification time (ns) of the files that some reader takes, and the files that none does."""

    def __init__(self) -> None:
        self._stats: dict[File, tuple[int, int]] = {}
        self._ignored: dict[File, None] = {}
        self._newest = -1
        self._certain = True  # whether _newest is that of _stats; else it is at least that
        self.bytes = 0

    def put(self, file: File) -> None:
        """Note ``file`` as it is now."""
        self.drop(file)
        if not file.feeds or file.twin:
            self._ignored[file] = None
        elif file.stat is not None:
            size, mtime, _ = file.stat
            self._stats[file] = (size, mtime)
            self.bytes += size
            if mtime >= self._newest:
                self._newest, self._certain = mtime, True

    def drop(self, file: File) -> None:
        """Forget ``file``."""
        self._ignored.pop(file, None)
        old = self._stats.pop(file, None)
        if old is not None:
            self.bytes -= old[0]
            self._certain &= old[1] != self._newest

    def newest_ns(self) -> int:
        """Modification time of the newest file, -1 without one."""
        if not self._certain:
            self._newest = max((mtime for _, mtime in self._stats.values()), default=-1)
            self._certain = True
        return self._newest

    @property
    def ignored_count(self) -> int:
        """How many files no reader takes."""
        return len(self._ignored)

    def ignored(self, most: int) -> Iterator[File]:
        """The first of them."""
        return islice(self._ignored, most)
