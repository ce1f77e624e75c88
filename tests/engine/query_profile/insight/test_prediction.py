"""Predictions and their score."""

from __future__ import annotations

import math

import polars as pl
import pytest

from engine.core.parameters import Attachment
from tests.engine.query_profile.builders import compute, folder, kinds
from tests.reference import reference


@pytest.mark.parametrize(
    ("train", "predict", "slope", "r2", "mape"),
    [("001", "002", 1.0325, 0.9147, 0.05884), ("002", "001", 0.8877, 0.9554, 0.08780)],
)
def test_predicting_another_file(train: str, predict: str, slope: float, r2: float, mape: float) -> None:
    root = reference("query-profile")
    attached = Attachment(f"{predict}.csv", (root / f"{predict}.csv").read_bytes())
    result = compute(folder(root / f"{train}.csv"), method="wlr", rules="upstream", predict=attached)
    assert math.isclose(result.summary["slope"], slope, abs_tol=1e-4)
    assert math.isclose(result.summary["r2"], r2, abs_tol=1e-4)
    assert math.isclose(result.summary["mape"], mape, abs_tol=1e-5)


def test_the_program_scores_what_it_never_learned() -> None:
    # Nothing to fit (all times 0): the program still predicts 0 for the row and is 100 % wrong.
    result = compute({"a.csv": b"q.0,user_us\n0,3122904\n0,0\n"}, method="wlr", rules="upstream")
    assert result.tables["predictions"].rows() == [(1, 3122904.0, 0.0)]
    assert (result.summary["rows_predicted"], result.summary["mape"], result.summary["slope"]) == (1, 1.0, 0.0)


@pytest.mark.parametrize(
    ("table", "kind"),
    [
        (b"", "nothing-to-predict"),
        (b"q.1,user_us\n", "nothing-to-predict"),
        (b"z,user_us\n1,2\n", "unknown-classes"),
        (b"q.1,q.2\n1,2\n", "missing-target"),
        (b"q.1,user_us\n1,2\n3\n", "ragged-row"),
    ],
)
def test_what_a_table_to_predict_lacks_is_reported(table: bytes, kind: str) -> None:
    files = {"a.csv": b"q.1,q.2,user_us\n" + b"".join(b"%d,%d,%d\n" % (i, 9 - i, 20 + i) for i in range(9))}
    assert kind in kinds(compute(files, predict=Attachment("/p.csv", table), draws="0"))


def test_infinite_time_of_a_dropped_class() -> None:
    data = b"a,b,user_us\n1,2,30\n1,Inf,40\n3,4,50\n5,1,20\n"
    result = compute({"a.csv": data}, method="wlr", rules="upstream")
    found = result.tables["predictions"]["predicted"].to_list()
    assert found == pytest.approx([6.926406926, 6.926406926, 13.722943723, 20.519480519], rel=1e-9)
    assert result.summary["mape"] == pytest.approx(0.5868686868686869, rel=1e-9)


def test_the_program_takes_tiny_times_as_they_are() -> None:
    # In the last row q.2 counts with its intercept, however short it ran.
    data = b"q.1,q.2,user_us\n1,1,40\n1,2,48\n1,3,52\n1,6,60\n3,1e-303,40\n"
    result = compute({"a.csv": data}, method="wlr", rules="upstream")
    q2 = result.tables["classes"].row(by_predicate=pl.col("class") == "q.2", named=True)
    q1 = result.tables["classes"].row(by_predicate=pl.col("class") == "q.1", named=True)
    assert q2["n"] == 5 and q2["slope"] > 0 and q2["intercept"] > 0
    predicted = max(q1["intercept"], 0) + 3 * q1["slope"] + q2["intercept"]
    assert result.tables["predictions"]["predicted"][4] == pytest.approx(predicted, rel=1e-12)
