"""The boxes over the dashboard: what they say in full, what works while one is open, and how one gets out."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.core.view import NoInput
from tests.tui.fakes import FakeSession, FakeView
from tests.tui.stage import Stage, play, screen_lines, stage
from tui.screens.help import HelpScreen
from tui.themes import CYCLE
from tui.widgets.box import Box
from tui.widgets.control import NumberControl, WordControl

BOXES = {
    "question_mark": "keys, columns",
    "colon": "Commands", "o": "Options", "C": "Columns", "e": "Export", "exclamation_mark": "Problems",
}  # fmt: skip


def test_every_box_opens_and_closes_and_one_can_leave(tmp_path: Path) -> None:
    async def story() -> None:
        async with stage(tmp_path) as s:
            for key, title in BOXES.items():
                await s.press(key)
                await s.see(title)
                lines = [line.strip("│ ") for line in screen_lines(s.app)]
                assert any(line.endswith(("Esc close", "Esc leave")) for line in lines), f"the keys of {title} are cut"
                await s.press("escape")
                await s.until(lambda: not isinstance(s.app.screen, Box))
            await s.press("colon", "x", "ctrl+q")
            assert s.app.return_code == 0

    play(story)


def test_the_tab_stays_on_screen_behind_a_box_in_every_theme(tmp_path: Path) -> None:
    async def story() -> None:
        async with stage(tmp_path, painted=True) as s:
            for theme in CYCLE:
                s.app.theme = theme
                await s.press("e")
                await s.see("Export")
                assert "total 42.0 GB" in s.text(), theme
                await s.press("escape")

    play(story)


def test_control_c_leaves_from_a_line_of_input(tmp_path: Path) -> None:
    async def story() -> None:
        async with stage(tmp_path) as s:
            await s.press("slash", "x", "ctrl+c")
            assert s.app.return_code == 0

    play(story)


def test_glyphs_and_theme_change_under_an_open_box(tmp_path: Path) -> None:
    async def story() -> None:
        async with stage(tmp_path, (120, 40)) as s:
            await s.press("question_mark")
            await s.see("╭")
            await s.press("f6", "f6")
            assert s.app.glyphs.ascii
            s.app.clear_notifications()
            await s.until(lambda: s.text().isascii())
            before = s.app.theme
            await s.press("T")
            assert s.app.theme != before and isinstance(s.app.screen, HelpScreen)

    play(story)


def test_the_columns_box_and_the_palette_tell_the_chosen_line_in_full(tmp_path: Path) -> None:
    async def story() -> None:
        async with stage(tmp_path) as s:
            await s.press("C", "down", "down")
            await s.see("Its CPU.")
            await s.see("cpu (cpu)")
            await s.press("escape", "colon", *"export")
            await s.see("Write this table, as filtered and sorted, to CSV, JSON or Markdown.")

    play(story)


def test_help_begins_with_the_keys_of_the_tab(tmp_path: Path) -> None:
    from engine.views import VIEWS

    async def story() -> None:
        session = FakeSession([FakeView(entry.name, entry.title) for entry in VIEWS])
        async with stage(tmp_path, (120, 40), session=session, view="job-heuristics", entries=VIEWS, ready=False) as s:
            await s.press("question_mark")
            await s.see("keys, columns")
            text = s.text()
            assert text.index("Job heuristics", text.index("keys, columns")) < text.index(
                "Switch between Dr. Elephant's code"
            )
            assert text.index("Switch between Dr. Elephant's code") < text.index("Move the cursor one row up")
            assert "L low, M moderate, S severe, C critical" in text

    play(story)


def test_the_help_names_the_heuristics_in_the_order_of_the_letters() -> None:
    from engine.job_heuristics.result.all_jobs import default_rules
    from tui.actions import view_signs

    assert ", ".join(default_rules().names) in view_signs("job-heuristics")[0]


@pytest.mark.parametrize("no_color", [True, False], ids=["no-color", "16 colours"])
def test_cursors_are_reversed_without_colours(no_color: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if no_color:
        monkeypatch.setenv("NO_COLOR", "1")

    def reversed_lines(s: Stage) -> list[str]:
        strips = s.app.screen._compositor.render_strips()
        return [
            "".join(segment.text for segment in strip).rstrip()
            for strip in strips[4:-2]
            if all(segment.style and segment.style.reverse for segment in list(strip)[:1])
        ]

    async def story() -> None:
        async with stage(tmp_path, theme="ansi-dark") as s:
            await s.press("down", "down")
            assert [line.split()[0] for line in reversed_lines(s)] == ["name", "node-002"]
            await s.press("o")
            await s.see("CPU above it is severe")
            option = next(line for line in s.app.screen._compositor.render_strips() if "limit" in line.text)
            assert any("limit" in part.text and part.style and part.style.reverse for part in option)
            await s.press("escape")
            controls = [NumberControl("share", 1.0, high=2.0), WordControl("mode", ["a", "b"], "a")]
            await s.app.pane.mount(*controls, before=0)
            for control in controls:
                control.focus()
                await s.until(
                    lambda shown=control: any(part.style and part.style.reverse for part in shown.render_line(0))
                )
                first = next(iter(control.render_line(0)))
                assert first.text.startswith(control.label) and first.style is not None and first.style.reverse

    play(story)


def test_a_missing_folder_is_named_where_its_data_would_be(tmp_path: Path) -> None:
    async def story() -> None:
        async with stage(tmp_path) as s:
            s.session.mode = "missing"
            s.session.views["fake-view"].error = NoInput("nothing here")
            s.session.change()
            await s.see("Nothing to show: nothing here")
            await s.see("/data is not there; it is shown as soon as it is.")
            assert "Watching" not in s.text()
            s.session.mode = "events"
            s.session.change()
            await s.see("Watching /data")

    play(story)
