"""Dr. Elephant's split, inequality and causes of slow tasks."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.job_heuristics.mapreduce.insight import skew

values = st.lists(st.floats(0, 1e12, allow_nan=False), min_size=1, max_size=40)


def test_dr_elephants_split_uses_the_difference_of_means():
    # Mean 55 first; then 100 - 10 = 90; the middle value 50 falls to the low group.
    split = skew.dr_elephant_split(np.array([10] * 5 + [50] + [100] * 5))
    assert (split.low_n, split.low_mean, split.high_n, split.high_mean) == (6, 16.0, 5, 100.0)
    # b < 2a: the difference lies below everything, the second split has an empty group A (mean 0), the third the mean.
    assert skew.dr_elephant_split(np.array([100, 150])).at == 125
    assert skew.dr_elephant_split(np.array([], dtype=np.int64)).high_n == 0


@given(values)
def test_gini_lies_between_0_and_1_and_knows_extremes(given_values):
    data = np.array(given_values)
    assert 0 <= skew.gini(data) < 1
    assert skew.gini(np.full(5, 3.0)) == pytest.approx(0, abs=1e-12)
    lonely = np.zeros(100)
    lonely[3] = 5
    assert skew.gini(lonely) == pytest.approx(0.99)


def test_top_share():
    assert skew.top_share(np.array([1.0] * 99 + [101]), 0.01) == (1, pytest.approx(0.505))
    assert skew.top_share(np.array([])) == (0, 0.0)


def test_robust_line_ignores_hot_tasks():
    rng = np.random.default_rng(1)
    x = rng.uniform(1e8, 2e8, 300)
    y = 5000 + 3e-4 * x + rng.normal(0, 500, 300)
    y[:20] += 400_000
    line = skew.robust_line(x, y)
    assert line.slope == pytest.approx(3e-4, rel=0.05)
    assert line.intercept == pytest.approx(5000, abs=2500)
    assert line.spread < 900 and line.explained > 0.7
    flat = skew.robust_line(np.full(5, 3.0), np.array([1.0, 2, 3, 4, 100]))
    assert (flat.intercept, flat.slope) == (3.0, 0.0)


def _job(n=200, seed=3):
    rng = np.random.default_rng(seed)
    size = rng.uniform(90e6, 130e6, n)
    time = size * 5e-4 * rng.normal(1, 0.02, n)
    cpu = time * 0.8
    hosts = [f"n{i % 20}" for i in range(n)]
    racks = [f"/r{(i % 20) // 5}" for i in range(n)]
    return size, time, cpu, hosts, racks


def test_big_inputs_are_data_skew():
    size, time, cpu, hosts, racks = _job()
    size[:12] *= 6
    time[:12] *= 6
    cpu[:12] *= 6
    found = skew.causes(time, size, cpu, hosts, racks)
    assert (found.long, found.data, found.node, found.cpu, found.other) == (12, 12, 0, 0, 0)
    assert "more bytes" in found.words


def test_a_slow_node_is_found_and_blamed():
    size, time, cpu, hosts, racks = _job()
    slow = np.array([h == "n7" for h in hosts])
    time[slow] *= 4
    found = skew.causes(time, size, cpu, hosts, racks)
    assert (found.long, found.node, found.data, found.cpu) == (10, 10, 0, 0)
    assert [o.name for o in found.nodes] == ["n7"] and found.nodes[0].ratio == pytest.approx(4, rel=0.1)
    assert found.nodes[0].lost_ms == pytest.approx(time[slow].sum() * 0.75, rel=0.1)
    assert not found.racks


def test_costly_records_are_cpu_and_waiting_is_other():
    size, time, cpu, hosts, racks = _job()
    time[:10] += 300_000
    cpu[:10] += 290_000
    time[10:15] += 300_000
    found = skew.causes(time, size, cpu, hosts, racks)
    assert (found.long, found.data, found.node, found.cpu, found.other) == (15, 0, 0, 10, 5)


def test_even_jobs_have_nothing_to_explain():
    size, time, cpu, hosts, racks = _job()
    found = skew.causes(time, size, cpu, hosts, racks)
    assert found.long == 0 and not found.nodes and "one group" in found.words
    empty = skew.causes(np.array([]), np.array([]), np.array([]), [], [])
    assert empty.long == 0


@given(st.lists(st.tuples(st.integers(0, 10**9), st.integers(0, 10**12), st.integers(0, 10**9)), max_size=60))
def test_causes_add_up(rows):
    time, size, cpu = (np.array([r[k] for r in rows], dtype=float) for k in range(3))
    hosts = [f"n{i % 5}" for i in range(len(rows))]
    found = skew.causes(time, size, cpu, hosts, hosts)
    assert found.data + found.node + found.cpu + found.other == found.long <= len(rows)
