"""From a round to one sample per partition: the static CPU model and every reason not to have a sample (section 3)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from engine.broker_load import metrics
from engine.broker_load.rounds import Round
from engine.broker_load.topology import Floats

RULES = (
    "",
    "no-leader",
    "leader-has-no-metrics",
    "leader-has-no-cpu",
    "cores-unknown",
    "topic-not-sized-on-leader",
    "partition-not-sized-on-leader",
    "broker-total-absent",
    "partition-rate-above-broker-rate",
)
"""Why a partition has no sample; the position is the code used in arrays, "" means it has one."""

_SLACK = 1.05
_QUIET = 10.0


@dataclass(frozen=True, slots=True)
class Weights:
    """CPU weights of the static model: leader in, leader out, follower in. They need not sum to 1."""

    a: float = 0.7
    b: float = 0.15
    c: float = 0.15


@dataclass(frozen=True, eq=False)
class Samples:
    """Samples of one round. ``cpu`` [G] cores × fraction; ``rule`` [P] code of RULES (0: has a sample). The other
    values are the round's rates and leader sizes."""

    round: Round
    cpu: Floats
    rule: npt.NDArray[np.int8]

    def value(self, name: str) -> Floats:
        """[P] one of the nine values by its upstream name; meaningless where ``rule`` is not 0."""
        group = np.maximum(self.round.topology.groups[0], 0)
        if name == "cpu_usage":
            return _take(self.cpu, group)
        if name == "disk_usage":
            return leader_size(self.round)
        return _take(self.round.rates[_ROW[name]], group)


_ROW = {
    "leader_bytes_in": metrics.IN,
    "leader_bytes_out": metrics.OUT,
    "produce_rate": metrics.PRODUCE,
    "fetch_rate": metrics.FETCH,
    "message_in_rate": metrics.MESSAGES,
    "replication_bytes_in_rate": metrics.REPL_IN,
    "replication_bytes_out_rate": metrics.REPL_OUT,
}


def _take(values: Floats, index: npt.NDArray[np.int32]) -> Floats:
    return values[index] if len(values) else np.zeros(len(index))


def leader_size(found: Round) -> Floats:
    """[P] size of the leader replica in MB, NaN where its broker reported none."""
    leads = found.topology.leads
    column = leads.argmax(axis=1) if leads.shape[1] else np.zeros(len(leads), np.int64)
    value = found.size[np.arange(len(column)), column] if len(column) else np.empty(0)
    return np.where(leads.any(axis=1), value, np.nan) if len(column) else value


def broker_cpu(found: Round, cores: Floats) -> tuple[Floats, npt.NDArray[np.bool_]]:
    """[B] CPU fraction of each broker and whether there is one; a process' cores are divided by the broker's."""
    process = ~found.has_cpu & ~np.isnan(found.process)
    with np.errstate(divide="ignore", invalid="ignore"):
        cpu = np.where(process, found.process / cores, found.cpu)
    return cpu, found.has_cpu | process


def sample(found: Round, cores: Floats, weights: Weights) -> Samples:
    """Apply the static CPU model to one round. ``cores`` [B], NaN unknown."""
    topology = found.topology
    group, leader, _, _ = topology.groups
    cpu_fraction, has_cpu = broker_cpu(found, cores)
    total_in = found.totals[metrics.IN]
    total_out = found.totals[metrics.OUT] + found.totals[metrics.REPL_OUT]
    follower = found.totals[metrics.REPL_IN]
    part_in = found.rates[metrics.IN]
    part_out = found.rates[metrics.OUT] + found.rates[metrics.REPL_OUT]
    a, b, c = weights.a, weights.b, weights.c
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        whole_in, whole_out = total_in[leader], total_out[leader]
        idle = (whole_in == 0) & (whole_out == 0)
        dropped = ~idle & (
            ((_SLACK * whole_in < part_in) & (whole_in > _QUIET))
            | ((_SLACK * whole_out < part_out) & (whole_out > _QUIET))
        )
        share_in = np.where(whole_in == 0, 0.0, np.minimum(1.0, part_in / whole_in))
        share_out = np.where(whole_out == 0, 0.0, np.minimum(1.0, part_out / whole_out))
        contributed = a * whole_in * share_in + b * whole_out * share_out
        denominator = a * whole_in + b * whole_out + c * follower[leader]
        cpu = (cores * cpu_fraction)[leader] * contributed / denominator
        cpu = np.where(idle | ((contributed == 0) & (denominator == 0)), 0.0, cpu)
    absent = np.asarray(np.isnan(found.totals).any(axis=0))[leader]
    by_group = np.zeros(len(leader), np.int8)
    # In upstream's order: the first reason that applies is named.
    for code, when in (
        (8, dropped),
        (7, absent),
        (5, ~found.sized),
        (4, np.isnan(cores)[leader]),
        (3, ~has_cpu[leader]),
        (2, ~found.heard[leader]),
    ):
        by_group[when] = code
    rule = np.where(group >= 0, _codes(by_group, group), 1).astype(np.int8)
    unsized = np.isnan(leader_size(found))
    rule[unsized & ((rule == 0) | (rule > 5))] = 6
    return Samples(found, cpu, rule)


def _codes(by_group: npt.NDArray[np.int8], group: npt.NDArray[np.int32]) -> npt.NDArray[np.int8]:
    return by_group[np.maximum(group, 0)] if len(by_group) else np.zeros(len(group), np.int8)


def broker_samples(found: Round, cores: Floats) -> list[dict[str, object]]:
    """Broker samples of one round (section 3.6): one row per broker that has one, with its record version."""
    topology = found.topology
    cpu, has_cpu = broker_cpu(found, cores)
    many = np.zeros(topology.brokers, np.bool_)
    shared = (topology.count > 1) & (topology.leader >= 0)
    many[np.unique(topology.leader[shared])] = True
    rows: list[dict[str, object]] = []
    for index in range(topology.brokers):
        values = found.extra[:, index]
        absent = {number for number in metrics.VERSION_4 if np.isnan(values[number])} - metrics.MAY_MISS
        absent -= {metrics.CPU} if has_cpu[index] else set()
        absent = {
            n for n in absent if n not in metrics.TOTALS or np.isnan(found.totals[metrics.TOTALS.index(n), index])
        }
        if not many[index]:
            absent.discard(metrics.ID["BROKER_FOLLOWER_FETCH_REQUEST_RATE"])
        if not found.complete[index] or absent or not has_cpu[index]:
            continue
        newer = list(range(43, len(metrics.NAMES)))
        totals = found.totals[:, index]
        rows.append(
            {
                "broker": int(topology.ids[index]),
                "host": topology.hosts[index],
                "version": 5 if not np.isnan(values[newer]).any() else 4,
                "time_ms": found.time_ms,
                "cpu_usage": float(cpu[index]),
                "disk_usage": float(found.disk[index]),
                "leader_bytes_in": float(totals[metrics.IN]),
                "leader_bytes_out": float(totals[metrics.OUT]),
                "produce_rate": float(totals[metrics.PRODUCE]),
                "fetch_rate": float(totals[metrics.FETCH]),
                "message_in_rate": float(totals[metrics.MESSAGES]),
                "replication_bytes_in_rate": float(totals[metrics.REPL_IN]),
                "replication_bytes_out_rate": float(totals[metrics.REPL_OUT]),
            }
        )
    return rows
