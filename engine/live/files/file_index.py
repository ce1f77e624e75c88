"""Files of one view: which there are now, and which came, changed or went with each of the last versions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType

from engine.core.inputs import FileInfo

REMEMBERED = 64
"""Versions for which the changed files are remembered."""
Touched = Callable[[int], frozenset[int] | None]
"""Returns ids of the files that came, changed or went since a version, None if that is forgotten."""


class FileIndex:
    """File infos by id."""

    def __init__(self) -> None:
        self._infos: dict[int, FileInfo] = {}
        self._changed: set[int] = set()
        self._log: dict[int, frozenset[int]] = {}

    def __iter__(self) -> Iterator[int]:
        return iter(self._infos)

    def __len__(self) -> int:
        return len(self._infos)

    def put(self, info: FileInfo) -> None:
        """Add a file, or replace its info."""
        self._infos[info.id] = info
        self._changed.add(info.id)

    def drop(self, number: int) -> None:
        """Forget a file."""
        if self._infos.pop(number, None) is not None:
            self._changed.add(number)

    def snapshot(self, version: int) -> tuple[Mapping[int, FileInfo], Touched]:
        """Return the files as of now, which is ``version``, and what has been touched since the last versions."""
        self._log[version], self._changed = frozenset(self._changed), set()
        self._log.pop(version - REMEMBERED, None)
        log = self._log.copy()

        def touched(since: int) -> frozenset[int] | None:
            steps = [log.get(step) for step in range(since + 1, version + 1)]
            known = [step for step in steps if step is not None]
            return frozenset().union(*known) if len(known) == len(steps) else None

        return MappingProxyType(self._infos.copy()), touched
