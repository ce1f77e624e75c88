"""Shortcuts of counting and adding give what the plain way gives, to the last bit."""

from __future__ import annotations

import numpy as np
import pytest

from engine.run_comparison.statistical import Columns, count_inside
from engine.run_comparison.upstream import _sums_in_order
from engine.stats.ranks import merge, merge_sorted


@pytest.mark.parametrize(("few", "nan"), [(False, False), (True, False), (False, True), (True, True)])
def test_values_inside_are_counted_as_one_by_one(few: bool, nan: bool) -> None:
    rng = np.random.default_rng(11)
    values = rng.normal(0.0, 1.0, (70, 40)).astype(np.float32)
    if nan:
        values[rng.random(values.shape) < 0.05] = np.nan
    low = np.full(40, -9.0, dtype=np.float32)  # most columns lie wholly inside, some outside
    high = np.where(np.arange(40) % 5 == 1, -8.0, 9.0).astype(np.float32)
    open_ = np.arange(40) % (11 if few else 2) == 0
    low[open_], high[open_] = values[0, open_], 0.75
    plain = ((values >= low) & (values <= high)).sum(axis=1)
    assert count_inside(Columns.of(values), low, high, step=400).tolist() == plain.tolist()
    assert count_inside(Columns.of(values[:0]), low, high).tolist() == []


@pytest.mark.parametrize("shape", [(1, 1), (5, 1), (1, 900), (33, 7), (90, 1200), (2, 40_000)])
def test_sums_are_those_of_a_loop(shape: tuple[int, int]) -> None:
    rows = np.random.default_rng(2).lognormal(3.0, 3.0, shape)
    before = rows.copy()
    total, squares = _sums_in_order(rows)
    assert np.array_equal(rows, before)
    assert np.array_equal(total, np.cumsum(rows, axis=1)[:, -1])
    assert np.array_equal(squares, np.cumsum(rows * rows, axis=1)[:, -1])


@pytest.mark.parametrize(("n1", "n2"), [(120, 120), (130, 457), (330, 121), (7, 200)])
def test_sorted_samples_merge_to_the_same_numbers(n1: int, n2: int) -> None:
    rng = np.random.default_rng(n1)
    left, right = rng.normal(0.0, 1.0, (60, n1)), rng.normal(0.3, 2.0, (60, n2))
    left[10:20], right[10:20] = left[10:20].round(2), right[10:20].round(2)
    left[20:25] = right[20:25, :1]
    left[25, 0], right[25, 0] = 0.0, -0.0
    left[26:30] += 50.0
    left[30:34] -= 50.0
    left[34, 3], left[35, :2] = right[34, 5], 0.25
    right[36, :2] = -0.5
    plain, quick = merge(left, right), merge_sorted(np.sort(left, axis=1), np.sort(right, axis=1))
    assert np.array_equal(plain.distance, quick.distance)
    assert np.array_equal(plain.u_left, quick.u_left)
    assert np.array_equal(plain.tie_term, quick.tie_term)
    assert plain.tied.sum() > 10
