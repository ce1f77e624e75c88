"""Samples: one per partition and round by the static CPU model, or the rule that leaves the partition out.

See "CPU of a partition" and "Partitions without a sample" in docs/models/broker-load.md. Source: Cruise Control's
``CruiseControlMetricsProcessor`` and ``SamplingUtils``.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import polars as pl

from engine.broker_load.model.rounds import Round, broker_cpu
from engine.broker_load.model.topology import Floats, Topology
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

_DESCRIBED = "add kafka_log_log_size to the exporter's rules or run kafka-log-dirs --describe"
LACKING = (
    "no partition is described with a leader: run kafka-topics --describe",
    "no partition has a leader",
    "no metrics of the brokers are there: scrape their JMX exporter (loadlens feeds broker-load)",
    "no CPU series: run the JMX exporter as a Java agent for process_cpu_seconds_total, or scrape node_exporter beside it",
    "the brokers' cores are unknown: name num.cores in capacity.json",
    f"no partition sizes: {_DESCRIBED}",
    f"no partition sizes of the leaders: {_DESCRIBED}",
    "no totals of bytes in and out: export BrokerTopicMetrics without a topic, too",
    "partitions report more traffic than their brokers: scrape all rates at one moment",
)
"""What is missing where a rule of RULES leaves all partitions out, and what gives it."""
ONCE = "running totals of one moment give no rates: keep further scrapes, each in a file of its own"
ELSEWHEN = "no sample at the times shown, only at others: see whether its scrapes still run and clocks agree"
UNSIZED = LACKING[5:7]  # of these, the reasons why sizes are unknown
NO_RATES = "no rates by topic: the exporter's rules must keep the label topic of BrokerTopicMetrics"

SkipRules = npt.NDArray[np.int8]  # [P] code of RULES of each partition


class Samples(msgspec.Struct, frozen=True, eq=False, dict=True):
    """Samples of one round. ``cpu`` [G] cores × fraction; ``rule`` [P] code of RULES (0: has a sample). The other values are
    the round's rates and leader sizes."""

    round: Round
    cpu: Floats
    rule: SkipRules

    @cached_property
    def taken(self) -> int:
        """How many partitions have a sample."""
        return int(np.count_nonzero(self.rule == 0))

    @cached_property
    def frame(self) -> pl.DataFrame:
        """The samples as rows of result table ``samples``, built once."""
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

    def value(self, name: str) -> Floats:
        """Return one of the nine values [P] by its name in Cruise Control; meaningless where ``rule`` is not 0."""
        return of_group(self.cpu, self.round.topology) if name == "cpu_usage" else value_of(self.round, name)


def of_group(by_group: Floats, topology: Topology) -> Floats:
    """Return for each partition [P] the value ``by_group`` [G] of its group; meaningless without a leader."""
    group = topology.groups[0]
    return by_group[np.maximum(group, 0)] if len(by_group) else np.zeros(len(group))


def value_of(one: Round, name: str) -> Floats:
    """Return one of the eight values [P] that do not depend on the CPU weights."""
    return one.leader_size if name == "disk_usage" else of_group(one.rates[_ROW[name]], one.topology)


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
"""Totals a broker must report for its partitions to have samples."""


class CpuSplit(msgspec.Struct, frozen=True, eq=False):
    """Inputs of the static CPU model in one round: ``busy`` [B] cores in use; ``total_in``, ``total_out``, ``follower_in`` [B]
    the broker's bytes; ``took_in``, ``took_out`` [G] each group's part of them."""

    topology: Topology
    busy: Floats
    total_in: Floats
    total_out: Floats
    follower_in: Floats
    took_in: Floats
    took_out: Floats

    def cpu(self, weights: CpuWeights) -> Floats:
        """Apply the static CPU model: the CPU [G] of each group, cores × fraction."""
        leader = self.topology.groups[1]
        a, b, c = weights.a, weights.b, weights.c
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            denominator = a * self.total_in + b * self.total_out + c * self.follower_in
            contributed = a * self.took_in + b * self.took_out
            cpu = self.busy[leader] * contributed / denominator[leader]
            none = (self.total_in == 0) & (self.total_out == 0)
            return np.where(none[leader] | ((contributed == 0) & (denominator == 0)[leader]), 0.0, cpu)


def cpu_split(one: Round, cores: Floats) -> CpuSplit:
    """Return the inputs of the static CPU model in one round. ``cores`` [B], NaN unknown."""
    fraction, _ = broker_cpu(one, cores)
    total_in, follower_in = one.totals[raw_metrics.IN], one.totals[raw_metrics.REPL_IN]
    took_in, took_out, _ = one.shares
    with np.errstate(invalid="ignore", over="ignore"):
        total_out = one.totals[raw_metrics.OUT] + one.totals[raw_metrics.REPL_OUT]
        return CpuSplit(one.topology, cores * fraction, total_in, total_out, follower_in, took_in, took_out)


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


def broker_samples(rounds: Sequence[Round], cores: Floats) -> pl.DataFrame:
    """Return the broker samples of ``rounds`` of one topology, one row per live broker that has one, with its record version.

    See "Broker samples" in docs/models/broker-load.md.
    """
    topology = rounds[0].topology
    both = [broker_cpu(one, cores) for one in rounds]
    shared = np.zeros(topology.brokers, np.bool_)
    shared[np.unique(topology.leader[(topology.count > 1) & (topology.leader >= 0)])] = True
    present = np.array([one.present for one in rounds])
    present[:, list(raw_metrics.TOTALS)] = np.array([one.has_total for one in rounds])
    present[:, raw_metrics.CPU] = np.array([has for _, has in both])
    present[:, raw_metrics.ID["BROKER_FOLLOWER_FETCH_REQUEST_RATE"]] |= ~shared
    complete = np.array([one.complete for one in rounds])
    place, rows = np.nonzero(complete & topology.alive & present[:, raw_metrics.NEEDED_4].all(axis=1))
    newer = np.asarray(present[:, raw_metrics.NEEDED_5].all(axis=1))
    totals, disk = np.array([one.totals for one in rounds]), np.array([one.disk for one in rounds])
    return BROKER_SAMPLES.frame(
        {
            "broker": topology.ids[rows],
            "host": [topology.hosts[index] for index in rows.tolist()],
            "version": np.where(newer[place, rows], 5, 4),
            "time_ms": np.array([one.time_ms for one in rounds], np.int64)[place],
            "cpu_usage": np.array([cpu for cpu, _ in both])[place, rows],
            "disk_usage": disk[place, rows],
            **{name: totals[:, row][place, rows] for name, row in _ROW.items()},
        }
    )
