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

from engine.broker_load.model.topology import Flags, Floats, Ints, Topology, tally
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
    totals after the completeness rule, NaN absent. ``reported`` [7, B]: as the brokers report them, NaN absent.
    ``cpu`` [B] fraction 0-1 (``has_cpu`` separates a NaN reading from none); ``process`` [B] cores used by the process,
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

    @cached_property
    def leader_size(self) -> Floats:
        """[P] size of the leader replica in MB, NaN where its broker reported none."""
        slot, has = self.topology.leader_slot
        return np.where(has, self.size.ravel()[slot], np.nan) if len(slot) else np.empty(0)

    @cached_property
    def live(self) -> bool:
        """Whether anything but sizes was measured: the first scrape of running totals alone gives neither CPU nor rates."""
        measured = (self.has_cpu | ~np.isnan(self.process)).any() or (~np.isnan(self.reported)).any()
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
    broker_rows = rows.filter(pl.col("topic").is_null())
    extra, process, load, node = _broker_means(broker_rows, brokers)
    cpu = extra[raw_metrics.CPU].copy()
    has_cpu = np.zeros(brokers, np.bool_)
    reported_cpu = broker_rows.filter(pl.col("metric") == raw_metrics.CPU)["b"].unique().to_numpy()
    has_cpu[reported_cpu] = True
    kind = "reported" if has_cpu.any() else ""
    for source, word in ((node, "node"), (load, "process"), (None, "")):
        if source is not None:
            take = ~has_cpu & ~np.isnan(source)
            cpu = np.where(take, source, cpu)
            has_cpu |= take
            kind = kind or (word if take.any() else "")
    kind = kind or ("process" if (~np.isnan(process)).any() else "")
    reported = extra[list(raw_metrics.TOTALS)] * np.array(raw_metrics.UNIT)[:, None]

    is_size = (pl.col("metric") == raw_metrics.SIZE) & pl.col("partition").is_not_null()
    topic_rows = rows.filter(
        pl.col("topic").is_not_null() & (is_size | pl.col("metric").is_in(list(raw_metrics.TOPIC)))
    )
    codes, width = _topic_codes(topic_rows["topic"], topology)
    topic_rows = topic_rows.with_columns(pl.Series("code", codes), pl.col("value").fill_null(np.nan))
    # A pair: what one broker reports of one topic.
    pairs, at = np.unique(topic_rows["b"].to_numpy().astype(np.int64) * width + codes, return_inverse=True)
    metric, value = topic_rows["metric"].to_numpy(), topic_rows["value"].to_numpy()
    values = np.zeros((7, len(pairs)))
    for place, number in enumerate(raw_metrics.TOPIC):
        here = metric == number
        counts = np.bincount(at[here], minlength=len(pairs))
        values[place] = tally(at[here], value[here], len(pairs)) / np.maximum(counts, 1) * raw_metrics.UNIT[place]
    sized_pair = np.zeros(len(pairs), np.bool_)
    sized_pair[at[metric == raw_metrics.SIZE]] = True
    size, disk = _sizes(topic_rows.filter(pl.col("metric") == raw_metrics.SIZE), topology)
    pair_broker = pairs // width

    _, leader, topic, count = topology.groups
    wanted = leader.astype(np.int64) * width + topology.norm[topic]
    group_rates, sized = np.zeros((7, len(leader))), np.zeros(len(leader), np.bool_)
    if len(pairs):
        where = np.minimum(np.searchsorted(pairs, wanted), len(pairs) - 1)
        present = pairs[where] == wanted
        group_rates = np.where(present, values[:, where], 0.0) / np.maximum(count, 1)
        sized = present & sized_pair[where]

    led_topics = np.bincount(leader, minlength=brokers)
    led_partitions = np.bincount(leader, weights=count, minlength=brokers)
    lost_topics = np.bincount(leader[~sized], minlength=brokers)
    lost_partitions = np.bincount(leader[~sized], weights=count[~sized], minlength=brokers)
    nothing = led_topics == 0
    complete = nothing | (
        (lost_topics <= MISSING_SHARE * led_topics) & (lost_partitions <= MISSING_SHARE * led_partitions)
    )
    sums = np.stack([tally(pair_broker[sized_pair], v[sized_pair], brokers) for v in values])
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
    """Return means [63, B] of broker-scope metrics, and [B] of process cores, the process' own load, the node's load."""
    wide = np.full((128, brokers), np.nan)
    if rows.height:
        means = rows.group_by("metric", "b").agg(pl.col("value").mean())
        wide[means["metric"].to_numpy(), means["b"].to_numpy()] = means["value"].to_numpy()
    return (
        wide[: len(raw_metrics.NAMES)],
        wide[raw_metrics.PROCESS_CPU_SECONDS],
        wide[raw_metrics.PROCESS_LOAD],
        wide[raw_metrics.NODE_IDLE_SECONDS],
    )


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


def _sizes(rows: pl.DataFrame, topology: Topology) -> tuple[Floats, Floats]:
    """Return the MB [P, R] of each replica as its broker reported it, NaN where it did not, and the MB [B] of all sizes
    each broker reported, also of partitions that the topology does not know."""
    if rows["time_ms"].n_unique() > 1:
        rows = rows.sort("time_ms", descending=True, maintain_order=True)
    # The strictly newest size of a replica counts, of equally new ones the first.
    sizes = rows.unique(["b", "code", "partition"], keep="first", maintain_order=True)
    megabytes = sizes["value"].to_numpy() * raw_metrics.MB
    matrix = np.full(topology.replicas.shape, np.nan)
    known = sizes.select("b", "code", "partition", pl.Series("mb", megabytes)).join(
        topology.slots, on=["b", "code", "partition"]
    )
    matrix.ravel()[known["slot"].to_numpy()] = known["mb"].to_numpy()
    return matrix, tally(sizes["b"].to_numpy(), megabytes, topology.brokers)
