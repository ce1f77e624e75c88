"""What check fails for: regressions do, improvements never do, and JUnit says the same."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from engine.core.view import LEVELS, Inputs, at_least
from engine.output.junit import to_xml
from engine.run_comparison.parameters import ComparisonParameters
from engine.run_comparison.result import result_tables
from engine.run_comparison.result.detail import arithmetic
from engine.run_comparison.view import VIEW
from tests.engine.run_comparison.folder import compute, read_folder
from tests.engine.run_comparison.jobs import item, perf_data, write_run
from tui.__main__ import main

SIDES: dict[str, Any] = {"left": ("left-job",), "right": ("right-job",)}


def jobs(root: Path, factors: dict[str, float], unit: str = "ms", runs: int = 8) -> Path:
    """Two jobs whose metrics differ by a factor each, with a little noise; a factor of 0 makes the right side zeros, one
    below 0 the left side."""
    rng = np.random.default_rng(3)
    for job in ("left-job", "right-job"):
        for number in range(1, runs + 1):
            items = []
            for name, factor in factors.items():
                value = 100.0 * float(np.exp(rng.normal(0, 0.02)))
                if factor <= 0:
                    value *= (job == "left-job") == (factor == 0)
                elif job == "right-job":
                    value *= factor
                items.append(item({"Perc50": value}, unit, Verb="GET", Resource=name, Scope="resource", Count="100"))
            write_run(root, job, number, {"APIResponsiveness_load_T.json": perf_data(items)}, hour=number)
    return root


@pytest.fixture(scope="module")
def read(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Inputs]:
    """``jobs`` as inputs, made and read once for all that look at them."""
    made: dict[Any, Inputs] = {}

    def inputs(factors: dict[str, float], unit: str = "ms") -> Inputs:
        key = (tuple(factors.items()), unit)
        if key not in made:
            made[key] = read_folder(jobs(tmp_path_factory.mktemp("jobs"), factors, unit))
        return made[key]

    return inputs


def outcome(result: Any, parameters: ComparisonParameters, level: Any) -> tuple[bool, int]:
    """Whether check fails, and the number of failures in JUnit."""
    suite = ET.fromstring(to_xml(VIEW.junit(result, parameters, level)))
    assert len(suite.findall("testcase/failure")) == int(suite.attrib["failures"])
    return bool(at_least(result.findings, level)), int(suite.attrib["failures"])


MANY = {f"same-{i}": 1.0 for i in range(30)}
CASES: dict[str, tuple[dict[str, float], dict[str, Any], bool, int]] = {
    "nothing differs": (MANY, {}, False, 0),
    "three are worse and the whole passes": ({**MANY, "a": 2.0, "b": 3.0, "c": 1.9}, {}, True, 3),
    "three are better": ({**MANY, "a": 0.5, "b": 0.3, "c": 0.4}, {}, False, 0),
    "all are better, so that the whole fails": ({f"m{i}": 0.3 for i in range(12)}, {}, False, 0),
    "all are worse": ({f"m{i}": 3.0 for i in range(12)}, {}, True, 13),
    "as many as may pass": ({**MANY, "a": 2.0, "b": 3.0}, {"regressions": 2}, False, 0),
    "one more than may pass": ({**MANY, "a": 2.0, "b": 3.0, "c": 4.0}, {"regressions": 2}, True, 3),
    "worse by less than counts": ({**MANY, "a": 2.0, "b": 3.0}, {"worse_by": 2.5}, False, 0),
    "one is worse by enough": ({**MANY, "a": 2.0, "b": 3.0}, {"worse_by": 1.5}, True, 1),
    "higher is better": ({**MANY, "a": 0.4}, {"direction": ("*=higher",), "worse_by": 0.5}, True, 1),
    "higher is better, and it is": ({**MANY, "a": 3.0}, {"direction": ("*=higher",)}, False, 0),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("mode", ["statistical", "upstream", "published"])
def test_check_and_junit_agree(name: str, mode: str, read: Callable[..., Inputs]) -> None:
    factors, options, fails, failures = CASES[name]
    options = {**options, "mode": mode, "draws": 100, "percentiles": ("50",), **SIDES}
    result = compute(read(factors), **options)
    parameters = ComparisonParameters(**options)
    assert outcome(result, parameters, VIEW.fail_on) == (fails, failures), result.findings[:3]
    for level in LEVELS[2:]:
        failed, count = outcome(result, parameters, level)
        assert failed == (count > 0), level
    better = result.tables["metrics"].filter(pl.col("effect") == "better")
    assert better.filter("regression").is_empty()
    for row in better.iter_rows(named=True):
        assert not {fact.level for fact in arithmetic(result.detail, row, parameters) if fact.label == "verdict"} & {
            "moderate", "severe", "critical",
        }  # fmt: skip
    assert not {f.level for f in result.findings if f.text.endswith(", better")} - {"ok"}
    if name.startswith("all are better"):
        verdict = next(number for number in result.headline if number.label == "Similar enough")
        assert (verdict.level, result.headline[0].level) == ("low", "ok")


def test_the_command_line_exits_as_junit_says(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    root, file = jobs(tmp_path / "jobs", {**MANY, "a": 2.0, "b": 0.5}), tmp_path / "junit.xml"
    for options, code in (
        ([], 1),
        (["-o", "regressions=1"], 0),
        (["-o", "worse-by=2"], 0),
        (["--fail-on", "critical"], 0),
    ):
        words = ["check", "run-comparison", str(root), "--no-cache", "--junit", str(file), *options]
        assert main(words) == code
        out = capfd.readouterr().out
        assert int(ET.parse(file).getroot().attrib["failures"]) == code
        assert ("SEVERE p50 of GET a (load): 98 → 201 ms, 2.0 × slower (left-job → right-job, q" in out) == (code == 1)
        assert " b " not in out


def test_more_regressions_than_are_listed(read: Callable[..., Inputs], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(result_tables, "MAX_FINDINGS", 5)
    result = compute(read({f"m{i}": 3.0 for i in range(12)}), draws=50, **SIDES)
    assert [f.text for f in result.findings if f.subject == "comparison"][1:] == ["7 more regressions"]
    assert outcome(result, ComparisonParameters(), "severe") == (True, 13)
    assert [f.subject for f in at_least(result.findings, "severe")].count("comparison") == 2


@pytest.mark.parametrize(
    ("unit", "factor", "effect"),
    [("ms", 0.0, ""), ("ms", -1.0, ""), ("sec/op", 0.0, ""), ("count", 0.0, "better"), ("count", -1.0, "worse")],
)
def test_a_side_of_zeros(unit: str, factor: float, effect: str, read: Callable[..., Inputs]) -> None:
    result = compute(read({**MANY, "zero": factor}, unit), draws=50, **SIDES)
    (row,) = result.tables["metrics"].filter(pl.col("resource") == "zero").iter_rows(named=True)
    assert (row["verdict"], row["effect"], row["regression"]) == ("different", effect, effect == "worse")
    for name in ("ratio", "ratio_low", "ratio_high"):
        assert row[name] is None or row[name] >= 0


@pytest.mark.parametrize("unit", ["s", "ms", "us"])
@pytest.mark.parametrize("factor", [0.0, -1.0])
def test_a_side_of_zero_times_is_neither_in_the_tools_own_units(
    unit: str, factor: float, read: Callable[..., Inputs]
) -> None:
    """The benchmark tool's keys have the written unit."""
    result = compute(read({**MANY, "zero": factor}, unit), mode="upstream", min_average=0.0, **SIDES)
    (row,) = result.tables["metrics"].filter(pl.col("resource") == "zero").iter_rows(named=True)
    assert (row["effect"], row["regression"]) == ("", False)


def test_a_change_from_zero_is_larger_than_any_size(read: Callable[..., Inputs]) -> None:
    result = compute(read({**MANY, "restarts": -1.0}, "count"), draws=50, worse_by=1000.0, **SIDES)
    assert result.summary["regressions"] == 1
