"""The view with everything beyond: pure, incremental, and one job in full."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from engine.core.incremental import Memo
from engine.core.view import Context
from engine.job_heuristics.mapreduce.insight import cost
from engine.job_heuristics.mapreduce.result import in_task
from engine.job_heuristics.parameters import JobParameters
from engine.job_heuristics.tables import LETTERS
from engine.job_heuristics.view import VIEW
from engine.live.session import LiveSettings, Session
from tests.engine.job_heuristics import helper
from tests.engine.job_heuristics.jobs import model, task
from tests.reference import reference

FILES = Path(__file__).parents[5] / "sample_data" / "job_heuristics" / "files"


@pytest.fixture(scope="module")
def inputs():
    return helper.inputs_below(reference("job-heuristics") / "history")


@pytest.fixture(scope="module")
def few():
    """Files of every fourth job and of those that tests look at, by path."""
    paths = helper.files_below([reference("job-heuristics") / "history"])
    found = {}
    for path in paths:
        number = int(re.search(r"job_\d+_(\d+)", path.name)[1])
        if number % 4 == 0 or number in (105, 108):
            found[str(path).removesuffix(".gz")] = helper.read_bytes(path)
    return found


@pytest.fixture(scope="module")
def memo():
    """What one computation leaves to the next; that it changes no result is a test of its own."""
    return Memo()


def compute(inputs, memo=None, **parameters):
    return VIEW.compute(inputs, JobParameters(**parameters), Context(now_ms=0, memo=Memo() if memo is None else memo))


def test_every_table_is_declared_and_scenarios_only_add(inputs, memo):
    plain = compute(inputs, memo)
    declared = {t.name: t for t in VIEW.tables}
    one = compute(inputs, memo, job="0108", map_mb=2304, split_size=400 * 2**20, slow_start=1.0)
    assert set(plain.tables) | {"explained", "errors", "phases", "history", "conf_changes", "what_if", "tasks"} == set(
        one.tables
    )
    for name, frame in one.tables.items():
        assert frame.schema == declared[name].schema
    for name, frame in plain.tables.items():
        assert frame.equals(one.tables[name]), name
    changes = {r["what"]: r for r in one.tables["what_if"].iter_rows(named=True)}
    assert changes["Mapper Time"]["direction"] == "better"
    assert changes["used"]["change"] < -20


def test_a_result_with_a_memo_equals_one_without(few):
    inputs, memo, fresh_of = helper.inputs_of(few), Memo(), {}
    for parameters in (
        {}, {"job": "0105"}, {"job": "0108"}, {"job": "0108", "map_mb": 2304}, {"mode": "published", "job": "0108"},
        {"headroom": 1.2}, {"price_gb_h": 0.5}, {"job": "0108", "limits": ("Mapper Time/num_tasks_severity=1:2:3:4",)}, {},
    ):  # fmt: skip
        kept = compute(inputs, memo, **parameters)
        fresh = fresh_of[repr(parameters)] = fresh_of.get(repr(parameters)) or compute(inputs, **parameters)
        for name, frame in fresh.tables.items():
            assert frame.equals(kept.tables[name]), (parameters, name)
        assert kept.notes == fresh.notes
        assert kept.detail.listing.equals(fresh.detail.listing)


def test_a_growing_history_is_merged(few):
    store, memo = helper.Store(), Memo()
    late = sorted(few)[10]
    for name, data in few.items():
        if name != late:
            store.put(name, data)
    compute(store.inputs(), memo, job="0108")
    store.put(late, few[late])
    kept, fresh = compute(store.inputs(), memo, job="0108"), compute(store.inputs(), job="0108")
    for name, frame in fresh.tables.items():
        assert frame.equals(kept.tables[name]), name
    store.drop(late)
    kept, fresh = compute(store.inputs(), memo), compute(store.inputs())
    for name, frame in fresh.tables.items():
        assert frame.equals(kept.tables[name]), name


def test_equal_details_are_equal_and_others_not(inputs):
    memo = Memo()
    a, b = compute(inputs, memo, job="0108"), compute(inputs, memo, job="0108")
    assert a.same_as(b)
    assert not a.same_as(compute(inputs, memo, job="0108", map_mb=1024))


def test_explained_agrees_with_the_verdicts(inputs, memo):
    found = compute(inputs, memo)
    for job in found.tables["jobs"]["job_id"].to_list()[::7]:
        one = compute(inputs, memo, job=job)
        verdicts = found.tables["heuristics"].filter(pl.col("job_id") == job)
        explained = one.tables["explained"]
        assert explained["heuristic"].to_list() == verdicts["heuristic"].to_list()
        assert explained["severity"].to_list() == verdicts["severity"].to_list()
        assert not explained.filter(pl.col("reason").str.contains("By Dr. Elephant's code")).height
        strip = found.detail.listing.filter(pl.col("job_id") == job)["strip"][0]
        assert len(strip) == len(found.detail.heuristics) == 13
        for name, severity in verdicts.select("heuristic", "severity").iter_rows():
            assert strip[found.detail.heuristics.index(name)] == LETTERS[severity]


def test_strip_counts_and_costs_cover_all_jobs(inputs, memo):
    found = compute(inputs, memo)
    assert found.detail.listing.height == found.tables["jobs"].height
    assert found.tables["costs"]["job_id"].n_unique() == found.tables["jobs"].height
    assert set(found.tables["costs"]["cause"].to_list()) <= set(cost.NAMES)


def test_running_job_has_an_outlook_and_an_arrival(inputs, memo):
    found = compute(inputs, memo, job="0105")
    statuses = set(found.tables["explained"]["status"].to_list())
    assert "certain" in statuses and "provisional" in statuses
    assert found.detail.opened.arrival.middle > found.detail.opened.facts.job.row["last_event_ms"]


def test_invalid_limit_wishes_are_reported_and_ignored(inputs, memo):
    known = "Mapper Time/num_tasks_severity"
    wishes = ("nonsense", "Mapper Time/none=1:2:3:4", *(f"{known}={v}" for v in ("1:2:3", "a:b:c:d", "1:2:3:inf")))
    found = compute(inputs, memo, job="0108", limits=wishes)
    assert sum("are not used" in note for note in found.notes) == 5
    assert "what_if" not in found.tables
    assert json.dumps(found.notes)


def test_limits_by_factor(inputs, memo):
    by_factor = compute(inputs, memo, job="0108", limits=("Mapper Time/num_tasks_severity=x0.1",)).tables["what_if"]
    by_value = compute(inputs, memo, job="0108", limits=("Mapper Time/num_tasks_severity=5:10.1:50:100",)).tables[
        "what_if"
    ]
    assert by_factor.equals(by_value)
    assert by_factor.filter(pl.col("what") == "Mapper Time")["direction"].to_list() == ["worse"]


def test_conf_changes_against_a_chosen_job(inputs, memo):
    found = compute(inputs, memo, job="0108", compare="job_1700000000000_0110").tables["conf_changes"]
    assert "mapreduce.map.memory.mb" in found["key"].to_list()
    assert set(found["other_job_id"].to_list()) == {"job_1700000000000_0110"}
    nothing = compute(inputs, memo, job="0108", compare="nobody")
    assert nothing.tables["conf_changes"].height == 0 and any(
        "no job 'nobody'" in problem.reason for problem in nothing.problems
    )


def progress_of(cpu, memory):
    return b";".join(json.dumps(list(map(int, a))).encode() for a in ([10_000] * 12, cpu, [0] * 12, memory))


def test_leaks_and_stalls_inside_tasks():
    m = model([task("map", 10, 120) for _ in range(4)])
    steady, growing = [500_000] * 12, np.linspace(100_000, 900_000, 12)
    busy, stalling = [9000] * 12, [9000] * 6 + [100] * 6
    blobs = [progress_of(busy, steady), progress_of(busy, growing), progress_of(stalling, steady), b"broken"]
    frame = m.attempts.with_columns(progress=pl.Series(blobs, dtype=pl.Binary))
    found = in_task(frame, "map")
    assert found is not None
    assert (found.seen, found.growing, found.stalled) == (3, 1, 1)
    assert found.cpu_share[0] == pytest.approx(0.9) and found.cpu_share[-1] == pytest.approx((0.9 + 0.9 + 0.01) / 3)
    assert "1 grow" in found.words and "1 stand still" in found.words
    assert in_task(frame, "reduce") is None
    assert in_task(frame.with_columns(progress=pl.lit(None, pl.Binary)), "map") is None


def test_all_files_of_a_job_may_go(tmp_path):
    """The job is gone from a result with a memo as it is from one without."""
    root = tmp_path / "data"
    shutil.copytree(FILES, root)
    session = Session([root], [VIEW], settings=LiveSettings(cache=False), strict=True)
    session.scan(final=True)
    memo = Memo()
    job = compute(session.inputs(VIEW.name), memo).tables["jobs"]["job_id"][0]
    for path in root.rglob("*"):
        if path.is_file() and job in path.read_text(errors="replace") + path.name:
            path.unlink()
    session.scan(final=True)
    kept, fresh = compute(session.inputs(VIEW.name), memo), compute(session.inputs(VIEW.name))
    assert job not in kept.tables["jobs"]["job_id"]
    assert all(kept.tables[name].equals(frame) for name, frame in fresh.tables.items())
    assert kept.summary == fresh.summary
