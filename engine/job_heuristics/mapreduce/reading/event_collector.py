"""The collector that turns the events of a job history (``records``) and their counters into input rows."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial
from itertools import chain
from typing import Any

import polars as pl

from engine.core.reading import MAX_FIELD, Problem, Problems, Reading, clean
from engine.core.tables import Gathered, Table
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
    Union,
)
from engine.job_heuristics.mapreduce.tables import (
    ATTEMPT_ENDS,
    ATTEMPT_STARTS,
    COUNTER_COLUMNS,
    FILE_COUNTER_NAMES,
    JOB_EVENTS,
    TASK_COUNTER_NAMES,
    TASK_ENDS,
    TASK_STARTS,
)

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


_TASK_TABLES = (TASK_STARTS, TASK_ENDS, ATTEMPT_STARTS, ATTEMPT_ENDS)
_GATHERED = {
    table.name: [name for name in table.schema if name != "job_id" and name not in COUNTER_COLUMNS]
    for table in _TASK_TABLES
}
_OWN = "own counters"  # of the few attempts that have them
_GATHERED[TASK_ENDS.name] += COUNTER_COLUMNS
_GATHERED[ATTEMPT_ENDS.name].append(_OWN)
_TEXTS = {name for table in (*_TASK_TABLES, JOB_EVENTS) for name, kind in table.schema.items() if kind == pl.String}
_TEXTS -= {"job_id", "source", "event"}  # our own
MOST_COUNTERS = 120
MOST_GROUPS = 50  # Hadoop's default limits per record for counters and groups other than its own
_OWN_GROUPS = {f"org.apache.hadoop.mapreduce.{name}" for name in ("TaskCounter", "JobCounter", "FileSystemCounter")}


def groups_of(counters: Counters | None) -> list[Group]:
    """Return the groups of one record, plain or wrapped."""
    if counters is not None and counters.wrapped is not None:
        counters = counters.wrapped
    return [] if counters is None else counters.groups or []


def counter_row(groups: Sequence[Group]) -> Sequence[int | None]:
    """Return the counter columns of one record, in the order of COUNTER_COLUMNS. The last of groups with the same
    name counts, as in Hadoop's parser."""
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


def limit_error(groups: Sequence[Group]) -> str:
    """Return the exception of Hadoop's parser for too many counters or groups; empty if there is none."""
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


def plain(text: Any) -> Any:
    """Return a value; a nullable string from either of Avro's forms."""
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
    joined = "".join(filter(None, values))
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
        self.attempt_starts: list[tuple[Any, ...]] = []
        self.attempt_ends: list[tuple[Any, ...]] = []
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

    def counted(self, seq: int, counters: Counters | None) -> Sequence[int | None]:
        """Return the ``counter_row`` of a record; note if Hadoop's parser would refuse it for its number of ``counters``."""
        groups = groups_of(counters)
        if error := limit_error(groups):
            self.parser_error(seq, error)
        return counter_row(groups)

    def jobs_of(self, ids: list[str]) -> list[str | None]:
        """Return the job of each task id; one without a job gives None and a problem."""
        if self.job is not None and job_of(self.job) == self.job:
            head = "task_" + self.job[4:] + "_"
            if not [each for each in ids if not each.startswith(head)]:
                return [self.job] * len(ids)
        jobs = [job_of(each) for each in ids]
        if None in jobs:
            self.problem("bad-record", "a task id that holds no job", count=jobs.count(None))
        return jobs

    def reading(self, consumed: int, state: Any = None) -> Reading:
        """Return everything gathered, as columns by table."""
        rows: dict[str, Any] = {}
        for name, make in _MAKE.items():
            if gathered := getattr(self, name):
                rows[name] = Gathered(len(gathered), (gathered, self.jobs_of([row[1] for row in gathered])), make)
        if self.jobs:
            rows["job_events"] = Gathered(len(self.jobs), (self.source, self.jobs), _job_columns)
        if self.conf:
            rows["conf"] = Gathered(len(self.conf), self.conf, _conf_columns)
        return Reading(rows=rows, problems=self.problems, consumed=consumed, state=state)


def _columns(table: Table, pieces: Sequence[Any]) -> dict[str, list[Any]]:
    """Make the columns of a table from the rows of several files and their jobs."""
    rows = list(chain.from_iterable(piece[0] for piece in pieces))
    columns = dict(zip(_GATHERED[table.name], map(list, zip(*rows, strict=True)), strict=True))
    for row, values in enumerate(columns.pop(_OWN, ())):
        for name, value in zip(COUNTER_COLUMNS, values or (), strict=values is not None):
            if value is not None:
                columns.setdefault(name, [None] * len(rows))[row] = value
    columns["job_id"] = list(chain.from_iterable(piece[1] for piece in pieces))
    # Counters without a value are left out; the store fills in nulls.
    return _cleaned({name: v for name, v in columns.items() if name not in COUNTER_COLUMNS or v.count(None) < len(v)})


def _job_columns(pieces: Sequence[tuple[str, list[dict[str, Any]]]]) -> dict[str, list[Any]]:
    rows = [{"source": source, **row} for source, jobs in pieces for row in jobs]
    names = set().union(*rows)
    return _cleaned({name: [row.get(name) for row in rows] for name in JOB_EVENTS.schema if name in names})


def _cleaned(columns: dict[str, list[Any]]) -> dict[str, list[Any]]:
    for name in _TEXTS & columns.keys():
        if name in _LINES:
            columns[name] = [text and clean_text(text, _LINES[name]) for text in columns[name]]
        else:
            columns[name] = clean_column(columns[name])
    return columns


def _conf_columns(pieces: Sequence[list[tuple[str | None, str, str | None, str | None]]]) -> dict[str, list[Any]]:
    job, key, value, origin = zip(*chain.from_iterable(pieces), strict=True)
    return {
        "job_id": list(job),
        "key": clean_column(list(key)),
        "value": [_property(name, each) for name, each in zip(key, value, strict=True)],
        "origin": clean_column(list(origin)),
    }


_MAKE = {table.name: partial(_columns, table) for table in _TASK_TABLES}


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
MOST_DIAGNOSTICS = 2**16  # most characters of a job's diagnostics: Dr. Elephant shows 65,535.
MOST_LISTED = 2**20  # most characters of a list of files in the distributed cache
_LINES = {"error": MAX_FIELD, "diagnostics": MOST_DIAGNOSTICS}  # texts of several lines, and how long they may be


# --- one event at a time ---------------------------------------------------------------------------------------------


def _progress(event: AttemptEnd) -> bytes | None:
    clock = bytes(event.clockSplits)
    if len(clock) < 3:
        return None
    return b";".join((clock, bytes(event.cpuUsages), bytes(event.vMemKbytes), bytes(event.physMemKbytes)))


def _job(to: Collector, seq: int, job: str, *, parsed: bool = False) -> str | None:
    """Return the job id of a record; an invalid one gives None and a problem, and the record belongs to the current
    job.

    ``parsed``: Hadoop's parser would throw on the id.
    """
    if job == to.job or job_of(job) == job:
        return job
    to.problem("bad-record", "a job id that names no job")
    if parsed:
        to.parser_error(
            seq, f"java.lang.IllegalArgumentException: JobId string : {clean(job, 100)} is not properly formed"
        )
    return None


_FACTS: dict[type[Record], dict[str, str]] = {
    AMStarted: {
        "time_ms": "startTime", "am_start_ms": "startTime", "am_host": "nodeManagerHost", "am_container": "containerId",
    },
    JobSubmitted: {
        "time_ms": "submitTime", "submit_ms": "submitTime", "name": "jobName", "user": "userName", "queue": "jobQueueName",
    },
    JobQueueChange: {"queue": "jobQueueName"},
    JobInited: {
        "time_ms": "launchTime", "launch_ms": "launchTime", "maps": "totalMaps", "reduces": "totalReduces",
        "uberized": "uberized",
    },
    JobInfoChange: {"submit_ms": "submitTime", "launch_ms": "launchTime"},
    JobFinished: {
        "time_ms": "finishTime", "finish_ms": "finishTime", "maps_finished": "finishedMaps",
        "reduces_finished": "finishedReduces",
    },
    JobUnsuccessfulCompletion: {
        "time_ms": "finishTime", "finish_ms": "finishTime", "state": "jobStatus", "maps_finished": "finishedMaps",
        "reduces_finished": "finishedReduces", "diagnostics": "diagnostics",
    },
}  # fmt: skip
"""Kind of record about a whole job → column → field of the record."""
_PARSED = (JobSubmitted, JobFinished)  # records whose job id Hadoop's parser parses, so that it throws on a wrong one


def _job_event(to: Collector, seq: int, kind: str, e: Any) -> None:
    facts = {column: plain(getattr(e, name)) for column, name in _FACTS[type(e)].items()}
    job = (
        job_of(plain(e.applicationAttemptId) or "")
        if isinstance(e, AMStarted)
        else _job(to, seq, e.jobid, parsed=isinstance(e, _PARSED))
    )
    if isinstance(e, JobSubmitted):
        named = (plain(e.workflowId), plain(e.workflowName), plain(e.workflowNodeName))
        facts["workflow"] = "/".join(filter(None, named)) or None
    elif isinstance(e, JobFinished | JobUnsuccessfulCompletion):
        facts["state"] = facts.get("state") or ("SUCCEEDED" if kind == "JOB_FINISHED" else kind.removeprefix("JOB_"))
    to.job_event(seq, kind, job, **facts)


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
    to.attempt_ends.append(
        (
            seq, e.taskid, e.attemptId, e.taskType or kind.partition("_")[0], e.taskStatus, e.finishTime,
            e.mapFinishTime, e.shuffleFinishTime, e.sortFinishTime, plain(e.hostname), plain(e.rackname), None,
            plain(e.state), _progress(e), False, None,
        )
    )  # fmt: skip
    if kind.startswith(_NO_PHASES):
        to.parser_error(seq, f"java.lang.ClassCastException: {kind} is taken for the end of a map or reduce")


def _attempt_unsuccessful(to: Collector, seq: int, kind: str, e: TaskAttemptUnsuccessfulCompletion) -> None:
    own = to.counted(seq, e.counters) if e.counters is not None else None
    to.attempt_ends.append(
        (
            seq, e.taskid, e.attemptId, e.taskType or kind.partition("_")[0], e.status, e.finishTime, None, None,
            None, plain(e.hostname), plain(e.rackname), plain(e.error), None, _progress(e), own is not None, own,
        )
    )  # fmt: skip


def _task_finished(to: Collector, seq: int, kind: str, e: TaskFinished) -> None:
    # Hadoop's parser ignores the status: the task counts as successful.
    to.task_ends.append(
        (
            seq, e.taskid, e.taskType, "SUCCEEDED", None, e.finishTime, plain(e.successfulAttemptId),
            e.counters is not None, None, *to.counted(seq, e.counters),
        )
    )  # fmt: skip


def _task_failed(to: Collector, seq: int, kind: str, e: TaskFailed) -> None:
    to.task_ends.append(
        (
            seq, e.taskid, e.taskType, e.status, None, e.finishTime, plain(e.failedDueToAttempt),
            e.counters is not None, plain(e.error), *to.counted(seq, e.counters),
        )
    )  # fmt: skip


HANDLERS: dict[type[Record], Callable[[Collector, int, str, Any], None]] = {
    **dict.fromkeys(_FACTS, _job_event),
    TaskStarted: _task_started,
    TaskAttemptStarted: _attempt_started,
    MapAttemptFinished: _attempt_finished,
    TaskAttemptUnsuccessfulCompletion: _attempt_unsuccessful,
    TaskFinished: _task_finished,
    TaskFailed: _task_failed,
}
"""What to do with each kind of record."""
