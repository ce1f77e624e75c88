"""Two results of a view side by side: their numbers by table and row, with the change."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from engine.core import units
from engine.core.tables import Column, Table
from engine.core.view import Result

MOST_ROWS = 5_000  # tables with more rows are compared by their number of rows only: nobody compares them by eye


def _number(name: str, meaning: str, title: str = "", width: int = 12) -> Column:
    return Column(name, pl.Float64, meaning, kind="number", title=title, width=width, priority=0)


SIDES = Table(
    "side_by_side",
    "Numbers that differ between two scenarios or moments, by table and row, those that changed most first; what only one side "
    "has last.",
    (
        Column("table", pl.String, "Result table.", priority=1, width=10),
        Column("row", pl.String, "Key of the row in its table.", priority=0, width=20),
        Column("number", pl.String, "Which number, with its unit.", priority=0, width=16),
        _number("before", "In the first scenario or at the first moment; empty if the row is not there."),
        _number("after", "In the second one."),
        _number("change", "After minus before."),
        Column(
            "change_pct", pl.Float64, "Change in percent of before.", "%", "percent", "change %", priority=1, width=9
        ),
        Column("kind", pl.String, "How the numbers of this row are written: as bytes, durations, shares.", hidden=True),
    ),
    key=("table", "row", "number"),
    title="Side by side",
)
_LEFT_OUT = frozenset({"time_ms", "level", "flag", "json", "spark", "id", "text"})
"""Kinds of columns whose difference says nothing."""
_LONG = pl.Schema({"row": pl.String, "number": pl.String, "kind": pl.String, "value": pl.Float64})


def side_by_side(tables: Sequence[Table], before: Result, after: Result) -> pl.DataFrame:
    """Return the rows of ``SIDES`` for ``tables`` (in their order, the main one first) of two results of one view.

    A table that only one side has counts as empty on the other. Numbers that are equal or missing on both sides are left out.
    Within a table rows are sorted by relative change, then as the table has them; what only one side has is last.
    """
    parts = [SIDES.empty()]
    for spec in tables:
        frames = [result.tables.get(spec.name) for result in (before, after)]
        heights = [frame.height if frame is not None else 0 for frame in frames]
        title = spec.title or spec.name.replace("_", " ")
        if not spec.key or not any(heights):
            continue
        if max(heights) > MOST_ROWS:
            counts = (pl.DataFrame([("", "rows", "count", float(height))], _LONG, orient="row") for height in heights)
            parts.append(_compared(title, *counts))
        else:
            left, right = (_of_table(spec, frame if frame is not None else spec.empty()) for frame in frames)
            parts.append(_compared(title, left, right))
    return pl.concat(parts)


def _compared(table: str, left: pl.DataFrame, right: pl.DataFrame) -> pl.DataFrame:
    """Join two frames of ``_LONG`` and return the rows of ``SIDES`` that differ."""
    joined = left.rename({"value": "before"}).join(
        right.rename({"value": "after"}),
        on=["row", "number", "kind"],
        how="full",
        coalesce=True,
        maintain_order="right_left",
    )
    moved = joined.filter(pl.col("before").ne_missing(pl.col("after")))
    change = pl.col("after") - pl.col("before")
    percent = pl.when(pl.col("before") != 0).then(100.0 * change / pl.col("before").abs())
    rows = moved.with_columns(table=pl.lit(table), change=change, change_pct=percent)
    size = pl.when(pl.col("change_pct").is_null()).then(float("inf")).otherwise(pl.col("change_pct").abs())
    both = pl.col("before").is_not_null() & pl.col("after").is_not_null()
    return SIDES.frame(rows.sort(both, size, descending=True, maintain_order=True).select(SIDES.schema.names()))


def headlines(before: Result, after: Result) -> tuple[tuple[str, str, str], ...]:
    """Return the headline numbers that differ or are on one side only: label, value before, value after, empty without one."""
    sides = [{number.label: number.value for number in result.headline} for result in (before, after)]
    labels = dict.fromkeys([*sides[1], *sides[0]])
    rows = [(label, sides[0].get(label, ""), sides[1].get(label, "")) for label in labels]
    return tuple(row for row in rows if row[1] != row[2])


def _of_table(spec: Table, frame: pl.DataFrame) -> pl.DataFrame:
    """Return the numbers of a table in the form of ``_LONG``: a row for each of its rows and numbers."""
    key = pl.concat_str([pl.col(name).cast(pl.String).fill_null(units.NOTHING) for name in spec.key], separator=" ")
    parts = [pl.DataFrame(schema=_LONG)]
    for column in spec.columns:
        numeric = column.name in frame.columns and column.dtype.is_numeric() and column.kind not in _LEFT_OUT
        if numeric and column.name not in spec.key:
            label = column.header
            if column.unit and column.kind in ("number", "count") and column.unit not in label:
                label = f"{label} [{column.unit}]"
            value = pl.col(column.name).cast(pl.Float64).fill_nan(None)
            parts.append(frame.select(row=key, number=pl.lit(label), kind=pl.lit(column.kind), value=value))
    return pl.concat(parts).unique(["row", "number"], keep="first", maintain_order=True)
