"""Skewed stages and their cause: more data, a slow host, or costly keys; and the waves of tasks."""

from __future__ import annotations

from collections import defaultdict

import msgspec
import numpy as np
import polars as pl
from numpy.typing import NDArray

from engine.job_heuristics.spark.model.app import (
    App,
    Stage,
    is_on,
    spark_bytes,
    version,
)
from engine.job_heuristics.spark.rules.settings import is_sql

MOST_RATIO, LEAST_MS = 5.0, 5_000  # a stage is skewed if its longest task takes more than 5 times the median, and 5 s
DATA_RATIO, HOST_RATIO = 2.0, 1.5
Ints = NDArray[np.int64]


class StageTasks(msgspec.Struct, frozen=True):
    """Distribution of a stage attempt's successful tasks: times in ms, bytes read (input and shuffle). ``cause``:
    data, host, keys, or empty if not skewed; ``host``: of the longest task; ``host_ratio``: slowdown there in a
    skewed stage; ``tail_ms``: slot time idle while the last tasks ran."""

    stage: Stage
    tasks: int
    median_ms: int
    longest_ms: int
    median_bytes: int
    longest_bytes: int
    largest_bytes: int
    host: str
    host_ratio: float
    cause: str
    spilling: int
    overhead_ms: int
    duration_ms: int
    tail_ms: int

    @property
    def ratio(self) -> float:
        """Ratio of longest to median."""
        return self.longest_ms / self.median_ms if self.median_ms else float("inf") if self.longest_ms else 0.0


def stage_tasks(app: App, slots: int) -> dict[tuple[int, int], StageTasks]:
    """Return the stages with successful tasks by id and attempt; ``slots``: peak number of slots."""
    good = app.tasks.filter((pl.col("reason") == "Success") & pl.col("measured"))
    if not good.height:
        return {}
    stages = {stage.key: stage for stage in app.stages}
    found = {}
    columns = good.select(
        "stage_id", "stage_attempt", "run_ms", "host", "memory_spilled", "finish_ms",
        read=pl.col("input_bytes") + pl.col("remote_bytes") + pl.col("local_bytes"),
        moved=pl.max_horizontal(
            "input_bytes", "output_bytes", "shuffle_write_bytes", pl.col("remote_bytes") + pl.col("local_bytes")
        ),
        took=(pl.col("finish_ms") - pl.col("launch_ms")).clip(lower_bound=0),
        worked=pl.col("run_ms") + pl.col("deserialize_ms") + pl.col("serialize_ms"),
        fetched=pl.when(pl.col("getting_ms") > 0).then(pl.col("finish_ms") - pl.col("getting_ms")).otherwise(0),
    )  # fmt: skip
    for key, part in columns.partition_by("stage_id", "stage_attempt", maintain_order=True, as_dict=True).items():
        stage = stages.get((int(key[0]), int(key[1])))
        if stage is not None:
            found[stage.key] = _of_stage(stage, part, slots)
    return found


def waves(app: App, slots: int) -> dict[tuple[int, int], tuple[int, ...]]:
    """Return when each wave of a stage attempt began, epoch ms: tasks by launch, ``slots`` per wave, including
    running ones."""
    columns = ("stage_id", "stage_attempt", "launch_ms")
    launched = pl.concat([app.tasks.select(columns), app.running.select(columns)]).sort(columns)
    first = pl.int_range(pl.len()).over("stage_id", "stage_attempt") % max(1, slots) == 0
    found: dict[tuple[int, int], list[int]] = defaultdict(list)
    for stage, attempt, ms in launched.filter(first).iter_rows():
        found[stage, attempt].append(ms)
    return {key: tuple(starts) for key, starts in found.items()}


def _of_stage(stage: Stage, part: pl.DataFrame, slots: int) -> StageTasks:
    run, read = part["run_ms"].to_numpy(), part["read"].to_numpy()
    longest = int(run.argmax())
    median, middle = int(np.median(run)), int(np.median(read))
    host = part["host"][longest]
    skewed = run[longest] > LEAST_MS and run[longest] > MOST_RATIO * max(median, 1)
    ratio = _host_ratio(part, host) if skewed else 1.0
    # Why the longest task took long: its bytes relative to the median, its host relative to others, else its keys.
    much = read[longest] > DATA_RATIO * max(middle, 1)
    cause = "" if not skewed else "data" if much else "host" if ratio >= HOST_RATIO else "keys"
    took = part["took"].to_numpy()
    overhead = np.maximum(took - part["worked"].to_numpy() - part["fetched"].to_numpy(), 0)
    # The last task of each slot: after its end the slot is idle for this stage.
    last = np.sort(part["finish_ms"].to_numpy())[-max(1, slots) :]
    return StageTasks(
        stage, part.height, median, int(run[longest]), middle, int(read[longest]), int(part["moved"].max() or 0),  # type: ignore[arg-type]
        host, ratio, cause,
        int((part["memory_spilled"] > 0).sum()),
        int(overhead.sum()), int(took.sum()), int((last[-1] - last).sum()),
    )  # fmt: skip


def _host_ratio(part: pl.DataFrame, host: str) -> float:
    """Return the ratio of a host's median task time to that of the others; 1 with too few tasks."""
    mine, others = part.filter(pl.col("host") == host)["run_ms"], part.filter(pl.col("host") != host)["run_ms"]
    if len(mine) < 2 or len(others) < 2:
        return 1.0
    a, b = float(np.median(mine.to_numpy())), float(np.median(others.to_numpy()))
    return a / b if b else 1.0


def split_up(one: StageTasks, ms: int) -> list[int]:
    """Return the times of a task of a skewed stage split into parts as long as the median."""
    if ms <= MOST_RATIO * max(one.median_ms, 1):
        return [ms]
    parts = max(2, round(ms / max(one.median_ms, 1)))
    return [ms // parts] * parts


def from_files(one: StageTasks) -> bool:
    """Whether a stage reads more from files than from shuffles: then a large part is a file, and no key."""
    return one.stage.sums["input_bytes"] > one.stage.shuffle_read_bytes


def skew_setting(app: App, one: StageTasks) -> tuple[str, str]:
    """Return the property, and its value, by which Spark divides the large partitions of a join: adaptive execution
    (since 3.0, default since 3.2) if it is off, else a lower threshold of skewed partitions. Empty if none helps:
    before 3.0, outside of SQL, of files, or if a large enough partition was not split because it does not belong to a join."""
    numbers = version(app)
    if (numbers and numbers < (3,)) or not is_sql(app, one.stage) or from_files(one):
        return "", ""
    if not is_on(app, "spark.sql.adaptive.enabled", str(not numbers or numbers >= (3, 2))):
        return "spark.sql.adaptive.enabled", "true"
    if not is_on(app, "spark.sql.adaptive.skewJoin.enabled", "true"):
        return "spark.sql.adaptive.skewJoin.enabled", "true"
    key = "spark.sql.adaptive.skewJoin.skewedPartitionThresholdInBytes"
    return (
        ("", "")
        if one.longest_bytes > spark_bytes(app.properties.get(key), "256m", "b")
        else (key, f"{max(1, one.longest_bytes >> 21)}m")
    )
