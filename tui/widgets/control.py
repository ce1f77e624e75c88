"""Controls of what-if panels: numbers and words in one line each, changed by ``-``/``+`` or typed after Enter."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Generic, TypeVar

from textual import events, on
from textual.binding import Binding, BindingType
from textual.message import Message

from engine.core import units
from tui.widgets.drawing.bars import bar
from tui.widgets.drawing.canvas import Canvas
from tui.widgets.drawing.fragments import Fragment, Line, cells, fit, harmless

if TYPE_CHECKING:
    from engine.core.tables import Kind

STEPS: tuple[BindingType, ...] = (
    Binding("plus,equals_sign,right,l", "step(1)", show=False),
    Binding("minus,left,h", "step(-1)", show=False),
)
"""Keys that step a value, in controls and in the options box."""

T = TypeVar("T")
V = TypeVar("V", float, str)


def following(order: Sequence[T], now: object, by: int = 1) -> T:
    """Return what is ``by`` places after ``now`` in ``order``, around its end; without ``now`` the first or last entry."""
    places = list(order)
    return places[((places.index(now) + by) if now in places else min(by, 0)) % len(places)]


def stepped(value: float, by: int, low: float | None, high: float | None) -> float | int:
    """Return the next round value up or down: whole numbers by 1 (by 10 from 100 on ...), others by a tenth of their size."""
    if isinstance(value, int):
        result: float = value + by * 10 ** max(len(str(abs(value))) - 2, 0)
    else:
        result = float(f"{value + by * 10.0 ** int(f'{value or 1:e}'.partition('e')[2]) / 10:.6g}")
    result = min(max(result, -math.inf if low is None else low), math.inf if high is None else high)
    return int(result) if isinstance(value, int) else result


class Control(Canvas, Generic[V], can_focus=True):
    """One line with a label, in reverse while it has the focus. Up and down go to its neighbours. ``name``: the option of the
    view that it changes, if any."""

    DEFAULT_CSS = "Control { height: 1; } Control:focus { background: $panel; }"
    BINDINGS: ClassVar[list[BindingType]] = [
        *STEPS,
        Binding("down,j", "app.focus_next", show=False),
        Binding("up,k", "app.focus_previous", show=False),
    ]

    @dataclass
    class Changed(Message):
        """The value of a control changed."""

        sender: NumberControl | WordControl
        value: float | str

    def __init__(self, label: str, label_width: int, value: V, name: str | None, id: str | None) -> None:
        super().__init__(name=name, id=id)
        self.label = label
        self.value: V = value
        self.label_width = label_width

    def show(self, value: V) -> None:
        """Show another value without a message (it came from parameters)."""
        self.value = value
        self.repaint()

    def name_tag(self, width: int) -> Fragment:
        """Return the label in ``width`` cells."""
        return fit(self.label, width, ellipsis=self.glyphs.ellipsis), "cursor" if self.has_focus else ""

    @on(events.Focus)
    @on(events.Blur)
    def _focus_changed(self) -> None:
        """Draw the label again, once Textual has noted the focus, which it does after this."""
        self.call_later(self.repaint)


class NumberControl(Control[float]):
    """A number with bounds: ``label  value  bar``. Posts ``Changed`` for each change.

    ``-``/``+`` (also left/right, h/l) step, Enter asks for a number, Backspace restores the start value. ``step`` None
    steps by the size of the number.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "type", show=False),
        Binding("backspace", "restore", show=False),
    ]

    def __init__(
        self,
        label: str,
        value: float,
        *,
        low: float = 0,
        high: float | None = None,
        step: float | None = None,
        kind: Kind = "number",
        label_width: int = 18,
        name: str | None = None,
        id: str | None = None,
    ) -> None:
        super().__init__(label, label_width, value, name, id)
        self.start = value
        self.low, self.high, self.by, self.kind = low, high, step, kind

    def _set(self, value: float) -> None:
        value = min(max(value, self.low), math.inf if self.high is None else self.high)
        if value != self.value:
            self.value = value
            self.repaint()
            self.post_message(self.Changed(self, value))

    def paint(self, width: int, height: int) -> list[Line]:
        """Return label, value, and a bar where there is an upper bound."""
        value = fit(units.text(self.kind, self.value, 12), 12, "right")
        left = min(self.label_width, max(width - 14, 0))
        line: Line = [
            self.name_tag(left),
            (value, "title" if self.value == self.start else "moderate"),
        ]
        room = width - left - 12 - 2
        if self.high is not None and self.high > self.low and room >= 6:
            line += [("  ", ""), (bar(self.value - self.low, self.high - self.low, min(room, 30), self.glyphs), "bar")]
        return [line]

    def action_step(self, by: int) -> None:
        """Step up or down."""
        self._set(self.value + by * self.by if self.by is not None else stepped(self.value, by, self.low, self.high))

    def action_restore(self) -> None:
        """Restore the start value."""
        self._set(self.start)

    async def action_type(self) -> None:
        """Ask for a number, with or without a unit."""
        from tui.widgets.prompt import ask

        def set_text(text: str) -> None:
            try:
                value = units.amount(self.kind, text)
            except ValueError as error:
                self.notify(str(error), severity="warning", markup=False)
                return
            self._set(int(value) if isinstance(self.value, int) and value == int(value) else value)

        await ask(self, f"{self.label} = ", str(self.value), f"from {self.low:g}", done=set_text)


class WordControl(Control[str]):
    """One word of several: ``label  one [two] three``. Posts ``Changed`` for each change.

    Left/right (``-``/``+``, h/l) or Enter choose.
    """

    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter", "step(1)", show=False)]

    def __init__(
        self,
        label: str,
        words: Sequence[str],
        value: str,
        *,
        label_width: int = 18,
        name: str | None = None,
        id: str | None = None,
    ) -> None:
        super().__init__(label, label_width, value, name, id)
        self.words = tuple(words)

    def paint(self, width: int, height: int) -> list[Line]:
        """Return the label, then the words, the chosen one in brackets."""
        left = min(self.label_width, width // 2)
        line: Line = [self.name_tag(left)]
        fits = sum(cells(harmless(word)) + 3 for word in self.words) <= width - left
        for word in self.words if fits else (self.value,):
            line.append((f"[{word}]", "title") if word == self.value else (f" {word} ", "dim"))
        return [line]

    def action_step(self, by: int) -> None:
        """Choose the next word."""
        self.value = following(self.words, self.value, by)
        self.repaint()
        self.post_message(self.Changed(self, self.value))
