"""Dr. Elephant's metrics of a Spark application.

Source: ``SparkMetricsAggregator``. See docs/models/job-heuristics.md, "Spark: metrics".
"""

from __future__ import annotations

from dataclasses import dataclass

from engine.job_heuristics.spark.model.app import App
from engine.job_heuristics.spark.rules.values import Unreadable, bytes_of, whole

_MB_MS = 2**20 * 1000
"""Byte ms in an MB s."""
_BUFFER = 0.5
"""Share of memory that may stay unused before it counts as wasted (allocated_memory_waste_buffer_percentage)."""


@dataclass(frozen=True, slots=True)
class Metrics:
    """Used and wasted memory x time, MB s; wait is never counted."""

    used_mb_s: int
    wasted_mb_s: int


def judged_ms(app: App) -> int:
    """Return the duration used by Dr. Elephant: that of the oldest attempt, until now while running."""
    oldest = app.attempts[-1] if app.attempts else None
    if oldest is not None and oldest.start_ms is not None and oldest.end_ms is not None:
        return oldest.end_ms - oldest.start_ms
    return app.runtime_ms or 0


def metrics(app: App) -> Metrics:
    """Return the metrics; 0 if instances or memory are unset or unreadable, or without a duration."""
    instances = whole(app.properties.get("spark.executor.instances"))
    text = app.properties.get("spark.executor.memory")
    try:
        memory = bytes_of(text) if text is not None else None
    except Unreadable:
        memory = None
    duration = judged_ms(app)
    if instances is None or memory is None or duration < 0:
        return Metrics(0, 0)
    used = _cut(instances * memory * duration)
    work = _cut(memory * sum(executor.duration_ms for executor in app.active))
    return Metrics(used, int(max(0.0, used - work * (1.0 + _BUFFER))))


def _cut(byte_ms: int) -> int:
    """Return MB s, truncated."""
    return byte_ms // _MB_MS if byte_ms >= 0 else -(-byte_ms // _MB_MS)


def throws(app: App) -> str:
    """Return the exception for an unreadable property, or empty."""
    instances, memory = app.properties.get("spark.executor.instances"), app.properties.get("spark.executor.memory")
    if instances is not None and whole(instances) is None:
        return f'java.lang.NumberFormatException: For input string: "{instances}"'
    try:
        if memory is not None:
            bytes_of(memory)
    except Unreadable as error:
        return str(error)
    return ""
