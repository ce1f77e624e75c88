"""The three answers on runs made for them: verdicts, overall verdict, sides, change points, one bad run, JUnit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from defusedxml.ElementTree import fromstring
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.incremental import Memo
from engine.junit import to_xml
from engine.parameters import BadOption, options, parse
from engine.run_comparison.insight import statistical
from engine.run_comparison.insight.evidence import gather
from engine.run_comparison.parameters import ComparisonParameters
from engine.run_comparison.perf_tests.published import SIMILARITIES, percentile_of
from engine.run_comparison.result.junit_cases import junit_suite
from engine.run_comparison.runs.samples import Samples, Side
from engine.run_comparison.runs.selection import put
from engine.run_comparison.view import VIEW
from engine.view import Cancelled, Context, NoInput
from tests.engine.run_comparison.folder import compute, problems_of, read_folder
from tests.engine.run_comparison.jobs import api_file, item, perf_data, two_jobs, write_run

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


def test_a_quarter_more_reads_equivalent_changed(tmp_path: Path) -> None:
    result = compute(two_jobs(tmp_path, _noisy(100, 0.03, 10, 1), _noisy(125, 0.03, 10, 2)), draws=200, **SIDES)
    row = _rows(result)["Perc50"]
    assert (row["verdict"], row["changed"]) == ("equivalent", True)
    assert row["q_value"] <= 0.05


def test_few_noisy_runs_are_not_enough_data(tmp_path: Path) -> None:
    result = compute(two_jobs(tmp_path, [60, 200, 90], [80, 300, 70]), draws=200, **SIDES)
    row = _rows(result)["Perc50"]
    assert row["verdict"] == "not enough data"
    assert row["runs_needed"] >= 1
    assert result.summary["pass"] is not True
    one = compute(two_jobs(tmp_path / "one", [100], [100]), draws=200, **SIDES)
    assert (one.summary["verdict"], one.summary["pass"]) == ("not enough data", None)


def test_spread_that_grows_is_different_though_the_median_stays(tmp_path: Path) -> None:
    left = [100 + i * 0.1 for i in range(-30, 30)]
    right = [100 * (4 if i % 2 else 0.25) + i * 0.1 for i in range(-30, 30)]
    row = _rows(compute(two_jobs(tmp_path, left, right), draws=50, select="all", **SIDES))["Perc50"]
    assert row["verdict"] == "different"
    assert row["spread_q"] < 0.01 < row["q_value"]


def test_missing_metrics_are_listed_apart(tmp_path: Path) -> None:
    root = two_jobs(tmp_path, [100.0] * 5, [100.0] * 5)
    write_run(root, "left-job", 200, {"APIResponsiveness_load_T.json": api_file(100.0, Resource="nodes")}, hour=20)
    upstream = compute(root, mode="upstream", **SIDES)
    nodes = upstream.tables["metrics"].filter(pl.col("resource") == "nodes")
    assert nodes["matched"].to_list() == [True] * 3
    assert nodes["n_right"].to_list() == [0] * 3
    assert upstream.summary["total"] == 6
    for mode in ("published", "statistical"):
        result = compute(root, mode=mode, draws=50, **SIDES)
        found = result.tables["metrics"].filter(pl.col("resource") == "nodes")
        assert set(found["verdict"]) == {"missing"}
        assert not any(found["matched"])
        assert set(result.tables["missing"]["side"]) == {"right"}
        assert result.summary["missing"] == found.height == result.tables["missing"].height
        assert result.summary["total"] == result.tables["metrics"].height - found.height


def test_design_mode_substitutes_cutoffs(tmp_path: Path) -> None:
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


def test_design_limits_are_inclusive(tmp_path: Path) -> None:
    assert _rows(compute(two_jobs(tmp_path / "a", [150.0] * 3, [100.0] * 3), mode="published", **SIDES))["Perc90"][
        "matched"
    ]
    assert _rows(compute(two_jobs(tmp_path / "b", [66.0] * 3, [100.0] * 3), mode="published", **SIDES))["Perc90"][
        "matched"
    ]
    assert not _rows(compute(two_jobs(tmp_path / "c", [151.0] * 3, [100.0] * 3), mode="published", **SIDES))["Perc90"][
        "matched"
    ]


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


def test_zeros_are_compared_on_the_raw_scale(tmp_path: Path) -> None:
    result = compute(two_jobs(tmp_path, [0.0] * 8, [0.0] * 8), draws=50, **SIDES)
    assert _rows(result)["Perc50"]["verdict"] == "equivalent"
    moved = compute(two_jobs(tmp_path / "b", [0.0] * 8, [5.0] * 8), draws=50, **SIDES)
    row = _rows(moved)["Perc50"]
    assert (row["verdict"], row["ratio"]) == ("different", None)


def test_one_bad_run_is_found_and_its_influence_told(tmp_path: Path) -> None:
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


def test_change_points_on_the_common_axis(tmp_path: Path) -> None:
    left = _noisy(100, 0.01, 30, 1)[:15] + _noisy(180, 0.01, 15, 2)
    result = compute(two_jobs(tmp_path, left, _noisy(100, 0.01, 3, 3)), select="all", draws=20, **SIDES)
    points = result.tables["change_points"].filter(pl.col("bucket") == "Perc50")
    assert points["run"].to_list() == ["115"]
    assert points["inside"].to_list() == ["left"]
    assert points["change"][0] == pytest.approx(0.8, abs=0.05)


def test_failed_and_unfinished_runs_are_marked_and_selectable(tmp_path: Path) -> None:
    root = two_jobs(tmp_path, [100.0] * 4, [100.0] * 4)
    write_run(root, "left-job", 300, {"APIResponsiveness_load_T.json": api_file(7.0)}, result="FAILURE", hour=30)
    write_run(root, "left-job", 301, {"APIResponsiveness_load_T.json": api_file(8.0)}, result=None, hour=31)
    runs = compute(root, draws=20, **SIDES).tables["runs"]
    shown = {row["run"]: row for row in runs.filter(pl.col("job") == "left-job").iter_rows(named=True)}
    assert (shown["300"]["result"], shown["300"]["side"]) == ("FAILURE", "")
    assert (shown["301"]["result"], shown["301"]["side"]) == ("unfinished", "")
    picked = compute(root, draws=20, left=("left-job", "left-job/300", "!left-job/100"), right=("right-job",))
    assert [run.number for run in picked.detail.left] == [103, 102, 101, 300]
    everything = compute(root, draws=20, include_failed=True, **SIDES)
    assert [run.number for run in everything.detail.left] == [301, 300, 103, 102, 101, 100]


def test_ranges_and_patterns(tmp_path: Path) -> None:
    root = two_jobs(tmp_path, [100.0] * 5, [100.0] * 5)
    result = compute(root, draws=20, left=("left-job/101..103",), right=("right-*",))
    assert [run.number for run in result.detail.left] == [103, 102, 101]
    assert len(result.detail.right) == 5
    with pytest.raises(NoInput, match="jobs: left-job, right-job"):
        compute(root, left=("nope",), right=("right-job",))


def test_one_job_is_halved_by_time(tmp_path: Path) -> None:
    for i in range(6):
        write_run(tmp_path, "only", 10 + i, {"APIResponsiveness_load_T.json": api_file(100.0 + i)}, hour=i)
    result = compute(tmp_path, draws=20)
    assert [run.number for run in result.detail.right] == [15, 14, 13]
    assert [run.number for run in result.detail.left] == [12, 11, 10]


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
    with pytest.raises(NoInput, match="no metrics"):
        compute(tmp_path, mode="upstream", **SIDES)


def test_options_are_refused_with_a_reason() -> None:
    assert all(found.sentence.endswith(".") for found in options(ComparisonParameters))
    for key, text in (
        ("scheme", "median"), ("mode", "x"), ("select", "first-n-runs:3"), ("select", "last-n-runs:2.5"),
        ("now", "yesterday"), ("direction", "x"), ("threshold", "-1"), ("draws", "many"), ("no-such", "1"),
    ):  # fmt: skip
        with pytest.raises(BadOption):
            parse(ComparisonParameters, [(key, text)])
    taken = parse(ComparisonParameters, [("left", "a, b/1"), ("min-count", "0"), ("now", "2026-07-26T00:00:00Z")])
    assert (taken.left, taken.min_count) == (("a", "b/1"), 0)


def test_junit_is_xml_that_counts_itself(tmp_path: Path) -> None:
    evil = {"Resource": 'a<b>&"c\x1b'}
    for job, value in (("left-job", 100.0), ("right-job", 300.0)):
        for i in range(6):
            write_run(tmp_path, job, i, {"APIResponsiveness_load_T.json": api_file(value + i, **evil)}, hour=i)
    root = fromstring(to_xml(junit_suite(compute(tmp_path, draws=200, **SIDES))))
    cases = root.findall("testcase")
    assert len(cases) == int(root.attrib["tests"]) == 4
    assert len(root.findall("testcase/failure")) == int(root.attrib["failures"]) == 4
    assert 'a<b>&"c' in cases[1].attrib["name"]
    assert all("ratio" in failure.attrib["message"] for failure in root.findall("testcase/failure")[1:])


def test_explained_arithmetic_agrees_with_the_row(tmp_path: Path) -> None:
    result = compute(two_jobs(tmp_path, _noisy(100, 0.1, 9, 1), _noisy(130, 0.1, 9, 2)), draws=50, **SIDES)
    row = _rows(result)["Perc99"]
    left, right = result.detail.sample(row["row"])
    told = statistical.explain(left, right, 0.66, 0.05, row["q_value"])
    assert told.ratio == pytest.approx(row["ratio"])
    assert told.ratio_low == pytest.approx(row["ratio_low"])
    assert told.ratio_high == pytest.approx(row["ratio_high"])
    assert told.p_value == pytest.approx(row["p_value"])
    assert (told.equivalence_p <= 0.05) == (row["verdict"] == "equivalent")
    assert 0 < told.brown_forsythe_p <= 1


@settings(max_examples=60, deadline=None)
@given(st.integers(3, 10), st.integers(3, 10), st.integers(0, 2**32 - 1), st.floats(0.3, 3.0), st.floats(0.5, 0.95))
def test_interval_and_one_sided_tests_agree(n1: int, n2: int, seed: int, factor: float, margin: float) -> None:
    rng = np.random.default_rng(seed)
    left, right = rng.lognormal(0, 0.2, n1), factor * rng.lognormal(0, 0.2, n2)
    told = statistical.explain(left, right, margin, 0.05, 1.0)
    inside = margin <= told.ratio_low and told.ratio_high <= 1 / margin
    assert inside == (told.equivalence_p <= 0.05 + 1e-12)


@settings(max_examples=30, deadline=None)
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


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 8), st.integers(1, 8), st.integers(0, 2**32 - 1), st.sampled_from(sorted(SIMILARITIES)))
def test_similarity_is_a_score(n1: int, n2: int, seed: int, name: str) -> None:
    rng = np.random.default_rng(seed)
    left, right = rng.normal(0, 2, (4, n1)), rng.normal(0, 2, (4, n2))
    score = SIMILARITIES[name](left, right)
    assert ((score >= 0) & (score <= 1)).all()
    assert SIMILARITIES[name](left, left) == pytest.approx(1.0)
    assert score == pytest.approx(SIMILARITIES[name](right, left))


def test_equivalence_holds_its_level() -> None:
    """At the margin itself at most 5 % may be called equivalent."""
    rng = np.random.default_rng(11)
    k, n = 2000, 8
    left, right = rng.lognormal(0, 0.2, (k, n)), 0.66 * rng.lognormal(0, 0.2, (k, n))
    place = np.tile(np.arange(n, dtype=np.int32), k)
    ends = np.arange(0, k * n + 1, n)
    samples = Samples(Side(left.ravel(), place, ends, n), Side(right.ravel(), place, ends, n))
    evidence = gather(samples, 0.05)
    words = statistical.decide(evidence, samples, 0.66, 0.05, np.ones(k, dtype=bool)).words
    assert (words == "equivalent").mean() <= 0.065


@pytest.mark.parametrize(("bucket", "wanted"), [("Perc90", "90"), ("p(95)", "95"), ("P99", "99"), ("90", "90"), ("max", None),
                                                ("perc99.9", "99.9"), ("value", None)])  # fmt: skip
def test_percentiles_by_any_name(bucket: str, wanted: str | None) -> None:
    assert percentile_of(bucket) == wanted


def test_result_tables_are_as_declared(tmp_path: Path) -> None:
    root = two_jobs(tmp_path, _noisy(100, 0.1, 5, 1), _noisy(110, 0.1, 5, 2))
    for mode in ("upstream", "published", "statistical"):
        result = compute(root, mode=mode, draws=50, **SIDES)
        for table in VIEW.tables:
            frame = result.tables[table.name]
            assert frame.schema == table.schema
            assert frame.equals(table.sorted(frame))
            assert frame.select(table.key).is_duplicated().sum() == 0
        json.dumps(dict(result.summary), allow_nan=False)


def test_putting_runs_on_sides() -> None:
    assert put(("a",), ("b",), [("a", "1")], "right") == (("a", "!a/1"), ("b", "a/1"))
    assert put(("a", "!a/1"), ("b", "a/1"), [("a", "1")], "left") == (("a", "a/1"), ("b",))
    assert put(("a",), ("b",), [("a", "1"), ("a", "2")], "") == (("a", "!a/1", "!a/2"), ("b",))
    assert put(("a", "!a/1"), ("b",), (), "right", ["a"]) == ((), ("b", "a"))


def test_groups_count_every_metric_once(tmp_path: Path) -> None:
    for job, factor in (("left-job", 1.0), ("right-job", 3.0)):
        for i in range(6):
            items = [
                item({"Perc50": 100.0 * (factor if name == "pods" else 1.0) + i}, Verb="GET", Resource=name, Count="50")
                for name in ("pods", "nodes", "events")
            ]
            write_run(tmp_path, job, i, {"APIResponsiveness_load_T.json": perf_data(items)}, hour=i)
    groups = compute(tmp_path, draws=50, group_by="resource", **SIDES).tables["groups"]
    assert groups["group"][0] == "pods"
    assert groups["different"].to_list() == [1, 0, 0]
    assert groups["worse"].sum() == 1
    assert groups["metrics"].sum() == 3


def test_usual_sides_have_most_in_common(tmp_path: Path) -> None:
    two_jobs(tmp_path, [100.0] * 3, [100.0] * 3)
    lines = ["time,latency", *(f"2024-01-{day:02d},{day}" for day in range(1, 29))]
    (tmp_path / "nightly.csv").write_text("\n".join(lines))
    result = compute(tmp_path, draws=20)
    assert (result.summary["left"], result.summary["right"]) == ("left-job", "right-job")


def test_sides_that_share_nothing_are_undecided(tmp_path: Path) -> None:
    write_run(tmp_path, "left-job", 1, {"APIResponsiveness_load_T.json": api_file(1.0, Resource="a")})
    write_run(tmp_path, "right-job", 1, {"APIResponsiveness_load_T.json": api_file(1.0, Resource="b")})
    for mode in ("statistical", "published"):
        result = compute(tmp_path, mode=mode, draws=20, **SIDES)
        assert (result.summary["total"], result.summary["pass"], result.summary["share"]) == (0, None, None)
    assert compute(tmp_path, mode="upstream", **SIDES).summary["pass"] is True


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


def test_sides_are_told_as_ranges_of_neighbouring_runs(tmp_path: Path) -> None:
    for i in range(10):
        result = "FAILURE" if i == 4 else "SUCCESS"
        files = {"APIResponsiveness_load_T.json": api_file(100.0 + i)}
        write_run(tmp_path, "only", 10 + i, files, hour=i, result=result)
    halves = compute(tmp_path, draws=20)
    assert (halves.summary["left"], halves.summary["right"]) == ("only/10..15", "only/16..19")
    assert [run.number for run in halves.detail.left] == [15, 13, 12, 11, 10]
    singly = compute(
        tmp_path,
        draws=20,
        left=tuple(f"only/{i}" for i in (10, 11, 12, 14)),
        right=tuple(f"only/{i}" for i in (16, 18)),
    )
    assert singly.summary["left"] == "only/10..12, only/14"
    assert singly.summary["right"] == "only/16, only/18"
    assert [run.number for run in singly.detail.left] == [10, 11, 12, 14]
    over_failed = compute(tmp_path, draws=20, left=tuple(f"only/{i}" for i in (13, 14, 15)), right=("only/16..19",))
    assert over_failed.summary["left"] == "only/13, only/14, only/15"  # a range would leave the failed run out
