"""Odd tables against the answers that VividCortex' program gave for them, and tables that must be answered at all."""

from __future__ import annotations

import gzip
import json
import math
from typing import Any

import pytest

from engine.core.parameters import Attachment, parse
from engine.core.view import Result
from engine.query_profile.view import VIEW
from tests.engine.query_profile.builders import compute
from tests.reference import reference

TINY = 1e-6
"""Size below which numbers are compared absolutely: upstream's own rounding is larger than a relative bound there."""


def cases(name: str) -> list[dict[str, Any]]:
    loaded: list[dict[str, Any]] = json.loads(
        gzip.decompress((reference("query-profile") / f"odd/{name}.json.gz").read_bytes())
    )
    return loaded


def agrees(found: float | None, wanted: float | str) -> bool:
    """Whether a number of a result is upstream's; null stands for what is not finite."""
    number = float(wanted)
    if not math.isfinite(number):
        return found is None or (math.isnan(number) and math.isnan(found)) or found == number
    assert found is not None
    return math.isclose(found, number, rel_tol=1e-9, abs_tol=1e-9 if abs(number) < TINY else 0.0)


def computed(case: dict[str, Any], **choices: Any) -> tuple[Result, Any]:
    if case.get("predict") is not None:
        choices["predict"] = Attachment("predict.csv", case["predict"].encode())
    result = compute({"train.csv": case["train"].encode()}, **choices)
    return result, parse(VIEW.parameters, list(choices.items()))


def test_every_number_and_every_printed_character() -> None:
    for case in cases("cases"):
        result, parameters = computed(case, method="wlr", rules="upstream")
        rows = {row["class"]: row for row in result.tables["classes"].iter_rows(named=True)}
        assert {name for name, row in rows.items() if row["n"]} == set(case["classes"])
        for name, wanted in case["classes"].items():
            for key, number in wanted.items():
                assert agrees(rows[name][key], number), (case["seed"], name, key, rows[name][key], number)
        predictions = result.tables["predictions"].select("actual", "predicted").rows()
        assert len(predictions) == len(case["predictions"])
        for found, wanted in zip(predictions, case["predictions"], strict=True):
            assert all(agrees(one, other) for one, other in zip(found, wanted, strict=True)), (
                case["seed"],
                found,
                wanted,
            )
        assert result.summary["rows_predicted"] == case["final"]["n"]
        for key in ("slope", "intercept", "r2", "mape"):
            assert agrees(result.summary[key], case["final"][key]), (case["seed"], key)
        printed = (VIEW.upstream(result, parameters) or "").splitlines()
        assert [line for line in printed if line.startswith("PREDICT ")][1:] == case["printed"]["predict"]
        begin = printed.index("variable             count  R^2     slope  (t-stat) intercept  (t-stat)") + 1
        assert printed[begin : printed.index("", begin)] == case["printed"]["classes"]
        assert printed[-1] == case["printed"]["last"]


@pytest.mark.parametrize("choices", [{}, {"method": "wlr", "rules": "upstream"}], ids=["default", "upstream"])
def test_a_class_that_costs_nothing_is_answered(choices: dict[str, str]) -> None:
    for case in cases("must_answer"):
        result, _ = computed(case, **choices)
        totals = result.tables["classes"]["y_total"].to_list()
        assert totals and all(total is not None and math.isfinite(total) for total in totals)
