"""The workload model: inputs and parameters to a cluster, with everything the tables are made from.

Source: Cruise Control's ``LoadMonitor`` and ``MonitorUtils``. See docs/models/broker-load.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import polars as pl

from engine.broker_load.cruise_control import cluster_model, replica_loads, samples, windows
from engine.broker_load.cruise_control.cluster_model import Cluster
from engine.broker_load.cruise_control.replica_loads import LeaderValues, WindowLoad
from engine.broker_load.cruise_control.samples import Samples, SkipRules
from engine.broker_load.cruise_control.windows import Aggregate, Finished, Window
from engine.broker_load.model import broker_capacity, cluster_facts, history, measured, topology
from engine.broker_load.model.broker_capacity import Capacities
from engine.broker_load.model.history import History
from engine.broker_load.model.identity import Identity
from engine.broker_load.model.measured import Measured
from engine.broker_load.model.rounds import Round
from engine.broker_load.model.topology import Floats, Ints, Topology
from engine.broker_load.parameters import BrokerLoadParameters, CpuWeights
from engine.broker_load.tables import raw_metrics
from engine.incremental import Partials
from engine.inputs import Inputs
from engine.view import Context


@dataclass(frozen=True, eq=False)
class Model:
    """Everything computed from the inputs: rounds and samples in order of time with the ``maps`` of their partitions to
    those of ``topology``, windows, leader values, and the ``cluster`` as Cruise Control models it.

    ``finished``: samples among the inputs, by partition of the topology; ``aggregated``: returns the windows that are used
    where a share of the partitions must be valid; ``synthetic``: no topology is known, only leaders. ``messages`` [P]: per second
    in those windows, by the growth of the logs that exporters report (NaN unknown, None without any); ``shares`` [P]: share of
    its topic's rates on its leader that a partition was given by them (NaN: an even one), None where all are even.
    """

    history: History
    topology: Topology
    capacities: Capacities
    rounds: tuple[Round, ...]
    samples: tuple[Samples, ...]
    maps: tuple[Ints | None, ...]
    finished: Finished | None
    aggregate: Aggregate
    values: LeaderValues
    cluster: Cluster
    aggregated: Callable[[float], Aggregate]
    synthetic: bool
    at_ms: int | None
    messages: Floats | None = None
    shares: Floats | None = None

    @cached_property
    def used(self) -> list[int]:
        """Places in ``rounds`` of those inside the windows used."""
        inside = {window.index for window in self.aggregate.windows}
        window_ms = self.aggregate.window_ms
        return [place for place, one in enumerate(self.rounds) if one.time_ms // window_ms + 1 in inside]

    @cached_property
    def measured(self) -> Measured:
        """What brokers measured over the windows used."""
        rounds, maps = [self.rounds[place] for place in self.used], [self.maps[place] for place in self.used]
        return measured.measure(rounds, maps, self.topology, self.capacities.cores)


def build(inputs: Inputs, parameters: BrokerLoadParameters, context: Context, at_ms: int | None) -> Model | None:
    """Return the model as Cruise Control computes it, and what the corrected one needs; None without topology and samples."""
    past = history.gather(inputs, context, at_ms, parameters.interval_ms)
    samples_given = inputs.table("finished_samples")
    if at_ms is not None:
        samples_given = samples_given.filter(pl.col("time_ms") <= at_ms)
    synthetic = False
    if past is None:
        if not samples_given.height:
            return None
        past, synthetic = _without_topology(samples_given), True
    final = past.topology
    entries = inputs.table("capacity")
    cpus = {int(final.index_of([broker])[0]): count for broker, count in past.node_cpus.items()}
    capacities = broker_capacity.resolve(entries, final, parameters.allow_capacity_estimation, cpus)
    cores = capacities.sampling_cores(parameters.sampling_allow_cpu_capacity_estimation)
    # An interval in which no broker has a CPU reading and none a rate is the first scrape of running totals: no round.
    rounds = tuple(one for one in past.rounds if one.live)
    sampled, revisions = _samples(context, rounds, final, cores, parameters.cpu_weights)
    context.check()
    # Few topologies serve many rounds.
    mapped = {one: history.partition_map(one, final) for one in dict.fromkeys(one.topology for one in rounds)}
    maps = tuple(mapped[one.topology] for one in rounds)
    by_window: dict[int, list[int]] = {}
    for place, one in enumerate(rounds):
        by_window.setdefault(one.time_ms // parameters.window_ms + 1, []).append(place)
    finished = _finished(samples_given, final, set(by_window), parameters.window_ms)
    split = _split(finished, parameters.window_ms)
    held = {one.time_ms // parameters.window_ms + 1 for one, taken in zip(rounds, sampled, strict=True) if taken.taken}
    sampled_windows = sorted({*held, *split} or by_window)
    chosen = windows.choose(sampled_windows, at_ms, parameters.window_ms, parameters.windows)
    # The window before them may have been a neighbour of the oldest one.
    looked_at = [*chosen, chosen[-1] - 1] if chosen and chosen[-1] - 1 in sampled_windows else chosen
    members = {index: [(sampled[p], maps[p]) for p in by_window.get(index, [])] for index in looked_at}
    made = _windows(context, final, members, split, revisions)
    before = made[-1] if len(made) > len(chosen) else None
    stand_in = at_ms is not None and chosen[:1] != [at_ms // parameters.window_ms]

    def aggregated(ratio: float) -> Aggregate:
        return windows.aggregate(
            made[: len(chosen)], before, parameters.window_ms, parameters.min_samples, parameters.max_extrapolations,
            final.topic, stand_in, ratio,
        )  # fmt: skip

    total = aggregated(0.0)
    context.check()
    leader = leader_values(total)
    loads = replica_loads.as_cruise_control(final, leader, window_loads(total), parameters.cpu_weights)
    cluster = Cluster(final, capacities, loads, cluster_model.sums(final, loads, True))
    ends = total.ends_ms()
    span = (min(ends) - parameters.window_ms, max(ends)) if ends else (0, 2**62)
    messages = cluster_facts.message_rates(cluster_facts.facts(inputs, at_ms), final, *span)
    return Model(
        past, final, capacities, rounds, sampled, maps, finished, total, leader, cluster, aggregated, synthetic, at_ms, messages
    )  # fmt: skip


def leader_values(total: Aggregate) -> LeaderValues:
    """Return means over the windows (disk: newest window) per partition; CPU in % of a core, single precision in each window."""
    cpu = np.zeros(total.size)
    for one in total.series("cpu_usage"):
        cpu += one * np.float32(100)
    return LeaderValues(
        cpu=cpu / max(len(total.windows), 1),
        disk=total.latest("disk_usage"),
        bytes_in=total.mean("leader_bytes_in"),
        bytes_out=total.mean("leader_bytes_out"),
        replication_in=total.mean("replication_bytes_in_rate"),
        replication_out=total.mean("replication_bytes_out_rate"),
        messages=total.mean("message_in_rate"),
    )


def window_loads(total: Aggregate) -> Iterator[WindowLoad]:
    """Return what the leaders of all partitions carried in each window that is used."""
    for place in range(len(total.windows)):
        yield WindowLoad(
            total.value(place, "cpu_usage"),
            total.value(place, "leader_bytes_in"),
            total.value(place, "leader_bytes_out"),
            total.value(place, "replication_bytes_in_rate"),
            total.value(place, "replication_bytes_out_rate"),
        )


def _samples(
    context: Context, rounds: tuple[Round, ...], final: Topology, cores: Floats, weights: CpuWeights
) -> tuple[tuple[Samples, ...], Mapping[Samples, tuple[int, int]]]:
    """Return the samples of each round, and of each the revisions of its skip rules and of itself."""
    of_topology = {
        one: history.broker_cores(one, final, cores) for one in dict.fromkeys(one.topology for one in rounds)
    }
    cores_of = {one.interval: of_topology[one.topology] for one in rounds}
    by_interval = {one.interval: one for one in rounds}
    keys = {one: values.tobytes() for one, values in of_topology.items()}
    stamps = {one.interval: (one, keys[one.topology]) for one in rounds}
    rules: Partials[int, SkipRules] = context.memo.state("broker load skip rules", Partials)
    rules.update(stamps, lambda intervals: {n: samples.skip_rules(by_interval[n], cores_of[n]) for n in intervals})
    partials: Partials[int, Samples] = context.memo.state("broker load samples", Partials)
    partials.update(
        stamps,
        lambda intervals: {n: samples.sample(by_interval[n], cores_of[n], weights, rules[n]) for n in intervals},
        key=weights,
    )
    return tuple(partials.values()), {one: (rules.revisions[n], partials.revisions[n]) for n, one in partials.items()}


def _windows(
    context: Context,
    final: Topology,
    members: Mapping[int, list[tuple[Samples, Ints | None]]],
    finished: Mapping[int, Finished],
    revisions: Mapping[Samples, tuple[int, int]],
) -> list[Window]:
    """Return the window of each index of ``members``; its values that the CPU weights do not change outlive other weights."""
    shared: Partials[int, dict[str, Any]] = context.memo.state("broker load window values", Partials)
    shared.update(
        {n: (final, finished.get(n), tuple(revisions[one][0] for one, _ in rounds)) for n, rounds in members.items()},
        lambda indices: {n: {} for n in indices},
    )
    partials: Partials[int, Window] = context.memo.state("broker load windows", Partials)
    partials.update(
        {n: (shared.revisions[n], tuple(revisions[one][1] for one, _ in rounds)) for n, rounds in members.items()},
        lambda indices: {n: Window(n, final.size, members[n], finished.get(n), shared[n]) for n in indices},
    )
    return list(partials.values())


def _finished(rows_given: pl.DataFrame, final: Topology, covered: set[int], window_ms: int) -> Finished | None:
    """Return the finished samples of the topology's partitions in windows that no raw metrics cover, in arrival order."""
    if not rows_given.height:
        return None
    names = pl.DataFrame(
        {"topic": final.topic_names, "partition": final.partition, "p": np.arange(final.size, dtype=np.int32)}
    )
    rows = rows_given.join(names, on=["topic", "partition"], how="inner", maintain_order="left")
    window = rows["time_ms"] // window_ms + 1
    if covered:
        rows = rows.filter(~window.is_in(pl.Series(sorted(covered)).implode()))
    if not rows.height:
        return None
    return Finished(
        rows["p"].to_numpy(),
        rows["time_ms"].to_numpy(),
        np.stack([rows[name].to_numpy() for name in raw_metrics.SAMPLE]),
    )


def _split(finished: Finished | None, window_ms: int) -> dict[int, Finished]:
    if finished is None:
        return {}
    index = finished.time_ms // window_ms + 1
    out = {}
    for one in np.unique(index).tolist():
        here = index == one
        out[int(one)] = Finished(finished.partition[here], finished.time_ms[here], finished.values[:, here])
    return out


def _without_topology(rows_given: pl.DataFrame) -> History:
    """Return a stand-in where only finished samples are known: each partition with its leader as the only replica."""
    last = (
        rows_given.group_by("topic", "partition").agg(pl.col("leader").drop_nulls().last()).sort("topic", "partition")
    )
    none = pl.lit([], pl.List(pl.Int32))
    alone = pl.when(pl.col("leader").is_not_null()).then(pl.concat_list("leader")).otherwise(none)
    rows = last.select(
        pl.lit(0, pl.Int64).alias("time_ms"),
        "topic",
        "partition",
        pl.col("leader").fill_null(-1),
        alone.alias("replicas"),
        alone.alias("isr"),
        none.alias("offline"),
        pl.lit(None, pl.List(pl.Int32)).alias("elr"),
        pl.lit(None, pl.Int32).alias("min_isr"),
        pl.lit(None, pl.Boolean).alias("unclean"),
    )
    return History((), topology.build(rows, {}), Identity({}, {}, (), ()), {})
