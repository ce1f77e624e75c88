"""Sections: a row of titles and one content at a time. The titles of the tabs are the same widget without content."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from textual import events
from textual.app import ComposeResult
from textual.message import Message
from textual.widget import Widget

from tui.widgets.control import following
from tui.widgets.drawing.canvas import Canvas, Frame
from tui.widgets.drawing.fragments import Line, cells, harmless
from tui.widgets.table.table import LiveTable


def focus_first(widget: Widget) -> None:
    """Focus the first of ``widget`` and those inside that takes keys, tables before all others."""
    for candidate in (*widget.query(LiveTable), widget, *widget.query("*")):
        if candidate.focusable and on_screen(candidate):
            candidate.focus(scroll_visible=False)
            return


def on_screen(widget: Widget) -> bool:
    """Return whether ``widget`` and all around it are displayed."""
    return all(node.display for node in widget.ancestors_with_self if isinstance(node, Widget))


class TitleBar(Canvas):
    """Titles in one line, one of them chosen. Where they do not fit, all but the chosen one are shortened."""

    @dataclass
    class Clicked(Message):
        """A title was clicked."""

        index: int

    def __init__(self, titles: Sequence[str], *, numbered: int | None = None, id: str | None = None) -> None:
        """``numbered``: the number of the first title, None for none."""
        super().__init__(id=id)
        self.titles = titles
        self.marks: dict[int, tuple[str, str]] = {}
        self.chosen = 0
        self.numbered = numbered
        self.hidden: frozenset[int] = frozenset()
        self.faded: frozenset[int] = frozenset()

    def fade(self, indices: frozenset[int]) -> None:
        """Draw these titles dim: there is nothing behind them."""
        self.faded = indices
        self.repaint()

    def choose(self, index: int) -> None:
        """Highlight the title ``index``."""
        self.chosen = index
        self.repaint()

    def mark(self, index: int, text: str, style: str = "") -> None:
        """Put a few characters (a count, a warning) behind a title; an empty text removes them."""
        self.marks[index] = (text, style)
        self.repaint()

    def _parts(self, width: int) -> tuple[list[Line], int]:
        """Return the titles, and the cells between them: the gap is dropped before letters are."""
        parts: list[Line] = []
        for limit in (60, 16, 12, 9, 6, 3):
            parts = []
            for index, title in enumerate(self.titles):
                if index in self.hidden:
                    continue
                number = f"{index + self.numbered} " if self.numbered is not None else ""
                shown = harmless(title)
                if index != self.chosen and cells(shown) > limit:
                    words = shown.split(" ")
                    shown = words[0] if cells(words[0]) <= limit else shown[:limit].rstrip()
                style = "cursor" if index == self.chosen else "dim" if index in self.faded else ""
                text, look = self.marks.get(index, ("", ""))
                mark: Line = [(f"{text} ", style or look)] if text else []
                parts.append([(f" {number}", style or "key"), (f"{shown} ", style), *mark])
            size = sum(cells(text) for part in parts for text, _ in part)
            if size + len(parts) - 1 <= width:
                return parts, 1
            if size - 1 <= width:  # the blank behind the last one may go
                return parts, 0
        return parts, 1

    def paint(self, width: int, height: int) -> list[Line]:
        """Return the titles with a cell between them where there is room."""
        parts, gap = self._parts(width)
        return [[piece for part in parts for piece in (*part, (" " * gap, ""))][:-1]]

    def on_click(self, event: events.Click) -> None:
        """Post which title was clicked."""
        x = 0
        parts, gap = self._parts(self.size.width)
        shown = [index for index in range(len(self.titles)) if index not in self.hidden]
        for index, part in zip(shown, parts, strict=True):
            size = sum(cells(text) for text, _ in part)
            if x <= event.x < x + size:
                self.post_message(self.Clicked(index))
                return
            x += size + gap


class Sections(Frame):
    """A title bar over contents, each with its title, of which one is shown. Keys ``[`` and ``]`` of the pane step through
    them. ``Shown`` is posted when another content is shown; only shown contents need drawing."""

    DEFAULT_CSS = """
    Sections { height: 1fr; width: 1fr; }
    Sections > TitleBar { height: 1; }
    """

    @dataclass
    class Shown(Message):
        """Another section is shown."""

        sections: Sections

    def __init__(self, *contents: tuple[str, Widget], id: str | None = None) -> None:
        super().__init__(id=id)
        self.contents = contents
        self.chosen = 0
        self.hidden: frozenset[int] = frozenset()

    def compose(self) -> ComposeResult:
        """Yield titles and contents."""
        bar = TitleBar([title for title, _ in self.contents])
        bar.display = len(self.contents) > 1
        yield bar
        for index, (_, content) in enumerate(self.contents):
            content.display = index == self.chosen
            yield content

    def choose(self, index: int) -> None:
        """Show section ``index``."""
        if index == self.chosen:
            return
        self.chosen = index % len(self.contents)
        if not self.is_mounted:
            return
        had_focus = self.app.focused is not None and self in self.app.focused.ancestors
        for number, (_, content) in enumerate(self.contents):
            content.display = number == self.chosen
        self.query_one(TitleBar).choose(self.chosen)
        content = self.contents[self.chosen][1]
        if had_focus or self.app.focused is None:
            focus_first(content)
        self.post_message(self.Shown(self))

    def hide(self, hidden: frozenset[int]) -> None:
        """Leave out the sections ``hidden``, which do not apply; if one of them is shown, show the first section."""
        self.hidden = hidden
        bar = self.query_one(TitleBar)
        bar.hidden = hidden
        bar.repaint()
        if self.chosen in hidden:
            self.choose(0)

    def step(self, by: int) -> None:
        """Show the next or previous section."""
        shown = [index for index in range(len(self.contents)) if index not in self.hidden]
        self.choose(following(shown, self.chosen, by))

    @property
    def current(self) -> Widget:
        """Return the shown content."""
        return self.contents[self.chosen][1]

    def on_title_bar_clicked(self, event: TitleBar.Clicked) -> None:
        """Show the section of the clicked title."""
        event.stop()
        self.choose(event.index)
