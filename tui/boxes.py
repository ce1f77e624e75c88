"""Boxes over the dashboard, its looks, and any action by name."""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING

from textual.dom import DOMNode

from tui import actions, glyphs, textual_internals, themes
from tui.process import lifecycle
from tui.settings import UiSettings
from tui.shell import Keys, Shell
from tui.tabs import OVERVIEW
from tui.widgets.control import following
from tui.widgets.drawing.canvas import Painter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from tui.screens.palette import Found


class Boxes(Keys):
    """Opens boxes, changes looks and runs actions. ``scenarios``: returns the palette's lines on scenarios.

    ``complaint``: why looks cannot be as the settings say, or empty. ``mouse``: whether mouse reporting is on.
    """

    def __init__(self, app: Shell, scenarios: Callable[[], Iterable[Found]]) -> None:
        super().__init__(app)
        self._scenarios = scenarios
        ui = app.settings.of(UiSettings)
        app.glyphs = glyphs.choose(ui.glyphs, encoding=lifecycle.encoding())
        self.mouse = ui.mouse == "on" or (ui.mouse != "off" and not lifecycle.over_ssh())
        for theme in themes.THEMES:
            app.register_theme(theme)
        app.theme, self.complaint = themes.theme_for(ui.theme, os.environ, tuple(app.available_themes))
        if textual_internals.leave_out_colours(app):
            app.add_class("-no-color")  # the cursor is then shown in reverse (app.tcss)

    def apply_glyphs(self) -> None:
        """Apply the glyph set to what Textual draws: borders (by a class) and scroll bars."""
        self.app.set_class(self.app.glyphs.ascii, "-ascii")
        textual_internals.draw_scroll_bars(ascii=self.app.glyphs.ascii)

    def action_theme(self) -> None:
        """Switch to the next theme."""
        self.app.theme = following(themes.CYCLE, self.app.theme)
        self.app.notify(self.app.theme, timeout=2, markup=False)

    def action_glyphs(self) -> None:
        """Switch to the next set of glyphs and draw everything again."""
        self.app.glyphs = following(tuple(glyphs.SETS.values()), self.app.glyphs)
        self.apply_glyphs()
        for screen in self.app.screen_stack:
            for widget in screen.walk_children():
                if isinstance(widget, Painter):
                    widget.repaint()
                widget.refresh()
        self.app.notify(self.app.glyphs.name, timeout=2, markup=False)

    def action_mouse(self) -> None:
        """Switch mouse reporting on or off."""
        self.mouse = not self.mouse
        textual_internals.report_mouse(self.app, self.mouse)
        self.app.notify(f"mouse {'on' if self.mouse else 'off: the terminal selects text'}", timeout=2, markup=False)

    # -- boxes ----------------------------------------------------------------------------------------------------

    def action_help(self) -> None:
        """Show the keys of what is on screen and what they do."""
        from tui.screens.help import HelpScreen

        pane = self.app.pane
        scope = "overview" if self.app.tabs.active == OVERVIEW else pane.entry.name if pane is not None else ""
        self.app.push_screen(HelpScreen(self.app.tabs.overview if scope == "overview" else pane, scope))

    def action_problems(self) -> None:
        """Show the problems of all inputs."""
        from tui.screens.problems import ProblemsScreen

        self.app.push_screen(ProblemsScreen())

    def action_log(self) -> None:
        """Show the program's log."""
        from tui.screens.problems import LogScreen

        self.app.push_screen(LogScreen())

    def action_edit_parameters(self, option: str = "", *, what_if: bool = False) -> None:
        """Edit the parameters of the shown view, or its what-if options; the cursor on the one with the key ``option``."""
        from tui.screens.parameters import ParametersScreen

        pane = self.app.pane
        if pane is None or pane.view is None or pane.parameters is None:
            self.app.notify("this view is not loaded yet", timeout=2)
        else:
            self.app.push_screen(ParametersScreen(pane, option, what_if=what_if))

    def action_edit_what_if(self) -> None:
        """Edit the what-if options of the shown view."""
        self.action_edit_parameters(what_if=True)

    # -- actions by name ------------------------------------------------------------------------------------------

    def action_palette(self) -> None:
        """Search actions, sections, columns, options, themes and rows, and run or show one where the focus was."""
        from tui.screens.palette import Found, PaletteScreen, found_in, rows_in
        from tui.widgets.table.table import LiveTable

        origin = self.app.focused
        table = origin if isinstance(origin, LiveTable) else None

        ids = {active.binding.id for active in self.app.screen.active_bindings.values() if active.enabled}
        reachable = [action for name, action in self.app.actions_by_id.items() if name in ids and action.palette]
        reachable.sort(key=lambda action: action.scope in actions.SCOPES)  # the view's own first
        known = [Found("action", a.title, a.help, partial(self.run_from, origin, a), a.keys) for a in reachable]
        known += found_in(self.app.pane, table, self.action_edit_parameters)
        known += self._scenarios()
        self.app.push_screen(PaletteScreen(known, lambda typed: rows_in(table, typed)))

    async def run_from(self, origin: DOMNode | None, action: actions.Action) -> None:
        """Run ``action`` as if its key had been pressed at ``origin``, or in the shown pane if that is gone."""
        node = origin if origin is not None and origin.is_attached else (self.app.pane or self.app.screen)
        for place in [node, *node.ancestors] if node is not self.app else [self.app]:
            if textual_internals.binds(place, action.id):
                await self.app.run_action(action.action, place)
                return
        await self.app.run_action(action.action, self.app)
