"""The trees of limits give upstream's severities, the metrics upstream's numbers; why and how far tell the truth."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.job_heuristics.insight import decision, job_arrays, severity_rules, whatif
from engine.job_heuristics.model import incremental_assembly
from engine.view import Context
from tests.engine.job_heuristics import helper
from tests.engine.job_heuristics.jobs import MB, model, task
from tests.reference import reference

LIMITS = severity_rules.default_limits()
WORDS = ("None", "Low", "Moderate", "Severe", "Critical")


@cache
def upstream_model():
    root = reference("job-heuristics")
    store = helper.Store()
    for path in sorted((root / "history").rglob("*")):
        if path.is_file():
            data = path.read_bytes()
            name = path.name
            if name.endswith(".gz"):
                import gzip

                data, name = gzip.decompress(data), name[:-3]
            store.put(f"{path.parent}/{name}", data)
    return incremental_assembly.current_model(store.inputs(), Context(now_ms=0))


def expectations():
    root = reference("job-heuristics")
    for path in sorted((root / "expected").glob("*.json")):
        found = json.loads(path.read_text())
        if found.get("heuristics") and found.get("succeeded") and "exception" not in found:
            yield found


def test_every_numeric_verdict_and_metric_equals_upstream():
    found_model = upstream_model()
    seen = 0
    for expected in expectations():
        job = job_arrays.job(found_model.only((expected["job_id"],)))
        if job is None or job.running:
            continue
        levels = {t.heuristic: WORDS[int(t.levels()[0])] for t in severity_rules.trees(job, LIMITS)}
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


def test_a_prediction_without_change_is_the_job_for_every_upstream_job():
    found_model = upstream_model()
    for job_id in found_model.jobs["job_id"].to_list():
        job = job_arrays.job(found_model.only((job_id,)))
        assert job is not None
        found = whatif.predict(job, whatif.Scenario(), LIMITS)
        assert found.metrics == whatif.metrics(job), job_id


def why_of(job, name):
    return next(decision.explain(t) for t in severity_rules.trees(job, LIMITS) if t.heuristic == name)


def job_of(tasks, **more):
    found = job_arrays.job(model(tasks, **more))
    assert found is not None
    return found


def test_distance_in_tasks_and_minutes():
    found = why_of(job_of([task("map", 10, 90) for _ in range(89)]), "Mapper Time")
    # 1.5 min would be SEVERE alone, 89 tasks only LOW: the count decides.
    assert found.level == 1
    assert [limit.key for branch in found.branches for limit in branch if limit.decides] == ["tasks"]
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
    assert decision.amount(24_000, "ms") == "0.4 min"
    assert decision.amount(600, "ms") == "0.60 s"
    assert decision.amount(1.5 * MB, "bytes") == "1.5 MB" and decision.amount(3, "bytes/s") == "3 bytes/s"
    assert decision.amount(float("inf"), "") == "infinite" and decision.amount(float("nan"), "") == "undefined"
    assert decision.amount(1, "tasks") == "1 task"


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
        sort=zero, spilled=gc, out_records=cpu,
    )  # fmt: skip
    return replace(base, maps=side, reduces=replace(side, name="reduce"))


@settings(deadline=None)
@given(sides)
def test_moving_the_deciding_limit_changes_the_level(rows):
    """Each limit that decides really holds the verdict: with it one level stricter the verdict would differ or tie."""
    for tree in severity_rules.trees(arrays_job(rows), LIMITS):
        found = decision.explain(tree)
        assert found.level == int(tree.levels()[0])
        assert found.margin >= 0
        if tree.measured:
            assert any(limit.decides for branch in found.branches for limit in branch)
            for branch in found.branches:
                for limit in branch:
                    assert not limit.decides or limit.level == found.level


@settings(deadline=None, max_examples=50)
@given(sides, st.integers(1, 5))
def test_unit_weights_are_the_tasks_themselves(rows, copies):
    job = arrays_job(rows)
    plain = severity_rules.trees(job, LIMITS)
    ones = [severity_rules.Sample(side, np.ones((copies, len(rows)))) for side in job.sides]
    for a, b in zip(plain, severity_rules.trees(job, LIMITS, *ones), strict=True):
        if a.heuristic != "Mapper Speed":  # weighted copies take the lower median
            assert (b.levels() == a.levels()[0]).all()
