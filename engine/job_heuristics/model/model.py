"""The assembled model: one row per job, task and attempt. Everything that analyses jobs is a function of it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import groupby
from typing import Any

import polars as pl

from engine.job_heuristics.model import job_conf
from engine.job_heuristics.model.arrays import AttemptArrays, TaskArrays, attempts_of, one_after_another, tasks_of
from engine.job_heuristics.model.changes import spliced
from engine.job_heuristics.tables import ATTEMPT_MODEL, CONF_MODEL, JOB_MODEL, TASK_MODEL
from engine.overlay import Overlay
from engine.tables import Rows, Table

Arrays = tuple[TaskArrays, AttemptArrays]
Told = tuple[Mapping[str, str], Mapping[str, int], Mapping[str, str]]
"""What the configuration of a job says: ``settings.lookup``, ``settings.of_cost`` and ``settings.of_advice``."""


class Piece:
    """Rows of one job: a frame, and others whose rows replace those of the same ``key``. One frame when asked for;
    the others may be given as columns."""

    def __init__(self, table: Table, key: str, frames: tuple[Rows, ...], height: int) -> None:
        self.height = height
        self._table = table
        self._key = key
        self._frames = frames
        self._frame: pl.DataFrame | None = None

    def frame(self) -> pl.DataFrame:
        """The rows in their declared order."""
        if self._frame is None:
            rows = pl.concat(frames_of(self._table, self._frames)).unique(self._key, keep="last", maintain_order=True)
            self._frame = self._table.sorted(rows)
        return self._frame


def frames_of(table: Table, pieces: Sequence[Rows]) -> list[pl.DataFrame]:
    """The pieces as frames, in their order; neighbours that are columns become one frame, which costs little more than a
    frame of one of them."""
    found: list[pl.DataFrame] = []
    for columns, run in groupby(pieces, key=lambda piece: isinstance(piece, dict)):
        parts: list[Any] = list(run)
        if columns:
            parts = [{name: [x for part in parts for x in part[name]] for name in table.schema}]
        found += [table.frame(part) for part in parts]
    return found


class _Rows:
    """A frame sorted by job, cut into the pieces it was assembled in: a job's rows are a slice, and replacing a few
    jobs copies nothing of the others."""

    def __init__(
        self, table: Table, pieces: list[pl.DataFrame | Piece], where: Overlay[str, tuple[int, int, int]], alive: int
    ) -> None:
        self.table = table
        self.pieces = pieces
        self.where = where
        self.alive = alive

    @classmethod
    def of(cls, table: Table, frame: pl.DataFrame) -> _Rows:
        """From one frame sorted by ``job_id``."""
        runs = frame["job_id"].rle().struct.unnest()
        where: dict[str, tuple[int, int, int]] = {}
        at = 0
        for length, job in zip(runs["len"].to_list(), runs["value"].to_list(), strict=True):
            where[job] = (0, at, length)
            at += length
        return cls(table, [frame], Overlay(where), at)

    @classmethod
    def piece(cls, job_id: str, piece: Piece) -> _Rows:
        """Of one job."""
        where = {job_id: (0, 0, piece.height)} if piece.height else {}
        return cls(piece._table, [piece], Overlay(where), piece.height)

    def _slice(self, place: tuple[int, int, int]) -> pl.DataFrame:
        piece = self.pieces[place[0]]
        frame = piece.frame() if isinstance(piece, Piece) else piece
        return frame.slice(place[1], place[2])

    def job(self, job_id: str) -> pl.DataFrame:
        """The rows of one job."""
        place = self.where.get(job_id)
        return self.table.empty() if place is None else self._slice(place)

    def whole(self) -> pl.DataFrame:
        """All rows, sorted as declared."""
        if len(self.pieces) == 1 and isinstance(self.pieces[0], pl.DataFrame) and self.alive == self.pieces[0].height:
            return self.pieces[0]
        return pl.concat([self.table.empty(), *(self.job(job) for job in sorted(self.where))], rechunk=True)

    def only(self, names: list[str]) -> _Rows:
        """The rows of some jobs, by ascending name. Copies nothing."""
        found = [(job, place) for job in names if (place := self.where.get(job)) is not None]
        if not found:
            return _Rows(self.table, [self.table.empty()], Overlay({}), 0)
        if len(found) == 1:
            job, (piece, at, n) = found[0]
            return _Rows(self.table, [self.pieces[piece]], Overlay({job: (0, at, n)}), n)
        where: dict[str, tuple[int, int, int]] = {}
        frames, begin = [], 0
        for job, place in found:
            frames.append(self._slice(place))
            where[job] = (0, begin, place[2])
            begin += place[2]
        return _Rows(self.table, [pl.concat(frames)], Overlay(where), begin)

    def replaced(self, gone: Collection[str], new: _Rows) -> _Rows:
        """These rows without those of ``gone`` and with those of ``new``."""
        alive = self.alive + new.alive
        for job in gone:
            place = self.where.get(job)
            alive -= place[2] if place is not None else 0
        shift = len(self.pieces)
        where = self.where.changed({job: (piece + shift, at, n) for job, (piece, at, n) in new.where.items()}, gone)
        made = _Rows(self.table, [*self.pieces, *new.pieces], where, alive)
        if len(made.pieces) > 64 or sum(p.height for p in made.pieces) > 2 * alive + 10_000:
            return made._tidied()
        return made

    def _tidied(self) -> _Rows:
        """Without pieces that no job is in any more, and with few of them: now and then, since it may copy."""
        used = sorted({place[0] for place in self.where.values()})
        if len(used) <= 32 and all(len(used) == 1 or self.pieces[k].height for k in used):
            number = {old: new for new, old in enumerate(used)}
            where = {job: (number[piece], at, n) for job, (piece, at, n) in self.where.items()}
            return _Rows(self.table, [self.pieces[k] for k in used], Overlay(where), self.alive)
        return _Rows.of(self.table, self.whole())


@dataclass(frozen=True)
class Model:
    """What ``upkeep.assemble`` gives: ``jobs`` (JOB_MODEL), ``tasks`` (TASK_MODEL), ``attempts`` (ATTEMPT_MODEL) and
    ``conf`` (CONF_MODEL), each with exactly its declared columns in its declared order.

    ``job`` and ``arrays`` of few jobs are cheap; the whole ``tasks``, ``attempts`` and ``conf`` are put together when
    first asked for, which costs time in proportion to their size: do not ask on the live path.
    """

    jobs: pl.DataFrame
    _tasks: _Rows = field(repr=False)
    _attempts: _Rows = field(repr=False)
    _conf: _Rows = field(repr=False)
    _arrays: Mapping[str, Arrays] = field(repr=False, default_factory=dict)
    _told: dict[str, Told] = field(repr=False, default_factory=dict)

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

    @cached_property
    def names(self) -> list[str]:
        """The jobs in their order."""
        found: list[str] = self.jobs["job_id"].to_list()
        return found

    @cached_property
    def place(self) -> dict[str, int]:
        """Job → its place in their order."""
        return {job: k for k, job in enumerate(self.names)}

    @cached_property
    def arrays(self) -> Arrays:
        """Tasks and attempts as arrays, ``job`` counting in the order of ``jobs``."""
        if 0 < len(self.names) <= 64 and all(job in self._arrays for job in self.names):
            return one_after_another([self._arrays[job] for job in self.names])
        return tasks_of(self.tasks, self.names), attempts_of(self.attempts, self.names)

    @cached_property
    def told(self) -> Mapping[str, Told]:
        """Per job what its configuration says."""
        missing = [job for job in self.names if job not in self._told]
        if missing:
            conf = self.conf if len(missing) == len(self.names) else self._conf.only(sorted(missing)).whole()
            found, cost, advice = job_conf.lookup(conf), job_conf.of_cost(conf), job_conf.of_advice(conf)
            self._told.update({job: (found.get(job, {}), cost.get(job, {}), advice.get(job, {})) for job in missing})
        return self._told

    def job(self, job_id: str) -> Model:
        """The part of the model that belongs to one job."""
        return Model.of(
            self._of((job_id,)), self._tasks.job(job_id), self._attempts.job(job_id), self._conf.job(job_id)
        )

    def _of(self, jobs: Collection[str]) -> pl.DataFrame:
        """Rows of ``jobs`` in their order."""
        at = sorted(self.place[job] for job in jobs if job in self.place)
        return self.jobs.slice(at[0], 1) if len(at) == 1 else self.jobs[at]

    def only(self, jobs: frozenset[str]) -> Model:
        """The part of the model that belongs to ``jobs``."""
        held: dict[frozenset[str], Model] = self.__dict__.setdefault("_parts", {})
        if jobs not in held:
            held.clear()
            held[jobs] = self._only(jobs)
        return held[jobs]

    def _only(self, jobs: frozenset[str]) -> Model:
        names = sorted(jobs)
        return Model(
            self._of(jobs),
            self._tasks.only(names),
            self._attempts.only(names),
            self._conf.only(names),
            {job: self._arrays[job] for job in names if job in self._arrays},
            self._told,
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
            {**{job: held for job, held in self._arrays.items() if job not in gone}, **new._arrays},
            {**{job: held for job, held in self._told.items() if job not in gone}, **new._told},
        )

    def grown(self, row: pl.DataFrame, tasks: Piece, attempts: Piece, arrays: Arrays) -> Model:
        """This model with one job, of which it has a row already, after its history grew; its configuration stays."""
        job_id: str = row["job_id"][0]
        gone = frozenset((job_id,))
        same = self.jobs["submit_ms"][self.place[job_id]] == row["submit_ms"][0]
        jobs = spliced(self.jobs, row, gone, self.place)
        made = Model(
            jobs if same else JOB_MODEL.sorted(jobs),
            self._tasks.replaced(gone, _Rows.piece(job_id, tasks)),
            self._attempts.replaced(gone, _Rows.piece(job_id, attempts)),
            self._conf,
            {**self._arrays, job_id: arrays},
            self._told,
        )
        if same:
            made.__dict__.update(names=self.names, place=self.place)
        return made
