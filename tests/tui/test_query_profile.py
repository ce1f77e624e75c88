"""The query profile's tab, driven by its keys on its sample, and what it looks like."""

from __future__ import annotations

import shutil
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len

from engine.query_profile.view import VIEW
from sample_data.query_profile import live
from sample_data.query_profile.make import KINDS
from tests.tui.stage import SIZES, Stage, compare, copied, opened, play, screen_lines, settle, still
from tui.views.query_profile import drawing
from tui.views.query_profile.pane import ClassLevel, Pane
from tui.widgets.control import NumberControl
from tui.widgets.facts import Facts
from tui.widgets.sections import Sections
from tui.widgets.table.table import LiveTable

FIT, INTERVALS, COMPARISON, SCATTER, WHAT_IF = 1, 3, 4, 1, 2
"""Places of sections, the last two in the level of a class."""
FILES = Path(__file__).parents[2] / "sample_data" / "query_profile" / "files"


@asynccontextmanager
async def tab(tmp_path: Path, size: tuple[int, int] = (120, 40), root: Path | None = None) -> Any:
    """The dashboard on the sample, or on ``root`` whose files change, on this tab, with its first result."""
    async with opened(root or copied(FILES), VIEW, tmp_path, size, once=root is None) as s:
        yield s


def classes(s: Stage) -> LiveTable:
    return s.app.pane.query_one("#classes", LiveTable)


def summary(s: Stage) -> Any:
    return s.app.pane.result.summary


def test_looks_on_every_terminal(tmp_path: Path, update: bool) -> None:
    async def story() -> None:
        async with tab(tmp_path, (60, 24)) as s:
            await s.see("47 of 47")
            await settle(s)
            first, second = screen_lines(s.app)[1:3]  # total, attributed, trust and intervals, however narrow it is
            shown = " ".join((first + second).split())
            assert shown == "CPU 434.7 s CPUs 0.92 of 4 attr. 99.8% trust △ fair intervals 47 of 47"
            for size in SIZES[::-1]:
                await s.resize(*size)
                await settle(s)
                lines = screen_lines(s.app)
                assert all(cell_len(line) <= size[0] for line in lines)
                compare(f"query-profile-{size[0]}x{size[1]}", "\n".join(lines), update)
            for name, theme in (("light", "textual-light"), ("ansi", "ansi-dark")):
                s.app.theme = theme
                await settle(s)
                compare(f"query-profile-{name}-80x24", s.text(), update)
            s.app.theme = "loadlens-dark"
            await s.press("f6", "f6")
            await s.until(lambda: s.app.pane.glyphs.ascii)
            await settle(s)
            assert s.text().isascii()
            compare("query-profile-ascii-80x24", s.text(), update)
            await s.press("f6")

    play(story)


@pytest.mark.parametrize(
    "looks",
    [
        [
            ("fit", ["right_square_bracket"], "predicted over actual"),
            ("methods", ["right_square_bracket"], "wlr"),
        ],
        [("class", ["enter"], "WLR slope"), ("scatter", ["right_square_bracket"], "1:1")],
        [("what-if", ["i"], "utilisation")],
        [("compare", ["v"], "before")],
    ],
    ids=lambda looks: looks[0][0],
)
def test_sections_look(tmp_path: Path, looks: list[tuple[str, list[str], str]], update: bool) -> None:
    async def story() -> None:
        async with tab(tmp_path, (100, 30)) as s:
            for name, keys, see in looks:
                await s.press(*keys)
                await s.see(see)
                await settle(s)
                compare(f"query-profile-{name}", s.text(), update)

    play(story)


def test_m_goes_through_the_methods_and_u_takes_it_back(tmp_path: Path) -> None:
    """WLR blames the class that waits, and the default does not."""
    waiting = str(KINDS[4].queryid)

    def share(s: Stage) -> float:
        frame = s.app.pane.result.detail.listing
        return float(frame.filter(frame["class"] == waiting)["cpu_share"][0])

    async def story() -> None:
        async with tab(tmp_path) as s:
            first = summary(s)["attributed"]
            seen = [summary(s)["method"]]
            assert share(s) < 10
            for _ in range(5):
                await s.press("m")
                await s.until(lambda: not s.app.client.busy and summary(s)["method"] != seen[-1])
                seen.append(summary(s)["method"])
                assert seen[-1] != "wlr" or share(s) > 40
            assert seen == ["default", "wlr", "ols", "nnls", "ratio", "default"]
            await s.press("u")
            await s.until(lambda: summary(s)["method"] == "ratio")
            await s.choose("pane.reset")
            await s.until(lambda: summary(s)["method"] == "default")
            assert summary(s)["attributed"] == first

    play(story)


def test_y_changes_the_resource(tmp_path: Path) -> None:
    async def story() -> None:
        async with tab(tmp_path) as s:
            whole = summary(s)["y_measured"]
            await s.choose("query-profile.resource")
            await s.until(lambda: summary(s)["target"] == "user_us")
            assert 0 < summary(s)["y_measured"] < whole

    play(story)


def test_rank_and_group(tmp_path: Path) -> None:
    async def story() -> None:
        async with tab(tmp_path) as s:
            await s.press("K")
            await s.until(lambda: not s.app.client.busy and s.app.pane.parameters.metric == "time")
            times = s.app.pane.result.detail.listing["time_s"].to_list()
            assert times == sorted(times, reverse=True)
            await s.press("b")
            await s.until(lambda: s.app.pane.result.tables["classes"].height == 3)
            assert set(s.app.pane.result.tables["classes"]["class"]) == {"SELECT", "UPDATE", "INSERT"}
            await s.press("enter")
            await s.see("a group has no detail")

    play(story)


def test_filter_is_a_table_filter(tmp_path: Path) -> None:
    async def story() -> None:
        async with tab(tmp_path) as s:
            await s.press("slash", *"time_s>100", "enter")
            await s.until(lambda: "of 8" in classes(s).caption)

    play(story)


def test_drill_down_and_the_slider(tmp_path: Path) -> None:
    async def story() -> None:
        async with tab(tmp_path) as s:
            await s.press("enter")
            await s.see("WLR slope")
            level = s.app.pane.levels[-1]
            assert isinstance(level, ClassLevel)
            sections = level.query_one("#class-sections", Sections)
            await s.press("right_square_bracket")
            assert sections.chosen == SCATTER
            await s.press("i")
            await s.until(lambda: sections.chosen == WHAT_IF)
            facts = level.query_one("#what-if-facts", Facts)
            half = {label: value for label, value, _ in facts.shown}["CPU saved"]
            await s.press("plus")
            await s.until(lambda: level.faster == 2.5)
            assert {label: value for label, value, _ in facts.shown}["CPU saved"] != half
            await s.press("space")
            await s.until(lambda: level.drop)
            assert any("dropped" in label for label, _, _ in facts.shown)
            assert level.query_one("#faster", NumberControl).value == 2.5
            await s.press("escape")
            await s.until(lambda: len(s.app.pane.levels) == 1)
            assert s.app.focused is classes(s)

    play(story)


def test_compare_and_fit_sections(tmp_path: Path) -> None:
    async def story() -> None:
        async with tab(tmp_path) as s:
            pane = s.app.pane
            assert isinstance(pane, Pane)
            sections = pane.query_one("#profile", Sections)
            await s.press("right_square_bracket")
            assert sections.chosen == FIT
            await s.press("v")
            await s.until(lambda: "comparison" in pane.result.tables)
            assert sections.chosen == COMPARISON
            assert summary(s)["intervals"] < 47
            await s.press("v")
            await s.until(lambda: "comparison" not in pane.result.tables)
            assert summary(s)["intervals"] == 47

    play(story)


def test_windows_are_chosen_by_their_ends(tmp_path: Path) -> None:
    async def story() -> None:
        async with tab(tmp_path) as s:
            pane = s.app.pane
            await s.press("6")  # shows where to choose
            await s.until(lambda: pane.query_one("#profile", Sections).chosen == INTERVALS)
            table = s.app.pane.query_one("#intervals", LiveTable)
            await s.until(lambda: table.row is not None)
            for key, begin, end in (("6", 40, 31), ("7", 11, 20)):
                table.move_to(begin - 1)
                await s.press(key)
                await s.see(f"begins at interval {begin}")
                table.move_to(end - 1)
                await s.press(key)
                await s.until(lambda k=key: (pane.parameters.window if k == "6" else pane.parameters.compare) != "")
            assert (pane.parameters.window, pane.parameters.compare) == ("31..40", "11..20")
            await s.until(lambda: "comparison" in pane.result.tables)
            await s.see("intervals 31..40")
            await s.see("intervals 11..20")
            assert table.window.height == 47  # windows are chosen among all intervals
            await s.press("8")
            await s.until(lambda: "comparison" not in pane.result.tables)
            assert (pane.parameters.window, pane.parameters.compare) == ("", "")

    play(story)


def test_the_bar_of_a_share_shows_its_interval() -> None:
    from tui.glyphs import ASCII
    from tui.widgets.table.window import Cell

    row = {"cpu_share_low": 20.0, "cpu_share_high": 40.0}
    cell = Cell("cpu_share", 30.0, row, 26, ASCII, lambda name: 40.0)
    assert "".join(text for text, _ in drawing.share_cell(cell)) == "#" * 10 + ":" * 5 + "." * 5 + "  30.0"
    for odd in (
        {"cpu_share_low": float("nan"), "cpu_share_high": 1.0},
        {"cpu_share_low": None, "cpu_share_high": None},
        {},
    ):
        text = "".join(
            text for text, _ in drawing.share_cell(Cell("cpu_share", 30.0, odd, 26, ASCII, lambda name: 40.0))
        )
        assert text == "#" * 15 + " " * 5 + "  30.0"


def test_a_new_snapshot_extends_the_view_and_a_reset_is_left_out(tmp_path: Path) -> None:
    player = live.steps(tmp_path / "made")
    next(player)
    root = Path(shutil.copytree(tmp_path / "made", tmp_path / "data"))
    still(root, 60)

    async def story() -> None:
        async with tab(tmp_path, root=root) as s:
            assert summary(s)["intervals"] == 47
            next(player)
            shutil.copytree(tmp_path / "made", root, dirs_exist_ok=True)
            await s.press("f5")
            await s.until(lambda: summary(s)["intervals"] == 48)
            assert summary(s)["intervals_used"] == 48
            for _ in range(live.RESET + 2):
                next(player)
            shutil.copytree(tmp_path / "made", root, dirs_exist_ok=True)
            await s.press("f5")
            # the snapshot right after the reset is empty: nothing is known of that moment
            await s.until(lambda: summary(s)["intervals"] == 48 + live.RESET + 1)
            intervals = s.app.pane.result.tables["intervals"]
            doubtful = intervals.filter(~intervals["used"])
            assert doubtful["reason"].to_list() == ["the statistics were reset"]
            await s.see("1 left out")

    play(story)


def test_time_travel_stops_at_intervals(tmp_path: Path) -> None:
    async def story() -> None:
        async with tab(tmp_path) as s:
            await s.press("left_parenthesis")
            await s.until(lambda: not s.app.client.busy and summary(s)["intervals"] < 47)
            await s.press("backslash")
            await s.until(lambda: summary(s)["intervals"] == 47)

    play(story)


def test_cells_fill_their_width() -> None:
    from tui.glyphs import ASCII, BLOCK, BRAILLE
    from tui.widgets.table.window import Cell

    for glyphs in (ASCII, BLOCK, BRAILLE):
        for value in (None, 0.0, 3.0, 99.9):
            cell = Cell("cpu_share", value, {}, 18, glyphs, lambda name: 99.9)
            assert sum(cell_len(text) for text, _ in drawing.share_cell(cell)) <= 18
            cell = Cell("disagreement", value, {}, 9, glyphs, lambda name: 99.9)
            assert sum(cell_len(text) for text, _ in drawing.disagree_cell(cell)) <= 9
