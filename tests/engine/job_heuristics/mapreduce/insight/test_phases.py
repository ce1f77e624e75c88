"""Waterfall, lanes, slots and critical path."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from engine.job_heuristics.mapreduce.insight import phases
from engine.job_heuristics.mapreduce.model.model import UNKNOWN, Attempts

BASE = 1_700_000_000_000


def make(rows):
    """rows: (task, is_map, scheduled, start, finish, shuffle_end, sort_end, outcome, chosen), seconds after BASE."""

    def moment(v):
        return BASE + int(v * 1000) if v is not None else UNKNOWN

    columns = list(zip(*rows, strict=True)) if rows else [[] for _ in range(9)]
    ints = lambda k: np.array([moment(v) for v in columns[k]], dtype=np.int64)  # noqa: E731
    return Attempts(
        task=np.array(columns[0], dtype=np.int64),
        is_map=np.array(columns[1], dtype=bool),
        scheduled=ints(2),
        start=ints(3),
        finish=ints(4),
        shuffle_end=ints(5),
        sort_end=ints(6),
        outcome=np.array(columns[7], dtype=np.int8),
        chosen=np.array(columns[8], dtype=bool),
        speculative=np.zeros(len(rows), dtype=bool),
    )


# Two slots, three maps of which one is retried, one reducer that starts before the last map ends.
JOB = [
    (0, True, 5, 10, 40, None, None, 0, True),
    (1, True, 5, 10, 30, None, None, 1, False),
    (1, True, 5, 35, 70, None, None, 0, True),
    (2, True, 5, 41, 60, None, None, 0, True),
    (3, False, 20, 62, 100, 80, 85, 0, True),
]


def test_waterfall_names_every_phase_and_adds_up():
    found = phases.waterfall(make(JOB), BASE, BASE + 2000, BASE + 4000, BASE + 101_000)
    assert [(p.name, p.ms) for p in found] == [
        ("queue", 2000),
        ("set-up", 2000),
        ("first container", 6000),
        ("maps", 60_000),
        ("shuffle", 10_000),
        ("sort", 5000),
        ("reduce code", 15_000),
        ("commit", 1000),
    ]
    assert sum(p.ms for p in found) == 101_000


def test_waterfall_of_a_running_and_of_an_empty_job():
    running = make([*JOB[:4], (3, False, 20, 62, 90, None, None, 3, False)])
    found = phases.waterfall(running, BASE, None, BASE + 4000, None)
    assert found[-1].name == "running" and found[-1].end_ms == BASE + 90_000
    assert "queue" not in [p.name for p in found]
    assert [p.name for p in phases.waterfall(make([]), BASE, None, None, BASE + 5000)] == ["commit"]
    assert phases.waterfall(make([]), None, None, None, None) == ()


def test_lanes_waves_and_container_waits():
    attempts = make(JOB)
    chart = phases.gantt(attempts)
    assert chart.lanes == 2
    assert chart.map_waves == 2 and chart.reduce_waves == 1
    assert chart.wait_ms.tolist() == [5000, 5000, -1, 36_000, 42_000]


times = st.lists(st.tuples(st.integers(0, 50), st.integers(0, 30), st.booleans()), max_size=40)


@given(times)
def test_lanes_never_overlap_and_are_as_few_as_possible(rows):
    attempts = make([(i, m, 0, 1 + s, 1 + s + d, None, None, 0, True) for i, (s, d, m) in enumerate(rows)])
    chart = phases.gantt(attempts)
    assert sorted(chart.order.tolist()) == list(range(len(rows)))
    busiest = 0
    for s, _, _ in rows:
        busiest = max(busiest, sum(1 for t, e, _ in rows if t <= s < t + e))
    for k in range(chart.lanes):
        mine = [i for i in chart.order.tolist() if chart.lane[i] == k]
        for a, b in itertools.pairwise(mine):
            assert attempts.finish[a] <= attempts.start[b]
    if all(d for _, d, _ in rows):
        assert chart.lanes == busiest


@given(times, st.integers(1, 25))
def test_slots_add_up_to_time_spent(rows, points):
    attempts = make([(i, m, 0, 1 + s, 1 + s + d, None, None, 0, True) for i, (s, d, m) in enumerate(rows)])
    start, end = BASE, BASE + 100_000
    maps, reduces = phases.slots_in_use(attempts, start, end, points)
    width = (end - start) / points
    for series, side in ((maps, attempts.is_map), (reduces, ~attempts.is_map)):
        spent = int((attempts.finish - attempts.start)[side].sum())
        assert abs(float(series.sum()) * width / 1000 - spent) <= points * width / 1000 + points


def test_critical_path_goes_back_through_reducer_retry_and_scheduler():
    path = phases.critical_path(make(JOB), BASE + 4000)
    # The reducer began at 62 s and was copying when the last map (task 1, second attempt) ended at 70 s.
    assert [s.attempt for s in path] == [-1, 1, -1, 2, 4]
    assert path[-1].start_ms == BASE + 70_000 and path[-1].end_ms == BASE + 100_000
    assert path[0].text == "waiting for a container" and path[0].start_ms == BASE + 5000
    for a, b in itertools.pairwise(path):
        assert a.end_ms == b.start_ms
    assert phases.critical_path(make([]), None) == ()


@given(times)
def test_critical_path_ends_for_any_attempts(rows):
    attempts = make([(i % 3, m, 0, 1 + s, 1 + s + d, None, None, i % 4, True) for i, (s, d, m) in enumerate(rows)])
    path = phases.critical_path(attempts, BASE)
    assert len(path) <= 1001
    for a, b in itertools.pairwise(path):
        assert a.start_ms <= a.end_ms <= b.end_ms
