"""Tables, JUnit cases and explanations of a result."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from defusedxml.ElementTree import fromstring

from engine.output.junit import to_xml
from engine.run_comparison.insight import statistical
from engine.run_comparison.parameters import ComparisonParameters
from engine.run_comparison.result.detail import junit_suite
from engine.run_comparison.view import VIEW
from tests.engine.run_comparison.folder import compute
from tests.engine.run_comparison.jobs import api_file, item, perf_data, two_jobs, write_run

SIDES: dict[str, Any] = {"left": ("left-job",), "right": ("right-job",)}


def _noisy(base: float, spread: float, n: int, seed: int) -> list[float]:
    return [float(v) for v in base * np.exp(np.random.default_rng(seed).normal(0, spread, n))]


def _rows(result: Any) -> dict[str, dict[str, Any]]:
    return {row["bucket"]: row for row in result.tables["metrics"].iter_rows(named=True)}


def test_junit_is_xml_that_counts_itself(tmp_path: Path) -> None:
    evil = {"Resource": 'a<b>&"c\x1b'}
    for job, value in (("left-job", 100.0), ("right-job", 300.0)):
        for i in range(6):
            write_run(tmp_path, job, i, {"APIResponsiveness_load_T.json": api_file(value + i, **evil)}, hour=i)
    root = fromstring(to_xml(junit_suite(compute(tmp_path, draws=200, **SIDES), ComparisonParameters(), "moderate")))
    cases = root.findall("testcase")
    assert len(cases) == int(root.attrib["tests"]) == 4
    assert len(root.findall("testcase/failure")) == int(root.attrib["failures"]) == 4
    assert 'a<b>&"c' in cases[1].attrib["name"]
    assert all(
        " × slower (left-job → right-job, q 0.0" in f.attrib["message"] for f in root.findall("testcase/failure")[1:]
    )


def test_explained_arithmetic_agrees_with_the_row(tmp_path: Path) -> None:
    result = compute(two_jobs(tmp_path, _noisy(100, 0.1, 9, 1), _noisy(130, 0.1, 9, 2)), draws=50, **SIDES)
    row = _rows(result)["Perc99"]
    left, right = result.detail.sample(row["row"])
    arithmetic = statistical.explain(left, right, 0.66, 0.05, row["q_value"])
    assert arithmetic.ratio == pytest.approx(row["ratio"])
    assert arithmetic.ratio_low == pytest.approx(row["ratio_low"])
    assert arithmetic.ratio_high == pytest.approx(row["ratio_high"])
    assert arithmetic.p_value == pytest.approx(row["p_value"])
    assert arithmetic.equivalence_p <= 0.05 and (row["verdict"], row["matched"]) == ("different", True)
    assert 0 < arithmetic.brown_forsythe_p <= 1


def test_beside_a_ratio_stand_the_values_that_it_compares(tmp_path: Path) -> None:
    """One gross value on the left moves its mean, not the ratio: the medians go with it, on the screen and in a finding."""
    left, right = [50.0, 51, 52, 49, 50, 51, 900], [100.0, 102, 99, 101, 103, 100, 98]
    result = compute(two_jobs(tmp_path, left, right), draws=50, **SIDES)
    row = _rows(result)["Perc99"]
    sides = [result.detail.sample(row["row"])[side] for side in (0, 1)]
    assert [row["median_left"], row["median_right"]] == [np.median(sides[0]), np.median(sides[1])]
    assert row["mean_right"] < row["mean_left"] and row["ratio"] > 1.9
    finding = next(one for one in result.findings if one.subject.startswith("p99"))
    assert finding.text.startswith("153 → 300 ms, 98% slower")
    upstream = _rows(compute(tmp_path, mode="upstream", **SIDES))
    assert all(row["median_left"] is None for row in upstream.values())


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
