"""Distinct rows and their numbers equal the plain way."""

from __future__ import annotations

import numpy as np
import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from engine.ring_placement.scenarios.segment_writers import distinct_rows
from tests.chance import tries

NAMES = st.one_of(st.none(), st.sampled_from(["", "a", "b", "service-1", "ünïcödé", "a longer name than a view holds"]))


@tries(12)
@given(st.lists(st.tuples(NAMES, NAMES), max_size=60))
def test_distinct_rows_and_their_numbers(rows: list[tuple[str | None, str | None]]) -> None:
    frame = pl.DataFrame(rows, schema={"tenant": pl.String, "dataset": pl.String}, orient="row")
    distinct, number = distinct_rows(frame)
    assert distinct.rows() == frame.unique().sort("tenant", "dataset", nulls_last=True).rows()
    assert distinct[pl.Series(number.astype(np.uint32))].equals(frame)


def test_distinct_rows() -> None:
    frame = pl.DataFrame({"a": ["x", "y", "x", None, "x", None], "b": [1, 1, 1, 2, 2, 2]})
    distinct, rows = distinct_rows(frame)
    assert distinct.rows() == [("x", 1), ("x", 2), ("y", 1), (None, 2)]
    assert [distinct.row(i) for i in rows.tolist()] == frame.rows()
