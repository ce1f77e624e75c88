"""Shuffle & Sort: reducers spend long on fetching and merging map output."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from engine.core.reading import clean
from engine.job_heuristics.dr_elephant.display import each, factor, plain, span
from engine.job_heuristics.dr_elephant.gates import MINUTE, Array, Branch, Gate, Subject, amount, ratio
from engine.job_heuristics.dr_elephant.side_stats import Measure, average, divided
from engine.job_heuristics.mapreduce.model.model import Job, mean, resolve
from engine.job_heuristics.mapreduce.rules.heuristic import MapReduceHeuristic

CODE = Measure(
    ("avg_code_ms",), lambda tasks: (tasks.average(tasks["total_ms"] - tasks["shuffle_ms"] - tasks["sort_ms"]),)
)


def _share(subject: Subject, phase: str) -> Array:
    """Return twice the phase's time over the code's: a whole number, in the published description the real ratio.
    Infinite if the code takes no time, so that the phase's time alone decides."""
    spent, code = subject[f"avg_{phase}_ms"], subject["avg_code_ms"]
    some = np.maximum(code, 1)
    return np.where(code > 0, ratio(2 * spent, some) if subject.published else divided(2 * spent, some), np.inf)


def _branch(phase: str) -> Branch:
    return Branch(
        (
            Gate(
                key=f"{phase}-time", label=f"average {phase} time", unit="ms", value=lambda s: s[f"avg_{phase}_ms"],
                limits="runtime_severity_in_min", scale=MINUTE,
            ),
            Gate(
                key=f"{phase}-factor", label=f"twice the {phase} time per code time", value=lambda s: _share(s, phase),
                limits="runtime_ratio_severity",
            ),
        )
    )  # fmt: skip


BRANCHES = (_branch("shuffle"), _branch("sort"))


def _details(subject: Subject) -> Mapping[str, list[str]]:
    code = subject["avg_code_ms"]

    def beside_code(spent: Array) -> list[str]:
        pairs = list(zip(spent.tolist(), code.tolist(), strict=True))
        texts = {pair: f"{span(pair[0])} {factor(*pair)}" for pair in set(pairs)}
        return list(map(texts.__getitem__, pairs))

    return {
        "Number of tasks": plain(subject["n"]),
        "Average code runtime": each(span, code),
        "Average shuffle time": beside_code(subject["avg_shuffle_ms"]),
        "Average sort time": beside_code(subject["avg_sort_ms"]),
    }


def _advice(level: int, job: Job) -> str:
    reduces = job.reduces
    shuffle, sort, code = mean(reduces.shuffle), mean(reduces.sort), mean(reduces.code)
    head = f"Reducers shuffle {amount(shuffle, 'ms')}, sort {amount(sort, 'ms')} and compute {amount(code, 'ms')} on average"
    if not level:
        return f"{head}."
    start = clean(resolve(job.conf, "mapreduce.job.reduce.slowstart.completedmaps") or "0.05", 100)
    both = len(job.maps.finish) and len(reduces.start)
    if both and float(np.mean(reduces.start < int(job.maps.finish.max()))) > 0.5:
        return (
            f"{head}, and most began before the last map had ended, holding containers that maps could use. Raise "
            f"mapreduce.job.reduce.slowstart.completedmaps from {start} towards 0.9-1.0."
        )
    return (
        f"{head}, though they began after the maps: less data to move helps (combiner, compressed map output, fewer columns), "
        f"as do more reducers."
    )


HEURISTICS = (
    MapReduceHeuristic(
        name="Shuffle & Sort",
        class_name="ShuffleSortHeuristic",
        order=10,
        side="reduce",
        limits={"runtime_severity_in_min": (1, 5, 10, 30), "runtime_ratio_severity": (1, 2, 4, 8)},
        measures=(average("shuffle_ms"), average("sort_ms"), CODE),
        branches=BRANCHES,
        published=BRANCHES,
        difference="the published description takes the real ratio, Dr. Elephant a whole-number division",
        details=_details,
        advice=_advice,
    ),
)
