"""Rows of all tables in one shape, so that one pass over the histories fills every table."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from engine.job_heuristics.tables.insight import COSTS, LISTING, RECOMMENDATIONS
from engine.job_heuristics.tables.result import DIFFERENCES, HEURISTICS, JOBS
from engine.tables import Column, Table

if TYPE_CHECKING:
    import pyarrow as pa

PROBLEMS = Table(
    "problems",
    "What was wrong with the files",
    (
        Column("path", pl.String, "the file"),
        Column("line", pl.Int64, "line, if it has lines"),
        Column("kind", pl.String, "kind of problem"),
        Column("reason", pl.String, "what is wrong"),
        Column("count", pl.Int64, "number of occurrences"),
    ),
    order=("path", "kind", "reason"),
)
FINDINGS = Table(
    "findings",
    "What a check would name",
    (
        Column("level", pl.String, "how bad it is"),
        Column("subject", pl.String, "which job"),
        Column("text", pl.String, "what was found"),
    ),
    order=("subject", "level", "text"),
)
LINKS = Table("links", "Jobs that a file of another job mentions", (Column("mentioned", pl.String, "the other job"),))
PER_JOB = (JOBS, HEURISTICS, RECOMMENDATIONS, COSTS, DIFFERENCES)
"""Tables of a report that hold rows of each job on its own."""
WRITTEN = (*PER_JOB, LISTING, PROBLEMS, FINDINGS)
"""Tables of the result that the pass over all histories fills."""
TABLE, JOB = "_table", "_job"
"""Columns of every row beside those of the tables: its table, and the job it belongs to."""
_ALL = (*WRITTEN, LINKS)
_SPARK = {pl.String: "string", pl.Int64: "bigint", pl.Float64: "double", pl.Boolean: "boolean"}


def spark_type(dtype: pl.DataType) -> str:
    """Return Spark's name of a column type of the result. Raises KeyError."""
    return _SPARK[dtype.base_type()]


def _columns() -> dict[str, str]:
    columns = {TABLE: "string", JOB: "string"}
    for table in _ALL:
        for name, dtype in table.schema.items():
            wanted = spark_type(dtype)
            if columns.setdefault(name, wanted) != wanted:
                raise TypeError(f"column {name} of {table.name} has another type elsewhere")
    return columns


COLUMNS = _columns()
"""Spark types of the columns of every row: ``TABLE``, ``JOB`` and the columns of all tables."""
SCHEMA = ", ".join(f"`{name}` {type_}" for name, type_ in COLUMNS.items())
"""The same as Spark writes it."""


def union(frame: pl.DataFrame, table: Table, job: pl.Expr) -> pa.RecordBatch:
    """Return the rows of ``table`` with all ``COLUMNS``; ``job`` gives the job that each belongs to."""
    import pyarrow as pa

    types = {"string": pa.string(), "bigint": pa.int64(), "double": pa.float64(), "boolean": pa.bool_()}
    have = frame.with_columns(pl.lit(table.name).alias(TABLE), job.alias(JOB))
    arrays = [
        have[name].to_arrow().cast(types[type_]) if name in have.columns else pa.nulls(have.height, types[type_])
        for name, type_ in COLUMNS.items()
    ]
    return pa.RecordBatch.from_arrays(arrays, names=list(COLUMNS))
