"""One query class in full: numbers and text, its series, WLR's scatter, and the what-if slider."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from textual import on
from textual.containers import Container, Vertical

from engine.core import units
from tui.views.query_profile import drawing
from tui.views.shared.sections import Box, Charts, FactsOf, Level, PlotOf, Section, Shown, drawing_of, once
from tui.widgets.control import NumberControl
from tui.widgets.drawing.fragments import Fragment
from tui.widgets.facts import Fact, TextPanel

if TYPE_CHECKING:
    from engine.core.view import Result
    from engine.query_profile.result.detail import Drill

CRUMB = 32
"""Cells of a statement in the header line."""
WHAT_IF = "what if"
GONE = "This class does not appear any more in what is shown."


class ClassLevel(Level):
    """One query class; Escape goes back to the ranking."""

    NAME = "class-sections"
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
        self._drill = once(self._find)

    def sections(self) -> tuple[Section, ...]:
        """Overview, scatter, what-if and text of the query."""
        slider = partial(NumberControl, "times faster", self.faster, low=1.0, high=20.0, step=0.5)
        charts = Box(
            Vertical, self._plot(drawing.over_time, "class-series"), self._plot(drawing.methods, "class-methods"),
            id="class-right",
        )  # fmt: skip
        return (
            Section("overview", Box(Charts, FactsOf(self._facts, "class-facts"), charts, id="class-overview")),
            Section("scatter", Box(Charts, self._plot(drawing.scatter, "class-scatter"))),
            Section(
                WHAT_IF,
                Box(
                    Container,
                    Shown(slider, lambda result: self.faster, "faster"),
                    FactsOf(self._saving, "what-if-facts"),
                    id="what-if",
                ),
            ),
            Section("query", Box(Charts, Shown(TextPanel, self._text, "class-query"))),
        )

    def _find(self, result: Result) -> Drill | None:
        """Return everything about the class; None if it is gone."""
        return result.detail and result.detail.drill(result.tables["classes"], self.class_name)

    def _plot(self, draw: Callable[..., Any], id: str) -> Shown:
        return PlotOf(drawing_of(self._drill, draw), id)

    def _facts(self, result: Result) -> list[Fact]:
        drill = self._drill(result)
        if drill is None or result.detail is None:
            return [(GONE, "", "low")]
        listing = result.detail.listing
        row = listing.filter(listing["class"] == self.class_name).row(0, named=True)
        known = [fact for fact in drawing.summary_rows(listing, row) if fact[0] != "query"]  # a section has it in full
        return [*known, *((label, units.text(kind, value, 14), "") for label, value, kind in drill.facts)]

    def _text(self, result: Result) -> list[Fragment]:
        drill = self._drill(result)
        text = drill.query or "The source of these numbers has no query text." if drill is not None else GONE
        return [(text, "")]

    def _saving(self, result: Result) -> list[Fact]:
        from engine.query_profile.result.messages import NAMES

        if result.detail is None:
            return []
        saved = result.detail.saving(result.tables["classes"], self.class_name, self.faster, self.drop)
        resource = result.detail.profile.work.y_name
        return drawing.saving_lines(
            saved, self.label, self.faster, self.drop, NAMES.get(resource, resource), result.detail.listing["cpu_s"].max() or 0.0,
            self.pane.glyphs,
        )  # fmt: skip

    @on(NumberControl.Changed, "#faster")
    def _slid(self, event: NumberControl.Changed) -> None:
        self.faster, self.drop = float(event.value), False
        self.draw()

    def toggle_drop(self) -> None:
        """Drop the class in the what-if, or restore it."""
        self.drop = not self.drop
        self.choose(WHAT_IF)
        self.draw()
