"""The assembled model: one row per job, task and attempt. Everything that analyses jobs is a function of it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from functools import cached_property

import polars as pl

from engine.job_heuristics.tables import ATTEMPT_MODEL, CONF_MODEL, JOB_MODEL, TASK_MODEL
from engine.tables import Table


class _Rows:
    """A frame sorted by job, cut into the pieces it was assembled in: a job's rows are a slice, and replacing a few
    jobs copies nothing of the others."""

    def __init__(self, table: Table, pieces: list[pl.DataFrame], where: dict[str, tuple[int, int, int]]) -> None:
        self.table = table
        self.pieces = pieces
        self.where = where

    @classmethod
    def of(cls, table: Table, frame: pl.DataFrame) -> _Rows:
        """From one frame sorted by ``job_id``."""
        runs = frame.select(pl.col("job_id").rle().alias("r")).unnest("r")
        where: dict[str, tuple[int, int, int]] = {}
        at = 0
        for length, job in zip(runs["len"].to_list(), runs["value"].to_list(), strict=True):
            where[job] = (0, at, length)
            at += length
        return cls(table, [frame], where)

    def job(self, job_id: str) -> pl.DataFrame:
        """The rows of one job."""
        place = self.where.get(job_id)
        return self.table.empty() if place is None else self.pieces[place[0]].slice(place[1], place[2])

    def whole(self) -> pl.DataFrame:
        """All rows, sorted as declared."""
        if len(self.pieces) == 1 and sum(n for _, _, n in self.where.values()) == self.pieces[0].height:
            return self.pieces[0]
        return pl.concat([self.table.empty(), *(self.job(job) for job in sorted(self.where))], rechunk=True)

    def only(self, names: list[str]) -> _Rows:
        """The rows of some jobs, by ascending name. Copies nothing."""
        frames, where, at = [], {}, 0
        for job in names:
            place = self.where.get(job)
            if place is not None:
                frames.append(self.pieces[place[0]].slice(place[1], place[2]))
                where[job] = (0, at, place[2])
                at += place[2]
        if len(frames) == 1:
            return _Rows(self.table, frames, where)
        return _Rows(self.table, [pl.concat(frames) if frames else self.table.empty()], where)

    def replaced(self, gone: Collection[str], new: _Rows) -> _Rows:
        """These rows without those of ``gone`` and with those of ``new``."""
        where = {job: place for job, place in self.where.items() if job not in gone}
        shift = len(self.pieces)
        where.update({job: (piece + shift, at, n) for job, (piece, at, n) in new.where.items()})
        made = _Rows(self.table, [*self.pieces, *new.pieces], where)
        # Now and then tidy up: many pieces, or mostly rows of jobs that were replaced since.
        alive = sum(n for _, _, n in where.values())
        if len(made.pieces) > 64 or sum(p.height for p in made.pieces) > 2 * alive + 10_000:
            return _Rows.of(self.table, made.whole())
        return made


@dataclass(frozen=True)
class Model:
    """What ``assembly.assemble`` gives: ``jobs`` (JOB_MODEL), ``tasks`` (TASK_MODEL), ``attempts`` (ATTEMPT_MODEL) and
    ``conf`` (CONF_MODEL), each with exactly its declared columns in its declared order.

    ``job`` is cheap; the whole ``tasks``, ``attempts`` and ``conf`` are put together when first asked for, which
    costs time in proportion to their size: do not ask on the live path.
    """

    jobs: pl.DataFrame
    _tasks: _Rows = field(repr=False)
    _attempts: _Rows = field(repr=False)
    _conf: _Rows = field(repr=False)

    @classmethod
    def of(cls, jobs: pl.DataFrame, tasks: pl.DataFrame, attempts: pl.DataFrame, conf: pl.DataFrame) -> Model:
        """From whole frames in their declared order."""
        return cls(jobs, _Rows.of(TASK_MODEL, tasks), _Rows.of(ATTEMPT_MODEL, attempts), _Rows.of(CONF_MODEL, conf))

    @classmethod
    def empty(cls) -> Model:
        """A model without jobs."""
        return cls.of(JOB_MODEL.empty(), TASK_MODEL.empty(), ATTEMPT_MODEL.empty(), CONF_MODEL.empty())

    @cached_property
    def tasks(self) -> pl.DataFrame:
        """The tasks of all jobs."""
        return self._tasks.whole()

    @cached_property
    def attempts(self) -> pl.DataFrame:
        """The attempts of all jobs."""
        return self._attempts.whole()

    @cached_property
    def conf(self) -> pl.DataFrame:
        """The configuration of all jobs."""
        return self._conf.whole()

    def job(self, job_id: str) -> Model:
        """The part of the model that belongs to one job."""
        return Model.of(
            self.jobs.filter(pl.col("job_id") == job_id),
            self._tasks.job(job_id),
            self._attempts.job(job_id),
            self._conf.job(job_id),
        )

    def only(self, jobs: Collection[str]) -> Model:
        """The part of the model that belongs to ``jobs``."""
        names = sorted(jobs)
        wanted = pl.Series(names, dtype=pl.String).implode()
        return Model(
            self.jobs.filter(pl.col("job_id").is_in(wanted)),
            *(rows.only(names) for rows in (self._tasks, self._attempts, self._conf)),
        )

    def replaced(self, gone: Collection[str], new: Model) -> Model:
        """This model without the jobs ``gone`` and with those of ``new``."""
        wanted = pl.Series(list(gone), dtype=pl.String).implode()
        jobs = pl.concat([self.jobs.filter(~pl.col("job_id").is_in(wanted)), new.jobs])
        return Model(
            JOB_MODEL.sorted(jobs),
            self._tasks.replaced(gone, new._tasks),
            self._attempts.replaced(gone, new._attempts),
            self._conf.replaced(gone, new._conf),
        )
