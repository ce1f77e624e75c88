"""Goals, balance limits and states of brokers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given

from engine.broker_load.cruise_control import goals
from engine.broker_load.cruise_control.cluster_model import Cluster
from engine.broker_load.parameters import BrokerLoadParameters
from tests.chance import tries
from tests.engine.broker_load.clusters import MB, simple
from tests.engine.broker_load.inputs import compute, read
from tests.engine.broker_load.random_clusters import clusters
from tests.reference import reference


def test_dead_broker_and_leaderless_goals(tmp_path: Path) -> None:
    """Every goal that moves replicas counts as violated and says why; capacity of alive brokers only."""
    made = simple(tmp_path)
    made.dead = {3}
    result = compute(read(made.write()))
    goals = {goal: (violated, detail) for goal, _, violated, detail, _ in result.tables["goals"].rows()}
    assert not goals.pop("LeaderBytesInDistributionGoal")[0]
    assert all(violated and "dead brokers" in detail for violated, detail in goals.values())
    assert result.summary["balancedness_score"] == -1.0
    balance = result.tables["balance"].row(0, named=True)
    assert balance["cluster_capacity_alive"] == 1600.0
    held = result.tables["replicas"].filter(pl.col("broker") == 3).row(0, named=True)
    assert held["offline"] and not held["leader"] and held["disk_mb"] == 10.0


def test_bad_disk(tmp_path: Path) -> None:
    """An alive broker with an offline replica."""
    made = simple(tmp_path)
    made.partition("v", 0, 1, "1|3", "1", "3")
    made.size(1, "v", 0, MB)
    states = dict(compute(read(made.write())).tables["brokers"].select("broker", "state").iter_rows())
    assert states == {1: "ALIVE", 2: "ALIVE", 3: "BAD_DISKS"}


def test_hosts_share_cpu_and_network(tmp_path: Path) -> None:
    """Two brokers on one host: limits are the host's, host rows are sums."""
    made = simple(tmp_path)
    made.hosts, made.racks = {1: "same", 2: "same"}, {1: "r", 2: "r"}
    result = compute(read(made.write()))
    hosts = {row["host"]: row for row in result.tables["hosts"].iter_rows(named=True)}
    cpu = dict(result.tables["brokers"].select("broker", "cpu_pct").iter_rows())
    assert hosts["same"]["cpu_pct"] == pytest.approx(cpu[1] + cpu[2])
    top = result.tables["cluster_stats"].filter(pl.col("statistic") == "MAX")["cpu"][0]
    assert top == pytest.approx((cpu[1] + cpu[2]) * 8)


def test_a_wide_balance_band_ends_at_zero(tmp_path: Path) -> None:
    """A threshold above 2.1 makes the margin more than the average: Cruise Control's lower limit is then 0, not negative."""
    given = read(simple(tmp_path).write())
    rows = compute(given, ("cpu-balance-threshold", "3.0")).tables["balance"].filter(pl.col("resource") == "CPU")
    row = rows.row(0, named=True)
    assert row["lower_threshold"] == 0.0
    assert row["upper_threshold"] == pytest.approx(row["avg_utilization"] * 2.8)


@tries(12)
@given(clusters())
def test_goals_are_decided_for_any_cluster(cluster: Cluster) -> None:
    found = goals.verdicts(cluster, BrokerLoadParameters(topics_with_min_leaders_per_broker="t0"))
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


def test_balancedness_follows_a_real_answer() -> None:
    """The cost formula gives the scores that a real server printed for its goals."""
    from engine.broker_load.cruise_control.goals import Verdict, balancedness

    root = reference("broker-load") / "real" / "amq-streams"
    goals = compute(read(root / "add_broker_dryrun.txt")).tables["answer_goals"]
    hard = {g for g in goals["goal"].to_list() if g.endswith("CapacityGoal")}
    before = [Verdict(g, g in hard, s != "NO-ACTION", "", 0) for g, s in goals.select("goal", "status").iter_rows()]
    after = [Verdict(g, g in hard, s == "VIOLATED", "", 0) for g, s in goals.select("goal", "status").iter_rows()]
    assert balancedness(before) == pytest.approx(goals["score_before"][0], abs=1e-3)
    assert balancedness(after) == pytest.approx(goals["score_after"][0], abs=1e-3)
