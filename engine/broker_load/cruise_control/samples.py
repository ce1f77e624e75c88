"""Samples: from a round to one sample per partition by the static CPU model, with every reason not to have one.

See "CPU of a partition" and "Partitions without a sample" in docs/models/broker-load.md. Source: Cruise Control's
``CruiseControlMetricsProcessor`` and ``SamplingUtils``.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from engine.broker_load.model.rounds import Round, broker_cpu
from engine.broker_load.model.topology import Floats
from engine.broker_load.parameters import CpuWeights
from engine.broker_load.tables import raw_metrics
from engine.broker_load.tables.loads import BROKER_SAMPLES, SAMPLES

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

SkipRules = npt.NDArray[np.int8]
"""[P] code of RULES of each partition."""


@dataclass(frozen=True, eq=False)
class Samples:
    """Samples of one round. ``cpu`` [G] cores × fraction; ``rule`` [P] code of RULES (0: has a sample); ``cores`` [B], NaN
    unknown. The other values are the round's rates and leader sizes."""

    round: Round
    cpu: Floats
    rule: npt.NDArray[np.int8]
    cores: Floats

    @cached_property
    def taken(self) -> int:
        """How many partitions have a sample."""
        return int(np.count_nonzero(self.rule == 0))

    @cached_property
    def frame(self) -> pl.DataFrame:
        """The samples as rows of result table ``samples``, made once however often a result shows them."""
        topology = self.round.topology
        rows = np.flatnonzero(self.rule == 0)
        columns: dict[str, Any] = {
            "topic": topology.topic_names.gather(rows),
            "partition": topology.partition[rows],
            "leader": topology.ids_of(topology.leader[rows]),
            "time_ms": np.full(len(rows), self.round.time_ms, np.int64),
        }
        columns |= {name: self.value(name)[rows] for name in raw_metrics.SAMPLE}
        return SAMPLES.frame(columns)

    @cached_property
    def brokers(self) -> pl.DataFrame:
        """The broker samples of the round as rows of result table ``broker_samples``, made once."""
        return _broker_samples(self.round, self.cores)

    def value(self, name: str) -> Floats:
        """Return one of the nine values [P] by its name in Cruise Control; meaningless where ``rule`` is not 0."""
        if name == "disk_usage":
            return self.round.leader_size
        by_group = self.cpu if name == "cpu_usage" else self.round.rates[_ROW[name]]
        group = self.round.topology.groups[0]
        return by_group[np.maximum(group, 0)] if len(by_group) else np.zeros(len(group))


_ROW = {
    "leader_bytes_in": raw_metrics.IN,
    "leader_bytes_out": raw_metrics.OUT,
    "produce_rate": raw_metrics.PRODUCE,
    "fetch_rate": raw_metrics.FETCH,
    "message_in_rate": raw_metrics.MESSAGES,
    "replication_bytes_in_rate": raw_metrics.REPL_IN,
    "replication_bytes_out_rate": raw_metrics.REPL_OUT,
}


_NEEDED = (raw_metrics.IN, raw_metrics.OUT, raw_metrics.REPL_IN, raw_metrics.REPL_OUT)
"""The totals of a broker without which none of its partitions has a sample."""


def sample(one: Round, cores: Floats, weights: CpuWeights, rule: npt.NDArray[np.int8]) -> Samples:
    """Apply the static CPU model to one round. ``cores`` [B], NaN unknown; ``rule`` [P] as ``skip_rules`` returns it."""
    leader = one.topology.groups[1]
    cpu_fraction, _ = broker_cpu(one, cores)
    total_in = one.totals[raw_metrics.IN]
    total_out = one.totals[raw_metrics.OUT] + one.totals[raw_metrics.REPL_OUT]
    took_in, took_out, _ = one.shares
    a, b, c = weights.a, weights.b, weights.c
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        denominator = a * total_in + b * total_out + c * one.totals[raw_metrics.REPL_IN]
        contributed = a * took_in + b * took_out
        cpu = (cores * cpu_fraction)[leader] * contributed / denominator[leader]
        none = (total_in == 0) & (total_out == 0)
        cpu = np.where(none[leader] | ((contributed == 0) & (denominator == 0)[leader]), 0.0, cpu)
    return Samples(one, cpu, rule, cores)


def skip_rules(one: Round, cores: Floats) -> npt.NDArray[np.int8]:
    """Return the code [P] of the first rule that leaves a partition out, in Cruise Control's order; 0 for a sample.

    ``cores`` [B], NaN unknown. The rules do not depend on the CPU weights.
    """
    known_cores = ~np.isnan(cores)
    _, has_cpu = broker_cpu(one, cores)
    group, leader, _, _ = one.topology.groups
    absent = np.asarray(~one.has_total[list(_NEEDED)].all(axis=0))
    by_group = np.zeros(len(leader), np.int8)
    for code, when in (
        (8, one.shares[2]),
        (7, absent[leader]),
        (5, ~one.sized),
        (4, ~known_cores[leader]),
        (3, ~has_cpu[leader]),
        (2, ~one.heard[leader]),
    ):
        by_group[when] = code
    rule = np.ones(len(group), np.int8)
    rule[group >= 0] = by_group[group[group >= 0]]
    rule[~one.leader_sized & ((rule == 0) | (rule > 5))] = 6
    return rule


def _broker_samples(one: Round, cores: Floats) -> pl.DataFrame:
    """Return the broker samples of one round, one row per live broker that has one, with its record version.

    See "Broker samples" in docs/models/broker-load.md.
    """
    topology = one.topology
    cpu, has_cpu = broker_cpu(one, cores)
    shared = np.zeros(topology.brokers, np.bool_)
    shared[np.unique(topology.leader[(topology.count > 1) & (topology.leader >= 0)])] = True
    present = one.present.copy()
    present[list(raw_metrics.TOTALS)] = one.has_total
    present[raw_metrics.CPU] = has_cpu
    present[raw_metrics.ID["BROKER_FOLLOWER_FETCH_REQUEST_RATE"]] |= ~shared
    rows = np.flatnonzero(one.complete & topology.alive & np.asarray(present[raw_metrics.NEEDED_4].all(axis=0)))
    newer = np.asarray(present[raw_metrics.NEEDED_5].all(axis=0))
    values = {"cpu_usage": cpu, "disk_usage": one.disk, **{name: one.totals[row] for name, row in _ROW.items()}}
    return BROKER_SAMPLES.frame(
        {
            "broker": topology.ids[rows],
            "host": [topology.hosts[index] for index in rows.tolist()],
            "version": np.where(newer[rows], 5, 4),
            "time_ms": np.full(len(rows), one.time_ms, np.int64),
            **{name: value[rows] for name, value in values.items()},
        }
    )
