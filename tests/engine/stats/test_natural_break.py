"""The natural break is the best of all divisions into two groups."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.stats.natural_break import natural_break

values = st.lists(st.floats(0, 1e12, allow_nan=False), min_size=1, max_size=40)


def _within(parts):
    return sum(float(np.sum((p - p.mean()) ** 2)) for p in parts if len(p))


@given(values)
def test_natural_break_is_the_best_of_all_splits(given_values):
    data = np.sort(np.array(given_values))
    split = natural_break(np.array(given_values))
    assert split.low_n + split.high_n == len(data)
    got = _within([data[: split.low_n], data[split.low_n :]])
    best = min([_within([data[:k], data[k:]]) for k in range(1, len(data))], default=0.0)
    if data[0] == data[-1]:
        assert split.low_n == 0
        return
    assert got <= best * (1 + 1e-6) + 1e-9 * (data[-1] - data[0]) ** 2 + 1e-9
    if split.low_n:
        assert data[split.low_n - 1] < split.at == data[split.low_n]
    assert 0 <= split.fit <= 1


def test_natural_break_of_two_clusters_and_of_equal_values():
    split = natural_break(np.array([10.0, 11, 100, 9, 101, 10]))
    assert (split.low_n, split.high_n, split.at) == (4, 2, 100.0)
    assert split.low_mean == pytest.approx(10) and split.high_mean == pytest.approx(100.5)
    assert split.fit > 0.99 and split.factor == pytest.approx(10.05)
    same = natural_break(np.full(7, 3.0))
    assert (same.low_n, same.high_n, same.high_mean, same.factor) == (0, 7, 3.0, 1.0)
    assert natural_break(np.array([])).high_n == 0


def test_large_equal_offsets_do_not_cancel():
    split = natural_break(1e15 + np.array([0.0, 1, 2, 100, 101]))
    assert (split.low_n, split.high_n) == (3, 2)
