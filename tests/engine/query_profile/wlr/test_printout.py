"""The printout of VividCortex' program."""

from __future__ import annotations

import pytest

from engine.core.parameters import Attachment, parse
from engine.query_profile.view import VIEW
from tests.engine.query_profile.builders import compute, folder
from tests.reference import reference


def test_the_printed_tables() -> None:
    root = reference("query-profile")
    files = folder(root / "001.csv")
    wanted = (root / "upstream/001-on-001.stdout.txt").read_text()
    for method in ("wlr", "default"):
        result = compute(files, method=method, rules="upstream" if method == "wlr" else "safe")
        parameters = VIEW.parameters(method=method)
        assert VIEW.upstream(result, parameters) == wanted


NOTHING = "Slope: 0 T-stat: NaN Intercept: 0 T-stat: NaN R^2 0 MAPE: NaN"
ZEROS = "Slope: 0 T-stat: NaN Intercept: 0 T-stat: NaN R^2 NaN MAPE: 1"
OTHER = Attachment("other.csv", b"q.1,user_us\n1,5\n2,0\n2,8\n")


@pytest.mark.parametrize(
    ("table", "predict", "lines"),
    [
        (b"q.1,q.2\n1,2\n", None, [NOTHING]),
        (b"q.1,q.2\n1,2\n", OTHER, ["PREDICT 5 0", "PREDICT 8 0", ZEROS]),
        (b"q.1,user_us\n1,0\n2,0\n", None, [NOTHING]),
        (b"q.1,user_us\n1,0\n2,0\n", OTHER, ["PREDICT 5 0", "PREDICT 8 0", ZEROS]),
        (b"q.1,user_us\n0,5\n0,8\n", None, ["PREDICT 5 0", "PREDICT 8 0", ZEROS]),
        (b"q.1,user_us\n", None, [NOTHING]),
        (b"q.1,user_us\n1,5\n2,9\n", Attachment("other.csv", b"q.1\n4\n"), ["Q", NOTHING]),
    ],
)
@pytest.mark.parametrize("choices", [{}, {"method": "wlr"}, {"method": "wlr", "rules": "upstream"}], ids=str)
def test_zeros_are_printed_where_nothing_was_learned_or_predicted(
    table: bytes, predict: Attachment | None, lines: list[str], choices: dict[str, str]
) -> None:
    """The program takes a table without its target for one of zeros, and skips rows of 0."""
    chosen = {**choices, **({} if predict is None else {"predict": predict})}
    result = compute({"a.csv": table}, **chosen)
    text = VIEW.upstream(result, parse(VIEW.parameters, list(chosen.items()))) or ""
    printed = [line for line in text.splitlines()[1:] if line.startswith(("PREDICT", "Slope", "q."))]
    assert ["Q" if line.startswith("q.") else line for line in printed] == lines
    if choices.get("rules") == "upstream":
        summary = result.summary
        assert summary["rows_predicted"] == result.tables["predictions"].height == len(printed) - 1 - lines.count("Q")
        assert (summary["slope"], summary["intercept"]) == (0, 0)


def test_the_slopes_ratio_has_its_sign_and_the_intercepts_has_none() -> None:
    rows = b"q.1,q.2,user_us\n1,9,60\n2,8,40\n3,9,30\n4,8,10\n9,9,11\n"
    result = compute({"a.csv": rows}, method="wlr", rules="upstream")
    found = {row["class"]: row for row in result.tables["classes"].iter_rows(named=True)}["q.1"]
    assert found["slope"] < 0 < found["intercept"]
    text = VIEW.upstream(result, parse(VIEW.parameters, [])) or ""
    ratios = next(line for line in text.splitlines() if line.startswith("q.1 ")).split()[4::2]
    assert ratios == [
        f"{found['slope_stderr'] / found['slope']:.3g}",
        f"{found['intercept_stderr'] / found['intercept']:.3g}",
    ]


@pytest.mark.parametrize(
    ("rows", "numbers"),
    [
        ("9,8,5 3,14,5 14,16,5", "Slope: -Inf T-stat: NaN Intercept: +Inf T-stat: NaN R^2 +Inf MAPE: 0.14"),
        ("9,13,5 7,5,5 3,4,5", "Slope: NaN T-stat: NaN Intercept: NaN T-stat: NaN R^2 NaN MAPE: 0.041"),
    ],
)
def test_where_all_actuals_are_equal_the_last_bits_of_predictions_show(rows: str, numbers: str) -> None:
    """Two classes have one sum, whatever the order: the program adds intercept and slope * x of each before."""
    table = "\n".join(["q.1,q.2,user_us", *rows.split(), ""]).encode()
    result = compute({"a.csv": table}, method="wlr", rules="upstream")
    text = VIEW.upstream(result, parse(VIEW.parameters, [])) or ""
    assert text.splitlines()[-1] == numbers


@pytest.mark.parametrize("choices", [{}, {"method": "wlr", "rules": "upstream"}], ids=str)
def test_the_table_to_predict_does_not_teach_where_the_other_has_no_target(choices: dict[str, str]) -> None:
    chosen = {**choices, "predict": OTHER}
    result = compute({"a.csv": b"q.1,q.2\n1,2\n3,9\n", "other.csv": OTHER.data}, **chosen)
    assert result.tables["classes"].height == 0
    text = VIEW.upstream(result, parse(VIEW.parameters, list(chosen.items()))) or ""
    assert text.splitlines()[1:3] == ["PREDICT 5 0", "PREDICT 8 0"] and text.splitlines()[-1] == ZEROS
