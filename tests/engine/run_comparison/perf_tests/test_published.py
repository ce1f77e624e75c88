"""Published mode: cutoffs, limits, similarity."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.run_comparison.perf_tests import percentile_of, similarity_of
from tests.chance import tries
from tests.engine.run_comparison.folder import compute
from tests.engine.run_comparison.jobs import item, perf_data, two_jobs, write_run

SIDES: dict[str, Any] = {"left": ("left-job",), "right": ("right-job",)}


def _rows(result: Any) -> dict[str, dict[str, Any]]:
    return {row["bucket"]: row for row in result.tables["metrics"].iter_rows(named=True)}


def test_values_below_the_cutoff_count_as_the_cutoff(tmp_path: Path) -> None:
    pods = {"left-job": 400.0, "right-job": 900.0}
    for job, api in (("left-job", 10.0), ("right-job", 49.0)):
        for i in range(3):
            files = {
                "APIResponsiveness_load_T.json": perf_data(
                    [item({"Perc90": api, "Perc99": api * 3, "Perc50": 1}, Verb="GET", Count="50")]
                ),
                "PodStartupLatency_x_load_T.json": perf_data(
                    [item({"Perc90": pods[job], "Perc100": 1}, Metric="pod_startup")]
                ),
            }
            write_run(tmp_path, job, i, files)
    result = compute(tmp_path, mode="published", **SIDES)
    rows = {(r["verb"], r["bucket"]): r for r in result.tables["metrics"].iter_rows(named=True)}
    assert rows.keys() == {("GET", "Perc90"), ("GET", "Perc99"), ("Pod-Startup", "Perc90")}
    assert (rows["GET", "Perc90"]["ratio"], rows["GET", "Perc90"]["similarity"]) == (1.0, 1.0)
    assert rows["GET", "Perc99"]["ratio"] == pytest.approx(50 / 147)
    assert rows["Pod-Startup", "Perc90"]["matched"]
    assert (result.summary["matched"], result.summary["total"], result.summary["pass"]) == (2, 3, False)
    assert result.summary["similarity"] == pytest.approx((2 + 50 / 147) / 3)


def test_published_limits_are_inclusive(tmp_path: Path) -> None:
    assert _rows(compute(two_jobs(tmp_path / "a", [150.0] * 3, [100.0] * 3), mode="published", **SIDES))["Perc90"][
        "matched"
    ]
    assert _rows(compute(two_jobs(tmp_path / "b", [66.0] * 3, [100.0] * 3), mode="published", **SIDES))["Perc90"][
        "matched"
    ]
    assert not _rows(compute(two_jobs(tmp_path / "c", [151.0] * 3, [100.0] * 3), mode="published", **SIDES))["Perc90"][
        "matched"
    ]


@tries(12)
@given(st.integers(1, 8), st.integers(1, 8), st.integers(0, 2**32 - 1), st.sampled_from(["distribution", "overlap"]))
def test_similarity_is_a_score(n1: int, n2: int, seed: int, name: str) -> None:
    rng = np.random.default_rng(seed)
    left, right = rng.normal(0, 2, (4, n1)), rng.normal(0, 2, (4, n2))
    score = similarity_of(name, left, right)
    assert ((score >= 0) & (score <= 1)).all()
    assert similarity_of(name, left, left) == pytest.approx(1.0)
    assert score == pytest.approx(similarity_of(name, right, left))


@pytest.mark.parametrize(("bucket", "wanted"), [("Perc90", "90"), ("p(95)", "95"), ("P99", "99"), ("90", "90"), ("max", None),
                                                ("perc99.9", "99.9"), ("value", None)])  # fmt: skip
def test_percentiles_by_any_name(bucket: str, wanted: str | None) -> None:
    assert percentile_of(bucket) == wanted
