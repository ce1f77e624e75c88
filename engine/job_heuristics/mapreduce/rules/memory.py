"""Mapper Memory and Reducer Memory: containers are much larger than what tasks use."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from engine.job_heuristics.dr_elephant.display import each, plain, size, span
from engine.job_heuristics.dr_elephant.gates import MB, Array, Branch, Final, Gate, Subject, ratio
from engine.job_heuristics.dr_elephant.side_stats import average, divided, largest, smallest
from engine.job_heuristics.dr_elephant.sides import Jobs
from engine.job_heuristics.mapreduce.model import job_conf
from engine.job_heuristics.mapreduce.model.model import Job, mean
from engine.job_heuristics.mapreduce.rules.heuristic import MapReduceHeuristic

_DEFAULT = "container_memory_default_mb"


def _default_bytes(subject: Subject) -> Array:
    """Return the default container in bytes, wrapping beyond 64 bit."""
    return np.array([subject.numbers[_DEFAULT]]) * MB


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


def _error(side: str, jobs: Jobs) -> Mapping[int, str]:
    """Return the error of each job whose container setting looks like a variable without a name. Dr. Elephant only
    logs other invalid settings."""
    errors = {}
    for j in np.flatnonzero(jobs.judged & (jobs.state == "SUCCEEDED")).tolist():
        try:
            job_conf.variable(jobs.properties[j].get(job_conf.MEMORY[side]))
        except ValueError as error:
            errors[j] = f"java.lang.StringIndexOutOfBoundsException: {error}"
    return errors


def _details(subject: Subject) -> Mapping[str, list[str]]:
    return {
        "Number of tasks": plain(subject["n"]),
        "Avg task runtime": each(span, subject["avg_total_ms"]),
        "Avg Physical Memory (MB)": plain(divided(subject["avg_physical_bytes"], MB)),
        "Max Physical Memory (MB)": plain(divided(subject["max_physical_bytes"], MB)),
        "Min Physical Memory (MB)": plain(divided(subject["min_physical_bytes"], MB)),
        "Avg Virtual Memory (MB)": plain(divided(subject["avg_virtual_bytes"], MB)),
        "Requested Container Memory": each(size, _container(subject)),
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


def _declare(word: str, side: str, order: int) -> MapReduceHeuristic:
    return MapReduceHeuristic(
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
        settings={"container_mb": lambda properties: job_conf.stated_mb(properties, side)},
        branches=(Branch((USED, CONTAINER)),),
        averages=True,
        details=_details,
        advice=lambda level, job: _advice(side, level, job),
        error=lambda jobs: _error(side, jobs),
    )


HEURISTICS = (_declare("Mapper", "map", 5), _declare("Reducer", "reduce", 9))
