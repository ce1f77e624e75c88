"""What exporters report about a cluster: replicas and leaders, messages by partition, bytes by broker.

kafka_exporter names the leader of each partition, each broker the partitions it leads; the sizes that brokers report tell which
of them hold a replica. See "Topology from exporters" in docs/models/broker-load.md.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import polars as pl

from engine.broker_load.model import ticks
from engine.broker_load.model.topology import Floats, Topology
from engine.broker_load.reading.metric_names import GONE_MS
from engine.broker_load.tables import raw_metrics
from engine.broker_load.tables.inputs import TOPOLOGY
from engine.core.view import Inputs

_PARTITION = ["topic", "partition"]


def facts(inputs: Inputs, until_ms: int | None) -> pl.DataFrame:
    """Return the rows of ``cluster_facts`` that began by ``until_ms`` (None: all), cut at that moment."""
    rows = inputs.table("cluster_facts")
    if until_ms is None or not rows.height:
        return rows
    last = pl.min_horizontal("last_ms", pl.lit(until_ms, pl.Int64))
    return rows.filter(pl.col("time_ms") <= until_ms).with_columns(last.alias("last_ms"))


def leaders(facts: pl.DataFrame, ids: Mapping[str, tuple[int, ...]]) -> pl.DataFrame:
    """Return the leader of each partition that still exists and since when (``time_ms``, ``leader``).

    ``ids``: brokers by host, for partitions that brokers themselves report to lead; kafka_exporter takes precedence.
    """
    named = facts.filter(pl.col("fact") == raw_metrics.LEADER).with_columns(
        pl.col("value").cast(pl.Int32, strict=False)
    )
    named = named.rename({"value": "leader"}).filter(pl.col("leader") >= -1)
    own = facts.filter((pl.col("fact") == raw_metrics.LEADS) & (pl.col("value") > 0))
    if own.height:
        own = ticks.by_broker(own, ids).rename({"broker": "leader"})
        own = own.join(named.select(_PARTITION).unique(), on=_PARTITION, how="anti", maintain_order="left")
    columns = ["time_ms", "last_ms", *_PARTITION, "leader"]
    rows = pl.concat([named.select(columns), own.select(columns)]) if own.height else named.select(columns)
    there = pl.col("last_ms").max().over(_PARTITION) >= pl.col("last_ms").max() - GONE_MS
    rows = rows.filter(there).sort(*_PARTITION, "time_ms", "last_ms", maintain_order=True)
    again = pl.all_horizontal(pl.col(name) == pl.col(name).shift(1) for name in (*_PARTITION, "leader"))
    return rows.filter(~again.fill_null(False)).drop("last_ms")


def counts(facts: pl.DataFrame, fact: int) -> pl.DataFrame:
    """Return the newest number of replicas, or of in-sync ones, by partition (``count``; null ``partition``: of a whole topic).

    Only the leader of a partition counts them, other brokers report 0.
    """
    rows = facts.filter((pl.col("fact") == fact) & (pl.col("value") > 0))
    if fact == raw_metrics.REPLICAS:
        rows = pl.concat([rows, facts.filter((pl.col("fact") == raw_metrics.LEADS) & (pl.col("value") > 0))])
    newest = rows.sort("last_ms", "time_ms", maintain_order=True).unique(_PARTITION, keep="last", maintain_order=True)
    return newest.select(*_PARTITION, pl.col("value").cast(pl.Int64, strict=False).alias("count"))


def holders(inputs: Inputs, past: pl.DataFrame, ids: Mapping[str, tuple[int, ...]]) -> pl.DataFrame:
    """Return the brokers (``brokers``, sorted) that report a size of each partition, each in its newest tick of ``past``.

    ``topic`` is the name with dots as underscores, as Kafka's metrics have it.
    """
    newest = past.filter("sized").filter(pl.col("time_ms") == pl.col("time_ms").max().over("host", "broker"))
    tick, files = ["host", "broker", "time_ms"], set(newest["file"].unique().to_list())
    moments = newest.select(tick).unique()
    sizes = (pl.col("metric") == raw_metrics.SIZE) & (
        pl.col("time_ms") >= (moments["time_ms"].min() if moments.height else 0)
    )
    parts = [
        part.join(moments, on=tick, how="semi", nulls_equal=True) for part in inputs.parts("metrics", files, sizes)
    ]
    rows = pl.concat(parts) if parts else inputs.of("metrics", files)
    rows = ticks.by_broker(rows, ids).with_columns(_dotless())
    return rows.group_by(_PARTITION).agg(pl.col("broker").unique().sort().alias("brokers"))


def placements(leads: pl.DataFrame, facts: pl.DataFrame, held: pl.DataFrame | None = None) -> pl.DataFrame:
    """Return rows of table ``topology`` made of ``leads`` (see ``leaders``) and the brokers that hold replicas.

    The order of replicas is unknown: the leader comes first, then the others by id. All count as in sync if the reported
    number is that large, else only the leader does; what is in sync beyond them is ``hidden``. Where nothing counts the
    replicas of a partition and only its leader is found, one more may be in sync.
    """
    rows = leads.with_columns(_dotless().alias("name"))
    if held is not None:
        rows = rows.join(held.rename({"topic": "name"}), on=["name", "partition"], how="left", maintain_order="left")
    else:
        rows = rows.with_columns(pl.lit(None, pl.List(pl.Int32)).alias("brokers"))
    leader = pl.when(pl.col("leader") >= 0).then(pl.concat_list("leader")).otherwise(pl.lit([], pl.List(pl.Int32)))
    others = pl.col("brokers").fill_null(pl.lit([], pl.List(pl.Int32))).list.set_difference(leader).list.sort()
    rows = rows.with_columns(leader.alias("isr"), pl.concat_list(leader, others).alias("replicas"))
    in_sync = counts(facts, raw_metrics.IN_SYNC).rename({"count": "synced"})
    rows = rows.join(in_sync, on=_PARTITION, how="left", maintain_order="left")
    whole = pl.col("synced").fill_null(0) >= pl.col("replicas").list.len()
    rows = rows.with_columns(pl.when(whole | pl.col("synced").is_null()).then("replicas").otherwise("isr").alias("isr"))
    none = pl.lit([], pl.List(pl.Int32))
    found = pl.col("replicas").list.len().cast(pl.Int64)
    unseen = pl.coalesce(pl.col("total") - found, (found <= 1).cast(pl.Int64))
    rows = _counted(rows, facts).with_columns(
        pl.coalesce(pl.col("synced") - pl.col("isr").list.len(), unseen).clip(0).cast(pl.Int32).alias("hidden"),
        (pl.col("synced") < pl.col("total")).alias("short"),
        none.alias("offline"),
    )
    columns = ["time_ms", *_PARTITION, "leader", "replicas", "isr", "offline", "hidden", "short"]
    return TOPOLOGY.frame(rows.select(columns)).sort("time_ms", *_PARTITION)


def _counted(rows: pl.DataFrame, facts: pl.DataFrame) -> pl.DataFrame:
    """Return ``rows`` of partitions with the number of replicas that exporters report of each (``total``, null unknown)."""
    wanted = counts(facts, raw_metrics.REPLICAS)
    by_topic = wanted.filter(pl.col("partition").is_null()).select("topic", pl.col("count").alias("of_topic"))
    joined = rows.join(wanted, on=_PARTITION, how="left", maintain_order="left")
    return joined.join(by_topic, on="topic", how="left", maintain_order="left").with_columns(
        pl.coalesce("count", "of_topic").alias("total")
    )


def unknown(placed: pl.DataFrame, facts: pl.DataFrame) -> str:
    """Return in words what exporters cannot say about a topology made of ``placed``."""
    known = _counted(placed.unique(_PARTITION, keep="last", maintain_order=True), facts)
    found = pl.col("replicas").list.len()
    unplaced = known.filter(pl.coalesce(pl.col("total") > found, found <= 1)).height
    synced = facts.filter(pl.col("fact") == raw_metrics.IN_SYNC).height > 0
    parts = ["in which order replicas are assigned" + ("" if synced else ", which are in sync")]
    if unplaced:
        parts.insert(
            0, f"where the followers of {unplaced} of {known.height} partitions are (no broker reports a size)"
        )
    return (
        "the topology is made from exporters' series: leaders as reported, followers by the sizes they report; no exporter "
        f"says {' and '.join(parts)}, so failover is approximate; kafka-topics --describe would add this"
    )


def message_rates(facts: pl.DataFrame, topology: Topology, start_ms: int, end_ms: int) -> Floats | None:
    """Return the growth [P] of partitions' logs between two moments in messages per second, NaN unknown.

    None if no exporter reports log ends. An end that fell belongs to a topic that was created again, and counts from 0.
    """
    rows = facts.filter(pl.col("fact") == raw_metrics.END_OFFSET)
    rows = rows.filter((pl.col("time_ms") <= end_ms) & (pl.col("last_ms") >= start_ms))
    if not rows.height:
        return None
    series = ["host", *_PARTITION]
    rows = rows.sort(*series, "time_ms", maintain_order=True)
    rise = pl.col("value") - pl.col("value").shift(1).over(series)
    grown = rows.with_columns(pl.when(rise < 0).then("value").otherwise(rise).fill_null(0.0).alias("rise")).group_by(series).agg(
        pl.col("rise").sum(),
        pl.max_horizontal(pl.col("time_ms").min(), pl.lit(start_ms)).alias("from"),
        pl.min_horizontal(pl.col("last_ms").max(), pl.lit(end_ms)).alias("to"),
    )  # fmt: skip
    rates = (
        grown.filter(pl.col("to") > pl.col("from"))
        .select(*_PARTITION, (pl.col("rise") / (pl.col("to") - pl.col("from")) * 1000.0).alias("rate"))
        .group_by(_PARTITION).agg(pl.col("rate").max())
    )  # fmt: skip
    wanted = pl.DataFrame({"topic": topology.topic_names, "partition": topology.partition})
    found = wanted.join(rates, on=_PARTITION, how="left", maintain_order="left")["rate"]
    return np.asarray(found.fill_null(np.nan).to_numpy(), np.float64)


def disk_totals(facts: pl.DataFrame) -> pl.DataFrame:
    """Return ``broker``, ``log_dir``, ``size`` and ``capacity`` (bytes, null unknown): kminion's last total of each broker, else
    the used bytes of its volumes as the kubelet reports them."""
    whole = _newest(facts, raw_metrics.BROKER_BYTES, ["broker"])
    used, room = (
        _newest(facts, fact, ["broker", "host"]) for fact in (raw_metrics.VOLUME_BYTES, raw_metrics.VOLUME_CAPACITY)
    )
    volumes = used.filter(~pl.col("broker").is_in(whole["broker"].implode())).join(
        room.select("broker", "host", pl.col("value").alias("capacity")), on=["broker", "host"], how="left"
    )
    size = pl.col("value").alias("size")
    return pl.concat([
        whole.select("broker", pl.lit("(all of them)").alias("log_dir"), size, pl.lit(None, pl.Float64).alias("capacity")),
        volumes.select("broker", pl.col("host").alias("log_dir"), size, "capacity"),
    ]).sort("broker", "log_dir")  # fmt: skip


def topic_totals(facts: pl.DataFrame) -> dict[str, float]:
    """Return the bytes of all replicas of each topic, as kminion reports them last."""
    if not facts.height:
        return {}
    return dict(_newest(facts, raw_metrics.TOPIC_BYTES, ["topic"]).select("topic", "value").iter_rows())


def _newest(facts: pl.DataFrame, fact: int, of: list[str]) -> pl.DataFrame:
    rows = facts.filter(pl.col("fact") == fact).sort("last_ms", "time_ms", maintain_order=True)
    return rows.unique(of, keep="last", maintain_order=True)


def _dotless() -> pl.Expr:
    return pl.col("topic").str.replace_all(".", "_", literal=True)
