"""What the live path is doing, as one frozen value for a status line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

Mode = Literal["events", "polling", "missing", "idle"]
"""How changes below a root are noticed: by events (and a scan), by scans alone, not at all while the root is missing,
or only on request (without a watch)."""


class RootStatus(msgspec.Struct, frozen=True):
    """One watched root: its path as given and how it is watched."""

    path: str
    mode: Mode
    reason: str = ""


class Ignored(msgspec.Struct, frozen=True):
    """One file that is not read, and the reason."""

    path: str
    reason: str


class Status(msgspec.Struct, frozen=True):
    """The live path at one moment.

    ``files``: regular files seen; ``recognised``: files per view; ``ignored``: the first few that are not read,
    ``ignored_count`` how many there are; ``bytes``: bytes on disk of the recognised files; ``bytes_read``: bytes read
    since the session began (after decompression); ``cached``: files whose rows came from the cache; ``scans``,
    ``last_scan_ms`` (epoch ms, None before the first) and ``last_scan_took_ms``; ``pending``: files that wait to
    settle; ``reading``: files that another process reads, or will; ``newest_ms``: modification time of the newest
    recognised file, from which a front end tells the age of the data.
    """

    roots: tuple[RootStatus, ...] = ()
    files: int = 0
    recognised: Mapping[str, int] = msgspec.field(default_factory=dict)
    ignored: tuple[Ignored, ...] = ()
    ignored_count: int = 0
    bytes: int = 0
    bytes_read: int = 0
    cached: int = 0
    scans: int = 0
    last_scan_ms: int | None = None
    last_scan_took_ms: float = 0.0
    pending: int = 0
    reading: int = 0
    newest_ms: int | None = None
