"""Show the run comparison's tab: metrics with their samples, the run list, groups, change points, missing metrics, thresholds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal, VerticalScroll

from tui.actions import bindings
from tui.views.run_comparison.cells import (
    bucket_cell,
    change_cell,
    group_cell,
    influence_cell,
    interval_cell,
    means_cell,
    ratio_cell,
    share_cell,
    short_ends,
    test_cell,
    verdict_cell,
)
from tui.views.run_comparison.columns import screen_frame, screen_table
from tui.views.run_comparison.plots import MetricPlots
from tui.views.run_comparison.run_choice import RunChoice
from tui.views.run_comparison.strip import SampleStrips, legend
from tui.views.run_comparison.thresholds import STEP, field_of, threshold_controls
from tui.views.shared.overview import Overview
from tui.views.shared.pane import DetailPanel, Level
from tui.widgets.control import NumberControl, WordControl
from tui.widgets.drawing.fragments import Fragment
from tui.widgets.facts import Facts
from tui.widgets.sections import Sections, TitleBar
from tui.widgets.table.table import LiveTable
from tui.widgets.table.window import Cell

if TYPE_CHECKING:
    from engine.core.result import Result
    from engine.core.tables import Table

TABLES = ("runs", "groups", "change_points", "missing")
"""Result tables of the sections behind the metrics, in order."""
GROUPED = ("resource", "verb", "scope", "test", "kind", "bucket")
ONLY = {
    "verdict=different effect=worse": "worse", "verdict=different effect=better": "better", "disagree=yes": "disagree",
}  # fmt: skip
"""Filters that the key for only worse goes through, and the word for each on screen."""
MODES = ("statistical", "published", "upstream")


GROUP_CELLS: dict[str, Any] = {"group": group_cell, "ratio": ratio_cell, "share": share_cell}


class MetricLevel(Level):
    """Show one metric on the whole pane."""

    SCOPED_CSS = False
    DEFAULT_CSS = """
    MetricLevel > Facts { height: 1fr; }
    MetricLevel > MetricPlots { height: 2fr; layout: horizontal; }
    .-narrow MetricLevel > MetricPlots { layout: vertical; }
    MetricLevel PlotView { width: 1fr; height: 1fr; }
    MetricLevel { layout: vertical; }
    """

    def __init__(self, key: tuple[Any, ...]) -> None:
        super().__init__(" ".join(str(part) for part in key[:6] if part))
        self.key = key

    def compose(self) -> ComposeResult:
        """Compose facts and plots."""
        yield Facts(id="level-facts")
        yield MetricPlots(id="level-plots")

    def show(self, result: Result) -> None:
        """Draw the metric, or say that it is gone."""
        pane = self.pane
        assert isinstance(pane, Pane)
        row = pane.metric(self.key)
        facts = self.query_one(Facts)
        if row is None:
            facts.show([("This metric is in none of the chosen runs any more.", "", "low")])
            self.query_one(MetricPlots).show(None, None, pane.bars)
            return
        facts.show(pane.facts(row))
        self.query_one(MetricPlots).show(result.detail, row, pane.bars)


class Pane(RunChoice):
    """Compare left and right runs."""

    VIEW = "run-comparison"
    BINDINGS: ClassVar[list[BindingType]] = [*bindings("run-comparison")]
    DEFAULT_CSS = """
    #metrics-detail > Facts { height: 1fr; }
    #thresholds { padding: 1 2; }
    """

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        self.bars = False
        self._specs: dict[tuple[str, str], Table] = {}
        self._tests: Mapping[str, str] = {}
        self._strips = SampleStrips()
        self._steps: tuple[int, ...] = ()

    # -- layout -------------------------------------------------------------------------------------------------

    def compose_view(self) -> ComposeResult:
        """Compose the sections."""
        sections = Sections(id="sections")
        sections.add(
            "Metrics",
            Horizontal(
                Overview(
                    LiveTable(
                        name="run-comparison/metrics",
                        id="metrics",
                        renderers={
                            **self._naming(),
                            "samples": self._strips.cell,
                            "means": means_cell,
                            "ratio": ratio_cell,
                            "interval": interval_cell,
                            "verdict": verdict_cell,
                        },
                    ),
                    [
                        Overview(
                            LiveTable(name="run-comparison/top-groups", id="top-groups", renderers=GROUP_CELLS),
                            [
                                LiveTable(
                                    name="run-comparison/top-changes",
                                    id="top-changes",
                                    renderers={**self._naming(), "change": change_cell},
                                    empty="no metric that drifts has a change point",
                                )
                            ],
                            least=4,
                        )
                    ],
                    least=5,
                ),
                DetailPanel(Facts(id="facts"), MetricPlots(id="plots"), id="metrics-detail"),
                id="metrics-section",
            ),
        )
        runs = LiveTable(
            name="run-comparison/runs",
            id="runs",
            renderers={"side": self._side, "influence": influence_cell, "outliers": share_cell},
            row_style=self._run_style,
        )
        sections.add("Runs", runs)
        groups = LiveTable(
            name="run-comparison/groups",
            id="groups",
            renderers=GROUP_CELLS,
        )
        sections.add("Groups", groups)
        changes = LiveTable(
            name="run-comparison/change-points",
            id="change-points",
            renderers={**self._naming(), "change": change_cell},
        )
        sections.add("Change points", changes)
        missing = LiveTable(name="run-comparison/missing", id="missing", renderers=self._naming())
        sections.add("Missing", missing)
        sections.add(
            "Thresholds", VerticalScroll(*threshold_controls(self.parameters), id="thresholds", can_focus=False)
        )
        yield sections

    # -- drawing ------------------------------------------------------------------------------------------------

    def show(self, result: Result) -> None:
        """Show the section on screen."""
        if result.detail is None:
            return
        self._strips.show(result.detail)
        if self.at_ms is None:
            runs = result.detail.axis.runs
            self._steps = tuple(sorted({run.time_ms for run in runs if run.time_ms is not None}))
        self._tests = short_ends(result.tables["metrics"].get_column("test").unique().to_list())
        self.mark_only()
        self._fill(result, self.query_one("#sections", Sections).chosen)

    def _fill(self, result: Result, section: int) -> None:
        """Bring one section up to date; the others wait until they are shown."""
        if section == 0:
            self._show("metrics", result)
            self._show("groups", result, "#top-groups")
            self._show("change_points", result, "#top-changes")
            self.refresh_detail()
        elif section <= len(TABLES):
            self._show(TABLES[section - 1], result)
        else:
            for word in self.query(WordControl):
                word.show(getattr(self.parameters, field_of(word)))
            for number in self.query(NumberControl):
                number.show(getattr(self.parameters, field_of(number)))

    @on(Sections.Shown)
    def section_shown(self, event: Sections.Shown) -> None:
        """Fill a section that comes on screen from the newest result."""
        if self.result is not None:
            self._fill(self.result, event.index)

    def _show(self, name: str, result: Result, selector: str = "") -> None:
        """Show one result table in its section, at first in the order that matters most."""
        table = self.query_one(selector or f"#{name.replace('_', '-')}", LiveTable)
        if name == "runs" and table.window is None and not table.choice.sort:
            table.choose(sort="side", descending=True, remember=False)
        key = (name, str(result.summary["mode"]))
        if key not in self._specs:
            self._specs[key] = screen_table(self.spec(name), key[1])
        table.show(screen_frame(name, result.tables.get(name, self.spec(name).empty())), self._specs[key])

    def _naming(self) -> dict[str, Any]:
        """Return the renderers of cells that name a metric."""
        return {"bucket": bucket_cell, "test": lambda cell: test_cell(self._tests, cell)}

    def _side(self, cell: Cell) -> Sequence[Fragment]:
        """Draw the side with an arrow towards it, and a star if the run is marked."""
        row = cell.row
        marked = (row["job"], row["run"]) in self.marks
        arrows = {"left": "<- left", "right": "right ->", "both": "<both>", "": ""}
        style = {"left": "bar", "right": "bar2", "both": "moderate"}.get(str(cell.value), "dim")
        return [("* " if marked else "  ", "key"), (arrows.get(str(cell.value), ""), style)]

    def _run_style(self, row: Mapping[str, Any]) -> str:
        if row.get("bad"):
            return "severe"
        result = row.get("result")
        return "moderate" if result not in ("SUCCESS", "", None) else ""

    def metric(self, key: tuple[Any, ...]) -> dict[str, Any] | None:
        """Return the metrics row with ``key``, None if there is none any more."""
        if self.result is None:
            return None
        import polars as pl

        frame = self.result.tables["metrics"]
        names = self.spec("metrics").key
        found = frame.filter(
            pl.all_horizontal(pl.col(name).eq_missing(pl.lit(value)) for name, value in zip(names, key, strict=True))
        )
        return found.row(0, named=True) if found.height else None

    def facts(self, row: Mapping[str, Any]) -> list[tuple[str, str, str]]:
        """Return the arithmetic of a row's verdict, in the engine's words."""
        from engine.run_comparison.result.detail import arithmetic

        if self.result is None:
            return []
        told = [tuple(fact) for fact in arithmetic(self.result.detail, row, self.parameters)]
        return [*told, ("values", legend(self.glyphs), "dim")]  # type: ignore[list-item]

    @on(LiveTable.Highlighted, "#metrics")
    def refresh_detail(self) -> None:
        """Show the row under the cursor in the panel beside the table."""
        row = self.query_one("#metrics", LiveTable).row
        if row is None or self.result is None:
            self.query_one("#facts", Facts).show([])
            self.query_one("#plots", MetricPlots).show(None, None, self.bars)
            return
        self.query_one("#facts", Facts).show(self.facts(row))
        self.query_one("#plots", MetricPlots).show(self.result.detail, row, self.bars)

    @on(LiveTable.Selected, "#metrics")
    async def open_metric(self, event: LiveTable.Selected) -> None:
        """Open one metric on the whole pane."""
        await self.drill(MetricLevel(event.key))

    @on(LiveTable.Selected, "#groups")
    @on(LiveTable.Selected, "#top-groups")
    def open_group(self, event: LiveTable.Selected) -> None:
        """Show the metrics of a group."""
        by, group = event.key
        value = f'"{group}"' if " " in str(group) else group
        self.query_one("#metrics", LiveTable).choose(filter=f"{by}={value}")
        self.query_one("#sections", Sections).choose(0)

    @on(LiveTable.Selected, "#missing")
    @on(LiveTable.Selected, "#change-points")
    @on(LiveTable.Selected, "#top-changes")
    def open_named(self, event: LiveTable.Selected) -> None:
        """Show the metric of a row in another table."""
        table = event.table
        row = table.row
        metrics = self.query_one("#metrics", LiveTable)
        if row is None or self.result is None:
            return
        import polars as pl

        names = ("test", "verb", "resource", "subresource", "scope", "bucket", "unit", "metric")
        found = self.result.tables["metrics"].filter(pl.all_horizontal(pl.col(n) == row[n] for n in names))
        if found.height:
            self._fill(self.result, 0)
            metrics.choose(filter="")
            metrics.move_to_key(tuple(found.select(self.spec("metrics").key).row(0)))
            self.query_one("#sections", Sections).choose(0)

    # -- parameters ---------------------------------------------------------------------------------------------

    @on(NumberControl.Changed)
    def number_changed(self, event: NumberControl.Changed) -> None:
        """Apply a threshold that was changed."""
        field = field_of(event.control)
        value: float | int = int(event.value) if field == "min_count" else round(event.value, 6)
        self.change(**{field: value})

    @on(WordControl.Changed)
    def word_changed(self, event: WordControl.Changed) -> None:
        """Apply another mode, scheme or measure."""
        self.change(**{field_of(event.control): event.value})

    def action_mode(self) -> None:
        """Switch to the next mode."""
        if self.parameters is not None:
            self.change(mode=MODES[(MODES.index(self.parameters.mode) + 1) % len(MODES)])

    def action_group(self) -> None:
        """Group by the next label and show the groups."""
        if self.parameters is not None:
            self.change(group_by=GROUPED[(GROUPED.index(self.parameters.group_by) + 1) % len(GROUPED)])
            self.query_one("#sections", Sections).choose(2)

    def action_stricter(self) -> None:
        """Raise the threshold."""
        self._move_threshold(STEP)

    def action_looser(self) -> None:
        """Lower the threshold."""
        self._move_threshold(-STEP)

    def _move_threshold(self, by: float) -> None:
        if self.parameters is not None:
            wanted = min(max(round(self.parameters.threshold + by, 4), STEP), 1.0)
            if self.change(threshold=wanted):
                self.notify(f"threshold {wanted:g}", timeout=1)

    def action_only(self) -> None:
        """Show only metrics that became worse; then better; then those on which the modes disagree; then all again."""
        if self.parameters is None or not self.query("#metrics"):
            return
        table = self.query_one("#metrics", LiveTable)
        kept, before = table.choice.filter, ""
        for term in ONLY:
            if term in kept:
                kept, before = " ".join(kept.replace(term, "").split()), term
        # Only the statistical mode compares itself with the benchmark tool.
        terms = tuple(ONLY) if self.parameters.mode == "statistical" else tuple(ONLY)[:2]
        following = dict(zip(("", *terms), (*terms, ""), strict=True)).get(before, "")
        table.choose(filter=" ".join(part for part in (kept, following) if part))
        self.query_one("#sections", Sections).choose(0)

    @on(LiveTable.Chosen)
    def mark_only(self) -> None:
        """Say behind the section's title which metrics are shown only, on any screen."""
        kept = self.query_one("#metrics", LiveTable).choice.filter
        word = next((word for term, word in ONLY.items() if term in kept), "")
        self.query_one("#sections > TitleBar", TitleBar).mark(0, word and f"{word} only", "key")

    def action_review(self) -> None:
        """Copy the line for a review."""
        from tui.process import clipboard

        if self.result is not None:
            line = self.result.summary["review"]
            self.notify(f"{line}\n{clipboard.copy(line, self.app)}", markup=False, timeout=6)

    def action_distribution(self) -> None:
        """Switch between distribution functions and a histogram."""
        self.bars = not self.bars
        if self.result is not None:
            self.refresh_detail()
            for level in self.levels[1:]:
                level.show(self.result)

    def show_runs(self, result: Result) -> None:
        """Show the run list again, with other marks."""
        self._show("runs", result)

    def action_toggle_run(self) -> None:
        """Take runs out or back, or mute a metric or hear it again: what the cursor is on."""
        if self.query("#metrics") and self.query_one("#metrics", LiveTable).has_focus:
            self._mute()
        else:
            self.toggle_run()

    def _mute(self) -> None:
        """Mute the metric under the cursor, or take back what mutes it."""
        row = self.query_one("#metrics", LiveTable).row
        if row is None or self.parameters is None or row["pooled"]:
            return
        from engine.run_comparison.insight.regressions import pattern_of

        pattern, now = pattern_of(row), self.parameters.mute
        if row["muted"] and pattern not in now:
            self.notify("a pattern of option mute names it, among others: change it with o", timeout=4)
        else:
            self.change(mute=tuple(one for one in now if one != pattern) if pattern in now else (*now, pattern))

    def steps(self) -> Sequence[int]:
        """Return the times at which the compared runs began."""
        return self._steps
