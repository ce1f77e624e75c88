"""Reads files into Inputs the way the store does, but at once and in the test's own process."""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterable, Mapping
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import polars as pl
import zstandard

from engine.core.reading import FileKind, Problem, Reading, Source
from engine.core.view import FILE, FileInfo, Finding, Inputs
from engine.job_heuristics.fleet.tables import FLEET_RESULTS
from engine.job_heuristics.mapreduce.tables import INPUTS as MAPREDUCE_INPUTS
from engine.job_heuristics.spark.tables import SPARK_INPUTS
from engine.job_heuristics.tez.tables import FACTS
from engine.job_heuristics.view import VIEW

INPUTS = (*MAPREDUCE_INPUTS, *SPARK_INPUTS, *FACTS, FLEET_RESULTS)


_EMPTY = {table.name: table.empty().with_columns(pl.Series(FILE, [], pl.UInt32)) for table in INPUTS}


@lru_cache(500)
def _read(kind: FileKind, source: Source, data: bytes) -> tuple[Reading, dict[str, pl.DataFrame]]:
    """A whole file and its frames; read once, for many tests look at the same files again and again."""
    reading = kind.read(source, data, None, True)
    return reading, _frames(kind, reading)


def _frames(kind: FileKind, reading: Reading) -> dict[str, pl.DataFrame]:
    return {table.name: table.frame(reading.rows[table.name]) for table in kind.tables if table.name in reading.rows}


class Store:
    """A tiny stand-in for the live store: files by name, versions, all rows."""

    def __init__(self) -> None:
        self.version = 0
        self.infos: dict[int, FileInfo] = {}
        self.rows: dict[str, list[tuple[int, pl.DataFrame]]] = {t.name: [] for t in INPUTS}
        self.problems: list[Problem] = []
        self.ids: dict[str, int] = {}
        self.states: dict[int, Any] = {}
        self.taken: dict[int, int] = {}
        self.next = 1

    def put(self, path: str, data: bytes, *, mtime_ms: int = 0, final: bool = True) -> None:
        """A file appeared, was replaced, or (append kinds, longer than before) grew."""
        name = path.rsplit("/", 1)[-1]
        kind = next((k for k in VIEW.kinds if k.recognise(name, data[:8192])), None)
        if kind is None:
            return
        self.version += 1
        old = self.ids.get(path)
        offset = 0
        state = None
        if old is not None and kind.append and len(data) >= self.taken[old]:
            file, offset, state = old, self.taken[old], self.states[old]
        else:
            if old is not None:
                self.drop(path)
            file = self.next
            self.next += 1
            self.ids[path] = file
        source = Source(path, name, mtime_ms, len(data), offset)
        if final and state is None and not offset:
            reading, frames = _read(kind, source, data)
        else:
            reading = kind.read(source, data[offset:], state, final)
            frames = _frames(kind, reading)
        self.taken[file] = offset + reading.consumed
        self.states[file] = reading.state
        self.problems += reading.problems
        for table, frame in frames.items():
            self.rows[table].append((file, frame.with_columns(pl.lit(file, dtype=pl.UInt32).alias(FILE))))
        self.infos[file] = FileInfo(file, path, path, kind.id, mtime_ms, len(data), self.version)

    def drop(self, path: str) -> None:
        """A file went away."""
        self.version += 1
        file = self.ids.pop(path)
        del self.infos[file]
        self.rows = {n: [(f, frame) for f, frame in rows if f != file] for n, rows in self.rows.items()}

    def inputs(self) -> Inputs:
        """The snapshot."""
        tables = {
            name: pl.concat([none, *(frame for _, frame in self.rows[name])]) if self.rows[name] else none
            for name, none in _EMPTY.items()
        }
        return Inputs(self.version, dict(self.infos), tuple(self.problems), tables.__getitem__)


def read_bytes(path: Path) -> bytes:
    """The bytes of a file, unpacked."""
    data = path.read_bytes()
    if path.suffix == ".zstd":
        return zstandard.ZstdDecompressor().decompressobj().decompress(data)
    return gzip.decompress(data) if path.suffix == ".gz" else data


def inputs_of(files: Mapping[str, bytes], *, final: bool = True) -> Inputs:
    """Inputs of files given by path."""
    store = Store()
    for path, data in files.items():
        store.put(path, data, final=final)
    return store.inputs()


@cache
def inputs_below(*roots: Path) -> Inputs:
    """Inputs of all files below some folders, which never change: they are read once."""
    return inputs_of({str(p).removesuffix(".gz"): read_bytes(p) for p in files_below(roots)})


def files_below(roots: Iterable[Path]) -> list[Path]:
    """All files below some folders (or the files themselves), sorted."""
    found: list[Path] = []
    for root in roots:
        found += [root] if root.is_file() else [p for p in root.rglob("*") if p.is_file()]
    return sorted(found)


_LABELS = re.compile(r"(?:^|, )[A-Z][^:;,]{2,60}: ")


def badly_told(findings: Iterable[Finding]) -> list[str]:
    """The findings that list labels and values, or say no fact, or not what to do."""
    told = {
        finding.subject: finding.text for finding in findings if not finding.subject.startswith(("DAG ", "Failure of "))
    }
    return [
        f"{subject}: {text}"
        for subject, text in told.items()
        if len(_LABELS.findall(text)) > 1 or not all(text.partition("; ")) or "beyond a limit" in text
    ]
