"""Inputs of a folder, read the way the store reads it: for tests that need no live session."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

import polars as pl

from engine.core.incremental import Memo
from engine.core.reading import HEAD, Problem, Reading, Source
from engine.core.view import FILE, Context, FileInfo, Inputs
from engine.run_comparison.parameters import ComparisonParameters
from engine.run_comparison.tables import MEASUREMENTS, RUN_FACTS
from engine.run_comparison.view import VIEW

TABLES = {table.name: table for table in (MEASUREMENTS, RUN_FACTS)}


def problems_of(path: Path) -> list[Problem]:
    """What the readers that recognise a file have to say against it."""
    data = path.read_bytes()
    source = Source(str(path), path.name, 0, len(data))
    kinds = [kind for kind in VIEW.kinds if kind.recognise(path.name, data[:HEAD])]
    return [problem for kind in kinds for problem in kind.read(source, data, None, True).problems]


@lru_cache(1000)
def _readings(path: str, name: str, mtime_ms: int, data: bytes) -> list[tuple[Any, Reading]]:
    """The readers that recognise a file, and what they make of it. A file that did not change is read once."""
    source = Source(path, name, mtime_ms, len(data))
    kinds = [kind for kind in VIEW.kinds if kind.recognise(name, data[:HEAD])]
    return [(kind, kind.read(source, data, None, True)) for kind in kinds]


def read_folder(root: Path, version: int = 1, before: Inputs | None = None) -> Inputs:
    """Every file below ``root`` through every reader that recognises it. With ``before``, files known to it by path
    keep their id and version; new ones take ``version``."""
    known = {info.path: info for info in before.files.values()} if before is not None else {}
    fresh = max((info.id for info in known.values()), default=0)
    files: dict[int, FileInfo] = {}
    parts = {name: [table.empty()] for name, table in TABLES.items()}
    numbers: dict[str, list[int]] = {name: [] for name in TABLES}
    problems: list[Problem] = []
    for path in sorted(p for p in root.rglob("*") if p.is_file()):
        data = path.read_bytes()
        mtime_ms = path.stat().st_mtime_ns // 1_000_000
        for kind, reading in _readings(str(path), path.name, mtime_ms, data):
            old = known.get(str(path))
            if old is None:
                fresh += 1
            number = old.id if old is not None else fresh
            files[number] = FileInfo(
                number, str(path), str(path.relative_to(root)), kind.id, mtime_ms, len(data),
                old.version if old is not None else version, not reading.complete,
            )  # fmt: skip
            problems += reading.problems
            for name, rows in reading.rows.items():
                parts[name].append(TABLES[name].frame(rows))
                numbers[name] += [number] * parts[name][-1].height
    frames = {
        name: pl.concat(parts[name]).with_columns(pl.Series(FILE, numbers[name], dtype=pl.UInt32)) for name in TABLES
    }
    return Inputs(version, files, tuple(problems), frames.__getitem__)


def compute(root: Path | Inputs, memo: Memo | None = None, now_ms: int = 1_785_000_000_000, **options: Any) -> Any:
    """The view's result for a folder (or inputs) and parameters."""
    inputs = root if isinstance(root, Inputs) else read_folder(root)
    context = Context(now_ms=now_ms, memo=Memo() if memo is None else memo)
    return VIEW.compute(inputs, ComparisonParameters(**options), context)
