"""What open jobs of both kinds have in common: their sections, the controls of the what-if scenario, advice taken into it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from textual import on
from textual.containers import VerticalScroll

from engine.core.tables import Kind
from tui.views.shared.pane import Level, ViewPane
from tui.widgets.control import NumberControl, WordControl
from tui.widgets.sections import Sections
from tui.widgets.table.table import LiveTable

USE = (
    "change a value: + and - step it, Enter types one, Backspace puts it back, Up and Down choose another. "
    "Verdicts and metrics follow at once; x drops the scenario."
)
"""How the controls are used."""


@dataclass(frozen=True, slots=True)
class Knob:
    """One number of the scenario: the parameter ``field``, its value as the job ran, and its bounds; ``step`` None: by the
    size of the number."""

    field: str
    label: str
    value: float
    low: float
    high: float | None = None
    step: float | None = None
    kind: Kind = "count"


class ScenarioControls(VerticalScroll):
    """Numbers of the scenario, and a factor on the limits of a heuristic. Each change becomes a parameter of the view."""

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self._filled = False
        self._wanted = False

    @property
    def _pane(self) -> ViewPane:
        return next(node for node in self.ancestors if isinstance(node, ViewPane))

    def fill(self, knobs: Sequence[Knob], limits: Sequence[str], first: str) -> None:
        """Make the controls, once; ``limits``: HEURISTIC/PARAMETER, of which ``first`` is chosen at first."""
        if self._filled:
            return
        self._filled = True
        controls: list[Any] = [
            NumberControl(knob.label, knob.value, low=knob.low, high=knob.high, step=knob.step, kind=knob.kind,
                          label_width=21, id=f"what-{knob.field.replace('_', '-')}")
            for knob in knobs
        ]  # fmt: skip
        word = WordControl("scale the limits of", list(limits), first, id="what-limit")
        word.label_width = 21
        times = NumberControl("  by the factor", 1.0, low=0.05, high=20.0, step=0.05, label_width=21, id="what-times")
        self.mount(*controls, word, times)
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
            field = _field(control)
            if field != "times":
                wish = getattr(self._pane.parameters, field)
                control.show(control.start if wish is None else wish)
        for word in self.query(WordControl):
            self._show_factor(word.value)

    def _show_factor(self, limit: str) -> None:
        factors = dict(_wish(text) for text in self._pane.parameters.limits)
        self.query_one("#what-times", NumberControl).show(factors.get(limit, 1.0))

    @on(NumberControl.Changed)
    def _number_changed(self, event: NumberControl.Changed) -> None:
        event.stop()
        control, pane = event.number, self._pane
        value: float | None = None if event.value == control.start else event.value
        field = _field(control)
        if field == "times":
            word = self.query_one("#what-limit", WordControl).value
            others = [t for t in pane.parameters.limits if _wish(t)[0] != word]
            mine = [f"{word}=x{event.value:g}"] if value is not None else []
            pane.change(limits=tuple(sorted([*others, *mine])))
        elif value is not None:
            pane.change(**{field: round(value, 3) if control.kind == "number" else int(value)})
        else:
            pane.change(**{field: None})

    @on(WordControl.Changed, "#what-limit")
    def _limit_chosen(self, event: WordControl.Changed) -> None:
        event.stop()
        self._show_factor(event.value)


class OpenJob(Level):
    """The level of an open job. ``SECTIONS`` are the names of its sections in the widget ``#PREFIX-sections``; ``TAKES`` says
    which property of an advice the scenario can take, and as which parameter; ``ADVISING`` in which sections rows can be
    taken, and from which table."""

    PREFIX: ClassVar[str]
    SECTIONS: ClassVar[tuple[str, ...]]
    TAKES: ClassVar[Mapping[str, str]]
    ADVISING: ClassVar[Mapping[str, str]]

    def __init__(self, job_id: str) -> None:
        super().__init__(job_id)
        self.job_id = job_id

    @property
    def sections(self) -> Sections:
        """The widget with the sections."""
        return self.query_one(f"#{self.PREFIX}-sections", Sections)

    @property
    def section(self) -> str:
        """Name of the section on screen."""
        return self.SECTIONS[self.sections.chosen]

    def choose(self, section: str) -> None:
        """Show a section."""
        self.sections.choose(self.SECTIONS.index(section))

    def what_if(self) -> None:
        """Go to the controls of the scenario."""
        self.choose("what if")
        self.query_one(ScenarioControls).focus_first()

    def take(self) -> None:
        """Take the advice under the cursor into the scenario; from elsewhere show it first."""
        if self.section not in self.ADVISING:
            self.choose("advice")
            return
        row = self.query_one(self.ADVISING[self.section], LiveTable).row
        if row is None:
            self.notify("there is nothing to recommend for this job", timeout=3)
            return
        field, value = self.TAKES.get(row["key"]), _number(str(row.get("value" if "text" in row else "setting") or ""))
        if field is None or value is None:
            key = (row["key"] or row.get("topic") or "this").removeprefix("mapreduce.")
            self.notify(f"what-if does not model {key}; the advice holds", timeout=3, markup=False)
            return
        self.pane.change(**{field: value if field == "slow_start" else int(value)})
        self.choose("what if")


def _field(control: NumberControl) -> str:
    """Return the parameter that a control stands for."""
    return (control.id or "").removeprefix("what-").replace("-", "_")


def _number(text: str) -> float | None:
    """Read the value of an advice: a number, or MB as Spark writes them (``4096m``)."""
    try:
        return float(text.removesuffix("m"))
    except ValueError:
        return None


def _wish(text: str) -> tuple[str, float]:
    """Limit and factor of a wish like ``Mapper Time/num_tasks_severity=x1.5``; 1 for one that gives values."""
    where, _, value = text.partition("=")
    try:
        return where, float(value.removeprefix("x")) if value.startswith("x") else 1.0
    except ValueError:
        return where, 1.0
