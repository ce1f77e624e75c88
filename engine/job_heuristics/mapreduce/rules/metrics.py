"""The four metrics of a job: memory used and wasted, wait and run time.

By Dr. Elephant's code (``MapReduceMetricsAggregator``, ``TaskLevelAggregatedMetrics``) and by its published description;
see docs/models/job-heuristics.md, "Metrics".
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import polars as pl

from engine.job_heuristics.dr_elephant.gates import Array
from engine.job_heuristics.dr_elephant.metrics import (
    UNKNOWN,
    Whole,
    memory,
    peaks,
    seconds,
    waits,
)
from engine.job_heuristics.dr_elephant.side_stats import Sides, SideTasks

_LARGEST = 2**63 - 1
CONTAINERS = ("map_memory_mb", "reduce_memory_mb")
"""Columns of the job model with the containers that the metrics count with: of a map and of a reduce."""


def published_measures(tasks: SideTasks, containers: tuple[Array, Array], slow_start: Array) -> dict[str, Array]:
    """Compute the measures of the published metrics, per job and side.

    ``containers``: MB of a map and of a reduce, per job. ``slow_start``: per job, the share of finished maps at which
    its reduces may begin.
    """
    container = np.column_stack(containers).astype(np.int64).ravel()
    return {
        "exact_ms": tasks.whole(tasks["total_ms"]),
        "slow_finish_ms": tasks.ranked(tasks["finish_ms"], np.repeat(slow_start, 2)),
        "wasted_per_task": tasks.whole((container[tasks.segment] - peaks(tasks)) * seconds(tasks)),
    }


def compute(jobs: pl.DataFrame, sides: Sides, *, published: bool = False) -> dict[str, Whole]:
    """Return ``used_mb_s``, ``wasted_mb_s``, ``wait_ms`` and ``runtime_ms`` of each job, in the order of ``jobs``.

    Only jobs that succeeded or failed have wait and run time.
    """
    if published:
        used, wasted = _published_memory(jobs, sides)
    else:
        containers = (jobs[CONTAINERS[0]].to_numpy(), jobs[CONTAINERS[1]].to_numpy())
        used, wasted = memory(containers, _side(sides, "seconds"), _side(sides, "peak_mb"))
    submit: list[int | None] = jobs["submit_ms"].to_list()
    begin: list[int | None] = jobs["launch_ms"].to_list() if published else submit
    end: list[int | None] = jobs["finish_ms"].to_list()
    over = [state in ("SUCCEEDED", "FAILED") and at is not None for state, at in zip(jobs["state"], end, strict=True)]
    start = np.array([UNKNOWN if at is None else at for at in begin], dtype=np.int64)
    maps, reduces = ({name: values[k::2] for name, values in sides.items()} for k in (0, 1))
    waited = waits(maps, reduces, start, maps["slow_finish_ms"] if published else None).tolist()
    return {
        "used_mb_s": used,
        "wasted_mb_s": wasted,
        "wait_ms": [w if o and b is not None else None for w, o, b in zip(waited, over, begin, strict=True)],
        "runtime_ms": [
            None if not o or a is None or b is None else b - a for o, a, b in zip(over, submit, end, strict=True)
        ],
    }


def _side(sides: Mapping[str, Array], name: str) -> tuple[Array, Array]:
    """Return a measure of maps and of reduces, per job."""
    return sides[name][0::2], sides[name][1::2]


def _published_memory(jobs: pl.DataFrame, sides: Sides) -> tuple[Whole, Whole]:
    """Return MB s used and wasted by the published description: exact times, and each task's own peak. None beyond 64
    bit."""
    used = [
        [mb * ms // 1000 for mb, ms in zip(jobs[name].to_list(), spent.tolist(), strict=True)]
        for name, spent in zip(CONTAINERS, _side(sides, "exact_ms"), strict=True)
    ]
    return _summed(*used), _summed(*(unused.tolist() for unused in _side(sides, "wasted_per_task")))


def _summed(maps: list[int], reduces: list[int]) -> list[int | None]:
    """Return the sum per job; None where it, or one of both, is beyond 64 bit."""
    sums = [(abs(a), abs(a + b), a + b) for a, b in zip(maps, reduces, strict=True)]
    return [total if first <= _LARGEST and both <= _LARGEST else None for first, both, total in sums]
