"""A box over the dashboard: a title, content, one line of keys. Escape and q close it."""

from __future__ import annotations

from typing import ClassVar, Generic, TypeVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container
from textual.screen import ModalScreen
from textual.widget import Widget
from textual.widgets import Static

T = TypeVar("T")


class Box(ModalScreen[T], Generic[T]):
    """Base of the boxes. ``content`` yields what is inside; ``heading`` and ``keys`` are constant texts of ours."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q", "close", "Close", show=False)]
    heading: ClassVar[str] = ""
    keys: ClassVar[str] = "Esc close"
    DEFAULT_CSS = """
    Box > Container > .heading { height: 1; text-style: bold; color: $accent; }
    Box > Container > .keys { height: 1; color: $text-muted; }
    """

    def compose(self) -> ComposeResult:
        """Its widgets."""
        with Container():
            yield Static(self.heading, classes="heading", markup=False)
            yield from self.content()
            yield Static(self.keys, classes="keys", markup=False)

    def content(self) -> list[Widget]:
        """The widgets between heading and keys."""
        return []

    def action_close(self) -> None:
        """Close without a result."""
        self.dismiss(None)
