"""The typed tables of ring placement: what its readers deliver and what its results show."""

from __future__ import annotations

import polars as pl

from engine.tables import Column, Table

# ---------------------------------------------------------------------------------------------------------- input

RINGS = Table(
    "rings",
    "One row per ring file: when it was taken and how much it says",
    (
        Column("kind", pl.String, "page, memberlist or memberlist-binary"),
        Column("now_ns", pl.Int64, "The page's own time, null where the file has none", "ns"),
        Column("members", pl.Int64, "Members listed", kind="count"),
    ),
)

MEMBERS = Table(
    "members",
    "Ring members as listed",
    (
        Column("id", pl.String, "Instance ID", kind="id"),
        Column("state", pl.String, "State as written"),
        Column("zone", pl.String, "Availability zone"),
        Column("tokens", pl.Int64, "Number of tokens", kind="count"),
        Column("address", pl.String, "Address and port"),
        Column("heartbeat_s", pl.Int64, "Last heartbeat, epoch seconds; null where the file has none", "s"),
        Column("registered_s", pl.Int64, "Registration, epoch seconds", "s"),
        Column("read_only", pl.Boolean, "Read-only flag (placement ignores it)", kind="flag"),
    ),
)

OVERRIDES = Table(
    "overrides",
    "Per-tenant limits in force after the override file",
    (
        Column("tenant", pl.String, "Tenant ID", kind="id"),
        Column("tenant_shards", pl.Int64, "adaptive_placement_tenant_shards; null: not set", kind="count"),
        Column("ingestion_shards", pl.Int64, "ingestion_tenant_shard_size; null: not set", kind="count"),
        Column("default_dataset_shards", pl.Int64, "Dataset shards without a rule; null: not set", kind="count"),
        Column("load_balancing", pl.String, "dynamic, fingerprint or round-robin; null: not set"),
        Column("min_dataset_shards", pl.Int64, "Fewest shards the allocator gives; null: not set", kind="count"),
        Column("max_dataset_shards", pl.Int64, "Most shards the allocator gives; null: not set", kind="count"),
        Column("unit_size", pl.Int64, "Bytes per second of one shard; null: not set", kind="bytes_per_s"),
        Column("burst_ns", pl.Int64, "Burst window; null: not set", "ns"),
        Column("decay_ns", pl.Int64, "Decay window; null: not set", "ns"),
    ),
)

RULES = Table(
    "rules",
    "Stored placement rules",
    (
        Column("tenant", pl.String, "Tenant ID", kind="id"),
        Column("dataset", pl.String, "Dataset name", kind="id"),
        Column("tenant_limit", pl.Int64, "Tenant shard limit", kind="count"),
        Column("dataset_limit", pl.Int64, "Dataset shard limit", kind="count"),
        Column("load_balancing", pl.Int64, "0 unset, 1 fingerprint, 2 round-robin"),
        Column("created_at", pl.Int64, "When the rules were made", "ns"),
    ),
)

STATS = Table(
    "stats",
    "Stored distribution stats, one row per dataset and shard entry",
    (
        Column("tenant", pl.String, "Tenant ID", kind="id"),
        Column("dataset", pl.String, "Dataset name", kind="id"),
        Column("shard", pl.Int64, "Shard ID, 1-based"),
        Column("instance", pl.String, "Owner that wrote it", kind="id"),
        Column("usage", pl.Int64, "Bytes per second as encoded in segments", kind="bytes_per_s"),
        Column("std_dev", pl.Int64, "Standard deviation as stored", kind="bytes_per_s"),
        Column("created_at", pl.Int64, "When the stats were made", "ns"),
    ),
)

LOADS = Table(
    "loads",
    "A plain table of loads",
    (
        Column("tenant", pl.String, "Tenant ID", kind="id"),
        Column("tenant_hash", pl.UInt64, "XXH64 of the ID as written, where it differs from the text shown"),
        Column("dataset", pl.String, "Dataset (service name)", kind="id"),
        Column("dataset_hash", pl.UInt64, "XXH64 of the name as written, where it differs from the text shown"),
        Column("bytes_per_s", pl.Float64, "Load", kind="bytes_per_s"),
        Column("fingerprint", pl.UInt64, "Series fingerprint; null spreads the load over the dataset's shards"),
    ),
)

METRICS = Table(
    "metrics",
    "Samples of the placement metrics of a Prometheus exposition",
    (
        Column("metric", pl.String, "Metric name"),
        Column("tenant", pl.String, "Tenant ID", kind="id"),
        Column("dataset", pl.String, "Dataset name", kind="id"),
        Column("shard", pl.Int64, "Shard ID, 1-based"),
        Column("instance", pl.String, "Owner, or the address, pod or scrape target", kind="id"),
        Column("value", pl.Float64, "Value"),
        Column("load_balancing", pl.String, "Strategy number of a limit"),
        Column("time_ms", pl.Int64, "Sample time, null where the file has none", kind="time_ms"),
    ),
)

BLOCKS = Table(
    "blocks",
    "Datasets of segments and blocks",
    (
        Column("block", pl.String, "ULID of the block", kind="id"),
        Column("shard", pl.Int64, "Shard ID, 1-based"),
        Column("level", pl.Int64, "Compaction level, 0 for a segment"),
        Column("min_ms", pl.Int64, "First sample", kind="time_ms"),
        Column("max_ms", pl.Int64, "Last sample", kind="time_ms"),
        Column("tenant", pl.String, "Tenant ID", kind="id"),
        Column("dataset", pl.String, "Dataset name, empty for the index", kind="id"),
        Column("size", pl.Int64, "Bytes in the block", kind="bytes"),
        Column("instance", pl.String, "Writer, null once compacted", kind="id"),
    ),
)

INPUTS = (RINGS, MEMBERS, OVERRIDES, RULES, STATS, LOADS, METRICS, BLOCKS)

# --------------------------------------------------------------------------------------------------------- results

NODES = Table(
    "nodes",
    "Every ring member with its load before and after the scenario",
    (
        Column("instance", pl.String, "Instance ID", kind="id", priority=0),
        Column("state", pl.String, "State at the chosen time; stale members are UNHEALTHY", width=9, priority=0),
        Column("zone", pl.String, "Availability zone", width=8, priority=1),
        Column("tokens", pl.Int64, "Number of tokens, one shard each", kind="count", width=6, priority=3),
        Column("load_before", pl.Int64, "Load before the scenario", "bytes_per_s", "bytes_per_s", "before", priority=1),
        Column("load_after", pl.Int64, "Load in the scenario", "bytes_per_s", "bytes_per_s", "after", priority=0),
        Column("added", pl.Int64, "Load after minus before", "bytes_per_s", "bytes_per_s", "added", priority=3),
        Column("over_mean", pl.Float64, "Load after over the mean of the nodes that take data; the bar is before and after",
               "", "ratio", "× mean", width=20, priority=0),
        Column("capacity", pl.Int64, "What the node can take; null where none is given", "bytes_per_s", "bytes_per_s",
               priority=3),
        Column("headroom", pl.Int64, "Capacity minus load after", "bytes_per_s", "bytes_per_s", priority=2),
        Column("over_capacity", pl.Boolean, "Whether the load after exceeds the capacity", kind="flag", title="over",
               priority=2),
        Column("down", pl.Boolean, "Whether the scenario takes it down", kind="flag", priority=3),
        Column("load_observed", pl.Int64, "What stats, metrics or blocks say it wrote, in their own unit",
               kind="bytes", title="observed", priority=4),
        Column("address", pl.String, "Address and port", priority=5, hidden=True),
        Column("heartbeat_ms", pl.Int64, "Last heartbeat", kind="time_ms", title="heartbeat", priority=5, hidden=True),
    ),
    key=("instance",),
    order=("instance",),
    title="Nodes",
)  # fmt: skip

SHARDS = Table(
    "shards",
    "Which instance owns each shard in the scenario",
    (
        Column("shard", pl.Int64, "Shard ID, 1-based", kind="count", priority=0),
        Column("instance", pl.String, "Owner in the scenario, whatever its state", kind="id", priority=0),
        Column("instance_before", pl.String, "Owner before; null where the shard is new", kind="id", title="before"),
        Column("load_before", pl.Int64, "Load under this shard ID before", "bytes_per_s", "bytes_per_s", "load before",
               priority=2),
        Column("load_after", pl.Int64, "Load under this shard ID in the scenario", "bytes_per_s", "bytes_per_s",
               "load after", priority=2),
        Column("stored_by", pl.String, "Instance that takes most of it in the scenario; null if it is rejected",
               kind="id", title="stored by"),
    ),
    key=("shard",),
    order=("shard",),
    title="Shards",
)  # fmt: skip

PLACEMENTS = Table(
    "placements",
    "Where each key goes in the scenario's ring",
    (
        Column("tenant", pl.String, "Tenant ID", kind="id", priority=0),
        Column("dataset", pl.String, "Dataset (service name)", kind="id", priority=0),
        Column("fingerprint", pl.String, "Series fingerprint, 16 hex digits; null for a dataset's even share",
               kind="id", priority=2),
        Column("tenant_shards", pl.Int64, "Configured tenant limit, 0 = none", kind="count", title="T", priority=3),
        Column("dataset_shards", pl.Int64, "Configured dataset limit", kind="count", title="D", priority=3),
        Column("offset", pl.Int64, "Offset within the dataset's shards", kind="count", priority=4),
        Column("shard", pl.Int64, "Shard ID, 1-based", kind="count", priority=0),
        Column("instance", pl.String, "Owner of the shard, whatever its state", kind="id", priority=0),
        Column("candidates", pl.List(pl.String), "Distinct ACTIVE instances in walk order, at most 6", kind="text",
               priority=1),
        Column("stored_by", pl.String, "Instance that takes it in the scenario; null if it is rejected", kind="id",
               title="stored by"),
        Column("bytes_per_s", pl.Int64, "Load", "bytes_per_s", "bytes_per_s", "load", priority=1),
        Column("limits_from", pl.String, "rule, override, default or what-if", title="limits", priority=4),
        Column("shard_before", pl.Int64, "Shard ID before the scenario", kind="count", hidden=True, priority=5),
        Column("instance_before", pl.String, "Owner before the scenario", kind="id", hidden=True, priority=5),
    ),
    key=("tenant", "dataset", "fingerprint", "offset"),
    order=("tenant", "dataset", "fingerprint", "offset", "shard"),
    title="Placements",
)  # fmt: skip

TOTALS = (
    Column("rejected_bytes", pl.Int64, "Load no instance takes", "bytes_per_s", "bytes_per_s", "rejected", priority=0),
    Column("rerouted_bytes", pl.Int64, "Load that goes to another instance because its own failed", "bytes_per_s",
           "bytes_per_s", "rerouted", priority=1),
    Column("moved_bytes", pl.Int64, "Sum over datasets and nodes of the decrease", "bytes_per_s", "bytes_per_s",
           "moved", priority=1),
    Column("needless_moved_bytes", pl.Int64, "Moved although its node is alive", "bytes_per_s", "bytes_per_s",
           "needless", priority=2),
    Column("shards_with_changed_owner", pl.Int64, "Shard IDs with another owner", kind="count", title="shards changed",
           priority=3),
    Column("datasets_with_changed_shard_set", pl.Int64, "Datasets whose shards differ", kind="count",
           title="sets changed", priority=4),
    Column("datasets_touched", pl.Int64, "Datasets with a part on a failed node", kind="count", title="datasets",
           priority=2),
    Column("datasets_fully_on_down", pl.Int64, "Datasets wholly on failed nodes", kind="count", title="wholly",
           priority=4),
    Column("tenants_touched", pl.Int64, "Tenants with a part on a failed node", kind="count", title="tenants",
           priority=3),
    Column("max_over_mean", pl.Float64, "Largest load over mean load of the nodes that take data", "", "ratio",
           "max/mean", priority=0),
    Column("coefficient_of_variation", pl.Float64, "Standard deviation over mean of those loads", "", "ratio", "cv",
           priority=3),
    Column("worst_instance", pl.String, "Node with the largest load", kind="id", title="hottest", priority=0),
    Column("worst_load", pl.Int64, "Its load", "bytes_per_s", "bytes_per_s", "its load", priority=0),
    Column("nodes_over_capacity", pl.Int64, "Nodes above their capacity; null without one", kind="count", title="over",
           priority=1),
)  # fmt: skip

SWEEP = Table(
    "sweep",
    "Scenarios of the chosen sweep, worst first",
    (
        Column("rank", pl.Int64, "1 is the worst", kind="count", priority=0),
        Column("down", pl.List(pl.String), "Nodes that fail", kind="text", priority=0),
        Column("zone", pl.String, "The zone that fails, in a sweep of zones", width=10, priority=1),
        *TOTALS,
    ),
    key=("rank",),
    order=("rank",),
    title="Sweep",
)

OBSERVED = Table(
    "observed",
    "Real shard and owner pairs from stats, metrics and block footers",
    (
        Column("source", pl.String, "stats, usage, sent, ingest or blocks", width=6, priority=0),
        Column("tenant", pl.String, "Tenant ID", kind="id", priority=1),
        Column("dataset", pl.String, "Dataset; null where the source does not say", kind="id", priority=1),
        Column("shard", pl.Int64, "Shard ID, 1-based", kind="count", width=6, priority=0),
        Column("instance", pl.String, "Who wrote it; null where the source does not say", kind="id", priority=0),
        Column("bytes", pl.Int64, "Bytes (blocks, counters) or bytes per second (stats, usage)", kind="bytes",
               priority=1),
        Column("computed", pl.String, "Owner of that shard by the ring; null for a shard it does not have", kind="id",
               priority=0),
        Column("drift", pl.String, "owner, no-such-shard, unknown-instance; empty where both agree", width=16,
               priority=0),
        Column("in_range", pl.Boolean, "Whether the dataset may use that shard; null where the source does not say",
               kind="flag", priority=2),
    ),
    key=("source", "tenant", "dataset", "shard", "instance"),
    order=("-drift", "source", "tenant", "dataset", "shard", "instance", "bytes"),
    title="Observed",
)  # fmt: skip

STRATEGY = Table(
    "strategy",
    "Spread of each dataset's shards as stored and corrected, and what the ruler chooses with either",
    (
        Column("tenant", pl.String, "Tenant ID", kind="id", priority=0),
        Column("dataset", pl.String, "Dataset name", kind="id", priority=0),
        Column("shards", pl.Int64, "Shard entries", kind="count"),
        Column("mean", pl.Int64, "Integer mean of the usages", kind="bytes_per_s"),
        Column("std_dev_stored", pl.Int64, "Upstream's value: divided by the seconds between builds",
               kind="bytes_per_s", title="σ stored", width=10, priority=0),
        Column("std_dev", pl.Int64, "The true standard deviation of the same usages", kind="bytes_per_s",
               title="σ corrected", width=11, priority=0),
        Column("target", pl.Int64, "Dataset shards by its rule, else by its usage", kind="count", priority=2),
        Column("upstream_chooses", pl.String, "Strategy with the stored value", title="upstream", width=11, priority=0),
        Column("corrected_chooses", pl.String, "Strategy with the corrected value", title="corrected", width=11,
               priority=0),
    ),
    key=("tenant", "dataset"),
    order=("tenant", "dataset"),
    title="Strategy",
)  # fmt: skip

EXPLAIN = Table(
    "explain",
    "One key step by step: hashes, ranges, shard, and each candidate with what becomes of it",
    (
        Column("step", pl.Int64, "Order", kind="count", width=4, priority=0),
        Column("what", pl.String, "Kind of step", width=9, priority=0),
        Column("name", pl.String, "What it is about", width=18, priority=0),
        Column("value", pl.String, "Its value", width=18, priority=0),
        Column("note", pl.String, "Why", priority=1),
    ),
    key=("step",),
    order=("step",),
    title="Explain",
)

COMPARISON = Table(
    "comparison",
    "The same keys and the same departures under other algorithms",
    (
        Column("algorithm", pl.String, "Algorithm", priority=0),
        Column("moved_bytes", pl.Int64, "Load that changes node", "bytes_per_s", "bytes_per_s", "moved", priority=0),
        Column("moved_share", pl.Float64, "Share of all load that changes node", "", "ratio", "moved share", priority=0),
        Column("needless_moved_bytes", pl.Int64, "Moved although its node is alive", "bytes_per_s", "bytes_per_s",
               "needless", priority=1),
        Column("max_over_mean", pl.Float64, "Largest load over mean load afterwards", "", "ratio", "max/mean",
               priority=0),
        Column("coefficient_of_variation", pl.Float64, "Standard deviation over mean afterwards", "", "ratio", "cv",
               priority=1),
    ),
    key=("algorithm",),
    order=("algorithm",),
    title="Comparison",
)  # fmt: skip

RESULTS = (NODES, SHARDS, PLACEMENTS, SWEEP, OBSERVED, STRATEGY, EXPLAIN, COMPARISON)
