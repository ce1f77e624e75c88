"""The workload model: inputs and parameters to a cluster, with everything the tables are made from, and what is kept of past
windows.

Every window leaves a ``Trace``. Sums are kept of the windows in use, and of others while they take little memory; whole
rounds only of the newest sampling intervals. See "Memory" in docs/models/broker-load.md. Source: Cruise Control's
``LoadMonitor`` and ``MonitorUtils``.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cached_property

import msgspec
import numpy as np
import polars as pl

from engine.broker_load.cruise_control import cluster_model, replica_loads, samples, windows
from engine.broker_load.cruise_control.cluster_model import RESOURCES, Cluster
from engine.broker_load.cruise_control.replica_loads import LeaderValues, WindowLoad
from engine.broker_load.cruise_control.samples import ELSEWHEN, LACKING, NO_RATES, ONCE, UNSIZED, Samples, SkipRules
from engine.broker_load.cruise_control.windows import Aggregate, Cores, Finished, Trace, Window, WindowSums
from engine.broker_load.model import broker_capacity, cluster_facts, history, measured, ticks, topology
from engine.broker_load.model.broker_capacity import Capacities
from engine.broker_load.model.history import MOST_ROWS, History
from engine.broker_load.model.identity import Identity
from engine.broker_load.model.measured import Measured
from engine.broker_load.model.rounds import BrokerRun, Round
from engine.broker_load.model.topology import Flags, Floats, Topology, across
from engine.broker_load.parameters import BrokerLoadParameters, CpuWeights
from engine.broker_load.tables import raw_metrics
from engine.core.incremental import Partials
from engine.core.view import Context, Inputs

SUMS_BYTES = 64 << 20  # memory for the sums of windows not in use; sums beyond it are computed again when needed

Key = tuple[int, int | None]  # index of a window, and the moment looked at if it lies inside that window


class PastWindows:
    """The windows of a ``history``, up to the moment looked at.

    ``wanted``: how many windows are averaged over; ``rows``: samples of the newest rounds that are shown.
    """

    def __init__(
        self, context: Context, past: History, cores: Cores, until_ms: int | None, interval_ms: int, window_ms: int,
        wanted: int, rows: int,
    ) -> None:  # fmt: skip
        self._history, self._cores, self._window_ms, self._rows = past, cores, window_ms, rows
        self._rounds: Partials[int, Round] = context.memo.state("broker load rounds", Partials)
        self._traces: Partials[Key, Trace] = context.memo.state("broker load window traces", Partials)
        self._sums: Partials[Key, WindowSums] = context.memo.state("broker load window sums", Partials)
        self._interval_ms, self._key = interval_ms, (interval_ms, window_ms)
        whole, cut = self._members(until_ms)
        self._moments = {
            (index, None) if moments == whole.get(index) else (index, until_ms): moments
            for index, moments in sorted(cut.items())
        }
        self._newest = self._shown(until_ms) | self._shown(None)
        self._likely = set(list(self._moments)[-wanted - 2 :])
        self._fresh: dict[Key, WindowSums] = {}
        keys = list(self._moments)
        for index, moments in whole.items():
            if (index, None) in self._traces:
                self._moments.setdefault((index, None), moments)  # looking at the past drops nothing
        self._stamps = {
            key: tuple((past.stamps[moment], cores(past.at(moment)).tobytes()) for moment in moments)
            for key, moments in self._moments.items()
        }
        self._traces.update(self._stamps, self._trace, key=self._key)
        self._keys = {key[0]: key for key in keys}
        traces = (self._traces[key] for key in keys)
        self.traces = {one.index: one for one in traces if one.moments}
        """Traces of the windows with rounds, by index, in order of time."""

    def _members(self, until_ms: int | None) -> tuple[dict[int, list[int]], dict[int, list[int]]]:
        """Return the moments whose rounds may lie in each window: all of them, and those up to the moment looked at."""
        whole: dict[int, list[int]] = {}
        cut: dict[int, list[int]] = {}
        for moment in self._history.stamps:
            begin = moment // self._interval_ms * self._interval_ms
            for index in range(begin // self._window_ms + 1, moment // self._window_ms + 2):
                if moment == begin + self._interval_ms - 1:
                    whole.setdefault(index, []).append(moment)
                if until_ms is None or moment <= until_ms:
                    cut.setdefault(index, []).append(moment)
        return whole, cut

    def _shown(self, until_ms: int | None) -> set[int]:
        """Return the moments of the newest window until ``until_ms``, and earlier ones as long as their samples are shown."""
        newest: set[int] = set()
        left = self._rows
        for moment in sorted(one for one in self._history.stamps if until_ms is None or one <= until_ms)[::-1]:
            left -= self._history.at(moment).size
            if left < 0 and moment // self._window_ms != max(newest, default=moment) // self._window_ms:
                break
            newest.add(moment)
        return newest

    def _have(self, moments: Collection[int]) -> None:
        """Build the rounds of ``moments``. Of the rounds built before, keep only the newest."""
        names = {*moments, *(moment for moment in self._rounds if moment in self._newest)}
        stamps = {moment: stamp for moment, stamp in self._history.stamps.items() if moment in names}
        self._rounds.update(stamps, self._history.build, key=self._interval_ms)

    def _built(self, keys: Collection[Key]) -> Iterator[tuple[Key, list[int], list[Round]]]:
        """Yield the moments and rounds of each of the windows ``keys``; a bounded number of raw metrics is read at once."""
        batches: list[list[Key]] = []
        left = 0
        for key in keys:
            rows = sum(self._history.rows[moment] for moment in self._moments[key])
            if not batches or rows > left:
                batches.append([])
                left = MOST_ROWS
            batches[-1].append(key)
            left -= rows
        for batch in batches:
            self._have({moment for key in batch for moment in self._moments[key]})
            for key in batch:
                rounds = {moment: self._rounds[moment] for moment in self._moments[key]}
                # An interval in which no broker has a CPU reading or a rate is the first scrape of running totals: no round.
                moments = [m for m, one in rounds.items() if one.live and one.time_ms // self._window_ms + 1 == key[0]]
                yield key, moments, [rounds[moment] for moment in moments]

    def _trace(self, keys: Collection[Key]) -> dict[Key, Trace]:
        made = {}
        for key, moments, members in self._built(keys):
            made[key] = windows.trace(key[0], moments, members, self._cores)
            if key in self._likely:
                self._fresh[key] = windows.add_up(members, self._cores)
        return made

    def sums(self, indices: Collection[int]) -> dict[int, WindowSums]:
        """Return the sums of the windows ``indices`` that have rounds; sums of others are kept while they take little memory."""
        wanted = [self._keys[index] for index in indices if index in self.traces]
        names, left = set(wanted), SUMS_BYTES
        for key in sorted(self._sums, key=lambda key: key[0], reverse=True):
            if key not in names and key in self._stamps:
                left -= self._sums[key].nbytes
                if left < 0:
                    break
                names.add(key)

        def compute(keys: Collection[Key]) -> dict[Key, WindowSums]:
            made = {key: self._fresh[key] for key in keys if key in self._fresh}
            for key, _, members in self._built([key for key in keys if key not in made]):
                made[key] = windows.add_up(members, self._cores)
            return made

        self._sums.update({key: stamp for key, stamp in self._stamps.items() if key in names}, compute, key=self._key)
        return {key[0]: self._sums[key] for key in wanted}

    def rounds(self) -> tuple[Round, ...]:
        """Return the newest rounds in order of time: the last one, and earlier ones whose samples are shown."""
        names: set[int] = set()
        left = self._rows
        for one in reversed(list(self.traces.values())):
            for moment, taken in zip(reversed(one.moments), reversed(one.taken), strict=True):
                left -= taken
                if (taken and left >= 0) or not names:
                    names.add(moment)
        self._have(names)
        return tuple(self._rounds[moment] for moment in sorted(names))


class Model(msgspec.Struct, frozen=True, eq=False, dict=True):
    """Everything computed from the inputs, as Cruise Control models it.

    ``traces``: what each window with rounds left behind, by index, in order of time. ``sums``: of the windows looked at.
    ``rounds``: the newest ones, with their ``samples``, in order of time. ``finished``: samples among the inputs, by partition of
    the topology. ``synthetic``: no topology is known, only leaders. ``messages`` [P]: messages per second in the windows used, by
    the growth of the logs that exporters report (NaN unknown, None without any). ``shares`` [P]: the share of its topic's rates
    on its leader that a partition gets by those messages (NaN: an even one); None where all are even.
    """

    history: History
    topology: Topology
    capacities: Capacities
    traces: Mapping[int, Trace]
    sums: Mapping[int, WindowSums]
    rounds: tuple[Round, ...]
    samples: tuple[Samples, ...]
    finished: Finished | None
    aggregate: Aggregate
    values: LeaderValues
    cluster: Cluster
    synthetic: bool
    at_ms: int | None
    messages: Floats | None = None
    shares: Floats | None = None

    @property
    def runs(self) -> Iterator[BrokerRun]:
        """What brokers reported in all rounds, in order of time."""
        return (run for one in self.traces.values() for run in one.runs)

    @cached_property
    def used(self) -> tuple[Trace | None, ...]:
        """The traces of the windows used, in order of time; None for one without rounds."""
        return tuple(self.traces.get(window.index) for window in reversed(self.aggregate.windows))

    @cached_property
    def measured(self) -> Measured:
        """What brokers measured over the windows used."""
        past = [one for one in self.used if one is not None]
        sizes = [size for one in reversed(past) for size in self.sums[one.index].sizes]
        return measured.measure([run for one in past for run in one.runs], sizes, self.topology, self.capacities.cores)


def build(inputs: Inputs, parameters: BrokerLoadParameters, context: Context, at_ms: int | None) -> Model | None:
    """Return the model as Cruise Control computes it; None without topology and samples."""
    past = history.gather(inputs, context, at_ms, parameters.interval_ms)
    samples_given = inputs.table("finished_samples")
    if at_ms is not None:
        samples_given = samples_given.filter(pl.col("time_ms") <= at_ms)
    synthetic = past is None
    if past is None:
        if not samples_given.height:
            return None
        past = _without_topology(samples_given)
    final = past.topology
    entries = inputs.table("capacity")
    cpus = {int(final.index_of([broker])[0]): count for broker, count in past.node_cpus.items()}
    capacities = broker_capacity.resolve(entries, final, parameters.allow_capacity_estimation, cpus)
    # Cruise Control has separate settings for estimates in samples and in the model.
    sampling = broker_capacity.resolve(entries, final, parameters.sampling_allow_cpu_capacity_estimation, cpus)
    cores_of = functools.cache(lambda one: history.broker_cores(one.ids, final, sampling.cores))
    window_ms = parameters.window_ms
    windows_past = PastWindows(
        context, past, cores_of, at_ms, parameters.interval_ms, window_ms, parameters.windows, parameters.max_rows
    )
    traces = windows_past.traces
    context.check()
    finished = _finished(samples_given, final, set(traces), window_ms)
    split = _split(finished, window_ms)
    held = {index for index, one in traces.items() if any(one.taken)}
    sampled_windows = sorted({*held, *split} or traces)
    chosen = windows.choose(sampled_windows, at_ms, window_ms, parameters.windows)
    # The window before them may have served as neighbour of the oldest one.
    looked_at = [*chosen, chosen[-1] - 1] if chosen and chosen[-1] - 1 in sampled_windows else chosen
    sums = windows_past.sums(looked_at)
    made = [
        Window(
            index, final.size, sums.get(index),
            history.partition_map(final, sums[index].partitions) if index in sums else None,
            parameters.cpu_weights, split.get(index),
        )
        for index in looked_at
    ]  # fmt: skip
    before = made[-1] if len(made) > len(chosen) else None
    stand_in = at_ms is not None and chosen[:1] != [at_ms // window_ms]
    total = windows.aggregate(
        made[: len(chosen)], before, window_ms, parameters.min_samples, parameters.max_extrapolations,
        final.topic, stand_in,
    )  # fmt: skip
    context.check()
    leader = leader_values(total)
    loads = replica_loads.as_cruise_control(final, leader, window_loads(total), parameters.cpu_weights)
    if finished is not None or any(run.in_cores for one in traces.values() for run in one.runs):
        # What is measured in cores is no share of a number of cores that nothing names.
        capacities = msgspec.structs.replace(capacities, cpu=np.where(capacities.assumed, np.nan, capacities.cpu))
    unknown, lacking = _unknown(final, traces, finished, made[: len(chosen)])
    if not traces and ticks.of(inputs, context)["counter"].any():
        unknown = dict.fromkeys(unknown, ONCE)
    broken = history.failed_dirs(inputs, at_ms)
    failed = dict(zip(broken["broker"], broken["log_dir"], strict=True))
    for broker in failed.keys() & lacking.keys():
        if lacking[broker] in UNSIZED:
            lacking[broker] = f"its log directory {failed[broker]} has failed, and nothing else tells its sizes"
    cluster = Cluster(final, capacities, loads, cluster_model.sums(final, loads, True), unknown, lacking)
    ends = total.ends_ms()
    span = (min(ends) - window_ms, max(ends)) if ends else (0, 2**62)
    messages = cluster_facts.message_rates(cluster_facts.facts(inputs, at_ms), final, *span)
    rounds = windows_past.rounds()
    taken = _samples(context, rounds, cores_of, parameters.cpu_weights)
    return Model(
        past,
        final,
        capacities,
        traces,
        sums,
        rounds,
        taken,
        finished,
        total,
        leader,
        cluster,
        synthetic,
        at_ms,
        messages,
    )


def sampled(final: Topology, traces: Mapping[int, Trace], finished: Finished | None) -> tuple[Flags, SkipRules]:
    """Return which partitions [P] have a sample in any round or among the ``finished`` ones, and the rule [P] that left each out
    of the newest round."""
    has, rule = np.zeros(final.size, np.bool_), np.where(final.leader >= 0, 2, 1).astype(np.int8)
    for one in traces.values():
        where = history.partition_map(one.partitions, final)
        index = np.arange(final.size) if where is None else where
        has[index[one.sampled & (index >= 0)]] = True
        rule[index[index >= 0]] = one.rule[index >= 0]
    if finished is not None:
        has[finished.partition] = True
    return has, rule


def _unknown(
    final: Topology, traces: Mapping[int, Trace], finished: Finished | None, looked_at: Sequence[Window]
) -> tuple[dict[str, str], dict[int, str]]:
    """Return why loads are unknown in the windows ``looked_at``, in words: by resource, where no series gives it; and by broker,
    for some only."""
    ever = sampled(final, traces, finished)[0]
    traces = {one.index: traces[one.index] for one in looked_at if one.index in traces}
    rule = sampled(final, traces, None)[1]
    has = across(np.array([np.zeros(final.size), *(one.count for one in looked_at)]).T) > 0
    led = final.leader >= 0
    left = led & ~has
    if not has.any():
        return dict.fromkeys(
            RESOURCES, LACKING[int(np.bincount(rule[led]).argmax()) if led.any() else min(final.size, 1)]
        ), {}
    leads, left_of = (np.bincount(final.leader[flags], minlength=final.brokers) for flags in (led, left))
    rated = np.isin(final.ids, list(set[int]().union(*(one.rated for one in traces.values()))))
    mute = (leads > left_of) & ~rated & (finished is None)
    if mute.any() and not (rated & (leads > 0)).any():
        return dict.fromkeys(("CPU", "NW_IN", "NW_OUT"), NO_RATES), {}
    words = dict.fromkeys(np.flatnonzero(mute).tolist(), NO_RATES)
    for broker in np.flatnonzero((leads == left_of) & (leads > 0)).tolist():
        mine = final.leader == broker
        words[broker] = ELSEWHEN if ever[mine].any() else LACKING[int(np.bincount(rule[left & mine]).argmax())]
    return {}, {int(final.ids[broker]): words[broker] for broker in sorted(words)}


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
    """Yield the load of every partition's leader in each window used."""
    return ({name: total.value(place, name) for name in replica_loads.OF_WINDOW} for place in range(len(total.windows)))


def _samples(context: Context, rounds: tuple[Round, ...], cores: Cores, weights: CpuWeights) -> tuple[Samples, ...]:
    """Return the samples of each round, which keep the rows made of them."""
    partials: Partials[Round, Samples] = context.memo.state("broker load samples", Partials)
    partials.update(
        {one: cores(one.topology).tobytes() for one in rounds},
        lambda changed: {
            one: Samples(one, samples.cpu_split(one, own).cpu(weights), samples.skip_rules(one, own))
            for one, own in ((one, cores(one.topology)) for one in changed)
        },
        key=weights,
    )
    return tuple(partials.values())


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
    return {
        int(one): Finished(finished.partition[here], finished.time_ms[here], finished.values[:, here])
        for one, here in ((one, index == one) for one in np.unique(index).tolist())
    }


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
        pl.lit(1, pl.Int32).alias("hidden"),
    )
    final = topology.build(rows, {})
    return History({}, {}, lambda moment: final, lambda moments: {}, final, Identity({}, {}, (), ()), {})
