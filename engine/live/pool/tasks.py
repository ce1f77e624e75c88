"""Tasks of worker processes: whole files, or a piece of a large one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from engine.live.files.scan import Stat

if TYPE_CHECKING:
    from engine.live.pool.file_state import FileState


@dataclass(frozen=True, slots=True)
class FileTask:
    """One file to read: its path, the root it was found under, its identity, and what is known of it already."""

    path: str
    root: str
    stat: Stat
    known: FileState | None = None


@dataclass(frozen=True, slots=True)
class PieceTask:
    """The records of a large file that begin in the bytes from ``begin`` to ``end``, after ``breaks`` line breaks."""

    file: FileTask
    begin: int
    end: int
    breaks: int


@dataclass(frozen=True, slots=True)
class Task:
    """Some files or a piece of one, to be read for the views in ``modules`` (each holds one as ``VIEW``).

    ``final``: nothing will follow (``Session.scan``).
    """

    work: tuple[FileTask, ...] | PieceTask
    modules: tuple[str, ...]
    final: bool
