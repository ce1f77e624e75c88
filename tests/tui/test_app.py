"""The dashboard driven by its keys, on a fake session: tabs, screens, start and end."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.core.reading import Problem
from engine.own_files.settings import State
from engine.views import Entry
from tests.tui.fakes import ENTRIES, NOW, FakeSession, FakeView
from tests.tui.stage import play, stage
from tui.views.shared.pane import make_pane
from tui.widgets.table.table import LiveTable


def nodes(app) -> LiveTable:
    return app.pane.query_one("#table-nodes", LiveTable)


def test_first_result_reaches_the_screen(tmp_path: Path) -> None:
    async def story() -> None:
        async with stage(tmp_path) as s:
            await s.see("node-000")
            text = s.text()
            assert "total 42.0 GB" in text and "worst" in text and "97.3%" in text
            assert "mode plain" in text
            assert "files 3 s" in text and "3 files" in text
            assert s.app.focused is nodes(s.app)

    play(story)


def test_data_from_a_time_that_is_yet_to_come_are_called_so(tmp_path: Path) -> None:
    """The clock is set: the files were written at ``NOW`` - 3 s by the one before."""

    async def story() -> None:
        async with stage(tmp_path, (120, 24)) as s:
            for clock_s, text in (
                (NOW - 30, "files new"), (NOW - 3600, "files dated 59 min ahead"), (NOW + 3600, "files 1 h old"),
                (NOW - 86_400, "files dated 23 h ahead"), (0, "files dated 20"),
            ):  # fmt: skip
                s.app.status.clock = lambda clock_s=clock_s: clock_s
                s.app.update_status()
                await s.see(text)

    play(story)


def test_a_tab_that_is_not_loaded_is_not_waited_for(tmp_path: Path) -> None:
    """The other views wait for the first answer of the one that was shown, unless one of them is looked at."""

    entries = (*ENTRIES, Entry("later-view", "Later view", "later", "other files"))

    async def story() -> None:
        async with stage(tmp_path, entries=entries) as st:
            answered = st.app.client.first_result
            await st.until(st.session.watching.is_set)  # all views are loaded, and the files looked at
            st.app.overview.close()  # its answers count, too
            await st.until(lambda: not st.app.client.wanted)
            st.session.views["first-view"].delay = 600.0  # its answer does not come meanwhile
            answered.clear()
            await st.app.show_tab(0)
            assert not answered.is_set()
            await st.app.show_tab(2)
            assert answered.is_set()

    play(story)


def test_inactive_tabs_are_computed_when_shown(tmp_path: Path) -> None:
    async def story() -> None:
        async with stage(tmp_path) as s:
            first = s.session.views["first-view"]
            await s.until(lambda: len(first.calls) == 1)  # for the overview
            await s.press("1")
            await s.until(lambda: s.app.pane.result is not None)
            assert len(first.calls) == 2
            await s.press("2", "1")
            await s.pilot.pause(0.1)
            assert len(first.calls) == 2, "nothing changed: coming back computes nothing"

    play(story)


def test_first_tab_with_data_is_shown(tmp_path: Path) -> None:
    async def story() -> None:
        session = FakeSession([FakeView("first-view"), FakeView()])
        counts = {"first-view": 0, "fake-view": 3}
        original = session.inputs

        def inputs(view: str):
            session.files = counts[view]
            return original(view)

        session.inputs = inputs
        async with stage(tmp_path, session=session, view=None) as s:
            await s.see("node-000")
            assert s.app.pane.entry.name == "fake-view"

    play(story)


def test_a_view_that_cannot_be_loaded_does_not_blank_the_others(tmp_path: Path) -> None:
    async def story() -> None:
        session = FakeSession([FakeView()])
        async with stage(
            tmp_path, (120, 40), session=session, failed={"first-view": "ImportError: no such thing"}
        ) as s:
            await s.see("node-000")
            await s.press("1")
            await s.see("First view cannot be computed: ImportError: no such thing")

    play(story)


def test_problems_screen(tmp_path: Path) -> None:
    async def story() -> None:
        session = FakeSession([FakeView("first-view"), FakeView()])
        session.read_problems = (
            Problem.at("/data/a.txt", "bad-record", "cut in \x1b the middle [/b]", line=7, count=3),
        )
        async with stage(tmp_path, (120, 40), session=session) as s:
            await s.see("! 1 problem")
            await s.press("exclamation_mark")
            await s.see("bad-record")
            assert "cut in · the middle [/b]" in s.text() and "/data/a.txt" in s.text()
            await s.press("right_square_bracket")
            await s.see("no view reads it")
            await s.press("escape")
            assert len(s.app.screen_stack) == 1

    play(story)


@pytest.mark.parametrize("closed_first", [False, True])
def test_a_first_result_has_the_keys_when_a_box_was_over_it(tmp_path: Path, closed_first: bool) -> None:
    """Not a table of another tab, which is there but not on screen."""

    async def story() -> None:
        slow = FakeView()
        slow.delay = 600.0
        session = FakeSession([FakeView("first-view", "First view"), slow])
        async with stage(tmp_path, (120, 40), session=session, view="first-view") as s:
            await s.press("2", "exclamation_mark")
            await s.see("no problems")
            if closed_first:
                await s.press("escape")
            slow.delay = 0.0
            s.app.client.request("fake-view", s.app.pane.parameters)
            await s.until(lambda: s.app.pane.result is not None)
            if not closed_first:
                await s.press("escape")
            assert s.app.focused is nodes(s.app)

    play(story)


def test_help_shows_every_action_that_can_be_reached(tmp_path: Path) -> None:
    async def story() -> None:
        async with stage(tmp_path, (120, 100)) as s:
            await s.press("question_mark")
            await s.see("Everywhere")
            text = s.text()
            for action in s.app.actions_by_id.values():
                if action.scope in ("table", "pane"):
                    assert action.help[:30] in text, action.id
            await s.press("escape")

    play(story)


def test_palette_runs_an_action_where_the_focus_was(tmp_path: Path) -> None:
    async def story() -> None:
        async with stage(tmp_path) as s:
            await s.press("colon", *"reverse", "enter")
            await s.until(lambda: nodes(s.app).choice.descending)
            await s.press("colon", *"pause", "enter")
            await s.see("PAUSED")

    play(story)


def test_quit_saves_and_closes(tmp_path: Path) -> None:
    async def story() -> None:
        async with stage(tmp_path) as s:
            await s.press("1", "q")
            assert s.app.return_code == 0
        assert not s.session.closed, "saving the cache must not keep the screen"
        s.app.client.close()
        assert s.session.closed
        assert State(tmp_path / "state.toml").get("tab") == "first-view"

    play(story)


def test_resize_keeps_everything_reachable(tmp_path: Path) -> None:
    async def story() -> None:
        async with stage(tmp_path, (200, 50)) as s:
            await s.see("node-000")
            assert s.app.screen.has_class("-wide")
            for size, name in (((120, 40), "-normal"), ((80, 24), "-narrow"), ((40, 10), "-narrow")):
                await s.resize(*size)
                await s.see("node-000")
                assert s.app.screen.has_class(name)
                assert all(len(line) <= size[0] for line in s.text().splitlines())

    play(story)


def test_glyphs_and_themes_switch(tmp_path: Path) -> None:
    async def story() -> None:
        async with stage(tmp_path, (120, 40)) as s:
            await s.see("▲ SEVERE")
            await s.press("f6", "f6")
            await s.pilot.pause(0.1)
            assert s.app.glyphs.ascii
            body = [line for line in s.text().splitlines() if line.startswith("node-")]
            assert body and not {c for line in body for c in line if not c.isascii()}
            for _ in range(4):
                await s.press("T")
            assert s.app.theme == "loadlens-dark"

    play(story)


def test_a_pane_that_is_taken_away_is_not_zoomed() -> None:
    """The clock ticks once more while the program ends."""
    assert not make_pane(Entry("fake-view", "Fake view", "fake", "fake files"), id="gone").zoomed
