"""Brokers without a topology: each broker's own totals, as scrapes measure them."""

from __future__ import annotations

import polars as pl

from engine.broker_load.model import cluster_facts, identity, ticks
from engine.broker_load.model.history import known_brokers
from engine.broker_load.tables import raw_metrics
from engine.broker_load.tables.loads import BROKERS
from engine.core.view import Inputs

_CPU = (raw_metrics.CPU, raw_metrics.NODE_IDLE_SECONDS, raw_metrics.PROCESS_LOAD)
"""Metrics that give a broker's CPU, the preferred one first."""


_BEFORE = 50  # moments read before a host's newest sampling interval: its rates need the previous tick of each exporter


def _newest(inputs: Inputs, at_ms: int | None, interval_ms: int) -> pl.DataFrame:
    """Return the rows of each host's newest sampling interval (each broker's, if it has no host), and some before it."""
    of, time = ["host", "broker"], pl.col("time_ms")
    files, timely = set(inputs.files), pl.lit(value=True) if at_ms is None else time <= at_ms
    parts = [part.select(*of, "time_ms").unique() for part in inputs.parts("metrics", files, timely)]
    moments = pl.concat(parts).unique() if parts else None
    if moments is None or not moments.height:
        return inputs.of("metrics", set())
    before = time.filter(time < time.max() // interval_ms * interval_ms).top_k(_BEFORE).min()
    since = moments.group_by(of).agg(pl.coalesce(before, time.min()).alias("_since"))
    recent = timely & (time >= since["_since"].min())
    found = (
        rows.join(since, on=of, how="left", maintain_order="left", nulls_equal=True).filter(time >= pl.col("_since"))
        for rows in inputs.parts("metrics", files, recent)
    )
    return pl.concat(found).drop("_since")


def brokers(inputs: Inputs, at_ms: int | None, interval_ms: int) -> pl.DataFrame | None:
    """Return rows of ``brokers`` with source ``measured``: network and disk as each broker reports them in its newest sampling
    interval. Hosts without a known id are numbered from -1 downwards. None without scrapes.

    Leaders' network in is the broker's total (else the sum of its topics), followers' its replication in; network out goes
    to consumers and followers. Without reported sizes the disk is kminion's total, else what the broker's volumes hold.
    """
    table = _newest(inputs, at_ms, interval_ms)
    disks = cluster_facts.disk_totals(cluster_facts.facts(inputs, at_ms))
    if not table.height and not disks.height:
        return None
    listed = known_brokers(inputs.table("broker_list"), inputs.table("answer_brokers"), {})
    reported, held = inputs.table("log_dir_sizes"), inputs.table("topology")
    if not held.height:
        held = reported.group_by("topic", "partition").agg(pl.col("broker").alias("replicas"))
    table = identity.by_bytes(table, reported)
    ids = dict(identity.resolve(table, held, listed, inputs.table("machines")).ids)
    serving = identity.carriers(table)
    names = identity.together(table["host"].drop_nulls().unique().to_list(), inputs.table("machines"))
    served = {names[host] for host in serving} or set(names.values())
    unknown = {host: name for host, name in names.items() if host not in ids and name in served}
    numbers = {name: -number for number, name in enumerate(sorted(set(unknown.values())), 1)}
    ids |= {host: (numbers[name],) for host, name in sorted(unknown.items())}
    rows = ticks.readings(table, ids, interval_ms, ticks.repeats(ticks.of_rows(table)))
    if not rows.height and not disks.height:
        return None
    newest = rows.group_by("broker").agg(pl.col("interval").max())
    rows = rows.join(newest, on=["broker", "interval"], maintain_order="left")  # keep one order of summation
    totals = (
        rows.filter(pl.col("topic").is_null())
        .group_by("broker", "metric", maintain_order=True)
        .agg(pl.col("value").mean())
    )
    means = {(broker, metric): value for broker, metric, value in totals.iter_rows()}
    topics = (
        rows.filter(pl.col("topic").is_not_null() & pl.col("metric").is_in(list(raw_metrics.TOPIC)))
        .group_by("broker", "metric", "topic", maintain_order=True).agg(pl.col("value").mean())
        .group_by("broker", "metric", maintain_order=True).agg(pl.col("value").sum())
    )  # fmt: skip
    summed = {(broker, metric): value for broker, metric, value in topics.iter_rows()}
    sizes = (
        rows.filter(pl.col("metric") == raw_metrics.SIZE)
        .sort("time_ms", descending=True, maintain_order=True)
        .unique(["broker", "topic", "partition"], keep="first", maintain_order=True)
        .group_by("broker", maintain_order=True)
        .agg(pl.col("value").sum() * raw_metrics.MB, pl.len())
    )
    whole_disks = disks.group_by("broker").agg(pl.col("size").sum() * raw_metrics.MB).rows()
    disk: dict[int, tuple[float | None, int | None]] = {broker: (size, None) for broker, size in whole_disks}
    disk |= {broker: (size, count) for broker, size, count in sizes.iter_rows()}
    hosts = {broker: names.get(host, host) for host, brokers in reversed(ids.items()) for broker in brokers}
    out: list[dict[str, object]] = []
    for broker in sorted({*rows["broker"].unique().to_list(), *disks["broker"].to_list()}):
        rates = [
            means.get((broker, total), summed.get((broker, topic)))
            for total, topic in zip(raw_metrics.TOTALS, raw_metrics.TOPIC, strict=True)
        ]
        kbs = [None if rate is None else rate / 1024 for rate in rates]
        sent = [rate for rate in (kbs[raw_metrics.OUT], kbs[raw_metrics.REPL_OUT]) if rate is not None]
        cpu = next((means[broker, metric] for metric in _CPU if (broker, metric) in means), None)
        size, count = disk.get(broker, (None, None))
        row: dict[str, object] = {
            "broker": broker,
            "host": listed[broker].host if broker in listed else hosts.get(broker, ""),
            "rack": listed[broker].rack if broker in listed else None,
            "disk_mb": size,
            "leader_nw_in_kbs": kbs[raw_metrics.IN],
            "follower_nw_in_kbs": kbs[raw_metrics.REPL_IN],
            "nw_out_kbs": sum(sent) if sent else None,
            "replicas": count,
            "measured_cpu_pct": None if cpu is None else cpu * 100,
            "source": "measured",
        }
        out.append(row)
    return BROKERS.sorted(BROKERS.frame({name: [row.get(name) for row in out] for name in BROKERS.schema}))
