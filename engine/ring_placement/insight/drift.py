"""Drift: observed shards and owners, or tenants and ingesters, against those that the ring computes."""

from __future__ import annotations

import numpy as np
import polars as pl

from engine.core.view import Finding
from engine.ring_placement import tables
from engine.ring_placement.pyroscope.limits import DEFAULTS, policy_of
from engine.ring_placement.pyroscope.ring import Ring, jump, subrings, xxh64_each
from engine.ring_placement.scenarios.cluster import Cluster
from engine.ring_placement.scenarios.replica_rows import ReplicatedPlacement
from engine.ring_placement.scenarios.scenario_state import ReplicatedState, SegmentState


def in_range(cluster: Cluster, ring: Ring, pairs: pl.DataFrame) -> pl.Series:
    """Return for each row of ``pairs`` (tenant, dataset, shard) whether the dataset may use that shard on ``ring``; null if
    dataset or shard are unknown or the ring is empty."""
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


def segment_drift(state: SegmentState) -> tuple[pl.DataFrame, list[str]]:
    """Build table ``observed`` of segment writers, and notes on it: each observed pair, its computed owner, and the drift.

    A shard whose owner is not ACTIVE is rightly stored elsewhere, so any ACTIVE member is accepted for it. See
    ``docs/models/ring-placement.md``, "Drift".
    """
    cluster, ring = state.cluster, state.placement.ring
    pairs = cluster.observed
    total = ring.total
    if not pairs.height:
        return tables.OBSERVED.empty(), []
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
    return tables.OBSERVED.sorted(tables.OBSERVED.frame(frame)), []


MAX_NAMED = 50
"""Most findings of one kind that are listed one by one."""
FEWEST = 20
"""Fewest expected series of a tenant on an instance that make it odd if there are none."""


def replica_drift(state: ReplicatedState) -> tuple[pl.DataFrame | None, list[str]]:
    """Build table ``observed`` of a ring with replicas, and notes on it; None where nothing was observed.

    A row is what an ingester reports of a tenant, what it should have, and whether the tenant's queries ask it. Series stay for
    hours after a shard has changed; the lookback allows for that.
    """
    seen = state.cluster.tenants.observed
    if not seen.height:
        return None, []
    placement, members = state.placement, state.placement.ring.members
    addresses = {m.address: m.id for m in members if m.address}
    addresses |= {address.rsplit(":", 1)[0]: name for address, name in addresses.items() if ":" in address}
    names = pl.DataFrame(
        {"instance": placement.ring.ids, "member": range(len(members))}, schema_overrides={"member": pl.Int64}
    )
    numbers = pl.DataFrame({"tenant": placement.tenants.names, "number": range(len(placement.tenants.names))},
                           schema={"tenant": pl.String, "number": pl.Int64})  # fmt: skip
    seen = seen.with_columns(pl.col("instance").replace(addresses)) if addresses else seen
    pairs = seen.group_by("tenant", "instance", maintain_order=True).agg(pl.col("load").sum())
    pairs = pairs.join(names, on="instance", how="left").join(numbers, on="tenant", how="left")
    if not pairs["member"].is_not_null().any():
        return tables.OBSERVED.empty(), ["ingesters' metrics name no member of the ring: drift is not checked"]
    expected = _expected(state)
    if expected is not None:
        reporting = (
            pairs.select("instance", "member").unique(maintain_order=True).filter(pl.col("member").is_not_null())
        )
        wanted = expected.filter(pl.col("expected") >= FEWEST).join(reporting, on="member", how="inner")
        absent = wanted.join(pairs, on=["number", "member"], how="anti").join(numbers, on="number", how="left")
        pairs = pl.concat([pairs, absent.select("tenant", "instance", pl.lit(0.0).alias("load"), "member", "number")])
        pairs = pairs.join(expected, on=["number", "member"], how="left")
    asked = pairs.select("number", "member").join(_asked(placement), on=["number", "member"], how="left")["asked"]
    drift = (
        pl.when(pl.col("member").is_null())
        .then(pl.lit("unknown-instance"))
        .when(pl.col("load") <= 0)
        .then(pl.when(pl.col("expected") >= FEWEST).then(pl.lit("missing")).otherwise(pl.lit("")))
        .when(~pl.col("in_range"))
        .then(pl.lit("outside-shard"))
        .otherwise(pl.lit(""))
    )
    if expected is None:
        pairs = pairs.with_columns(pl.lit(None, pl.Float64).alias("expected"))
    frame = pairs.with_columns(
        pl.lit("series").alias("source"),
        pl.col("load").round().cast(pl.Int64).alias("bytes"),
        asked.fill_null(False).alias("in_range"),
    )
    frame = frame.with_columns(drift.alias("drift"), pl.col("expected").round().cast(pl.Int64))
    return tables.OBSERVED.sorted(tables.OBSERVED.frame(frame.drop("member", "number", "load"))), []


def _expected(state: ReplicatedState) -> pl.DataFrame | None:
    """Return the expected series of each tenant (``number``) on each instance (``member``); None if loads come from another
    source, or if there are too many to list."""
    placement = state.placement
    shares = placement.rows.shares
    if state.cluster.tenants.source != "series" or shares is None:
        return None
    shard, member = np.nonzero(shares)
    held = pl.DataFrame({"shard": shard, "member": member, "share": shares[shard, member]})
    loads = pl.DataFrame({"shard": placement.rows.shard_of, "number": np.arange(len(placement.tenants.names)),
                          "load": placement.tenants.total})  # fmt: skip
    both = loads.join(held, on="shard", how="inner", maintain_order="left_right")
    return both.select("number", "member", (pl.col("load") * pl.col("share")).alias("expected"))


def _asked(placement: ReplicatedPlacement) -> pl.DataFrame:
    reads = placement.rows.reads
    if placement.partitions is not None:
        owners = placement.partitions.owners_among(placement.ring.ids)
        reads = tuple(np.unique(np.array([m for p in shard for m in owners[p]], dtype=np.int64)) for shard in reads)
    shards = pl.DataFrame({
        "shard": np.repeat(np.arange(len(reads)), [len(members) for members in reads]),
        "member": np.concatenate([np.empty(0, np.int64), *reads]).astype(np.int64),
    })  # fmt: skip
    tenants = pl.DataFrame({"shard": placement.rows.read_of, "number": np.arange(len(placement.rows.read_of))})
    return tenants.join(shards, on="shard", how="inner").select("number", "member", pl.lit(True).alias("asked"))


def drift_findings(observed: pl.DataFrame | None) -> list[Finding]:
    """List tenants on ingesters that should not have them, and tenants missing on ingesters; the largest differences by name."""
    if observed is None:
        return []
    drifted = observed.filter(pl.col("drift") != "").sort(
        pl.max_horizontal("bytes", "expected"), "tenant", "instance", descending=[True, False, False]
    )
    findings = []
    for row in drifted.head(MAX_NAMED).iter_rows(named=True):
        text = {
            "outside-shard": f"{row['instance']} has {row['bytes']} of it, but its queries do not ask there",
            "missing": f"{row['instance']} has none of it but should have about {row['expected']}",
            "unknown-instance": f"{row['instance']} has {row['bytes']} of it but is not a member of the ring",
        }[row["drift"]]
        findings.append(Finding("moderate", f"drift {row['tenant']}", text))
    if drifted.height > MAX_NAMED:
        findings.append(Finding("moderate", "drift", f"{drifted.height - MAX_NAMED} more pairs differ from the ring"))
    return findings
