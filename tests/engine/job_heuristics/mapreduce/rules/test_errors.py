"""What is noted as assumed, and why Dr. Elephant would show nothing: each where it is so, and nowhere else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import polars as pl
import pytest

from engine.job_heuristics.dr_elephant.heuristic import default_rules
from engine.job_heuristics.dr_elephant.sides import Jobs
from engine.job_heuristics.mapreduce.rules.heuristics import HEURISTICS
from engine.job_heuristics.mapreduce.rules.verdict_tables import assumptions, errors, sides_of, slow_start, strips_of
from tests.engine.job_heuristics.jobs import model, task

NAME = "job_1_0001"
SLOW_START = "mapreduce.job.reduce.slowstart.completedmaps"
CONF = {"mapreduce.map.memory.mb": "2048", "mapreduce.reduce.memory.mb": "1024", SLOW_START: "0.05"}
HUGE = "memory x time is beyond 64 bit: it wraps around as Dr. Elephant's does, and no total counts it"
TASKS = [task("map", 10, 45), task("reduce", 60, 9)]


def jobs(tasks: list[dict[str, Any]] = TASKS, conf: Mapping[str, str] = CONF, **row: Any) -> Jobs:
    """One job that ended well, with a configuration that is ``conf``."""
    made = model(tasks, **{"conf_file": 1, **row})
    properties = {NAME: dict(conf)}
    return Jobs(
        made.jobs, sides_of(made.jobs, made.arrays[0], properties, published=False), properties, np.array([2.0**26])
    )


def error(**given: Any) -> str:
    """The exception that Dr. Elephant throws."""
    (text,) = errors(jobs(**given), default_rules(HEURISTICS))
    return text


def note(**given: Any) -> str:
    """What was assumed."""
    (text,) = assumptions(jobs(**given))
    return text


def test_a_plain_job_has_neither_error_nor_note() -> None:
    assert error() == note() == ""


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"broken": "java.lang.Broken"}, "java.lang.Broken"),
        ({"state": "RUNNING"}, "NullPointerException"),
        ({"state": "RUNNING", "source": "am"}, "neither succeeded or failed"),
        ({"state": "KILLED"}, "neither succeeded or failed"),
        ({"conf_file": None}, "Can't find config of job_1_0001"),
        ({"tasks": [*TASKS, task("map", 10, 1, state="RUNNING")]}, "a task has no final state"),
        ({"tasks": [task("map", 10, 0)]}, "/ by zero"),
        ({"conf": {key: value for key, value in CONF.items() if key != SLOW_START}}, '"in" is null'),
        ({"conf": CONF | {SLOW_START: "half"}}, 'For input string: "half"'),
        ({"conf": CONF | {"mapreduce.map.memory.mb": "${x"}}, "StringIndexOutOfBounds"),
    ],
)  # fmt: skip
def test_errors(given: dict[str, Any], words: str) -> None:
    assert words in error(**given)


def test_no_heuristic_throws_for_failed_or_mapless_jobs() -> None:
    assert error(tasks=[task("map", 10, 0)], state="FAILED") == ""
    assert error(tasks=[task("reduce", 10, 0)]) == ""
    rules = default_rules(HEURISTICS)
    assert errors(jobs(tasks=[]), rules) == [""]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"tasks": [*TASKS, task("map", 10, 0)]}, "1 map(s) of 0 ms are left out of Mapper Speed"),
        ({"conf_file": None}, "no configuration found: containers of 2048 MB and an unknown job type are assumed"),
        ({"conf": CONF | {"mapreduce.map.memory.mb": "-1"}},
         "map container -1 means Hadoop's own choice: 2048 MB is assumed"),
        ({"conf": CONF | {"mapreduce.reduce.memory.mb": "1g"}},
         "reduce container '1g' is not a number: metrics count 2048 MB, the memory heuristic 2048 MB"),
        ({"conf": CONF | {"mapreduce.map.memory.mb": "${x}", "x": "0"}},
         "map container '${x}' is not a number: metrics count 2048 MB, the memory heuristic 0 MB"),
        ({"tasks": [task("map", 10, 45, pmem_mb=0)]}, "memory was not measured: all of it would count as wasted"),
        ({"tasks": [task("reduce", 10, 45, pmem_mb=0)]}, "memory was not measured: all of it would count as wasted"),
        ({"state": "RUNNING"}, "still running: verdicts and metrics are over the tasks that have ended so far"),
        ({"state": "KILLED"}, "KILLED: verdicts and metrics are over the tasks that ended"),
        ({"map_memory_mb": 2**63 // 45 + 1}, HUGE),
        ({"map_memory_mb": 2**63 // 45 - 1, "reduce_memory_mb": 9999}, HUGE),
    ],
)  # fmt: skip
def test_assumptions(given: dict[str, Any], words: str) -> None:
    assert note(**given) == words


def test_complete_jobs_need_no_assumptions() -> None:
    assert note(conf=CONF | {"mapreduce.map.memory.mb": "0"}) == ""
    assert note(conf={}) == note(tasks=[]) == note(state="FAILED") == ""
    assert note(tasks=[task("map", 10, 45, pmem_mb=0), task("reduce", 60, 9)]) == ""
    assert note(map_memory_mb=2**63 // 45 - 1000) == ""


def test_the_slow_start_share_where_it_is_unset_or_unusable() -> None:
    properties = {"a": {SLOW_START: "0.8"}, "b": {SLOW_START: "x"}, "c": {SLOW_START: "nan"}, "d": {}}
    assert slow_start(properties, ["a", "b", "c", "d", "e"]).tolist() == [0.8, 0.05, 0.05, 0.05, 0.05]


def test_a_strip_has_a_letter_for_each_heuristic_in_force() -> None:
    """Blank without a result; of two results of one name the first counts; others have no place."""
    rows = [("a", "y", "SEVERE"), ("a", "y", "LOW"), ("b", "x", "NONE"), ("b", "z", "LOW"), ("b", "y", "CRITICAL")]
    frame = pl.DataFrame(rows, schema=["job_id", "heuristic", "severity"], orient="row")
    first, second, third = strips_of(["a", "b", "c"], frame, ("x", "y"))
    assert (first[0], third) == (" ", "  ") and first[1] != second[1] and " " not in second
    assert first[1] == strips_of(["a"], frame[:1], ("y",))[0]
