"""Sums of brokers by rack, with percentages of the rack's live capacity, and of partitions by topic, with their inequality."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import polars as pl

from engine.broker_load.cruise_control.cluster_model import Cluster, load_columns
from engine.broker_load.model.topology import Floats, across, any_of, tally
from engine.broker_load.tables import raw_metrics
from engine.broker_load.tables.columns import known
from engine.broker_load.tables.loads import RACKS, TOPICS


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
        pl.len().cast(pl.Int64).alias("brokers"), *(pl.col(name).sum() for name in [*summed, *extra])
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
