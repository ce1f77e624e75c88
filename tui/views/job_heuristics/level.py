"""An open job: its sections, the controls of the what-if scenario, advice taken into it; and one MapReduce job in full."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from msgspec.structs import replace
from textual.containers import Horizontal, Vertical

from engine.core import units
from tui.glyphs import Glyphs
from tui.views.job_heuristics import drawing
from tui.views.job_heuristics.controls import USE, WIDTH, ScenarioControls, knob
from tui.views.shared.cells import arranged
from tui.views.shared.sections import Box, Level, LinesOf, Part, Row, Section, Shown, TableOf
from tui.widgets.control import Control, NumberControl, WordControl
from tui.widgets.drawing.fragments import Fragment, Line
from tui.widgets.drawing.plot import Draw

if TYPE_CHECKING:
    from engine.core.tables import Table
    from engine.core.view import Result
    from engine.job_heuristics.mapreduce.result import JobDetail
    from tui.widgets.table.window import Cell, Key


class OpenJob(Level):
    """The level of an open job. ``TAKES`` says which property of an advice the scenario can take, and as which parameter;
    ``ADVISING`` names the sections whose rows can be taken, and their tables. ``LIMIT`` is the limit chosen
    at first, of the heuristics of an ``APPLICATION`` whose limits can be scaled."""

    PREFIX: ClassVar[str]
    APPLICATION: ClassVar[str] = ""
    TAKES: ClassVar[Mapping[str, str]] = {}
    ADVISING: ClassVar[Mapping[str, str]] = {}
    LIMIT: ClassVar[str] = ""

    def __init__(self, job_id: str) -> None:
        super().__init__(job_id)
        self.job_id = job_id
        self.read = self.led = False
        self.NAME = f"{self.PREFIX}-sections"

    # -- what kinds of jobs differ in ---------------------------------------------------------------------------------

    def shown(self, result: Result) -> Any:
        """Return the part of the result's detail on this job; None if it has none. Sections are drawn only if it has one."""
        opened = result.detail.opened if result.detail is not None else None
        return opened if opened is not None and opened.stamp[0] == self.job_id else None

    def lines(self, result: Result, width: int, glyphs: Glyphs) -> list[Line]:
        """Return what stands above the sections: name, severity and letters; user, size and times."""
        shown = self.shown(result)
        if shown is None:
            return self.absent(self.pane.dirty)
        row = result.detail.listed(self.job_id)
        words = f"{row.get('user') or '?'} in {row.get('queue') or '?'}, {self.words(row, shown)}"
        return [drawing.job_line(row, str(row.get("state") or ""), glyphs), [(words, "dim")]]

    def words(self, row: Row, shown: Any) -> str:
        """Return size and times of the job in ``row`` of the list."""
        raise NotImplementedError

    def absent(self, coming: bool, meanwhile: str = "reading it") -> list[Line]:
        """Return the line of a job that is not there: ``meanwhile`` if it is ``coming``, else that it has gone."""
        return [[(f"{self.job_id}: {meanwhile if coming else 'not in the data any more'}", "title")]]

    def knobs(self, shown: Any) -> list[NumberControl]:
        """Return the controls of the scenario's numbers."""
        raise NotImplementedError

    # -- what they have in common ---------------------------------------------------------------------------------------

    def head(self) -> Part:
        """Return the lines above the sections."""
        return self.drawn(f"{self.PREFIX}-head", self._headed)

    def _headed(self, result: Result, width: int, glyphs: Glyphs) -> list[Line]:
        first, *rest = self.lines(result, width, glyphs)
        error = result.detail.listed(self.job_id).get("error") if result.detail is not None else None
        return [first, *drawing.paragraph(error or "", width, "severe"), *rest] if error else [first, *rest]

    def show(self, result: Result) -> None:
        """Draw ``result``; a job that failed first shows its errors."""
        super().show(result)
        if self.led or not self.ready(result):
            return
        self.led = True
        titles = [section.title for section in self.declared]
        failed = result.detail.listed(self.job_id).get("error") and _errors(result)
        if failed and "errors" in titles and self.section == titles[0]:
            self.choose("errors")

    def ready(self, result: Result) -> bool:
        """Return whether the job has been read."""
        there = self.shown(result) is not None
        self.read = self.read or there
        return there

    def of_shown(self, id: str, draw: Callable[..., list[Line]]) -> Shown:
        """Return lines that ``draw`` draws, given what is shown of the job, width, height and glyphs."""
        return LinesOf(lambda result: partial(draw, self.shown(result)), id)

    def verdict(self, result: Result, row: Row | None) -> Draw | None:
        """Return what draws the verdict of a row."""
        verdicts = self.shown(result).verdicts if row else ()
        found = next((verdict for verdict in verdicts if row and verdict.heuristic == row["heuristic"]), None)
        return partial(drawing.verdict, found) if found is not None else None

    def finding(self, result: Result, row: Row | None) -> Draw | None:
        """Return what draws an insight or an advice in full."""
        return partial(advice_lines, self.TAKES, row) if row is not None else None

    def drawn(self, id: str, draw: Any) -> Shown:
        """Return lines that ``draw`` draws, given the result, width and glyphs."""
        return LinesOf(lambda result: lambda width, height, glyphs: draw(result, width, glyphs), id)

    def both(self, title: str, table: TableOf, draw: Any) -> Section:
        """Return a section with a table over what ``draw`` draws of the row under its cursor."""
        return Section(title, Box(Vertical, table, LinesOf(draw, f"{table.id}-panel", of=table.id), classes="app-both"))

    def controls(self, id: str) -> Shown:
        """Return the controls of the scenario."""
        return Shown(ScenarioControls, lambda result: partial(self._controls, result), id)

    def _controls(self, result: Result) -> list[Control[Any]]:
        """Make the controls: numbers, limits (HEURISTIC/PARAMETER), and the factor on the chosen limit."""
        from engine.job_heuristics.result.all_jobs import default_rules

        rules = [rule for rule in default_rules().with_gates if rule.heuristic.application == self.APPLICATION]
        limits = [f"{rule.name}/{parameter}" for rule in rules for parameter in rule.limits]
        return [
            *self.knobs(self.shown(result)),
            WordControl("scale the limits of", limits, self.LIMIT or limits[0], label_width=WIDTH, id="what-limit"),
            NumberControl("  by the factor", 1.0, low=0.05, high=20.0, step=0.05, label_width=WIDTH, id="what-times"),
        ]

    def effects(self, id: str) -> TableOf:
        """Return the table of what the scenario changes; it is left out while nothing is predicted."""

        def rows(result: Result) -> Any:
            return result.tables.get("what_if") if self.shown(result).prediction is not None else None

        return TableOf(table="what_if", id=id, rows=rows, cells={"predicted": predicted_cell}, hide=True)

    def advice(self, id: str, **more: Any) -> TableOf:
        """Return the table of recommendations."""
        return TableOf(
            table="recommendations", id=id, name="job-recommendations", arrange=advice_spec,
            rows=lambda result: result.detail.rows("recommendations", self.job_id), **more,
        )  # fmt: skip

    def notes(self, result: Result, width: int, glyphs: Glyphs) -> list[Line]:
        """Draw what was assumed, and the problems of its files."""
        return drawing.notes_of_job(result, self.job_id, [], width)

    def history(self) -> TableOf:
        """Return the table of earlier and later runs; Enter opens one."""
        return TableOf(table="history", id="job-runs", open=self._open_run)

    async def _open_run(self, row: Row) -> None:
        pane = self.pane  # this level is closed
        if row["job_id"] != self.job_id:
            await pane.back()
            await pane.open(row["job_id"])

    def errors(self) -> Section:
        """Return the section of the errors of the job, grouped by cause, if it has any; Enter opens the whole text."""
        section = self.both(
            "errors",
            TableOf(
                table="errors",
                id=f"{self.PREFIX}-errors",
                open=self.whole,
                height=lambda rows: min(max(rows, 1), 8) + 1,
            ),
            lambda result, row: partial(drawing.error, row) if row is not None else None,
        )
        return replace(section, hidden=lambda result: not _errors(result))

    async def whole(self, row: Row) -> None:
        """Open the whole text of the error that a row names; a row that names none goes to all errors of the job."""
        from engine.job_heuristics.dr_elephant.errors import root_cause
        from engine.job_heuristics.dr_elephant.history import stem

        known = _errors(self.pane.result)
        told = next((str(row[name]) for name in ERROR_COLUMNS if row.get(name)), "")
        cause = stem(root_cause(told)) if told else ""
        found = next((one for one in known if stem(one["cause"]) == cause), None)
        if found is not None:
            await self.pane.drill(ErrorLevel(found["cause"]))
        elif known and (row.get("failed_tasks") or row.get("topic", row.get("heuristic")) in FAILING):
            self.choose("errors")
        else:
            self.notify("this row names no error", timeout=3)

    def worst(self, result: Result) -> Key | None:
        """Return the worst verdict, which is why the job was opened; None if nothing is bad."""
        bad = [each for each in self.shown(result).verdicts if units.rank(each.severity) > units.rank("none")]
        return (max(bad, key=lambda verdict: units.rank(verdict.severity)).heuristic,) if bad else None

    def what_if(self) -> None:
        """Go to the controls of the scenario."""
        self.choose("what if")
        self.query_one(ScenarioControls).focus_first()

    def take(self) -> None:
        """Take the advice under the cursor into the scenario; from other sections show the advice first."""
        if self.section not in self.ADVISING:
            self.choose("advice")
            return
        row = self.row(self.ADVISING[self.section])
        if row is None:
            self.notify("there is nothing to recommend for this job", timeout=3)
            return
        field, value = self.TAKES.get(row["key"]), _number(str(row.get("value" if "text" in row else "setting") or ""))
        if field is None or value is None:
            key = (row["key"] or row.get("topic") or "this").removeprefix("mapreduce.")
            self.notify(f"what-if does not model {key}; the advice holds", timeout=3, markup=False)
            return
        self.pane.change(**{field: value if field == "slow_start" else int(value)})
        self.choose("what if")


ERROR_COLUMNS = ("text", "failure", "error", "diagnostics", "why")  # columns of tables that hold an error
FAILING = ("failed attempts", "Exception", "Spark Job Metrics", "Spark Stage Metrics")
"""Insights and verdicts that are about errors."""


def _errors(result: Result | None) -> list[Row]:
    """Return the rows of table errors; none before the open job is read."""
    return result.tables["errors"].to_dicts() if result is not None and "errors" in result.tables else []


class ErrorLevel(Level):
    """The whole text of one error of the open job, by its ``cause``."""

    DEFAULT_CSS = "ErrorLevel Drawing { padding: 0 1; }"

    def __init__(self, cause: str) -> None:
        super().__init__("error")
        self.cause = cause

    def sections(self) -> tuple[Section, ...]:
        """Return the text."""
        return (Section("", LinesOf(self._text, "error-text")),)

    def _text(self, result: Result) -> Draw:
        found = next((row for row in _errors(result) if row["cause"] == self.cause), None)
        gone = "this error is not in the data any more"
        return lambda width, *size: drawing.error(found, width, *size) if found else drawing.paragraph(gone, width)


class JobLevel(OpenJob):
    """The open MapReduce job. Its sections draw from ``Result.detail.opened`` and the tables of that job."""

    PREFIX = "job"
    APPLICATION = "mapreduce"
    TAKES: ClassVar = {
        "mapreduce.map.memory.mb": "map_mb",
        "mapreduce.reduce.memory.mb": "reduce_mb",
        "mapreduce.input.fileinputformat.split.minsize": "split_size",
        "mapreduce.input.fileinputformat.split.maxsize": "split_size",
        "mapreduce.job.reduces": "reduces",
        "mapreduce.job.reduce.slowstart.completedmaps": "slow_start",
    }
    ADVISING: ClassVar = {"advice": "job-advice"}
    LIMIT = "Mapper Time/num_tasks_severity"
    SCOPED_CSS = False  # the rules begin with the screen's classes
    DEFAULT_CSS = """
    JobLevel { layout: vertical; }
    JobLevel #job-head { height: auto; max-height: 4; padding: 0 1; }
    JobLevel Drawing { padding: 0 1; }
    JobLevel #job-verdicts LiveTable { width: 46%; }
    JobLevel #job-verdicts Drawing { border-left: vkey $panel; }
    .-narrow JobLevel #job-verdicts { layout: vertical; }
    .-narrow JobLevel #job-verdicts LiveTable { width: 1fr; height: 40%; }
    .-narrow JobLevel #job-verdicts Drawing { border-left: none; border-top: hkey $panel; }
    .-ascii JobLevel #job-verdicts Drawing { border-left: ascii $panel; }
    .-ascii .-narrow JobLevel #job-verdicts Drawing { border-left: none; border-top: ascii $panel; }
    JobLevel .app-both > Drawing { height: 1fr; border-top: hkey $panel; }
    .-ascii JobLevel .app-both > Drawing { border-top: ascii $panel; }
    JobLevel #job-scenario { height: 1fr; }
    JobLevel #job-controls { width: 46%; height: 1fr; }
    .-narrow JobLevel #job-scenario { layout: vertical; }
    .-narrow JobLevel #job-controls { width: 1fr; height: 7; }
    JobLevel #job-model { height: auto; max-height: 6; }
    .-narrow JobLevel #job-model { max-height: 3; }
    JobLevel #job-advice { max-height: 50%; }
    JobLevel #job-runs { height: 1fr; }
    JobLevel #job-changes { height: 1fr; }
    """

    def sections(self) -> tuple[Section, ...]:
        """What is wrong with the job, what it costs, what would help."""
        verdicts = TableOf(table="explained", id="job-explained", first=self.worst, open=self.whole)
        advice = self.advice("job-advice", height=lambda rows: min(max(rows, 1), 12) + 2)  # the text stands right below
        return (
            Section(
                "verdicts",
                Box(Horizontal, verdicts, LinesOf(self.verdict, "job-verdict", of="job-explained"), id="job-verdicts"),
            ),
            self.errors(),
            Section("cost", self.drawn("job-cost", self._cost)),
            Section("tasks", self.of_shown("job-tasks", drawing.distributions)),
            Section("time", self.of_shown("job-time", drawing.timeline)),
            Section(
                "advice",
                Box(
                    Vertical,
                    advice,
                    LinesOf(
                        lambda result, row: partial(advice_lines, self.TAKES, row), "job-advice-text", of="job-advice"
                    ),
                ),
            ),
            Section(
                "what if",
                Box(
                    Horizontal,
                    self.controls("job-controls"),
                    Box(Vertical, self.effects("job-what-if"), self.drawn("job-model", self._model)),
                    id="job-scenario",
                ),
            ),
            Section("history", Box(Vertical, self.history(), TableOf(table="conf_changes", id="job-changes"))),
            Section("task list", TableOf(table="tasks", id="job-task-list", arrange=task_spec, open=self.whole)),
            Section("notes", self.drawn("job-notes", self.notes)),
        )

    def knobs(self, shown: JobDetail) -> list[NumberControl]:
        """Return the controls of the scenario's numbers."""
        from engine.job_heuristics.mapreduce.model.model import number

        job = shown.facts.job
        split = int(job.maps.size.mean()) if len(job.maps.size) else 0
        start = number(job.conf, "mapreduce.job.reduce.slowstart.completedmaps", 0.05)
        return [
            knob("map_mb", "map container MB", job.maps.container_mb, 128, 16384, 128),
            knob("reduce_mb", "reducer container MB", job.reduces.container_mb, 128, 16384, 128),
            knob("split_size", "input of a map", max(split, MB), MB, kind="bytes"),
            knob("reduces", "reducers", max(len(job.reduces.total), 1), 1, 5000),
            knob("slow_start", "slow start", start, 0.0, 1.0, 0.05, "number"),
        ]

    # -- drawing --------------------------------------------------------------------------------------------------------

    def lines(self, result: Result, width: int, glyphs: Glyphs) -> list[Line]:
        """Return the lines and what their letters mean, or a note while the tasks are being read."""
        if self.shown(result) is None:
            return self.absent(not self.read or self.pane.dirty, "reading its tasks")
        first, *rest = super().lines(result, width, glyphs)
        return [[*first, (f"  {drawing.LEGEND}", "dim")], *rest]

    def words(self, row: Row, shown: JobDetail) -> str:
        """Return type, tasks and times."""
        maps, reduces = shown.facts.job.maps, shown.facts.job.reduces
        ran = "" if shown.before.runtime_ms is None else f", ran {units.text('ms', shown.before.runtime_ms)}"
        return (
            f"{row.get('job_type') or 'Unknown'}, {maps.n:,}/{maps.planned:,} maps, {reduces.n:,}/{reduces.planned:,} reducers, "
            f"submitted {units.text('time_ms', row.get('submit_ms'), 16)}{ran}"
        )

    def _cost(self, result: Result, width: int, glyphs: Glyphs) -> list[Line]:
        return drawing.cost(result.detail.rows("costs", self.job_id).to_dicts(), self.shown(result), width, glyphs)

    def _model(self, result: Result, width: int, glyphs: Glyphs) -> list[Line]:
        predicted = self.shown(result).prediction
        if predicted is None:
            return drawing.paragraph(USE, width, "dim")
        return [
            *drawing.paragraphs(predicted.warnings, width, "severe"),
            *drawing.paragraphs(predicted.assumptions, width, "dim"),
        ]

    def notes(self, result: Result, width: int, glyphs: Glyphs) -> list[Line]:
        """Draw also where the published description differs."""
        return drawing.notes(result, self.job_id, self.shown(result), self.pane.parameters.mode, width)


TASK_FIRST = {
    "task_id": ("", 16), "state": ("", 9), "total_ms": ("run time", 8), "input_bytes": ("input", 9),
    "reduce_shuffle_bytes": ("shuffled", 9), "shuffle_ms": ("shuffle", 8), "sort_ms": ("sort", 8),
    "gc_ms": ("GC", 8), "spilled_records": ("spilled", 11), "host": ("", 0), "attempts": ("", 8),
    "start_ms": ("started", 14), "locality": ("", 0), "error": ("", 0),
}  # fmt: skip
"""The task list begins with what makes a task long; title and width of each (empty, 0: as declared)."""
MB = 2**20


def task_spec(spec: Table) -> Table:
    """Arrange the task list of one job: what makes a task long comes first, what only explains Dr. Elephant's numbers is
    hidden at first."""
    looks = {
        name: {"title": title or spec.column(name).title, "width": width or spec.column(name).width, "priority": min(at // 3, 3),
               "hidden": False}
        for at, (name, (title, width)) in enumerate(TASK_FIRST.items())
    }  # fmt: skip
    return arranged(spec, looks, hidden=True)


ADVICE: Mapping[str, Mapping[str, Any]] = {
    # The end of a property tells it from its neighbours: it is cut on the left.
    "key": {"kind": "id", "width": 36, "priority": 0}, "value": {"priority": 0}, "saving_mb_s": {"priority": 0},
    "saving_percent": {"priority": 1}, "current": {"title": "now", "priority": 1}, "heuristic": {"priority": 2, "width": 15},
    "severity_now": {"title": "is", "priority": 2}, "severity_after": {"title": "would be", "priority": 2},
    "topic": {"priority": 3}, "wait_change_ms": {"priority": 3}, "text": {"priority": 4},
}  # fmt: skip
"""Columns of recommendations in the order of the screen."""


def advice_spec(spec: Table, all_jobs: bool = False) -> Table:
    """Recommendations of one job, or of all (``all_jobs``) with the job's name: what to set and what it saves come first."""
    declared = arranged(spec, ADVICE, hidden=True)
    if not all_jobs:
        return declared
    key, value, saving, *others = declared.columns
    job = replace(spec.column("job_id"), name="name", kind="text", title="job", width=16, grow=32)
    return replace(declared, columns=(job, saving, replace(key, width=26, grow=40), value, *others))


AS_OF_NOW = {"can only get worse": "can only get worse", "provisional": "may still become anything"}
"""What may become of a number of a running application."""


def predicted_cell(cell: Cell) -> Sequence[Fragment]:
    """What the scenario predicts, coloured and marked by its direction."""
    looks = {"better": ("ok", cell.glyphs.down), "worse": ("severe", cell.glyphs.up)}
    style, mark = looks.get(str(cell.row.get("direction")), ("", " "))
    return [(f"{mark} ", style), (str(cell.value or ""), style)]


def advice_lines(takes: Mapping[str, str], row: Row | None, width: int, height: int, glyphs: Glyphs) -> list[Line]:
    """Draw an advice or an insight in full, and whether the scenario can take it by a key of ``takes``."""
    if row is None:
        return [[("nothing to recommend: what is known of this job fits", "dim")]]
    out = drawing.paragraph(str(row.get("reason") or row.get("text") or ""), width)
    if row.get("status") in AS_OF_NOW:
        out += drawing.paragraph(f"As of now: the job runs, and this {AS_OF_NOW[row['status']]}.", width, "key")
    key, setting = str(row.get("key") or ""), str(row.get("setting") or row.get("value") or "")
    if not key:
        return out
    modelled = key in takes and setting[:1].isdecimal()
    now = f"  now {row['current']}" if row.get("current") else ""
    hint = "   key t takes it into the what-if scenario" if modelled else ""
    set_to = f"{key}: {setting}" if setting in ("more", "less") else f"{key}={setting}"
    out.append([(set_to, "ok"), (now, "dim"), (hint, "dim")])
    if row.get("heuristic"):
        out.append(
            [(f"{row['heuristic']} ", ""), (str(row["severity_now"]), units.level_of(row["severity_now"])),
             (f" {glyphs.arrow} ", "dim"), (str(row["severity_after"]), units.level_of(row["severity_after"]))]
        )  # fmt: skip
    return out


def _number(text: str) -> float | None:
    """Read the value of an advice: a number, or MB as Spark writes them (``4096m``)."""
    try:
        return float(text.removesuffix("m"))
    except ValueError:
        return None
