"""One job in full: verdicts, cost, tasks, time, advice, what-if controls, history, notes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

from textual import on
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical

from engine.core import units
from tui.views.job_heuristics import drawing
from tui.views.job_heuristics.scenario import USE, Knob, OpenJob, ScenarioControls
from tui.widgets.drawing.fragments import Fragment, Line
from tui.widgets.sections import Sections
from tui.widgets.table.table import LiveTable

if TYPE_CHECKING:
    from engine.core.result import Result
    from engine.core.tables import Column, Table
    from engine.job_heuristics.mapreduce.result import JobDetail
    from engine.job_heuristics.result.all_jobs import Detail
    from tui.widgets.table.window import Cell

SECTIONS = ("verdicts", "cost", "tasks", "time", "advice", "what if", "history", "task list", "notes")
TAKES = {
    "mapreduce.map.memory.mb": "map_mb",
    "mapreduce.reduce.memory.mb": "reduce_mb",
    "mapreduce.input.fileinputformat.split.minsize": "split_size",
    "mapreduce.input.fileinputformat.split.maxsize": "split_size",
    "mapreduce.job.reduces": "reduces",
    "mapreduce.job.reduce.slowstart.completedmaps": "slow_start",
}
"""Which recommendation the scenario can take, and as which parameter."""
TASK_FIRST = {
    "task_id": ("", 16), "state": ("", 9), "total_ms": ("run time", 8), "input_bytes": ("input", 9),
    "reduce_shuffle_bytes": ("shuffled", 9), "shuffle_ms": ("shuffle", 8), "sort_ms": ("sort", 8),
    "gc_ms": ("GC", 8), "spilled_records": ("spilled", 11), "host": ("", 0), "attempts": ("", 8),
    "start_ms": ("started", 14), "locality": ("", 0), "error": ("", 0),
}  # fmt: skip
"""The task list begins with what makes a task long; title and width of each (empty, 0: as declared)."""
MB = 2**20


class JobLevel(OpenJob):
    """The open job. Every section draws from ``Result.detail.job`` and the tables of that job; only the section on
    screen is drawn."""

    PREFIX, SECTIONS, TAKES = "job", SECTIONS, TAKES
    ADVISING: ClassVar = {"advice": "#job-advice"}
    SCOPED_CSS = False  # the rules begin with the screen's classes
    DEFAULT_CSS = """
    JobLevel { layout: vertical; }
    JobLevel #job-head { height: 2; padding: 0 1; }
    JobLevel Drawing { padding: 0 1; }
    JobLevel #job-verdicts LiveTable { width: 46%; }
    JobLevel #job-verdicts Drawing { border-left: vkey $panel; }
    .-narrow JobLevel #job-verdicts { layout: vertical; }
    .-narrow JobLevel #job-verdicts LiveTable { width: 1fr; height: 40%; }
    .-narrow JobLevel #job-verdicts Drawing { border-left: none; border-top: hkey $panel; }
    .-ascii JobLevel #job-verdicts Drawing { border-left: ascii $panel; }
    .-ascii .-narrow JobLevel #job-verdicts Drawing { border-left: none; border-top: ascii $panel; }
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

    def __init__(self, job_id: str) -> None:
        super().__init__(job_id)
        self._ready = False
        self._placed = False
        self._specs: dict[str, Table] = {}

    def compose(self) -> ComposeResult:
        """Head and sections."""
        name = "job-heuristics"
        yield drawing.Drawing(id="job-head")
        sections = Sections(id="job-sections")
        sections.add(
            "verdicts",
            Horizontal(
                LiveTable(name=f"{name}/explained", id="job-explained"),
                drawing.Drawing(id="job-verdict"),
                id="job-verdicts",
            ),
        )
        sections.add("cost", drawing.Drawing(id="job-cost"))
        sections.add("tasks", drawing.Drawing(id="job-tasks"))
        sections.add("time", drawing.Drawing(id="job-time"))
        sections.add("advice", Vertical(
            LiveTable(name=f"{name}/job-recommendations", id="job-advice"), drawing.Drawing(id="job-advice-text"),
        ))  # fmt: skip
        effects = LiveTable(name=f"{name}/what_if", id="job-what-if", renderers={"predicted": predicted_cell})
        model = Vertical(effects, drawing.Drawing(id="job-model"))
        sections.add("what if", Horizontal(ScenarioControls(id="job-controls"), model, id="job-scenario"))
        sections.add("history", Vertical(
            LiveTable(name=f"{name}/history", id="job-runs"), LiveTable(name=f"{name}/conf_changes", id="job-changes"),
        ))  # fmt: skip
        sections.add("task list", LiveTable(name=f"{name}/tasks", id="job-task-list"))
        sections.add("notes", drawing.Drawing(id="job-notes"))
        yield sections

    # -- drawing --------------------------------------------------------------------------------------------------------

    def show(self, result: Result) -> None:
        """Draw the head and the section on screen."""
        shown = self._shown(result)
        self._panel("head").show(lambda width, glyphs: self._head(result, shown, width, glyphs))
        if shown is not None:
            self._ready = True
        self._draw(result)

    def _panel(self, name: str) -> drawing.Drawing:
        return self.query_one(f"#job-{name}", drawing.Drawing)

    def _shown(self, result: Result) -> JobDetail | None:
        detail: Detail | None = result.detail
        if detail is None or detail.job is None or detail.job.facts.job.id != self.job_id:
            return None
        return detail.job

    @on(Sections.Shown, "#job-sections")
    def _section_shown(self) -> None:
        if self.pane.result is not None:
            self._draw(self.pane.result)

    def _draw(self, result: Result) -> None:
        shown = self._shown(result)
        if shown is None:
            return
        getattr(self, f"_draw_{self.section.replace(' ', '_')}")(result, shown)

    def _head(self, result: Result, shown: JobDetail | None, width: int, glyphs: Any) -> list[Line]:
        if shown is None:
            text = f"{self.job_id}: " + (
                "reading its tasks" if self.pane.dirty or not self._ready else "not in the data any more"
            )
            return [[(text, "title")]]
        row = result.detail.listed(self.job_id)
        severity = row.get("severity") or ""
        mark = glyphs.severity[drawing.level(severity)]
        state = str(row.get("state") or "")
        first: Line = [
            (f"{row.get('name') or '(no name)'}  ", "title"),
            (f"{mark} {severity or 'not judged'}  ", drawing.level(severity)),
            (f"{state}  ", "key" if state == "RUNNING" else ""),
            ("", ""),
            *drawing.strip_line(str(row.get("strip") or "")),
            (f"  {drawing.LEGEND}", "dim"),
        ]
        maps, reduces = shown.facts.job.maps, shown.facts.job.reduces
        second: Line = [
            (f"{row.get('user') or '?'} in {row.get('queue') or '?'}, {row.get('job_type') or 'Unknown'}, ", "dim"),
            (f"{maps.n:,}/{maps.planned:,} maps, {reduces.n:,}/{reduces.planned:,} reducers, ", "dim"),
            (f"submitted {units.text('time_ms', row.get('submit_ms'), 16)}", "dim"),
        ]
        if shown.before.runtime_ms is not None:
            second.append((f", ran {units.text('ms', shown.before.runtime_ms)}", "dim"))
        return [first, second]

    def _draw_verdicts(self, result: Result, shown: JobDetail) -> None:
        self.pane.show_table("#job-explained", result, "explained")
        table = self.query_one("#job-explained", LiveTable)
        if not self._placed and table.window is not None and shown.verdicts:
            # Why the job is bad is what it was opened for.
            self._placed = True
            worst = max(shown.verdicts, key=lambda verdict: units.rank(verdict.severity))
            if units.rank(worst.severity) > units.rank("none"):
                table.move_to_key((worst.heuristic,))
        self._verdict()

    @on(LiveTable.Highlighted, "#job-explained")
    def _verdict(self) -> None:
        result = self.pane.result
        shown = self._shown(result) if result is not None else None
        row = self.query_one("#job-explained", LiveTable).row
        found = next((v for v in shown.verdicts if row and v.heuristic == row["heuristic"]), None) if shown else None
        self._panel("verdict").show((lambda *at: drawing.verdict(found, *at)) if found is not None else None)

    def _draw_cost(self, result: Result, shown: JobDetail) -> None:
        rows = result.detail.rows("costs", self.job_id).to_dicts()  # at most eight causes
        self._panel("cost").show(lambda width, glyphs: drawing.cost(rows, shown, width, glyphs))

    def _draw_tasks(self, result: Result, shown: JobDetail) -> None:
        panel = self._panel("tasks")
        panel.show(lambda width, glyphs: drawing.distributions(shown.facts.sides, width, panel.size.height, glyphs))

    def _draw_time(self, result: Result, shown: JobDetail) -> None:
        panel = self._panel("time")
        panel.show(lambda width, glyphs: drawing.timeline(shown, width, panel.size.height, glyphs))

    def _draw_advice(self, result: Result, shown: JobDetail) -> None:
        mine = result.detail.rows("recommendations", self.job_id)
        table = self.query_one("#job-advice", LiveTable)
        table.styles.height = min(max(mine.height, 1), 12) + 2  # the text stands right below the last row
        table.show(mine, self._spec("recommendations", advice_spec))
        self._advice_text()

    @on(LiveTable.Highlighted, "#job-advice")
    def _advice_text(self) -> None:
        row = self.query_one("#job-advice", LiveTable).row
        self._panel("advice-text").show(lambda width, glyphs: _advice_lines(row, width, glyphs))

    def _draw_what_if(self, result: Result, shown: JobDetail) -> None:
        from engine.job_heuristics.dr_elephant.heuristic_conf import default_rules
        from engine.job_heuristics.mapreduce.rules.heuristics import HEURISTICS

        controls = self.query_one(ScenarioControls)
        rules = default_rules(HEURISTICS).with_gates
        limits = [f"{rule.name}/{parameter}" for rule in rules for parameter in rule.limits]
        controls.fill(self._knobs(shown), limits, "Mapper Time/num_tasks_severity")
        controls.follow()
        self.query_one("#job-what-if", LiveTable).display = shown.prediction is not None
        self.pane.show_table("#job-what-if", result, "what_if")
        self._panel("model").show(lambda width, glyphs: _model_lines(shown, width))

    def _draw_history(self, result: Result, shown: JobDetail) -> None:
        self.pane.show_table("#job-runs", result, "history")
        self.pane.show_table("#job-changes", result, "conf_changes")

    def _draw_task_list(self, result: Result, shown: JobDetail) -> None:
        self.query_one("#job-task-list", LiveTable).show(result.tables["tasks"], self._spec("tasks", task_spec))

    def _draw_notes(self, result: Result, shown: JobDetail) -> None:
        row = result.detail.rows("jobs", self.job_id).row(0, named=True)
        mode = self.pane.parameters.mode
        problems = [
            f"{p.path}{f':{p.line}' if p.line else ''} {p.kind}: {p.reason}"
            for p in result.problems
            if self.job_id in p.path
        ][:50]
        self._panel("notes").show(lambda width, _: drawing.notes(row, shown, problems, mode, width))

    def _spec(self, name: str, arrange: Callable[[Table], Table]) -> Table:
        """A table's declaration as this level shows it, made once: a new one would make the table measure its columns again."""
        if name not in self._specs:
            self._specs[name] = arrange(self.pane.spec(name))
        return self._specs[name]

    def _knobs(self, shown: JobDetail) -> list[Knob]:
        from engine.job_heuristics.mapreduce.model.job_arrays import number

        job = shown.facts.job
        split = int(job.maps.size.mean()) if len(job.maps.size) else 0
        start = number(job.conf, "mapreduce.job.reduce.slowstart.completedmaps", 0.05)
        return [
            Knob("map_mb", "map container MB", job.maps.container_mb, 128, 16384, 128),
            Knob("reduce_mb", "reducer container MB", job.reduces.container_mb, 128, 16384, 128),
            Knob("split_size", "input of a map", max(split, MB), MB, kind="bytes"),
            Knob("reduces", "reducers", max(len(job.reduces.total), 1), 1, 5000),
            Knob("slow_start", "slow start", start, 0.0, 1.0, 0.05, "number"),
        ]


def task_spec(spec: Table) -> Table:
    """Arrange the task list of one job: what makes a task long comes first, what only explains Dr. Elephant's numbers is
    hidden at first."""
    first = []
    for at, (name, (title, width)) in enumerate(TASK_FIRST.items()):
        column = spec.column(name)
        first.append(replace(
            column, title=title or column.title, width=width or column.width, priority=min(at // 3, 3), hidden=False
        ))  # fmt: skip
    rest = tuple(replace(c, hidden=True) for c in spec.columns if c.name not in TASK_FIRST)
    return replace(spec, columns=(*first, *rest))


def advice_spec(spec: Table, fleet: bool = False) -> Table:
    """Recommendations of one job, or of all (``fleet``) with the job's name: what to set and what it saves come first."""
    column = spec.column
    shown: tuple[Column, ...] = (
        # The end of a property tells it from its neighbours: it is cut on the left.
        replace(column("key"), kind="id", width=36, priority=0),
        replace(column("value"), priority=0),
        replace(column("saving_mb_s"), priority=0),
        replace(column("saving_percent"), priority=1),
        replace(column("current"), title="now", priority=1),
        replace(column("heuristic"), priority=2, width=15),
        replace(column("severity_now"), title="is", priority=2),
        replace(column("severity_after"), title="would be", priority=2),
        replace(column("topic"), priority=3),
        replace(column("wait_change_ms"), priority=3),
        replace(column("text"), priority=4),
    )
    rest = tuple(replace(column(name), hidden=True) for name in ("job_id", "rank"))
    if fleet:
        key, value, saving, *others = shown
        job = replace(column("job_id"), name="name", kind="text", title="job", width=16, grow=32)
        shown = (job, saving, replace(key, width=26, grow=40), value, *others)
    return replace(spec, columns=(*shown, *rest))


def predicted_cell(cell: Cell) -> Sequence[Fragment]:
    """What the scenario predicts, coloured and marked by its direction."""
    direction = str(cell.row.get("direction") or "")
    style = {"better": "ok", "worse": "severe"}.get(direction, "")
    mark = {"better": cell.glyphs.down, "worse": cell.glyphs.up}.get(direction, " ")
    return [(f"{mark} ", style), (str(cell.value or ""), style)]


def _advice_lines(row: dict[str, Any] | None, width: int, glyphs: Any) -> list[Line]:
    if row is None:
        return [[("nothing to recommend: containers, splits, reducers and buffers suit this job", "dim")]]
    out: list[Line] = [[(f"{row['key']}=", "title"), (f"{row['value']}", "ok"), (f"  now {row['current']}", "dim")]]
    out += drawing.paragraph(row["text"], width)
    out.append(
        [(f"{row['heuristic']} ", ""), (str(row["severity_now"]), drawing.level(row["severity_now"])),
         (f" {glyphs.arrow} ", "dim"), (str(row["severity_after"]), drawing.level(row["severity_after"])),
         ("   key t takes it into the what-if scenario" if row["key"] in TAKES else "   what-if does not model this one", "dim")]
    )  # fmt: skip
    return out


def _model_lines(shown: JobDetail, width: int) -> list[Line]:
    if shown.prediction is None:
        return drawing.paragraph(USE, width, "dim")
    texts = [(text, "severe") for text in shown.prediction.warnings]
    texts += [(text, "dim") for text in shown.prediction.assumptions]
    return [line for text, style in texts for line in drawing.paragraph(text, width, style)]
