"""Mapper Speed: maps read their input slowly."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from engine.job_heuristics.dr_elephant.gates import amount
from engine.job_heuristics.dr_elephant.side_rules import (
    SPEED,
    speed_details,
)
from engine.job_heuristics.dr_elephant.sides import Jobs
from engine.job_heuristics.mapreduce.model.model import Job
from engine.job_heuristics.mapreduce.rules.heuristic import MapReduceHeuristic

_BY_ZERO = "java.lang.ArithmeticException: / by zero"
_NO_MEDIAN = "java.lang.IllegalArgumentException: Median of an empty list is not defined."


def _error(jobs: Jobs) -> Mapping[int, str]:
    """Return the error of each job with a task of 0 ms (division by zero) or without any speed (no median)."""
    maps = jobs.side("map")
    ended_well = (jobs.state == "SUCCEEDED") & (maps["n"] > 0)
    nameless = ended_well & (maps["timed"] - maps["fallback"] == 0)
    errors = dict.fromkeys(np.flatnonzero(ended_well & (maps["instant"] > 0)).tolist(), _BY_ZERO)
    return errors | dict.fromkeys(np.flatnonzero(nameless).tolist(), _NO_MEDIAN)


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
        **SPEED,
        details=speed_details,
        advice=_advice,
        error=_error,
    ),
)
