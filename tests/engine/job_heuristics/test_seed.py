"""The seed document's rules beside upstream's code, and the arithmetic both rest on."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.incremental import Memo
from engine.job_heuristics.dr_elephant.display import clock, factor, java_double, percent, size, span
from engine.job_heuristics.dr_elephant.heuristics import Judge, rows
from engine.job_heuristics.dr_elephant.rules import DEFAULT, evaluate, limits
from engine.job_heuristics.dr_elephant.side_stats import Segments
from engine.job_heuristics.dr_elephant.verdict_tables import sides_of
from engine.job_heuristics.model.incremental_assembly import current_model
from engine.job_heuristics.parameters import JobParameters
from engine.job_heuristics.view import VIEW
from engine.result import Result
from engine.view import Context
from sample_data.job_heuristics import writer
from sample_data.job_heuristics.writer import Attempt, Job, Task
from tests.engine.job_heuristics.helper import inputs_of

BASE = 1_760_000_000_000
MB = 2**20


def task(kind: str, start: int, run: int, memory_mb: int, *, shuffle: int = 0, spilled: int = 100) -> Task:
    counters = {
        "CPU_MILLISECONDS": 1000, "GC_TIME_MILLIS": 1, "PHYSICAL_MEMORY_BYTES": memory_mb * MB,
        "VIRTUAL_MEMORY_BYTES": 0, "SPILLED_RECORDS": spilled, "MAP_OUTPUT_RECORDS": 100,
    }  # fmt: skip
    attempt = Attempt(BASE + start, BASE + start + run, shuffle_ms=shuffle)
    return Task(kind, BASE + 5_000, (attempt,), counters, {"HDFS_BYTES_READ": 64 * MB})


def job() -> Job:
    maps = (task("MAP", 10_000, 10_500, 1024), task("MAP", 10_000, 20_700, 512))
    reduces = (task("REDUCE", 40_000, 30_900, 256, shuffle=10_000),)
    conf = {
        "mapreduce.map.memory.mb": "2048", "mapreduce.reduce.memory.mb": "1024",
        "mapreduce.job.reduce.slowstart.completedmaps": "0.5",
    }  # fmt: skip
    return Job(1, 1, "hand", "ann", "etl", BASE, BASE + 4_000, BASE + 71_000, maps, reduces, conf)


def compute(mode: str) -> Result:
    made = job()
    files = {f"/d/{made.file_name}": writer.text(made), f"/d/{made.id}_conf.xml": writer.conf_xml(made)}
    return VIEW.compute(inputs_of(files), JobParameters(mode=mode), Context(0))


def test_what_both_modes_find_alike_is_found_once() -> None:
    draw = np.random.default_rng(7)
    count = 300
    model = current_model(inputs_of({f"/d/{job().file_name}": writer.text(job())}), Context(0))
    names = sides_of(model.jobs, model.arrays[0], {}).keys()
    sides = {name: draw.integers(0, 10 ** draw.integers(1, 12, 2 * count)) for name in names}
    jobs = pl.concat([model.jobs.with_columns(job_id=pl.lit(f"job_1_{k}")) for k in range(count)])
    block = np.full(count, 2.0**27)
    rules = DEFAULT.with_queue_limit()
    upstream, seed = (Judge(jobs, sides, {}, rules, block, seed=mode) for mode in (False, True))
    alone, shared = seed.all(), seed.all(upstream.all())
    assert rows(seed, alone).equals(rows(seed, shared))
    for one, two in zip(alone, shared, strict=True):
        assert one.rule is two.rule
        assert one.parts.keys() == two.parts.keys()
        assert all(np.array_equal(one.parts[name], two.parts[name]) for name in one.parts)
    assert any((verdict.severity > 0).any() for verdict in shared)


def test_metrics_by_hand() -> None:
    upstream = compute("upstream").tables["jobs"].to_dicts()[0]
    # Whole seconds: maps 10 and 20 at 2048 MB, the reduce 30 at 1024 MB.
    assert upstream["used_mb_s"] == 2048 * 30 + 1024 * 30
    # One peak per side: maps 1024 x 1.5 = 1536 leave 512; the reduce 256 x 1.5 = 384 leaves 640.
    assert upstream["wasted_mb_s"] == 512 * 30 + 640 * 30
    # Maps: 30.7 s - 20.7 s after submission; reduces: end 70.9, last map 30.7, longest 30.9.
    assert upstream["wait_ms"] == 10_000 + 9_300
    seed = compute("seed").tables["jobs"].to_dicts()[0]
    assert seed["used_mb_s"] == 2048 * 31_200 // 1000 + 1024 * 30_900 // 1000
    # Each task's own peak: 1024 for 10 s, 1536 for 20 s, 768 for 30 s.
    assert seed["wasted_mb_s"] == 1024 * 10 + 1536 * 20 + 768 * 30
    # Maps count from the launch (4 s); reduces from the map at half of the maps (20.5 s).
    assert seed["wait_ms"] == 6_000 + (70_900 - 20_500 - 30_900)


def test_every_difference_is_named() -> None:
    for mode in ("upstream", "seed"):
        result = compute(mode)
        rows = {r["what"]: r for r in result.tables["differences"].to_dicts()}
        assert {"used_mb_s", "wasted_mb_s", "wait_ms"} <= rows.keys()
        assert all(r["reason"] for r in rows.values())
        jobs = result.tables["jobs"].to_dicts()[0]
        assert rows["wait_ms"][mode] == str(jobs["wait_ms"])


def test_seed_has_no_exception_heuristic() -> None:
    kinds = set(compute("seed").tables["heuristics"]["heuristic"])
    assert len(kinds) == 11
    assert not kinds & {"Exception", "Distributed Cache Limit"}


def average(values: list[int]) -> int:
    return int(sum(map(float, values)) / len(values)) if values else 0


@settings(max_examples=200, deadline=None)
@given(st.lists(st.lists(st.integers(0, 10**12), max_size=20), min_size=1, max_size=6))
def test_two_groups_against_the_plain_rule(jobs: list[list[int]]) -> None:
    """Three splits: by the mean, then twice by the difference of the averages."""
    segment = np.repeat(np.arange(len(jobs)), [len(j) for j in jobs])
    values = np.array([v for j in jobs for v in j], dtype=np.int64)
    na, a, nb, b = Segments(segment, len(jobs)).two_groups(values)
    for i, numbers in enumerate(jobs):
        middle = average(numbers)
        for step in range(3):
            small, large = [v for v in numbers if v < middle], [v for v in numbers if v >= middle]
            if step < 2:
                middle = average(large) - average(small)
        assert (na[i], a[i], nb[i], b[i]) == (len(small), average(small), len(large), average(large))


@settings(max_examples=100, deadline=None)
@given(st.lists(st.lists(st.integers(-(10**9), 10**9), max_size=9), min_size=1, max_size=5))
def test_median_against_the_plain_rule(jobs: list[list[int]]) -> None:
    segment = np.repeat(np.arange(len(jobs)), [len(j) for j in jobs])
    values = np.array([v for j in jobs for v in j], dtype=np.int64)
    found = Segments(segment, len(jobs)).median(values)
    for i, numbers in enumerate(jobs):
        ranked = sorted(numbers)
        n = len(ranked)
        if n == 0:
            wanted = 0
        elif n % 2:
            wanted = ranked[n // 2]
        else:
            wanted = int((ranked[n // 2 - 1] + ranked[n // 2]) / 2)
        assert found[i] == wanted


@pytest.mark.parametrize(
    ("least", "most"),
    [(0, 10**5), (0, 2**31 - 1), (0, 2**31), (-5, 2**31 - 5), (10**12, 10**12 + 9), (-(2**62), 2**62), (3, 3)],
)
def test_few_large_jobs_as_among_many(least: int, most: int) -> None:
    """Few segments are sorted in fewer bits and summed as whole numbers."""
    draw = np.random.default_rng(3)
    values = draw.integers(least, most, 1_501, endpoint=True)
    values[[0, 700, 1_400]], values[[1, 701, 1_401]] = least, most
    segment = np.repeat([0, 1, 2], [700, 700, 101])
    few, many = Segments(segment, 3), Segments(segment, 40)
    for name in ("sum", "whole", "average", "mean", "median"):
        one, other = getattr(few, name)(values), getattr(many, name)(values)
        assert one.dtype == other.dtype and one.tolist() == other[:3].tolist(), name
    for share in (0.05, 0.5, 0.99, 1.0):
        assert few.quantile(values, share).tolist() == many.quantile(values, share)[:3].tolist()
        assert few.quantile(values, share)[0] == np.sort(values[:700])[int(np.ceil(share * 699))]
    for name in ("two_groups", "two_means"):
        for one, other in zip(getattr(few, name)(values), getattr(many, name)(values), strict=True):
            assert one.tolist() == other[:3].tolist(), name


def test_display() -> None:
    assert [size(v) for v in (0, 1023, 1024, 2 * 2**30 - 1)] == ["0 bytes", "1023 bytes", "1 KB", "1 GB"]
    assert [span(v) for v in (0, 999, 60_000, 3_661_000)] == ["0 sec", "", "1 min", "1 hr 1 min 1 sec"]
    assert [clock(v) for v in (999, 3_600_000 * 25)] == ["999 msec", "25:00:00 HH:MM:SS"]
    assert [factor(a, b) for a, b in ((0, 0), (1, 0), (1, 8), (0, 5))] == ["", "(Infinityx)", "(0.13x)", "(0.00x)"]
    assert [java_double(v) for v in (1.0, 0.005, 1e7, 2.55584716796875e-4, float("inf"))] == [
        "1.0", "0.005", "1.0E7", "2.55584716796875E-4", "Infinity",
    ]  # fmt: skip
    assert (percent(9_206, 534_604), percent(1, 0)) == ("1.72 %", "NaN")


def test_thresholds() -> None:
    assert limits("1/8, 2*3 ,-(1+2), 7%4,") == (0.125, 6.0, -3.0, 3.0)
    for bad in ("1/0", "a", "__import__('os')", "9**9**9", "(" * 300, "", "1;2", "[1]", "1e999"):
        try:
            evaluate(bad)
        except ValueError:
            continue
        raise AssertionError(bad)


def test_nothing_is_computed_twice() -> None:
    made = job()
    inputs = inputs_of({f"/d/{made.file_name}": writer.text(made)})
    memo = Memo()
    first = VIEW.compute(inputs, JobParameters(), Context(0, memo=memo))
    again = VIEW.compute(inputs, JobParameters(), Context(0, memo=memo))
    assert first.tables["heuristics"] is again.tables["heuristics"]
    other = VIEW.compute(inputs, JobParameters(block_size=1), Context(0, memo=memo))
    fresh = VIEW.compute(inputs, JobParameters(block_size=1), Context(0))
    assert other.tables["heuristics"].equals(fresh.tables["heuristics"])
    assert isinstance(first.tables["jobs"], pl.DataFrame)
