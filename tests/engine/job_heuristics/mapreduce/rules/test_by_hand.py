"""One job through every rule of Dr. Elephant, all numbers by hand: two maps of 100 s and 300.5 s, one reduce of 1000 s."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from engine.job_heuristics.dr_elephant.heuristic import BLOCK_SIZE, Rules, default_rules
from engine.job_heuristics.mapreduce.model import model as job_arrays
from engine.job_heuristics.mapreduce.rules import heuristics
from engine.job_heuristics.mapreduce.rules.heuristics import HEURISTICS, QUEUE_LIMIT
from engine.job_heuristics.mapreduce.rules.verdict_tables import (
    Judged,
    blocks_of,
    differences,
    judge,
    metrics_of,
    sides_of,
)
from tests.engine.job_heuristics.jobs import BASE, MB, model, task, together

NAME = "job_1_0001"
CONF = {
    "mapreduce.map.memory.mb": "4096", "mapreduce.reduce.memory.mb": "1024", "mapred.job.queue.name": "default",
    "mapreduce.job.reduce.slowstart.completedmaps": "0.05", "mapreduce.job.cache.files": "a,b,c",
    "mapreduce.job.cache.files.filesizes": "524288001,524288000,x",
}  # fmt: skip
MAPS = (
    task("map", 10, 100, size=64 * MB, pmem_mb=1000, vmem_mb=2100, cpu=50_000, gc=1_500, spilled=300, records=100),
    task("map", 20, 300.5, size=32 * MB, pmem_mb=2000, vmem_mb=8400, cpu=150_000, gc=500, spilled=100, records=50),
)
REDUCE = task("reduce", 330, 1000, shuffle=600, sort=50, size=2048 * MB, pmem_mb=500, vmem_mb=900, cpu=0, gc=7)


RULES = default_rules(HEURISTICS).also(QUEUE_LIMIT)


def judged(
    tasks: tuple[Any, ...] = (*MAPS, REDUCE), published: bool = False, rules: Rules = RULES, **row: Any
) -> Judged:
    """The result frames of the job."""
    made = model(list(tasks), conf=CONF, **({"map_memory_mb": 4096, "reduce_memory_mb": 1024, "conf_file": 1} | row))
    sides = sides_of(made.jobs, made.arrays[0], {NAME: CONF}, published=published)
    return judge(made.jobs, sides, {NAME: CONF}, rules, published=published)


def texts(found: Judged) -> dict[str, str]:
    """The values of each verdict's details."""
    rows = found.heuristics.iter_rows(named=True)
    return {row["heuristic"]: "; ".join(json.loads(row["details"]).values()) for row in rows}


def test_metrics_of_both_modes() -> None:
    code, described = judged().jobs.row(0, named=True), judged(published=True).jobs.row(0, named=True)
    assert code["used_mb_s"] == 4096 * 400 + 1024 * 1000 and described["used_mb_s"] == 4096 * 801 // 2 + 1024 * 1000
    # Peaks: 1000 and 8400 / 2.1 of the maps, 500 of the reduce; the code leaves half as much again of the largest.
    assert code["wasted_mb_s"] == (1024 - 750) * 1000
    assert described["wasted_mb_s"] == 3096 * 100 + 96 * 300 + 524 * 1000
    assert code["wait_ms"] == (320_500 - 300_500) + (1_330_000 - 320_500 - 1_000_000)
    assert described["wait_ms"] == (320_500 - 4_000 - 300_500) + (1_330_000 - 110_000 - 1_000_000)
    assert code["runtime_ms"] == described["runtime_ms"] == 1_331_000
    assert (code["severity"], code["score"], code["notes"]) == ("CRITICAL", 6 + 4 + 2, "")
    assert code["upstream_says"] == "java.lang.IllegalStateException: Queue Name not found."


def test_verdicts_and_details() -> None:
    found = {row["heuristic"]: row for row in judged().heuristics.iter_rows(named=True)}
    assert {name: (row["severity"], row["score"]) for name, row in found.items() if row["severity"] != "NONE"} == {
        "Mapper Memory": ("SEVERE", 6), "Reducer GC": ("CRITICAL", 4), "Reducer Time": ("LOW", 0),
        "Shuffle & Sort": ("MODERATE", 2), "Distributed Cache Limit": ("CRITICAL", 0), "Job Queue Limit": ("CRITICAL", 0),
    }  # fmt: skip
    assert texts(judged()) == {
        "Mapper Skew": "2; 1 tasks @ 32 MB avg; 1 tasks @ 64 MB avg; 2; 1 tasks @ 00:01:40 HH:MM:SS avg; "
        "1 tasks @ 00:05:00 HH:MM:SS avg",
        "Mapper GC": "2; 200250; 100000; 1000; 0.01",
        "Mapper Time": "2; 48 MB; 3 min 20 sec; 5 min; 1 min 40 sec",
        "Mapper Speed": "2; 48 MB; 3 min 20 sec; 382 KB/s; 96.0",
        "Mapper Spill": "2; 200; 75; 2.6666666666666665",
        "Mapper Memory": "2; 3 min 20 sec; 1500; 2000; 1000; 5250; 4 GB",
        "Reducer Skew": "1; 0 tasks @ 0 bytes avg; 1 tasks @ 2 GB avg; 1; 0 tasks @ 0 msec avg; "
        "1 tasks @ 00:16:40 HH:MM:SS avg",
        "Reducer GC": "1; 1000000; 0; 7; 0.0",
        "Reducer Time": "1; 16 min 40 sec; 16 min 40 sec; 16 min 40 sec",
        "Reducer Memory": "1; 16 min 40 sec; 500; 500; 500; 900; 1 GB",
        "Shuffle & Sort": "1; 5 min 50 sec; 10 min (1.71x); 50 sec (0.14x)",
        "Distributed Cache Limit": "524288001",
        "Job Queue Limit": "default; 2; 1; 0; 0; 0; 1",
    }


def test_strip_findings_and_differences() -> None:
    """The description has two heuristics less, and other metrics."""
    code, described = judged(), judged(published=True)
    assert code.strips["strip"].to_list() == [".....S.CL.M CC"] and described.strips["strip"].to_list() == [
        ".....S.CL.M  C"
    ]
    worst = [(each.level, each.subject) for each in code.findings[NAME]]
    assert worst[:2] == [("severe", "Mapper memory of demo"), ("critical", "Reducer GC of demo")] and len(worst) == 6
    assert code.findings[NAME][2].text == "1 task of 16 min 40 sec each; aim at tasks of 5 to 10 minutes"
    made = model([*MAPS, REDUCE], conf=CONF, map_memory_mb=4096, reduce_memory_mb=1024, conf_file=1)
    assert differences(made, RULES).select("what", "upstream", "published").rows() == [
        ("used_mb_s", "2662400", "2664448"), ("wasted_mb_s", "274000", "862400"), ("wait_ms", "29500", "236000"),
        ("Distributed Cache Limit", "CRITICAL", "-"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("row", "wanted"),
    [
        ({"state": "RUNNING"}, ("CRITICAL", 12, None, None)),
        ({"state": "KILLED"}, ("CRITICAL", 12, None, None)),
        ({"state": "FAILED"}, ("CRITICAL", 0, 29_500, 1_331_000)),
        ({"finish_ms": None}, ("CRITICAL", 12, None, None)),
        ({"submit_ms": None}, ("CRITICAL", 12, None, None)),
        ({"submit_ms": BASE + 20_000}, ("CRITICAL", 12, 0, 1_311_000)),
    ],
)
def test_jobs_that_ended_otherwise(row: dict[str, Any], wanted: tuple[Any, ...]) -> None:
    """A job that failed has the verdict that it did, and that of its queue; without an end or a beginning there is no wait."""
    found = judged(**row)
    shown = found.jobs.row(0, named=True)
    assert (shown["severity"], shown["score"], shown["runtime_ms"]) == (wanted[0], wanted[1], wanted[3])
    assert shown["wait_ms"] is None if wanted[2] is None else shown["wait_ms"] >= 0
    if row.get("state") == "FAILED":
        assert shown["wait_ms"] == wanted[2]
        assert set(found.heuristics["heuristic"]) == {"Exception", "Job Queue Limit"}
    assert all(
        (", so far: it still runs" in each.text) == (row.get("state") == "RUNNING") for each in found.findings[NAME]
    )


def test_jobs_without_tasks() -> None:
    """One that succeeded has a result that says so; of others with planned tasks nothing is known."""
    found = judged(())
    assert found.heuristics.rows() == [(NAME, "No Data Received", "LOW", 0, '{"No Data Received":""}')]
    assert (found.jobs["severity"][0], found.jobs["score"][0], found.jobs["used_mb_s"][0]) == ("LOW", 0, 0)
    assert found.strips["strip"].to_list() == [" " * 14]
    running = judged((), state="RUNNING", source="am", maps=0, reduces=3, tasks_seen=False).jobs
    assert running.select("severity", "score", "used_mb_s", "wasted_mb_s", "wait_ms").row(0) == (
        "NONE",
        0,
        None,
        None,
        None,
    )
    seen = judged((), state="RUNNING", source="am", maps=0, reduces=3, tasks_seen=True).jobs
    planned = judged((), state="RUNNING", source="am", maps=0, reduces=0, tasks_seen=False).jobs
    assert seen["used_mb_s"][0] == planned["used_mb_s"][0] == 0


def test_memory_beyond_64_bit() -> None:
    """The code wraps around, the description has no number."""
    huge = {"map_memory_mb": 2**62 // 100}
    code, described = (judged(published=mode, **huge).jobs.row(0, named=True) for mode in (False, True))
    product = 2**62 // 100 * 400 + 1024 * 1000
    assert code["used_mb_s"] == (product + 2**63) % 2**64 - 2**63
    assert described["used_mb_s"] is None
    both = judged(published=True, map_memory_mb=2**62 // 401, reduce_memory_mb=2**62 // 1000).jobs
    assert both["used_mb_s"][0] == 2**62 // 401 * 801 // 2 + 2**62 // 1000 * 1000
    assert np.iinfo(np.int64).max - both["used_mb_s"][0] < 2**54


def advice(name: str, level: int, *tasks: Any, conf: dict[str, str] | None = None) -> str:
    """What a heuristic advises a job of these tasks."""
    job = job_arrays.job(model(list(tasks), conf=conf or CONF, map_memory_mb=4096, reduce_memory_mb=1024))
    (heuristic,) = (each for each in HEURISTICS if each.name == name)
    assert job is not None
    return heuristic.advice(level, job)


@pytest.mark.parametrize(
    ("name", "level", "words"),
    [
        ("Mapper Skew", 0, "The 2 maps get"),
        ("Mapper Skew", 1, "1 of 2 maps get 64.0 MB on average, the others 32.0 MB; 1 run 5.0 min, the others 1.7 min. Let"),
        ("Reducer Skew", 1, "1 of 1 reducers get 2.0 GB on average, the others 0 bytes; 1 run 16.7 min, the others 0.0 min. Few"),
        ("Mapper GC", 0, "takes 1.0% of the CPU time."),
        ("Mapper GC", 1, "Each map spends 1.00 s in garbage collection, 1.0% of its CPU time."),
        ("Reducer GC", 1, "an unmeasured part of its CPU time."),
        ("Mapper Time", 0, "2 maps of 3.3 min on average"),
        ("Mapper Time", 1, "2 maps of only 3.3 min read 48.0 MB each"),
        ("Reducer Time", 0, "1 reducers of 16.7 min on average"),
        ("Reducer Time", 1, "Reducers run 16.7 min on average over 2.0 GB: raise mapreduce.job.reduces above 1"),
        ("Mapper Speed", 0, "Maps read 382.2 KB/s in the median."),
        ("Mapper Speed", 1, "382.2 KB/s in the median; only 50% of their time is CPU"),
        ("Mapper Spill", 0, "spilled 2.67 times."),
        ("Mapper Spill", 1, "2.67 times; once would do. Raise mapreduce.task.io.sort.mb above 100 (and "
         "mapreduce.map.sort.spill.percent above 0.8)"),
        ("Mapper Memory", 0, "use 1,500 of 4,096 MB on average, 2,000 MB at most."),
        ("Mapper Memory", 1, "use 1,500 MB on average and 2,000 MB at most of containers of 4,096 MB. Lower"),
        ("Shuffle & Sort", 0, "shuffle 10.0 min, sort 0.8 min and compute 5.8 min on average."),
        ("Shuffle & Sort", 1, "compute 5.8 min on average, though they began after the maps"),
        ("Exception", 2, "after 0 failed attempts."),
    ],
)  # fmt: skip
def test_advice_has_the_jobs_numbers(name: str, level: int, words: str) -> None:
    assert words in advice(name, level, *MAPS, REDUCE)


def test_advice_by_cause_of_delay() -> None:
    """On one side of each limit, and on the other."""
    assert "busy computing (61% of their time is CPU)" in advice("Mapper Speed", 1, task("map", 1, 100, cpu=61_000))
    assert "only 60% of their time is CPU" in advice("Mapper Speed", 1, task("map", 1, 100, cpu=60_000))
    assert advice("Mapper Speed", 0, task("map", 1, 0)) == "Maps read 0 bytes/s in the median."
    assert advice("Mapper Speed", 0, task("map", 1, 0.001, size=1000)) == "Maps read 976.6 KB/s in the median."
    for side, word in (("map", "Mapper"), ("reduce", "Reducer")):
        assert "of only 10.0 min" in advice(f"{word} Time", 1, task(side, 1, 600))
        assert "run 10.0 min on average" in advice(f"{word} Time", 1, task(side, 1, 600.001))
    assert "takes 50.0% of" in advice("Mapper GC", 0, task("map", 1, 100, cpu=1000, gc=500))
    assert "without any output" in advice("Mapper Spill", 1, task("map", 1, 1, records=0))
    assert advice("Mapper Spill", 0, task("map", 1, 1, records=0)) == "Maps write no records to sort."
    assert "was not measured" in advice("Mapper Memory", 1, task("map", 1, 1, pmem_mb=0))
    early = [task("reduce", start, 500, shuffle=400) for start in (20, 30, 340)]
    assert "most began before the last map had ended" in advice("Shuffle & Sort", 1, *MAPS, *early)
    assert "from 0.05 towards" in advice("Shuffle & Sort", 1, *MAPS, *early, conf={"x": "y"})
    assert "began after the maps" in advice("Shuffle & Sort", 1, *MAPS, *early[1:])
    failed = task("map", 1, 9, extra=[("FAILED", 1, 5, "VIRGIN")])
    assert "after 1 failed attempt." in advice("Exception", 2, failed)


def test_a_job_that_took_no_time_waited_all_the_time() -> None:
    assert judged((task("map", 10, 0),)).jobs["wait_ms"].to_list() == [10_000]


@pytest.mark.parametrize(
    ("seconds", "map_mb", "reduce_mb", "used"),
    [
        (1, 2**62, 2**62 - 1, 2**63 - 1),
        (1, 2**62, 2**62, None),
        (1, 2**63 - 1, 0, 2**63 - 1),
        (2, 2**63 - 1, -(2**63) + 1, None),
    ],
)
def test_memory_of_the_description_is_exact_or_unknown(
    seconds: int, map_mb: int, reduce_mb: int, used: int | None
) -> None:
    """One map and one reduce of a second: the containers' MB by time where each side's and their sum have 64 bits."""
    row = {"map_memory_mb": map_mb, "reduce_memory_mb": reduce_mb}
    made = model([task("map", 1, seconds), task("reduce", 3, 1)], **row)
    sides = sides_of(made.jobs, made.arrays[0], {}, published=True)
    assert metrics_of(made.jobs, sides, published=True)["used_mb_s"] == [used]


def test_a_side_without_tasks_and_one_with_a_single_one() -> None:
    """Nothing is measured of the one; the other's averages are its own values."""
    found = judged(MAPS[:1])
    shown = texts(found)
    assert shown["Reducer Time"] == "0; 0 sec; 0 sec; 0 sec" and shown["Reducer Memory"] == "0; 0 sec; 0; 0; 0; 0; 1 GB"
    assert (
        shown["Mapper Spill"] == "1; 300; 100; 3.0"
        and shown["Mapper Time"] == "1; 64 MB; 1 min 40 sec; 1 min 40 sec; 1 min 40 sec"
    )
    assert dict(found.heuristics.select("heuristic", "severity").rows())["Job Queue Limit"] == "NONE"
    assert found.jobs["wait_ms"].to_list() == [10_000]
    assert texts(judged((REDUCE,)))["Mapper Spill"] == "0; 0; 0; 0.0"


@pytest.mark.parametrize(
    ("seconds", "severity", "counts"),
    [
        (779.9, "NONE", "0; 0"),
        (780, "LOW", "0; 0"),
        (810, "MODERATE", "0; 0"),
        (840, "SEVERE", "1; 0"),
        (870, "CRITICAL", "0; 1"),
    ],
)
def test_long_tasks_of_the_default_queue(seconds: float, severity: str, counts: str) -> None:
    for side in ("map", "reduce"):
        found = judged((task(side, 1, seconds),))
        assert dict(found.heuristics.select("heuristic", "severity").rows())["Job Queue Limit"] == severity
        assert texts(found)["Job Queue Limit"].endswith(counts if side == "reduce" else f"{counts}; 0; 0")


def test_running_tasks_count_in_no_measure() -> None:
    found = judged((*MAPS, task("map", 5, 1, state="RUNNING")), state="RUNNING")
    assert texts(found)["Mapper GC"].startswith("2; 200250; 100000; 1000; ")


def test_a_job_that_no_rule_judges() -> None:
    """One that ended well is NONE, of one that runs nothing is known."""
    none = replace(RULES, rules=())
    assert (
        judged(rules=none).jobs["severity"][0] == "NONE"
        and judged(rules=none, state="FAILED").jobs["severity"][0] == "NONE"
    )
    assert judged(rules=none, state="RUNNING").jobs["severity"][0] is None
    assert judged(rules=none, state="KILLED").jobs["severity"][0] is None


@pytest.mark.parametrize(("planned", "known"), [({"maps": 1}, False), ({"reduces": 1}, False), ({"maps": None}, True)])
def test_tasks_without_data(planned: dict[str, Any], known: bool) -> None:
    """Other jobs have their numbers beside it."""
    given = {"conf": CONF, "source": "am", "tasks_seen": False, "maps": 0, "reduces": 0, "conf_file": 1} | planned
    other = model(list(MAPS), "job_1_0002", map_memory_mb=4096, tasks_seen=True)
    both = together(model([], **given), other)
    sides = sides_of(both.jobs, both.arrays[0], {}, published=False)
    shown = judge(both.jobs, sides, {}, RULES, published=False).jobs
    assert [value is not None for value in shown["used_mb_s"]] == [known, True]


def test_block_sizes() -> None:
    """The description takes the cluster's, unless another one was chosen; the code never does."""
    jobs = model([]).jobs
    for conf, wanted in (
        ({"dfs.blocksize": "1"}, 1),
        ({"dfs.block.size": "7"}, 7),
        ({"dfs.blocksize": "0"}, 64 * MB),
        ({}, 64 * MB),
    ):
        assert blocks_of(jobs, {NAME: conf}, BLOCK_SIZE, published=True).tolist() == [wanted]
        assert blocks_of(jobs, {NAME: conf}, BLOCK_SIZE, published=False).tolist() == [64 * MB]
        assert blocks_of(jobs, {NAME: conf}, 5, published=True).tolist() == [5]


@pytest.mark.parametrize(
    ("files", "sizes", "wanted"),
    [
        ("a,b", "1,9", (0, {})),
        ("a,b", "10,11", (4, {"b": "11"})),
        ("a,a", "11,1", (0, {})),
        ("a,,", "1,,,", (0, {})),
        ("", "", (0, {})),
        (",", ",", (0, {})),
        ("a", "x", (0, {})),
        ("a,b,", "1", (2, {"files": "2", "files.filesizes": "1"})),
        ("a", "", (0, {})),
        ("a", None, None),
        (None, "1", None),
    ],
)
def test_lists_of_the_distributed_cache(
    files: str | None, sizes: str | None, wanted: tuple[int, dict[str, str]] | None
) -> None:
    """Sizes above 10 are too large; lists of unequal lengths are a verdict of their own."""
    key = "mapreduce.job.cache.files"
    given = {name: value for name, value in ((key, files), (f"{key}.filesizes", sizes)) if value is not None}
    found = heuristics._cache_of(given, 10)
    named = {name.replace(key, "files"): value for name, value in found[1].items()} if found else {}
    assert (found and (found[0], named)) == wanted


def test_archives_of_the_distributed_cache_count_too() -> None:
    files, archives = "mapreduce.job.cache.files", "mapreduce.job.cache.archives"
    large, small = {files: "a", f"{files}.filesizes": "11"}, {archives: "z", f"{archives}.filesizes": "1"}
    assert heuristics._cache_of(large | small, 10) == (4, {"a": "11"})
    assert heuristics._cache_of(small, 10) == (0, {})
    assert heuristics._cache_of(large | {archives: "y,z", f"{archives}.filesizes": "1"}, 10) == (
        2, {"a": "11", archives: "2", f"{archives}.filesizes": "1"},
    )  # fmt: skip
