from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from engine.core import units
from engine.own_files.settings import State
from tests.tui.fakes import NOW, FakeSession, FakeView
from tests.tui.stage import Stage, play, stage
from tui.views.shared.side_by_side import SideBySide
from tui.widgets.table.table import LiveTable


async def _run(s: Stage, kind: str, title: str) -> None:
    """Choose a line of the palette."""
    for found in s.app.scenarios.entries():
        if (found.kind, found.title) == (kind, title):
            found.run()
            return
    raise AssertionError(f"the palette has no {kind} {title}")


def test_a_scenario_is_saved_taken_compared_and_deleted(tmp_path: Path) -> None:
    async def story() -> None:
        async with stage(tmp_path, (100, 30)) as s:
            pane = s.app.pane
            before = pane.result.summary["rows"]
            pane.change(fail=("node-001", "node-002"))
            await s.until(lambda: pane.result.summary["rows"] == before - 2)
            await s.press("S", *"two", "enter")
            await s.see("-o scenario=two")
            saved = State(tmp_path / "state.toml").get("scenarios", "fake-view", "two")
            assert saved == {"fail": ["node-001", "node-002"]}, "at once, not only when the program ends"
            pane.action_reset()
            await s.until(lambda: pane.result.summary["rows"] == before)

            await _run(s, "compare", "with two")
            await s.until(lambda: isinstance(pane.levels[-1], SideBySide) and pane.levels[-1].query(LiveTable))
            table = pane.levels[-1].query_one(LiveTable)
            await s.until(lambda: table.window is not None and table.window.height > 0)
            rows = table.window.rows(0, 9)
            assert {row["row"] for row in rows} == {"node-001", "node-002"} and {row["table"] for row in rows} == {
                "nodes"
            }
            await s.see("before: two now")
            await s.see("every headline number is the same")
            await s.press("escape")

            await _run(s, "scenario", "two")
            await s.until(lambda: pane.result.summary["rows"] == before - 2)
            await _run(s, "delete", "two")
            assert State(tmp_path / "state.toml").get("scenarios", "fake-view", "two") is None
            await s.press("S", "enter")
            await s.see("needs a name")

    play(story)


def test_the_palette_lists_scenarios(tmp_path: Path) -> None:
    async def story() -> None:
        async with stage(tmp_path, (100, 30)) as s:
            s.app.state.set("scenarios", "fake-view", "night", value={"limit": 50.0})
            await s.press("colon", *"night")
            await s.see("Take the options of this scenario")
            await s.press("enter")
            await s.until(lambda: s.app.pane.parameters.limit == 50.0)
            await s.press("u")
            await s.until(lambda: s.app.pane.parameters.limit == 90.0)

    play(story)


def test_a_side_that_has_nothing_keeps_its_column(tmp_path: Path) -> None:
    """What-ifs have tables of their own: all that differs is on one side then, and nothing said on which."""
    view = FakeView()
    compute = view.compute
    view.compute = lambda *of: dataclasses.replace(compute(*of), summary={}, headline=())  # type: ignore[method-assign]

    async def story() -> None:
        async with stage(tmp_path, (120, 30), session=FakeSession([view])) as s:
            s.app.state.set("scenarios", "fake-view", "two", value={"fail": ["node-001", "node-002"]})
            await s.press("B", *"defaults with two", "enter")
            await s.see("node-002")
            table = s.app.pane.levels[-1].query_one(LiveTable)
            assert {"before", "after", "change"} <= {column.name for column in table.visible_columns()}
            await s.press("escape", "B", *"two", "enter")
            await s.see("no number differs")

    play(story)


def test_two_moments_or_scenarios_of_ones_own_choice(tmp_path: Path) -> None:
    view, moments = FakeView(), [int(NOW * 1000) - 60_000 * n for n in (3, 2, 1)]
    compute = view.compute

    def at(inputs: Any, parameters: Any, context: Any) -> Any:  # one node more with each moment
        view.rows = 10 + (moments.index(context.at_ms) if context.at_ms in moments else 3)
        return compute(inputs, parameters, context)

    view.compute = at  # type: ignore[method-assign]

    async def story() -> None:
        async with stage(tmp_path, (120, 30), session=FakeSession([view])) as s:
            pane = s.app.pane
            pane.steps = lambda: moments
            s.app.state.set("scenarios", "fake-view", "night", value={"fail": ["node-001"]})

            async def sides(before: float, after: float) -> None:
                level = pane.levels[-1]
                await s.until(lambda: isinstance(level, SideBySide) and level.query(LiveTable))
                table = level.query_one(LiveTable)

                def more() -> int:
                    rows = table.window.rows(0, 99) if table.window is not None else []
                    came, went = ({row["row"] for row in rows if row[side] is None} for side in ("before", "after"))
                    return len(came) - len(went)

                await s.until(lambda: more() == after - before)

            then = units.moment(moments[2]).replace(" ", "T")
            await s.press("B", *f"{units.moment(moments[0])[-8:]} with night@{then}", "enter")
            await s.until(lambda: len(pane.levels) == 2)
            await sides(10.0, 11.0)
            assert (pane.at_ms, pane.parameters.fail) == (moments[2], ("node-001",)), "the second side is on screen"
            await s.press("right_parenthesis")
            await sides(10.0, 12.0)
            await s.press("right_square_bracket", "right_square_bracket", "right_square_bracket")
            await sides(13.0, 12.0)
            await s.press("left_square_bracket", "left_square_bracket")
            await sides(11.0, 12.0)
            await s.see(f"before: {units.moment(moments[1])}")
            assert "[%]" not in s.text() and "%" in next(line for line in s.text().splitlines() if " cpu " in line)
            await s.press("escape", "u", "B", *"nothing", "enter")
            await s.see("is neither a moment")
            await s.press("B", *"night", "enter")
            await sides(12.0, 13.0)

    play(story)
