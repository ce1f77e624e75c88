"""What the application does on its keys, apart from tabs: boxes, theme, glyphs, mouse, and any action by name."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from textual import on
from textual.app import App
from textual.dom import DOMNode

from tui import actions, glyphs, textual_internals, themes
from tui.process import lifecycle
from tui.settings import UiSettings
from tui.widgets.status import KeyBar

if TYPE_CHECKING:
    from collections.abc import Iterable

    from textual.widget import Widget

    from engine.own_files.settings import Settings
    from tui.glyphs import Glyphs
    from tui.screens.palette_entries import Found
    from tui.views.shared.pane import ViewPane


class AppActions(App[None]):
    """The base of the dashboard: its looks, its boxes and how actions are run.

    ``glyphs``: the glyph set in force. ``actions_by_id``: all actions with the keys they have under the user's keymap.
    """

    settings: Settings
    glyphs: Glyphs
    actions_by_id: dict[str, actions.Action]

    @property
    def pane(self) -> ViewPane | None:
        """The pane on screen; None while it is being made."""
        raise NotImplementedError

    # -- looks ----------------------------------------------------------------------------------------------------

    def choose_looks(self) -> str:
        """Take the glyphs, theme and colours that settings and terminal allow; return a complaint, or an empty text."""
        ui = self.settings.of(UiSettings)
        self.glyphs = glyphs.choose(ui.glyphs, encoding=lifecycle.encoding())
        self._mouse = ui.mouse == "on" or (ui.mouse != "off" and not lifecycle.over_ssh())
        for theme in themes.THEMES:
            self.register_theme(theme)
        self.theme, complaint = themes.theme_for(ui.theme, os.environ, tuple(self.available_themes))
        if textual_internals.leave_out_colours(self):
            self.add_class("-no-color")  # the cursor is then shown in reverse (app.tcss)
        return complaint

    @property
    def wants_mouse(self) -> bool:
        """Whether mouse reporting is on."""
        return self._mouse

    def apply_glyphs(self) -> None:
        """Let what our own widgets do not draw follow the glyph set: borders by a class, and scroll bars."""
        self.set_class(self.glyphs.ascii, "-ascii")
        textual_internals.draw_scroll_bars(ascii=self.glyphs.ascii)

    def action_theme(self) -> None:
        """Switch to the next theme."""
        names = list(themes.CYCLE)
        current = names.index(self.theme) if self.theme in names else -1
        self.theme = names[(current + 1) % len(names)]
        self.notify(self.theme, timeout=2, markup=False)

    def action_glyphs(self) -> None:
        """Switch to the next set of glyphs and draw everything again."""
        names = list(glyphs.SETS)
        self.glyphs = glyphs.SETS[names[(names.index(self.glyphs.name) + 1) % len(names)]]
        self.apply_glyphs()
        for screen in self.screen_stack:
            for widget in screen.walk_children():
                redraw = getattr(widget, "redraw", None)
                if callable(redraw):
                    redraw()
                widget.refresh()
        self.notify(self.glyphs.name, timeout=2, markup=False)

    def action_mouse(self) -> None:
        """Switch mouse reporting on or off."""
        self._mouse = not self._mouse
        textual_internals.report_mouse(self, self._mouse)
        self.notify(f"mouse {'on' if self._mouse else 'off: the terminal selects text'}", timeout=2, markup=False)

    # -- boxes ----------------------------------------------------------------------------------------------------

    def action_help(self) -> None:
        """Show the keys and what they do."""
        from tui.screens.help import HelpScreen

        self.push_screen(HelpScreen(*self.help_subject()))

    def help_subject(self) -> tuple[Widget | None, str]:
        """Return what is on screen, and the scope of its own keys."""
        return self.pane, self.pane.entry.name if self.pane is not None else ""

    def action_problems(self) -> None:
        """Show the problems of all inputs."""
        from tui.screens.problems import ProblemsScreen

        self.push_screen(ProblemsScreen())

    def action_log(self) -> None:
        """Show the program's log."""
        from tui.screens.log import LogScreen

        self.push_screen(LogScreen())

    def action_edit_parameters(self, option: str = "") -> None:
        """Edit the parameters of the shown view; the cursor on the one with the key ``option``."""
        from tui.screens.parameters import ParametersScreen

        pane = self.pane
        if pane is None or pane.view is None or pane.parameters is None:
            self.notify("this view is not loaded yet", timeout=2)
        else:
            self.push_screen(ParametersScreen(pane, option))

    # -- actions by name ------------------------------------------------------------------------------------------

    def action_palette(self) -> None:
        """Search actions, sections, columns, options, themes and rows, and run or show one where the focus was."""
        from tui.screens.palette import PaletteScreen
        from tui.screens.palette_entries import actions_found, found_in, rows_in
        from tui.widgets.table.table import LiveTable

        origin = self.focused
        table = origin if isinstance(origin, LiveTable) else None

        def run(found: Found | None) -> None:
            if found is not None:
                self.call_later(found.run)

        known = actions_found(self._reachable(), lambda action: self.run_from(origin, action))
        known += found_in(self.pane, table, self.action_edit_parameters)
        known += self.scenario_entries()
        self.push_screen(PaletteScreen(known, lambda typed: rows_in(table, typed)), run)

    def scenario_entries(self) -> Iterable[Found]:
        """Return the palette's lines on scenarios."""
        return ()

    def _reachable(self) -> list[actions.Action]:
        """Return the actions that do something where the focus is."""
        ids = {active.binding.id for active in self.screen.active_bindings.values() if active.enabled}
        return [action for name, action in self.actions_by_id.items() if name in ids and action.palette]

    async def run_from(self, origin: DOMNode | None, action: actions.Action) -> None:
        """Run ``action`` as if its key had been pressed at ``origin``, or in the shown pane if that is gone."""
        node = origin if origin is not None and origin.is_attached else (self.pane or self.screen)
        scopes = [node, *node.ancestors] if node is not self else [self]
        for place in scopes:
            if textual_internals.binds(place, action.id):
                await self.run_action(action.action, place)
                return
        await self.run_action(action.action, self)

    @on(KeyBar.Clicked)
    async def _key_clicked(self, event: KeyBar.Clicked) -> None:
        await self.run_from(self.focused, event.action)
