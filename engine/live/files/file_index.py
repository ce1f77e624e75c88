"""Files of one view: which there are now, and which came, changed or went with each of the last versions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from engine.inputs import FileInfo

REMEMBERED = 64
"""Versions for which the changed files are remembered."""


@dataclass(frozen=True)
class Snapshot:
    """The files of one version by id, the modification time (epoch ms) of the newest, None without files, and the number
    of stale ones."""

    version: int
    files: Mapping[int, FileInfo]
    newest_ms: int | None
    stale: int
    _log: Mapping[int, frozenset[int]]

    def touched_since(self, version: int) -> frozenset[int] | None:
        """Return ids of the files that came, changed or went since ``version``, None if that is forgotten."""
        touched: frozenset[int] = frozenset()
        for step in range(version + 1, self.version + 1):
            changed = self._log.get(step)
            if changed is None:
                return None
            touched |= changed
        return touched


class FileIndex:
    """File infos by id."""

    def __init__(self) -> None:
        self._infos: dict[int, FileInfo] = {}
        self._changed: set[int] = set()
        self._log: dict[int, frozenset[int]] = {}
        self._newest: int | None = None
        self._newest_is_exact = True  # else the newest is at least _newest's
        self._stale = 0

    def __iter__(self) -> Iterator[int]:
        return iter(self._infos)

    def __len__(self) -> int:
        return len(self._infos)

    def put(self, info: FileInfo) -> None:
        """Add a file, or replace its info."""
        self._subtract(self._infos.get(info.id))
        self._infos[info.id] = info
        self._changed.add(info.id)
        self._stale += info.stale
        # Also when not exact, _newest is at least that of all others.
        if self._newest is None or info.mtime_ms >= self._newest:
            self._newest, self._newest_is_exact = info.mtime_ms, True

    def drop(self, number: int) -> None:
        """Forget a file."""
        old = self._infos.pop(number, None)
        if old is not None:
            self._subtract(old)
            self._changed.add(number)

    def _subtract(self, old: FileInfo | None) -> None:
        if old is not None:
            self._newest_is_exact &= old.mtime_ms != self._newest
            self._stale -= old.stale

    def snapshot(self, version: int) -> Snapshot:
        """Return the files as of now, which is ``version``."""
        if not self._newest_is_exact:
            self._newest = max([info.mtime_ms for info in self._infos.values()], default=None)
            self._newest_is_exact = True
        self._log[version], self._changed = frozenset(self._changed), set()
        self._log.pop(version - REMEMBERED, None)
        files = MappingProxyType(self._infos.copy())
        return Snapshot(version, files, self._newest, self._stale, self._log.copy())
