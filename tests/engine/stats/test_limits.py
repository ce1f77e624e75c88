"""Where a kernel changes its method, has nothing to work on, or meets what is exactly on its limit."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest
import scipy

from engine.stats import edivisive, nonnegative, ranks, significance
from engine.stats.edivisive import ChangePoint
from engine.stats.natural_break import Split, natural_break


def change_points(series: np.ndarray, **options: float) -> tuple[ChangePoint, ...]:
    """Find the change points of one series."""
    return edivisive.change_points_of(series[None, :], **options)[0]  # type: ignore[arg-type]


def test_quiet_windows_are_those_without_a_significant_division() -> None:
    rng = np.random.default_rng(2)
    rows, limit = rng.normal(10, 1, (40, 30)), 0.05
    rows[20:, 13:] += rng.uniform(0, 3, 20)[:, None]
    seen = set()
    for window in (8, 20, 30):
        quiet = edivisive.quiet_windows(rows, window, limit)
        starts = range(0, 30, window // 2)
        assert quiet.shape == (40, len(starts))
        for (row, number), silent in np.ndenumerate(quiet):
            part = rows[row, starts[number] : starts[number] + window]
            p = [edivisive.student_p(part[:tau], part[tau:]) for tau in range(1, part.size)]
            assert silent == (part.size > 2 and min(p) > limit)
            seen.add((silent, part.size > 2))
    assert seen >= {(True, True), (False, True)}


def test_windows_without_a_split_are_not_divided(monkeypatch: pytest.MonkeyPatch) -> None:
    divided: list[int] = []
    splits = edivisive._splits_of_window
    monkeypatch.setattr(edivisive, "_splits_of_window", lambda part, limit: divided.append(1) or splits(part, limit))
    calm = np.random.default_rng(4).normal(10, 1, 100)
    assert change_points(calm, max_p_value=1e-9) == () and divided == []
    checks: list[int] = []
    edivisive.change_points_of(np.array([calm, calm]), check=lambda: checks.append(1))
    assert len(checks) == 2


def test_a_window_is_divided_down_to_single_points() -> None:
    splits = edivisive._splits_of_window
    assert splits(np.array([1.0, 2.0, 4.0]).tobytes(), 1.0) == [1, 2]
    assert splits(np.array([3.0, 3.0]).tobytes(), 1.0) == [1]  # p is the limit
    assert splits(np.array([3.0]).tobytes(), 1.0) == []


def test_means_that_do_not_spread() -> None:
    threes = np.full(3, 3.0)
    assert (edivisive.student_p(threes, threes), edivisive.student_p(threes, threes + 1)) == (1.0, 0.0)
    assert edivisive.student_p(threes[:1], threes[:1] + 1) == 1.0
    assert edivisive.student_p(threes, threes[:0]) == 1.0


def test_relative_changes() -> None:
    changes = [
        (point.relative_change, point.magnitude)
        for point in (
            ChangePoint(1, 0, 0, 0),
            ChangePoint(1, 0, 0, 5),
            ChangePoint(1, 0, 10, 5),
            ChangePoint(1, 0, 5, 0),
        )
    ]
    assert changes == [(0, 0), (math.inf, math.inf), (-0.5, 1), (-1, math.inf)]


def test_kolmogorov_changes_to_the_limit_above_ten_thousand_pairs() -> None:
    distance = np.array([0.2])
    exact = scipy.stats.ks_2samp(np.arange(100), np.arange(100) + 19.5, method="exact").pvalue
    assert significance.ks_p_values(distance, 100, 100)[0] == pytest.approx(exact, rel=1e-9)
    limit = scipy.special.kolmogorov(0.2 * math.sqrt(73 * 137 / 210))
    assert significance.ks_p_values(distance, 73, 137)[0] == pytest.approx(limit, rel=1e-12)
    assert np.isnan(significance.ks_p_values(distance, 0, 5)).tolist() == [True]


def test_fit_and_means_of_a_split() -> None:
    for values in ([0.1, 0.2, 0.9], [3.0, 4, 9, 10, 11], [2.0, 3, 5, 5, 6, 8, 8.5]):
        data = np.array(values)
        split = natural_break(data)
        low, high = data[: split.low_n], data[split.low_n :]
        within = float(((low - low.mean()) ** 2).sum() + ((high - high.mean()) ** 2).sum())
        assert split.fit == pytest.approx(1 - within / float(((data - data.mean()) ** 2).sum()))
        assert (split.low_mean, split.high_mean) == pytest.approx((low.mean(), high.mean()))
    assert natural_break(np.array([5.0, 5.0])).fit == 0.0
    assert Split(0.0, 2, 0.0, 2, 7.0).factor == math.inf


def test_spreads_of_almost_nothing() -> None:
    few = np.array([1.0, 2.0, 9.0])
    assert math.isnan(significance.brown_forsythe_p(few[:1], few))
    assert math.isnan(significance.brown_forsythe_p(few, few[:1]))
    assert math.isnan(significance.brown_forsythe_p(np.ones(3), np.ones(4)))
    assert math.isnan(significance.brown_forsythe_p(np.ones(3), np.array([1.0, 3.0, 1.0, 3.0])))
    odd = np.array([0.1, 0.3, 0.1 + 3e-17, 0.3])  # distances from the median differ in their last bits
    assert math.isnan(significance.brown_forsythe_p(odd, np.array([1.1, 1.7, 1.1, 1.7])))


def test_a_bracket_without_the_rank_proves_nothing() -> None:
    x, y = np.zeros((1, 3)), np.arange(9.0)[None]
    for low, high, proven in ((1.5, 4.5, True), (2.5, 4.5, False), (-1.0, 1.5, False)):
        rank = np.array([7])  # of the 27 differences, three of each: 2
        found = ranks._select_between(x, y, np.array([[low]]), np.array([[high]]), rank, rank)
        assert found[1].tolist() == [proven] and (not proven or found[0].tolist() == [[2.0, 2.0]])


@pytest.mark.parametrize("largest", [1.0, 1e9])
def test_a_bracket_of_one_value_holds_it_however_sums_are_rounded(largest: float) -> None:
    rng = np.random.default_rng(4)
    x, y = np.sort(rng.random((1, 30))), np.sort(rng.random((1, 40)))
    x[0, -1], y[0, -5:] = largest, largest + y[0, -5:]
    pairs = np.sort((y[0] - x[0][:, None]).ravel())
    for number in range(0, pairs.size, 5):
        rank, limit = np.array([number]), pairs[number].reshape(1, 1)
        found, proven = ranks._select_between(x, y, limit, limit, rank, rank)
        assert proven.all() and found.tolist() == [[pairs[number]] * 2]


def test_a_point_exactly_as_likely_as_the_limit_is_none() -> None:
    series = np.array([1.0, 2.0, 1.0, 2.0, 9.0, 8.0, 9.0, 8.0])
    (point,) = change_points(series)
    assert point.index == 4
    assert change_points(series, max_p_value=point.p_value) == ()
    assert len(change_points(series, max_p_value=math.nextafter(point.p_value, 1))) == 1


@pytest.mark.parametrize(
    ("digits", "splits", "limit", "left"),
    [
        ("523668302974", [2, 4, 6, 8, 10], 0.2, [4, 6]),
        ("2845160595665", [2, 4, 7, 9, 11], 0.2, [7]),
    ],
)
def test_only_the_two_points_behind_a_dropped_one_are_judged_again(
    digits: str, splits: list[int], limit: float, left: list[int]
) -> None:
    """As Otava does, in plain Python with SciPy's t-test; here it would matter if a third one were judged again."""
    series = np.array([float(digit) for digit in digits])

    def judged(split: int) -> float:
        ends = [0, *points, series.size]
        at = ends.index(split)
        left, right = series[ends[at - 1] : split], series[split : ends[at + 1]]
        described = (each for side in (left, right) for each in (side.mean(), side.std(), side.size))
        return float(scipy.stats.ttest_ind_from_stats(*described).pvalue)

    points = list(splits)
    p = {split: judged(split) for split in points}
    while points and p[worst := max(points, key=p.__getitem__)] >= limit:
        at = points.index(worst)
        points.remove(worst)
        p |= {split: judged(split) for split in points[at : at + 2]}
    assert [point.index for point in edivisive._merged(series, splits, limit, 0.0)] == points == left


def test_solutions_grow_with_what_they_explain() -> None:
    gram, right = np.array([[1.0, 0.9], [0.9, 1.0]]), np.array([1.0, 0.5])
    for size in (1.0, 1e-12, 1e12):
        assert nonnegative.solve(gram, size * right) == pytest.approx([size, 0.0], abs=0)


def test_distributions_that_are_shared_cannot_be_written_to() -> None:
    assert not ranks.u_distribution(3, 4).flags.writeable


def test_copies_of_a_column_share_a_solution() -> None:
    found = nonnegative.solve(np.ones((2, 2)), np.array([2.0, 2.0]))
    assert (found >= 0).all() and found.sum() == pytest.approx(2.0)


def test_the_first_solution_does_not_depend_on_the_start() -> None:
    rng = np.random.default_rng(6)
    a = rng.random((30, 8))
    gram, right = a.T @ a, a.T @ (a @ np.maximum(rng.normal(size=8), 0) + rng.normal(size=30))
    wanted = nonnegative.solve(gram, right)
    assert (wanted == 0).any() and (wanted > 0).any()
    for start in (np.zeros(8), np.ones(8), 1.0 - np.sign(wanted)):
        assert nonnegative.solve(gram, right, start) == pytest.approx(wanted)


def test_a_tie_with_the_largest_value_is_seen_in_sorted_samples() -> None:
    rng = np.random.default_rng(8)
    left, right = np.sort(rng.normal(size=(2, 150)), axis=1), np.sort(rng.normal(size=(2, 140)), axis=1)
    left[0, -1] = right[0, -1] = 9.0
    left[1, 0] = right[1, 0] = -9.0
    plain, quick = ranks.merge(left, right), ranks.merge_sorted(left, right)
    assert quick.tie_term.tolist() == plain.tie_term.tolist() == [6.0, 6.0]
    assert np.array_equal(plain.u_left, quick.u_left)


def test_tiny_values_differ_and_both_zeros_are_one() -> None:
    merged = ranks.merge(np.array([[1e-20, 3e-20], [0.0, 1.0]]), np.array([[2e-20, 4e-20], [-0.0, 2.0]]))
    assert merged.tied.tolist() == [False, True]
    assert merged.u_left.tolist() == [1.0, 1.5]


@pytest.mark.parametrize(("n1", "n2"), [(50, 50), (41, 61), (12, 18), (12, 19), (3, 4), (1, 2)])
@pytest.mark.parametrize("tied", [False, True])
def test_tails_at_the_limits_of_the_exact_distributions(n1: int, n2: int, tied: bool) -> None:
    rng = np.random.default_rng(n1)
    left, right = rng.normal(0.0, 1.0, n1), rng.normal(0.4, 1.0, n2)
    if tied:
        left, right = left.round(), right.round()
        left[0] = right[0]
    exact = n1 + n2 <= 30 if tied else n1 * n2 <= 2500
    got = ranks.mann_whitney(left[None], right[None])
    for tail, side in ((got.below[0], "less"), (got.above[0], "greater")):
        normal = scipy.stats.mannwhitneyu(left, right, alternative=side, method="asymptotic").pvalue
        if not exact:
            assert tail == pytest.approx(normal, rel=1e-9)
        elif not tied:
            assert tail == pytest.approx(
                scipy.stats.mannwhitneyu(left, right, alternative=side, method="exact").pvalue, rel=1e-9
            )
        elif n1 + n2 < 10:
            assert tail == pytest.approx(_counted(left, right, side), rel=1e-9)
        else:
            assert tail == pytest.approx(normal, rel=0.1) and tail != pytest.approx(normal, rel=1e-6)


def test_rows_with_and_without_ties_beside_each_other() -> None:
    rng = np.random.default_rng(11)
    left, right = rng.normal(0, 1, (2, 20)), rng.normal(0.5, 1, (2, 20))
    left[1, 0] = right[1, 0]
    got = ranks.mann_whitney(left, right).two_sided
    for row, method in enumerate(("exact", "asymptotic")):
        assert got[row] == pytest.approx(
            scipy.stats.mannwhitneyu(left[row], right[row], method=method).pvalue, rel=1e-9
        )
    few_left, few_right = np.array([2.0, 2.0]), np.array([1.0, 1.0, 2.0, 3.0, 4.0])  # doubled rank sums of 15 and 16
    tails = ranks.mann_whitney(few_left[None], few_right[None])
    assert tails.below[0] == pytest.approx(_counted(few_left, few_right, "less"))
    assert tails.above[0] == pytest.approx(_counted(few_left, few_right, "greater"))


def _counted(left: np.ndarray, right: np.ndarray, side: str) -> float:
    """P of the tail from every choice of as many values as are on the left."""
    rank = scipy.stats.rankdata(np.concatenate([left, right]))
    sums = np.array([rank[list(pick)].sum() for pick in combinations(range(rank.size), left.size)])
    seen = rank[: left.size].sum()
    return float((sums <= seen).mean() if side == "less" else (sums >= seen).mean())


def test_no_values_have_no_tails_and_no_shift() -> None:
    none, two = np.empty((2, 0)), np.ones((2, 3))
    for left, right in ((none, two), (two, none)):
        tails, moved = ranks.mann_whitney(left, right), ranks.hodges_lehmann(left, right, 0.05)
        assert all(np.isnan(each).tolist() == [True, True] for each in (tails.below, tails.above))
        assert all(np.isnan(each).tolist() == [True, True] for each in (moved.estimate, moved.low, moved.high))
    assert ranks.critical_rank(0, 4, 0.05) == 0


@pytest.mark.parametrize(("n1", "n2"), [(50, 50), (41, 61), (100, 100), (4, 4), (2, 3)])
def test_the_critical_rank_is_the_largest_whose_tail_is_small_enough(n1: int, n2: int) -> None:
    got = ranks.critical_rank(n1, n2, 0.05)
    if n1 * n2 <= ranks.EXACT_PAIRS:
        tail = ranks.u_distribution(n1, n2)
        assert (got == 0 or tail[got - 1] <= 0.05) and tail[got] > 0.05
    else:
        centre, spread = n1 * n2 / 2, math.sqrt(n1 * n2 * (n1 + n2 + 1) / 12)
        assert got == pytest.approx(centre + scipy.stats.norm.ppf(0.05) * spread, abs=0.5)


def test_predicted_brackets_hold_and_are_narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(9)
    x, y = np.sort(rng.normal(0, 1, (60, 150)), axis=1), np.sort(rng.normal(0.3, 1, (60, 170)), axis=1)
    select, proven, inside = ranks._select_between, [], []

    def watched(x, y, low, high, first, last):
        found = select(x, y, low, high, first, last)
        differences = y[:, None, :] - x[:, :, None]
        inside.extend(
            np.mean((differences > low[:, i, None, None]) & (differences < high[:, i, None, None])) for i in range(3)
        )
        proven.append(found[1])
        return found

    monkeypatch.setattr(ranks, "_select_between", watched)
    checks: list[int] = []
    ranks.hodges_lehmann(x, y, 0.05, lambda: checks.append(1))
    assert [found.size for found in proven] == [48, 12] and len(checks) == 2
    assert all(found.all() for found in proven)
    assert max(inside) < 0.01


@pytest.mark.parametrize("ordered", [False, True])
def test_missed_predictions_are_selected_from_the_grid(monkeypatch: pytest.MonkeyPatch, ordered: bool) -> None:
    rng = np.random.default_rng(10)
    x, y = rng.normal(0, 1, (4, 90)), rng.normal(0.3, 1, (4, 80))
    if ordered:
        x, y = np.sort(x, axis=1), np.sort(y, axis=1)
    pairs = np.sort((y[:, None, :] - x[:, :, None]).reshape(4, -1), axis=1)
    select, sizes = ranks._select_between, []

    def missing(x, *more):
        sizes.append(len(x))
        found, proven = select(x, *more)
        return (found, proven) if len(sizes) > 1 else (found * 0, proven & False)

    monkeypatch.setattr(ranks, "_select_between", missing)
    monkeypatch.setattr(ranks, "_MARGIN", 1)
    for alpha in (0.05, 2e-29, 1e-300):  # the second one selects among the smallest and the largest differences
        sizes.clear()
        found, c = ranks.hodges_lehmann(x, y, alpha, ordered=ordered), ranks.critical_rank(90, 80, alpha)
        assert np.array_equal(found.estimate, (pairs[:, 3599] + pairs[:, 3600]) / 2)
        assert np.array_equal(found.low, pairs[:, c - 1] if c else np.full(4, -np.inf))
        assert np.array_equal(found.high, pairs[:, -c] if c else np.full(4, np.inf))
        assert 2 <= len(sizes) < 10 and sizes[:2] == [4, 4]
