"""Cruise Control's goals as predicates of a load snapshot.

See "Goals" and "Balancedness score" in docs/models/broker-load.md. Source: package ``analyzer.goals`` and
``KafkaCruiseControlUtils.balancednessCostByGoal``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from engine.broker_load.cruise_control import balance
from engine.broker_load.cruise_control.balance import MARGIN
from engine.broker_load.cruise_control.cluster_model import Cluster
from engine.broker_load.model.topology import Flags, Floats
from engine.broker_load.parameters import MinTopicLeaders, Thresholds

DEAD_NOTE = "dead brokers or offline replicas make every goal count as violated: their replicas must move"
"""Why every goal is violated while a replica is offline."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """One goal: Cruise Control's name, whether it is hard, violated (None: cannot be decided), the worst offender in words
    and how many there are."""

    goal: str
    hard: bool
    violated: bool | None
    detail: str
    offenders: int


def _words(cluster: Cluster, bad: Flags, load: Floats, limit: Floats, unit: str, what: str) -> str:
    if not bad.any():
        return ""
    with np.errstate(divide="ignore", invalid="ignore"):
        excess = np.where(bad, np.abs(load - limit), -np.inf)
    worst = int(np.argmax(excess))
    over = load[worst] - limit[worst]
    more = f" (and {int(bad.sum()) - 1} more)" if bad.sum() > 1 else ""
    word = "over" if over > 0 else "under"
    return (
        f"{what} {cluster.topology.ids[worst]}: {load[worst]:,.1f}{unit}, {abs(over):,.1f}{unit} {word} "
        f"the limit {limit[worst]:,.1f}{unit}{more}"
    )


def _capacity(cluster: Cluster, thresholds: Thresholds, resource: str, unit: str) -> tuple[bool | None, str, int]:
    alive = cluster.topology.alive
    if np.isnan(cluster.capacity(resource)[alive]).any():
        return None, "capacity unknown", 0
    bad = balance.over_capacity(cluster, resource, thresholds)
    share = thresholds.capacity(resource)
    load, limit = cluster.load(resource), share * cluster.room(resource)
    detail = _words(cluster, bad, load, limit, unit, "broker")
    return _nan(load[alive], bool(bad.any()), detail, int(bad.sum()))


def _nan(load: Floats, violated: bool, detail: str, count: int) -> tuple[bool | None, str, int]:
    if np.isnan(load).any():
        return (violated or None), (detail or "a load is NaN"), count
    return violated, detail, count


def _usage(cluster: Cluster, thresholds: Thresholds, resource: str, unit: str) -> tuple[bool | None, str, int]:
    limits = balance.band(cluster, resource, thresholds)
    alive = cluster.topology.alive
    if math.isnan(limits.average):
        return None, "capacity or load unknown", 0
    load, room = cluster.sums.of(resource), cluster.capacity(resource)
    low, high = limits.lower * room, limits.upper * room
    bad = alive & ((load < low) | (load > high))
    nearest = np.where(load > high, high, low)
    return _nan(load[alive], bool(bad.any()), _words(cluster, bad, load, nearest, unit, "broker"), int(bad.sum()))


def _counts(cluster: Cluster, counts: Floats, threshold: float) -> tuple[bool | None, str, int]:
    alive = cluster.topology.alive
    average = counts.sum() / max(int(alive.sum()), 1)
    margin = (threshold - 1) * MARGIN
    low, high = math.floor(average * (1 - margin)), math.ceil(average * (1 + margin))
    bad = alive & ((counts < low) | (counts > high))
    nearest = np.where(counts > high, float(high), float(low))
    return bool(bad.any()), _words(cluster, bad, counts, nearest, "", "broker"), int(bad.sum())


def _topic_replicas(cluster: Cluster, thresholds: Thresholds) -> tuple[bool | None, str, int]:
    alive = cluster.topology.alive
    table = cluster.topic_counts
    average = table.sum(axis=1) / max(int(alive.sum()), 1)
    margin = (thresholds.topic_balance - 1) * MARGIN
    up, down = np.ceil(average), np.floor(average)
    high = np.clip(np.ceil(average * (1 + margin)), up + thresholds.topic_min_gap, up + thresholds.topic_max_gap)
    low = np.clip(np.floor(average * (1 - margin)), down - thresholds.topic_max_gap, down - thresholds.topic_min_gap)
    low = np.maximum(low, 0)
    bad = ((table > high[:, None]) | (table < low[:, None])) & alive[None, :] & cluster.model_topics[:, None]
    if not bad.any():
        return False, "", 0
    excess = np.where(bad, np.maximum(table - high[:, None], low[:, None] - table), -1)
    topic, broker = np.unravel_index(int(np.argmax(excess)), excess.shape)
    name = cluster.topology.topics[topic]
    return (
        True,
        f"topic {name}: {table[topic, broker]} replicas on broker {cluster.topology.ids[broker]}, "
        f"allowed {low[topic]:.0f} to {high[topic]:.0f}",
        int(bad.any(axis=1).sum()),
    )


def _partition_word(cluster: Cluster, bad: np.ndarray) -> str:
    rows = np.flatnonzero(cluster.topology.leader >= 0)[bad]
    first = int(rows[0])
    topology = cluster.topology
    return f"{len(rows)} partitions, first {topology.topics[topology.topic[first]]}-{topology.partition[first]}"


def _rack_aware(cluster: Cluster) -> tuple[bool | None, str, int]:
    most, _ = cluster.topology.rack_counts
    bad = most > 1
    return (True, "two replicas in one rack: " + _partition_word(cluster, bad), int(bad.sum())) if bad.any() else (
        False, "", 0)  # fmt: skip


def _rack_spread(cluster: Cluster) -> tuple[bool | None, str, int]:
    most, fewest = cluster.topology.rack_counts
    bad = most - fewest > 1
    return (True, "unevenly over racks: " + _partition_word(cluster, bad), int(bad.sum())) if bad.any() else (
        False, "", 0)  # fmt: skip


def _min_leaders(cluster: Cluster, wanted: MinTopicLeaders) -> tuple[bool | None, str, int]:
    if not wanted.topics:
        return False, "off: no topic is named", 0
    try:
        pattern = re.compile(wanted.topics)
    except re.error as error:
        return None, f"not a regular expression: {error}", 0
    topology = cluster.topology
    chosen = np.array([bool(pattern.fullmatch(name)) for name in topology.topics], np.bool_)
    leads = topology.leader >= 0
    flat = topology.topic[leads].astype(np.int64) * topology.brokers + topology.leader[leads]
    counts = np.bincount(flat, minlength=len(topology.topics) * topology.brokers).reshape(-1, topology.brokers)
    bad = (counts < wanted.least) & chosen[:, None] & topology.alive[None, :]
    if not bad.any():
        return False, "", 0
    topic, broker = (int(axis[0]) for axis in np.nonzero(bad))
    return (
        True,
        f"topic {topology.topics[topic]}: {counts[topic, broker]} leaders on broker {topology.ids[broker]}",
        int(bad.any(axis=1).sum()),
    )


def _potential(cluster: Cluster, thresholds: Thresholds) -> tuple[bool | None, str, int]:
    alive = cluster.topology.alive
    room = cluster.capacity("NW_OUT")
    if np.isnan(room[alive]).any():
        return None, "capacity unknown", 0
    bad = alive & (cluster.sums.pnw_out > thresholds.capacity("NW_OUT") * room)
    limit = thresholds.capacity("NW_OUT") * room
    return bool(bad.any()), _words(cluster, bad, cluster.sums.pnw_out, limit, " KB/s", "broker"), int(bad.sum())


def _leader_in(cluster: Cluster, thresholds: Thresholds) -> tuple[bool | None, str, int]:
    alive = cluster.topology.alive
    load = cluster.sums.leader_nw_in
    limit = load[alive].sum() / max(int(alive.sum()), 1) * thresholds.nw_in_balance
    bad = alive & (load > limit)
    return bool(bad.any()), _words(cluster, bad, load, np.full(len(load), limit), " KB/s", "broker"), int(bad.sum())


def _too_many(cluster: Cluster, thresholds: Thresholds) -> tuple[bool | None, str, int]:
    counts = cluster.sums.replicas.astype(np.float64)
    bad = cluster.topology.alive & (counts > thresholds.max_replicas)
    limit = np.full(len(counts), float(thresholds.max_replicas))
    return bool(bad.any()), _words(cluster, bad, counts, limit, "", "broker"), int(bad.sum())


def verdicts(cluster: Cluster, thresholds: Thresholds, min_leaders: MinTopicLeaders) -> list[Verdict]:
    """Decide all 17 goals, in Cruise Control's order of priority."""
    replicas, leaders = cluster.sums.replicas.astype(np.float64), cluster.sums.leaders.astype(np.float64)
    core = " % of a core"
    each: list[tuple[str, bool, Callable[[], tuple[bool | None, str, int]]]] = [
        ("RackAwareGoal", True, lambda: _rack_aware(cluster)),
        ("RackAwareDistributionGoal", True, lambda: _rack_spread(cluster)),
        ("MinTopicLeadersPerBrokerGoal", True, lambda: _min_leaders(cluster, min_leaders)),
        ("ReplicaCapacityGoal", True, lambda: _too_many(cluster, thresholds)),
        ("DiskCapacityGoal", True, lambda: _capacity(cluster, thresholds, "DISK", " MB")),
        ("NetworkInboundCapacityGoal", True, lambda: _capacity(cluster, thresholds, "NW_IN", " KB/s")),
        ("NetworkOutboundCapacityGoal", True, lambda: _capacity(cluster, thresholds, "NW_OUT", " KB/s")),
        ("CpuCapacityGoal", True, lambda: _capacity(cluster, thresholds, "CPU", core)),
        ("ReplicaDistributionGoal", False, lambda: _counts(cluster, replicas, thresholds.replica_balance)),
        ("PotentialNwOutGoal", False, lambda: _potential(cluster, thresholds)),
        ("DiskUsageDistributionGoal", False, lambda: _usage(cluster, thresholds, "DISK", " MB")),
        ("NetworkInboundUsageDistributionGoal", False, lambda: _usage(cluster, thresholds, "NW_IN", " KB/s")),
        ("NetworkOutboundUsageDistributionGoal", False, lambda: _usage(cluster, thresholds, "NW_OUT", " KB/s")),
        ("CpuUsageDistributionGoal", False, lambda: _usage(cluster, thresholds, "CPU", core)),
        ("TopicReplicaDistributionGoal", False, lambda: _topic_replicas(cluster, thresholds)),
        ("LeaderReplicaDistributionGoal", False, lambda: _counts(cluster, leaders, thresholds.leader_balance)),
        ("LeaderBytesInDistributionGoal", False, lambda: _leader_in(cluster, thresholds)),
    ]
    decided = []
    for goal, hard, decide in each:
        violated, detail, count = decide()
        if cluster.has_offline:
            violated, detail = True, DEAD_NOTE + (f"; {detail}" if detail else "")
        decided.append(Verdict(goal, hard, violated, detail, count))
    return decided


NOT_DEFAULT = frozenset({"RackAwareDistributionGoal"})
"""Goals that are no part of Cruise Control's default list, by which the balancedness score is made."""


def balancedness(verdicts: list[Verdict], priority: float = 1.1, strictness: float = 1.5) -> float:
    """Return Cruise Control's score: 100 minus the costs of violated goals (with offline replicas it is -1, see the caller).

    A goal costs ``priority`` to the power of its rank from the lowest priority, times ``strictness`` if hard; all
    costs together make 100.
    """
    listed = [verdict for verdict in verdicts if verdict.goal not in NOT_DEFAULT]
    costs = [
        priority ** (len(listed) - 1 - rank) * (strictness if verdict.hard else 1.0)
        for rank, verdict in enumerate(listed)
    ]
    lost = sum(cost for cost, verdict in zip(costs, listed, strict=True) if verdict.violated)
    return max(100.0 - 100.0 * lost / sum(costs), 0.0) if costs else 100.0
