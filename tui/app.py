"""The application: it passes keys, messages of the engine and results to where they belong, and ends the program.

Panes and their results are in ``Tabs``, the status line in ``StatusModel``, threads in ``EngineClient``. Keys are handed to
``Boxes``, ``OverviewActions`` and ``ScenarioActions``.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.reactive import Reactive
from textual.screen import Screen
from textual.widget import Widget

from engine.findings.last_look import LastLooks
from engine.own_files.settings import State, folders
from engine.views import VIEWS, Entry
from tui import actions, keymap, textual_internals
from tui.boxes import Boxes
from tui.engine_client import EngineClient, open_session
from tui.messages import SCAN, Changed, Computed, Opened, Progress, WatchFailed
from tui.overview.actions import OverviewActions
from tui.overview.control import Overview
from tui.overview.pane import OverviewPane
from tui.process import lifecycle, logs
from tui.process.gc_policy import Collector
from tui.process.type_ahead import TypeAhead
from tui.scenario_actions import ScenarioActions
from tui.settings import UiSettings
from tui.shell import Shell
from tui.status_model import Source, StatusModel
from tui.tabs import OVERVIEW, Tabs, first_tab
from tui.widgets.drawing.canvas import Frame
from tui.widgets.sections import TitleBar
from tui.widgets.status import KeyBar, StatusLine
from tui.widgets.table.table import LiveTable
from tui.widgets.table.window import Choice

if TYPE_CHECKING:
    from engine.own_files.settings import Settings
    from tui.engine_client import Opener

log = logging.getLogger("loadlens.app")

HOLD_S = 0.3
"""Seconds after which a tab is shown as far as it is drawn: a result that takes longer comes in a second step."""


class MainScreen(Screen[None], textual_internals.NeverScrolls):
    """The screen of the tabs; boxes are other screens over it."""

    # Widgets draw their own focus; Textual would repaint the whole screen (20 KB at 200x50) whenever it moves.
    focused: Reactive[Widget | None] = Reactive(None, repaint=False)
    ALLOW_IN_MAXIMIZED_VIEW = "#bottom"
    ESCAPE_TO_MINIMIZE = False  # Escape first closes a prompt and removes a filter: see ViewPane.action_back


class TableChoices:
    """What the operator chose, by table name (``view/table``): sort and columns last between runs, filters within one."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._filters: dict[str, str] = {}

    def get(self, table: str) -> Choice:
        """Return the choice for ``table``; the declared order and columns if there is none."""
        saved = self._state.get("tables", table, default=None)
        text = self._filters.get(table, "")
        if not isinstance(saved, dict):
            return Choice(filter=text)
        columns = saved.get("columns")
        return Choice(
            sort=str(saved.get("sort", "")),
            descending=bool(saved.get("descending", False)),
            filter=text,
            columns=tuple(str(c) for c in columns) if isinstance(columns, list) and columns else None,
        )

    def set(self, table: str, choice: Choice) -> None:
        """Remember ``choice``; its filter only for this run, since the next one would silently hide rows."""
        self._filters[table] = choice.filter
        columns = {"columns": list(choice.columns)} if choice.columns is not None else {}
        value = {"sort": choice.sort, "descending": choice.descending, **columns}
        self._state.set("tables", table, value=value if choice != Choice(filter=choice.filter) else None)


class Dashboard(Shell):
    """The dashboard. ``loadlens`` starts it (``tui.cli.dashboard``); tests give it another ``opener``, ``entries`` or clock.

    It satisfies ``tui.host.Host``. ``guards``: handle signals and a lost terminal, and decide when garbage is collected;
    not for tests, which share their process. ``prepare``, ``lost``: called before files are read (``EngineClient``) and
    before the process ends without its terminal.
    """

    TITLE = "loadlens"
    CSS_PATH = "app.tcss"
    ENABLE_COMMAND_PALETTE = False
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (100, "-normal"), (160, "-wide")]  # noqa: RUF012
    VERTICAL_BREAKPOINTS = [(0, "-tiny"), (16, "-short"), (30, "-tall")]  # noqa: RUF012
    BINDINGS: ClassVar[list[BindingType]] = [*actions.bindings("app"), *actions.way_out()]

    def __init__(
        self,
        roots: list[Path],
        settings: Settings,
        *,
        view: str | None = None,
        source: Source | None = None,
        guards: bool = False,
        opener: Opener = open_session,
        prepare: Callable[[str], None] | None = None,
        lost: Callable[[], None] | None = None,
        entries: tuple[Entry, ...] = VIEWS,
        state: State | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        super().__init__()
        self.settings = settings
        self.source = source or Source()
        self.entries = entries
        self.log_ring = logs.Ring()
        self.scenarios = ScenarioActions(self)
        self.boxes = Boxes(self, self.scenarios.entries)
        self.views = OverviewActions(self)
        textual_internals.add_action_targets(self, "boxes", "views", "scenarios")
        self.complaints: list[str] = [self.boxes.complaint] if self.boxes.complaint else []
        self.state = State(folders()["state"]) if state is None else state
        if self.state.problem:
            self.complaints.append(f"tab and choices cannot be saved: {self.state.problem}")
        self._saved = False
        self._guards = guards
        self._lost = lost
        self._watchdog: threading.Event | None = None
        self._collector = Collector() if guards else None
        ui = settings.of(UiSettings)
        self.client = EngineClient(
            self._post,
            roots,
            settings,
            opener=opener,
            prepare=prepare,
            settled=self._collector.begin if self._collector is not None else lambda: None,
            fps=ui.frames_per_second or (4 if lifecycle.over_ssh() else 15),
        )
        chosen = view is not None or bool(ui.tab)
        first = first_tab(entries, (view, ui.tab, self.state.get("tab", default="")))
        self.tabs = Tabs(entries, first, settings, self.client, chosen=chosen, id="panes")
        self._looks = LastLooks(self.state, [os.fspath(root.absolute()) for root in roots]) if self.source.own else None
        self.overview = Overview(
            self.tabs, self.client, settings, clock=clock, call=self.views.call_operator, looks=self._looks
        )
        self.status = StatusModel(self.tabs, self.client, settings, clock=clock, source=self.source)
        self._status_line = StatusLine(id="status")
        self._choices = TableChoices(self.state)
        self.request = self.tabs.request
        self.choice_for = self._choices.get
        self.all_problems = self.status.all_problems
        self._type_ahead = TypeAhead(self)
        keys, complaints = keymap.check(self.settings.keys, actions.registry())
        self.complaints += complaints
        self.actions_by_id = {action.id: action for action in keymap.remapped(actions.registry(), keys)}
        # Textual ignores an empty entry; a key that no terminal sends takes the action's keys away.
        self.set_keymap({name: ",".join(names) or name for name, names in keys.items()})

    # -- start ----------------------------------------------------------------------------------------------------

    def get_default_screen(self) -> MainScreen:
        """Return the screen of the tabs."""
        return MainScreen(id="_default")

    def compose(self) -> ComposeResult:
        """Yield titles, panes, status line and keys."""
        titles = [entry.title for entry in self.entries]
        several = self.tabs.several
        yield TitleBar(["Overview", *titles] if several else titles, numbered=0 if several else 1, id="tabs")
        yield self.tabs
        with Frame(id="bottom"):
            yield self._status_line
            yield KeyBar(id="keys")

    async def on_mount(self) -> None:
        """Show the first tab, then start the engine after the first paint."""
        logs.attach(self.log_ring)
        if self._guards:
            lifecycle.install_signals(asyncio.get_running_loop(), self._leave, self.save_before_exit)
            self._watchdog = lifecycle.watch_terminal(self.save_before_exit)
        await self.show_tab(self.tabs.active, chosen=False)
        self.boxes.apply_glyphs()
        shown = self.tabs.shown
        names = sorted((entry.name for entry in self.entries), key=lambda name: name != shown)
        self.call_after_refresh(self.client.start, names)
        self.set_interval(1.0, self._every_second)
        self.screen.bindings_updated_signal.subscribe(self, lambda _screen: self.update_keys())
        # Textual switches to the alternate screen again, which the shell has left empty, but paints nothing.
        self.app_resume_signal.subscribe(self, lambda _app: self.refresh(layout=True))
        problems = [f"settings: {problem.reason}" for problem in self.settings.problems]
        for complaint in (*self.complaints, *problems):
            log.warning("%s", complaint)
            self.notify(complaint, severity="warning", markup=False, timeout=8)

    def _post(self, message: Any) -> None:
        if self.is_running:
            self.post_message(message)

    # -- tabs -----------------------------------------------------------------------------------------------------

    @property
    def main(self) -> Screen[Any]:
        """The screen of the tabs, below any open box."""
        return self.screen_stack[0]

    async def show_tab(self, index: int, *, chosen: bool = True) -> None:
        """Show tab ``index`` (from 0); ``chosen`` by the operator, so that no data moves it away again."""
        if not (0 <= index < len(self.entries) or (index == OVERVIEW and self.tabs.several)):
            return
        self.tabs.chosen = self.tabs.chosen or chosen
        if chosen:
            textual_internals.wire_of(self.console).held = True
            self.set_timer(HOLD_S, partial(textual_internals.send_held, self))
        self.main.query_one("#tabs", TitleBar).choose(self.views.title_index(index))
        pane = await self.tabs.show(index)
        if self.focused is None or self.focused not in pane.walk_children():
            self.screen.set_focus(None)
        self.overview.shown()
        self.update_status()
        self.update_keys()
        self._when_laid_out()

    def _when_laid_out(self, turns: int = 3) -> None:
        """Send a tab that was held once it is drawn; its parts share the room in up to ``turns`` layouts."""
        pane = self.pane
        if turns:
            self.call_after_refresh(self._when_laid_out, turns - 1)
        elif pane is None or pane.levels or pane.error or pane.empty:
            textual_internals.send_held(self)

    async def action_tab(self, number: int) -> None:
        """Show tab ``number`` (from 1)."""
        await self.show_tab(number - 1)

    async def action_step_tab(self, by: int) -> None:
        """Show the tab ``by`` places to the right."""
        first = OVERVIEW if self.tabs.several else 0
        await self.show_tab((self.tabs.active - first + by) % (len(self.entries) - first) + first)

    def on_resize(self) -> None:
        """Send the whole screen again: the terminal may have been cleared, by a new size or by a shell."""
        textual_internals.wire_of(self.console).forget()

    @on(TitleBar.Clicked)
    async def _tab_clicked(self, event: TitleBar.Clicked) -> None:
        await self.show_tab(event.index - self.views.title_index(0))

    @on(OverviewPane.Open)
    async def _row_opened(self, event: OverviewPane.Open) -> None:
        await self.views.go(event.target)

    @on(Tabs.Marked)
    def _titles_marked(self) -> None:
        """Show counts and marks behind the titles."""
        for index, (text, style) in enumerate(self.overview.marks() if self.screen_stack and self.tabs.several else ()):
            self.main.query_one("#tabs", TitleBar).mark(self.views.title_index(index), text, style)

    @on(KeyBar.Clicked)
    async def _key_clicked(self, event: KeyBar.Clicked) -> None:
        await self.boxes.run_from(self.focused, event.action)

    # -- messages of the engine -----------------------------------------------------------------------------------

    def on_opened(self, event: Opened) -> None:
        """Give panes their views once the engine is loaded, all of it or the shown view alone."""
        self.tabs.open_views(event)
        for name, reason in event.failed.items():
            self.notify(f"{name} cannot be loaded: {reason}", severity="error", markup=False, timeout=10)
        self.update_status(recount=True)

    async def on_changed(self, event: Changed) -> None:
        """Compute the shown tab, mark the others: inputs changed. Titles of tabs without data are dim."""
        if not self.screen_stack:
            return  # it came while the screens were closed
        names = self.client.take_changed()
        first = not self.tabs.settled
        self.tabs.scanned = True
        self.status.busy.pop(SCAN, None)
        await self.views.to_data()
        counts = self.tabs.file_counts()
        empty = {self.views.title_index(index) for index, files in enumerate(counts) if not files}
        self.main.query_one("#tabs", TitleBar).fade(frozenset(empty) if len(empty) < len(counts) else frozenset())
        if self.pane is not None and not self.pane.levels and self.tabs.settled:
            self.pane.placeholder()  # it names the tabs that have data
        if self.tabs.mark_changed(names, first=first) and not first:
            self.status.recount()  # the result updates the status line, else the next second does
        else:
            self.update_status(recount=True)
        self.overview.changed(names)

    async def on_computed(self, event: Computed) -> None:
        """Show a result."""
        self.status.busy.pop(event.view, None)
        await self.tabs.receive(event)
        self._when_laid_out()
        if self.overview.take(event):
            await self.views.to_data()
        self.update_status(recount=True)

    def on_progress(self, event: Progress) -> None:
        """Show how far the scan or a long computation is, in the shown pane too if that waits for it."""
        if event.view == SCAN:
            text = f"reading {event.fraction:.0%} {event.text}"
        else:
            done = round(min(max(event.fraction, 0.0), 1.0) * 10)
            bar = self.glyphs.eighths[-1] * done + self.glyphs.gap * (10 - done)
            text = f"{event.text} {bar} {event.fraction:.0%}"
        self.status.busy[event.view] = text
        if self.pane is not None and event.view in (SCAN, self.pane.entry.name):
            self.pane.placeholder(text)
        self.update_status()

    def on_watch_failed(self, event: WatchFailed) -> None:
        """Say, until the end, that data are no longer live."""
        self.status.watch_error = f"not watching: {event.reason}"
        if self.pane is not None and not self.pane.levels:
            self.pane.show_load_error(event.reason)
        self.notify(self.status.watch_error, severity="error", markup=False, timeout=10)
        self.update_status(recount=True)

    # -- what panes, tables and boxes ask for (tui.host) ----------------------------------------------------------

    def file_counts(self) -> Sequence[tuple[str, int]]:
        """Return title and number of files of each tab, in the order of tabs."""
        return [(entry.title, files) for entry, files in zip(self.entries, self.tabs.file_counts(), strict=True)]

    def working(self, view: str) -> bool:
        """Return whether a long computation of ``view`` is under way."""
        return view in self.status.busy

    # -- status and keys ------------------------------------------------------------------------------------------

    def update_status(self, *, recount: bool = False) -> None:
        """Bring the status line up to date. ``recount``: there may be other problems."""
        if recount:
            self.status.recount()
        if self.screen_stack and (self.pane is not None or self.tabs.active == OVERVIEW):
            caption = self.focused.caption if isinstance(self.focused, LiveTable) else ""
            self._status_line.show(self.status.facts(self.pane, self.glyphs), self.status.work(self.glyphs), caption)

    def update_keys(self) -> None:
        """Show the keys that do something where the focus is."""
        if not self.is_running or len(self.screen_stack) != 1:
            return
        words = self.pane.key_words() if self.pane is not None else {}
        shown = [
            (words.get(action.id, action), key)
            for key, active in self.screen.active_bindings.items()
            if (action := self.actions_by_id.get(active.binding.id or "")) and active.enabled and key in action.keys[:1]
        ]
        self.main.query_one(KeyBar).show(shown)

    def _every_second(self) -> None:
        """Let the age of the data grow; collect garbage if this is a quiet moment."""
        self.update_status()
        self.overview.tick()
        if self.source.recorder is not None and not self.tabs.views_are_loading:
            self.source.recorder.look(self.client.session)
        if self._collector is not None:
            self._collector.tick(self.client.busy)

    async def on_event(self, event: events.Event) -> None:
        """Note keys and the mouse as signs of an operator at work, then dispatch as Textual does."""
        if self._collector is not None and isinstance(event, events.InputEvent):
            self._collector.touched()
        if not self._type_ahead.hold(event):
            await super().on_event(event)

    @on(LiveTable.Highlighted)
    @on(Tabs.Delayed)
    def _status_changed(self) -> None:
        self.update_status()

    @on(LiveTable.Chosen)
    def _choice_made(self, event: LiveTable.Chosen) -> None:
        self.update_status()
        if event.table.name:
            self._choices.set(event.table.name, event.table.choice)

    def on_descendant_focus(self, event: events.DescendantFocus) -> None:
        """Show the keys and the place of what has the focus now."""
        self.update_status()
        self.update_keys()

    # -- the end --------------------------------------------------------------------------------------------------

    async def action_quit(self) -> None:
        """Leave; tab and choices are remembered."""
        self._leave(0)

    def _leave(self, code: int) -> None:
        """End the application with this exit code."""
        self.save_state()
        self.client.stop()
        self._type_ahead.drop()
        if self._watchdog is not None:
            self._watchdog.set()
        self.exit(return_code=code, message=None)

    def save_before_exit(self) -> None:
        """Do what must be done before the process ends without its terminal: save state, remove temporary files."""
        self.save_state()
        self.client.stop()
        if self._lost is not None:
            self._lost()

    def save_state(self) -> None:
        """Save tab and choices; later calls do nothing."""
        if not self._saved:
            self._saved = True
            self.state.set("tab", value=self.tabs.shown)
            if self._looks is not None:
                self._looks.save()
            self.state.save()

    def on_unmount(self) -> None:
        """Compute and post nothing after the end."""
        self.client.stop()
        self.overview.close()
        logs.detach(self.log_ring)

    def _fatal_error(self) -> None:
        """End after a bug: log it, and print its traceback and where the log is."""
        log.critical("the dashboard ended by an error", exc_info=self._exception)
        log.info("this log is %s", folders()["log"])
        textual_internals.exit_with_traceback(self)
