"""One Spark application in full: its sections, stages and executors over time, tasks of a stage, plans of SQL executions."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from textual.containers import Horizontal, Vertical

from engine.core import units
from tui.glyphs import Glyphs
from tui.views.job_heuristics import drawing
from tui.views.job_heuristics.controls import USE, knob
from tui.views.job_heuristics.drawing import heading, paragraph
from tui.views.job_heuristics.level import OpenJob
from tui.views.shared.sections import Box, Row, Section, TableOf
from tui.widgets.control import NumberControl
from tui.widgets.drawing.bars import Lane, Span, lanes
from tui.widgets.drawing.fragments import Line, cut, harmless
from tui.widgets.drawing.plot import Draw, spark

if TYPE_CHECKING:
    import polars as pl

    from engine.core.view import Result
    from engine.job_heuristics.spark.model.app import Stage
    from engine.job_heuristics.spark.result import AppDetail


class SparkLevel(OpenJob):
    """The open application. Its sections draw from ``Result.detail.opened`` and the tables of that application."""

    PREFIX = "app"
    APPLICATION = "spark"
    TAKES: ClassVar = {
        "spark.executor.instances": "executors",
        "spark.dynamicAllocation.maxExecutors": "executors",
        "spark.executor.cores": "executor_cores",
        "spark.executor.memory": "executor_mb",
        "spark.sql.shuffle.partitions": "shuffle_partitions",
        "spark.default.parallelism": "shuffle_partitions",
    }
    ADVISING: ClassVar = {"advice": "app-advice", "insights": "app-insights"}
    SCOPED_CSS = False
    DEFAULT_CSS = """
    SparkLevel { layout: vertical; }
    SparkLevel #app-head { height: auto; max-height: 4; padding: 0 1; }
    SparkLevel Drawing { padding: 0 1; }
    SparkLevel .app-both > LiveTable { height: 45%; }
    SparkLevel .app-both > Drawing { height: 1fr; border-top: hkey $panel; }
    .-ascii SparkLevel .app-both > Drawing { border-top: ascii $panel; }
    SparkLevel #job-runs { height: 45%; }
    SparkLevel #app-scenario { height: 1fr; }
    SparkLevel #app-controls { width: 46%; height: 1fr; }
    SparkLevel #app-model { height: auto; max-height: 4; }
    .-narrow SparkLevel #app-scenario { layout: vertical; }
    .-narrow SparkLevel .-predicted #app-model, .-narrow SparkLevel .-predicted #app-scale { display: none; }
    .-narrow SparkLevel #app-controls { width: 1fr; height: 6; }
    """

    def sections(self) -> tuple[Section, ...]:
        """What is wrong with the application, how it ran, what would help."""
        model = Box(Vertical, self.effects("app-what-if"), self.drawn("app-model", self._model))
        what_if = Box(
            Vertical,
            Box(Horizontal, self.controls("app-controls"), model, id="app-scenario"),
            TableOf(table="other_executors", id="app-scale"),
            id="app-what",
        )
        history = Box(Vertical, self.history(), TableOf(table="conf_changes", id="app-changes"))
        return (
            self.both(
                "verdicts",
                TableOf(table="explained", id="app-verdicts", first=self.worst, open=self.whole),
                self.verdict,
            ),
            self.errors(),
            self.both("insights", TableOf(table="insights", id="app-insights", open=self.whole), self.finding),
            self.both("stages", TableOf(table="stages", id="app-stages", open=self.whole), self._stage),
            Section("timeline", self.of_shown("app-timeline", gantt)),
            self.both("executors", TableOf(table="executors", id="app-executors"), self._executors),
            self.both("sql", TableOf(table="sql", id="app-sql", open=self.whole), self._plan),
            self.both("advice", self.advice("app-advice"), self.finding),
            Section("what if", what_if),
            Section("history", history),
            Section("notes", self.drawn("app-notes", self.notes)),
        )

    def knobs(self, shown: AppDetail) -> list[NumberControl]:
        """Return the controls of the scenario's numbers."""
        from engine.job_heuristics.spark.model.app import MB, heap_bytes

        app, held = shown.app, shown.held
        shuffled = max((stage.tasks for stage in app.stages if stage.shuffle_read_bytes), default=1)
        return [
            knob("executors", "executors", max(1, held.count), 1, max(100, 4 * held.count)),
            knob("executor_cores", "cores of each", max((one.cores for one in held.held), default=1), 1, 32),
            knob("executor_mb", "memory of each MB", max(256, heap_bytes(app) // MB), 256, 65536, 512),
            knob("shuffle_partitions", "shuffle partitions", max(1, shuffled), 1, 10_000),
        ]

    def draw(self) -> None:
        """Draw the section on screen; a narrow screen shows the prediction instead of the model's words."""
        super().draw()
        result = self.pane.result
        shown = self.shown(result) if result is not None else None
        self.query("#app-what").set_class(shown is not None and shown.prediction is not None, "-predicted")

    # -- drawing --------------------------------------------------------------------------------------------------------

    def words(self, row: Row, shown: AppDetail) -> str:
        """Return version, size and times."""
        app = shown.app
        version = f" {app.attempts[0].version}" if app.attempts and app.attempts[0].version else ""
        cores = max((h.cores for h in shown.held.held), default=0)
        numbers = (("job", len(app.jobs)), ("stage", len(app.stages)), ("executor", shown.held.count))
        return (
            f"Spark{version}, {', '.join(units.plural(number, word) for word, number in numbers)} of "
            f"{units.plural(cores, 'core')}, started {units.text('time_ms', app.start_ms, 16)}, "
            f"ran {units.text('ms', app.runtime_ms)}"
        )

    def _stage(self, result: Result, row: Row | None) -> Draw | None:
        return partial(stage_tasks, self.shown(result), row) if row is not None else None

    def _executors(self, result: Result, row: Row | None) -> Draw:
        return partial(executors, self.shown(result))

    def _plan(self, result: Result, row: Row | None) -> Draw | None:
        if row is None:
            return None
        plans = result.tables["plan_nodes"]
        nodes = plans.filter(plans["execution"] == row["execution"]).to_dicts()
        return lambda width, height, glyphs: plan(nodes, width, glyphs)

    def _model(self, result: Result, width: int, glyphs: Glyphs) -> list[Line]:
        shown = self.shown(result)
        so_far = "" if shown.app.ended else " Of a running application only what has ended is in it."
        return paragraph(f"{ASSUMED}{so_far}" if shown.prediction else USE, width, "dim")


ASSUMED = "Predicted from its real tasks, in the order of their index, on other slots; the driver's own time stays."
_STYLES = {"COMPLETE": "bar", "FAILED": "severe", "ACTIVE": "key"}


MOST_WAVES = 200  # more waves of a stage than this cannot be told apart


def gantt(shown: AppDetail, width: int, height: int, glyphs: Glyphs) -> list[Line]:
    """Draw the stages over time, each in the waves of its tasks, and below them how many tasks ran at once."""
    app = shown.app
    stages = [stage for stage in reversed(app.stages) if stage.submit_ms is not None]
    if not stages or app.start_ms is None:
        return paragraph("no stage was submitted", width, "dim")
    begin, end = app.start_ms, max(app.end_ms or 0, app.start_ms + 1)
    most = max(4, height - 8)
    rows = [_stage_lane(stage, shown.waves.get(stage.key, ()), begin, glyphs) for stage in stages[-most:]]
    first, second = _waves_signs(glyphs)
    out = [[*heading(f"stages{f' (the last {most} of {len(stages)})' if len(stages) > most else ''}"),
            (f"  each {first} {second} a wave: as many tasks as there are slots, {shown.held.slots:,}", "dim")]]  # fmt: skip
    out += lanes(rows, width, glyphs, span=(0, end - begin), kind="ms")
    running = _at_once(app.tasks, begin, end, max(10, width - 20))
    out += [[], [("tasks at once  ", "dim"), (spark(running, max(10, width - 24), glyphs, low=0), "mark"),
                 (f" {max(running, default=0):,.0f}", "dim")]]  # fmt: skip
    return out


def _waves_signs(glyphs: Glyphs) -> tuple[str, str]:
    """Signs of every other wave: they differ without colour."""
    return ("#", "=") if glyphs.ascii else ("█", "▓")


def _stage_lane(stage: Stage, starts: Sequence[int], begin: int, glyphs: Glyphs) -> Lane:
    end = None if stage.finish_ms is None else stage.finish_ms - begin
    style = _STYLES.get(stage.status, "bar")
    signs = ("x", "x") if stage.status == "FAILED" else _waves_signs(glyphs)
    moments = [stage.submit_ms or begin, *starts[1:MOST_WAVES]]
    spans = [
        Span(moment - begin, end, style, signs[k % 2]) for k, moment in enumerate(moments)
    ]  # each over the one before
    label = f"{stage.stage}.{stage.attempt} {stage.name}"
    count = f" in {len(starts):,} waves" if len(starts) > 1 else ""
    return Lane(cut(harmless(label), 28, glyphs.ellipsis), spans, f"{units.plural(stage.tasks, 'task')}{count}")


def _at_once(tasks: pl.DataFrame, begin: int, end: int, points: int) -> list[float]:
    """Return how many tasks ran at moments between begin and end."""
    import numpy as np

    starts, ends = np.sort(tasks["launch_ms"].to_numpy()), np.sort(tasks["finish_ms"].to_numpy())
    moments = np.linspace(begin, end, points)
    counts = np.searchsorted(starts, moments, "right") - np.searchsorted(ends, moments, "right")
    return [float(value) for value in counts.tolist()]


def executors(shown: AppDetail, width: int, height: int, glyphs: Glyphs) -> list[Line]:
    """Draw the executors over time."""
    app, held = shown.app, shown.held.held
    if not held or app.start_ms is None:
        return paragraph("no executor is known", width, "dim")
    begin, end = app.start_ms, max(app.end_ms or 0, app.start_ms + 1)
    most = max(4, height - 4)
    sign = "#" if glyphs.ascii else "█"
    rows = []
    for one in sorted(held, key=lambda one: (one.begin_ms, one.executor.name))[:most]:
        gone, given = one.executor.remove_ms is not None, one.executor.name in shown.held.given_back
        room = one.slots * one.life_ms
        busy = f"{one.executor.task_ms / room:.0%} busy" if room else ""
        busy += ", given back" if given else ", lost" if gone else ""
        span = Span(one.begin_ms - begin, one.end_ms - begin, "severe" if gone and not given else "bar", sign)
        rows.append(Lane(cut(harmless(f"{one.executor.name} {one.executor.host}"), 20, glyphs.ellipsis), [span], busy))
    more = f" (the first {most} of {len(held):,})" if len(held) > most else ""
    return [
        heading(f"executors{more}"),
        *lanes(rows, width, glyphs, span=(0, end - begin), kind="ms"),
    ]


def stage_tasks(shown: AppDetail, row: dict[str, Any], width: int, height: int, glyphs: Glyphs) -> list[Line]:
    """Draw the tasks of one stage: how long they took, the longest with their hosts."""
    import polars as pl

    from engine.job_heuristics.dr_elephant.errors import lines_of

    tasks = shown.app.tasks.filter(
        (pl.col("stage_id") == row["stage_id"]) & (pl.col("stage_attempt") == row["attempt"])
    ).with_columns(took=(pl.col("finish_ms") - pl.col("launch_ms")).clip(lower_bound=0))
    out = [heading(f"stage {row['stage_id']}.{row['attempt']}: {units.plural(tasks.height, 'ended task')}")]
    if row["failure"]:
        out += drawing.paragraphs(lines_of(row["failure"]), width, "severe")
    if not tasks.height:
        return [*out, *paragraph("none of its tasks is in the log", width, "dim")]

    def text(one: dict[str, Any]) -> tuple[str, str]:
        read = one["input_bytes"] + one["remote_bytes"] + one["local_bytes"]
        error = f", {one['error']}" if one["error"] else ""
        return f"#{one['index']} on {one['host']}, read {units.size(read)}{error}", "severe" if one[
            "reason"
        ] != "Success" else ""

    return [*out, *drawing.tasks_by_time(tasks.sort("task_id"), text, width, height - 1, glyphs)]


def plan(rows: list[dict[str, Any]], width: int, glyphs: Glyphs) -> list[Line]:
    """Draw the tree of one plan: each node with its time, rows and size; costly ones are marked, with the reason."""
    if not rows:
        return paragraph("no plan in the log", width, "dim")
    mark = glyphs.severity["moderate"]
    step = max(1, min(2, (width // 3) // max(1, max(row["depth"] for row in rows))))  # deep plans stay readable
    out: list[Line] = [[("plan  ", "title"), (f"{mark} costly by its own time, its rows or its bytes", "dim")]]
    for row in rows:
        indent = " " * min(step * row["depth"], width // 3)
        costly = [part for part in str(row["costly"]).split(", ") if part]
        numbers: list[tuple[str, str]] = []
        for what, text in (
            ("time", units.duration(row["time_ms"]) if row["time_ms"] else ""),
            ("rows", units.plural(row["rows"], "row") if row["rows"] is not None else ""),
            ("bytes", units.size(row["bytes"]) if row["bytes"] else ""),
        ):
            if text:
                share = f" ({row['share']:.0f}% of all)" if what == "time" and what in costly else ""
                numbers += [(text + share, "moderate" if what in costly else "dim"), (", ", "dim")]
        sign = (f"{mark} ", "moderate") if costly else ("  ", "")
        name = cut(harmless(row["name"]), max(8, width - len(indent) - 32), glyphs.ellipsis)
        out.append([(indent, ""), sign, (f"{name}  ", "moderate" if costly else ""), *numbers[:-1]])
    return out
