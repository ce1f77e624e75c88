"""Inputs by hand: files through the view's own kinds into tables, as the session does it."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import polars as pl

from engine.broker_load.readers import KINDS
from engine.broker_load.tables import INPUTS
from engine.inputs import FILE, FileInfo, Inputs
from engine.reading import HEAD, Source


def read(paths: Iterable[Path], mtimes: dict[str, int] | None = None) -> Inputs:
    """Inputs from files and folders (all files below them, sorted)."""
    files: dict[int, FileInfo] = {}
    problems = []
    frames: dict[str, list[pl.DataFrame]] = {table.name: [] for table in INPUTS}
    schemas = {table.name: table for table in INPUTS}
    every: list[Path] = []
    for path in paths:
        every.extend(sorted(p for p in path.rglob("*") if p.is_file()) if path.is_dir() else [path])
    number = 0
    for path in every:
        data = path.read_bytes()
        mtime = (mtimes or {}).get(path.name, int(path.stat().st_mtime * 1000))
        source = Source(str(path), path.name, mtime, len(data))
        for kind in KINDS:
            if not kind.recognise(path.name, data[:HEAD]):
                continue
            reading = kind.read(source, data, None, True)
            problems.extend(reading.problems)
            number += 1
            files[number] = FileInfo(number, str(path), path.name, kind.id, mtime, len(data), number)
            for name, rows in reading.rows.items():
                frame = schemas[name].frame(rows)
                frames[name].append(frame.with_columns(pl.lit(number, pl.UInt32).alias(FILE)))
    tables = {
        name: pl.concat(parts) if parts else schemas[name].empty().with_columns(pl.lit(0, pl.UInt32).alias(FILE))
        for name, parts in frames.items()
    }
    return Inputs(number, files, tuple(problems), lambda name: tables[name])
