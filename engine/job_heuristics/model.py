"""The assembled model: one row per job, task and attempt. Everything that analyses jobs is a function of it."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from engine.job_heuristics.tables import ATTEMPT_MODEL, CONF_MODEL, JOB_MODEL, TASK_MODEL


@dataclass(frozen=True)
class Model:
    """What ``assembly.assemble`` gives; each frame has exactly its declared columns in its declared order of rows.

    ``jobs`` (JOB_MODEL), ``tasks`` (TASK_MODEL), ``attempts`` (ATTEMPT_MODEL), ``conf`` (CONF_MODEL).
    """

    jobs: pl.DataFrame
    tasks: pl.DataFrame
    attempts: pl.DataFrame
    conf: pl.DataFrame

    @classmethod
    def empty(cls) -> Model:
        """A model without jobs."""
        return cls(JOB_MODEL.empty(), TASK_MODEL.empty(), ATTEMPT_MODEL.empty(), CONF_MODEL.empty())

    def job(self, job_id: str) -> Model:
        """The part of the model that belongs to one job."""
        wanted = pl.col("job_id") == job_id
        return Model(*(f.filter(wanted) for f in (self.jobs, self.tasks, self.attempts, self.conf)))
