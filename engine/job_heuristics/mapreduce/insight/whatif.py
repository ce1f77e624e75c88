"""What if: the effect of other containers, splits, reducers, slow start or limits on metrics and verdicts.

The model is simple and deterministic; ``Prediction.assumptions`` states it in words. Work per byte stays, starting a
task costs what the robust line of time on bytes says, containers are as many as ran at the peak, and the task times
are dealt to them greedily; only the *difference* to the same model of the actual job is used, so that unmodelled
effects cancel.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from typing import Any

import msgspec
import numpy as np
import polars as pl

from engine.job_heuristics.dr_elephant.gates import Array
from engine.job_heuristics.dr_elephant.metrics import MEASURES as METRICS
from engine.job_heuristics.dr_elephant.side_stats import truncated
from engine.job_heuristics.mapreduce.insight.job_verdicts import job_verdicts, tasks_of
from engine.job_heuristics.mapreduce.insight.skew import robust_line
from engine.job_heuristics.mapreduce.model.model import MB, NO_COUNTERS, Ints, Job, Side, number
from engine.job_heuristics.mapreduce.rules.heuristics import MapReduceRules
from engine.job_heuristics.mapreduce.rules.verdict_tables import metrics_of

START_MS = 2000.0  # assumed ms to start a task where bytes do not explain the time
START_MOST_MS = 60_000.0  # upper limit of the ms to start a task
COPY_BYTES_PER_MS = 30 * MB / 1000  # assumed copy rate of a reducer, bytes per ms, if none started after the last map

LARGEST = 2**53  # upper limit of predicted ms, bytes or records
MOST = 100_000  # most tasks of a side that are simulated


class Scenario(msgspec.Struct, frozen=True):
    """What to change; None keeps what the job had. Containers in MB, ``split_bytes`` the mean input of a map,
    ``slowstart`` 0-1 the share of finished maps at which reducers start."""

    map_mb: int | None = None
    reduce_mb: int | None = None
    split_bytes: int | None = None
    reduces: int | None = None
    slowstart: float | None = None


class Metrics(msgspec.Struct, frozen=True):
    """Dr. Elephant's four metrics: MB s used and wasted, ms of wait and run time."""

    used_mb_s: int
    wasted_mb_s: int
    wait_ms: int | None
    runtime_ms: int | None


class Prediction(msgspec.Struct, frozen=True, eq=False):
    """A job under a scenario: the changed ``job``, its metrics, the level per heuristic, the model in words, and
    warnings (a container below the peak, more map output than the sort buffer)."""

    job: Job
    metrics: Metrics
    levels: Mapping[str, int]
    assumptions: tuple[str, ...]
    warnings: tuple[str, ...]


def metrics(job: Job) -> Metrics:
    """Return the four metrics of a job by Dr. Elephant's code; wait and run time are None while it runs."""
    sides = [tasks_of(side) for side in job.sides]
    values = {"timed": np.array([len(side.total) for side in job.sides])} | {
        name: np.concatenate(both)
        for measure in METRICS
        for name, *both in zip(measure.names, *(measure.compute(tasks) for tasks in sides), strict=True)
    }
    row = {
        "submit_ms": job.row["submit_ms"],
        "finish_ms": job.row["finish_ms"],
        "state": "RUNNING" if job.running else "SUCCEEDED",
        "map_memory_mb": job.maps.container_mb,
        "reduce_memory_mb": job.reduces.container_mb,
    }
    one = {name: values[0] for name, values in metrics_of(pl.DataFrame([row]), values).items()}
    return Metrics(one["used_mb_s"] or 0, one["wasted_mb_s"] or 0, one["wait_ms"], one["runtime_ms"])


def _whole(values: Array) -> Ints:
    """Round to whole numbers within ``LARGEST``, so that damaged histories cannot break a prediction."""
    return truncated(np.clip(np.rint(values), -LARGEST, LARGEST))


def makespan(times: Ints, slots: int) -> int:
    """Return when the last of ``times`` (ms) ends if ``slots`` containers take them greedily in the given order.

    Above 5,000 tasks: the mean load plus half the longest, which greedy dealing approaches.
    """
    n = len(times)
    if not n:
        return 0
    slots = max(1, slots)
    if n <= slots:
        return int(times.max())
    if n > 5000:
        return max(int(times.max()), int(times.sum() / slots + times.max() / 2))
    busy = [0] * slots
    for t in times.tolist():
        heapq.heapreplace(busy, busy[0] + t)
    return min(max(busy), LARGEST)


def peak_slots(start: Ints, finish: Ints) -> int:
    """Return the largest number of intervals that overlap; an end at the moment of a start does not count."""
    if not len(start):
        return 0
    change = np.concatenate([-np.ones(len(finish), dtype=np.int64), np.ones(len(start), dtype=np.int64)])
    return max(1, int(np.cumsum(change[np.lexsort((change, np.concatenate([finish, start])))]).max()))


def predict(job: Job, scenario: Scenario, rules: MapReduceRules) -> Prediction:
    """Return ``job`` under ``scenario`` judged by ``rules``. An empty scenario gives the job unchanged."""
    assumptions: list[str] = []
    warnings: list[str] = []
    maps = _maps(job, scenario, assumptions, warnings)
    ended = int(job.maps.finish.max()) if len(job.maps.finish) else int(job.row["launch_ms"] or 0)
    map_slots = peak_slots(job.maps.start, job.maps.finish)
    shift = makespan(maps.total, _slots(map_slots, job.maps, maps)) - makespan(job.maps.total, map_slots)
    if len(maps.finish):
        shift = max(shift, int(maps.total.max()) - (ended - int(job.maps.start.min())))
    maps = (
        msgspec.structs.replace(maps, finish=maps.finish + (ended + shift - int(maps.finish.max())))
        if len(maps.finish)
        else maps
    )
    reduces, longer = _reduces(job, scenario, ended, assumptions, warnings)
    last = int(job.reduces.finish.max()) if len(job.reduces.finish) else ended
    if len(reduces.finish):
        reduces = msgspec.structs.replace(
            reduces, finish=reduces.finish + (last + shift + longer - int(reduces.finish.max()))
        )
    row = dict(job.row)
    if row.get("finish_ms") is not None:
        moved = shift + (longer if len(job.reduces.total) else 0)
        row["finish_ms"] = max(int(row["submit_ms"] or 0), int(row["finish_ms"]) + moved)
    changed = msgspec.structs.replace(job, row=row, maps=maps, reduces=reduces)
    if shift or longer:
        assumptions.append("containers at once, dealt greedily: " + ", ".join(_at_once(job, maps, reduces)))
    levels = {verdict.name: verdict.level for verdict in job_verdicts(changed, rules)}
    return Prediction(changed, metrics(changed), levels, tuple(assumptions), tuple(warnings))


def _at_once(job: Job, maps: Side, reduces: Side) -> list[str]:
    """Return concurrent containers per side with tasks: predicted, and at the actual peak."""
    return [
        f"{_slots(peak, old, new):,} {word} (at the peak it had {peak:,})"
        for old, new, word in ((job.maps, maps, "maps"), (job.reduces, reduces, "reducers"))
        if len(new.total)
        for peak in (peak_slots(old.start, old.finish),)
    ]


def _slots(slots: int, old: Side, new: Side) -> int:
    """Return the concurrent containers of a changed side: more if smaller ones fit and the job had to wait."""
    return (
        max(slots, len(new.total))
        if len(old.total) <= slots
        else max(1, slots * old.container_mb // max(1, new.container_mb))
    )


def _contain(side: Side, mb: int | None, assumptions: list[str], warnings: list[str]) -> Side:
    if mb is None or mb == side.container_mb:
        return side
    assumptions.append(f"{side.name} container {mb} MB: memory used and run times stay")
    peak = int(side.peak.max()) // MB if len(side.peak) else 0
    if peak >= mb:
        warnings.append(f"a {side.word} reached {peak} MB: a container of {mb} MB would be killed")
    return msgspec.structs.replace(side, container_mb=mb, stated_mb=mb)


def _start_cost(side: Side, work: Ints) -> float:
    """Return the fixed ms per task: intercept of the robust line of time on bytes if bytes explain the time, else
    START_MS; never more than half of the shortest task or START_MOST_MS."""
    line = robust_line(side.size.astype(np.float64), work.astype(np.float64))
    cost = line.intercept if line.explained > 0.5 and line.slope > 0 else START_MS
    return float(np.clip(cost, 0, min(START_MOST_MS, 0.5 * float(work.min())) if len(work) else 0))


def _pick(n: int, wanted: int) -> Ints:
    """Return ``wanted`` of n tasks, evenly over their order, each about equally often."""
    return ((np.arange(wanted) + 0.5) * n / wanted).astype(np.int64)


def _taken(side: Side, at: Ints, per_task: float) -> Side:
    """Return the side with the tasks ``at``; input-dependent numbers are scaled by ``per_task``, memory is unchanged."""
    taken = side.at(at)
    scaled: dict[str, Any] = {name: _whole(getattr(taken, name) * per_task) for name in _BY_INPUT}
    return msgspec.structs.replace(taken, n=len(at), planned=len(at), untimed=NO_COUNTERS, **scaled)


_BY_INPUT = ("size", "cpu", "gc", "spilled", "out_records", "out_bytes")  # numbers of a task that grow with its input


def _maps(job: Job, scenario: Scenario, assumptions: list[str], warnings: list[str]) -> Side:
    side = _contain(job.maps, scenario.map_mb, assumptions, warnings)
    n, total_bytes = len(side.total), int(side.size.sum())
    if scenario.split_bytes is None or not n:
        return side
    if total_bytes <= 0:
        warnings.append("the maps' input bytes are not counted: the split size cannot be simulated")
        return side
    wanted = int(np.clip(np.ceil(total_bytes / max(1, scenario.split_bytes)), 1, MOST))
    if wanted == n:
        return side
    cost = _start_cost(side, side.total)
    at = _pick(n, wanted)
    factor = total_bytes / max(1, int(side.size[at].sum()))
    assumptions.append(f"{wanted:,} maps instead of {n:,}: bytes are shared out, a start costs {cost / 1000:.1f} s")
    total = _whole(cost + (side.total[at] - cost) * factor)
    changed = _taken(side, at, factor)
    sort_mb = number(job.conf, "mapreduce.task.io.sort.mb", 100) * number(
        job.conf, "mapreduce.map.sort.spill.percent", 0.8
    )
    if len(changed.out_bytes) and float(np.median(changed.out_bytes)) > sort_mb * MB >= float(
        np.median(side.out_bytes)
    ):
        warnings.append("the output of the larger maps no longer fits the sort buffer: they would spill more than once")
    return msgspec.structs.replace(
        changed,
        total=total,
        shuffle=np.zeros(wanted, dtype=np.int64),
        sort=np.zeros(wanted, dtype=np.int64),
        finish=changed.start + total,
    )


def idle_ms(side: Side, last_map: int) -> Ints:
    """Return per reducer, ms between its start and the last map's end (or its own shuffle's end)."""
    return np.clip(np.minimum(last_map, side.start + side.shuffle) - side.start, 0, side.total)


def _reduces(
    job: Job, scenario: Scenario, last_map: int, assumptions: list[str], warnings: list[str]
) -> tuple[Side, int]:
    """Return the changed reduces, and how many ms later (or earlier) the last of them ends, relative to the last map."""
    side = _contain(job.reduces, scenario.reduce_mb, assumptions, warnings)
    n = len(side.total)
    if not n:
        if scenario.reduces is not None or scenario.slowstart is not None:
            warnings.append("the job has no reducer: their number and the slow start change nothing")
        return side, 0
    slots = peak_slots(job.reduces.start, job.reduces.finish)
    idle = idle_ms(side, last_map)
    after = side.total - idle
    before_span = makespan(after, slots)
    start, tail = side.start, side.shuffle - idle
    if scenario.slowstart is not None and len(job.maps.finish):
        start, tail = _later(job, side, scenario.slowstart, last_map, start, tail)
        idle = np.clip(last_map - start, 0, None) * (side.start < last_map)
        assumptions.append(f"slow start {scenario.slowstart:.2f}: reducers copy what is left after the last map")
    code, sort = side.code, side.sort
    if scenario.reduces is not None and scenario.reduces != n:
        wanted = int(np.clip(scenario.reduces, 1, MOST))
        at = _pick(n, wanted)
        factor = float(side.size.sum()) / max(1, int(side.size[at].sum())) if side.size.sum() > 0 else n / wanted
        cost = min(START_MS, 0.5 * float(after.min()))
        assumptions.append(
            f"{wanted:,} reducers instead of {n:,}: keys are shared out evenly, a start costs {cost / 1000:.1f} s"
        )
        hottest = float(side.size.max()) / max(1.0, float(np.median(side.size)))
        if wanted > n and hottest >= 3:
            warnings.append(f"the largest reducer has {hottest:.1f} times the median bytes: one hot key is not divided")

        def share(values: Ints) -> Ints:
            return _whole(values[at] * factor)

        fixed = max(int(cost * (1 - factor)), -LARGEST)
        start, idle = start[at], idle[at]
        tail, sort, code = share(tail), share(sort), np.maximum(0, share(code) + fixed)
        side = msgspec.structs.replace(_taken(side, at, factor), start=start)
    total = idle + tail + sort + code
    after = total - idle
    longer = makespan(after, _slots(slots, job.reduces, side)) - before_span
    return msgspec.structs.replace(
        side, total=total, shuffle=idle + tail, sort=sort, start=start, finish=start + total
    ), longer


def _later(job: Job, side: Side, slowstart: float, last_map: int, start: Ints, tail: Ints) -> tuple[Ints, Ints]:
    now = number(job.conf, "mapreduce.job.reduce.slowstart.completedmaps", 0.05)
    ordered = np.sort(job.maps.finish)

    def moment(share: float) -> int:
        return int(ordered[max(0, int(np.ceil(min(max(share, 0.0), 1.0) * len(ordered))) - 1)])

    wanted, current = moment(slowstart), moment(now)
    early = start < last_map
    moved = np.maximum(start, wanted) if wanted >= current else np.maximum(wanted, start - (current - wanted))
    moved = np.where(early, np.minimum(moved, last_map), start)
    # bytes per ms that one reducer copies: median of those that started after the last map, else assumed
    late = (side.start >= last_map) & (side.shuffle > 0) & (side.size > 0)
    rate = float(np.median(side.size[late] / side.shuffle[late])) if late.any() else COPY_BYTES_PER_MS
    left = np.maximum(0, _whole(np.ceil(side.size / rate)) - (last_map - moved))
    return moved, np.where(early, np.maximum(tail, np.where(moved > start, left, 0)), tail)
