"""State of one file, of one file as one reader of one view sees it, and of all files together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from types import MappingProxyType
from typing import Any

import msgspec

from engine.core.compression import Damaged, Packing
from engine.core.reading import FileKind, Problem, bounded, clean
from engine.core.view import FileInfo
from engine.live.files.scan import Scanner
from engine.live.status import Ignored, Status

PER_FILE = 200  # distinct problems listed per file; further ones are counted


class ReaderState(msgspec.Struct, eq=False):
    """One file as one reader of one view sees it.

    ``id`` names its rows (0: none yet); ``consumed`` bytes were read and led to ``state``; ``mark`` and ``digest``
    fingerprint them. ``provisional``: rows of a last record without its end are in the store; ``late_problems`` belong
    to them. ``rest``: bytes behind ``consumed`` wait for more. ``stale``: the rows are those of an older content.
    ``retained``: the file no longer looks like this kind; its last good rows stay until it has settled.
    """

    view: str
    kind: FileKind
    name: str
    id: int = 0
    version: int = 0
    consumed: int = 0
    state: Any = None
    mark: int = 0
    hasher: Any = None
    digest: int | None = None
    problems: tuple[Problem, ...] = ()
    late_problems: tuple[Problem, ...] = ()
    provisional: bool = False
    rest: bool = False
    stale: bool = False
    tried_final: bool = False
    retained: bool = False
    info: FileInfo | None = None

    @property
    def failed(self) -> bool:
        """Whether the reader failed last time, so that another try is due."""
        return self.stale and not self.rest

    @property
    def complete(self) -> bool:
        """Whether the reader has taken everything, so that the file needs no other look."""
        unsettled = self.stale or self.retained or self.provisional or self.late_problems or self.rest
        return self.info is not None and not unsettled


class TrackedFile(msgspec.Struct, eq=False):
    """One regular file by device and inode, under every path it was found at.

    ``path`` is the one it is read by, ``shown`` and ``label`` the same for an operator. ``stat`` (size, mtime, ctime)
    belongs to what was read last, None if never; ``seen_stat`` to the last look, at the monotonic time ``seen_at``.
    ``head_length`` and ``head_mark`` fingerprint the beginning. ``is_copy``: a compressed copy of a file beside it.
    ``due``: monotonic time of the next look; ``verify``: modified so recently that its content must be compared then.
    ``given_up``: as it was when it could not be read: it is not tried again before it changes, nor before the monotonic
    time ``rests_until``. ``suspect``: it may have ended a process that read it.
    """

    identity: tuple[int, int]
    path: str = ""
    root: str = ""
    paths: set[str] = msgspec.field(default_factory=set)
    read_path: str = ""
    stat: tuple[int, int, int] | None = None
    seen_stat: tuple[int, int, int] | None = None
    seen_at: float = 0.0
    head_length: int = -1
    head_mark: int = 0
    packing: Packing = ""
    readers: list[ReaderState] = msgspec.field(default_factory=list)
    problems: tuple[Problem, ...] = ()
    head_problems: tuple[Problem, ...] = ()
    damage: Damaged | None = None
    reason: str = "not recognised"
    is_copy: bool = False
    unpacked_size: tuple[int, bytes] | None = None
    due: float | None = None
    verify: bool = False
    given_up: tuple[int, int, int] | None = None
    rests_until: float = 0.0
    suspect: bool = False
    group: tuple[str, str] = ("", "")
    shown: str = ""
    label: str = ""

    def views(self, all_views: Iterable[str]) -> Iterable[str]:
        """Return the views that read this file, ``all_views`` if none does."""
        return [reader.view for reader in self.readers] if self.readers else all_views

    def bounded(self, problems: tuple[Problem, ...]) -> tuple[Problem, ...]:
        """Return ``problems`` with equal ones joined, at most PER_FILE of them."""
        return problems if len(problems) < 2 else bounded(problems, PER_FILE)


REMEMBERED = 64  # versions for which the changed files are remembered
Touched = Callable[[int], frozenset[int] | None]
"""Returns ids of the files that appeared, changed or disappeared since a version, None if that is no longer known."""


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
        """Return the files as they are now, under the number ``version``, and which were touched since recent versions."""
        self._log[version], self._changed = frozenset(self._changed), set()
        self._log.pop(version - REMEMBERED, None)
        log = self._log.copy()

        def touched(since: int) -> frozenset[int] | None:
            steps = [log.get(step) for step in range(since + 1, version + 1)]
            known = [step for step in steps if step is not None]
            return frozenset().union(*known) if len(known) == len(steps) else None

        return MappingProxyType(self._infos.copy()), touched


IGNORED = 200  # ignored files that a status names; the rest are counted


class FileStats:
    """Size and modification time (ns) of the files that some reader takes, and the files that none does."""

    def __init__(self) -> None:
        self._stats: dict[TrackedFile, tuple[int, int]] = {}
        self._ignored: dict[TrackedFile, None] = {}

    def put(self, file: TrackedFile) -> None:
        """Count ``file`` as it is now."""
        self.drop(file)
        if not file.readers or file.is_copy:
            self._ignored[file] = None
        elif file.stat is not None:
            self._stats[file] = file.stat[:2]

    def drop(self, file: TrackedFile) -> None:
        """Forget ``file``."""
        self._ignored.pop(file, None)
        self._stats.pop(file, None)

    def status(self, scanner: Scanner) -> Status:
        """Return the status of all files; the caller adds roots, views and scans."""
        ignored = [Ignored(clean(file.path, 4096), file.reason) for file in islice(self._ignored, IGNORED)]
        for path, reason in islice(scanner.skipped.items(), IGNORED - len(ignored)):
            ignored.append(Ignored(clean(path, 4096), reason))
        newest = max((mtime for _, mtime in self._stats.values()), default=-1)
        return Status(
            files=scanner.count,
            ignored=tuple(sorted(ignored, key=lambda item: item.path)),
            ignored_count=len(self._ignored) + len(scanner.skipped),
            bytes=sum(size for size, _ in self._stats.values()),
            newest_ms=newest // 1_000_000 if newest >= 0 else None,
        )
