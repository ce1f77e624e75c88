"""The three answers on runs made for them: verdicts, overall verdict, sides, change points, one bad run, JUnit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine.core.incremental import Memo
from engine.core.parameters import BadOption, options, parse
from engine.core.view import Cancelled, Context, NoInput
from engine.run_comparison.parameters import ComparisonParameters
from engine.run_comparison.view import VIEW
from tests.engine.run_comparison.folder import compute, problems_of, read_folder
from tests.engine.run_comparison.jobs import api_file, two_jobs, write_run

SIDES: dict[str, Any] = {"left": ("left-job",), "right": ("right-job",)}


def _noisy(base: float, spread: float, n: int, seed: int) -> list[float]:
    return [float(v) for v in base * np.exp(np.random.default_rng(seed).normal(0, spread, n))]


def _rows(result: Any) -> dict[str, dict[str, Any]]:
    return {row["bucket"]: row for row in result.tables["metrics"].iter_rows(named=True)}


def test_equal_jobs_pass_and_are_equivalent(tmp_path: Path) -> None:
    result = compute(two_jobs(tmp_path, _noisy(100, 0.1, 12, 1), _noisy(100, 0.1, 12, 2)), draws=500, **SIDES)
    assert (result.summary["verdict"], result.summary["pass"]) == ("PASS", True)
    assert {row["verdict"] for row in _rows(result).values()} == {"equivalent"}
    assert result.findings[0].level == "ok"


def test_a_change_beyond_the_margin_fails(tmp_path: Path) -> None:
    result = compute(two_jobs(tmp_path, _noisy(100, 0.1, 12, 1), _noisy(200, 0.1, 12, 2)), draws=500, **SIDES)
    assert (result.summary["verdict"], result.summary["pass"]) == ("FAIL", False)
    row = _rows(result)["Perc50"]
    assert (row["verdict"], row["changed"], row["effect"], row["disagree"]) == ("different", True, "worse", False)
    assert row["ratio_low"] < row["ratio"] < row["ratio_high"]
    assert row["ratio"] == pytest.approx(2.0, rel=0.15)
    assert result.findings[0].level == "severe"


def test_a_quarter_more_is_worse_and_similar_enough(tmp_path: Path) -> None:
    result = compute(two_jobs(tmp_path, _noisy(100, 0.03, 10, 1), _noisy(125, 0.03, 10, 2)), draws=200, **SIDES)
    row = _rows(result)["Perc50"]
    assert (row["verdict"], row["effect"], row["matched"]) == ("different", "worse", True)
    assert row["q_value"] <= 0.05 and result.summary["pass"]
    smaller = _rows(compute(tmp_path, draws=200, worse_by_of=("*perc50=0.5",), **SIDES))
    assert (smaller["Perc50"]["verdict"], smaller["Perc50"]["effect"]) == ("equivalent", "")
    assert smaller["Perc99"]["effect"] == "worse"


def test_upstream_limits_are_inclusive_both_ways(tmp_path: Path) -> None:
    for name, left, right in (("a", 66.0, 100.0), ("b", 100.0, 66.0)):
        result = compute(two_jobs(tmp_path / name, [left], [right]), mode="upstream", min_average=0, **SIDES)
        assert _rows(result)["Perc50"]["matched"]


def test_both_means_zero(tmp_path: Path) -> None:
    root = two_jobs(tmp_path, [0.0], [0.0])
    assert _rows(compute(root, mode="upstream", **SIDES))["Perc50"]["matched"]
    assert not _rows(compute(root, mode="upstream", min_average=0.0, **SIDES))["Perc50"]["matched"]
    ks = _rows(compute(root, mode="upstream", min_average=0.0, scheme="ks", **SIDES))["Perc50"]
    assert (ks["matched"], ks["p_value"], ks["ratio"]) == (True, 1.0, None)
    assert _rows(compute(root, mode="published", **SIDES))["Perc90"]["ratio"] == 1.0


def test_change_points_on_the_common_axis(tmp_path: Path) -> None:
    left = _noisy(100, 0.01, 30, 1)[:15] + _noisy(180, 0.01, 15, 2)
    result = compute(two_jobs(tmp_path, left, _noisy(100, 0.01, 3, 3)), select="all", draws=20, **SIDES)
    points = result.tables["change_points"].filter(bucket="Perc50", along="both sides")
    assert points["run"].to_list() == ["115"]
    assert points["inside"].to_list() == ["left"]
    assert points["change"][0] == pytest.approx(0.8, abs=0.05)


def test_an_earlier_moment_shows_earlier_runs(tmp_path: Path) -> None:
    inputs = read_folder(two_jobs(tmp_path, [100.0] * 6, [100.0] * 6))
    at = (1_784_000_000 + 2 * 3600) * 1000
    result = VIEW.compute(inputs, ComparisonParameters(draws=20, **SIDES), Context(now_ms=at, at_ms=at))
    assert [run.number for run in result.detail.left] == [102, 101, 100]


@pytest.mark.parametrize("mode", ["upstream", "published", "statistical"])
def test_a_memo_changes_nothing(mode: str, tmp_path: Path) -> None:
    root = two_jobs(tmp_path, _noisy(100, 0.1, 5, 1), _noisy(110, 0.1, 5, 2))
    memo = Memo()
    first = read_folder(root, version=1)
    for threshold in (0.66, 0.9):
        warm = compute(first, memo, mode=mode, threshold=threshold, draws=100, **SIDES)
        assert warm.same_as(compute(first, Memo(), mode=mode, threshold=threshold, draws=100, **SIDES))
    write_run(root, "right-job", 900, {"APIResponsiveness_load_T.json": api_file(300.0)}, hour=90)
    second = read_folder(root, version=2, before=first)
    warm = compute(second, memo, mode=mode, draws=100, **SIDES)
    assert warm.same_as(compute(second, Memo(), mode=mode, draws=100, **SIDES))
    assert warm.summary["runs_right"] == 6
    back = compute(first, memo, mode=mode, draws=100, **SIDES)
    assert back.summary["runs_right"] == 5


def test_a_computation_can_be_stopped(tmp_path: Path) -> None:
    inputs = read_folder(two_jobs(tmp_path, [1.0], [1.0]))
    with pytest.raises(Cancelled):
        VIEW.compute(inputs, ComparisonParameters(), Context(now_ms=0, stop=lambda: True))


def test_nothing_to_compare_is_no_input(tmp_path: Path) -> None:
    with pytest.raises(NoInput):
        compute(tmp_path)
    write_run(tmp_path, "left-job", 1, {})
    write_run(tmp_path, "right-job", 1, {})
    with pytest.raises(NoInput):
        compute(tmp_path, **SIDES)
    with pytest.raises(NoInput, match="no report that the benchmark tool can read"):
        compute(tmp_path, mode="upstream", **SIDES)


def test_options_are_refused_with_a_reason() -> None:
    assert all(found.sentence.endswith(".") for found in options(ComparisonParameters))
    for key, text in (
        ("scheme", "median"), ("mode", "x"), ("select", "first-n-runs:3"), ("select", "last-n-runs:2.5"),
        ("now", "yesterday"), ("direction", "x"), ("worse-by-of", "a=much"),
        ("threshold", "-1"), ("draws", "many"), ("no-such", "1"),
    ):  # fmt: skip
        with pytest.raises(BadOption):
            parse(ComparisonParameters, [(key, text)])
    taken = parse(ComparisonParameters, [("left", "a, b/1"), ("min-count", "0"), ("now", "2026-07-26T00:00:00Z")])
    assert (taken.left, taken.min_count) == (("a", "b/1"), 0)


def test_the_sample_is_read_whole_and_its_player_keeps_going(tmp_path: Path) -> None:
    from sample_data.run_comparison.live import FIRST_DAY, KEEP, steps

    play = steps(tmp_path)
    next(play)
    first = compute(tmp_path, draws=50)
    assert first.problems == ()
    assert first.tables["runs"].filter("bad")["job"].to_list() == ["scale-100-simulated"]
    assert set(first.tables["runs"]["result"]) == {"SUCCESS", "FAILURE", "unfinished", ""}
    before: dict[Path, tuple[int, int]] = {}
    seen = set()
    for _ in range(40):
        now = {path: (path.stat().st_mtime_ns, path.stat().st_size) for path in tmp_path.rglob("*") if path.is_file()}
        seen |= {problem.kind for path in now if now[path] != before.get(path) for problem in problems_of(path)}
        before = now
        next(play)
    assert seen == {"cut-file"}
    for _ in range(30 * (KEEP - FIRST_DAY + 2)):
        next(play)
    later = compute(tmp_path, draws=50, select="all")
    assert later.summary["runs_left"] <= KEEP
    assert later.summary["runs_left"] > first.summary["runs_left"]
