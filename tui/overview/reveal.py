"""The way from a finding to its row: the section, the table and the cursor of a tab are put where it stands."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tui.widgets.sections import Sections
from tui.widgets.table.table import LiveTable

if TYPE_CHECKING:
    from tui.views.shared.pane import ViewPane

WAIT_S = 0.05
"""Seconds between two looks."""
RESULT_S = 30.0
"""Seconds to wait for the tab's first result; ``ROW_S``: for a table, and for the row to be in it."""
ROW_S = 5.0


async def reveal(pane: ViewPane, table: str, key: tuple[Any, ...]) -> bool:
    """Put the cursor of the tab's table ``table`` on the row with ``key``; return whether it is there.

    Drill-downs are closed, and a filter that hides the row is removed. Waits for the tab's first result. Nothing is done once
    the operator looks at another tab: the focus would follow to a table that is not on screen.
    """
    if not await _until(lambda: not pane.display or (pane.result is not None and bool(pane.levels)), RESULT_S):
        return False
    while pane.display and await pane.back():
        pass
    pane.unzoom()

    def found() -> list[LiveTable]:
        return [each for each in pane.query(LiveTable) if each.name == f"{pane.entry.name}/{table}"]

    if not await _until(lambda: not pane.display or found(), ROW_S) or not pane.display:  # the tab is being mounted
        return False
    shown = found()[0]
    around = list(shown.ancestors_with_self)
    for holder in around:
        if isinstance(holder, Sections):
            holder.choose(next(index for index, (_, content) in enumerate(holder.contents) if content in around))
    shown.focus(scroll_visible=False)
    if await _until(lambda: shown.move_to_key(key), ROW_S if not shown.choice.filter else WAIT_S):
        return True
    if shown.choice.filter:
        shown.choose(filter="")
        return await _until(lambda: shown.move_to_key(key), ROW_S)
    return False


async def _until(true: Callable[[], object], seconds: float) -> bool:
    """Wait until ``true()``, for at most ``seconds``; return whether it is."""
    for _ in range(max(int(seconds / WAIT_S), 1)):
        if true():
            return True
        await asyncio.sleep(WAIT_S)
    return bool(true())
