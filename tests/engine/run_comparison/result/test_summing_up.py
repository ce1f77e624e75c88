"""The comparison in one number and one line, muted metrics, and change points of each job alone."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from engine.run_comparison.parameters import ComparisonParameters
from engine.run_comparison.view import VIEW
from tests.engine.run_comparison.folder import compute
from tests.engine.run_comparison.insight.test_regressions import MANY, SIDES, jobs, outcome

MODES = ("statistical", "upstream", "published")


@pytest.mark.parametrize("mode", MODES)
def test_the_geometric_mean_is_above_one_where_the_right_side_is_worse(mode: str, tmp_path: Path) -> None:
    """Of all ratios, whichever side a mode divides by; a metric of which higher is better counts the other way round."""
    factors = {"slow": 2.0, "slower": 4.0, "same": 1.0, "requests-throughput": 4.0}
    options: dict[str, Any] = {"mode": mode, "draws": 20, "percentiles": ("50",), "direction": ("*throughput*=higher",)}
    result = compute(jobs(tmp_path, factors), **options, **SIDES)
    assert result.summary["geometric_mean_of"] == 4
    # 2 * 4 * 1 / 4 under the fourth root, up to the noise of the samples

    assert mode == "published" or result.summary["geometric_mean"] == pytest.approx(2 ** (1 / 4), rel=0.03)
    rows = result.tables["metrics"].filter(~pl.col("pooled"))
    logs = [
        math.log(row["ratio"]) * (1 if (row["direction"] == "lower") == (mode == "statistical") else -1)
        for row in rows.iter_rows(named=True)
    ]
    assert result.summary["geometric_mean"] == pytest.approx(math.exp(sum(logs) / len(logs)))


@pytest.mark.parametrize("mode", MODES)
def test_the_headline_is_what_the_table_holds(mode: str, tmp_path: Path) -> None:
    result = compute(
        jobs(tmp_path, {**MANY, "a": 2.0, "b": 3.0, "c": 0.4}), mode=mode, draws=20, percentiles=("50",), **SIDES
    )
    rows = result.tables["metrics"].filter((pl.col("verdict") == "different") & ~pl.col("pooled"))
    counts = {word: rows.filter(pl.col("effect") == word).height for word in ("worse", "better")}
    assert counts == {"worse": 2, "better": 1}
    assert result.headline[0].value == "2 worse, 1 better" and result.headline[0].level == "severe"
    assert result.tables["groups"]["worse"].sum() == 2
    line = result.summary["review"]
    assert "\n" not in line and "2 worse, 1 better of 33 metrics" in line
    assert line.startswith("right-job against left-job: 2 worse") and "similar enough: yes" in line
    assert line.index("GET b") < line.index("GET a") and "GET c" not in line


@pytest.mark.parametrize("mode", MODES)
def test_a_muted_metric_is_shown_but_never_counted(mode: str, tmp_path: Path) -> None:
    root = jobs(tmp_path, {**MANY, "a": 2.0, "b": 3.0})
    options: dict[str, Any] = {"mode": mode, "draws": 50, "percentiles": ("50",), **SIDES}
    loud, muted = compute(root, **options), compute(root, mute=("*get A *", "load GET b*"), **options)
    assert (loud.summary["worse"], loud.summary["regressions"], loud.summary["muted"]) == (2, 2, 0)
    assert (muted.summary["worse"], muted.summary["regressions"], muted.summary["muted"]) == (0, 0, 2)
    assert muted.summary["total"] == loud.summary["total"] - 2
    assert muted.tables["metrics"].height == loud.tables["metrics"].height
    assert sorted(muted.tables["metrics"].filter("muted")["resource"]) == ["a", "b"]
    assert outcome(loud, ComparisonParameters(**options), VIEW.fail_on) == (True, 2)
    assert outcome(muted, ComparisonParameters(**options), VIEW.fail_on) == (False, 0)


def test_a_metric_can_be_muted_by_its_name(tmp_path: Path) -> None:
    """The pattern that the screen makes of a row names that row, whatever characters its name has."""
    from engine.run_comparison.insight.statistical import matching
    from engine.run_comparison.words import pattern_of

    names = ("plain", "with [brackets]", "star*", "a?b")
    rows = [
        dict.fromkeys(("test", "verb", "subresource", "scope", "bucket", "metric"), "x") | {"resource": n}
        for n in names
    ]
    columns = {key: [row[key] for row in rows] for key in rows[0]}
    for place, row in enumerate(rows):
        assert matching(columns, (pattern_of(row),))[place]
    assert not matching(columns, ("Plain",)).any() and matching(columns, ("x",)).all()


def test_change_points_of_each_job_alone(tmp_path: Path) -> None:
    """The left job alone changes its level in the middle of its runs; along both sides its runs mix with the right ones."""
    from tests.engine.run_comparison.test_view import _noisy, two_jobs

    left = _noisy(100, 0.01, 15, 1) + _noisy(180, 0.01, 15, 2)
    result = compute(two_jobs(tmp_path, left, _noisy(100, 0.01, 30, 3)), select="all", draws=20, **SIDES)
    points = result.tables["change_points"].filter(pl.col("bucket") == "Perc50")
    alone = points.filter(pl.col("along") == "left-job")
    assert alone["run"].to_list() == ["115"] and alone["change"][0] == pytest.approx(0.8, abs=0.05)
    assert points.filter(pl.col("along") == "right-job").is_empty()
