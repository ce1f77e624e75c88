"""The assembled model: one row per job, task and attempt; and one job's numbers as arrays.

Everything that analyses jobs is a function of it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from functools import cached_property
from itertools import accumulate
from typing import Any, NamedTuple

import msgspec
import numpy as np
import polars as pl
from numpy.typing import NDArray

from engine.core.units import finite
from engine.job_heuristics.mapreduce.model import job_conf
from engine.job_heuristics.mapreduce.model.arrays import (
    OF_ALL_TASKS,
    TASK_NUMBERS,
    AttemptArrays,
    TaskArrays,
    attempts_of,
    tasks_of,
)
from engine.job_heuristics.mapreduce.model.job_conf import DEFAULT_MB, stated_mb
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
    spans: tuple[tuple[int, int], ...]  # first row and number of rows, for each of the frames
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


class Model(msgspec.Struct, frozen=True, eq=False, dict=True):
    """Jobs with ``jobs`` (JOB_MODEL), ``tasks`` (TASK_MODEL), ``attempts`` (ATTEMPT_MODEL) and ``conf`` (CONF_MODEL),
    each with exactly its declared columns in its declared order.

    ``revisions``: number per job that changes when the job is reassembled. A model of few jobs is cheap; the whole
    ``tasks``, ``attempts`` and ``conf`` are concatenated on first use: avoid them on the live path.
    """

    parts: Mapping[str, JobPart]
    revisions: Mapping[str, int] = msgspec.field(default_factory=dict)
    _last_part: dict[frozenset[str], Model] = msgspec.field(default_factory=dict)

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
            self._last_part[wanted] = Model({job: self.parts[job] for job in jobs if job in self.parts}, self.revisions)
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


Ints = NDArray[np.int64]
MB = 2**20

_MOST_SUBSTITUTIONS = 20
_VARIABLE = re.compile(r"\$\{([^\}\$\s]{1,200})\}")


def resolve(conf: Mapping[str, str], key: str) -> str | None:
    """Return the value of ``key`` with ``${other}`` replaced as by Hadoop's Configuration: one variable at a time, at
    most 20 times; unknown variables stay. None if unset."""
    value = conf.get(key)
    if value is None:
        return None
    for _ in range(_MOST_SUBSTITUTIONS):
        match = _VARIABLE.search(value)
        if match is None or match.group(1) not in conf or len(value) > 10_000:
            break
        value = value[: match.start()] + conf[match.group(1)] + value[match.end() :]
    return value


def number(conf: Mapping[str, str], key: str, default: float) -> float:
    """Return the value of ``key`` as a finite number, or ``default``."""
    value = finite((resolve(conf, key) or "").strip())
    return default if value is None else value


def mean(values: Ints) -> float:
    """Return the mean, 0 without values."""
    return float(values.mean()) if len(values) else 0.0


SUCCEEDED, FAILED, KILLED, RUNNING = 0, 1, 2, 3  # outcome codes of ``Attempts.outcome``
UNKNOWN = -1  # a time missing from the history


class Attempts(msgspec.Struct, frozen=True, eq=False):
    """Attempts of one job as arrays of length n (times epoch ms, ``UNKNOWN`` where the history has none).

    ``task``: number from 0 over both sides; ``scheduled``: start of its task (a container wait only for first
    attempts); ``finish``: of a running attempt the newest time in the history; ``chosen``: counted by Dr. Elephant;
    ``speculative``: launched beside a running attempt of the same task; ``host``: node name.
    """

    task: Ints
    is_map: NDArray[np.bool_]
    scheduled: Ints
    start: Ints
    finish: Ints
    shuffle_end: Ints
    sort_end: Ints
    outcome: NDArray[np.int8]
    chosen: NDArray[np.bool_]
    speculative: NDArray[np.bool_]
    host: tuple[str, ...] = ()
    label: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.task)


class Side(msgspec.Struct, frozen=True, eq=False):
    """The maps or the reduces of one job. Arrays hold the tasks with times, in task order. ``n``: ended tasks,
    ``planned``: tasks the job will have; ``size``: bytes read by a map or fetched by a reduce; ``peak``: peak
    physical memory in bytes (Hadoop 3's maximum, else the last snapshot); ``container_mb`` as in the metrics,
    ``stated_mb`` as in the Memory heuristic (-1: its default). ``untimed``: the counters ``OF_ALL_TASKS`` of the
    tasks without times; ``others``: the columns of ``TASK_NUMBERS`` that have no array of their own here."""

    name: str
    n: int
    planned: int
    container_mb: int
    stated_mb: int
    untimed: Mapping[str, Ints]
    others: Mapping[str, Ints]
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

    def at(self, places: Ints) -> Side:
        """Return the side restricted to the tasks at ``places`` (which may repeat); ``n`` and ``planned`` stay."""
        values = {name: getattr(self, name) for name in self.__struct_fields__}
        taken: dict[str, Any] = {name: v[places] for name, v in values.items() if isinstance(v, np.ndarray)}
        hosts, racks = (tuple(names[i] for i in places.tolist()) for names in (self.hosts, self.racks))
        return msgspec.structs.replace(
            self, **taken, hosts=hosts, racks=racks, others={name: v[places] for name, v in self.others.items()}
        )

    @property
    def memory_container_mb(self) -> int:
        """MB of the container that the Memory heuristic looks at, by its default parameters."""
        return self.stated_mb if self.stated_mb >= 0 else DEFAULT_MB

    @property
    def code(self) -> Ints:
        """Run time without shuffle and sort, ms."""
        return self.total - self.shuffle - self.sort

    @property
    def word(self) -> str:
        """``map`` or ``reducer``, as in sentences."""
        return "map" if self.name == "map" else "reducer"


class Job(msgspec.Struct, frozen=True, eq=False):
    """One job: its row of the job model, its configuration, both sides and all attempts."""

    row: Mapping[str, Any]
    conf: Mapping[str, str]
    maps: Side
    reduces: Side
    attempts: Attempts

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

    def side(self, name: str) -> Side:
        """Return the side called ``map`` or ``reduce``."""
        return self.maps if name == "map" else self.reduces


def job(model: Model) -> Job | None:
    """Return the job of a model that holds exactly one; None if it holds none."""
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


SIDE_COLUMNS = {
    "total": "total_ms",
    "shuffle": "shuffle_ms",
    "sort": "sort_ms",
    "start": "start_ms",
    "finish": "finish_ms",
    "cpu": "cpu_ms",
    "gc": "gc_ms",
    "pmem": "physical_bytes",
    "vmem": "virtual_bytes",
    "spilled": "spilled_records",
    "out_records": "map_output_records",
    "out_bytes": "map_output_bytes",
}
"""Arrays of ``Side`` by column of TASK_MODEL."""
_OTHERS = tuple(column for column in TASK_NUMBERS if column not in SIDE_COLUMNS.values())


def _ints(frame: pl.DataFrame, column: str) -> Ints:
    values = frame[column]
    return (values.fill_null(0) if values.null_count() else values).to_numpy()


def side(tasks: pl.DataFrame, name: str, row: Mapping[str, Any], conf: Mapping[str, str]) -> Side:
    """Return one side of a job from its TASK_MODEL rows."""
    mine = tasks.filter(pl.col("side") == name)
    timed = mine.filter(pl.col("timed") & pl.col("total_ms").is_not_null())
    ended = int(mine["ended_ms"].is_not_null().sum())
    planned = int(row["maps" if name == "map" else "reduces"] or 0)
    container = row[f"{name}_memory_mb"]
    untimed = mine.filter(~(pl.col("timed") & pl.col("total_ms").is_not_null()).fill_null(False))
    untimed = untimed.filter(pl.col("ended_ms").is_not_null())
    return Side(
        name=name,
        n=ended,
        planned=max(planned, mine.height),
        container_mb=DEFAULT_MB if container is None else int(container),
        stated_mb=stated_mb(conf, name),
        untimed={column: _ints(untimed, column) for column in OF_ALL_TASKS},
        others={column: _ints(timed, column) for column in _OTHERS},
        size=_ints(timed, "input_bytes" if name == "map" else "reduce_shuffle_bytes"),
        peak=np.maximum(_ints(timed, f"{name}_physical_max_bytes"), _ints(timed, "physical_bytes")),
        hosts=tuple(timed["host"].fill_null("").to_list()),
        racks=tuple(timed["rack"].fill_null("").to_list()),
        **{name: _ints(timed, column) for name, column in SIDE_COLUMNS.items()},
    )


NO_COUNTERS: Mapping[str, Ints] = {column: np.zeros(0, dtype=np.int64) for column in OF_ALL_TASKS}
"""``Side.untimed`` where all tasks have times."""
OUTCOMES = {"SUCCEEDED": SUCCEEDED, "FAILED": FAILED, "KILLED": KILLED, "RUNNING": RUNNING}


def attempts(frame: pl.DataFrame, row: Mapping[str, Any]) -> Attempts:
    """Return attempts of one job from its ATTEMPT_MODEL rows; a running attempt ends, for now, at the newest event."""
    newest = int(row["finish_ms"] or row["last_event_ms"] or 0)
    tasks = frame["task_id"].fill_null("").rank("dense").cast(pl.Int64).to_numpy() - 1 if frame.height else np.zeros(0)
    finish = pl.col("finish_ms").fill_null(pl.max_horizontal(pl.lit(newest), pl.col("start_ms")))
    columns = frame.select(
        pl.col("scheduled_ms").fill_null(UNKNOWN),
        pl.col("start_ms").fill_null(UNKNOWN),
        finish=pl.when(pl.col("start_ms").is_null() & pl.col("finish_ms").is_null())
        .then(pl.lit(UNKNOWN))
        .otherwise(finish),
        shuffle=pl.col("shuffle_finish_ms").fill_null(UNKNOWN),
        sort=pl.col("sort_finish_ms").fill_null(UNKNOWN),
        outcome=pl.col("state").replace_strict(OUTCOMES, default=RUNNING, return_dtype=pl.Int8),
    )
    return Attempts(
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
