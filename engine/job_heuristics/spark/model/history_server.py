"""Jobs, stages and executors with their sums, as Spark's history server derives them from a log.

Re-implements ``AppStatusListener`` of Spark 3.5 as it replays a log (docs/models/job-heuristics.md, "What the history
server makes of a log"). Jobs, stages and executors are followed event by event; the many tasks are counted in bulk by
their positions in the log.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
import numpy as np
import polars as pl

from engine.job_heuristics.spark.model.app import DRIVER, NO_SUMS, Executor, Ints, SparkJob, Stage, Stored
from engine.job_heuristics.spark.tables import METRIC_NAMES, PEAKS

_NEVER = 2**62
_KILLED = ("TaskKilled", "TaskCommitDenied")  # task ends that count neither as completed nor as failed
Key = tuple[int, int]
_NONE = np.zeros(0, dtype=np.int64)


Frames = Mapping[str, pl.DataFrame]
"""The rows of one log in its order, by input table; ``seq`` grows over all its parts."""


class Summary(msgspec.Struct, frozen=True):
    """Jobs and stages descending, executors by name; ``ends`` with start and outcome; ``running``: tasks without an end."""

    jobs: tuple[SparkJob, ...]
    stages: tuple[Stage, ...]
    executors: tuple[Executor, ...]
    running: pl.DataFrame
    stored: Mapping[int, Stored]


def ids(text: str | None) -> tuple[int, ...]:
    """Parse comma-separated numbers."""
    return tuple(map(int, text.split(","))) if text else ()


def summarise(frames: Frames) -> Summary:
    """Return what the history server shows of a log."""
    tasks = _Tasks(frames)
    replay = _Replay(tasks)
    replay.run(frames)
    stages = [live.summed(tasks) for live in replay.stages.values()]
    blocks = Blocks(frames["spark_stages"])
    return Summary(
        tuple(sorted(replay.jobs.values(), key=lambda job: -job.number)),
        tuple(sorted(stages, key=lambda stage: (-stage.stage, -stage.attempt))),
        tuple(sorted(_executors(frames, tasks, blocks), key=lambda executor: executor.name)),
        tasks.open,
        blocks.stored,
    )


def _in_order(*frames: pl.DataFrame) -> list[tuple[int, int, dict[str, Any]]]:
    """Return the rows of ``frames`` by position in the log, each with the position and the number of its frame."""
    rows = ((row["seq"], kind, row) for kind, frame in enumerate(frames) for row in frame.iter_rows(named=True))
    return sorted(rows, key=lambda each: each[:2])


class _Tasks:
    """Starts and ends of tasks by position in the log."""

    def __init__(self, frames: Frames) -> None:
        ends, starts = frames["spark_task_ends"], frames["spark_task_starts"]
        self.open, self.ends = starts, ends
        begun = ends["start_seq"].to_numpy() if ends["start_seq"].null_count() == 0 else None
        task_ids = ends["task_id"].to_numpy()
        if begun is None or starts.height:
            first = starts.unique("task_id", keep="first", maintain_order=True).select("task_id", earlier="seq")
            joined = ends.select("task_id", "start_seq").join(first, on="task_id", how="left", maintain_order="left")
            begun = joined.select(pl.coalesce("start_seq", "earlier").fill_null(-1)).to_series().to_numpy()
            self.open = starts.join(ends.select("task_id").unique(), on="task_id", how="anti", maintain_order="left")
        self.seq: Ints = ends["seq"].to_numpy()
        firsts = np.zeros(len(task_ids), dtype=bool)
        firsts[np.unique(task_ids, return_index=True)[1]] = True
        self.counted = (begun >= 0) & firsts & (begun < self.seq)
        """Whether the task's start, and no earlier end, was seen: only then its metrics count for the stage."""
        self.begun: Ints = np.where(self.counted, begun, -1)
        reason = ends["reason"]
        self.success = (reason == "Success").to_numpy()
        self.killed = reason.is_in(_KILLED).to_numpy()
        self.failed = ~self.success & ~self.killed
        self.measured = ends["measured"].to_numpy()
        self.metrics: dict[str, Ints] = {name: ends[name].to_numpy() for name in METRIC_NAMES}
        self.by_stage = _places(ends)
        self.open_by_stage = _places(self.open)
        self.open_seq: Ints = self.open["seq"].to_numpy()
        self._starts: dict[Key, Ints] = {}

    def ends_of(self, key: Key) -> Ints:
        """Return indices of the task ends of a stage, in log order."""
        return self.by_stage.get(key, _NONE)

    def starts_of(self, key: Key) -> Ints:
        """Return the sorted log positions of a stage's task starts."""
        if key not in self._starts:
            begun = self.begun[self.ends_of(key)]
            self._starts[key] = np.sort(
                np.concatenate([begun[begun >= 0], self.open_seq[self.open_by_stage.get(key, _NONE)]])
            )
        return self._starts[key]


def _places(frame: pl.DataFrame) -> dict[Key, Ints]:
    """Return row indices by stage attempt."""
    key = ("stage_id", "stage_attempt")
    grouped = frame.select(*key, at=pl.int_range(pl.len(), dtype=pl.Int64)).group_by(key).agg("at")
    return {(stage, attempt): at.to_numpy() for stage, attempt, at in zip(*grouped.get_columns(), strict=True)}


class _LiveStage(msgspec.Struct, eq=False):
    """A stage attempt while the history server follows it, between the log positions ``created`` and ``removed``."""

    stage: Stage
    created: int
    removed: int = _NEVER
    by_task: bool = False  # whether the end of its last task removes it, which also rewrites its jobs, even ended ones
    watching: dict[int, int] = msgspec.field(
        default_factory=dict
    )  # jobs its tasks count for, and from which log position
    spans: list[tuple[int, int, int]] = msgspec.field(default_factory=list)
    """Jobs its tasks counted for, with first and last log position."""

    def watch(self, jobs: Iterable[int], seq: int) -> None:
        """Count its tasks only for ``jobs`` from ``seq`` on."""
        wanted = set(jobs)
        for job in [job for job in self.watching if job not in wanted]:
            self.spans.append((job, self.watching.pop(job), seq))
        for job in wanted:
            self.watching.setdefault(job, seq)

    def all_spans(self) -> list[tuple[int, int, int]]:
        """Return the jobs its tasks count for, with first and last log position."""
        return [*self.spans, *((job, begin, _NEVER) for job, begin in self.watching.items())]

    def summed(self, tasks: _Tasks) -> Stage:
        """Return the stage with the sums over its tasks."""
        stage, places = self.stage, tasks.ends_of(self.stage.key)
        seq = tasks.seq[places]
        places = places[(seq > self.created) & (seq <= self.removed)]
        if len(places) or len(tasks.starts_of(stage.key)):
            stage.completed_tasks = int(tasks.success[places].sum())
            stage.failed_tasks = int(tasks.failed[places].sum())
            stage.killed_tasks = int(tasks.killed[places].sum())
            stage.active_tasks = max(0, self.active(tasks, _NEVER))  # a task that comes back did not start again
            added = places[tasks.counted[places] & tasks.measured[places]]
            stage.sums = (
                {name: int(values[added].sum()) for name, values in tasks.metrics.items()} if len(added) else NO_SUMS
            )
        return stage

    def active(self, tasks: _Tasks, seq: int) -> int:
        """Return the number of tasks running just before ``seq``, without those started before the stage was known."""
        seq = min(seq, self.removed + 1)
        starts, ends = tasks.starts_of(self.stage.key), tasks.seq[tasks.ends_of(self.stage.key)]
        started, ended = (np.searchsorted(each, (self.created, seq)) for each in (starts, ends))
        return int(started[1] - started[0] - ended[1] + ended[0])

    def drained(self, tasks: _Tasks, seq: int) -> int:
        """Return the log position from ``seq`` on at which no task runs: there the stage is dropped."""
        left = self.active(tasks, seq)
        if left == 0:
            return seq
        starts, ends = tasks.starts_of(self.stage.key), tasks.seq[tasks.ends_of(self.stage.key)]
        later = ends[np.searchsorted(ends, seq) :]
        more = np.searchsorted(starts, later) - np.searchsorted(starts, seq)
        idle = np.flatnonzero(left + more - np.arange(1, len(later) + 1) == 0)
        return int(later[idle[0]]) if len(idle) else _NEVER


class _Replay:
    """The jobs and stages of a log, followed event by event."""

    def __init__(self, tasks: _Tasks) -> None:
        self.tasks = tasks
        self.jobs: dict[int, SparkJob] = {}
        self.stages: dict[Key, _LiveStage] = {}  # the newest instance of each stage attempt, even if no longer followed
        self._live_jobs: dict[int, SparkJob] = {}
        self._by_id: dict[int, set[Key]] = defaultdict(set)
        self._jobs_of: dict[int, list[int]] = defaultdict(list)  # active jobs by stage
        self._all: list[_LiveStage] = []
        self._written: dict[int, int] = {}  # log position at which an ended job was last written

    def run(self, frames: Frames) -> None:
        """Follow all events."""
        handlers = {
            "START": self._job_start, "END": self._job_end, "LISTED": self._listed, "SUBMITTED": self._submitted,
            "COMPLETED": self._completed,
        }  # fmt: skip
        for seq, _, row in _in_order(frames["spark_jobs"], frames["spark_stages"]):
            handlers[row["event"]](seq, row)
        for number in list(self._live_jobs):
            self._close(number)
        self._count()

    def _job_start(self, seq: int, row: dict[str, Any]) -> None:
        number = row["job"]
        job = SparkJob(
            number, row["name"] or "", "RUNNING", row["time_ms"], stages=ids(row["stages"]), execution=row["execution"]
        )
        self.jobs[number] = self._live_jobs[number] = job
        for stage in job.stages:
            self._jobs_of[stage].append(number)

    def _live(self, seq: int, row: dict[str, Any]) -> _LiveStage:
        """Return the followed stage; a new one if it was dropped."""
        key = (row["stage_id"], row["stage_attempt"])
        live = self.stages.get(key)
        if live is None or live.removed < seq:
            live = _LiveStage(Stage(*key), seq)
            self.stages[key] = live
            self._by_id[key[0]].add(key)
            self._all.append(live)
        self._describe(live.stage, row)
        return live

    @staticmethod
    def _describe(stage: Stage, row: dict[str, Any]) -> None:
        stage.name, stage.tasks = row["name"], row["tasks"]
        stage.submit_ms, stage.finish_ms, stage.failure = row["submit_ms"], row["complete_ms"], row["failure"]
        stage.parents, stage.cached, stage.profile = ids(row["parents"]), ids(row["cached"]), row["profile"]
        stage.outside = stage.outside or bool(row["outside"])

    def _listed(self, seq: int, row: dict[str, Any]) -> None:
        live = self._live(seq, row)
        live.watching.setdefault(row["job"], seq)
        live.stage.jobs = (*live.stage.jobs, row["job"])

    def _submitted(self, seq: int, row: dict[str, Any]) -> None:
        live = self._live(seq, row)
        stage = live.stage
        stage.status, live.removed, live.by_task = "ACTIVE", _NEVER, False
        listing = [number for number in self._jobs_of.get(stage.stage, ()) if number in self._live_jobs]
        live.watch(listing, seq)
        stage.jobs = tuple(listing)

    def _completed(self, seq: int, row: dict[str, Any]) -> None:
        live = self.stages.get((row["stage_id"], row["stage_attempt"]))
        if live is None or live.removed < seq:
            return
        stage = live.stage
        self._describe(stage, row)
        failed = row["failure"] is not None
        stage.status = "FAILED" if failed else "COMPLETE" if row["submit_ms"] is not None else "SKIPPED"
        if stage.status == "SKIPPED":
            live.removed = seq if live.active(self.tasks, seq) == 0 else _NEVER
        else:
            live.removed = live.drained(self.tasks, seq)
            live.by_task = seq < live.removed < _NEVER

    def _job_end(self, seq: int, row: dict[str, Any]) -> None:
        job = self._live_jobs.get(row["job"])
        if job is None:
            return
        for number in dict.fromkeys(job.stages):
            for key in sorted(self._by_id.get(number, ())):
                live = self.stages[key]
                if live.removed > seq and live.stage.status == "PENDING":
                    live.stage.status, live.removed = "SKIPPED", seq
        job.status = "SUCCEEDED" if row["name"] == "JobSucceeded" else "FAILED"
        job.finish_ms, job.error = row["time_ms"], row["description"]
        self._written[job.number] = max(self._written.get(job.number, 0), seq)
        self._close(job.number)

    def _close(self, number: int) -> None:
        """Stop following a job."""
        for stage in dict.fromkeys(self._live_jobs.pop(number).stages):
            listing = self._jobs_of[stage]
            if number in listing:
                listing.remove(number)

    def _count(self) -> None:
        """Count the tasks of each job that ended while their stage was followed, up to the job's last write."""
        tasks = self.tasks
        for live in self._all:
            for number, begin, end in live.all_spans() if live.by_task else ():
                if begin < live.removed < end:
                    self._written[number] = max(self._written.get(number, 0), live.removed)
        for live in self._all:
            places = tasks.ends_of(live.stage.key)
            if not len(places):
                continue
            seq = tasks.seq[places]
            for number, begin, end in live.all_spans():
                job = self.jobs[number]
                written = _NEVER if job.status == "RUNNING" else self._written[number]
                low, high = max(begin, live.created), min(end - 1, live.removed, written)
                inside = places[(seq > low) & (seq <= high)]
                job.completed_tasks += int(tasks.success[inside].sum())
                job.failed_tasks += int(tasks.failed[inside].sum())


# -- executors -------------------------------------------------------------------------------------------------------


class _Rdd(msgspec.Struct):
    """State of a stored RDD: executors of each block, and memory by executor."""

    holders: dict[str, set[str]] = msgspec.field(default_factory=lambda: defaultdict(set))
    used: dict[str, int] = msgspec.field(default_factory=dict)
    memory: int = 0
    disk: int = 0


class Blocks:
    """Follows block updates like the history server: repeated updates add again, drops subtract, nothing falls below
    0."""

    def __init__(self, stages: pl.DataFrame) -> None:
        """``stages``: SPARK_STAGES rows; an RDD is known once a submitted stage declares it as stored."""
        known = stages.filter((pl.col("event") == "SUBMITTED") & pl.col("cached").is_not_null())
        self._since: dict[int, int] = {}
        for seq, cached in known.select("seq", "cached").iter_rows():
            for number in cached.split(","):
                self._since.setdefault(int(number), seq)
        self._rdds: dict[int, _Rdd] = {}
        self.stored: dict[int, Stored] = {}  # peak contents of each RDD, including those no longer stored

    def follow(self, seq: int, row: Mapping[str, Any], active: Mapping[str, Executor], one: Executor | None) -> None:
        """Process one row of SPARK_BLOCKS. ``one``: its executor if active; ``active``: all executors, for a whole
        RDD."""
        if row["block"] is None:
            self._forget(row["rdd"], active)
            return
        memory = row["memory"] or 0
        if one is not None:
            one.memory_used = max(0, one.memory_used + memory)
        number = row["rdd"]
        if number is None or self._since.get(number, seq) >= seq:
            return
        rdd = self._rdds.setdefault(number, _Rdd())
        name, holders = row["executor"], rdd.holders[row["block"]]
        self._remember(number, rdd, row)
        change = int(row["stored"] and name not in holders) - int(not row["stored"] and name in holders)
        (holders.add if row["stored"] else holders.discard)(name)
        if one is not None:
            one.rdd_blocks += change
            if one.rdd_blocks > 0:
                rdd.used[name] = max(0, rdd.used.get(name, 0) + memory)
            else:
                rdd.used.pop(name, None)

    def _remember(self, number: int, rdd: _Rdd, row: Mapping[str, Any]) -> None:
        """Update the peak contents of an RDD and its dropped blocks."""
        rdd.memory, rdd.disk = max(0, rdd.memory + (row["memory"] or 0)), max(0, rdd.disk + (row["disk"] or 0))
        was, held = self.stored.get(number, Stored()), bool(rdd.holders[row["block"]])
        self.stored[number] = Stored(
            max(was.memory, rdd.memory), max(was.disk, rdd.disk), was.blocks + int(row["stored"] and not held),
            was.dropped + int(held and not row["stored"]),
        )  # fmt: skip

    def _forget(self, number: int, active: Mapping[str, Executor]) -> None:
        """Remove a whole RDD from the executors that hold it."""
        rdd = self._rdds.pop(number, _Rdd())
        for name in (name for holders in rdd.holders.values() for name in holders if name in active):
            active[name].rdd_blocks -= 1
        for name in rdd.used.keys() & active.keys():
            active[name].memory_used = max(0, active[name].memory_used - rdd.used[name])


def _executors(frames: Frames, tasks: _Tasks, blocks: Blocks) -> list[Executor]:
    """Return the executors; a re-added one starts afresh."""
    executors: dict[str, Executor] = {}
    spans: dict[str, tuple[int, int]] = {}
    for seq, kind, row in _in_order(frames["spark_executors"], frames["spark_blocks"]):
        name = row["executor"]
        live = executors.get(name)
        if live is not None and not live.active:
            live = None
        if kind == 1:
            blocks.follow(seq, row, {n: e for n, e in executors.items() if e.active} if name is None else {}, live)
        elif row["event"] == "REMOVED":
            if live is not None:
                live.active, live.remove_ms, live.reason = False, row["time_ms"], row["reason"]
                spans[name] = (spans[name][0], seq)
        elif row["event"] in ("ADDED", "MANAGER"):
            if live is None:
                live = executors[name] = Executor(name, add_ms=row["time_ms"])
                spans[name] = (seq, _NEVER)
            live.host = row["host"] or live.host
            if row["event"] == "ADDED":
                live.cores, live.profile = row["cores"] or 0, row["profile"] or 0
            else:
                live.max_memory = row["memory"] or 0
    _add_tasks(executors, spans, tasks)
    _add_peaks(executors, frames)
    return list(executors.values())


def _add_peaks(executors: dict[str, Executor], frames: Frames) -> None:
    """Set the peak memory of executors."""
    peaks = frames["spark_peaks"].group_by("executor").agg(pl.col(PEAKS).max())
    for row in peaks.filter(pl.col("executor").is_in(list(executors))).iter_rows(named=True):
        executors[row["executor"]].peaks = {name: max(0, row[name] or 0) for name in PEAKS}
    if DRIVER in executors:
        executors[DRIVER].gc_ms = executors[DRIVER].peaks["gc"]  # since Spark 3.3


def _add_tasks(executors: dict[str, Executor], spans: dict[str, tuple[int, int]], tasks: _Tasks) -> None:
    """Sum up the tasks that ended while their executor was active."""
    known = pl.DataFrame(
        [(name, *span) for name, span in spans.items()], {"executor": pl.String, "begin": pl.Int64, "end": pl.Int64}, orient="row"
    )  # fmt: skip
    inside = (pl.col("seq") > pl.col("begin")) & (pl.col("seq") < pl.col("end"))
    measured = pl.col("measured") & (pl.col("reason") != "Resubmitted")
    metrics = {
        "gc_ms": "gc_ms",
        "input_bytes": "input_bytes",
        "shuffle_write": "shuffle_write_bytes",
        "run_ms": "run_ms",
    }
    ended = tasks.ends.with_columns(
        failed=pl.Series(tasks.failed, dtype=pl.Boolean), counted=pl.Series(tasks.counted, dtype=pl.Boolean)
    )
    sums = ended.join(known, on="executor").filter(inside).group_by("executor").agg(
        duration_ms=(pl.col("finish_ms") - pl.col("launch_ms")).sum(), completed_tasks=(pl.col("reason") == "Success").sum(),
        failed_tasks=pl.col("failed").sum(), total_tasks=pl.col("counted").sum(),
        shuffle_read=(pl.col("remote_bytes") + pl.col("local_bytes")).filter(measured).sum(),
        **{name: pl.col(column).filter(measured).sum() for name, column in metrics.items()},
    )  # fmt: skip
    for name, *values in sums.iter_rows():
        for field_, value in zip(sums.columns[1:], values, strict=True):
            setattr(executors[name], field_, value)
        executors[name].task_ms = executors[name].duration_ms
    for name, still in tasks.open.join(known, on="executor").filter(inside).group_by("executor").len().iter_rows():
        executors[name].total_tasks += still
