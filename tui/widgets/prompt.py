"""One line of input above the status line: filters, finding, typed numbers. No modal screen, so nothing is repainted."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from textual import on
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.css.query import NoMatches
from textual.reactive import reactive
from textual.widget import Widget
from textual.widgets import Input, Static

Done = Callable[[str], object]


class OneLine(Input):
    """An input whose cursor does not blink: nothing is sent while nothing changes."""

    cursor_blink = reactive(False, init=False)


class Prompt(Horizontal):
    """A label and an input. Enter passes the text to ``done``; ``changed`` gets each typed text, and that of the beginning if
    the prompt is left without Enter."""

    DEFAULT_CSS = """
    Prompt { height: 1; background: $surface; }
    Prompt > Static { width: auto; height: 1; color: $accent; text-style: bold; padding: 0 0 0 1; }
    Prompt > Input { width: 1fr; border: none; height: 1; padding: 0; background: $surface; }
    Prompt > Input:focus { border: none; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "cancel", "Cancel", show=False)]

    def __init__(
        self, origin: Widget, label: str, value: str, hint: str, changed: Callable[[str], object] | None, done: Done
    ) -> None:
        super().__init__(Static(label, markup=False), OneLine(value, placeholder=hint, select_on_focus=False))
        self._origin = origin
        self._value = self._start = value
        self._changed = changed
        self._done = done
        self._finished = False

    def on_mount(self) -> None:
        """Focus the input, at once: the next key is meant for it."""
        self.screen.set_focus(self.query_one(Input))

    @on(Input.Changed)
    def _typed(self, event: Input.Changed) -> None:
        event.stop()
        if self._changed is not None and not self._finished and event.value != self._value:
            self._value = event.value
            self._changed(event.value)

    @on(Input.Submitted)
    def _submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self.finish(event.value)

    def action_cancel(self) -> None:
        """Close without a text."""
        self.finish(None)

    def on_descendant_blur(self) -> None:
        """Close without a text: the focus went elsewhere (a click, another screen)."""
        if self.app.screen is self.screen:
            self.finish(None, refocus=False)

    def finish(self, text: str | None, refocus: bool = True) -> None:
        """Pass the text on and close; later calls do nothing."""
        if self._finished:
            return
        self._finished = True
        if text is not None:
            self._done(text)
        elif self._changed is not None:
            self._changed(self._start)
        if refocus and self._origin.is_attached:
            self.screen.set_focus(self._origin, scroll_visible=False)
        self.remove()


async def ask(
    origin: Widget,
    label: str,
    value: str = "",
    hint: str = "",
    *,
    changed: Callable[[str], object] | None = None,
    done: Done,
) -> None:
    """Ask for one line at the bottom of ``origin``'s screen; the focus returns to ``origin``.

    Returns when the line takes keys. An earlier prompt on this screen is closed without a text.
    """
    screen = origin.screen
    for old in screen.query(Prompt):
        old.finish(None, refocus=False)
    prompt = Prompt(origin, label, value, hint, changed, done)
    try:
        await screen.query_one("#bottom").mount(prompt, before=0)
    except NoMatches:
        prompt.styles.dock = "bottom"
        await screen.mount(prompt)
