"""The frame: five tabs, their panes, the status line; it passes requests and results between panes and bridge."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from textual import events, on
from textual.app import App, ComposeResult
from textual.filter import Monochrome, NoColor
from textual.screen import Screen
from textual.scrollbar import ScrollBar, ScrollBarRender

from engine import units
from engine.views import VIEWS, Entry
from tui import actions, glyphs, keymap, lifecycle, logs
from tui.engine_client import Bridge, Opener, open_session
from tui.gc_policy import Collector
from tui.messages import Changed, Computed, Opened, Progress, Scanning, WatchFailed
from tui.screens.box import MainScreen
from tui.themes import THEMES
from tui.views.base import ViewPane, make_pane
from tui.widgets.drawing import partial
from tui.widgets.drawing.canvas import Frame
from tui.widgets.sections import TitleBar
from tui.widgets.status import KeyBar, StatusFacts, StatusLine
from tui.widgets.table.table import LiveTable
from tui.widgets.table.window import Choice

if TYPE_CHECKING:
    from engine.inputs import Inputs
    from engine.problems import Problem
    from engine.settings import Settings, State

log = logging.getLogger("loadlens.shell")

partial.install()

RECOUNT_S = 5.0
"""So often problems are counted anew where nothing says that anything changed: folding thousands takes a while."""

WATCHED = {"events": "watched", "polling": "polled", "missing": "folder missing", "idle": ""}
"""How files are followed, as the status line says it."""


class AsciiScrollBar(ScrollBarRender):
    """A scroll bar without partial blocks: its thumb is a coloured space."""

    VERTICAL_BARS: ClassVar[list[str]] = [" "] * 8
    HORIZONTAL_BARS: ClassVar[list[str]] = [" "] * 8


class Dashboard(App[None]):
    """Five tabs, their panes and the status line, and what passes between panes and bridge. ``Shell`` adds the keys."""

    TITLE = "loadlens"
    CSS_PATH = "app.tcss"
    ENABLE_COMMAND_PALETTE = False
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (100, "-normal"), (160, "-wide")]  # noqa: RUF012
    VERTICAL_BREAKPOINTS = [(0, "-tiny"), (16, "-short"), (30, "-tall")]  # noqa: RUF012

    def __init__(
        self,
        roots: list[Path],
        settings: Settings,
        *,
        view: str | None = None,
        demo: bool = False,
        guards: bool = False,
        opener: Opener = open_session,
        prepare: Callable[[str], None] | None = None,
        lost: Callable[[], None] | None = None,
        entries: tuple[Entry, ...] = VIEWS,
        state: State | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        super().__init__()
        for theme in THEMES:
            self.register_theme(theme)
        self.roots = roots
        self.settings = settings
        self.demo = demo
        self.entries = entries
        self.clock = clock
        self.glyphs = glyphs.choose(settings.ui.glyphs, encoding=lifecycle.encoding())
        self.complaints: list[str] = []
        self.ring = logs.Ring()
        self.paused = False
        self.frozen: dict[str, Inputs] = {}
        self.frozen_changes = 0
        self.scanned = False
        self._settled = False
        self._loading = False
        self._state = state
        self._guards = guards
        self._wanted = view
        self._chose_tab = view is not None
        self._panes: dict[str, ViewPane] = {}
        self._status_line = StatusLine(id="status")
        self._views: dict[str, Any] = {}
        self._failed: dict[str, str] = {}
        self._active = 0
        self._busy: dict[str, str] = {}
        self._table_filters: dict[str, str] = {}
        self._watch_error = ""
        self._mouse = False
        self._settings_problems: list[Problem] = []
        self._problems = 0
        self._recount_at = 0.0
        self._watchdog: lifecycle.Watchdog | None = None
        self._saved = False
        self._lost = lost
        fps = settings.ui.frames_per_second or (4 if lifecycle.over_ssh() else 15)
        self._collector = Collector() if guards else None
        settled = self._collector.begin if self._collector is not None else lambda: None
        self.bridge = Bridge(self._post, roots, settings, opener=opener, prepare=prepare, settled=settled, fps=fps)
        self._apply_theme()
        self._apply_no_color()
        self._apply_keys()

    # -- start --------------------------------------------------------------------------------------------------

    @property
    def wants_mouse(self) -> bool:
        """Whether to start with mouse reporting."""
        wanted = self.settings.ui.mouse
        self._mouse = wanted == "on" or (wanted != "off" and not lifecycle.over_ssh())
        return self._mouse

    def _apply_theme(self) -> None:
        known = tuple(self.available_themes)
        name, complaint = lifecycle.theme_for(self.settings.ui.theme, os.environ, known)
        if complaint:
            self.complaints.append(complaint)
        self.theme = name

    def _apply_no_color(self) -> None:
        """With NO_COLOR Textual chose its filter before our theme was set: greys as 24-bit colours. Take the one that
        leaves colours out; the cursor is then shown in reverse (app.tcss)."""
        if self.no_color and self.native_ansi_color:
            self._filters = [NoColor() if isinstance(one, Monochrome) else one for one in self._filters]
            self.add_class("-no-color")

    def _apply_keys(self) -> None:
        taken, complaints = keymap.check(self.settings.keys, actions.registry())
        self.complaints += complaints
        self.actions_by_id = {action.id: action for action in keymap.remapped(actions.registry(), taken)}
        # Textual ignores an empty entry; a key that no terminal sends takes the action's keys away.
        self.set_keymap({name: ",".join(keys) or "unbound" for name, keys in taken.items()})

    @property
    def state(self) -> State:
        """What the dashboard remembers between runs."""
        if self._state is None:
            from engine.settings import State, folders

            self._state = State(folders()["state"])
        return self._state

    def get_default_screen(self) -> MainScreen:
        """The screen of the tabs."""
        return MainScreen(id="_default")

    def _first_tab(self) -> int:
        """The tab that was asked for, is set, or was left; else the first."""
        names = [entry.name for entry in self.entries]
        for wanted in (self._wanted, self.settings.ui.tab, self.state.get("tab", default="")):
            if wanted in names:
                return names.index(wanted)
        return 0

    def compose(self) -> ComposeResult:
        """Its widgets."""
        yield TitleBar([entry.title for entry in self.entries], numbered=True, id="tabs")
        # The first pane is here from the start: what is mounted later costs a repaint of the screen.
        entry = self.entries[self._first_tab()]
        pane = make_pane(entry, id=f"pane-{entry.name}")
        self._panes[entry.name] = pane
        yield Frame(pane, id="panes")
        with Frame(id="bottom"):
            yield self._status_line
            yield KeyBar(id="keys")

    async def on_mount(self) -> None:
        """Show the first tab, then start the engine after the first paint."""
        logs.attach(self.ring)
        if self._guards:
            lifecycle.install_signals(asyncio.get_running_loop(), self._leave, self.last_words)
            self._watchdog = lifecycle.Watchdog(self.last_words)
            self._watchdog.start()
        await self.show_tab(self._first_tab(), chosen=bool(self.settings.ui.tab))
        self._use_glyphs()
        shown = self.entries[self._active].name
        others = [entry.name for entry in self.entries if entry.ready and entry.name != shown]
        self.call_after_refresh(self.bridge.start, [shown, *others])
        self.set_interval(1.0, self._every_second)
        self.screen.bindings_updated_signal.subscribe(self, lambda _screen: self.update_keys())
        for complaint in self.complaints:
            log.warning("%s", complaint)
            self.notify(complaint, severity="warning", markup=False, timeout=8)
        for problem in self.settings.problems:
            log.warning("%s: %s", problem.path, problem.reason)
            self.notify(f"settings: {problem.reason}", severity="warning", markup=False, timeout=8)

    def _post(self, message: Any) -> None:
        if self.is_running:
            self.post_message(message)

    # -- tabs ---------------------------------------------------------------------------------------------------

    @property
    def main(self) -> Screen[Any]:
        """The screen of the tabs, whatever box is over it."""
        return self.screen_stack[0]

    @property
    def pane(self) -> ViewPane | None:
        """The pane on screen."""
        return self._panes.get(self.entries[self._active].name)

    @property
    def panes(self) -> dict[str, ViewPane]:
        """The panes made so far, by view name."""
        return self._panes

    async def show_tab(self, index: int, *, chosen: bool = True) -> None:
        """Show tab ``index`` (from 0); ``chosen`` by the operator, so that no data moves it away again."""
        if not 0 <= index < len(self.entries):
            return
        self._chose_tab = self._chose_tab or chosen
        entry = self.entries[index]
        holder = self.main.query_one("#panes")
        self._active = index
        pane = self._panes.get(entry.name)
        for other in self._panes.values():
            other.display = other is pane
        if pane is None:
            pane = make_pane(entry, id=f"pane-{entry.name}")
            self._panes[entry.name] = pane
            await holder.mount(pane)
            if entry.name in self._views:
                self._give_view(pane)
            elif entry.name in self._failed:
                pane.error = self._failed[entry.name]
                pane.placeholder()
            elif len(self._panes) > 1:  # the first one's view is being loaded
                self.bridge.hurry()
        self.main.query_one("#tabs", TitleBar).choose(index)
        if pane.dirty:
            self.request(pane, urgent=True)
        pane.focus_content()
        if self.focused is None or self.focused not in pane.walk_children():
            self.screen.set_focus(None)
        self.update_status()
        self.update_keys()

    async def action_tab(self, number: int) -> None:
        """Show tab ``number`` (from 1)."""
        await self.show_tab(number - 1)

    async def action_tab_next(self) -> None:
        """The tab to the right."""
        await self.show_tab((self._active + 1) % len(self.entries))

    async def action_tab_previous(self) -> None:
        """The tab to the left."""
        await self.show_tab((self._active - 1) % len(self.entries))

    @on(TitleBar.Clicked, "#tabs")
    async def _tab_clicked(self, event: TitleBar.Clicked) -> None:
        await self.show_tab(event.index)

    # -- requests and results -----------------------------------------------------------------------------------

    def _give_view(self, pane: ViewPane) -> None:
        from engine.settings import view_parameters

        view = self._views[pane.entry.name]
        parameters, problems = view_parameters(self.settings, pane.entry.name, view.parameters)
        self._settings_problems += [p for p in problems if p not in self._settings_problems]
        for problem in problems:
            self.notify(f"settings: {problem.reason}", severity="warning", markup=False, timeout=8)
        pane.loaded(view, parameters)

    def request(self, pane: ViewPane, *, urgent: bool) -> None:
        """Ask for a new result of ``pane``: with its parameters, at its time, on frozen inputs while paused."""
        name = pane.entry.name
        if pane.view is None or not self.scanned:
            pane.dirty = True
            return
        pane.dirty = False
        inputs = self.frozen.get(name) if self.paused else None
        self.bridge.request(name, pane.parameters, at_ms=pane.at_ms, inputs=inputs, urgent=urgent)

    def on_opened(self, event: Opened) -> None:
        """The engine is loaded, wholly or the shown view alone: panes learn their views."""
        self._views.update(event.views)
        self._failed.update(event.failed)
        self._loading = event.more
        session = self.bridge.session
        if self.paused and session is not None:
            self.frozen |= {name: session.inputs(name) for name in event.views}
        for pane in self._panes.values():
            if pane.entry.name in event.views:
                self._give_view(pane)
        for name, reason in event.failed.items():
            self.notify(f"{name} cannot be loaded: {reason}", severity="error", markup=False, timeout=10)
            found = self._panes.get(name)
            if found is not None:
                found.error = reason
                found.placeholder()
        self.update_status(recount=True)

    async def on_changed(self, event: Changed) -> None:
        """Inputs changed: compute the visible tab, mark the others."""
        names = self.bridge.take_changed()
        first = not self._settled
        self.scanned = True
        self._busy.pop("scan", None)
        if first:
            self._settled = await self._settle()
        asked = False
        for name, pane in self._panes.items():
            if name not in names and not (first and pane.dirty):
                continue
            pane.dirty = True
            if not self.paused and pane is self.pane and self._settled:
                self.request(pane, urgent=first)
                asked = True
        if asked and not first:
            self._recount_at = 0.0  # its result brings the status line up to date, at the latest the next second does
        else:
            self.update_status(recount=True)

    async def _settle(self) -> bool:
        """Decide which tab is shown; False while the shown one has no files and other views are still being loaded."""
        session = self.bridge.session
        if session is None or self._chose_tab or not self._loading:
            if not self._chose_tab:
                await self._first_tab_with_data()
            return True
        name = self.entries[self._active].name
        return name in self._views and bool(session.inputs(name).files)

    async def _first_tab_with_data(self) -> None:
        """Without a choice of the operator show the first tab that has files, if the shown one has none."""
        session = self.bridge.session
        if session is None:
            return
        counts = [len(session.inputs(entry.name).files) if entry.name in self._views else 0 for entry in self.entries]
        if not counts[self._active] and any(counts):
            await self.show_tab(next(index for index, count in enumerate(counts) if count), chosen=False)

    async def on_computed(self, event: Computed) -> None:
        """A result is there: show it, unless the pane has asked for something else meanwhile."""
        outcome = event.outcome
        pane = self._panes.get(outcome.view)
        self._busy.pop(outcome.view, None)
        if pane is None or outcome.parameters != pane.parameters or outcome.at_ms != pane.at_ms:
            self.update_status(recount=True)
            return
        pane.files, pane.stale_files = outcome.files, outcome.stale
        if outcome.result is None:
            if outcome.error:
                log.error("%s: %s", outcome.view, outcome.error)
            await pane.nothing(empty=outcome.empty, error=outcome.error)
        elif not outcome.same or pane.result is None or pane.error:
            began = time.perf_counter()
            await pane.receive(outcome.result)
            drawn = (time.perf_counter() - began) * 1000
            if drawn > 100:
                log.info("%s: drawing took %.0f ms", outcome.view, drawn)
        else:
            pane.result = outcome.result
        self.update_status(recount=True)

    def on_scanning(self, event: Scanning) -> None:
        """The first scan is under way."""
        text = f"reading {event.fraction:.0%} {event.text}"
        self._busy["scan"] = text
        pane = self.pane
        if pane is not None:
            pane.placeholder(text)
        self.update_status()

    def on_progress(self, event: Progress) -> None:
        """A long computation is under way."""
        done = round(min(max(event.fraction, 0.0), 1.0) * 10)
        bar = self.glyphs.eighths[-1] * done + self.glyphs.gap * (10 - done)
        self._busy[event.view] = f"{event.text} {bar} {event.fraction:.0%}"
        pane = self.pane
        if pane is not None and pane.entry.name == event.view:
            pane.placeholder(self._busy[event.view])
        self.update_status()

    def working(self, view: str) -> bool:
        """Whether a long computation of ``view`` is under way."""
        return view in self._busy

    def on_watch_failed(self, event: WatchFailed) -> None:
        """Data are no longer live: say so for good."""
        self._watch_error = f"not watching: {event.reason}"
        pane = self.pane
        if pane is not None and not pane.levels:
            pane.error = event.reason
            pane.placeholder()
        self.notify(self._watch_error, severity="error", markup=False, timeout=10)
        self.update_status(recount=True)

    # -- status and keys ----------------------------------------------------------------------------------------

    def all_problems(self) -> tuple[Problem, ...]:
        """Every problem of settings, live path, inputs and results."""
        from engine.problems import fold

        found = [*self.settings.problems, *self._settings_problems]
        session = self.bridge.session
        if session is not None:
            found += session.problems
            for name in self._views:
                pane = self._panes.get(name)
                # A result tells its inputs' problems, perhaps under better names: not both.
                if pane is None or pane.result is None or pane.dirty:
                    found += session.inputs(name).problems
        for pane in self._panes.values():
            if pane.result is not None and not pane.dirty:
                found += pane.result.problems
        return fold(dict.fromkeys(found))

    def _count_problems(self) -> int:
        """How many problems there are, as counted when something last changed."""
        now = time.monotonic()
        if now >= self._recount_at:
            self._recount_at = now + RECOUNT_S
            self._problems = len(self.all_problems())
        return self._problems

    def update_status(self, *, recount: bool = False) -> None:
        """Say on the status line what the data are. ``recount``: other problems are there."""
        if recount:
            self._recount_at = 0.0
        pane = self.pane
        session = self.bridge.session
        if pane is None or not self.screen_stack:
            return
        newest = pane.result.newest_ms if pane.result is not None else None
        status = session.status if session is not None else None
        modes = sorted({root.mode for root in status.roots}) if status is not None else []
        focused = self.focused
        table = focused if isinstance(focused, LiveTable) else None
        waiting = self.bridge.changes - self.frozen_changes if self.paused else 0
        busy = next(iter(self._busy.values()), "")
        if not busy and session is None:
            busy = "starting" + self.glyphs.ellipsis
        facts = StatusFacts(
            age=units.age(max(self.clock() - newest / 1000, 0.0)) if newest is not None else "",
            files=pane.files,
            stale=pane.stale_files,
            problems=self._count_problems(),
            skipped=status.ignored_count if status is not None else 0,
            mode=" ".join(WATCHED[mode] for mode in modes if WATCHED[mode]),
            paused=self.paused,
            pending=waiting,
            at=units.moment(pane.at_ms) if pane.at_ms is not None else "",
            busy=busy,
            error=self._watch_error or (f"shown is old: {pane.error}" if pane.error and pane.levels else ""),
            caption=table.caption if table is not None else "",
            sampling="demo data" if self.demo else "",
        )
        self._status_line.show(facts)

    def _every_second(self) -> None:
        """The age of the data grows; and nobody may be waiting just now."""
        self.update_status()
        if self._collector is not None:
            self._collector.tick(self.bridge.busy)

    async def on_event(self, event: events.Event) -> None:
        """As the framework has it; keys and the mouse tell that somebody is there."""
        if self._collector is not None and isinstance(event, events.InputEvent):
            self._collector.touched()
        await super().on_event(event)

    def update_keys(self) -> None:
        """Show the keys that do something where the focus is."""
        if not self.is_running or len(self.screen_stack) != 1:
            return
        shown: list[tuple[actions.Action, str]] = []
        for key, active in self.screen.active_bindings.items():
            action = self.actions_by_id.get(active.binding.id or "")
            if action is not None and active.enabled and key == next(iter(action.keys), ""):
                shown.append((action, key))
        for bar in self.main.query(KeyBar):
            bar.show(shown)

    @on(LiveTable.Highlighted)
    def _cursor_moved(self) -> None:
        self.update_status()

    @on(LiveTable.Chosen)
    def _choice_made(self, event: LiveTable.Chosen) -> None:
        table = event.table
        self.update_status()
        if table.name:
            choice = table.choice
            # A filter lives as long as this run: rows that a new run hides without a word would be missed.
            self._table_filters[table.name] = choice.filter
            value: dict[str, Any] = {"sort": choice.sort, "descending": choice.descending}
            if choice.columns is not None:
                value["columns"] = list(choice.columns)
            self.state.set("tables", table.name, value=value if choice != Choice(filter=choice.filter) else None)

    def choice_for(self, name: str) -> Choice:
        """What the operator chose for the table ``name``, columns and order also in an earlier run."""
        found = self.state.get("tables", name, default=None)
        kept = self._table_filters.get(name, "")
        if not isinstance(found, dict):
            return Choice(filter=kept)
        columns = found.get("columns")
        return Choice(
            sort=str(found.get("sort", "")),
            descending=bool(found.get("descending", False)),
            filter=kept,
            columns=tuple(str(c) for c in columns) if isinstance(columns, list) and columns else None,
        )

    # -- looks and the end ---------------------------------------------------------------------------------------

    def _use_glyphs(self) -> None:
        """What is not drawn by our own widgets follows the glyph set: borders by a class, scroll bars here."""
        self.set_class(self.glyphs.ascii, "-ascii")
        ScrollBar.renderer = AsciiScrollBar if self.glyphs.ascii else ScrollBarRender

    def _fatal_error(self) -> None:
        """After a bug: the traceback without values of variables (they hold the operator's data), and where the log is.

        Textual's own prints all locals.
        """
        from rich.segment import Segments
        from rich.traceback import Traceback

        from engine.settings import folders

        log.critical("the dashboard ended by an error", exc_info=self._exception)
        traceback = Traceback(show_locals=False, width=None)
        self._exit_renderables.append(Segments(self.console.render(traceback, self.console.options)))
        log.info("this log is %s", folders()["log"])
        self._close_messages_no_wait()

    def _leave(self, code: int) -> None:
        self.save_state()
        self.bridge.stop()
        if self._watchdog is not None:
            self._watchdog.stop()
        self.exit(return_code=code, message=None)

    def last_words(self) -> None:
        """What must be done before the process ends without its terminal: state saved, temporary files removed."""
        self.save_state()
        self.bridge.stop()
        if self._lost is not None:
            self._lost()

    def save_state(self) -> None:
        """Remember tab and choices; once."""
        if self._saved:
            return
        self._saved = True
        self.state.set("tab", value=self.entries[self._active].name)
        self.state.save()

    def on_unmount(self) -> None:
        """Nothing may post after the end."""
        self.bridge.stop()
        logs.detach(self.ring)

    def on_prompt_changed(self) -> None:
        """Prompts speak to their own callers."""

    def on_descendant_focus(self, event: events.DescendantFocus) -> None:
        """Other keys, another caption."""
        self.update_status()
        self.update_keys()
