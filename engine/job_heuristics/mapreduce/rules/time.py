"""Mapper Time and Reducer Time: many short tasks, or tasks that take too long."""

from __future__ import annotations

from engine.job_heuristics.dr_elephant.gates import amount
from engine.job_heuristics.dr_elephant.side_rules import (
    TIME,
    time_details,
)
from engine.job_heuristics.mapreduce.model.model import Job, mean
from engine.job_heuristics.mapreduce.rules.heuristic import MapReduceHeuristic

SHORT_MS = 600_000
"""Mean run time, ms, up to which tasks are advised to be longer."""


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
        **TIME,
        details=lambda subject: time_details(side, subject),
        advice=lambda level, job: _advice(side, level, job),
    )


HEURISTICS = (_declare("Mapper", "map", 2), _declare("Reducer", "reduce", 8))
