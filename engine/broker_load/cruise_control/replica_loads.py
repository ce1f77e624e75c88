"""Replica loads as Cruise Control computes them.

See "Replica loads" in docs/models/broker-load.md. Source: ``MonitorUtils``, ``ModelUtils`` and ``ModelParameters``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec
import numpy as np

from engine.broker_load.cruise_control.windows import Singles
from engine.broker_load.model.topology import Flags, Floats, Ints, Longs, Topology, any_of, first_of
from engine.broker_load.parameters import CpuWeights


class LeaderValues(msgspec.Struct, frozen=True, eq=False):
    """[P] values of each partition over the windows: ``cpu`` in % of a core, ``disk`` MB, the rest KB/s and 1/s."""

    cpu: Floats
    disk: Floats
    bytes_in: Floats
    bytes_out: Floats
    replication_in: Floats
    replication_out: Floats
    messages: Floats

    def floored(self) -> LeaderValues:
        """Return the values with negative ones set to 0."""
        return LeaderValues(*(np.maximum(getattr(self, part), 0.0) for part in self.__struct_fields__))


OF_WINDOW = (
    "cpu_usage", "leader_bytes_in", "leader_bytes_out", "replication_bytes_in_rate", "replication_bytes_out_rate",
)  # fmt: skip
WindowLoad = Mapping[str, Singles]
"""[P] load of each partition's leader in one window, by the names ``OF_WINDOW``: CPU in cores, the rest KB/s."""


class Loads(msgspec.Struct, frozen=True, eq=False):
    """Load of every replica, [P, R]: ``cpu`` % of a core (may be negative or NaN, as in Cruise Control), ``disk`` MB,
    ``nw_in``, ``nw_out`` KB/s; 0 where ``held`` says there is no replica in the model. ``leads`` [P, R];
    ``potential`` [P] the leader's network out. ``follower_in`` [P] what each follower fetches, KB/s, for simulations.
    ``demoted`` [P]: CPU the leader keeps when it becomes a follower."""

    cpu: Floats
    disk: Floats
    nw_in: Floats
    nw_out: Floats
    held: Flags
    leads: Flags
    potential: Floats
    follower_in: Floats
    demoted: Floats


def follower_cpu(weights: CpuWeights, leader_cpu: Floats | Singles | float, nw_in: Floats, nw_out: Floats) -> Floats:
    """Return the CPU of a follower: its leader's times c·in / (a·in + b·out), 0 without traffic."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        cpu = nw_in * leader_cpu
        cpu *= weights.c
        cpu /= weights.a * nw_in + weights.b * nw_out
    cpu[(nw_in == 0) & (nw_out == 0)] = 0.0
    return cpu


def as_cruise_control(
    topology: Topology, values: LeaderValues, windows: Iterable[WindowLoad], weights: CpuWeights
) -> Loads:
    """Return the loads of Cruise Control's model: leaders by their ``values`` over the ``windows``, a follower's CPU computed
    in each window and then averaged. Unlike there, a replica that a reassignment still copies has none.

    Its order quirk is kept: followers listed before the leader miss the replication part of the leader's network out.
    """
    led = topology.leader >= 0
    held = topology.whole & led[:, None]
    leads = topology.leads & held
    nw_in = np.where(led, values.bytes_in + values.replication_in, 0.0)
    full_out = values.bytes_out + values.bytes_in * (topology.count - 1)
    position = np.where(any_of(leads), first_of(leads), -1)
    late = np.flatnonzero(position > 0)
    after, before = _follower_cpu(windows, topology.count - 1, late, weights)
    of_follower = np.broadcast_to(after[:, None], held.shape).copy()
    ahead = np.arange(held.shape[1])[None, :] < position[late, None]
    of_follower[late] = np.where(ahead, before[:, None], after[late, None])
    cpu = np.where(leads, values.cpu[:, None], of_follower)
    zero = 0.0
    return Loads(
        cpu=np.where(held, cpu, zero),
        disk=np.where(held, values.disk[:, None], zero),
        nw_in=np.where(held, nw_in[:, None], zero),
        nw_out=np.where(leads, full_out[:, None], zero),
        held=held,
        leads=leads,
        potential=np.where(led, full_out, zero),
        follower_in=np.where(led, values.bytes_in, zero),
        demoted=np.where(led, after, zero),
    )


def _follower_cpu(
    windows: Iterable[WindowLoad], followers: Ints, late: Longs, weights: CpuWeights
) -> tuple[Floats, Floats]:
    """Return the CPU, in % of a core, of a follower listed after its leader [P] and before it [K, partitions ``late``].

    ``followers`` [P] fetch from each leader.
    """
    after, before, count = np.zeros(len(followers)), np.zeros(len(late)), 0
    for one in windows:
        usage, bytes_in, bytes_out, copied_in, copied_out = (one[name] for name in OF_WINDOW)
        count += 1
        cpu = usage * np.float32(100)
        nw_in = np.add(bytes_in, copied_in, dtype=np.float64)
        nw_out = np.multiply(bytes_in, followers, dtype=np.float64)
        nw_out += bytes_out
        after += follower_cpu(weights, cpu, nw_in, nw_out)
        if len(late):
            before += follower_cpu(
                weights, cpu[late], nw_in[late], np.add(bytes_out[late], copied_out[late], dtype=np.float64)
            )
    return after / max(count, 1), before / max(count, 1)
