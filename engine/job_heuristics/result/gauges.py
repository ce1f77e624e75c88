"""What of the job heuristics view goes on to Prometheus: sums by queue and user, no single job."""

from __future__ import annotations

from engine.output.exposition import PERCENT, Gauge

_MB_SECONDS = 1048576.0
_GROUP = {"group": "group", "by": "by"}


def _group(name: str, column: str, meaning: str, factor: float = 1.0) -> Gauge:
    return Gauge(f"jobs{name}", "rollup", column, meaning, _GROUP, factor)


GAUGES = (
    _group("", "jobs", "Jobs of the group."),
    _group("_used_byte_seconds", "used_mb_s", "Memory that the group's jobs reserved, over time.", _MB_SECONDS),
    _group("_wasted_byte_seconds", "wasted_mb_s", "Memory that they reserved and did not use, over time.", _MB_SECONDS),
    _group("_wasted_ratio", "wasted_percent", "Part of the reserved memory that was not used.", PERCENT),
    _group("_severe", "severe", "Jobs whose worst verdict is severe."),
    _group("_critical", "critical", "Jobs whose worst verdict is critical."),
)
