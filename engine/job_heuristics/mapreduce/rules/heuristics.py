"""Dr. Elephant's MapReduce heuristics, in its order.

See docs/models/job-heuristics.md, "The MapReduce heuristics". What Tez shares of them is in ``dr_elephant.sides``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from engine.job_heuristics.dr_elephant.display import MOST_DETAILS, cut, each, factor, integer, plain, size, span, split
from engine.job_heuristics.dr_elephant.gates import MB, MINUTE, Array, Branch, Final, Gate, Subject, ratio
from engine.job_heuristics.dr_elephant.heuristic import Rule, Rules
from engine.job_heuristics.dr_elephant.metrics import MEASURES as OF_METRICS
from engine.job_heuristics.dr_elephant.side_stats import Measure, divided, measures
from engine.job_heuristics.dr_elephant.sides import (
    GC,
    MEMORY_MEASURES,
    SKEW,
    SKEW_DATA,
    SKEW_TIME,
    SPEED,
    SPILL,
    TASKS,
    TIME,
    Jobs,
    SideHeuristic,
    SideRule,
    Verdict,
    speed_details,
    spill_ratio,
    time_details,
    unscored,
)
from engine.job_heuristics.mapreduce.model import job_conf
from engine.job_heuristics.mapreduce.model.model import Job
from engine.job_heuristics.mapreduce.rules import advice


class MapReduceHeuristic(SideHeuristic, frozen=True, kw_only=True, eq=False):
    """A heuristic of MapReduce jobs. ``advice``: what to do, from the severity and the job."""

    application: str = "mapreduce"
    advice: Callable[[int, Job], str]


MapReduceRule = Rule[MapReduceHeuristic]
MapReduceRules = Rules[MapReduceHeuristic]


# --- Speed and spill of maps: slow reading, and records written to disk more than once -------------------------------

_BY_ZERO = "java.lang.ArithmeticException: / by zero"
_NO_MEDIAN = "java.lang.IllegalArgumentException: Median of an empty list is not defined."


def _speed_error(jobs: Jobs) -> Mapping[int, str]:
    """Return the error of each job with a task of 0 ms (division by zero) or without any speed (no median)."""
    maps = jobs.side("map")
    ended_well = (jobs.state == "SUCCEEDED") & (maps["n"] > 0)
    nameless = ended_well & (maps["timed"] - maps["fallback"] == 0)
    errors = dict.fromkeys(np.flatnonzero(ended_well & (maps["instant"] > 0)).tolist(), _BY_ZERO)
    return errors | dict.fromkeys(np.flatnonzero(nameless).tolist(), _NO_MEDIAN)


EXACT_SPILL = Gate(key="spill", label="records spilled per output record", value=spill_ratio, limits="spill_severity")


# --- Memory: containers are much larger than what tasks use ---------------------------------------------------------

_DEFAULT_MB = "container_memory_default_mb"


def _default_bytes(subject: Subject) -> Array:
    """Return the default container in bytes, wrapping beyond 64 bit."""
    return np.array([subject.numbers[_DEFAULT_MB]]) * MB


def _container(subject: Subject) -> Array:
    """Return the container in bytes; Dr. Elephant's default if unset."""
    stated = np.asarray(subject["container_mb"])
    return np.where(stated < 0, _default_bytes(subject), stated * MB)


def _used(subject: Subject) -> Array:
    """Return the mean physical memory over the container's; NaN (no severity) without tasks."""
    return np.where(subject["n"] == 0, np.nan, ratio(subject["avg_physical_bytes"], _container(subject)))


USED = Gate(
    key="memory-ratio", label="memory used of the container", value=_used, rising=False, limits="memory_ratio_severity"
)
CONTAINER = Gate(
    key="container", label="container size", unit="bytes", value=_container, limits="container_memory_severity",
    scale=lambda s: float(_default_bytes(s)[0]), final=Final.FIXED,
)  # fmt: skip


def _memory_error(side: str, jobs: Jobs) -> Mapping[int, str]:
    """Return the error of each job whose container setting looks like a variable without a name. Dr. Elephant only
    logs other invalid settings."""
    errors = {}
    for j in np.flatnonzero(jobs.judged & (jobs.state == "SUCCEEDED")).tolist():
        try:
            job_conf.variable(jobs.properties[j].get(job_conf.MEMORY[side]))
        except ValueError as error:
            errors[j] = f"java.lang.StringIndexOutOfBoundsException: {error}"
    return errors


def _memory_details(subject: Subject) -> Mapping[str, list[str]]:
    return {
        "Number of tasks": plain(subject["n"]),
        "Avg task runtime": each(span, subject["avg_total_ms"]),
        "Avg Physical Memory (MB)": plain(divided(subject["avg_physical_bytes"], MB)),
        "Max Physical Memory (MB)": plain(divided(subject["max_physical_bytes"], MB)),
        "Min Physical Memory (MB)": plain(divided(subject["min_physical_bytes"], MB)),
        "Avg Virtual Memory (MB)": plain(divided(subject["avg_virtual_bytes"], MB)),
        "Requested Container Memory": each(size, _container(subject)),
    }


# --- Shuffle & Sort: reducers spend long on fetching and merging map output -----------------------------------------

CODE = Measure(
    ("avg_code_ms",), lambda tasks: (tasks.average(tasks["total_ms"] - tasks["shuffle_ms"] - tasks["sort_ms"]),)
)


def _share(subject: Subject, phase: str) -> Array:
    """Return twice the phase's time over the code's: a whole number, in the published description the real ratio.
    Infinite if the code takes no time, so that the phase's time alone decides."""
    spent, code = subject[f"avg_{phase}_ms"], subject["avg_code_ms"]
    some = np.maximum(code, 1)
    return np.where(code > 0, ratio(2 * spent, some) if subject.published else divided(2 * spent, some), np.inf)


def _phase(phase: str) -> Branch:
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


BRANCHES = (_phase("shuffle"), _phase("sort"))


def _shuffle_details(subject: Subject) -> Mapping[str, list[str]]:
    code = subject["avg_code_ms"]

    def beside_code(spent: Array) -> list[str]:
        pairs = list(zip(spent.tolist(), code.tolist(), strict=True))
        return list(map({pair: f"{span(pair[0])} {factor(*pair)}" for pair in set(pairs)}.__getitem__, pairs))

    return {
        "Number of tasks": plain(subject["n"]),
        "Average code runtime": each(span, code),
        "Average shuffle time": beside_code(subject["avg_shuffle_ms"]),
        "Average sort time": beside_code(subject["avg_sort_ms"]),
    }


# --- Exception: the job failed --------------------------------------------------------------------------------------

_NO_STACK = (
    "Unable to find stacktrace info. Please find the real problem in the Jobhistory link above."
    "Exception can happen either in task log or Application Master log."
)
"""Dr. Elephant's text for a failed job without diagnostics."""


def _judge_failure(jobs: Jobs, rule: SideRule) -> Verdict:
    texts: list[str | None] = jobs.frame["diagnostics"].to_list()

    def details(j: int) -> Mapping[str, Any]:
        text = texts[j]
        return {"Error": _NO_STACK if text is None else ["Stacktrace", cut(text, MOST_DETAILS)]}

    return unscored(jobs.failed, np.where(jobs.failed, 2, 0), details)


# --- Distributed Cache Limit: single files of the distributed cache are large ---------------------------------------

_LIMIT = "distributed.cache.file.size.limit"


def _judge_cache(jobs: Jobs, rule: SideRule) -> Verdict:
    results = [_cache_of(properties, rule.numbers[_LIMIT]) for properties in jobs.properties]
    given = np.array([result is not None for result in results], dtype=bool)
    severity = np.array([0 if result is None else result[0] for result in results], dtype=np.int64)
    return unscored(
        given & jobs.judged, severity, [{} if result is None else result[1] for result in results].__getitem__
    )


def _cache_of(properties: Mapping[str, str], limit: int) -> tuple[int, dict[str, str]] | None:
    """Return the severity of one job and its details; None without a pair of lists."""
    severity: int | None = None
    details: dict[str, str] = {}
    for key in (job_conf.CACHE_FILES, job_conf.CACHE_ARCHIVES):
        files, sizes = properties.get(key), properties.get(key + ".filesizes")
        if files is None or sizes is None:
            continue
        names, numbers = split(files), split(sizes)
        if len(names) != len(numbers):
            # Details of files found too large before stay.
            return 2, {**details, key: str(len(names)), f"{key}.filesizes": str(len(numbers))}
        # A name listed twice counts once, with its last size.
        known = {name: integer(number) or 0 for name, number in zip(names, numbers, strict=True)}
        large = {name: str(number) for name, number in known.items() if number > limit}
        details.update(large)
        severity = 4 if large else severity or 0
    return None if severity is None else (severity, details)


# --- Job Queue Limit: tasks of the default queue run longer than it allows; not on by default -----------------------

RUNTIMES_MS = tuple(minutes * 60_000 for minutes in (13, 13.5, 14, 14.5))
"""Run times, ms, from which a task is LOW, MODERATE, SEVERE and CRITICAL."""
_NO_QUEUE = "java.lang.IllegalStateException: Queue Name not found."

LONG_TASKS = Measure(
    tuple(f"tasks_over_limit_{level}" for level in (1, 2, 3, 4)),
    lambda tasks: tuple(tasks.count(tasks["total_ms"] >= least) for least in RUNTIMES_MS),
)


def _judge_queue(jobs: Jobs, rule: SideRule) -> Verdict:
    queues = [properties.get(job_conf.QUEUE_OLD, properties.get(job_conf.QUEUE)) for properties in jobs.properties]
    default = np.array([queue == "default" for queue in queues], dtype=bool)
    maps, reduces = jobs.side("map"), jobs.side("reduce")
    severity = np.zeros(jobs.count, dtype=np.int64)
    for level in (1, 2, 3, 4):
        name = f"tasks_over_limit_{level}"
        severity = np.where(default & ((maps[name] > 0) | (reduces[name] > 0)), level, severity)

    def details(j: int) -> Mapping[str, Any]:
        if not default[j]:
            return {"Not Applicable": f"This Heuristic is not applicable to {queues[j]} queue"}
        n = {"Number of Map tasks": f"{maps['n'][j]}", "Number of Reduce tasks": f"{reduces['n'][j]}"}
        labels = {"Queue: ": "default", **n}
        for side, word in ((maps, "Map"), (reduces, "Reduce")):
            critical = side["tasks_over_limit_4"][j]
            severe = side["tasks_over_limit_3"][j] - critical
            labels[f"Number of {word} tasks that are in severe state (14 to 14.5 min)"] = f"{severe}"
            labels[f"Number of {word} tasks that are in critical state (over 14.5 min)"] = f"{critical}"
        return labels

    return unscored(np.array([queue is not None for queue in queues], dtype=bool), severity, details)


def _queue_error(jobs: Jobs) -> Mapping[int, str]:
    """Return the error of each job without the queue's old key, which Hadoop renames on loading a configuration."""
    return {
        j: _NO_QUEUE
        for j, (properties, source) in enumerate(zip(jobs.properties, jobs.frame["source"].to_list(), strict=True))
        if source == "history" or job_conf.QUEUE_OLD not in properties
    }


# --- Declarations ---------------------------------------------------------------------------------------------------


def _of_side(word: str, side: str, orders: tuple[int, int, int, int]) -> list[MapReduceHeuristic]:
    """Declare what is judged on maps and on reduces alike: skew, garbage collection, run times and memory."""
    declared: dict[str, Mapping[str, Any]] = {
        "Skew": {
            **SKEW,
            "published": (Branch(SKEW_DATA), Branch(SKEW_TIME)),
            "difference": "the published description splits by recursive averages, takes the real ratio and counts the "
            "smaller group; Dr. Elephant splits by differences of averages, divides whole numbers and counts group A",
        },
        "GC": GC,
        "Time": {**TIME, "details": partial(time_details, side)},
        "Memory": {
            "limits": {"memory_ratio_severity": (0.6, 0.5, 0.4, 0.3), "container_memory_severity": (1.1, 1.5, 2.0, 2.5)},
            "numbers": {_DEFAULT_MB: job_conf.DEFAULT_MB},
            "measures": MEMORY_MEASURES,
            "settings": {"container_mb": lambda properties: job_conf.stated_mb(properties, side)},
            "branches": (Branch((USED, CONTAINER)),),
            "averages": True,
            "details": _memory_details,
            "error": partial(_memory_error, side),
        },
    }  # fmt: skip
    return [
        MapReduceHeuristic(
            name=f"{word} {topic}", class_name=f"{word}{topic}Heuristic", order=order, side=side,
            advice=partial(advice.OF_SIDE[topic], side), **what,
        )
        for order, (topic, what) in zip(orders, declared.items(), strict=True)
    ]  # fmt: skip


QUEUE_LIMIT = MapReduceHeuristic(
    name="Job Queue Limit",
    class_name="JobQueueLimitHeuristic",
    order=13,
    default=False,
    measures=(LONG_TASKS,),
    judge=_judge_queue,
    advice=advice.OF_JOB["Job Queue Limit"],
    error=_queue_error,
)
HEURISTICS: tuple[MapReduceHeuristic, ...] = tuple(
    sorted(
        (
            *_of_side("Mapper", "map", (0, 1, 2, 5)),
            *_of_side("Reducer", "reduce", (6, 7, 8, 9)),
            MapReduceHeuristic(
                name="Mapper Speed",
                class_name="MapperSpeedHeuristic",
                order=3,
                side="map",
                **SPEED,
                details=speed_details,
                advice=advice.OF_JOB["Mapper Speed"],
                error=_speed_error,
            ),
            MapReduceHeuristic(
                name="Mapper Spill",
                class_name="MapperSpillHeuristic",
                order=4,
                side="map",
                **SPILL,
                published=(Branch((EXACT_SPILL, TASKS)),),
                difference="the published description compares the ratio itself, Dr. Elephant the ratio cut after four decimals",
                advice=advice.OF_JOB["Mapper Spill"],
            ),
            MapReduceHeuristic(
                name="Shuffle & Sort",
                class_name="ShuffleSortHeuristic",
                order=10,
                side="reduce",
                limits={"runtime_severity_in_min": (1, 5, 10, 30), "runtime_ratio_severity": (1, 2, 4, 8)},
                measures=(*measures("avg_shuffle_ms", "avg_sort_ms"), CODE),
                branches=BRANCHES,
                published=BRANCHES,
                difference="the published description takes the real ratio, Dr. Elephant a whole-number division",
                details=_shuffle_details,
                advice=advice.OF_JOB["Shuffle & Sort"],
            ),
            MapReduceHeuristic(
                name="Exception",
                class_name="ExceptionHeuristic",
                order=11,
                in_published=False,
                difference="the published description has no such heuristic",
                judge=_judge_failure,
                advice=advice.OF_JOB["Exception"],
            ),
            MapReduceHeuristic(
                name="Distributed Cache Limit",
                class_name="DistributedCacheLimitHeuristic",
                order=12,
                numbers={_LIMIT: 500 * MB},
                unread="distributed.cache",
                in_published=False,
                difference="the published description has no such heuristic",
                judge=_judge_cache,
                advice=advice.OF_JOB["Distributed Cache Limit"],
            ),
            QUEUE_LIMIT,
        ),
        key=lambda heuristic: heuristic.order,
    )
)

_BY_NAMES = {measure.names: measure for heuristic in reversed(HEURISTICS) for measure in heuristic.measures}
MEASURES: tuple[Measure, ...] = (*OF_METRICS, *_BY_NAMES.values())
"""The measures of the metrics and of all heuristics, each once. A name stands for one measure: the first that declares it."""
