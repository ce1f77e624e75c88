"""Locality: tasks that ran away from their data, how much longer they took, and how long slots waited for a better place."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import polars as pl

from engine.core import units
from engine.job_heuristics.spark.insight.findings.insight import Insight, level
from engine.job_heuristics.spark.insight.resources import Resources, spark_ms
from engine.job_heuristics.spark.model.app import App

LEVELS = ("PROCESS_LOCAL", "NODE_LOCAL", "RACK_LOCAL", "ANY")
"""From the nearest on."""
FAR = LEVELS.index("RACK_LOCAL")
LEAST_TASKS, FAR_SHARE = 20, 0.1
"""A stage is looked at from so many tasks on, and stands out if more than a tenth of them ran far from their data."""
LEAST_WAIT_MS, WAIT_SHARE = 10_000, 0.05
"""Waits stand out from so long on, if they are more than a twentieth of the time of the stage's tasks."""
WAIT = "spark.locality.wait"
DEFAULT_WAIT_MS = 3_000


def insights(app: App, held: Resources) -> Iterator[Insight]:
    """Yield the insights on locality, by stage."""
    placed = app.tasks.with_columns(gap=launch_gaps(app, held)).filter(
        (pl.col("reason") == "Success") & pl.col("locality").is_in(LEVELS)
    )
    if placed.height < LEAST_TASKS or placed["locality"].n_unique() == 1:
        return
    places = pl.col("locality").replace_strict(LEVELS, range(len(LEVELS)), return_dtype=pl.Int64)
    placed = placed.with_columns(place=places)
    wait = spark_ms(app.properties.get(WAIT), DEFAULT_WAIT_MS)
    for (stage, _), tasks in placed.partition_by(
        "stage_id", "stage_attempt", maintain_order=True, as_dict=True
    ).items():
        if tasks.height >= LEAST_TASKS:
            yield from _far(f"stage {stage}", tasks, wait)
            yield from _waited(f"stage {stage}", tasks, wait)


def _far(subject: str, tasks: pl.DataFrame, wait: int) -> Iterator[Insight]:
    """Compare tasks far from their data with those near it."""
    far, near = tasks.filter(pl.col("place") >= FAR), tasks.filter(pl.col("place") < FAR)
    share = far.height / tasks.height
    moved = int(far.select((pl.col("input_bytes") + pl.col("remote_bytes")).sum()).item() or 0)
    if share < FAR_SHARE or not moved:
        return
    usual = pl.lit(near["run_ms"].median())
    lost = int(far.select((pl.col("run_ms") - usual).clip(lower_bound=0).sum()).item() or 0) if near.height else 0
    each = lost / far.height
    longer = f"{min(60, round(each / 1000))}s" if each > max(wait, 1000) else ""
    words = (
        f"they took {units.duration(lost)} longer than as many near theirs" if near.height else "none ran near its data"
    )
    yield Insight(
        "locality", subject, f"{share:.0%}", f"{FAR_SHARE:.0%}",
        max(1, level(lost / max(1, int(tasks["run_ms"].sum())), 0.02, 0.1, 0.25, 0.5)),
        f"{far.height:,} of {tasks.height:,} tasks ran on other hosts than their data and read {units.size(moved)}; {words}.",
        WAIT if longer else "", longer,
    )  # fmt: skip


def _waited(subject: str, tasks: pl.DataFrame, wait: int) -> Iterator[Insight]:
    """Sum up how long slots were free before they were given a task that had hoped for a nearer place."""
    best = tasks["place"].min()
    late = tasks.filter((pl.col("place") > best) & (pl.col("gap") > 0))
    waited, took = int(late["gap"].sum()), int(tasks["run_ms"].sum())
    if not wait or waited < LEAST_WAIT_MS or waited < WAIT_SHARE * took:
        return
    yield Insight(
        "locality wait", subject, units.duration(waited), f"{WAIT_SHARE:.0%} of task time",
        level(waited / max(1, took), WAIT_SHARE, 0.1, 0.3, 0.5),
        f"Task slots were free for {units.duration(waited)} in all before {late.height:,} tasks that had waited for a nearer "
        f"place started elsewhere ({WAIT} {units.duration(wait)}); its tasks ran {units.duration(took)}.",
        WAIT, "0s",
    )  # fmt: skip


def launch_gaps(app: App, held: Resources) -> pl.Series:
    """Return per ended task the ms for which a slot of its executor was free while the task waited: from the end of the task
    before it on that slot, or the submission of its stage, to its launch. Slots are taken in the order in which they become
    free."""
    slots = {one.executor.name: one.slots for one in held.held}
    stages = {stage.key: stage.submit_ms for stage in app.stages if stage.submit_ms is not None}
    keys = ("stage_id", "stage_attempt")
    submitted = pl.DataFrame([(*key, ms) for key, ms in stages.items()], [*keys, "since"], orient="row")
    tasks = app.tasks.select("executor", "task_id", "launch_ms", "finish_ms", *keys).with_row_index()
    if submitted.height:
        tasks = tasks.join(submitted, on=keys, how="inner")
    gaps = np.zeros(app.tasks.height, dtype=np.int64)
    for (executor,), each in tasks.partition_by("executor", as_dict=True).items():
        if executor not in slots or "since" not in each.columns:
            continue
        count, part = slots[executor], each.sort("launch_ms", "task_id")
        free = np.zeros(part.height, dtype=np.int64)
        free[count:] = np.sort(part["finish_ms"].to_numpy())[: max(0, part.height - count)]
        begun = np.maximum(free, part["since"].to_numpy())
        gaps[part["index"].to_numpy()] = np.maximum(part["launch_ms"].to_numpy() - begun, 0)
    return pl.Series("gap", gaps)
