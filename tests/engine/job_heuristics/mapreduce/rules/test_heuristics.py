"""Every heuristic with gates against its formula in plain Python, over any tasks; and what declarations must hold."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from engine.job_heuristics.dr_elephant.heuristic import default_rules
from engine.job_heuristics.dr_elephant.sides import Jobs, verdicts
from engine.job_heuristics.mapreduce.insight.job_verdicts import job_verdicts
from engine.job_heuristics.mapreduce.model import model as job_arrays
from engine.job_heuristics.mapreduce.rules.heuristics import HEURISTICS
from engine.job_heuristics.mapreduce.rules.verdict_tables import sides_of
from engine.job_heuristics.tables import SEVERITIES
from tests.chance import tries
from tests.engine.job_heuristics.jobs import MB, model, task

RULES = default_rules(HEURISTICS)
BLOCK = 64 * MB
Task = dict[str, Any]

one = st.builds(
    task, st.sampled_from(["map", "reduce"]), st.integers(1, 500), st.floats(0.001, 9000), shuffle=st.integers(0, 3000),
    sort=st.integers(0, 3000), size=st.integers(0, 10**9) | st.just(BLOCK), pmem_mb=st.integers(0, 5000),
    cpu=st.integers(0, 10**6), gc=st.integers(0, 10**5), spilled=st.integers(0, 400), records=st.integers(0, 200),
)  # fmt: skip
some = st.lists(st.tuples(one, st.sampled_from([1, 1, 11, 55, 120])), max_size=6).map(
    lambda runs: [each for each, times in runs for _ in range(times)]
)
"""Tasks of a job, some of them many times, so that limits on their number are reached."""


def at_least(value: float, *limits: float) -> int:
    return sum(value >= limit for limit in limits)


def at_most(value: float, *limits: float) -> int:
    return sum(value <= limit for limit in limits)


def mean(values: Sequence[int]) -> int:
    return int(sum(map(float, values)) / len(values)) if values else 0


def middle(values: Sequence[int]) -> int:
    ranked = sorted(values)
    return (ranked[(len(ranked) - 1) // 2] + ranked[len(ranked) // 2]) // 2 if ranked else 0


def groups(values: Sequence[int]) -> tuple[list[int], list[int]]:
    cut = mean(values)
    for step in range(3):
        low, high = [v for v in values if v < cut], [v for v in values if v >= cut]
        if step < 2:
            cut = mean(high) - mean(low)
    return low, high


def factor(a: int, b: int) -> int:
    return abs(a - b) // max(1, min(a, b))


def ms(tasks: Sequence[Task], name: str = "seconds") -> list[int]:
    return [int(each.get(name, 0) * 1000) for each in tasks]


def numbers(tasks: Sequence[Task], name: str) -> list[int]:
    return [each[name] for each in tasks]


def skew(tasks: Sequence[Task]) -> tuple[int, int]:
    """Severity, and the severity that scores."""
    low, high = groups(numbers(tasks, "size"))
    data = min(
        at_least(factor(mean(low), mean(high)), 2, 4, 8, 16),
        at_least(mean(high), BLOCK / 8, BLOCK / 4, BLOCK / 2, BLOCK),
        at_least(len(low), 10, 50, 100, 200),
    )
    low, high = groups(ms(tasks))
    times = factor(mean(low) // 1000, mean(high) // 1000)
    return max(data, min(at_least(times, 2, 4, 8, 16), at_least(len(low), 10, 50, 100, 200))), data


def gc(tasks: Sequence[Task]) -> int:
    spent, cpu = mean(numbers(tasks, "gc")), mean(numbers(tasks, "cpu"))
    share = spent / cpu if cpu else float("inf") if spent else 0
    return min(at_least(share, 0.01, 0.02, 0.03, 0.04), at_least(mean(ms(tasks)) / 60_000, 5, 10, 12, 15))


def memory(tasks: Sequence[Task]) -> int:
    used = mean([mb * MB for mb in numbers(tasks, "pmem_mb")]) / (4096 * MB)
    return min(at_most(used, 0.6, 0.5, 0.4, 0.3), at_least(4096 / 2048, 1.1, 1.5, 2.0, 2.5)) if tasks else 0


def time(tasks: Sequence[Task]) -> int:
    minutes = mean(ms(tasks)) / 60_000
    short = min(at_most(minutes, 10, 4, 2, 1), at_least(len(tasks), 50, 101, 500, 1000))
    return max(short, at_least(minutes, 15, 30, 60, 120))


def speed(tasks: Sequence[Task]) -> int:
    speeds = [1000 * each["size"] // length for each, length in zip(tasks, ms(tasks), strict=True) if length]
    fast = at_most(middle(speeds) / (100 * MB), 1 / 2, 1 / 4, 1 / 8, 1 / 32)
    return min(fast, at_least(middle(ms(tasks)) / 60_000, 5, 10, 15, 30))


def spill(tasks: Sequence[Task]) -> int:
    spilled, written = sum(numbers(tasks, "spilled")), sum(numbers(tasks, "records"))
    share = spilled / written if written else float("inf") if spilled else 0.0
    cut = int(share * 10_000) if share != float("inf") else share
    much = at_least(cut, *(limit * 10_000 for limit in (2.01, 2.2, 2.5, 3.0)))
    return min(much, at_least(len(tasks), 50, 100, 500, 1000))


def shuffle_sort(tasks: Sequence[Task]) -> int:
    parts = {name: mean(ms(tasks, name)) for name in ("shuffle", "sort")}
    lengths = zip(ms(tasks), ms(tasks, "shuffle"), ms(tasks, "sort"), strict=True)
    code = mean([total - shuffle - sort for total, shuffle, sort in lengths])
    levels = []
    for spent in parts.values():
        long = at_least(spent / 60_000, 1, 5, 10, 30)
        levels.append(min(long, at_least(2 * spent // code, 1, 2, 4, 8)) if code > 0 else long)
    return max(levels)


FORMULAS: dict[str, Callable[[Sequence[Task]], int | tuple[int, int]]] = {
    "Skew": skew, "GC": gc, "Memory": memory, "Time": time, "Speed": speed, "Spill": spill, "Shuffle & Sort": shuffle_sort,
}  # fmt: skip


@tries(12)
@given(some)
def test_any_tasks_give_what_the_formulas_say(tasks: list[Task]) -> None:
    conf = {"mapreduce.map.memory.mb": "4096", "mapreduce.reduce.memory.mb": "4096"}
    jobs_model = model(tasks, conf=conf, map_memory_mb=4096, reduce_memory_mb=4096)
    properties = {"job_1_0001": conf}
    sides = sides_of(jobs_model.jobs, jobs_model.arrays[0], properties, published=True)
    all_jobs = {
        rule.name: verdict
        for rule, verdict in verdicts(RULES, Jobs(jobs_model.jobs, sides, properties, np.array([float(BLOCK)])))
    }
    job = job_arrays.job(jobs_model)
    assert job is not None
    for verdict in job_verdicts(job, RULES):
        side = [each for each in tasks if each["side"] == verdict.side.name]
        found = next(formula for name, formula in FORMULAS.items() if verdict.name.endswith(name))(side)
        level, scores = found if isinstance(found, tuple) else (found, found)
        assert (verdict.name, verdict.level) == (verdict.name, level)
        assert all_jobs[verdict.name].severity[0] == level
        assert all_jobs[verdict.name].score[0] == (scores * len(side) if scores >= 2 else 0)


def test_declarations_are_complete_and_in_order() -> None:
    heuristics = HEURISTICS
    assert [each.order for each in heuristics] == list(range(14))
    assert len({each.class_name for each in heuristics}) == len({each.name for each in heuristics}) == 14
    for each in heuristics:
        assert bool(each.branches) != bool(each.judge), each.name
        named = {gate.limits for branch in (*each.branches, *(each.published or ())) for gate in branch.gates}
        assert named == set(each.limits), each.name
        assert (each.in_published and each.published is None) != bool(each.difference), each.name


def test_advice_carries_the_jobs_numbers() -> None:
    job = job_arrays.job(
        model(
            [task("map", 10, 45, size=64 * MB, pmem_mb=700) for _ in range(600)]
            + [task("reduce", 20, 300, shuffle=250, sort=10) for _ in range(5)]
        )
    )
    empty = job_arrays.job(model([]))
    assert job is not None and empty is not None
    advice = {each.name: each.advice for each in HEURISTICS}
    text = advice["Mapper Time"](3, job)
    assert "600 maps of only 0.8 min" in text and "64.0 MB" in text and "split.minsize" in text
    assert "700 MB" in advice["Mapper Memory"](2, job)
    assert "slowstart" in advice["Shuffle & Sort"](2, job) and "4.2 min" in advice["Shuffle & Sort"](2, job)
    for write in advice.values():
        assert all(write(level, each).endswith(".") for level in range(len(SEVERITIES)) for each in (job, empty))
