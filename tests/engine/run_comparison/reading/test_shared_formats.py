"""Files of the tools that people use give the values that were counted from them by hand."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from engine.core.view import NoInput
from tests.engine.run_comparison.folder import compute
from tests.reference import reference

NAMING = ("kind", "test", "verb", "resource", "subresource", "scope", "metric", "bucket", "unit")


def fits(row: dict[str, Any], wanted: dict[str, Any], form: dict[str, Any]) -> bool:
    """Whether a row of the metrics has the medians (in seconds), sizes and direction of one form of the right answer."""
    factor = 1e-3 if row["unit"] == "ms" else 1.0
    values = [None if row[f"median_{side}"] is None else row[f"median_{side}"] * factor for side in ("left", "right")]
    if None in values or ("n" in form and [row["n_left"], row["n_right"]] != form["n"]):
        return False
    if wanted["better"] and row["direction"] != wanted["better"]:
        return False
    if "median" in form:
        return values == pytest.approx(form["median"], rel=wanted.get("tol", 0.001))
    return all(low * 0.999 <= v <= high * 1.001 for v, (low, high) in zip(values, form["within"], strict=True))


def wrong(folder: Path, case: dict[str, Any]) -> list[Any]:
    """What of a case does not hold for the runs in a folder."""
    try:
        result = compute(folder, draws=20, **case.get("options", {}))
    except NoInput as error:
        return [] if "runs_or_refused" in case else [str(error)]
    runs = [result.summary["runs_left"], result.summary["runs_right"]]
    found = [] if runs == (case.get("runs") or case["runs_or_refused"]) else [runs]
    rows = {" ".join(str(row[part]) for part in NAMING): row for row in result.tables["metrics"].iter_rows(named=True)}
    for wanted in case["metrics"]:
        named = [row for text, row in rows.items() if all(re.search(has, text, re.I) for has in wanted["has"])]
        if not any(fits(row, wanted, form) for row in named for form in (wanted, wanted.get("or")) if form):
            found.append(wanted)
    never = [(each,) for each in case.get("never", ())] + case.get("never_both", [])
    return found + [each for each in never if any(all(re.search(one, text, re.I) for one in each) for text in rows)]


def test_values_of_all_formats() -> None:
    formats = reference("run-comparison") / "formats"
    cases = json.loads((formats / "cases.json").read_text())
    assert {name: faults for name, case in cases.items() if (faults := wrong(formats / name, case))} == {}
