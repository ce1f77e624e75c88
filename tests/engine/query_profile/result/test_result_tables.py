"""Result tables and findings: ranks, groups, windows, what-ifs."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest

from engine.core.view import Context
from engine.query_profile.workloads import workload
from engine.query_profile.workloads.sources import find_sources
from tests.engine.query_profile.builders import (
    STEADY,
    capture,
    compute,
    folder,
    inputs,
    kinds,
    sample,
    snapshot,
)
from tests.reference import reference


def test_top_joins_the_rest_into_others() -> None:
    whole = compute(sample()).tables["classes"]
    frame = compute(sample(), top="1").tables["classes"]
    assert frame["class"].to_list() == [whole["class"][0], "Others - 2 items"]
    for column in ("y_total", "x_total", "y_share"):
        assert math.isclose(frame[column].sum(), whole[column].sum(), rel_tol=1e-9)


def test_ranks_filters_and_groups() -> None:
    times = compute(sample(), metric="time").tables["classes"]["x_total"].to_list()
    assert times == sorted(times, reverse=True)
    assert compute(sample(), filter="q.").tables["classes"].height == 2
    grouped = compute(sample(), group="verb").tables["classes"]
    assert dict(zip(grouped["class"], grouped["members"], strict=True)) == {"q": 2, "e": 1}
    # a group is not blamed for what only moves between its classes
    measured = compute(sample()).summary["y_measured"]
    for row in grouped.iter_rows(named=True):
        assert row["disagreement"] == pytest.approx(abs(row["y_default"] - row["y_wlr"]) / measured)


def test_windows_and_comparison() -> None:
    result = compute(sample(), window="31..60", compare="1..30", method="ratio")
    assert result.summary["intervals"] == 30
    frame = result.tables["comparison"]
    assert frame.height == 3
    assert set(frame["status"]) == {"both"}
    # one fit of both windows: CPU changes as time does, not as two fits differ
    same = compute(sample(), window="31..60", compare="1..30", draws="0").tables["comparison"]
    for row in same.iter_rows(named=True):
        assert math.isclose(row["y_now"], row["y_before"] * row["x_factor"], rel_tol=1e-9)
    assert "bad-window" in kinds(compute(sample(), window="from here"))
    with pytest.raises(workload.BadWindow):
        workload.window(find_sources(inputs(sample()), "", Context(0)).workloads[0], "x..y..z")


def test_a_change_of_costs_between_two_windows_shows() -> None:
    """Where costs changed, each side of a comparison (and of a trend) has its own."""
    rng = np.random.default_rng(3)
    x = rng.integers(1000, 90_000, (200, 3))
    cost = np.where(np.arange(200)[:, None] < 100, [1.0, 2.0, 1.0], [3.0, 2.0, 1.0])
    y = (x * cost).sum(axis=1) * rng.normal(1, 0.01, 200)
    rows = [",".join(str(int(v)) for v in (*line, total)) for line, total in zip(x, y, strict=True)]
    files = {"t.csv": "\n".join(["q.1,q.2,q.3,user_us", *rows, ""]).encode()}
    result = compute(files, window="101..200", compare="1..100", draws="0")
    found = {
        r["class"]: r["y_now"] / r["y_before"] / r["x_factor"]
        for r in result.tables["comparison"].iter_rows(named=True)
    }
    assert found["q.1"] == pytest.approx(3, rel=0.1)
    assert found["q.2"] == pytest.approx(1, rel=0.1)
    detail = compute(files, draws="0").detail
    assert detail.profile.by_class[100:, 0].sum() / x[100:, 0].sum() == pytest.approx(3, rel=0.1)


def test_what_if_halves_or_removes() -> None:
    result = compute(sample(), what_if="q.a", faster="2")
    row = result.tables["what_if"].row(0, named=True)
    total = result.tables["classes"].filter(result.tables["classes"]["class"] == "q.a")["y_total"][0]
    assert math.isclose(row["saved"], total / 2)
    dropped = compute(sample(), what_if="q.a", drop="true").tables["what_if"].row(0, named=True)
    assert math.isclose(dropped["saved"], total)
    assert dropped["saved_low"] <= total <= dropped["saved_high"]
    assert "bad-option" in kinds(compute(sample(), what_if="nope"))


def test_check_finds_a_class_that_surely_takes_too_much() -> None:
    root = reference("query-profile")
    result = compute(folder(root / "001.csv"), max_share="0.5")
    assert [(f.level, f.subject) for f in result.findings] == [("severe", "q.21fb19005f6951c4")]
    assert compute(folder(root / "001.csv"), max_share="0.8").findings == ()


def test_a_check_without_a_resource_fails() -> None:
    for files in ({"t.csv": b"q.1,q.2\n1,2\n"}, {"pgss-20260101T000000Z.csv": snapshot(*STEADY)}):
        (finding,) = compute(files, max_share="0.5").findings
        assert (finding.level, finding.subject) == ("severe", "max-share")
        assert compute(files).findings == ()
    idle = capture(snapshot(*STEADY), snapshot(*STEADY), cpu=[1, 1])
    assert compute(idle, max_share="0.5", draws="0").findings == ()


def test_the_upper_end_of_others_is_no_more_than_everything() -> None:
    result = compute(capture(*(snapshot((1, i, i), (2, i * i, i), (3, 2 * i, 9 * i)) for i in range(1, 9))), top="1")
    others = result.tables["classes"].row(1, named=True)
    assert others["members"] == 2
    assert others["y_high"] <= max(result.summary["y_measured"], others["y_total"])


def test_the_interval_of_a_change_holds_the_truth() -> None:
    """Costs are known: the changes of CPU lie within their 90 % intervals about as often; where nothing can be known of their
    errors, there is none."""
    held = total = 0
    for seed in range(3):
        rng = np.random.default_rng(seed)
        x = rng.integers(20_000, 200_000, (120, 5)) * np.where(
            np.arange(120)[:, None] < 60, 1.0, [1.0, 1.6, 0.5, 1.0, 2.0]
        )
        cost = np.array([0.4, 0.9, 0.2, 0.7, 0.5])
        y = x @ cost * rng.normal(1, 0.03, 120) + 20_000
        rows = [",".join(str(int(v)) for v in (*line, used)) for line, used in zip(x, y, strict=True)]
        files = {"t.csv": "\n".join(["q.1,q.2,q.3,q.4,q.5,user_us", *rows, ""]).encode()}
        table = compute(files, window="61..120", compare="1..60").tables["comparison"]
        truth = dict(
            zip((f"q.{i}" for i in range(1, 6)), (x[60:].mean(axis=0) - x[:60].mean(axis=0)) * cost, strict=True)
        )
        for row in table.iter_rows(named=True):
            assert row["y_change_low"] <= row["y_change"] <= row["y_change_high"]
            assert row["y_change"] == pytest.approx(row["y_now"] - row["y_before"])
            held += row["y_change_low"] <= truth[row["class"]] <= row["y_change_high"]
            total += 1
    assert held / total >= 0.8
    sizes = table["y_change"].abs().to_list()
    assert sizes == sorted(sizes, reverse=True)
    for options in ({"method": "ratio"}, {"draws": "0"}):
        other = compute(sample(), window="31..60", compare="1..30", **options).tables["comparison"]
        assert other["y_change_low"].null_count() == other.height and other["y_change"].null_count() == 0


def busy() -> dict[str, bytes]:
    """Ten snapshots of three classes, a minute apart."""
    return capture(*(snapshot(*((q, n * (i + 1), ms * (i + 1)) for q, n, ms in STEADY)) for i in range(10)))


def test_windows_are_named_and_marked() -> None:
    result = compute(busy(), window="3..", compare="1..2")
    assert result.summary["window_now"] == "intervals 3..9, 2026-01-01 00:02:00 to 00:09:00"
    assert result.summary["window_before"] == "intervals 1..2, 2026-01-01 00:00:00 to 00:02:00"
    intervals = result.tables["intervals"]
    assert intervals["row"].to_list() == list(range(1, intervals.height + 1))
    assert intervals["window"].to_list() == ["before"] * 2 + ["now"] * (intervals.height - 2)
    assert not intervals["used"][:2].any()
    assert compute(busy()).summary["window_now"] is None


def test_active_cpus_are_seconds_of_cpu_per_second() -> None:
    result = compute(busy())
    seconds = result.summary["seconds"]
    assert result.summary["active_cpus"] == pytest.approx(result.summary["y_measured"] / seconds / 1e6)
    for row in result.tables["classes"].iter_rows(named=True):
        assert row["active_cpus"] == pytest.approx(row["y_total"] / seconds / 1e6)
    assert compute(sample()).summary["active_cpus"] is None  # a table without lengths of its intervals


def test_ids_of_users_and_databases_get_the_names_that_a_file_tells() -> None:
    files = busy()
    ids = compute(files).tables["classes"]
    user, database = ids["user"][0], ids["database"][0]
    files["roles.csv"] = f"oid,rolname\n{user},app\x1b[2J\n999,other\nx,bad\n".encode()
    files["databases.csv"] = f"oid,datname,datallowconn\n{database},shop,t\n".encode()
    result = compute(files)
    named = result.tables["classes"]
    assert named["class"].to_list() == ids["class"].to_list()  # what makes a class the same one does not change
    assert "\x1b" not in named["user"][0] and named["user"][0].startswith("app") and named["database"][0] == "shop"
    assert "bad-row" in kinds(result)
    grouped = compute(files, group="database").tables["classes"]
    assert "shop" in grouped["class"].to_list()
    files["roles2.csv"] = f"usesysid,usename\n{user},else\n".encode()
    assert compute(files).tables["classes"]["user"][0] == user  # two names for one id: neither


@pytest.mark.parametrize("seed", [6, 7])
def test_intervals_that_fit_exactly_are_attributed_whole_and_the_rest_has_no_sign(seed: int) -> None:
    """Residuals may all be alike but for a few: with seed 6 most are farther from 0 than they differ."""
    rng = random.Random(seed)
    rows = ["user_us,a,b"]
    for i in range(120):
        a, b = rng.randint(1, 99), rng.randint(1, 99)
        rows.append(f"{a * 3000 + b * 2000 + (-900 if i % 6 == 0 else 100)},{a * 1000},{b * 1000}")
    result = compute({"x.csv": "\n".join([*rows, ""]).encode()})
    assert result.summary["attributed"] == pytest.approx(result.summary["y_measured"], rel=0.01)
    assert {h.label: h.value for h in result.headline}["attributed"] == "100.0%"
