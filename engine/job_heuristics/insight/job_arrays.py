"""One job's numbers as arrays: what why, certainty, skew, cost and recommendations all look at."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from engine.job_heuristics.insight import phases
from engine.job_heuristics.model.job_conf import DEFAULT_AM_MB
from engine.job_heuristics.model.model import Model

Ints = NDArray[np.int64]

__all__ = ["DEFAULT_AM_MB", "DEFAULT_CONTAINER_MB", "MB", "Ints", "Job", "Side", "attempts", "job", "number", "resolve"]

MB = 2**20
DEFAULT_CONTAINER_MB = 2048

_VARIABLE = re.compile(r"\$\{([^\}\$\s]{1,200})\}")


def resolve(conf: Mapping[str, str], key: str, rounds: int = 20) -> str | None:
    """Value of ``key`` with ``${other}`` replaced as Hadoop's Configuration does: one variable at a time, at most
    ``rounds`` times; unknown variables stay. None without the key."""
    value = conf.get(key)
    if value is None:
        return None
    for _ in range(rounds):
        found = _VARIABLE.search(value)
        if found is None or found.group(1) not in conf or len(value) > 10_000:
            break
        value = value[: found.start()] + conf[found.group(1)] + value[found.end() :]
    return value


def number(conf: Mapping[str, str], key: str, default: float) -> float:
    """Value of ``key`` as a finite number, or ``default``."""
    try:
        value = float((resolve(conf, key) or "").strip())
    except ValueError:
        return default
    return value if np.isfinite(value) else default


@dataclass(frozen=True, slots=True, eq=False)
class Side:
    """The maps or the reduces of one job. Arrays hold the tasks that have times, in task order; ``n`` counts all tasks
    of the side that the history ended, ``planned`` those the job will have; ``size`` is bytes read by a map or fetched
    by a reduce; ``peak`` the best known peak of physical memory in bytes (Hadoop 3's maximum where there, else the last
    snapshot); ``container_mb`` as the metrics see it, ``memory_container_mb`` as the Memory heuristic does."""

    name: str
    n: int
    planned: int
    container_mb: int
    memory_container_mb: int
    total: Ints
    shuffle: Ints
    sort: Ints
    start: Ints
    finish: Ints
    size: Ints
    cpu: Ints
    gc: Ints
    pmem: Ints
    vmem: Ints
    peak: Ints
    spilled: Ints
    out_records: Ints
    out_bytes: Ints
    hosts: tuple[str, ...]
    racks: tuple[str, ...]

    @property
    def code(self) -> Ints:
        """Run time without shuffle and sort, ms."""
        result: Ints = self.total - self.shuffle - self.sort
        return result

    @property
    def word(self) -> str:
        """``map`` or ``reducer``, as in sentences."""
        return "map" if self.name == "map" else "reducer"


@dataclass(frozen=True, slots=True, eq=False)
class Job:
    """One job: its row of the job model, its configuration, both sides and all attempts."""

    row: Mapping[str, Any]
    conf: Mapping[str, str]
    maps: Side
    reduces: Side
    attempts: phases.Attempts

    @property
    def id(self) -> str:
        """Job id."""
        return str(self.row["job_id"])

    @property
    def running(self) -> bool:
        """Whether the history has no final event."""
        return self.row["state"] in ("RUNNING", "UNKNOWN")

    @property
    def sides(self) -> tuple[Side, Side]:
        """Maps, reduces."""
        return self.maps, self.reduces


def job(model: Model) -> Job | None:
    """The job of a model that holds exactly one (``Model.job``); None if it holds none."""
    if not model.jobs.height:
        return None
    row = model.jobs.row(0, named=True)
    conf = dict(zip(model.conf["key"].to_list(), model.conf["value"].to_list(), strict=True))
    return Job(
        row=row,
        conf=conf,
        maps=side(model.tasks, "map", row, conf),
        reduces=side(model.tasks, "reduce", row, conf),
        attempts=attempts(model.attempts, row),
    )


def _ints(frame: pl.DataFrame, column: str) -> Ints:
    return frame[column].fill_null(0).to_numpy()


def side(tasks: pl.DataFrame, name: str, row: Mapping[str, Any], conf: Mapping[str, str]) -> Side:
    """One side of a job from its TASK_MODEL rows."""
    mine = tasks.filter(pl.col("side") == name)
    timed = mine.filter(pl.col("timed") & pl.col("total_ms").is_not_null())
    ended = int(mine["ended_ms"].is_not_null().sum())
    planned = int(row["maps" if name == "map" else "reduces"] or 0)
    container = int(row[f"{name}_memory_mb"] or DEFAULT_CONTAINER_MB)
    stated = number(conf, f"mapreduce.{name}.memory.mb", 0)
    peak = np.maximum(_ints(timed, f"{name}_physical_max_bytes"), _ints(timed, "physical_bytes"))
    return Side(
        name=name,
        n=ended,
        planned=max(planned, mine.height),
        container_mb=container,
        memory_container_mb=int(stated) if 0 < stated < 2**40 else container,
        total=_ints(timed, "total_ms"),
        shuffle=_ints(timed, "shuffle_ms"),
        sort=_ints(timed, "sort_ms"),
        start=_ints(timed, "start_ms"),
        finish=_ints(timed, "finish_ms"),
        size=_ints(timed, "input_bytes" if name == "map" else "reduce_shuffle_bytes"),
        cpu=_ints(timed, "cpu_ms"),
        gc=_ints(timed, "gc_ms"),
        pmem=_ints(timed, "physical_bytes"),
        vmem=_ints(timed, "virtual_bytes"),
        peak=peak,
        spilled=_ints(timed, "spilled_records"),
        out_records=_ints(timed, "map_output_records"),
        out_bytes=_ints(timed, "map_output_bytes"),
        hosts=tuple(timed["host"].fill_null("").to_list()),
        racks=tuple(timed["rack"].fill_null("").to_list()),
    )


OUTCOMES = {"SUCCEEDED": phases.SUCCEEDED, "FAILED": phases.FAILED, "KILLED": phases.KILLED, "RUNNING": phases.RUNNING}


def attempts(frame: pl.DataFrame, row: Mapping[str, Any]) -> phases.Attempts:
    """Attempts of one job from its ATTEMPT_MODEL rows; a running attempt ends, for now, at the newest event."""
    newest = int(row["finish_ms"] or row["last_event_ms"] or 0)
    unknown = phases.UNKNOWN
    tasks = frame["task_id"].fill_null("").rank("dense").cast(pl.Int64).to_numpy() - 1 if frame.height else np.zeros(0)
    finish = pl.col("finish_ms").fill_null(pl.max_horizontal(pl.lit(newest), pl.col("start_ms")))
    columns = frame.select(
        pl.col("scheduled_ms").fill_null(unknown),
        pl.col("start_ms").fill_null(unknown),
        finish=pl.when(pl.col("start_ms").is_null() & pl.col("finish_ms").is_null())
        .then(pl.lit(unknown))
        .otherwise(finish),
        shuffle=pl.col("shuffle_finish_ms").fill_null(unknown),
        sort=pl.col("sort_finish_ms").fill_null(unknown),
        outcome=pl.col("state").replace_strict(OUTCOMES, default=phases.RUNNING, return_dtype=pl.Int8),
    )
    return phases.Attempts(
        task=tasks.astype(np.int64),
        is_map=(frame["side"] == "map").fill_null(False).to_numpy(),
        scheduled=columns["scheduled_ms"].to_numpy(),
        start=columns["start_ms"].to_numpy(),
        finish=columns["finish"].to_numpy(),
        shuffle_end=columns["shuffle"].to_numpy(),
        sort_end=columns["sort"].to_numpy(),
        outcome=columns["outcome"].to_numpy(),
        chosen=frame["chosen"].fill_null(False).to_numpy(),
        speculative=(frame["avataar"] == "SPECULATIVE").fill_null(False).to_numpy(),
        host=tuple(frame["host"].fill_null("").to_list()),
        label=tuple(frame["attempt_id"].fill_null("").to_list()),
    )
