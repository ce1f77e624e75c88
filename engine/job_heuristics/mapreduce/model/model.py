"""The assembled model: one row per job, task and attempt. Everything that analyses jobs is a function of it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate
from typing import NamedTuple

import polars as pl

from engine.job_heuristics.mapreduce.model import job_conf
from engine.job_heuristics.mapreduce.model.arrays import AttemptArrays, TaskArrays, attempts_of, tasks_of
from engine.job_heuristics.mapreduce.tables import ATTEMPT_MODEL, CONF_MODEL, JOB_MODEL, TASK_MODEL


class ModelFrames(NamedTuple):
    """The four frames of one assembly, each with exactly the columns its table declares, in the declared order."""

    jobs: pl.DataFrame
    tasks: pl.DataFrame
    attempts: pl.DataFrame
    conf: pl.DataFrame


class JobPart(NamedTuple):
    """One job: the position of its rows in the frames of their assembly, and its settings."""

    frames: ModelFrames
    spans: tuple[tuple[int, int], ...]
    """First row and number of rows, for each of the frames."""
    settings: job_conf.Settings


def parts_of(frames: ModelFrames, settings: Mapping[str, job_conf.Settings]) -> dict[str, JobPart]:
    """Divide ``frames`` by job, in the order of its jobs. Copies no rows."""
    spans = [_spans(frame["job_id"]) for frame in frames]
    nothing = job_conf.Settings()
    return {
        job: JobPart(frames, tuple(each.get(job, (0, 0)) for each in spans), settings.get(job, nothing))
        for job in spans[0]
    }


def _spans(names: pl.Series) -> dict[str, tuple[int, int]]:
    """First row and number of rows of each job; rows of one job lie together."""
    runs = names.rle().struct.unnest()
    heights = runs["len"].to_list()
    begins = accumulate(heights, initial=0)
    return {job: (begin, height) for job, begin, height in zip(runs["value"].to_list(), begins, heights, strict=False)}


@dataclass(frozen=True)
class Model:
    """Jobs with ``jobs`` (JOB_MODEL), ``tasks`` (TASK_MODEL), ``attempts`` (ATTEMPT_MODEL) and ``conf`` (CONF_MODEL),
    each with exactly its declared columns in its declared order.

    ``revisions``: number per job that changes when the job is reassembled. A model of few jobs is cheap; the whole
    ``tasks``, ``attempts`` and ``conf`` are concatenated on first use: avoid them on the live path.
    """

    parts: Mapping[str, JobPart] = field(repr=False)
    revisions: Mapping[str, int] = field(repr=False, default_factory=dict)
    _last_part: dict[frozenset[str], Model] = field(repr=False, compare=False, default_factory=dict)

    @classmethod
    def of(cls, jobs: pl.DataFrame, tasks: pl.DataFrame, attempts: pl.DataFrame, conf: pl.DataFrame) -> Model:
        """Make a model of whole frames in their declared order."""
        return cls(parts_of(ModelFrames(jobs, tasks, attempts, conf), job_conf.settings_by_job(conf)))

    @cached_property
    def jobs(self) -> pl.DataFrame:
        """One row per job."""
        by_place = sorted(self.parts.values(), key=lambda part: (id(part.frames), part.spans[0]))
        return JOB_MODEL.sorted(_glued(by_place, 0, JOB_MODEL.empty()))

    @cached_property
    def tasks(self) -> pl.DataFrame:
        """The tasks of all jobs."""
        return _glued(self._by_id, 1, TASK_MODEL.empty())

    @cached_property
    def attempts(self) -> pl.DataFrame:
        """The attempts of all jobs."""
        return _glued(self._by_id, 2, ATTEMPT_MODEL.empty())

    @cached_property
    def conf(self) -> pl.DataFrame:
        """The configurations of all jobs."""
        return _glued(self._by_id, 3, CONF_MODEL.empty())

    @cached_property
    def _by_id(self) -> list[JobPart]:
        """The parts in the order of their job ids."""
        return [self.parts[job] for job in sorted(self.parts)]

    @cached_property
    def names(self) -> list[str]:
        """The job ids in the order of ``jobs``."""
        return self.jobs["job_id"].to_list()

    @cached_property
    def stamps(self) -> dict[str, int]:
        """The revision of each job, in the order of ``jobs``."""
        return {job: self.revisions[job] for job in self.names}

    @cached_property
    def arrays(self) -> tuple[TaskArrays, AttemptArrays]:
        """Tasks and attempts as arrays; ``job`` counts in the order of ``jobs``."""
        return tasks_of(self.tasks, self.names), attempts_of(self.attempts, self.names)

    @cached_property
    def settings(self) -> dict[str, job_conf.Settings]:
        """What the configuration of each job says."""
        return {job: self.parts[job].settings for job in self.names}

    @cached_property
    def properties(self) -> dict[str, Mapping[str, str]]:
        """The properties for verdicts, by job."""
        return {job: settings.properties for job, settings in self.settings.items()}

    def only(self, jobs: Collection[str]) -> Model:
        """Return the model of ``jobs`` only. The last one is cached with its arrays, since verdicts and costs ask for
        the same part in turn."""
        wanted = frozenset(jobs)
        if wanted == self.parts.keys():
            return self
        if wanted not in self._last_part:
            self._last_part.clear()
            parts = {job: self.parts[job] for job in jobs if job in self.parts}
            self._last_part[wanted] = Model(parts, self.revisions)
        return self._last_part[wanted]


def _glued(parts: Iterable[JobPart], which: int, empty: pl.DataFrame) -> pl.DataFrame:
    """Concatenate the rows of ``parts`` in frame number ``which``; adjacent rows are taken as one slice."""
    runs: list[tuple[pl.DataFrame, int, int]] = []
    for part in parts:
        frame, (begin, height) = part.frames[which], part.spans[which]
        if height and runs and runs[-1][0] is frame and runs[-1][2] == begin:
            runs[-1] = (frame, runs[-1][1], begin + height)
        elif height:
            runs.append((frame, begin, begin + height))
    slices = [frame.slice(begin, end - begin) for frame, begin, end in runs]
    return slices[0] if len(slices) == 1 else pl.concat([empty, *slices], rechunk=True)
