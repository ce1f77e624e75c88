"""Dr. Elephant's rules for Spark by hand: one application in memory, each measure at its limits."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import polars as pl
import pytest
from msgspec.structs import replace

from engine.job_heuristics.dr_elephant.heuristic import default_rules, shipped
from engine.job_heuristics.dr_elephant.judged import in_order
from engine.job_heuristics.spark.model.app import App, AppAttempt, Executor, SparkJob, Stage
from engine.job_heuristics.spark.rules import metrics
from engine.job_heuristics.spark.rules.heuristic import (
    SparkHeuristic,
    SparkRule,
    judge,
    notes,
    surely,
    tree_of,
    upstream_says,
)
from engine.job_heuristics.spark.rules.heuristics import HEURISTICS

MB, GB, MINUTE = 2**20, 2**30, 60_000
GOOD = {
    "spark.executor.instances": "2", "spark.executor.memory": "1g", "spark.shuffle.service.enabled": "true",
    "spark.serializer": "org.apache.spark.serializer.KryoSerializer",
}  # fmt: skip


def app(properties: Mapping[str, str | None] = GOOD, **more: Any) -> App:
    """An application of 100 s that has ended well."""
    given: dict[str, Any] = {
        "app_id": "application_1_0001", "name": "demo", "user": "ann", "state": "SUCCEEDED",
        "attempts": (AppAttempt("1", 1000, 101_000, "ann", "3.5"),), "start_ms": 1000, "end_ms": 101_000,
        "properties": properties, "jobs": (), "stages": (), "executors": (Executor("1"),),
        "tasks": pl.DataFrame(), "running": pl.DataFrame(),
    }  # fmt: skip
    return App(**{**given, **more})


def rule(name: str) -> tuple[SparkHeuristic, SparkRule]:
    """A heuristic by its class, and its rule with default limits."""
    (heuristic,) = (each for each in HEURISTICS if each.class_name == name)
    return heuristic, shipped(heuristic)


def judged(name: str, one: App) -> tuple[int, Mapping[str, Any]]:
    """The severity 0-4 and the details."""
    heuristic, made = rule(name)
    level = int(tree_of(made, [one]).levels()[0])
    return level, heuristic.describe(one, made, level)


def test_memory_is_counted_by_instances_and_time() -> None:
    """Two executors of 1 GB for 100 s; what tasks did not use of half as much again is wasted."""
    assert metrics.metrics(app()) == (2 * 1024 * 100, 2 * 1024 * 100)
    busy = app(executors=(Executor("1", duration_ms=60_000), Executor("2", duration_ms=99_000, active=False)))
    assert metrics.metrics(busy) == (204_800, 204_800 - 61_440 * 3 // 2)
    assert metrics.metrics(app(executors=(Executor("1", duration_ms=200_000),)))[1] == 0
    small = app({"spark.executor.instances": "1", "spark.executor.memory": "1048575"})
    assert metrics.metrics(small)[0] == 99
    negative = app({"spark.executor.instances": "-1", "spark.executor.memory": "1048575"})
    assert metrics.metrics(negative) == (-99, 0)


def test_memory_that_cannot_be_counted_is_0() -> None:
    nothing = (0, 0)
    for key in ("spark.executor.instances", "spark.executor.memory"):
        assert metrics.metrics(app({**GOOD, key: None})) == metrics.metrics(app({**GOOD, key: "x"})) == nothing
        assert metrics.throws(app({**GOOD, key: "x"})) and not metrics.throws(app({**GOOD, key: None}))
    assert metrics.throws(app()) == ""
    backward = app(attempts=(AppAttempt("1", 5000, 1000, "ann", ""),))
    assert metrics.judged_ms(backward) == -4000 and metrics.metrics(backward) == nothing


def test_duration_is_that_of_the_oldest_attempt() -> None:
    newest, oldest = AppAttempt("2", 50_000, 101_000, "ann", ""), AppAttempt("1", 1000, 9000, "ann", "")
    assert metrics.judged_ms(app(attempts=(newest, oldest))) == 8000
    assert metrics.judged_ms(app(attempts=(newest, replace(oldest, end_ms=None)))) == 100_000
    assert metrics.judged_ms(app(attempts=())) == 100_000
    assert metrics.judged_ms(app(attempts=(), end_ms=None)) == 0


@pytest.mark.parametrize(
    ("failed", "good", "level"),
    [(0, 0, 0), (0, 9, 0), (1, 10, 0), (1, 9, 1), (3, 8, 1), (3, 7, 2), (4, 5, 2), (5, 5, 4), (1, 0, 4)],
)
def test_shares_of_failures(failed: int, good: int, level: int) -> None:
    """0.1, 0.3, 0.5 of jobs, of stages, and of the tasks of one of them."""
    jobs = (
        *[SparkJob(k, "bad", "FAILED") for k in range(failed)],
        *[SparkJob(k, "", "SUCCEEDED") for k in range(good)],
    )
    found, details = judged("JobsHeuristic", app(jobs=(*jobs, SparkJob(99))))
    assert found == level
    assert details["Spark completed jobs count"] == str(good) and details["Spark failed jobs count"] == str(failed)
    assert details["Spark failed jobs list"] == "\n".join(f"job {k}, bad" for k in range(failed))
    assert details["Spark job failure rate"] == f"{failed / (failed + good) if failed + good else 0:.3f}"
    stages = (*[Stage(k, 0, "", "FAILED") for k in range(failed)], *[Stage(k, 1, "", "COMPLETE") for k in range(good)])
    found, details = judged("StagesHeuristic", app(stages=(*stages, Stage(99, 0))))
    assert (
        found == level
        and details["Spark stage failure rate"] == f"{failed / (failed + good) if failed + good else 0:.3f}"
    )
    tried = {"failed_tasks": failed, "completed_tasks": good}
    found, details = judged("JobsHeuristic", app(jobs=(SparkJob(3, "load", **tried), SparkJob(4, **tried))))
    many = f"job 3, load (task failure rate: {failed / (failed + good):.3f})" if level > 2 else ""
    assert (found, details["Spark jobs with high task failure rates"].partition("\n")[0]) == (level, many)
    found, details = judged("StagesHeuristic", app(stages=(Stage(3, 1, **tried),)))
    many = f"stage 3, attempt 1 (task failure rate: {failed / (failed + good):.3f})" if level > 2 else ""
    assert (found, details["Spark stages with high task failure rates"]) == (level, many)


@pytest.mark.parametrize(("minutes", "level"), [(14.99, 0), (15, 1), (30, 2), (44.99, 2), (45, 3), (60, 4)])
def test_stages_with_long_executor_times(minutes: float, level: int) -> None:
    """Run time over the executors asked for, or those that are active."""
    stage = Stage(1, 0, sums={"run_ms": int(minutes * MINUTE * 2)})
    short = Stage(2, 0, sums={"run_ms": MINUTE})
    for one in (app(), app({}, executors=(Executor("1"), Executor("driver"), Executor("2", active=False)))):
        found, details = judged("StagesHeuristic", replace(one, stages=(stage, short)))
        assert found == level
        assert bool(details["Spark stages with long average executor runtimes"]) == (level > 2)
    found, details = judged("StagesHeuristic", app({}, executors=(), stages=(stage,)))
    assert found == sum(2 * minutes >= limit for limit in (15, 30, 45, 60))
    assert judged("StagesHeuristic", app(stages=()))[0] == 0


def test_stages_throw_on_an_invalid_number_of_executors() -> None:
    throws = rule("StagesHeuristic")[0].throws
    assert throws(app()) == throws(app({})) == throws(app({"spark.executor.instances": "0"})) == ""
    assert "NumberFormatException" in throws(app({"spark.executor.instances": "2.0"}))
    assert "by zero" in throws(app({"spark.executor.instances": "0"}, stages=(Stage(1, 0),)))


def test_lower_bounds_of_running_stages_and_jobs() -> None:
    """Of what has ended tasks stay what they are, run time over a number that is set only grows."""
    tried, sums = {"failed_tasks": 1, "completed_tasks": 1}, {"run_ms": 60 * MINUTE}
    name = "StagesHeuristic"
    made = rule(name)[1]
    assert surely(made, app(stages=(Stage(1, 0, status="FAILED", **tried),)), 4) == (4, 4)
    assert surely(made, app(stages=(Stage(1, 0, status="FAILED", active_tasks=1, **tried),)), 4) == (0, 4)
    assert surely(made, app(stages=(Stage(1, 0, status="ACTIVE", **tried),)), 4) == (0, 4)
    assert surely(made, app(stages=(Stage(1, 0, status="ACTIVE", sums=sums),)), 2) == (2, 4)
    assert surely(made, app({}, stages=(Stage(1, 0, status="ACTIVE", sums=sums),)), 4) == (0, 4)
    made = rule("JobsHeuristic")[1]
    assert surely(made, app(jobs=(SparkJob(1, status="FAILED", **tried), SparkJob(2))), 4) == (4, 4)
    assert surely(made, app(jobs=(SparkJob(1, status="RUNNING", **tried),)), 4) == (0, 4)
    assert surely(rule("ConfigurationHeuristic")[1], app(), 3) == (3, 3)
    assert surely(rule("ExecutorGcHeuristic")[1], app(), 3) == (0, 4)
    two = (Stage(1, 0, status="ACTIVE", sums=sums), Stage(2, 0, status="ACTIVE"))
    assert surely(rule(name)[1], app(stages=two), 2) == (2, 4)


@pytest.mark.parametrize(
    ("key", "values", "level"),
    [
        ("input_bytes", (100 * MB, 75 * MB + 1, 0), 0),
        ("input_bytes", (100 * MB - 1, 0, 0), 0),
        ("input_bytes", (100 * MB, 0, 0), 4),
        ("memory_used", (200 * MB, 100 * MB, 1), 2),
        ("shuffle_read", (400 * MB, 100 * MB, 1), 3),
        ("shuffle_write", (1000 * MB, 100 * MB, 1), 4),
        ("duration_ms", (300_000, 200_000, 1), 1),
        ("duration_ms", (299_999, 1, 1), 0),
    ],
)
def test_how_evenly_executors_share_the_work(key: str, values: tuple[int, ...], level: int) -> None:
    """The largest over the median: 10 to the 1/8, 1/4, 1/2, 1; small sums are ignored."""
    executors = tuple(Executor(f"{k}", **{key: value}) for k, value in enumerate(values))
    removed = Executor("gone", active=False, **{key: 10**12})
    found, details = judged("ExecutorsHeuristic", app(executors=(*executors, removed)))
    assert found == level
    assert len(details) == 9
    if key == "duration_ms":
        assert details["Executor task time sum"] == str(sum(values) // 1000)


def test_storage_memory_of_executors() -> None:
    executors = (Executor("1", max_memory=3 * GB, memory_used=GB), Executor("2", max_memory=GB, memory_used=GB // 2))
    details = judged("ExecutorsHeuristic", app(executors=executors))[1]
    assert details["Total executor storage memory allocated"] == "4 GB"
    assert details["Total executor storage memory used"] == "1.5 GB"
    assert details["Executor storage memory utilization rate"] == "0.375"
    quarters = "min: 512 MB, p25: 512 MB, median: 768 MB, p75: 1 GB, max: 1 GB"
    assert details["Executor storage memory used distribution"] == quarters
    assert judged("ExecutorsHeuristic", app(executors=()))[0] == 0
    throws = rule("ExecutorsHeuristic")[0].throws
    assert throws(app(executors=())) and not throws(app())


@pytest.mark.parametrize(
    ("gc", "duration", "level", "words"),
    [(7, 100, 0, ""), (8, 100, 1, ""), (10, 100, 2, "high"), (15, 100, 3, "high"), (20, 100, 4, "high"), (5, 100, 0, ""),
     (4, 100, 0, "low"), (0, 0, 0, ""), (1, 0, 4, "high")],
)  # fmt: skip
def test_garbage_collection(gc: int, duration: int, level: int, words: str) -> None:
    """Of executors that are active, without the driver."""
    others = (Executor("driver", gc_ms=10**6, duration_ms=1), Executor("2", active=False, gc_ms=10**6, duration_ms=1))
    found, details = judged(
        "ExecutorGcHeuristic", app(executors=(Executor("1", gc_ms=gc, duration_ms=duration), *others))
    )
    assert found == level
    assert [label for label in details if label.startswith("Gc ratio")] == ([f"Gc ratio {words}"] if words else [])
    shown = "NaN" if not gc and not duration else "Infinity" if not duration else f"{gc / duration:g}"
    assert details["GC time to Executor Run time ratio"] == shown


@pytest.mark.parametrize(
    ("key", "value", "level"),
    [
        ("spark.driver.memory", "9.99g", 0), ("spark.driver.memory", "10g", 1), ("spark.executor.memory", "15g", 2),
        ("spark.executor.memory", "25g", 4), ("spark.driver.cores", "3", 0), ("spark.driver.cores", "4", 1),
        ("spark.executor.cores", "10", 4), ("spark.yarn.driver.memoryOverhead", "2042", 0),
        ("spark.yarn.driver.memoryOverhead", "2043", 1), ("spark.yarn.executor.memoryOverhead", "6g", 3),
        ("spark.yarn.executor.memoryOverhead", "six", 0), ("spark.yarn.executor.memoryOverhead", "", 0),
        ("spark.dynamicAllocation.minExecutors", "1", 0), ("spark.dynamicAllocation.minExecutors", "2", 4),
        ("spark.dynamicAllocation.maxExecutors", "900", 0), ("spark.dynamicAllocation.maxExecutors", "901", 4),
        ("spark.yarn.secondary.jars", "a.jar", 0), ("spark.yarn.secondary.jars", "lib/*", 4),
        ("spark.serializer", "java", 2), ("spark.shuffle.service.enabled", "false", 2),
        ("spark.shuffle.service.enabled", "maybe", 2),
    ],
)  # fmt: skip
def test_configuration(key: str, value: str, level: int) -> None:
    """The overhead is judged as it is shown: 2043 MB is written as 2 GB."""
    found, details = judged("ConfigurationHeuristic", app({**GOOD, key: value}))
    assert found == level
    said = {
        "spark.serializer": "spark.serializer", "spark.shuffle.service.enabled": "spark.shuffle.service.enabled",
        "spark.dynamicAllocation.minExecutors": "Minimum Executors", "spark.yarn.secondary.jars": "Jars notation",
        "spark.dynamicAllocation.maxExecutors": "Maximum Executors",
        "spark.yarn.executor.memoryOverhead": "Executor Overhead Memory",
    }.get(key)  # fmt: skip
    assert (said in details) == (said is not None and level > 0)
    assert len(details) == 9 + (said is not None and level > 0)


def test_a_missing_shuffle_service_is_worse_with_dynamic_allocation() -> None:
    dynamic = {**GOOD, "spark.shuffle.service.enabled": None, "spark.dynamicAllocation.enabled": "true"}
    found, details = judged("ConfigurationHeuristic", app(dynamic))
    assert found == 3 and details["spark.dynamicAllocation.enabled"] == "true"
    assert details["spark.application.duration"] == "100 Seconds"
    assert details["spark.yarn.driver.memoryOverhead"] == "0 B"
    assert details["spark.executor.memory"] == "1 GB" and details["spark.executor.cores"].startswith("Not presented")
    throws = rule("ConfigurationHeuristic")[0].throws
    assert throws(app(dynamic)) == ""
    for key, value in (("spark.dynamicAllocation.enabled", "1"), ("spark.yarn.driver.memoryOverhead", "six")):
        assert "IllegalArgumentException" in throws(app({**GOOD, key: value}))


def test_notes() -> None:
    """What was assumed, and where Dr. Elephant's numbers mislead: each where it is so, and nowhere else."""
    assert notes(app()) == () and "no Spark properties found" in notes(app({}))
    two = (AppAttempt("2", 1, 2, "ann", ""), AppAttempt("1", 1, 2, "ann", ""))
    for one, words in (
        (app({**GOOD, "spark.executor.instances": None}), "is not set: Dr. Elephant counts nothing as used"),
        (app({**GOOD, "spark.executor.memory": None}), "is not set: Dr. Elephant counts nothing as used"),
        (app({**GOOD, "spark.executor.memory": " 1024 "}), "has no unit"),
        (app(executors=(Executor("1"), Executor("2", active=False))), "1 executor(s) were removed"),
        (app(attempts=two), "2 attempts:"),
        (app({**GOOD, "spark.executor.cores": "2"}), "tasks that share an executor"),
        (app(state="RUNNING"), "still running"),
    ):
        (said,) = notes(one)
        assert words in said
    assert notes(app({**GOOD, "spark.executor.cores": "1"}, notes=("cut",))) == ("cut",)
    assert math.isnan(float(judged("ExecutorGcHeuristic", app())[1]["GC time to Executor Run time ratio"]))


def test_tables_of_applications() -> None:
    """The worst verdict is the application's; scores are always 0."""
    rules = default_rules(HEURISTICS)
    bad = app(
        {**GOOD, "spark.serializer": "java", "spark.yarn.queue": "etl"}, app_id="a", executors=(Executor("1", gc_ms=1),)
    )
    found = judge({"a": bad, "b": app(app_id="b", attempts=(), start_ms=None)}, rules)
    rows = [
        (row["job_id"], row["heuristic"], row["severity"], row["score"])
        for row in found.heuristics.iter_rows(named=True)
    ]
    names = [rule.name for rule in rules.rules]
    assert rows[:2] == [("a", names[0], "MODERATE", 0), ("a", names[1], "NONE", 0)] and len(rows) == 2 * len(names)
    assert rows[4] == ("a", "Executor GC", "CRITICAL", 0)
    first, second = found.jobs.to_dicts()
    assert {key: first[key] for key in ("severity", "score", "queue", "wait_ms", "runtime_ms", "finish_ms", "submit_ms")} == {
        "severity": "CRITICAL", "score": 0, "queue": "etl", "wait_ms": 0, "runtime_ms": 100_000, "finish_ms": 101_000,
        "submit_ms": 1000,
    }  # fmt: skip
    assert (first["used_mb_s"], first["attempts_running"], first["upstream_says"], first["notes"]) == (
        204_800,
        0,
        "",
        "",
    )
    assert (second["severity"], second["finish_ms"], second["runtime_ms"], second["queue"]) == (
        "NONE",
        None,
        None,
        None,
    )
    assert found.strips["strip"].to_list() == ["M...C", "....."]
    assert [each.level for each in found.findings["a"]] == ["moderate", "critical"] and found.findings["b"] == ()
    assert judge({}, rules).jobs.is_empty()
    huge = app({"spark.executor.instances": "2147483647", "spark.executor.memory": "9e18"}, end_ms=2**62, attempts=())
    assert judge({"a": huge}, rules).jobs["used_mb_s"][0] == 2**63 - 1


def test_why_dr_elephant_does_not_show_an_application() -> None:
    rules = default_rules(HEURISTICS)
    assert upstream_says(app(), rules) == ""
    broken = {"spark.executor.memory": "x", "spark.dynamicAllocation.enabled": "maybe", "spark.executor.instances": "y"}
    odd = {"properties": broken, "jobs": (SparkJob(1, status="LOST"),)}
    assert upstream_says(app(**odd, state="RUNNING", upstream_error="torn"), rules) == "torn"
    assert "still running" in upstream_says(app(**odd, state="RUNNING"), rules)
    assert "a job of unknown status" in upstream_says(app(**odd), rules)
    assert '"maybe"' in upstream_says(app(broken), rules)
    only = replace(rules, rules=tuple(replace(each, excluded=frozenset({"Spark"})) for each in rules.rules))
    assert upstream_says(app(broken), only) == 'java.lang.NumberFormatException: For input string: "y"'
    assert judge({"a": app(broken)}, only).heuristics.is_empty()


def test_rows_in_the_order_of_jobs() -> None:
    jobs = pl.DataFrame({"job_id": ["b", "a"]})
    one, two = pl.DataFrame({"job_id": ["a", "x", "a"], "k": [1, 2, 3]}), pl.DataFrame({"job_id": ["b"], "k": [4]})
    assert in_order(jobs, one, two).rows() == [("b", 4), ("a", 1), ("a", 3), ("x", 2)]


def test_places_in_strips() -> None:
    rules = default_rules(HEURISTICS).rules
    assert [rule.heuristic.order for rule in rules] == [101, 102, 103, 104, 105]


def test_advice() -> None:
    """By what is there, each on both sides of its limit."""
    configuration = rule("ConfigurationHeuristic")[0]
    bad = {"spark.executor.memory": "10g", "spark.yarn.driver.memoryOverhead": "2g"}
    text = configuration.advise(2, app(bad))
    assert text.startswith("Use more, smaller executors") and text.count("; ") == 3 and "KryoSerializer" in text
    assert configuration.advise(0, app(bad)) == "Nothing to change."
    for key, value, words in (
        ("spark.executor.memory", "9.9g", "See which of its settings the work needs."),
        ("spark.executor.cores", "3", "See which of its settings the work needs."),
        ("spark.executor.cores", "4", "4 cores are where the rule begins: they need no change."),
        ("spark.executor.cores", "5", "Use more, smaller executors: up to 4 cores and below 10 GB each."),
        ("spark.yarn.executor.memoryOverhead", "2g", "Lower the memory overhead."),
        ("spark.yarn.executor.memoryOverhead", "1.9g", "See which of its settings the work needs."),
    ):
        assert configuration.advise(1, app({**GOOD, key: value})) == words
    measured = configuration.measure(
        app({"spark.yarn.driver.memoryOverhead": "six"}), rule("ConfigurationHeuristic")[1]
    )
    assert not any(value for key, value in measured.items() if key not in ("serializer", "shuffle"))
    stages = rule("StagesHeuristic")[0]
    assert stages.advise(0, app()) == "Stages succeed and take little time."
    short, long = (Stage(7, 0, "load", sums={"run_ms": 2 * 15 * MINUTE - less}) for less in (2, 0))
    assert stages.advise(3, app()) == stages.advise(3, app(stages=(short,))) != stages.advise(3, app(stages=(long,)))
    assert stages.advise(3, app()) == "Find out why tasks of these stages fail."
    both = stages.advise(3, app(stages=(replace(short, stage=8), long)))
    assert both.startswith("Stage 7 (load) keeps each executor busy longest")
    jobs = rule("JobsHeuristic")[0]
    assert jobs.advise(0, app()) == "Jobs and their tasks succeed."
    assert jobs.advise(1, app()) == "Find out why tasks fail; their errors are listed by stage."
    lost = (SparkJob(1), SparkJob(2, error="lost · node"))
    assert jobs.advise(1, app(jobs=lost)) == "Find out why tasks fail: lost"
    even = rule("ExecutorsHeuristic")
    assert set(even[0].measure(app(executors=(Executor("1", memory_used=5),)), even[1]).values()) == {0.0}
    assert even[0].advise(0, app()) == "Executors share the work evenly."
    assert rule("ExecutorGcHeuristic")[0].advise(0, app()) == "Garbage collection takes little time."
    for name in ("ExecutorsHeuristic", "ExecutorGcHeuristic"):
        assert len({rule(name)[0].advise(level, app()) for level in (0, 1, 4)}) == 2
