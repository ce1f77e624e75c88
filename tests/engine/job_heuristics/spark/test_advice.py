"""Advice for Spark applications: what it saves, against the times of the tasks dealt to slots by hand."""

from __future__ import annotations

from itertools import chain
from typing import Any

import pytest

from engine.job_heuristics.spark.insight.skew import skew_setting, split_up, stage_tasks
from tests.engine.job_heuristics.spark.test_insights import APP, START, Events, app_of, begun, job, judged, stage, task

AT = START + 5000


def run(times: list[int], read: list[int], conf: dict[str, str] | None = None, version: str = "3.5.1") -> Events:
    """A job of one stage whose tasks, each reading some MB of shuffled data, take their times one after the other on the two
    slots; it and the driver's 60 s before it make the run time."""
    free, events = [AT + 60_000] * 2, []
    for k, (ms, mb) in enumerate(zip(times, read, strict=True)):
        slot = free.index(min(free))
        events += task(k, 0, free[slot], free[slot] + ms, executor=str(slot + 1),
                       **{"Shuffle Read Metrics": {"Remote Bytes Read": mb << 20}})  # fmt: skip
        free[slot] += ms
    end = max(free)
    started = [
        (ms, event | {"Spark Version": version} if "Spark Version" in event else event)
        for ms, event in begun(conf=conf)
    ]
    (begin, first), last = job(0, AT + 60_000, end, [0])
    first |= {"Properties": {"spark.sql.execution.id": "0"}}
    return [*started, (begin, first), last, *stage(0, AT + 60_000, end, len(times)), *events]


def advice(events: Events) -> dict[str, dict[str, Any]]:
    end = max(ms for ms, _ in events) + 1
    rows = judged(events, end).tables["recommendations"].filter(job_id=APP).iter_rows(named=True)
    return {row["topic"]: row for row in rows}


OFF = {"spark.sql.adaptive.enabled": "false"}


def test_saving_of_a_skewed_task_is_its_delay_of_the_end() -> None:
    # 190 s on two slots: whole it ends after 100, and in parts of 10 s, too.
    assert "skew" not in advice(run([100_000, *[10_000] * 9], [500, *[50] * 9], OFF))
    events = run([200_000, *[10_000] * 9], [500, *[50] * 9], OFF)
    row = advice(events)["skew"]
    assert (row["key"], row["value"], row["current"]) == ("spark.sql.adaptive.enabled", "true", "false")
    parts = sorted([10_000] * 29, reverse=True)
    assert row["wait_change_ms"] == -(200_000 - 10_000 * -(-len(parts) // 2))
    mb = 2 * (4096 + 409) + 2048 + 384
    assert row["saving_mb_s"] == pytest.approx(-row["wait_change_ms"] * mb / 1000)
    assert "partitions" not in advice(events)  # more partitions do not divide a key


def test_total_savings_multiply() -> None:
    heap = {"Task Executor Metrics": {"JVMHeapMemory": 1 << 30}}
    events = run([200_000, *[10_000] * 9], [500, *[50] * 9], OFF)
    events = [(ms, event | heap if event["Event"].endswith("TaskEnd") else event) for ms, event in events]
    result = judged(events, max(ms for ms, _ in events) + 1)
    mine = result.tables["recommendations"].filter(job_id=APP)
    assert set(mine["topic"]) == {"skew", "executor memory"}
    one, other = (percent / 100 for percent in mine["saving_percent"])
    whole = result.tables["costs"].filter(job_id=APP)["mb_s"].sum()
    listed = result.detail.listing.filter(job_id=APP).row(0, named=True)
    assert listed["saving_mb_s"] == pytest.approx(whole * (1 - (1 - one) * (1 - other)), rel=1e-6)
    assert listed["saving_mb_s"] < mine["saving_mb_s"].sum()


def test_split_tasks_are_as_long_as_the_median() -> None:
    one = next(iter(stage_tasks(app_of(run([100_000, *[10_000] * 9], [500, *[50] * 9]), None), 2).values()))
    assert split_up(one, 10_000) == [10_000] and split_up(one, 100_000) == [10_000] * 10


@pytest.mark.parametrize(
    ("version", "conf", "mb", "setting"),
    (
        ("2.4.8", {}, 500, ("", "")),
        ("3.1.2", {}, 500, ("spark.sql.adaptive.enabled", "true")),
        ("3.5.1", OFF, 500, ("spark.sql.adaptive.enabled", "true")),
        ("3.5.1", {"spark.sql.adaptive.skewJoin.enabled": "false"}, 500, ("spark.sql.adaptive.skewJoin.enabled", "true")),
        ("3.5.1", {}, 200, ("spark.sql.adaptive.skewJoin.skewedPartitionThresholdInBytes", "100m")),
        ("4.0.0", {}, 500, ("", "")),
        ("not a version", {}, 200, ("spark.sql.adaptive.skewJoin.skewedPartitionThresholdInBytes", "100m")),
    ),
)  # fmt: skip
def test_settings_that_split_a_large_partition(
    version: str, conf: dict[str, str], mb: int, setting: tuple[str, str]
) -> None:
    app = app_of(run([100_000, *[10_000] * 9], [mb, *[10] * 9], conf, version), None)
    assert skew_setting(app, next(iter(stage_tasks(app, 2).values()))) == setting


def test_more_partitions_are_advised_where_tasks_do_not_fill_the_slots() -> None:
    # Stage 1 reads what stage 0 wrote, in 3 tasks of 40 s on 2 slots: 80 s; in 2 tasks 60 s.
    end = AT + 62_000 + 80_000
    infos = [{"Stage ID": k, "Stage Name": f"s{k}", "Number of Tasks": n, "Parent IDs": [0] if k else []}
             for k, n in ((0, 2), (1, 3))]  # fmt: skip
    begin = {"Event": "SparkListenerJobStart", "Job ID": 0, "Submission Time": AT + 60_000, "Stage IDs": [0, 1],
             "Stage Infos": infos}  # fmt: skip
    second = {
        "Stage ID": 1,
        "Stage Name": "s1",
        "Number of Tasks": 3,
        "Parent IDs": [0],
        "Submission Time": AT + 62_000,
    }
    reads = {"Shuffle Read Metrics": {"Remote Bytes Read": 50 << 20}}
    events: Events = [
        *begun(), (AT + 60_000, begin), *stage(0, AT + 60_000, AT + 62_000, 2),
        (AT + 62_000, {"Event": "SparkListenerStageSubmitted", "Stage Info": second}),
        (end, {"Event": "SparkListenerStageCompleted", "Stage Info": second | {"Completion Time": end}}),
        *job(0, end, end, [0])[1:],
        *chain(*(task(k, 0, AT + 60_000, AT + 62_000, executor=str(k + 1)) for k in range(2))),
        *chain(*(task(2 + k, 1, AT + 62_000 + 40_000 * (k // 2), AT + 102_000 + 40_000 * (k // 2),
                      executor=str(1 + k % 2), **reads) for k in range(3))),
    ]  # fmt: skip
    row = advice(events)["partitions"]
    assert (row["key"], row["value"], row["current"]) == ("spark.default.parallelism", "2", "3")  # no SQL in it
    assert row["wait_change_ms"] == -20_025  # 3 x 40 s in two parts, each with a start of 50 ms
    row = judged(events, end + 1, shuffle_partitions=2).tables["what_if"].filter(what="run time").row(0, named=True)
    assert row["change"] == pytest.approx(-100 * 20_025 / (end + 1 - START), rel=0.01)
