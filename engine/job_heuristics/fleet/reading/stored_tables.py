"""The Parquet tables of fleet results on disk, asked for the rows that are wanted."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePath

import polars as pl

from engine.core.inputs import FILE, Inputs
from engine.core.problems import Problem
from engine.core.tables import Table
from engine.formats import parquet
from engine.job_heuristics.fleet.tables import FLEET_RESULTS
from engine.live.files.opening import RegularFile

MOST_BYTES = 1 << 30
"""Bytes of one file of a table that is read whole."""


@dataclass(frozen=True, slots=True)
class FleetResult:
    """One fleet result: the folder of its tables, and what its manifest says. ``findings``: their number by level; ``rows``: that
    of rows by table.

    ``stamp`` is another one when it was written again.
    """

    folder: str
    version: str
    at_ms: int
    jobs: int
    stamp: tuple[int, int]
    parameters: Mapping[str, object] = field(compare=False)
    findings: Mapping[str, int] = field(compare=False)
    rows: Mapping[str, int] = field(default_factory=dict, compare=False)


def fleet_results(inputs: Inputs) -> tuple[FleetResult, ...]:
    """Return the fleet results in ``inputs``, the newest last."""
    results = []
    for row in inputs.table(FLEET_RESULTS.name).iter_rows(named=True):
        info = inputs.files[row[FILE]]
        folder = str(PurePath(info.path).parent.parent)
        results.append(
            FleetResult(
                folder, row["version"] or "", row["at_ms"] or 0, row["jobs"] or 0, (info.id, info.version),
                json.loads(row["parameters"] or "{}"), json.loads(row["findings"] or "{}"),
                json.loads(row["rows"] or "{}"),
            )
        )  # fmt: skip
    return tuple(sorted(results, key=lambda result: (result.at_ms, result.folder)))


class StoredTable:
    """One table of one fleet result: its files, and what is wrong with them (``problems``, filled as they are read)."""

    def __init__(self, result: FleetResult, table: Table) -> None:
        self.table = table
        self.problems: list[Problem] = []
        self._folder = Path(result.folder, f"table={table.name}")

    def files(self) -> list[Path]:
        """Return the paths of its files; none, and a problem, where its folder cannot be read."""
        try:
            paths = sorted(self._folder.iterdir())
        except OSError as error:
            reason = f"the table {self.table.name} of a fleet result cannot be read: {error.strerror}"
            self.problems.append(Problem.at(str(self._folder), "unreadable", reason))
            return []
        return [path for path in paths if path.suffix == ".parquet" and path.name[0] not in "._"]

    def whole(self, columns: Iterable[str] | None = None) -> Iterator[pl.DataFrame]:
        """Yield the rows of each of its files, with the declared types of ``columns`` (all without). A column that a file lacks
        is null; a file that is none of this table is a problem."""
        names = tuple(self.table.schema if columns is None else columns)
        yield from self._good(lambda path: parquet.checked(_content(path), names), names)

    def frames(
        self,
        columns: Iterable[str] | None = None,
        *,
        where: tuple[str, str] | None = None,
        top: tuple[str, int, float | None] | None = None,
        first: int | None = None,
    ) -> Iterator[pl.DataFrame]:
        """Yield those rows of each of its files that ``parquet.Query`` asks for, as ``whole`` does."""
        names = tuple(self.table.schema if columns is None else columns)
        query = parquet.Query(columns=names, where=where, top=top, first=first)
        yield from self._good(lambda path: _asked(path, query), names)

    def _good(self, read: Callable[[Path], pl.DataFrame], names: tuple[str, ...]) -> Iterator[pl.DataFrame]:
        """Yield what ``read`` gives of each file; where that is impossible there is a problem."""
        for path in self.files():
            try:
                yield self._typed(read(path), names)
            except (parquet.Damaged, OSError) as error:
                why = error.strerror or str(error) if isinstance(error, OSError) else str(error)
                reason = f"no readable part of the table {self.table.name} of a fleet result: {why}"
                self.problems.append(Problem.at(str(path), "bad-parquet", reason))

    def rows(self, columns: Iterable[str] | None = None, *, where: tuple[str, str]) -> pl.DataFrame:
        """Return the rows of all its files in which a column holds a text."""
        names = tuple(self.table.schema if columns is None else columns)
        return pl.concat([self.table.empty().select(names), *self.frames(names, where=where)])

    def _typed(self, frame: pl.DataFrame, names: tuple[str, ...]) -> pl.DataFrame:
        """Return ``frame`` with the declared types. Raises Damaged."""
        schema = self.table.schema
        missing = [name for name in self.table.key if name in names and name not in frame.columns]
        if missing:
            raise parquet.Damaged(f"it has no column {missing[0]}")
        for name, dtype in frame.schema.items():
            if dtype != schema[name] and not (dtype.is_signed_integer() and schema[name] == pl.Int64):
                raise parquet.Damaged(f"its column {name} holds {dtype}, not {schema[name]}")
        return frame.select(
            pl.col(name).cast(schema[name]) if name in frame.columns else pl.lit(None, schema[name]).alias(name)
            for name in names
        )


def _content(path: Path) -> bytes:
    """Return the bytes of a regular file. Raises OSError, Damaged."""
    opened = RegularFile(str(path))
    try:
        if opened.status.st_size > MOST_BYTES:
            raise parquet.Damaged(f"it is larger than {MOST_BYTES >> 20} MB")
        return opened.read(opened.status.st_size, 0)
    finally:
        opened.close()


def _asked(path: Path, query: parquet.Query) -> pl.DataFrame:
    """Return the answer of a regular file. Raises Damaged."""
    if not path.is_file():
        raise parquet.Damaged("it is no regular file")
    return parquet.scan(str(path), query)
