"""The options: every parameter of a view with value, default, unit and sentence; a change shows at once behind the box."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from textual import on
from textual.binding import Binding, BindingType
from textual.widget import Widget

from engine.core.parameters import bound, options, value_text
from tui.widgets.box import Box, about
from tui.widgets.control import STEPS, following, stepped
from tui.widgets.drawing.fragments import Line, fit
from tui.widgets.facts import Facts
from tui.widgets.pick import PickList
from tui.widgets.prompt import ask

if TYPE_CHECKING:
    from engine.core.parameters import Option
    from tui.views.shared.pane import ViewPane


class ParametersScreen(Box[None]):
    """The parameters of ``pane`` as a list that is edited in place."""

    keys = "Enter edit/next   +/- step   Backspace default   u undo   Esc close"
    BINDINGS: ClassVar[list[BindingType]] = [
        *STEPS,
        Binding("backspace,delete", "default", show=False),
        Binding("u", "undo", show=False),
        Binding("U,ctrl+r", "redo", show=False),
        Binding("o", "close", show=False),
    ]

    def __init__(self, pane: ViewPane, option: str = "", *, what_if: bool = False) -> None:
        """``option``: key of the one that the cursor is on first. ``what_if``: show only options of the what-if."""
        super().__init__()
        self.heading = "What if" if what_if else "Options"
        self._pane = pane
        self._first = option
        listed = options(type(pane.parameters))
        self._options = tuple(option for option in listed if option.what_if or not what_if)

    def content(self) -> list[Widget]:
        """Return the list, and the description of the chosen option."""
        return [PickList(id="options"), about(5)]

    def on_mount(self) -> None:
        """Fill and focus the list."""
        keys = [option.key for option in self._options]
        self._fill()
        self.query_one(PickList).move(keys.index(self._first) if self._first in keys else 0)
        self.query_one(PickList).focus()

    @property
    def _option(self) -> Option | None:
        index = self.query_one(PickList).cursor
        return self._options[index] if index < len(self._options) else None

    def _value(self, option: Option) -> Any:
        return getattr(self._pane.parameters, option.field)

    def _fill(self) -> None:
        """Show each option with its value; changed ones are marked."""
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
        """Describe the option under the cursor."""
        option = self._option
        if option is None:
            return
        unit = f" {option.unit}" if option.unit else ""
        low = "" if option.low is None else f"from {bound(option.low)} "
        high = "" if option.high is None else f"to {bound(option.high)}"
        self.query_one(Facts).show(
            [
                ("option", f"{option.key}: {option.sentence}", ""),
                ("default", (value_text(option.default) or "not set") + unit, ""),
                ("choices", ", ".join(option.choices) or None, ""),
                ("range", None if option.choices else low + high or None, ""),
            ]
        )

    def _set(self, value: Any) -> None:
        """Set the option under the cursor, if the value is valid."""
        option = self._option
        if option is not None and self._pane.change(**{option.field: value}):
            self._fill()

    @on(PickList.Picked)
    async def _edit(self) -> None:
        """Take the next word or the opposite, or ask for a value."""
        await self.action_step(1, typed=True)

    async def action_step(self, by: int, typed: bool = False) -> None:
        """Take the next word, the opposite, or the next round number; ask for a text, and for a number if it is ``typed``."""
        option = self._option
        if option is None:
            return
        value = self._value(option)
        if isinstance(value, bool):
            self._set(not value)
        elif option.choices and not isinstance(value, tuple):
            self._set(following(option.choices, value, by))
        elif isinstance(value, (int, float)) and not typed:
            self._set(stepped(value, by, option.low, option.high))
        else:
            hint = ", ".join(option.choices) or option.sentence
            await ask(self.query_one(PickList), f"{option.key} = ", value_text(value), hint, done=self._set)

    def action_default(self) -> None:
        """Set the declared default."""
        option = self._option
        if option is not None:
            self._set(option.default)

    def action_undo(self) -> None:
        """Take back the last change."""
        self._pane.action_undo()
        self._fill()

    def action_redo(self) -> None:
        """Redo the change that was undone."""
        self._pane.action_redo()
        self._fill()
