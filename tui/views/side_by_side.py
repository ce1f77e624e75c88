"""A level of any tab: the numbers of another scenario or moment beside those on screen, with their change."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from textual.app import ComposeResult

from tui.views.base import Level
from tui.widgets.table.table import LiveTable

if TYPE_CHECKING:
    from engine.result import Result


class SideBySide(Level):
    """``other``: computes the result to compare with, called ``name``, again for each one that comes on screen."""

    def __init__(self, name: str, other: Callable[[], Awaitable[Result | None]]) -> None:
        super().__init__(f"against {name}")
        self._other = other

    def compose(self) -> ComposeResult:
        """Yield the table."""
        yield LiveTable(name="side-by-side/numbers", id="side-by-side")

    def show(self, result: Result) -> None:
        """Compare ``result`` with the other one."""
        self.run_worker(self._compare(result), exclusive=True, exit_on_error=False)

    async def _compare(self, result: Result) -> None:
        from engine.side_by_side import SIDES, side_by_side

        other = await self._other()
        view = self.pane.view
        if other is not None and view is not None and self.is_attached:
            self.query_one(LiveTable).show(side_by_side(view.tables, other, result), SIDES)
