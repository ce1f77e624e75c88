"""State of one file, and of one file as one reader of one view sees it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from engine.core.compression import Damaged, Packing
from engine.core.inputs import FileInfo
from engine.core.problems import Problem, bounded
from engine.core.reading import FileKind

PER_FILE = 200
"""Distinct problems listed per file; further ones are counted."""


@dataclass(slots=True, eq=False)
class ReaderState:
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
        """Whether the last reading ended in a mistake of the reader, so that another try is due."""
        return self.stale and not self.rest

    @property
    def complete(self) -> bool:
        """Whether the reader has taken everything, so that nothing of the file waits for another look."""
        unsettled = self.stale or self.retained or self.provisional or self.late_problems or self.rest
        return self.info is not None and not unsettled


@dataclass(slots=True, eq=False)
class TrackedFile:
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
    paths: set[str] = field(default_factory=set)
    read_path: str = ""
    stat: tuple[int, int, int] | None = None
    seen_stat: tuple[int, int, int] | None = None
    seen_at: float = 0.0
    head_length: int = -1
    head_mark: int = 0
    packing: Packing = ""
    readers: list[ReaderState] = field(default_factory=list)
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
