"""Loads of the modes corrected and regression, and bounds on what a partition carries.

Rates of a topic are split over a leader's partitions evenly or by counted messages; replica loads add up to what brokers measured
or follow a fitted regression. See "Messages by partition" and "Corrected loads" in docs/models/broker-load.md.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from msgspec.structs import replace

from engine.broker_load.cruise_control.cluster_model import Cluster
from engine.broker_load.cruise_control.load_model import Model
from engine.broker_load.cruise_control.replica_loads import LeaderValues, Loads, follower_cpu
from engine.broker_load.insight.fitted_weights import Fit
from engine.broker_load.model.measured import Measured, Observations, typical_cores
from engine.broker_load.model.topology import Floats, Ints, Topology, across, tally
from engine.broker_load.parameters import BrokerLoadParameters, CpuWeights


def by_messages(model: Model) -> Model:
    """Return the model with each leader's rates of a topic split by the growth of the partitions' logs.

    Only where exporters report all of these partitions and one has grown; the same model if that holds nowhere.
    """
    topology, rates = model.topology, model.messages
    if rates is None:
        return model
    group, leaders, _, _ = topology.groups
    led = group >= 0
    of_group = group[led]
    whole = tally(of_group, np.nan_to_num(rates[led], nan=-np.inf), len(leaders))
    known = led.copy()
    known[led] = (whole > 0)[of_group]
    if not known.any():
        return model
    shares = np.full(topology.size, np.nan)
    shares[known] = rates[known] / whole[group[known]]

    def shared(value: Floats) -> Floats:
        total = tally(of_group, value[led], len(leaders))
        out = value.copy()
        out[known] = total[group[known]] * shares[known]
        return out

    parts = {part: getattr(model.values, part) for part in model.values.__struct_fields__}
    values = replace(model.values, **{name: shared(value) for name, value in parts.items() if name != "disk"})
    return replace(model, values=values, shares=shares)


def partitions_sharing(model: Model) -> Ints:
    """Return the number of partitions [P] that share their leader's rates: each may carry anything from nothing to all of them.

    With rates split by messages, only partitions that took messages count; the others carry nothing.
    """
    group, leaders, _, count = model.topology.groups
    many = np.where(group >= 0, count[np.maximum(group, 0)] if len(count) else 1, 1).astype(np.int32)
    if model.shares is None:
        return many
    known, grown = ~np.isnan(model.shares), np.nan_to_num(model.shares) > 0
    growing = np.bincount(group[grown], minlength=len(leaders))
    return np.where(grown, growing[np.maximum(group, 0)], np.where(known, 1, many)).astype(np.int32)


def factors(model: Model, many: Ints) -> Floats:
    """Return the factor [P] from a partition's rate to the total that is split; ``many``: see ``partitions_sharing``."""
    if model.shares is None:
        return many.astype(np.float64)
    with np.errstate(divide="ignore"):
        return np.where(model.shares > 0, 1.0 / model.shares, many)


def bounds(values: Mapping[str, Floats], many: Ints, factor: Floats) -> dict[str, Floats]:
    """Return bounds of ``values`` split over ``many`` partitions, 0 to the total, by names with _low and _high."""
    least = {name.format("_low"): np.where(many > 1, 0.0, value) for name, value in values.items()}
    return least | {name.format("_high"): value * factor for name, value in values.items()}


def corrected(
    topology: Topology, values: LeaderValues, weights: CpuWeights, measured: Measured, static: Loads
) -> Loads:
    """Return loads whose sums are the measured values of each broker. See "Corrected loads" in docs/models/broker-load.md.

    Each follower takes its leader's bytes in and each leader sends them to its followers, scaled so that a broker's
    replicas sum to the replication rates it reports. CPU is split by a·in + b·out + c·follower-in over *all* replicas
    of the broker, so that they sum to its measured CPU; a broker without a CPU reading keeps that of the ``static`` model.
    Disk is each replica's own size where it is known.
    """
    values = values.floored()
    led = topology.leader >= 0
    held = topology.whole & led[:, None]
    leads = topology.leads & held
    follows = held & ~leads
    brokers = topology.brokers
    index = np.where(held, topology.replicas, 0)
    flow = np.broadcast_to(values.bytes_in[:, None], held.shape)
    fetching = follows & ~topology.offline_replicas
    expected_in = tally(index[fetching], flow[fetching], brokers)
    sent = values.bytes_in * across(fetching)
    expected_out = tally(index[leads], np.broadcast_to(sent[:, None], held.shape)[leads], brokers)
    in_scale, out_scale = _scale(measured.replication_in, expected_in), _scale(measured.replication_out, expected_out)
    follower_in = np.where(fetching, flow * in_scale[index], 0.0)
    leader_out = np.where(leads, values.bytes_out[:, None] + sent[:, None] * out_scale[index], 0.0)
    weight = np.where(leads, weights.a * values.bytes_in[:, None] + weights.b * leader_out, weights.c * follower_in)
    whole = tally(index[held], weight[held], brokers)
    with np.errstate(divide="ignore", invalid="ignore"):
        per_weight = np.where(whole > 0, measured.cpu / whole, 0.0)
    cpu = np.where(np.isnan(measured.cpu)[index], static.cpu, weight * np.nan_to_num(per_weight)[index])
    disk = np.where(held, values.disk[:, None], 0.0)
    if measured.sizes is not None:
        disk = np.where(held & ~np.isnan(measured.sizes), measured.sizes, disk)
    potential = np.where(led, leader_out.max(axis=1, initial=0.0), 0.0)
    # As a follower, a leader keeps c·in / (a·in + b·out) of its own CPU, at most all of it.
    kept = np.minimum(follower_cpu(weights, 1.0, values.bytes_in, potential), 1.0)
    return Loads(
        cpu=np.where(held, cpu, 0.0),
        disk=disk,
        nw_in=np.where(leads, flow, follower_in),
        nw_out=leader_out,
        held=held,
        leads=leads,
        potential=potential,
        follower_in=np.where(led, values.bytes_in, 0.0),
        demoted=across(np.where(leads, cpu, 0.0)) * kept,
    )


def fitted(
    topology: Topology,
    values: LeaderValues,
    coefficients: tuple[float, float, float],
    cores: Floats,
    measured: Measured,
    static: Loads,
) -> Loads:
    """Return loads with CPU from a regression in % of a broker per KB/s: leader a·in + b·out, follower c·in, times cores."""
    a, b, c = coefficients
    values = values.floored()
    plain = corrected(topology, values, CpuWeights(), measured, static)
    per_core = np.nan_to_num(cores, nan=1.0)[np.where(plain.held, topology.replicas, 0)]
    leader = a * plain.nw_in + b * np.where(plain.leads, values.bytes_out[:, None], 0.0)
    cpu = np.where(plain.leads, leader, c * plain.nw_in) * per_core
    as_follower = c * values.bytes_in * np.nan_to_num(cores, nan=1.0)[np.maximum(topology.leader, 0)]
    return replace(plain, cpu=np.where(plain.held, cpu, 0.0), demoted=np.where(topology.leader >= 0, as_follower, 0.0))


def removed(topology: Topology, loads: Loads, measured_cpu: Floats) -> Floats:
    """Return the CPU [P, R] in % of a core that is freed when a replica's traffic leaves its broker.

    ``measured × (1 − model(broker − replica) / model(broker))``, where ``loads`` are the model's and a broker's CPU is the sum
    over its replicas.
    """
    index = np.where(loads.held, topology.replicas, -1)
    # The last entry stands for -1, also without any broker.
    whole = np.append(tally(index[loads.held], loads.cpu[loads.held], topology.brokers), 0.0)[index]
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.where(whole > 0, 1.0 - (whole - loads.cpu) / whole, 0.0)
    return np.where(loads.held, np.append(measured_cpu, 0.0)[index] * share, 0.0)


def _scale(reported: Floats, expected: Floats) -> Floats:
    with np.errstate(divide="ignore", invalid="ignore"):
        scale = reported / expected
    return np.where(np.isfinite(scale), scale, 1.0)


def cluster_in_mode(
    model: Model, parameters: BrokerLoadParameters, fit: Fit, observations: Observations, notes: list[str]
) -> Cluster:
    """Return the cluster with the loads of ``parameters.mode``; ``notes`` get a sentence on what is shown."""
    topology, mode = model.topology, parameters.mode
    if mode == "upstream" or not topology.brokers:
        return model.cluster
    if model.shares is not None:
        notes.append("a topic's rates are split over its partitions by the messages that exporters count in each")
    weights, static = parameters.cpu_weights, model.cluster.loads
    if parameters.weights == "fitted" and fit.usable:
        weights = CpuWeights(*fit.weights)
    if mode == "regression" and fit.usable:
        # Given observations describe each broker, since their machines are unknown; our own history the typical broker.
        cores = model.capacities.cores
        if (observations.relative != 1.0).any():
            cores = np.full(topology.brokers, typical_cores(cores))
        a, b, c = fit.weights
        notes.append(f"CPU from the regression: {a:.3g}·in + {b:.3g}·out, followers {c:.3g}·in, % per KB/s")
        return model.cluster.with_loads(
            topology, fitted(topology, model.values, (a, b, c), cores, model.measured, static)
        )
    if mode == "regression":
        notes.append(f"the regression cannot be used ({fit.verdict}); shown as corrected")
    notes.append("corrected: each broker's replicas sum to its measured CPU; followers have their own disk size")
    return model.cluster.with_loads(topology, corrected(topology, model.values, weights, model.measured, static))
