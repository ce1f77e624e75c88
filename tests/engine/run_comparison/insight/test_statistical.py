"""Verdicts of statistical mode: levels, symmetry, one-sided tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.run_comparison.insight import statistical
from engine.run_comparison.insight.statistical import gather
from engine.run_comparison.runs.samples import Samples, Side
from engine.stats.ranks import mann_whitney
from tests.chance import tries
from tests.engine.run_comparison.folder import compute
from tests.engine.run_comparison.jobs import item, perf_data, two_jobs, write_run

SIDES: dict[str, Any] = {"left": ("left-job",), "right": ("right-job",)}


def _rows(result: Any) -> dict[str, dict[str, Any]]:
    return {row["bucket"]: row for row in result.tables["metrics"].iter_rows(named=True)}


def test_few_noisy_runs_are_undecided(tmp_path: Path) -> None:
    result = compute(two_jobs(tmp_path, [60, 200, 90], [80, 300, 70]), draws=200, **SIDES)
    row = _rows(result)["Perc50"]
    assert row["verdict"] == "undecided"
    assert row["runs_needed"] >= 1
    assert result.summary["pass"] is not True
    one = compute(two_jobs(tmp_path / "one", [100], [100]), draws=200, **SIDES)
    assert (one.summary["verdict"], one.summary["pass"]) == ("undecided", None)


def test_what_no_number_of_values_can_show_is_undecided_and_said(tmp_path: Path) -> None:
    """Three against three values give p = 0.1 at best: no metric differs, so the whole does not fail either."""
    far = ([100.0, 101.0, 102.0, 103.0], [200.0, 201.0, 202.0, 203.0])
    for runs, verdict in ((3, "undecided"), (4, "FAIL")):
        found = compute(two_jobs(tmp_path / str(runs), far[0][:runs], far[1][:runs]), draws=200, **SIDES)
        assert found.summary["verdict"] == verdict and (found.summary["different"] > 0) == (verdict == "FAIL")
        assert any("fewer than 4 values" in note for note in found.notes) == (verdict == "undecided")
        assert found.headline[0].value.endswith("3 may be worse") == (verdict == "undecided")
        assert found.findings[0].level == ("moderate" if verdict == "undecided" else "severe")
    for alpha in (0.1, 0.05, 0.01, 0.001):
        fewest = statistical.fewest_values(alpha)
        low = [
            float(mann_whitney(np.arange(n)[None] * 1.0, np.arange(n)[None] + 100.0).two_sided[0])
            for n in (fewest - 1, fewest)
        ]
        assert low[1] <= alpha < low[0]


def test_spread_that_grows_is_different_though_the_median_stays(tmp_path: Path) -> None:
    left = [100 + i * 0.1 for i in range(-30, 30)]
    right = [100 * (4 if i % 2 else 0.25) + i * 0.1 for i in range(-30, 30)]
    row = _rows(compute(two_jobs(tmp_path, left, right), draws=50, select="all", **SIDES))["Perc50"]
    assert row["verdict"] == "different"
    assert row["spread_q"] < 0.01 < row["q_value"]


def test_zeros_are_compared_on_the_raw_scale(tmp_path: Path) -> None:
    result = compute(two_jobs(tmp_path, [0.0] * 8, [0.0] * 8), draws=50, **SIDES)
    assert _rows(result)["Perc50"]["verdict"] == "equivalent"
    moved = compute(two_jobs(tmp_path / "b", [0.0] * 8, [5.0] * 8), draws=50, **SIDES)
    row = _rows(moved)["Perc50"]
    assert (row["verdict"], row["ratio"]) == ("different", None)


def test_one_bad_run_stands_out_by_its_influence(tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    for job in ("left-job", "right-job"):
        for i in range(8):
            slow = 40.0 if job == "right-job" and i == 3 else 1.0
            items = [
                item({"Perc50": float(100 * slow * rng.lognormal(0, 0.02))}, Verb="GET", Resource=f"r{k}", Count="99")
                for k in range(12)
            ]
            write_run(tmp_path, job, i, {"APIResponsiveness_load_T.json": perf_data(items)}, hour=i)
    runs = compute(tmp_path, draws=50, **SIDES).tables["runs"]
    assert runs.filter("bad").select("job", "run").rows() == [("right-job", "3")]
    assert runs.filter("bad")["outliers"][0] == 1.0
    assert runs["influence"].null_count() == 0


@tries(12)
@given(st.integers(3, 10), st.integers(3, 10), st.integers(0, 2**32 - 1), st.floats(0.3, 3.0), st.floats(0.5, 0.95))
def test_interval_and_one_sided_tests_agree(n1: int, n2: int, seed: int, factor: float, margin: float) -> None:
    rng = np.random.default_rng(seed)
    left, right = rng.lognormal(0, 0.2, n1), factor * rng.lognormal(0, 0.2, n2)
    arithmetic = statistical.explain(left, right, margin, 0.05, 1.0)
    inside = margin <= arithmetic.ratio_low and arithmetic.ratio_high <= 1 / margin
    assert inside == (arithmetic.equivalence_p <= 0.05 + 1e-12)


@tries(12)
@given(st.integers(2, 6), st.integers(2, 6), st.integers(0, 2**32 - 1), st.floats(0.01, 100.0))
def test_swapping_sides_inverts_the_ratio_and_scaling_changes_nothing(
    n1: int, n2: int, seed: int, scale: float
) -> None:
    rng = np.random.default_rng(seed)
    left, right = rng.lognormal(0, 1, n1), rng.lognormal(0.3, 1, n2)
    one = statistical.explain(left, right, 0.66, 0.05, 1.0)
    other = statistical.explain(right, left, 0.66, 0.05, 1.0)
    assert one.ratio * other.ratio == pytest.approx(1.0)
    assert one.p_value == pytest.approx(other.p_value)
    scaled = statistical.explain(left * scale, right * scale, 0.66, 0.05, 1.0)
    assert scaled.ratio == pytest.approx(one.ratio)


def test_equivalence_holds_its_level() -> None:
    """At the margin itself at most 5 % may be called equivalent."""
    rng = np.random.default_rng(11)
    k, n = 2000, 8
    left, right = rng.lognormal(0, 0.2, (k, n)), 0.66 * rng.lognormal(0, 0.2, (k, n))
    place = np.tile(np.arange(n, dtype=np.int32), k)
    ends = np.arange(0, k * n + 1, n)
    samples = Samples(Side(left.ravel(), place, ends, n), Side(right.ravel(), place, ends, n))
    evidence = gather(samples, 0.05)
    counted, large = np.ones(k, dtype=bool), np.zeros(k, dtype=bool)
    words = statistical.decide(evidence, samples, 0.66, 0.05, counted, large).words
    assert (words == "equivalent").mean() <= 0.065
