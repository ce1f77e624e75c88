"""Dr. Elephant's heuristics and metrics of Tez applications, and the result tables made of them.

See docs/models/job-heuristics.md, "Tez". Its classes are ``TezFetcher``, ``TezMetricsAggregator`` and those named below.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
import polars as pl
from polars import selectors

from engine.job_heuristics.dr_elephant import metrics, sides
from engine.job_heuristics.dr_elephant.display import each, integer, plain, size, span
from engine.job_heuristics.dr_elephant.gates import MB, Array, Branch, Gate, Subject, ratio
from engine.job_heuristics.dr_elephant.heuristic import BLOCK_SIZE, Rules
from engine.job_heuristics.dr_elephant.side_stats import SideTasks, divided
from engine.job_heuristics.dr_elephant.sides import Jobs, SideHeuristic, rows, verdicts
from engine.job_heuristics.tez.model import MAP, REDUCE, SIDES, App
from engine.job_heuristics.tez.tables import COUNTED

TEZ = "tez"  # application type of Tez's heuristics in HeuristicConf.xml
_DEFAULT = "container_memory_default_mb"
DEFAULT_MB = 2048
WRONG_DEFAULT = 2**31  # Dr. Elephant's default container: bytes taken for MB.
TASK_KEY, HIVE_KEY, AM_KEY = "tez.task.resource.memory.mb", "hive.tez.container.size", "tez.am.resource.memory.mb"
OWN_KEYS = {"map": "mapreduce.map.memory.mb", "reduce": "mapreduce.reduce.memory.mb", "scope": AM_KEY}
SLOW_START = "mapreduce.job.reduce.slowstart.completedmaps"


class TezHeuristic(SideHeuristic, frozen=True, kw_only=True, eq=False):
    """A heuristic of Tez applications. ``advice``: what to do if its verdict is bad."""

    application: str = TEZ
    advice: str = ""


TezRules = Rules[TezHeuristic]


def memory_mb(conf: Mapping[str, str], side: str) -> tuple[int, str]:
    """Return the size of containers (MB) that the memory heuristic of a side takes from the configuration, 0 without one.

    The second value is the text that it fails to read, or empty.
    """
    for key in (TASK_KEY, HIVE_KEY, OWN_KEYS[side]):
        value = conf.get(key)
        if value:
            number = integer(value)
            if number is None:
                return 0, value
            if number > 0:
                return number, ""
    return 0, ""


def _container(subject: Subject) -> Array:
    stated = np.asarray(subject["container_mb"])
    return np.where(stated > 0, stated, subject.numbers[_DEFAULT])


def _used(subject: Subject) -> Array:
    used = ratio(divided(subject["avg_physical_bytes"], MB), _container(subject))
    return np.where((subject["n"] == 0) | (subject["measured"] == 0), np.nan, used)


def _memory_details(subject: Subject) -> Mapping[str, list[str]]:
    some = subject["n"] > 0
    values = {
        "Number of tasks": plain(subject["n"]),
        "Maximum Physical Memory (MB)": plain(divided(subject["max_physical_bytes"], MB)),
        "Minimum Physical memory (MB)": plain(divided(subject["min_physical_bytes"], MB)),
        "Average Physical Memory (MB)": plain(divided(subject["avg_physical_bytes"], MB)),
        "Average Virtual Memory (MB)": plain(divided(subject["avg_virtual_bytes"], MB)),
        "Average Task RunTime": each(span, subject["avg_total_ms"]),
        "Requested Container Memory (MB)": plain(_container(subject)),
    }
    return {label: [text if n else "0" for text, n in zip(texts, some, strict=True)] for label, texts in values.items()}


def _memory_error(side: str, jobs: Jobs) -> Mapping[int, str]:
    bad = ((j, memory_mb(conf, side)[1]) for j, conf in enumerate(jobs.properties))
    return {j: f'java.lang.NumberFormatException: For input string: "{text}"' for j, text in bad if text}


def _speed_error(side: str, jobs: Jobs) -> Mapping[int, str]:
    return dict.fromkeys(
        np.flatnonzero(jobs.side(side)["instant"] > 0).tolist(), "java.lang.ArithmeticException: / by zero"
    )


def _speed_details(subject: Subject) -> Mapping[str, list[str]]:
    return {
        "Number of tasks": plain(subject["n"]),
        "Median task input ": each(size, subject["median_input_bytes"]),
        "Median task runtime": each(span, subject["median_total_ms"]),
        "Median task speed": each(lambda value: size(value) + "/s", subject["median_speed"]),
    }


def _time_details(side: str, subject: Subject) -> Mapping[str, list[str]]:
    made = sides.time_details(side, subject)
    if side != "reduce":
        return made
    some = (subject["n"] > 0).tolist()
    return {
        label: texts
        if label == "Number of tasks"
        else [(t or "0 sec") if n else "0" for t, n in zip(texts, some, strict=True)]
        for label, texts in made.items()
    }


_ADVICE = {
    "Data Skew": "Few tasks get most of the data or run much longer: for files set tez.grouping.max-size lower, for keys use "
    "hive.optimize.skewjoin, or salt the hot keys.",
    "GC": "Tasks spend their time in garbage collection: make fewer objects per record, or give the heap more of the container "
    "(-Xmx in hive.tez.java.opts, about 80% of it).",
    "Time": "Many short tasks cost more to start than to run: raise tez.grouping.min-size (files) or "
    "hive.exec.reducers.bytes.per.reducer (reducers); lower them where tasks run for many minutes.",
    "Speed": "Tasks read slowly: compare their CPU time, the rest is waiting for disk, network or a service; smaller groups of "
    "splits (tez.grouping.max-size) shorten the wait for each.",
    "Memory": "Containers are much larger than what tasks use: lower hive.tez.container.size (Pig and others: "
    "tez.task.resource.memory.mb) and the heap with it.",
    "Spill": "Output is written to disk more than once: raise tez.runtime.io.sort.mb.",
}  # fmt: skip


def _memory(name: str, class_name: str, order: int, side: str, *, default: bool = True) -> TezHeuristic:
    return TezHeuristic(
        name=name, class_name=class_name, order=order, side=side, default=default, averages=True,
        limits={"memory_ratio_severity": (0.6, 0.5, 0.4, 0.3)}, numbers={_DEFAULT: DEFAULT_MB},
        measures=sides.MEMORY_MEASURES,
        settings={"container_mb": lambda conf: memory_mb(conf, side)[0]},
        branches=(Branch((Gate(key="memory-ratio", label="memory used of the container", value=_used, rising=False,
                               limits="memory_ratio_severity"),)),),
        details=_memory_details, advice=_ADVICE["Memory"], error=lambda jobs: _memory_error(side, jobs),
    )  # fmt: skip


def _over_tasks(word: str, side: str, orders: Sequence[int], prefix: str = "") -> list[TezHeuristic]:
    """Return skew, garbage collection, time and, with a fourth place, speed of a side."""
    topics: list[tuple[str, str, Mapping[str, Any]]] = [
        ("Data Skew", "DataSkew", sides.SKEW), ("GC", "GC", sides.GC),
        ("Time", "Time", {**sides.TIME, "details": lambda subject: _time_details(side, subject)}),
        ("Speed", "Speed", {**sides.SPEED, "details": _speed_details, "error": lambda jobs: _speed_error(side, jobs)}),
    ]  # fmt: skip
    return [
        TezHeuristic(
            name=f"{word} {name}", class_name=f"{prefix}{class_name}Heuristic", order=order, side=side, **topic
        )
        for order, (name, class_name, topic) in zip(orders, topics, strict=False)
    ]


HEURISTICS: tuple[TezHeuristic, ...] = tuple(
    sorted(
        (
            *_over_tasks("Tez Mapper", "map", (0, 1, 2, 3), "Mapper"),
            _memory("Tez Mapper Memory", "MapperMemoryHeuristic", 4, "map"),
            TezHeuristic(
                name="Tez Mapper Spill", class_name="MapperSpillHeuristic", order=5, side="map", **sides.SPILL
            ),
            *_over_tasks("Tez Reducer", "reduce", (6, 7, 8), "Reducer"),
            _memory("Scope Memory", "TezScopeMemoryHeuristic", 9, "scope"),
            *_over_tasks("Scope", "scope", (10, 11, 13, 12), "TezScope"),
            _memory("Tez Reducer Memory", "ReducerMemoryHeuristic", 14, "reduce", default=False),
        ),
        key=lambda heuristic: heuristic.order,
    )
)
_BY_NAMES = {measure.names: measure for heuristic in HEURISTICS for measure in heuristic.measures}
MEASURES = (*metrics.MEASURES, *_BY_NAMES.values())


def container_mb(conf: Mapping[str, str], side: str) -> int:
    """Return the container in MB with which Dr. Elephant's metrics count a map or a reduce."""
    hive = conf.get(HIVE_KEY)
    if hive is not None:
        number = integer(hive)
        if number is None or number > 0:
            return WRONG_DEFAULT if number is None else number
    number = integer(conf.get(OWN_KEYS[side]))
    return WRONG_DEFAULT if number is None else number


def true_mb(app: App, side: str) -> int:
    """Return the container of a task in MB, as Hive, Pig and Tez choose it."""
    keys = (
        (TASK_KEY,) if app.job_type == "Pig-Tez" else (HIVE_KEY, TASK_KEY) if app.job_type == "Unknown" else (HIVE_KEY,)
    )
    for key in (*keys, "mapreduce.map.memory.mb" if app.job_type == "Hive-Tez" else TASK_KEY):
        number = integer(app.conf.get(key))
        if number is not None and 0 < number < 2**24:
            return number
    return 1024


class Unit(msgspec.Struct, frozen=True, eq=False):
    """What is judged as one: an application as Dr. Elephant sees it, or (``own``) a DAG or application as it is: official
    counters and containers, and any processor. ``tasks``: those that count; ``start_ms``: when its maps could start."""

    name: str
    app: App
    state: str
    tasks: pl.DataFrame
    start_ms: int | None
    own: bool = False


_NUMBERS = {"map_output_records": "output_records", **{name: name for name in COUNTED if name != "output_records"}}


def _columns(tasks: pl.DataFrame, own: Array) -> dict[str, Array]:
    """Return the numbers of tasks by name; where ``own``, from Tez's own groups of counters."""
    tasks = tasks.select(selectors.numeric().fill_null(0))
    columns = {name: tasks[name].to_numpy() for name in ("total_ms", "begin_ms", "finish_ms")}
    columns["start_ms"] = columns.pop("begin_ms")
    for name, source in _NUMBERS.items():
        columns[name] = np.where(own, tasks[source].to_numpy(), tasks["first_" + source].to_numpy())
    return columns


def measured(units: Sequence[Unit]) -> dict[str, Array]:
    """Return the measures of all units: by name, one value per unit and side (``SIDES``)."""
    parts = [
        unit.tasks.select(
            "side", "own_side", "total_ms", "begin_ms", "finish_ms", *COUNTED, *(f"first_{n}" for n in COUNTED)
        )
        for unit in units
    ]
    tasks = pl.concat(parts)
    at = np.repeat(np.arange(len(units)), [part.height for part in parts])
    own = np.array([unit.own for unit in units], dtype=bool)[at]
    columns = _columns(tasks, own)
    segment = 3 * at + np.where(own, tasks["own_side"].to_numpy(), tasks["side"].fill_null(MAP).to_numpy())
    columns["data"] = np.where(segment % 3 != REDUCE, columns["input_bytes"], columns["shuffle_bytes"])
    stats = SideTasks(segment, 3 * len(units), columns)
    known = tasks["physical_bytes"].is_not_null().to_numpy()
    # Dr. Elephant takes what was not measured for 0.
    values: dict[str, Array] = {"n": stats.size, "timed": stats.size, "measured": stats.count(known | ~own)}
    for each_ in MEASURES:
        values.update(zip(each_.names, each_.compute(stats), strict=True))
    return values


def judge_units(units: Sequence[Unit], rules: TezRules) -> tuple[Jobs, Any, pl.DataFrame, dict[str, Any]]:
    """Return the jobs judged, their verdicts, HEURISTICS rows and the metrics (JOBS columns) of units."""
    frame = pl.DataFrame(
        {
            "job_id": [unit.name for unit in units],
            "job_type": [unit.app.job_type for unit in units],
            "state": [unit.state for unit in units],
        },
        {"job_id": pl.String, "job_type": pl.String, "state": pl.String},
    )
    # In its own configuration the memory heuristic finds the container that tasks really have.
    conf = {
        unit.name: {**unit.app.conf, TASK_KEY: str(true_mb(unit.app, "map"))} if unit.own else unit.app.conf
        for unit in units
    }
    jobs = Jobs(frame, measured(units), conf, np.full(len(units), float(rules.block_size or BLOCK_SIZE)), SIDES)
    made = verdicts(rules, jobs)
    containers, seconds, peaks = [], [], []
    for side in SIDES:  # in no metric of Dr. Elephant does a scope task count
        theirs = [0 if side == "scope" else container_mb(unit.app.conf, side) for unit in units]
        held = [true_mb(unit.app, side) if unit.own else mb for unit, mb in zip(units, theirs, strict=True)]
        containers.append(np.array(held, dtype=np.int64))
        seconds.append(jobs.side(side)["seconds"])
        peaks.append(jobs.side(side)["peak_mb"])
    used, wasted = metrics.memory(containers, seconds, peaks)
    starts = np.array([0 if unit.start_ms is None else unit.start_ms for unit in units], dtype=np.int64)
    waited = metrics.waits(jobs.side("map"), jobs.side("reduce"), starts)
    unknown = [unit.own and not unit.tasks["physical_bytes"].is_not_null().any() for unit in units]
    return jobs, made, rows(jobs, made), {
        "used_mb_s": used,
        "wasted_mb_s": [None if u else w for u, w in zip(unknown, wasted, strict=True)],
        "wait_ms": [w if u.start_ms is not None else None for w, u in zip(waited.tolist(), units, strict=True)],
    }  # fmt: skip
