"""Inputs of a folder, read the way the store reads it: for tests that need no live session."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

import polars as pl

from engine.incremental import Memo
from engine.inputs import FILE, FileInfo, Inputs
from engine.problems import Problem
from engine.reading import HEAD, Source
from engine.run_comparison.parameters import ComparisonParameters
from engine.run_comparison.tables import MEASUREMENTS, RUN_FACTS
from engine.run_comparison.view import VIEW
from engine.view import Context

TABLES = {table.name: table for table in (MEASUREMENTS, RUN_FACTS)}


def problems_of(path: Path) -> list[Problem]:
    """What the readers that recognise a file have to say against it."""
    data = path.read_bytes()
    source = Source(str(path), path.name, 0, len(data))
    kinds = [kind for kind in VIEW.kinds if kind.recognise(path.name, data[:HEAD])]
    return [problem for kind in kinds for problem in kind.read(source, data, None, True).problems]


def read_folder(root: Path, version: int = 1, before: Inputs | None = None) -> Inputs:
    """Every file below ``root`` through every reader that recognises it. With ``before``, files known to it by path
    keep their id and version; new ones take ``version``."""
    known = {info.path: info for info in before.files.values()} if before is not None else {}
    fresh = max((info.id for info in known.values()), default=0)
    files: dict[int, FileInfo] = {}
    parts: dict[str, list[pl.DataFrame]] = defaultdict(list)
    problems: list[Problem] = []
    for path in sorted(p for p in root.rglob("*") if p.is_file()):
        data = path.read_bytes()
        stat = path.stat()
        for kind in VIEW.kinds:
            if not kind.recognise(path.name, data[:HEAD]):
                continue
            old = known.get(str(path))
            if old is None:
                fresh += 1
            number = old.id if old is not None else fresh
            source = Source(str(path), path.name, stat.st_mtime_ns // 1_000_000, len(data))
            reading = kind.read(source, data, None, True)
            files[number] = FileInfo(
                number, str(path), str(path.relative_to(root)), kind.id, source.mtime_ms, len(data),
                old.version if old is not None else version, not reading.complete,
            )  # fmt: skip
            problems += reading.problems
            for name, rows in reading.rows.items():
                frame = TABLES[name].frame(rows)
                parts[name].append(frame.with_columns(pl.lit(number, dtype=pl.UInt32).alias(FILE)))
    frames = {
        name: pl.concat(parts[name])
        if parts[name]
        else table.empty().with_columns(pl.lit(None, dtype=pl.UInt32).alias(FILE))
        for name, table in TABLES.items()
    }
    return Inputs(version, files, tuple(problems), frames.__getitem__)


def compute(root: Path | Inputs, memo: Memo | None = None, now_ms: int = 1_785_000_000_000, **options: Any) -> Any:
    """The view's result for a folder (or inputs) and parameters."""
    inputs = root if isinstance(root, Inputs) else read_folder(root)
    context = Context(now_ms=now_ms, memo=Memo() if memo is None else memo)
    return VIEW.compute(inputs, ComparisonParameters(**options), context)
