"""Statistics over segments against the plain rules they stand for."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from engine.job_heuristics.dr_elephant.side_stats import Segments
from tests.chance import tries


def average(values: list[int]) -> int:
    return int(sum(map(float, values)) / len(values)) if values else 0


@tries(100)
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


@tries(50)
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
