"""The program's own log: the last lines, newest at the bottom."""

from __future__ import annotations

import datetime as dt
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.widget import Widget

from tui.host import host_of
from tui.screens.box import Box
from tui.widgets.drawing.canvas import ScrollCanvas
from tui.widgets.drawing.fragments import Line, wrap

_STYLES = {"WARNING": "moderate", "ERROR": "severe", "CRITICAL": "critical"}


class LogText(ScrollCanvas, can_focus=True):
    """Log lines; the view follows the newest one unless it is scrolled up."""

    def content(self, width: int) -> list[Line]:
        """Return the lines: time and text, warnings and errors in colour."""
        out: list[Line] = []
        for created, level, text in host_of(self).log_lines:
            stamp = dt.datetime.fromtimestamp(created).strftime("%H:%M:%S ")
            for number, part in enumerate(wrap(text, max(width - 9, 10))):
                out.append([(stamp if number == 0 else " " * 9, "dim"), (part, _STYLES.get(level, ""))])
        return out or [[("nothing yet", "dim")]]

    def on_mount(self) -> None:
        """Follow the log every second."""
        self.set_interval(1.0, self.follow)
        self.call_after_refresh(self.follow)

    def follow(self) -> None:
        """Show new lines; stay at the end if the end is shown."""
        at_end = self.scroll_offset.y >= self.max_scroll_y
        self.repaint()
        if at_end:
            self.scroll_end(animate=False)


class LogScreen(Box[None]):
    """The box of the log."""

    heading = "Log"
    keys = "j/k scroll   Esc close"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("L", "close", show=False)]

    def content(self) -> list[Widget]:
        """Return the lines."""
        return [LogText()]
