"""The files of one view: which there are now, and which came, changed or went with each of the last versions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from engine.inputs import FileInfo
from engine.overlay import Overlay

REMEMBERED = 64
"""For so many versions it is known which files changed after them."""


@dataclass(frozen=True)
class Snapshot:
    """The files of one version by id, the modification time (epoch ms) of the newest, None without files, and how many of
    them are stale."""

    version: int
    files: Mapping[int, FileInfo]
    newest_ms: int | None
    stale: int
    _log: Mapping[int, frozenset[int]]

    def touched_since(self, version: int) -> frozenset[int] | None:
        """Ids of the files that came, changed or went since; None where that is forgotten."""
        found: frozenset[int] = frozenset()
        for step in range(version + 1, self.version + 1):
            moved = self._log.get(step)
            if moved is None:
                return None
            found |= moved
        return found


class Ledger:
    """File infos by id. A change and a snapshot cost the same however many files there are."""

    def __init__(self) -> None:
        self._infos: dict[int, FileInfo] = {}
        self._published: Overlay[int, FileInfo] = Overlay({})
        self._moved: set[int] = set()
        self._log: dict[int, frozenset[int]] = {}
        self._newest: int | None = None
        self._certain = True  # whether _newest is that of _infos
        self._stale = 0

    def __iter__(self) -> Iterator[int]:
        return iter(self._infos)

    def __len__(self) -> int:
        return len(self._infos)

    def put(self, info: FileInfo) -> None:
        """Add a file, or replace what is known of it."""
        self._leave(self._infos.get(info.id))
        self._infos[info.id] = info
        self._moved.add(info.id)
        self._stale += info.stale
        # Also when uncertain, the newest is at least that of all others.
        if self._newest is None or info.mtime_ms >= self._newest:
            self._newest, self._certain = info.mtime_ms, True

    def drop(self, number: int) -> None:
        """Forget a file."""
        old = self._infos.pop(number, None)
        if old is not None:
            self._leave(old)
            self._moved.add(number)

    def _leave(self, old: FileInfo | None) -> None:
        if old is not None:
            self._certain &= old.mtime_ms != self._newest
            self._stale -= old.stale

    def snapshot(self, version: int) -> Snapshot:
        """The files as of now, which is ``version``."""
        if not self._certain:
            self._newest = max([info.mtime_ms for info in self._infos.values()], default=None)
            self._certain = True
        moved, self._moved = frozenset(self._moved), set()
        now = {number: self._infos[number] for number in moved if number in self._infos}
        self._published = self._published.changed(now, moved - now.keys())
        self._log[version] = moved
        self._log.pop(version - REMEMBERED, None)
        return Snapshot(version, self._published, self._newest, self._stale, self._log.copy())
