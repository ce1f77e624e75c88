"""Sampling rounds: raw metrics of one sampling interval combined and matched with the topology (sheet, section 2).

Everything here is independent of the CPU weights, so a round is computed once and kept.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from engine.broker_load import metrics
from engine.broker_load.topology import Flags, Floats, Ints, Longs, Topology, tally

MISSING_SHARE = 0.01
"""Largest share of topics, and of leader partitions, that may lack a size before a broker's totals stay as reported."""


@dataclass(frozen=True, eq=False)
class Round:
    """One sampling interval on topology ``topology`` with G groups (topic × leading broker) and B brokers.

    ``rates`` [7, G]: topic rates per partition, model units (order: metrics.TOPIC; absent 0). ``totals`` [7, B]: broker
    totals after the completeness rule, NaN absent. ``reported`` [7, B]: as the brokers report them, NaN absent.
    ``cpu`` [B] fraction 0-1 (``has_cpu`` tells a NaN reading from none); ``process`` [B] cores used by the process,
    NaN unknown. ``size`` [P, R] MB of each replica, NaN absent. ``sized`` [G]: the leader reported a size of the topic.
    ``heard`` [B]: sent any record. ``complete`` [B]: passed the completeness rule; ``missing`` [B] topics without size.
    ``disk`` [B] MB of all sizes a broker reported. ``extra`` [63, B] mean of every broker-scope metric, NaN absent.
    ``time_ms``: newest record in it.
    """

    interval: int
    time_ms: int
    topology: Topology
    rates: Floats
    totals: Floats
    reported: Floats
    cpu: Floats
    has_cpu: Flags
    process: Floats
    cpu_kind: str
    size: Floats
    sized: Flags
    heard: Flags
    complete: Flags
    missing: Ints
    disk: Floats
    extra: Floats


def build(interval: int, rows: pl.DataFrame, topology: Topology) -> Round:
    """One round from ``rows`` (time_ms, broker, metric, topic, partition, value) of one sampling interval.

    Rates are means over the records, sizes the value with the strictly greatest time. Rows are in file order.
    """
    brokers = topology.brokers
    time_ms = int(rows["time_ms"].max() or 0)  # type: ignore[arg-type]
    rows = rows.with_columns(pl.Series("b", topology.index_of(rows["broker"].to_numpy()))).filter(pl.col("b") >= 0)
    broker_rows = rows.filter(pl.col("topic").is_null())
    extra, process, load, node = _broker_means(broker_rows, brokers)
    cpu = extra[metrics.CPU].copy()
    has_cpu = np.zeros(brokers, np.bool_)
    reported_cpu = broker_rows.filter(pl.col("metric") == metrics.CPU)["b"].unique().to_numpy()
    has_cpu[reported_cpu] = True
    kind = "reported" if has_cpu.any() else ""
    for source, word in ((node, "node"), (load, "process"), (None, "")):
        if source is not None:
            take = ~has_cpu & ~np.isnan(source)
            cpu = np.where(take, source, cpu)
            has_cpu |= take
            kind = kind or (word if take.any() else "")
    kind = kind or ("process" if (~np.isnan(process)).any() else "")
    reported = extra[list(metrics.TOTALS)] * np.array(metrics.UNIT)[:, None]

    topic_rows = rows.filter(pl.col("topic").is_not_null())
    codes, width = _topic_codes(topic_rows["topic"], topology)
    topic_rows = topic_rows.with_columns((pl.col("b").cast(pl.Int64) * width + codes).alias("pair"))
    sizes = topic_rows.filter((pl.col("metric") == metrics.SIZE) & pl.col("partition").is_not_null())
    if sizes["time_ms"].n_unique() > 1:
        sizes = sizes.sort("time_ms", descending=True, maintain_order=True)
    rates = topic_rows.filter(pl.col("metric").is_in(list(metrics.TOPIC)))
    means = rates.group_by("pair", "metric").agg(pl.col("value").mean())
    pairs = np.union1d(means["pair"].unique().to_numpy(), sizes["pair"].unique().to_numpy()).astype(np.int64)
    values = np.zeros((7, len(pairs)))
    place = {number: position for position, number in enumerate(metrics.TOPIC)}
    for (number,), part in means.partition_by("metric", as_dict=True).items():
        values[place[int(number)], np.searchsorted(pairs, part["pair"].to_numpy())] = part["value"].to_numpy()
    values *= np.array(metrics.UNIT)[:, None]
    sized_pair = np.zeros(len(pairs), np.bool_)
    sized_pair[np.searchsorted(pairs, sizes["pair"].unique().to_numpy())] = True

    size = _sizes(sizes, pairs, width, topology)
    pair_broker = (pairs // max(width, 1)).astype(np.int64)
    # Sum of every size the broker reported, also of partitions the topology does not know.
    first = sizes.unique(["pair", "partition"], keep="first") if sizes.height else sizes
    disk = tally(first["b"].to_numpy(), first["value"].to_numpy() * metrics.MB, brokers)

    _, leader, topic, count = topology.groups
    group_pair = leader.astype(np.int64) * width + topology.norm[topic]
    where = np.searchsorted(pairs, group_pair)
    found = np.zeros(len(leader), np.bool_)
    if len(pairs):
        where = np.minimum(where, len(pairs) - 1)
        found = pairs[where] == group_pair
    group_rates = np.where(found, values[:, where] if len(pairs) else 0.0, 0.0) / np.maximum(count, 1)
    sized = found & (sized_pair[where] if len(pairs) else False)

    led_topics = np.bincount(leader, minlength=brokers)
    led_partitions = np.bincount(leader, weights=count, minlength=brokers)
    lost_topics = np.bincount(leader[~sized], minlength=brokers)
    lost_partitions = np.bincount(leader[~sized], weights=count[~sized], minlength=brokers)
    nothing = led_topics == 0
    complete = nothing | (
        (lost_topics <= MISSING_SHARE * led_topics) & (lost_partitions <= MISSING_SHARE * led_partitions)
    )
    sums = np.stack(
        [np.bincount(pair_broker[sized_pair], weights=v[sized_pair], minlength=brokers) for v in values]
    ) if len(pairs) else np.zeros((7, brokers))  # fmt: skip
    any_sized = np.zeros(brokers, np.bool_)
    any_sized[pair_broker[sized_pair]] = True
    totals = np.where(complete & any_sized, sums, reported)
    heard = np.zeros(brokers, np.bool_)
    heard[rows["b"].unique().to_numpy()] = True
    return Round(
        interval,
        time_ms,
        topology,
        group_rates,
        totals,
        reported,
        cpu,
        has_cpu,
        process,
        kind,
        size,
        sized,
        heard,
        complete,
        lost_topics.astype(np.int32),
        disk,
        extra,
    )


def _broker_means(rows: pl.DataFrame, brokers: int) -> tuple[Floats, Floats, Floats, Floats]:
    """Means [63, B] of broker-scope metrics, and [B] of process cores, the process' own load, the node's load."""
    wide = np.full((128, brokers), np.nan)
    if rows.height:
        means = rows.group_by("metric", "b").agg(pl.col("value").mean())
        wide[means["metric"].to_numpy(), means["b"].to_numpy()] = means["value"].to_numpy()
    return wide[: len(metrics.NAMES)], wide[metrics.PROCESS_CPU_SECONDS], wide[102], wide[metrics.NODE_IDLE_SECONDS]


def _topic_codes(names: pl.Series, topology: Topology) -> tuple[pl.Series, int]:
    """Code of each topic name (dots as underscores): the topology's code, or one behind them for unknown topics; and
    how many codes there are."""
    known = list(topology.norm_names)
    dotless = names.str.replace_all(".", "_", literal=True)
    seen = dotless.unique().sort().to_list()
    have = set(known)
    every = known + [name for name in seen if name not in have]
    table = pl.DataFrame(
        {"topic": every, "code": np.arange(len(every), dtype=np.int64)}, schema={"topic": pl.String, "code": pl.Int64}
    )
    joined = dotless.rename("topic").to_frame().join(table, on="topic", how="left", maintain_order="left")
    return joined["code"], max(len(every), 1)


def _sizes(sizes: pl.DataFrame, pairs: Longs, width: int, topology: Topology) -> Floats:
    """[P, R] MB of each replica as its broker reported it, NaN where it did not."""
    out = np.full(topology.replicas.shape, np.nan)
    if not sizes.height or not topology.size:
        return out
    biggest = int(max(topology.partition.max(), sizes["partition"].max() or 0)) + 1
    key = np.searchsorted(pairs, sizes["pair"].to_numpy()).astype(np.int64) * biggest + sizes["partition"].to_numpy()
    order = np.argsort(key, kind="stable")
    key, value = key[order], sizes["value"].to_numpy()[order]
    held = topology.held
    rows, _ = np.nonzero(held)
    slot = topology.replicas[held].astype(np.int64) * width + topology.norm[topology.topic][rows]
    where = np.minimum(np.searchsorted(pairs, slot), len(pairs) - 1)
    wanted = np.where(pairs[where] == slot, where.astype(np.int64) * biggest + topology.partition[rows], -1)
    # ``left`` finds the first of equal keys: the newest, and of equally new ones the first given.
    place = np.minimum(np.searchsorted(key, wanted, side="left"), len(key) - 1)
    out[held] = np.where(key[place] == wanted, value[place] * metrics.MB, np.nan)
    return out
