"""Build inputs of the query profile from files or texts, and compute results over them."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from engine.core.incremental import Memo
from engine.core.parameters import parse
from engine.core.reading import HEAD, FileKind, Problem, Reading, Source
from engine.core.view import FILE, Context, FileInfo, Inputs, Result
from engine.query_profile.reading.kinds import KINDS
from engine.query_profile.view import VIEW

MTIME = 1_795_217_883_000

DRAWS = 20
"""The fewest draws that give intervals, for tests do not look at their last digits: the default is five times as many."""


@cache
def no_rows() -> dict[str, pl.DataFrame]:
    """The input tables without rows. Not made on import: nothing may compute while tests are collected (``tests.mutants``)."""
    file = pl.lit(None, dtype=pl.UInt32).alias(FILE)
    return {table.name: table.empty().with_columns(file) for kind in KINDS for table in kind.tables}


def read(name: str, data: bytes, kind: str, *, final: bool = True) -> Reading:
    """One file read by the kind called ``kind`` (which must recognise it)."""
    reader = next(k for k in KINDS if k.id == kind)
    assert reader.recognise(name, data[:HEAD]), f"{kind} does not recognise {name}"
    return reader.read(Source(f"/in/{name}", Path(name).name, MTIME, len(data)), data, None, final)


def recognised(name: str, data: bytes) -> list[str]:
    """Kinds that take the file."""
    return [k.id for k in KINDS if k.recognise(name, data[:HEAD])]


Rows = dict[str, pl.DataFrame]


def _read_as(kind: FileKind, name: str, data: bytes) -> tuple[FileInfo, list[Problem], Rows]:
    base = name.rsplit("/", 1)[-1]
    reading = kind.read(Source(f"/in/{name}", base, MTIME, len(data)), data, None, True)
    number = zlib.crc32(name.encode() + data)  # another content is another file
    info = FileInfo(number, f"/in/{name}", name, kind.id, MTIME, len(data), 1)
    of_file = pl.lit(number, dtype=pl.UInt32).alias(FILE)
    tables = [table for table in kind.tables if table.name in reading.rows]
    return info, reading.problems, {t.name: t.frame(reading.rows[t.name]).with_columns(of_file) for t in tables}


_read_once = lru_cache(1000)(_read_as)
"""Many tests look at the same snapshots beside other files."""


def inputs(files: dict[str, bytes], read_as: Callable[..., tuple[FileInfo, list[Problem], Rows]] = _read_as) -> Inputs:
    """Inputs of files given as texts; names may have folders."""
    frames = {name: [empty] for name, empty in no_rows().items()}
    infos: dict[int, FileInfo] = {}
    problems: list[Problem] = []
    for name, data in files.items():
        for kind in KINDS:
            if kind.recognise(name.rsplit("/", 1)[-1], data[:HEAD]):
                info, found, rows = read_as(kind, name, data)
                infos[info.id] = info
                problems += found
                for table, frame in rows.items():
                    frames[table].append(frame)
    glued = {name: pl.concat(parts) if len(parts) > 1 else parts[0] for name, parts in frames.items()}
    return Inputs(1, infos, tuple(problems), glued.__getitem__)


def folder(root: Path, pattern: str = "**/*") -> dict[str, bytes]:
    """Every file below ``root`` that matches, by relative name."""
    found = [root] if root.is_file() else sorted(p for p in root.glob(pattern) if p.is_file())
    return {p.name if root.is_file() else str(p.relative_to(root)): p.read_bytes() for p in found}


def compute(files: dict[str, bytes] | Inputs, at_ms: int | None = None, **choices: Any) -> Result:
    """The view's result over files; choices as options, ``DRAWS`` where they do not say another number. Like a session, it
    keeps what was fitted to the same files."""
    given, memo = (files, Memo()) if isinstance(files, Inputs) else _session(tuple(files.items()))
    pairs = [(key.replace("_", "-"), value) for key, value in ({"draws": DRAWS} | choices).items()]
    return VIEW.compute(given, parse(VIEW.parameters, pairs), Context(now_ms=MTIME, at_ms=at_ms, memo=memo))


@lru_cache(32)
def _session(files: tuple[tuple[str, bytes], ...]) -> tuple[Inputs, Memo]:
    return inputs(dict(files), _read_once), Memo()


def kinds(result: Result) -> list[str]:
    """Kinds of the problems."""
    return sorted({problem.kind for problem in result.problems})


HEADER = "userid,dbid,toplevel,queryid,query,calls,total_exec_time,rows"


def snapshot(*rows: tuple[int, float, float], query: str = "SELECT {}") -> bytes:
    """Rows of (queryid, calls, time in ms)."""
    lines = [f"10,5,t,{q},{query.format(q)},{calls:g},{ms:g},{calls:g}" for q, calls, ms in rows]
    return "\n".join([HEADER, *lines, ""]).encode()


def capture(
    *snapshots: bytes, cpu: list[int] | None = None, info: list[tuple[int, str]] | None = None
) -> dict[str, bytes]:
    files = {f"pgss-20260101T00{i:02d}00Z.csv": text for i, text in enumerate(snapshots)}
    used = cpu or [1000 * i for i in range(len(snapshots))]
    rows = [f"2026-01-01T00:{i:02d}:00Z,{value}000,0" for i, value in enumerate(used)]
    files["cpu.csv"] = "\n".join(["captured_at,user_us,system_us", *rows, ""]).encode()
    if info:
        lines = [f"2026-01-01T00:{i:02d}:00Z,{d},{r}" for i, (d, r) in enumerate(info)]
        files["info.csv"] = "\n".join(["captured_at,dealloc,stats_reset", *lines, ""]).encode()
    return files


STEADY = [(1, 10, 100), (2, 20, 200), (3, 5, 50)]


def sample() -> dict[str, bytes]:
    rng = np.random.default_rng(2)
    rows = ["q.a,q.b,e.c,user_us"]
    for _ in range(60):
        x = rng.integers(1, 100_000, 3)
        rows.append(",".join(map(str, [*x, int(x @ [2, 1, 0.1]) + 1000])))
    return {"t.csv": "\n".join(rows).encode()}
