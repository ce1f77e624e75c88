"""What the application does for the overview: shows it, goes to findings, marks titles, rings and notifies."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual import on

from engine.findings.notify import NotifySettings
from tui import textual_internals
from tui.app_actions import AppActions
from tui.overview.pane import OverviewPane
from tui.overview.reveal import reveal
from tui.tabs import OVERVIEW, Tabs
from tui.widgets.sections import TitleBar

if TYPE_CHECKING:
    from textual.widget import Widget

    from tui.engine_client import EngineClient
    from tui.overview.control import Overview
    from tui.overview.rows import Target
    from tui.source import Source


class OverviewActions(AppActions):
    """A base of the dashboard."""

    tabs: Tabs
    client: EngineClient
    overview: Overview
    source: Source

    async def show_tab(self, index: int, *, chosen: bool = True) -> None:
        """Show tab ``index`` (from 0, or ``OVERVIEW``); ``chosen`` by the operator, so that no data moves it away again."""
        raise NotImplementedError

    def title_index(self, index: int) -> int:
        """Return the place of tab ``index`` among the titles, where the overview is the first if there is one."""
        return index + 1 if self.tabs.several else index

    async def to_data(self) -> None:
        """Show the tab that has data in place of one without, or of an overview of one view, unless the operator chose a tab."""
        index = self.tabs.with_data(self.overview.empty) if self.tabs.settle() and not self.tabs.chosen else None
        if index is not None:
            await self.show_tab(index, chosen=False)

    async def action_overview(self) -> None:
        """Show all views at once."""
        if self.tabs.several:
            await self.show_tab(OVERVIEW)

    def help_subject(self) -> tuple[Widget | None, str]:
        """Return what is on screen, the overview too, and the scope of its own keys."""
        return (self.tabs.overview, "overview") if self.tabs.active == OVERVIEW else super().help_subject()

    async def action_next_finding(self, by: int) -> None:
        """Go to the next finding of any view, worst first, or to the one before."""
        found = self.overview.next(by)
        if found is None:
            self.notify("there are no findings", timeout=2)
            return
        target, text = found
        self.notify(text, timeout=4, markup=False)
        await self.go(target)

    @on(OverviewPane.Open)
    async def _open(self, event: OverviewPane.Open) -> None:
        await self.go(event.target)

    async def go(self, target: Target) -> None:
        """Show the tab of a view, and the row of one of its tables as soon as it is there."""
        name, row = target
        await self.show_tab(next(index for index, entry in enumerate(self.tabs.entries) if entry.name == name))
        pane = self.pane
        if pane is not None and pane.entry.name == name and row is not None:
            self.run_worker(reveal(pane, *row), group="reveal", exclusive=True, exit_on_error=False)

    @on(Tabs.Marked)
    def _mark_titles(self) -> None:
        """Show counts and marks behind the titles."""
        if not self.screen_stack or not self.tabs.several:
            return
        bar = self.screen_stack[0].query_one("#tabs", TitleBar)
        for index, (text, style) in enumerate(self.overview.marks()):
            bar.mark(self.title_index(index), text, style)

    def call_operator(self, text: str) -> None:
        """Ring the bell and notify outside the terminal, as the settings say."""
        wanted = self.settings.of(NotifySettings)
        if wanted.bell:
            self.bell()
        if wanted.desktop:
            textual_internals.notify_outside(self, text)

    # -- pause and refresh ------------------------------------------------------------------------------------------------

    def action_pause(self) -> None:
        """Freeze what is shown, or go on with the newest data."""
        if self.client.session is None:
            return
        if self.client.paused:
            self.client.resume()
            self._request_shown()
        else:
            self.client.pause(self.tabs.views)
        if self.source.player is not None:
            self.source.player.pause(self.client.paused)
        self.update_status()

    def action_replay(self, by: int) -> None:
        """Play the recording twice as fast (``by`` 1) or half as fast (-1)."""
        if self.source.player is not None:
            self.source.player.faster(by)
            self.update_status()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Leave the keys of a replay out where none is played."""
        return self.source.player is not None if action == "replay" else super().check_action(action, parameters)

    def action_refresh(self) -> None:
        """Look at the folders now and compute the shown tab again."""
        self.client.rescan()
        self._request_shown()

    def _request_shown(self) -> None:
        """Ask for a new result of the shown tab, for those of all views if that is the overview."""
        if self.pane is not None:
            self.tabs.request(self.pane.entry.name, urgent=True)
        else:
            self.overview.changed(self.tabs.views)

    def update_status(self, *, recount: bool = False) -> None:
        """Bring the status line up to date. ``recount``: there may be other problems."""
        raise NotImplementedError
