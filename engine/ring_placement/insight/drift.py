"""Drift: real (shard, owner) pairs that differ from what the ring computes."""

from __future__ import annotations

import numpy as np
import polars as pl

from engine.ring_placement import tables
from engine.ring_placement.pyroscope.hashing import jump, xxh64_each
from engine.ring_placement.pyroscope.limits import DEFAULTS, policy_of
from engine.ring_placement.pyroscope.ring import Ring
from engine.ring_placement.pyroscope.subrings import subrings
from engine.ring_placement.scenarios.cluster import Cluster


def in_range(cluster: Cluster, ring: Ring, pairs: pl.DataFrame) -> pl.Series:
    """Return for each row of ``pairs`` (tenant, dataset, shard) whether the dataset may use that shard on ``ring``; null
    where dataset or shard are not known or the ring is empty."""
    complete = pl.col("dataset").is_not_null() & pl.col("shard").is_not_null()
    names = pairs.filter(complete).select("tenant", "dataset").unique().sort("tenant", "dataset").with_row_index("row")
    total = ring.total
    if not names.height or total <= 0:
        return pl.Series("in_range", [None] * pairs.height, dtype=pl.Boolean)
    policies = [policy_of(t, d, cluster.rules, cluster.limits, DEFAULTS) for _, t, d in names.iter_rows()]
    ranges = subrings(
        jump(xxh64_each(names["tenant"].to_list()), total),
        xxh64_each(names["dataset"].to_list()),
        np.array([p.tenant_limit for p in policies], dtype=np.int64),
        np.array([p.dataset_limit for p in policies], dtype=np.int64),
        total,
    )
    joined = pairs.join(names, on=["tenant", "dataset"], how="left", maintain_order="left")
    row = joined["row"].fill_null(0).to_numpy().astype(np.int64)
    _, fits = ranges.offsets_of(row, joined["shard"].fill_null(0).to_numpy())
    is_known = joined["row"].is_not_null() & joined["shard"].is_not_null()
    return pl.select(pl.when(is_known).then(pl.Series(fits))).to_series().alias("in_range")


def observed_table(cluster: Cluster, ring: Ring) -> pl.DataFrame:
    """Build table ``observed``: each real pair with the computed owner and the kind of drift.

    A shard whose owner is not ACTIVE is rightly stored elsewhere, so any ACTIVE member is accepted for it. See
    ``docs/models/ring-placement.md``, "Drift".
    """
    pairs = cluster.observed
    total = ring.total
    if not pairs.height:
        return tables.OBSERVED.empty()
    shard = pairs["shard"].fill_null(0).to_numpy()
    exists = (shard >= 1) & (shard <= total)
    node = ring.owner[np.where(exists, shard - 1, 0)] if total else np.zeros(len(shard), dtype=np.int64)
    computed = ring.names(np.where(exists, node, -1))
    owner_inactive = pl.Series(np.isin(node, np.flatnonzero(~ring.active)) & exists)
    active = [i for i, a in zip(ring.ids, ring.active, strict=True) if a]
    instance = pairs["instance"]
    unknown = ~instance.is_in(list(ring.ids)) if ring.ids else pl.Series([True] * len(instance))
    drift = pl.select(
        pl.when(instance.is_null() | pl.lit(total <= 0))
        .then(pl.lit(""))
        .when(~pl.lit(pl.Series(exists)))
        .then(pl.lit("no-such-shard"))
        .when(unknown)
        .then(pl.lit("unknown-instance"))
        .when((instance == computed) | (owner_inactive & instance.is_in(active)))
        .then(pl.lit(""))
        .otherwise(pl.lit("owner"))
    ).to_series()
    frame = pairs.with_columns(
        computed.alias("computed"), drift.alias("drift"), in_range(cluster, ring, pairs).alias("in_range")
    )
    return tables.OBSERVED.sorted(tables.OBSERVED.frame(frame))
