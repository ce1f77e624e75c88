"""The controls of the what-if scenario of an open job."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from textual import on
from textual.containers import VerticalScroll

from engine.core.tables import Kind
from tui.views.shared.tab import Tab
from tui.widgets.control import Control, NumberControl, WordControl

USE = (
    "change a value: + and - step it, Enter types one, Backspace puts it back, Up and Down choose another. "
    "Verdicts and metrics follow at once; x drops the scenario."
)
"""How the controls are used."""


WIDTH = 21  # cells of the labels of controls


def knob(
    field: str,
    label: str,
    value: float,
    low: float,
    high: float | None = None,
    step: float | None = None,
    kind: Kind = "count",
) -> NumberControl:
    """Return the control of one number of the scenario: the parameter ``field``, its value as the job ran, and its bounds;
    ``step`` None: by the size of the number."""
    id = f"what-{field.replace('_', '-')}"
    return NumberControl(label, value, low=low, high=high, step=step, kind=kind, label_width=WIDTH, name=field, id=id)


class ScenarioControls(VerticalScroll):
    """Numbers of the scenario, and a factor on the limits of a heuristic. Each change becomes a parameter of the view."""

    _filled = _wanted = False

    @property
    def _pane(self) -> Tab:
        return next(node for node in self.ancestors if isinstance(node, Tab))

    def show(self, make: Callable[[], list[Control[Any]]]) -> None:
        """Show the values in force; the first time ``make`` the controls."""
        if self._filled:
            self.follow()
            return
        self._filled = True
        self.mount(*make())
        self.call_after_refresh(self._made)

    def _made(self) -> None:
        self.follow()
        if self._wanted:
            self.focus_first()

    def focus_first(self) -> None:
        """Put the focus on the first control; if the job is still being read, as soon as there is one."""
        self._wanted = not self.children
        if self.children:
            self.children[0].focus()

    def follow(self) -> None:
        """Show the values that the parameters have (undo, advice taken)."""
        for control in self.query(NumberControl):
            if control.name:
                wish = getattr(self._pane.parameters, control.name)
                control.show(control.start if wish is None else wish)
        for word in self.query(WordControl):
            self._show_factor(word.value)

    def _show_factor(self, limit: str) -> None:
        factors = dict(_wish(text) for text in self._pane.parameters.limits)
        self.query_one("#what-times", NumberControl).show(factors.get(limit, 1.0))

    @on(Control.Changed)
    def _changed(self, event: Control.Changed) -> None:
        event.stop()
        control, pane = event.sender, self._pane
        if isinstance(control, WordControl):
            self._show_factor(control.value)
            return
        value: float | None = None if control.value == control.start else control.value
        if not control.name:
            word = self.query_one("#what-limit", WordControl).value
            others = [t for t in pane.parameters.limits if _wish(t)[0] != word]
            pane.change(limits=tuple(sorted([*others, *([f"{word}=x{value:g}"] if value is not None else [])])))
        elif value is not None:
            pane.change(**{control.name: round(value, 3) if control.kind == "number" else int(value)})
        else:
            pane.change(**{control.name: None})


def _wish(text: str) -> tuple[str, float]:
    """Limit and factor of a wish like ``Mapper Time/num_tasks_severity=x1.5``; 1 for one that gives values."""
    where, _, value = text.partition("=")
    try:
        return where, float(value.removeprefix("x")) if value.startswith("x") else 1.0
    except ValueError:
        return where, 1.0
