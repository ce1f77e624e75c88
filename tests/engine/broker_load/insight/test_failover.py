"""Elections and loads after failures."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.broker_load.cruise_control.cluster_model import Cluster
from engine.broker_load.insight import failover
from engine.broker_load.parameters import BrokerLoadParameters
from tests.chance import tries
from tests.engine.broker_load.random_clusters import clusters


@tries(12)
@given(clusters(), st.booleans())
def test_all_single_failures_at_once_agree_with_each_alone(cluster: Cluster, unclean: bool) -> None:
    rules = BrokerLoadParameters(unclean_leader_election=unclean, min_insync_replicas=2)
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
            # Partitions led from a broker that is dead already elect again only when each is looked at alone.
            if other != down and cluster.topology.alive[cluster.topology.leader[cluster.topology.leader >= 0]].all():
                assert cluster.sums.cpu[other] + every.cpu[down, other] == pytest.approx(alone.sums.cpu[other])
                assert cluster.sums.nw_out[other] + every.out[down, other] == pytest.approx(alone.sums.nw_out[other])


@tries(12)
@given(clusters(), st.data())
def test_elections_follow_the_rule(cluster: Cluster, data: st.DataObject) -> None:
    """A clean new leader is the first live replica in sync (or eligible)."""
    made = cluster.topology
    failed = np.array(data.draw(st.lists(st.booleans(), min_size=made.brokers, max_size=made.brokers)), np.bool_)
    found = failover.elect(made, failed, BrokerLoadParameters())
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


@tries(12)
@given(clusters())
def test_loads_after_a_failure_add_up(cluster: Cluster) -> None:
    """Leadership moves keep the cluster's CPU and network out; physically, network out never grows."""
    failed = np.zeros(cluster.topology.brokers, np.bool_)
    failed[0] = True
    found = failover.after(cluster, failed, BrokerLoadParameters())
    assert found.sums.cpu.sum() == pytest.approx(cluster.sums.cpu.sum())
    assert found.sums.nw_out.sum() == pytest.approx(cluster.sums.nw_out.sum())
    assert found.physical.sum() <= found.physical_before.sum() + 1e-6
    assert (found.physical[failed] == 0).all()
