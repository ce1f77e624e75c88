"""One Spark application in full: verdicts, insights, stages, executors, SQL, advice, history, notes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from textual import on
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical

from engine.core import units
from tui.views.job_heuristics import drawing, spark_drawing
from tui.views.job_heuristics.level import advice_spec, predicted_cell
from tui.views.job_heuristics.scenario import USE, Knob, OpenJob, ScenarioControls
from tui.widgets.drawing.fragments import Line
from tui.widgets.sections import Sections
from tui.widgets.table.table import LiveTable

if TYPE_CHECKING:
    from engine.core.result import Result
    from engine.job_heuristics.spark.result import AppDetail

SECTIONS = ("verdicts", "insights", "stages", "timeline", "executors", "sql", "advice", "what if", "history", "notes")


TAKES = {
    "spark.executor.instances": "executors",
    "spark.dynamicAllocation.maxExecutors": "executors",
    "spark.executor.cores": "executor_cores",
    "spark.executor.memory": "executor_mb",
    "spark.sql.shuffle.partitions": "shuffle_partitions",
    "spark.default.parallelism": "shuffle_partitions",
}
"""Which advice the scenario can take, and as which parameter."""
_AS_OF_NOW = {"provisional": "may still become anything", "can only get worse": "can only get worse"}


class SparkLevel(OpenJob):
    """The open application. Every section draws from ``Result.detail.app`` and the tables of that application."""

    PREFIX, SECTIONS, TAKES = "app", SECTIONS, TAKES
    ADVISING: ClassVar = {"advice": "#app-advice", "insights": "#app-insights"}
    SCOPED_CSS = False
    DEFAULT_CSS = """
    SparkLevel { layout: vertical; }
    SparkLevel #app-head { height: 2; padding: 0 1; }
    SparkLevel Drawing { padding: 0 1; }
    SparkLevel .app-list { height: 45%; }
    SparkLevel .app-panel { height: 1fr; border-top: hkey $panel; }
    .-ascii SparkLevel .app-panel { border-top: ascii $panel; }
    SparkLevel #app-scenario { height: 1fr; }
    SparkLevel #app-controls { width: 46%; height: 1fr; }
    SparkLevel #app-model { height: auto; max-height: 4; }
    .-narrow SparkLevel #app-scenario { layout: vertical; }
    .-narrow SparkLevel .-predicted #app-model, .-narrow SparkLevel .-predicted #app-scale { display: none; }
    .-narrow SparkLevel #app-controls { width: 1fr; height: 6; }
    """

    def __init__(self, job_id: str) -> None:
        super().__init__(job_id)
        self._placed = False

    def compose(self) -> ComposeResult:
        """Head and sections."""
        name = "job-heuristics"

        def above(table: str, id: str) -> LiveTable:
            listed = LiveTable(name=f"{name}/{table}", id=id)
            listed.add_class("app-list")
            return listed

        def both(table: str, id: str) -> Vertical:
            return Vertical(above(table, f"app-{id}"), drawing.Drawing(id=f"app-{id}-panel", classes="app-panel"))

        yield drawing.Drawing(id="app-head")
        sections = Sections(id="app-sections")
        sections.add("verdicts", both("explained", "verdicts"))
        sections.add("insights", both("insights", "insights"))
        sections.add("stages", both("stages", "stages"))
        sections.add("timeline", drawing.Drawing(id="app-timeline"))
        sections.add("executors", both("executors", "executors"))
        sections.add("sql", both("sql", "sql"))
        sections.add("advice", both("job-recommendations", "advice"))
        effects = LiveTable(name=f"{name}/what_if", id="app-what-if", renderers={"predicted": predicted_cell})
        model = Vertical(effects, drawing.Drawing(id="app-model"))
        sections.add("what if", Vertical(
            Horizontal(ScenarioControls(id="app-controls"), model, id="app-scenario"),
            LiveTable(name=f"{name}/other_executors", id="app-scale"),
            id="app-what",
        ))  # fmt: skip
        sections.add("history", Vertical(
            above("history", "job-runs"),
            LiveTable(name=f"{name}/conf_changes", id="app-changes"),
        ))  # fmt: skip
        sections.add("notes", drawing.Drawing(id="app-notes"))
        yield sections

    def show(self, result: Result) -> None:
        """Draw the head and the section on screen."""
        shown = self._shown(result)
        self.query_one("#app-head", drawing.Drawing).show(
            lambda width, glyphs: self._head(result, shown, width, glyphs)
        )
        self._draw(result)

    def _shown(self, result: Result | None) -> AppDetail | None:
        detail = result.detail if result is not None else None
        return (
            detail.app
            if detail is not None and detail.app is not None and detail.app.app.app_id == self.job_id
            else None
        )

    def _head(self, result: Result, shown: AppDetail | None, width: int, glyphs: Any) -> list[Line]:
        if shown is None:
            text = "reading it" if self.pane.dirty else "not in the data any more"
            return [[(f"{self.job_id}: {text}", "title")]]
        row = result.detail.listed(self.job_id)
        severity, app = row.get("severity") or "", shown.app
        first: Line = [
            (f"{row.get('name') or '(no name)'}  ", "title"),
            (f"{glyphs.severity[drawing.level(severity)]} {severity or 'not judged'}  ", drawing.level(severity)),
            (f"{app.state}  ", "key" if app.state == "RUNNING" else ""),
            ("", ""),
            *drawing.strip_line(str(row.get("strip") or "")),
        ]
        version = f" {app.attempts[0].version}" if app.attempts and app.attempts[0].version else ""
        text = (
            f"{row.get('user') or '?'} in {row.get('queue') or '?'}, Spark{version}, {len(app.jobs):,} jobs, "
            f"{len(app.stages):,} stages, {shown.held.count:,} executors of {max((h.cores for h in shown.held.held), default=0)} "
            f"cores, started {units.text('time_ms', app.start_ms, 16)}, ran {units.text('ms', app.runtime_ms)}"
        )
        return [first, [(text, "dim")]]

    @on(Sections.Shown, "#app-sections")
    def _section_shown(self) -> None:
        if self.pane.result is not None:
            self._draw(self.pane.result)

    def _draw(self, result: Result) -> None:
        shown = self._shown(result)
        if shown is None:
            return
        section = self.section
        tables = {
            "verdicts": (("#app-verdicts", "explained"),),
            "insights": (("#app-insights", "insights"),),
            "stages": (("#app-stages", "stages"),),
            "executors": (("#app-executors", "executors"),),
            "sql": (("#app-sql", "sql"),),
            "what if": (("#app-scale", "other_executors"),),
            "history": (("#job-runs", "history"), ("#app-changes", "conf_changes")),
        }
        for selector, table in tables.get(section, ()):
            self.pane.show_table(selector, result, table)
        if section == "advice":
            mine = result.detail.rows("recommendations", self.job_id)
            self.query_one("#app-advice", LiveTable).show(mine, advice_spec(self.pane.spec("recommendations")))
        if section == "verdicts" and not self._placed and shown.verdicts:
            # Why the application is bad is what it was opened for.
            self._placed = True
            worst = max(shown.verdicts, key=lambda verdict: units.rank(verdict.severity))
            self.query_one("#app-verdicts", LiveTable).move_to_key((worst.heuristic,))
        if section == "what if":
            self._draw_what_if(result, shown)
        self._panel(section, result)

    def _draw_what_if(self, result: Result, shown: AppDetail) -> None:
        from engine.job_heuristics.dr_elephant.heuristic_conf import default_rules
        from engine.job_heuristics.spark.insight.advice import DEFAULT_PARTITIONS
        from engine.job_heuristics.spark.insight.resources import MB, heap_bytes, partitions_key
        from engine.job_heuristics.spark.rules.heuristics import HEURISTICS

        app, held = shown.app, shown.held
        knobs = [
            Knob("executors", "executors", max(1, held.count), 1, max(100, 4 * held.count)),
            Knob("executor_cores", "cores of each", max((one.cores for one in held.held), default=1), 1, 32),
            Knob("executor_mb", "memory of each MB", max(256, heap_bytes(app) // MB), 256, 65536, 512),
            Knob("shuffle_partitions", "shuffle partitions",
                 max(1, app.number(partitions_key(app), DEFAULT_PARTITIONS)), 1, 10_000),
        ]  # fmt: skip
        rules = default_rules(HEURISTICS).with_gates
        limits = [f"{rule.name}/{parameter}" for rule in rules for parameter in rule.limits]
        controls = self.query_one(ScenarioControls)
        controls.fill(knobs, limits, limits[0])
        controls.follow()
        self.query_one("#app-what-if", LiveTable).display = shown.prediction is not None
        self.query_one("#app-what").set_class(shown.prediction is not None, "-predicted")
        self.pane.show_table("#app-what-if", result, "what_if")
        words = USE if shown.prediction is None else shown.assumed
        self.query_one("#app-model", drawing.Drawing).show(lambda width, glyphs: drawing.paragraph(words, width, "dim"))

    @on(LiveTable.Highlighted)
    def _moved(self) -> None:
        result = self.pane.result
        if result is not None and self._shown(result) is not None:
            self._panel(self.section, result)

    def _panel(self, section: str, result: Result) -> None:
        """Draw what belongs to the row under the cursor, or the whole section."""
        shown = self._shown(result)
        assert shown is not None
        if section in ("timeline", "notes"):
            panel = self.query_one(f"#app-{section}", drawing.Drawing)
            if section == "timeline":
                panel.show(lambda width, glyphs: spark_drawing.gantt(shown, width, panel.size.height, glyphs))
            else:
                panel.show(lambda width, glyphs: self._notes(result, width))
            return
        if section in ("what if", "history"):
            return
        panel, row = (
            self.query_one(f"#app-{section}-panel", drawing.Drawing),
            self.query_one(f"#app-{section}", LiveTable).row,
        )
        panel.show(lambda width, glyphs: self._lines(section, shown, result, row, width, panel.size.height, glyphs))

    @staticmethod
    def _lines(
        section: str, shown: AppDetail, result: Result, row: dict[str, Any] | None, width: int, height: int, glyphs: Any
    ) -> list[Line]:
        if section == "executors":
            return spark_drawing.executors(shown, width, height, glyphs)
        if row is None:
            return []
        if section == "stages":
            return spark_drawing.stage_tasks(shown, row, width, height, glyphs)
        if section == "sql":
            plans = result.tables["plan_nodes"]
            return spark_drawing.plan(plans.filter(plans["execution"] == row["execution"]).to_dicts(), width, glyphs)
        if section == "verdicts":
            verdict = next((v for v in shown.verdicts if v.heuristic == row["heuristic"]), None)
            return spark_drawing.verdict(verdict, width, glyphs)
        out = drawing.paragraph(str(row.get("reason") or row.get("text") or ""), width)
        if row.get("status") in _AS_OF_NOW:
            out += drawing.paragraph(
                f"As of now: the application runs, and this {_AS_OF_NOW[row['status']]}.", width, "key"
            )
        if row.get("key"):
            key, setting = str(row["key"]), str(row.get("setting") or row.get("value") or "")
            hint = "   key t takes it into the what-if scenario" if key in TAKES and setting[:1].isdecimal() else ""
            out += [[], [(f"{key}={setting}" if setting != "more" else f"{key}: more", "ok"), (hint, "dim")]]
        return out

    def _notes(self, result: Result, width: int) -> list[Line]:
        found = result.detail.rows("jobs", self.job_id)
        row: dict[str, Any] = found.row(0, named=True) if found.height else {}
        out: list[Line] = [drawing.heading("assumptions"), *drawing.paragraph(row.get("notes") or "none", width)]
        if row.get("upstream_says"):
            out += [[], drawing.heading("Dr. Elephant would show nothing because")]
            out += drawing.paragraph(row["upstream_says"], width, "dim")
        problems = [p for p in result.problems if self.job_id in p.path][:50]
        if problems:
            out += [[], drawing.heading("problems of its files")]
            for p in problems:
                out += drawing.paragraph(
                    f"{p.path}{f':{p.line}' if p.line else ''} {p.kind}: {p.reason}", width, "moderate"
                )
        return out
