"""Show the run comparison's tab: metrics with their samples, the run list, groups, change points, missing metrics, thresholds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal, VerticalScroll

from tui.actions import bindings
from tui.views.base import DetailPanel, Level, ViewPane
from tui.views.run_comparison.cells import (
    bucket_cell,
    change_cell,
    group_cell,
    influence_cell,
    interval_cell,
    ratio_cell,
    share_cell,
    short_ends,
    test_cell,
    verdict_cell,
)
from tui.views.run_comparison.columns import screen_frame, screen_table
from tui.views.run_comparison.plots import MetricPlots
from tui.views.run_comparison.run_marks import RunMarks, RunName
from tui.views.run_comparison.strip import SampleStrips
from tui.views.run_comparison.thresholds import STEP, field_of, threshold_controls
from tui.widgets.control import NumberControl, WordControl
from tui.widgets.drawing.fragments import Fragment
from tui.widgets.facts import Facts
from tui.widgets.sections import Sections
from tui.widgets.table.table import LiveTable
from tui.widgets.table.window import Cell

if TYPE_CHECKING:
    from engine.result import Result
    from engine.tables import Table

TABLES = ("runs", "groups", "change_points", "missing")
"""Result tables of the sections behind the metrics, in order."""
GROUPED = ("resource", "verb", "scope", "test", "kind", "bucket")
MODES = ("statistical", "published", "upstream")


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


class Pane(ViewPane):
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
        self.marks = RunMarks()
        self._specs: dict[str, Table] = {}
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
                LiveTable(
                    name="run-comparison/metrics",
                    id="metrics",
                    renderers={
                        **self._naming(),
                        "samples": self._strips.cell,
                        "ratio": ratio_cell,
                        "interval": interval_cell,
                        "verdict": verdict_cell,
                    },
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
            renderers={"group": group_cell, "ratio": ratio_cell, "share": share_cell},
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
        self._fill(result, self.query_one("#sections", Sections).chosen)

    def _fill(self, result: Result, section: int) -> None:
        """Bring one section up to date; the others wait until they are shown."""
        if section == 0:
            self._show("metrics", result)
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

    def _show(self, name: str, result: Result) -> None:
        """Show one result table in its section, at first in the order that matters most."""
        table = self.query_one(f"#{name.replace('_', '-')}", LiveTable)
        first = {"metrics": "evidence", "runs": "side"}.get(name)
        if first is not None and table.window is None and not table.choice.sort:
            table.choose(sort=first, descending=True, remember=False)
        if name not in self._specs:
            self._specs[name] = screen_table(self.spec(name))
        table.show(screen_frame(name, result.tables.get(name, self.spec(name).empty())), self._specs[name])

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
        from engine.run_comparison.result.explain import arithmetic

        if self.result is None:
            return []
        return [tuple(fact) for fact in arithmetic(self.result.detail, row, self.parameters)]  # type: ignore[misc]

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
    def open_group(self, event: LiveTable.Selected) -> None:
        """Show the metrics of a group."""
        by, group = event.key
        value = f'"{group}"' if " " in str(group) else group
        self.query_one("#metrics", LiveTable).choose(filter=f"{by}={value}")
        self.query_one("#sections", Sections).choose(0)

    @on(LiveTable.Selected, "#missing")
    @on(LiveTable.Selected, "#change-points")
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

    def action_disagree(self) -> None:
        """Show only metrics on which the modes disagree, or all again."""
        if self.parameters is None or not self.query("#metrics"):
            return
        if self.parameters.mode != "statistical":
            self.notify("the statistical mode compares itself with the benchmark tool: press i", timeout=3)
            return
        table = self.query_one("#metrics", LiveTable)
        terms = [term for term in table.choice.filter.split() if term != "disagree=yes"]
        if len(terms) == len(table.choice.filter.split()):
            terms.append("disagree=yes")
        table.choose(filter=" ".join(terms))
        self.query_one("#sections", Sections).choose(0)

    def action_distribution(self) -> None:
        """Switch between distribution functions and a histogram."""
        self.bars = not self.bars
        if self.result is not None:
            self.refresh_detail()
            for level in self.levels[1:]:
                level.show(self.result)

    # -- runs ---------------------------------------------------------------------------------------------------

    def _run(self) -> RunName | None:
        """Return the run under the cursor; None, with a notice, if the run list is not shown."""
        if not self.query("#runs"):
            return None
        table = self.query_one("#runs", LiveTable)
        if self.query_one("#sections", Sections).current is not table:
            self.query_one("#sections", Sections).choose(1)
            self.notify("choose runs here, then press the key again", timeout=3)
            return None
        row = table.row
        return (row["job"], row["run"]) if row is not None else None

    def _shown_runs(self) -> list[RunName]:
        window = self.query_one("#runs", LiveTable).window
        if window is None:
            return []
        return [(job, run) for job, run in window.shown().select("job", "run").iter_rows()]

    def _marks_changed(self) -> None:
        if self.result is not None:
            self._show("runs", self.result)
        if self.marks:
            self.notify(self.marks.summary(), timeout=3)

    def action_mark_range(self) -> None:
        """Begin or end a range of marked runs."""
        here = self._run()
        if here is not None:
            self.marks.mark_range(here, self._shown_runs())
            self._marks_changed()

    def action_mark_shown(self) -> None:
        """Mark all rows of the table, or none."""
        if self._run() is not None:
            self.marks.mark_shown(self._shown_runs())
            self._marks_changed()

    def action_mark_job(self) -> None:
        """Mark the job of the run under the cursor, or not any more."""
        here = self._run()
        if here is not None:
            self.marks.toggle_job(here[0])
            self._marks_changed()

    def action_to_left(self) -> None:
        """Put marked runs on the left."""
        self._put("left")

    def action_to_right(self) -> None:
        """Put marked runs on the right."""
        self._put("right")

    def action_toggle_run(self) -> None:
        """Take runs out of the comparison, or back to the side their job is on."""
        here = self._run()
        if here is None or self.result is None:
            return
        runs = {(row["job"], row["run"]): row["side"] for row in _run_rows(self.result)}
        if self.marks or runs.get(here):
            self._put("")
            return
        sides_of_job = [side for (job, _), side in runs.items() if job == here[0] and side]
        self._put(max(("left", "right"), key=sides_of_job.count))

    def _put(self, side: str) -> None:
        """Put what is marked, or the run under the cursor, on a side."""
        here = self._run()
        if here is None or self.result is None or self.parameters is None:
            return
        from engine.run_comparison.runs.selection import put

        chosen, whole = self.marks.chosen(here)
        rest = {"left": 0, "right": 0}
        for row in _run_rows(self.result):
            mine = (row["job"], row["run"]) in chosen or row["job"] in whole
            for word in rest:
                rest[word] += not mine and row["side"] in (word, "both")
                rest[word] += mine and word == side
        if not (rest["left"] and rest["right"]):
            self.notify(f"that would leave nothing on the {'left' if not rest['left'] else 'right'}", timeout=3)
            return
        detail = self.result.detail
        left, right = put(detail.left_patterns, detail.right_patterns, chosen, side, whole)
        self.marks.clear()
        if not self.change(left=left, right=right):
            self._marks_changed()

    def action_usual_sides(self) -> None:
        """Choose the sides as at start."""
        self.change(left=(), right=())

    def steps(self) -> Sequence[int]:
        """Return the times at which the compared runs began."""
        return self._steps


def _run_rows(result: Result) -> list[dict[str, Any]]:
    return result.tables["runs"].select("job", "run", "side").to_dicts()
