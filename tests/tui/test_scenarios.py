from __future__ import annotations

from pathlib import Path

from engine.settings import State
from tests.tui.fakes import Stage, play, stage
from tui.views.side_by_side import SideBySide
from tui.widgets.table.table import LiveTable


async def _run(s: Stage, kind: str, title: str) -> None:
    """Choose a line of the palette."""
    for found in s.app.scenario_entries():
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
            assert rows[0]["table"] == "summary" and rows[0]["change"] == 2.0
            assert {row["row"] for row in rows[1:]} == {"node-001", "node-002"}
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
