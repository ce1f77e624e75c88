"""Mapper GC and Reducer GC: tasks spend much of their CPU time on garbage collection."""

from __future__ import annotations

from engine.job_heuristics.dr_elephant.gates import amount
from engine.job_heuristics.dr_elephant.side_rules import (
    GC,
)
from engine.job_heuristics.mapreduce.model.model import Job, mean
from engine.job_heuristics.mapreduce.rules.heuristic import MapReduceHeuristic


def _advice(side: str, level: int, job: Job) -> str:
    tasks = job.side(side)
    cpu, gc = mean(tasks.cpu), mean(tasks.gc)
    share = f"{100 * gc / cpu:.1f} %" if cpu > 0 else "an unmeasured part"
    if not level:
        return f"Garbage collection takes {share} of the CPU time."
    return (
        f"Each {tasks.word} spends {amount(gc, 'ms')} in garbage collection, {share} of its CPU time. Reuse objects instead of "
        f"making one per record, keep less in memory, and give the heap more room only if it is really full: "
        f"mapreduce.{side}.java.opts within mapreduce.{side}.memory.mb={tasks.memory_container_mb}."
    )


def _declare(word: str, side: str, order: int) -> MapReduceHeuristic:
    return MapReduceHeuristic(
        name=f"{word} GC",
        class_name=f"{word}GCHeuristic",
        order=order,
        side=side,
        **GC,
        advice=lambda level, job: _advice(side, level, job),
    )


HEURISTICS = (_declare("Mapper", "map", 1), _declare("Reducer", "reduce", 7))
