"""Inputs by hand: files through the view's own kinds into tables, as the session does it."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

import polars as pl

from engine.broker_load.tables.inputs import INPUTS
from engine.broker_load.view import VIEW
from engine.core.incremental import Memo
from engine.core.parameters import parse
from engine.core.reading import HEAD, FileKind, Problem, Source
from engine.core.view import FILE, Context, FileInfo, Inputs, Result

_TABLES = {table.name: table for table in INPUTS}


@lru_cache(1000)
def _read(kind: FileKind, source: Source, data: bytes) -> tuple[list[Problem], dict[str, pl.DataFrame]]:
    """Problems and frames of one file; read once, for many tests look at the same files again and again."""
    reading = kind.read(source, data, None, True)
    return reading.problems, {name: _TABLES[name].frame(rows) for name, rows in reading.rows.items()}


def read(*paths: Path, mtime_ms: int | None = None, after: int = 0) -> Inputs:
    """Inputs from files and folders (all files below them, sorted); their ids come after ``after``."""
    files: dict[int, FileInfo] = {}
    problems = []
    frames: dict[str, list[pl.DataFrame]] = {name: [] for name in _TABLES}
    every: list[Path] = []
    for path in paths:
        every.extend(sorted(p for p in path.rglob("*") if p.is_file()) if path.is_dir() else [path])
    number = after
    for path in every:
        data = path.read_bytes()
        mtime = mtime_ms if mtime_ms is not None else int(path.stat().st_mtime * 1000)
        source = Source(str(path), path.name, mtime, len(data))
        for kind in VIEW.kinds:
            if not kind.recognise(path.name, data[:HEAD]):
                continue
            found, rows_of = _read(kind, source, data)
            problems.extend(found)
            number += 1
            files[number] = FileInfo(number, str(path), path.name, kind.id, mtime, len(data), number)
            for name, frame in rows_of.items():
                frames[name].append(frame.with_columns(pl.lit(number, pl.UInt32).alias(FILE)))
    tables = {
        name: pl.concat(parts) if parts else _TABLES[name].empty().with_columns(pl.lit(0, pl.UInt32).alias(FILE))
        for name, parts in frames.items()
    }
    return Inputs(number, files, tuple(problems), lambda name: tables[name])


def compute(inputs: Inputs, *pairs: tuple[str, Any], at_ms: int | None = None, memo: Memo | None = None) -> Result:
    """A result as ``report -o key=value`` computes it."""
    context = Context(now_ms=0, at_ms=at_ms, memo=Memo() if memo is None else memo)
    return VIEW.compute(inputs, parse(VIEW.parameters, pairs), context)
