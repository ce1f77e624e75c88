"""A box over the dashboard: a title, content, one line of keys. Escape and q close it."""

from __future__ import annotations

from typing import ClassVar, Generic, TypeVar

from textual.app import ComposeResult
from textual.await_complete import AwaitComplete
from textual.binding import Binding, BindingType
from textual.screen import ModalScreen
from textual.widget import Widget
from textual.widgets import Static

from tui.actions import box_bindings
from tui.textual_internals import NeverScrolls
from tui.widgets.drawing.canvas import Frame
from tui.widgets.facts import Facts

T = TypeVar("T")


def about(height: int = 3) -> Facts:
    """Return a panel below a list that shows the chosen line in full."""
    facts = Facts(id="about")
    facts.styles.height = height
    return facts


class Box(ModalScreen[T], NeverScrolls, Generic[T]):
    """Base of the boxes. ``content`` returns what is inside; ``heading`` and ``keys`` are constant texts."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q", "close", "Close", show=False), *box_bindings()]
    heading: str = ""
    keys: ClassVar[str] = "Esc close"
    DEFAULT_CSS = """
    Box > .box > .heading { height: 1; text-style: bold; color: $accent; }
    Box > .box > .keys { height: 1; color: $text-muted; }
    """

    def compose(self) -> ComposeResult:
        """Yield heading, content and keys."""
        with Frame(classes="box"):
            yield Static(self.heading, classes="heading", markup=False)
            yield from self.content()
            yield Static(self.keys, classes="keys", markup=False)

    def content(self) -> list[Widget]:
        """Return the widgets between heading and keys."""
        return []

    def dismiss(self, result: T | None = None) -> AwaitComplete:
        """Close with ``result``, unless the box is closed already or another one is over it."""
        return super().dismiss(result) if self.is_current else AwaitComplete()

    def action_close(self) -> None:
        """Close without a result."""
        self.dismiss(None)
