"""The application: the dashboard's frame with the keys that work everywhere."""

from __future__ import annotations

from typing import Any, ClassVar

from textual import on
from textual.binding import BindingType

from tui import actions, glyphs
from tui.dashboard import Dashboard
from tui.themes import CYCLE
from tui.widgets.status import KeyBar


class Shell(Dashboard):
    """The dashboard. ``run`` of ``tui.app`` starts it; tests give it another ``opener``, ``entries`` or ``clock``."""

    BINDINGS: ClassVar[list[BindingType]] = [*actions.bindings("app"), *actions.way_out()]

    def action_pause(self) -> None:
        """Freeze what is shown, or go on."""
        session = self.bridge.session
        if session is None:
            return
        self.paused = not self.paused
        if self.paused:
            self.frozen = {name: session.inputs(name) for name in self._views}
            self.frozen_changes = self.bridge.changes
        else:
            self.frozen = {}
            pane = self.pane
            if pane is not None:
                self.request(pane, urgent=True)
        self.update_status()

    def action_refresh(self) -> None:
        """Look again."""
        self.bridge.rescan()
        pane = self.pane
        if pane is not None:
            self.request(pane, urgent=True)

    def action_theme(self) -> None:
        """Next theme."""
        names = list(CYCLE)
        current = names.index(self.theme) if self.theme in names else -1
        self.theme = names[(current + 1) % len(names)]
        self.notify(self.theme, timeout=2, markup=False)

    def action_glyphs(self) -> None:
        """Next set of glyphs."""
        names = list(glyphs.SETS)
        self.glyphs = glyphs.SETS[names[(names.index(self.glyphs.name) + 1) % len(names)]]
        self._use_glyphs()
        for screen in self.screen_stack:
            for widget in screen.walk_children():
                redo = getattr(widget, "redraw", None)
                if callable(redo):
                    redo()
                widget.refresh()
        self.notify(self.glyphs.name, timeout=2, markup=False)

    def action_mouse(self) -> None:
        """Mouse reporting on or off."""
        driver = self._driver
        self._mouse = not self._mouse
        toggle = getattr(driver, "_enable_mouse_support" if self._mouse else "_disable_mouse_support", None)
        if toggle is not None:
            if driver is not None:
                driver._mouse = True
            toggle()
        self.notify(f"mouse {'on' if self._mouse else 'off: the terminal selects text'}", timeout=2, markup=False)

    def action_help(self) -> None:
        """Keys and what they do."""
        from tui.screens.help import HelpScreen

        self.push_screen(HelpScreen(self.pane.entry.name if self.pane is not None else ""))

    def action_palette(self) -> None:
        """All actions by name."""
        from tui.screens.palette import PaletteScreen

        origin = self.focused

        def chosen(action: actions.Action | None) -> None:
            if action is not None:
                self.call_later(self.run_from, origin, action)

        self.push_screen(PaletteScreen(self._reachable()), chosen)

    def _reachable(self) -> list[actions.Action]:
        """Actions that do something where the focus is, by id."""
        ids = {active.binding.id for active in self.screen.active_bindings.values() if active.enabled}
        return [action for name, action in self.actions_by_id.items() if name in ids and action.palette]

    async def run_from(self, origin: Any, action: actions.Action) -> None:
        """Run ``action`` as if its key had been pressed at ``origin``."""
        node = origin if origin is not None and origin.is_attached else (self.pane or self.screen)
        scopes = [node, *node.ancestors] if node is not self else [self]
        for place in scopes:
            if any(binding.id == action.id for _key, binding in place._bindings):
                await self.run_action(action.action, place)
                return
        await self.run_action(action.action, self)

    @on(KeyBar.Clicked)
    async def _key_clicked(self, event: KeyBar.Clicked) -> None:
        await self.run_from(self.focused, event.action)

    def action_problems(self) -> None:
        """Problems of all inputs."""
        from tui.screens.problems import ProblemsScreen

        self.push_screen(ProblemsScreen())

    def action_log(self) -> None:
        """The program's log."""
        from tui.screens.log import LogScreen

        self.push_screen(LogScreen())

    async def action_quit(self) -> None:
        """Leave."""
        self._leave(0)
