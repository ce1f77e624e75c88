"""Running jobs: bounds that hold, chances that fit, an end in sight."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.job_heuristics.dr_elephant.heuristic import default_rules
from engine.job_heuristics.mapreduce.insight import certainty
from engine.job_heuristics.mapreduce.insight.job_verdicts import job_verdicts
from engine.job_heuristics.mapreduce.model import model as job_arrays
from engine.job_heuristics.mapreduce.rules.heuristics import HEURISTICS
from tests.chance import tries
from tests.engine.job_heuristics.jobs import BASE, model, task

RULES = default_rules(HEURISTICS)


def running(finished, ages, planned, seconds=60, side="map", **row):
    now = 10_000
    tasks = [task(side, 10, t) for t in finished]
    tasks += [task(side, now - a, 0, state="RUNNING") for a in ages]
    counts = {"maps": planned, "reduces": 0} if side == "map" else {"maps": 0, "reduces": planned}
    found = job_arrays.job(
        model(tasks, state="RUNNING", finish_ms=None, last_event_ms=BASE + now * 1000, **{**counts, **row})
    )
    assert found is not None
    return found


def outlook(job, name, **more):
    return {o.heuristic: o for o in certainty.outlooks(job, RULES, **more)}[name]


def test_a_finished_job_is_certain():
    job = job_arrays.job(model([task("map", 10, 50) for _ in range(60)]))
    assert job is not None
    found = outlook(job, "Mapper Time")
    assert (found.level, found.floor, found.ceiling, found.status, found.chance[1]) == (1, 1, 1, "certain", 1.0)


def test_few_planned_tasks_can_never_be_short_and_many():
    job = running([30] * 5, [10] * 5, planned=20)
    found = outlook(job, "Mapper Skew")
    assert found.ceiling == 1  # 20 tasks: the small group reaches 10 at most, never 50
    # Two hours on each of 10 of 20 tasks: the average ends above 60 minutes whatever happens.
    long = outlook(running([7200] * 10, [7200] * 2, planned=20), "Mapper Time")
    assert long.floor == 3 and long.status == "at least SEVERE" and sum(long.chance[:3]) == 0


def test_fixed_container_makes_memory_certain():
    job = running([300] * 5, [], planned=50)
    assert outlook(job, "Mapper Memory").status == "certain"
    big = running([300] * 5, [], planned=50, conf={"mapreduce.map.memory.mb": "8192"})
    assert outlook(big, "Mapper Memory").status == "provisional"


def test_chances_follow_the_finished_tasks_and_sharpen():
    rng = np.random.default_rng(4)
    few = running(rng.uniform(380, 700, 8).tolist(), [], planned=200)
    many = running(rng.uniform(380, 700, 190).tolist(), [], planned=200)
    a, b = (outlook(j, "Mapper Time") for j in (few, many))
    assert a.ceiling == 4 and a.likely == 1
    assert sum(a.chance) == pytest.approx(1) and b.chance[1] > 0.95 and b.chance[1] >= a.chance[1]


def test_running_tasks_older_than_finished_ones_pull_the_estimate_up():
    weights = certainty.survivors(np.array([10, 20, 30, 100]), np.array([50, 60, 70]))
    assert weights.sum() == pytest.approx(1)
    assert weights[3] == pytest.approx(4 / 7) and weights[0] == pytest.approx(1 / 7)
    assert certainty.survivors(np.array([3, 1, 2]), np.array([], dtype=int)) == pytest.approx([1 / 3] * 3)


def test_seed_decides_everything():
    job = running([30, 60, 90, 400, 500, 600], [5, 6], planned=300)
    assert certainty.outlooks(job, RULES, seed=7) == certainty.outlooks(job, RULES, seed=7)
    assert certainty.arrival(job, 7) == certainty.arrival(job, 7)


def test_many_tasks_are_thinned_without_changing_what_they_say(monkeypatch):
    rng = np.random.default_rng(8)
    # 3,000 of 6,000 maps with an average near the limit of 10 minutes: neither side of it is certain.
    job = running((rng.lognormal(0, 1.2, 3000) * 292).tolist(), [], planned=6000)
    mean = float(job.maps.total.mean())
    assert 560_000 < mean < 640_000
    thin = outlook(job, "Mapper Time")
    monkeypatch.setattr(certainty, "MOST", 10_000)
    full = outlook(job, "Mapper Time")
    assert thin.level == full.level and (thin.floor, thin.ceiling) == (full.floor, full.ceiling)
    for a, b in zip(thin.chance, full.chance, strict=True):
        assert a == pytest.approx(b, abs=0.15)
    assert max(full.chance) < 0.999


def test_arrival_of_the_map_phase():
    # 10 containers, 100 s a task: 50 waiting tasks are five more waves after the running one.
    job = running([100] * 40, [50] * 10, planned=100)
    found = certainty.arrival(job)
    assert found.middle is not None and found.low is not None and found.high is not None
    assert (found.middle - BASE) / 1000 - 10_000 == pytest.approx(550, abs=15)
    assert found.low <= found.middle <= found.high
    assert "50 wait" in found.words


def test_arrival_without_evidence_says_so():
    assert certainty.arrival(running([], [50] * 10, planned=100)).middle is None
    waiting = certainty.arrival(running([100] * 4, [5], planned=5, reduces=3))
    assert waiting.low is not None and waiting.middle is None and "no reducer" in waiting.words
    ended = job_arrays.job(model([task("map", 10, 50)]))
    assert ended is not None and certainty.arrival(ended).words == "the job has ended"


@tries(12)
@given(
    st.lists(st.integers(1, 9000), max_size=30),
    st.lists(st.integers(0, 9000), max_size=10),
    st.integers(0, 60),
    st.sampled_from(["map", "reduce"]),
)
def test_bounds_hold_for_any_remaining_tasks(finished, ages, more, side):
    planned = len(finished) + len(ages) + more
    job = running(finished, ages, planned, side=side)
    for found in certainty.outlooks(job, RULES, copies=20):
        assert 0 <= found.floor <= found.ceiling <= 4
        assert sum(found.chance) == pytest.approx(1)
        assert all(c == 0 for k, c in enumerate(found.chance) if not found.floor <= k <= found.ceiling)
    # Complete the job in the mildest and the harshest way: the bounds must hold.
    for rest in (0, 100_000):
        tasks = [task(side, 10, t) for t in finished]
        tasks += [task(side, 10, a + rest) for a in ages] + [task(side, 10, 1 + rest) for _ in range(more)]
        counts = {"maps": planned, "reduces": 0} if side == "map" else {"maps": 0, "reduces": planned}
        done = job_arrays.job(model(tasks, **counts))
        assert done is not None
        final = {verdict.name: verdict.level for verdict in job_verdicts(done, RULES)}
        for found in certainty.outlooks(job, RULES, copies=5):
            word = "Mapper" if side == "map" else "Reducer"
            if found.heuristic in (f"{word} Time", f"{word} Skew", f"{word} Memory"):
                assert found.floor <= final[found.heuristic] <= found.ceiling


@tries(12)
@given(st.lists(st.integers(0, 9000), max_size=30), st.lists(st.integers(0, 9000), max_size=10), st.integers(0, 900))
def test_arrival_never_lies_in_the_past(finished, ages, more):
    found = certainty.arrival(running(finished, ages, len(finished) + len(ages) + more), copies=20)
    for moment in (found.low, found.middle, found.high):
        assert moment is None or moment >= BASE + 10_000_000
