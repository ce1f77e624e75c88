"""The query profile's tab: ranked classes with share bars and sparklines, the fit, methods, intervals, comparison."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal, Vertical

from tui.actions import bindings
from tui.views.query_profile import drawing
from tui.views.query_profile.level import WHAT_IF, Charts, ClassLevel
from tui.views.shared.overview import Overview
from tui.views.shared.pane import DetailPanel, ViewPane
from tui.widgets.drawing.plot import PlotView
from tui.widgets.facts import Facts
from tui.widgets.sections import Sections, TitleBar
from tui.widgets.table.table import LiveTable

if TYPE_CHECKING:
    from engine.core.result import Result

NAME = "query-profile"
GROUPS = ("class", "verb", "user", "database")
CPU_SERIES = ("", "user_us", "system_us", "iowait_us", "steal_us")
"""Resources that the key ``y`` offers first; other series of the files follow."""
CLASSES, FIT, METHOD_TABLE, INTERVALS, COMPARISON, SOURCES = range(6)


class Pane(ViewPane):
    """The query profile's tab."""

    VIEW = NAME
    BINDINGS: ClassVar[list[BindingType]] = [*bindings(NAME)]
    DEFAULT_CSS = """
    #class-panel > Facts { height: 1fr; }
    #class-history { height: 1fr; }
    #windows, #compared { height: 2; }
    """

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        self.begun: tuple[tuple[str, int], ...] = ()

    def compose_view(self) -> ComposeResult:
        """Compose the sections."""
        sections = Sections(id="profile")
        sections.add(
            "classes",
            Horizontal(
                Overview(
                    LiveTable(
                        name=f"{NAME}/classes",
                        id="classes",
                        renderers={
                            "name": drawing.statement_cell,
                            "cpu_share": drawing.share_cell,
                            "trend": drawing.trend_cell,
                            "disagreement": drawing.disagree_cell,
                        },
                    ),
                    [PlotView(id="class-history")],
                ),
                DetailPanel(Facts(id="class-summary"), id="class-panel"),
            ),
        )
        sections.add(
            "fit",
            Charts(
                Vertical(PlotView(id="actual")),
                Vertical(PlotView(id="residuals"), PlotView(id="residual-histogram")),
                id="profile-fit",
            ),
        )
        sections.add("methods", LiveTable(name=f"{NAME}/methods", id="methods"))
        sections.add(
            "intervals",
            Vertical(
                Facts(id="windows"),
                LiveTable(name=f"{NAME}/intervals", id="intervals", renderers={"window": drawing.window_cell}),
            ),
        )
        sections.add(
            "compare",
            Vertical(
                Facts(id="compared"),
                LiveTable(
                    name=f"{NAME}/comparison",
                    id="comparison",
                    renderers={"name": drawing.statement_cell, "y_change_ms": drawing.change_cell},
                ),
            ),
        )
        sections.add("sources", LiveTable(name=f"{NAME}/sources", id="sources"))
        yield sections

    # -- drawing --------------------------------------------------------------------------------------------------------

    def show(self, result: Result) -> None:
        """Draw every section."""
        from engine.query_profile.result.listing import LISTING, tables

        detail = result.detail
        if detail is None:
            self.show_table("#classes", result, "classes")
        else:
            self.query_one("#classes", LiveTable).show(detail.listing, LISTING)
            fit = detail.fit()
            self.query_one("#actual", PlotView).show(partial(drawing.actual, fit))
            self.query_one("#residuals", PlotView).show(partial(drawing.residuals, fit))
            self.query_one("#residual-histogram", PlotView).show(partial(drawing.residual_histogram, fit))
        for name, (spec, frame) in tables(result.tables, {} if detail is None else detail.names).items():
            self.query_one(f"#{name}", LiveTable).show(frame, spec)
        self.show_table("#sources", result, "sources")
        self._show_windows(result)
        left_out = int(result.summary.get("intervals") or 0) - int(result.summary.get("intervals_used") or 0)
        titles = self.query_one("#profile", Sections).query_one(TitleBar)
        titles.mark(INTERVALS, f"{left_out} left out" if left_out else "", "low")
        self._summary()

    @on(LiveTable.Highlighted, "#classes")
    def _summary(self) -> None:
        row = self.query_one("#classes", LiveTable).row
        self.query_one("#class-summary", Facts).show(drawing.summary_rows(row) if row and "cpu_s" in row else [])
        result = self.result
        drill = None
        if row and result is not None and result.detail is not None:
            drill = result.detail.drill(result.tables["classes"], str(row["class"]))
        self.query_one("#class-history", PlotView).show(drill and partial(drawing.over_time, drill))

    def _show_windows(self, result: Result) -> None:
        """Say which windows are looked at, and which keys choose others."""
        now, before = result.summary.get("window_now"), result.summary.get("window_before")
        shown = [("now", now, "bar"), ("before", before, "bar2")] if now and before else []
        unset = [
            ("6 begins and ends the window, 7 the one to compare it with, 8 shows all; 9 compares halves.", "", "dim")
        ]
        begun = [
            (f"{word} begins at interval {row}: press the key again where it ends", "", "key")
            for word, row in self.begun
        ]
        self.query_one("#windows", Facts).show([*begun, *(shown or unset)])
        self.query_one("#compared", Facts).show(shown or unset)

    def steps(self) -> Sequence[int]:
        """Return the ends of the intervals."""
        if self.result is None or self.at_ms is not None:
            return getattr(self, "_steps", ())
        ends = self.result.tables["intervals"].get_column("end_ms").drop_nulls().unique().sort()
        self._steps: list[int] = ends.to_list()
        return self._steps

    # -- opening ----------------------------------------------------------------------------------------------------------

    @on(LiveTable.Selected, "#classes")
    async def _open(self, event: LiveTable.Selected) -> None:
        event.stop()
        await self._open_class(str(event.key[0]))

    async def _open_class(self, name: str) -> ClassLevel | None:
        result = self.result
        if result is None or result.detail is None or result.detail.drill(result.tables["classes"], name) is None:
            self.notify("a group has no detail: b ungroups", timeout=3)
            return None
        level = ClassLevel(name, result.detail.names.get(name, name))
        await self.drill(level)
        return level

    @on(LiveTable.Selected, "#methods")
    def _choose_method(self, event: LiveTable.Selected) -> None:
        event.stop()
        self.change(method=str(event.key[0]))

    @on(LiveTable.Selected, "#sources")
    def _choose_source(self, event: LiveTable.Selected) -> None:
        event.stop()
        self.change(source=str(event.key[0]))

    # -- actions ------------------------------------------------------------------------------------------------------

    def _next(self, field: str, words: Sequence[str]) -> None:
        """Change a parameter to the next of ``words``."""
        if self.parameters is None or not words:
            return
        now = getattr(self.parameters, field)
        index = words.index(now) if now in words else -1
        self.change(**{field: words[(index + 1) % len(words)]})

    def action_method(self) -> None:
        """Choose the next method."""
        from engine.query_profile.tables import METHODS

        self._next("method", METHODS)

    def action_resource(self) -> None:
        """Choose the next resource series."""
        detail = self.result.detail if self.result is not None else None
        series = detail.profile.work.resources if detail is not None else ()
        words = [name for name in CPU_SERIES if name == "" or name in series]
        words += [name for name in series if name not in words and name not in ("cpu_us", "idle_us")]
        if len(words) < 2:
            self.notify("the files hold one resource only; -o target= names a column", timeout=3, markup=False)
            return
        self._next("target", words)

    def action_rank(self) -> None:
        """Rank by the next metric."""
        from engine.query_profile.parameters import RANKS

        self._next("metric", RANKS)
        if self.parameters is not None:
            self.query_one("#classes", LiveTable).choose(sort="")
            self.notify(f"ranked by {self.parameters.metric}", timeout=2, markup=False)

    def action_group(self) -> None:
        """Group by the next attribute."""
        self._next("group", GROUPS)

    def action_rules(self) -> None:
        """Switch between the rules of VividCortex' program and the safe form."""
        self._next("rules", ("safe", "upstream"))

    def action_source(self) -> None:
        """Choose the next server or file set."""
        if self.result is None or "sources" not in self.result.tables:
            return
        names: list[str] = self.result.tables["sources"].get_column("source").to_list()
        if len(names) < 2:
            self.notify("there is one source only", timeout=3)
            return
        now = self.result.summary.get("source")
        self.change(source=names[(names.index(now) + 1) % len(names)] if now in names else names[0])

    def _choose_window(self, field: str, word: str) -> None:
        """Begin a window at the interval under the cursor, or end the one that was begun."""
        if self.parameters is None or self.result is None or not self.query("#intervals"):
            return
        sections, table = self.query_one("#profile", Sections), self.query_one("#intervals", LiveTable)
        if sections.chosen != INTERVALS or table.row is None:
            sections.choose(INTERVALS)
            self.notify("put the cursor on an interval, then press the key again", timeout=3)
            return
        here, before = int(table.row["row"]), dict(self.begun).get(word)
        self.begun = () if before is not None else ((word, here),)
        if before is not None and self.change(**{field: f"{min(before, here)}..{max(before, here)}"}):
            return
        self._show_windows(self.result)

    def action_now(self) -> None:
        """Begin or end the window."""
        self._choose_window("window", "now")

    def action_before(self) -> None:
        """Begin or end the window that it is compared with."""
        self._choose_window("compare", "before")

    def action_all_intervals(self) -> None:
        """Look at all intervals, and compare nothing."""
        self.begun = ()
        self.change(window="", compare="")

    def action_compare(self) -> None:
        """Compare the second half of all intervals with the first, or stop comparing."""
        if self.parameters is None or self.result is None:
            return
        if self.parameters.compare:
            self.change(window="", compare="")
            self.query_one("#profile", Sections).choose(CLASSES)
            return
        rows = self.result.tables["intervals"].height
        if rows < 4:
            self.notify("too few intervals to compare", timeout=3)
            return
        if self.change(window=f"{rows // 2 + 1}..{rows}", compare=f"1..{rows // 2}"):
            self.query_one("#profile", Sections).choose(COMPARISON)

    async def action_what_if(self) -> None:
        """Go to the what-if slider, opening the class under the cursor if none is open."""
        top: Any = self.levels[-1] if self.levels else None
        if not isinstance(top, ClassLevel):
            row = self.query_one("#classes", LiveTable).row if self.query("#classes") else None
            top = await self._open_class(str(row["class"])) if row is not None else None
        if isinstance(top, ClassLevel):
            top.query_one("#class-sections", Sections).choose(WHAT_IF)
            top.query_one("#faster").focus()

    def action_drop(self) -> None:
        """Drop the open class in the what-if, or restore it."""
        top = self.levels[-1] if self.levels else None
        if isinstance(top, ClassLevel):
            top.toggle_drop()
        else:
            self.notify("open a class first (w)", timeout=3)
