"""The tool's sums are those of a plain loop, to the last bit."""

from __future__ import annotations

import numpy as np
import pytest

from engine.run_comparison.perf_tests import moments
from engine.run_comparison.runs.samples import Samples
from tests.engine.run_comparison.random_sides import side_of


@pytest.mark.parametrize("shape", [(1, 1), (5, 1), (1, 900), (33, 7), (90, 1200), (2, 40_000)])
def test_sums_are_those_of_a_loop(shape: tuple[int, int]) -> None:
    rows = np.random.default_rng(2).lognormal(3.0, 3.0, shape)
    side = side_of(rows)
    left, _ = moments(Samples(side, side))
    n = shape[1]
    mean = np.cumsum(rows, axis=1)[:, -1] / n
    assert np.array_equal(left.mean, mean)
    with np.errstate(invalid="ignore"):
        deviation = np.sqrt(np.cumsum(rows * rows, axis=1)[:, -1] / n - mean**2)
    assert np.array_equal(left.deviation, deviation, equal_nan=True)
    assert np.array_equal(left.maximum, rows.max(axis=1))
