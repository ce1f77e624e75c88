"""The four metrics of a job over the tasks of its maps and reduces, as Dr. Elephant's aggregators count them.

Its classes are ``MapReduceMetricsAggregator``, ``TezMetricsAggregator`` and ``TaskLevelAggregatedMetrics``; see
docs/models/job-heuristics.md, "Metrics".
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import numpy as np
import polars as pl

from engine.job_heuristics.dr_elephant.gates import MB, Array
from engine.job_heuristics.dr_elephant.side_stats import Measure, TaskStats, divided, truncated
from engine.job_heuristics.tables import COSTS, of_rows

HEADROOM = 1.5  # multiple of the peak memory that does not count as wasted
VIRTUAL_PER_PHYSICAL = 2.1  # Dr. Elephant's constant for yarn.nodemanager.vmem-pmem-ratio.
UNKNOWN = -1  # Hadoop's value, ms, of a time that was never set


def seconds(tasks: TaskStats) -> Array:
    """Return whole seconds of each task."""
    return divided(tasks["total_ms"], 1000)


def peaks(tasks: TaskStats) -> Array:
    """Return each task's assumed need in MB: physical memory, or virtual memory over the node manager's ratio."""
    virtual = truncated(divided(tasks["virtual_bytes"], MB) / VIRTUAL_PER_PHYSICAL)
    return np.maximum(divided(tasks["physical_bytes"], MB), virtual)


MEASURES = (
    Measure(("seconds",), lambda tasks: (tasks.whole(seconds(tasks)),)),
    Measure(("peak_mb",), lambda tasks: (np.maximum(tasks.largest(peaks(tasks), 0), 0),)),
    Measure(("longest_ms",), lambda tasks: (np.maximum(tasks.largest(tasks["total_ms"], 0), 0),)),
    Measure(("last_finish_ms",), lambda tasks: (tasks.largest(tasks["finish_ms"], UNKNOWN),)),
)
"""Measures of the metrics by Dr. Elephant's code; ``last_finish_ms`` is ``UNKNOWN`` without timed tasks."""

Whole = Sequence[int | None]  # one whole number per job


def memory(containers: Sequence[Array], seconds: Sequence[Array], peaks: Sequence[Array]) -> tuple[Whole, Whole]:
    """Return MB s used and wasted by the code: whole seconds, and one peak for all tasks of a side. Beyond 64 bit they wrap
    around, as Dr. Elephant's do.

    All by side: ``containers`` and ``peaks`` in MB, ``seconds`` over all tasks.
    """
    used = wasted = np.zeros(len(seconds[0]), dtype=np.int64)
    for container, spent, peak in zip(containers, seconds, peaks, strict=True):
        used = used + container * spent
        wasted = wasted + np.maximum(container - truncated(peak * HEADROOM), 0) * spent
    return used.tolist(), wasted.tolist()


def waits(maps: Mapping[str, Array], reduces: Mapping[str, Array], start: Array, slow: Array | None = None) -> Array:
    """Return ms by which maps and reduces ended later than ideal start plus longest task. ``start``: ideal start of maps;
    ``slow``: of reduces by the published description, which has no floor at 0."""
    ideal, floor = maps["last_finish_ms"], 0
    if slow is not None:
        ideal, floor = np.where(slow > 0, slow, start), np.iinfo(np.int64).min
    last = [np.maximum(side["last_finish_ms"], 0) for side in (maps, reduces)]
    map_wait = np.where(maps["timed"] > 0, np.maximum(floor, last[0] - (start + maps["longest_ms"])), 0)
    # Without a finished map reduces cannot be late.
    both = (reduces["timed"] > 0) & (maps["timed"] > 0) & (maps["last_finish_ms"] != UNKNOWN)
    return map_wait + np.where(both, np.maximum(floor, last[1] - (ideal + reduces["longest_ms"])), 0)


JAVA_DOUBLE = re.compile(
    r"[\x00-\x20]*[+-]?(?:NaN|Infinity|(?:(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"
    r"|0[xX](?:[0-9a-fA-F]+\.?|[0-9a-fA-F]*\.[0-9a-fA-F]+)[pP][+-]?[0-9]+)[fFdD]?)[\x00-\x20]*"
)
"""Texts that Java's ``Double.parseDouble`` takes."""
_NO_SLOW_START = 'java.lang.NullPointerException: Cannot invoke "String.trim()" because "in" is null'


def slow_start_error(value: str | None) -> str:
    """Return the error of parsing the slow-start share, which the wait metric reads and does not use."""
    if value is None:
        return _NO_SLOW_START
    return "" if JAVA_DOUBLE.fullmatch(value) else f'java.lang.NumberFormatException: For input string: "{value}"'


Part = tuple[int, int, int]  # attempts, MB ms, core ms


def costs_of(
    parts: Mapping[str, Mapping[str, Part]],
    causes: Sequence[str],
    price_gb_h: float | None,
    price_vcore_h: float | None,
) -> pl.DataFrame:
    """Return the rows of ``COSTS`` from the parts of each job by cause, in the order of ``causes``; only causes that cost
    something."""
    rows = []
    priced = price_gb_h is not None or price_vcore_h is not None
    for job_id, by_cause in parts.items():
        total = sum(mb_ms for _, mb_ms, _ in by_cause.values())
        for cause in causes:
            attempts, mb_ms, core_ms = by_cause.get(cause, (0, 0, 0))
            if mb_ms <= 0 and core_ms <= 0:
                continue
            price = mb_ms / 1024 / 3.6e6 * (price_gb_h or 0) + core_ms / 3.6e6 * (price_vcore_h or 0)
            rows.append(
                (
                    job_id, cause, attempts, mb_ms, mb_ms / 1000, core_ms / 1000, 100 * mb_ms / total if total else 0.0,
                    price if priced else None,
                )
            )  # fmt: skip
    return of_rows(COSTS, rows)
