"""Actual cost of a job: all attempts and the application master, split by causes that add up exactly.

Dr. Elephant counts only the attempt that succeeded. Here each attempt's container (MB) times its run time (ms) goes
to one cause; a successful attempt is divided into waiting, over-sizing and useful parts. Integers throughout.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import polars as pl

from engine.job_heuristics.dr_elephant.gates import Array
from engine.job_heuristics.dr_elephant.metrics import costs_of
from engine.job_heuristics.dr_elephant.side_stats import Segments
from engine.job_heuristics.mapreduce.model.arrays import KILLED, RUNNING, SUCCEEDED, AttemptArrays, TaskArrays, filled
from engine.job_heuristics.mapreduce.model.job_conf import COST_KEYS, DEFAULT_MB
from engine.job_heuristics.mapreduce.model.model import MB, Model

CAUSES: tuple[tuple[str, str], ...] = (
    ("useful", "memory that tasks needed, while they worked"),
    ("over-sizing", "container memory above peak x head-room, while tasks worked"),
    ("idle reducers", "reducers holding a container before the last map had finished"),
    ("failures", "attempts that failed, and successes whose output was lost"),
    ("speculation", "losers of speculative races"),
    ("killed", "other killed attempts: preemption, lost nodes, a killed job"),
    ("running", "attempts that still run, so far"),
    ("application master", "the container that ran the job"),
)
"""Causes in the order they are shown, with their meaning."""
NAMES = tuple(name for name, _ in CAUSES)


def costs(
    model: Model, headroom: float = 1.5, price_gb_h: float | None = None, price_vcore_h: float | None = None
) -> pl.DataFrame:
    """Return the rows of ``COSTS``: jobs in model order, causes in ``CAUSES`` order, only causes that cost something.

    A task needed at most ``headroom`` times the side's largest known peak; without measured memory nothing counts as
    over-sizing. Uber jobs ran inside the application master: their attempts cost nothing extra.
    """
    jobs, (tasks, attempts) = model.jobs, model.arrays
    ids: list[str] = jobs["job_id"].to_list()
    count = len(ids)

    def setting(name: str) -> Array:
        default = COST_KEYS[name][1]
        return np.array([model.settings[job].cost.get(name, default) for job in ids], dtype=np.int64)

    finish, newest = jobs["finish_ms"].to_list(), jobs["last_event_ms"].to_list()
    ends = [b if a is None else a for a, b in zip(finish, newest, strict=True)]
    until, known_end = np.array([e or 0 for e in ends], np.int64), np.array([e is not None for e in ends], bool)
    uber = np.array([bool(value) for value in jobs["uberized"].to_list()], dtype=bool)
    side, job = attempts.job * 2 + ~attempts.is_map, attempts.job

    def per_side(map_name: str, reduce_name: str, most: int, read: Callable[[str], Array]) -> Array:
        both = np.empty(2 * count, dtype=np.int64)
        both[0::2], both[1::2] = read(map_name), read(reduce_name)
        return np.clip(np.where(np.repeat(uber, 2), 0, both), 0, most)

    container = per_side("map_memory_mb", "reduce_memory_mb", 2**20, lambda name: filled(jobs[name], DEFAULT_MB))
    mb, cores = container[side], per_side("map_vcores", "reduce_vcores", 2**16, setting)[side]
    needed = np.minimum(_needs(tasks, count, headroom), container)[side]
    good = attempts.chosen & (attempts.state == SUCCEEDED)
    ms = np.clip(np.where(attempts.finished, attempts.finish_ms, until[attempts.job]) - attempts.start_ms, 0, 2**42)
    ms[~attempts.finished & ~known_end[attempts.job]] = 0
    idle = np.minimum(_idle(attempts, good, count), ms)
    worked = ms - idle
    lost = ~good
    running, killed = attempts.state == RUNNING, attempts.state == KILLED
    races = attempts.raced & (killed | (attempts.state == SUCCEEDED))
    masters, never = filled(jobs["am_start_ms"], _NEVER), until + 1
    am_ms = np.where(known_end, np.clip(until - np.where(masters == _NEVER, never, masters), 0, 2**42), 0)
    rows: dict[str, tuple[Array, Array, Array, Array | None, Array]] = {
        "useful": (good, job, needed, cores, worked),
        "over-sizing": (good & (mb > needed), job, mb - needed, None, worked),
        "idle reducers": (good & (idle > 0), job, mb, cores, idle),
        "failures": (lost & ~running & ~races & ~killed, job, mb, cores, ms),
        "speculation": (lost & ~running & races, job, mb, cores, ms),
        "killed": (lost & killed & ~races, job, mb, cores, ms),
        "running": (lost & running, job, mb, cores, ms),
        "application master": (am_ms > 0, np.arange(count), setting("am_mb"), setting("am_vcores"), am_ms),
    }
    memory, vcores, parts = (np.zeros((count, len(NAMES)), dtype=np.int64) for _ in range(3))
    for rank, cause in enumerate(NAMES):
        mask, job, held_mb, held_cores, held_ms = rows[cause]
        at = np.flatnonzero(mask)
        if len(at):
            s, span = Segments(job[at], count), held_ms[at]
            parts[:, rank], memory[:, rank] = s.size, s.whole(held_mb[at] * span)
            if held_cores is not None:
                vcores[:, rank] = s.whole(held_cores[at] * span)
    cells = zip(ids, parts.tolist(), memory.tolist(), vcores.tolist(), strict=True)
    by_job = {name: dict(zip(NAMES, zip(*of_job, strict=True), strict=True)) for name, *of_job in cells}
    return costs_of(by_job, NAMES, price_gb_h, price_vcore_h)


_NEVER = -(2**63)


def _needs(tasks: TaskArrays, count: int, headroom: float) -> Array:
    """Return peak MB times ``headroom`` per job and side; a huge number if memory was not measured."""
    peak = Segments(tasks.side[tasks.timed], 2 * count).largest(tasks.numbers["peak"], 0)
    return np.where(peak > 0, np.clip(np.ceil(peak * headroom / MB), 1, 2**30).astype(np.int64), 2**62)


def _idle(attempts: AttemptArrays, good: Array, count: int) -> Array:
    """Return per attempt: ms from its start to the end of its shuffle or of the job's last map, whichever came first;
    0 for maps."""
    maps = np.flatnonzero(good & attempts.is_map & attempts.finished)
    last = Segments(attempts.job[maps], count)
    end = last.largest(attempts.finish_ms[maps], 0)
    late = np.flatnonzero(~attempts.is_map)
    job = attempts.job[late]
    never = np.int64(2**62)
    first = np.minimum(
        np.where(last.size[job] > 0, end[job], never),
        np.where(attempts.shuffled[late], attempts.shuffle_finish_ms[late], never),
    )
    idle = np.zeros(len(attempts.job), dtype=np.int64)
    idle[late] = np.where(first < never, np.maximum(first - attempts.start_ms[late], 0), 0)
    return idle


WASTE = ("over-sizing", "idle reducers", "idle executors", "idle containers", "failures", "speculation", "killed")
"""Avoidable causes, of jobs of every kind."""


def waste(costs_frame: pl.DataFrame) -> dict[str, tuple[float, float]]:
    """Return by job the MB s of all attempts, and those with a cause in ``WASTE``; jobs without cost are absent."""
    found: dict[str, tuple[float, float]] = {}
    for job, cause, mb_s in zip(*(costs_frame[name].to_list() for name in ("job_id", "cause", "mb_s")), strict=True):
        spent, avoidable = found.get(job, (0.0, 0.0))
        found[job] = (spent + mb_s, avoidable + mb_s if cause in WASTE else avoidable)
    return found
