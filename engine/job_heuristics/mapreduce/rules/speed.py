"""Mapper Speed: maps read their input slowly."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from engine.job_heuristics.dr_elephant.display import each, java_double, plain, size, span
from engine.job_heuristics.dr_elephant.gates import MB, MINUTE, Array, Branch, Gate, Subject, amount
from engine.job_heuristics.mapreduce.model.model import Job
from engine.job_heuristics.mapreduce.rules.heuristic import Jobs, MapReduceHeuristic
from engine.job_heuristics.mapreduce.rules.side_stats import Measure, TaskStats, divided, median, total

DISK_SPEED = 100 * MB
"""Dr. Elephant's constant speed of a disk, bytes per second."""

_BY_ZERO = "java.lang.ArithmeticException: / by zero"
_NO_MEDIAN = "java.lang.IllegalArgumentException: Median of an empty list is not defined."


def _speeds(tasks: TaskStats) -> tuple[Array, Array]:
    """Return the median bytes per second of tasks longer than 0 ms, and the number of other tasks."""
    took = tasks["total_ms"] != 0
    timed = tasks.where(took)
    return timed.median(divided(1000 * timed["input_bytes"], timed["total_ms"])), tasks.count(~took)


SPEED = Gate(
    key="speed", label="median speed", unit="bytes/s", value=lambda s: s["median_speed"], rising=False,
    limits="disk_speed_severity", scale=DISK_SPEED,
)  # fmt: skip
RUNTIME = Gate(
    key="runtime", label="median run time", unit="ms", value=lambda s: s["median_total_ms"],
    limits="runtime_severity_in_min", scale=MINUTE,
)  # fmt: skip


def _defined(subject: Subject) -> Array:
    """Return which jobs get a result: without speeds the median is undefined and Dr. Elephant fails."""
    return (subject["n"] == 0) | (subject["instant"] < subject["timed"])


def _error(jobs: Jobs) -> Mapping[int, str]:
    """Return the error of each job with a task of 0 ms (division by zero) or without any speed (no median)."""
    maps = jobs.side("map")
    ended_well = (jobs.state == "SUCCEEDED") & (maps["n"] > 0)
    nameless = ended_well & (maps["timed"] - maps["fallback"] == 0)
    errors = dict.fromkeys(np.flatnonzero(ended_well & (maps["instant"] > 0)).tolist(), _BY_ZERO)
    return errors | dict.fromkeys(np.flatnonzero(nameless).tolist(), _NO_MEDIAN)


def _details(subject: Subject) -> Mapping[str, list[str]]:
    return {
        "Number of tasks": plain(subject["n"]),
        "Median task input size": each(size, subject["median_input_bytes"]),
        "Median task runtime": each(span, subject["median_total_ms"]),
        "Median task speed": each(lambda value: size(value) + "/s", subject["median_speed"]),
        "Total input size in MB": each(lambda value: java_double(value / MB), subject["sum_input_bytes"]),
    }


def _advice(level: int, job: Job) -> str:
    maps = job.maps
    timed = maps.total > 0
    rate = float(np.median(maps.size[timed] * 1000 / maps.total[timed])) if timed.any() else 0.0
    if not level:
        return f"Maps read {amount(rate, 'bytes/s')} in the median."
    cpu = float(maps.cpu.sum()) / max(1.0, float(maps.total.sum()))
    busy = (
        f"they are busy computing ({cpu:.0%} of their time is CPU): optimise the code or give each less to do"
        if cpu > 0.6
        else f"only {cpu:.0%} of their time is CPU: they wait for disk, network or a service"
    )
    return (
        f"Maps read {amount(rate, 'bytes/s')} in the median; {busy}. More, smaller splits "
        f"(mapreduce.input.fileinputformat.split.maxsize) shorten the wait for each."
    )


HEURISTICS = (
    MapReduceHeuristic(
        name="Mapper Speed",
        class_name="MapperSpeedHeuristic",
        order=3,
        side="map",
        limits={"disk_speed_severity": (1 / 2, 1 / 4, 1 / 8, 1 / 32), "runtime_severity_in_min": (5, 10, 15, 30)},
        measures=(
            Measure(("median_speed", "instant"), _speeds),
            median("total_ms"),
            median("input_bytes"),
            total("input_bytes"),
        ),
        branches=(Branch((SPEED, RUNTIME)),),
        averages=True,
        defined=_defined,
        details=_details,
        advice=_advice,
        error=_error,
    ),
)
