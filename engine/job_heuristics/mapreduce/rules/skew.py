"""Mapper Skew and Reducer Skew: a small group of tasks gets much more data, or takes much longer, than the others."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from engine.job_heuristics.dr_elephant.display import clock, each, plain, size
from engine.job_heuristics.dr_elephant.gates import Array, Branch, Final, Gate, Limits, Subject, amount, ratio
from engine.job_heuristics.mapreduce.model.model import Job
from engine.job_heuristics.mapreduce.rules.heuristic import MapReduceHeuristic
from engine.job_heuristics.mapreduce.rules.side_stats import Groups, Measure, TaskStats, divided
from engine.stats.natural_break import natural_break

LIMITS: dict[str, Limits] = {
    "num_tasks_severity": (10, 50, 100, 200),
    "deviation_severity": (2, 4, 8, 16),
    "files_severity": (1 / 8, 1 / 4, 1 / 2, 1),
}


def _groups(name: str, divide: Callable[[TaskStats], Groups]) -> Measure:
    names = tuple(f"{name}_{part}" for part in ("low_n", "low_mean", "high_n", "high_mean"))
    # Bytes include tasks that never ran, as 0.
    return Measure(
        names, lambda tasks: divide(tasks)[:4], of_all=name.endswith("data"), published=name.startswith("published")
    )


MEASURES = (
    _groups("data", lambda tasks: tasks.two_groups(tasks["data"])),
    _groups("time", lambda tasks: tasks.two_groups(tasks["total_ms"])),
    _groups("published_data", lambda tasks: tasks.two_means(tasks["data"])),
    _groups("published_time", lambda tasks: tasks.two_means(tasks["total_ms"])),
)


def _divided(subject: Subject, what: str) -> tuple[Array, Array, Array, Array]:
    """Return the sizes and means of the two groups of ``data`` or ``time``: low, then high."""
    prefix = "published_" if subject.published else ""
    n, mean, high_n, high_mean = (
        subject[f"{prefix}{what}_{part}"] for part in ("low_n", "low_mean", "high_n", "high_mean")
    )
    return n, mean, high_n, high_mean


def _factor(subject: Subject, what: str) -> Array:
    """Return the distance of the groups' means in multiples of the smaller one.

    Dr. Elephant divides whole numbers (times in whole seconds) and takes 1 for a smaller mean of 0; the published
    description takes the real ratio.
    """
    _, low, _, high = _divided(subject, what)
    if subject.published:
        return ratio(np.abs(high - low), np.minimum(low, high))
    if what == "time":
        low, high = divided(low, 1000), divided(high, 1000)
    smaller = np.minimum(low, high)
    return divided(np.abs(high - low), np.where(smaller <= 0, 1, smaller))


def _small_group(subject: Subject, what: str) -> Array:
    """Return the size of the counted group: the low one; in the published description the smaller one."""
    low, _, high, _ = _divided(subject, what)
    return np.minimum(low, high) if subject.published else low


def _factor_gate(what: str, word: str) -> Gate:
    return Gate(
        key=f"{what}-factor", label=f"factor between the groups' {word}", value=lambda s: _factor(s, what),
        limits="deviation_severity",
    )  # fmt: skip


def _tasks_gate(what: str, word: str) -> Gate:
    return Gate(
        key=f"{what}-tasks", label=f"tasks in the small group ({word})", unit="tasks",
        value=lambda s: _small_group(s, what), limits="num_tasks_severity", final=Final.SOME_TASKS,
    )  # fmt: skip


_DATA = (
    _factor_gate("data", "bytes"),
    Gate(
        key="data-size", label="mean bytes of the large group", unit="bytes", value=lambda s: _divided(s, "data")[3],
        limits="files_severity", scale=lambda s: s["block_size"],
    ),
    _tasks_gate("data", "bytes"),
)  # fmt: skip
_TIME = (_factor_gate("time", "times"), _tasks_gate("time", "time"))


def _details(subject: Subject) -> Mapping[str, list[str]]:
    tasks = plain(subject["n"])

    def group(n: Array, mean: Array, write: Callable[[int], str]) -> list[str]:
        return [f"{k} tasks @ {text} avg" for k, text in zip(n.tolist(), each(write, mean), strict=True)]

    data, time = _divided(subject, "data"), _divided(subject, "time")
    return {
        "Data skew (Number of tasks)": tasks,
        "Data skew (Group A)": group(*data[:2], size),
        "Data skew (Group B)": group(*data[2:], size),
        "Time skew (Number of tasks)": tasks,
        "Time skew (Group A)": group(*time[:2], clock),
        "Time skew (Group B)": group(*time[2:], clock),
    }


def _advice(side: str, level: int, job: Job) -> str:
    tasks = job.side(side)
    if not level:
        return f"The {len(tasks.total):,} {tasks.word}s get about equal shares."
    data, time = natural_break(tasks.size.astype(float)), natural_break(tasks.total.astype(float))
    head = (
        f"{data.high_n:,} of {len(tasks.size):,} {tasks.word}s get {amount(data.high_mean, 'bytes')} on average, the others "
        f"{amount(data.low_mean, 'bytes')}; {time.high_n:,} run {amount(time.high_mean, 'ms')}, the others "
        f"{amount(time.low_mean, 'ms')}."
    )
    if side == "map":
        return (
            f"{head} Let no file be just above a block (its rest becomes a tiny map), combine small files "
            f"(CombineFileInputFormat), and use a splittable compression for the large ones."
        )
    return (
        f"{head} Few keys carry most of the data: salt the hot keys and merge in a second step, use a skew join, or add a "
        f"combiner that shrinks them before the shuffle."
    )


def _declare(word: str, side: str, order: int) -> MapReduceHeuristic:
    return MapReduceHeuristic(
        name=f"{word} Skew",
        class_name=f"{word}SkewHeuristic",
        order=order,
        side=side,
        limits=LIMITS,
        measures=MEASURES,
        branches=(Branch(_DATA), Branch(_TIME, scores=False)),
        published=(Branch(_DATA), Branch(_TIME)),
        difference="the published description splits by recursive averages, takes the real ratio and counts the smaller "
        "group; Dr. Elephant splits by differences of averages, divides whole numbers and counts group A",
        details=_details,
        advice=lambda level, job: _advice(side, level, job),
    )


HEURISTICS = (_declare("Mapper", "map", 0), _declare("Reducer", "reduce", 6))
