"""What-if: nothing changed predicts nothing, each control moves what it should, limits re-judge at once."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.job_heuristics.dr_elephant.heuristic import default_rules
from engine.job_heuristics.mapreduce.insight.job_verdicts import job_verdicts
from engine.job_heuristics.mapreduce.insight.whatif import Scenario, makespan, metrics, peak_slots, predict
from engine.job_heuristics.mapreduce.model import model as job_arrays
from engine.job_heuristics.mapreduce.rules.heuristics import HEURISTICS
from tests.chance import tries
from tests.engine.job_heuristics.jobs import MB, model, task

RULES = default_rules(HEURISTICS)


def job_of(tasks, conf=None, **row):
    found = job_arrays.job(model(tasks, conf=conf, **row))
    assert found is not None
    return found


def short_maps(n=600, slots=20, seconds=50):
    return [task("map", 10 + (k // slots) * (seconds + 1), seconds, size=64 * MB + k) for k in range(n)]


def test_metrics_by_hand():
    job = job_of(
        [task("map", 10, 100.9, pmem_mb=600, vmem_mb=2100), task("map", 12, 50, pmem_mb=500), task("reduce", 120, 30)],
        reduce_memory_mb=1024,
    )
    found = metrics(job)
    assert found.used_mb_s == 2048 * 150 + 1024 * 30
    assert found.wasted_mb_s == (2048 - 1500) * 150  # virtual 2100 / 2.1 = 1000 is the peak; x 1.5
    assert found.wait_ms == (110_900 - 100_900) + (150_000 - (110_900 + 30_000))
    assert found.runtime_ms == 151_000


def test_the_empty_scenario_changes_nothing():
    job = job_of([*short_maps(60), task("reduce", 100, 300, shuffle=120, sort=5)])
    found = predict(job, Scenario(), RULES)
    assert found.metrics == metrics(job) and not found.assumptions and not found.warnings
    assert found.levels == {verdict.name: verdict.level for verdict in job_verdicts(job, RULES)}


def test_larger_splits_heal_short_maps():
    job = job_of(short_maps())
    assert predict(job, Scenario(), RULES).levels["Mapper Time"] == 3
    found = predict(job, Scenario(split_bytes=800 * MB), RULES)
    assert found.levels["Mapper Time"] == 0
    assert len(found.job.maps.total) == pytest.approx(48, abs=1)
    assert found.job.maps.size.sum() == pytest.approx(job.maps.size.sum(), rel=1e-6)
    # A start costs 2 s by assumption here (sizes are all alike), so fewer maps are less work in total.
    saved = metrics(job).used_mb_s - found.metrics.used_mb_s
    assert saved == pytest.approx(2048 * 2 * 552, rel=0.05)
    assert any("maps instead of" in text for text in found.assumptions)


def test_containers_change_memory_verdict_used_and_wasted():
    tasks = [task("map", 10, 400, pmem_mb=1000, vmem_mb=1000) for _ in range(10)]
    job = job_of(tasks, conf={"mapreduce.map.memory.mb": "8192"}, map_memory_mb=8192)
    assert predict(job, Scenario(), RULES).levels["Mapper Memory"] == 4
    found = predict(job, Scenario(map_mb=1536), RULES)
    assert found.levels["Mapper Memory"] == 0
    assert found.metrics.used_mb_s == 1536 * 4000 and found.metrics.wasted_mb_s == 36 * 4000
    assert "would be killed" in predict(job, Scenario(map_mb=900), RULES).warnings[0]


def test_smaller_containers_shorten_a_job_that_waited_for_slots():
    job = job_of(short_maps(100, slots=10))
    found = predict(job, Scenario(map_mb=1024), RULES)
    assert found.metrics.runtime_ms is not None
    assert found.metrics.runtime_ms < metrics(job).runtime_ms * 0.6


def test_slow_start_removes_waiting_reducers():
    maps = short_maps(100, slots=10)  # ten waves, the last ends about 520 s
    job = job_of([*maps, *[task("reduce", 70, 520, shuffle=460, sort=5, size=30 * MB) for _ in range(10)]])
    assert predict(job, Scenario(), RULES).levels["Shuffle & Sort"] == 2
    found = predict(job, Scenario(slowstart=1.0), RULES)
    assert found.levels["Shuffle & Sort"] < 2
    assert found.metrics.used_mb_s < metrics(job).used_mb_s - 10 * 2048 * 400
    assert found.metrics.runtime_ms <= metrics(job).runtime_ms + 5000


def test_reducers_share_the_work():
    maps = [task("map", 10, 100)]
    job = job_of([*maps, *[task("reduce", 120, 2400, shuffle=60, size=1000 * MB) for _ in range(4)]])
    assert predict(job, Scenario(), RULES).levels["Reducer Time"] == 2
    found = predict(job, Scenario(reduces=20), RULES)
    assert found.levels["Reducer Time"] == 0
    assert found.job.reduces.total.mean() == pytest.approx(480, rel=0.02) or found.job.reduces.total.mean() < 500_000
    assert found.job.reduces.size.sum() == pytest.approx(4000 * MB, rel=1e-6)
    assert found.metrics.runtime_ms < metrics(job).runtime_ms


def test_other_limits_re_judge():
    job = job_of(short_maps())
    strict, complaints = RULES.changed(["Mapper Time/num_tasks_severity=1:2:3:4"])
    assert not complaints
    assert predict(job, Scenario(), strict).levels["Mapper Time"] == 4


def test_split_without_counted_bytes_says_so():
    job = job_of([task("map", 10, 50, size=0)])
    found = predict(job, Scenario(split_bytes=10 * MB), RULES)
    assert "not counted" in found.warnings[0] and len(found.job.maps.total) == 1


@given(st.lists(st.integers(1, 1000), min_size=1, max_size=60), st.integers(1, 20))
def test_makespan_bounds(times, slots):
    found = makespan(np.array(times), slots)
    assert max(max(times), sum(times) / slots) <= found <= sum(times) / slots + max(times)


def test_peak_slots():
    assert peak_slots(np.array([0, 5, 10]), np.array([10, 20, 30])) == 2
    assert peak_slots(np.array([], dtype=np.int64), np.array([], dtype=np.int64)) == 0


one = st.builds(
    task, st.sampled_from(["map", "reduce"]), st.integers(1, 500), st.integers(0, 500), shuffle=st.integers(0, 100),
    size=st.integers(0, 10**10), pmem_mb=st.integers(0, 5000),
    state=st.sampled_from(["SUCCEEDED", "SUCCEEDED", "RUNNING"]),
)  # fmt: skip


@tries(12)
@given(
    st.lists(one, max_size=10),
    st.builds(
        Scenario,
        st.none() | st.integers(1, 9000),
        st.none() | st.integers(1, 9000),
        st.none() | st.integers(1, 10**10),
        st.none() | st.integers(1, 50),
        st.none() | st.floats(0, 1),
    ),
)
def test_any_job_and_scenario_gives_a_sane_prediction(tasks, scenario):
    found = predict(job_of(tasks), scenario, RULES)
    for side in found.job.sides:
        assert (side.total >= 0).all() and (side.size >= 0).all()
        assert len(side.total) == len(side.finish) == len(side.size) == len(side.hosts)
    assert found.metrics.used_mb_s >= found.metrics.wasted_mb_s >= 0
    assert found.metrics.runtime_ms is None or found.metrics.runtime_ms >= 0
    assert all(0 <= level <= 4 for level in found.levels.values())


@pytest.mark.parametrize("container", [1024, 8192])
def test_containers_at_once_are_those_that_the_prediction_uses(container):
    """Smaller containers let more of a waiting job run at once: the assumption names that number, not the old peak."""
    job = job_of(short_maps(200))
    found = predict(job, Scenario(map_mb=container), RULES)
    peak = peak_slots(job.maps.start, job.maps.finish)
    at_once = peak * 2048 // container
    text = next(text for text in found.assumptions if text.startswith("containers at once"))
    assert text.endswith(f"{at_once} maps (at the peak it had {peak})")
    saved = job.row["finish_ms"] - found.job.row["finish_ms"]
    assert saved == makespan(job.maps.total, peak) - makespan(job.maps.total, at_once)
