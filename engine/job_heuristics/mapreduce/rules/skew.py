"""Mapper Skew and Reducer Skew: a small group of tasks gets much more data, or takes much longer, than the others."""

from __future__ import annotations

from engine.job_heuristics.dr_elephant.gates import Branch, amount
from engine.job_heuristics.dr_elephant.side_rules import (
    SKEW,
    SKEW_DATA,
    SKEW_TIME,
)
from engine.job_heuristics.mapreduce.model.model import Job
from engine.job_heuristics.mapreduce.rules.heuristic import MapReduceHeuristic
from engine.stats.natural_break import natural_break


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
        **SKEW,
        published=(Branch(SKEW_DATA), Branch(SKEW_TIME)),
        difference="the published description splits by recursive averages, takes the real ratio and counts the smaller "
        "group; Dr. Elephant splits by differences of averages, divides whole numbers and counts group A",
        advice=lambda level, job: _advice(side, level, job),
    )


HEURISTICS = (_declare("Mapper", "map", 0), _declare("Reducer", "reduce", 6))
