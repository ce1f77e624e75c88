"""The cluster model: sums over replicas, resources of hosts, statistics."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from msgspec.structs import replace

from engine.broker_load.cruise_control.cluster_model import Cluster, load_columns, statistics, sums
from engine.broker_load.model.topology import Broker
from tests.chance import tries
from tests.engine.broker_load.random_clusters import clusters, loaded

BROKERS = {
    1: Broker("shared", "r", True, True),
    2: Broker("shared", "r", True, True),
    3: Broker("own", "s", True, True),
}
"""Two brokers of one host and one of its own; each has room for 100."""


@tries(12)
@given(clusters())
def test_broker_sums_are_the_sums_of_replicas(cluster: Cluster) -> None:
    loads = cluster.loads
    assert cluster.sums.cpu.sum() == pytest.approx(loads.cpu[loads.held].sum())
    assert cluster.sums.disk.sum() == pytest.approx(loads.disk[loads.held].sum())
    assert cluster.sums.leaders.sum() == (cluster.topology.leader >= 0).sum()
    assert (cluster.sums.pnw_out >= cluster.sums.nw_out - 1e-9).all()


def deviation(*distances: float) -> float:
    """Root of the mean square."""
    return math.sqrt(sum(each * each for each in distances) / len(distances))


def test_statistics_by_hand() -> None:
    """CPU and network of a host count for each of its brokers; distances are to the share that a broker's room deserves."""
    partitions = [("t", 0, 1, [1, 2]), ("t", 1, 2, [1, 2]), ("u", 0, 3, [3]), ("v", 0, -1, [1, 3])]
    cluster = loaded(partitions, BROKERS, cpu=(10, 20, 30), disk=(10, 20, 60), nw_out=(-5, 1, 1), pnw_out=(30, 20, -10))
    found = statistics(cluster)
    by_name = {name: tuple(found[each][name] for each in ("AVG", "MIN", "MAX", "STD")) for name in found["AVG"]}
    counts = (5 / 3, 1, 2, deviation(1 / 3, 1 / 3, 2 / 3))
    t, u = deviation(2 / 3, 2 / 3, 4 / 3), deviation(1 / 3, 1 / 3, 2 / 3)
    assert by_name == {
        "cpu": pytest.approx((20, 30, 30, 10)),
        "nw_in_kbs": (0, 0, 0, 0),
        "nw_out_kbs": pytest.approx((0, 0, 1, deviation(0, 0, 1))),
        "disk_mb": pytest.approx((30, 10, 60, deviation(20, 10, 30))),
        "pnw_out_kbs": pytest.approx((50 / 3, 0, 30, deviation(30 - 50 / 3, 20 - 50 / 3, 50 / 3))),
        "replicas": pytest.approx(counts),
        "leaders": pytest.approx((1, 1, 1, 0)),
        "topic_replicas": pytest.approx((5 / 6, 0, 2, (t + u) / 2)),
    }
    everywhere = statistics(loaded([("t", 0, 1, [1, 2, 3]), ("t", 1, 1, [1])], BROKERS))
    assert [everywhere[each]["topic_replicas"] for each in ("AVG", "MIN", "MAX")] == pytest.approx([4 / 3, 1, 2])
    nobody = {number: replace(broker, alive=False) for number, broker in BROKERS.items()}
    assert statistics(loaded(partitions, nobody)) == {"AVG": {}, "MAX": {}, "MIN": {}, "STD": {}}
    leaderless = statistics(loaded([("t", 0, -1, [1])], BROKERS))
    assert [each["topic_replicas"] for each in leaderless.values()] == [0, 0, 0, 0]


def test_dead_brokers_count_in_sums_and_not_in_averages() -> None:
    dead = BROKERS | {2: replace(BROKERS[2], alive=False)}
    cluster = loaded([("t", 0, 1, [1, 2, 3])], dead, cpu=(10, 60, 30), disk=(10, 60, 30), pnw_out=(10, 60, 30))
    found = statistics(cluster)
    assert (found["AVG"]["cpu"], found["MAX"]["cpu"], found["STD"]["cpu"]) == (50, 30, pytest.approx(deviation(40, 20)))
    assert (found["AVG"]["disk_mb"], found["MAX"]["disk_mb"]) == (50, 30)
    assert (found["AVG"]["pnw_out_kbs"], found["STD"]["pnw_out_kbs"]) == (20, 10)
    assert (found["AVG"]["replicas"], found["MIN"]["leaders"]) == (1.5, 0)
    assert found["STD"]["topic_replicas"] == found["STD"]["replicas"] == 0.5
    assert cluster.states == ("ALIVE", "DEAD", "ALIVE") and cluster.has_offline
    assert cluster.total_capacity("CPU") == 200 and cluster.utilisation("CPU") == 0.5
    assert cluster.capacity("DISK").tolist() == [100, 0, 100]


def test_no_sum_that_is_shown_is_negative() -> None:
    cluster = loaded(
        [("t", 0, 1, [1, 2, 3])], BROKERS, cpu=(-10, 4, 5), nw_in=(5, 3, 1), leader_nw_in=(2, 4, 1), disk=(-2, 1, 0)
    )
    assert load_columns(cluster, cluster.sums)["follower_nw_in_kbs"].to_list() == [3, 0, 0]
    assert cluster.sums.of("CPU").tolist() == [0, 4, 5] and cluster.sums.raw("CPU").tolist() == [-10, 4, 5]
    assert cluster.load("CPU").tolist() == [0, 0, 5] and cluster.load("DISK").tolist() == [0, 1, 0]
    assert cluster.total("CPU") == cluster.total("DISK") == 0
    nothing = loaded([("t", 0, 1, [1])], BROKERS, room=0.0)
    assert math.isnan(nothing.utilisation("CPU")) and math.isnan(statistics(nothing)["STD"]["pnw_out_kbs"])


def test_disks_are_added_up_in_single_precision_on_request() -> None:
    """In order of topic and partition, as Cruise Control does: each small size is lost beside a large one."""
    cluster = loaded([("t", number, 1, [1]) for number in range(3)], BROKERS)
    disk = np.array([[2.0**25], [1.0], [1.0]])
    again = cluster.with_loads(cluster.topology, replace(cluster.loads, disk=disk))
    assert again.sums.disk[0] == 2.0**25 + 2 and again.sums.disk_total == 2.0**25 + 2
    single = sums(cluster.topology, replace(cluster.loads, disk=disk), True)
    assert single.disk[0] == 2.0**25 and single.disk_total == 2.0**25
    nothing = loaded([("t", 0, -1, [1])], BROKERS)
    assert sums(nothing.topology, nothing.loads, True).disk_total == 0
