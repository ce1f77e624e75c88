"""No number makes a method fail: from 1e-320 to 1e300, zeros, single rows, constant columns, classes that sleep."""

from __future__ import annotations

import json
import math
import warnings

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.core.view import Result
from engine.output import report
from engine.query_profile.result.detail import Detail
from engine.query_profile.tables import METHODS
from engine.query_profile.view import VIEW
from tests.chance import tries
from tests.engine.query_profile.builders import capture, compute, snapshot

Table = list[list[float]]
"""Rows of the times of each class and y."""

EDGES = (0.0, 5e-324, 1e-320, 2.3e-308, 1e-160, 1e-31, 1e-29, 700.0, 1e29, 1e31, 1e154, 1e300)


@st.composite
def columns(draw: st.DrawFn, rows: int) -> list[float]:
    """The values of one column: of any size, all near one size, constant, or mostly 0."""
    anything = st.sampled_from(EDGES) | st.floats(-320, 300).map(lambda power: 10.0**power)
    shape = draw(st.sampled_from(("any", "usual", "constant", "asleep", "signed")))
    if shape == "constant":
        return [draw(anything)] * rows
    element = {
        "any": anything,
        "usual": st.integers(0, 10**6).map(float),
        "asleep": st.sampled_from((0.0, 0.0, 342.0)),
        "signed": anything | anything.map(lambda value: -value),
    }[shape]
    return draw(st.lists(element, min_size=rows, max_size=rows))


@st.composite
def tables(draw: st.DrawFn) -> tuple[Table, Table | None]:
    """Times and y, and perhaps calls beside them."""
    rows = draw(st.sampled_from((1, 2, 3, 5, 21, 62)))
    classes = draw(st.integers(1, 4))
    several = [draw(columns(rows)) for _ in range(classes + 1)]
    table = [list(row) for row in zip(*several, strict=True)]
    if draw(st.booleans()):  # y follows the times, so that there is something to find
        for row in table:
            row[-1] = 2 * sum(row[:-1])
    calls = None
    if draw(st.booleans()):
        counted = [draw(columns(rows)) for _ in range(classes)]
        calls = [[*counts, row[-1]] for counts, row in zip(zip(*counted, strict=True), table, strict=True)]
    return table, calls


def csv(table: Table) -> bytes:
    names = [f"q.{j}" for j in range(len(table[0]) - 1)]
    lines = [",".join(map(repr, row)) for row in table]
    return "\n".join([",".join([*names, "user_us"]), *lines, ""]).encode()


def answered(files: dict[str, bytes], **choices: str) -> Result:
    """Compute everything that a screen or report shows, without an exception or warning."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", ResourceWarning)  # files of other tests, collected meanwhile
        result = compute(files, draws="24", what_if="q.0", compare="1..2", **choices)
        printed = VIEW.upstream(result, VIEW.parameters())
        assert printed is not None or result.detail is None
        json.loads(report.to_json(VIEW, result, VIEW.parameters(), 0))
        if isinstance(result.detail, Detail):
            result.detail.fit()
            result.detail.drill(result.tables["classes"], "q.0")
            result.detail.saving(result.tables["classes"], "q.0", 2.0, False)
    return result


def all_finite(result: Result) -> bool:
    """Whether every class has a finite CPU, by every method that has no traps of its own."""
    classes = result.tables["classes"]
    names = ["y_total", *(f"y_{name}" for name in METHODS if name != "wlr")]
    return all(value is not None and math.isfinite(value) for name in names for value in classes[name].to_list())


@tries(12)
@given(tables(), st.sampled_from(("default", "default", "wlr", "ols", "nnls", "ratio")))
def test_any_numbers_are_answered(drawn: tuple[Table, Table | None], method: str) -> None:
    table, calls = drawn
    files = {"t.csv": csv(table), **({"t_calls.csv": csv(calls)} if calls is not None else {})}
    result = answered(files, method=method)
    if result.summary.get("intervals_used"):
        assert all_finite(result)
    answered(files, method="wlr", rules="upstream")


@pytest.mark.parametrize("power", [-320, -160, -40, 0, 20, 160, 290])
def test_a_table_in_any_unit(power: int) -> None:
    """Where numbers are times at all, the unit changes no share of the CPU."""
    unit = 10.0**power
    rows = [[(100 + 7 * i % 50) * unit, (30 + 11 * i % 70) * unit] for i in range(40)]
    result = answered({"t.csv": csv([[a, b, 2 * a + 0.5 * b] for a, b in rows])})
    if abs(power) > 30:
        assert not result.summary.get("intervals_used")
        return
    share = dict(result.tables["classes"].select("class", "y_share").iter_rows())
    truth = 2 * sum(a for a, _ in rows) / sum(2 * a + 0.5 * b for a, b in rows)
    assert share["q.0"] == pytest.approx(truth, abs=0.03)


def test_classes_that_sleep_alone() -> None:
    """Past the elbow, intervals that hold only a class that costs nothing: there is no work to compare their CPU with."""
    rows: Table = []
    for i in range(40):
        busy = 0.0 if i % 5 == 0 else 1000.0 + 37 * (i % 13) ** 2
        rows.append([busy, 0.0 if busy else 342.0 + i, 500.0 if busy == 0 else 3000 * math.log1p(busy)])
    assert all_finite(answered({"t.csv": csv(rows)}))


def test_times_that_always_add_up_to_the_same() -> None:
    """What all classes together take never varies: their common cost must not come from rounding."""
    rows = [[float(100 + 83 * i % 700), 1000.0 - (100 + 83 * i % 700)] for i in range(60)]
    result = answered({"t.csv": csv([[a, b, 2 * a + 3 * b] for a, b in rows])})
    assert all_finite(result)
    assert result.tables["classes"]["y_total"].sum() <= 1.001 * result.summary["y_measured"]


def test_few_values_over_and_over() -> None:
    rows = [[700.0 + 100 * (i % 2), 700.0 + 200 * (i // 2 % 2)] for i in range(2000)]
    result = answered({"t.csv": csv([[a, b, 2 * a + b + i % 7] for i, (a, b) in enumerate(rows)])})
    found = dict(result.tables["classes"].select("class", "y_total").iter_rows())
    assert found["q.0"] == pytest.approx(2 * sum(a for a, _ in rows), rel=0.05)
    assert found["q.1"] == pytest.approx(sum(b for _, b in rows), rel=0.1)


@pytest.mark.parametrize("cpu", [[0] * 8, [0, *[10**18] * 7], list(range(8))])
@pytest.mark.parametrize("ms", [0.0, 1e-320, 1e-12, 1e17])
def test_snapshots_of_odd_counters(cpu: list[int], ms: float) -> None:
    texts = [snapshot((1, i, ms * i), (2, 10 * i, 5.0 * i)) for i in range(8)]
    answered(capture(*texts, cpu=cpu))
