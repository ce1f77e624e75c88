"""What a Spark application really cost: each executor's container over its life, split by cause so that the parts add up.

A task holds one slot of its executor. What the slots were used for says what the container was used for; slots without a
task are idle. Integers throughout.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

import numpy as np
import polars as pl

from engine.job_heuristics.spark.insight.resources import MB, Held, Resources, resources
from engine.job_heuristics.spark.model.app import App
from engine.job_heuristics.tables.insight import COSTS

CAUSES = ("useful", "over-sizing", "idle executors", "failures", "speculation", "killed", "running", "driver")
"""Causes in the order they are shown."""
Part = tuple[int, int, int]
"""Attempts, MB ms, core ms."""


def costs(
    apps: Mapping[str, App], headroom: float, price_gb_h: float | None = None, price_vcore_h: float | None = None
) -> pl.DataFrame:
    """Return the rows of ``COSTS``: applications in their order, causes in ``CAUSES`` order, only causes that cost
    something. ``headroom`` times its largest heap is what an executor needed at most; where no memory was logged nothing
    counts as over-sizing."""
    rows: dict[str, list[object]] = {name: [] for name in COSTS.schema}
    for app_id, app in apps.items():
        parts = split(resources(app), headroom)
        total = sum(mb_ms for _, mb_ms, _ in parts.values())
        for cause in CAUSES:
            attempts, mb_ms, core_ms = parts.get(cause, (0, 0, 0))
            if mb_ms <= 0 and core_ms <= 0:
                continue
            priced = price_gb_h is not None or price_vcore_h is not None
            price = mb_ms / 1024 / 3.6e6 * (price_gb_h or 0) + core_ms / 3.6e6 * (price_vcore_h or 0)
            cells = (
                app_id, cause, attempts, mb_ms, mb_ms / 1000, core_ms / 1000, 100 * mb_ms / total if total else 0.0,
                price if priced else None,
            )  # fmt: skip
            for name, cell in zip(rows, cells, strict=True):
                rows[name].append(cell)
    return COSTS.frame(rows)


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
    """Add the parts of one executor; ``times``: attempts and ms of its tasks by cause."""
    whole = one.mb * one.life_ms
    # Clocks of hosts differ: more task time than slots means that the slots were full.
    room = max(one.slots * one.life_ms, sum(ms for _, ms in times.values()))
    left = whole
    cores_left = one.cores * one.life_ms
    for cause, (attempts, ms) in times.items():
        mb_ms, core_ms = (value * ms // room if room else 0 for value in (whole, one.cores * one.life_ms))
        left, cores_left = left - mb_ms, cores_left - core_ms
        part = found[cause]
        part[0], part[2] = part[0] + attempts, part[2] + core_ms
        needed = _needed_mb(one, headroom) if cause == "useful" else one.mb
        over = mb_ms * (one.mb - needed) // one.mb
        part[1] += mb_ms - over
        if over:
            found["over-sizing"][0] += attempts
            found["over-sizing"][1] += over
    idle = found["idle executors"]
    idle[0], idle[1], idle[2] = idle[0] + 1, idle[1] + left, idle[2] + cores_left


def _needed_mb(one: Held, headroom: float) -> int:
    """Return the MB that an executor needed: its container less the heap that was never used."""
    peaks = one.executor.peaks
    rss = peaks["jvm_rss"] + peaks["python_rss"] + peaks["other_rss"]
    peak = rss or peaks["heap"] + peaks["off_heap"]
    return min(one.mb, int(peak * headroom) // MB + 1) if peak else one.mb


def _task_times(app: App) -> dict[str, dict[str, tuple[int, int]]]:
    """Return attempts and ms of tasks by executor and cause."""
    ends = app.tasks
    found: dict[str, dict[str, tuple[int, int]]] = defaultdict(dict)
    if ends.height:
        killed = pl.col("reason").is_in(["TaskKilled", "TaskCommitDenied"])
        cause = (
            pl.when(pl.col("reason") == "Success").then(pl.lit("useful"))
            .when(pl.col("speculative") | (pl.col("error").fill_null("").str.contains("another attempt succeeded", literal=True)))
            .then(pl.lit("speculation")).when(killed).then(pl.lit("killed")).otherwise(pl.lit("failures"))
        )  # fmt: skip
        ms = (pl.col("finish_ms") - pl.col("launch_ms")).clip(lower_bound=0)
        counted = ends.filter(pl.col("reason") != "Resubmitted").group_by("executor", cause.alias("cause")).agg(
            pl.len(), ms.sum().alias("ms")
        )  # fmt: skip
        for executor, why, attempts, total in counted.sort("executor", "cause").iter_rows():
            found[executor][why] = (attempts, total)
    if app.running.height and app.end_ms is not None:
        so_far = np.maximum(app.end_ms - app.running["launch_ms"].to_numpy(), 0)
        for executor, ms_so_far in zip(app.running["executor"].to_list(), so_far.tolist(), strict=True):
            attempts, total = found[executor].get("running", (0, 0))
            found[executor]["running"] = (attempts + 1, total + ms_so_far)
    return found
