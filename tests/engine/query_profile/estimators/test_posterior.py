"""The posterior of costs, the lag and the searched elbow, on made-up workloads whose truth is known."""

from __future__ import annotations

import numpy as np
import pytest

from engine.query_profile.estimators import estimate, posterior, remedies
from engine.query_profile.estimators.attribution import attribute
from engine.query_profile.estimators.design import FitOptions
from tests.bench._query_scenarios import error, plain_methods, scenario

UNKNOWN = np.full(720, np.nan)


@pytest.mark.parametrize("name", ["costs log-sd 1", "bursty and a sleeper", "outlier intervals"])
def test_intervals_cover_and_the_attribution_is_no_worse_than_the_best_method(name: str) -> None:
    """Means over four draws: on a single one, some method of many is always lucky."""
    wrong, covered, others = [], [], []
    for seed in (31, 32, 33, 34):
        case = scenario(name, seed)
        found = attribute(case.x, None, case.y, UNKNOWN, FitOptions(draws=24))
        major = case.truth > 0.01 * case.truth.sum()
        inside = (found.cpu_low_us <= case.truth) & (case.truth <= found.cpu_high_us)
        covered.append(inside[major].mean())
        assert np.median((found.cpu_high_us - found.cpu_low_us)[major] / case.truth[major]) < 1
        wrong.append(error(found.total, case.truth))
        totals = plain_methods(case.x, case.y, ("wlr", "ols", "nnls", "nnls+bg", "em100", "eb"))
        others.append([error(total, case.truth) for total in totals.values()])
    assert np.mean(covered) >= 0.8
    assert np.mean(wrong) < 1.04 * np.mean(others, axis=0).min()


def test_a_lag_is_found_and_removed() -> None:
    case = scenario("background and lag", 32)
    found = attribute(case.x, None, case.y, UNKNOWN, FitOptions(draws=20))
    assert found.lag.share == pytest.approx(0.25, abs=0.06)
    straight = estimate.fit_times(case.x, case.y, UNKNOWN, FitOptions(sample=False))
    assert error(found.total, case.truth) < 0.9 * error(straight.time * case.x.sum(axis=0), case.truth)


def test_a_lag_the_other_way_has_the_other_sign() -> None:
    rng = np.random.default_rng(5)
    x = rng.gamma(3, 1e5, (300, 6))
    work = x @ np.array([0.2, 0.9, 0.5, 0.7, 0.1, 1.1])
    y = (0.7 * work + 0.3 * np.r_[work[1:], work[-1]]) * rng.normal(1, 0.01, 300)
    assert remedies.find_lag(x, None, y, np.full(300, np.nan)).share == pytest.approx(-0.3, abs=0.03)
    assert remedies.find_lag(x, None, work * rng.normal(1, 0.05, 300), np.full(300, np.nan)) == remedies.NO_LAG
    assert remedies.find_lag(x[:20], None, y[:20], np.full(20, np.nan)) == remedies.NO_LAG


def test_past_the_elbow_waiting_does_not_count_as_work() -> None:
    case = scenario("queueing elbow", 33)
    found = attribute(case.x, None, case.y, UNKNOWN, FitOptions(draws=20))
    assert found.elbow is not None
    assert found.elbow.found
    plain = estimate.fit_times(case.x, case.y, UNKNOWN, FitOptions(sample=False))
    assert error(found.total, case.truth) < 0.5 * error(plain.time * case.x.sum(axis=0), case.truth)


def test_a_change_of_costs_is_found_where_it_is() -> None:
    case = scenario("costs double midway", 34)
    found = attribute(case.x, None, case.y, UNKNOWN, FitOptions(draws=20))
    assert found.change_point.row == pytest.approx(360, abs=8)


@pytest.mark.parametrize("name", ["costs within 25%", "AR(1) noise .6", "200 classes, 80 rare", "30 rows, 60 classes"])
def test_no_remedy_where_none_is_needed(name: str) -> None:
    case = scenario(name, 35)
    found = attribute(case.x, None, case.y, np.full(len(case.y), np.nan), FitOptions(sample=False))
    assert not (found.elbow and found.elbow.found)
    assert not (found.changed)
    assert found.lag == remedies.NO_LAG


def test_draws_are_the_same_for_the_same_seed_and_near_for_another() -> None:
    case = scenario("noise 2%", 36)
    first, again, other = (
        attribute(case.x, None, case.y, UNKNOWN, FitOptions(draws=24, seed=seed)) for seed in (1, 1, 2)
    )
    assert np.array_equal(first.total, again.total)
    assert np.array_equal(first.cpu_low_us, again.cpu_low_us)
    assert not np.array_equal(first.total, other.total)
    assert np.abs(first.total - other.total).sum() < 0.03 * first.total.sum()


def test_draws_of_a_known_posterior_have_its_mean_and_spread() -> None:
    """One class and much data: the posterior is nearly the normal one of least squares."""
    rng = np.random.default_rng(7)
    x = rng.uniform(0.5, 1.5, 400)
    t = 0.8 * x + rng.normal(0, 0.05, 400)
    a = np.column_stack([x, np.zeros(400) + 1e-9])
    start = posterior.Start(np.tile([0.7, 0.01], (30, 1)), 0.7, 0.5, 0.05)
    drawn = posterior.sample(a, t, start, draws=100, seed=3)
    expected = float(x @ t / (x @ x))
    assert drawn[:, 0].mean() == pytest.approx(expected, abs=0.001)
    assert drawn[:, 0].std() == pytest.approx(0.05 / np.sqrt(x @ x), rel=0.25)


def test_very_large_times_do_not_overflow() -> None:
    rng = np.random.default_rng(8)
    x = rng.gamma(2, 1e150, (40, 3))
    found = estimate.fit_times(x, x.sum(axis=1) * 1e-140, np.full(40, np.nan), FitOptions(draws=24))
    assert np.isfinite(found.time).all()
    assert found.time == pytest.approx(1e-140, rel=0.1)


def test_predictions_of_totals_come_near_the_measured() -> None:
    case = scenario("costs log-sd 1", 37)
    costs = estimate.fit_times(case.x[:500], case.y[:500], UNKNOWN[:500], FitOptions(sample=False))
    predicted = costs.predict(case.x[500:], None, np.ones(220))
    assert np.abs(predicted / case.y[500:] - 1).mean() < 0.06


def test_negative_cpu_gives_no_cost() -> None:
    """A broken series, all below zero: no crash, and no cost below zero."""
    x = np.random.default_rng(9).gamma(2, 1e5, (100, 5))
    found = attribute(x, None, -x.sum(axis=1), np.full(100, np.nan), FitOptions(draws=20))
    assert (found.total == 0).all()
