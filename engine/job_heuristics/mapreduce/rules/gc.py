"""Mapper GC and Reducer GC: tasks spend much of their CPU time on garbage collection."""

from __future__ import annotations

from collections.abc import Mapping

from engine.job_heuristics.dr_elephant.display import java_double, plain
from engine.job_heuristics.dr_elephant.gates import MINUTE, Branch, Final, Gate, Subject, amount, ratio
from engine.job_heuristics.mapreduce.model.model import Job, mean
from engine.job_heuristics.mapreduce.rules.heuristic import MapReduceHeuristic
from engine.job_heuristics.mapreduce.rules.side_stats import average

RATIO = Gate(
    key="gc-ratio", label="garbage collection per CPU time",
    value=lambda s: ratio(s["avg_gc_ms"], s["avg_cpu_ms"]), limits="gc_ratio_severity",
)  # fmt: skip
RUNTIME = Gate(
    key="runtime", label="average run time", unit="ms", value=lambda s: s["avg_total_ms"],
    limits="runtime_severity_in_min", scale=MINUTE, final=Final.MEAN_TIME,
)  # fmt: skip


def _details(subject: Subject) -> Mapping[str, list[str]]:
    gc, cpu = subject["avg_gc_ms"], subject["avg_cpu_ms"]
    # Without CPU time the ratio is shown as 0, though it counts as infinite.
    ratios = [x / y if y else 0.0 for x, y in zip(gc.tolist(), cpu.tolist(), strict=True)]
    return {
        "Number of tasks": plain(subject["n"]),
        "Avg task runtime (ms)": plain(subject["avg_total_ms"]),
        "Avg task CPU time (ms)": plain(cpu),
        "Avg task GC time (ms)": plain(gc),
        "Task GC/CPU ratio": list(map(java_double, ratios)),
    }


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
        limits={"gc_ratio_severity": (0.01, 0.02, 0.03, 0.04), "runtime_severity_in_min": (5, 10, 12, 15)},
        measures=(average("gc_ms"), average("cpu_ms"), average("total_ms")),
        branches=(Branch((RATIO, RUNTIME)),),
        averages=True,
        details=_details,
        advice=lambda level, job: _advice(side, level, job),
    )


HEURISTICS = (_declare("Mapper", "map", 1), _declare("Reducer", "reduce", 7))
