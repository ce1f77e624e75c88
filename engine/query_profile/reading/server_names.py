"""Where files lie and what they are called: which of them belong to one server."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import takewhile
from pathlib import PurePath

import polars as pl

from engine.inputs import FILE, FileInfo


@dataclass(frozen=True)
class Home:
    """The folder of one server's files and what their names share (or the host's name, where the files say it).
    ``system``: what kind of server, where that matters."""

    folder: str
    name: str
    system: str = ""

    def nearness(self, other: Home) -> tuple[int, bool]:
        """How much speaks for both being of one server: parts of the path in common, then the first or last word of
        their names (``db1-pgss`` and ``db1-cpu``)."""
        mine, theirs = _words(self.name), _words(other.name)
        return depth(self.folder, other.folder), bool(
            mine and theirs and (mine[0] == theirs[0] or mine[-1] == theirs[-1])
        )


def _words(name: str) -> list[str]:
    return [word for word in re.split(r"[^a-z0-9]+", name.lower()) if word]


def depth(one: str, other: str) -> int:
    """How many leading parts two paths have in common."""
    pairs = zip(PurePath(one).parts, PurePath(other).parts, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def folder(info: FileInfo) -> str:
    """The folder of a file as text."""
    return str(PurePath(info.path).parent)


def label(info: FileInfo) -> str:
    """The file as an operator would name it."""
    return info.label if info.label not in ("", ".") else PurePath(info.path).name


def of_files(frame: pl.DataFrame, files: Mapping[int, FileInfo], what: Callable[[FileInfo], str]) -> pl.Series:
    """``what`` of the file of each row of ``frame``."""
    ids = frame[FILE].unique().to_list() if frame.height else []
    names = {i: what(files[i]) if i in files else "" for i in ids}
    return frame[FILE].replace_strict(names, return_dtype=pl.String).rename("name")
