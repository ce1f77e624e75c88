"""Runs of the same job: names, trend, changes, configuration differences."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.job_heuristics.dr_elephant import history
from engine.job_heuristics.tables import JOBS


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("daily-load 2023-11-14", "daily-load 2024-01-02"),
        ("etl_20231114_run7", "etl_20231115_run12"),
        ("oozie:launcher:W=0000012-150101-oozie-W:A=x", "oozie:launcher:W=0000013-150102-oozie-W:A=x"),
        ("SELECT * FROM t WHERE d='2020-01-01 10:00:00'", "SELECT * FROM t WHERE d='2020-01-02 11:30:00'"),
        ("x job_1700000000000_0001", "x job_1700000000000_0772"),
    ],
)
def test_names_that_differ_in_numbers_are_one_job(a, b):
    assert history.stem(a) == history.stem(b)
    assert "#" in history.stem(a)


def test_names_that_differ_in_words_are_not():
    assert history.stem("load-users 1") != history.stem("load-items 1")
    assert history.stem("") == "" and history.stem("word count") == "word count"


@given(st.text(max_size=60))
def test_stems_are_stable(name):
    assert history.stem(history.stem(name)) == history.stem(name)


def test_change_point_is_found_where_the_level_moves():
    rng = np.random.default_rng(2)
    values = np.concatenate([rng.normal(100, 3, 12), rng.normal(150, 3, 9)])
    found = history.change_point(values)
    assert found is not None and found.at == 12
    assert found.before == pytest.approx(100, abs=3) and found.after == pytest.approx(150, abs=3)
    assert history.change_point(rng.normal(100, 5, 40)) is None
    assert history.change_point(np.array([1.0, 100])) is None


def test_flags_mark_one_bad_run_and_a_new_level():
    words, changes = history.flags(np.array([100.0, 101, 99, 100, 180, 100, 101]))
    assert words == ["", "", "", "", "regression", "", ""]
    assert changes[4] == pytest.approx(80) and np.isnan(changes[0])
    words, _ = history.flags(np.array([100.0, 101, 99, 100, 160, 161, 159, np.nan, 160]))
    assert words[4] == "change up"


def jobs_of(names, used, size, states=None):
    n = len(names)
    rows = {
        "job_id": [f"job_1_{k:04}" for k in range(n)],
        "name": names,
        "user": ["ann"] * n,
        "state": states or ["SUCCEEDED"] * n,
        "submit_ms": [1000 * k for k in range(n)],
        "used_mb_s": used,
        "runtime_ms": [60_000] * n,
        "severity": ["NONE"] * n,
    }
    return JOBS.frame(rows), pl.DataFrame({"job_id": rows["job_id"], "input_bytes": size})


def test_history_normalises_by_input_and_keeps_failed_runs_apart():
    jobs, inputs = jobs_of(
        ["load 1", "load 2", "other", "load 3", "load 4", "load 5"],
        [100, 200, 7, 100, 100, 300],
        [2**30, 2**31, 5, 2**30, 2**30, 2**30],
        ["SUCCEEDED", "SUCCEEDED", "SUCCEEDED", "FAILED", "SUCCEEDED", "SUCCEEDED"],
    )
    found = history.history(jobs, inputs, "job_1_0000")
    assert found["job_id"].to_list() == ["job_1_0005", "job_1_0004", "job_1_0003", "job_1_0001", "job_1_0000"]
    assert found["used_per_gb"].to_list() == [300.0, 100.0, None, 100.0, 100.0]
    assert found["flag"].to_list() == ["regression", "", "", "", ""]
    assert found["change"][0] == pytest.approx(200)
    assert history.history(jobs, inputs, "job_1_0002").height == 1
    assert history.history(jobs, inputs, "nobody").height == 0
    nameless, sizes = jobs_of(["", ""], [1, 1], [1, 1])
    assert history.history(nameless, sizes, "job_1_0000").height == 1


def test_conf_difference_leaves_out_what_always_differs():
    before = {"k": "1", "same": "x", "gone": "g", "mapreduce.job.dir": "/1", "path": "/s/job_1700000000000_0001/f"}
    after = {"k": "2", "same": "x", "new": "n", "mapreduce.job.dir": "/2", "path": "/s/job_1700000000000_0002/f"}
    assert history.conf_difference(before, after) == [("gone", "g", None), ("k", "1", "2"), ("new", None, "n")]
    assert history.conf_difference({}, {}) == []


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("application_1700000000000_0001", "application_1700000000000_0002"),
        ("app-20260105100000-0001", "app-20260106100000-0017"),
        ("spark-" + "0a" * 16, "spark-" + "1b" * 16),
        ("local-1700000000000", "local-1700000000001"),
    ],
)
def test_ids_of_spark_applications_inside_values_are_no_change(a, b):
    confs = [
        {"spark.app.id": one, "spark.ui.proxyBase": f"/proxy/{one}", "spark.driver.port": str(hash(one))}
        for one in (a, b)
    ]
    assert history.conf_difference(*confs) == []


def test_the_run_before_is_the_next_older_of_the_same_name():
    jobs, inputs = jobs_of(["load 1", "other", "load 2"], [1] * 3, [1] * 3)
    runs = history.history(jobs, inputs, "job_1_0002")
    assert history.run_before(runs, "job_1_0002") == "job_1_0000"
    assert history.run_before(runs, "job_1_0000") is None and history.run_before(runs, "nobody") is None


def test_long_histories_show_the_runs_around_the_chosen_one():
    jobs, inputs = jobs_of([f"load {k}" for k in range(500)], [100] * 500, [2**30] * 500)
    for chosen in ("job_1_0000", "job_1_0250", "job_1_0499"):
        found = history.history(jobs, inputs, chosen)
        assert found.height == history.MOST and chosen in found["job_id"].to_list()
