"""The four metrics of a job: memory used and wasted, wait and run time.

By Dr. Elephant's code (``MapReduceMetricsAggregator``, ``TaskLevelAggregatedMetrics``) and by its published description;
see docs/models/job-heuristics.md, "Metrics".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import polars as pl

from engine.job_heuristics.dr_elephant.gates import MB, Array
from engine.job_heuristics.dr_elephant.side_stats import Measure, Sides, SideTasks, TaskStats, divided, truncated

HEADROOM = 1.5
"""Multiple of the peak memory that does not count as wasted."""
VIRTUAL_PER_PHYSICAL = 2.1
"""Dr. Elephant's constant for yarn.nodemanager.vmem-pmem-ratio."""
_LARGEST = 2**63 - 1
CONTAINERS = ("map_memory_mb", "reduce_memory_mb")
"""Columns of the job model with the containers that the metrics count with: of a map and of a reduce."""
UNKNOWN = -1
"""Hadoop's value, ms, of a time that was never set."""


def _seconds(tasks: TaskStats) -> Array:
    """Return whole seconds of each task."""
    return divided(tasks["total_ms"], 1000)


def _peaks(tasks: TaskStats) -> Array:
    """Return each task's assumed need in MB: physical memory, or virtual memory over the node manager's ratio."""
    virtual = truncated(divided(tasks["virtual_bytes"], MB) / VIRTUAL_PER_PHYSICAL)
    return np.maximum(divided(tasks["physical_bytes"], MB), virtual)


MEASURES = (
    Measure(("seconds",), lambda tasks: (tasks.whole(_seconds(tasks)),)),
    Measure(("peak_mb",), lambda tasks: (np.maximum(tasks.largest(_peaks(tasks), 0), 0),)),
    Measure(("longest_ms",), lambda tasks: (np.maximum(tasks.largest(tasks["total_ms"], 0), 0),)),
    Measure(("last_finish_ms",), lambda tasks: (tasks.largest(tasks["finish_ms"], UNKNOWN),)),
)
"""Measures of the metrics by Dr. Elephant's code; ``last_finish_ms`` is ``UNKNOWN`` without timed tasks."""


def published_measures(tasks: SideTasks, containers: tuple[Array, Array], slow_start: Array) -> dict[str, Array]:
    """Compute the measures of the published metrics, per job and side.

    ``containers``: MB of a map and of a reduce, per job. ``slow_start``: per job, the share of finished maps at which
    its reduces may begin.
    """
    container = np.column_stack(containers).astype(np.int64).ravel()
    return {
        "exact_ms": tasks.whole(tasks["total_ms"]),
        "slow_finish_ms": tasks.ranked(tasks["finish_ms"], np.repeat(slow_start, 2)),
        "wasted_per_task": tasks.whole((container[tasks.segment] - _peaks(tasks)) * _seconds(tasks)),
    }


Whole = Sequence[int | None]
"""One whole number per job."""


def compute(jobs: pl.DataFrame, sides: Sides, *, published: bool = False) -> dict[str, Whole]:
    """Return ``used_mb_s``, ``wasted_mb_s``, ``wait_ms`` and ``runtime_ms`` of each job, in the order of ``jobs``.

    Only jobs that succeeded or failed have wait and run time.
    """
    used, wasted = (_published_memory if published else _memory)(jobs, sides)
    submit: list[int | None] = jobs["submit_ms"].to_list()
    begin: list[int | None] = jobs["launch_ms"].to_list() if published else submit
    end: list[int | None] = jobs["finish_ms"].to_list()
    over = [state in ("SUCCEEDED", "FAILED") and at is not None for state, at in zip(jobs["state"], end, strict=True)]
    start = np.array([UNKNOWN if at is None else at for at in begin], dtype=np.int64)
    waits = _waits(sides, start, published=published).tolist()
    return {
        "used_mb_s": used,
        "wasted_mb_s": wasted,
        "wait_ms": [w if o and b is not None else None for w, o, b in zip(waits, over, begin, strict=True)],
        "runtime_ms": [
            None if not o or a is None or b is None else b - a for o, a, b in zip(over, submit, end, strict=True)
        ],
    }


def _side(sides: Mapping[str, Array], name: str) -> tuple[Array, Array]:
    """Return a measure of maps and of reduces, per job."""
    return sides[name][0::2], sides[name][1::2]


def _memory(jobs: pl.DataFrame, sides: Sides) -> tuple[Whole, Whole]:
    """Return MB s used and wasted by the code: whole seconds, and one peak for all tasks of a side. Beyond 64 bit they wrap
    around, as Dr. Elephant's do."""
    used = wasted = np.zeros(jobs.height, dtype=np.int64)
    for name, seconds, peak in zip(CONTAINERS, _side(sides, "seconds"), _side(sides, "peak_mb"), strict=True):
        container = jobs[name].to_numpy()
        used = used + container * seconds
        wasted = wasted + np.maximum(container - truncated(peak * HEADROOM), 0) * seconds
    return used.tolist(), wasted.tolist()


def _published_memory(jobs: pl.DataFrame, sides: Sides) -> tuple[Whole, Whole]:
    """Return MB s used and wasted by the published description: exact times, and each task's own peak. None beyond 64
    bit."""
    used = [
        [mb * ms // 1000 for mb, ms in zip(jobs[name].to_list(), spent.tolist(), strict=True)]
        for name, spent in zip(CONTAINERS, _side(sides, "exact_ms"), strict=True)
    ]
    return _summed(*used), _summed(*(unused.tolist() for unused in _side(sides, "wasted_per_task")))


def _waits(sides: Sides, start: Array, *, published: bool) -> Array:
    """Return ms by which maps and reduces ended later than ideal start plus longest task."""
    finish, longest, timed = (_side(sides, name) for name in ("last_finish_ms", "longest_ms", "timed"))
    ideal, floor = finish[0], 0
    if published:
        slow = _side(sides, "slow_finish_ms")[0]
        ideal, floor = np.where(slow > 0, slow, start), np.iinfo(np.int64).min
    maps, reduces = (np.maximum(each, 0) for each in finish)
    map_wait = np.where(timed[0] > 0, np.maximum(floor, maps - (start + longest[0])), 0)
    # Without a finished map reduces cannot be late.
    both = (timed[1] > 0) & (timed[0] > 0) & (finish[0] != UNKNOWN)
    return map_wait + np.where(both, np.maximum(floor, reduces - (ideal + longest[1])), 0)


def _summed(maps: list[int], reduces: list[int]) -> list[int | None]:
    """Return the sum per job; None where it, or one of both, is beyond 64 bit."""
    sums = [(abs(a), abs(a + b), a + b) for a, b in zip(maps, reduces, strict=True)]
    return [total if first <= _LARGEST and both <= _LARGEST else None for first, both, total in sums]
