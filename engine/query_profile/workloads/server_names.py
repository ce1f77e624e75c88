"""Tell by folders and names of files which of them belong to one server."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import takewhile
from pathlib import PurePath

import polars as pl

from engine.core.inputs import FILE, FileInfo


@dataclass(frozen=True)
class Origin:
    """Where one server's files come from: their folder, and what their names share (or the host's name, where the files
    have it). ``system``: the kind of server, where that matters."""

    folder: str
    name: str
    system: str = ""

    def nearness(self, other: Origin) -> tuple[int, int]:
        """Measure how likely both are of one server: by the parts of the path in common, then by their names: 2 where they are
        equal (hosts of one domain share their last words), 1 where the first or last word is (``db1-pgss`` and ``db1-cpu``)."""
        mine, theirs = _words(self.name), _words(other.name)
        alike = bool(mine and theirs and (mine[0] == theirs[0] or mine[-1] == theirs[-1]))
        return depth(self.folder, other.folder), 2 if mine and mine == theirs else int(alike)


def _words(name: str) -> list[str]:
    return [word for word in re.split(r"[^a-z0-9]+", name.lower()) if word]


def depth(one: str, other: str) -> int:
    """Count the leading parts that two paths have in common."""
    pairs = zip(PurePath(one).parts, PurePath(other).parts, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def folder(info: FileInfo) -> str:
    """Return the folder of a file as text."""
    return str(PurePath(info.path).parent)


def label(info: FileInfo) -> str:
    """Name the file as an operator would."""
    return info.label if info.label not in ("", ".") else PurePath(info.path).name


def of_files(frame: pl.DataFrame, files: Mapping[int, FileInfo], attribute: Callable[[FileInfo], str]) -> pl.Series:
    """Return ``attribute`` of the file of each row of ``frame``."""
    ids = frame[FILE].unique().to_list() if frame.height else []
    names = {i: attribute(files[i]) if i in files else "" for i in ids}
    return frame[FILE].replace_strict(names, return_dtype=pl.String).rename("name")
