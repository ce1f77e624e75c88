"""The first screen of a tab: a table of what matters most, and below it what else answers the tab's question."""

from __future__ import annotations

from collections.abc import Iterable

from textual import on
from textual.app import ComposeResult
from textual.widget import Widget

from tui.widgets.drawing.canvas import Frame
from tui.widgets.table.table import LiveTable


class Overview(Frame):
    """A table with as many lines as it has rows, up to all but ``least``, over widgets that take the rest.

    Where fewer than ``least`` lines and half of the screen would be left, the table takes all of them.
    """

    DEFAULT_CSS = """
    Overview { height: 1fr; width: 1fr; layout: vertical; }
    Overview > Frame { height: 1fr; }
    """

    def __init__(self, table: LiveTable, below: Iterable[Widget], *, least: int = 8, id: str | None = None) -> None:
        super().__init__(id=id)
        self.table = table
        self.below = Frame(*below)
        self.least = least

    def compose(self) -> ComposeResult:
        """Yield the table and what is below it."""
        yield self.table
        yield self.below

    def on_resize(self) -> None:
        """Share the lines again."""
        self.fit()

    @on(LiveTable.Highlighted)
    def rows_changed(self, event: LiveTable.Highlighted) -> None:
        """Share the lines again where rows came or went."""
        if event.table is self.table:
            self.fit()

    def fit(self) -> None:
        """Share the lines between the table and what is below it."""
        height, window = self.size.height, self.table.window
        if not height or window is None or self.table.is_maximized:
            return
        wanted = max(window.height, 1) + 1
        room = height - self.least
        alone = room < min(wanted, self.least)
        if self.below.display == alone:
            self.below.display = not alone
        lines = height if alone else min(wanted, room)
        if self.table.styles.height is None or self.table.styles.height.cells != lines:
            self.table.styles.height = lines
