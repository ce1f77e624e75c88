"""The tab: job list, roll-up and recommendations; Enter opens a job, one of a fleet result from the tables of that."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace
from textual.containers import Horizontal, Vertical
from textual.css.query import NoMatches

from engine.core import units
from engine.core.parameters import no_what_if
from tui.glyphs import Glyphs
from tui.views.job_heuristics import drawing
from tui.views.job_heuristics.level import JobLevel, OpenJob, advice_spec
from tui.views.job_heuristics.spark import SparkLevel
from tui.views.job_heuristics.tez import TezLevel
from tui.views.shared.cells import named, number
from tui.views.shared.pane import ViewPane
from tui.views.shared.sections import (
    LATER,
    Box,
    DetailPanel,
    Fit,
    Level,
    LinesOf,
    PlotOf,
    Row,
    Section,
    TableOf,
)
from tui.widgets.control import following
from tui.widgets.drawing.bars import share_bar
from tui.widgets.drawing.fragments import Fragment, Line, cut, fit, harmless
from tui.widgets.drawing.plot import Draw, Series, plot
from tui.widgets.table.table import LiveTable

if TYPE_CHECKING:
    from engine.core.tables import Table
    from engine.core.view import Result
    from engine.job_heuristics.result.all_jobs import Detail
    from tui.widgets.table.window import Cell, Key

GROUPS = ("user", "queue", "job_type", "hour")
JOBS, ROLL_UP = "jobs", "roll-up"  # titles of sections that keys go to


def run_time_cell(cell: Cell) -> Sequence[Fragment]:
    """Draw a job's run time, or that it runs; red if it did not succeed."""
    state = str(cell.row.get("state") or "")
    if cell.value is None:
        return [
            (fit(state.lower(), cell.width, "right", cell.glyphs.ellipsis), "title" if state == "RUNNING" else "dim")
        ]
    bad = state in ("FAILED", "ERROR", "KILLED")
    return [(fit(units.text("ms", cell.value, cell.width), cell.width, "right"), "severe" if bad else "")]


def in_gb_h(spec: Table) -> Table:
    """Return a declared table whose titles name the unit that ``GB_H`` draws."""
    columns = [
        replace(c, title=f"{c.header} GB·h", width=max(c.width, len(c.header) + 6)) if c.kind == "mb_s" else c
        for c in spec.columns
    ]
    return replace(spec, columns=tuple(columns))


GB_H = number(units.gb_hours)  # memory x time as a number of GB hours
MEMORY_CELLS = dict.fromkeys(("used_mb_s", "wasted_mb_s", "cost_mb_s", "avoidable_mb_s", "saving_mb_s"), GB_H)
STATES = {"RUNNING": "title", "FAILED": "severe", "KILLED": "moderate", "ERROR": "severe", "SUCCEEDED": "dim"}
"""Styles of a job's state; any other stands out."""
JOB_CELLS: dict[str, Any] = {
    "strip": lambda cell: drawing.strip_line(str(cell.value or "")),
    "state": named(STATES, "moderate"),
    "runtime_ms": run_time_cell,
    **MEMORY_CELLS,
}
ROLLUP_CELLS: dict[str, Any] = {
    **MEMORY_CELLS,
    "share": share_bar(text="percent", peak=100), "cumulated": share_bar(text="percent", peak=100),
}  # fmt: skip


class Root(Level):
    """All jobs: the list with a summary beside it, the roll-up by ``grouping``, and recommendations."""

    NAME = "all-jobs"
    SCOPED_CSS = False
    DEFAULT_CSS = """
    #job-summary { height: 1fr; }
    #waste { height: 1fr; }
    """

    def __init__(self) -> None:
        super().__init__()
        self.grouping = GROUPS[0]
        self._made: dict[str, tuple[Result, str, Any]] = {}

    def sections(self) -> tuple[Section, ...]:
        """Return the sections: the list of jobs with the best advice, the roll-up, all recommendations."""
        jobs = TableOf(
            table="jobs", id="jobs", rows=lambda result: (result.detail.listing, result.detail.listing_spec),
            cells=JOB_CELLS, open=self._open_row,
        )  # fmt: skip
        best = self._advice("best-advice", empty="no setting is known that would save memory or time")
        below = Box(Fit, best, Box(Fit, self._rollup("wasters", lambda: GROUPS[0]), PlotOf(_waste, "waste")), least=4)
        panel = Box(DetailPanel, LinesOf(self._summary, "job-summary", of="jobs"), id="job-panel")
        return (
            Section(JOBS, Box(Horizontal, Box(Fit, jobs, below, least=9), panel)),
            Section(ROLL_UP, self._rollup("rollup", lambda: self.grouping)),
            Section("recommendations", self._advice("recommendations")),
        )

    def _advice(self, id: str, **more: Any) -> TableOf:
        return TableOf(
            table="recommendations", id=id, name=id, cells=ROLLUP_CELLS, open=self._open_row,
            rows=lambda result: self._later(result, "advised", result.detail.advised),
            arrange=lambda spec: in_gb_h(advice_spec(spec, all_jobs=True)), **more,
        )  # fmt: skip

    def _rollup(self, id: str, by: Callable[[], str]) -> TableOf:
        def rows(result: Result) -> Any:
            made = self._later(result, "rollup", lambda: result.table("rollup"))
            return made if made is LATER else made.filter(made["by"] == by())

        return TableOf(
            table="rollup", id=id, name=id, cells=ROLLUP_CELLS, rows=rows, arrange=in_gb_h, open=self._open_group
        )

    def _later(self, result: Result, name: str, make: Callable[[], Any], key: str = "") -> Any:
        """Return what ``make`` makes (for ``key``). For fleet results a thread makes it, then the section is drawn again."""
        if result.detail.stored is None:
            return make()
        known = self._made.get(name)
        if known is None or known[0] is not result or known[1] != key:
            self._made[name] = result, key, LATER

            def work() -> None:
                self.app.call_from_thread(self._take, name, (result, key, make()))

            # Draw the list first: a thread would slow that down by half.
            self.call_after_refresh(self.run_worker, work, group=name, exclusive=True, thread=True)
        return self._made[name][2]

    def _take(self, name: str, made: tuple[Result, str, Any]) -> None:
        """Draw what was made, if it is still to be shown."""
        if self.pane.result is made[0] and self._made[name][1] == made[1]:
            self._made[name] = made
            with suppress(NoMatches):  # while the app ends, sections go before their level
                self.draw()

    def _summary(self, result: Result, row: Row | None) -> Draw | None:
        """Return what draws the summary of a job."""
        if row is None:
            return None
        job = row["job_id"]
        made = self._later(result, "summary", lambda: self._judged(result.detail, job), job)
        verdicts, advice = made if made is not LATER else (None, [])
        return partial(_summary_lines, row, verdicts, advice)

    def _judged(self, detail: Detail, job: str) -> list[list[Row]]:
        """Return the verdicts and the advice of a job."""
        specs = (self.pane.spec("heuristics"), self.pane.spec("recommendations"))
        found = (detail.rows(spec.name, job) if detail.stored is None or detail.has(job) else
                 detail.stored.rows(spec, job)[0] for spec in specs)  # fmt: skip
        return [frame.to_dicts() if frame is not None else [] for frame in found]

    async def _open_row(self, row: Row) -> None:
        await self.pane.open(row["job_id"])

    def _open_group(self, row: Row) -> None:
        """Show the jobs of a group: the filter of the job list."""
        by, group = row["by"], str(row["group"])
        if by != "hour":
            self.choose(JOBS)
            self.query_one("#jobs", LiveTable).choose(filter=f'{by}="{group}"' if " " in group else f"{by}={group}")


class Pane(ViewPane):
    """Job heuristics."""

    VIEW = "job-heuristics"
    ROOT = Root
    root: Root

    def show(self, result: Result) -> None:
        """Open a job in full whose histories were read."""
        if isinstance(self.top, StoredLevel) and result.detail.opened is not None:
            self.call_later(self._open_in_full, self.top)

    def moments(self, result: Result) -> Sequence[int]:
        """Return when jobs were submitted or ended; a fleet result knows no moment."""
        jobs = result.tables.get("jobs")
        return sorted({*jobs["submit_ms"], *jobs["finish_ms"]} - {None}) if jobs is not None else ()

    # -- opening a job ----------------------------------------------------------------------------------------------------

    @property
    def open_job(self) -> str | None:
        """The job whose level is open."""
        return next((level.job_id for level in self.levels if isinstance(level, OpenJob)), None)

    async def open(self, job_id: str) -> None:
        """Open one job."""
        self._choose(job=job_id, compare=None, **no_what_if(type(self.parameters)))
        detail: Detail | None = self.result.detail if self.result is not None else None
        stored = detail is not None and detail.stored is not None and not detail.has(job_id)
        await self.drill(StoredLevel(job_id) if stored else self._full_level(job_id))
        self._ask()

    def _full_level(self, job_id: str) -> OpenJob:
        detail: Detail | None = self.result.detail if self.result is not None else None
        row = detail.listed(job_id) if detail is not None else {}
        if row.get("source") == "tez":
            return TezLevel(job_id)
        return SparkLevel(job_id) if row.get("job_type") == "Spark" else JobLevel(job_id)

    async def _open_in_full(self, level: StoredLevel) -> None:
        """Show a job of a fleet result like any other once its histories were read."""
        if self.top is level:
            await super().back()
            await self.drill(self._full_level(level.job_id))

    async def back(self) -> bool:
        """Close the open job and drop its scenario."""
        was = self.open_job
        closed = await super().back()
        if was is not None and self.open_job is None:
            self._choose(job=None, compare=None, **no_what_if(type(self.parameters)))
            self._ask()
        return closed

    async def nothing(self, *, empty: str = "", error: str = "") -> None:
        """The open job may be gone while others are there: close it and ask again without it."""
        gone = self.open_job
        if empty and gone is not None:
            self.notify(f"{gone} is gone: {empty}", severity="warning", markup=False)
            while self.open_job is not None and await self.back():
                pass
            return
        await super().nothing(empty=empty, error=error)

    def _choose(self, **fields: Any) -> None:
        """Change parameters without an undo step: opening a job is not a change to take back."""
        from msgspec.structs import replace

        self.parameters = replace(self.parameters, **fields)

    def _ask(self, urgent: bool = True) -> None:
        """Ask for a result; the open job stays chosen through undo and defaults."""
        if self.open_job is not None and self.parameters.job != self.open_job:
            self._choose(job=self.open_job)
        super()._ask(urgent)

    # -- actions ------------------------------------------------------------------------------------------------------

    def action_group(self) -> None:
        """Show the next grouping of the roll-up."""
        if not self.levels or self.open_job is not None:
            return
        if self.root.section == ROLL_UP:
            self.root.grouping = following(GROUPS, self.root.grouping)
        self.root.choose(ROLL_UP)
        self.root.draw()

    async def action_what_if(self) -> None:
        """Go to the what-if controls, opening the job under the cursor if none is open."""
        if self.open_job is None and self.levels:
            row = self.root.row("jobs")
            if row is not None:
                await self.open(row["job_id"])
        if isinstance(self.top, OpenJob):
            self.top.what_if()

    def action_take(self) -> None:
        """Take a recommendation into the scenario."""
        if isinstance(self.top, OpenJob):
            self.top.take()
        else:
            self.notify("open a job first: Enter; its section advice holds what can be taken", timeout=3)

    def action_compare(self) -> None:
        """Compare configurations with the run under the cursor."""
        found = self.top.query("#job-runs") if self.top is not None else None
        row = found.first(LiveTable).row if found else None
        if row is None or self.open_job is None:
            self.notify("open a job and its section history first", timeout=3)
            return
        self.change(compare=None if row["job_id"] == self.open_job else row["job_id"])


def _waste(result: Result) -> Draw | None:
    """Return what draws how much of its memory each job could have avoided, in the order in which they ended; None with less
    than two."""
    trend = result.trend
    if trend is None or len(trend.values) < 2:
        return None
    title = "avoidable part of what each job held, in the order of their ends"
    line = Series(range(1, len(trend.values) + 1), trend.values, title, "bar")
    return lambda width, height, glyphs: plot([line], width, height, glyphs, x_kind="count")


def _summary_lines(
    row: dict[str, Any],
    verdicts: list[dict[str, Any]] | None,
    advice: list[dict[str, Any]],
    width: int,
    height: int,
    glyphs: Any,
) -> list[Line]:
    """Draw the summary of a job; ``verdicts`` None as long as they are being read."""

    def short(text: str) -> str:
        """Cut a name of thousands of characters, which would hide everything else."""
        return cut(harmless(text), 2 * width, glyphs.ellipsis)

    out: list[Line] = drawing.paragraph(short(row["name"] or "(no name)"), width, "title")
    if row.get("error"):
        out += drawing.paragraph(f"{str(row['state']).lower()}: {row['error']}", width, "severe")
    out += drawing.facts(
        [
            ("id", short(row["job_id"]), ""),
            ("user, queue", short(f"{row['user'] or '?'}, {row['queue'] or '?'}"), ""),
            ("state", str(row["state"]), ""),
            (
                "tasks",
                ""
                if row["maps"] is None
                else f"{units.plural(row['maps'], 'map')}, {units.plural(row['reduces'] or 0, 'reducer')}",
                "",
            ),
            ("held", units.text("mb_s", row["cost_mb_s"]), ""),
            ("avoidable", units.text("mb_s", row["avoidable_mb_s"]), ""),
            ("used, wasted", " and ".join(units.text("mb_s", row[name]) for name in ("used_mb_s", "wasted_mb_s")), ""),
            ("wait", units.text("ms", row["wait_ms"]), ""),
            ("run time", units.text("ms", row["runtime_ms"]), ""),
        ],
        width,
    )
    out.append([])
    if verdicts:
        out += drawing.paragraph(f"Letters of all verdicts, in order: {drawing.LEGEND}", width, "dim")
    for verdict in verdicts or ():
        style = units.level_of(verdict["severity"])
        quiet = style == "ok"
        letter = next((letter for letter, look in drawing.LETTERS.items() if look == style), " ")
        sign = " " if quiet else glyphs.severity[style]
        out.append(
            [(f"{letter} ", "dim" if quiet else style), (f"{sign} ", style),
             (f"{verdict['heuristic']} ", "dim" if quiet else ""),
             (str(verdict["severity"]), "dim" if quiet else style)]
        )  # fmt: skip
    if not verdicts:
        out.append([("no heuristic gave a result" if verdicts is not None else "reading its verdicts", "dim")])
    for one in advice[:3]:
        out += [[], [(f"{one['key']}=", ""), (str(one["value"]), "ok")]]
        saving = one["saving_mb_s"] or 0.0
        effect = f"{'saves' if saving >= 0 else 'costs'} {units.text('mb_s', abs(saving))}"
        out += drawing.paragraph(f"{effect}: {one['text']}", width, "dim")
    return out


NEEDS_HISTORIES = "what-if needs the job's own histories"  # message for keys of the scenario


class StoredLevel(OpenJob):
    """The open job. Replaced by the full level once the job's histories have been read."""

    PREFIX = "stored"
    SCOPED_CSS = False
    DEFAULT_CSS = """
    StoredLevel { layout: vertical; }
    StoredLevel #stored-head { height: auto; max-height: 5; padding: 0 1; }
    StoredLevel Drawing { padding: 0 1; }
    StoredLevel #stored-verdicts { height: 55%; }
    StoredLevel #stored-verdict { height: 1fr; border-top: hkey $panel; }
    .-ascii StoredLevel #stored-verdict { border-top: ascii $panel; }
    """

    def sections(self) -> tuple[Section, ...]:
        """The tables that a fleet result holds of every job."""
        details = LinesOf(_details, "stored-verdict", of="stored-verdicts")
        return (
            Section("verdicts", Box(Vertical, self._table("heuristics", "stored-verdicts", first=self.worst), details)),
            Section("cost", self._table("costs", "stored-cost")),
            Section("advice", self._table("recommendations", "stored-advice")),
            Section("history", replace(self.history(), name="stored-history")),
            Section("differences", self._table("differences", "stored-differences")),
        )

    def _table(self, table: str, id: str, **more: Any) -> TableOf:
        """Return a table of the job's rows, once they are read."""

        def rows(result: Result) -> Any:
            found = result.detail.rows(table, self.job_id)
            return LATER if found is None else found

        return TableOf(table=table, id=id, name=f"stored-{table}", rows=rows, arrange=_of_one_job, **more)

    def shown(self, result: Result) -> Any:
        """Return the detail, which holds the rows of all jobs."""
        return result.detail

    def worst(self, result: Result) -> Key:
        """Return the worst verdict."""
        rows = result.detail.rows("heuristics", self.job_id).iter_rows(named=True)
        return (self.job_id, max(rows, key=lambda row: units.rank(row["severity"] or ""))["heuristic"])

    def what_if(self) -> None:
        """Say what the scenario needs."""
        self.notify(NEEDS_HISTORIES, timeout=3)

    take = what_if

    def lines(self, result: Result, width: int, glyphs: Glyphs) -> list[Line]:
        """Return name, severity and letters; user and memory; and why its own histories are not there."""
        row = result.detail.listed(self.job_id)
        if not row:
            return self.absent(False)
        text = (
            f"{row.get('user') or '?'} in {row.get('queue') or '?'}, {row.get('job_type') or 'Unknown'}, "
            f"submitted {units.text('time_ms', row.get('submit_ms'), 16)}, "
            f"used {units.text('mb_s', row.get('used_mb_s'))}, wasted {units.text('mb_s', row.get('wasted_mb_s'))}"
        )
        chosen = result.detail.chosen
        known = chosen is not None and chosen.job_id == self.job_id
        why = f"From a fleet result: {chosen.why}." if known else "Reading it from the fleet result."
        first = drawing.job_line(row, str(row.get("state") or ""), glyphs)
        return [first, [(text, "dim")], *drawing.paragraph(why, width, "moderate")]


def _of_one_job(spec: Table) -> Table:
    """Return a declaration without the job, which is the same in every row."""
    arranged = advice_spec(spec) if spec.name == "recommendations" else spec
    columns = [replace(column, hidden=column.hidden or column.name == "job_id") for column in arranged.columns]
    return replace(arranged, columns=tuple(columns))


def _details(result: Result, row: Row | None) -> Draw:
    """Return what draws what Dr. Elephant says to a verdict."""
    from engine.job_heuristics.dr_elephant.display import labels

    found = [(label, value, "") for label, value in labels(row["details"])] if row is not None else []
    return lambda width, height, glyphs: drawing.facts(found, width)
