"""What an application held and spent: executors, heaps, slots, time and its true cost."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from functools import cached_property

import msgspec
import numpy as np
import polars as pl
from numpy.typing import NDArray

from engine.job_heuristics.dr_elephant.metrics import Part, costs_of
from engine.job_heuristics.spark.model.app import (
    DRIVER,
    MB,
    App,
    Executor,
    container_mb,
    is_dynamic,
    is_local,
    spark_ms,
)

Ints = NDArray[np.int64]
_LOCAL = re.compile(r"local\[\s*(\d{1,5}|\*)")
_GIVEN_BACK = re.compile(
    r"explicit termination request|killed by driver|\bidle\b|decommission\W*$|scale ?down|shut ?down", re.IGNORECASE
)
"""Reasons of a removal that the driver asked for."""
_UNCLEAR = re.compile(r"deleted by|code:? (?:0|143)\b|^$")
"""Reasons of a removal that the driver may have asked for: of an idle executor it did."""
IDLE_TIMEOUT, IDLE_MS, IDLE_SHARE = "spark.dynamicAllocation.executorIdleTimeout", 60_000, 0.95
"""Idle time, by default, after which dynamic allocation gives an executor back; and the part of it that tells."""


class Held(msgspec.Struct, frozen=True):
    """One executor: its container, cores, task slots (cores over cores of a task), start and end."""

    executor: Executor
    mb: int
    cores: int
    slots: int
    begin_ms: int
    end_ms: int

    @property
    def life_ms(self) -> int:
        """Its lifetime."""
        return self.end_ms - self.begin_ms


class Resources(msgspec.Struct, frozen=True, dict=True):
    """All executors that run tasks, and the container of a driver that runs none."""

    app: App
    held: tuple[Held, ...]
    driver_mb: int
    driver_ms: int

    @cached_property
    def given_back(self) -> frozenset[str]:
        """Executors that Spark gave back: by the reason in the log, or, where that tells nothing, idle for as long as dynamic
        allocation waits. All others that were removed are lost."""
        wait = (self.app.properties.get(IDLE_TIMEOUT) or "").strip()
        least = IDLE_SHARE * spark_ms(f"{wait}s" if wait.isdecimal() else wait, IDLE_MS)
        last = dict(self.app.tasks.group_by("executor").agg(pl.col("finish_ms").max()).iter_rows())
        found = set()
        for one in self.held:
            reason, name = one.executor.reason or "", one.executor.name
            idle = one.end_ms - max(one.begin_ms, last.get(name, 0))
            unclear = is_dynamic(self.app) and idle >= least and _UNCLEAR.search(reason)
            if not one.executor.active and (unclear or _GIVEN_BACK.search(reason)):
                found.add(name)
        return frozenset(found)

    @cached_property
    def core_ms(self) -> int:
        """Cores x time of all executors."""
        return sum(one.cores * one.life_ms for one in self.held)

    @cached_property
    def slot_ms(self) -> int:
        """Task slots x time of all executors."""
        return sum(one.slots * one.life_ms for one in self.held)

    @cached_property
    def slots(self) -> int:
        """Peak number of task slots."""
        return self._most([one.slots for one in self.held])

    @cached_property
    def count(self) -> int:
        """Peak number of executors."""
        return self._most([1] * len(self.held))

    def _most(self, weights: list[int]) -> int:
        times, levels = self.timeline(weights)
        return int(levels.max()) if len(times) else 0

    def timeline(self, weights: list[int]) -> tuple[Ints, Ints]:
        """Return the moments at which executors were added or removed, and their number (or weight) from then on."""
        if not self.held:
            return np.zeros(0, np.int64), np.zeros(0, np.int64)
        values = np.array(weights, dtype=np.int64)
        moments = np.array([[one.begin_ms, one.end_ms] for one in self.held], dtype=np.int64)
        times, place = np.unique(moments.ravel(), return_inverse=True)
        change = np.zeros(len(times), dtype=np.int64)
        np.add.at(change, place.reshape(-1), np.column_stack([values, -values]).ravel())
        return times, np.cumsum(change)


def resources(app: App) -> Resources:
    """Return the resources of an application, until now while running."""
    end, local = app.end_ms or 0, is_local(app)
    start = app.start_ms if app.start_ms is not None else end
    default_cpus = max(1, app.number("spark.task.cpus", 1))
    mb = container_mb(app, DRIVER) if local else container_mb(app, "executor")
    held = []
    for executor in app.executors:
        if executor.name == DRIVER and not (local or executor.task_ms):
            continue
        cores = executor.cores or (
            _local_cores(app) if executor.name == DRIVER else app.number("spark.executor.cores", 1)
        )
        cpus = app.cpus.get(executor.profile, default_cpus) if executor.profile else default_cpus
        begin = executor.add_ms if executor.add_ms is not None else start
        until = executor.remove_ms if executor.remove_ms is not None else end
        held.append(Held(executor, mb, cores, max(1, cores // cpus), begin, max(begin, until)))
    drives = not local and not any(one.executor.name == DRIVER for one in held)
    return Resources(app, tuple(held), container_mb(app, DRIVER) if drives else 0, max(0, end - start) if drives else 0)


def _local_cores(app: App) -> int:
    found = _LOCAL.match(app.properties.get("spark.master") or "")
    return int(found.group(1)) if found and found.group(1).isdecimal() else 1


def busy_ms(app: App) -> dict[str, int]:
    """Return the time with at least one task by executor; running tasks count until now."""
    columns = ("executor", "launch_ms", "finish_ms")
    running = app.running.select("executor", "launch_ms", finish_ms=pl.lit(app.end_ms or 0, pl.Int64))
    spans = pl.concat([app.tasks.select(columns), running]).sort("executor", "launch_ms")
    before = pl.col("finish_ms").cum_max().shift(1).over("executor")  # end of all tasks that began earlier
    return dict(
        spans.with_columns(ms=(pl.col("finish_ms") - pl.max_horizontal("launch_ms", before)).clip(lower_bound=0))
        .group_by("executor")
        .agg(pl.col("ms").sum())
        .iter_rows()
    )


def job_intervals(app: App) -> list[tuple[int, int]]:
    """Return the intervals with at least one Spark job, in order."""
    spans = sorted(
        (job.submit_ms, job.finish_ms if job.finish_ms is not None else app.end_ms or job.submit_ms)
        for job in app.jobs
        if job.submit_ms is not None
    )
    union: list[tuple[int, int]] = []
    for begin, end in spans:
        if union and begin <= union[-1][1]:
            union[-1] = (union[-1][0], max(union[-1][1], end))
        else:
            union.append((begin, max(begin, end)))
    return union


CAUSES = ("useful", "over-sizing", "idle executors", "failures", "speculation", "killed", "running", "driver")
"""Causes in the order they are shown."""


def costs(
    apps: Mapping[str, App], headroom: float, price_gb_h: float | None = None, price_vcore_h: float | None = None
) -> pl.DataFrame:
    """Return the rows of ``COSTS``: applications in their order, causes in ``CAUSES`` order, only causes that cost
    something. An executor needed at most ``headroom`` times its largest heap; without logged memory nothing counts as
    over-sizing."""
    parts = {app_id: split(resources(app), headroom) for app_id, app in apps.items()}
    return costs_of(parts, CAUSES, price_gb_h, price_vcore_h)


def split(held: Resources, headroom: float = 1.5) -> dict[str, Part]:
    """Return attempts, MB ms and core ms by cause."""
    found: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0])
    by_executor = _task_times(held.app)
    for one in held.held:
        _add(found, one, by_executor.get(one.executor.name, {}), headroom)
    if held.driver_ms:
        found["driver"] = [1, held.driver_mb * held.driver_ms, held.driver_ms]
    return {cause: (a, b, c) for cause, (a, b, c) in found.items()}


def _add(found: dict[str, list[int]], one: Held, times: Mapping[str, tuple[int, int]], headroom: float) -> None:
    """Add the costs of one executor; ``times``: attempts and ms of its tasks by cause."""
    whole = one.mb * one.life_ms
    # Host clocks differ: more task time than slot time means full slots.
    room = max(one.slots * one.life_ms, sum(ms for _, ms in times.values()))
    left = whole
    cores_left = one.cores * one.life_ms
    for cause, (attempts, ms) in times.items():
        mb_ms, core_ms = (value * ms // room if room else 0 for value in (whole, one.cores * one.life_ms))
        left, cores_left = left - mb_ms, cores_left - core_ms
        part = found[cause]
        part[0], part[2] = part[0] + attempts, part[2] + core_ms
        over = mb_ms * (one.mb - (_needed_mb(one, headroom) if cause == "useful" else one.mb)) // one.mb
        part[1] += mb_ms - over
        if over:
            found["over-sizing"][0] += attempts
            found["over-sizing"][1] += over
    idle = found["idle executors"]
    idle[:] = idle[0] + 1, idle[1] + left, idle[2] + cores_left


def _needed_mb(one: Held, headroom: float) -> int:
    """Return the MB an executor needed: its container without the unused heap."""
    peaks = one.executor.peaks
    peak = (peaks["jvm_rss"] + peaks["python_rss"] + peaks["other_rss"]) or peaks["heap"] + peaks["off_heap"]
    return min(one.mb, int(peak * headroom) // MB + 1) if peak else one.mb


def _task_times(app: App) -> dict[str, dict[str, tuple[int, int]]]:
    """Return attempts and ms of tasks by executor and cause."""
    killed = pl.col("reason").is_in(["TaskKilled", "TaskCommitDenied"])
    cause = (
        pl.when(pl.col("reason") == "Success").then(pl.lit("useful"))
        .when(pl.col("speculative") | (pl.col("error").fill_null("").str.contains("another attempt succeeded", literal=True)))
        .then(pl.lit("speculation")).when(killed).then(pl.lit("killed")).otherwise(pl.lit("failures"))
    )  # fmt: skip
    columns = ("executor", "launch_ms", "finish_ms", "cause")
    ended = app.tasks.filter(pl.col("reason") != "Resubmitted").with_columns(cause=cause).select(columns)
    running = app.running.with_columns(finish_ms=pl.lit(app.end_ms, pl.Int64), cause=pl.lit("running")).select(columns)
    ms = (pl.col("finish_ms") - pl.col("launch_ms")).clip(lower_bound=0)
    both = pl.concat([ended, running]).drop_nulls("finish_ms").group_by("executor", "cause")
    found: dict[str, dict[str, tuple[int, int]]] = defaultdict(dict)
    for executor, why, attempts, total in both.agg(pl.len(), ms.sum().alias("ms")).iter_rows():
        found[executor][why] = (attempts, total)
    return found
