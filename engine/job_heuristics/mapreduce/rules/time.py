"""Mapper Time and Reducer Time: many short tasks, or tasks that take too long."""

from __future__ import annotations

from collections.abc import Mapping

from engine.job_heuristics.dr_elephant.display import each, plain, size, span
from engine.job_heuristics.dr_elephant.gates import MINUTE, Branch, Final, Gate, Subject, amount
from engine.job_heuristics.mapreduce.model.model import Job, mean
from engine.job_heuristics.mapreduce.rules.heuristic import MapReduceHeuristic
from engine.job_heuristics.mapreduce.rules.side_stats import average, largest, smallest

SHORT_MS = 600_000
"""Mean run time, ms, up to which tasks are advised to be longer."""

SHORT = Gate(
    key="short", label="average run time", unit="ms", value=lambda s: s["avg_total_ms"], rising=False,
    limits="short_runtime_severity_in_min", scale=MINUTE, final=Final.MEAN_TIME,
)  # fmt: skip
TASKS = Gate(
    key="tasks", label="number of tasks", unit="tasks", value=lambda s: s["n"], limits="num_tasks_severity",
    final=Final.TASKS,
)  # fmt: skip
LONG = Gate(
    key="long", label="average run time", unit="ms", value=lambda s: s["avg_total_ms"],
    limits="long_runtime_severity_in_min", scale=MINUTE, final=Final.MEAN_TIME,
)  # fmt: skip


def _details(side: str, subject: Subject) -> Mapping[str, list[str]]:
    return {
        "Number of tasks": plain(subject["n"]),
        **({"Average task input size": each(size, subject["avg_input_bytes"])} if side == "map" else {}),
        "Average task runtime": each(span, subject["avg_total_ms"]),
        "Max task runtime": each(span, subject["max_total_ms"]),
        "Min task runtime": each(span, subject["min_total_ms"]),
    }


def _advice(side: str, level: int, job: Job) -> str:
    tasks = job.side(side)
    runtime, n, data = mean(tasks.total), tasks.n, amount(mean(tasks.size), "bytes")
    if not level:
        return f"{n:,} {tasks.word}s of {amount(runtime, 'ms')} on average are fine."
    if side == "map":
        if runtime <= SHORT_MS:
            return (
                f"{n:,} maps of only {amount(runtime, 'ms')} read {data} each: starting them costs much of the time. Raise "
                f"mapreduce.input.fileinputformat.split.minsize so that each runs 5 to 10 minutes, or combine small files."
            )
        return (
            f"Maps run {amount(runtime, 'ms')} on average over {data}: lower "
            f"mapreduce.input.fileinputformat.split.maxsize so that more of them share the work."
        )
    if runtime <= SHORT_MS:
        return (
            f"{n:,} reducers of only {amount(runtime, 'ms')}: set mapreduce.job.reduces lower so that each runs 5 to 10 minutes "
            f"(they fetch {data} each now)."
        )
    return (
        f"Reducers run {amount(runtime, 'ms')} on average over {data}: raise mapreduce.job.reduces "
        f"above {n:,}, and look for hot keys first."
    )


def _declare(word: str, side: str, order: int) -> MapReduceHeuristic:
    return MapReduceHeuristic(
        name=f"{word} Time",
        class_name=f"{word}TimeHeuristic",
        order=order,
        side=side,
        limits={
            "short_runtime_severity_in_min": (10, 4, 2, 1),
            "long_runtime_severity_in_min": (15, 30, 60, 120),
            "num_tasks_severity": (50, 101, 500, 1000),
        },
        measures=(average("total_ms"), largest("total_ms"), smallest("total_ms"), average("input_bytes")),
        branches=(Branch((SHORT, TASKS)), Branch((LONG,))),
        averages=True,
        details=lambda subject: _details(side, subject),
        advice=lambda level, job: _advice(side, level, job),
    )


HEURISTICS = (_declare("Mapper", "map", 2), _declare("Reducer", "reduce", 8))
