"""The cluster model: sums over replicas."""

from __future__ import annotations

import pytest
from hypothesis import given

from engine.broker_load.cruise_control.cluster_model import Cluster
from tests.chance import tries
from tests.engine.broker_load.random_clusters import clusters


@tries(30)
@given(clusters())
def test_broker_sums_are_the_sums_of_replicas(cluster: Cluster) -> None:
    loads = cluster.loads
    assert cluster.sums.cpu.sum() == pytest.approx(loads.cpu[loads.held].sum())
    assert cluster.sums.disk.sum() == pytest.approx(loads.disk[loads.held].sum())
    assert cluster.sums.leaders.sum() == (cluster.topology.leader >= 0).sum()
    assert (cluster.sums.pnw_out >= cluster.sums.nw_out - 1e-9).all()
