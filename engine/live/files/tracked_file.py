"""The book of files: what is known of one file, and of one file as one reader of one view sees it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

import msgspec

from engine.inputs import FileInfo
from engine.live.ingest.unpack import Damaged, Packing, stem
from engine.problems import Problem, fold
from engine.reading import FileKind

PER_FILE = 200
"""Distinct problems kept of one file; further ones are counted."""
_ROTATED = re.compile(r"(?:[.-]\d{1,3}|[.-]\d{4}-?\d{2}-?\d{2}(?:[-T_.]?\d{2,6})?)$")


def unrotated(name: str) -> str:
    """``name`` without the ending that log rotation gave it (``app.log.1``, ``app.log-20240501``)."""
    return _ROTATED.sub("", name) if name[-1:].isdigit() else name


@dataclass(slots=True, eq=False)
class Feed:
    """One file as one reader of one view sees it. ``id`` names its rows; ``consumed`` and ``state`` say where to go on;
    ``mark`` and ``digest`` fingerprint what was read; ``late`` are problems of a reading that growth would undo."""

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
    late: tuple[Problem, ...] = ()
    provisional: bool = False
    rest: bool = False
    stale: bool = False
    tried_final: bool = False
    held: bool = False
    info: FileInfo | None = None


@dataclass(slots=True, eq=False)
class File:
    """One regular file by device and inode, under every path it was found at. ``path`` is the one it is read by,
    ``stat`` (size, mtime, ctime) belongs to what was read last, None if never."""

    identity: tuple[int, int]
    path: str = ""
    root: str = ""
    paths: set[str] = field(default_factory=set)
    read_path: str = ""
    stat: tuple[int, int, int] | None = None
    noted: tuple[int, int, int] | None = None
    noted_at: float = 0.0
    head_length: int = -1
    head_mark: int = 0
    packing: Packing = ""
    feeds: list[Feed] = field(default_factory=list)
    problems: tuple[Problem, ...] = ()
    head_problems: tuple[Problem, ...] = ()
    damage: Damaged | None = None
    reason: str = "not recognised"
    twin: bool = False
    measure: tuple[int, bytes] | None = None
    due: float | None = None
    verify: bool = False
    group: tuple[str, str] = ("", "")
    shown: str = ""
    label: str = ""


def group_of(path: str) -> tuple[str, str]:
    """Folder and bare name (no compression, no rotation ending) that a file shares with its packed copies."""
    folder, _, name = path.rpartition("/")
    return folder, unrotated(stem(name, "gzip"))


def file_failed(feed: Feed) -> bool:
    """Whether the last reading failed by a mistake of the reader, so that another try is due."""
    return feed.stale and not feed.rest


def bounded(file: File, problems: tuple[Problem, ...]) -> tuple[Problem, ...]:
    """The problems of a file, equal ones joined, not more than PER_FILE of them."""
    if len(problems) < 2:
        return problems
    folded = fold(problems)
    if len(folded) <= PER_FILE:
        return folded
    rest = sum(problem.count for problem in folded[PER_FILE - 1 :])
    more = Problem.at(file.shown, "more-problems", "further problems in this file are counted only", count=rest)
    kept = [problem for problem in folded[: PER_FILE - 1] if problem.kind != "more-problems"]
    return (*kept, more)


def copied(state: Any) -> Any:
    """A copy of a reader's state that the reader may change without harm."""
    try:
        return msgspec.msgpack.decode(msgspec.msgpack.encode(state))
    except (TypeError, OverflowError, ValueError):
        return state
