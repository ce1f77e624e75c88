"""Rumen traces (as the scheduler load simulator reads them) and the ``.summary`` lines of finished jobs."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from engine.core.reading import Reading, Source
from engine.core.tables import Table
from engine.core.text import decode
from engine.job_heuristics.dr_elephant.json_fields import decode_json, end_of, objects
from engine.job_heuristics.mapreduce.reading.conf import RENAMED
from engine.job_heuristics.mapreduce.reading.event_collector import Collector, job_of
from engine.job_heuristics.mapreduce.reading.json_fields import JsonFields
from engine.job_heuristics.mapreduce.tables.input import COUNTER_COLUMNS, INPUTS, JOB_EVENTS

_OUTCOMES = {"SUCCESS": "SUCCEEDED", "SUCCEEDED": "SUCCEEDED", "FAILED": "FAILED", "KILLED": "KILLED"}
_COUNTERS = {
    "hdfsBytesRead": "hdfs_read_bytes",
    "hdfsBytesWritten": "hdfs_written_bytes",
    "fileBytesRead": "file_read_bytes",
    "fileBytesWritten": "file_written_bytes",
    "mapInputRecords": "map_input_records",
    "mapOutputRecords": "map_output_records",
    "mapOutputBytes": "map_output_bytes",
    "combineInputRecords": "combine_input_records",
    "reduceInputGroups": "reduce_input_groups",
    "reduceInputRecords": "reduce_input_records",
    "reduceShuffleBytes": "reduce_shuffle_bytes",
    "reduceOutputRecords": "reduce_output_records",
    "spilledRecords": "spilled_records",
}
_USAGE = {
    "cumulativeCpuUsage": "cpu_ms",
    "virtualMemoryUsage": "virtual_bytes",
    "physicalMemoryUsage": "physical_bytes",
    "heapUsage": "heap_bytes",
}
_FOUR = ("clockSplits", "cpuUsages", "vmemKbytes", "physMemKbytes")


class RumenTrace:
    """A Rumen trace: one JSON object per job, one after the other."""

    id = "rumen"
    title = "Rumen job traces (JSON)"
    append = False
    version = 3
    tables: tuple[Table, ...] = INPUTS

    def recognise(self, name: str, head: bytes) -> bool:
        """Recognise it by the keys of a job with its id within the first bytes."""
        return head.lstrip()[:1] == b"{" and b'"jobID"' in head and (b'"mapTasks"' in head or b'"submitTime"' in head)

    def read(self, source: Source, data: bytes, state: Any, final: bool) -> Reading:
        """Read the whole trace, without the jobs that cannot be parsed."""
        to = Collector(source.path, source="rumen")
        at = _next(data, 0)
        while at < len(data):
            end = end_of(data, at)
            if end < 0:
                to.problem("bad-json", "the trace cannot be read further: a job without an end", byte=at)
                break
            _read_job(to, data[at:end], at)
            at = _next(data, end)
        reading = to.reading(len(data))
        reading.complete = bool(to.jobs) or not to.problems
        return reading


def _next(data: bytes, at: int) -> int:
    """Return where the next job begins, from ``at`` on."""
    begin = data.find(b"{", at)
    return len(data) if begin < 0 else begin


def _read_job(to: Collector, data: bytes, at: int) -> None:
    """Collect one job of the trace, which begins at byte ``at``; a problem if it cannot be read."""
    try:
        job, lost = decode_json(data)
    except msgspec.DecodeError as error:
        to.problem("bad-json", f"a job of the trace cannot be read: {error}", byte=at)
        return
    if lost:
        to.problem("bad-json", lost, byte=at)
    _job(to, job)


def _job(to: Collector, job: dict[str, Any]) -> None:
    f = JsonFields(to, job)
    name = f.id("jobID", "a job without an id")
    if name is None:
        return
    to.job = job_of(name)
    outcome = f.text("outcome")
    to.job_event(
        0, "RUMEN_JOB", to.job, name=f.text("jobName"), user=f.text("user"), queue=f.text("queue"),
        state=_OUTCOMES.get(outcome or "", outcome), submit_ms=f.time("submitTime"), launch_ms=f.time("launchTime"),
        finish_ms=f.time("finishTime"), maps=f.number("totalMaps"), reduces=f.number("totalReduces"),
    )  # fmt: skip
    properties = job.get("jobProperties")
    if isinstance(properties, dict):
        to.conf += [(to.job, RENAMED.get(k, str(k)), v, None) for k, v in properties.items() if isinstance(v, str)]
    for side in ("mapTasks", "reduceTasks", "otherTasks"):
        for task in objects(job, side):
            _task(to, task)


def _task(to: Collector, task: dict[str, Any]) -> None:
    f = JsonFields(to, task)
    name = f.id("taskID", "a task without an id")
    if name is None:
        return
    kind, start, status = f.text("taskType") or "", f.time("startTime"), f.text("taskStatus")
    to.task_starts.append((0, name, kind, start, None))
    best: tuple[str, list[int | None]] | None = None
    for entry in objects(task, "attempts"):
        row = _attempt(to, name, kind, entry)
        if row is not None and (best is None or entry.get("result") == "SUCCESS"):
            best = row
    state = _OUTCOMES.get(status or "", status)
    if state is None:
        return
    chosen, counters = best if best is not None else (None, [None] * len(COUNTER_COLUMNS))
    to.task_ends.append((0, name, kind, state, start, f.time("finishTime"), chosen, best is not None, None))
    to.task_counters.append(counters)


def _attempt(to: Collector, task: str, kind: str, entry: dict[str, Any]) -> tuple[str, list[int | None]] | None:
    f = JsonFields(to, entry)
    name = f.id("attemptID", "an attempt without an id")
    if name is None:
        return None
    place = f.text("hostName") or ""
    rack, _, host = place.rpartition("/")
    start = f.time("startTime")
    to.attempt_starts.append((0, task, name, kind, start, host or None, None, None, None))
    row: list[int | None] = [None] * len(COUNTER_COLUMNS)
    usage = entry.get("resourceUsageMetrics")
    for names, values in ((_COUNTERS, entry), (_USAGE, usage if isinstance(usage, dict) else {})):
        g = JsonFields(to, values)
        for key, column in names.items():
            value = g.number(key, -(2**63), 2**63 - 1)
            row[COUNTER_COLUMNS.index(column)] = value if value is not None and value >= 0 else None
    arrays = [entry.get(a) for a in _FOUR]
    progress = None
    if all(isinstance(a, list) and all(type(v) is int for v in a) for a in arrays) and arrays[0]:
        progress = b";".join(msgspec.json.encode(a) for a in arrays)
    result = f.text("result")
    finish = f.time("finishTime")
    if finish is not None and result is not None:
        to.attempt_end(
            (
                0, task, name, kind, _OUTCOMES.get(result, result), finish, None, f.time("shuffleFinished"),
                f.time("sortFinished"), host or None, rack or None, None, None, progress, True,
            ),
            row,
        )  # fmt: skip
    return name, row


_PAIR = re.compile(r"(?:^|,)([A-Za-z]\w*)=((?:[^,\\]|\\.)*)")
_MAX_SUMMARY = 2**20
"""Bytes of a summary file that are read."""


class Summary:
    """``JOBID.summary``: one line with the times and the end of a job."""

    id = "job-summary"
    title = "Job summaries (job_*.summary)"
    append = False
    version = 2
    tables: tuple[Table, ...] = (JOB_EVENTS,)

    def recognise(self, name: str, head: bytes) -> bool:
        """Recognise it by its first words."""
        return head.startswith(b"jobId=job_") or (name.endswith(".summary") and b"jobId=job_" in head)

    def read(self, source: Source, data: bytes, state: Any, final: bool) -> Reading:
        """Read one row per line that names a job."""
        to = Collector(source.path, source="summary")
        for number, line in enumerate(decode(data[:_MAX_SUMMARY]).splitlines(), 1):
            begin = line.find("jobId=")
            if begin < 0:
                continue
            pairs = {k: re.sub(r"\\(.)", r"\1", v) for k, v in _PAIR.findall(line[begin:])}
            job = job_of(pairs.get("jobId", ""))
            if job is None or "status" not in pairs:
                to.problem("bad-record", "a summary line without jobId or status", line=number)
                continue
            numbers = {k: _number(v) for k, v in pairs.items()}
            to.job_event(
                number, "SUMMARY", job, name=pairs.get("jobName"), user=pairs.get("user"), queue=pairs.get("queue"),
                state=pairs["status"], submit_ms=numbers.get("submitTime"), launch_ms=numbers.get("launchTime"),
                finish_ms=numbers.get("finishTime"), maps=numbers.get("numMaps"), reduces=numbers.get("numReduces"),
            )  # fmt: skip
        return to.reading(len(data))


def _number(text: str) -> int | None:
    """A whole number that is exact as a double, else None."""
    return int(text) if re.fullmatch(r"\d{1,16}", text) and int(text) <= 2**53 else None
