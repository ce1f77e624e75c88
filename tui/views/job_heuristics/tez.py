"""One Tez application in full: its DAGs as vertices in waves, who waits for whom, the tasks of a vertex."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from textual.containers import Vertical

from engine.core import units
from tui.glyphs import Glyphs
from tui.views.job_heuristics import drawing
from tui.views.job_heuristics.drawing import facts, heading, paragraph
from tui.views.job_heuristics.level import OpenJob
from tui.views.shared.sections import Box, Row, Section, TableOf
from tui.widgets.drawing.bars import Lane, Span, lanes
from tui.widgets.drawing.fragments import Line, cut, harmless
from tui.widgets.drawing.plot import Draw

if TYPE_CHECKING:
    from engine.core.view import Result
    from engine.job_heuristics.tez.insight import InDepth, Vertex
    from engine.job_heuristics.tez.result import TezDetail


class TezLevel(OpenJob):
    """The open application. Its sections draw from ``Result.detail.opened`` and the tables of that application."""

    PREFIX = "tez"
    ADVISING: ClassVar = {"advice": "tez-advice", "insights": "tez-insights"}
    SCOPED_CSS = False
    DEFAULT_CSS = """
    TezLevel { layout: vertical; }
    TezLevel #tez-head { height: auto; max-height: 4; padding: 0 1; }
    TezLevel Drawing { padding: 0 1; }
    TezLevel .app-both > LiveTable { height: 45%; }
    TezLevel .app-both > #tez-dags { max-height: 40%; }
    TezLevel .app-both > Drawing { height: 1fr; border-top: hkey $panel; }
    .-ascii TezLevel .app-both > Drawing { border-top: ascii $panel; }
    TezLevel #job-runs { height: 45%; }
    """

    def sections(self) -> tuple[Section, ...]:
        """How its DAGs ran, what is wrong, what would help."""
        dags = TableOf(
            table="tez_dags", id="tez-dags", first=self._worst_dag, open=self.whole,
            height=lambda rows: min(max(rows, 1), 8) + 1,
        )  # fmt: skip
        return (
            self.both("DAGs", dags, self._waves),
            self.both("verdicts", TableOf(table="explained", id="tez-verdicts", first=self.worst), self.verdict),
            self.errors(),
            self.both("vertices", TableOf(table="tez_vertices", id="tez-vertices", open=self.whole), self._tasks),
            self.both("insights", TableOf(table="insights", id="tez-insights"), self.finding),
            self.both("advice", self.advice("tez-advice"), self.finding),
            Section("task list", TableOf(table="tez_tasks", id="tez-task-list", open=self.whole)),
            Section("history", Box(Vertical, self.history(), TableOf(table="conf_changes", id="tez-changes"))),
            Section("notes", self.drawn("tez-notes", self.notes)),
        )

    def what_if(self) -> None:
        """Say that there is no scenario for these applications."""
        self.notify("what-if does not model Tez applications; section advice says what a setting saves", timeout=3)

    def words(self, row: Row, shown: TezDetail) -> str:
        """Return type, version, size and times."""
        return (
            f"{row.get('job_type')}, Tez {shown.app.facts['version'] or '?'}, {units.plural(len(shown.app.dags), 'DAG')}, "
            f"{units.plural(shown.app.tasks.height, 'task')}, started {units.text('time_ms', row.get('submit_ms'), 16)}, "
            f"ran {units.text('ms', row.get('runtime_ms'))}"
        )

    def _worst_dag(self, result: Result) -> Any:
        """Return the first DAG that did not succeed, else the worst verdict, else the newest."""
        rows = result.tables["tez_dags"].to_dicts()
        bad = [row for row in rows if row["state"] not in ("SUCCEEDED", "RUNNING")]
        worst = max(bad or rows, key=lambda row: units.rank(row["severity"] or "none"), default=None)
        return (worst["dag_id"],) if worst is not None else None

    def _in_depth(self, result: Result, number: int) -> InDepth | None:
        return next((each for each in self.shown(result).dags if each.dag.number == number), None)

    def _waves(self, result: Result, row: Row | None) -> Draw | None:
        found = self._in_depth(result, row["dag"]) if row is not None else None
        if row is not None and found is None:
            return lambda width, height, glyphs: paragraph("only the newest DAGs are looked into", width, "dim")
        return partial(waves, found, row) if found is not None and row is not None else None

    def _tasks(self, result: Result, row: Row | None) -> Draw | None:
        found = self._in_depth(result, row["dag"]) if row is not None else None
        vertex = next((each for each in found.vertices if row and each.name == row["vertex"]), None) if found else None
        return partial(vertex_tasks, vertex) if vertex is not None else None


LEAST_ROOM = 12  # lines below a DAG from which on the tasks of its longest vertex are drawn there


def waves(found: InDepth, row: Row, width: int, height: int, glyphs: Glyphs) -> list[Line]:
    """Draw a DAG: its vertices in waves over time, each with those that it waits for, the critical path marked."""
    dag = found.dag
    out: list[Line] = []
    if dag.state != "SUCCEEDED":
        out += paragraph(
            f"{dag.state}: {row['diagnostics'] or 'no reason is given'}",
            width,
            "severe" if dag.state != "RUNNING" else "title",
        )
    if found.circle:
        out += paragraph(
            f"the plan has a circle, these wait for each other: {', '.join(found.circle)}", width, "severe"
        )
    if row["critical"]:
        out += facts([("critical path", row["critical"], "")], width)
    bad = next((one for one in found.insights if one.level >= 2), None)
    if bad is not None:
        style = units.level_of(bad.severity)
        out += paragraph(f"{glyphs.severity[style]} {bad.topic}, {bad.subject}: {bad.reason}", width, style)
    times = [at for vertex in found.vertices for at in (vertex.start_ms, vertex.end_ms) if at is not None]
    if not times:
        return [*out, *paragraph("none of its vertices is in the files", width, "dim")]
    begin = min(times)
    most = max(3, height - len(out) - 4)
    longest = sorted(found.vertices, key=lambda vertex: (-vertex.critical_ms, -int(vertex.took.sum())))[:most]
    rows = [_lane(vertex, begin, dag.state == "RUNNING", glyphs) for vertex in found.vertices if vertex in longest]
    more = f" ({most} of {len(found.vertices)}, those that take longest)" if len(found.vertices) > most else ""
    mark = "#" if glyphs.ascii else "█"
    out.append(
        [
            *heading(f"vertices by wave{more}"),
            (f"  {mark} on the critical path; behind each: tasks, and whom it waits for", "dim"),
        ]
    )
    out += lanes(rows, width, glyphs, span=(0, max(1, max(times) - begin)), kind="ms")
    room = height - len(out) - 1
    return out if room < LEAST_ROOM else [*out, [], *vertex_tasks(longest[0], width, room, glyphs)]


def _lane(vertex: Vertex, begin: int, running: bool, glyphs: Glyphs) -> Lane:
    signs = ("=", "#") if glyphs.ascii else ("▒", "█")
    critical = vertex.critical_ms > 0
    open_ = running and vertex.state not in ("SUCCEEDED", "FAILED", "KILLED")
    style = "severe" if vertex.state in ("FAILED", "KILLED") else "moderate" if critical else "bar"
    spans = []
    if vertex.start_ms is not None:
        end = None if open_ or vertex.end_ms is None else vertex.end_ms - begin
        spans.append(Span(vertex.start_ms - begin, end, style, signs[critical]))
    arrow = "<-" if glyphs.ascii else "←"
    waits = f" {arrow} {', '.join(name for name, _ in vertex.inputs)}" if vertex.inputs else ""
    done = vertex.tasks.height
    count = f"{done:,} of {vertex.planned:,}" if vertex.planned is not None and done != vertex.planned else f"{done:,}"
    return Lane(cut(harmless(f"{vertex.wave} {vertex.name}"), 24, glyphs.ellipsis), spans, f"{count}{waits}")


def vertex_tasks(vertex: Vertex, width: int, height: int, glyphs: Glyphs) -> list[Line]:
    """Draw the tasks of one vertex: how long they took, the longest with their hosts."""
    import polars as pl

    waits = (
        ", ".join(f"{name} ({how.lower().replace('_', ' ')})" for name, how in vertex.inputs)
        or "nothing: it reads files"
    )
    out = [
        heading(f"{harmless(vertex.name)}: {units.plural(vertex.tasks.height, 'ended task')}"),
        [(cut(f"waits for {waits}", width, glyphs.ellipsis), "dim")],
    ]
    if not vertex.tasks.height:
        return [*out, *paragraph("none of its tasks has ended", width, "dim")]
    tasks = vertex.tasks.with_columns(took=pl.col("total_ms").clip(lower_bound=0))
    data = "shuffle_bytes" if vertex.inputs else "input_bytes"

    def text(one: dict[str, Any]) -> tuple[str, str]:
        read = f", read {units.size(one[data])}" if one[data] is not None else ""
        why = f", {one['status']}: {one['why'] or one['diagnostics'] or 'no reason given'}" if one["failed"] else ""
        return f"#{one['task']} on {one['host'] or '?'}{read}{why}", "severe" if one["failed"] else ""

    return [*out, *drawing.tasks_by_time(tasks, text, width, height - 2, glyphs)]
