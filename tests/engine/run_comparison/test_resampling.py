"""Draws of whole runs: exact when they grow, and the classic bootstrap in what they say."""

from __future__ import annotations

import numpy as np
import pytest

from engine.run_comparison.insight import influence, resampling
from engine.run_comparison.insight.evidence import Evidence, gather, limits
from engine.run_comparison.runs.samples import Samples, Side
from engine.stats.balls import Balls
from tests.engine.run_comparison.sides import added, pooled, random_runs, side_of


@pytest.mark.parametrize("n", [0, 1, 2, 5, 63, 64, 65, 100, 127, 128, 200])
def test_resamples_do_not_depend_on_how_they_came_about(n: int) -> None:
    fresh = Balls(n, 50, (3, 1)).counts()
    assert fresh.shape == (50, n) and (fresh.sum(axis=1) == n).all()
    if n < 66:
        return
    grown = Balls(n - 2, 50, (3, 1))
    before = grown.counts()
    step = grown.grow()
    if step is None:
        assert n - 1 == 128 or n == 128
        return
    change = grown.counts()
    for rows, units, sign in step.swaps:
        assert np.unique(rows).size == rows.size
        np.add.at(before, (rows, units), sign)
    assert np.array_equal(change, np.column_stack([before, step.fresh]))


def test_counts_of_grown_resamples_are_multinomial() -> None:
    n, draws = 96, 40_000
    counts = Balls(n, draws, (7, 0)).counts()
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


def _told(samples: Samples, evidence: Evidence, kept: dict[int, resampling.Draws] | None) -> tuple[np.ndarray, ...]:  # type: ignore[type-arg]
    counted = np.ones(samples.count, dtype=bool)
    overall = resampling.resample(samples, evidence, counted, 60, 5, kept=kept)
    found = []
    for margin in (0.66, 0.8, 0.97):
        found.append(resampling.shares(overall, evidence, margin))
        found.append(np.array(resampling.share_interval(overall, evidence, margin, 0.9, 0.5)))
        for scores in influence.score_runs(overall, evidence, margin):
            found += [scores.influence, scores.badness, scores.outliers]
    return tuple(found)


@pytest.mark.parametrize(("ragged", "ties"), [(0.0, False), (0.0, True), (0.15, False), (0.15, True)])
def test_runs_that_arrive_one_by_one_give_what_all_at_once_give(ragged: float, ties: bool) -> None:
    rng = np.random.default_rng(4)
    metrics = 12
    left = random_runs(rng, 62, metrics, ragged=ragged, ties=ties)
    right = random_runs(rng, 125, metrics, level=4.1, ragged=ragged, ties=ties)
    sides = [pooled(left, metrics), pooled(right, metrics)]
    kept: dict[int, resampling.Draws] = {}
    grown = 0
    for number in range(12):
        samples = Samples(sides[0], sides[1])
        evidence = _evidence(samples)
        before = dict(kept)
        warm = _told(samples, evidence, kept)
        grown += sum(kept[i] is before.get(i) for i in (0, 1))
        fresh = _told(Samples(pooled(left, metrics), pooled(right, metrics)), evidence, None)
        for one, other in zip(warm, fresh, strict=True):
            assert np.array_equal(one, other, equal_nan=True), number
        at = number % 2
        runs = (left, right)[at]
        runs += random_runs(rng, 1, metrics, ragged=ragged, ties=ties)
        sides[at] = sides[at].grown(added(runs[-1]))
    assert grown > 12


def _plain(samples: Samples, evidence: Evidence, overall: resampling.Overall, margin: float) -> np.ndarray:  # type: ignore[type-arg]
    """Shares of metrics inside, from the counts of each draw and the values themselves."""
    lower, upper = limits(evidence, margin)
    means = []
    for draws, side in ((overall.left, samples.left), (overall.right, samples.right)):
        values = resampling.run_values(side, overall.metrics, evidence.logarithmic)
        counts = draws._balls.counts().astype(np.float64)
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
    overall = resampling.resample(samples, evidence, np.ones(40, dtype=bool), 300, 1)
    for margin in (0.5, 0.8, 0.9, 0.95):
        found = resampling.shares(overall, evidence, margin)
        # Winsorising and steps move a mean a little: a share may differ by a metric at the margin now and then.
        assert np.abs(found - _plain(samples, evidence, overall, margin)).mean() < (0.05 if n < 10 else 0.02)


def test_the_interval_covers_as_the_classic_bootstrap_does() -> None:
    """The share of a draw of 100 runs a side is spread as that of classic resamples drawn apart."""
    rng = np.random.default_rng(8)
    metrics, n = 150, 100
    shared = rng.normal(0.0, 0.15, (2, n))
    left = np.exp(rng.normal(4.0, 0.2, (metrics, n)) + shared[0])
    right = np.exp(rng.normal(4.0, 0.2, (metrics, n)) + shared[1] + rng.normal(0.1, 0.05, (metrics, 1)))
    samples = Samples(side_of(left), side_of(right))
    evidence = _evidence(samples)
    overall = resampling.resample(samples, evidence, np.ones(metrics, dtype=bool), 2000, 1)
    found = resampling.shares(overall, evidence, 0.9)
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
    overall = resampling.resample(samples, evidence, np.ones(30, dtype=bool), 20, 1)
    margin = 0.8
    lower, upper = (ends[overall.metrics] for ends in limits(evidence, margin))
    matrices = []
    for side in (overall.left, overall.right):
        steps, present = side.runs(np.arange(overall.metrics.size))
        matrices.append(np.where(present, side.value(steps), np.nan))

    def share(one: np.ndarray, other: np.ndarray) -> float:  # type: ignore[type-arg]
        with np.errstate(invalid="ignore"):
            shift = np.nanmean(other, axis=0) - np.nanmean(one, axis=0)
            return float(((shift >= lower) & (shift <= upper)).sum() / np.isfinite(shift).sum())

    whole = share(*matrices)
    for at, scores in enumerate(influence.score_runs(overall, evidence, margin)):
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
        overall = resampling.resample(samples, evidence, np.ones(2, dtype=bool), 10, 1)
        assert overall.metrics.size == 0
        assert np.isnan(resampling.share_interval(overall, evidence, 0.66, 0.9, 0.0)).all()
    samples = Samples(some, some)
    overall = resampling.resample(samples, _evidence(samples), np.ones(2, dtype=bool), 0, 1)
    assert np.isnan(resampling.share_interval(overall, _evidence(samples), 0.66, 0.9, 1.0)).all()
