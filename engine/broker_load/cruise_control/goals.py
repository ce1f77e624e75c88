"""Balance limits, provision status, and Cruise Control's goals as predicates of a load snapshot.

See "Goals" and "Balancedness score" in docs/models/broker-load.md. Source: package ``analyzer.goals`` and
``KafkaCruiseControlUtils.balancednessCostByGoal``.

Source of limits and status: ``ResourceDistributionGoal``, ``CapacityGoal``, ``GoalUtils`` and ``ProvisionResponse``; see
"Balance limits" and "Provision status" in docs/models/broker-load.md.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np
import polars as pl

from engine.broker_load.cruise_control.cluster_model import HOST_RESOURCES, RESOURCES, Cluster
from engine.broker_load.model.topology import Flags, Floats, Topology, across, tally
from engine.broker_load.parameters import BrokerLoadParameters
from engine.broker_load.tables.verdicts import BALANCE
from engine.core.units import plural

MARGIN = 0.9  # share of (threshold − 1) that Cruise Control keeps as the band around the average


class Band(msgspec.Struct, frozen=True):
    """Balance limits of a resource as fractions of capacity, and whether the cluster is under-used."""

    average: float
    lower: float
    upper: float
    low: bool


def band(cluster: Cluster, resource: str, parameters: BrokerLoadParameters) -> Band:
    """Return the limits of a balanced broker; NaN where a capacity is unknown or a load is NaN."""
    average = cluster.utilisation(resource)
    margin = (parameters.balance_threshold(resource) - 1.0) * MARGIN
    low = average <= parameters.low_utilization_threshold
    upper = average * (1.0 + margin)
    if low:
        return Band(average, 0.0, max(upper, parameters.low_utilization_threshold * MARGIN), True)
    return Band(average, average * max(0.0, 1.0 - margin), upper, False)


class Usage(NamedTuple):
    """Load over capacity [B] (NaN unknown, infinite without capacity), and which brokers are over the capacity threshold."""

    share: Floats
    over: Flags


def usage(cluster: Cluster, resource: str, load: Floats, counted: Flags, parameters: BrokerLoadParameters) -> Usage:
    """Compare a raw ``load`` [B] with the capacities as the capacity goals do: disk per broker, network per host, CPU per
    either, whichever is fuller. ``counted`` [B]: whose loads and capacities count; dead brokers are never over."""
    limit = parameters.capacity_threshold(resource)
    load, room = np.where(counted, load, 0.0), np.where(counted, cluster.capacity(resource), 0.0)
    compared, whole = cluster.compared(resource, load), cluster.by_host(room) if resource in HOST_RESOURCES else room
    with np.errstate(divide="ignore", invalid="ignore"):
        share, over = compared / whole, compared > limit * whole
        if resource == "CPU":
            own = np.maximum(load, 0.0)
            share, over = np.fmax(share, own / room), over | (own > limit * room)
    return Usage(share, over & counted & cluster.topology.alive)


def over_capacity(cluster: Cluster, resource: str, parameters: BrokerLoadParameters) -> Flags:
    """Return flags [B] of alive brokers above the capacity threshold."""
    return usage(
        cluster, resource, cluster.sums.raw(resource), np.ones(cluster.topology.brokers, np.bool_), parameters
    ).over


def within(cluster: Cluster, resource: str, limits: Band) -> Flags:
    """Return flags [B] of alive brokers (hosts, for CPU and network) within the limits."""
    load, room = cluster.load(resource), cluster.room(resource)
    with np.errstate(invalid="ignore"):
        inside = (load >= limits.lower * room) & (load <= limits.upper * room)
    return inside & cluster.topology.alive


def table(cluster: Cluster, parameters: BrokerLoadParameters) -> pl.DataFrame:
    """Return result table ``balance``."""
    rows: list[dict[str, Any]] = []
    for resource in RESOURCES:
        limits, known = band(cluster, resource, parameters), not cluster.lacks(resource)
        decided = known and cluster.total_capacity(resource) > 0
        rows.append(
            {
                "resource": resource,
                "cluster_load": cluster.total(resource) if known else None,
                "cluster_capacity_alive": cluster.total_capacity(resource),
                "avg_utilization": limits.average if known else None,
                "lower_threshold": limits.lower if known else None,
                "upper_threshold": limits.upper if known else None,
                "balanced_brokers": int(within(cluster, resource, limits).sum()) if decided else None,
                "brokers_over_capacity_threshold": _ids(cluster, over_capacity(cluster, resource, parameters)),
                "low_utilization": limits.low if decided else None,
            }
        )
    below = potential_below(cluster, parameters)
    decided = not (cluster.lacking or math.isnan(cluster.total_capacity("NW_OUT")))
    over = _ids(cluster, cluster.topology.alive & ~below & ~np.isnan(cluster.capacity("NW_OUT")))
    balanced = int(below.sum()) if decided else None
    rows.append({"resource": "POTENTIAL_NW_OUT", "balanced_brokers": balanced, "brokers_over_capacity_threshold": over})
    return BALANCE.frame({name: [row.get(name) for row in rows] for name in BALANCE.schema})


def _ids(cluster: Cluster, brokers: Flags) -> str:
    return "|".join(map(str, cluster.topology.ids[brokers].tolist()))


def potential_below(cluster: Cluster, parameters: BrokerLoadParameters) -> Flags:
    """Return flags [B] of alive brokers whose potential network out is within the network-out capacity threshold."""
    with np.errstate(invalid="ignore"):
        return cluster.topology.alive & (
            np.maximum(cluster.sums.pnw_out, 0.0)
            <= parameters.capacity_threshold("NW_OUT") * cluster.capacity("NW_OUT")
        )


def provision(cluster: Cluster, parameters: BrokerLoadParameters) -> tuple[str, str]:
    """Return UNDER_PROVISIONED, OVER_PROVISIONED, RIGHT_SIZED or UNDECIDED, and why in a sentence.

    Under-provisioned: the cluster's load exceeds the capacity threshold; the number of typical brokers to add is the
    missing capacity over a typical broker's usable one, rounded up. Over-provisioned: a resource is under the
    low-utilisation threshold. Only the cluster's mean is judged: single brokers may be over their thresholds.
    """
    topology = cluster.topology
    racks = {topology.racks[i] for i in np.flatnonzero(topology.alive).tolist()}
    widest = int(across(topology.whole)[topology.leader >= 0].max(initial=0))
    if widest > len(racks):
        why = f"{widest} replicas per partition need {widest} racks, {len(racks)} have live brokers"
        return "UNDER_PROVISIONED", why
    decided = False
    low = []
    for resource in RESOURCES:
        limits = band(cluster, resource, parameters)
        if math.isnan(limits.average):
            continue
        decided = True
        allowed = parameters.capacity_threshold(resource)
        if limits.average > allowed:
            typical = float(np.median(cluster.capacity(resource)[topology.alive]))
            missing = cluster.total(resource) - allowed * cluster.total_capacity(resource)
            why = f"mean {resource} is over its threshold"
            if allowed * typical > 0:
                brokers = math.ceil(min(missing / (allowed * typical), 2**31 - 1))
                why = f"add at least {brokers} brokers: {why} (of capacity {typical:.0f})"
            return "UNDER_PROVISIONED", why
        if limits.low:
            low.append(resource)
    if low and not cluster.missing:
        return "OVER_PROVISIONED", f"the cluster's mean {', '.join(low)} is at or under the low-utilisation threshold"
    if not decided or cluster.missing:
        return "UNDECIDED", cluster.missing or "capacities are unknown"
    return "RIGHT_SIZED", "the cluster's mean load is within every threshold"


DEAD_NOTE = "dead brokers or offline replicas make the goal count as violated: their replicas must move"
"""Why goals are violated while a replica is offline."""
LEADERS_ONLY = "LeaderBytesInDistributionGoal"
"""The only goal that moves no replica: it is judged by its load even while a replica is offline."""
NAN_NOTE = "a load is NaN, which Cruise Control never counts as over a limit"


class Verdict(msgspec.Struct, frozen=True):
    """One goal: Cruise Control's name, whether it is hard, violated (None: cannot be decided), the worst offender in words
    and how many there are."""

    goal: str
    hard: bool
    violated: bool | None
    detail: str
    offenders: int


Decision = tuple[bool | None, str, int]
"""Whether a goal is violated (None: cannot be decided), the worst offender in words, and how many there are."""

COUNTED = (" replicas", " leaders")  # units of whole numbers
TOPIC_GAPS = (2, 40)  # least and greatest distance of a topic's replica limits on a broker to its average


def _beyond(cluster: Cluster, bad: Flags, load: Floats, limit: Floats | float, unit: str) -> Decision:
    """Decide by the brokers ``bad`` [B], whose ``load`` [B] is beyond their ``limit``."""
    if not bad.any():
        return False, "", 0
    limit = np.broadcast_to(limit, load.shape)
    with np.errstate(divide="ignore", invalid="ignore"):
        excess = np.where(bad, np.abs(load - limit), -np.inf)
    worst, count = int(np.argmax(excess)), int(bad.sum())
    over = load[worst] - limit[worst]
    digits = ",.0f" if unit in COUNTED else ",.1f"
    detail = (
        f"broker {cluster.topology.ids[worst]}: {load[worst]:{digits}}{unit}, {abs(over):{digits}} "
        f"{'over' if over > 0 else 'under'} its limit of {limit[worst]:{digits}}"
    )
    return True, detail + (f" (and {count - 1} more)" if count > 1 else ""), count


def _of_cores(cluster: Cluster, cpu: Floats) -> Floats:
    """Return CPU [B] in % of the cores of each broker, as everything else shows it."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return 100.0 * cpu / cluster.capacity("CPU")


def _capacity(cluster: Cluster, parameters: BrokerLoadParameters, resource: str, unit: str) -> Decision:
    alive, bad = cluster.topology.alive, over_capacity(cluster, resource, parameters)
    if not bad.any() and (cluster.lacks(resource) or np.isnan(cluster.capacity(resource)[alive]).any()):
        return None, cluster.missing or "capacity unknown", 0
    load, limit = cluster.load(resource), parameters.capacity_threshold(resource) * cluster.room(resource)
    if resource == "CPU":
        load, limit = _of_cores(cluster, load), _of_cores(cluster, limit)
    violated, detail, count = _beyond(cluster, bad, load, limit, unit)
    return violated, detail or (NAN_NOTE if np.isnan(load[alive]).any() else ""), count


def _usage(cluster: Cluster, parameters: BrokerLoadParameters, resource: str, unit: str) -> Decision:
    """Decide by the brokers that are outside the limits together with their hosts."""
    limits = band(cluster, resource, parameters)
    alive = cluster.topology.alive
    if cluster.lacks(resource) or not cluster.total_capacity(resource) > 0:
        return None, cluster.missing or "capacity unknown", 0
    if math.isnan(limits.average):
        return True, "a load is NaN: no broker is within limits made from it", int(alive.sum())
    load, room = cluster.sums.of(resource), cluster.capacity(resource)
    low, high = limits.lower * room, limits.upper * room
    host, host_room = cluster.load(resource), cluster.room(resource)
    over = (load > high) & (host > limits.upper * host_room)
    under = (load < low) & (host < limits.lower * host_room)
    bad, limit = alive & (over | under), np.where(over, high, low)
    if resource == "CPU":
        load, limit = _of_cores(cluster, load), _of_cores(cluster, limit)
    return _beyond(cluster, bad, load, limit, unit)


def _counts(cluster: Cluster, counts: Floats, threshold: float, unit: str) -> Decision:
    alive = cluster.topology.alive
    average = counts.sum() / max(int(alive.sum()), 1)
    margin = (threshold - 1) * MARGIN
    low, high = math.floor(average * (1 - margin)), math.ceil(average * (1 + margin))
    bad = alive & ((counts < low) | (counts > high))
    return _beyond(cluster, bad, counts, np.where(counts > high, float(high), float(low)), unit)


def _topic_replicas(cluster: Cluster, parameters: BrokerLoadParameters) -> Decision:
    topology = cluster.topology
    topic_of, broker_of, held = topology.topic_counts
    alive, kinds = topology.alive, len(topology.topics)
    average = tally(topic_of, held, kinds) / max(int(alive.sum()), 1)
    margin = (parameters.topic_replica_count_balance_threshold - 1) * MARGIN
    up, down = np.ceil(average), np.floor(average)
    least, most = TOPIC_GAPS
    high = np.clip(np.ceil(average * (1 + margin)), up + least, up + most)
    low = np.maximum(np.clip(np.floor(average * (1 - margin)), down - most, down - least), 0)
    excess = np.where(alive[broker_of], np.maximum(held - high[topic_of], low[topic_of] - held), 0)
    # Brokers without a replica of the topic have 0, which is too few where the limit is above.
    lacking = (
        cluster.model_topics & (low > 0) & (np.bincount(topic_of[alive[broker_of]], minlength=kinds) < alive.sum())
    )
    bad = np.union1d(topic_of[excess > 0], np.flatnonzero(lacking))
    if not len(bad):
        return False, "", 0
    if (excess > 0).any() and excess.max() >= np.where(lacking, low, 0).max():
        place = int(np.argmax(excess))
        topic, count, broker = int(topic_of[place]), int(held[place]), int(broker_of[place])
    else:
        topic, count = int(np.argmax(np.where(lacking, low, 0))), 0
        broker = int(np.flatnonzero(alive & ~np.isin(np.arange(topology.brokers), broker_of[topic_of == topic]))[0])
    detail = (
        f"topic {topology.topics[topic]}: {plural(count, 'replica')} on broker {topology.ids[broker]}, "
        f"allowed {low[topic]:.0f} to {high[topic]:.0f}"
    )
    return True, detail, len(bad)


RACKS_UNKNOWN = "no broker's rack is known: kafka-broker-api-versions names them"
OF_RACKS = frozenset({"RackAwareGoal", "RackAwareDistributionGoal"})


def _racks(topology: Topology, bad: Flags) -> Decision:
    """Decide by the partitions with a leader that are ``bad``."""
    if not topology.racks_known:
        return None, RACKS_UNKNOWN, 0
    rows = np.flatnonzero(topology.leader >= 0)[bad]
    if not len(rows):
        return False, "", 0
    first = f"{topology.topics[topology.topic[rows[0]]]}-{topology.partition[rows[0]]}"
    return True, f"{len(rows)} partitions, first {first}" if len(rows) > 1 else f"partition {first}", len(rows)


def _min_leaders(cluster: Cluster, parameters: BrokerLoadParameters) -> Decision:
    if not parameters.topics_with_min_leaders_per_broker:
        return False, "off: no topic is named", 0
    try:
        pattern = re.compile(parameters.topics_with_min_leaders_per_broker)
    except re.error as error:
        return None, f"not a regular expression: {error}", 0
    topology = cluster.topology
    chosen = np.array([bool(pattern.fullmatch(name)) for name in topology.topics], np.bool_)
    leads = np.flatnonzero((topology.leader >= 0) & chosen[topology.topic])
    pair = topology.topic[leads].astype(np.int64) * topology.brokers + topology.leader[leads]
    names, counts = np.unique(pair, return_counts=True)
    enough = names[(counts >= parameters.min_topic_leaders_per_broker) & topology.alive[names % topology.brokers]]
    bad = np.flatnonzero(
        chosen & (np.bincount(enough // topology.brokers, minlength=len(chosen)) < topology.alive.sum())
    )
    if not len(bad):
        return False, "", 0
    topic = int(bad[0])
    satisfied = np.isin(topic * topology.brokers + np.arange(topology.brokers), enough)
    broker = int(np.flatnonzero(topology.alive & ~satisfied)[0])
    count = int(counts[names == topic * topology.brokers + broker].sum())
    return True, f"topic {topology.topics[topic]}: {plural(count, 'leader')} on broker {topology.ids[broker]}", len(bad)


def _potential(cluster: Cluster, parameters: BrokerLoadParameters) -> Decision:
    """Decide by the live brokers with a replica that are over their limit, whether or not a replica could move."""
    topology, load = cluster.topology, np.maximum(cluster.sums.pnw_out, 0.0)
    limit = parameters.capacity_threshold("NW_OUT") * cluster.capacity("NW_OUT")
    with np.errstate(invalid="ignore"):
        bad = topology.alive & (cluster.sums.replicas > 0) & (load > limit)
    if not bad.any() and (cluster.lacking or np.isnan(limit[topology.alive]).any()):
        return None, cluster.missing or "capacity unknown", 0
    return _beyond(cluster, bad, load, limit, " KB/s")


def _leader_in(cluster: Cluster, parameters: BrokerLoadParameters) -> Decision:
    alive, load = cluster.topology.alive, np.maximum(cluster.sums.leader_nw_in, 0.0)
    if cluster.lacking or "NW_IN" in cluster.unknown:
        return None, cluster.missing, 0
    limit = load[alive].sum() / max(int(alive.sum()), 1) * parameters.balance_threshold("NW_IN")
    least = parameters.low_utilization_threshold * np.nan_to_num(cluster.capacity("NW_IN"))
    violated, detail, count = _beyond(
        cluster, alive & (load > np.maximum(limit, least)), load, np.maximum(limit, least), " KB/s"
    )
    return violated, detail or (NAN_NOTE if np.isnan(load[alive]).any() else ""), count


def verdicts(cluster: Cluster, parameters: BrokerLoadParameters) -> list[Verdict]:
    """Decide all 17 goals, in Cruise Control's order of priority."""
    replicas, leaders = cluster.sums.replicas.astype(np.float64), cluster.sums.leaders.astype(np.float64)
    most, fewest = cluster.topology.rack_counts
    room = float(parameters.max_replicas_per_broker)
    crowded = cluster.topology.alive & (replicas > room)
    each: list[tuple[str, bool, Callable[[], Decision]]] = [
        ("RackAwareGoal", True, lambda: _racks(cluster.topology, most > 1)),
        ("RackAwareDistributionGoal", True, lambda: _racks(cluster.topology, most - fewest > 1)),
        ("MinTopicLeadersPerBrokerGoal", True, lambda: _min_leaders(cluster, parameters)),
        ("ReplicaCapacityGoal", True, lambda: _beyond(cluster, crowded, replicas, room, " replicas")),
        ("DiskCapacityGoal", True, lambda: _capacity(cluster, parameters, "DISK", " MB")),
        ("NetworkInboundCapacityGoal", True, lambda: _capacity(cluster, parameters, "NW_IN", " KB/s")),
        ("NetworkOutboundCapacityGoal", True, lambda: _capacity(cluster, parameters, "NW_OUT", " KB/s")),
        ("CpuCapacityGoal", True, lambda: _capacity(cluster, parameters, "CPU", "%")),
        (
            "ReplicaDistributionGoal",
            False,
            lambda: _counts(cluster, replicas, parameters.replica_count_balance_threshold, " replicas"),
        ),
        ("PotentialNwOutGoal", False, lambda: _potential(cluster, parameters)),
        ("DiskUsageDistributionGoal", False, lambda: _usage(cluster, parameters, "DISK", " MB")),
        ("NetworkInboundUsageDistributionGoal", False, lambda: _usage(cluster, parameters, "NW_IN", " KB/s")),
        ("NetworkOutboundUsageDistributionGoal", False, lambda: _usage(cluster, parameters, "NW_OUT", " KB/s")),
        ("CpuUsageDistributionGoal", False, lambda: _usage(cluster, parameters, "CPU", "%")),
        (
            "TopicReplicaDistributionGoal",
            False,
            lambda: _topic_replicas(cluster, parameters),
        ),
        (
            "LeaderReplicaDistributionGoal",
            False,
            lambda: _counts(cluster, leaders, parameters.leader_replica_count_balance_threshold, " leaders"),
        ),
        ("LeaderBytesInDistributionGoal", False, lambda: _leader_in(cluster, parameters)),
    ]
    decided = []
    for goal, hard, decide in each:
        violated, detail, count = decide()
        if cluster.has_offline and goal != LEADERS_ONLY:
            violated, detail = True, DEAD_NOTE + (f"; {detail}" if detail else "")
        decided.append(Verdict(goal, hard, violated, detail, count))
    return decided


NOT_DEFAULT = frozenset({"RackAwareDistributionGoal"})
"""Goals outside Cruise Control's default list, which the balancedness score leaves out."""


def balancedness(
    verdicts: list[Verdict],
    violated: Sequence[bool | None] | None = None,
    priority: float = 1.1,
    strictness: float = 1.5,
) -> float:
    """Return Cruise Control's score: 100 minus the costs of violated goals; ``violated``: other ones than the verdicts say.

    With offline replicas the score is -1; the caller sees to that.

    A goal costs ``priority`` to the power of its rank from the lowest priority, times ``strictness`` if hard; all
    costs together make 100.
    """
    told = [verdict.violated for verdict in verdicts] if violated is None else violated
    listed = [(one.hard, bad) for one, bad in zip(verdicts, told, strict=True) if one.goal not in NOT_DEFAULT]
    costs = [
        priority ** (len(listed) - 1 - rank) * (strictness if hard else 1.0) for rank, (hard, _) in enumerate(listed)
    ]
    lost = sum(cost for cost, (_, bad) in zip(costs, listed, strict=True) if bad)
    return max(100.0 - 100.0 * lost / sum(costs), 0.0) if costs else 100.0
