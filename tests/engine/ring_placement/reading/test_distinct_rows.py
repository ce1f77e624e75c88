"""Distinct rows and their numbers equal the plain way."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.ring_placement.reading.distinct_rows import _leaders, distinct_rows

NAMES = st.one_of(st.none(), st.sampled_from(["", "a", "b", "service-1", "ünïcödé", "a longer name than a view holds"]))


@settings(max_examples=60)
@given(st.lists(st.tuples(NAMES, NAMES), max_size=60))
def test_distinct_rows_and_their_numbers(rows: list[tuple[str | None, str | None]]) -> None:
    frame = pl.DataFrame(rows, schema={"tenant": pl.String, "dataset": pl.String}, orient="row")
    distinct, number = distinct_rows(frame)
    assert distinct.rows() == frame.unique().sort("tenant", "dataset", nulls_last=True).rows()
    assert distinct[pl.Series(number.astype(np.uint32))].equals(frame)


@settings(max_examples=60)
@given(st.lists(st.integers(0, 30) | st.integers(0, 2**64 - 1), max_size=200))
def test_equal_hashes_share_one_leader_even_where_all_begin_in_one_slot(values: list[int]) -> None:
    hashes = np.array(values, dtype=np.uint64)
    leader = _leaders(hashes)
    assert (hashes[leader] == hashes).all()
    assert len(set(leader.tolist())) == len(set(values))


def test_rows_whose_hashes_are_equal_are_still_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    from engine.ring_placement.reading import distinct_rows as distinct_rows_module

    frame = pl.DataFrame({"tenant": ["a", "b", "a", None], "dataset": ["x", "x", "x", "x"]})
    monkeypatch.setattr(distinct_rows_module, "_row_hashes", lambda f: np.zeros(f.height, dtype=np.uint64))
    distinct, number = distinct_rows(frame)
    assert distinct["tenant"].to_list() == ["a", "b", None]
    assert number.tolist() == [0, 1, 0, 2]


def test_distinct_rows() -> None:
    from engine.ring_placement.reading.distinct_rows import distinct_rows

    frame = pl.DataFrame({"a": ["x", "y", "x", None, "x", None], "b": [1, 1, 1, 2, 2, 2]})
    distinct, rows = distinct_rows(frame)
    assert distinct.rows() == [("x", 1), ("x", 2), ("y", 1), (None, 2)]
    assert [distinct.row(i) for i in rows.tolist()] == frame.rows()
