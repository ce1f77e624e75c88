"""Balance limits, low utilisation and provision status.

See "Balance limits" and "Provision status" in docs/models/broker-load.md. Source: ``ResourceDistributionGoal``,
``CapacityGoal``, ``GoalUtils`` and ``ProvisionResponse``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from engine.broker_load.cruise_control.cluster_model import HOST_RESOURCES, RESOURCES, Cluster
from engine.broker_load.model.topology import Flags, Floats
from engine.broker_load.parameters import BrokerLoadParameters
from engine.broker_load.tables.verdicts import BALANCE

MARGIN = 0.9
"""Share of (threshold − 1) that Cruise Control keeps as the band around the average."""


@dataclass(frozen=True, slots=True)
class Band:
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
    everyone = np.ones(cluster.topology.brokers, np.bool_)
    return usage(cluster, resource, cluster.sums.raw(resource), everyone, parameters).over


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
        limits = band(cluster, resource, parameters)
        decided = cluster.total_capacity(resource) > 0
        rows.append(
            {
                "resource": resource,
                "cluster_load": cluster.total(resource),
                "cluster_capacity_alive": cluster.total_capacity(resource),
                "avg_utilization": limits.average,
                "lower_threshold": limits.lower,
                "upper_threshold": limits.upper,
                "balanced_brokers": int(within(cluster, resource, limits).sum()) if decided else None,
                "brokers_over_capacity_threshold": _ids(cluster, over_capacity(cluster, resource, parameters)),
                "low_utilization": limits.low if decided else None,
            }
        )
    below = potential_below(cluster, parameters)
    decided = not math.isnan(cluster.total_capacity("NW_OUT"))
    over = _ids(cluster, cluster.topology.alive & ~below & decided)
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
    widest = int(topology.count[topology.leader >= 0].max(initial=0))
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
    if low:
        return "OVER_PROVISIONED", f"the cluster's mean {', '.join(low)} is at or under the low-utilisation threshold"
    if not decided:
        return "UNDECIDED", "capacities are unknown"
    return "RIGHT_SIZED", "the cluster's mean load is within every threshold"
