"""Statistics over segments against the plain rules they stand for."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from engine.job_heuristics.dr_elephant.side_stats import Segments, divided, truncated
from tests.chance import tries


def average(values: list[int]) -> int:
    return int(sum(map(float, values)) / len(values)) if values else 0


@tries(40)
@given(st.lists(st.lists(st.integers(0, 10**12), max_size=20), min_size=1, max_size=6))
def test_two_groups_against_the_plain_rule(jobs: list[list[int]]) -> None:
    """Three splits: by the mean, then twice by the difference of the averages."""
    segment = np.repeat(np.arange(len(jobs)), [len(j) for j in jobs])
    values = np.array([v for j in jobs for v in j], dtype=np.int64)
    na, a, nb, b, cut = Segments(segment, len(jobs)).two_groups(values)
    for i, numbers in enumerate(jobs):
        middle = average(numbers)
        for step in range(3):
            small, large = [v for v in numbers if v < middle], [v for v in numbers if v >= middle]
            if step < 2:
                middle = average(large) - average(small)
        assert (na[i], a[i], nb[i], b[i]) == (len(small), average(small), len(large), average(large))
        assert cut[i] == middle


@tries(20)
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


MOST, LEAST = 2**63 - 1, -(2**63)
THREE = Segments(np.array([0, 0, 0, 0, 0, 2]), 3)
"""Five rows, none, and one."""
ROWS = np.array([40, 10, 30, 20, 50, 7])


def test_doubles_are_cast_as_java_casts_them() -> None:
    given = np.array([1.9, -1.9, np.nan, np.inf, -np.inf, 2.0**63, -(2.0**63), 9e18, -0.5])
    assert truncated(given).tolist() == [1, -1, 0, MOST, LEAST, MOST, LEAST, 9 * 10**18, 0]
    assert truncated(given[[0, 1, 7]]).tolist() == [1, -1, 9 * 10**18]
    assert truncated(given[:0]).tolist() == []


@tries(20)
@given(st.lists(st.tuples(st.integers(-99, 99), st.integers(-9, 9).filter(bool)), max_size=9))
def test_whole_numbers_are_divided_toward_zero(pairs: list[tuple[int, int]]) -> None:
    a, b = (np.array([pair[k] for pair in pairs], dtype=np.int64) for k in (0, 1))
    assert divided(a, b).tolist() == [int(one / other) for one, other in pairs]
    assert divided(a, 7).tolist() == [int(one / 7) for one, _ in pairs]
    assert divided(a, -7).tolist() == [int(one / -7) for one, _ in pairs]


def test_the_smallest_number_over_minus_one_is_itself() -> None:
    assert divided(np.array([LEAST, LEAST]), np.array([-1, 2])).tolist() == [LEAST, LEAST // 2]


def test_extremes_sums_and_places() -> None:
    assert THREE.largest(ROWS, -1).tolist() == [50, -1, 7] and THREE.smallest(ROWS, -1).tolist() == [10, -1, 7]
    assert THREE.largest(-ROWS, 3).tolist() == [-10, 3, -7]
    assert THREE.whole(ROWS).tolist() == [150, 0, 7] and THREE.sum(ROWS).tolist() == [150.0, 0.0, 7.0]
    assert THREE.whole(np.array([MOST, 1, 0, 0, 0, 0])).tolist() == [LEAST, 0, 0]
    assert THREE.average(np.array([3, 0, 0, 0, 1, -7])).tolist() == [0, 0, -7]
    assert THREE.mean(np.array([3, 0, 0, 0, 1, -7]))[[0, 2]].tolist() == [0, -7] and np.isnan(THREE.mean(ROWS)[1])
    # places 0 to 4 of 10, 20, 30, 40, 50
    for share, wanted in ((0.0, 10), (0.25, 20), (0.26, 30), (0.5, 30), (0.9, 50), (1.0, 50)):
        assert THREE.quantile(ROWS, share).tolist() == [wanted, 0, 7]
    for share, wanted in ((-1.0, 0), (0.0, 0), (0.2, 10), (0.21, 20), (0.5, 30), (1.0, 50), (2.0, 50)):
        assert THREE.ranked(ROWS, np.full(3, share)).tolist() == [wanted, 0, 7 if share > 0 else 0]
    assert THREE.ranked(ROWS, np.array([0.4, 1.0, 0.0])).tolist() == [20, 0, 0]
    nothing = Segments(np.zeros(0, np.int64), 2)
    assert nothing.median(ROWS[:0]).tolist() == nothing.quantile(ROWS[:0], 0.5).tolist() == [0, 0]


def test_two_means_by_hand() -> None:
    """1, 2, 3, 40, 44: the mean is 18, and the middle of the means 2 and 42 is 22, where it stays."""
    found = Segments(np.array([0, 0, 0, 0, 0, 1]), 3).two_means(np.array([1, 2, 3, 40, 44, 9]))
    assert found.low_n.tolist() == [3, 0, 0] and found.high_n.tolist() == [2, 1, 0]
    assert found.low_mean.tolist() == [2, 0, 0] and found.high_mean.tolist() == [42, 9, 0]
    assert found.middle.tolist() == [22, 9, 0]
    one = Segments(np.zeros(3, np.int64), 1).two_means(np.array([1, 50, 52]))
    assert (one.low_n[0], one.high_n[0], one.middle[0]) == (1, 2, 26)
    one = Segments(np.zeros(3, np.int64), 1).two_means(np.array([1, 3, 52]))
    assert (one.low_n[0], one.high_n[0], one.middle[0]) == (2, 1, 27)


def test_two_groups_by_hand() -> None:
    """0, 4, 6: cut at the mean 3, then at 5 - 0, then at 6 - 2, which is the last cut though the groups would give 5 again."""
    found = Segments(np.zeros(3, np.int64), 1).two_groups(np.array([0, 4, 6]))
    assert [part.tolist() for part in found] == [[1], [0], [2], [5], [4]]
