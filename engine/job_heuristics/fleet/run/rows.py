"""One row shape for all tables, so that a single pass over the histories fills every table."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl

from engine.core.tables import Column, Table

if TYPE_CHECKING:
    import pyarrow as pa

LINKS = Table("links", "Jobs that a file of another job mentions", (Column("mentioned", pl.String, "the other job"),))
TABLE, HEIGHT, ROWS = "_table", "_height", "_rows"
"""Columns of a batch's result: table name, number of rows, and the rows in Arrow's IPC format. For Spark the rows are
one opaque value that it need not convert."""
SCHEMA = f"{TABLE} string, {HEIGHT} bigint, {ROWS} binary"
"""Spark's types of these columns."""
JOB, PLACE = "_job", "_place"
"""Additional columns of the rows: the job of each, and its position in the batch."""
_SPARK = {pl.String: "string", pl.Int64: "bigint", pl.Float64: "double", pl.Boolean: "boolean"}


def ddl(table: Table, place: bool = False) -> str:
    """Return the columns of ``table`` as Spark DDL, with ``PLACE`` if ``place``. Raises KeyError."""
    columns = [f"`{name}` {_SPARK[dtype.base_type()]}" for name, dtype in table.schema.items()]
    return ", ".join([*columns, f"{PLACE} bigint"] if place else columns)


def packed(frame: pl.DataFrame, table: Table, job: pl.Expr) -> pa.RecordBatch:
    """Pack the rows of ``table`` into one row of ``SCHEMA``. ``job``: expression for the job of a row."""
    place = pl.int_range(pl.len(), dtype=pl.Int64)
    buffer = io.BytesIO()
    frame.select(*table.schema.names(), job.alias(JOB), place.alias(PLACE)).write_ipc(buffer, compression="lz4")
    value = pl.DataFrame(
        {TABLE: table.name, HEIGHT: pl.Series([frame.height], dtype=pl.Int64), ROWS: buffer.getvalue()}
    )
    return next(to_spark(value))


def frames(batches: Iterable[pa.RecordBatch]) -> Iterator[pl.DataFrame]:
    """Yield the rows of each batch made by ``packed``."""
    for batch in batches:
        for rows in batch.column(ROWS):
            yield pl.read_ipc(io.BytesIO(rows.as_py()))


@dataclass(frozen=True)
class Unpack:
    """Unpacks rows of one table, except those of jobs ``without``; keeps column ``PLACE`` if ``place``."""

    place: bool
    without: frozenset[str] = frozenset()

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Unpack ``ROWS``."""
        for frame in frames(batches):
            if self.without:
                frame = frame.filter(~pl.col(JOB).is_in(self.without).fill_null(False))
            yield from to_spark(frame.drop(JOB) if self.place else frame.drop(JOB, PLACE))


def to_spark(frame: pl.DataFrame) -> Iterator[pa.RecordBatch]:
    """Yield the rows of ``frame`` with string and binary types that Spark accepts. Avoids ``pyarrow.array``, which
    would import pandas and cost a worker seconds."""
    import pyarrow as pa

    types = {pa.large_string(): pa.string(), pa.string_view(): pa.string()}
    types |= {pa.large_binary(): pa.binary(), pa.binary_view(): pa.binary()}
    table = frame.to_arrow()
    plain = pa.schema([field.with_type(types.get(field.type, field.type)) for field in table.schema])
    yield from table.cast(plain).to_batches()
