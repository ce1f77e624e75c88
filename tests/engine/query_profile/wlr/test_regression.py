"""Weighted linear regression against the numbers of VividCortex' program, and by its properties."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.query_profile.wlr.regression import Moments, Sums, quality
from tests.chance import tries
from tests.engine.query_profile.builders import compute, folder, recognised
from tests.reference import reference

FILES = [
    ("001.csv", "upstream/001-on-001.full.json"),
    ("capture-pg15/wlr-layout/time_us.csv", "capture-pg15/wlr-layout/upstream-time_us.full.json"),
]


def close(found: Any, wanted: Any, relative: float) -> bool:
    """Whether two numbers agree; not-finite ones are texts in the golden file and null here."""
    number = float(wanted)
    if not math.isfinite(number):
        return found is None
    return math.isclose(found, number, rel_tol=relative, abs_tol=1e-12)


@pytest.mark.parametrize(("data", "golden"), FILES)
@pytest.mark.parametrize("rules", ["upstream", "safe"])
def test_every_number_of_vividcortex_program(data: str, golden: str, rules: str) -> None:
    root = reference("query-profile")
    wanted = json.loads((root / golden).read_text())
    result = compute(folder(root / data), method="wlr", rules=rules)
    rows = {row["class"]: row for row in result.tables["classes"].iter_rows(named=True)}
    for name, numbers in wanted["classes"].items():
        row = rows[name]
        assert row["n"] == numbers["n"]
        assert close(row["slope"], numbers["slope"], 1e-9)
        assert close(row["intercept"], numbers["intercept"], 1e-9)
        assert close(row["r2"], numbers["r2"], 1e-9)
        assert close(row["slope_stderr"], numbers["slope_se"], 1e-9)
        if rules == "upstream":
            assert close(row["intercept_stderr"], numbers["intercept_se"], 1e-9)
    fitted = {name for name, row in rows.items() if row["n"]}
    assert fitted == set(wanted["classes"])
    predictions = result.tables["predictions"]
    assert predictions["actual"].to_list() == [a for a, _ in wanted["predictions"]]
    for found, (_, number) in zip(predictions["predicted"].to_list(), wanted["predictions"], strict=True):
        assert close(found, number, 1e-12 if rules == "upstream" else 1e-9)
    line = wanted["actual_vs_predicted"]
    for key in ("slope", "intercept", "r2", "mape"):
        assert close(result.summary[key], line[key], 1e-9)
    assert result.summary["rows_trained"] == result.summary["rows_predicted"] == line["n"]


def test_the_correct_intercept_error() -> None:
    """That of VividCortex' program is too large by up to sqrt(n); two correct ones were computed by hand."""
    root = reference("query-profile")
    result = compute(folder(root / "001.csv"), method="wlr", rules="upstream")
    rows = {row["class"]: row for row in result.tables["classes"].iter_rows(named=True)}
    for name, right, wrong in (("q.6368bf5907564a9f", 7.67e4, 8.15e5), ("e.785f8ac3c1ea1c93", 133, 2104)):
        found = next(row for key, row in rows.items() if key.startswith(name[:8]))
        assert math.isclose(found["intercept_stderr_correct"], right, rel_tol=5e-3)
        assert abs(found["intercept_stderr"]) > 5 * right
        assert wrong > right


def row_by_row(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The six sums as a program that reads line by line makes them."""
    sums = np.zeros((6, x.shape[1]))
    for row, target in zip(x.tolist(), y.tolist(), strict=True):
        total = sum(row)
        if target == 0 or total == 0:
            continue
        ratio = target / total
        for j, value in enumerate(row):
            if value > 0:
                z = ratio * value
                for k, term in enumerate((1.0, value, z, value * value, value * z, z * z)):
                    sums[k, j] += term
    return sums


whole = st.integers(0, 10**8)


@st.composite
def tables(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray]:
    rows, classes = draw(st.integers(0, 12)), draw(st.integers(1, 4))
    x = np.array(draw(st.lists(whole, min_size=rows * classes, max_size=rows * classes)), float)
    y = np.array(draw(st.lists(whole, min_size=rows, max_size=rows)), float)
    return x.reshape(rows, classes), y


@tries(12)
@given(tables(), st.integers(0, 12))
def test_sums_are_those_of_a_line_by_line_program_and_add(table: tuple[np.ndarray, np.ndarray], cut: int) -> None:
    x, y = table
    whole_sums = Sums.zero(x.shape[1]).add(x, y)
    found = np.stack([whole_sums.n, whole_sums.sx, whole_sums.sz, whole_sums.sxx, whole_sums.sxz, whole_sums.szz])
    assert np.array_equal(found, row_by_row(x, y))
    appended = Sums.zero(x.shape[1]).add(x[:cut], y[:cut]).add(x[cut:], y[cut:])
    for name in ("n", "sx", "sz", "sxx", "sxz", "szz", "rows"):
        assert np.array_equal(getattr(appended, name), getattr(whole_sums, name))


@pytest.mark.parametrize("classes", [1, 2, 3, 600])
def test_long_tables_are_added_row_by_row_too(classes: int) -> None:
    """Batches of any height: NumPy must not add a long column pairwise, which rounds otherwise."""
    rng = np.random.default_rng(classes)
    rows = 70_000 // classes
    x = rng.random((rows, classes)) * 10.0 ** rng.integers(0, 8, (rows, classes))
    if classes < 3:  # two terms have one sum, whatever the order
        sums = Sums.zero(classes).add(x, rng.random(rows))
        plain = np.zeros(classes)
        for row in x:
            plain += row
        assert np.array_equal(sums.sx, plain)
    whole = np.round(x)
    y = np.round(rng.random(rows) * 1e6)
    sums = Sums.zero(classes).add(whole, y)
    found = np.stack([sums.n, sums.sx, sums.sz, sums.sxx, sums.sxz, sums.szz])
    assert np.array_equal(found, row_by_row(whole, y))


@tries(12)
@given(tables(), st.integers(0, 12))
def test_moments_agree_with_a_direct_fit_and_merge(table: tuple[np.ndarray, np.ndarray], cut: int) -> None:
    x, y = table
    lines = Moments.zero(x.shape[1]).add(x, y).lines()
    parts = Moments.zero(x.shape[1]).add(x[:cut], y[:cut]).merge(Moments.zero(x.shape[1]).add(x[cut:], y[cut:])).lines()
    use = (y != 0) & (x.sum(axis=1) != 0)
    for j in range(x.shape[1]):
        here = use & (x[:, j] > 0)
        xs = x[here, j]
        z = xs * (y[here] / x[here].sum(axis=1))
        assert lines.n[j] == len(xs)
        if len(xs) > 1 and np.ptp(xs) > 1e-3 * xs.max():
            slope = np.sum((xs - xs.mean()) * (z - z.mean())) / np.sum((xs - xs.mean()) ** 2)
            assert math.isclose(lines.slope[j], slope, rel_tol=1e-7, abs_tol=1e-9 * z.max() / xs.max())
        assert math.isclose(lines.slope[j], parts.slope[j], rel_tol=1e-6, abs_tol=1e-9)
        assert np.isfinite([lines.slope[j], lines.intercept[j], lines.r2[j], lines.slope_stderr[j]]).all()


@pytest.mark.parametrize("rows", [255, 256, 257, 512])
def test_rows_of_one_batch_are_counted_in_small_numbers_only_if_these_hold_them(rows: int) -> None:
    x, y = np.ones((rows, 2)), np.ones(rows)
    for sums in (Moments.zero(2).add(x, y), Sums.zero(2).add(x, y)):
        assert sums.n.tolist() == [rows, rows]


def test_totals_without_clamps_are_the_shares_of_every_interval() -> None:
    """Per class, sum(a + b x) = sum z: WLR's totals are shares of y by time."""
    rng = np.random.default_rng(5)
    x = rng.integers(1, 10**6, (50, 4)).astype(float)
    y = rng.integers(10**6, 10**7, 50).astype(float)
    lines = Moments.zero(4).add(x, y).lines()
    raw = lines.intercept * 50 + lines.slope * x.sum(axis=0)
    assert np.allclose(raw, (x * (y / x.sum(axis=1))[:, None]).sum(axis=0), rtol=1e-9)
    assert lines.contributions().sum() >= raw.sum() * (1 - 1e-12)
    assert np.isclose(lines.contributions().sum(), lines.predict(x).sum(), rtol=1e-9)


def csv(rows: list[str]) -> bytes:
    return ("\n".join(rows) + "\n").encode()


def test_a_class_without_spread() -> None:
    """The program's slope of a constant class is 0/0 or rounding noise; the safe line goes through the origin."""
    rows = ["q.a,q.b,user_us"] + [f"700,{100 + 10 * i},{1000 + 37 * i}" for i in range(9)]
    safe = compute({"t.csv": csv(rows)}, method="wlr", rules="safe").tables["classes"]
    row = safe.filter(safe["class"] == "q.a").row(0, named=True)
    assert row["flag"] == "no spread"
    assert row["intercept"] == 0
    assert row["slope"] > 0
    assert row["slope_stderr"] == 0
    exact = compute({"t.csv": csv(rows)}, method="wlr", rules="upstream").tables["classes"]
    row = exact.filter(exact["class"] == "q.a").row(0, named=True)
    assert row["flag"] == "no spread"


def test_an_infinite_slope_makes_predictions_infinite_only_by_the_rules_of_the_program() -> None:
    """The sums' rounding can leave 0 below and something above the line: slope +Inf."""
    for value in range(3, 4000, 7):
        x = np.full((3, 1), value / 10)
        y = np.array([1.0, 2.0, 4.0]) * value * 0.7
        lines = Sums.zero(1).add(x, y).lines()
        if np.isposinf(lines.slope[0]):
            assert np.isposinf(lines.predict(x)).all()
            assert np.isfinite(Moments.zero(1).add(x, y).lines().predict(x)).all()
            return
    pytest.fail("no rounding trap found among the constants tried")


def test_lines_through_one_or_two_points() -> None:
    rows = ["q.one,q.two,q.none,user_us", "10,20,0,90", "0,40,0,160"]
    frame = compute({"t.csv": csv(rows)}, method="wlr", rules="upstream").tables["classes"]
    found = {row["class"]: row for row in frame.iter_rows(named=True)}
    assert (found["q.one"]["n"], found["q.one"]["slope"], found["q.one"]["intercept"]) == (1, 3.0, 0.0)
    assert (found["q.two"]["n"], found["q.two"]["slope"], found["q.two"]["intercept"]) == (2, 5.0, -40.0)
    assert found["q.two"]["slope_stderr"] == 0
    assert (found["q.none"]["n"], found["q.none"]["slope"], found["q.none"]["y_total"]) == (0, 0.0, 0.0)


def test_rows_that_the_program_skips() -> None:
    """y = 0 trains nothing and gets no prediction by the program's rules; S = 0 trains nothing."""
    rows = ["q.a,user_us", "10,0", "0,50", "10,20", "20,40", "30,66"]
    exact = compute({"t.csv": csv(rows)}, method="wlr", rules="upstream")
    assert exact.summary["rows_trained"] == 3
    assert exact.tables["predictions"]["row"].to_list() == [2, 3, 4, 5]
    safe = compute({"t.csv": csv(rows)}, method="wlr", rules="safe")
    assert safe.tables["predictions"]["row"].to_list() == [1, 2, 3, 4, 5]
    assert safe.tables["intervals"]["used"].to_list() == [False, False, True, True, True]


def test_nan_poisons_the_program_and_is_left_out_of_the_safe_form() -> None:
    rows = ["q.a,q.b,user_us", "10,5,30", "20,NaN,50", "30,7,80", "45,9,100"]
    exact = compute({"t.csv": csv(rows)}, method="wlr", rules="upstream")
    row = exact.tables["classes"].filter(exact.tables["classes"]["class"] == "q.a").row(0, named=True)
    assert row["n"] == 4
    assert row["slope"] is None or math.isnan(row["slope"])
    safe = compute({"t.csv": csv(rows)}, method="wlr", rules="safe")
    row = safe.tables["classes"].filter(safe.tables["classes"]["class"] == "q.a").row(0, named=True)
    assert row["n"] == 3
    assert row["slope"] > 0
    assert any(p.kind == "not-finite" and p.line == 3 for p in safe.problems)


def test_quality_without_rows_is_not_a_number() -> None:
    assert math.isnan(quality(np.zeros(3), np.ones(3)).mape)


@pytest.mark.parametrize("header", ["update,timeline,user_us", "[red],{b},user_us", "#a,b,user_us", "\n\na,b,user_us"])
def test_any_class_name(header: str) -> None:
    result = compute({"table": f"{header}\n1,2,3\n4,5,7\n".encode()}, method="wlr", rules="upstream")
    assert result.summary["rows_trained"] == 2
    assert "wlr-csv" not in recognised("x.csv", b"captured_at,user_us,system_us\n1,2,3\n")
