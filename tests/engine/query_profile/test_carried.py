"""The fit before stands in until the new one is made: said so, near the new one, and gone without a trace afterwards."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from engine.query_profile.estimators.design import Recipe
from engine.query_profile.insight.fits import Fits
from engine.query_profile.insight.stale_fit import carry
from engine.query_profile.parameters import QueryProfileParameters
from engine.query_profile.view import VIEW
from engine.query_profile.workloads.workload import ClassInfo, Workload
from engine.result import Result
from engine.view import Context
from tests.engine.query_profile.made import inputs

ROWS = 44
RANDOM = np.random.default_rng(6)
TIMES = RANDOM.gamma(2, 500, (ROWS, 3)).round()
CPU = (TIMES @ [0.9, 0.4, 0.6] * RANDOM.normal(1, 0.02, ROWS)).round()


def table(begin: int, end: int, names: str = "abc", cpu: np.ndarray = CPU) -> bytes:
    """An upstream-style table of some of the intervals."""
    rows = [",".join(f"{v:.0f}" for v in (t, cpu[t], *TIMES[t, : len(names)])) for t in range(begin, end)]
    return "\n".join([f"t,user_us,{','.join(names)}", *rows, ""]).encode()


def compute(data: bytes, memo: dict[Any, Any], version: int = 1, *, quick: bool = False) -> Result:
    """Over a table that was written anew: of the memo only fits stay."""
    given = replace(inputs({"t.csv": data}), version=version)
    for name in memo.keys() - {"fits"}:
        del memo[name]
    return VIEW.compute(given, QueryProfileParameters(draws=20), Context(0, memo=memo, quick=quick))


def equal(one: Result, other: Result) -> bool:
    return (
        one.summary == other.summary
        and (one.notes, one.headline, one.findings) == (other.notes, other.headline, other.findings)
        and one.tables.keys() == other.tables.keys()
        and all(frame.equals(other.tables[name]) for name, frame in one.tables.items())
    )


def test_the_last_fit_stands_in_until_the_new_one_is_made() -> None:
    memo: dict[Any, Any] = {}
    before = compute(table(0, 42), memo, quick=True)
    assert not before.provisional, "there was none before"
    quick = compute(table(0, ROWS), memo, 2, quick=True)
    full = compute(table(0, ROWS), memo, 2)
    assert quick.provisional and not full.provisional
    assert "44 intervals are being fitted" in quick.notes[0] and "first 42" in quick.notes[0]
    assert "fit of 42" in next(number.basis for number in quick.headline if number.label == "method")
    # what needs no fit is there
    for name in ("y_measured", "intervals_used", "classes", "rows_trained"):
        assert quick.summary[name] == full.summary[name]
    assert quick.tables["intervals"].equals(full.tables["intervals"])
    near, exact = (result.tables["classes"].sort("class") for result in (quick, full))
    assert near["x_total"].equals(exact["x_total"])
    assert np.allclose(near["y_total"], exact["y_total"], rtol=0.1)
    assert (near["y_low"] <= near["y_total"]).all() and (near["y_total"] <= near["y_high"]).all()
    assert len(quick.tables["predictions"]) == ROWS
    assert not quick.same_as(full), "the screen draws the final one"
    # and nothing is left of it
    assert equal(full, compute(table(0, ROWS), {}))
    again = compute(table(0, ROWS), memo, 2, quick=True)
    assert not again.provisional and equal(again, full), "the new fit is known already"


def fits(begin: int, end: int, x: np.ndarray, y: np.ndarray, calls: np.ndarray | None = None) -> Fits:
    """Fits of some intervals of the classes that did anything in them."""
    here = slice(begin, end)
    busy = np.flatnonzero(x[here].any(axis=0))
    metrics = {"time_us": x[here][:, busy]} | ({} if calls is None else {"calls": calls[here][:, busy]})
    rows, none = end - begin, np.full(end - begin, -1)
    classes = tuple(ClassInfo(f"c{j}") for j in busy)
    work = Workload("w", "k", classes, metrics, y[here], none, none, np.full(rows, 10.0), ("",) * rows)
    return Fits(work, work.used, "safe", Recipe(draws=20), 0.9, Context(0))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (fits(0, 10, TIMES, CPU), fits(0, 12, TIMES, CPU)),
        (fits(0, 21, TIMES, CPU), fits(0, 43, TIMES, CPU)),
        (fits(0, 42, TIMES, CPU), fits(5, 42, TIMES, CPU)),
        (fits(0, 42, TIMES, CPU), fits(0, 44, TIMES, np.r_[CPU[:9], CPU[9:] + 1])),
        (fits(0, 42, TIMES, CPU), fits(0, 44, TIMES + (TIMES[3, 1] == TIMES), CPU)),
        (fits(0, 42, TIMES, CPU), fits(0, 44, TIMES[:, :2], CPU)),
        (fits(0, 42, TIMES[:, :2], CPU), fits(0, 44, TIMES, CPU)),
        (fits(0, 42, TIMES, CPU), fits(0, 44, TIMES, CPU, TIMES)),
        (fits(0, 42, TIMES, CPU), fits(0, 0, TIMES, CPU)),
    ],
    ids=[
        "few",
        "twice as many",
        "none new",
        "other CPU",
        "other times",
        "a class went",
        "a class was there",
        "calls",
        "none",
    ],
)
def test_intervals_that_do_not_go_on_are_fitted_at_once(before: Fits, after: Fits) -> None:
    before.kept["default"] = "never asked"
    assert carry(before, after) is None and not after.kept


@pytest.mark.parametrize("called", [False, True])
@pytest.mark.parametrize("begin", [0, 4])
def test_new_intervals_cost_what_the_fit_says_and_old_ones_go(called: bool, begin: int) -> None:
    calls = RANDOM.poisson(20, TIMES.shape).astype(float) if called else None
    last, now = fits(0, 40, TIMES, CPU, calls), fits(begin, ROWS, TIMES, CPU, calls)
    old = last.attribution()
    assert carry(last, now) == 40 - begin
    found = now.attribution()
    assert found is not old and len(found.predicted) == ROWS - begin
    assert np.array_equal(found.predicted[: 40 - begin], old.predicted[begin:])
    added = TIMES[40:] * old.time + (0 if calls is None else calls[40:] * old.call)
    stay = last.by_class("default")[begin:].sum(axis=0)
    assert np.allclose(found.total, stay + added.sum(axis=0), rtol=0.05)
    assert np.isclose(found.predicted[40 - begin :].sum(), last.predict("default", TIMES[40:], None if calls is None else
                      calls[40:], np.full(ROWS - 40, 10.0)).sum())  # fmt: skip
    assert np.isclose(found.total.sum() + found.background, found.predicted.sum(), rtol=1e-6)


def test_a_class_that_the_fit_did_not_know_costs_what_is_usual() -> None:
    x = np.column_stack([TIMES, np.where(np.arange(ROWS) < 40, 0.0, 800.0)])[:, [3, 0, 1, 2]]
    last, now = fits(0, 40, x, CPU), fits(0, ROWS, x, CPU)
    last.attribution()
    assert carry(last, now) == 40
    found, parts = now.attribution(), last.attribution().parts
    assert found.total[0] == pytest.approx(4 * 800 * parts[-1].shared) and found.low[0] <= found.total[0]
