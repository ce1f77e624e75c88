"""Partial updates send the changed cells, all of them, and little else."""

from __future__ import annotations

import gc
import re
import weakref
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import textual.strip
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console
from rich.segment import Segment
from rich.style import Style
from textual._compositor import ChopsUpdate, LayoutUpdate
from textual._styles_cache import StylesCache
from textual.color import Color
from textual.containers import Container, Horizontal, Vertical
from textual.dom import DOMNode
from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget

from tests.chance import tries
from tests.tui.shadow import Shadow
from tests.tui.stage import play, screen_lines, screen_styles, stage
from tui.textual_internals import render_layout, render_spans, wire_of
from tui.widgets.drawing.canvas import COMPONENTS
from tui.widgets.table.table import LiveTable

CONSOLE = Console(force_terminal=True, color_system="truecolor", legacy_windows=False)


def written(text: str) -> dict[tuple[int, int], str]:
    """Cell (line, column) → character that ``text`` writes; a wide one is at its first cell."""
    found: dict[tuple[int, int], str] = {}
    y = x = 0
    for sequence, character in re.findall(r"(\x1b\[[\d;]*[A-Za-z])|([^\x1b])", text):
        if sequence.endswith("H"):
            y, x = (int(part) - 1 for part in sequence[2:-1].split(";"))
        elif sequence.endswith("C"):
            x += int(sequence[2:-1])
        elif character:
            found[y, x] = character
            x += cell_len(character)
    return found


def update(pieces: list[list[str]], spans: list[tuple[int, int, int]]) -> ChopsUpdate:
    chops, ends = [], []
    for pieces_of_line in pieces:
        x, line, line_ends = 0, {}, []
        for text in pieces_of_line:
            line[x] = Strip([Segment(c, Style(color=f"rgb({ord(c) % 256},9,9)")) for c in text])
            x += cell_len(text)
            line_ends.append(x)
        chops.append(line)
        ends.append(line_ends)
    return ChopsUpdate(chops, spans, ends)


@tries(30)
@given(st.data())
def test_every_cell_of_a_span_is_written_as_it_is(data: st.DataObject) -> None:
    pieces = data.draw(st.lists(st.lists(st.text("abc界", min_size=1, max_size=8), min_size=1, max_size=3), min_size=1,
                                max_size=3))  # fmt: skip
    spans = []
    for y, line in enumerate(pieces):
        width = sum(map(cell_len, line))
        start = data.draw(st.integers(0, width - 1))
        spans.append((y, start, data.draw(st.integers(start + 1, width))))
    wire_of(CONSOLE).forget()
    got = written(render_spans(update(pieces, spans), CONSOLE))
    for y, start, stop in spans:
        x = 0
        for piece in pieces[y]:
            plain = piece.isascii()
            for character in piece:
                if start <= x and x + cell_len(character) <= stop:
                    assert got[y, x] == character
                elif plain:
                    assert (y, x) not in got, "a line of single cells is sent from the span on, and no further"
                x += cell_len(character)


def test_a_change_at_the_end_of_a_coloured_line_is_cheap() -> None:
    line = update([["abcdefgh" * 20]], [(0, 157, 159)])
    wire_of(CONSOLE).forget()
    text = render_spans(line, CONSOLE)
    assert text.startswith("\x1b[1;158H") and set(written(text).values()) == {"f", "g"}
    assert len(text) < 80


def test_a_wide_and_a_combining_character_do_not_make_up_for_each_other() -> None:
    """As many characters as cells, and yet the wide one must not be cut."""
    assert "面" in render_spans(update([["e\u0301面x"]], [(0, 2, 4)]), CONSOLE)


def test_only_what_differs_from_the_terminal_is_sent_even_after_a_layout() -> None:
    def screen(*lines: str) -> LayoutUpdate:
        strips = [[Strip([Segment(line, Style(color="red", bgcolor="#101010"))])] for line in lines]
        return LayoutUpdate(strips, Region(0, 0, len(lines[0]), len(lines)))

    wire_of(CONSOLE).forget()
    assert written(render_layout(screen("ab cd", "efghi"), CONSOLE))[1, 4] == "i"
    assert render_layout(screen("ab cd", "efghi"), CONSOLE) == ""
    assert set(written(render_layout(screen("ab cd", "efghX"), CONSOLE))) == {(1, 4)}
    blank = LayoutUpdate([[Strip([Segment(" ", Style(color="blue", bgcolor="#101010"))])]], Region(2, 0, 1, 1))
    assert render_layout(blank, CONSOLE) == "", "a space has no colour of its own"
    wire_of(CONSOLE).forget()
    assert len(written(render_layout(screen("ab cd", "efghX"), CONSOLE))) == 10


@tries(20)
@given(st.lists(st.integers(0, 9), min_size=14, max_size=14), st.integers(-4, 4), st.integers(0, 6), st.integers(7, 14))
def test_lines_that_move_are_moved_by_the_terminal(ids: list[int], by: int, first: int, end: int) -> None:
    def screen(ids: list[int]) -> LayoutUpdate:
        lines = [[Strip([Segment(f"{id} {'qwertzuiopasdfgh'[id:]:16}", Style(color="red"))])] for id in ids]
        return LayoutUpdate(lines, Region(0, 0, 18, len(ids)))

    shadow = object.__new__(Shadow)
    shadow.app, shadow.rows = SimpleNamespace(size=(18, 14)), []  # type: ignore[assignment]
    wire_of(CONSOLE).forget()
    after = ids.copy()
    for place in range(max(first, first + by), min(end, end + by)):
        after[place] = ids[place - by]
    for shown in (ids, after, ids):
        shadow.apply(render_layout(screen(shown), CONSOLE))
        assert [line.strip() for line in shadow.lines()] == [f"{id} {'qwertzuiopasdfgh'[id:]}" for id in shown]


def test_a_new_first_row_costs_its_own_line() -> None:
    lines = [[Strip([Segment(str(n) * 40, Style(color="red"))])] for n in range(100, 130)]
    wire_of(CONSOLE).forget()
    whole = len(render_layout(LayoutUpdate(lines[1:], Region(0, 0, 120, 29)), CONSOLE))
    assert len(render_layout(LayoutUpdate(lines[:29], Region(0, 0, 120, 29)), CONSOLE)) < whole / 20


def test_the_program_uses_it() -> None:
    import tui.app  # noqa: F401

    assert ChopsUpdate.render_segments is render_spans and LayoutUpdate.render_segments is render_layout


def test_what_a_closed_widget_drew_is_forgotten() -> None:
    import tui.app  # noqa: F401

    drawn = StylesCache()
    drawn.get_inner_outer(Color(1, 2, 3), Color(4, 5, 6))
    alive = weakref.ref(drawn)
    del drawn
    gc.collect()
    assert alive() is None


def test_styles_of_components_are_made_when_drawn_with_and_follow_the_theme(tmp_path: Path) -> None:
    async def story() -> None:
        async with stage(tmp_path, painted=True) as s:
            table = s.app.pane.query_one("#table-nodes", LiveTable)
            assert 0 < len(table._component_styles) < len(COMPONENTS) / 2
            seen = {}
            for theme in ("loadlens-dark", "loadlens-light"):
                s.app.theme = theme
                await s.pilot.pause()
                for name in COMPONENTS:  # against what Textual makes for a widget of its own kind
                    component = DOMNode(classes=name)
                    component._attach(table)
                    s.app.stylesheet.apply(component)
                    assert table.get_component_rich_style(name) == component.styles.rich_style
                seen[theme] = table.get_component_rich_style("ll--severe")
            assert seen["loadlens-dark"] != seen["loadlens-light"]
            with pytest.raises(KeyError):
                table.get_component_rich_style("ll--nothing")

    play(story)


@pytest.mark.parametrize("theme", ["dark", "ansi-light"])
def test_a_screen_is_the_same_though_containers_draw_nothing(
    theme: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story() -> None:
        async with stage(tmp_path, (120, 40), theme=theme) as s:
            assert textual.strip.FIFOCache(4) == {} and s.app.pane.render_lines(Region(0, 0, 9, 9)) == []
            shown = screen_lines(s.app), screen_styles(s.app)
            for container in (Container, Horizontal, Vertical):
                monkeypatch.setattr(container, "render_lines", Widget.render_lines)
            assert s.app.pane.render_lines(Region(0, 0, 9, 9))
            assert shown == (screen_lines(s.app), screen_styles(s.app))

    play(story)


def test_what_is_sent_is_what_is_shown(tmp_path: Path) -> None:
    """Every tab's own way of redrawing, on a terminal that only knows what was sent to it."""
    from tests.tui.test_ring_placement import ring

    async def story() -> None:
        async with ring(tmp_path, (120, 40), painted=True) as s:
            grid: dict[tuple[int, int], str] = {}
            display = s.app._display

            def spy(screen: Any, renderable: Any) -> None:
                if hasattr(renderable, "render_segments"):
                    grid.update(written(renderable.render_segments(CONSOLE)))
                display(screen, renderable)

            s.app._display = spy  # type: ignore[method-assign]
            s.app.screen.refresh()
            await s.until(lambda: len(grid) >= 120 * 39)
            for key in ("space", "j", "z", "t", "right_square_bracket", "j", "left_square_bracket", "9"):
                await s.press(key)
                await s.pilot.pause(0.05)
            await s.pilot.pause(0.3)
            for y, line in enumerate(s.text().split("\n")):
                sent = "".join(grid.get((y, x), " ") for x in range(120)).rstrip()
                assert sent == line.rstrip(), f"line {y}"

    play(story)
