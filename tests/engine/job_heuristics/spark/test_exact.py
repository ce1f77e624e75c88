"""Every reference application: the history server's sums, Dr. Elephant's metrics, verdicts and texts."""

from __future__ import annotations

import json
import math
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from engine.core.view import Context
from engine.job_heuristics.dr_elephant.heuristic import default_rules
from engine.job_heuristics.parameters import JobParameters
from engine.job_heuristics.spark.model.app import DRIVER, App
from engine.job_heuristics.spark.model.assembly import current_apps
from engine.job_heuristics.spark.rules.heuristic import judge_apps
from engine.job_heuristics.spark.rules.heuristics import HEURISTICS
from tests.contract.samples import opened
from tests.engine.job_heuristics.helper import badly_told, inputs_below
from tests.reference import reference

PARTS = ("synthetic", "spark", "real")


@cache
def apps_of(part: str) -> dict[str, App]:
    return dict(current_apps(inputs_below(reference("spark-jobs") / part / "logs"), Context(0)).apps)


@cache
def expected(part: str) -> dict[str, dict[str, Any]]:
    lines = (reference("spark-jobs") / part / "expected.jsonl").read_text(encoding="utf-8").splitlines()
    return {row["job_id"]: row for row in map(json.loads, lines)}


EXECUTOR = {
    "total_duration": "duration_ms", "input_bytes": "input_bytes", "shuffle_read": "shuffle_read",
    "shuffle_write": "shuffle_write", "memory_used": "memory_used", "max_memory": "max_memory", "rdd_blocks": "rdd_blocks",
    "failed_tasks": "failed_tasks", "completed_tasks": "completed_tasks", "gc_time": "gc_ms",
}  # fmt: skip
JOB = ("name", "status", "completed_tasks", "failed_tasks")


@pytest.mark.parametrize("part", PARTS)
def test_sums_are_the_history_servers(part: str) -> None:
    apps, compared = apps_of(part), 0
    for app_id, row in expected(part).items():
        if app_id not in apps:
            continue  # packed as written: read live below
        app, data = apps[app_id], row["data"]
        attempts = [(a.attempt, a.start_ms, -1 if a.end_ms is None else a.end_ms, a.user) for a in app.attempts]
        assert attempts == [(a["attempt_id"], a["start_ms"], a["end_ms"], a["user"]) for a in data["attempts"]]
        assert [e.name for e in app.active] == [e["id"] for e in data["executors"]]
        for ours, theirs in zip(app.active, data["executors"], strict=True):
            for name, field in EXECUTOR.items():
                # The driver's clock runs while it is asked; its GC is a peak metric that these data leave out.
                if ours.name == DRIVER and (
                    name == "gc_time" or (name == "total_duration" and row["upstream"] != "ok")
                ):
                    continue
                assert getattr(ours, field) == theirs[name], (app_id, ours.name, name)
                compared += 1
        assert [job.number for job in app.jobs] == [job["job_id"] for job in data["jobs"]]
        for job, other in zip(app.jobs, data["jobs"], strict=True):
            assert [getattr(job, name) for name in JOB] == [other[name] for name in JOB], (app_id, job.number)
            compared += len(JOB)
        assert [stage.key for stage in app.stages] == [(s["stage_id"], s["attempt_id"]) for s in data["stages"]]
        for stage, other in zip(app.stages, data["stages"], strict=True):
            sums = stage.sums
            assert (
                stage.status, stage.completed_tasks, stage.failed_tasks, sums["run_ms"], sums["input_bytes"],
                sums["output_bytes"], stage.shuffle_read_bytes, sums["shuffle_write_bytes"], sums["memory_spilled"],
                sums["disk_spilled"], stage.name,
            ) == tuple(other[name] for name in (
                "status", "complete_tasks", "failed_tasks", "executor_run_time", "input_bytes", "output_bytes",
                "shuffle_read_bytes", "shuffle_write_bytes", "memory_spilled", "disk_spilled", "name",
            )), (app_id, stage.key)  # fmt: skip
            compared += 11
    assert compared > 200


JOB_ANSWER = {
    "number": "jobId", "name": "name", "status": "status", "completed_tasks": "numCompletedTasks",
    "failed_tasks": "numFailedTasks", "submit_ms": "submissionTime",
    "finish_ms": "completionTime",
}  # fmt: skip
STAGE_ANSWER = {
    "stage": "stageId", "attempt": "attemptId", "name": "name", "status": "status", "tasks": "numTasks",
    "active_tasks": "numActiveTasks", "completed_tasks": "numCompleteTasks", "failed_tasks": "numFailedTasks",
    "killed_tasks": "numKilledTasks", "shuffle_read_bytes": "shuffleReadBytes", "submit_ms": "submissionTime",
    "finish_ms": "completionTime",
}  # fmt: skip
SUMS = {
    "run_ms": "executorRunTime", "cpu_ns": "executorCpuTime", "gc_ms": "jvmGcTime",
    "deserialize_ms": "executorDeserializeTime", "serialize_ms": "resultSerializationTime", "result_bytes": "resultSize",
    "memory_spilled": "memoryBytesSpilled", "disk_spilled": "diskBytesSpilled", "peak_memory": "peakExecutionMemory",
    "input_bytes": "inputBytes", "input_records": "inputRecords", "output_bytes": "outputBytes",
    "output_records": "outputRecords", "fetch_wait_ms": "shuffleFetchWaitTime", "shuffle_records": "shuffleReadRecords",
    "shuffle_write_bytes": "shuffleWriteBytes", "shuffle_write_ns": "shuffleWriteTime",
    "shuffle_write_records": "shuffleWriteRecords",
}  # fmt: skip
EXECUTOR_ANSWER = {
    "active": "isActive", "cores": "totalCores", "max_memory": "maxMemory", "memory_used": "memoryUsed",
    "rdd_blocks": "rddBlocks", "completed_tasks": "completedTasks", "failed_tasks": "failedTasks",
    "total_tasks": "totalTasks", "duration_ms": "totalDuration", "gc_ms": "totalGCTime",
    "input_bytes": "totalInputBytes", "shuffle_read": "totalShuffleRead", "shuffle_write": "totalShuffleWrite",
    "add_ms": "addTime", "remove_ms": "removeTime", "reason": "removeReason",
}  # fmt: skip
PEAKS = {
    "heap": "JVMHeapMemory", "off_heap": "JVMOffHeapMemory", "unified": "OnHeapUnifiedMemory",
    "off_heap_unified": "OffHeapUnifiedMemory", "execution": "OnHeapExecutionMemory", "storage": "OnHeapStorageMemory",
    "direct": "DirectPoolMemory", "jvm_rss": "ProcessTreeJVMRSSMemory", "python_rss": "ProcessTreePythonRSSMemory",
    "other_rss": "ProcessTreeOtherRSSMemory", "gc": "TotalGCTime",
}  # fmt: skip


def answered(entry: dict[str, Any], ours: str, field: str) -> Any:
    """A field of the server's answer as the model holds it: times as epoch ms, a missing number as 0."""
    value = entry.get(field)
    if ours.endswith("_ms") and isinstance(value, str):
        return round(datetime.strptime(value, "%Y-%m-%dT%H:%M:%S.%fGMT").replace(tzinfo=UTC).timestamp() * 1000)
    empty = None if ours in ("reason", "submit_ms", "finish_ms", "add_ms", "remove_ms") else 0
    return empty if value is None else value


def test_sums_are_those_of_saved_answers() -> None:
    """What a real server answered against the same applications read from their logs."""
    logged = {app: found for part in PARTS for app, found in apps_of(part).items()}
    compared = 0
    folders = sorted((reference("spark-jobs") / "rest" / "api" / "v1" / "applications").iterdir())
    for folder in folders:
        app = logged[folder.name]
        jobs, stages, executors = (
            json.loads((folder / f"{name}.json").read_bytes()) for name in ("jobs", "stages", "allexecutors")
        )
        jobs.sort(key=lambda job: -job["jobId"])
        stages.sort(key=lambda stage: (-stage["stageId"], -stage["attemptId"]))
        executors.sort(key=lambda executor: executor["id"])
        for ours, theirs, fields in (
            *((one, other, JOB_ANSWER) for one, other in zip(app.jobs, jobs, strict=True)),
            *((one, other, STAGE_ANSWER) for one, other in zip(app.stages, stages, strict=True)),
            *((one, other, EXECUTOR_ANSWER) for one, other in zip(app.executors, executors, strict=True)),
        ):
            for name, field in fields.items():
                if name != "duration_ms" or theirs["id"] != DRIVER or app.ended:
                    assert getattr(ours, name) == answered(theirs, name, field), (folder.name, theirs, name)
                    compared += 1
        for stage, theirs in zip(app.stages, stages, strict=True):
            for name, field in SUMS.items():
                assert stage.sums[name] == answered(theirs, "", field), (folder.name, stage.key, name)
                compared += 1
        for executor, theirs in zip(app.executors, executors, strict=True):
            assert executor.host == theirs["hostPort"].rpartition(":")[0]
            peaks = theirs.get("peakMemoryMetrics") or {}
            assert executor.peaks == {name: peaks.get(field, 0) for name, field in PEAKS.items()}
    assert len(folders) == 42 and compared > 7_700


@pytest.mark.parametrize("part", PARTS)
def test_verdicts_metrics_and_texts_are_dr_elephants(part: str) -> None:
    context = Context(0)
    apps = current_apps(inputs_below(reference("spark-jobs") / part / "logs"), context)
    judged = judge_apps(apps, default_rules(HEURISTICS), context)
    assert badly_told(judged.findings) == []
    jobs = {row["job_id"]: row for row in judged.jobs.iter_rows(named=True)}
    verdicts = {(row["job_id"], row["heuristic"]): row for row in judged.heuristics.iter_rows(named=True)}
    for app_id, row in expected(part).items():
        if app_id in jobs:
            _same(row, jobs[app_id], verdicts)


def test_compressed_logs_are_read_unchanged() -> None:
    """Codecs and rolling folders of Spark 3.5 and 4.0, through the live path."""
    folder = reference("spark-jobs") / "real" / "as-written"
    session = opened("job-heuristics", folder)
    result = session.compute("job-heuristics", JobParameters())
    session.close()
    jobs = {row["job_id"]: row for row in result.tables["jobs"].iter_rows(named=True)}
    verdicts = {(row["job_id"], row["heuristic"]): row for row in result.tables["heuristics"].iter_rows(named=True)}
    assert len(jobs) == len(list(folder.iterdir())) == 8 and not result.problems
    for app_id, row in jobs.items():
        _same(expected("real")[app_id], row, verdicts)


def _same(row: dict[str, Any], job: dict[str, Any], verdicts: dict[tuple[str, str], dict[str, Any]]) -> None:
    app_id = row["job_id"]
    assert (job["name"], job["queue"], job["user"]) == (row["name"], row["queue"], row["user"])
    if row["upstream"] == "clock":  # still running: Dr. Elephant takes its end for the year 1969
        assert job["state"] == "RUNNING" and "still running" in job["upstream_says"]
        return
    assert job["upstream_says"] == row.get("exception", "")
    if row["upstream"] == "ok":
        metrics = row["metrics"]
        ours = (job["used_mb_s"], job["wasted_mb_s"], job["wait_ms"], job["runtime_ms"], job["severity"], job["score"])
        assert ours == (
            metrics["used_mb_sec"], metrics["wasted_mb_sec"], metrics["wait_ms"], metrics["runtime_ms"],
            row["severity"].upper(), row["score"],
        ), app_id  # fmt: skip
        assert [name for job_id, name in verdicts if job_id == app_id] == [each["name"] for each in row["heuristics"]]
    for theirs in row["heuristics"]:
        if "exception" in theirs:
            continue
        verdict = verdicts[app_id, theirs["name"]]
        assert (verdict["severity"], verdict["score"]) == (theirs["severity"].upper(), theirs["score"]), app_id
        details = json.loads(verdict["details"])
        assert list(details) == list(theirs["details"]), app_id
        for label, value in theirs["details"].items():
            if label == "GC time to Executor Run time ratio":
                ours_value, their_value = float(details[label]), float(value)
                assert math.isclose(ours_value, their_value, rel_tol=1e-9) or ours_value != ours_value != their_value
            else:
                assert details[label] == value, (app_id, theirs["name"], label)


def test_the_reference_is_there() -> None:
    assert sum(len(expected(part)) for part in PARTS) == 148
    assert Path(reference("spark-jobs") / "README.md").is_file()
