"""Replica loads: as upstream (sheet, 4.3), corrected so that they add up to what was measured, or from fitted weights."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from engine.broker_load.model.topology import Flags, Floats, Topology, across, any_of, first_of, tally
from engine.broker_load.parameters import Weights


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
    """Load of every replica, [P, R]: ``cpu`` % of a core (may be negative or NaN, as upstream's), ``disk`` MB,
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


def follower_share(weights: Weights, nw_in: Floats, nw_out: Floats) -> Floats:
    """Upstream's ratio of a follower's CPU to its leader's: c·in / (a·in + b·out), 0 without traffic."""
    with np.errstate(divide="ignore", invalid="ignore"):
        share = weights.c * nw_in / (weights.a * nw_in + weights.b * nw_out)
    return np.where((nw_in == 0) & (nw_out == 0), 0.0, share)


def as_upstream(topology: Topology, values: LeaderValues, weights: Weights) -> Loads:
    """Loads as upstream's model has them, with its order quirk: followers listed before the leader do not see the
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


@dataclass(frozen=True, eq=False)
class Measured:
    """Per broker [B], mean over the rounds used: CPU in % of a core (NaN unknown), replication in and out in KB/s as
    the broker reports them (NaN unknown); and [P, R] the size of each replica in MB (NaN unknown)."""

    cpu: Floats
    replication_in: Floats
    replication_out: Floats
    sizes: Floats | None


def corrected(topology: Topology, values: LeaderValues, weights: Weights, measured: Measured) -> Loads:
    """Loads that respect what each broker measures.

    Each follower takes its leader's bytes in and each leader sends them to its followers, scaled so that a broker's
    replicas sum to the replication rates it reports. CPU is split by a·in + b·out + c·follower-in over *all* replicas
    of the broker, so that they sum to its measured CPU. Disk is each replica's own size where it is known.
    """
    led = topology.leader >= 0
    held = topology.held & led[:, None]
    leads = topology.leads & held
    follows = held & ~leads
    brokers = topology.brokers
    index = np.where(held, topology.replicas, 0)
    flow = np.broadcast_to(values.bytes_in[:, None], held.shape)
    dead = topology.offline_replicas
    fetching = follows & ~dead
    expected_in = _by_broker(index, np.where(fetching, flow, 0.0), fetching, brokers)
    live_followers = across(fetching)
    sent = values.bytes_in * live_followers
    expected_out = _by_broker(index, np.where(leads, sent[:, None], 0.0), leads, brokers)
    in_scale, out_scale = _scale(measured.replication_in, expected_in), _scale(measured.replication_out, expected_out)
    follower_in = np.where(fetching, flow * in_scale[index], 0.0)
    leader_out = np.where(leads, values.bytes_out[:, None] + sent[:, None] * out_scale[index], 0.0)
    weight = np.where(leads, weights.a * values.bytes_in[:, None] + weights.b * leader_out, weights.c * follower_in)
    whole = _by_broker(index, weight, held, brokers)
    with np.errstate(divide="ignore", invalid="ignore"):
        per_weight = np.where(whole > 0, measured.cpu / whole, 0.0)
    # A broker without a CPU reading keeps the numbers of the static model.
    fallback = as_upstream(topology, values, weights)
    cpu = np.where(np.isnan(measured.cpu)[index], fallback.cpu, weight * np.nan_to_num(per_weight)[index])
    disk = np.where(held, values.disk[:, None], 0.0)
    if measured.sizes is not None:
        disk = np.where(held & ~np.isnan(measured.sizes), measured.sizes, disk)
    potential = np.where(led, leader_out.max(axis=1, initial=0.0), 0.0)
    return Loads(
        cpu=np.where(held, cpu, 0.0),
        disk=disk,
        nw_in=np.where(leads, flow, follower_in),
        nw_out=leader_out,
        held=held,
        leads=leads,
        potential=potential,
        follower_in=np.where(led, values.bytes_in, 0.0),
        demoted=_demoted(topology, leads, cpu, weights, values, potential),
    )


def fitted(
    topology: Topology,
    values: LeaderValues,
    coefficients: tuple[float, float, float],
    cores: Floats,
    measured: Measured,
) -> Loads:
    """Loads with CPU from a regression in % of a broker per KB/s: leader a·in + b·out, follower c·in, times cores."""
    a, b, c = coefficients
    plain = corrected(topology, values, Weights(), measured)
    per_core = np.nan_to_num(cores, nan=1.0)[np.where(plain.held, topology.replicas, 0)]
    leader = a * plain.nw_in + b * np.where(plain.leads, values.bytes_out[:, None], 0.0)
    cpu = np.where(plain.leads, leader, c * plain.nw_in) * per_core
    kept = c * values.bytes_in * np.nan_to_num(cores, nan=1.0)[np.maximum(topology.leader, 0)]
    return Loads(
        cpu=np.where(plain.held, cpu, 0.0),
        disk=plain.disk,
        nw_in=plain.nw_in,
        nw_out=plain.nw_out,
        held=plain.held,
        leads=plain.leads,
        potential=plain.potential,
        follower_in=plain.follower_in,
        demoted=np.where(topology.leader >= 0, kept, 0.0),
    )


def removed(topology: Topology, loads: Loads, measured_cpu: Floats) -> Floats:
    """[P, R] CPU in % of a core that the model frees when a replica's traffic is taken off its broker.

    The seed's remedy: the model is applied to the broker with and without the replica's traffic, and the difference
    is taken of the measured CPU: ``measured × (1 − model(broker − replica) / model(broker))``. ``loads`` are the
    model's: what it says of the broker is the sum over its replicas.
    """
    index = np.where(loads.held, topology.replicas, 0)
    whole = _by_broker(index, loads.cpu, loads.held, topology.brokers)
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.where(whole[index] > 0, 1.0 - (whole[index] - loads.cpu) / whole[index], 0.0)
    return np.where(loads.held, measured_cpu[index] * share, 0.0)


def _by_broker(index: np.ndarray, value: Floats, held: Flags, brokers: int) -> Floats:
    return tally(index[held], value[held], brokers)


def _scale(reported: Floats, expected: Floats) -> Floats:
    with np.errstate(divide="ignore", invalid="ignore"):
        scale = reported / expected
    return np.where(np.isfinite(scale), scale, 1.0)


def _demoted(
    topology: Topology, leads: Flags, cpu: Floats, weights: Weights, values: LeaderValues, out: Floats
) -> Floats:
    """CPU a leader keeps as a follower: its own CPU times c·in / (a·in + b·out), at most all of it."""
    own = across(np.where(leads, cpu, 0.0))
    return np.asarray(own * np.minimum(follower_share(weights, values.bytes_in, out), 1.0), np.float64)
