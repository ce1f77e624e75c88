"""Statistics of brokers and hosts as Cruise Control's ``load`` answer has them: loads, cores, percentages.

Source: ``BasicStats`` and ``BrokerStats``. Cores and percentages of a dead broker count nothing.
"""

from __future__ import annotations

import numpy as np
import polars as pl

from engine.broker_load.cruise_control.cluster_model import BrokerSums, Cluster
from engine.broker_load.model.topology import Flags, Floats
from engine.broker_load.tables.columns import known
from engine.broker_load.tables.loads import HOSTS


def _percent(value: Floats, of: Floats, alive: Flags) -> Floats:
    """``value`` in percent of ``of``; NaN-as-null on dead brokers and unknown capacities, a NaN load stays NaN."""
    with np.errstate(divide="ignore", invalid="ignore"):
        share = 100.0 * value / of
    return np.where(alive & (of > 0), share, np.inf)


def _nulls(name: str, value: Floats) -> pl.Series:
    """Return a series where infinities mean null (NaN is a value here: a NaN load is shown as such)."""
    series = pl.Series(name, value, dtype=pl.Float64)
    infinite = np.flatnonzero(np.isinf(value))
    return series.scatter(infinite, None) if len(infinite) else series


def load_columns(cluster: Cluster, sums: BrokerSums) -> dict[str, pl.Series]:
    """Return the load columns of one row per broker; percentages null on dead brokers."""
    alive = cluster.topology.alive
    cpu, disk = sums.of("CPU"), sums.of("DISK")
    cores = np.where(alive, cluster.capacity("CPU") / 100.0, 0.0)
    return {
        "cores": known("cores", cores),
        "cpu_pct": _nulls("cpu_pct", _percent(cpu, cluster.capacity("CPU"), alive)),
        "disk_mb": pl.Series("disk_mb", disk),
        "disk_pct": _nulls("disk_pct", _percent(disk, cluster.capacity("DISK"), alive)),
        "leader_nw_in_kbs": pl.Series("leader_nw_in_kbs", np.maximum(sums.leader_nw_in, 0.0)),
        "follower_nw_in_kbs": pl.Series("follower_nw_in_kbs", sums.follower_nw_in),
        "nw_out_kbs": pl.Series("nw_out_kbs", sums.of("NW_OUT")),
        "pnw_out_kbs": pl.Series("pnw_out_kbs", np.maximum(sums.pnw_out, 0.0)),
        "leaders": pl.Series("leaders", sums.leaders, dtype=pl.Int64),
        "replicas": pl.Series("replicas", sums.replicas, dtype=pl.Int64),
    }


def hosts(cluster: Cluster) -> pl.DataFrame:
    """Return result table ``hosts``: sums of the brokers; CPU percentages add up, the disk percentage is made again.

    What a live broker has no capacity for is unknown of its host too: a sum of the others would look like the whole.
    """
    topology = cluster.topology
    columns = load_columns(cluster, cluster.sums)
    frame = pl.DataFrame({"host": list(topology.hosts), "rack": list(topology.racks)} | columns)
    capacity = {"_cap": cluster.capacity("DISK"), "_unknown": np.isnan(cluster.capacity("CPU"))}
    frame = frame.with_columns(pl.Series(name, value) for name, value in capacity.items())
    summed = [name for name in columns if name != "disk_pct"]
    grouped = frame.group_by("host", maintain_order=True).agg(
        pl.col("rack").first(), *(pl.col(name).sum() for name in summed), pl.col("_cap").sum(), pl.col("_unknown").any()
    )
    # To Polars a NaN is above 0.
    share = pl.when((pl.col("_cap") > 0) & pl.col("_cap").is_not_nan()).then(100.0 * pl.col("disk_mb") / pl.col("_cap"))
    whole = [pl.when(~pl.col("_unknown")).then(pl.col(name)).alias(name) for name in ("cores", "cpu_pct")]
    return HOSTS.sorted(HOSTS.frame(grouped.with_columns(share.alias("disk_pct"), *whole).drop(list(capacity))))
