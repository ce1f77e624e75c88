"""The query profile's tab: ranked classes, the fit, methods, intervals, comparison; and one class in full."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from textual import on
from textual.containers import Container, Horizontal, Vertical

from engine.core import units
from tui.views.query_profile import drawing
from tui.views.shared.pane import ViewPane
from tui.views.shared.sections import (
    Box,
    Charts,
    DetailPanel,
    FactsOf,
    Fit,
    Level,
    PlotOf,
    Row,
    Section,
    Shown,
    TableOf,
    drawing_of,
    once,
)
from tui.widgets.control import NumberControl, following
from tui.widgets.drawing.fragments import Fragment
from tui.widgets.facts import Fact, TextPanel
from tui.widgets.table.table import LiveTable

if TYPE_CHECKING:
    from engine.core.view import Result
    from engine.query_profile.result.detail import Drill

CPU_SERIES = ("", "user_us", "system_us", "iowait_us", "steal_us")
"""Resources that the key ``y`` offers first; other series of the files follow."""
CLASSES, INTERVALS, COMPARISON = "classes", "intervals", "compare"  # titles of sections that keys go to


class Root(Level):
    """The sections of the tab. ``begun``: the window that is begun and not yet ended."""

    NAME = "profile"
    SCOPED_CSS = False
    DEFAULT_CSS = """
    #class-panel > Facts { height: 1fr; }
    #class-history { height: 1fr; }
    #windows, #compared { height: 2; }
    """

    def __init__(self) -> None:
        super().__init__()
        self.begun: tuple[tuple[str, int], ...] = ()
        self._fit = once(lambda result: result.detail and result.detail.fit())

    def sections(self) -> tuple[Section, ...]:
        """Return the sections: classes, fit, methods, intervals, comparison, sources."""
        classes = TableOf(table="classes", id="classes", rows=_classes, cells=drawing.CLASS_CELLS, open=self.open)
        summary = FactsOf(_summary, "class-summary", of="classes")
        return (
            Section(
                CLASSES,
                Box(
                    Horizontal,
                    Box(Fit, classes, PlotOf(drawing_of(_drill, drawing.over_time), "class-history", of="classes")),
                    Box(DetailPanel, summary, id="class-panel"),
                ),
            ),
            Section(
                "fit",
                Box(
                    Charts,
                    Box(Vertical, self._plot(drawing.actual, "actual")),
                    Box(
                        Vertical,
                        self._plot(drawing.residuals, "residuals"),
                        self._plot(drawing.residual_histogram, "residual-histogram"),
                    ),
                    id="profile-fit",
                ),
            ),
            Section("methods", _listed("methods", open=lambda row: self.pane.change(method=row["method"]))),
            Section(
                INTERVALS,
                Box(
                    Vertical,
                    FactsOf(lambda result: [*self._begun(), *self._windows(result)], "windows"),
                    _listed("intervals", cells=drawing.INTERVAL_CELLS),
                ),
                mark=_left_out,
            ),
            Section(
                COMPARISON,
                Box(
                    Vertical, FactsOf(self._windows, "compared"), _listed("comparison", cells=drawing.COMPARISON_CELLS)
                ),
            ),
            Section(
                "sources",
                TableOf(table="sources", id="sources", open=lambda row: self.pane.change(source=row["source"])),
            ),
        )

    def _plot(self, draw: Callable[..., Any], id: str) -> Shown:
        return PlotOf(drawing_of(self._fit, draw), id)

    def _begun(self) -> list[Fact]:
        """Return which window is begun and not yet ended."""
        return [
            (f"{word} begins at interval {row}: press the key again where it ends", "", "key")
            for word, row in self.begun
        ]

    def _windows(self, result: Result) -> list[Fact]:
        """Return which windows are looked at, or which keys choose others."""
        now, before = result.summary.get("window_now"), result.summary.get("window_before")
        if now and before:
            return [("now", now, "bar"), ("before", before, "bar2")]
        return [
            ("6 begins and ends the window, 7 the one to compare it with, 8 shows all; v compares halves.", "", "dim")
        ]

    async def open(self, row: Row) -> None:
        """Open the class of a row, not a group."""
        name, result = str(row["class"]), self.pane.result
        if result is None or result.detail is None or result.detail.drill(result.tables["classes"], name) is None:
            self.notify("a group has no detail: b ungroups", timeout=3)
        else:
            await self.pane.drill(ClassLevel(name, result.detail.names.get(name, name)))


class Pane(ViewPane):
    """The query profile's tab."""

    VIEW = "query-profile"
    ROOT = Root
    root: Root

    def moments(self, result: Result) -> Sequence[int]:
        """Return the ends of the intervals."""
        ends: list[int] = result.tables["intervals"].get_column("end_ms").drop_nulls().unique().sort().to_list()
        return ends

    # -- actions ------------------------------------------------------------------------------------------------------

    def action_resource(self) -> None:
        """Choose the next resource series."""
        detail = self.result.detail if self.result is not None else None
        series = detail.profile.work.resources if detail is not None else ()
        words = [name for name in CPU_SERIES if name == "" or name in series]
        words += [name for name in series if name not in words and name not in ("cpu_us", "idle_us")]
        if len(words) < 2:
            self.notify("the files hold one resource only; -o target= names a column", timeout=3, markup=False)
            return
        self.change(target=following(words, self.parameters.target))

    def action_rank(self) -> None:
        """Rank by the next metric."""
        self.action_next("metric")
        if self.parameters is not None:
            self.query_one("#classes", LiveTable).choose(sort="")
            self.notify(f"ranked by {self.parameters.metric}", timeout=2, markup=False)

    def action_source(self) -> None:
        """Choose the next server or file set."""
        if self.result is None or "sources" not in self.result.tables:
            return
        names: list[str] = self.result.tables["sources"].get_column("source").to_list()
        if len(names) < 2:
            self.notify("there is one source only", timeout=3)
            return
        self.change(source=following(names, self.result.summary.get("source")))

    def action_window(self, field: str, word: str) -> None:
        """Begin a window at the interval under the cursor, or end the one that was begun."""
        if self.parameters is None or not self.levels:
            return
        row = self.root.row("intervals")
        if self.root.section != INTERVALS or row is None:
            self.root.choose(INTERVALS)
            self.notify("put the cursor on an interval, then press the key again", timeout=3)
            return
        here, before = int(row["row"]), dict(self.root.begun).get(word)
        self.root.begun = () if before is not None else ((word, here),)
        if before is None or not self.change(**{field: f"{min(before, here)}..{max(before, here)}"}):
            self.root.draw()

    def action_all_intervals(self) -> None:
        """Look at all intervals, and compare nothing."""
        self.root.begun = ()
        self.change(window="", compare="")

    def action_compare(self) -> None:
        """Compare the second half of all intervals with the first, or stop comparing."""
        if self.parameters is None or self.result is None:
            return
        if self.parameters.compare:
            self.change(window="", compare="")
            self.root.choose(CLASSES)
            return
        rows = self.result.tables["intervals"].height
        if rows < 4:
            self.notify("too few intervals to compare", timeout=3)
            return
        if self.change(window=f"{rows // 2 + 1}..{rows}", compare=f"1..{rows // 2}"):
            self.root.choose(COMPARISON)

    async def action_what_if(self) -> None:
        """Go to the what-if slider, opening the class under the cursor if none is open."""
        if self.levels and not isinstance(self.top, ClassLevel):
            row = self.root.row("classes")
            if row is not None:
                await self.root.open(row)
        if isinstance(self.top, ClassLevel):
            self.top.choose(WHAT_IF)
            self.top.query_one("#faster").focus()

    def action_drop(self) -> None:
        """Drop the open class in the what-if, or restore it."""
        if isinstance(self.top, ClassLevel):
            self.top.drop = not self.top.drop
            self.top.choose(WHAT_IF)
            self.top.draw()
        else:
            self.notify("open a class first (i)", timeout=3)


def _classes(result: Result) -> Any:
    from engine.query_profile.result.detail import LISTING

    return (result.detail.listing, LISTING) if result.detail is not None else result.tables.get("classes")


def _listed(name: str, **more: Any) -> TableOf:
    """Return a table that the screen lists in readable units."""

    def rows(result: Result) -> Any:
        from engine.query_profile.result.detail import tables

        spec, frame = tables(result.tables, {} if result.detail is None else result.detail.names)[name]
        return frame, spec

    return TableOf(table=name, id=name, rows=rows, **more)


def _left_out(result: Result) -> tuple[str, str]:
    """Return how many intervals are left out."""
    number = int(result.summary.get("intervals") or 0) - int(result.summary.get("intervals_used") or 0)
    return f"{number} left out" if number else "", "low"


def _summary(result: Result, row: Row | None) -> list[Fact]:
    return (
        drawing.summary_rows(result.detail.listing, row) if row and "cpu_s" in row and result.detail is not None else []
    )


def _drill(result: Result, row: Row | None) -> Drill | None:
    return (
        result.detail.drill(result.tables["classes"], str(row["class"])) if row and result.detail is not None else None
    )


CRUMB = 32  # cells of a statement in the header line
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

    faster = 2.0
    drop = False

    def __init__(self, name: str, label: str) -> None:
        super().__init__(label if len(label) <= CRUMB else label[: CRUMB - 1] + "…")
        self.class_name = name
        self.label = label
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
        return [((drill.query or "The source of these numbers has no query text." if drill is not None else GONE), "")]

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

    @on(NumberControl.Changed)
    def _slid(self, event: NumberControl.Changed) -> None:
        self.faster, self.drop = float(event.value), False
        self.draw()
