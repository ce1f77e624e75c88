"""The events of some files, up to a moment."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import polars as pl

from engine.core.inputs import FILE, FileInfo, Inputs

TERMINAL = ("SUCCEEDED", "FAILED", "KILLED", "ERROR")
"""States in which a job or attempt has ended."""
EVENT_TABLES = ("job_events", "task_starts", "task_ends", "attempt_starts", "attempt_ends")
"""The input tables that tasks, attempts and states of a job come from."""


class Events:
    """The input rows of some files. Each attribute but ``infos`` is the frame of one input table."""

    def __init__(self, inputs: Inputs, files: Collection[int], at_ms: int | None) -> None:
        """Take the rows of ``files``; with ``at_ms`` (epoch ms) without what happened later."""
        self.infos: Mapping[int, FileInfo] = {i: inputs.files[i] for i in files}
        self.jobs, self.task_starts, self.task_ends, self.attempt_starts, self.attempt_ends, self.conf = (
            rows_of(inputs, name, files) for name in (*EVENT_TABLES, "conf")
        )
        if at_ms is not None:
            self._drop_after(at_ms)

    def _drop_after(self, at: int) -> None:
        """Drop what happened after ``at``; jobs that end later still run."""
        self.task_starts = self.task_starts.filter(pl.col("scheduled_ms").fill_null(at) <= at)
        self.task_ends = self.task_ends.filter(pl.col("finish_ms").fill_null(at) <= at)
        self.attempt_starts = self.attempt_starts.filter(pl.col("start_ms").fill_null(at) <= at)
        self.attempt_ends = self.attempt_ends.filter(pl.col("finish_ms").fill_null(at) <= at)
        begun = pl.coalesce("time_ms", "submit_ms", "launch_ms", pl.lit(at))
        later = pl.col("finish_ms").fill_null(at) > at
        jobs = self.jobs.filter((begun <= at) & ~pl.col("event").is_in(["BROKEN", "CUT"]))
        self.jobs = jobs.with_columns(
            [
                pl.when(later).then(pl.lit(None)).otherwise(pl.col(name)).alias(name)
                for name in ("finish_ms", "maps_finished", "reduces_finished", "attempts_running", "diagnostics")
            ]
            + [pl.when(later).then(pl.lit("RUNNING")).otherwise(pl.col("state")).alias("state")]
        )
        timed = pl.any_horizontal(pl.col("submit_ms", "launch_ms", "am_start_ms").is_not_null())
        alive = self.jobs.filter(timed).select("job_id", FILE).unique()
        self.jobs = self.jobs.join(alive, on=["job_id", FILE], how="semi")


def rows_of(inputs: Inputs, name: str, files: Collection[int]) -> pl.DataFrame:
    """The rows of input table ``name`` that come from ``files``."""
    return inputs.table(name) if len(files) == len(inputs.files) else inputs.of(name, frozenset(files))
