"""Goals by hand: which broker is beyond which limit, by how much, and how many are."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
from msgspec.structs import replace

from engine.broker_load.cruise_control import goals
from engine.broker_load.cruise_control.cluster_model import Cluster
from engine.broker_load.cruise_control.goals import Verdict
from engine.broker_load.model.topology import Broker
from engine.broker_load.parameters import BrokerLoadParameters
from tests.engine.broker_load.random_clusters import loaded

BROKERS = {number: Broker(f"h{number}", f"r{number}", True, True) for number in (1, 2, 3)}
Found = tuple[bool | None, str, int]


def three(
    partitions: Sequence[tuple[str, int, int, list[int]]] = (("t", 0, 1, [1, 2, 3]),), **given: Sequence[float]
) -> Cluster:
    """Three brokers with room for 100 of everything, without load but for the sums ``given``."""
    return loaded(partitions, BROKERS, **given)


def decided(cluster: Cluster, goal: str, **chosen: float | str) -> Found:
    """Whether a goal is violated, the worst offender and how many there are."""
    (found,) = (each for each in goals.verdicts(cluster, BrokerLoadParameters(**chosen)) if each.goal == goal)
    return found.violated, found.detail, found.offenders


def holding(*counts: int) -> Cluster:
    """A topic with the given numbers of single-replica partitions on three brokers."""
    places = [broker for broker, count in enumerate(counts, 1) for _ in range(count)]
    return three([("t", number, broker, [broker]) for number, broker in enumerate(places)])


@pytest.mark.parametrize(
    ("goal", "given", "wanted"),
    [
        ("DiskCapacityGoal", {"disk": (80, 0, 0)}, (False, "", 0)),
        ("DiskCapacityGoal", {"disk": (85, 90, 50)},
         (True, "broker 2: 90.0 MB, 10.0 over its limit of 80.0 (and 1 more)", 2)),
        ("CpuCapacityGoal", {"cpu": (math.nan, 0, 0)}, (False, goals.NAN_NOTE, 0)),
        ("CpuUsageDistributionGoal", {"cpu": (math.nan, 0, 0)},
         (True, "a load is NaN: no broker is within limits made from it", 3)),
        # The average is 50, so the limits are 45.5 and 54.5.
        ("DiskUsageDistributionGoal", {"disk": (45.5, 54.5, 50)}, (False, "", 0)),
        ("DiskUsageDistributionGoal", {"disk": (44, 52, 54)}, (True, "broker 1: 44.0 MB, 1.5 under its limit of 45.5", 1)),
        ("DiskUsageDistributionGoal", {"disk": (40, 60, 50)},
         (True, "broker 1: 40.0 MB, 5.5 under its limit of 45.5 (and 1 more)", 2)),
        ("LeaderBytesInDistributionGoal", {"leader_nw_in": (10, 10, 11)}, (False, "", 0)),
        ("LeaderBytesInDistributionGoal", {"leader_nw_in": (10, 10, 16)},
         (True, "broker 3: 16.0 KB/s, 2.8 over its limit of 13.2", 1)),
        ("LeaderBytesInDistributionGoal", {"leader_nw_in": (math.nan, 1, 1)}, (False, goals.NAN_NOTE, 0)),
        ("ReplicaDistributionGoal", {"replicas": (10, 10, 12)}, (False, "", 0)),
        ("ReplicaDistributionGoal", {"replicas": (10, 10, 13)}, (True, "broker 3: 13 replicas, 1 over its limit of 12", 1)),
        ("ReplicaDistributionGoal", {"replicas": (9, 12, 12)}, (True, "broker 1: 9 replicas, 1 under its limit of 10", 1)),
        ("LeaderReplicaDistributionGoal", {"leaders": (9, 12, 12)}, (True, "broker 1: 9 leaders, 1 under its limit of 10", 1)),
        ("ReplicaCapacityGoal", {"replicas": (10000, 10001, 0)},
         (True, "broker 2: 10,001 replicas, 1 over its limit of 10,000", 1)),
    ],
)  # fmt: skip
def test_loads_and_counts_beyond_their_limits(goal: str, given: dict[str, Sequence[float]], wanted: Found) -> None:
    assert decided(three(**given), goal) == wanted


def test_leader_bytes_below_the_low_utilisation_threshold_do_not_violate() -> None:
    cluster = three(leader_nw_in=(10, 10, 16))
    assert decided(cluster, "LeaderBytesInDistributionGoal", low_utilization_threshold=0.16) == (False, "", 0)
    alone = loaded([("t", 0, 1, [1])], {1: BROKERS[1]}, leader_nw_in=(16,), replicas=(9,))
    assert not decided(alone, "LeaderBytesInDistributionGoal")[0]
    assert not decided(alone, "ReplicaDistributionGoal")[0]


def test_a_broker_beyond_its_limits_is_no_offender_if_its_host_is_within() -> None:
    """Two brokers of one host, whose network and CPU count together; the disk does not."""
    shared = BROKERS | {2: BROKERS[1]}
    cluster = loaded([("t", 0, 1, [1, 2, 3])], shared, nw_in=(40, 60, 50), disk=(40, 60, 50))
    assert decided(cluster, "NetworkInboundUsageDistributionGoal") == (False, "", 0)
    assert decided(cluster, "DiskUsageDistributionGoal")[2] == 2


def test_unknown_capacities_leave_goals_undecided() -> None:
    room = np.array([100.0, math.nan, 100.0])
    unknown = (None, "capacity.json has no entry for some brokers and no default entry (-1)", 0)
    over = (True, "broker 1: 90.0 KB/s, 10.0 over its limit of 80.0", 1)
    for load, wanted in ((70, unknown), (90, over)):
        cluster = three(nw_out=(load, 90, 70), pnw_out=(load, 90, 70))
        cluster = replace(cluster, capacities=replace(cluster.capacities, nw_out=room))
        assert decided(cluster, "NetworkOutboundCapacityGoal") == wanted
        assert decided(cluster, "PotentialNwOutGoal") == wanted
        assert decided(cluster, "NetworkOutboundUsageDistributionGoal") == unknown


def test_a_broker_without_series_leaves_undecided_what_its_loads_would_decide() -> None:
    lacking = {3: "no CPU series"}
    for load, wanted in ((70, (None, "broker 3: no CPU series", 0)), (90, (True, None, 1))):
        cluster = replace(three(disk=(load, 10, 0), nw_out=(load, 10, 0), leader_nw_in=(load, 10, 0)), lacking=lacking)
        for goal in ("DiskCapacityGoal", "NetworkOutboundCapacityGoal"):
            violated, detail, count = decided(cluster, goal)
            assert (violated, detail if violated is None else None, count) == wanted
        for goal in (
            "DiskUsageDistributionGoal",
            "NetworkOutboundUsageDistributionGoal",
            "LeaderBytesInDistributionGoal",
        ):
            assert decided(cluster, goal) == (None, "broker 3: no CPU series", 0)
        assert decided(cluster, "LeaderReplicaDistributionGoal")[0] is not None


@pytest.mark.parametrize(
    ("counts", "threshold", "wanted"),
    [
        ((4, 1, 0), 1.0, (False, "", 0)),
        ((5, 0, 0), 1.0, (True, "topic t: 5 replicas on broker 1, allowed 0 to 4", 1)),
        ((6, 0, 0), 3.0, (False, "", 0)),
        ((5, 4, 0), 1.0, (True, "topic t: 0 replicas on broker 3, allowed 1 to 5", 1)),
        ((6, 3, 0), 1.0, (True, "topic t: 6 replicas on broker 1, allowed 1 to 5", 1)),
        ((70, 61, 49), 1.2, (False, "", 0)),
        ((70, 62, 48), 1.2, (True, "topic t: 48 replicas on broker 3, allowed 49 to 71", 1)),
        ((100, 60, 20), 3.0, (False, "", 0)),
        ((101, 57, 22), 3.0, (True, "topic t: 101 replicas on broker 1, allowed 20 to 100", 1)),
        ((99, 62, 19), 3.0, (True, "topic t: 19 replicas on broker 3, allowed 20 to 100", 1)),
    ],
)
def test_replicas_of_a_topic(counts: tuple[int, ...], threshold: float, wanted: Found) -> None:
    """The limits are at least 2 and at most 40 away from the average."""
    found = decided(holding(*counts), "TopicReplicaDistributionGoal", topic_replica_count_balance_threshold=threshold)
    assert found == wanted


def test_replicas_in_one_rack() -> None:
    partitions = [("t", 0, 1, [1, 2, 3]), ("t", 1, -1, [1, 2]), ("t", 2, 2, [1, 2]), ("u", 0, 1, [1, 3])]
    one_rack = BROKERS | {2: replace(BROKERS[2], rack="r1")}
    cluster = loaded(partitions, one_rack)
    assert decided(cluster, "RackAwareGoal") == (True, "2 partitions, first t-0", 2)
    assert decided(cluster, "RackAwareDistributionGoal") == (True, "partition t-2", 1)
    assert decided(three(partitions), "RackAwareGoal") == (False, "", 0)


def test_topics_that_need_leaders_everywhere() -> None:
    partitions = [
        ("t", 0, 1, [1]),
        ("t", 1, 2, [2]),
        ("t", 2, 2, [2]),
        ("u", 0, 1, [1]),
        ("u", 1, 2, [2]),
        ("u", 2, 3, [3]),
    ]
    cluster, goal = three(partitions), "MinTopicLeadersPerBrokerGoal"
    assert decided(cluster, goal) == (False, "off: no topic is named", 0)
    assert decided(cluster, goal, topics_with_min_leaders_per_broker="u") == (False, "", 0)
    assert decided(cluster, goal, topics_with_min_leaders_per_broker="t|u") == (
        True,
        "topic t: 0 leaders on broker 3",
        1,
    )
    leaderless = three([*partitions, ("u", 3, -1, [1])])
    assert decided(leaderless, goal, topics_with_min_leaders_per_broker="t|u")[2] == 1
    twice = decided(cluster, goal, topics_with_min_leaders_per_broker=".", min_topic_leaders_per_broker=2)
    assert twice == (True, "topic t: 1 leader on broker 1", 2)
    violated, detail, count = decided(cluster, goal, topics_with_min_leaders_per_broker="(")
    assert (violated, count) == (None, 0) and detail.startswith("not a regular expression")


def test_potential_network_out_counts_on_live_brokers_with_a_replica() -> None:
    partitions = [("t", 0, 1, [1]), ("u", 0, -1, [2, 3])]
    assert decided(three(partitions, pnw_out=(90, 95, 80)), "PotentialNwOutGoal")[::2] == (True, 1)
    dead = BROKERS | {1: replace(BROKERS[1], alive=False)}
    assert not decided(loaded([("t", 0, 2, [1, 2])], dead, pnw_out=(90, 80, 95)), "PotentialNwOutGoal")[2]


def test_goals_by_priority() -> None:
    """Cruise Control's order; the first eight are hard."""
    found = goals.verdicts(three(), BrokerLoadParameters())
    short = [each.goal.removesuffix("Goal").replace("Distribution", "Dist").replace("Network", "Nw") for each in found]
    assert short == [
        "RackAware", "RackAwareDist", "MinTopicLeadersPerBroker", "ReplicaCapacity", "DiskCapacity", "NwInboundCapacity",
        "NwOutboundCapacity", "CpuCapacity", "ReplicaDist", "PotentialNwOut", "DiskUsageDist", "NwInboundUsageDist",
        "NwOutboundUsageDist", "CpuUsageDist", "TopicReplicaDist", "LeaderReplicaDist", "LeaderBytesInDist",
    ]  # fmt: skip
    assert [each.hard for each in found] == [True] * 8 + [False] * 9


def test_balancedness_by_hand() -> None:
    """Hard goals cost half as much again, each rank a tenth more than the next; one goal is not in the list."""
    listed = [
        Verdict("RackAwareGoal", True, False, "", 0), Verdict("RackAwareDistributionGoal", True, True, "", 0),
        Verdict("DiskCapacityGoal", True, True, "", 0), Verdict("PotentialNwOutGoal", False, True, "", 0),
        Verdict("CpuUsageDistributionGoal", False, None, "", 0),
    ]  # fmt: skip
    whole = 1.331 * 1.5 + 1.21 * 1.5 + 1.1 + 1.0
    assert goals.balancedness(listed) == pytest.approx(100 - 100 * (1.21 * 1.5 + 1.1) / whole)
    assert goals.balancedness(listed, priority=1.0, strictness=1.0) == pytest.approx(50.0)
    assert goals.balancedness([]) == 100.0
    assert goals.balancedness(listed[2:4]) == 0.0
