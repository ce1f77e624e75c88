"""Checks of each broker: broken thresholds, silence, and why its modelled CPU differs from the measured one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from engine.broker_load.cruise_control.balance import over_capacity, usage
from engine.broker_load.cruise_control.cluster_model import RESOURCES, BrokerSums, Cluster
from engine.broker_load.cruise_control.load_model import Model
from engine.broker_load.model.topology import Flags, Floats
from engine.broker_load.parameters import BrokerLoadParameters


def flags(model: Model, cluster: Cluster, parameters: BrokerLoadParameters) -> list[str]:
    """Return per broker what deserves a look."""
    topology = cluster.topology
    words: list[list[str]] = [[] for _ in range(topology.brokers)]
    for resource in RESOURCES:
        for index in np.flatnonzero(over_capacity(cluster, resource, parameters)).tolist():
            words[index].append(f"over {resource}")
    heard = np.ones(topology.brokers, np.bool_)
    if model.rounds:
        last = model.rounds[-1]
        where = last.topology.index_of(topology.ids)
        heard = np.append(last.heard, False)[where] | (where < 0)
    for index in np.flatnonzero(topology.alive & ~heard).tolist():
        words[index].append("silent")
    for index in np.flatnonzero(cluster.capacities.estimated & topology.alive).tolist():
        words[index].append("cap est.")
    return [", ".join(each) for each in words]


def cpu_residuals(model: Model, cluster: Cluster) -> tuple[Floats, Floats]:
    """Return measured CPU of each broker in % of its capacity, and modelled minus measured; NaN if unknown or dead."""
    alive = cluster.topology.alive
    with np.errstate(divide="ignore", invalid="ignore"):
        measured = np.where(alive, model.measured.cpu / cluster.capacity("CPU") * 100.0, np.nan)
        modelled = np.where(alive, cluster.sums.of("CPU") / cluster.capacity("CPU") * 100.0, np.nan)
    measured = np.where(np.isfinite(measured), measured, np.nan)
    return measured, np.where(np.isfinite(modelled - measured), modelled - measured, np.nan)


def residual_reasons(model: Model, cluster: Cluster, residual: Floats) -> list[str]:
    """Return why the modelled CPU differs from the measured one, per broker."""
    topology = cluster.topology
    out = []
    last = model.rounds[-1] if model.rounds else None
    where = last.topology.index_of(topology.ids) if last is not None else None
    skipped = np.zeros(topology.brokers, np.int64)
    if model.samples and model.maps[-1] is None and model.samples[-1].round.topology is topology:
        bad = (model.samples[-1].rule > 0) & (topology.leader >= 0)
        skipped = np.bincount(topology.leader[bad], minlength=topology.brokers)
    for index in range(topology.brokers):
        value = residual[index]
        if np.isnan(value):
            no_cpu = last is not None and topology.alive[index]
            out.append("no CPU reading" if no_cpu else "")
            continue
        if abs(value) < 0.05:
            out.append("")
            continue
        reasons = []
        if cluster is model.cluster:
            place = int(where[index]) if where is not None else -1
            if last is not None and place >= 0:
                if np.nan_to_num(last.totals[2, place]) == 0 and np.nan_to_num(last.reported[2, place]) > 0:
                    reasons.append("leaders get all of the CPU: Kafka publishes no replication rates per topic")
                if not last.complete[place]:
                    reasons.append("topics without sizes: broker totals kept as reported")
            if cluster.sums.replicas[index] > cluster.sums.leaders[index]:
                reasons.append("followers' CPU is derived from their leaders' brokers")
        if skipped[index]:
            led = f"{skipped[index]} led partition{'s' if skipped[index] > 1 else ''}"
            reasons.append(f"{led} without a sample in the newest round")
        if not reasons:
            reasons.append("CPU that the weights do not explain")
        out.append("; ".join(reasons))
    return out


def breaches(
    cluster: Cluster, sums: BrokerSums, counted: Flags, judged: Flags, parameters: BrokerLoadParameters
) -> list[str]:
    """Return per broker the capacity thresholds that ``sums`` break, in words.

    ``counted`` [B]: brokers whose loads and capacities count on their hosts; ``judged`` [B]: brokers that are checked.
    """
    words: list[list[str]] = [[] for _ in range(cluster.topology.brokers)]
    for resource in RESOURCES:
        found = usage(cluster, resource, sums.raw(resource), counted, parameters)
        for index in np.flatnonzero(found.over & judged).tolist():
            words[index].append(f"{resource} {100.0 * found.share[index]:.1f}%")
    return [", ".join(each) for each in words]


@dataclass(frozen=True, eq=False)
class Tightest:
    """The resource [B] of each broker nearest to (or furthest over) its capacity threshold, and the distance [B] in % of the
    capacity; empty and NaN if unknown."""

    resource: list[str]
    headroom: Floats


def tightest(
    cluster: Cluster, loads: Mapping[str, Floats], counted: Flags, parameters: BrokerLoadParameters
) -> Tightest:
    """Return the tightest resource of each counted, living broker under raw ``loads`` [B] by resource."""
    brokers = cluster.topology.brokers
    room, names = np.full(brokers, np.nan), np.full(brokers, "", dtype=object)
    for resource in RESOURCES:
        share = usage(cluster, resource, loads[resource], counted, parameters).share
        here = np.where(np.isfinite(share), (parameters.capacity_threshold(resource) - share) * 100.0, np.nan)
        here[~(counted & cluster.topology.alive)] = np.nan
        nearer = ~np.isnan(here) & ~(room <= here)
        room, names = np.where(nearer, here, room), np.where(nearer, resource, names)
    return Tightest(names.tolist(), room)
