"""Merging samples whose rows are sorted gives the same numbers as merging any samples."""

from __future__ import annotations

import numpy as np
import pytest

from engine.stats.ranks import merge, merge_sorted


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
