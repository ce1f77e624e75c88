"""Results of the dashboard: computed when files, options or the moment change, and what stays meanwhile."""

from __future__ import annotations

import asyncio
import dataclasses
import threading
from pathlib import Path
from typing import Any

import msgspec
import polars as pl
import pytest

from engine.core.reading import Problem
from engine.core.view import NoInput
from tests.tui.fakes import FakeSession, FakeView
from tests.tui.stage import play, settle, stage
from tui.messages import Computed, Progress
from tui.views.shared.sections import Level
from tui.widgets.sections import Sections
from tui.widgets.table.table import LiveTable


def nodes(app) -> LiveTable:
    return app.pane.query_one("#table-nodes", LiveTable)


def test_change_on_disk_shows(tmp_path: Path) -> None:
    async def story() -> None:
        async with stage(tmp_path) as s:
            view = s.session.views["fake-view"]
            await s.see("node-039") if s.app.size.height > 50 else None
            view.rows = 3
            s.session.change()
            await s.until(lambda: nodes(s.app).window.height == 3)
            assert "node-005" not in s.text()

    play(story)


def test_equal_result_draws_nothing(tmp_path: Path) -> None:
    async def story() -> None:
        async with stage(tmp_path) as s:
            await s.see("node-000")
            table = nodes(s.app)
            before = table.window
            calls = len(s.session.views["fake-view"].calls)
            s.session.change()
            await s.until(lambda: len(s.session.views["fake-view"].calls) > calls)
            await s.pilot.pause(0.05)
            assert table.window is before

    play(story)


def test_options_change_result_and_undo(tmp_path: Path) -> None:
    async def story() -> None:
        async with stage(tmp_path, (120, 40)) as s:
            pane = s.app.pane
            await s.press("o")
            await s.see("CPU above it is severe")
            await s.press("minus")
            assert pane.parameters.limit == 89.0
            await s.press("down", "enter")
            assert pane.parameters.mode == "doubled"
            await s.press("down", "enter", *"node-001,node-002", "enter")
            await s.until(lambda: nodes(s.app).window.height == 38)
            await s.press("escape")
            await s.press("u", "u")
            assert pane.parameters.mode == "plain" and pane.parameters.limit == 89.0
            await s.until(lambda: nodes(s.app).window.height == 40)
            await s.press("U")
            assert pane.parameters.mode == "doubled"
            await s.choose("pane.reset")
            assert pane.parameters == pane.defaults
            await s.press("u")
            assert pane.parameters.mode == "doubled", "defaults can be undone"

    play(story)


def test_a_result_that_equals_one_that_was_not_drawn_is_drawn(tmp_path: Path) -> None:
    """Two options changed in a moment, the second without an effect: the first result comes too late and is not drawn."""

    async def story() -> None:
        async with stage(tmp_path, (120, 40)) as s:
            pane, drawn = s.app.pane, s.app.pane.result
            late = dataclasses.replace(drawn, tables={**drawn.tables, "nodes": drawn.tables["nodes"].head(5)})
            newest = dataclasses.replace(late)
            other = msgspec.structs.replace(pane.parameters, limit=1.0)
            await s.app.tabs.receive(Computed("fake-view", other, None, late))
            assert pane.result is drawn
            await s.app.tabs.receive(Computed("fake-view", pane.parameters, None, newest, equals=late))
            assert pane.result is newest and nodes(s.app).window.height == 5

    play(story)


def test_a_bad_option_is_reported_and_changes_nothing(tmp_path: Path) -> None:
    async def story() -> None:
        async with stage(tmp_path, (120, 40)) as s:
            pane = s.app.pane
            assert pane.change(limit=50.0) and pane.undo_depth == 1
            assert not pane.change(limit=500.0)
            await s.see("500.0 is not within 0 to 100")
            assert pane.parameters.limit == 50.0 and pane.undo_depth == 1

    play(story)


def test_pause_freezes_inputs_but_not_parameters(tmp_path: Path) -> None:
    async def story() -> None:
        async with stage(tmp_path, (120, 40)) as s:
            await s.press("p")
            await s.see("PAUSED")
            s.session.change()
            s.session.change()
            await s.see("PAUSED, 2 waiting")
            calls = len(s.session.frozen)
            s.app.pane.change(limit=10.0)
            await s.until(lambda: len(s.session.frozen) > calls)
            assert s.session.frozen[-1] == 1, "computed on the inputs as they were"
            await s.press("p")
            await s.until(lambda: s.session.frozen[-1] == 3)
            assert "PAUSED" not in s.text()

    play(story)


def test_after_a_failure_the_last_good_result_stays_and_is_marked(tmp_path: Path) -> None:
    async def story() -> None:
        async with stage(tmp_path, (120, 40)) as s:
            view = s.session.views["fake-view"]
            for kind in (RuntimeError, pl.exceptions.PanicException):  # the second one is no Exception
                view.error = kind("boom [/b] \x1b[2J")
                s.session.change()
                await s.see(f"shown is old: {kind.__name__}: boom")
                assert "node-000" in s.text() and "\x1b" not in s.text()
                view.error = None
                s.session.change()
                await s.until(lambda: "shown is old" not in s.text())

    play(story)


def test_inputs_that_go_away_blank_the_tab(tmp_path: Path) -> None:
    async def story() -> None:
        async with stage(tmp_path) as s:
            view = s.session.views["fake-view"]
            view.error = NoInput("no nodes here")
            s.session.change()
            await s.see("Nothing to show: no nodes here.")
            assert "node-000" not in s.text() and "This tab reads fake files." in s.text()
            view.error = None
            s.session.change()
            await s.see("node-000")

    play(story)


def test_inputs_that_go_away_while_a_level_opens_or_closes(tmp_path: Path) -> None:
    class Deeper(Level):
        def show(self, result: Any) -> None:
            raise RuntimeError("a mistake in drawing")

    async def story() -> None:
        async with stage(tmp_path, (120, 40)) as s:
            pane = s.app.pane
            await pane.drill(Deeper("deeper"))
            await s.see("cannot be drawn")
            await asyncio.gather(pane.back(), pane.nothing(empty="gone"))
            await s.see("Nothing to show: gone")
            s.session.change()
            await s.see("node-000")
            await asyncio.gather(pane.drill(Deeper("deeper")), pane.nothing(empty="gone again"))
            await s.see("Nothing to show: gone again")

    play(story)


def test_sections_and_time_keys(tmp_path: Path) -> None:
    async def story() -> None:
        async with stage(tmp_path) as s:
            sections = s.app.pane.query_one(Sections)
            await s.press("right_square_bracket")
            assert sections.chosen == 1
            await s.see("part")
            await s.press("left_square_bracket")
            for key in ("left_parenthesis", "right_parenthesis", "backslash"):
                await s.press(key)
                await s.until(lambda: any("no earlier moments" in each.message for each in s.app._notifications))
                s.app.clear_notifications()
            s.app.pane.at(1_700_000_000_000)
            await s.until(lambda: s.session.views["fake-view"].calls[-1][1] == 1_700_000_000_000)
            await s.see(" AT 2023-11-14")
            await s.press("backslash")
            await s.until(lambda: s.session.views["fake-view"].calls[-1][1] is None)

    play(story)


def test_a_held_key_scans_once_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        async with stage(tmp_path, (120, 40)) as s:
            scans, go = [], threading.Event()

            def look(hints: set[str] | None) -> frozenset[str]:
                scans.append(threading.current_thread().name)
                go.wait(5)
                return frozenset()

            monkeypatch.setattr(s.session, "look", look)
            await s.press(*["f5"] * 5)
            await s.until(lambda: scans)
            assert scans == ["rescan"]
            go.set()
            await s.until(lambda: not s.app.client._rescanning.locked())
            await s.press("f5")
            await s.until(lambda: len(scans) == 2)

    play(story)


def test_newest_request_wins(tmp_path: Path) -> None:
    async def story() -> None:
        async with stage(tmp_path) as s:
            view = s.session.views["fake-view"]
            view.delay = 0.2
            calls = len(view.calls)
            for limit in (10.0, 20.0, 30.0, 40.0, 50.0):
                s.app.pane.change(limit=limit)
            await s.until(lambda: view.calls[-1][0].limit == 50.0)
            assert len(view.calls) - calls <= 2, "those in between were never computed"

    play(story)


def test_data_go_on_under_a_box(tmp_path: Path) -> None:
    async def story() -> None:
        async with stage(tmp_path, (120, 40)) as s:
            await s.press("question_mark")
            await s.see("Tables")
            s.session.views["fake-view"].rows = 5
            s.session.change()
            await s.until(lambda: nodes(s.app).window.height == 5)
            await s.press("escape")
            await s.see("1/5")

    play(story)


def test_quick_computations_do_not_flicker(tmp_path: Path) -> None:
    async def story() -> None:
        async with stage(tmp_path, (120, 40)) as s:
            view = s.session.views["fake-view"]
            compute = view.compute
            seen: list[str] = []

            def computing(inputs, parameters, context):
                context.progress(0.1, "at once")
                if parameters.deep:
                    import time

                    time.sleep(0.5)
                    context.progress(0.5, "after a while")
                    time.sleep(0.3)
                return compute(inputs, parameters, context)

            view.compute = computing
            post = s.app.client.post

            def posting(message) -> None:
                if isinstance(message, Progress):
                    seen.append(message.text)
                post(message)

            s.app.client.post = posting
            s.app.pane.change(limit=30.0)
            await s.until(lambda: view.calls[-1][0].limit == 30.0)
            s.app.pane.change(deep=True)
            await s.until(lambda: view.calls[-1][0].deep)
            assert seen == ["after a while"]

    play(story)


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
def test_the_last_result_stays_and_is_marked_while_the_next_is_computed(tmp_path: Path, size: tuple[int, int]) -> None:
    """Also by a view that reports no progress, and where the status line is full."""

    async def story() -> None:
        session = FakeSession([FakeView()])
        session.stale = 2
        session.files = 12_345
        session.read_problems = tuple(Problem.at(f"/data/{i}.txt", "bad-record", "cut") for i in range(200))
        async with stage(tmp_path, size, session=session) as s:
            view = session.views["fake-view"]
            await settle(s)
            assert "computing" not in s.text()
            view.delay, view.rows = 600.0, 5
            session.change()
            await s.see("computing…")
            assert "node-007" in s.text(), "the last result"
            view.delay = 0.0
            await s.until(lambda: nodes(s.app).window.height == 5)
            await s.until(lambda: "computing" not in s.text())

    play(story)


def test_the_status_tells_the_moment_on_screen_not_the_one_that_is_computed(tmp_path: Path) -> None:
    async def story() -> None:
        async with stage(tmp_path, (160, 40)) as s:
            view = s.session.views["fake-view"]
            view.delay = 600.0
            s.app.pane.at(1_767_225_000_000)
            s.app.update_status()
            await s.until(lambda: "going to 2025-12-31 23:50:00" in s.text())
            assert "AT 2025" not in s.text()
            view.delay = 0.0
            await s.until(lambda: "AT 2025-12-31 23:50:00" in s.text())
            assert "going to" not in s.text()

    play(story)


def test_a_table_without_rows_says_that_they_are_being_computed(tmp_path: Path) -> None:
    async def story() -> None:
        async with stage(tmp_path) as s:
            view = s.session.views["fake-view"]
            view.rows = 0
            s.session.change()
            await s.see("no rows")
            view.delay, view.rows = 600.0, 3
            s.app.pane.change(limit=50)
            await s.until(lambda: "no rows" not in s.text() and "computing…" in s.text())
            view.delay = 0.0
            await s.see("node-002")

    play(story)


def test_files_of_another_tab_that_come_later_are_shown(tmp_path: Path) -> None:
    async def story() -> None:
        session = FakeSession([FakeView("first-view"), FakeView()])
        counts = {"first-view": 0, "fake-view": 0}
        original = session.inputs

        def inputs(view: str):
            session.files = counts[view]
            if not session.files:
                session.views[view].error = NoInput("no files")
            return original(view)

        session.inputs = inputs
        async with stage(tmp_path, (120, 30), session=session, view=None, ready=False) as s:
            await s.see("Nothing to show")
            counts["fake-view"] = 3
            session.views["fake-view"].error = None
            session.change()
            await s.see("node-000")
            assert s.app.pane.entry.name == "fake-view"
            await s.press("1")
            await s.see("There are files for other tabs: Fake view (3)")

    play(story)
