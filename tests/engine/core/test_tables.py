"""Frames of declared tables: a single row is built in its own way, with the same outcome."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import polars as pl
import pytest

from engine.core.tables import Column, Table

DTYPES = (pl.String, pl.Int64, pl.UInt32, pl.Float64, pl.Boolean, pl.Binary, pl.Int8, pl.List(pl.Float64))
VALUES: tuple[Any, ...] = (
    None, 0, 1, -1, 2**63 - 1, 2**63, -(2**63) - 1, 1.5, -0.0, math.nan, math.inf, 1e300, "", "x", "12", "\x00\u2028é",
    b"", b"\xff", True, False, [], [1.0, 2.0], [None, 1.5], [1, 2], {"a": 1},
)  # fmt: skip


def outcome(table: Table, rows: dict[str, Any]) -> Any:
    try:
        frame = table.frame(rows)
    except (TypeError, ValueError, pl.exceptions.PolarsError) as error:
        return type(error)
    return frame.schema, repr(frame.row(0))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_one_row_is_the_first_of_many(dtype: Any) -> None:
    table = Table("t", "", (Column("before", pl.Int64, ""), Column("a", dtype, ""), Column("b", pl.String, "")))
    for value in VALUES:
        alone = outcome(table, {"a": [value], "before": [3]})
        for count in (2, 100):
            assert alone == outcome(table, {"a": [value] * count, "before": [3] * count}), (dtype, value, count)
        if dtype == pl.Int64 and type(value) is int and abs(value) < 2**63:
            assert outcome(table, {"a": np.array([value]), "before": [3]}) == alone
        made = pl.Series("x", [value], dtype=dtype, strict=False) if not isinstance(alone, type) else None
        if made is not None:
            assert outcome(table, {"a": made, "before": [3]}) == alone, (dtype, value)


def test_one_row_is_checked() -> None:
    table = Table("t", "", (Column("a", pl.Int64, ""), Column("b", pl.String, "")))
    with pytest.raises(ValueError, match="declare"):
        table.frame({"c": [1]})
    with pytest.raises(pl.exceptions.ShapeError):
        table.frame({"a": [1], "b": ["x", "y"]})
