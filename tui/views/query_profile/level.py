"""One query class in full: numbers and text, its series, WLR's scatter, and the what-if slider."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from textual import on
from textual.app import ComposeResult
from textual.containers import Container, Vertical

from tui.views.query_profile import drawing
from tui.views.shared.pane import Level
from tui.widgets.control import NumberControl
from tui.widgets.drawing.plot import PlotView
from tui.widgets.facts import Facts, TextPanel
from tui.widgets.sections import Sections

if TYPE_CHECKING:
    from engine.core.result import Result

CRUMB = 32
"""Cells of a statement in the header line."""

OVERVIEW, SCATTER, WHAT_IF, QUERY = range(4)


class Charts(Container, can_focus=True):
    """A container of charts that takes the focus, so that keys reach the tab."""

    SCOPED_CSS = False
    DEFAULT_CSS = """
    Charts { height: 1fr; width: 1fr; layout: horizontal; }
    Charts PlotView { height: 1fr; }
    Charts Vertical { width: 1fr; height: 1fr; }
    """


class ClassLevel(Level):
    """One query class; Escape goes back to the ranking."""

    SCOPED_CSS = False
    DEFAULT_CSS = """
    ClassLevel #class-facts { width: 42%; height: 1fr; }
    ClassLevel #class-right { padding: 0 0 0 1; }
    ClassLevel #class-methods { height: 6; }
    ClassLevel #what-if { height: 1fr; padding: 1 1; }
    ClassLevel #what-if-facts { height: 1fr; padding: 1 0; }
    ClassLevel #class-query { height: 1fr; }
    """

    def __init__(self, name: str, label: str) -> None:
        super().__init__(label if len(label) <= CRUMB else label[: CRUMB - 1] + "…")
        self.class_name = name
        self.label = label
        self.faster = 2.0
        self.drop = False
        self.result: Result | None = None

    def compose(self) -> ComposeResult:
        """Compose the four sections."""
        sections = Sections(id="class-sections")
        sections.add(
            "overview",
            Charts(
                Facts(id="class-facts"),
                Vertical(PlotView(id="class-series"), PlotView(id="class-methods"), id="class-right"),
                id="class-overview",
            ),
        )
        sections.add("scatter", Charts(PlotView(id="class-scatter")))
        sections.add(
            "what if",
            Container(
                NumberControl("times faster", self.faster, low=1.0, high=20.0, step=0.5, id="faster"),
                Facts(id="what-if-facts"),
                id="what-if",
            ),
        )
        sections.add("query", Charts(TextPanel(id="class-query")))
        yield sections

    def show(self, result: Result) -> None:
        """Draw the class, or a text that it is gone."""
        self.result = result
        drill = result.detail.drill(result.tables["classes"], self.class_name) if result.detail is not None else None
        facts = self.query_one("#class-facts", Facts)
        if drill is None:
            facts.show([("This class does not appear any more in what is shown.", "", "low")])
            for name in ("#class-series", "#class-methods", "#class-scatter"):
                self.query_one(name, PlotView).show(None)
            return
        facts.show(drawing.fact_rows(drill))
        self.query_one("#class-series", PlotView).show(partial(drawing.over_time, drill))
        self.query_one("#class-methods", PlotView).show(partial(drawing.methods, drill))
        self.query_one("#class-scatter", PlotView).show(partial(drawing.scatter, drill))
        text = drill.query or "The source of these numbers has no query text."
        self.query_one("#class-query", TextPanel).show([(text, "")])
        self._what_if()

    @on(NumberControl.Changed, "#faster")
    def _slid(self, event: NumberControl.Changed) -> None:
        event.stop()
        self.faster, self.drop = event.value, False
        self._what_if()

    def toggle_drop(self) -> None:
        """Drop the class in the what-if, or restore it."""
        self.drop = not self.drop
        self.query_one("#class-sections", Sections).choose(WHAT_IF)
        self._what_if()

    def _what_if(self) -> None:
        result = self.result
        if result is None or result.detail is None:
            return
        saved = result.detail.saving(result.tables["classes"], self.class_name, self.faster, self.drop)
        resource = next((h.label for h in result.headline), "CPU")
        self.query_one("#what-if-facts", Facts).show(
            drawing.saving_lines(saved, self.label, self.faster, self.drop, resource, self.pane.glyphs)
        )
