"""The collector that turns the events of a job history (``records``) and their counters into input rows."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any

from engine.core.reading import MAX_FIELD, Problem, Problems, Reading, clean
from engine.job_heuristics.mapreduce.reading.records import (
    AMStarted,
    AttemptEnd,
    Counters,
    Group,
    JobFinished,
    JobInfoChange,
    JobInited,
    JobQueueChange,
    JobSubmitted,
    JobUnsuccessfulCompletion,
    MapAttemptFinished,
    Record,
    TaskAttemptStarted,
    TaskAttemptUnsuccessfulCompletion,
    TaskFailed,
    TaskFinished,
    TaskStarted,
    Text,
    Union,
)
from engine.job_heuristics.mapreduce.tables import COUNTER_COLUMNS, FILE_COUNTER_NAMES, TASK_COUNTER_NAMES

_WIDTH = len(COUNTER_COLUMNS)
_EMPTY: tuple[None, ...] = (None,) * _WIDTH
_TASK_INDEX = {name: COUNTER_COLUMNS.index(column) for name, column in TASK_COUNTER_NAMES.items()}
_FILE_INDEX = {name: COUNTER_COLUMNS.index(column) for name, column in FILE_COUNTER_NAMES.items()}
OFFICIAL: dict[str, dict[str, int]] = {
    "org.apache.hadoop.mapreduce.TaskCounter": _TASK_INDEX,
    "org.apache.hadoop.mapred.Task$Counter": _TASK_INDEX,
    "org.apache.hadoop.mapreduce.FileSystemCounter": _FILE_INDEX,
    "FileSystemCounters": _FILE_INDEX,
}
"""Counter group → counter → index of its column."""
# Dr. Elephant looks a counter up by name in the first group that has it. We prefer the proper group and use another only
# if that lacks the counter.
ANYWHERE = {
    name: _TASK_INDEX.get(name, _FILE_INDEX.get(name, -1))
    for name in (
        "CPU_MILLISECONDS", "GC_TIME_MILLIS", "PHYSICAL_MEMORY_BYTES", "VIRTUAL_MEMORY_BYTES", "SPILLED_RECORDS",
        "MAP_OUTPUT_RECORDS", "REDUCE_SHUFFLE_BYTES", "HDFS_BYTES_READ", "S3_BYTES_READ", "S3A_BYTES_READ",
        "S3N_BYTES_READ",
    )
}  # fmt: skip


MOST_COUNTERS = 120
MOST_GROUPS = 50
"""Hadoop's default limits per record for counters and groups other than its own."""
_OWN_GROUPS = {f"org.apache.hadoop.mapreduce.{name}" for name in ("TaskCounter", "JobCounter", "FileSystemCounter")}


def groups_of(counters: Counters | None) -> list[Group]:
    """Return the groups of one record, plain or wrapped."""
    if counters is not None and counters.wrapped is not None:
        counters = counters.wrapped
    return [] if counters is None else counters.groups or []


def counter_row(counters: Counters | None) -> Sequence[int | None]:
    """Return the counter columns of one record, in the order of COUNTER_COLUMNS. The last of groups with the same
    name counts, as in Hadoop's parser."""
    groups = groups_of(counters)
    if not groups:
        return _EMPTY
    by_name = {group.name: group for group in groups}
    row: list[int | None] = [None] * _WIDTH
    others: list[Group] = []
    for group in by_name.values():
        index = OFFICIAL.get(group.name)
        if index is None:
            others.append(group)
            continue
        for counter in group.counts:
            at = index.get(counter.name)
            if at is not None:
                row[at] = counter.value
    for counter in chain.from_iterable(group.counts for group in others):
        at = ANYWHERE.get(counter.name)
        if at is not None and row[at] is None:
            row[at] = counter.value
    return row


def limit_error(counters: Counters | None) -> str:
    """Return the exception of Hadoop's parser for too many counters or groups; empty if there is none."""
    groups = groups_of(counters)
    if len(groups) <= MOST_GROUPS and sum([len(group.counts) for group in groups]) <= MOST_COUNTERS:
        return ""
    thrown = "org.apache.hadoop.mapreduce.counters.LimitExceededException: Too many counter"
    names: set[str] = set()
    count = 0
    for group in groups:
        if group.name in _OWN_GROUPS:
            continue
        # A group that replaces another of its name still counts, and so do the counters of both.
        if len(names) == MOST_GROUPS:
            return f"{thrown} groups: {MOST_GROUPS + 1} max={MOST_GROUPS}"
        names.add(group.name)
        count += len({counter.name for counter in group.counts})
        if count > MOST_COUNTERS:
            return f"{thrown}s: {MOST_COUNTERS + 1} max={MOST_COUNTERS}"
    return ""


def plain(text: Text) -> str | None:
    """Return a nullable string from either of Avro's forms."""
    return text.string if isinstance(text, Union) else text


def job_of(some_id: str) -> str | None:
    """Return the job id inside a task, attempt or application id, None where there is none."""
    parts = some_id.split("_")
    if len(parts) >= 3 and parts[0] in {"task", "attempt", "job", "application", "appattempt"}:
        cluster, sequence = parts[1], parts[2]
        # Local runs name the cluster ``local123``; everything else is digits.
        if sequence.isdecimal() and cluster.removeprefix("local").isdecimal():
            return f"job_{cluster}_{sequence}"
    return None


def clean_column(values: list[str | None], limit: int = MAX_FIELD) -> list[str | None]:
    """Clean ``values``. Checks them all at once, since hardly any need it."""
    joined = "".join([v for v in values if v])
    if (
        joined.isascii()
        and joined.isprintable()
        and (len(joined) <= limit or max(map(len, filter(None, values))) <= limit)
    ):
        return values
    return [None if v is None else clean(v, limit) for v in values]


class Collector:
    """Gathers rows of the input tables while a file is read."""

    def __init__(
        self,
        path: str,
        source: str = "history",
        job: str | None = None,
        unplaced: Sequence[tuple[int, str]] = (),
        broken: Sequence[str] = (),
    ) -> None:
        """``job``: job of the preceding records; ``unplaced``: parser errors before any job is named; ``broken``:
        jobs with a parser error."""
        self.path = path
        self.source = source
        self.job = job
        self.unplaced: list[tuple[int, str]] = [(place, message) for place, message in unplaced]
        self.problems = Problems()
        self.broken = set(broken)
        self.jobs: list[dict[str, Any]] = []
        self.task_starts: list[tuple[Any, ...]] = []
        self.task_ends: list[tuple[Any, ...]] = []
        self.task_counters: list[Sequence[int | None]] = []
        self.attempt_starts: list[tuple[Any, ...]] = []
        self.attempt_ends: list[tuple[Any, ...]] = []
        self.attempt_counters: dict[int, Sequence[int | None]] = {}
        self.conf: list[tuple[str | None, str, str | None, str | None]] = []

    def problem(
        self, kind: str, reason: str, *, line: int | None = None, byte: int | None = None, count: int = 1
    ) -> None:
        """Note one problem of this file."""
        self.problems.append(Problem.at(self.path, kind, reason, line=line, byte=byte, count=count))

    def job_event(self, seq: int, event: str, job: str | None = None, **facts: Any) -> None:
        """Add a job-level row of ``job``, by default the current one."""
        if job is not None:
            self.job = job = clean(job, 100)
            unplaced, self.unplaced = self.unplaced, []
            for place, message in unplaced:
                self.parser_error(place, message)
        self.jobs.append({"seq": seq, "event": event, "job_id": self.job, **facts})

    def parser_error(self, seq: int, message: str) -> None:
        """Note an exception of Hadoop's or Dr. Elephant's parser at this place. Only the first per job counts."""
        if self.job is None:
            self.unplaced = self.unplaced or [(seq, message)]
        elif self.job not in self.broken:
            self.broken.add(self.job)
            self.job_event(seq, "BROKEN", broken=message)

    def check_limits(self, seq: int, counters: Counters | None) -> None:
        """Note if Hadoop's parser would refuse a record for its number of ``counters``."""
        if counters is not None and (error := limit_error(counters)):
            self.parser_error(seq, error)

    def jobs_of(self, ids: list[str]) -> list[str | None]:
        """Return the job of each task id; one without a job gives None and a problem."""
        if self.job is not None and job_of(self.job) == self.job:
            head = "task_" + self.job[4:] + "_"
            if all(i.startswith(head) for i in ids):
                return [self.job] * len(ids)
        jobs = [job_of(each) for each in ids]
        if None in jobs:
            self.problem("bad-record", "a task id that holds no job", count=jobs.count(None))
        return jobs

    def _table(
        self, names: tuple[str, ...], rows: list[tuple[Any, ...]], counters: Sequence[Sequence[int | None]] = ()
    ) -> dict[str, list[Any]]:
        columns: dict[str, list[Any]] = {}
        for name, values in zip(names, zip(*rows, strict=True), strict=True):
            column = list(values)
            if name in _TEXTS:
                column = clean_column(column)
            elif name == "error":
                column = [v and clean_text(v) for v in column]
            columns[name] = column
        columns["job_id"] = self.jobs_of(columns["task_id"])
        # Counters without a value are left out; the store fills in nulls.
        for name, values in zip(COUNTER_COLUMNS, zip(*counters, strict=True), strict=False):
            if values.count(None) < len(values):
                columns[name] = list(values)
        return columns

    def _sparse(self, columns: dict[str, list[Any]], count: int) -> None:
        """Add the counters of the few attempts that have their own."""
        for row, values in self.attempt_counters.items():
            for name, value in zip(COUNTER_COLUMNS, values, strict=True):
                if value is not None:
                    columns.setdefault(name, [None] * count)[row] = value

    def attempt_end(self, row: tuple[Any, ...], counters: Sequence[int | None] | None = None) -> None:
        """Add the end of an attempt, with its own counters if it has any."""
        if counters is not None:
            self.attempt_counters[len(self.attempt_ends)] = counters
        self.attempt_ends.append(row)

    def reading(self, consumed: int, state: Any = None) -> Reading:
        """Return everything gathered, as columns by table."""
        rows: dict[str, Any] = {}
        if self.task_starts:
            rows["task_starts"] = self._table(("seq", "task_id", "type", "scheduled_ms", "locations"), self.task_starts)
        if self.task_ends:
            rows["task_ends"] = self._table(
                ("seq", "task_id", "type", "state", "scheduled_ms", "finish_ms", "chosen_id", "has_counters", "error"),
                self.task_ends,
                self.task_counters,
            )
        if self.attempt_starts:
            rows["attempt_starts"] = self._table(
                ("seq", "task_id", "attempt_id", "type", "start_ms", "host", "container", "locality", "avataar"),
                self.attempt_starts,
            )
        if self.attempt_ends:
            rows["attempt_ends"] = self._table(
                (
                    "seq", "task_id", "attempt_id", "type", "state", "finish_ms", "map_finish_ms", "shuffle_finish_ms",
                    "sort_finish_ms", "host", "rack", "error", "split", "progress", "counted",
                ),
                self.attempt_ends,
            )  # fmt: skip
            self._sparse(rows["attempt_ends"], len(self.attempt_ends))
        if self.jobs:
            rows["job_events"] = self._job_rows()
        if self.conf:
            job, key, value, origin = zip(*self.conf, strict=True)
            rows["conf"] = {
                "job_id": list(job),
                "key": clean_column(list(key)),
                "value": [_property(name, each) for name, each in zip(key, value, strict=True)],
                "origin": clean_column(list(origin)),
            }
        return Reading(rows=rows, problems=self.problems, consumed=consumed, state=state)

    def _job_rows(self) -> dict[str, list[Any]]:
        names = set().union(*self.jobs)
        columns: dict[str, list[Any]] = {"source": [row.get("source", self.source) for row in self.jobs]}
        for name in _JOB_COLUMNS:
            if name in names and name != "source":
                columns[name] = [row.get(name) for row in self.jobs]
        for name in _JOB_TEXTS:
            if name in columns:
                columns[name] = clean_column(columns[name])
        if "diagnostics" in columns:
            columns["diagnostics"] = [v and clean_text(v, MOST_DIAGNOSTICS) for v in columns["diagnostics"]]
        return columns


def clean_text(text: str, limit: int = MAX_FIELD) -> str:
    """Clean a multi-line text: like ``clean``, but keeping line breaks and tabs."""
    if len(text) > limit:
        text = text[: limit - 1] + "…"
    return "\n".join("\t".join(clean(part, limit) for part in line.split("\t")) for line in text.split("\n"))


def _property(name: str, value: str | None) -> str | None:
    """Clean the value of a property. Line breaks stay because they affect the job type; lists of files are not cut
    because they are counted."""
    if value is None or (len(value) <= MAX_FIELD and value.isascii() and value.isprintable()):
        return value
    limit = MOST_LISTED if ".cache." in name else MAX_FIELD
    return clean_text(_LINE_ENDS.sub("\n", value[: limit + 1]), limit)


_LINE_ENDS = re.compile("\r\n|[\r\x85\u2028\u2029]")
MOST_DIAGNOSTICS = 2**16
"""Most characters of a job's diagnostics: Dr. Elephant shows 65,535."""
MOST_LISTED = 2**20
"""Most characters of a list of files in the distributed cache."""
_TEXTS = frozenset(
    {
        "task_id", "attempt_id", "type", "state", "host", "rack", "locations", "container", "locality", "avataar",
        "split", "chosen_id",
    }
)  # fmt: skip
_JOB_TEXTS = ("name", "user", "queue", "state", "am_host", "am_container", "workflow", "broken")
_JOB_COLUMNS = (
    "seq", "job_id", "event", "source", "time_ms", "submit_ms", "launch_ms", "finish_ms", "am_start_ms", "name",
    "user", "queue", "state", "maps", "reduces", "maps_finished", "reduces_finished", "attempts_running", "uberized",
    "am_host", "am_container", "workflow", "diagnostics", "broken",
)  # fmt: skip


# --- one event at a time ---------------------------------------------------------------------------------------------


def _progress(event: AttemptEnd) -> bytes | None:
    clock = bytes(event.clockSplits)
    if len(clock) < 3:
        return None
    return b";".join((clock, bytes(event.cpuUsages), bytes(event.vMemKbytes), bytes(event.physMemKbytes)))


def _am_started(to: Collector, seq: int, kind: str, e: AMStarted) -> None:
    job = job_of(plain(e.applicationAttemptId) or "")
    to.job_event(
        seq, kind, job, time_ms=e.startTime, am_start_ms=e.startTime, am_host=plain(e.nodeManagerHost),
        am_container=plain(e.containerId),
    )  # fmt: skip


def _job(to: Collector, seq: int, job: str, *, parsed: bool = False) -> str | None:
    """Return the job id of a record; an invalid one gives None and a problem, and the record belongs to the current
    job.

    ``parsed``: Hadoop's parser would throw on the id.
    """
    if job_of(job) == job:
        return job
    to.problem("bad-record", "a job id that names no job")
    if parsed:
        message = f"java.lang.IllegalArgumentException: JobId string : {clean(job, 100)} is not properly formed"
        to.parser_error(seq, message)
    return None


def _submitted(to: Collector, seq: int, kind: str, e: JobSubmitted) -> None:
    job = _job(to, seq, e.jobid, parsed=True)
    workflow = "/".join(filter(None, (plain(e.workflowId), plain(e.workflowName), plain(e.workflowNodeName))))
    to.job_event(
        seq, kind, job, time_ms=e.submitTime, submit_ms=e.submitTime, name=plain(e.jobName),
        user=plain(e.userName), queue=plain(e.jobQueueName), workflow=workflow or None,
    )  # fmt: skip


def _queue(to: Collector, seq: int, kind: str, e: JobQueueChange) -> None:
    to.job_event(seq, kind, _job(to, seq, e.jobid), queue=plain(e.jobQueueName))


def _inited(to: Collector, seq: int, kind: str, e: JobInited) -> None:
    job = _job(to, seq, e.jobid)
    to.job_event(
        seq, kind, job, time_ms=e.launchTime, launch_ms=e.launchTime, maps=e.totalMaps, reduces=e.totalReduces,
        uberized=e.uberized,
    )  # fmt: skip


def _info(to: Collector, seq: int, kind: str, e: JobInfoChange) -> None:
    to.job_event(seq, kind, _job(to, seq, e.jobid), submit_ms=e.submitTime, launch_ms=e.launchTime)


def _finished(to: Collector, seq: int, kind: str, e: JobFinished) -> None:
    job = _job(to, seq, e.jobid, parsed=True)
    to.job_event(
        seq, kind, job, time_ms=e.finishTime, finish_ms=e.finishTime, state="SUCCEEDED",
        maps_finished=e.finishedMaps, reduces_finished=e.finishedReduces,
    )  # fmt: skip


def _unsuccessful(to: Collector, seq: int, kind: str, e: JobUnsuccessfulCompletion) -> None:
    job = _job(to, seq, e.jobid)
    to.job_event(
        seq, kind, job, time_ms=e.finishTime, finish_ms=e.finishTime,
        state=plain(e.jobStatus) or kind.removeprefix("JOB_"), maps_finished=e.finishedMaps,
        reduces_finished=e.finishedReduces, diagnostics=plain(e.diagnostics),
    )  # fmt: skip


def _task_started(to: Collector, seq: int, kind: str, e: TaskStarted) -> None:
    to.task_starts.append((seq, e.taskid, e.taskType, e.startTime, plain(e.splitLocations)))


def _attempt_started(to: Collector, seq: int, kind: str, e: TaskAttemptStarted) -> None:
    to.attempt_starts.append(
        (
            seq, e.taskid, e.attemptId, e.taskType or kind.partition("_")[0], e.startTime, plain(e.trackerName),
            plain(e.containerId), plain(e.locality), plain(e.avataar),
        )
    )  # fmt: skip


_NO_PHASES = ("SETUP", "CLEANUP")


def _attempt_finished(to: Collector, seq: int, kind: str, e: MapAttemptFinished) -> None:
    to.attempt_end(
        (
            seq, e.taskid, e.attemptId, e.taskType or kind.partition("_")[0], e.taskStatus, e.finishTime,
            e.mapFinishTime, e.shuffleFinishTime, e.sortFinishTime, plain(e.hostname), plain(e.rackname), None,
            plain(e.state), _progress(e), False,
        )
    )  # fmt: skip
    if kind.startswith(_NO_PHASES):
        to.parser_error(seq, f"java.lang.ClassCastException: {kind} is taken for the end of a map or reduce")


def _attempt_unsuccessful(to: Collector, seq: int, kind: str, e: TaskAttemptUnsuccessfulCompletion) -> None:
    to.attempt_end(
        (
            seq, e.taskid, e.attemptId, e.taskType or kind.partition("_")[0], e.status, e.finishTime, None, None,
            None, plain(e.hostname), plain(e.rackname), plain(e.error), None, _progress(e), e.counters is not None,
        ),
        counter_row(e.counters) if e.counters is not None else None,
    )  # fmt: skip
    to.check_limits(seq, e.counters)


def _task_finished(to: Collector, seq: int, kind: str, e: TaskFinished) -> None:
    chosen = plain(e.successfulAttemptId)
    # Hadoop's parser ignores the status: the task counts as successful.
    to.task_ends.append(
        (seq, e.taskid, e.taskType, "SUCCEEDED", None, e.finishTime, chosen, e.counters is not None, None)
    )
    to.task_counters.append(counter_row(e.counters))
    to.check_limits(seq, e.counters)


def _task_failed(to: Collector, seq: int, kind: str, e: TaskFailed) -> None:
    to.task_ends.append(
        (
            seq, e.taskid, e.taskType, e.status, None, e.finishTime, plain(e.failedDueToAttempt),
            e.counters is not None, plain(e.error),
        )
    )  # fmt: skip
    to.task_counters.append(counter_row(e.counters))
    to.check_limits(seq, e.counters)


HANDLERS: dict[type[Record], Callable[[Collector, int, str, Any], None]] = {
    AMStarted: _am_started,
    JobSubmitted: _submitted,
    JobQueueChange: _queue,
    JobInited: _inited,
    JobInfoChange: _info,
    JobFinished: _finished,
    JobUnsuccessfulCompletion: _unsuccessful,
    TaskStarted: _task_started,
    TaskAttemptStarted: _attempt_started,
    MapAttemptFinished: _attempt_finished,
    TaskAttemptUnsuccessfulCompletion: _attempt_unsuccessful,
    TaskFinished: _task_finished,
    TaskFailed: _task_failed,
}
"""What to do with each kind of record."""
