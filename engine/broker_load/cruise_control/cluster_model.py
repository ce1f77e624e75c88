"""The cluster model: replica loads summed per broker, host and cluster, with states, capacities and statistics.

Source: ``ClusterModel``, ``ClusterModelStats``, ``BasicStats`` and ``BrokerStats``. Cores and percentages of a dead broker
count nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, cached_property
from typing import Any

import msgspec
import numpy as np
import polars as pl

from engine.broker_load.cruise_control.replica_loads import Loads
from engine.broker_load.cruise_control.samples import NO_RATES
from engine.broker_load.model.broker_capacity import Capacities
from engine.broker_load.model.topology import Flags, Floats, Ints, Topology, tally
from engine.broker_load.tables.columns import known
from engine.broker_load.tables.loads import HOSTS
from engine.core.units import named

RESOURCES = ("CPU", "NW_IN", "NW_OUT", "DISK")
"""Cruise Control's names; loads, sums and capacities have fields of the same names in lower case."""
HOST_RESOURCES = frozenset({"CPU", "NW_IN", "NW_OUT"})
"""Resources that brokers on one host share: Cruise Control compares the host's load with the host's capacity."""


class BrokerSums(msgspec.Struct, frozen=True, eq=False):
    """Sums over the replicas of each broker [B]: CPU % of a core, disk MB, rates KB/s, counts."""

    cpu: Floats
    disk: Floats
    nw_in: Floats
    nw_out: Floats
    leader_nw_in: Floats
    pnw_out: Floats
    leaders: Ints
    replicas: Ints
    disk_total: float

    def raw(self, resource: str) -> Floats:
        """Return the sum of one of RESOURCES; negative readings make it negative."""
        return getattr(self, resource.lower())

    def of(self, resource: str) -> Floats:
        """Return the sum of one of RESOURCES, not below 0 (NaN stays)."""
        return np.maximum(self.raw(resource), 0.0)


def sums(topology: Topology, loads: Loads, single: bool = False) -> BrokerSums:
    """Add up ``loads`` per broker.

    ``single``: sum the disk in single precision in order of topic and partition, with Cruise Control's rounding.
    """
    held, leads = loads.held, loads.leads
    index, total = topology.replicas[held], topology.brokers
    leader = leads[held]
    parts = [tally(index, v[held], total) for v in (loads.cpu, loads.disk, loads.nw_in)]
    if single:
        sizes = loads.disk[held].astype(np.float32)
        disk = np.zeros(total, np.float32)
        np.add.at(disk, index, sizes)
        parts[1] = disk.astype(np.float64)
        disk_total = float(np.cumsum(sizes, dtype=np.float32)[-1]) if len(sizes) else 0.0
    else:
        disk_total = float(parts[1].sum())
    led = index[leader]
    return BrokerSums(
        cpu=parts[0],
        disk=parts[1],
        nw_in=parts[2],
        nw_out=tally(index, loads.nw_out[held], total),
        leader_nw_in=tally(led, loads.nw_in[leads], total),
        pnw_out=tally(index, np.broadcast_to(loads.potential[:, None], held.shape)[held], total),
        leaders=np.bincount(led, minlength=total).astype(np.int32),
        replicas=np.bincount(index, minlength=total).astype(np.int32),
        disk_total=disk_total,
    )


class Cluster(msgspec.Struct, frozen=True, eq=False, dict=True):
    """A cluster at one moment: topology, capacities, replica loads and their sums. ``unknown``: resources whose loads nothing
    among the inputs gives, and why, in words; their loads count as 0 here, as in Cruise Control. ``lacking``: brokers
    by id whose partitions have no load, and why, so that all loads are lower bounds."""

    topology: Topology
    capacities: Capacities
    loads: Loads
    sums: BrokerSums
    unknown: Mapping[str, str] = msgspec.field(default_factory=dict)
    lacking: Mapping[int, str] = msgspec.field(default_factory=dict)

    @cached_property
    def states(self) -> tuple[str, ...]:
        """[B] ALIVE, DEAD or BAD_DISKS (alive with an offline replica in the model)."""
        topology = self.topology
        bad = np.zeros(topology.brokers, np.bool_)
        bad[np.unique(topology.replicas[self.loads.held & topology.offline])] = True
        return tuple(
            "DEAD" if not alive else "BAD_DISKS" if broken else "ALIVE"
            for alive, broken in zip(topology.alive.tolist(), bad.tolist(), strict=True)
        )

    @cached_property
    def has_offline(self) -> bool:
        """Whether a replica in the model is offline or on a dead broker: Cruise Control must then move it."""
        return bool((self.topology.offline_replicas & self.loads.held).any())

    def capacity(self, resource: str) -> Floats:
        """Return the capacity [B] of one of RESOURCES; NaN if it or the load is unknown, 0 on dead brokers."""
        return np.where(self.topology.alive & (resource in self.unknown), np.nan, self.given(resource))

    def given(self, resource: str) -> Floats:
        """Return the capacity [B] of one of RESOURCES, whether or not the load is known."""
        return np.where(self.topology.alive, getattr(self.capacities, resource.lower()), 0.0)

    def lacks(self, resource: str) -> bool:
        """Whether the load of some brokers is unknown; sizes are known where only rates are missing."""
        return any(resource != "DISK" or why != NO_RATES for why in self.lacking.values())

    @cached_property
    def missing(self) -> str:
        """What is needed to judge loads and is not known, in words; empty if nothing is."""
        alive = self.topology.alive
        without = [name for name in RESOURCES if np.isnan(self.capacity(name)[alive]).any()]
        reasons = [self.unknown.get(name, self.capacities.missing) for name in without]
        for why in dict.fromkeys(self.lacking.values()):
            ids = [broker for broker, reason in self.lacking.items() if reason == why]
            reasons.append(f"broker{'s' if len(ids) > 1 else ''} {named(ids, 6)}: {why}")
        return "; ".join(dict.fromkeys(reasons))

    def by_host(self, value: Floats) -> Floats:
        """Return ``value`` [B] summed over the brokers of each broker's host."""
        machines, index = self.topology.machines
        return tally(index, value, machines)[index]

    def compared(self, resource: str, load: Floats) -> Floats:
        """Return the load [B] that Cruise Control compares, at least 0: the host's for CPU and network, the broker's for disk."""
        return np.maximum(self.by_host(load) if resource in HOST_RESOURCES else load, 0.0)

    def load(self, resource: str) -> Floats:
        """Return the load [B] as Cruise Control compares it."""
        return self.compared(resource, self.sums.raw(resource))

    def room(self, resource: str) -> Floats:
        """Return the capacity [B] as Cruise Control compares it: the host's for CPU and network, the broker's for disk."""
        value = self.capacity(resource)
        return self.by_host(value) if resource in HOST_RESOURCES else value

    def total(self, resource: str) -> float:
        """Return the load of the cluster, offline replicas included."""
        if resource == "DISK":
            return max(self.sums.disk_total, 0.0)
        return float(np.maximum(self.sums.raw(resource).sum(), 0.0))

    def total_capacity(self, resource: str) -> float:
        """Return the capacity of the alive brokers."""
        return float(self.capacity(resource)[self.topology.alive].sum())

    def utilisation(self, resource: str) -> float:
        """Return cluster load over capacity of the alive brokers; NaN where unknown."""
        whole = self.total_capacity(resource)
        return self.total(resource) / whole if whole > 0 else float("nan")

    @cached_property
    def model_topics(self) -> Flags:
        """[T] topics with at least one partition in the model."""
        present = np.zeros(len(self.topology.topics), np.bool_)
        present[self.topology.topic[self.topology.leader >= 0]] = True
        return present

    def with_loads(self, topology: Topology, loads: Loads) -> Cluster:
        """Return the same capacities under another placement or other loads."""
        return msgspec.structs.replace(self, topology=topology, loads=loads, sums=sums(topology, loads))


def statistics(cluster: Cluster) -> dict[str, dict[str, float]]:
    """Return Cruise Control's cluster statistics (``ClusterModelStats``): AVG, MAX, MIN, STD of each resource,
    potential network out and counts.

    MAX and MIN are host values for CPU and network, and include dead brokers for counts; STD is the deviation from a
    capacity-proportional share.
    """
    topology = cluster.topology
    alive = topology.alive
    count = int(alive.sum())
    out: dict[str, dict[str, float]] = {name: {} for name in ("AVG", "MAX", "MIN", "STD")}
    if not count:
        return out

    def note(name: str, average: float, low: float, high: float, deviation: float) -> None:
        out["AVG"][name], out["MAX"][name], out["MIN"][name], out["STD"][name] = average, high, low, deviation

    for resource, key in {"CPU": "cpu", "NW_IN": "nw_in_kbs", "NW_OUT": "nw_out_kbs", "DISK": "disk_mb"}.items():
        load, room = cluster.load(resource)[alive], cluster.room(resource)[alive]
        share = cluster.utilisation(resource)
        deviation = float(np.sqrt(np.mean((load - share * room) ** 2)))
        note(key, cluster.total(resource) / count, float(load.min()), float(load.max()), deviation)
    potential, room = np.maximum(cluster.sums.pnw_out, 0.0)[alive], cluster.capacity("NW_OUT")[alive]
    whole = float(room.sum())
    share = float(potential.sum()) / whole if whole > 0 else float("nan")
    deviation = float(np.sqrt(np.mean((potential - share * room) ** 2)))
    note("pnw_out_kbs", float(potential.mean()), float(potential.min()), float(potential.max()), deviation)
    for key, counts in (("replicas", cluster.sums.replicas), ("leaders", cluster.sums.leaders)):
        average = float(counts.sum()) / count
        deviation = float(np.sqrt(np.mean((counts[alive] - average) ** 2)))
        note(key, average, float(counts.min()), float(counts.max()), deviation)
    if cluster.model_topics.any():
        topic, broker, held = topology.topic_counts
        kinds = len(topology.topics)
        averages = tally(topic, held, kinds) / count
        live = alive[broker]
        # Brokers without a replica of the topic are as far from the average as the average is from 0.
        empty = count - np.bincount(topic[live], minlength=kinds)
        off = tally(topic[live], (held[live] - averages[topic[live]]) ** 2, kinds)
        spread = np.sqrt((off + empty * averages**2) / count)[cluster.model_topics]
        everywhere = bool((np.bincount(topic, minlength=kinds)[cluster.model_topics] == topology.brokers).all())
        least = float(held.min()) if everywhere else 0.0
        average = float(averages[cluster.model_topics].mean())
        note("topic_replicas", average, least, float(held.max()), float(spread.mean()))
    else:
        note("topic_replicas", 0.0, 0.0, 0.0, 0.0)
    return out


def _percent(value: Floats, of: Floats, alive: Flags) -> Floats:
    """Return ``value`` in percent of ``of``; infinite (later null) on dead brokers and unknown capacities, NaN for a NaN load."""
    with np.errstate(divide="ignore", invalid="ignore"):
        share = 100.0 * value / of
    return np.where(alive & (of > 0), share, np.inf)


def _nulls(name: str, value: Floats) -> pl.Series:
    """Return a series with infinities as null; NaN stays, since a NaN load is shown as NaN."""
    series = pl.Series(name, value, dtype=pl.Float64)
    infinite = np.flatnonzero(np.isinf(value))
    return series.scatter(infinite, None) if len(infinite) else series


def load_columns(cluster: Cluster, sums: BrokerSums) -> dict[str, pl.Series]:
    """Return the load columns of one row per broker; what dead brokers use is unknown."""
    alive = cluster.topology.alive
    cpu, disk = sums.of("CPU"), sums.of("DISK")
    cores = np.where(alive, cluster.given("CPU") / 100.0, 0.0)
    return {
        "cores": known("cores", cores),
        "cpu_pct_cores": _nulls("cpu_pct_cores", np.where(alive, cpu, np.inf)),
        "cpu_pct": _nulls("cpu_pct", _percent(cpu, cluster.capacity("CPU"), alive)),
        "disk_mb": pl.Series("disk_mb", disk),
        "disk_pct": _nulls("disk_pct", _percent(disk, cluster.capacity("DISK"), alive)),
        "leader_nw_in_kbs": pl.Series("leader_nw_in_kbs", np.maximum(sums.leader_nw_in, 0.0)),
        "follower_nw_in_kbs": pl.Series("follower_nw_in_kbs", np.maximum(sums.nw_in - sums.leader_nw_in, 0.0)),
        "nw_out_kbs": pl.Series("nw_out_kbs", sums.of("NW_OUT")),
        "pnw_out_kbs": pl.Series("pnw_out_kbs", np.maximum(sums.pnw_out, 0.0)),
        "leaders": pl.Series("leaders", sums.leaders, dtype=pl.Int64),
        "replicas": pl.Series("replicas", sums.replicas, dtype=pl.Int64),
    }


@cache
def total(column: str) -> pl.Expr:
    """Return the sum of a column's known values; null if none is known."""
    return pl.when(pl.col(column).is_not_null().any()).then(pl.col(column).sum())


def hosts(cluster: Cluster) -> pl.DataFrame:
    """Return result table ``hosts``: sums of the brokers, also of CPU percentages; the disk percentage is computed from the sums.

    If a live broker's capacity is unknown, so is its host's: a sum of the other brokers would look complete.
    """
    topology = cluster.topology
    columns = load_columns(cluster, cluster.sums)
    frame = pl.DataFrame({"host": list(topology.hosts), "rack": list(topology.racks)} | columns)
    capacity = {"_cap": cluster.capacity("DISK"), "_unknown": np.isnan(cluster.capacity("CPU"))}
    frame = frame.with_columns(pl.Series(name, value) for name, value in capacity.items())
    summed = [name for name in columns if name != "disk_pct"]
    grouped = frame.group_by("host", maintain_order=True).agg(
        pl.col("rack").first(), *map(total, summed), pl.col("_cap").sum(), pl.col("_unknown").any()
    )
    # To Polars a NaN is above 0.
    share = pl.when((pl.col("_cap") > 0) & pl.col("_cap").is_not_nan()).then(100.0 * pl.col("disk_mb") / pl.col("_cap"))
    whole = [pl.when(~pl.col("_unknown")).then(pl.col(name)).alias(name) for name in ("cores", "cpu_pct")]
    return HOSTS.sorted(HOSTS.frame(grouped.with_columns(share.alias("disk_pct"), *whole).drop(list(capacity))))


def broker_columns(cluster: Cluster, sums: BrokerSums) -> dict[str, Any]:
    """Return the columns that name each broker, with its state, and its load columns."""
    topology = cluster.topology
    who = {
        "broker": topology.ids,
        "host": list(topology.hosts),
        "rack": list(topology.racks),
        "state": list(cluster.states),
    }
    return who | load_columns(cluster, sums)
