"""What the application does for the overview: shows it, goes to findings, marks titles, rings and notifies, pauses."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from engine.findings.notify import NotifySettings
from tui import textual_internals
from tui.shell import Keys
from tui.tabs import OVERVIEW
from tui.widgets.sections import Sections
from tui.widgets.table.table import LiveTable

if TYPE_CHECKING:
    from tui.overview.pane import Target
    from tui.views.shared.pane import ViewPane

WAIT_S = 0.05  # seconds between two looks
RESULT_S = 30.0  # seconds to wait for the tab's first result; ``ROW_S``: for a table, and for the row to be in it
ROW_S = 5.0


class OverviewActions(Keys):
    """Shows all views at once and goes to what they found; pauses and refreshes."""

    def title_index(self, index: int) -> int:
        """Return the place of tab ``index`` among the titles. With several views the overview has the first title."""
        return index + 1 if self.app.tabs.several else index

    async def to_data(self) -> None:
        """Show a tab that has data instead of one without, or of an overview of a single view, unless the operator chose a
        tab."""
        index = (
            self.app.tabs.with_data(self.app.overview.empty)
            if self.app.tabs.settle() and not self.app.tabs.chosen
            else None
        )
        if index is not None:
            await self.app.show_tab(index, chosen=False)

    async def action_overview(self) -> None:
        """Show all views at once."""
        if self.app.tabs.several:
            await self.app.show_tab(OVERVIEW)

    async def action_next_finding(self, by: int) -> None:
        """Go to the next finding of any view, worst first, or to the one before; in a searched table to the match."""
        table = self.app.focused
        if isinstance(table, LiveTable) and table.search:
            table.find_again(by)
            return
        found = self.app.overview.next(by)
        if found is None:
            self.app.notify("there are no findings", timeout=2)
            return
        target, text = found
        self.app.notify(text, timeout=4, markup=False)
        await self.go(target)

    async def go(self, target: Target) -> None:
        """Show the tab of a view, and the row of one of its tables as soon as it is there."""
        name, row = target
        await self.app.show_tab(next(index for index, entry in enumerate(self.app.tabs.entries) if entry.name == name))
        pane = self.app.pane
        if pane is not None and pane.entry.name == name and row is not None:
            self.app.run_worker(reveal(pane, *row), group="reveal", exclusive=True, exit_on_error=False)

    def call_operator(self, text: str) -> None:
        """Ring the bell and notify outside the terminal, as the settings say."""
        wanted = self.app.settings.of(NotifySettings)
        if wanted.bell:
            self.app.bell()
        if wanted.desktop:
            textual_internals.notify_outside(self.app, text)

    # -- pause and refresh ------------------------------------------------------------------------------------------------

    def action_pause(self) -> None:
        """Freeze what is shown, or go on with the newest data."""
        if self.app.client.session is None:
            return
        if self.app.client.paused:
            self.app.client.resume()
            self._request_shown()
        else:
            self.app.client.pause(self.app.tabs.views)
        if self.app.source.player is not None:
            self.app.source.player.paused = self.app.client.paused
        self.app.update_status()

    def action_replay(self, by: int) -> None:
        """Play the recording twice as fast (``by`` 1) or half as fast (-1)."""
        if self.app.source.player is not None:
            self.app.source.player.faster(by)
            self.app.update_status()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Leave the keys of a replay out where none is played."""
        return self.app.source.player is not None if action == "replay" else True

    def action_refresh(self) -> None:
        """Look at the folders now, compute the shown tab again, and draw the whole screen again."""
        textual_internals.wire_of(self.app.console).forget()
        self.app.refresh(layout=True)
        self.app.client.rescan()
        self._request_shown()

    def _request_shown(self) -> None:
        """Ask for a new result of the shown tab, for those of all views if that is the overview."""
        if self.app.pane is not None:
            self.app.tabs.request(self.app.pane.entry.name, urgent=True)
        else:
            self.app.overview.changed(self.app.tabs.views)


async def reveal(pane: ViewPane, table: str, key: tuple[Any, ...]) -> bool:
    """Put the cursor of the tab's table ``table`` on the row with ``key``; return whether it is there.

    Drill-downs are closed, and a filter that hides the row is removed. Waits for the tab's first result. Stops once the
    operator looks at another tab: the focus would move to a table that is not on screen.
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
