"""Load of each log directory of each broker (JBOD): sizes as reported, capacities as configured."""

from __future__ import annotations

import json
import math
from typing import Any

import polars as pl

from engine.broker_load.model.broker_capacity import Capacities
from engine.broker_load.model.topology import Topology
from engine.broker_load.tables.loads import DIRECTORIES
from engine.inputs import Inputs

_MB = 1024.0 * 1024.0


def table(inputs: Inputs, topology: Topology, capacities: Capacities, at_ms: int | None) -> pl.DataFrame:
    """Return result table ``directories``: the newest report of each broker not after ``at_ms``, and directories that only
    ``capacity.json`` names (their load is unknown, not 0)."""
    listed, sizes = (_newest(inputs.table(name), at_ms) for name in ("log_dirs", "log_dir_sizes"))
    replicas = sizes.group_by("broker", "log_dir").agg(
        pl.len().cast(pl.Int64).alias("replicas"), (pl.col("size").sum() / _MB).alias("disk_mb")
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
    room = pl.DataFrame(rooms, schema={"broker": pl.Int32, "log_dir": pl.String, "capacity_mb": pl.Float64})
    on = ["broker", "log_dir"]
    frame = directories.join(replicas, on=on, how="left").join(room, on=on, how="full", coalesce=True)
    # A directory that was listed without a replica is empty; one that no report lists is unknown.
    reported = pl.col("listed").fill_null(False)
    frame = frame.with_columns(
        pl.when(reported).then(pl.col("replicas").fill_null(0)).alias("replicas"),
        pl.when(reported & pl.col("error").is_null()).then(pl.col("disk_mb").fill_null(0.0)).alias("disk_mb"),
    )
    share = pl.when(pl.col("capacity_mb") > 0).then(100.0 * pl.col("disk_mb") / pl.col("capacity_mb"))
    return DIRECTORIES.sorted(
        DIRECTORIES.frame(
            frame.with_columns(share.alias("disk_pct"), pl.lit("reported").alias("source")).drop("listed")
        )
    )


def _newest(rows: pl.DataFrame, at_ms: int | None) -> pl.DataFrame:
    if at_ms is not None:
        rows = rows.filter(pl.col("time_ms") <= at_ms)
    return rows.filter(pl.col("time_ms") == pl.col("time_ms").max().over("broker"))
