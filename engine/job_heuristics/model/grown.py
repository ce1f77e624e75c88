"""One running job whose history grows: only tasks that the new events name are assembled again.

The rules are those of ``assembly``, task by task and in plain Python: a megabyte of history names some hundred tasks,
and a query over frames costs more than the whole of them. What the rules here do not cover (a task that comes back
after all its attempts had ended, ids that are missing or contradict each other, states that are not said) is refused:
then ``assembly`` does the whole job.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import repeat
from operator import itemgetter
from typing import Any

import numpy as np
import polars as pl

from engine.inputs import FileInfo
from engine.job_heuristics.model import job_conf
from engine.job_heuristics.model.arrays import (
    ATTEMPT_COLUMNS,
    OTHER,
    RUNNING,
    STATES,
    SUCCEEDED,
    TASK_NUMBERS,
    Array,
    AttemptArrays,
    TaskArrays,
    attempt_columns,
    started,
    tasks_of,
)
from engine.job_heuristics.model.board import Board
from engine.job_heuristics.model.job_facts import EVENT_TABLES, JOB_FACTS, TERMINAL, over_limit
from engine.job_heuristics.model.model import Model, Piece, frames_of
from engine.job_heuristics.tables import (
    ATTEMPT_MODEL,
    COUNTER_COLUMNS,
    JOB_EVENTS,
    JOB_MODEL,
    TASK_MODEL,
)
from engine.tables import Rows, Table

_NEVER = -(2**63)
_TOGETHER = 8
"""Rows of so many steps become one frame when there is time."""
_AT_MOST = 64
"""And of so many in any case."""
_NO_START = (None,) * 5
_NO_COUNTERS = (None,) * len(COUNTER_COLUMNS)
_COUNTER = {name: k for k, name in enumerate(COUNTER_COLUMNS)}
_INPUT = itemgetter(*(_COUNTER[f"{store}_read_bytes"] for store in ("hdfs", "s3", "s3a", "s3n")))
_PEAKS = ("physical_bytes", "map_physical_max_bytes", "reduce_physical_max_bytes")
_JOB_EVENT = list(JOB_EVENTS.schema)
_TASK_START = ["seq", "job_id", "task_id", "type", "scheduled_ms"]
_TASK_END = [
    "seq", "job_id", "task_id", "type", "state", "scheduled_ms", "finish_ms", "chosen_id", "error", *COUNTER_COLUMNS,
]  # fmt: skip
_ATTEMPT_START = [
    "seq", "job_id", "task_id", "attempt_id", "type", "start_ms", "host", "container", "locality", "avataar",
]  # fmt: skip
_ATTEMPT_END = [
    "seq", "job_id", "task_id", "attempt_id", "type", "state", "finish_ms", "map_finish_ms", "shuffle_finish_ms",
    "sort_finish_ms", "host", "rack", "error", "progress", "counted", *COUNTER_COLUMNS,
]  # fmt: skip


class Refused(Exception):
    """The new events of a job are not of the kind that can be put in one by one."""


@dataclass(slots=True)
class _Attempt:
    """What the events said of one attempt: its first start and its last end."""

    type: str | None
    start: tuple[Any, ...] = _NO_START
    """start_ms, host, container, locality, avataar"""
    state: str | None = None
    end: tuple[Any, ...] = (None,) * 8
    """finish_ms, map, shuffle and sort finish, host, rack, error, progress"""
    end_seq: int = -1
    counters: tuple[Any, ...] = _NO_COUNTERS


_UNKNOWN = _Attempt(None)
"""In place of the attempt of a task that rests on none."""


@dataclass(slots=True)
class _Task:
    """What the events said of one task that is not settled: its first start and its last end, and its attempts."""

    type: str | None
    scheduled_ms: int | None = None
    started: bool = False
    seq: int = -1
    end: tuple[Any, ...] | None = None
    """state, scheduled_ms, finish_ms, chosen_id, error"""
    counters: tuple[Any, ...] = _NO_COUNTERS
    attempts: dict[str, _Attempt] = field(default_factory=dict)
    settled: bool = False
    """Whether nothing more is to come of it, as of when its row was made."""

    def ended(self) -> tuple[Any, ...] | None:
        """``end``, unless the attempt it rests on was lost afterwards."""
        if self.end is not None and self.end[0] == "SUCCEEDED" and self.end[3] is not None:
            chosen = self.attempts.get(self.end[3])
            if chosen is not None and chosen.state in ("FAILED", "KILLED") and chosen.end_seq > self.seq:
                return None
        return self.end


@dataclass(frozen=True)
class Step:
    """A job after some events: its row of the job model, and its tasks and attempts as pieces and as arrays."""

    row: pl.DataFrame
    tasks: Piece
    attempts: Piece
    arrays: tuple[TaskArrays, AttemptArrays]


class Grown:
    """A job that one history file holds alone, and which grows there."""

    def __init__(self, job_id: str, file: int, model: Model, events: Mapping[str, pl.DataFrame]) -> None:
        """From the ``model`` of that job alone and the ``events`` (by input table) it was assembled from. Raises
        Refused."""
        self.job_id = job_id
        self.file = file
        self._task_frames: list[Rows] = [model.tasks]
        self._attempt_frames: list[Rows] = [model.attempts]
        self._row = model.jobs.row(0, named=True)
        properties = job_conf.lookup(model.conf).get(job_id, {})
        self._conf_queue = properties.get(job_conf.QUEUE) or properties.get(job_conf.QUEUE_OLD)
        self._facts: dict[str, Any] = dict.fromkeys(JOB_FACTS)
        self._am_start: int | None = None
        self._am_starts = 0
        self._broken: list[str | None] = []
        self._last_time = _NEVER
        self._open: dict[str, _Task] = {}
        for frame, names in ((model.tasks, ("task_id", "side")), (model.attempts, ("task_id", "attempt_id", "side"))):
            if any(frame[name].null_count() for name in names):
                raise Refused
        self._tasks, self._attempts = _task_board(model.tasks), _attempt_board(model.attempts)
        self._attempt_task = dict(zip(model.attempts["attempt_id"], model.attempts["task_id"], strict=True))
        self._take_job_events(events["job_events"])
        if any(events[name]["state"].null_count() for name in ("task_ends", "attempt_ends")):
            raise Refused
        self._reopen(model, events)

    def _reopen(self, model: Model, events: Mapping[str, pl.DataFrame]) -> None:
        """Take in what was said of tasks that are not settled. Refuses unless our rules say of them what the model says."""
        running = pl.col("state") == "RUNNING"
        open_ = pl.concat([frame.filter(running)["task_id"] for frame in (model.tasks, model.attempts)]).unique()
        wanted = pl.col("task_id").is_in(open_.implode())
        touched = self._take({name: events[name].filter(wanted) for name in EVENT_TABLES[1:]}, first=True)
        if any(self._tasks.has(name) != (name in touched) for name in open_) or len(touched) != len(open_):
            raise Refused
        for table, columns, frame in zip(
            (TASK_MODEL, ATTEMPT_MODEL), self._rows(touched), (model.tasks, model.attempts), strict=True
        ):
            if not table.sorted(table.frame(columns)).equals(frame.filter(wanted)):
                raise Refused

    # -- events -------------------------------------------------------------------------------------------------

    def apply(self, events: Mapping[str, Rows], info: FileInfo, cut: str | None = None) -> Step:
        """Take in ``events`` that come after those so far; ``info``: of the file as it is now; ``cut``: what upstream would
        say of its last record, which is not complete.

        Raises Refused, and is then of no more use.
        """
        try:
            self._take_job_events(events["job_events"])
            touched = self._take(events)
            tasks, attempts = self._rows(touched)
            if tasks["job_id"]:
                self._put_tasks(tasks)
                self._task_frames.append(tasks)
            if attempts["job_id"]:
                self._put_attempts(attempts)
                self._attempt_frames.append(attempts)
            self.tidy(_AT_MOST)
        except OverflowError as error:
            raise Refused from error
        for name, one in touched.items():
            if one.settled:
                del self._open[name]
        return Step(
            self._job_row(info, cut),
            Piece(TASK_MODEL, "task_id", tuple(self._task_frames), self._tasks.height),
            Piece(ATTEMPT_MODEL, "attempt_id", tuple(self._attempt_frames), self._attempts.height),
            (self._task_arrays(), self._attempt_arrays()),
        )

    def tidy(self, steps: int = _TOGETHER) -> bool:
        """Make one frame of the rows of the last steps, of tasks or of attempts, if there are so many; whether there were.
        Before, they cost whoever wants to see the rows a little more."""
        for table, kept in ((TASK_MODEL, self._task_frames), (ATTEMPT_MODEL, self._attempt_frames)):
            if sum(not isinstance(rows, pl.DataFrame) for rows in kept) >= steps:
                kept[:] = frames_of(table, kept)
                return True
        return False

    def _take_job_events(self, rows: Rows) -> None:
        for cells in _tuples(rows, _JOB_EVENT):
            row = dict(zip(_JOB_EVENT, cells, strict=True))
            if row["job_id"] != self.job_id or row["event"] == "CUT":
                raise Refused
            for name in JOB_FACTS:
                if row[name] is not None:
                    self._facts[name] = row[name]
            if self._am_start is None:
                self._am_start = row["am_start_ms"]
            self._am_starts += row["event"] == "AM_STARTED"
            if row["event"] == "BROKEN":
                self._broken.append(row["broken"])
            self._last_time = max(self._last_time, *(_or(row[name], _NEVER) for name in ("time_ms", "finish_ms")))

    def _take(self, events: Mapping[str, Rows], *, first: bool = False) -> dict[str, _Task]:
        """Note what the events say; the tasks they name. ``first``: the boards know these tasks already."""
        touched: dict[str, _Task] = {}

        def task(job: str | None, name: str | None, kind: str | None) -> _Task:
            if name is None or job != self.job_id:
                raise Refused
            found = touched.get(name)
            if found is None:
                found = self._open.get(name)
                if found is None:
                    if not first and self._tasks.has(name):
                        raise Refused  # it was settled
                    found = self._open[name] = _Task(kind)
                touched[name] = found
            return found

        def attempt(of: _Task, name: str | None, task_id: str, kind: str | None) -> _Attempt:
            if name is None:
                raise Refused
            found = of.attempts.get(name)
            if found is None:
                if self._attempt_task.setdefault(name, task_id) != task_id:
                    raise Refused
                found = of.attempts[name] = _Attempt(kind)
            return found

        # The kind of a task is what its first start, else its first end, else its first attempt says.
        for _, job, name, kind, scheduled in _tuples(events["task_starts"], _TASK_START):
            one = task(job, name, kind)
            if not one.started:
                if one.type != kind:
                    raise Refused
                one.started, one.scheduled_ms = True, scheduled
        for row in _tuples(events["task_ends"], _TASK_END):
            seq, job, name, kind, state = row[:5]
            one = task(job, name, kind)
            if state is None or one.type != kind:
                raise Refused
            if seq >= one.seq:
                one.seq, one.end, one.counters = seq, row[4:9], row[9:]
        for row in _tuples(events["attempt_starts"], _ATTEMPT_START):
            _, job, name, attempt_id, kind = row[:5]
            one = task(job, name, kind)
            tried = attempt(one, attempt_id, name, kind)
            if tried.type != kind or one.type != kind:
                raise Refused
            if tried.start is _NO_START:
                tried.start = row[5:]
        ends = events["attempt_ends"]
        counted = any(one for _, one in _tuples(ends, ["seq", "counted"]))
        said_columns = _ATTEMPT_END if counted else _ATTEMPT_END[: -len(COUNTER_COLUMNS)]
        for row in _tuples(ends, said_columns):
            seq, job, name, attempt_id, kind, state = row[:6]
            one = task(job, name, kind)
            tried = attempt(one, attempt_id, name, kind)
            if state is None or tried.type != kind or one.type != kind:
                raise Refused
            if seq >= tried.end_seq:
                tried.end_seq, tried.state, tried.end = seq, state, row[6:14]
            if row[14]:
                tried.counters = row[15:]
        return touched

    # -- rows ---------------------------------------------------------------------------------------------------

    def _rows(self, touched: Mapping[str, _Task]) -> tuple[dict[str, Sequence[Any]], dict[str, Sequence[Any]]]:
        """Columns of the task model and of the attempt model, of these tasks; unordered."""
        tasks: list[tuple[Any, ...]] = []
        attempts: list[tuple[Any, ...]] = []
        for name, one in touched.items():
            ended = one.ended()
            is_map = one.type == "MAP"
            side = "map" if is_map else "reduce"
            state, end_scheduled, ended_ms, picked, error = ended or ("RUNNING", None, None, None, None)
            counters = one.counters if ended is not None else _NO_COUNTERS
            fallback = False
            if picked is None and state == "SUCCEEDED":
                picked = min(_by_end(one), default=(True, 0, None))[2]
                fallback = picked is not None
            elif picked is not None and self._attempt_task.get(picked, name) != name:
                raise Refused
            scheduled = one.scheduled_ms if one.scheduled_ms is not None else end_scheduled
            one.settled = ended is not None
            for key, tried in one.attempts.items():
                begun, node, container, located, avataar = tried.start
                host, rack, failure, progress = tried.end[4:]
                one.settled &= tried.state is not None
                row = (
                    self.job_id, name, key, side, one.type, tried.state or "RUNNING", key == picked, scheduled, begun,
                    *tried.end[:4], node if host is None else host, rack, container, located, avataar, failure,
                    progress,
                )  # fmt: skip
                attempts.append(row + (counters if key == picked else tried.counters))
            chosen = _UNKNOWN if picked is None else one.attempts.get(picked, _UNKNOWN)
            begun, node, _, located, _ = chosen.start
            done, _, shuffled, sorted_, host, rack, _, _ = chosen.end
            total = done - begun if done is not None and begun is not None else None
            shuffle = sort = None
            if total is not None:
                shuffle = 0 if is_map or shuffled is None else shuffled - begun
                sort = 0 if is_map or shuffled is None or sorted_ is None else sorted_ - shuffled
            row = (
                self.job_id, name, side, one.type, state, picked, total is not None, fallback, scheduled, begun, done,
                ended_ms, total, shuffle, sort, _input(counters), node if host is None else host, rack, located,
                len(one.attempts), error,
            )  # fmt: skip
            tasks.append(row + counters)
        return _columns(TASK_MODEL, tasks), _columns(ATTEMPT_MODEL, attempts)

    def _put_tasks(self, columns: Mapping[str, Sequence[Any]]) -> None:
        maps = [side == "map" for side in columns["side"]]
        known = zip(maps, *(columns[name] for name in _PEAKS), strict=True)
        peaks = [_larger(last, of_map if is_map else of_reduce) or 0 for is_map, last, of_map, of_reduce in known]
        rows: dict[str, Any] = {name: [x or 0 for x in columns[name]] for name in TASK_NUMBERS}
        rows |= {name: columns[name] for name in ("timed", "fallback")}
        rows |= {name: [_or(x, _NEVER) for x in columns[name]] for name in ("scheduled_ms", "ended_ms")}
        rows |= {"is_map": maps, "state": [STATES.get(x, OTHER) for x in columns["state"]], "peak": peaks}
        self._tasks.put(columns["task_id"], maps, rows)

    def _put_attempts(self, columns: Mapping[str, Sequence[Any]]) -> None:
        maps = [side == "map" for side in columns["side"]]
        racing = {
            name
            for name, kind, start in zip(columns["task_id"], columns["avataar"], columns["start_ms"], strict=True)
            if kind == "SPECULATIVE" and (start or 0) > 0
        }
        finish, shuffled = columns["finish_ms"], columns["shuffle_finish_ms"]
        newest = [_or(_larger(a, b), _NEVER) for a, b in zip(columns["start_ms"], finish, strict=True)]
        rows: dict[str, Any] = {
            "is_map": maps,
            "state": [STATES.get(x, OTHER) for x in columns["state"]],
            "chosen": columns["chosen"],
            "raced": [name in racing for name in columns["task_id"]],
            "finished": [x is not None for x in finish],
            "shuffled": [x is not None for x in shuffled],
            "newest": newest,
            **{name: [x or 0 for x in columns[name]] for name in ("start_ms", "finish_ms", "shuffle_finish_ms")},
        }
        self._attempts.put(list(zip(columns["task_id"], columns["attempt_id"], strict=True)), maps, rows)

    def _task_arrays(self) -> TaskArrays:
        job = np.zeros(self._tasks.height, dtype=np.int64)
        numbers = self._tasks.read((*TASK_NUMBERS, "peak"), where="timed")
        return TaskArrays(job, **self._tasks.read(("is_map", "state", "timed", "fallback")), numbers=numbers)

    def _attempt_arrays(self) -> AttemptArrays:
        return started(np.zeros(self._attempts.height, dtype=np.int64), self._attempts.read(ATTEMPT_COLUMNS))

    def _job_row(self, info: FileInfo, cut: str | None) -> pl.DataFrame:
        """The job's row, as ``assembly`` makes it."""
        said = self._facts
        tasks, attempts = self._tasks, self._attempts
        is_map, state_of = tasks.unordered("is_map"), tasks.unordered("state")
        some = tasks.height > 0
        seen_maps = _number(is_map) if some else None
        seen_reduces = _number(~is_map) if some else None
        succeeded = state_of == SUCCEEDED
        done_maps = _number(succeeded & is_map) if some else None
        done_reduces = _number(succeeded & ~is_map) if some else None
        running = _number(attempts.unordered("state") == RUNNING) if attempts.height else None
        times = [self._last_time]
        if some:
            times += [int(tasks.unordered(name).max()) for name in ("scheduled_ms", "ended_ms")]
        if attempts.height:
            times.append(int(attempts.unordered("newest").max()))
        newest = max(times)
        state = (said["state"] or "").upper()
        state = state if state in TERMINAL else "RUNNING"
        runs = state == "RUNNING"
        row = {
            **self._row,
            **{name: said[name] for name in ("name", "user", "submit_ms", "launch_ms", "uberized", "workflow")},
            "queue": self._conf_queue if said["queue"] is None else said["queue"],
            "state": state,
            "am_start_ms": self._am_start,
            "finish_ms": None if runs else said["finish_ms"],
            "last_event_ms": None if newest == _NEVER else newest,
            "maps": _first(said["maps"], seen_maps) if runs else _first(seen_maps, said["maps"], 0),
            "reduces": _first(said["reduces"], seen_reduces) if runs else _first(seen_reduces, said["reduces"], 0),
            "maps_finished": _first(done_maps, said["maps_finished"]),
            "reduces_finished": _first(done_reduces, said["reduces_finished"]),
            "tasks_seen": tasks.height,
            "attempts_running": _first(said["attempts_running"], running) if runs else 0,
            "am_starts": self._am_starts,
            "diagnostics": said["diagnostics"] or "",
            "source": said["source"] or "history",
            "broken": over_limit(info) or (self._broken[0] if self._broken else None) or cut or "",
        }
        return JOB_MODEL.frame({name: [row[name]] for name in JOB_MODEL.schema})


def _tuples(rows: Rows, names: Sequence[str]) -> Iterator[tuple[Any, ...]]:
    """Of each row the values of these columns; one of them, like ``seq``, is there in any case."""
    if isinstance(rows, pl.DataFrame):
        return rows[list(names)].iter_rows()
    assert isinstance(rows, Mapping)
    return zip(*(rows.get(name, repeat(None)) for name in names), strict=False)


def _number(mask: Array) -> int:
    return int(np.count_nonzero(mask))


def _input(counters: tuple[Any, ...]) -> int:
    """Bytes that a map read, as upstream counts them."""
    a, b, c, d = _INPUT(counters)
    return (a or 0) + (b or 0) + (c or 0) + (d or 0)


def _or(value: int | None, otherwise: int) -> int:
    return otherwise if value is None else value


def _larger(one: int | None, other: int | None) -> int | None:
    if one is None or other is None:
        return other if one is None else one
    return one if one > other else other


def _first(*values: int | None) -> int | None:
    return next((value for value in values if value is not None), None)


def _by_end(one: _Task) -> Iterator[tuple[bool, int, str]]:
    """Keys that sort the successful attempts of a task: the earliest end first, then by id."""
    for key, tried in one.attempts.items():
        if tried.state == "SUCCEEDED":
            yield tried.end[0] is None, _or(tried.end[0], 0), key


def _columns(table: Table, rows: Sequence[tuple[Any, ...]]) -> dict[str, Sequence[Any]]:
    if not rows:
        return dict.fromkeys(table.schema, ())
    return dict(zip(table.schema, zip(*rows, strict=True), strict=True))


def _task_board(frame: pl.DataFrame) -> Board:
    """A board of TASK_MODEL rows of one job."""
    made = tasks_of(frame, [frame["job_id"][0]] if frame.height else [])
    columns = {"is_map": made.is_map, "state": made.state, "timed": made.timed, "fallback": made.fallback}
    for name, values in made.numbers.items():
        columns[name] = np.zeros(frame.height, dtype=np.int64)
        columns[name][made.timed] = values
    columns |= {name: frame[name].fill_null(_NEVER).to_numpy() for name in ("scheduled_ms", "ended_ms")}
    return Board(columns, frame["task_id"].to_list(), int(made.is_map.sum()))


def _attempt_board(frame: pl.DataFrame) -> Board:
    """A board of ATTEMPT_MODEL rows of one job."""
    columns = attempt_columns(frame)
    newest = frame.select(pl.max_horizontal("start_ms", "finish_ms").fill_null(_NEVER)).to_series().to_numpy()
    keys = list(zip(frame["task_id"].to_list(), frame["attempt_id"].to_list(), strict=True))
    return Board({**columns, "newest": newest}, keys, int(columns["is_map"].sum()))
