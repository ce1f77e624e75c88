"""History-server and application-master REST answers that were saved as files."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from engine.job_heuristics.reading.conf import JOB_IN_NAME
from engine.job_heuristics.reading.event_collector import Collector, counter_row, job_of
from engine.job_heuristics.reading.json_fields import JsonFields, objects
from engine.job_heuristics.reading.records import Counter, Counters, Group
from engine.job_heuristics.tables.input import INPUTS
from engine.reading import Reading, Source
from engine.tables import Table

_KEYS = rb"job|jobs|conf|jobCounters|task|tasks|jobTaskCounters|jobTaskAttemptCounters|taskAttempt|taskAttempts"
_HEAD = re.compile(rb'^\s*\{\s*"(' + _KEYS + rb')"\s*:\s*[{\[n]')
_ID = re.compile(rb'"id"\s*:\s*"(?:job|task|attempt)_(?:local)?\d+_\d+')
_RUNNING_STATES = frozenset({"NEW", "STARTING", "RUNNING", "COMMIT_PENDING", "SUCCESS_FINISHING_CONTAINER", "ASSIGNED",
                             "UNASSIGNED", "SCHEDULED", "SUCCESS_CONTAINER_CLEANUP", "KILL_WAIT"})  # fmt: skip


class RestAnswer:
    """One saved answer of ``/ws/v1/history/mapreduce/jobs/...`` or ``/ws/v1/mapreduce/jobs/...``."""

    id = "mapreduce-rest"
    title = "History server answer"
    append = False
    version = 1
    tables: tuple[Table, ...] = INPUTS
    formats = "History-server and application-master REST answers saved as files"

    def recognise(self, name: str, head: bytes) -> bool:
        """Recognise it by the first key and the form of its ids."""
        match = _HEAD.match(head)
        if match is None:
            return False
        if match.group(1) == b"conf":
            return b'"property"' in head
        return _ID.search(head) is not None

    def read(self, source: Source, data: bytes, state: Any, final: bool) -> Reading:
        """Read the whole answer."""
        to = Collector(source.path, source="rest", job=_job_of_path(source.path))
        try:
            answer = msgspec.json.decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            to.problem("bad-json", f"no JSON: {error}")
            reading = to.reading(0)
            reading.complete = False
            return reading
        if isinstance(answer, dict):
            for key, handle in _ANSWERS.items():
                if key in answer:
                    handle(to, answer[key])
        return to.reading(len(data))


def _job_of_path(path: str) -> str | None:
    for part in reversed(path.split("/")):
        match = JOB_IN_NAME.match(part)
        if match:
            return match.group(0)
        if part.startswith("task_"):
            return job_of(part)
    return None


def _job(to: Collector, value: Any) -> None:
    for entry in objects([value] if isinstance(value, dict) else value, "job"):
        f = JsonFields(to, entry)
        job = f.text("id")
        if job is None or job_of(job) is None:
            to.problem("bad-record", "a job without an id")
            continue
        running = [f.number("runningMapAttempts"), f.number("runningReduceAttempts")]
        live = "mapProgress" in entry or running != [None, None]
        finish = f.time("finishTime")
        to.job_event(
            0, "REST_JOB", job_of(job), source="am" if live else "rest", name=f.text("name"), user=f.text("user"),
            queue=f.text("queue"), state=f.text("state"), submit_ms=f.time("submitTime"),
            launch_ms=f.time("startTime"), finish_ms=finish, maps=f.number("mapsTotal"),
            reduces=f.number("reducesTotal"), maps_finished=f.number("mapsCompleted"),
            reduces_finished=f.number("reducesCompleted"),
            attempts_running=sum(r or 0 for r in running) if live else None,
            uberized=entry.get("uberized") if isinstance(entry.get("uberized"), bool) else None,
            diagnostics=f.text("diagnostics"),
        )  # fmt: skip


def _jobs(to: Collector, value: Any) -> None:
    for entry in objects(value, "job"):
        _job(to, entry)


def _conf(to: Collector, value: Any) -> None:
    path = value.get("path") if isinstance(value, dict) else None
    if isinstance(path, str):
        match = re.search(r"job_(?:local)?\d+_\d+", path)
        if match:
            to.job = match.group(0)
    for entry in objects(value, "property"):
        f = JsonFields(to, entry)
        name, text = f.text("name"), f.text("value")
        if name and text is not None:
            sources = entry.get("source")
            origin = sources[-1] if isinstance(sources, list) and sources and isinstance(sources[-1], str) else None
            to.conf.append((to.job, name, text, origin))


def _tasks(to: Collector, value: Any) -> None:
    for entry in objects(value, "task"):
        _task(to, entry)


def _task(to: Collector, entry: Any) -> None:
    if not isinstance(entry, dict):
        return
    f = JsonFields(to, entry)
    task = f.text("id")
    if task is None or job_of(task) is None:
        to.problem("bad-record", "a task without an id")
        return
    kind, state, start = f.text("type") or _type_of(task), f.text("state"), f.time("startTime")
    to.task_starts.append((0, task, kind, start, None))
    if state in _RUNNING_STATES:
        return
    to.task_ends.append(
        (0, task, kind, state, start, f.time("finishTime"), f.text("successfulAttempt") or None, False, None)
    )
    to.task_counters.append(counter_row(None))


def _type_of(task: str) -> str:
    return {"m": "MAP", "r": "REDUCE"}.get(task.split("_")[3] if task.count("_") >= 4 else "", "")


def _counters_of(to: Collector, value: dict[str, Any], groups: str) -> Counters:
    found = []
    for group in objects(value, groups):
        name = JsonFields(to, group).text("counterGroupName") or ""
        counts = []
        for entry in objects(group, "counter"):
            f = JsonFields(to, entry)
            counter, number = f.text("name"), f.number("value", -(2**63), 2**63 - 1)
            if counter is not None and number is not None:
                counts.append(Counter(counter, number))
        found.append(Group(name, counts))
    return Counters(groups=found)


def _task_counters(to: Collector, value: Any) -> None:
    if not isinstance(value, dict):
        return
    task = JsonFields(to, value).text("id")
    if task is None or job_of(task) is None:
        to.problem("bad-record", "counters of a task without an id")
        return
    to.task_ends.append((1, task, _type_of(task), None, None, None, None, True, None))
    to.task_counters.append(counter_row(_counters_of(to, value, "taskCounterGroup")))


def _attempt_counters(to: Collector, value: Any) -> None:
    if not isinstance(value, dict):
        return
    attempt = JsonFields(to, value).text("id")
    if attempt is None or job_of(attempt) is None:
        to.problem("bad-record", "counters of an attempt without an id")
        return
    task = "task_" + attempt.rpartition("_")[0].removeprefix("attempt_")
    to.attempt_end(
        (1, task, attempt, _type_of(task), None, None, None, None, None, None, None, None, None, None, True),
        counter_row(_counters_of(to, value, "taskAttemptCounterGroup")),
    )


def _attempts(to: Collector, value: Any) -> None:
    for entry in objects(value, "taskAttempt"):
        _attempt(to, entry)


def _attempt(to: Collector, entry: Any) -> None:
    if not isinstance(entry, dict):
        return
    f = JsonFields(to, entry)
    attempt = f.text("id")
    if attempt is None or job_of(attempt) is None or attempt.count("_") < 5:
        to.problem("bad-record", "an attempt without an id")
        return
    task = "task_" + attempt.rpartition("_")[0].removeprefix("attempt_")
    kind, state, start = f.text("type") or _type_of(task), f.text("state"), f.time("startTime")
    node = f.text("nodeHttpAddress")
    host = node.rpartition(":")[0] or node if node else None
    to.attempt_starts.append((0, task, attempt, kind, start, host, f.text("assignedContainerId"), None, None))
    if state in _RUNNING_STATES:
        return
    shuffle, merge = f.number("elapsedShuffleTime"), f.number("elapsedMergeTime")
    shuffled = start + shuffle if start is not None and shuffle is not None else f.time("shuffleFinishTime")
    merged = shuffled + merge if shuffled is not None and merge is not None else f.time("mergeFinishTime")
    to.attempt_end(
        (
            0, task, attempt, kind, state, f.time("finishTime"), None, shuffled, merged, host, f.text("rack"),
            f.text("diagnostics") or None, None, None, False,
        )
    )  # fmt: skip


_ANSWERS = {
    "job": _job,
    "jobs": _jobs,
    "conf": _conf,
    "tasks": _tasks,
    "task": _task,
    "jobTaskCounters": _task_counters,
    "jobTaskAttemptCounters": _attempt_counters,
    "taskAttempts": _attempts,
    "taskAttempt": _attempt,
}
