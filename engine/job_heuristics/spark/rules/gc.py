"""Executor GC: the time executors spend in garbage collection.

Source: Dr. Elephant's ``ExecutorGcHeuristic``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from engine.job_heuristics.dr_elephant.display import java_double
from engine.job_heuristics.dr_elephant.gates import severities
from engine.job_heuristics.spark.model.app import DRIVER, App
from engine.job_heuristics.spark.model.setup import LOW_PEAK, heap_bytes, is_local, peak_heap
from engine.job_heuristics.spark.rules.heuristic import SparkHeuristic, SparkRule, gate
from engine.job_heuristics.spark.rules.jobs import above

_HIGH, _LOW = "gc_severity_A_threshold", "gc_severity_D_threshold"


def _sums(app: App) -> tuple[int, int]:
    executors = [executor for executor in app.active if executor.name != DRIVER]
    return sum(each.gc_ms for each in executors), sum(each.duration_ms for each in executors)


def _ratio(app: App) -> float:
    gc, duration = _sums(app)
    return gc / duration if duration else float("inf") if gc else float("nan")


def _describe(app: App, rule: SparkRule, level: int) -> Mapping[str, Any]:
    gc, duration = _sums(app)
    value = _ratio(app)
    details = {
        "GC time to Executor Run time ratio": java_double(value),
        "Total GC time": str(gc),
        "Total Executor Runtime": str(duration),
    }
    if above(1, value, rule, _HIGH):
        details["Gc ratio high"] = (
            "The job is spending too much time on GC. We recommend increasing the executor memory."
        )
    if int(severities(value, rule.limits[_LOW], rising=False)) > 1:  # type: ignore[arg-type]
        details["Gc ratio low"] = (
            "The job is spending too less time in GC. Please check if you have asked for more executor memory than required."
        )
    return details


def _advise(level: int, app: App) -> str:
    if not level:
        return "Garbage collection takes little time."
    share = peak_heap(app) / heap_bytes(app)
    if 0 < share < LOW_PEAK:
        return f"The fullest heap was {share:.0%} full, so more memory is not what is missing: give executors fewer cores each."
    who = "the driver" if is_local(app) else "executors"
    key = f"spark.{'driver' if is_local(app) else 'executor'}.memory"
    return f"Give {who} more memory ({key}), or fewer cores, so that fewer tasks share a heap."


HEURISTICS = (
    SparkHeuristic(
        name="Executor GC",
        class_name="ExecutorGcHeuristic",
        order=105,
        limits={_HIGH: (0.08, 0.1, 0.15, 0.2), _LOW: (0.05, 0.04, 0.03, 0.01)},
        branches=(
            gate(
                "gc",
                "share of task time in garbage collection",
                _HIGH,
                fact="{value:.1%} of the task time is garbage collection",
            ),
        ),
        measure=lambda app, rule: {"gc": _ratio(app)},
        describe=_describe,
        advise=_advise,
        throws=lambda app: "",
    ),
)
