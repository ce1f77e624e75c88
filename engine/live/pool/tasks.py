"""Tasks of worker processes: whole files, or a piece of a large one."""

from __future__ import annotations

from dataclasses import dataclass

from engine.live.files.scan import Stat


@dataclass(frozen=True, slots=True)
class FileTask:
    """One file to read: its path, the root it was found under, and its identity."""

    path: str
    root: str
    stat: Stat


@dataclass(frozen=True, slots=True)
class PieceTask:
    """The records of a large file that begin in the bytes from ``begin`` to ``end``, after ``breaks`` line breaks."""

    file: FileTask
    begin: int
    end: int
    breaks: int
