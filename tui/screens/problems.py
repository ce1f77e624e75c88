"""Problems: everything wrong with input and settings, with its place; and the files that are not read, with why."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding, BindingType
from textual.widget import Widget

from tui.host import host_of
from tui.screens.box import Box, about
from tui.widgets.drawing.fragments import Fragment, cut_left, harmless
from tui.widgets.facts import Facts
from tui.widgets.sections import Sections
from tui.widgets.table.grid import Grid
from tui.widgets.table.table import LiveTable
from tui.widgets.table.window import Cell

if TYPE_CHECKING:
    from engine.problems import Problem
    from engine.tables import Table


def problem_table() -> Table:
    """The columns of a problem."""
    import polars as pl

    from engine.tables import Column, Table

    return Table(
        "problems",
        "What is wrong with the input.",
        (
            Column("path", pl.String, "The file.", priority=0),
            Column("line", pl.Int64, "The line, from 1.", kind="count", width=7, priority=2),
            Column("kind", pl.String, "What it is.", width=18, priority=1),
            Column("count", pl.Int64, "How often it was met.", kind="count", width=6, priority=2),
            Column("reason", pl.String, "What is wrong, in a sentence.", priority=0),
        ),
        key=("path", "kind", "reason"),
        title="Problems",
    )


def skipped_table() -> Table:
    """The columns of a file that is not read."""
    import polars as pl

    from engine.tables import Column, Table

    return Table(
        "not-read",
        "Files that no view reads.",
        (
            Column("path", pl.String, "The file.", priority=0),
            Column("reason", pl.String, "Why it is not read.", priority=0),
        ),
        key=("path",),
        title="Not read",
    )


def path_cell(cell: Cell) -> Sequence[Fragment]:
    """A path cut on the left: its end tells more than its beginning."""
    return [(cut_left(harmless(str(cell.value)), cell.width, cell.glyphs.ellipsis), "")]


class ProblemsScreen(Box[None]):
    """Two tables; it follows the input while it is open."""

    heading = "Problems"
    keys = "/ filter   < > sort   [ ] section   e export   Esc close"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("right_square_bracket", "section(1)", show=False),
        Binding("left_square_bracket", "section(-1)", show=False),
        Binding("exclamation_mark", "close", show=False),
    ]

    def __init__(self) -> None:
        super().__init__()
        self._shown: tuple[Problem, ...] | None = None
        self._tables = problem_table(), skipped_table()

    def content(self) -> list[Widget]:
        """Problems, files not read, and the reason in full."""
        sections = Sections()
        paths = {"path": path_cell}
        sections.add("Problems", LiveTable(self._tables[0], id="problems", renderers=paths))
        sections.add("Not read", LiveTable(self._tables[1], id="skipped", renderers=paths))
        return [sections, about(4)]

    def on_mount(self) -> None:
        """Fill, and keep following."""
        self.follow()
        self.set_interval(1.0, self.follow)
        self.query_one("#problems", LiveTable).focus()

    def follow(self) -> None:
        """Take the newest lists."""
        import polars as pl

        host = host_of(self)
        found = host.all_problems()
        if found != self._shown:
            self._shown = found
            columns = {name: [problem.as_row()[name] for problem in found] for name in self._tables[0].schema}
            self.query_one("#problems", LiveTable).show(pl.DataFrame(columns, schema=self._tables[0].schema))
        status = host.live_status
        ignored = status.ignored if status is not None else ()
        frame = pl.DataFrame(
            {"path": [i.path for i in ignored], "reason": [i.reason for i in ignored]}, schema=self._tables[1].schema
        )
        self.query_one("#skipped", LiveTable).show(frame)
        self._chosen_in_full()

    def on_live_table_highlighted(self, event: LiveTable.Highlighted) -> None:
        """The row under the cursor in full."""
        event.stop()
        if event.table.display:
            self._in_full(event.table)

    def on_sections_shown(self) -> None:
        """Another table, another row."""
        self._chosen_in_full()

    def _chosen_in_full(self) -> None:
        table = self.query_one(Sections).current
        if isinstance(table, LiveTable):
            self._in_full(table)

    def _in_full(self, table: Grid) -> None:
        row = table.row or {}
        place = f" line {row['line']}" if row.get("line") else ""
        facts = [("file", f"{row['path']}{place}", ""), ("reason", str(row["reason"]), "")] if row else []
        self.query_one(Facts).show(facts)

    def action_section(self, by: int) -> None:
        """The other table."""
        self.query_one(Sections).step(by)
