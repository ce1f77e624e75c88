"""Spark Executor Metrics, how evenly executors share memory, time and bytes; and Executor GC, their garbage collection.

Source: Dr. Elephant's ``ExecutorsHeuristic`` and ``ExecutorGcHeuristic``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from engine.job_heuristics.dr_elephant.display import java_double, span
from engine.job_heuristics.dr_elephant.gates import ratio, severities
from engine.job_heuristics.spark.model.app import DRIVER, App, Executor
from engine.job_heuristics.spark.model.setup import LOW_PEAK, heap_bytes, is_local, peak_heap
from engine.job_heuristics.spark.rules.failures import above
from engine.job_heuristics.spark.rules.heuristic import SparkHeuristic, SparkRule, gate
from engine.job_heuristics.spark.rules.metrics import distribution, rate, size

_BYTES, _MILLIS = "ignore_max_bytes_less_than_threshold", "ignore_max_millis_less_than_threshold"
_LIMITS = "max_to_median_ratio_severity_thresholds"
_PARTS: tuple[tuple[str, str, Callable[[Executor], int], Callable[[int], str]], ...] = (
    ("storage", "storage memory used", lambda each: each.memory_used, size),
    ("time", "task time", lambda each: each.duration_ms, span),
    ("input", "input bytes", lambda each: each.input_bytes, size),
    ("read", "shuffle read bytes", lambda each: each.shuffle_read, size),
    ("write", "shuffle write bytes", lambda each: each.shuffle_write, size),
)
"""Compared quantities: name of the measure, label, value of an executor, format."""
_NEVER = float("inf")
"""Ratio for a median of 0."""


def _distributions(app: App) -> dict[str, dict[str, int]]:
    active = app.active
    return {key: distribution([value(each) for each in active]) for key, _, value, _ in _PARTS} if active else {}


def _measure(app: App, rule: SparkRule) -> Mapping[str, float]:
    found = _distributions(app)
    measures = {}
    for key, _, _, _ in _PARTS:
        if not found or found[key]["max"] < rule.numbers[_MILLIS if key == "time" else _BYTES]:
            measures[key] = 0.0
        else:
            measures[key] = found[key]["max"] / found[key]["median"] if found[key]["median"] else _NEVER
    return measures


def _describe(app: App, rule: SparkRule, level: int) -> Mapping[str, Any]:
    active, found = app.active, _distributions(app)
    allocated, used = sum(each.max_memory for each in active), sum(each.memory_used for each in active)
    details = {
        "Total executor storage memory allocated": size(allocated),
        "Total executor storage memory used": size(used),
        "Executor storage memory utilization rate": rate(float(ratio(used, allocated))),  # type: ignore[arg-type]
    }
    for key, label, _, write in _PARTS:
        if found:
            texts = ", ".join(f"{name}: {write(value)}" for name, value in found[key].items())
            details[f"Executor {label} distribution"] = texts
        if key == "time":
            details["Executor task time sum"] = str(int(sum(each.duration_ms for each in active) / 1000))
    return details


def _advise(level: int, app: App) -> str:
    if not level:
        return "Executors share the work evenly."
    return (
        "Some executors do much more than others: look for skewed stages and slow hosts; more partitions, or "
        "spark.sql.adaptive.skewJoin.enabled, spread the data."
    )


_HIGH, _LOW = "gc_severity_A_threshold", "gc_severity_D_threshold"


def _sums(app: App) -> tuple[int, int]:
    executors = [executor for executor in app.active if executor.name != DRIVER]
    return sum(each.gc_ms for each in executors), sum(each.duration_ms for each in executors)


def _ratio(app: App) -> float:
    gc, duration = _sums(app)
    return gc / duration if duration else float("inf") if gc else float("nan")


def _describe_gc(app: App, rule: SparkRule, level: int) -> Mapping[str, Any]:
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


def _advise_gc(level: int, app: App) -> str:
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
        name="Spark Executor Metrics",
        class_name="ExecutorsHeuristic",
        order=102,
        limits={_LIMITS: (10**0.125, 10**0.25, 10**0.5, 10)},
        numbers={_BYTES: 100 * 2**20, _MILLIS: 300_000},
        branches=tuple(
            gate(
                key,
                f"largest to median {label} of executors",
                _LIMITS,
                fact=f"{label} of the busiest executor is {{}} times the median",
            )
            for key, label, _, _ in _PARTS
        ),
        measure=_measure,
        describe=_describe,
        advise=_advise,
        throws=lambda app: "" if app.active else "java.lang.UnsupportedOperationException: empty.min",
    ),
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
        describe=_describe_gc,
        advise=_advise_gc,
    ),
)
