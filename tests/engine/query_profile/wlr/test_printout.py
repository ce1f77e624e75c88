"""The printout of VividCortex' program."""

from __future__ import annotations

from engine.parameters import parse
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


def test_empty_tables_are_printed_for_a_missing_target() -> None:
    result = compute({"a.csv": b"q.1,q.2\n1,2\n"}, method="wlr", rules="upstream")
    text = VIEW.upstream(result, parse(VIEW.parameters, [])) or ""
    assert text.startswith("PREDICT actual predicted\n\n=")
    assert text.endswith("Slope: 0 T-stat: NaN Intercept: 0 T-stat: NaN R^2 0 MAPE: NaN\n")
