"""The cost of all attempts adds up exactly, whatever the job."""

from __future__ import annotations

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.job_heuristics.mapreduce.insight import cost
from tests.chance import tries
from tests.engine.job_heuristics.jobs import model, task, together


def by_cause(frame):
    return {r["cause"]: r["mb_ms"] for r in frame.iter_rows(named=True)}


def test_each_cause_by_hand():
    job = model(
        [
            task("map", 10, 100, pmem_mb=1000, extra=[("FAILED", 5, 20, "VIRGIN")]),
            task("map", 10, 50, pmem_mb=800, extra=[("KILLED", 30, 25, "SPECULATIVE")]),
            task("map", 10, 60, pmem_mb=800, extra=[("KILLED", 5, 7, "VIRGIN")]),
            task("reduce", 60, 100, pmem_mb=3000, shuffle=60),
        ],
        reduce_memory_mb=4096,
    )
    found = by_cause(cost.costs(job))
    # Maps need 1000 x 1.5 = 1500 of 2048 MB; the reducer's 3000 x 1.5 is more than it has.
    assert found["useful"] == 1500 * 210_000 + 4096 * 50_000
    assert found["over-sizing"] == 548 * 210_000
    assert found["idle reducers"] == 4096 * 50_000  # the last map ended at 110 s
    assert found["failures"] == 2048 * 20_000
    assert found["speculation"] == 2048 * 25_000
    assert found["killed"] == 2048 * 7000
    assert found["application master"] == 1536 * (161_000 - 2000)
    assert "running" not in found


def test_a_speculative_attempt_that_won_leaves_the_first_as_loser():
    job = model([task("map", 50, 10, extra=[("KILLED", 10, 50, "VIRGIN")])])
    job = type(job).of(
        job.jobs,
        job.tasks,
        job.attempts.with_columns(
            avataar=pl.when(pl.col("state") == "SUCCEEDED").then(pl.lit("SPECULATIVE")).otherwise(pl.lit("VIRGIN"))
        ),
        job.conf,
    )
    assert by_cause(cost.costs(job))["speculation"] == 2048 * 50_000


def test_running_uber_unmeasured_and_priced_jobs():
    running = model([task("map", 10, 0, state="RUNNING")], state="RUNNING", finish_ms=None)
    found = by_cause(cost.costs(running))
    assert set(found) <= {"running", "application master"}
    uber = by_cause(cost.costs(model([task("map", 10, 100)], uberized=True)))
    assert set(uber) == {"application master"}
    bare = by_cause(cost.costs(model([task("map", 10, 100, pmem_mb=0)])))
    assert "over-sizing" not in bare and bare["useful"] == 2048 * 100_000
    priced = cost.costs(model([task("map", 10, 3600, pmem_mb=2000)]), price_gb_h=2.0, price_vcore_h=1.0)
    assert priced.filter(pl.col("cause") == "useful")["price"].to_list() == pytest.approx([2 * 2 + 1])


one = st.builds(
    task,
    st.sampled_from(["map", "reduce"]),
    st.integers(1, 500),
    st.integers(0, 500),
    shuffle=st.integers(0, 200),
    pmem_mb=st.integers(0, 5000),
    extra=st.lists(
        st.tuples(
            st.sampled_from(["FAILED", "KILLED", "SUCCEEDED", "RUNNING"]),
            st.integers(1, 500),
            st.integers(0, 300),
            st.sampled_from(["VIRGIN", "SPECULATIVE", None]),
        ),
        max_size=3,
    ),
    state=st.sampled_from(["SUCCEEDED", "SUCCEEDED", "FAILED", "RUNNING"]),
)


@tries(33)
@given(st.lists(one, max_size=12), st.integers(1, 9000), st.floats(1, 3))
def test_causes_add_up_to_every_attempt(tasks, reduce_mb, headroom):
    job = model(tasks, reduce_memory_mb=reduce_mb)
    until = job.jobs["finish_ms"][0]
    spent = 1536 * max(0, until - job.jobs["am_start_ms"][0])
    for row in job.attempts.iter_rows(named=True):
        mb = 2048 if row["side"] == "map" else reduce_mb
        spent += mb * max(0, (row["finish_ms"] or until) - row["start_ms"])
    found = cost.costs(job, headroom)
    assert found["mb_ms"].sum() == spent
    assert (found["mb_ms"] >= 0).all()
    assert found["share"].sum() == pytest.approx(100) or not spent


def test_jobs_do_not_mix():
    a, b = model([task("map", 1, 10)]), model([task("map", 1, 20), task("reduce", 30, 5)], job_id="job_1_0002")
    both = cost.costs(together(a, b))
    assert both.equals(pl.concat([cost.costs(a), cost.costs(b)]))
    assert cost.costs(type(a)({})).height == 0
    spent = [whole for whole, _ in cost.waste(both).values()]
    assert spent == pytest.approx([cost.costs(m)["mb_s"].sum() for m in (a, b)])
