"""Replica loads as Cruise Control computes them.

See "Replica loads" in docs/models/broker-load.md. Source: ``MonitorUtils``, ``ModelUtils`` and ``ModelParameters``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from engine.broker_load.model.topology import Flags, Floats, Topology, any_of, first_of
from engine.broker_load.parameters import CpuWeights


@dataclass(frozen=True, eq=False)
class LeaderValues:
    """[P] values of each partition over the windows: ``cpu`` in % of a core, ``disk`` MB, the rest KB/s and 1/s."""

    cpu: Floats
    disk: Floats
    bytes_in: Floats
    bytes_out: Floats
    replication_in: Floats
    replication_out: Floats
    messages: Floats


@dataclass(frozen=True, eq=False)
class Loads:
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


def follower_share(weights: CpuWeights, nw_in: Floats, nw_out: Floats) -> Floats:
    """Return the ratio of a follower's CPU to its leader's: c·in / (a·in + b·out), 0 without traffic."""
    with np.errstate(divide="ignore", invalid="ignore"):
        share = weights.c * nw_in / (weights.a * nw_in + weights.b * nw_out)
    return np.where((nw_in == 0) & (nw_out == 0), 0.0, share)


def as_cruise_control(topology: Topology, values: LeaderValues, weights: CpuWeights) -> Loads:
    """Return loads as Cruise Control's model has them, with its order quirk: followers listed before the leader do not see the
    replication part of the leader's network out."""
    led = topology.leader >= 0
    held = topology.held & led[:, None]
    leads = topology.leads & held
    nw_in = np.where(led, values.bytes_in + values.replication_in, 0.0)
    bare_out = values.bytes_out + values.replication_out
    full_out = values.bytes_out + values.bytes_in * (topology.count - 1)
    after = values.cpu * follower_share(weights, nw_in, full_out)
    before = values.cpu * follower_share(weights, nw_in, bare_out)
    position = np.where(any_of(leads), first_of(leads), -1)
    ahead = np.arange(topology.replicas.shape[1])[None, :] < position[:, None]
    follower_cpu = np.where(ahead, before[:, None], after[:, None])
    cpu = np.where(leads, values.cpu[:, None], follower_cpu)
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
