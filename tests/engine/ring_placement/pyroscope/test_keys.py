"""Hashes of columns, and sums beyond double precision."""

from __future__ import annotations

import numpy as np
import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from engine.ring_placement.pyroscope.placement import weigh
from engine.ring_placement.pyroscope.ring import xxh64_column, xxh64_each


def test_exact_beyond_doubles() -> None:
    huge = np.array([2**53 + 1, 2**53 + 3, 1], dtype=np.int64)
    assert weigh(np.array([0, 0, 1]), huge, 2).tolist() == [2**54 + 4, 1]


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=40), max_size=20))
def test_a_column_is_hashed_as_its_texts(texts: list[str]) -> None:
    assert xxh64_column(pl.Series("t", texts, dtype=pl.String)).tolist() == xxh64_each(texts).tolist()
