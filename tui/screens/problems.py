"""The problems: everything wrong with input and settings, with its place; files that are not read; the program's own log."""

from __future__ import annotations

import datetime as dt
from typing import ClassVar

import polars as pl
from textual import on
from textual.binding import Binding, BindingType
from textual.widget import Widget

from engine.core.tables import Column, Table
from tui.host import host_of
from tui.widgets.box import Box, about
from tui.widgets.drawing.canvas import ScrollCanvas
from tui.widgets.drawing.fragments import Line, wrap
from tui.widgets.facts import Facts
from tui.widgets.sections import Sections
from tui.widgets.table.table import LiveTable

_PATH = Column("path", pl.String, "The file.", priority=0)
PROBLEMS = Table(
    "problems",
    "What is wrong with the input.",
    (
        _PATH,
        Column("line", pl.Int64, "The line, from 1.", kind="count", width=7, priority=2),
        Column("kind", pl.String, "What it is.", width=18, priority=1),
        Column("count", pl.Int64, "How often it was met.", kind="count", width=6, priority=2),
        Column("reason", pl.String, "What is wrong, in a sentence.", priority=0),
    ),
    key=("path", "kind", "reason"),
    title="Problems",
)
SKIPPED = Table(
    "not-read",
    "Files that no view reads.",
    (_PATH, Column("reason", pl.String, "Why it is not read.", priority=0)),
    key=("path",),
    title="Not read",
)


class ProblemsScreen(Box[None]):
    """Problems and files that are not read; they follow the input while the box is open."""

    heading = "Problems"
    keys = "/ filter   < > sort   [ ] section   e export   Esc close"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("right_square_bracket", "section(1)", show=False),
        Binding("left_square_bracket", "section(-1)", show=False),
        Binding("exclamation_mark", "close", show=False),
    ]

    def content(self) -> list[Widget]:
        """Return both tables and the chosen reason in full."""
        problems = LiveTable(PROBLEMS, id="problems", empty="no problems")
        skipped = LiveTable(SKIPPED, id="skipped", empty="every file is read")
        return [Sections(("Problems", problems), ("Not read", skipped)), about(4)]

    def on_mount(self) -> None:
        """Fill the tables, then follow the input every second."""
        self.follow()
        self.set_interval(1.0, self.follow)
        self.query_one("#problems", LiveTable).focus()

    def follow(self) -> None:
        """Show the newest problems and files."""
        host = host_of(self)
        problems = pl.DataFrame([problem.as_row() for problem in host.all_problems()], schema=PROBLEMS.schema)
        self.query_one("#problems", LiveTable).show(problems)
        status = host.client.status
        ignored = status.ignored if status is not None else ()
        frame = pl.DataFrame(
            {"path": [i.path for i in ignored], "reason": [i.reason for i in ignored]}, schema=SKIPPED.schema
        )
        self.query_one("#skipped", LiveTable).show(frame)
        self._show_row()

    @on(LiveTable.Highlighted)
    @on(Sections.Shown)
    def _show_row(self) -> None:
        """Show the row under the cursor of the shown table in full."""
        table = self.query_one(Sections).current
        row = (table.row if isinstance(table, LiveTable) else None) or {}
        place = f" line {row['line']}" if row.get("line") else ""
        facts = [("file", f"{row['path']}{place}", ""), ("reason", str(row["reason"]), "")] if row else []
        self.query_one(Facts).show(facts)

    def action_section(self, by: int) -> None:
        """Show the other table."""
        self.query_one(Sections).step(by)


_STYLES = {"WARNING": "moderate", "ERROR": "severe", "CRITICAL": "critical"}


class LogText(ScrollCanvas, can_focus=True):
    """Log lines; the view follows the newest one unless it is scrolled up."""

    def content(self, width: int) -> list[Line]:
        """Return the lines: time and text, warnings and errors in colour."""
        out: list[Line] = []
        for created, level, text in list(host_of(self).log_ring.lines):
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

    def content(self) -> list[Widget]:
        """Return the lines."""
        return [LogText()]
