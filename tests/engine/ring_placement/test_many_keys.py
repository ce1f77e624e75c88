"""The shortcuts that many keys need give what the plain way gives."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.ring_placement.pyroscope.hashing import xxh64_column, xxh64_each
from engine.ring_placement.reading.distinct_rows import _leaders, distinct_rows
from engine.ring_placement.result.placements_table import largest

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


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=40), max_size=20))
def test_a_column_is_hashed_as_its_texts(texts: list[str]) -> None:
    assert xxh64_column(pl.Series("t", texts, dtype=pl.String)).tolist() == xxh64_each(texts).tolist()


def test_the_largest_of_many_are_the_largest() -> None:
    rng = np.random.default_rng(3)
    for weight in (np.round(rng.lognormal(8, 2, 30_000)).astype(np.int64), np.zeros(9_000, dtype=np.int64)):
        for limit in (0, 1, 7, 1000, len(weight), len(weight) + 1):
            found = largest(weight, limit)
            assert len(found) == min(limit, len(weight)) == len(np.unique(found))
            assert (np.diff(found) > 0).all()
            assert sorted(weight[found].tolist()) == sorted(weight.tolist())[len(weight) - len(found) :]
