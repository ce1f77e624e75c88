"""Kernels against scipy's and Otava's stored results, and against scipy itself."""

from __future__ import annotations

import json
import warnings
from typing import Any

import numpy as np
import pytest
import scipy
from hypothesis import given
from hypothesis import strategies as st

from engine.stats import edivisive, ranks, significance
from engine.stats.edivisive import ChangePoint
from engine.stats.significance import t_quantile
from tests.chance import tries
from tests.reference import reference

OTAVA: dict[str, dict[str, Any]] = {
    "default window=50 max_pvalue=0.001 min_magnitude=0": {},
    "max_pvalue=0.01": {"max_p_value": 0.01},
    "max_pvalue=0.001 min_magnitude=0.05": {"min_magnitude": 0.05},
    "window=30 max_pvalue=0.05": {"window": 30, "max_p_value": 0.05},
}


def change_points(series: np.ndarray, **options: float) -> tuple[ChangePoint, ...]:
    """Find the change points of one series."""
    return edivisive.change_points_of(series[None, :], **options)[0]  # type: ignore[arg-type]


def test_stored_statistics() -> None:
    folder = reference("run-comparison")
    samples = json.loads((folder / "small-expected-metrics.json").read_text())["metrics"]
    expected = json.loads((folder / "small-expected-statistics.json").read_text())
    for metric, wanted in zip(samples, expected, strict=True):
        left, right = np.array([metric["Left"]]), np.array([metric["Right"]])
        merged = ranks.merge(left, right)
        assert merged.u_left[0] == wanted["U_left"]
        assert merged.cliffs_delta[0] == pytest.approx(wanted["cliffs_delta_left_minus_right"])
        assert merged.distance[0] == pytest.approx(wanted["ks_d"])
        assert ranks.mann_whitney(left, right).two_sided[0] == pytest.approx(wanted["mwu_p_exact"], rel=1e-9)
        p = significance.ks_p_values(merged.distance, left.size, right.size)[0]
        assert p == pytest.approx(wanted["ks_p_scipy_auto"], rel=1e-7)
        ratio = np.exp(ranks.hodges_lehmann(np.log(left), np.log(right), 0.05).estimate[0])
        assert ratio == pytest.approx(wanted["hodges_lehmann_ratio_right_over_left"], rel=1e-9)
        moved = ranks.hodges_lehmann(left, right, 0.05).estimate[0]
        assert moved == pytest.approx(wanted["hodges_lehmann_shift_right_minus_left"], rel=1e-9)
    q = significance.benjamini_hochberg(np.array([e["mwu_p_auto"] for e in expected]))
    assert q == pytest.approx([e["bh_q_of_mwu_p_auto"] for e in expected])


def test_stored_change_points() -> None:
    folder = reference("run-comparison")
    for case in json.loads((folder / "real-expected-changepoints.json").read_text())["results"]:
        series = json.loads((folder / case["series"]).read_text())
        values = np.array(series["series"] if isinstance(series, dict) else series, dtype=float)
        for name, options in OTAVA.items():
            found = change_points(values, **options)
            assert [point.index for point in found] == [wanted["index"] for wanted in case[name]], name
            for point, wanted in zip(found, case[name], strict=True):
                assert point.mean_before == pytest.approx(wanted["mean_before"], rel=1e-12)
                assert point.mean_after == pytest.approx(wanted["mean_after"], rel=1e-12)
                assert point.p_value == pytest.approx(wanted["pvalue"], rel=1e-6)
                assert point.relative_change == pytest.approx(wanted["forward_rel_change"], rel=1e-9)


def test_merging_leaves_the_earlier_neighbour_alone() -> None:
    # If both neighbours were judged again, the first point would go as well.
    series = np.array([115.0, 101.0, 99.6, 107.0, 80.432539, 82.780387, 95.0, 90.0])
    found = change_points(series, window=30, max_p_value=0.05, min_magnitude=0.02)
    assert [p.index for p in found] == [1, 4, 6]
    assert found[0].mean_after == pytest.approx(100.3, rel=1e-12)
    assert found[1].mean_before == pytest.approx(102.5333333333, rel=1e-9)


@tries(12)
@given(st.integers(1, 12), st.integers(1, 12), st.integers(0, 2**32 - 1), st.sampled_from(["plain", "tied", "signed"]))
def test_rank_tests_agree_with_scipy(n1: int, n2: int, seed: int, style: str) -> None:
    rng = np.random.default_rng(seed)
    left, right = rng.normal(10, 3, (3, n1)), rng.normal(11, 3, (3, n2))
    if style == "tied":
        left, right = np.round(left / 3), np.round(right / 3)
    elif style == "signed":
        left, right = left - 10, right - 10
    merged = ranks.merge(left, right)
    tails = ranks.mann_whitney(left, right, merged)
    ks = significance.ks_p_values(merged.distance, n1, n2)
    for row in range(3):
        a, b = left[row], right[row]
        assert merged.distance[row] == pytest.approx(scipy.stats.ks_2samp(a, b).statistic)
        with warnings.catch_warnings(record=True) as given_up:
            warnings.simplefilter("always")
            wanted = scipy.stats.ks_2samp(a, b, method="exact").pvalue
        if not given_up:
            assert ks[row] == pytest.approx(wanted, rel=1e-6, abs=1e-12)
        u = scipy.stats.mannwhitneyu(a, b, method="asymptotic").statistic
        assert merged.u_left[row] == u
        if style != "tied":
            assert tails.two_sided[row] == pytest.approx(scipy.stats.mannwhitneyu(a, b, method="exact").pvalue)


def test_ties_are_exact_for_small_samples() -> None:
    left, right = np.array([[1.0, 1.0, 2.0, 3.0]]), np.array([[1.0, 2.0, 2.0, 4.0, 5.0]])
    both = np.concatenate([left[0], right[0]])
    rank = scipy.stats.rankdata(both)
    from itertools import combinations

    sums = np.array([rank[list(pick)].sum() for pick in combinations(range(9), 4)])
    seen = rank[:4].sum()
    tails = ranks.mann_whitney(left, right)
    assert tails.below[0] == pytest.approx((sums <= seen).mean())
    assert tails.above[0] == pytest.approx((sums >= seen).mean())


def test_large_samples_use_the_corrected_normal_approximation() -> None:
    rng = np.random.default_rng(3)
    left, right = np.round(rng.normal(0, 1, (2, 80)), 1), np.round(rng.normal(0.2, 1, (2, 70)), 1)
    for row in range(2):
        wanted = scipy.stats.mannwhitneyu(left[row], right[row], method="asymptotic").pvalue
        assert ranks.mann_whitney(left, right).two_sided[row] == pytest.approx(wanted, rel=1e-9)


def test_equal_values_are_no_difference() -> None:
    same = np.full((1, 40), 7.0)
    assert ranks.mann_whitney(same, same).two_sided[0] == 1.0
    assert ranks.merge(same, same).distance[0] == 0.0
    found = ranks.hodges_lehmann(same, same, 0.05)
    assert (found.estimate[0], found.low[0], found.high[0]) == (0.0, 0.0, 0.0)


@tries(12)
@given(st.integers(64, 140), st.integers(64, 140), st.integers(0, 2**32 - 1), st.booleans())
def test_selected_ranks_equal_all_pairs(n1: int, n2: int, seed: int, tied: bool) -> None:
    rng = np.random.default_rng(seed)
    left, right = rng.standard_t(2, (2, n1)), rng.standard_t(2, (2, n2))
    if tied:
        left, right = np.round(left), np.round(right)
    found = ranks.hodges_lehmann(left, right, 0.05)
    c = ranks.critical_rank(n1, n2, 0.05)
    for row in range(2):
        pairs = np.sort((right[row][:, None] - left[row][None, :]).ravel())
        assert found.estimate[row] == pytest.approx(np.median(pairs), abs=1e-12)
        assert found.low[row] == pytest.approx(pairs[c - 1], abs=1e-12)
        assert found.high[row] == pytest.approx(pairs[-c], abs=1e-12)


def test_interval_needs_enough_values() -> None:
    two = ranks.hodges_lehmann(np.array([[1.0, 2.0]]), np.array([[3.0, 4.0]]), 0.05)
    assert two.low[0] == -np.inf
    assert two.high[0] == np.inf
    assert ranks.critical_rank(3, 3, 0.05) == 1


@tries(12)
@given(st.lists(st.floats(0, 1) | st.just(float("nan")), max_size=40))
def test_adjusted_p_values_agree_with_scipy(values: list[float]) -> None:
    p = np.array(values)
    q = significance.benjamini_hochberg(p)
    kept = ~np.isnan(p)
    assert np.isnan(q[~kept]).all()
    if kept.any():
        assert q[kept] == pytest.approx(scipy.stats.false_discovery_control(p[kept]))


def test_change_points_of_odd_series() -> None:
    for series in ([], [1.0], [1.0, 1.0], [0.0] * 60, [5.0] * 30 + [9.0] * 30):
        found = change_points(np.array(series))
        assert [p.index for p in found] == ([30] if len(set(series)) > 1 else [])


@tries(12)
@given(st.integers(3, 20), st.integers(3, 20), st.integers(0, 2**32 - 1))
def test_brown_forsythe_agrees_with_scipy(n1: int, n2: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    left, right = rng.normal(0, 1, n1), rng.normal(0, 3, n2)
    wanted = scipy.stats.levene(left, right, center="median").pvalue
    assert significance.brown_forsythe_p(left, right) == pytest.approx(wanted, rel=1e-9, nan_ok=True)


@pytest.mark.parametrize("degrees", [1, 2, 3, 4, 5, 10, 11, 30, 200, 201, 1000, 100_000])
@pytest.mark.parametrize("share", [0.51, 0.9, 0.975, 0.999])
def test_student_quantiles(degrees: int, share: float) -> None:
    assert t_quantile(share, degrees) == pytest.approx(scipy.stats.t.ppf(share, degrees), rel=1e-10)


def test_the_expansion_of_quantiles_has_its_last_term() -> None:
    assert t_quantile(0.51, 201) == pytest.approx(scipy.stats.t.ppf(0.51, 201), rel=1e-12, abs=0)


@pytest.mark.parametrize(("share", "degrees"), [(0.5, 3), (1.0, 3), (0.9, 0), (float("nan"), 3)])
def test_student_quantiles_that_there_are_not(share: float, degrees: int) -> None:
    with pytest.raises(ValueError, match="no t quantile"):
        t_quantile(share, degrees)


def test_a_point_more_divides_the_last_windows_only(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(3)
    series = np.concatenate([rng.normal(10.0, 1.0, 120), rng.normal(14.0, 1.0, 320)])
    sizes: list[int] = []
    best_split = edivisive.best_split
    monkeypatch.setattr(edivisive, "best_split", lambda part: (sizes.append(part.size), best_split(part))[1])
    edivisive._splits_of_window.cache_clear()
    change_points(series[:-1])
    first = len(sizes)
    warm = change_points(series)
    again = len(sizes) - first
    edivisive._splits_of_window.cache_clear()
    assert [point.index for point in warm][:1] == [120]
    assert warm == change_points(series)
    assert again < first / 3


@pytest.mark.parametrize("kind", ["smooth", "tied", "long-tailed", "two-valued"])
def test_selected_differences_are_those_of_all_pairs(kind: str) -> None:
    rng = np.random.default_rng(5)
    for n1, n2 in ((64, 130), (101, 77), (139, 139)):
        x, y = rng.normal(0.0, 1.0, (3, n1)), rng.normal(0.5, 3.0, (3, n2))
        if kind == "tied":
            x, y = np.round(x), np.round(y)
        elif kind == "long-tailed":
            x, y = np.exp(5 * x), np.exp(5 * y)
        elif kind == "two-valued":
            x[:], y[:, : n2 // 2] = 1.0, 1.0
        pairs = np.sort((y[:, None, :] - x[:, :, None]).reshape(3, -1), axis=1)
        total, c = pairs.shape[1], ranks.critical_rank(n1, n2, 0.05)
        found = ranks.hodges_lehmann(x, y, 0.05)
        assert np.array_equal(found.low, pairs[:, c - 1])
        assert np.array_equal(found.high, pairs[:, total - c])
        assert np.array_equal(found.estimate, (pairs[:, (total - 1) // 2] + pairs[:, total // 2]) / 2)
