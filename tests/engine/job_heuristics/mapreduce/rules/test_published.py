"""The published description's rules beside Dr. Elephant's code."""

from __future__ import annotations

import polars as pl

from engine.core.incremental import Memo
from engine.core.view import Context, Result
from engine.job_heuristics.parameters import JobParameters
from engine.job_heuristics.view import VIEW
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


def test_metrics_by_hand() -> None:
    upstream = compute("upstream").tables["jobs"].to_dicts()[0]
    # Whole seconds: maps 10 and 20 at 2048 MB, the reduce 30 at 1024 MB.
    assert upstream["used_mb_s"] == 2048 * 30 + 1024 * 30
    # One peak per side: maps 1024 x 1.5 = 1536 leave 512; the reduce 256 x 1.5 = 384 leaves 640.
    assert upstream["wasted_mb_s"] == 512 * 30 + 640 * 30
    # Maps: 30.7 s - 20.7 s after submission; reduces: end 70.9, last map 30.7, longest 30.9.
    assert upstream["wait_ms"] == 10_000 + 9_300
    published = compute("published").tables["jobs"].to_dicts()[0]
    assert published["used_mb_s"] == 2048 * 31_200 // 1000 + 1024 * 30_900 // 1000
    # Each task's own peak: 1024 for 10 s, 1536 for 20 s, 768 for 30 s.
    assert published["wasted_mb_s"] == 1024 * 10 + 1536 * 20 + 768 * 30
    # Maps count from the launch (4 s); reduces from the map at half of the maps (20.5 s).
    assert published["wait_ms"] == 6_000 + (70_900 - 20_500 - 30_900)


def test_every_difference_is_named() -> None:
    for mode in ("upstream", "published"):
        result = compute(mode)
        rows = {r["what"]: r for r in result.table("differences").to_dicts()}
        assert {"used_mb_s", "wasted_mb_s", "wait_ms"} <= rows.keys()
        assert all(r["reason"] for r in rows.values())
        jobs = result.tables["jobs"].to_dicts()[0]
        assert rows["wait_ms"][mode] == str(jobs["wait_ms"])


def test_the_published_description_has_no_exception_heuristic() -> None:
    kinds = set(compute("published").tables["heuristics"]["heuristic"])
    assert len(kinds) == 11
    assert not kinds & {"Exception", "Distributed Cache Limit"}


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
