"""One Spark application as lines: stages and executors over time, the tasks of a stage, plans of SQL executions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from engine.core import units
from tui.glyphs import Glyphs
from tui.views.job_heuristics.drawing import facts, heading, level, paragraph
from tui.widgets.drawing.bars import Lane, Span, lanes
from tui.widgets.drawing.fragments import Line, cut, harmless
from tui.widgets.drawing.plot import spark

if TYPE_CHECKING:
    import polars as pl

    from engine.job_heuristics.spark.model.app import Stage
    from engine.job_heuristics.spark.result import AppDetail, AppVerdict

_STYLES = {"COMPLETE": "bar", "FAILED": "severe", "ACTIVE": "key"}


MOST_WAVES = 200
"""More waves of a stage than this cannot be told apart."""


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
    return Lane(cut(harmless(label), 28, glyphs.ellipsis), spans, f"{stage.tasks:,} tasks{count}")


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
        gone = one.executor.remove_ms is not None
        room = one.slots * one.life_ms
        busy = f"{one.executor.task_ms / room:.0%} busy" if room else ""
        busy += ", removed" if gone else ""
        span = Span(one.begin_ms - begin, one.end_ms - begin, "severe" if gone else "bar", sign)
        rows.append(Lane(cut(harmless(f"{one.executor.name} {one.executor.host}"), 20, glyphs.ellipsis), [span], busy))
    more = f" (the first {most} of {len(held):,})" if len(held) > most else ""
    return [
        heading(f"executors{more}"),
        *lanes(rows, width, glyphs, span=(0, end - begin), kind="ms"),
    ]


def stage_tasks(shown: AppDetail, row: dict[str, Any], width: int, height: int, glyphs: Glyphs) -> list[Line]:
    """Draw the tasks of one stage: how long they took, the longest with their hosts."""
    import polars as pl

    tasks = shown.app.tasks.filter(
        (pl.col("stage_id") == row["stage_id"]) & (pl.col("stage_attempt") == row["attempt"])
    ).with_columns(took=(pl.col("finish_ms") - pl.col("launch_ms")).clip(lower_bound=0))
    out = [heading(f"stage {row['stage_id']}.{row['attempt']}: {tasks.height:,} ended tasks")]
    if not tasks.height:
        return [*out, *paragraph("none of its tasks is in the log", width, "dim")]
    ordered = tasks["took"].sort().to_list()  # drawn thinned to the width
    out.append(
        [("times, sorted  ", "dim"), (spark([float(t) for t in ordered], max(10, width - 16), glyphs, low=0), "mark")]
    )
    for host, count, median, longest in (
        tasks.group_by("host").agg(pl.len(), pl.col("took").median().alias("m"), pl.col("took").max().alias("x"))
        .sort("m", "host", descending=[True, False]).head(4).iter_rows()
    ):  # fmt: skip
        text = f"{count:,} tasks, median {units.duration(median)}, longest {units.duration(longest)}"
        out.append([(f"{cut(harmless(host), 24, glyphs.ellipsis)}  ", ""), (text, "dim")])
    longest_tasks = tasks.sort("took", "task_id", descending=[True, False]).head(max(3, height - len(out) - 2))
    out += [[], heading("longest tasks")]
    for one in longest_tasks.iter_rows(named=True):
        read = one["input_bytes"] + one["remote_bytes"] + one["local_bytes"]
        error = f", {harmless(one['error'])}" if one["error"] else ""
        text = f"{units.duration(one['took']):>9}  #{one['index']} on {harmless(one['host'])}, read {units.size(read)}{error}"
        out.append([(cut(text, width, glyphs.ellipsis), "severe" if one["reason"] != "Success" else "")])
    return out


def plan(rows: list[dict[str, Any]], width: int, glyphs: Glyphs) -> list[Line]:
    """Draw the tree of one plan: each node with its time, rows and size; a costly one is marked, and says by what."""
    if not rows:
        return paragraph("no plan in the log", width, "dim")
    mark = glyphs.severity["moderate"]
    most = max(row["depth"] for row in rows)
    step = max(1, min(2, (width // 3) // max(1, most)))  # deep plans stay readable
    out: list[Line] = [[("plan  ", "title"), (f"{mark} costly by its own time, its rows or its bytes", "dim")]]
    for row in rows:
        indent = " " * min(step * row["depth"], width // 3)
        costly = [part for part in str(row["costly"]).split(", ") if part]
        numbers: list[tuple[str, str]] = []
        for what, text in (
            ("time", units.duration(row["time_ms"]) if row["time_ms"] else ""),
            ("rows", f"{row['rows']:,} rows" if row["rows"] is not None else ""),
            ("bytes", units.size(row["bytes"]) if row["bytes"] else ""),
        ):
            if text:
                share = f" ({row['share']:.0f}% of all)" if what == "time" and what in costly else ""
                numbers += [(text + share, "moderate" if what in costly else "dim"), (", ", "dim")]
        sign = (f"{mark} ", "moderate") if costly else ("  ", "")
        name = cut(harmless(row["name"]), max(8, width - len(indent) - 32), glyphs.ellipsis)
        out.append([(indent, ""), sign, (f"{name}  ", "moderate" if costly else ""), *numbers[:-1]])
    return out


def verdict(found: AppVerdict | None, width: int, glyphs: Glyphs) -> list[Line]:
    """Draw one verdict: why, how far to the next level, Dr. Elephant's labels, what to do."""
    if found is None:
        return []
    style = level(found.severity)
    out: list[Line] = [[(f"{glyphs.severity[style]} {found.severity}  ", style), (found.heuristic, "title")]]
    if found.why is not None:
        out += paragraph(found.why.reason, width)
        out += facts([("worse", found.why.worse, ""), ("better", found.why.better, "")], width)
    out += [[], *paragraph(found.advice, width, "title")]
    if found.details:
        out += [[], heading("Dr. Elephant's details"), *facts([(k, v, "") for k, v in found.details], width)]
    return out
