"""Sums by rack, topic and log directory: shares of live capacity, inequality, and the load of each disk (JBOD)."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping

import numpy as np
import polars as pl

from engine.broker_load.cruise_control.cluster_model import Cluster, load_columns, total
from engine.broker_load.model import cluster_facts
from engine.broker_load.model.broker_capacity import Capacities, resolve
from engine.broker_load.model.topology import Broker, Floats, Topology, across, any_of, build, tally
from engine.broker_load.tables import raw_metrics
from engine.broker_load.tables.columns import known
from engine.broker_load.tables.loads import BROKERS, DIRECTORIES, RACKS, REPLICAS, TOPICS
from engine.core.view import FILE, Inputs


def racks(cluster: Cluster) -> pl.DataFrame:
    """Return result table ``racks``: sums, with percentages of the rack's live capacity."""
    topology = cluster.topology
    columns = load_columns(cluster, cluster.sums)
    summed = [name for name in columns if name not in ("disk_pct", "cpu_pct")]
    extra = {
        "_cpu": np.where(topology.alive, cluster.sums.raw("CPU"), 0.0),
        "_cpu_cap": cluster.capacity("CPU"),
        "_disk": np.where(topology.alive, cluster.sums.of("DISK"), 0.0),
        "_disk_cap": cluster.capacity("DISK"),
    }
    frame = pl.DataFrame({"rack": list(topology.racks)} | columns | extra)
    grouped = frame.group_by("rack", maintain_order=True).agg(
        pl.len().cast(pl.Int64).alias("brokers"), *map(total, [*summed, *extra])
    )
    shares = [
        pl.when(pl.col(f"_{name}_cap") > 0)
        .then(100.0 * pl.col(f"_{name}").clip(lower_bound=0.0) / pl.col(f"_{name}_cap"))
        .alias(f"{name}_pct")
        for name in ("cpu", "disk")
    ]
    # If a broker's cores are unknown, so are the rack's: a sum of the other brokers would look complete.
    cores = pl.when(pl.col("_cpu_cap").is_not_nan()).then(pl.col("cores"))
    return RACKS.sorted(RACKS.frame(grouped.with_columns(cores, *shares).drop(list(extra)).fill_nan(None)))


def topics(cluster: Cluster, reported: Mapping[str, float]) -> pl.DataFrame:
    """Return result table ``topics``. ``reported``: bytes of all replicas of a topic, from an exporter of the cluster."""
    topology, loads = cluster.topology, cluster.loads
    count = len(topology.topics)

    def total(value: Floats) -> Floats:
        return np.maximum(tally(topology.topic, across(np.where(loads.held, value, 0.0)), count), 0.0)

    led = any_of(loads.leads)
    cpu = np.maximum(np.nan_to_num(across(np.where(loads.leads, loads.cpu, 0.0))), 0.0)
    rows = np.flatnonzero(led)
    order = rows[np.argsort(cpu[rows], kind="stable")]
    # Then stably by topic, in one pass if its codes are short.
    codes = topology.topic[order]
    order = order[np.argsort(codes.astype(np.uint16) if count <= 65536 else codes, kind="stable")]
    topic, value = topology.topic[order], cpu[order]
    size = np.bincount(topic, minlength=count)
    whole = tally(topic, value, count)
    rank = np.arange(len(order)) - np.repeat(np.cumsum(size) - size, size) + 1
    with np.errstate(divide="ignore", invalid="ignore"):
        gini = 2 * tally(topic, rank * value, count) / (size * whole) - (size + 1) / size
    top = np.zeros(count)
    top[topic] = value  # the largest of a topic comes last, and the last assignment stays
    with np.errstate(divide="ignore", invalid="ignore"):
        share = top / whole
    sums = {
        "cpu_pct_cores": total(loads.cpu),
        "nw_in_kbs": total(loads.nw_in),
        "nw_out_kbs": total(loads.nw_out),
        "disk_mb": total(loads.disk),
    }
    frame = pl.DataFrame(
        {
            "topic": list(topology.topics),
            "partitions": np.bincount(topology.topic, minlength=count),
            "replicas": np.bincount(topology.topic, weights=across(loads.held), minlength=count),
            **sums,
            **{name: known(name, _shares(sums[of])) for name, of in _SHARES.items()},
            "gini_cpu": known("g", np.where(np.isfinite(gini), np.maximum(gini, 0.0), np.nan)),
            "top_share_cpu": known("s", share),
            "reported_mb": [reported.get(name, math.nan) * raw_metrics.MB for name in topology.topics],
        }
    )
    return TOPICS.sorted(TOPICS.frame(frame.with_columns(pl.col("reported_mb").fill_nan(None))))


_SHARES = {
    "cpu_share_pct": "cpu_pct_cores",
    "nw_in_share_pct": "nw_in_kbs",
    "nw_out_share_pct": "nw_out_kbs",
    "disk_share_pct": "disk_mb",
}


def _shares(value: Floats) -> Floats:
    """Return each of ``value`` in % of their sum, NaN without a sum. Readings below 0 count as 0."""
    value = np.maximum(value, 0.0)
    whole = float(np.nansum(value))
    return value * 100.0 / whole if whole > 0 else np.full(len(value), np.nan)


def table(inputs: Inputs, topology: Topology, capacities: Capacities, at_ms: int | None) -> pl.DataFrame:
    """Return result table ``directories``: the newest report of each broker not after ``at_ms``, and directories that only
    ``capacity.json`` names (their load is unknown, not 0)."""
    listed, sizes = (_newest(inputs.table(name), at_ms) for name in ("log_dirs", "log_dir_sizes"))
    replicas = sizes.group_by("broker", "log_dir").agg(
        pl.len().cast(pl.Int64).alias("replicas"), (pl.col("size").sum() * raw_metrics.MB).alias("disk_mb")
    )
    directories = listed.select("broker", "log_dir", "error", pl.lit(True).alias("listed")).unique(
        ["broker", "log_dir"], keep="last", maintain_order=True
    )
    rooms = [
        (broker, path, float(size))
        for broker, text in zip(topology.ids.tolist(), capacities.log_dirs, strict=True) if text
        for path, size in json.loads(text).items()
    ]  # fmt: skip
    told = {broker for broker, _, _ in rooms}
    # A broker with one directory and one figure for its disk: that figure is the directory's.
    alone = directories.filter(pl.len().over("broker") == 1)
    whole = dict(zip(topology.ids.tolist(), capacities.disk.tolist(), strict=True))
    rooms += [
        (broker, path, whole[broker])
        for broker, path in alone.select("broker", "log_dir").iter_rows()
        if broker not in told and math.isfinite(whole.get(broker, math.nan))
    ]
    facts = cluster_facts.facts(inputs, at_ms)
    if not (directories.height or rooms or facts.height):
        return DIRECTORIES.empty()
    room = pl.DataFrame(
        rooms, schema={"broker": pl.Int32, "log_dir": pl.String, "capacity_mb": pl.Float64}, orient="row"
    )
    on = ["broker", "log_dir"]
    frame = directories.join(replicas, on=on, how="left").join(room, on=on, how="full", coalesce=True)
    # A directory listed without replicas is empty; one that no report lists is unknown.
    reported = pl.col("listed").fill_null(False)
    frame = frame.with_columns(
        pl.when(reported).then(pl.col("replicas").fill_null(0)).alias("replicas"),
        pl.when(reported & pl.col("error").is_null()).then(pl.col("disk_mb").fill_null(0.0)).alias("disk_mb"),
    )
    others = cluster_facts.disk_totals(facts).filter(~pl.col("broker").is_in(directories["broker"].unique().implode()))
    rooms_of = pl.DataFrame({"broker": topology.ids, "capacity_mb": capacities.disk}).with_columns(
        pl.col("capacity_mb").fill_nan(None)
    )
    # Prefer a volume's own size: the broker's figure may cover several.
    totals = others.join(rooms_of, on="broker", how="left").select(
        "broker", "log_dir", (pl.col("size") * raw_metrics.MB).alias("disk_mb"),
        pl.coalesce(pl.col("capacity") * raw_metrics.MB, "capacity_mb").alias("capacity_mb"),
    )  # fmt: skip
    frame = pl.concat([frame, totals], how="diagonal")
    share = pl.when(pl.col("capacity_mb") > 0).then(100.0 * pl.col("disk_mb") / pl.col("capacity_mb"))
    return DIRECTORIES.sorted(
        DIRECTORIES.frame(
            frame.with_columns(share.alias("disk_pct"), pl.lit("reported").alias("source")).drop("listed")
        )
    )


def directories_alone(inputs: Inputs, at_ms: int | None) -> dict[str, pl.DataFrame]:
    """Return rows of result tables ``brokers``, ``replicas`` and ``directories`` with source ``reported``, for clusters whose
    replicas only kafka-log-dirs reports. Empty without such reports."""
    listed, sizes = (_newest(inputs.table(name), at_ms) for name in ("log_dirs", "log_dir_sizes"))
    # Cruise Control's cluster state names directories too, but not their contents.
    listed = listed.join(inputs.table("log_dir_sizes").select(FILE).unique(), on=FILE, how="semi")
    if not listed.height:
        return {}
    broken = listed.filter(pl.col("error").is_not_null()).select("broker", "log_dir", pl.lit(True).alias("offline"))
    sizes = sizes.join(broken.unique(), on=["broker", "log_dir"], how="left").with_columns(
        (pl.col("size") * raw_metrics.MB).alias("disk_mb"),
        pl.col("offline").fill_null(False),
        pl.lit("reported").alias("source"),
    )
    # A replica in two directories counts once, with the size of both; summed in a fixed order.
    one = ("topic", "partition", "broker", "source")
    replicas = (
        sizes.sort(*one, "log_dir", maintain_order=True).group_by(one, maintain_order=True)
        .agg(pl.col("disk_mb").sum(), pl.col("offline").all())
    )  # fmt: skip
    per_broker = replicas.group_by("broker", maintain_order=True).agg(
        pl.col("disk_mb").sum(), pl.len().cast(pl.Int64).alias("replicas")
    )
    known = (
        inputs.table("broker_list").unique("broker", keep="last", maintain_order=True).select("broker", "host", "rack")
    )
    brokers = (
        listed.select("broker").unique().join(per_broker, on="broker", how="left").join(known, on="broker", how="left")
        .with_columns(pl.col("disk_mb", "replicas").fill_null(0), pl.lit("reported").alias("source"))
    )  # fmt: skip
    everyone = {number: Broker("", "", True, True) for number in brokers["broker"].to_list()}
    stand_in = build(inputs.table("topology").head(0), everyone)
    return {
        "brokers": BROKERS.sorted(BROKERS.frame(brokers)),
        "replicas": REPLICAS.frame(replicas),
        "directories": table(inputs, stand_in, resolve(inputs.table("capacity"), stand_in, True), at_ms),
    }


def _newest(rows: pl.DataFrame, at_ms: int | None) -> pl.DataFrame:
    if at_ms is not None:
        rows = rows.filter(pl.col("time_ms") <= at_ms)
    return rows.filter(pl.col("time_ms") == pl.col("time_ms").max().over("broker"))
