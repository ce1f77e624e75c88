"""The tabs: one pane per view, made when it is first shown; they send parameters and receive results."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from textual.message import Message

from tui.engine_client import PROGRESS_AFTER_S
from tui.overview.pane import OverviewPane
from tui.views.shared.pane import make_pane
from tui.widgets.drawing.canvas import Frame

if TYPE_CHECKING:
    from textual.timer import Timer
    from textual.widget import Widget

    from engine.core.reading import Problem
    from engine.own_files.settings import Settings
    from engine.views import Entry
    from tui.engine_client import EngineClient
    from tui.messages import Computed, Opened
    from tui.views.shared.pane import ViewPane

log = logging.getLogger("loadlens.tabs")

OVERVIEW = -1  # index of the overview among the tabs; it is there if there are several views


def first_tab(entries: Sequence[Entry], wanted: Iterable[str | None]) -> int:
    """Return the index of the first existing tab in ``wanted``, else that of the overview, if there is one."""
    places = {entry.name: index for index, entry in enumerate(entries)}
    if len(entries) > 1:
        places["overview"] = OVERVIEW
    return next((places[name] for name in wanted if name in places), OVERVIEW if len(entries) > 1 else 0)


class Tabs(Frame):
    """The panes of all tabs and the overview, of which one is shown.

    ``several``: whether there is more than one view, and so an overview of them.

    ``active``: index of the shown tab, ``OVERVIEW`` for the overview. ``panes``: the panes made so far, ``views``: the views
    loaded so far, ``failed``: reasons of those that cannot be loaded; all by view name. ``chosen``: whether the operator chose
    the tab, so that no data move it away. ``scanned``: whether the files have been looked at once, so that results can be
    asked for. ``settled``: whether it is decided which tab is shown first.
    """

    class Delayed(Message):
        """The result of the shown tab takes a while; what is shown is to be marked as being computed."""

    class Marked(Message):
        """What stands behind the titles may have changed."""

        def can_replace(self, message: Message) -> bool:
            """Return True for any other: one suffices."""
            return isinstance(message, Tabs.Marked)

    def __init__(
        self, entries: Sequence[Entry], active: int, settings: Settings, client: EngineClient, *, chosen: bool, id: str
    ) -> None:
        # The first pane is here from the start: what is mounted later costs a repaint of the screen.
        first = make_pane(entries[active], id=f"pane-{entries[active].name}") if active != OVERVIEW else None
        self.several = len(entries) > 1
        self.overview = OverviewPane(id="overview") if active == OVERVIEW else None
        super().__init__(*(pane for pane in (self.overview, first) if pane is not None), id=id)
        self.entries = entries
        self.active = active
        self.chosen = chosen
        self.panes: dict[str, ViewPane] = {first.entry.name: first} if first is not None else {}
        self.views: dict[str, Any] = {}
        self.failed: dict[str, str] = {}
        self.scanned = False
        self.settings_problems: list[Problem] = []
        self._settings = settings
        self._client = client
        self.settled = False
        self._loading_others = False
        self._delay_timer: Timer | None = None

    # -- which one is shown ---------------------------------------------------------------------------------------

    @property
    def shown(self) -> str:
        """The name of the shown tab."""
        return "overview" if self.active == OVERVIEW else self.entries[self.active].name

    @property
    def pane(self) -> ViewPane | None:
        """The shown view's pane; None while it is being made, and for the overview."""
        return self.panes.get(self.shown)

    async def show(self, index: int) -> Widget:
        """Show the tab ``index`` (from 0, or ``OVERVIEW``) and focus its content; return its pane."""
        if self.pane is not None and self.pane.is_mounted:
            self.pane.unzoom()
        self.active = index
        pane = self.panes.get(self.shown)
        for other in self.panes.values():
            other.display = other is pane
        if self.overview is not None:
            self.overview.display = index == OVERVIEW
        if index == OVERVIEW:
            if self.overview is None:
                self.overview = OverviewPane(id="overview")
                await self.mount(self.overview)
            if self.active == OVERVIEW:  # no other tab was chosen meanwhile
                self.overview.focus_content()
            return self.overview
        entry = self.entries[index]
        if pane is None:
            pane = self.panes[entry.name] = make_pane(entry, id=f"pane-{entry.name}")
            await self.mount(pane)
            if entry.name in self.views or entry.name in self.failed:
                self._give_view(pane)
            else:
                self._client.first_result.set()  # what is looked at is loaded without waiting for another view's result
        if pane.dirty:
            self.request(entry.name, urgent=True)
        pane.focus_content()
        return pane

    def file_counts(self) -> list[int]:
        """Return how many files each tab has, in the order of tabs; 0 for one that is not loaded."""
        session = self._client.session
        loaded = self.views if session is not None else ()
        return [len(session.inputs(e.name).files) if session and e.name in loaded else 0 for e in self.entries]

    def with_data(self, empty: Collection[str]) -> int | None:
        """Return the index of the first tab that has data, if the shown one has none; else None.

        For the overview: the only tab that has data, if there is just one. ``empty``: views whose files give
        nothing to show, such as the CPU of a server without its queries.
        """
        there = [
            index for index, count in enumerate(self.file_counts()) if count and self.entries[index].name not in empty
        ]
        if self.active == OVERVIEW:
            return there[0] if len(there) == 1 else None
        return there[0] if there and self.active not in there else None

    @property
    def views_are_loading(self) -> bool:
        """Whether the views have not all been loaded yet."""
        return self._loading_others or not (self.views or self.failed)

    # -- views and requests ---------------------------------------------------------------------------------------

    def open_views(self, event: Opened) -> None:
        """Give their views to the panes; mark the panes whose view cannot be loaded."""
        self.views.update(event.views)
        self.failed.update(event.failed)
        self._loading_others = event.more
        self._client.freeze(event.views)
        for name, pane in self.panes.items():
            if name in event.views or name in event.failed:
                self._give_view(pane)

    def _give_view(self, pane: ViewPane) -> None:
        """Give a pane its view, with the parameters of the settings file, or the reason why it cannot be loaded."""
        from engine.own_files.settings import view_parameters

        view = self.views.get(pane.entry.name)
        if view is None:
            pane.show_load_error(self.failed[pane.entry.name])
            return
        parameters, problems = view_parameters(self._settings, pane.entry.name, view.parameters)
        self.settings_problems += [problem for problem in problems if problem not in self.settings_problems]
        for problem in problems:
            self.notify(f"settings: {problem.reason}", severity="warning", markup=False, timeout=8)
        pane.loaded(view, parameters)

    def request(self, name: str, *, urgent: bool) -> bool:
        """Ask for a new result of the view ``name`` with its pane's parameters; return whether it could be asked for.

        Before the files have been looked at the pane is only marked.
        """
        pane = self.panes[name]
        pane.dirty = pane.view is None or not self.scanned
        if not pane.dirty:
            self._client.request(name, pane.parameters, at_ms=pane.at_ms, urgent=urgent)
            if self._delay_timer is None:
                self._delay_timer = self.set_timer(PROGRESS_AFTER_S * 1.1, self._report_delay)
        return not pane.dirty

    def _report_delay(self) -> None:
        """Tell the application if the shown tab still waits for its result."""
        self._delay_timer = None
        if self._client.delayed(self.shown):
            self.post_message(self.Delayed())

    # -- changes and results --------------------------------------------------------------------------------------

    def mark_changed(self, names: Collection[str], *, first: bool) -> bool:
        """Mark the panes of the views ``names`` and ask for the shown one's result; return whether that was done.

        ``first``: nothing has been computed yet, so that what the operator asked for meanwhile is due.
        """
        requested = False
        for name, pane in self.panes.items():
            if name not in names and not (first and pane.dirty):
                continue
            pane.dirty = True
            if not self._client.paused and pane is self.pane and self.settled:
                requested = self.request(name, urgent=first) or requested
        return requested

    def settle(self) -> bool:
        """Decide whether the shown tab stays; False while it has no files and other views are still being loaded."""
        session = self._client.session
        if session is not None and not self.chosen and self._loading_others:
            name = self.shown
            self.settled = name in self.views and bool(session.inputs(name).files)
        else:
            self.settled = True
        return self.settled

    async def receive(self, outcome: Computed) -> None:
        """Draw a result, unless its pane has asked for something else meanwhile or it would change nothing."""
        pane = self.panes.get(outcome.view)
        if outcome.background or pane is None or outcome.parameters != pane.parameters or outcome.at_ms != pane.at_ms:
            return
        if not pane.is_mounted or not pane.app.is_running:  # at the end panes lose their parts before they go
            pane.dirty = True  # it asks again when it is there
            return
        pane.files, pane.stale_files, pane.shown_ms = outcome.files, outcome.stale, outcome.at_ms
        if outcome.result is None:
            if outcome.error:
                log.error("%s: %s", outcome.view, outcome.error)
            await pane.nothing(empty=outcome.empty, error=outcome.error)
        elif outcome.equals is None or pane.result is not outcome.equals or pane.error:
            # Also drawn if it equals a result that was not drawn because the pane had asked for something else.
            await pane.receive(outcome.result)
        else:
            pane.result = outcome.result

    def problems(self) -> list[Problem]:
        """Return the problems of inputs and results of all tabs, with repetitions."""
        problems: list[Problem] = []
        session = self._client.session
        if session is not None:
            for name in self.views:
                pane = self.panes.get(name)
                # A result holds its inputs' problems, perhaps under better names: do not count both.
                if pane is None or pane.result is None or pane.dirty:
                    problems += session.inputs(name).problems
        for pane in self.panes.values():
            if pane.result is not None and not pane.dirty:
                problems += pane.result.problems
        return problems
