"""All heuristics that are declared: those in ``HEURISTICS`` of each module of the packages below."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator
from functools import cache

import numpy as np

from engine.job_heuristics.dr_elephant.heuristic import Heuristic
from engine.job_heuristics.mapreduce.model.arrays import OF_ALL_TASKS, TASK_NUMBERS
from engine.job_heuristics.mapreduce.rules.side_stats import Measure, SideTasks

PACKAGES = (
    "engine.job_heuristics.mapreduce.rules",
    "engine.job_heuristics.mapreduce.insight.heuristics",
    "engine.job_heuristics.spark.rules",
)
"""Packages with declarations, one module per topic: of MapReduce, our own, of Spark. They are named, not imported, because
what is our own stands above this room."""


@cache
def _declared() -> dict[str, Heuristic]:
    return {heuristic.class_name: checked(heuristic) for heuristic in _collected()}


def checked(heuristic: Heuristic) -> Heuristic:
    """Return ``heuristic``. Raises ValueError for a measure of a column that tasks do not have."""
    nothing = np.empty(0, dtype=np.int64)
    for measure in heuristic.measures:
        columns = (*(OF_ALL_TASKS if measure.of_all else (*TASK_NUMBERS, "peak")), "data")
        try:
            measure.compute(SideTasks(nothing, 2, dict.fromkeys(columns, nothing)))
        except KeyError as unknown:
            raise ValueError(f"{heuristic.name}: tasks have no column {unknown}, only {', '.join(columns)}") from None
    return heuristic


def _collected() -> Iterator[Heuristic]:
    for package in PACKAGES:
        for module in pkgutil.iter_modules(importlib.import_module(package).__path__, f"{package}."):
            declared = getattr(importlib.import_module(module.name), "HEURISTICS", ())
            if isinstance(declared, tuple):  # what makes the result table of that name imports its declaration
                yield from declared


def heuristics() -> list[Heuristic]:
    """Return every declared heuristic, in order."""
    return sorted(_declared().values(), key=lambda heuristic: heuristic.order)


def by_class(class_name: str) -> Heuristic | None:
    """Return the heuristic that HeuristicConf.xml calls ``class_name``, or None."""
    return _declared().get(class_name)


def register(heuristic: Heuristic) -> None:
    """Add a heuristic from outside the packages, or replace the one with its class name. Raises as ``checked``."""
    _declared()[heuristic.class_name] = checked(heuristic)


def unregister(heuristic: Heuristic) -> None:
    """Remove a heuristic. Raises KeyError."""
    del _declared()[heuristic.class_name]


def measures() -> list[Measure]:
    """Return the measures of all heuristics, each once. A name stands for one measure: the first that declares it."""
    by_names = {measure.names: measure for heuristic in reversed(heuristics()) for measure in heuristic.measures}
    return list(by_names.values())
