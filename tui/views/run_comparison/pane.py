"""The run comparison's tab: metrics with their samples, the run list and which runs are compared, groups, thresholds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from textual import on
from textual.containers import Horizontal, Vertical, VerticalScroll

from engine.core.units import plural
from tui.views.run_comparison import drawing
from tui.views.run_comparison.drawing import screen_frame, screen_table
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
    once,
)
from tui.widgets.control import NumberControl, WordControl
from tui.widgets.drawing.fragments import Fragment, cut_left
from tui.widgets.drawing.plot import Draw
from tui.widgets.facts import Fact
from tui.widgets.table.table import LiveTable
from tui.widgets.table.window import Cell, Looks

if TYPE_CHECKING:
    from engine.core.view import Result

RUNS = "Runs"  # title of the section with the run list

RunName = tuple[str, str]  # job and name of a run


def _run_rows(result: Result) -> list[dict[str, Any]]:
    return result.tables["runs"].select("job", "run", "side").to_dicts()


METRICS, GROUPS = "Metrics", "Groups"  # titles of sections that keys go to
ONLY = {
    "verdict=different effect=worse": "worse", "verdict=different effect=better": "better", "disagree=yes": "disagree",
}  # fmt: skip
"""Filters that the key "only worse" steps through, and the word for each on screen."""
STEP = 0.02  # change of a threshold per key press
_STEPS = {"min_count": 1.0, "min_average": 5.0, "change_p": 0.001, "alpha": 0.01}
"""Steps of thresholds that do not move by ``STEP``."""
CONTROLS = (
    "mode", "scheme", "similarity", "sample", "group_by", "threshold", "upper", "min_average", "min_count", "pass_share",
    "alpha", "change_p", "change_magnitude",
)  # fmt: skip
"""Options of the section of thresholds."""


class Root(Level):
    """The sections of the tab. ``bars``: whether samples are drawn as a histogram; ``marked`` runs and whole ``marked_jobs``
    are put on a side together."""

    NAME = "sections"
    SCOPED_CSS = False
    DEFAULT_CSS = """
    #metrics-detail > Facts { height: 1fr; }
    #plots { height: 2fr; layout: vertical; }
    .-short #plots > #series, .-tiny #plots > #series { display: none; }
    .-short #level-plots > #series, .-tiny #level-plots > #series { display: none; }
    #thresholds { padding: 1 2; }
    """

    def __init__(self) -> None:
        super().__init__()
        self.bars = False
        self.marked: set[RunName] = set()
        self.marked_jobs: set[str] = set()
        self._range_from: RunName | None = None
        self._naming = once(
            lambda result: drawing.naming(result.tables["metrics"].get_column("test").unique().to_list())
        )

    # -- layout -------------------------------------------------------------------------------------------------

    def sections(self) -> tuple[Section, ...]:
        """Return the sections: metrics, runs, groups, change points, missing metrics, thresholds."""
        return (
            Section(METRICS, self._metrics_section(), mark=lambda result: self._only()),
            Section(RUNS, self._table("runs", "runs", looks=self._run_looks, sort="side")),
            Section(GROUPS, self._table("groups", "groups", cells=drawing.GROUP_CELLS, open=self.open_group)),
            Section("Change points", self._changes("change-points")),
            Section("Missing", self._table("missing", "missing", looks=self._named({}), open=self.open_named)),
            Section(
                "Thresholds",
                Box(VerticalScroll, *map(self._control, CONTROLS), id="thresholds", can_focus=False),
            ),
        )

    def _metrics_section(self) -> Box:
        metrics = self._table("metrics", "metrics", looks=self._metric_looks, open=self.open_metric)
        groups = self._table("groups", "top-groups", cells=drawing.GROUP_CELLS, open=self.open_group)
        changes = self._changes("top-changes", empty="no metric that drifts has a change point")
        plots = Box(
            Charts,
            PlotOf(self.distribution, "distribution", of="metrics"),
            PlotOf(self.over_runs, "series", of="metrics"),
            id="plots",
        )
        return Box(
            Horizontal,
            Box(Fit, metrics, Box(Fit, groups, changes, least=4), least=5),
            Box(DetailPanel, FactsOf(self.facts, "facts", of="metrics"), plots, id="metrics-detail"),
            id="metrics-section",
        )

    def _changes(self, id: str, **more: Any) -> TableOf:
        return self._table("change_points", id, looks=self._named(drawing.CHANGE_CELLS), open=self.open_named, **more)

    def _table(self, table: str, id: str, **more: Any) -> TableOf:
        """Return a table with the columns and order of the screen."""

        def rows(result: Result) -> Any:
            declared = self.pane.spec(table)
            frame = screen_frame(table, result.tables.get(table, declared.empty()))
            return frame, screen_table(declared, str(result.summary["mode"]), result.detail.names)

        return TableOf(table=table, id=id, name=id, rows=rows, **more)

    def _named(self, cells: Mapping[str, Any]) -> Any:
        """Return how rows that name a metric are drawn."""

        def looks(result: Result) -> Looks:
            side = drawing.sides(result.detail.names)
            return Looks({**self._naming(result), "side": side, "inside": side, **cells})

        return looks

    def _metric_looks(self, result: Result) -> Looks:
        return Looks({**self._naming(result), **drawing.METRIC_CELLS, "samples": drawing.samples(result.detail)})

    def _run_looks(self, result: Result) -> Looks:
        def style(row: Mapping[str, Any]) -> str:
            return "severe" if row.get("bad") else "" if row.get("result") in ("SUCCESS", "", None) else "moderate"

        return Looks({**drawing.RUN_CELLS, "side": partial(self.side_cell, result.detail.names)}, style)

    def _control(self, field: str) -> Shown:
        """Return the control of an option: of its words, or of its number."""
        option, value, title = self.pane.option(field), getattr(self.pane.parameters, field), field.replace("_", " ")
        make: Any = partial(WordControl, title, option.choices, value, name=field)
        if not option.choices:
            step = _STEPS.get(field, STEP)
            make = partial(NumberControl, title, value, low=option.low or 0.0, high=option.high, step=step, name=field)
        return Shown(make, lambda result: getattr(self.pane.parameters, field), f"set-{field}")

    def facts(self, result: Result, row: Row | None) -> list[Fact]:
        """Return the arithmetic of a row's verdict, in the engine's words."""
        from engine.run_comparison.result.detail import arithmetic

        if row is None:
            return []
        told = [tuple(fact) for fact in arithmetic(result.detail, row, self.pane.parameters)]
        return [*told, ("values", drawing.legend(self.pane.glyphs, result.detail.names), "dim")]  # type: ignore[list-item]

    def distribution(self, result: Result, row: Row | None) -> Draw | None:
        """Return what draws both samples of a row."""
        return drawing.distribution(result.detail, row, self.bars) if row is not None else None

    def over_runs(self, result: Result, row: Row | None) -> Draw | None:
        """Return what draws the values of a row over the runs."""
        return drawing.over_runs(result.detail, row) if row is not None else None

    # -- which runs are compared --------------------------------------------------------------------------------

    def side_cell(self, names: tuple[str, str], cell: Cell) -> Sequence[Fragment]:
        """Draw the side with an arrow towards it and its name, and a star if the run is marked."""
        marked = (cell.row["job"], cell.row["run"]) in self.marked or cell.row["job"] in self.marked_jobs
        left, right = (cut_left(name, max(cell.width - 5, 1), cell.glyphs.ellipsis) for name in names)
        arrows = {"left": f"<- {left}", "right": f"{right} ->", "both": "<both>"}
        style = {"left": "bar", "right": "bar2", "both": "moderate"}.get(str(cell.value), "dim")
        return [("* " if marked else "  ", "key"), (arrows.get(str(cell.value), ""), style)]

    def _run(self) -> RunName | None:
        """Return the run under the cursor; None, with a notice, if the run list is not shown."""
        if not self.is_mounted:
            return None
        if self.section != RUNS:
            self.choose(RUNS)
            self.notify("choose runs here, then press the key again", timeout=3)
            return None
        row = self.row("runs")
        return (row["job"], row["run"]) if row is not None else None

    def _marks_changed(self) -> None:
        """Draw the run list again, and say what is marked."""
        self.draw()
        if self.marked or self.marked_jobs:
            whole = f", {plural(len(self.marked_jobs), 'whole job')}" if self.marked_jobs else ""
            self.notify(f"{plural(len(self.marked), 'run')} marked{whole}: b left, w right, Space takes out", timeout=3)

    def mark_runs(self, what: str) -> None:
        """Mark a ``range`` (begin or end it here), all rows ``shown`` (again: none) or the whole ``job``."""
        here = self._run()
        if here is None:
            return
        window = self.query_one("#runs", LiveTable).window
        shown = list(window.shown().select("job", "run").iter_rows()) if window is not None else []
        if what == "job":
            self.marked_jobs ^= {here[0]}
        elif what == "shown":
            self.marked = set() if self.marked.issuperset(shown) else self.marked | set(shown)
            self.marked_jobs.clear()
            self._range_from = None
        elif self._range_from is None:
            self._range_from = here
            self.marked.add(here)
        else:
            if self._range_from in shown:
                first, last = sorted((shown.index(self._range_from), shown.index(here)))
                self.marked.update(shown[first : last + 1])
            self._range_from = None
        self._marks_changed()

    def toggle_run(self) -> None:
        """Take runs out of the comparison, or put them back on the side of their job."""
        here = self._run()
        if here is None or self.pane.result is None:
            return
        runs = {(row["job"], row["run"]): row["side"] for row in _run_rows(self.pane.result)}
        if self.marked or self.marked_jobs or runs.get(here):
            self.put("")
            return
        self.put(max(("left", "right"), key=[side for (job, _), side in runs.items() if job == here[0] and side].count))

    def put(self, side: str) -> None:
        """Put what is marked, or the run under the cursor, on a side."""
        here = self._run()
        if here is None or self.pane.result is None or self.pane.parameters is None:
            return
        from engine.run_comparison.runs.selection import put

        whole = sorted(self.marked_jobs)
        chosen = sorted(run for run in self.marked if run[0] not in self.marked_jobs) or ([] if whole else [here])
        rest = {"left": 0, "right": 0}
        for row in _run_rows(self.pane.result):
            mine = (row["job"], row["run"]) in chosen or row["job"] in whole
            for word in rest:
                rest[word] += not mine and row["side"] in (word, "both")
                rest[word] += mine and word == side
        if not (rest["left"] and rest["right"]):
            self.notify(f"that would leave nothing on the {'left' if not rest['left'] else 'right'}", timeout=3)
            return
        detail = self.pane.result.detail
        left, right = put(detail.left_patterns, detail.right_patterns, chosen, side, whole)
        self.marked.clear()
        self.marked_jobs.clear()
        self._range_from = None
        if not self.pane.change(left=left, right=right):
            self._marks_changed()

    # -- opening ------------------------------------------------------------------------------------------------

    async def open_metric(self, row: Row) -> None:
        """Open one metric on the whole pane."""
        await self.pane.drill(MetricLevel(tuple(row[name] for name in self.pane.spec("metrics").key), self))

    def open_group(self, row: Row) -> None:
        """Show the metrics of a group."""
        group = str(row["group"])
        value = f'"{group}"' if " " in group else group
        self.query_one("#metrics", LiveTable).choose(filter=f"{row['by']}={value}")
        self.choose(METRICS)

    def open_named(self, row: Row) -> None:
        """Show the metric of a row in another table."""
        if self.pane.result is None:
            return
        import polars as pl

        names = ("test", "verb", "resource", "subresource", "scope", "bucket", "unit", "metric")
        found = self.pane.result.tables["metrics"].filter(pl.all_horizontal(pl.col(n) == row[n] for n in names))
        if found.height:
            metrics = self.query_one("#metrics", LiveTable)
            self.choose(METRICS)
            self.draw()
            metrics.choose(filter="")
            metrics.move_to_key(tuple(found.select(self.pane.spec("metrics").key).row(0)))

    def _only(self) -> tuple[str, str]:
        """Return the word for the filter in force."""
        kept = self.query_one("#metrics", LiveTable).choice.filter
        word = next((word for term, word in ONLY.items() if term in kept), "")
        return word and f"{word} only", "key"

    @on(LiveTable.Chosen)
    def _filter_chosen(self) -> None:
        if self.pane.result is not None:
            self.mark(self.pane.result)


class MetricLevel(Level):
    """One metric on the whole pane."""

    SCOPED_CSS = False
    DEFAULT_CSS = """
    #level-facts { height: 1fr; }
    #level-plots { height: 2fr; layout: horizontal; }
    .-narrow #level-plots { layout: vertical; }
    """

    def __init__(self, key: tuple[Any, ...], drawn: Root) -> None:
        super().__init__(" ".join(str(part) for part in key[:6] if part))
        self.key = key
        self._drawn = drawn
        self._metric = once(self._find)

    def sections(self) -> tuple[Section, ...]:
        """Facts and plots."""
        plots = Box(
            Charts,
            PlotOf(lambda result: self._drawn.distribution(result, self._metric(result)), "distribution"),
            PlotOf(lambda result: self._drawn.over_runs(result, self._metric(result)), "series"),
            id="level-plots",
        )
        return (Section("", Box(Vertical, FactsOf(self._facts, "level-facts"), plots)),)

    def _find(self, result: Result) -> Row | None:
        """Return the metric's row, None if there is none any more."""
        import polars as pl

        frame, names = result.tables["metrics"], self.pane.spec("metrics").key
        same = (pl.col(name).eq_missing(pl.lit(value)) for name, value in zip(names, self.key, strict=True))
        found = frame.filter(pl.all_horizontal(same))
        return found.row(0, named=True) if found.height else None

    def _facts(self, result: Result) -> list[Fact]:
        gone: list[Fact] = [("This metric is in none of the chosen runs any more.", "", "low")]
        return self._drawn.facts(result, self._metric(result)) or gone


class Pane(ViewPane):
    """Compare left and right runs."""

    VIEW = "run-comparison"
    ROOT = Root
    root: Root

    def moments(self, result: Result) -> Sequence[int]:
        """Return the times at which the compared runs began."""
        return sorted({run.time_ms for run in result.detail.axis.runs if run.time_ms is not None})

    # -- actions ------------------------------------------------------------------------------------------------

    def action_group(self) -> None:
        """Group by the next label and show the groups."""
        self.action_next("group_by")
        if self.levels:
            self.root.choose(GROUPS)

    def action_threshold(self, by: int) -> None:
        """Raise or lower the threshold."""
        if self.parameters is not None:
            wanted = min(max(round(self.parameters.threshold + by * STEP, 4), STEP), 1.0)
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
        self.root.choose(METRICS)

    def action_review(self) -> None:
        """Copy the line for a review."""
        from tui.process import clipboard

        if self.result is not None:
            line = self.result.summary["review"]
            self.notify(f"{line}\n{clipboard.copy(line, self.app)}", markup=False, timeout=6)

    def action_distribution(self) -> None:
        """Switch between distribution functions and a histogram."""
        self.root.bars = not self.root.bars
        for level in self.levels:
            level.draw()

    def action_mark(self, what: str) -> None:
        """Mark a range of runs, all rows shown, or a whole job."""
        self.root.mark_runs(what)

    def action_put(self, side: str) -> None:
        """Put marked runs on a side."""
        self.root.put(side)

    def action_usual_sides(self) -> None:
        """Choose the sides as at start."""
        self.change(left=(), right=())

    def action_toggle_run(self) -> None:
        """Take runs out or put them back, or mute or unmute a metric: what the cursor is on."""
        if self.query("#metrics") and self.query_one("#metrics", LiveTable).has_focus:
            self._mute()
        else:
            self.root.toggle_run()

    def _mute(self) -> None:
        """Mute the metric under the cursor, or unmute it."""
        row = self.query_one("#metrics", LiveTable).row
        if row is None or self.parameters is None or row["pooled"]:
            return
        from engine.run_comparison.words import pattern_of

        pattern, now = pattern_of(row), self.parameters.mute
        if row["muted"] and pattern not in now:
            self.notify("a pattern of option mute names it, among others: change it with o", timeout=4)
        else:
            self.change(mute=tuple(one for one in now if one != pattern) if pattern in now else (*now, pattern))
