"""Sampling rounds: raw metrics of one sampling interval combined and matched with the topology.

Everything here is independent of the CPU weights. See "Sampling rounds" and "Totals of a broker" in
docs/models/broker-load.md. Source: Cruise Control's ``RawMetricsHolder``, ``BrokerLoad`` and ``CruiseControlMetricsProcessor``.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import polars as pl

from engine.broker_load.model.topology import Flags, Floats, Ints, Longs, Topology, tally
from engine.broker_load.tables import raw_metrics

MISSING_SHARE = 0.01
"""Largest share of topics, and of leader partitions, that may lack a size before a broker's totals stay as reported."""


SLACK = 1.05
"""Factor by which a partition may exceed its broker's rate before its sample is dropped."""
QUIET = 10.0
"""Rate of a broker in KB/s at or below which that factor does not count."""


@dataclass(frozen=True, eq=False)
class Round:
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
        """[G] what each group takes of its broker's bytes in and out (clamped to all of it), and whether a partition's
        rate exceeds its broker's by more than the slack allows. Independent of the CPU weights."""
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
            share_out = np.where(whole_out == 0, 0.0, np.minimum(1.0, part_out / whole_out))
            return whole_in * share_in, whole_out * share_out, dropped


def build(interval: int, rows: pl.DataFrame, topology: Topology) -> Round:
    """Build one round from ``rows`` (time_ms, broker, metric, topic, partition, value) of one sampling interval.

    Rates are means over the records, sizes the value with the strictly greatest time. Rows are in file order.
    """
    brokers = topology.brokers
    time_ms = int(rows["time_ms"].max() or 0)  # type: ignore[arg-type]
    rows = rows.with_columns(pl.Series("b", topology.index_of(rows["broker"].to_numpy()))).filter(pl.col("b") >= 0)
    wide, present = _broker_means(rows.filter(pl.col("topic").is_null()), brokers)
    extra, has_cpu = wide[: len(raw_metrics.NAMES)], present[raw_metrics.CPU].copy()
    process = wide[raw_metrics.PROCESS_CPU_SECONDS]
    cpu = extra[raw_metrics.CPU].copy()
    kind = "reported" if has_cpu.any() else ""
    limit = wide[raw_metrics.CONTAINER_QUOTA] / wide[raw_metrics.CONTAINER_PERIOD]
    limit = np.where(present[raw_metrics.CONTAINER_CORES], wide[raw_metrics.CONTAINER_CORES], limit)
    container = np.where(limit > 0, wide[raw_metrics.CONTAINER_CPU_SECONDS] / limit, np.nan)
    process = np.where(np.isnan(process), wide[raw_metrics.CONTAINER_CPU_SECONDS], process)
    for word, given, value in (
        ("container", ~np.isnan(container), container),
        ("node", present[raw_metrics.NODE_IDLE_SECONDS], wide[raw_metrics.NODE_IDLE_SECONDS]),
        ("process", present[raw_metrics.PROCESS_LOAD], wide[raw_metrics.PROCESS_LOAD]),
    ):
        take = ~has_cpu & given
        cpu = np.where(take, value, cpu)
        has_cpu |= take
        kind = kind or (word if take.any() else "")
    kind = kind or ("process" if (~np.isnan(process)).any() else "")
    reported = extra[list(raw_metrics.TOTALS)] * np.array(raw_metrics.UNIT)[:, None]

    is_size = (pl.col("metric") == raw_metrics.SIZE) & pl.col("partition").is_not_null()
    topic_rows = rows.filter(
        pl.col("topic").is_not_null() & (is_size | pl.col("metric").is_in(list(raw_metrics.TOPIC)))
    )
    codes, width = _topic_codes(topic_rows["topic"], topology)
    pair = topic_rows["b"].to_numpy().astype(np.int64) * width + codes
    of_size = (topic_rows["metric"] == raw_metrics.SIZE).to_numpy()
    sizes = _sizes(pair[of_size], width, topic_rows.filter(pl.Series(of_size)), topology)
    rated, values = _rates(pair[~of_size], topic_rows.filter(pl.Series(~of_size)))

    _, leader, topic, count = topology.groups
    wanted = leader.astype(np.int64) * width + topology.norm[topic]
    place, has_rate = _find(rated, wanted)
    group_rates = np.zeros((7, len(leader)))
    group_rates[:, has_rate] = values[:, place[has_rate]] / count[has_rate]
    sized = _find(sizes.pairs, wanted)[1]

    # Topics that share a metric name count as one.
    names, first = np.unique(wanted, return_index=True)
    leads, lost = names // width, ~sized[first]
    led_topics, lost_topics = np.bincount(leads, minlength=brokers), np.bincount(leads[lost], minlength=brokers)
    led_partitions = np.bincount(leader, weights=count, minlength=brokers)
    lost_partitions = np.bincount(leader[~sized], weights=count[~sized], minlength=brokers)
    complete = (lost_topics <= MISSING_SHARE * led_topics) & (lost_partitions <= MISSING_SHARE * led_partitions)
    summed = _find(sizes.pairs, rated)[1]
    sums = np.stack([tally(rated[summed] // width, v[summed], brokers) for v in values])
    replaced = complete & (np.bincount(sizes.pairs // width, minlength=brokers) > 0)
    heard = np.zeros(brokers, np.bool_)
    heard[rows["b"].unique().to_numpy()] = True
    return Round(
        interval,
        time_ms,
        topology,
        group_rates,
        np.where(replaced, sums, reported),
        replaced | present[list(raw_metrics.TOTALS)],
        reported,
        cpu,
        has_cpu,
        process,
        kind,
        sizes.matrix,
        sizes.nan,
        sized,
        heard,
        complete,
        lost_topics.astype(np.int32),
        sizes.disk,
        extra,
        present[: len(raw_metrics.NAMES)],
    )


def _broker_means(rows: pl.DataFrame, brokers: int) -> tuple[Floats, Flags]:
    """Return the mean [128, B] of every broker-scope metric by its id, NaN without one, and which were reported: a NaN that
    was is a value."""
    wide, present = np.full((128, brokers), np.nan), np.zeros((128, brokers), np.bool_)
    if rows.height:
        means = rows.group_by("metric", "b").agg(pl.col("value").mean())
        at = means["metric"].to_numpy(), means["b"].to_numpy()
        wide[at], present[at] = means["value"].to_numpy(), True
    return wide, present


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
    """Return where each of ``wanted`` stands in the sorted ``keys``, and whether it does (any place where it does not)."""
    if not len(keys):
        return np.zeros(len(wanted), np.int64), np.zeros(len(wanted), np.bool_)
    place = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return place, keys[place] == wanted


def _topic_codes(names: pl.Series, topology: Topology) -> tuple[npt.NDArray[np.int64], int]:
    """Return the code of each topic name (dots as underscores): the topology's code, or one behind them for unknown topics; and
    how many codes there are."""
    # Few distinct names in many rows: only the distinct ones are compared with the topology's.
    distinct = names.unique(maintain_order=True)
    dotless = distinct.str.replace_all(".", "_", literal=True).to_list()
    codes_by_name = topology.norm_places
    codes: list[int] = []
    extra: dict[str, int] = {}
    for name in dotless:
        code = codes_by_name.get(name)
        if code is None:
            code = extra.setdefault(name, len(codes_by_name) + len(extra))
        codes.append(code)
    table = pl.DataFrame({"topic": distinct, "code": pl.Series(codes, dtype=pl.Int64)})
    joined = names.rename("topic").to_frame().join(table, on="topic", how="left", maintain_order="left")
    return joined["code"].to_numpy(), max(len(codes_by_name) + len(extra), 1)


@dataclass(frozen=True, eq=False)
class _Sizes:
    """``matrix`` [P, R] MB of each replica as its broker reported it, NaN where it did not; ``nan`` flat positions in it
    where NaN is what was reported; ``pairs`` of broker and topic with a size, sorted; ``disk`` [B] MB of all sizes a broker
    reported, also of partitions that the topology does not know."""

    matrix: Floats
    nan: Longs
    pairs: Longs
    disk: Floats


def _sizes(pair: Longs, width: int, rows: pl.DataFrame, topology: Topology) -> _Sizes:
    """Match reported sizes with replicas: the strictly newest size of one counts, of equally new ones the first.

    ``pair`` of broker and topic of each of ``rows``: broker index times ``width`` and topic code.
    """
    matrix = np.full(topology.replicas.shape, np.nan)
    time, partition, value = (rows[name].to_numpy() for name in ("time_ms", "partition", "value"))
    if len(time) and (time != time[0]).any():
        newest = np.argsort(-time, kind="stable")
        pair, partition, value = pair[newest], partition[newest], value[newest]
    slots = topology.slots
    numbers, theirs = partition.astype(np.int64), slots.partition.astype(np.int64)
    span = int(max(numbers.max(initial=0), theirs.max(initial=0))) + 1
    if topology.brokers * width * span >= 2**63:  # no cluster is so large: a file gives absurd partition numbers
        _, ranks = np.unique(np.concatenate([numbers, theirs]), return_inverse=True)
        numbers, theirs, span = ranks[: len(numbers)], ranks[len(numbers) :], len(ranks)
    key = pair * span + numbers
    order = np.argsort(key, kind="stable")
    key = key[order]
    first = np.append(True, key[1:] != key[:-1])[: len(key)]
    key, megabytes = key[first], value[order[first]] * raw_metrics.MB
    found = key // span
    place, known = _find(key, (slots.broker.astype(np.int64) * width + slots.code) * span + theirs)
    matrix.ravel()[slots.slot[known]] = megabytes[place[known]]
    nan = slots.slot[known & np.isnan(megabytes)[place]] if np.isnan(megabytes).any() else np.empty(0, np.int64)
    disk = tally(found // width, megabytes, topology.brokers)
    return _Sizes(matrix, nan, found[np.append(True, found[1:] != found[:-1])[: len(found)]], disk)


def broker_cpu(one: Round, cores: Floats) -> tuple[Floats, Flags]:
    """Return the CPU fraction [B] of each broker and whether there is one; a process' cores are divided by the broker's."""
    process = ~one.has_cpu & ~np.isnan(one.process)
    with np.errstate(divide="ignore", invalid="ignore"):
        cpu = np.where(process, one.process / cores, one.cpu)
    return cpu, one.has_cpu | process
