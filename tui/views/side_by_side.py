"""A level of any tab: the numbers of another scenario or moment beside those on screen, with their change."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.app import ComposeResult

from tui.views.base import Level
from tui.widgets.table.table import LiveTable

if TYPE_CHECKING:
    from engine.result import Result


class SideBySide(Level):
    """``other``: the result to compare with, called ``name``; what is on screen is after it and follows the data."""

    def __init__(self, name: str, other: Result) -> None:
        super().__init__(f"against {name}")
        self._other = other

    def compose(self) -> ComposeResult:
        """Yield the table."""
        yield LiveTable(name=f"{self._other.view}/side-by-side", id="side-by-side")

    def show(self, result: Result) -> None:
        """Compare ``result`` with the other one."""
        from engine.side_by_side import SIDES, side_by_side

        view = self.pane.view
        tables = view.tables if view is not None else ()
        self.query_one(LiveTable).show(side_by_side(tables, self._other, result), SIDES)
