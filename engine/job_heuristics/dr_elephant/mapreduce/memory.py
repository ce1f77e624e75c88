"""Mapper Memory and Reducer Memory: containers are much larger than what tasks use."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from engine.job_heuristics.dr_elephant.display import each, plain, size, span
from engine.job_heuristics.dr_elephant.gates import MB, Branch, Final, Gate, Subject, ratio
from engine.job_heuristics.dr_elephant.heuristic import Heuristic
from engine.job_heuristics.dr_elephant.jobs import Jobs
from engine.job_heuristics.dr_elephant.side_stats import average, largest, smallest
from engine.job_heuristics.model import job_conf
from engine.job_heuristics.model.arrays import Array
from engine.job_heuristics.model.job_arrays import Job, mean

KEYS = {"map": job_conf.MAP_MEMORY, "reduce": job_conf.REDUCE_MEMORY}
"""Property with the container's MB, by side."""
_DEFAULT = "container_memory_default_mb"


def stated_mb(properties: Mapping[str, str], side: str) -> int:
    """Return the container's MB as the heuristic sees them: the number, or that of the one variable named; -1 where it is
    unset, negative or unusable."""
    value = properties.get(KEYS[side])
    name = job_conf.variable(value)
    stated = job_conf.integer(properties.get(name) if name is not None else value)
    return -1 if stated is None or stated < 0 else stated


def _container(subject: Subject) -> Array:
    """Return the bytes of the container; Dr. Elephant's default where none is stated."""
    stated = np.asarray(subject["container_mb"], dtype=np.float64)
    return np.where(stated < 0, float(subject.numbers[_DEFAULT]), stated) * MB


def _used(subject: Subject) -> Array:
    """Return the mean physical memory over the container's; NaN (no severity) without tasks."""
    return np.where(subject["n"] == 0, np.nan, ratio(subject["avg_physical_bytes"], _container(subject)))


USED = Gate(
    key="memory-ratio", label="memory used of the container", value=_used, rising=False, limits="memory_ratio_severity"
)
CONTAINER = Gate(
    key="container", label="container size", unit="bytes", value=_container, limits="container_memory_severity",
    scale=lambda s: float(s.numbers[_DEFAULT]) * MB, final=Final.FIXED,
)  # fmt: skip


def _error(side: str, jobs: Jobs) -> Mapping[int, str]:
    """Return the error of each job whose container is no number and is parsed as one."""
    errors = {}
    for j in np.flatnonzero(jobs.judged & (jobs.state == "SUCCEEDED")).tolist():
        properties = jobs.properties[j]
        value = properties.get(KEYS[side])
        if value is None or job_conf.integer(value) is not None:
            continue
        name = job_conf.variable(value)
        if name is None:
            errors[j] = f'java.lang.NumberFormatException: For input string: "{value}"'
        elif job_conf.integer(properties.get(name)) is None:
            errors[j] = f"java.lang.NumberFormatException: {name} is no number: {properties.get(name)}"
    return errors


def _details(subject: Subject) -> Mapping[str, list[str]]:
    return {
        "Number of tasks": plain(subject["n"]),
        "Avg task runtime": each(span, subject["avg_total_ms"]),
        "Avg Physical Memory (MB)": plain(subject["avg_physical_bytes"] // MB),
        "Max Physical Memory (MB)": plain(subject["max_physical_bytes"] // MB),
        "Min Physical Memory (MB)": plain(subject["min_physical_bytes"] // MB),
        "Avg Virtual Memory (MB)": plain(subject["avg_virtual_bytes"] // MB),
        "Requested Container Memory": each(lambda value: size(int(value)), _container(subject)),
    }


def _advice(side: str, level: int, job: Job) -> str:
    tasks = job.side(side)
    used, peak = mean(tasks.pmem) / MB, float(tasks.peak.max()) / MB if len(tasks.peak) else 0.0
    container = tasks.memory_container_mb
    if not peak:
        return "Memory was not measured on this cluster, so nothing can be said about the container size."
    if not level:
        return f"{tasks.word.capitalize()}s use {used:,.0f} of {container:,} MB on average, {peak:,.0f} MB at most."
    return (
        f"{tasks.word.capitalize()}s use {used:,.0f} MB on average and {peak:,.0f} MB at most of containers of {container:,} MB. "
        f"Lower mapreduce.{side}.memory.mb and, with it, -Xmx in mapreduce.{side}.java.opts (about 80 % of it)."
    )


def _declare(word: str, side: str, order: int) -> Heuristic:
    return Heuristic(
        name=f"{word} Memory",
        class_name=f"{word}MemoryHeuristic",
        order=order,
        side=side,
        limits={"memory_ratio_severity": (0.6, 0.5, 0.4, 0.3), "container_memory_severity": (1.1, 1.5, 2.0, 2.5)},
        numbers={_DEFAULT: job_conf.DEFAULT_MB},
        measures=(
            average("physical_bytes"),
            largest("physical_bytes"),
            smallest("physical_bytes"),
            average("virtual_bytes"),
            average("total_ms"),
        ),
        settings={"container_mb": lambda properties: stated_mb(properties, side)},
        branches=(Branch((USED, CONTAINER)),),
        averages=True,
        details=_details,
        advice=lambda level, job: _advice(side, level, job),
        error=lambda jobs: _error(side, jobs),
    )


HEURISTICS = (_declare("Mapper", "map", 5), _declare("Reducer", "reduce", 9))
