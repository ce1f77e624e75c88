"""The file kinds of MapReduce jobs: histories, configurations, and saved REST answers."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from engine.core.reading import Document, FileKind, Reading, Source
from engine.core.tables import Table
from engine.formats import json_text
from engine.formats.hadoop_xml import BadXml, properties
from engine.job_heuristics.mapreduce.reading.event_collector import Collector, counter_row, job_of
from engine.job_heuristics.mapreduce.reading.history import History
from engine.job_heuristics.mapreduce.reading.records import Counter, Group
from engine.job_heuristics.mapreduce.tables import CONF, INPUTS

JOB_IN_NAME = re.compile(r"job_(?:local)?\d+_\d+")
_SOME_ID = re.compile(r"(?:job|appattempt|application)_(?:local)?\d+_\d+")
_NAMING_PROPERTIES = ("mapreduce.job.id", "mapreduce.job.application.attempt.id", "mapreduce.job.dir", "mapred.job.id")
"""Properties whose value holds the job id, most reliable first."""


RENAMED = {
    "mapred.reduce.slowstart.completed.maps": "mapreduce.job.reduce.slowstart.completedmaps",
    "mapred.job.map.memory.mb": "mapreduce.map.memory.mb",
    "mapred.job.reduce.memory.mb": "mapreduce.reduce.memory.mb",
    "mapred.job.queue.name": "mapreduce.job.queuename",
    "mapred.cache.files": "mapreduce.job.cache.files",
    "mapred.cache.files.filesizes": "mapreduce.job.cache.files.filesizes",
    "mapred.cache.archives": "mapreduce.job.cache.archives",
    "mapred.cache.archives.filesizes": "mapreduce.job.cache.archives.filesizes",
}
"""Properties looked up here that Hadoop 2 renames when it loads a configuration."""


class JobConf(Document):
    """``JOBID_conf.xml`` beside a history, or ``job.xml`` in a staging folder."""

    id = "job-conf"
    title = "Job configurations (JOBID_conf.xml)"
    tables: tuple[Table, ...] = (CONF,)

    def recognise(self, name: str, head: bytes) -> bool:
        """Recognise it by name: a Hadoop configuration whose name holds no job is a site file."""
        if name.endswith("_conf.xml") and JOB_IN_NAME.match(name):
            return True
        return (name == "job.xml" or name.endswith("_conf.xml")) and b"<configuration" in head

    def read(self, source: Source, data: bytes, state: Any, final: bool) -> Reading:
        """Read the whole file; while it is malformed its last good version stays."""
        to = Collector(source.path)
        try:
            rows = properties(data, RENAMED)
        except BadXml as error:
            to.problem("bad-xml", str(error))
            reading = to.reading(0)
            reading.complete = False
            return reading
        named = {name: value for name, value, _ in rows if name in _NAMING_PROPERTIES}
        ids = [_SOME_ID.search(named.get(key, "")) for key in _NAMING_PROPERTIES]
        folders = reversed(source.path.split("/")[:-1])
        jobs = (job_in(source.name), *(job_of(match.group(0)) for match in ids if match), *map(job_in, folders))
        job = next(filter(None, jobs), None)
        if job is None:
            to.problem("no-job", "neither its name nor its content says which job it configures")
        to.conf = [(job, name, value, origin) for name, value, origin in rows]
        return to.reading(len(data))


def job_in(name: str) -> str | None:
    """Return the job id that a file or folder name begins with, or None."""
    match = JOB_IN_NAME.match(name)
    return match.group(0) if match else None


_KEYS = rb"job|jobs|conf|jobCounters|task|tasks|jobTaskCounters|jobTaskAttemptCounters|taskAttempt|taskAttempts"
_HEAD = re.compile(rb'^\s*\{\s*"(' + _KEYS + rb')"\s*:\s*[{\[n]')
_ID = re.compile(rb'"id"\s*:\s*"(?:job|task|attempt)_(?:local)?\d+_\d+')
_RUNNING_STATES = frozenset({"NEW", "STARTING", "RUNNING", "COMMIT_PENDING", "SUCCESS_FINISHING_CONTAINER", "ASSIGNED",
                             "UNASSIGNED", "SCHEDULED", "SUCCESS_CONTAINER_CLEANUP", "KILL_WAIT"})  # fmt: skip


class RestAnswer(Document):
    """One saved answer of ``/ws/v1/history/mapreduce/jobs/...`` or ``/ws/v1/mapreduce/jobs/...``."""

    id = "mapreduce-rest"
    title = "Answers of the history server and the application master (JSON)"
    tables: tuple[Table, ...] = INPUTS

    def recognise(self, name: str, head: bytes) -> bool:
        """Recognise it by its first key and form of ids."""
        match = _HEAD.match(head)
        if match is None:
            return False
        return b'"property"' in head if match.group(1) == b"conf" else _ID.search(head) is not None

    def read(self, source: Source, data: bytes, state: Any, final: bool) -> Reading:
        """Read the whole answer."""
        document = json_text.decode(source, data)
        if isinstance(document, Reading):
            return document
        to = Collector(source.path, source="rest", job=_job_of_path(source.path))
        to.problems += document.problems
        answer = document.value
        if isinstance(answer, dict):
            for key, (inner, handle) in _ANSWERS.items():
                for entry in objects(answer.get(key), inner) if inner else objects(answer, key):
                    handle(to, entry)
        return to.reading(len(data))


def _job_of_path(path: str) -> str | None:
    for part in reversed(path.split("/")):
        match = JOB_IN_NAME.match(part)
        if match:
            return match.group(0)
        if part.startswith("task_"):
            return job_of(part)
    return None


def _job(to: Collector, entry: dict[str, Any]) -> None:
    f = JsonFields(to, entry)
    job = f.id("id", "a job without an id")
    if job is None:
        return
    running = [f.number("runningMapAttempts"), f.number("runningReduceAttempts")]
    live = "mapProgress" in entry or running != [None, None]
    to.job_event(
        0, "REST_JOB", job_of(job), source="am" if live else "rest", name=f.text("name"), user=f.text("user"),
        queue=f.text("queue"), state=f.text("state"), submit_ms=f.time("submitTime"),
        launch_ms=f.time("startTime"), finish_ms=f.time("finishTime"), maps=f.number("mapsTotal"),
        reduces=f.number("reducesTotal"), maps_finished=f.number("mapsCompleted"),
        reduces_finished=f.number("reducesCompleted"),
        attempts_running=sum(r or 0 for r in running) if live else None,
        uberized=entry.get("uberized") if isinstance(entry.get("uberized"), bool) else None,
        diagnostics=f.text("diagnostics"),
    )  # fmt: skip


def _conf(to: Collector, answer: dict[str, Any]) -> None:
    path = answer.get("path")
    if isinstance(path, str):
        match = JOB_IN_NAME.search(path)
        if match:
            to.job = match.group(0)
    for entry in objects(answer, "property"):
        f = JsonFields(to, entry)
        name, text = f.text("name"), f.text("value")
        if name and text is not None:
            sources = entry.get("source")
            origin = sources[-1] if isinstance(sources, list) and sources and isinstance(sources[-1], str) else None
            to.conf.append((to.job, name, text, origin))


def _task(to: Collector, entry: dict[str, Any]) -> None:
    f = JsonFields(to, entry)
    task = f.id("id", "a task without an id")
    if task is None:
        return
    kind, state, start = f.text("type") or _type_of(task), f.text("state"), f.time("startTime")
    to.task_starts.append((0, task, kind, start, None))
    if state in _RUNNING_STATES:
        return
    chosen, counters = f.text("successfulAttempt") or None, counter_row(())
    to.task_ends.append((0, task, kind, state, start, f.time("finishTime"), chosen, False, None, *counters))


def _type_of(task: str) -> str:
    return {"m": "MAP", "r": "REDUCE"}.get(task.split("_")[3] if task.count("_") >= 4 else "", "")


def _task_of(attempt: str) -> str:
    return "task_" + attempt.rpartition("_")[0].removeprefix("attempt_")


def _counters_of(to: Collector, answer: dict[str, Any], groups: str) -> list[Group]:
    counted = []
    for group in objects(answer, groups):
        name = JsonFields(to, group).text("counterGroupName") or ""
        counts = []
        for entry in objects(group, "counter"):
            f = JsonFields(to, entry)
            counter, number = f.text("name"), f.number("value", -(2**63), 2**63 - 1)
            if counter is not None and number is not None:
                counts.append(Counter(counter, number))
        counted.append(Group(name, counts))
    return counted


def _task_counters(to: Collector, answer: dict[str, Any]) -> None:
    task = JsonFields(to, answer).id("id", "counters of a task without an id")
    if task is not None:
        counters = counter_row(_counters_of(to, answer, "taskCounterGroup"))
        to.task_ends.append((1, task, _type_of(task), None, None, None, None, True, None, *counters))


def _attempt_counters(to: Collector, answer: dict[str, Any]) -> None:
    attempt = JsonFields(to, answer).id("id", "counters of an attempt without an id")
    if attempt is not None:
        task, own = _task_of(attempt), counter_row(_counters_of(to, answer, "taskAttemptCounterGroup"))
        to.attempt_ends.append((1, task, attempt, _type_of(task), *[None] * 10, True, own))


def _attempt(to: Collector, entry: dict[str, Any]) -> None:
    f = JsonFields(to, entry)
    attempt = f.text("id")
    if attempt is None or job_of(attempt) is None or attempt.count("_") < 5:
        to.problem("bad-record", "an attempt without an id")
        return
    task = _task_of(attempt)
    kind, state, start = f.text("type") or _type_of(task), f.text("state"), f.time("startTime")
    node = f.text("nodeHttpAddress")
    host = node.rpartition(":")[0] or node if node else None
    to.attempt_starts.append((0, task, attempt, kind, start, host, f.text("assignedContainerId"), None, None))
    if state in _RUNNING_STATES:
        return
    shuffle, merge = f.number("elapsedShuffleTime"), f.number("elapsedMergeTime")
    shuffled = start + shuffle if start is not None and shuffle is not None else f.time("shuffleFinishTime")
    merged = shuffled + merge if shuffled is not None and merge is not None else f.time("mergeFinishTime")
    to.attempt_ends.append(
        (
            0, task, attempt, kind, state, f.time("finishTime"), None, shuffled, merged, host, f.text("rack"),
            f.text("diagnostics") or None, None, None, False, None,
        )
    )  # fmt: skip


_ANSWERS: dict[str, tuple[str, Callable[[Collector, dict[str, Any]], None]]] = {
    "job": ("", _job),
    "jobs": ("job", _job),
    "conf": ("", _conf),
    "tasks": ("task", _task),
    "task": ("", _task),
    "jobTaskCounters": ("", _task_counters),
    "jobTaskAttemptCounters": ("", _attempt_counters),
    "taskAttempts": ("taskAttempt", _attempt),
    "taskAttempt": ("", _attempt),
}
"""First key of an answer → key of its inner list (empty: none), and the function that collects one entry."""


def objects(value: Any, key: str) -> list[dict[str, Any]]:
    """Return the list of objects below ``key`` in any of its forms: {key: [..]}, {key: {..}}, null."""
    if isinstance(value, dict):
        value = value.get(key)
    if isinstance(value, dict):
        value = [value]
    return [v for v in value if isinstance(v, dict)] if isinstance(value, list) else []


class JsonFields:
    """Typed access to one decoded object: a value of another type becomes a problem and counts as absent."""

    def __init__(self, to: Collector, value: dict[str, Any]) -> None:
        self.to = to
        self.value = value

    def text(self, key: str) -> str | None:
        """Return a string, or None."""
        value = self.value.get(key)
        if value is None or isinstance(value, str):
            return value
        self.to.problem("bad-field", f"{key} is not text")
        return None

    def id(self, key: str, what: str) -> str | None:
        """Return an id that contains a job's; otherwise None and the problem ``what``."""
        value = self.text(key)
        if value is not None and job_of(value) is not None:
            return value
        self.to.problem("bad-record", what)
        return None

    def number(self, key: str, low: int = -1, high: int = 2**53) -> int | None:
        """Return an integer within bounds (defaults: those of a time), or None."""
        value = self.value.get(key)
        if value is None:
            return None
        if isinstance(value, float) and value == value and abs(value) < 2**53 and value == int(value):
            value = int(value)
        if isinstance(value, int) and not isinstance(value, bool) and low <= value <= high:
            return value
        self.to.problem("bad-number", f"{key} is not a number between {low} and {high}")
        return None

    def time(self, key: str) -> int | None:
        """Return a time (epoch ms); 0 and -1 mean unset: None."""
        value = self.number(key)
        return value if value is not None and value > 0 else None


HISTORY = History()
KINDS: tuple[FileKind, ...] = (HISTORY, JobConf(), RestAnswer())  # in the order of the page of formats
