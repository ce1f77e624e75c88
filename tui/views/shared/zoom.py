"""The zoom: one widget of a tab has the whole screen, but for the status line and the keys."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual import on
from textual.widget import Widget

from tui.widgets.drawing.canvas import Frame
from tui.widgets.sections import Sections

if TYPE_CHECKING:
    from textual.css.scalar import Scalar


class Zooms(Frame):
    """Base of the tabs: it zooms what has the focus."""

    _height: Scalar | None = None

    @property
    def on_top(self) -> Widget | None:
        """The part of the tab that is on screen."""
        raise NotImplementedError

    @property
    def zoomed(self) -> bool:
        """Whether one of the pane's widgets has the whole screen; not while the program ends and takes the pane away."""
        return self.is_attached and self.screen.maximized is not None and self.screen.maximized in self.walk_children()

    @on(Sections.Shown)
    def unzoom(self) -> None:
        """Show the whole tab again: what had the screen may be out of sight."""
        if self.zoomed and self.screen.maximized is not None:
            self.screen.maximized.styles.height = self._height
            self.screen.maximized = None

    def action_zoom(self) -> None:
        """Give the whole screen to what has the focus, else to the section on screen; or take it back."""
        if self.zoomed:
            self.unzoom()
            return
        top = self.on_top
        focused = self.app.focused
        sections = next(iter(top.query(Sections)), None) if top is not None else None
        inside = top is not None and focused is not None and top in focused.ancestors
        target = focused if inside else sections.current if sections is not None else top
        if target is not None:
            self._height = target.styles.inline.height if target.styles.inline.has_rule("height") else None
            target.styles.height = "1fr"
            self.screen.maximized = target
