"""Options: every parameter of a view with value, default, unit and sentence; a change shows at once behind the box."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from textual import on
from textual.binding import Binding, BindingType
from textual.widget import Widget

from engine.parameters import bound
from tui.screens.box import Box, about
from tui.screens.prompt import ask
from tui.widgets.control import STEPS, stepped
from tui.widgets.drawing.fragments import Line, fit
from tui.widgets.facts import Facts
from tui.widgets.pick import PickList

if TYPE_CHECKING:
    from engine.parameters import Option
    from tui.views.base import ViewPane


def value_text(value: Any) -> str:
    """A parameter's value as one would type it after ``-o key=``."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return ",".join(value_text(part) for part in value)
    name = getattr(value, "name", None)
    if isinstance(name, str) and hasattr(value, "data"):
        return name
    return str(value)


class ParametersScreen(Box[None]):
    """Enter edits or, for words and switches, takes the next; + and - step; Backspace takes the default."""

    heading = "Options"
    keys = "Enter edit/next   +/- step   Backspace default   u undo   Esc close"
    BINDINGS: ClassVar[list[BindingType]] = [
        *STEPS,
        Binding("backspace,delete", "default", show=False),
        Binding("u", "undo", show=False),
        Binding("U,ctrl+r", "redo", show=False),
        Binding("o", "close", show=False),
    ]

    def __init__(self, pane: ViewPane) -> None:
        super().__init__()
        self._pane = pane
        self._options: tuple[Option, ...] = ()

    def content(self) -> list[Widget]:
        """The list, and the sentence of the chosen one."""
        return [PickList(id="options"), about(5)]

    def on_mount(self) -> None:
        """Fill it."""
        from engine.parameters import options

        self._options = options(type(self._pane.parameters))
        self._fill()
        self.query_one(PickList).focus()

    @property
    def _option(self) -> Option | None:
        index = self.query_one(PickList).cursor
        return self._options[index] if index < len(self._options) else None

    def _value(self, option: Option) -> Any:
        return getattr(self._pane.parameters, option.field)

    def _fill(self) -> None:
        lines: list[Line] = []
        for option in self._options:
            value = self._value(option)
            changed = value != option.default
            shown = value_text(value) or "not set"
            unit = f" {option.unit}" if option.unit and value is not None else ""
            lines.append(
                [
                    ("* " if changed else "  ", "key"),
                    (fit(option.key, 26) + " ", "title"),
                    (fit(shown + unit, 22) + " ", "moderate" if changed else ""),
                    (option.sentence, "dim"),
                ]
            )
        self.query_one(PickList).show(lines or [[("this view has no options", "dim")]])
        self._about()

    @on(PickList.Moved)
    def _about(self) -> None:
        option = self._option
        if option is None:
            return
        facts = [("option", f"{option.key}: {option.sentence}", "")]
        unit = f" {option.unit}" if option.unit else ""
        facts.append(("default", (value_text(option.default) or "not set") + unit, ""))
        if option.choices:
            facts.append(("choices", ", ".join(option.choices), ""))
        elif option.low is not None or option.high is not None:
            low = "" if option.low is None else f"from {bound(option.low)} "
            high = "" if option.high is None else f"to {bound(option.high)}"
            facts.append(("range", low + high, ""))
        self.query_one(Facts).show(facts)

    def _set(self, value: Any) -> None:
        option = self._option
        if option is not None and self._pane.change(**{option.field: value}):
            self._fill()

    @on(PickList.Picked)
    def _edit(self) -> None:
        option = self._option
        if option is None:
            return
        value = self._value(option)
        if isinstance(value, bool) or (option.choices and not isinstance(value, tuple)):
            self.action_step(1)
            return
        hint = ", ".join(option.choices) or option.sentence

        def done(text: str | None) -> None:
            if text is not None:
                self._set(text)

        ask(self.query_one(PickList), f"{option.key} = ", value_text(value), hint, done=done)

    def action_step(self, by: int) -> None:
        """Next word, other switch, or next number."""
        option = self._option
        if option is None:
            return
        value = self._value(option)
        if isinstance(value, bool):
            self._set(not value)
        elif option.choices and not isinstance(value, tuple):
            words = list(option.choices)
            index = words.index(value) if value in words else 0
            self._set(words[(index + by) % len(words)])
        elif isinstance(value, (int, float)):
            self._set(stepped(value, by, option.low, option.high))
        else:
            self._edit()

    def action_default(self) -> None:
        """The declared default."""
        option = self._option
        if option is not None:
            self._set(option.default)

    def action_undo(self) -> None:
        """Take back."""
        self._pane.action_undo()
        self._fill()

    def action_redo(self) -> None:
        """Make again."""
        self._pane.action_redo()
        self._fill()
