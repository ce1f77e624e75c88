"""The tab: job list, roll-up and recommendations; Enter opens a job."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal

from engine.core import units
from engine.core.parameters import no_what_if
from tui.actions import bindings
from tui.views.job_heuristics import drawing
from tui.views.job_heuristics.level import JobLevel, advice_spec
from tui.views.job_heuristics.scenario import OpenJob
from tui.views.job_heuristics.spark_level import SparkLevel
from tui.views.job_heuristics.stored_level import NEEDS_HISTORIES, StoredLevel
from tui.views.shared.overview import Overview
from tui.views.shared.pane import DetailPanel, Level, ViewPane
from tui.widgets.drawing.bars import share_bar
from tui.widgets.drawing.fragments import Fragment, Line, cut, fit, harmless
from tui.widgets.drawing.plot import Draw, PlotView, Series, plot
from tui.widgets.sections import Sections
from tui.widgets.table.table import LiveTable

if TYPE_CHECKING:
    import polars as pl

    from engine.core.result import Result
    from engine.core.tables import Table
    from engine.job_heuristics.result.all_jobs import Detail
    from tui.widgets.table.window import Cell

NAME = "job-heuristics"
GROUPS = ("user", "queue", "job_type", "hour")


def strip_cell(cell: Cell) -> Sequence[Fragment]:
    """A severity strip in the job list."""
    return drawing.strip_line(str(cell.value or ""))


def state_cell(cell: Cell) -> Sequence[Fragment]:
    """A job's state; what runs and what failed stands out."""
    word = str(cell.value or "")
    style = {"RUNNING": "key", "FAILED": "severe", "KILLED": "moderate", "ERROR": "severe", "SUCCEEDED": "dim"}
    return [(word, style.get(word, "moderate"))]


def run_time_cell(cell: Cell) -> Sequence[Fragment]:
    """Draw a job's run time, or that it runs; the time of a job that did not succeed is marked."""
    state = str(cell.row.get("state") or "")
    if cell.value is None:
        return [(fit(state.lower(), cell.width, "right", cell.glyphs.ellipsis), "key" if state == "RUNNING" else "dim")]
    bad = state in ("FAILED", "ERROR", "KILLED")
    text = units.text("ms", cell.value, cell.width - 1)
    return [(("!" * bad + text).rjust(cell.width), "severe" if bad else "")]


def gb_h_cell(cell: Cell) -> Sequence[Fragment]:
    """Draw memory x time as a number of GB hours."""
    if cell.value is None:
        return [(("-" if cell.glyphs.ascii else units.NOTHING).rjust(cell.width), "dim")]
    return [(units.gb_hours(cell.value).rjust(cell.width), "")]


def in_gb_h(spec: Table) -> Table:
    """Return a declared table whose titles name the unit that ``gb_h_cell`` draws."""
    columns = [
        replace(c, title=f"{c.header} GB·h", width=max(c.width, len(c.header) + 6)) if c.kind == "mb_s" else c
        for c in spec.columns
    ]
    return replace(spec, columns=tuple(columns))


JOB_CELLS: dict[str, Any] = {
    "strip": strip_cell,
    "state": state_cell,
    "runtime_ms": run_time_cell,
    **dict.fromkeys(("wasted_mb_s", "used_mb_s", "saving_mb_s"), gb_h_cell),
}
ROLLUP_CELLS: dict[str, Any] = {
    **dict.fromkeys(("used_mb_s", "wasted_mb_s", "cost_mb_s", "avoidable_mb_s", "saving_mb_s"), gb_h_cell),
    "share": share_bar(text="percent", peak=100), "cumulated": share_bar(text="percent", peak=100),
}  # fmt: skip


class Pane(ViewPane):
    """Job heuristics."""

    VIEW = NAME
    BINDINGS: ClassVar[list[BindingType]] = [*bindings(NAME)]
    SCOPED_CSS = False
    DEFAULT_CSS = """
    #job-summary { height: 1fr; }
    #waste { height: 1fr; }
    #job-panel { max-width: 60; }
    .-narrow #job-panel { max-width: 100%; }
    """

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self.grouping = GROUPS[0]
        self._live: Result | None = None

    def compose_view(self) -> ComposeResult:
        """The fleet: jobs with a summary beside, roll-up, recommendations of all jobs."""
        sections = Sections(id="fleet")
        sections.add(
            "jobs",
            Horizontal(
                Overview(
                    LiveTable(name=f"{NAME}/jobs", id="jobs", renderers=JOB_CELLS),
                    [
                        Overview(
                            LiveTable(
                                name=f"{NAME}/best-advice",
                                id="best-advice",
                                renderers=ROLLUP_CELLS,
                                empty="no setting is known that would save memory or time",
                            ),
                            [
                                Overview(
                                    LiveTable(name=f"{NAME}/wasters", id="wasters", renderers=ROLLUP_CELLS),
                                    [PlotView(id="waste")],
                                )
                            ],
                            least=4,
                        )
                    ],
                    least=9,
                ),
                DetailPanel(drawing.Drawing(id="job-summary"), id="job-panel"),
            ),
        )  # fmt: skip
        sections.add(
            "roll-up",
            LiveTable(name=f"{NAME}/rollup", id="rollup", renderers=ROLLUP_CELLS),
        )
        sections.add(
            "recommendations", LiveTable(name=f"{NAME}/recommendations", id="recommendations", renderers=ROLLUP_CELLS)
        )
        yield sections

    # -- drawing --------------------------------------------------------------------------------------------------------

    def show(self, result: Result) -> None:
        """Draw the section on screen; the others when they are chosen."""
        if result.at_ms is None:
            self._live = result
        detail: Detail = result.detail
        self.query_one("#jobs", LiveTable).show(detail.listing, detail.listing_spec)
        self._others(result)
        self._summary()
        top = self.levels[-1] if self.levels else None
        if isinstance(top, StoredLevel) and (detail.job is not None or detail.app is not None):
            self.call_later(self._open_in_full, top)  # its histories were read

    def steps(self) -> Sequence[int]:
        """Time travel stops where a job was submitted or ended."""
        if self._live is None or "jobs" not in self._live.tables:
            return ()  # a fleet result knows no moment
        jobs = self._live.tables["jobs"]
        moments = {*jobs["submit_ms"].drop_nulls().to_list(), *jobs["finish_ms"].drop_nulls().to_list()}
        return sorted(moments)

    def _others(self, result: Result) -> None:
        """The roll-up and the recommendations, where they are on screen. Those of fleet results are made in a thread."""
        chosen = self.query_one("#fleet", Sections).chosen

        def made() -> tuple[pl.DataFrame | None, pl.DataFrame | None]:
            return result.table("rollup") if chosen != 2 else None, result.detail.advised() if chosen != 1 else None

        def make() -> None:
            self.app.call_from_thread(self._show_others, result, chosen, *made())

        if result.detail.stored is None:
            self._show_others(result, chosen, *made())
        else:
            # First the list is drawn: what a thread makes would take half of the interpreter's time.
            self.call_after_refresh(self.run_worker, make, group="others", exclusive=True, thread=True)

    def _show_others(
        self, result: Result, chosen: int, rollup: pl.DataFrame | None, advised: pl.DataFrame | None
    ) -> None:
        """Draw what was made, if it is still to be shown."""
        if self.result is not result or self.query_one("#fleet", Sections).chosen != chosen:
            return
        if rollup is not None:
            table, by = ("#wasters", GROUPS[0]) if chosen == 0 else ("#rollup", self.grouping)
            self.query_one(table, LiveTable).show(rollup.filter(rollup["by"] == by), self._rollup_spec)
        if advised is not None:
            table = "#best-advice" if chosen == 0 else "#recommendations"
            self.query_one(table, LiveTable).show(advised, self._advice_spec)
        if chosen == 0:
            self.query_one("#waste", PlotView).show(_waste(result))

    @cached_property
    def _advice_spec(self) -> Table:
        return in_gb_h(advice_spec(self.spec("recommendations"), fleet=True))

    @cached_property
    def _rollup_spec(self) -> Table:
        return in_gb_h(self.spec("rollup"))

    @on(Sections.Shown, "#fleet")
    def _fleet_section(self) -> None:
        if self.result is not None:
            self._others(self.result)

    @on(LiveTable.Highlighted, "#jobs")
    def _summary(self) -> None:
        row = self.query_one("#jobs", LiveTable).row
        result = self.result
        if row is None or result is None:
            self.query_one("#job-summary", drawing.Drawing).show(None)
            return
        detail: Detail = result.detail
        found = [detail.rows(table, row["job_id"]) for table in ("heuristics", "recommendations")]
        if found[0] is None:
            self._summarise(row, None, [])
            self.run_worker(partial(self._read_summary, row, detail), group="summary", exclusive=True, thread=True)
        else:
            self._summarise(row, *(frame.to_dicts() for frame in found if frame is not None))

    def _summarise(
        self, row: dict[str, Any], verdicts: list[dict[str, Any]] | None, advice: list[dict[str, Any]]
    ) -> None:
        """Draw the summary of a job; without ``verdicts`` as long as they are being read."""
        self.query_one("#job-summary", drawing.Drawing).show(
            lambda width, glyphs: _summary_lines(row, verdicts, advice[:3], width, glyphs)
        )

    def _read_summary(self, row: dict[str, Any], detail: Detail) -> None:
        """Read the verdicts and the advice of a job from its fleet result, in a thread, and draw them."""
        if detail.stored is None:
            return
        specs = (self.spec("heuristics"), self.spec("recommendations"))
        verdicts, advice = (detail.stored.rows(spec, row["job_id"])[0].to_dicts() for spec in specs)
        self.app.call_from_thread(self._summary_read, row, verdicts, advice)

    def _summary_read(self, row: dict[str, Any], *read: list[dict[str, Any]]) -> None:
        """Draw what was read, if the cursor is still there."""
        tables = self.query("#jobs")
        now = tables.first(LiveTable).row if tables else None
        if now is not None and now["job_id"] == row["job_id"]:
            self._summarise(row, *read)

    # -- opening a job ----------------------------------------------------------------------------------------------------

    @property
    def open_job(self) -> str | None:
        """The job whose level is open."""
        top = self.levels[-1] if self.levels else None
        return top.job_id if isinstance(top, (OpenJob, StoredLevel)) else None

    @on(LiveTable.Selected, "#jobs, #recommendations, #best-advice")
    async def _open_row(self, event: LiveTable.Selected) -> None:
        event.stop()
        await self.open(str(event.key[0]))

    @on(LiveTable.Selected, "#rollup, #wasters")
    def _open_group(self, event: LiveTable.Selected) -> None:
        """Show the jobs of a group: the filter of the job list."""
        event.stop()
        by, group = str(event.key[0]), str(event.key[1])
        if by == "hour":
            return
        self.query_one("#fleet", Sections).choose(0)
        jobs = self.query_one("#jobs", LiveTable)
        jobs.choose(filter=f'{by}="{group}"' if " " in group else f"{by}={group}")

    @on(LiveTable.Selected, "#job-runs")
    async def _open_run(self, event: LiveTable.Selected) -> None:
        event.stop()
        if str(event.key[0]) != self.open_job:
            await self.back()
            await self.open(str(event.key[0]))

    async def open(self, job_id: str) -> None:
        """Open one job."""
        if self.parameters is None:
            return
        self._choose(job=job_id, compare=None, **no_what_if(type(self.parameters)))
        detail: Detail | None = self.result.detail if self.result is not None else None
        stored = detail is not None and detail.stored is not None and not detail.has(job_id)
        await self.drill(StoredLevel(job_id) if stored else self._full_level(job_id))
        self._ask()

    def _full_level(self, job_id: str) -> Level:
        detail: Detail | None = self.result.detail if self.result is not None else None
        spark = detail is not None and detail.listed(job_id).get("job_type") == "Spark"
        return SparkLevel(job_id) if spark else JobLevel(job_id)

    async def _open_in_full(self, level: StoredLevel) -> None:
        """Show a job of a fleet result as any other: its own histories are there."""
        if self.levels and self.levels[-1] is level:
            await super().back()
            await self.drill(self._full_level(level.job_id))

    async def back(self) -> bool:
        """Close the open job and drop its scenario."""
        was = self.open_job
        closed = await super().back()
        if was is not None and closed:
            self._choose(job=None, compare=None, **no_what_if(type(self.parameters)))
            self._ask()
        return closed

    async def nothing(self, *, empty: str = "", error: str = "") -> None:
        """The open job may be gone while others are there: close it and ask again without it."""
        gone = self.open_job
        if empty and gone is not None:
            self.notify(f"{gone} is gone: {empty}", severity="warning", markup=False)
            await self.back()
            return
        await super().nothing(empty=empty, error=error)

    def _choose(self, **fields: Any) -> None:
        """Change parameters without an undo step: opening a job is not a change to take back."""
        from msgspec.structs import replace

        self.parameters = replace(self.parameters, **fields)

    def _ask(self, urgent: bool = True) -> None:
        """Whatever undo or defaults bring back, the open job stays the chosen one."""
        if self.open_job is not None and self.parameters.job != self.open_job:
            self._choose(job=self.open_job)
        super()._ask(urgent)

    # -- actions ------------------------------------------------------------------------------------------------------

    def action_mode(self) -> None:
        """Switch between Dr. Elephant's code and its published description."""
        if self.parameters is not None:
            self.change(mode="published" if self.parameters.mode == "upstream" else "upstream")

    def action_group(self) -> None:
        """The next grouping of the roll-up."""
        fleet = self.query("#fleet")
        if not fleet or self.result is None or self.open_job is not None:
            return
        sections = self.query_one("#fleet", Sections)
        if sections.chosen != 1:
            sections.choose(1)
        else:
            self.grouping = GROUPS[(GROUPS.index(self.grouping) + 1) % len(GROUPS)]
        self._others(self.result)

    async def action_what_if(self) -> None:
        """To the what-if controls, opening the job under the cursor if none is open."""
        if self.open_job is None:
            row = self.query_one("#jobs", LiveTable).row if self.query("#jobs") else None
            if row is None:
                return
            await self.open(str(row["job_id"]))
        top = self.levels[-1]
        if isinstance(top, OpenJob):
            top.what_if()
        elif isinstance(top, StoredLevel):
            self.notify(NEEDS_HISTORIES, timeout=3)

    def action_take(self) -> None:
        """Take a recommendation into the scenario."""
        top = self.levels[-1] if self.levels else None
        if isinstance(top, OpenJob):
            top.take()
        elif isinstance(top, StoredLevel):
            self.notify(NEEDS_HISTORIES, timeout=3)
        else:
            self.notify("open a job first: Enter; its section advice holds what can be taken", timeout=3)

    def action_forget(self) -> None:
        """Drop the scenario (can be undone)."""
        if self.parameters is not None:
            self.change(**no_what_if(type(self.parameters)))

    def action_compare(self) -> None:
        """Compare configurations with the run under the cursor."""
        found = self.levels[-1].query("#job-runs") if self.levels else None
        row = found.first(LiveTable).row if found else None
        if row is None or self.open_job is None:
            self.notify("open a job and its section history first", timeout=3)
            return
        self.change(compare=None if row["job_id"] == self.open_job else row["job_id"])


def _waste(result: Result) -> Draw | None:
    """Return what draws how much of its memory each job wasted, in the order in which they ended; None with less than two."""
    trend = result.trend
    if trend is None or len(trend.values) < 2:
        return None
    title = "part of its memory that each job wasted, in the order of their ends"
    line = Series(range(1, len(trend.values) + 1), trend.values, title, "bar")
    return lambda width, height, glyphs: plot([line], width, height, glyphs, x_kind="count")


def _summary_lines(
    row: dict[str, Any],
    verdicts: list[dict[str, Any]] | None,
    advice: list[dict[str, Any]],
    width: int,
    glyphs: Any,
) -> list[Line]:
    def short(text: str) -> str:
        """A name of thousands of characters must hide nothing else."""
        return cut(harmless(text), 2 * width, glyphs.ellipsis)

    out: list[Line] = drawing.paragraph(short(row["name"] or "(no name)"), width, "title")
    out += drawing.facts(
        [
            ("id", short(row["job_id"]), ""),
            ("user, queue", short(f"{row['user'] or '?'}, {row['queue'] or '?'}"), ""),
            ("state", str(row["state"]), ""),
            ("tasks", "" if row["maps"] is None else f"{row['maps']:,} maps, {row['reduces'] or 0:,} reducers", ""),
            ("used", units.text("mb_s", row["used_mb_s"]), ""),
            ("wasted", units.text("mb_s", row["wasted_mb_s"]), ""),
            ("true cost", units.text("mb_s", row["cost_mb_s"]), ""),
            ("avoidable", units.text("mb_s", row["avoidable_mb_s"]), ""),
            ("wait", units.text("ms", row["wait_ms"]), ""),
            ("run time", units.text("ms", row["runtime_ms"]), ""),
        ],
        width,
    )
    out.append([])
    if verdicts:
        out += drawing.paragraph(f"Letters of all verdicts, in order: {drawing.LEGEND}", width, "dim")
    for verdict in verdicts or ():
        style = drawing.level(verdict["severity"])
        quiet = style == "ok"
        letter, sign = drawing.letter(verdict["severity"]), " " if quiet else glyphs.severity[style]
        out.append(
            [(f"{letter} ", "dim" if quiet else style), (f"{sign} ", style),
             (f"{verdict['heuristic']} ", "dim" if quiet else ""),
             (str(verdict["severity"]), "dim" if quiet else style)]
        )  # fmt: skip
    if not verdicts:
        out.append([("no heuristic gave a result" if verdicts is not None else "reading its verdicts", "dim")])
    for one in advice:
        out += [[], [(f"{one['key']}=", ""), (str(one["value"]), "ok")]]
        saving = one["saving_mb_s"] or 0.0
        effect = f"{'saves' if saving >= 0 else 'costs'} {units.text('mb_s', abs(saving))}"
        out += drawing.paragraph(f"{effect}: {one['text']}", width, "dim")
    return out
