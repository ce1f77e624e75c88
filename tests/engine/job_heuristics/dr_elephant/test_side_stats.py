"""Statistics over segments against the plain rules they stand for."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.job_heuristics.dr_elephant.side_stats import Segments


def average(values: list[int]) -> int:
    return int(sum(map(float, values)) / len(values)) if values else 0


@settings(max_examples=200, deadline=None)
@given(st.lists(st.lists(st.integers(0, 10**12), max_size=20), min_size=1, max_size=6))
def test_two_groups_against_the_plain_rule(jobs: list[list[int]]) -> None:
    """Three splits: by the mean, then twice by the difference of the averages."""
    segment = np.repeat(np.arange(len(jobs)), [len(j) for j in jobs])
    values = np.array([v for j in jobs for v in j], dtype=np.int64)
    na, a, nb, b, _ = Segments(segment, len(jobs)).two_groups(values)
    for i, numbers in enumerate(jobs):
        middle = average(numbers)
        for step in range(3):
            small, large = [v for v in numbers if v < middle], [v for v in numbers if v >= middle]
            if step < 2:
                middle = average(large) - average(small)
        assert (na[i], a[i], nb[i], b[i]) == (len(small), average(small), len(large), average(large))


@settings(max_examples=100, deadline=None)
@given(st.lists(st.lists(st.integers(-(10**9), 10**9), max_size=9), min_size=1, max_size=5))
def test_median_against_the_plain_rule(jobs: list[list[int]]) -> None:
    segment = np.repeat(np.arange(len(jobs)), [len(j) for j in jobs])
    values = np.array([v for j in jobs for v in j], dtype=np.int64)
    found = Segments(segment, len(jobs)).median(values)
    for i, numbers in enumerate(jobs):
        ranked = sorted(numbers)
        n = len(ranked)
        if n == 0:
            wanted = 0
        elif n % 2:
            wanted = ranked[n // 2]
        else:
            wanted = int((ranked[n // 2 - 1] + ranked[n // 2]) / 2)
        assert found[i] == wanted


@pytest.mark.parametrize(
    ("least", "most"),
    [(0, 10**5), (0, 2**31 - 1), (0, 2**31), (-5, 2**31 - 5), (10**12, 10**12 + 9), (-(2**62), 2**62), (3, 3)],
)
def test_few_large_jobs_as_among_many(least: int, most: int) -> None:
    """Few segments are sorted in fewer bits and summed as whole numbers."""
    draw = np.random.default_rng(3)
    values = draw.integers(least, most, 1_501, endpoint=True)
    values[[0, 700, 1_400]], values[[1, 701, 1_401]] = least, most
    segment = np.repeat([0, 1, 2], [700, 700, 101])
    few, many = Segments(segment, 3), Segments(segment, 40)
    for name in ("sum", "whole", "average", "mean", "median"):
        one, other = getattr(few, name)(values), getattr(many, name)(values)
        assert one.dtype == other.dtype and one.tolist() == other[:3].tolist(), name
    for share in (0.05, 0.5, 0.99, 1.0):
        assert few.quantile(values, share).tolist() == many.quantile(values, share)[:3].tolist()
        assert few.quantile(values, share)[0] == np.sort(values[:700])[int(np.ceil(share * 699))]
    for name in ("two_groups", "two_means"):
        for one, other in zip(getattr(few, name)(values), getattr(many, name)(values), strict=True):
            assert one.tolist() == other[:3].tolist(), name
