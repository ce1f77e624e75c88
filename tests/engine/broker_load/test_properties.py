"""What must hold for any cluster."""

from __future__ import annotations

import dataclasses

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import nnls

from engine.broker_load.cruise_control import goals, replica_loads
from engine.broker_load.cruise_control.cluster_model import RESOURCES, Cluster, sums
from engine.broker_load.cruise_control.replica_loads import LeaderValues
from engine.broker_load.insight import corrected_loads, failover, fitted_weights
from engine.broker_load.model import broker_capacity, topology, windows
from engine.broker_load.model.measured import Measured
from engine.broker_load.model.topology import Broker
from engine.broker_load.parameters import CpuWeights, ElectionRules, MinTopicLeaders, Thresholds


@st.composite
def clusters(draw: st.DrawFn) -> Cluster:
    """A random cluster with loads as upstream has them; leaderless partitions, short ISRs, dead brokers, ELR."""
    brokers = draw(st.integers(1, 6))
    count = draw(st.integers(1, 12))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    rows = []
    for number in range(count):
        replicas = rng.permutation(brokers)[: rng.integers(1, brokers + 1)].tolist()
        isr = [b for b in replicas if rng.random() < 0.7]
        leader = int(rng.choice(isr)) if isr and rng.random() < 0.9 else -1
        elr = [b for b in replicas if b not in isr and rng.random() < 0.5] if rng.random() < 0.5 else None
        rows.append((f"t{number % 3}", number, leader, replicas, isr, [], elr, int(rng.integers(1, 4)), None))
    frame = pl.DataFrame(
        rows,
        schema={
            "topic": pl.String, "partition": pl.Int32, "leader": pl.Int32, "replicas": pl.List(pl.Int32),
            "isr": pl.List(pl.Int32), "offline": pl.List(pl.Int32), "elr": pl.List(pl.Int32), "min_isr": pl.Int32,
            "unclean": pl.Boolean,
        },
        orient="row",
    ).sort("topic", "partition")  # fmt: skip
    known = {i: Broker(f"h{i % 3}", f"r{i % 2}", bool(rng.random() < 0.9), True) for i in range(brokers)}
    made = topology.build(frame, known)
    entry = {"broker": [-1], "disk_mb": [1e5], "cpu": [100.0], "cores": [8.0], "nw_in_kbs": [1e4], "nw_out_kbs": [1e4],
             "log_dirs": [None], "doc": [""]}  # fmt: skip
    capacities = broker_capacity.resolve(pl.DataFrame(entry), made, True)
    values = LeaderValues(*(rng.gamma(2.0, 50.0, count) for _ in range(7)))
    loads = replica_loads.as_cruise_control(made, values, CpuWeights())
    return Cluster(made, capacities, loads, sums(made, loads))


@settings(max_examples=60, deadline=None)
@given(clusters())
def test_broker_sums_are_the_sums_of_replicas(cluster: Cluster) -> None:
    loads = cluster.loads
    assert cluster.sums.cpu.sum() == pytest.approx(loads.cpu[loads.held].sum())
    assert cluster.sums.disk.sum() == pytest.approx(loads.disk[loads.held].sum())
    assert cluster.sums.leaders.sum() == (cluster.topology.leader >= 0).sum()
    assert (cluster.sums.pnw_out >= cluster.sums.nw_out - 1e-9).all()


@settings(max_examples=60, deadline=None)
@given(clusters(), st.booleans())
def test_all_single_failures_at_once_agree_with_each_alone(cluster: Cluster, unclean: bool) -> None:
    rules = ElectionRules(unclean, 2)
    every = failover.singles(cluster, rules)
    for down in range(cluster.topology.brokers):
        if not cluster.topology.alive[down]:
            continue
        failed = np.zeros(cluster.topology.brokers, np.bool_)
        failed[down] = True
        alone = failover.after(cluster, failed, rules)
        led = alone.election.moved & (alone.election.old == down)
        assert every.moved[down] == (led & (alone.election.new >= 0)).sum()
        assert every.leaderless[down] == (led & (alone.election.new < 0)).sum()
        for other in range(cluster.topology.brokers):
            # Partitions led from a broker that is dead already are elected anew only when each is looked at alone.
            if other != down and cluster.topology.alive[cluster.topology.leader[cluster.topology.leader >= 0]].all():
                assert cluster.sums.cpu[other] + every.cpu[down, other] == pytest.approx(alone.sums.cpu[other])
                assert cluster.sums.nw_out[other] + every.out[down, other] == pytest.approx(alone.sums.nw_out[other])


@settings(max_examples=60, deadline=None)
@given(clusters(), st.data())
def test_elections_follow_the_rule(cluster: Cluster, data: st.DataObject) -> None:
    """A clean new leader is alive and in sync (or eligible), and stands before every other such replica."""
    made = cluster.topology
    failed = np.array(data.draw(st.lists(st.booleans(), min_size=made.brokers, max_size=made.brokers)), np.bool_)
    found = failover.elect(made, failed, ElectionRules())
    for place, row in enumerate(found.rows.tolist()):
        new = int(found.new[place])
        living = [
            int(r) for k, r in enumerate(made.replicas[row]) if made.held[row, k] and made.alive[r] and not failed[r]
        ]
        left = [int(r) for k, r in enumerate(made.replicas[row]) if made.isr[row, k] and not failed[r]]
        pool = [r for r in living if r in left]
        if not left and made.elr_known[row]:
            pool = [int(r) for k, r in enumerate(made.replicas[row]) if made.elr[row, k] and int(r) in living]
        if not found.moved[place] and found.old[place] >= 0:
            assert new == found.old[place] and new in living
        else:
            assert new == (pool[0] if pool else -1)
        assert found.in_sync[place] == len(left)


@settings(max_examples=60, deadline=None)
@given(clusters())
def test_loads_after_a_failure_add_up(cluster: Cluster) -> None:
    """Leadership moves keep the cluster's CPU and network out; physically, network out never grows."""
    failed = np.zeros(cluster.topology.brokers, np.bool_)
    failed[0] = True
    found = failover.after(cluster, failed, ElectionRules())
    assert found.sums.cpu.sum() == pytest.approx(cluster.sums.cpu.sum())
    assert found.sums.nw_out.sum() == pytest.approx(cluster.sums.nw_out.sum())
    assert found.physical.sum() <= found.physical_before.sum() + 1e-6
    assert (found.physical[failed] == 0).all()


@settings(max_examples=60, deadline=None)
@given(clusters(), st.integers(0, 2**32 - 1))
def test_corrected_replicas_sum_to_the_measured_cpu(cluster: Cluster, seed: int) -> None:
    rng = np.random.default_rng(seed)
    made = cluster.topology
    count = made.size
    values = LeaderValues(*(rng.gamma(2.0, 50.0, count) for _ in range(7)))
    nan = np.full(made.brokers, np.nan)
    measured = Measured(rng.uniform(1, 700, made.brokers), nan, nan, None)
    loads = corrected_loads.corrected(made, values, CpuWeights(), measured)
    total = sums(made, loads)
    working = np.zeros(made.brokers, np.bool_)
    active = loads.held & (loads.leads | ~made.offline_replicas)
    working[np.unique(made.replicas[active])] = True
    assert total.cpu[working] == pytest.approx(measured.cpu[working])


@settings(max_examples=40, deadline=None)
@given(clusters())
def test_goals_are_decided_for_any_cluster(cluster: Cluster) -> None:
    found = goals.verdicts(cluster, Thresholds(), MinTopicLeaders("t0", 1))
    assert len(found) == 17
    assert all(isinstance(v.violated, bool) or v.violated is None for v in found)
    assert 0 <= goals.balancedness(found) <= 100
    names, index = cluster.topology.racks_index
    if not cluster.has_offline:
        rows = [set() for _ in range(cluster.topology.size)]
        twice = False
        for p in np.flatnonzero(cluster.topology.leader >= 0).tolist():
            racks = [index[r] for r in cluster.topology.replicas[p] if r >= 0]
            twice |= len(set(racks)) < len(racks)
        assert found[0].violated == twice and rows is not None and names


@settings(max_examples=80, deadline=None)
@given(
    st.integers(1, 6),
    st.lists(st.lists(st.integers(0, 6), min_size=3, max_size=3), min_size=1, max_size=6),
    st.integers(0, 5),
)
def test_extrapolation_states(minimum: int, counts: list[list[int]], allowed: int) -> None:
    """Each state by its definition, cell by cell."""
    made = []
    for number, row in enumerate(counts):
        made.append(windows.Window(number, 3, (), None, {"count": np.array(row, np.int32)}))
    found = windows.aggregate(made, 1000, minimum, allowed, np.array([0, 1, 2], np.int32))
    half = max(1, minimum // 2)
    for place in range(len(found.windows)):
        states = found.states[place]
        for p in range(3):
            k = counts[place][p]
            inner = 0 < place < len(found.windows) - 1
            around = inner and counts[place - 1][p] >= minimum and counts[place + 1][p] >= minimum
            expected = (
                "NONE" if k >= minimum else "AVG_AVAILABLE" if k >= half else "AVG_ADJACENT" if around
                else "FORCED_INSUFFICIENT" if k else "NO_VALID_EXTRAPOLATION"
            )  # fmt: skip
            assert windows.EXTRAPOLATIONS[0 if states is None else states[p]] == expected


@settings(max_examples=60, deadline=None)
@given(clusters(), st.floats(0.0, 0.2))
def test_headroom_of_all_failures_at_once_is_that_of_each(cluster: Cluster, cpu_capacity: float) -> None:
    limits = Thresholds(cpu_capacity=cpu_capacity, nw_out_capacity=0.05)
    apart = dataclasses.replace(cluster.topology, hosts=tuple(f"h{i}" for i in range(cluster.topology.brokers)))
    alone = dataclasses.replace(cluster, topology=apart)
    found = failover.singles(alone, ElectionRules())
    every = failover.single_headroom(alone, found, limits)
    for down, got in enumerate(every):
        failed = np.zeros(apart.brokers, np.bool_)
        failed[down] = True
        loads = {name: alone.sums.of(name) for name in RESOURCES}
        loads["CPU"] = np.maximum(loads["CPU"] + found.cpu[down], 0.0)
        loads["NW_OUT"] = loads["NW_OUT"] + found.out[down]
        assert got == failover.headroom(alone, failed, loads, limits)


@settings(max_examples=60, deadline=None)
@given(clusters(), st.integers(0, 2**32 - 1))
def test_partition_lists_are_the_marked_replicas(cluster: Cluster, seed: int) -> None:
    made = cluster.topology
    marks = np.random.default_rng(seed).random(made.replicas.shape) < 0.5
    for flags in (None, marks, np.zeros_like(marks)):
        wanted = made.held if flags is None else made.held & flags
        expected = [made.ids[row[take]].tolist() for row, take in zip(made.replicas, wanted, strict=True)]
        got = made.partition_lists(flags)
        assert got.dtype == pl.List(pl.Int32)
        assert got.to_list() == expected


@settings(max_examples=100, deadline=None)
@given(st.integers(1, 3), st.integers(4, 40), st.integers(0, 2**32 - 1))
def test_non_negative_fit_is_the_best_there_is(columns: int, rows: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    design = rng.random((rows, columns))
    target = design @ rng.normal(0.0, 1.0, columns) + rng.normal(0.0, 0.3, rows)
    assert fitted_weights.non_negative(design, target) == pytest.approx(nnls(design, target)[0], abs=1e-9)


@settings(max_examples=40, deadline=None)
@given(clusters(), st.integers(0, 2**32 - 1))
def test_what_removing_traffic_frees_is_the_difference_of_two_models(cluster: Cluster, seed: int) -> None:
    """The fitted model of a broker with and without one replica, as a share of what was measured."""
    rng = np.random.default_rng(seed)
    made = cluster.topology
    values = LeaderValues(*(rng.gamma(2.0, 50.0, made.size) for _ in range(7)))
    nan = np.full(made.brokers, np.nan)
    measured = Measured(rng.uniform(1, 700, made.brokers), nan, nan, None)
    loads = corrected_loads.fitted(made, values, (0.003, 0.0005, 0.001), np.full(made.brokers, 8.0), measured)
    got = corrected_loads.removed(made, loads, measured.cpu)
    for row, column in np.argwhere(loads.held)[:20].tolist():
        broker = made.replicas[row, column]
        on = loads.held & (made.replicas == broker)
        whole = loads.cpu[on].sum()
        without = whole - loads.cpu[row, column]
        assert got[row, column] == pytest.approx(
            measured.cpu[broker] * (1 - without / whole) if whole else 0.0, abs=1e-9
        )
