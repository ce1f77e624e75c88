"""Insights of Spark applications against numbers worked out by hand, and what is sure of a running one."""

from __future__ import annotations

import json
from itertools import chain
from typing import Any

import pytest
from msgspec.structs import replace

from engine.core.view import Context, Result
from engine.job_heuristics.parameters import JobParameters
from engine.job_heuristics.spark.insight.findings.application import core_split, unread
from engine.job_heuristics.spark.insight.findings.stages import launch_gaps
from engine.job_heuristics.spark.insight.resources import resources
from engine.job_heuristics.spark.insight.skew import stage_tasks
from engine.job_heuristics.spark.insight.sql import PlanRow, costly, own_times
from engine.job_heuristics.spark.model.app import App, Stored, spark_ms
from engine.job_heuristics.spark.model.assembly import current_apps
from engine.job_heuristics.view import VIEW
from sample_data.job_heuristics import spark_log
from sample_data.job_heuristics.spark_log import AppPlan, StagePlan
from tests.engine.job_heuristics.helper import inputs_of

APP = "application_1760000000000_0043"
START = 1_760_000_000_000
Events = list[tuple[int, dict[str, Any]]]


def begun(*, executors: int = 2, cores: int = 1, conf: dict[str, str] | None = None) -> Events:
    """The first events of an application."""
    plan = AppPlan("made", "ann", "etl", (), executors=executors, cores=cores, conf=conf or {})
    return [event for event in spark_log.events(plan, APP, START) if "End" not in event[1]["Event"]]


def job(number: int, begin: int, end: int | None, stages: list[int]) -> Events:
    found: Events = [
        (begin, {"Event": "SparkListenerJobStart", "Job ID": number, "Submission Time": begin, "Stage IDs": stages,
                 "Stage Infos": [{"Stage ID": k, "Stage Name": f"s{k}", "Number of Tasks": 1} for k in stages]}),
    ]  # fmt: skip
    if end is not None:
        found.append((end, {"Event": "SparkListenerJobEnd", "Job ID": number, "Completion Time": end,
                            "Job Result": {"Result": "JobSucceeded"}}))  # fmt: skip
    return found


def stage(
    number: int, begin: int, end: int | None, tasks: int, cached: tuple[int, ...] = (), attempt: int = 0
) -> Events:
    info: dict[str, Any] = {
        "Stage ID": number, "Stage Attempt ID": attempt, "Stage Name": f"s{number}", "Number of Tasks": tasks,
        "Submission Time": begin,
        "RDD Info": [{"RDD ID": rdd, "Storage Level": {"Use Memory": True, "Replication": 1}} for rdd in cached],
    }  # fmt: skip
    found: Events = [(begin, {"Event": "SparkListenerStageSubmitted", "Stage Info": info})]
    if end is not None:
        found.append((end, {"Event": "SparkListenerStageCompleted", "Stage Info": info | {"Completion Time": end}}))
    return found


def task(
    number: int, stage: int, begin: int, end: int, *, executor: str = "1", locality: str = "NODE_LOCAL",
    reason: str = "Success", **metrics: Any,
) -> Events:  # fmt: skip
    info = {"Task ID": number, "Index": number, "Launch Time": begin, "Executor ID": executor, "Host": f"node-{executor}",
            "Locality": locality}  # fmt: skip
    common = {"Stage ID": stage, "Stage Attempt ID": 0}
    measured = {"Executor Run Time": end - begin} | metrics
    return [
        (begin, {"Event": "SparkListenerTaskStart", **common, "Task Info": info}),
        (end, {"Event": "SparkListenerTaskEnd", **common, "Task Info": info | {"Finish Time": end},
               "Task End Reason": {"Reason": reason}, "Task Metrics": measured}),
    ]  # fmt: skip


def log(events: Events, end: int | None) -> bytes:
    events = sorted(events, key=lambda event: event[0])
    if end is not None:
        events.append((end, {"Event": "SparkListenerApplicationEnd", "Timestamp": end}))
    return spark_log.text(events)


def app_of(events: Events, end: int | None) -> App:
    name = f"/{APP}" if end is not None else f"/{APP}.inprogress"
    return current_apps(inputs_of({name: log(events, end)}), Context(0)).apps[APP]


def judged(events: Events, end: int | None, **options: Any) -> Result:
    name = f"/{APP}" if end is not None else f"/{APP}.inprogress"
    return VIEW.compute(inputs_of({name: log(events, end)}), JobParameters(job=APP, **options), Context(0))


def insights(events: Events, end: int | None) -> dict[tuple[str, str], dict[str, Any]]:
    rows = judged(events, end).tables["insights"].iter_rows(named=True)
    return {(row["topic"], row["subject"]): row for row in rows}


def test_core_time_is_split_by_use() -> None:
    # Two executors of one core from 940 and 980 ms on; a job from 2,000 to 20,000; the application ends at 25,000.
    at = START
    events = [
        *begun(), *job(0, at + 2000, at + 20_000, [0]), *stage(0, at + 2000, at + 20_000, 3),
        *task(0, 0, at + 3000, at + 8000), *task(1, 0, at + 3000, at + 7000, executor="2", reason="ExceptionFailure"),
        *task(2, 0, at + 8000, at + 20_000), *task(3, 0, at + 7000, at + 12_000, executor="2"),
    ]  # fmt: skip
    app = app_of(events, at + 25_000)
    held = resources(app)
    parts = core_split(app, held, stage_tasks(app, held.slots))
    life = 25_000 - 940 + 25_000 - 980
    assert held.core_ms == life == sum(parts.values())
    good, failed, skew = 5000 + 12_000 + 5000, 4000, 20_000 - 12_000
    assert list(parts.values()) == [good, failed, skew, 2 * 18_000 - good - failed - skew, life - 2 * 18_000]
    assert (
        f"{good / life:.0%} in tasks that succeeded"
        in insights(events, at + 25_000)["core hours", "application"]["reason"]
    )


def test_an_executor_is_idle_while_none_of_its_tasks_runs() -> None:
    at = START + 5000
    tasks = [(0, 1000), (500, 3000), (800, 900), (5000, 6000)]
    events = [
        *begun(executors=1, cores=4), *job(0, at, None, [0]), *stage(0, at, None, 9),
        *chain(*(task(k, 0, at + a, at + b) for k, (a, b) in enumerate(tasks))), *task(9, 0, at + 7000, at + 8000)[:1],
    ]  # fmt: skip
    row = judged(events, None).tables["executors"].filter(executor="1").row(0, named=True)
    assert row["idle_ms"] == row["life_ms"] - 3000 - 1000  # the last task began when the log ends


def test_locality_costs_slower_tasks_and_waiting_slots() -> None:
    at = START + 5000
    events: Events = [*begun(cores=1), *job(0, at, at + 200_000, [0]), *stage(0, at, at + 200_000, 30)]
    ends = {"1": at, "2": at}
    for k in range(30):
        far, executor = k % 3 == 2, "2" if k % 3 == 2 else "1"
        begin = ends[executor] + (4000 if far else 10)
        ends[executor] = begin + (9000 if far else 4000)
        events += task(k, 0, begin, ends[executor], executor=executor, locality="ANY" if far else "NODE_LOCAL",
                       **{"Input Metrics": {"Bytes Read": 1 << 20, "Records Read": 1}})  # fmt: skip
    found = insights(events, at + 210_000)
    row = found["locality", "stage 0"]
    assert row["value"] == "33%" and "10 of 30 tasks" in row["reason"] and "50.0 s longer" in row["reason"]
    assert row["key"] == "" and "asks for more" in row["reason"]  # longer waits would cost slots, as the next shows
    wait = found["locality wait", "stage 0"]
    assert wait["value"] == "40.0 s" and wait["key"] == ""
    app = app_of(events, at + 210_000)
    gaps = launch_gaps(app, resources(app)).to_list()
    by_task = dict(zip(app.tasks["task_id"].to_list(), gaps, strict=True))
    assert {by_task[k] for k in range(30)} == {10, 4000} and all(by_task[k] == 4000 for k in range(2, 30, 3))
    assert ("locality wait", "stage 0") not in insights(
        [*begun(conf={"spark.locality.wait": "0"}), *events[len(begun()) :]], at + 210_000
    )


@pytest.mark.parametrize(
    ("text", "ms"),
    ((None, 7), ("3s", 3000), ("500", 500), ("2min", 120_000), ("1h", 3_600_000), ("soon", 7), ("-1s", 7)),
)
def test_times_are_read_as_spark_writes_them(text: str | None, ms: int) -> None:
    assert spark_ms(text, 7) == ms


def test_cached_data_that_nothing_reads_is_found() -> None:
    at = START + 5000

    def run(number: int, cached: tuple[int, ...]) -> Events:
        begin = at + 10_000 * number
        return [*job(number, begin, begin + 5000, [number]), *stage(number, begin, begin + 5000, 1, cached),
                *task(number, number, begin + 10, begin + 4000)]  # fmt: skip

    def update(ms: int, rdd: int, size: int, stored: bool) -> tuple[int, dict[str, Any]]:
        level = {"Use Memory": stored, "Replication": 1}
        info = {"Block Manager ID": {"Executor ID": "1", "Host": "node-1"}, "Block ID": f"rdd_{rdd}_0",
                "Storage Level": level, "Memory Size": size, "Disk Size": 0}  # fmt: skip
        return ms, {"Event": "SparkListenerBlockUpdated", "Block Updated Info": info}

    # RDD 1 is stored by stage 0 and read by stage 1; RDD 2 is stored by stage 1 and never read; 3 by a stage that runs twice.
    events = [
        *begun(), *run(0, (1,)), *run(1, (1, 2)), *run(2, (3,)), *stage(2, at + 26_000, at + 27_000, 1, (3,), 1),
        update(at + 100, 1, 4 << 20, True), update(at + 10_100, 2, 6 << 20, True), update(at + 10_200, 1, 4 << 20, False),
    ]  # fmt: skip
    app = app_of(events, at + 40_000)
    assert unread(app) == [2, 3] and app.stored == {1: Stored(4 << 20, 0, 1, 1), 2: Stored(6 << 20, 0, 1, 0)}
    found = insights(events, at + 40_000)
    row = found["cached, never read", "application"]
    assert row["value"] == "6.00 MiB" and "RDDs 2, 3" in row["reason"] and row["severity"] != "NONE"
    assert found["evicted blocks", "application"]["value"] == "1"


def test_costly_nodes_are_those_that_take_time_rows_or_bytes() -> None:
    rows = [
        PlanRow(0, "WholeStageCodegen (2)", "", {"duration": 10_000}),
        PlanRow(1, "HashAggregate", "", {"time in aggregation build": 7000, "number of output rows": 10}),
        PlanRow(2, "InputAdapter", ""),
        PlanRow(3, "Exchange", "", {"data size": 5 << 20, "shuffle write time": 500}),
        PlanRow(4, "WholeStageCodegen (1)", "", {"duration": 2000}),
        PlanRow(5, "ColumnarToRow", "", {"number of output rows": 400_000}),
        PlanRow(6, "InputAdapter", ""),
        PlanRow(
            7, "Scan parquet", "", {"number of output rows": 400_000, "scan time": 1500, "size of files read": 1 << 20}
        ),
    ]
    assert own_times(rows) == [3000, 7000, 0, 500, 2000, 0, 0, 1500]
    assert costly(rows) == ["", "time", "", "bytes", "", "rows", "", "rows"]
    assert costly(rows[:1]) == ["time"] and costly([]) == []


def test_an_execution_names_its_costliest_nodes() -> None:
    plan = AppPlan("q", "ann", "etl", ((StagePlan("scan", 8, 4.0, input_mb=100),),), table="shop.orders")
    result = judged(list(spark_log.events(plan, APP, START)), None)
    row = result.tables["sql"].row(0, named=True)
    nodes = result.tables["plan_nodes"]
    marked = {mark: n for n, marks in nodes.select("name", "costly").iter_rows() for mark in marks.split(", ") if mark}
    assert row["costliest"] == marked["time"] == "HashAggregate"
    assert row["most_rows"] == row["largest"] == marked["rows"] == marked["bytes"] == "Scan parquet shop.orders"
    assert nodes["share"].sum() == pytest.approx(100)


def test_a_scan_of_every_partition_is_found() -> None:
    at = START + 5000
    node = {
        "nodeName": "Scan parquet t", "simpleString": "FileScan parquet t[a#1] PartitionFilters: [], PushedFilters: []",
        "metrics": [{"name": name, "accumulatorId": k, "metricType": "sum"} for k, name in enumerate(
            ("number of partitions read", "size of files read", "number of files read", "static number of files read"))],
    }  # fmt: skip
    sql = "org.apache.spark.sql.execution.ui.SparkListener"
    events = [
        *begun(), (at, {"Event": f"{sql}SQLExecutionStart", "executionId": 4, "time": at, "sparkPlanInfo": node}),
        (at + 1, {"Event": f"{sql}DriverAccumUpdates", "executionId": 4,
                  "accumUpdates": [[0, 365], [1, 3 << 40], [2, 950], [3, 1000]]}),
    ]  # fmt: skip
    found = insights(events, at + 9000)
    assert (
        found["full scan", "sql 4"]["value"] == "365 partitions" and found["full scan", "sql 4"]["severity"] == "SEVERE"
    )
    assert found["file pruning", "sql 4"]["value"] == "5.0%"


def test_streaming_batches_are_compared_with_their_interval() -> None:
    at = START + 5000
    name = "org.apache.spark.sql.streaming.StreamingQueryListener$QueryProgressEvent"
    events: Events = begun()
    for k in range(6):
        progress = {
            "name": "clicks", "batchId": k, "batchDuration": 9000, "numInputRows": 100, "inputRowsPerSecond": 10.0,
            "processedRowsPerSecond": 40.0, "timestamp": f"2025-10-09T09:00:{10 * k:02d}.000Z",
            "stateOperators": [{"numRowsTotal": 100 * 3**k, "memoryUsedBytes": 1000}],
        }  # fmt: skip
        events.append((at + k, {"Event": name, "progress": progress if k % 2 else json.dumps(progress)}))
    row = insights(events, at + 9000)["streaming", "query clicks"]
    assert (
        row["value"] == "0.25" and "take 90% of the time" in row["reason"] and "The rows of its state" in row["reason"]
    )
    assert row["severity"] == "MODERATE" and row["key"].endswith("providerClass")


def test_a_stage_that_runs_again_names_the_executor_that_was_lost() -> None:
    at = START + 5000
    lost = {"Event": "SparkListenerExecutorRemoved", "Timestamp": at + 3000, "Executor ID": "2",
            "Removed Reason": "Container killed by YARN for exceeding memory limits"}  # fmt: skip
    failed = {"Stage ID": 0, "Stage Name": "s0", "Number of Tasks": 1, "Submission Time": at, "Completion Time": at + 4000,
              "Failure Reason": "FetchFailed"}  # fmt: skip
    events = [
        *begun(), *job(0, at, at + 20_000, [0]), *stage(0, at, None, 1),
        (at + 3000, lost), (at + 4000, {"Event": "SparkListenerStageCompleted", "Stage Info": failed}),
        *stage(0, at + 5000, at + 20_000, 1, (), 1),
    ]  # fmt: skip
    row = insights(events, at + 30_000)["stage retries", "application"]
    assert "Executor 2 was lost just before: Container killed by YARN" in row["reason"]
    assert row["key"] == "spark.executor.memoryOverhead"


def test_only_certain_verdicts_of_a_running_application_say_so() -> None:
    at = START + 5000
    skewed = [task(k, 0, at, at + (60_000 if k == 0 else 5000), executor=str(1 + k % 2)) for k in range(8)]
    events = [
        *begun(cores=8), *job(0, at, at + 61_000, [0]), *stage(0, at, at + 61_000, 8), *chain(*skewed),
        *job(1, at + 62_000, None, [1]), *stage(1, at + 62_000, None, 8),
        *task(20, 1, at + 63_000, at + 64_000, reason="ExceptionFailure"),
    ]  # fmt: skip
    result = judged(events, None)
    found = {(row["topic"], row["subject"]): row for row in result.tables["insights"].iter_rows(named=True)}
    assert found["skew", "stage 0"]["status"] == "certain" and "So far" not in found["skew", "stage 0"]["reason"]
    assert found["failed attempts", "application"]["status"] == "can only get worse"
    assert found["driver time", "application"]["status"] == "provisional"
    assert found["driver time", "application"]["reason"].startswith("So far: ")
    explained = {row["heuristic"]: row for row in result.tables["explained"].iter_rows(named=True)}
    assert explained["Spark Configuration"]["status"] == "certain"
    assert explained["Spark Job Metrics"]["severity"] == "CRITICAL"  # its one failed task; the job may still succeed
    assert explained["Spark Job Metrics"]["status"] == explained["Executor GC"]["status"] == "provisional"
    assert all("so far: it still runs" in finding.text for finding in result.findings)
    ended = judged(events, at + 70_000)
    assert {row["status"] for row in ended.tables["insights"].iter_rows(named=True)} == {"certain"}
    assert set(ended.tables["explained"]["status"]) == {""}


def test_the_run_time_of_a_stage_can_only_grow() -> None:
    at = START + 5000
    hours = [task(k, 0, at, at + 20 * 60_000, executor=str(1 + k % 2)) for k in range(4)]
    events = [*begun(cores=2), *job(0, at, None, [0]), *stage(0, at, None, 9), *chain(*hours)]
    explained = {row["heuristic"]: row for row in judged(events, None).tables["explained"].iter_rows(named=True)}
    assert explained["Spark Stage Metrics"]["severity"] == "MODERATE"  # 40 minutes each
    assert explained["Spark Stage Metrics"]["status"] == "can only get worse"
    events = [*begun(cores=2, conf={"spark.executor.instances": "x"}), *events[len(begun()) :]]
    explained = {row["heuristic"]: row for row in judged(events, None).tables["explained"].iter_rows(named=True)}
    assert explained["Spark Stage Metrics"]["status"] == "provisional"


def test_garbage_collection_of_one_stage_and_one_executor_stands_out() -> None:
    at = START + 5000
    events = [
        *begun(), *job(0, at, at + 90_000, [0, 1]), *stage(0, at, at + 40_000, 2), *stage(1, at + 40_000, at + 90_000, 2),
        *task(0, 0, at, at + 40_000, **{"JVM GC Time": 8000}), *task(1, 0, at, at + 40_000, executor="2"),
        *task(2, 1, at + 40_000, at + 90_000), *task(3, 1, at + 40_000, at + 90_000, executor="2"),
    ]  # fmt: skip
    found = insights(events, at + 91_000)
    topic = "garbage collection"
    assert found[topic, "stage 0"]["value"] == "10.0%" and found[topic, "executor 1"]["value"] == "8.9%"
    assert (topic, "stage 1") not in found and (topic, "executor 2") not in found
    assert found[topic, "application"]["value"] == "4.4%"


def test_a_host_on_which_tasks_take_longer_is_slow() -> None:
    at = START + 5000
    events = [*begun(executors=3, cores=9), *job(0, at, at + 99_000, [0, 1])]
    for number, usual in ((0, 2000), (1, 4000)):
        events += stage(number, at, at + 90_000, 27)
        for k in range(27):
            host = 1 + k % 3
            took = usual * 2 if host == 2 else usual
            events += task(100 * number + k, number, at + 10, at + 10 + took, executor=str(host))
    found = insights(events, at + 100_000)
    assert [key for key in found if key[0] == "slow host"] == [("slow host", "host node-2")]
    row = found["slow host", "host node-2"]
    assert row["value"] == "2.0 x" and "Its 18 tasks" in row["reason"] and "54.0 s longer" in row["reason"]
    assert row["severity"] == "MODERATE"


def test_waves_and_the_longest_share_of_a_stage() -> None:
    at = START + 5000
    tasks = [task(k, 0, at + 1000 * (k // 2), at + 1000 * (k // 2 + 1), executor=str(1 + k % 2)) for k in range(8)]
    events = [*begun(), *job(0, at, at + 4000, [0]), *stage(0, at, at + 4000, 8), *chain(*tasks)]
    row = judged(events, at + 9000).tables["stages"].row(0, named=True)
    assert (row["waves"], row["longest_share"]) == (4.0, 25.0)


def test_apps_without_anything_give_no_insight_that_divides_by_zero() -> None:
    app = app_of(begun(executors=0), START + 10)
    held = resources(replace(app, properties={}))
    assert stage_tasks(app, held.slots) == {} and unread(app) == []
    assert ("driver time", "application") not in insights(begun(executors=0), START + 10)  # no job tells what it did
