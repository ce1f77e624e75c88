"""What kafka-log-dirs tells: the load of each log directory of each broker (JBOD), and each replica's size."""

from __future__ import annotations

import json
import math
from typing import Any

import polars as pl

from engine.broker_load.model import cluster_facts
from engine.broker_load.model.broker_capacity import Capacities, resolve
from engine.broker_load.model.topology import Broker, Topology, build
from engine.broker_load.tables import raw_metrics
from engine.broker_load.tables.loads import BROKERS, DIRECTORIES, REPLICAS
from engine.core.view import FILE, Inputs


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
    rooms: dict[str, list[Any]] = {"broker": [], "log_dir": [], "capacity_mb": []}
    for broker, text in zip(topology.ids.tolist(), capacities.log_dirs, strict=True):
        for path, size in (json.loads(text) if text else {}).items():
            rooms["broker"].append(broker)
            rooms["log_dir"].append(path)
            rooms["capacity_mb"].append(float(size))
    # A broker with one directory and one figure for its disk: that figure is the directory's.
    alone = directories.filter(pl.len().over("broker") == 1)
    whole = dict(zip(topology.ids.tolist(), capacities.disk.tolist(), strict=True))
    for broker, path in alone.select("broker", "log_dir").iter_rows():
        if broker not in rooms["broker"] and math.isfinite(whole.get(broker, math.nan)):
            rooms["broker"].append(broker)
            rooms["log_dir"].append(path)
            rooms["capacity_mb"].append(whole[broker])
    facts = cluster_facts.facts(inputs, at_ms)
    if not (directories.height or rooms["broker"] or facts.height):
        return DIRECTORIES.empty()
    room = pl.DataFrame(rooms, schema={"broker": pl.Int32, "log_dir": pl.String, "capacity_mb": pl.Float64})
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


def alone(inputs: Inputs, at_ms: int | None) -> dict[str, pl.DataFrame]:
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
