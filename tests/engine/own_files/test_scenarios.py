from __future__ import annotations

import dataclasses
from pathlib import Path

import polars as pl
import pytest

from engine.core.parameters import BadOption, parse
from engine.core.tables import Column, Table
from engine.core.view import Headline, Result
from engine.output.side_by_side import MOST_ROWS, SIDES, headlines, side_by_side
from engine.own_files import private_files
from engine.own_files.scenarios import Scenarios, split_scenario
from engine.own_files.settings import State
from engine.views import VIEWS
from tests.contract.fake_view import FakeParameters


def test_saved_scenarios_are_the_same_after_a_restart(tmp_path: Path) -> None:
    note = tmp_path / "note.txt"
    note.write_text("why")
    path = tmp_path / "state.toml"
    state = State(path)
    wanted = parse(FakeParameters, [("scale", "2.5"), ("only", "a,b"), ("limit", "7"), ("note", str(note))])
    Scenarios(state, "fake-view").save(" two of them ", wanted)
    Scenarios(state, "fake-view").save("nothing changed", FakeParameters())
    Scenarios(state, "other-view").save("else", FakeParameters(scale=3))
    assert state.save()
    again = Scenarios(State(path), "fake-view")
    assert again.names() == ["nothing changed", "two of them"]
    assert again.load("two of them", FakeParameters(scale=9)) == wanted
    assert again.load("nothing changed", wanted) == FakeParameters()
    again.delete("two of them")
    assert again.names() == ["nothing changed"]


def test_of_two_dashboards_none_loses_what_the_other_saves(tmp_path: Path) -> None:
    first, second = State(tmp_path / "state.toml"), State(tmp_path / "state.toml")
    Scenarios(first, "fake-view").save("by the first", FakeParameters(scale=3))
    first.set("tables", "jobs", value={"sort": "id"})
    first.set("tab", value="1")
    assert first.save()
    Scenarios(second, "fake-view").save("by the second", FakeParameters())
    second.set("tab", value="2")
    assert second.save()
    assert Scenarios(second, "fake-view").names() == ["by the first", "by the second"]
    Scenarios(first, "fake-view").delete("by the first")
    assert first.save()
    expected = {"scenarios": {"fake-view": {"by the second": {}}}, "tables": {"jobs": {"sort": "id"}}, "tab": "2"}
    assert first.values == State(tmp_path / "state.toml").values == expected
    (tmp_path / "state.toml").write_text("damaged = ")
    assert first.save()
    assert State(tmp_path / "state.toml").values == expected


def test_a_state_that_another_dashboard_is_writing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(private_files, "PATIENCE_S", 0.02)
    state = State(tmp_path / "state.toml")
    state.set("tab", value="1")
    with private_files.locked(tmp_path):
        assert not state.save()
    assert state.problem == "another loadlens is writing there"
    assert state.save() and not state.problem


def test_what_is_not_there_or_not_valid_is_said(tmp_path: Path) -> None:
    state = State(tmp_path / "state.toml")
    scenarios = Scenarios(state, "fake-view")
    with pytest.raises(BadOption, match="none is saved"):
        scenarios.load("x", FakeParameters())
    for name in ("", "   ", "a\x1b[2J", "a" * 61):
        with pytest.raises(BadOption, match="needs a name"):
            scenarios.save(name, FakeParameters())
    state.set("scenarios", "fake-view", "odd", value={"scale": "much", "gone": 1})
    with pytest.raises(BadOption, match="scenario 'odd'"):
        scenarios.load("odd", FakeParameters())
    with pytest.raises(BadOption, match="known: odd"):
        scenarios.load("x", FakeParameters())
    state.set("scenarios", value="nonsense")
    assert scenarios.names() == []


@pytest.mark.parametrize("entry", VIEWS, ids=lambda entry: entry.name)
def test_no_view_has_an_option_of_that_name(entry: object) -> None:
    assert "scenario" not in entry.load().parameters.__struct_fields__  # type: ignore[attr-defined]


def test_the_scenario_among_options() -> None:
    assert split_scenario(["a=1", "scenario=x=y", "b=2"]) == ("x=y", ["a=1", "b=2"])
    assert split_scenario(["a=1", "scenario="]) == ("", ["a=1", "scenario="])


NODES = Table(
    "nodes",
    "Nodes.",
    (
        Column("node", pl.String, "Name."),
        Column("zone", pl.String, "Zone."),
        Column("load", pl.Float64, "Load.", unit="B/s", kind="bytes_per_s"),
        Column("parts", pl.Int64, "Parts.", kind="count"),
        Column("seen", pl.Int64, "When.", kind="time_ms"),
    ),
    key=("node", "zone"),
)


def nodes(*rows: tuple[str, str, float | None, int, int], **summary: object) -> Result:
    return Result("v", summary, {"nodes": pl.DataFrame(rows, NODES.schema, orient="row")})


def test_side_by_side() -> None:
    before = nodes(
        ("a", "z", 10.0, 1, 5), ("b", "z", 4.0, 2, 5), ("gone", "z", 1.0, 3, 5), ("same", "z", None, 1, 1), lost=1
    )
    after = nodes(
        ("a", "z", 15.0, 1, 6), ("b", "z", 2.0, 0, 6), ("new", "z", 0.0, 1, 5), ("same", "z", float("nan"), 1, 2),
        lost=3, why="x", nothing=None, now_ms=1_700_000_000_000,
    )  # fmt: skip
    frame = side_by_side((NODES,), before, after)
    assert frame.schema == SIDES.schema
    assert [tuple(row) for row in frame.iter_rows()] == [
        ("nodes", "b z", "parts", 2.0, 0.0, -2.0, -100.0, "count"),
        ("nodes", "a z", "load", 10.0, 15.0, 5.0, 50.0, "bytes_per_s"),
        ("nodes", "b z", "load", 4.0, 2.0, -2.0, -50.0, "bytes_per_s"),
        ("nodes", "new z", "load", None, 0.0, None, None, "bytes_per_s"),
        ("nodes", "new z", "parts", None, 1.0, None, None, "count"),
        ("nodes", "gone z", "load", 1.0, None, None, None, "bytes_per_s"),
        ("nodes", "gone z", "parts", 3.0, None, None, None, "count"),
    ]
    numbers = [
        dataclasses.replace(side, headline=(Headline("lost", value),)) for side, value in ((before, "1"), (after, "3%"))
    ]
    assert headlines(numbers[0], numbers[1]) == (("lost", "1", "3%"),) and headlines(before, after) == ()
    assert side_by_side((NODES,), before, before).is_empty()
    assert side_by_side((NODES,), Result("v", {}, {}), Result("v", {}, {})).is_empty()


def test_what_only_one_side_has_is_shown() -> None:
    one, none = nodes(("a", "z", 10.0, 1, 5)), Result("v", {}, {})
    came = [
        ("nodes", "a z", "load", None, 10.0, None, None, "bytes_per_s"),
        ("nodes", "a z", "parts", None, 1.0, None, None, "count"),
    ]
    assert [tuple(row) for row in side_by_side((NODES,), none, one).iter_rows()] == came
    gone = [(*row[:3], row[4], row[3], *row[5:]) for row in came]
    assert [tuple(row) for row in side_by_side((NODES,), one, none).iter_rows()] == gone
    many = nodes(*((str(n), "z", 1.0, 1, 1) for n in range(MOST_ROWS + 1)))
    rows = [("nodes", "", "rows", 1.0, MOST_ROWS + 1.0, float(MOST_ROWS), 100.0 * MOST_ROWS, "count")]
    assert [tuple(row) for row in side_by_side((NODES,), one, many).iter_rows()] == rows
