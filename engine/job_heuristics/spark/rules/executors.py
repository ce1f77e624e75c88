"""Spark Executor Metrics: storage memory, task time, input and shuffle bytes, and how evenly executors share them.

Source: Dr. Elephant's ``ExecutorsHeuristic``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from engine.job_heuristics.dr_elephant.display import span
from engine.job_heuristics.dr_elephant.gates import ratio
from engine.job_heuristics.spark.model.app import App, Executor
from engine.job_heuristics.spark.rules.heuristic import SparkHeuristic, SparkRule, gate
from engine.job_heuristics.spark.rules.metrics import Distribution, rate, size

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


def _distributions(app: App) -> dict[str, Distribution]:
    active = app.active
    return {key: Distribution.of([value(each) for each in active]) for key, _, value, _ in _PARTS} if active else {}


def _measure(app: App, rule: SparkRule) -> Mapping[str, float]:
    found = _distributions(app)
    measures = {}
    for key, _, _, _ in _PARTS:
        least = rule.numbers[_MILLIS if key == "time" else _BYTES]
        if not found or found[key].high < least:
            measures[key] = 0.0
        else:
            measures[key] = found[key].high / found[key].median if found[key].median else _NEVER
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
            texts = ", ".join(f"{name}: {write(value)}" for name, value in found[key].texts())
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
)
