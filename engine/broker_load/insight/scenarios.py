"""Other placements: demoted brokers, a planned reassignment, more brokers."""

from __future__ import annotations

import math
from collections.abc import Collection

import msgspec
import numpy as np
import polars as pl

from engine.broker_load.cruise_control import cluster_model, load_model, replica_loads
from engine.broker_load.cruise_control.cluster_model import RESOURCES, Cluster
from engine.broker_load.cruise_control.load_model import Model
from engine.broker_load.model import broker_capacity
from engine.broker_load.model.topology import Broker, Floats, Longs, Topology, build
from engine.broker_load.parameters import CpuWeights


class Reassignment(msgspec.Struct, frozen=True, eq=False):
    """The ``cluster`` after a plan, the partitions ``rows`` [K] in it with ``moved_mb`` [K] MB of data to move, and broker ids
    that only the plan names."""

    cluster: Cluster
    rows: Longs
    moved_mb: Floats
    new_brokers: list[int]


def reassign(
    model: Model, cluster: Cluster, planned: dict[int, list[int]], capacity: pl.DataFrame, estimate: bool,
    weights: CpuWeights, elected: Collection[int] = (),
) -> Reassignment:  # fmt: skip
    """Place replicas as ``planned`` (broker ids by partition). The leader stays if it keeps a replica, else the first replica
    leads. In partitions that are ``elected`` the first replica leads in any case, if it is in sync or will be.

    Loads are computed as in Cruise Control; ``capacity`` is the input table.
    """
    topology = cluster.topology
    lists = topology.replica_lists.to_list()
    leaders = topology.ids_of(topology.leader).tolist()
    sizes = np.where(cluster.loads.leads, cluster.loads.disk, 0.0).sum(axis=1)
    moved_mb = []
    order = sorted(planned)
    for p in order:
        moved_mb.append(sizes[p] * len(set(planned[p]) - set(lists[p])))
        lists[p] = planned[p]
        if leaders[p] not in planned[p] and leaders[p] >= 0:
            leaders[p] = planned[p][0]
    serving = topology.isr & ~topology.offline_replicas
    for p in elected:
        # A replica that is to be copied is in sync at the end, and with it every other one.
        held = dict(zip(topology.ids_of(topology.replicas[p]).tolist(), serving[p].tolist(), strict=True))
        if leaders[p] >= 0 and (held.get(lists[p][0], True) or not set(lists[p]) <= held.keys()):
            leaders[p] = lists[p][0]
    brokers = {
        int(i): Broker(topology.hosts[k], topology.racks[k], bool(topology.alive[k]), True)
        for k, i in enumerate(topology.ids.tolist())
    }
    new_brokers = sorted({b for p in order for b in planned[p]} - set(brokers))
    brokers |= {number: Broker(f"broker-{number}", "", True, True) for number in new_brokers}
    after = build(_placements(topology, leaders, lists), brokers)
    capacities = broker_capacity.resolve(capacity, after, estimate)
    if not cluster.capacities.file:
        cores = capacities.cores.copy()
        cpu = capacities.cpu.copy()
        cores[after.index_of(topology.ids)] = cluster.capacities.cores
        cpu[after.index_of(topology.ids)] = cluster.capacities.cpu
        capacities = msgspec.structs.replace(capacities, cores=cores, cpu=cpu)
    loads = replica_loads.as_cruise_control(after, model.values, load_model.window_loads(model.aggregate), weights)
    moved = Cluster(after, capacities, loads, cluster_model.sums(after, loads, True), cluster.unknown, cluster.lacking)
    return Reassignment(moved, np.array(order, np.int64), np.array(moved_mb), new_brokers)


def _placements(topology: Topology, leaders: list[int], lists: list[list[int]]) -> pl.DataFrame:
    """Return rows of input table ``topology`` with other leaders and replicas, all of them in sync."""
    some = pl.DataFrame(
        {
            "topic": topology.topic_names,
            "partition": topology.partition,
            "leader": pl.Series("leader", leaders, dtype=pl.Int32),
            "replicas": pl.Series("replicas", lists, dtype=pl.List(pl.Int32)),
            "min_isr": topology.min_isr,
        }
    )
    return some.with_columns(
        pl.col("replicas").alias("isr"),
        pl.lit([], pl.List(pl.Int32)).alias("offline"),
        pl.lit(None, pl.List(pl.Int32)).alias("elr"),
        pl.lit(None, pl.Boolean).alias("unclean"),
    )


def expansion_bounds(cluster: Cluster, count: int) -> list[dict[str, object]]:
    """Return rows of result table ``add_brokers``: bounds after adding ``count`` brokers of the median capacity.

    No placement beats the larger of two bounds: the total load spread perfectly, and the largest single replica.
    """
    alive = cluster.topology.alive
    rows: list[dict[str, object]] = []
    for resource in RESOURCES:
        capacity = cluster.capacity(resource)[alive]
        total, whole = cluster.total(resource), float(capacity.sum())
        if not whole > 0 or math.isnan(whole):
            continue
        typical = float(np.median(capacity))
        load = cluster.sums.of(resource)[alive]
        after = total / (whole + count * typical)
        biggest = float(np.nanmax(getattr(cluster.loads, resource.lower()), initial=0.0)) / float(
            max(capacity.max(), typical)
        )
        rows.append(
            {
                "resource": resource,
                "average_before_pct": 100 * total / whole,
                "average_after_pct": 100 * after,
                "highest_before_pct": 100 * float(np.max(load / capacity)),
                "least_highest_after_pct": 100 * max(after, biggest),
                "bound": "the largest single replica" if biggest > after else "the cluster's total load",
            }
        )
    return rows
