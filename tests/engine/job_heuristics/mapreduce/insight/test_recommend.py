"""Recommendations: each rule by hand, consistent with the what-if model, sane for any job."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.job_heuristics.dr_elephant.heuristic import default_rules
from engine.job_heuristics.mapreduce.insight import cost, recommend, whatif
from engine.job_heuristics.mapreduce.model import model as job_arrays
from engine.job_heuristics.mapreduce.model.job_conf import ADVICE_KEYS
from engine.job_heuristics.mapreduce.rules.heuristics import HEURISTICS
from engine.job_heuristics.result import rollup
from engine.job_heuristics.tables import LISTING
from tests.chance import tries
from tests.engine.job_heuristics.jobs import MB, model, task, together

RULES = default_rules(HEURISTICS)


def advice(job_model):
    return {r["topic"]: r for r in recommend.recommendations(job_model, RULES).iter_rows(named=True)}


def test_container_from_the_99_percent_and_head_room():
    job = model([task("map", 10, 400, pmem_mb=1000) for _ in range(10)], map_memory_mb=8192)
    found = advice(job)["map container"]
    assert (found["key"], found["value"], found["current"]) == ("mapreduce.map.memory.mb", "1536", "8192")
    assert found["saving_mb_s"] == (8192 - 1536) * 4000
    assert (found["severity_now"], found["severity_after"]) == ("CRITICAL", "NONE")
    assert "-Xmx1228m" in found["text"] and "1,000 MB" in found["text"]
    predicted = whatif.predict(job_arrays.job(job), whatif.Scenario(map_mb=1536), RULES)
    assert whatif.metrics(job_arrays.job(job)).used_mb_s - predicted.metrics.used_mb_s == found["saving_mb_s"]
    assert not predicted.warnings


def test_unmeasured_memory_gives_no_container_advice():
    assert not advice(model([task("map", 10, 400, pmem_mb=0) for _ in range(10)], map_memory_mb=8192))


def test_splits_for_short_and_for_long_maps():
    short = model([task("map", 10 + (k // 20) * 50, 45, size=64 * MB, pmem_mb=2000) for k in range(600)])
    found = advice(short)["split size"]
    assert found["key"].endswith("minsize") and found["severity_now"] == "SEVERE"
    wanted = 600 * 64 * MB / int(found["value"])
    assert 55 < wanted < 60  # 43 s of work each, 7.5 minutes wanted
    long = model([task("map", 10, 3600, size=640 * MB, pmem_mb=2000) for k in range(4)])
    found = advice(long)["split size"]
    assert found["key"].endswith("maxsize") and found["wait_change_ms"] <= 0
    assert found["severity_after"] == "NONE"


def test_start_cost_cannot_eat_the_ideal_run_time():
    job = model([task("map", 10, 1500 + k % 2, size=10_000 * MB + k, pmem_mb=2000) for k in range(60)])
    found = advice(job)["split size"]
    assert 1 <= 600_000 * MB / int(found["value"]) < 1000


def test_reducers_and_slow_start():
    maps = [task("map", 10 + 60 * (k // 2), 60, pmem_mb=2000) for k in range(20)]  # until 610 s
    waiting = [task("reduce", 80, 560, shuffle=535, sort=5, size=60 * MB, pmem_mb=2000) for _ in range(4)]
    found = advice(model(maps + waiting))["slow start"]
    # 60 MB take 2 s to copy: the reducers may start when all maps but the last wave are done.
    assert 0.9 <= float(found["value"]) <= 1.0
    assert found["saving_mb_s"] == pytest.approx(4 * 2048 * 530, rel=0.05)
    many = [task("reduce", 620, 30, size=MB, pmem_mb=2000) for _ in range(1200)]
    found = advice(model(maps + many))["reducers"]
    assert found["value"] == "75" and found["severity_now"] == "CRITICAL" and found["saving_mb_s"] > 0
    few = [task("reduce", 620, 3600, size=MB, pmem_mb=2000) for _ in range(2)]
    assert int(advice(model(maps + few))["reducers"]["value"]) in (16, 17)


def test_sort_buffer_from_output_bytes():
    spilling = {"spilled": 300_000, "records": 100_000, "out_bytes": 250 * MB, "pmem_mb": 2000}
    found = advice(model([task("map", 10, 900, **spilling) for _ in range(120)]))["sort buffer"]
    assert found["key"] == "mapreduce.task.io.sort.mb"
    assert int(found["value"]) == pytest.approx((250 + 1.53) * 1.1 / 0.8, abs=1)
    assert (found["severity_now"], found["severity_after"]) == ("MODERATE", "NONE")
    huge = {**spilling, "out_bytes": 5000 * MB}
    found = advice(model([task("map", 10, 900, **huge) for _ in range(120)]))["sort buffer"]
    assert found["key"].endswith("split.maxsize")


def test_jobs_are_independent():
    a = model([task("map", 10, 400, pmem_mb=1000) for _ in range(10)], map_memory_mb=8192)
    b = model([task("map", 10, 45) for _ in range(600)], job_id="job_1_0002")
    both = together(a, b)
    plain = recommend.recommendations(both, RULES)
    parts = pl.concat([recommend.recommendations(m, RULES) for m in (a, b)])
    assert plain.sort("job_id", "rank").equals(parts.sort("job_id", "rank"))


one = st.builds(
    task, st.sampled_from(["map", "reduce"]), st.integers(1, 500), st.integers(0, 5000), shuffle=st.integers(0, 100),
    size=st.integers(0, 10**12), pmem_mb=st.integers(0, 9000), spilled=st.integers(0, 10**9),
    records=st.integers(0, 10**6), out_bytes=st.integers(0, 10**11),
    state=st.sampled_from(["SUCCEEDED", "SUCCEEDED", "RUNNING"]),
)  # fmt: skip


@tries(12)
@given(st.lists(one, max_size=15), st.integers(1, 20_000), st.sampled_from(["", "x", "0.5", "1e400", "-3"]))
def test_any_job_gives_sane_advice(tasks, memory, value):
    conf = dict.fromkeys(ADVICE_KEYS, value) if value else {}
    found = recommend.recommendations(model(tasks, conf=conf, map_memory_mb=memory), RULES)
    assert found.filter(~pl.col("saving_mb_s").is_finite()).height == 0
    for row in found.iter_rows(named=True):
        assert row["key"] and float(row["value"]) >= 0 and row["text"]


@tries(12)
@given(st.lists(st.tuples(st.lists(one, max_size=15), st.integers(1, 20_000)), min_size=1, max_size=4))
def test_preselection_misses_no_recommendation(jobs):
    models = [model(tasks, job_id=f"job_1_{k:04}", map_memory_mb=mb) for k, (tasks, mb) in enumerate(jobs)]
    both = together(*models)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(recommend, "_worth", lambda rows, *_: np.ones(rows.height, dtype=bool))
        everyone = recommend.recommendations(both, RULES)
    assert recommend.recommendations(both, RULES).equals(everyone)


def test_rollup_counts_every_job_once_per_grouping():
    a = model([task("map", 10, 400, pmem_mb=1000) for _ in range(10)], map_memory_mb=8192)
    b = model([task("map", 10, 45) for _ in range(600)], job_id="job_1_0002")
    both = together(a, b)
    rows = {
        "job_id": ["job_1_0001", "job_1_0002", "job_1_0003"],
        "user": ["ann", "bob", "bob"],
        "queue": ["etl", "etl", None],
        "job_type": ["Pig", "Pig", "Hive"],
        "state": ["SUCCEEDED", "FAILED", "RUNNING"],
        "severity": ["CRITICAL", "NONE", None],
        "used_mb_s": [1000, 500, 10],
        "wasted_mb_s": [900, 100, None],
        "wait_ms": [5, 6, None],
        "submit_ms": [1_700_000_000_000] * 3,
    }
    spent = cost.waste(cost.costs(both))
    costs = [spent.get(job, (None, None)) for job in rows["job_id"]]
    rows |= {"cost_mb_s": [each for each, _ in costs], "avoidable_mb_s": [each for _, each in costs]}
    found = rollup.rollup(LISTING.frame(rows))
    for by in rollup.GROUPS:
        part = found.filter(pl.col("by") == by)
        assert (
            part["jobs"].sum() == 3 and part["wasted_mb_s"].sum() == 1000 and part["share"].sum() == pytest.approx(100)
        )
        assert part["cumulated"].to_list()[-1] == pytest.approx(100)
    users = found.filter(pl.col("by") == "user")
    assert users["group"].to_list() == ["ann", "bob"] and users["critical"].to_list() == [1, 0]
    assert users["failed"].to_list() == [0, 1] and users["running"].to_list() == [0, 1]
    assert found.filter(pl.col("by") == "hour")["group"].to_list() == ["2023-11-14 22:00"]
    assert "?" in found.filter(pl.col("by") == "queue")["group"].to_list()
