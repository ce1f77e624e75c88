"""Sampling rounds: raw metrics of one sampling interval combined and matched with the topology.

Everything here is independent of the CPU weights. See "Sampling rounds" and "Totals of a broker" in
docs/models/broker-load.md. Source: Cruise Control's ``RawMetricsHolder``, ``BrokerLoad`` and ``CruiseControlMetricsProcessor``.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import polars as pl

from engine.broker_load.model.topology import Flags, Floats, Ints, Longs, Topology, tally
from engine.broker_load.tables import raw_metrics

MISSING_SHARE = 0.01
"""If more than this share of topics or leader partitions lacks a size, a broker's totals stay as reported."""


SLACK = 1.05  # factor by which a partition may exceed its broker's rate before its sample is dropped
QUIET = 10.0  # rate of a broker in KB/s up to which that factor is not applied


class Round(msgspec.Struct, frozen=True, eq=False, dict=True):
    """One sampling interval on topology ``topology`` with G groups (topic × leading broker) and B brokers.

    ``rates`` [7, G]: topic rates per partition, model units (order: metrics.TOPIC; absent 0). ``totals`` [7, B]: broker
    totals after the completeness rule, NaN absent (``has_total`` separates a NaN reading from none). ``reported`` [7, B]: as
    the brokers report them, NaN absent. ``cpu`` [B] fraction 0-1, with ``has_cpu``; ``process`` [B] cores used by the
    process, NaN unknown. ``size`` [P, R] MB of each replica, NaN absent; ``nan_sizes``: flat positions in it where NaN was
    reported. ``sized`` [G]: the leader reported a size of the topic. ``heard`` [B]: sent any record. ``complete`` [B]: passed
    the completeness rule; ``missing`` [B] topics without size. ``disk`` [B] MB of all sizes a broker reported. ``extra``
    [63, B] mean of every broker-scope metric, NaN absent, with ``present``. ``time_ms``: newest record in it.
    """

    interval: int
    time_ms: int
    topology: Topology
    rates: Floats
    totals: Floats
    has_total: Flags
    reported: Floats
    cpu: Floats
    has_cpu: Flags
    process: Floats
    cpu_kind: str
    size: Floats
    nan_sizes: Longs
    sized: Flags
    heard: Flags
    complete: Flags
    missing: Ints
    disk: Floats
    extra: Floats
    present: Flags

    @cached_property
    def leader_size(self) -> Floats:
        """[P] size of the leader replica in MB, NaN where its broker reported none."""
        slot, has = self.topology.leader_slot
        return np.where(has, self.size.ravel()[slot], np.nan) if len(slot) else np.empty(0)

    @cached_property
    def leader_sized(self) -> Flags:
        """[P] whether the leader's broker reported the partition's size."""
        known = ~np.isnan(self.size).ravel()
        known[self.nan_sizes] = True
        slot, has = self.topology.leader_slot
        return has & known[slot] if len(slot) else has

    @cached_property
    def live(self) -> bool:
        """Whether anything but sizes was measured: the first scrape of running totals alone gives neither CPU nor rates."""
        measured = (self.has_cpu | ~np.isnan(self.process)).any() or self.present[list(raw_metrics.TOTALS)].any()
        return bool(measured or self.rates.any())

    @cached_property
    def shares(self) -> tuple[Floats, Floats, Flags]:
        """[G] each group's part of its broker's bytes in and out (at most all of it), and whether a partition's rate exceeds its
        broker's by more than the slack. Independent of the CPU weights."""
        leader = self.topology.groups[1]
        whole_in = self.totals[raw_metrics.IN][leader]
        whole_out = (self.totals[raw_metrics.OUT] + self.totals[raw_metrics.REPL_OUT])[leader]
        part_in = self.rates[raw_metrics.IN]
        part_out = self.rates[raw_metrics.OUT] + self.rates[raw_metrics.REPL_OUT]
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            idle = (whole_in == 0) & (whole_out == 0)
            dropped = ~idle & (
                ((SLACK * whole_in < part_in) & (whole_in > QUIET))
                | ((SLACK * whole_out < part_out) & (whole_out > QUIET))
            )
            share_in = np.where(whole_in == 0, 0.0, np.minimum(1.0, part_in / whole_in))
            return (
                whole_in * share_in,
                whole_out * np.where(whole_out == 0, 0.0, np.minimum(1.0, part_out / whole_out)),
                dropped,
            )


def build(intervals: Sequence[int], rows: pl.DataFrame, topology: Topology) -> list[Round]:
    """Build the rounds of N sampling ``intervals`` (ascending) at once from their ``rows`` (time_ms, broker, metric, topic,
    partition, value, interval), in file order.

    Rates are means over the records; of sizes the strictly newest counts. Each broker is indexed once per interval, so that one
    pass over the rows serves all intervals.
    """
    count, brokers = len(intervals), topology.brokers
    place = np.searchsorted(np.array(intervals, np.int64), rows["interval"].to_numpy())
    times = np.zeros(count, np.int64)
    np.maximum.at(times, place, rows["time_ms"].to_numpy())
    own = topology.index_of(rows["broker"].to_numpy())
    rows = rows.with_columns(pl.Series("b", place * brokers + own)).filter(pl.Series(own >= 0))
    cpu = _cpu(rows.filter(pl.col("topic").is_null()), count, brokers)
    reported = cpu["extra"][:, list(raw_metrics.TOTALS)] * np.array(raw_metrics.UNIT)[:, None]
    is_size = (pl.col("metric") == raw_metrics.SIZE) & pl.col("partition").is_not_null()
    topic_rows = rows.filter(
        pl.col("topic").is_not_null() & (is_size | pl.col("metric").is_in(list(raw_metrics.TOPIC)))
    )
    codes, width = _topic_codes(topic_rows["topic"], topology)
    pair = topic_rows["b"].to_numpy() * width + codes
    of_size = (topic_rows["metric"] == raw_metrics.SIZE).to_numpy()
    sized_pairs, sizes = _sizes(pair[of_size], width, topic_rows.filter(pl.Series(of_size)), topology, count)
    rated, values = _rates(pair[~of_size], topic_rows.filter(pl.Series(~of_size)))

    _, leader, topic, led = topology.groups
    leaders = (np.arange(count)[:, None] * brokers + leader).ravel()  # [N × G]
    wanted = leaders * width + np.tile(topology.norm[topic], count)
    found, has_rate = _find(rated, wanted)
    rates = np.zeros((7, len(wanted)))
    rates[:, has_rate] = values[:, found[has_rate]] / np.tile(led, count)[has_rate]
    sized = _find(sized_pairs, wanted)[1]

    # Topics that share a metric name count as one.
    every, shape = count * brokers, (count, brokers)
    names, first = np.unique(wanted, return_index=True)
    leads, lost = names // width, ~sized[first]
    led_topics, lost_topics = np.bincount(leads, minlength=every), np.bincount(leads[lost], minlength=every)
    led_partitions = np.bincount(leaders, weights=np.tile(led, count), minlength=every)
    lost_partitions = np.bincount(leaders[~sized], weights=np.tile(led, count)[~sized], minlength=every)
    complete = (lost_topics <= MISSING_SHARE * led_topics) & (lost_partitions <= MISSING_SHARE * led_partitions)
    summed = _find(sized_pairs, rated)[1]
    sums = np.stack([tally(rated[summed] // width, v[summed], every) for v in values]).reshape(7, *shape).swapaxes(0, 1)
    replaced = (complete & (np.bincount(sized_pairs // width, minlength=every) > 0)).reshape(shape)
    heard = np.zeros(every, np.bool_)
    heard[rows["b"].unique().to_numpy()] = True
    by_round: dict[str, Any] = cpu | sizes | {
        "interval": intervals, "time_ms": times.tolist(), "topology": [topology] * count, "reported": reported,
        "rates": rates.reshape(7, count, len(leader)).swapaxes(0, 1), "totals": np.where(replaced[:, None], sums, reported),
        "has_total": replaced[:, None] | cpu["present"][:, list(raw_metrics.TOTALS)],
        "sized": sized.reshape(count, len(leader)), "heard": heard.reshape(shape), "complete": complete.reshape(shape),
        "missing": lost_topics.astype(np.int32).reshape(shape),
    }  # fmt: skip
    return [Round(**{name: values[n] for name, values in by_round.items()}) for n in range(count)]


def _cpu(rows: pl.DataFrame, count: int, brokers: int) -> dict[str, npt.NDArray[Any]]:
    """Return the mean of every broker-scope metric and each broker's CPU, as fields of ``Round`` by round; a reported NaN is a
    value."""
    at = rows["metric"].to_numpy().astype(np.int64) * (count * brokers) + rows["b"].to_numpy()
    records = np.bincount(at, minlength=_METRICS * count * brokers)
    sums = tally(at, rows["value"].to_numpy(), len(records))
    shape = (_METRICS, count, brokers)
    present = (records > 0).reshape(shape)
    wide = np.where(present, (sums / np.maximum(records, 1)).reshape(shape), np.nan)
    cpu, has = wide[raw_metrics.CPU].copy(), present[raw_metrics.CPU].copy()
    kinds = np.where(has.any(axis=1), "reported", "")
    process = wide[raw_metrics.PROCESS_CPU_SECONDS]
    limit = wide[raw_metrics.CONTAINER_QUOTA] / wide[raw_metrics.CONTAINER_PERIOD]
    limit = np.where(present[raw_metrics.CONTAINER_CORES], wide[raw_metrics.CONTAINER_CORES], limit)
    container = np.where(limit > 0, wide[raw_metrics.CONTAINER_CPU_SECONDS] / limit, np.nan)
    process = np.where(np.isnan(process), wide[raw_metrics.CONTAINER_CPU_SECONDS], process)
    for word, given, value in (
        ("container", ~np.isnan(container), container),
        ("node", present[raw_metrics.NODE_IDLE_SECONDS], wide[raw_metrics.NODE_IDLE_SECONDS]),
        ("process", present[raw_metrics.PROCESS_LOAD], wide[raw_metrics.PROCESS_LOAD]),
    ):
        take = ~has & given
        cpu = np.where(take, value, cpu)
        has |= take
        kinds = np.where((kinds == "") & take.any(axis=1), word, kinds)
    kinds = np.where((kinds == "") & (~np.isnan(process)).any(axis=1), "process", kinds)
    extra, there = (values[: len(raw_metrics.NAMES)].swapaxes(0, 1) for values in (wide, present))
    return {"cpu": cpu, "has_cpu": has, "process": process, "cpu_kind": kinds, "extra": extra, "present": there}


_METRICS = 128  # ids of broker-scope metrics lie below this


def _rates(pair: Longs, rows: pl.DataFrame) -> tuple[Longs, Floats]:
    """Return the pairs of broker and topic with a rate, sorted, and the mean [7, pairs] of each topic metric, 0 without one."""
    pairs, at = np.unique(pair, return_inverse=True)
    metric, value = rows["metric"].to_numpy(), rows["value"].to_numpy()
    values = np.zeros((7, len(pairs)))
    for place, number in enumerate(raw_metrics.TOPIC):
        here = metric == number
        counts = np.bincount(at[here], minlength=len(pairs))
        values[place] = tally(at[here], value[here], len(pairs)) / np.maximum(counts, 1) * raw_metrics.UNIT[place]
    return pairs, values


def _find(keys: Longs, wanted: Longs) -> tuple[Longs, Flags]:
    """Return the place of each of ``wanted`` in the sorted ``keys`` and whether it is there (if not, the place is arbitrary)."""
    if not len(keys):
        return np.zeros(len(wanted), np.int64), np.zeros(len(wanted), np.bool_)
    place = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return place, keys[place] == wanted


def _topic_codes(names: pl.Series, topology: Topology) -> tuple[npt.NDArray[np.int64], int]:
    """Return the code of each topic name (dots as underscores), unknown topics after the topology's, and the number of codes."""
    # Few distinct names in many rows: only the distinct ones are compared with the topology's.
    distinct = names.unique(maintain_order=True)
    dotless = distinct.str.replace_all(".", "_", literal=True)
    every = pl.concat([pl.Series(topology.norm_names, dtype=pl.String), dotless]).unique(maintain_order=True)
    table = pl.DataFrame({"topic": distinct, "code": dotless.cast(pl.Enum(every)).to_physical().cast(pl.Int64)})
    joined = names.rename("topic").to_frame().join(table, on="topic", how="left", maintain_order="left")
    return joined["code"].to_numpy(), max(len(every), 1)


def _sizes(pair: Longs, width: int, rows: pl.DataFrame, topology: Topology, count: int) -> tuple[Longs, dict[str, Any]]:
    """Match reported sizes with replicas: the newest size counts, and the first of equally new ones.

    Returns the pairs of broker and topic with a size, sorted, and fields of ``Round`` by round. ``disk`` sums all sizes that a
    broker reported, also those of partitions that the topology does not know. ``pair``: broker and topic of each of ``rows``, as
    the broker's index in its round times ``width`` plus the topic's code.
    """
    matrix = np.full((count, *topology.replicas.shape), np.nan)
    time, partition, value = (rows[name].to_numpy() for name in ("time_ms", "partition", "value"))
    if len(time) and (time != time[0]).any():
        newest = np.argsort(-time, kind="stable")
        pair, partition, value = pair[newest], partition[newest], value[newest]
    brokers, codes, partitions, slots = topology.slots
    numbers, theirs = partition.astype(np.int64), partitions.astype(np.int64)
    span = int(max(numbers.max(initial=0), theirs.max(initial=0))) + 1
    if count * topology.brokers * width * span >= 2**63:  # only absurd partition numbers in a file get here
        _, ranks = np.unique(np.concatenate([numbers, theirs]), return_inverse=True)
        numbers, theirs, span = ranks[: len(numbers)], ranks[len(numbers) :], len(ranks)
    key = pair * span + numbers
    order = np.argsort(key, kind="stable")
    key = key[order]
    first = np.append(True, key[1:] != key[:-1])[: len(key)]
    key, megabytes = key[first], value[order[first]] * raw_metrics.MB
    found = key // span
    replica = (brokers.astype(np.int64) * width + codes) * span + theirs
    step = topology.brokers * width * span
    nan = []
    for n in range(count):
        place, known = _find(key, replica + n * step)
        matrix[n].ravel()[slots[known]] = megabytes[place[known]]
        nan.append(slots[known & np.isnan(megabytes)[place]] if np.isnan(megabytes).any() else slots[:0])
    disk = tally(found // width, megabytes, count * topology.brokers).reshape(count, topology.brokers)
    pairs = found[np.append(True, found[1:] != found[:-1])[: len(found)]]
    return pairs, {"size": matrix, "nan_sizes": nan, "disk": disk}


class BrokerRun(msgspec.Struct, frozen=True, eq=False):
    """What the brokers ``ids`` [B] reported in N consecutive rounds, as in ``Round``, each [N, B]; ``time_ms`` [N].

    ``bytes_in``, ``bytes_out``: their totals; ``replication_in``, ``replication_out``: as they report them.
    """

    ids: Ints
    time_ms: Longs
    cpu: Floats
    has_cpu: Flags
    process: Floats
    heard: Flags
    bytes_in: Floats
    bytes_out: Floats
    replication_in: Floats
    replication_out: Floats

    @property
    def in_cores(self) -> bool:
        """Whether CPU is measured in cores that a process uses, not as a share."""
        return bool((~self.has_cpu & ~np.isnan(self.process)).any())


def runs(rounds: Sequence[Round]) -> tuple[BrokerRun, ...]:
    """Return what the brokers reported in ``rounds``, one run for consecutive rounds of one topology."""
    made = []
    for _, members in itertools.groupby(rounds, key=lambda one: id(one.topology)):
        part = list(members)
        totals, reported = np.array([one.totals for one in part]), np.array([one.reported for one in part])
        made.append(
            BrokerRun(
                part[0].topology.ids,
                np.array([one.time_ms for one in part], np.int64),
                *(np.array([getattr(one, name) for one in part]) for name in ("cpu", "has_cpu", "process", "heard")),
                *(totals[:, place].copy() for place in (raw_metrics.IN, raw_metrics.OUT)),
                *(reported[:, place].copy() for place in (raw_metrics.REPL_IN, raw_metrics.REPL_OUT)),
            )
        )
    return tuple(made)


def broker_cpu(one: Round | BrokerRun, cores: Floats) -> tuple[Floats, Flags]:
    """Return the CPU fraction [B] (of a run [N, B]) of each broker and whether there is one; a process' cores are divided by
    the broker's."""
    process = ~one.has_cpu & ~np.isnan(one.process)
    with np.errstate(divide="ignore", invalid="ignore"):
        cpu = np.where(process, one.process / cores, one.cpu)
    return cpu, one.has_cpu | process
