"""Sections: a row of titles and one content at a time. The titles of the tabs are the same widget without content."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from textual import events
from textual.app import ComposeResult
from textual.message import Message
from textual.widget import Widget

from tui.widgets.drawing.canvas import Canvas, Frame
from tui.widgets.drawing.fragments import Line, cells, harmless
from tui.widgets.table.table import LiveTable


def focus_first(widget: Widget) -> None:
    """Focus the first widget inside that takes keys, tables before all others."""
    tables: Iterable[Widget] = [table for table in widget.query(LiveTable) if on_screen(table)]
    for candidate in (*tables, *widget.query("*")):
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

        bar: TitleBar
        index: int

        @property
        def control(self) -> TitleBar:
            """Return the bar."""
            return self.bar

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
        if indices != self.faded:
            self.faded = indices
            self.repaint()

    def choose(self, index: int) -> None:
        """Highlight the title ``index``."""
        self.chosen = index
        self.repaint()

    def mark(self, index: int, text: str, style: str = "") -> None:
        """Put a few characters (a count, a warning) behind a title; an empty text removes them."""
        if (text, style) == self.marks.get(index, ("", style)):
            return
        if text:
            self.marks[index] = (text, style)
        else:
            self.marks.pop(index, None)
        self.repaint()

    def _parts(self, width: int) -> tuple[list[Line], int]:
        """Return the titles, and the cells between them: the gap is dropped before letters are."""
        limits = [60, 16, 12, 9, 6, 3]
        parts: list[Line] = []
        for limit in limits:
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
                line: Line = [(f" {number}", style or "key"), (f"{shown} ", style)]
                if index in self.marks:
                    text, mark_style = self.marks[index]
                    line.insert(2, (f"{text} ", style or mark_style))
                parts.append(line)
            size = sum(cells(text) for part in parts for text, _ in part)
            if size + len(parts) - 1 <= width:
                return parts, 1
            if size - 1 <= width:  # the blank behind the last one may go
                return parts, 0
        return parts, 1

    def paint(self, width: int, height: int) -> list[Line]:
        """Return the titles with a cell between them where there is room."""
        out: Line = []
        parts, gap = self._parts(width)
        for part in parts:
            if out and gap:
                out.append((" " * gap, ""))
            out += part
        return [out]

    def on_click(self, event: events.Click) -> None:
        """Post which title was clicked."""
        x = 0
        parts, gap = self._parts(self.size.width)
        shown = [index for index in range(len(self.titles)) if index not in self.hidden]
        for index, part in zip(shown, parts, strict=True):
            size = sum(cells(text) for text, _ in part)
            if x <= event.x < x + size:
                self.post_message(self.Clicked(self, index))
                return
            x += size + gap


class Sections(Frame):
    """A title bar over contents of which one is shown. Keys ``[`` and ``]`` of the pane step through them.

    ``add`` before mounting. ``Shown`` is posted when another content is shown; only shown contents need drawing.
    """

    DEFAULT_CSS = """
    Sections { height: 1fr; width: 1fr; }
    Sections > TitleBar { height: 1; }
    """

    @dataclass
    class Shown(Message):
        """Another section is shown."""

        sections: Sections
        index: int

        @property
        def control(self) -> Sections:
            """Return the sections."""
            return self.sections

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.contents: list[tuple[str, Widget]] = []
        self.chosen = 0

    def add(self, title: str, content: Widget) -> Sections:
        """Add a section; return the widget itself for chaining."""
        self.contents.append((title, content))
        return self

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
        if not self.contents or index == self.chosen:
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
            if content.focusable:
                content.focus(scroll_visible=False)
            else:
                focus_first(content)
        self.post_message(self.Shown(self, self.chosen))

    @property
    def hidden(self) -> frozenset[int]:
        """Return the sections that do not apply."""
        return self.query_one(TitleBar).hidden if self.is_mounted else frozenset()

    def hide(self, hidden: frozenset[int]) -> None:
        """Leave out the sections ``hidden``, which do not apply; if one of them is shown, show the first section."""
        bar = self.query_one(TitleBar)
        if bar.hidden != hidden:
            bar.hidden = hidden
            bar.repaint()
        if self.chosen in hidden:
            self.choose(0)

    def step(self, by: int) -> None:
        """Show the next or previous section."""
        shown = [index for index in range(len(self.contents)) if index not in self.hidden]
        if shown:
            self.choose(shown[(shown.index(self.chosen) + by) % len(shown)])

    @property
    def current(self) -> Widget | None:
        """Return the shown content."""
        return self.contents[self.chosen][1] if self.contents else None

    def on_title_bar_clicked(self, event: TitleBar.Clicked) -> None:
        """Show the section of the clicked title."""
        event.stop()
        self.choose(event.index)
