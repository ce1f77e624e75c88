"""The run comparison's tab: metrics with their samples, the run list, groups, change points, missing metrics, thresholds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Container, Horizontal, VerticalScroll

from tui.actions import bindings
from tui.glyphs import Glyphs
from tui.views.base import DetailPanel, Level, ViewPane
from tui.views.run_comparison.cells import (
    bucket_cell,
    change_cell,
    group_cell,
    influence_cell,
    interval_cell,
    named,
    ratio_cell,
    share_cell,
    short_ends,
    test_cell,
    verdict_cell,
)
from tui.views.run_comparison.columns import SECTIONS, shaped
from tui.views.run_comparison.strip import strip
from tui.widgets.control import NumberControl, WordControl
from tui.widgets.drawing.fragments import Fragment, Line
from tui.widgets.drawing.plot import Mark, PlotView, Series, ecdf, histogram, plot
from tui.widgets.facts import Facts
from tui.widgets.sections import Sections
from tui.widgets.table.table import LiveTable
from tui.widgets.table.window import Cell

if TYPE_CHECKING:
    from engine.result import Result
    from engine.tables import Kind, Table

KINDS: Mapping[str, Kind] = {"ms": "ms", "bytes": "bytes", "B/s": "bytes_per_s", "%": "percent"}
TABLES = ("runs", "groups", "change_points", "missing")
"""Result tables of the sections behind the metrics, in order."""
STEP = 0.02
THRESHOLDS = ("threshold", "upper", "min_average", "min_count", "pass_share", "alpha", "change_p", "change_magnitude")
WORDS = ("mode", "scheme", "similarity", "sample", "group_by")
GROUPED = ("resource", "verb", "scope", "test", "kind", "bucket")
MODES = ("statistical", "published", "upstream")


class MetricPlots(Container, can_focus=True):
    """Both distributions of a metric above its series over the runs."""

    SCOPED_CSS = False
    DEFAULT_CSS = """
    MetricPlots { height: 2fr; }
    MetricPlots > PlotView { height: 1fr; }
    .-short MetricPlots > #series, .-tiny MetricPlots > #series { display: none; }
    """

    def compose(self) -> ComposeResult:
        """Two plots."""
        yield PlotView(id="distribution")
        yield PlotView(id="series")

    def show(self, detail: Any, row: Mapping[str, Any] | None, bars: bool) -> None:
        """Draw the metric of ``row``; nothing without one. ``bars``: a histogram instead of distribution functions."""
        distribution, series = self.query_one("#distribution", PlotView), self.query_one("#series", PlotView)
        if row is None or detail is None:
            distribution.show(None)
            series.show(None)
            return
        kind = KINDS.get(str(row["unit"]), "number")
        number = row["row"]
        left, right = detail.sample(number)
        if bars:
            distribution.show(partial(_histogram, detail, number, kind))
        else:
            samples = [("left", left.tolist(), "bar"), ("right", right.tolist(), "bar2")]
            distribution.show(partial(_ecdf, [s for s in samples if s[1]], kind))
        places, values, sides = (part.tolist() for part in detail.series(number))
        found = detail.change_points(number)
        marks = [Mark(float(at), "change") for at in (found.positions if found is not None else ())]
        series.show(partial(_series, places, values, sides, marks, kind))


def _ecdf(samples: Any, kind: Kind, width: int, height: int, glyphs: Glyphs) -> list[Line]:
    return ecdf(samples, width, height, glyphs, kind=kind) if samples else []


def _histogram(detail: Any, row: int, kind: Kind, width: int, height: int, glyphs: Glyphs) -> list[Line]:
    edges, left, right = detail.histogram(row, max(min(width // 3, 40), 4))
    return histogram(edges.tolist(), left.tolist(), width, height, glyphs, kind=kind, other=right.tolist())


def _series(
    places: list[float],
    values: list[float],
    sides: list[float],
    marks: list[Mark],
    kind: Kind,
    width: int,
    height: int,
    glyphs: Glyphs,
) -> list[Line]:
    drawn = []
    for side, name, style, shape in ((0, "left", "bar", "o"), (1, "right", "bar2", "x")):
        points = [(x, y) for x, y, of in zip(places, values, sides, strict=True) if of == side]
        if points:
            drawn.append(Series([x for x, _ in points], [y for _, y in points], name, style, points=True, shape=shape))
    return plot(drawn, width, height, glyphs, x_kind="count", y_kind=kind, marks=marks, zero=False)


class MetricLevel(Level):
    """One metric on the whole pane."""

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
        """Facts and plots."""
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
    """Left against right."""

    VIEW = "run-comparison"
    BINDINGS: ClassVar[list[BindingType]] = [*bindings("run-comparison")]
    DEFAULT_CSS = """
    #metrics-detail > Facts { height: 1fr; }
    #thresholds { padding: 1 2; }
    """

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        self.bars = False
        self.marked: set[tuple[str, str]] = set()
        self.marked_jobs: set[str] = set()
        self.range_from: tuple[str, str] | None = None
        self._specs: dict[str, Table] = {}
        self._tests: Mapping[str, str] = {}
        self._strips: tuple[Any, dict[tuple[Any, ...], Sequence[Fragment]]] = (None, {})
        self._steps: tuple[int, ...] = ()

    # -- layout -------------------------------------------------------------------------------------------------

    def compose_view(self) -> ComposeResult:
        """Sections."""
        sections = Sections(id="sections")
        sections.add(
            "Metrics",
            Horizontal(
                LiveTable(
                    name="run-comparison/metrics",
                    id="metrics",
                    renderers={
                        **self._naming(),
                        "samples": self._strip,
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
        sections.add("Thresholds", VerticalScroll(*self._controls(), id="thresholds", can_focus=False))
        yield sections

    def _controls(self) -> list[WordControl | NumberControl]:
        from engine.parameters import options

        if self.parameters is None:
            return []
        known = {option.field: option for option in options(type(self.parameters))}
        made: list[WordControl | NumberControl] = [
            WordControl(name.replace("_", " "), known[name].choices, getattr(self.parameters, name), id=f"set-{name}")
            for name in WORDS
            if name in known
        ]
        for name in THRESHOLDS:
            if name not in known:
                continue
            option = known[name]
            step = {"min_count": 1.0, "min_average": 5.0, "change_p": 0.001, "alpha": 0.01}.get(name, STEP)
            made.append(
                NumberControl(
                    name.replace("_", " "),
                    getattr(self.parameters, name),
                    low=option.low or 0.0,
                    high=option.high,
                    step=step,
                    id=f"set-{name}",
                )
            )
        return made

    # -- drawing ------------------------------------------------------------------------------------------------

    def show(self, result: Result) -> None:
        """The section on screen."""
        if result.detail is None:
            return
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
                word.show(getattr(self.parameters, (word.id or "").removeprefix("set-")))
            for number in self.query(NumberControl):
                number.show(getattr(self.parameters, (number.id or "").removeprefix("set-")))

    @on(Sections.Shown)
    def section_shown(self, event: Sections.Shown) -> None:
        """What comes on screen must be of the newest result."""
        if self.result is not None:
            self._fill(self.result, event.index)

    def _show(self, name: str, result: Result) -> None:
        """One result table in its section, in the order that matters at first."""
        import polars as pl

        table = self.query_one(f"#{name.replace('_', '-')}", LiveTable)
        first = {"metrics": "evidence", "runs": "side"}.get(name)
        if first is not None and table.window is None and not table.choice.sort:
            table.choose(sort=first, descending=True, remember=False)
        frame = result.tables.get(name, self.spec(name).empty())
        if "test" in frame.columns:
            if name == "metrics":
                frame = frame.with_columns(pl.lit("").alias("samples"), pl.lit("").alias("interval"))
            frame = named(frame)
        table.show(frame, self._spec_of(name))

    def _spec_of(self, name: str) -> Table:
        """The declared table with the columns of the screen: what names a row in one column, samples in the row."""
        if name not in self._specs:
            import polars as pl

            from engine.tables import Column

            declared = self.spec(name)
            extra = []
            if any(column.name == "test" for column in declared.columns):
                extra.append(Column("name", pl.String, "verb, resource, scope and further labels", priority=0))
            if name == "metrics":
                extra.append(
                    Column("samples", pl.String, "values of both sides: left above, right below", title="values")
                )
                extra.append(Column("interval", pl.String, "interval of the ratio"))
            self._specs[name] = shaped(declared, *SECTIONS[name], extra)
        return self._specs[name]

    def _naming(self) -> dict[str, Any]:
        """Cells that name a metric."""
        return {"bucket": bucket_cell, "test": lambda cell: test_cell(self._tests, cell)}

    def _strip(self, cell: Cell) -> Sequence[Fragment]:
        detail = self.result.detail if self.result is not None else None
        if detail is None:
            return [("", "")]
        if (
            self._strips[0] is not detail.samples
        ):  # another threshold leaves the samples, and their strips, as they were
            self._strips = detail.samples, {}
        key = cell.row["row"], cell.width, id(cell.glyphs)
        drawn = self._strips[1].get(key)
        if drawn is None:
            left, right = detail.sample(cell.row["row"])
            drawn = self._strips[1][key] = strip(left.tolist(), right.tolist(), cell.width, cell.glyphs)
        return drawn

    def _side(self, cell: Cell) -> Sequence[Fragment]:
        """The side with an arrow towards it, and a star if the run is marked."""
        row = cell.row
        marked = (row["job"], row["run"]) in self.marked or row["job"] in self.marked_jobs
        arrows = {"left": "<- left", "right": "right ->", "both": "<both>", "": ""}
        style = {"left": "bar", "right": "bar2", "both": "moderate"}.get(str(cell.value), "dim")
        return [("* " if marked else "  ", "key"), (arrows.get(str(cell.value), ""), style)]

    def _run_style(self, row: Mapping[str, Any]) -> str:
        if row.get("bad"):
            return "severe"
        result = row.get("result")
        return "moderate" if result not in ("SUCCESS", "", None) else ""

    def metric(self, key: tuple[Any, ...]) -> dict[str, Any] | None:
        """The metrics row with ``key``."""
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
        """The arithmetic of a row's verdict, as the engine tells it."""
        from engine.run_comparison.result.explain import arithmetic

        if self.result is None:
            return []
        return [tuple(fact) for fact in arithmetic(self.result.detail, row, self.parameters)]  # type: ignore[misc]

    @on(LiveTable.Highlighted, "#metrics")
    def refresh_detail(self) -> None:
        """The panel beside the table follows its cursor."""
        row = self.query_one("#metrics", LiveTable).row
        if row is None or self.result is None:
            self.query_one("#facts", Facts).show([])
            self.query_one("#plots", MetricPlots).show(None, None, self.bars)
            return
        self.query_one("#facts", Facts).show(self.facts(row))
        self.query_one("#plots", MetricPlots).show(self.result.detail, row, self.bars)

    @on(LiveTable.Selected, "#metrics")
    async def open_metric(self, event: LiveTable.Selected) -> None:
        """One metric on the whole pane."""
        await self.drill(MetricLevel(event.key))

    @on(LiveTable.Selected, "#groups")
    def open_group(self, event: LiveTable.Selected) -> None:
        """The metrics of a group."""
        by, group = event.key
        value = f'"{group}"' if " " in str(group) else group
        self.query_one("#metrics", LiveTable).choose(filter=f"{by}={value}")
        self.query_one("#sections", Sections).choose(0)

    @on(LiveTable.Selected, "#missing")
    @on(LiveTable.Selected, "#change-points")
    def open_named(self, event: LiveTable.Selected) -> None:
        """The metric of a line in another table."""
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
        """A threshold was changed: the answer follows."""
        field = (event.control.id or "").removeprefix("set-")
        value: float | int = int(event.value) if field == "min_count" else round(event.value, 6)
        self.change(**{field: value})

    @on(WordControl.Changed)
    def word_changed(self, event: WordControl.Changed) -> None:
        """Another mode, scheme or measure."""
        self.change(**{(event.control.id or "").removeprefix("set-"): event.value})

    def action_mode(self) -> None:
        """The next mode."""
        if self.parameters is not None:
            self.change(mode=MODES[(MODES.index(self.parameters.mode) + 1) % len(MODES)])

    def action_group(self) -> None:
        """Group by the next label and show the groups."""
        if self.parameters is not None:
            self.change(group_by=GROUPED[(GROUPED.index(self.parameters.group_by) + 1) % len(GROUPED)])
            self.query_one("#sections", Sections).choose(2)

    def action_stricter(self) -> None:
        """A higher threshold."""
        self._move_threshold(STEP)

    def action_looser(self) -> None:
        """A lower threshold."""
        self._move_threshold(-STEP)

    def _move_threshold(self, by: float) -> None:
        if self.parameters is not None:
            wanted = min(max(round(self.parameters.threshold + by, 4), STEP), 1.0)
            if self.change(threshold=wanted):
                self.notify(f"threshold {wanted:g}", timeout=1)

    def action_disagree(self) -> None:
        """Only metrics on which the modes disagree, or all again."""
        if self.parameters is None or not self.query("#metrics"):
            return
        if self.parameters.mode != "statistical":
            self.notify("the statistical mode compares itself with upstream: press i", timeout=3)
            return
        table = self.query_one("#metrics", LiveTable)
        terms = [term for term in table.choice.filter.split() if term != "disagree=yes"]
        if len(terms) == len(table.choice.filter.split()):
            terms.append("disagree=yes")
        table.choose(filter=" ".join(terms))
        self.query_one("#sections", Sections).choose(0)

    def action_distribution(self) -> None:
        """Distribution functions or a histogram."""
        self.bars = not self.bars
        if self.result is not None:
            self.refresh_detail()
            for level in self.levels[1:]:
                level.show(self.result)

    # -- runs ---------------------------------------------------------------------------------------------------

    def _run(self) -> tuple[str, str] | None:
        """Job and name of the run under the cursor; says so if the run list is not shown."""
        if not self.query("#runs"):
            return None
        table = self.query_one("#runs", LiveTable)
        if self.query_one("#sections", Sections).current is not table:
            self.query_one("#sections", Sections).choose(1)
            self.notify("choose runs here, then press the key again", timeout=3)
            return None
        row = table.row
        return (row["job"], row["run"]) if row is not None else None

    def _shown_runs(self) -> list[tuple[str, str]]:
        window = self.query_one("#runs", LiveTable).window
        if window is None:
            return []
        return [(job, run) for job, run in window.shown().select("job", "run").iter_rows()]

    def _marks_changed(self) -> None:
        if self.result is not None:
            self._show("runs", self.result)
        count = len(self.marked) + len(self.marked_jobs)
        if count:
            whole = f", {len(self.marked_jobs)} whole jobs" if self.marked_jobs else ""
            self.notify(f"{len(self.marked)} runs marked{whole}: b left, w right, Space takes out", timeout=3)

    def action_mark_range(self) -> None:
        """Begin or end a range."""
        here = self._run()
        if here is None:
            return
        if self.range_from is None:
            self.range_from = here
            self.marked.add(here)
        else:
            shown = self._shown_runs()
            if self.range_from in shown:
                first, last = sorted((shown.index(self.range_from), shown.index(here)))
                self.marked.update(shown[first : last + 1])
            self.range_from = None
        self._marks_changed()

    def action_mark_shown(self) -> None:
        """All rows of the table, or none."""
        if self._run() is None:
            return
        shown = set(self._shown_runs())
        self.marked = set() if shown <= self.marked else self.marked | shown
        self.marked_jobs.clear()
        self.range_from = None
        self._marks_changed()

    def action_mark_job(self) -> None:
        """The job of the run under the cursor, or not."""
        here = self._run()
        if here is not None:
            self.marked_jobs ^= {here[0]}
            self._marks_changed()

    def action_to_left(self) -> None:
        """Marked runs to the left."""
        self._put("left")

    def action_to_right(self) -> None:
        """Marked runs to the right."""
        self._put("right")

    def action_toggle_run(self) -> None:
        """Out of the comparison, or back to the side its job is on."""
        here = self._run()
        if here is None or self.result is None:
            return
        runs = {(row["job"], row["run"]): row["side"] for row in self._run_rows()}
        if self.marked or self.marked_jobs or runs.get(here):
            self._put("")
            return
        sides = [side for (job, _), side in runs.items() if job == here[0] and side]
        self._put(max(("left", "right"), key=sides.count))

    def _run_rows(self) -> list[dict[str, Any]]:
        assert self.result is not None
        return self.result.tables["runs"].select("job", "run", "side").to_dicts()

    def _put(self, side: str) -> None:
        """Put what is marked, or the run under the cursor, on a side."""
        here = self._run()
        if here is None or self.result is None or self.parameters is None:
            return
        from engine.run_comparison.runs.selection import put

        whole = sorted(self.marked_jobs)
        chosen = sorted(run for run in self.marked if run[0] not in self.marked_jobs)
        if not whole and not chosen:
            chosen = [here]
        rest = {"left": 0, "right": 0}
        for row in self._run_rows():
            mine = (row["job"], row["run"]) in chosen or row["job"] in whole
            for word in rest:
                rest[word] += not mine and row["side"] in (word, "both")
                rest[word] += mine and word == side
        if not (rest["left"] and rest["right"]):
            self.notify(f"that would leave nothing on the {'left' if not rest['left'] else 'right'}", timeout=3)
            return
        detail = self.result.detail
        left, right = put(detail.left_patterns, detail.right_patterns, chosen, side, whole)
        self.marked.clear()
        self.marked_jobs.clear()
        self.range_from = None
        if not self.change(left=left, right=right):
            self._marks_changed()

    def action_usual_sides(self) -> None:
        """Sides as at start without a choice."""
        self.change(left=(), right=())

    def steps(self) -> Sequence[int]:
        """The times at which the compared runs began."""
        return self._steps
