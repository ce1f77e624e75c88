"""Upstream mode against what the comparison tool of perf-tests computed and printed."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine.core.incremental import Memo
from engine.core.view import Inputs, NoInput
from engine.run_comparison import perf_tests
from engine.run_comparison.parameters import ComparisonParameters, parse_run_rule
from engine.run_comparison.runs import selection
from engine.run_comparison.runs.runs import Run, UpstreamView
from engine.run_comparison.view import VIEW
from tests.engine.run_comparison.folder import compute, read_folder
from tests.reference import reference

LEFT, RIGHT = "ci-kubernetes-e2e-gci-gce-scalability", "ci-kubernetes-kubemark-100-gce"
FLAGS = {
    "--n-runs-count": ("select", lambda text: f"last-n-runs:{text}"),
    "--match-threshold": ("threshold", float),
    "--min-metric-avg-for-compare": ("min_average", float),
    "--min-allowed-api-request-count": ("min_count", int),
    "--comparison-scheme": ("scheme", {"Avg-Test": "avg", "KS-Test": "ks"}.__getitem__),
}


@pytest.fixture(scope="module")
def folder() -> Path:
    return reference("run-comparison")


@pytest.fixture(scope="module")
def small(folder: Path) -> Inputs:
    return read_folder(folder / "small")


def _options(flags: list[str]) -> dict[str, Any]:
    options: dict[str, Any] = {"left": (LEFT,), "right": (RIGHT,), "mode": "upstream"}
    for flag in flags:
        name, _, text = flag.partition("=")
        if name in FLAGS:
            key, convert = FLAGS[name]
            options[key] = convert(text)  # type: ignore[operator]
    return options


def test_every_metric_in_full_precision(folder: Path, small: Inputs) -> None:
    expected = json.loads((folder / "small-expected-metrics.json").read_text())
    result = compute(small, left=(LEFT,), right=(RIGHT,), mode="upstream")
    detail = result.detail
    names = ("test", "verb", "resource", "subresource", "scope", "bucket", "row")
    rows = {row[:6]: row[6] for row in result.tables["metrics"].select(names).iter_rows()}
    assert rows.keys() == {
        tuple(m[k] for k in ("Test", "Verb", "Resource", "Subresource", "Scope", "Percentile"))
        for m in expected["metrics"]
    }
    assert [run.number for run in detail.left] == expected["left_runs_selected"]
    assert [run.number for run in detail.right] == expected["right_runs_selected"]
    left, right = perf_tests.moments(detail.samples)
    for metric in expected["metrics"]:
        at = rows[tuple(metric[k] for k in ("Test", "Verb", "Resource", "Subresource", "Scope", "Percentile"))]
        one, two = detail.sample(at)
        assert one.tolist() == metric.get("Left", [])
        assert two.tolist() == metric.get("Right", [])
        for side, end in ((left, "L"), (right, "R")):
            for value, name in ((side.mean, "Avg"), (side.deviation, "StDev"), (side.maximum, "Max")):
                assert value[at] == pytest.approx(float(metric[name + end]), rel=1e-9, abs=1e-9, nan_ok=True)


@pytest.mark.parametrize("scheme", ["avg", "ks"])
def test_every_verdict_at_every_threshold(folder: Path, small: Inputs, scheme: str) -> None:
    expected = json.loads((folder / "small-expected-metrics.json").read_text())["metrics"]
    memo = Memo()
    checked = 0
    for pair in expected[0]["Avg"]:
        threshold, average = (float(text) for text in re.findall(r"[\d.]+", pair))
        result = compute(
            small, memo, left=(LEFT,), right=(RIGHT,), mode="upstream", scheme=scheme, threshold=threshold,
            min_average=average,
        )  # fmt: skip
        names = ("test", "verb", "resource", "subresource", "scope", "bucket", "matched", "ratio", "p_value")
        rows = {row[:6]: row[6:] for row in result.tables["metrics"].select(names).iter_rows()}
        for metric in expected:
            key = tuple(metric[k] for k in ("Test", "Verb", "Resource", "Subresource", "Scope", "Percentile"))
            matched, ratio, p_value = rows[key]
            assert matched == metric["Avg" if scheme == "avg" else "KS"][pair], key
            if scheme == "avg":
                assert ratio == pytest.approx(metric["AvgRatio"], rel=1e-12)
            else:
                assert p_value == pytest.approx(metric["KSP"], rel=1e-9)
            checked += 1
    assert checked == len(expected) * len(expected[0]["Avg"])


def _blocks(text: str) -> dict[tuple[str, str], list[str]]:
    found: dict[tuple[str, str], list[str]] = {}
    for block in re.split(r"\n(?=Perc)", text):
        head, *lines = [line for line in block.splitlines() if line.strip()]
        percentile, word = head.partition(":")[0].split()
        assert lines[0].split() == ["E2E", "TEST", "VERB", "RESOURCE", "SUBRESOURCE", "SCOPE", "PERCENTILE", "COMMENTS"]
        found[percentile, word] = [re.sub(r"\s{2,}", "  ", line.strip()) for line in lines[1:]]
    return found


def test_the_six_printed_tables(folder: Path, small: Inputs) -> None:
    for case in json.loads((folder / "small-expected-cli.json").read_text()):
        options = _options(case["flags"])
        result = compute(small, **options)
        printed = VIEW.upstream(result, ComparisonParameters(**options))
        assert printed is not None
        blocks = _blocks(printed)
        assert list(blocks) == [(table["percentile"], table["list"]) for table in case["tables"]]
        for table in case["tables"]:
            lines = blocks[table["percentile"], table["list"]]
            wanted = [row["line"] for row in table["rows"]]
            if "order" in table:
                lines, wanted = sorted(lines), sorted(wanted)
            assert lines == wanted, (case["flags"], table["percentile"], table["list"])
        detail = result.detail
        assert [r.number for r in detail.left] == case["runs_selected"][LEFT]
        assert [r.number for r in detail.right] == case["runs_selected"][RIGHT]


def test_other_modes_print_nothing_upstream(small: Inputs) -> None:
    assert VIEW.upstream(compute(small, mode="published"), ComparisonParameters(mode="published")) is None


def test_selection_cases(folder: Path) -> None:
    now = 1_800_000_000_000
    for case in json.loads((folder / "selection-cases.json").read_text()):
        runs = []
        for entry in case["runs"]:
            age = entry["age_hours"]
            start_s = None if age is None else (now - round(age * 3_600_000)) // 1000
            read = UpstreamView(start_s, entry["finished"] == "SUCCESS")
            runs.append(Run(("job",), "job", str(entry["build"]), entry["build"], ci=True, upstream=read))
        text = f"{case['scheme']}:{case['n']}"
        if case["error"]:
            with pytest.raises(ValueError, match="unknown run selection"):
                parse_run_rule(text)
            continue
        chosen = selection.apply(parse_run_rule(text), runs, now, strict=True)
        assert [run.number for run in chosen] == case["selected"], case["name"]


def test_ks_of_separated_samples() -> None:
    wanted = [0.6994, 0.2700, 0.0996, 0.0366, 0.0135, 0.0050, 0.0018]
    for n, p in enumerate(wanted, start=1):
        assert perf_tests.go_ks_p(np.array([1.0]), n, n)[0] == pytest.approx(p, abs=5e-5)
    assert perf_tests.go_ks_p(np.array([0.0]), 3, 3)[0] == 1.0


def test_go_prints_odd_numbers() -> None:
    assert [perf_tests.go_fixed(v, 2) for v in (math.nan, math.inf, -math.inf, 1.005, None)] == [
        "NaN", "+Inf", "-Inf", "1.00", "NaN",
    ]  # fmt: skip


def test_test_name_splits_the_whole_path() -> None:
    rest = "artifacts/APIResponsiveness_density_pod-affinity_T.json"
    assert perf_tests.test_name("job", "1", rest) == "pod-affinity"
    assert perf_tests.test_name("job", "1", "artifacts/APIResponsiveness_load_overall.json") == "load"
    assert perf_tests.test_name("job", "1", "artifacts/APIResponsiveness_load.json") is None
    assert (
        perf_tests.test_name("a_job", "1", "artifacts/APIResponsiveness_load.json")
        == "job/1/artifacts/APIResponsiveness"
    )


def test_no_runs_on_a_side_is_no_input(small: Inputs) -> None:
    with pytest.raises(NoInput, match="left side"):
        compute(small, left=("no-such-job",), right=(RIGHT,), mode="upstream")
    with pytest.raises(NoInput):
        compute(small, left=(LEFT,), right=(RIGHT,), mode="upstream", select="last-n-runs:0")
