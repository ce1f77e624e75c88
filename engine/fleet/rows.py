"""Rows of all tables in one shape, so that one pass over the histories fills every table."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from engine.job_heuristics.tables.fleet_result import WRITTEN
from engine.tables import Column, Table

if TYPE_CHECKING:
    import pyarrow as pa

LINKS = Table("links", "Jobs that a file of another job mentions", (Column("mentioned", pl.String, "the other job"),))
TABLE, JOB, PLACE = "_table", "_job", "_place"
"""Columns of every row beside those of the tables: its table, the job it belongs to, and its place among the rows of both."""
_ALL = (*WRITTEN, LINKS)
_SPARK = {pl.String: "string", pl.Int64: "bigint", pl.Float64: "double", pl.Boolean: "boolean"}


def spark_type(dtype: pl.DataType) -> str:
    """Return Spark's name of a column type of the result. Raises KeyError."""
    return _SPARK[dtype.base_type()]


def _columns() -> dict[str, str]:
    columns = {TABLE: "string", JOB: "string", PLACE: "bigint"}
    for table in _ALL:
        for name, dtype in table.schema.items():
            wanted = spark_type(dtype)
            if columns.setdefault(name, wanted) != wanted:
                raise TypeError(f"column {name} of {table.name} has another type elsewhere")
    return columns


COLUMNS = _columns()
"""Spark types of the columns of every row: ``TABLE``, ``JOB``, ``PLACE`` and the columns of all tables."""
SCHEMA = ", ".join(f"`{name}` {type_}" for name, type_ in COLUMNS.items())
"""The same as Spark writes it."""


def union(frame: pl.DataFrame, table: Table, job: pl.Expr) -> pa.RecordBatch:
    """Return the rows of ``table`` with all ``COLUMNS``; ``job`` gives the job that each belongs to."""
    import pyarrow as pa

    types = {"string": pa.string(), "bigint": pa.int64(), "double": pa.float64(), "boolean": pa.bool_()}
    place = pl.int_range(pl.len(), dtype=pl.Int64)
    have = frame.with_columns(pl.lit(table.name).alias(TABLE), job.alias(JOB), place.alias(PLACE))
    arrays = [
        have[name].to_arrow().cast(types[type_]) if name in have.columns else pa.nulls(have.height, types[type_])
        for name, type_ in COLUMNS.items()
    ]
    return pa.RecordBatch.from_arrays(arrays, names=list(COLUMNS))
