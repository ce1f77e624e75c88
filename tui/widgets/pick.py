"""A list to pick from: one line per item, and a cursor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from textual import events, on
from textual.binding import Binding, BindingType
from textual.message import Message

from tui.widgets.drawing.canvas import ScrollCanvas
from tui.widgets.drawing.fragments import Line, fit_line, plain


class PickList(ScrollCanvas, can_focus=True):
    """Lines with a cursor. Enter posts ``Picked`` with the index, moving the cursor posts ``Moved``."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "move(-1)", show=False),
        Binding("down,j", "move(1)", show=False),
        Binding("pageup,ctrl+b", "page(-1)", show=False),
        Binding("pagedown,ctrl+f", "page(1)", show=False),
        Binding("home,g", "edge(0)", show=False),
        Binding("end,G", "edge(1)", show=False),
        Binding("enter", "pick", show=False),
    ]

    @dataclass
    class Picked(Message):
        """A line was picked."""

        index: int

    @dataclass
    class Moved(Message):
        """The cursor moved to another line."""

        index: int

    def __init__(self, lines: Sequence[Line] = (), *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.items: list[Line] = list(lines)
        self.cursor = 0

    def show(self, lines: Sequence[Line]) -> None:
        """Show these lines instead; the cursor stays if possible."""
        self.items = list(lines)
        self.cursor = max(min(self.cursor, len(self.items) - 1), 0)
        self.repaint()

    def content(self, width: int) -> list[Line]:
        """Return the lines."""
        return self.items

    def decorate(self, index: int, line: Line) -> Line:
        """Draw the line under the cursor in its style."""
        if index != self.cursor or index >= len(self.items):
            return line
        text = plain(fit_line(line, max(self.scrollable_content_region.width, 1)))
        return [(text, "cursor" if self.has_focus else "cursor-blur")]

    def move(self, index: int) -> None:
        """Put the cursor on line ``index``."""
        index = max(min(index, len(self.items) - 1), 0)
        if index == self.cursor or not self.items:
            return
        self.cursor = index
        top, height = self.scroll_offset.y, max(self.size.height, 1)
        if index < top:
            self.scroll_to(y=index, animate=False)
        elif index >= top + height:
            self.scroll_to(y=index - height + 1, animate=False)
        else:
            self.repaint()
        self.post_message(self.Moved(index))

    def action_move(self, by: int) -> None:
        """Move the cursor up or down."""
        self.move(self.cursor + by)

    def action_page(self, by: int) -> None:
        """Move the cursor a page up or down."""
        self.move(self.cursor + by * max(self.size.height - 1, 1))

    def action_edge(self, last: int) -> None:
        """Move the cursor to the first or last line."""
        self.move(len(self.items) - 1 if last else 0)

    def action_pick(self) -> None:
        """Pick the line under the cursor."""
        if self.items:
            self.post_message(self.Picked(self.cursor))

    @on(events.Focus)
    @on(events.Blur)
    def _focus_changed(self) -> None:
        """Draw the cursor again: its style tells the focus."""
        self.refresh()

    def on_click(self, event: events.Click) -> None:
        """Move the cursor; a double click picks."""
        self.move(self.scroll_offset.y + event.y)
        if event.chain == 2:
            self.action_pick()
