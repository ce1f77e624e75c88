"""Applications of which only saved answers of the history server are there."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec
import polars as pl

from engine.core.incremental import Memo, Partials
from engine.core.inputs import FILE, Inputs
from engine.core.text import clean
from engine.job_heuristics.spark.model.app import App, AppAttempt, Executor, SparkJob, SqlExecution, Stage
from engine.job_heuristics.spark.tables import input as tables

_UNPACK = msgspec.msgpack.Decoder(dict[str, Any])
Answers = dict[str, list[dict[str, Any]]]
_SUMS = {
    "run_ms": "executorRunTime", "cpu_ns": "executorCpuTime", "gc_ms": "jvmGcTime",
    "deserialize_ms": "executorDeserializeTime", "serialize_ms": "resultSerializationTime", "result_bytes": "resultSize",
    "memory_spilled": "memoryBytesSpilled", "disk_spilled": "diskBytesSpilled", "peak_memory": "peakExecutionMemory",
    "input_bytes": "inputBytes", "input_records": "inputRecords", "output_bytes": "outputBytes",
    "output_records": "outputRecords", "remote_bytes": "shuffleReadBytes", "fetch_wait_ms": "shuffleFetchWaitTime",
    "shuffle_records": "shuffleReadRecords", "shuffle_write_bytes": "shuffleWriteBytes",
    "shuffle_write_ns": "shuffleWriteTime", "shuffle_write_records": "shuffleWriteRecords",
}  # fmt: skip
"""Metric and its field; shuffle bytes that were read count as remote: answers of most versions do not divide them."""


def files_by_app(inputs: Inputs, memo: Memo) -> dict[str, list[int]]:
    """Return the files with answers of each application."""
    versions = {number: info.version for number, info in inputs.files.items() if info.kind == "spark-rest"}
    named: Partials[int, frozenset[str]] = memo.state("spark answers", Partials)

    def compute(files: Collection[int]) -> Mapping[int, frozenset[str]]:
        found: dict[int, set[str]] = {file: set() for file in files}
        for file, app in inputs.of("spark_answers", frozenset(files)).select(FILE, "app_id").unique().iter_rows():
            found[file].add(app)
        return {file: frozenset(apps) for file, apps in found.items()}

    named.update(versions, compute)
    by_app: dict[str, list[int]] = defaultdict(list)
    for file in sorted(named):
        for app in sorted(named[file]):
            by_app[app].append(file)
    return by_app


def assembled(inputs: Inputs, files: Mapping[str, list[int]]) -> dict[str, App | None]:
    """Assemble applications from their answers."""
    rows = inputs.of("spark_answers", frozenset(file for each in files.values() for file in each))
    by_app = rows.partition_by("app_id", maintain_order=True, as_dict=True)
    return {app: _app(app, by_app[(app,)]) if (app,) in by_app else None for app in files}


def _app(app_id: str, rows: pl.DataFrame) -> App:
    answers: dict[str | None, Answers] = defaultdict(lambda: defaultdict(list))
    for attempt, what, entry in rows.select("attempt", "what", "entry").iter_rows():
        answers[attempt][what].append(_UNPACK.decode(entry))
    about = next((each for of in answers.values() for each in of.get("application", ())), {})
    attempts = _attempts(about.get("attempts"))
    newest = attempts[0].attempt if attempts else None
    wanted = newest if newest in answers else None if None in answers else max(filter(None, answers), default=None)
    chosen = answers[wanted]
    stages = {(_int(each, "stageId"), _int(each, "attemptId")): _stage(each) for each in chosen["stage"]}
    jobs = {_int(each, "jobId"): _job(each) for each in chosen["job"]}
    by_number = {_int(each, "id"): _execution(each) for each in chosen["sql"]}
    executions = tuple(by_number[number] for number in sorted(by_number))
    for each in chosen["sql"]:
        for job in _listed(each, "runningJobIds", "successJobIds", "failedJobIds"):
            if job in jobs:
                jobs[job].execution = _int(each, "id")
    executors = {name: _executor(name, each) for each in chosen["executor"] if (name := _text(each.get("id")))}
    pairs = [pair for each in chosen["property"] for pair in each["sparkProperties"]]
    properties = {
        clean(pair[0], 500): clean(pair[1]) if isinstance(pair[1], str) else None
        for pair in pairs
        if isinstance(pair, list) and len(pair) == 2 and isinstance(pair[0], str)
    }
    first = attempts[0] if attempts else AppAttempt(None, None, None, "", "")
    state = "UNKNOWN" if not attempts else "RUNNING" if first.end_ms is None else "SUCCEEDED"
    last = max(jobs.values(), key=lambda job: (job.finish_ms or 0, job.number), default=None)
    if state == "SUCCEEDED" and last is not None and last.status == "FAILED":
        state = "FAILED"
    end = first.end_ms
    if end is None:
        end = max((t for job in jobs.values() for t in (job.submit_ms, job.finish_ms) if t is not None), default=None)
    return App(
        app_id, clean(_text(about.get("name"))), first.user, state, "rest", attempts, first.start_ms, end, properties,
        bool(pairs), tuple(sorted(jobs.values(), key=lambda job: -job.number)),
        tuple(sorted(stages.values(), key=lambda stage: (-stage.stage, -stage.attempt))),
        tuple(sorted(executors.values(), key=lambda executor: executor.name)), tables.SPARK_TASKS.empty().drop("log"),
        tables.SPARK_TASK_STARTS.empty().drop("log"), executions, upstream_error=_missing(chosen, attempts),
        notes=("from saved answers of the history server: no single tasks, no plans",), file=int(rows[FILE][0]),
    )  # fmt: skip


def _missing(answers: Answers, attempts: Iterable[AppAttempt]) -> str:
    """Return what Dr. Elephant would miss among the answers."""
    missing = [f"{what}s" for what in ("job", "stage", "executor") if not answers.get(what)]
    missing += [] if attempts else ["application"]
    return (
        f"no saved answer with its {', '.join(missing)}" if "executors" in missing or "application" in missing else ""
    )


def _attempts(entries: Any) -> tuple[AppAttempt, ...]:
    """Return the attempts, newest first."""
    attempts = []
    for entry in entries if isinstance(entries, list) else ():
        if isinstance(entry, dict):
            end = _time(entry, "endTime")
            attempt = entry.get("attemptId")
            attempts.append(
                AppAttempt(
                    clean(attempt, 100) if isinstance(attempt, str) else None, _time(entry, "startTime"),
                    end if end is not None and end >= 0 and entry.get("completed") is not False else None,
                    clean(_text(entry.get("sparkUser")), 300), clean(_text(entry.get("appSparkVersion")), 100),
                )
            )  # fmt: skip
    return tuple(sorted(attempts, key=lambda each: -(each.start_ms or 0)))


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _int(entry: Mapping[str, Any], *names: str) -> int:
    """Return the first field of ``names`` that is a whole number; 0 without one."""
    for name in names:
        value = entry.get(name)
        if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**53:
            return value
    return 0


def _time(entry: Mapping[str, Any], name: str) -> int | None:
    """Return a time, epoch ms: given as a number, or as ``2025-06-15T15:06:40.001GMT``."""
    epoch = entry.get(f"{name}Epoch")
    if isinstance(epoch, int) and abs(epoch) < 2**46:
        return epoch
    value = entry.get(name)
    if isinstance(value, str):
        try:
            when = datetime.strptime(value.removesuffix("GMT").removesuffix("Z"), "%Y-%m-%dT%H:%M:%S.%f")
        except ValueError:
            return None
        since = when.replace(tzinfo=UTC) - datetime(1970, 1, 1, tzinfo=UTC)
        return (since.days * 86_400 + since.seconds) * 1000 + since.microseconds // 1000
    return None


def _job(entry: Mapping[str, Any]) -> SparkJob:
    stages = entry.get("stageIds")
    status = _text(entry.get("status"))
    return SparkJob(
        _int(entry, "jobId"), clean(_text(entry.get("name"))), clean(status, 30), _time(entry, "submissionTime"),
        _time(entry, "completionTime"),
        tuple(n for n in stages if isinstance(n, int)) if isinstance(stages, list) else (),
        _int(entry, "numTasks"), _int(entry, "numCompletedTasks"), _int(entry, "numFailedTasks"),
        _int(entry, "numKilledTasks"), _int(entry, "numSkippedTasks"), _int(entry, "numCompletedStages"),
        _int(entry, "numFailedStages"), _int(entry, "numSkippedStages"),
        clean(_text(entry.get("description"))) or None,
    )  # fmt: skip


def _listed(entry: Mapping[str, Any], *names: str) -> list[int]:
    """Return the whole numbers of some fields that are lists."""
    lists = [entry.get(name) for name in names]
    return [number for each in lists if isinstance(each, list) for number in each if isinstance(number, int)]


def _execution(entry: Mapping[str, Any]) -> SqlExecution:
    start, status = _time(entry, "submissionTime"), _text(entry.get("status"))
    end = None if start is None or status == "RUNNING" else start + _int(entry, "duration")
    error = _text(entry.get("errorMessage")) or ("failed" if status == "FAILED" else "")
    return SqlExecution(
        _int(entry, "id"),
        None,
        clean(_text(entry.get("description")), 600),
        start,
        end,
        clean(error, 600) or None,
        None,
    )


def _stage(entry: Mapping[str, Any]) -> Stage:
    return Stage(
        _int(entry, "stageId"), _int(entry, "attemptId"), clean(_text(entry.get("name"))),
        clean(_text(entry.get("status")), 30), _int(entry, "numTasks"), _time(entry, "submissionTime"),
        _time(entry, "completionTime"), clean(_text(entry.get("failureReason")), 600) or None,
        profile=_int(entry, "resourceProfileId"), active_tasks=_int(entry, "numActiveTasks"),
        completed_tasks=_int(entry, "numCompleteTasks"), failed_tasks=_int(entry, "numFailedTasks"),
        killed_tasks=_int(entry, "numKilledTasks"),
        sums={name: _int(entry, _SUMS[name]) if name in _SUMS else 0 for name in tables.METRIC_NAMES},
    )  # fmt: skip


_PEAK_FIELDS = {
    "heap": "JVMHeapMemory", "off_heap": "JVMOffHeapMemory", "unified": "OnHeapUnifiedMemory",
    "off_heap_unified": "OffHeapUnifiedMemory", "execution": "OnHeapExecutionMemory", "storage": "OnHeapStorageMemory",
    "direct": "DirectPoolMemory", "jvm_rss": "ProcessTreeJVMRSSMemory", "python_rss": "ProcessTreePythonRSSMemory",
    "other_rss": "ProcessTreeOtherRSSMemory", "gc": "TotalGCTime",
}  # fmt: skip


def _executor(name: str, entry: Mapping[str, Any]) -> Executor:
    peaks = entry.get("peakMemoryMetrics")
    peaks = peaks if isinstance(peaks, dict) else {}
    duration = _int(entry, "totalDuration")
    return Executor(
        "driver" if name == "<driver>" else clean(name, 300), clean(_text(entry.get("hostPort")).rpartition(":")[0], 300),
        entry.get("isActive") is not False, _int(entry, "totalCores"), _int(entry, "resourceProfileId"),
        _time(entry, "addTime"), _time(entry, "removeTime"), clean(_text(entry.get("removeReason")), 600) or None,
        _int(entry, "maxMemory"), _int(entry, "memoryUsed"), _int(entry, "diskUsed"), _int(entry, "rddBlocks"),
        _int(entry, "activeTasks"), _int(entry, "completedTasks"), _int(entry, "failedTasks"), _int(entry, "totalTasks"),
        duration, _int(entry, "totalGCTime"), _int(entry, "totalInputBytes"), _int(entry, "totalShuffleRead"),
        _int(entry, "totalShuffleWrite"), duration, 0,
        {column: _int(peaks, field) for column, field in _PEAK_FIELDS.items()},
    )  # fmt: skip
