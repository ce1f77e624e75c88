"""One job's gates give Dr. Elephant's severities, its metrics Dr. Elephant's numbers; why and how far tell the truth."""

from __future__ import annotations

import json
from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from engine.core.view import Context
from engine.job_heuristics.dr_elephant.gates import amount
from engine.job_heuristics.dr_elephant.heuristic import default_rules
from engine.job_heuristics.mapreduce.insight import whatif
from engine.job_heuristics.mapreduce.insight.job_verdicts import Sample, explain, job_verdicts
from engine.job_heuristics.mapreduce.model import assembly as incremental_assembly
from engine.job_heuristics.mapreduce.model import model as job_arrays
from engine.job_heuristics.mapreduce.rules.heuristics import HEURISTICS
from tests.chance import tries
from tests.engine.job_heuristics import helper
from tests.engine.job_heuristics.jobs import MB, model, task
from tests.reference import reference

RULES = default_rules(HEURISTICS)
WORDS = ("None", "Low", "Moderate", "Severe", "Critical")


@cache
def reference_model():
    inputs = helper.inputs_below(reference("job-heuristics") / "history")
    return incremental_assembly.current_model(inputs, Context(now_ms=0))


@cache
def reference_job(job_id):
    return job_arrays.job(reference_model().only((job_id,)))


def expectations():
    root = reference("job-heuristics")
    for path in sorted((root / "expected").glob("*.json")):
        found = json.loads(path.read_text())
        if found.get("heuristics") and found.get("succeeded") and "exception" not in found:
            yield found


def test_every_verdict_with_gates_and_every_metric_equals_dr_elephants():
    seen = 0
    for expected in expectations():
        job = reference_job(expected["job_id"])
        if job is None or job.running:
            continue
        levels = {verdict.name: WORDS[verdict.level] for verdict in job_verdicts(job, RULES)}
        for heuristic in expected["heuristics"]:
            if heuristic["name"] in levels:
                assert levels[heuristic["name"]] == heuristic["severity"], (expected["tag"], heuristic["name"])
                seen += 1
        got = whatif.metrics(job)
        metrics = expected["metrics"]
        assert (got.used_mb_s, got.wasted_mb_s, got.wait_ms, got.runtime_ms) == (
            metrics["used_mb_sec"],
            metrics["wasted_mb_sec"],
            metrics["wait_ms"],
            metrics["runtime_ms"],
        ), expected["tag"]
    assert seen > 300


def test_a_prediction_without_change_is_the_job_for_every_reference_job():
    for job_id in reference_model().jobs["job_id"].to_list():
        job = reference_job(job_id)
        assert job is not None
        found = whatif.predict(job, whatif.Scenario(), RULES)
        assert found.metrics == whatif.metrics(job), job_id


def why_of(job, name):
    return next(explain(verdict) for verdict in job_verdicts(job, RULES) if verdict.name == name)


def job_of(tasks, **more):
    found = job_arrays.job(model(tasks, **more))
    assert found is not None
    return found


def test_distance_in_tasks_and_minutes():
    found = why_of(job_of([task("map", 10, 90) for _ in range(89)]), "Mapper Time")
    # 1.5 min would be SEVERE alone, 89 tasks only LOW: the count decides.
    assert found.level == 1
    assert [limit.gate.key for branch in found.branches for limit in branch if limit.decides] == ["tasks"]
    assert found.worse == "MODERATE with 12 more tasks"
    assert "40 fewer tasks" in found.better
    assert "89 tasks" in found.reason and "keeps it at LOW" in found.reason


def test_distance_of_a_long_average():
    found = why_of(job_of([task("map", 10, 29.6 * 60) for _ in range(5)]), "Mapper Time")
    assert found.level == 1
    assert found.worse == "MODERATE with 0.4 min more average run time"
    assert found.better.startswith("NONE with 14.6 min less")
    assert found.margin == pytest.approx(0.4 / 30, rel=0.01)


def test_best_and_worst_levels_say_so():
    calm = why_of(job_of([task("map", 10, 700) for _ in range(5)]), "Mapper Time")
    assert calm.level == 0 and calm.better == "already at the best level" and calm.worse.startswith("LOW with")
    worst = why_of(job_of([task("map", 10, 8000) for _ in range(5)]), "Mapper Time")
    assert worst.level == 4 and worst.worse == "already at the worst level"
    none = why_of(job_of([task("map", 10, 8000)]), "Reducer Time")
    assert none.level == 0 and "No reduce task" in none.reason


def test_amounts():
    assert amount(24_000, "ms") == "0.4 min"
    assert amount(600, "ms") == "0.60 s"
    assert amount(1.5 * MB, "bytes") == "1.5 MB" and amount(3, "bytes/s") == "3 bytes/s"
    assert amount(float("inf"), "") == "infinite" and amount(float("nan"), "") == "undefined"
    assert amount(1, "tasks") == "1 task"


numbers = st.integers(0, 2**40)
sides = st.lists(
    st.tuples(st.integers(0, 10**8), numbers, st.integers(0, 10**8), st.integers(0, 10**6), numbers), max_size=30
)


@cache
def base_job():
    return job_of([task("map", 10, 1), task("reduce", 20, 1)])


def arrays_job(rows):
    base = base_job()
    total, size, cpu, gc, pmem = (np.array([r[k] for r in rows], dtype=np.int64) for k in range(5))
    zero = np.zeros(len(rows), dtype=np.int64)
    side = replace(
        base.maps, n=len(rows), planned=len(rows), total=total, size=size, cpu=cpu, gc=gc, pmem=pmem, shuffle=zero,
        sort=zero, start=zero, finish=total, vmem=zero, peak=pmem, spilled=gc, out_records=cpu, out_bytes=size,
    )  # fmt: skip
    return replace(base, maps=side, reduces=replace(side, name="reduce"))


def test_averages_over_no_task_have_nothing_to_explain():
    reasons = {verdict.name: explain(verdict).reason for verdict in job_verdicts(arrays_job([]), RULES)}
    unexplained = {name for name, reason in reasons.items() if reason.endswith(" task to judge.")}
    words = ("Time", "GC", "Memory")
    assert unexplained == {"Mapper Speed", *(f"{side} {word}" for side in ("Mapper", "Reducer") for word in words)}


@tries(33)
@given(sides)
def test_moving_the_deciding_limit_changes_the_level(rows):
    """Each limit that decides really holds the verdict: with it one level stricter the verdict would differ or tie."""
    for verdict in job_verdicts(arrays_job(rows), RULES):
        found = explain(verdict)
        assert found.level == verdict.level
        assert found.margin >= 0
        if not verdict.unexplained:
            assert any(limit.decides for branch in found.branches for limit in branch)
            for branch in found.branches:
                for limit in branch:
                    assert not limit.decides or limit.level == found.level


@tries(17)
@given(sides, st.integers(1, 5))
def test_unit_weights_are_the_tasks_themselves(rows, copies):
    job = arrays_job(rows)
    plain = job_verdicts(job, RULES)
    n = np.full(copies, len(rows))
    ones = [Sample.weighted(side, np.ones((copies, len(rows))), n) for side in job.sides]
    for a, b in zip(plain, job_verdicts(job, RULES, *ones), strict=True):
        if a.name != "Mapper Speed":  # weighted copies take the lower median
            assert (b.tree.levels() == a.level).all()
