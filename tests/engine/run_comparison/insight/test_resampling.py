"""Resampling whole runs is the classic bootstrap."""

from __future__ import annotations

import numpy as np
import pytest

from engine.core.incremental import Memo
from engine.run_comparison.insight import along_runs
from engine.run_comparison.insight.statistical import Evidence, gather, limits
from engine.run_comparison.runs.samples import Samples, Side
from engine.stats.significance import draw_counts
from tests.engine.run_comparison.random_sides import pooled, random_runs, side_of


@pytest.mark.parametrize("n", [0, 1, 2, 5, 64, 200])
def test_resamples_depend_on_the_number_of_units_and_the_seed(n: int) -> None:
    counts = draw_counts(n, 50, (3, 1))
    assert counts.shape == (50, n) and (counts.sum(axis=1) == n).all()
    assert np.array_equal(counts, draw_counts(n, 50, (3, 1)))
    assert n < 2 or not np.array_equal(counts, draw_counts(n, 50, (3, 0)))


def test_counts_of_resamples_are_multinomial() -> None:
    n, draws = 96, 40_000
    counts = draw_counts(n, draws, (7, 0))
    for k, chance in enumerate((0.3660, 0.3699, 0.1849, 0.0610)):  # binomial, n = 96, p = 1 / 96
        assert (counts == k).mean() == pytest.approx(chance, abs=0.002)
        for unit in (0, 40, 63, 64, 80, 95):
            assert (counts[:, unit] == k).mean() == pytest.approx(chance, abs=0.012)
    covariance = np.cov(counts.T) * n
    apart = covariance[~np.eye(n, dtype=bool)]
    assert apart.mean() == pytest.approx(-1.0, abs=0.02) and np.abs(apart + 1.0).max() < 3.2


def _evidence(samples: Samples) -> Evidence:
    with np.errstate(all="ignore"):
        return gather(samples, 0.05)


def test_a_side_that_did_not_change_keeps_its_draws() -> None:
    rng = np.random.default_rng(4)
    left, right = (pooled(random_runs(rng, n, 12), 12) for n in (20, 30))
    memo = Memo()
    first = _resample(Samples(left, right), 60, memo)
    second = _resample(Samples(left, pooled(random_runs(rng, 31, 12), 12)), 60, memo)
    assert second.left is first.left and second.right is not first.right
    fresh = _resample(Samples(left, right), 60, Memo())
    for one, other in ((first.left, fresh.left), (first.right, fresh.right)):
        for name in ("steps", "counts", "least", "greatest"):
            assert np.array_equal(getattr(one, name), getattr(other, name))


def _resample(samples: Samples, draws: int, memo: Memo, seed: int = 1) -> along_runs.Resamples:
    counted = np.ones(samples.count, dtype=bool)
    return along_runs.resample(samples, _evidence(samples), counted, draws, seed, memo)


def _plain(
    samples: Samples, evidence: Evidence, overall: along_runs.Resamples, margin: float, draws: int
) -> np.ndarray:  # type: ignore[type-arg]
    """Shares of metrics inside, from the counts of each draw and the values themselves."""
    lower, upper = limits(evidence, margin)
    means = []
    for number, side in enumerate((samples.left, samples.right)):
        values = along_runs.run_values(side, overall.metrics, evidence.logarithmic)
        counts = draw_counts(side.n_runs, draws, (1, number)).astype(np.float64)
        held = ~np.isnan(values)
        with np.errstate(invalid="ignore", divide="ignore"):
            means.append((counts @ np.where(held, values, 0.0)) / (counts @ held))
    shift = means[1] - means[0]
    with np.errstate(invalid="ignore"):
        inside = (shift >= lower[overall.metrics]) & (shift <= upper[overall.metrics])
    return np.asarray(inside.sum(axis=1) / (~np.isnan(shift)).sum(axis=1))


@pytest.mark.parametrize("ragged", [0.0, 0.6])
@pytest.mark.parametrize("n", [4, 30, 90])
def test_shares_are_those_of_the_plain_way(n: int, ragged: float) -> None:
    rng = np.random.default_rng(n)
    sides = [pooled(random_runs(rng, n, 40, level=level, ragged=ragged), 40) for level in (4.0, 4.1)]
    samples = Samples(sides[0], sides[1])
    evidence = _evidence(samples)
    overall = _resample(samples, 300, Memo())
    for margin in (0.5, 0.8, 0.9, 0.95):
        found = along_runs.shares(overall, evidence, margin)
        # Winsorising and steps move a mean a little: a share may differ by a metric at the margin now and then.
        assert np.abs(found - _plain(samples, evidence, overall, margin, 300)).mean() < (0.05 if n < 10 else 0.02)


def test_the_interval_covers_as_the_classic_bootstrap_does() -> None:
    """The share of a draw of 100 runs a side is spread as that of classic resamples drawn apart."""
    rng = np.random.default_rng(8)
    metrics, n = 150, 100
    shared = rng.normal(0.0, 0.15, (2, n))
    left = np.exp(rng.normal(4.0, 0.2, (metrics, n)) + shared[0])
    right = np.exp(rng.normal(4.0, 0.2, (metrics, n)) + shared[1] + rng.normal(0.1, 0.05, (metrics, 1)))
    samples = Samples(side_of(left), side_of(right))
    evidence = _evidence(samples)
    overall = _resample(samples, 2000, Memo())
    found = along_runs.shares(overall, evidence, 0.9)
    lower, upper = limits(evidence, 0.9)
    classic = []
    for _ in range(2000):
        a, b = (np.log(side)[:, rng.integers(0, n, n)].mean(axis=1) for side in (left, right))
        classic.append(((b - a >= lower) & (b - a <= upper)).mean())
    assert found.mean() == pytest.approx(np.mean(classic), abs=0.02)
    assert found.std() == pytest.approx(np.std(classic), rel=0.08)
    quantiles = [0.05, 0.25, 0.5, 0.75, 0.95]
    assert np.quantile(found, quantiles) == pytest.approx(np.quantile(classic, quantiles), abs=0.035)


@pytest.mark.parametrize("ragged", [0.0, 0.4])
def test_influence_is_what_leaving_the_run_out_changes(ragged: float) -> None:
    rng = np.random.default_rng(9)
    left, right = random_runs(rng, 9, 30, ragged=ragged), random_runs(rng, 7, 30, level=4.25, ragged=ragged)
    left[3] = [(metric, value * 3.0) for metric, value in left[3]]
    samples = Samples(pooled(left, 30), pooled(right, 30))
    evidence = _evidence(samples)
    overall = _resample(samples, 20, Memo())
    margin = 0.8
    lower, upper = (ends[overall.metrics] for ends in limits(evidence, margin))
    matrices = []
    for side in (overall.left, overall.right):
        values = side.scale.value(side.steps.astype(np.float64))
        matrices.append(np.where(side.present, values, np.nan)[::-1])

    def share(one: np.ndarray, other: np.ndarray) -> float:  # type: ignore[type-arg]
        with np.errstate(invalid="ignore"):
            shift = np.nanmean(other, axis=0) - np.nanmean(one, axis=0)
            return float(((shift >= lower) & (shift <= upper)).sum() / np.isfinite(shift).sum())

    whole = share(*matrices)
    for at, scores in enumerate(along_runs.score_runs(overall, evidence, margin)):
        plain = []
        for run in range(len(matrices[at])):
            parts = list(matrices)
            parts[at] = np.delete(parts[at], run, axis=0)
            plain.append(share(parts[0], parts[1]) - whole)
        assert scores.influence == pytest.approx(plain, abs=1e-12)
        if at == 0:
            assert int(np.nanargmax(scores.badness)) == 5  # the fourth of nine, newest first


def test_empty_sides_and_no_draws() -> None:
    nothing = Side(np.zeros(0), np.zeros(0, dtype=np.int32), np.zeros(3, dtype=np.int64), 0)
    some = side_of(np.ones((2, 4)))
    for samples in (Samples(nothing, some), Samples(some, nothing)):
        evidence = _evidence(samples)
        overall = _resample(samples, 10, Memo())
        assert overall.metrics.size == 0
        assert np.isnan(along_runs.share_interval(overall, evidence, 0.66, 0.9, 0.0)).all()
    samples = Samples(some, some)
    overall = _resample(samples, 0, Memo())
    assert np.isnan(along_runs.share_interval(overall, _evidence(samples), 0.66, 0.9, 1.0)).all()
