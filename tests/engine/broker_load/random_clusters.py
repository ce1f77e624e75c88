"""Random clusters for property tests, and clusters of given sums, both made in memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import polars as pl
from hypothesis import strategies as st
from msgspec.structs import replace

from engine.broker_load.cruise_control import replica_loads
from engine.broker_load.cruise_control.cluster_model import Cluster, sums
from engine.broker_load.cruise_control.replica_loads import OF_WINDOW, LeaderValues, WindowLoad
from engine.broker_load.model import broker_capacity, topology
from engine.broker_load.model.broker_capacity import Capacities
from engine.broker_load.model.topology import Broker, Topology
from engine.broker_load.parameters import CpuWeights


def one_window(values: LeaderValues) -> list[WindowLoad]:
    """The window that has just these values."""
    rates = (values.bytes_in, values.bytes_out, values.replication_in, values.replication_out)
    parts = (part.astype(np.float32) for part in (values.cpu / 100.0, *rates))
    return [dict(zip(OF_WINDOW, parts, strict=True))]


def described(rows: Sequence[Sequence[object]]) -> pl.DataFrame:
    """Topology rows; each is (topic, number, leader, replicas, in sync, offline, ELR, min.insync.replicas, unclean)."""
    schema = {
        "topic": pl.String, "partition": pl.Int32, "leader": pl.Int32, "replicas": pl.List(pl.Int32),
        "isr": pl.List(pl.Int32), "offline": pl.List(pl.Int32), "elr": pl.List(pl.Int32), "min_isr": pl.Int32,
        "unclean": pl.Boolean,
    }  # fmt: skip
    return pl.DataFrame(rows, schema=schema, orient="row").sort("topic", "partition")


def _capacities(made: Topology, **each: float) -> Capacities:
    """The same capacities of every broker."""
    entry = {"broker": [-1], **{name: [value] for name, value in each.items()}, "log_dirs": [None], "doc": [""]}
    return broker_capacity.resolve(pl.DataFrame(entry), made, True)


def loaded(
    partitions: Sequence[tuple[str, int, int, list[int]]], brokers: Mapping[int, Broker], room: float = 100.0,
    **given: Sequence[float],
) -> Cluster:  # fmt: skip
    """A cluster of ``partitions`` (topic, number, leader, replicas) whose sums over replicas are 0 but for those ``given`` per
    broker; each broker has the same ``room`` for every resource."""
    rows = [(*each, each[3], [], None, 1, None) for each in partitions]
    made = topology.build(described(rows), dict(brokers))
    values = LeaderValues(*(np.zeros(made.size) for _ in range(7)))
    loads = replica_loads.as_cruise_control(made, values, one_window(values), CpuWeights())
    capacities = _capacities(made, disk_mb=room, cpu=100.0, cores=room / 100, nw_in_kbs=room, nw_out_kbs=room)
    totals = replace(sums(made, loads), **{name: np.array(value, np.float64) for name, value in given.items()})
    return Cluster(made, capacities, loads, replace(totals, disk_total=float(totals.disk.sum())))


@st.composite
def clusters(draw: st.DrawFn) -> Cluster:
    """A random cluster with loads as in Cruise Control; leaderless partitions, short ISRs, dead brokers, ELR."""
    brokers = draw(st.integers(1, 6))
    count = draw(st.integers(1, 12))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    rows = []
    for number in range(count):
        replicas = rng.permutation(brokers)[: rng.integers(1, brokers + 1)].tolist()
        isr = [b for b in replicas if rng.random() < 0.7]
        leader = int(rng.choice(isr)) if isr and rng.random() < 0.9 else -1
        elr = [b for b in replicas if b not in isr and rng.random() < 0.5] if rng.random() < 0.5 else None
        rows.append((f"t{number % 3}", number, leader, replicas, isr, [], elr, int(rng.integers(1, 4)), None))
    known = {i: Broker(f"h{i % 3}", f"r{i % 2}", bool(rng.random() < 0.9), True) for i in range(brokers)}
    made = topology.build(described(rows), known)
    capacities = _capacities(made, disk_mb=1e5, cpu=100.0, cores=8.0, nw_in_kbs=1e4, nw_out_kbs=1e4)
    values = LeaderValues(*(rng.gamma(2.0, 50.0, count) for _ in range(7)))
    loads = replica_loads.as_cruise_control(made, values, one_window(values), CpuWeights())
    return Cluster(made, capacities, loads, sums(made, loads))
