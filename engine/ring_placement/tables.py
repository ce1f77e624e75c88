"""The typed tables of ring placement: what its readers deliver and what its results show."""

from __future__ import annotations

from typing import Any

import polars as pl
from msgspec.structs import replace

from engine.core.tables import Column, Table


def _id(name: str, meaning: str, **hints: Any) -> Column:
    return Column(name, pl.String, meaning, kind="id", **hints)


def _text(name: str, meaning: str, **hints: Any) -> Column:
    return Column(name, pl.String, meaning, **hints)


def _count(name: str, meaning: str, **hints: Any) -> Column:
    return Column(name, pl.Int64, meaning, kind="count", **hints)


def _rate(name: str, meaning: str, **hints: Any) -> Column:
    """Declare a load in whole units: bytes per second of segment writers; what the notes name of other rings."""
    return Column(name, pl.Int64, meaning, kind="bytes_per_s", **hints)


def _ratio(name: str, meaning: str, **hints: Any) -> Column:
    return Column(name, pl.Float64, meaning, kind="ratio", **hints)


# ---------------------------------------------------------------------------------------------------------- input

RINGS = Table("rings", "One row per ring in a file: when it was taken and how much it says", (
    _text("kind", "page, memberlist, memberlist-binary, html or store (an export of a key-value store)"),
    Column("now_ns", pl.Int64, "The page's own time, null where the file has none", "ns"),
    _count("members", "Members or partitions listed"),
    _text("key", "Name of the ring in its store; empty where the file does not say"),
    Column("partitions", pl.Boolean, "Whether it is a ring of partitions", kind="flag"),
))  # fmt: skip

MEMBERS = Table("members", "Ring members as listed", (
    _id("id", "Instance ID"),
    _text("state", "State as written"),
    _text("zone", "Availability zone"),
    _count("tokens", "Number of tokens"),
    _text("address", "Address and port"),
    Column("heartbeat_s", pl.Int64, "Last heartbeat, epoch seconds; null where the file has none", "s"),
    Column("registered_s", pl.Int64, "Registration, epoch seconds", "s"),
    Column("read_only", pl.Boolean, "Read-only flag (segment writers ignore it)", kind="flag"),
    _text("key", "Name of the ring in its store"),
    Column("read_only_s", pl.Int64, "Last change of the read-only flag, epoch seconds", "s"),
    Column("values", pl.List(pl.UInt32), "The tokens themselves; null where the file gives their number only"),
    _ratio("owned", "Ownership as an HTML page prints it; null in other files"),
))  # fmt: skip

PARTITION_RINGS = Table("partition_rings", "Partitions as listed", (
    Column("partition", pl.Int64, "Partition ID"),
    Column("state", pl.Int64, "0 Unknown, 1 Pending, 2 Active, 3 Inactive"),
    Column("changed_s", pl.Int64, "Last change of the state, epoch seconds; 0 where unknown", "s"),
    Column("locked", pl.Boolean, "Whether the state may not change", kind="flag"),
    Column("owners", pl.List(pl.String), "Instances that own it"),
    _text("key", "Name of the ring in its store"),
    Column("values", pl.List(pl.UInt32), "Tokens; null where the file gives their number only"),
))  # fmt: skip

OVERRIDES = Table("overrides", "Per-tenant limits in force after the override file", (
    _id("tenant", "Tenant ID"),
    _count("tenant_shards", "adaptive_placement_tenant_shards; null: not set"),
    _count("ingestion_shards", "ingestion_tenant_shard_size; null: not set"),
    _count("default_dataset_shards", "Dataset shards without a rule; null: not set"),
    _text("load_balancing", "dynamic, fingerprint or round-robin; null: not set"),
    _count("min_dataset_shards", "Fewest shards the allocator gives; null: not set"),
    _count("max_dataset_shards", "Most shards the allocator gives; null: not set"),
    Column("unit_size", pl.Int64, "Bytes per second of one shard; null: not set", kind="bytes_per_s"),
    Column("burst_ns", pl.Int64, "Burst window; null: not set", "ns"),
    Column("decay_ns", pl.Int64, "Decay window; null: not set", "ns"),
    _count("partition_shards", "ingestion_partitions_tenant_shard_size; null: not set"),
))  # fmt: skip

RULES = Table("rules", "Stored placement rules", (
    _id("tenant", "Tenant ID"),
    _id("dataset", "Dataset name"),
    _count("tenant_limit", "Tenant shard limit"),
    _count("dataset_limit", "Dataset shard limit"),
    Column("load_balancing", pl.Int64, "0 unset, 1 fingerprint, 2 round-robin"),
    Column("created_at", pl.Int64, "When the rules were made", "ns"),
))  # fmt: skip

STATS = Table("stats", "Stored distribution stats, one row per dataset and shard entry", (
    _id("tenant", "Tenant ID"),
    _id("dataset", "Dataset name"),
    Column("shard", pl.Int64, "Shard ID, 1-based"),
    _id("instance", "Owner that wrote it"),
    Column("usage", pl.Int64, "Bytes per second as encoded in segments", kind="bytes_per_s"),
    Column("std_dev", pl.Int64, "Standard deviation as stored", kind="bytes_per_s"),
    Column("created_at", pl.Int64, "When the stats were made", "ns"),
))  # fmt: skip

LOADS = Table("loads", "A plain table of loads", (
    Column("tenant", pl.Categorical(), "Tenant ID", kind="id"),
    Column("tenant_hash", pl.UInt64, "XXH64 of the ID as written, where it differs from the text shown"),
    Column("dataset", pl.Categorical(), "Dataset (service name)", kind="id"),
    Column("dataset_hash", pl.UInt64, "XXH64 of the name as written, where it differs from the text shown"),
    Column("bytes_per_s", pl.Float64, "Load that is written with the key", kind="bytes_per_s"),
    Column("fingerprint", pl.UInt64, "Series fingerprint; null spreads the load over the dataset's shards"),
))  # fmt: skip

KEYS = Table("keys", "A plain table of tenants or keys of token rings", (
    _id("tenant", "Tenant ID"),
    Column("tenant_written", pl.String, "The ID as written, where it differs from the text shown"),
    Column("token", pl.Int64, "32-bit token of the key; null for a tenant as a whole"),
    Column("token_without_le", pl.Int64, "Token of the series without its label le; null where it has none"),
    Column("weight", pl.Float64, "Load, 1 where the table gives none"),
    _text("system", "mimir, loki, tempo, or empty: what the column of keys tells"),
))  # fmt: skip

METRICS = Table("metrics", "Samples of the placement metrics of a Prometheus exposition", (
    _text("metric", "Metric name"),
    _id("tenant", "Tenant ID"),
    _id("dataset", "Dataset name"),
    Column("shard", pl.Int64, "Shard ID, 1-based"),
    _id("instance", "Owner, or the address, pod or scrape target"),
    Column("value", pl.Float64, "Value"),
    _text("load_balancing", "Strategy number of a limit"),
    Column("time_ms", pl.Int64, "Sample time, null where the file has none", kind="time_ms"),
    _id("target", "Scrape target, where a server has added it"),
))  # fmt: skip

BLOCKS = Table("blocks", "Datasets of segments and blocks", (
    _id("block", "ULID of the block"),
    Column("shard", pl.Int64, "Shard ID, 1-based"),
    Column("level", pl.Int64, "Compaction level, 0 for a segment"),
    Column("min_ms", pl.Int64, "First sample", kind="time_ms"),
    Column("max_ms", pl.Int64, "Last sample", kind="time_ms"),
    _id("tenant", "Tenant ID"),
    _id("dataset", "Dataset name, empty for the index"),
    Column("size", pl.Int64, "Bytes in the block", kind="bytes"),
    _id("instance", "Writer, null once compacted"),
))  # fmt: skip

SETTINGS = Table("settings", "What a configuration says of a ring; null: not set", (
    _count("replication", "Replication factor"),
    Column("zone_aware", pl.Boolean, "Whether zone awareness is on", kind="flag"),
    Column("timeout_s", pl.Float64, "Heartbeat timeout", "s"),
    _count("tenant_shards", "ingestion_tenant_shard_size of tenants without an override"),
    _count("partition_shards", "ingestion_partitions_tenant_shard_size of tenants without an override"),
    _text("tokens", "random or spread-minimizing"),
    Column("zones", pl.List(pl.String), "Zones of spread-minimizing tokens"),
    Column("exclude_le", pl.Boolean, "Whether series are placed without their label le", kind="flag"),
    Column("read_sharding", pl.Boolean, "Whether queries ask only the shard of their tenant", kind="flag"),
    Column("lookback_s", pl.Float64, "How far back they ask former members of the shard", "s"),
    Column("excluded", pl.List(pl.String), "Zones whose members take no part"),
    _text("system", "mimir, loki, tempo, pyroscope or cortex, where the file tells"),
    _text("component", "segment-writer, or empty: the ingesters"),
))  # fmt: skip


# --------------------------------------------------------------------------------------------------------- results

NODES = Table("nodes", "Every ring member with its load before and after the scenario", (
    _id("instance", "Instance ID", priority=0),
    _text("state", "State at the chosen time; stale members are UNHEALTHY", width=9, priority=0),
    _text("fate", "What becomes of it in the scenario: down, gone, back, leaving, new, over (its capacity), unhealthy (another "
          "state than ACTIVE); empty: nothing", width=9, priority=5, hidden=True),
    _text("zone", "Availability zone", width=8, priority=1),
    _count("tokens", "Number of tokens, one shard each", width=6, priority=3),
    _rate("load_before", "Load before the scenario", title="before", priority=1),
    _rate("load_after", "Load in the scenario", title="after", priority=0),
    _rate("added", "Load after minus before", title="added", priority=3),
    _ratio("over_mean", "Load after over the mean of the nodes that take data; the bar is before and after",
           title="× mean", width=20, priority=0),
    _rate("capacity", "What the node can take; null if not given", priority=3),
    _rate("headroom", "Capacity minus load after", priority=2),
    Column("over_capacity", pl.Boolean, "Whether the load after exceeds the capacity", kind="flag", title="over",
           priority=2),
    Column("down", pl.Boolean, "Whether the scenario takes it down", kind="flag", priority=3),
    Column("load_observed", pl.Int64, "What stats, metrics or blocks say it wrote, in their own unit", kind="bytes",
           title="observed", priority=4),
    _ratio("ownership", "Share of its zone's keys as the ring page counts it; of rings with tokens", title="owns", width=7,
           priority=1),
    _count("token_ranges", "Ranges of keys that it owns, by which Mimir counts owned series; null without zones, or with other "
           "than as many zones as replicas", title="ranges", width=7, priority=4, hidden=True),
    _ratio("replica_share", "Share of all keys whose replica set holds it; of rings with replicas", title="holds", width=7,
           priority=1),
    _count("tenants", "Tenants whose shard holds it; of rings with replicas", width=7, priority=2),
    Column("largest_tenants", pl.List(pl.String), "Those of them with the largest loads, at most 8", kind="text",
           title="largest tenants", priority=4, hidden=True),
    _id("worst_partner", "The node with which it loses most keys; of rings with replicas", title="worst with", priority=2),
    _ratio("pair_lost_share", "Share of all keys lost when both fail", title="pair loses", width=10, priority=2),
    _text("address", "Address and port", priority=5, hidden=True),
    Column("heartbeat_ms", pl.Int64, "Last heartbeat", kind="time_ms", title="heartbeat", priority=5, hidden=True),
    Column("out", pl.Boolean, "Whether its state before the scenario is neither ACTIVE nor LEFT; such nodes stand first",
           kind="flag", priority=5, hidden=True),
), key=("instance",), order=("-out", "-load_before", "instance"), title="Nodes",
    )  # fmt: skip

SHARDS = Table("shards", "Which instance owns each shard in the scenario", (
    _count("shard", "Shard ID, 1-based", priority=0),
    _id("instance", "Owner in the scenario, whatever its state", priority=0),
    _id("instance_before", "Owner before; null where the shard is new", title="before"),
    _rate("load_before", "Load under this shard ID before", title="load before", priority=2),
    _rate("load_after", "Load under this shard ID in the scenario", title="load after", priority=2),
    _id("stored_by", "Instance that takes most of it in the scenario; null if it is rejected", title="stored by"),
), key=("shard",), order=("shard",), title="Shards",
    )  # fmt: skip

PLACEMENTS = Table("placements", "Where each key goes in the scenario's ring", (
    _id("tenant", "Tenant ID", priority=0),
    _id("dataset", "Dataset (service name)", priority=0),
    _id("fingerprint", "Series fingerprint, 16 hex digits; null for a dataset's even share", priority=2),
    _count("tenant_shards", "Configured tenant limit, 0 = none", title="T", priority=3),
    _count("dataset_shards", "Configured dataset limit", title="D", priority=3),
    _count("offset", "Offset within the dataset's shards", priority=4),
    _count("shard", "Shard ID, 1-based", priority=0),
    _id("instance", "Owner of the shard, whatever its state", priority=0),
    Column("candidates", pl.List(pl.String), "Distinct ACTIVE instances in walk order, at most 6", kind="text",
           priority=1),
    _id("stored_by", "Instance that takes it in the scenario; null if it is rejected", title="stored by"),
    _rate("bytes_per_s", "Load that is written with the key", title="load", priority=1),
    _text("limits_from", "rule, override, default or what-if", title="limits", priority=4),
    _count("shard_before", "Shard ID before the scenario", priority=5, hidden=True),
    _id("instance_before", "Owner before the scenario", priority=5, hidden=True),
    _count("token", "32-bit token of the key; of token rings", priority=0),
    Column("replicas", pl.List(pl.String), "Instances that hold the key, in walk order", kind="text", priority=0),
    _count("max_errors", "How many of them may fail; null where the key cannot be written", title="may fail", priority=0),
    _text("error", "Why the ring refuses the key; empty where it does not", priority=1),
    _count("partition", "Partition of the key; of partition rings", priority=1),
    Column("lost", pl.Boolean, "Whether writes of the key fail in the scenario", kind="flag", priority=0),
), key=("tenant", "dataset", "fingerprint", "offset", "token"),
   order=("tenant", "dataset", "fingerprint", "offset", "shard", "token"),
   title="Placements",
    )  # fmt: skip

_REQUESTS = _ratio(
    "requests_lost_share", "Share of write requests that fail, with as many series each as -o request-series says: one key that "
    "cannot be written is enough; of rings with replicas", title="requests lost", width=13, priority=0,
)  # fmt: skip
_WHOLE = Column("reads_ok", pl.Boolean, "Whether queries of the whole ring (of tenants without a shard) succeed; of rings with "
                "replicas", kind="flag", title="reads ok", width=8, priority=0)  # fmt: skip

TOTALS = (
    _rate("rejected_bytes", "Load no instance takes", title="rejected", priority=0),
    _rate("rerouted_bytes", "Load that goes to another instance because its own failed", title="rerouted", priority=1),
    _rate("moved_bytes", "Sum over datasets and nodes of the decrease", title="moved", priority=1),
    _rate("needless_moved_bytes", "Moved although the node that had it is up", title="moved anyway", priority=2),
    _count("shards_with_changed_owner", "Shard IDs with another owner", title="shards changed", priority=3),
    _count("datasets_with_changed_shard_set", "Datasets whose shards differ", title="sets changed", priority=4),
    _count("datasets_touched", "Datasets with a part on a failed node", title="datasets", priority=2),
    _count("datasets_fully_on_down", "Datasets wholly on failed nodes", title="wholly", priority=4),
    _count("tenants_touched", "Tenants with a part on a failed node", title="tenants", priority=3),
    _ratio("max_over_mean", "Largest load over mean load of the nodes that take data", title="max/mean", priority=0),
    _ratio("coefficient_of_variation", "Standard deviation over mean of those loads", title="cv", priority=3),
    _id("worst_instance", "Node with the largest load", title="hottest", priority=0),
    _rate("worst_load", "Load of the hottest node", title="its load", priority=0),
    _count("nodes_over_capacity", "Nodes above their capacity; null without one", title="over", priority=1),
    _ratio("write_lost_share", "Share of all keys that cannot be written; of rings with replicas", title="keys lost",
           priority=0),
    _REQUESTS,
    _count("tenants_write_lost", "Tenants that lose some writes, all keys of the ring counted as one; of rings with replicas",
           title="lose writes", priority=1),
    _count("tenants_read_lost", "Tenants whose queries fail, queries of the whole ring counted as one; of rings with replicas",
           title="lose reads", priority=1),
    _WHOLE,
)  # fmt: skip

SWEEP = Table("sweep", "Scenarios of the chosen sweep, worst first", (
    _count("rank", "1 is the worst", priority=0),
    Column("down", pl.List(pl.String), "Nodes that fail", kind="text", priority=0),
    _text("zone", "The zone that fails, in a sweep of zones", width=10, priority=1),
    *TOTALS,
), key=("rank",), order=("rank",), title="Sweep",
    )  # fmt: skip

OBSERVED = Table("observed", "Data that nodes have by stats, metrics and block footers: pairs of shard or tenant and node", (
    _text("source", "stats, usage, sent, ingest, blocks or series", width=6, priority=0),
    _id("tenant", "Tenant ID", priority=1),
    _id("dataset", "Dataset; null where the source does not say", priority=1),
    _count("shard", "Shard ID, 1-based", width=6, priority=0),
    _id("instance", "Who wrote it; null where the source does not say", priority=0),
    Column("bytes", pl.Int64, "Bytes (blocks, counters), bytes per second (stats, usage), or series and the like", kind="bytes",
           priority=1),
    _count("expected", "What the ring gives the instance of the tenant; of rings with replicas", priority=1),
    _id("computed", "Owner of that shard by the ring; null for a shard it does not have", priority=0),
    _text("drift", "owner, no-such-shard, unknown-instance; of rings with replicas outside-shard, missing, "
          "unknown-instance; empty where both agree", width=16, priority=0),
    Column("in_range", pl.Boolean, "Whether the dataset may use that shard, or queries of the tenant ask that instance; null "
           "where the source does not say", kind="flag", priority=2),
), key=("source", "tenant", "dataset", "shard", "instance"),
   order=("-drift", "source", "tenant", "dataset", "shard", "instance", "bytes"), title="Observed",
    )  # fmt: skip

STRATEGY = Table(
    "strategy", "Rule of each dataset in force and next, its spread as stored and corrected, and the strategy with either", (
    _id("tenant", "Tenant ID", priority=0),
    _id("dataset", "Dataset name", priority=0),
    _count("shards", "Shard entries in the stats; 0 for a dataset that has a rule only"),
    Column("mean", pl.Int64, "Integer mean of the usages", kind="bytes_per_s"),
    Column("std_dev_stored", pl.Int64, "Pyroscope's value: divided by the seconds between builds", kind="bytes_per_s",
           title="σ stored", width=10, priority=0),
    Column("std_dev", pl.Int64, "The true standard deviation of the same usages", kind="bytes_per_s",
           title="σ corrected", width=11, priority=0),
    _count("limit", "Dataset shards of its rule; null without one", title="D", priority=1),
    _count("target", "Dataset shards of the rule that a ruler writes next from these stats; null without one", title="next D",
           priority=1),
    _text("upstream_chooses", "Strategy that a ruler writes next, by the stored value; or expired, or no rules",
          title="Pyroscope", width=11, priority=0),
    _text("corrected_chooses", "Strategy by the corrected value", title="corrected", width=11, priority=0),
), key=("tenant", "dataset"), order=("tenant", "dataset"), title="Strategy",
    )  # fmt: skip

EXPLAIN = Table("explain", "One key step by step: hashes, ranges, shard, and the fate of each candidate", (
    _count("step", "Order of the steps", width=4, priority=0),
    _text("what", "Kind of step", width=9, priority=0),
    _text("name", "What it is about", width=18, priority=0),
    _text("value", "Its value", width=18, priority=0),
    _text("note", "Why it is so", priority=1),
), key=("step",), order=("step",), title="Explain",
    )  # fmt: skip

TENANTS = Table("tenants", "Tenants: who holds their data, and what the scenario does to them", (
    _id("tenant", "Tenant ID", priority=0),
    _count("shard_size", "Limit of the tenant's shards (its shard size) as configured; 0 = no limit, the whole ring",
           title="limit", width=6, priority=0),
    Column("load", pl.Float64, "Load before replication", kind="number", priority=1),
    _ratio("write_lost_share", "Share of its keys (segment writers: of its load) that cannot be written in the scenario",
           title="writes lost", width=11,
           priority=0),
    replace(_REQUESTS, priority=1),
    Column("write_lost_load", pl.Float64, "Load that cannot be written", kind="number", title="lost load", priority=2),
    Column("reads_ok", pl.Boolean, "Whether its queries succeed in the scenario; of rings with replicas", kind="flag",
           title="reads ok", width=8, priority=0),
    _count("instances_down", "Instances of its shard (segment writers: that had its data) that are down in the scenario",
           title="down", width=4, priority=0),
    _ratio("spread", "Largest ownership over the mean inside its shard; of rings with replicas", title="max/mean", width=8,
           priority=1),
    Column("instances", pl.List(pl.String), "Instances of its shard (segment writers: that store its data while none fails)",
           kind="text", width=30, grow=90, priority=0),
    Column("read_instances", pl.List(pl.String), "Instances that its queries ask: the lookback adds former ones",
           kind="text", title="read from", priority=3),
    Column("partitions", pl.List(pl.Int64), "Partitions of its shard; of partition rings", kind="text", priority=2),
    Column("read_partitions", pl.List(pl.Int64), "Partitions that its queries need", kind="text", title="read partitions",
           priority=4),
), key=("tenant",), order=("-write_lost_share", "reads_ok", "-load", "tenant"), title="Tenants",
    )  # fmt: skip

PARTITIONS = Table("partitions", "Partitions, their owners, and who answers queries in the scenario", (
    _count("partition", "Partition ID", priority=0),
    _text("state", "Pending, Active or Inactive", width=9, priority=0),
    Column("owners", pl.List(pl.String), "Registered owners", kind="text", priority=0),
    Column("readers", pl.List(pl.String), "Owners that answer queries; none: every query that needs it fails", kind="text",
           priority=0),
    _ratio("share", "Share of all keys that are written to it", width=7, priority=1),
    Column("load", pl.Float64, "Load written to it", kind="number", priority=1),
    Column("changed_ms", pl.Int64, "Last change of its state", kind="time_ms", title="state since", priority=2),
    Column("locked", pl.Boolean, "Whether its state may not change", kind="flag", priority=3),
), key=("partition",), order=("partition",), title="Partitions",
    )  # fmt: skip

RESTART = Table("restart", "A rolling restart step by step: the worst node, or zone, of each step", (
    _count("step", "Order of the steps", width=4, priority=0),
    _text("unit", "What restarts at a time: one node, or a whole zone", width=6, priority=0),
    _text("state", "LEAVING, gone or JOINING", width=8, priority=0),
    _id("worst", "The node or zone that costs most", priority=0),
    _ratio("write_lost_share", "Share of all keys that cannot be written meanwhile", title="keys lost", priority=0),
    _REQUESTS,
    _count("tenants_write_lost", "Tenants that lose some writes, all keys of the ring counted as one", title="lose writes",
           priority=0),
    _count("tenants_read_lost", "Tenants whose queries fail, queries of the whole ring counted as one", title="lose reads",
           priority=0),
    _WHOLE,
), key=("step",), order=("step",), title="Restart",
   )  # fmt: skip

SIZES = Table("sizes", "The explained tenant at other shard sizes", (
    _count("shard_size", "Nodes or partitions that each tenant is spread over", priority=0),
    _count("members", "Instances of the shard", priority=0),
    _ratio("pair_lost_share", "Share of its keys that the worst pair of failing nodes loses", title="worst pair", priority=0),
    Column("worst_pair", pl.List(pl.String), "That pair", kind="text", priority=1),
    _ratio("spread", "Largest ownership over the mean inside the shard", title="max/mean", priority=0),
    Column("safe", pl.Boolean, "Whether the worst pair loses no more than the limit (-o safe-loss)", kind="flag",
           priority=0),
    Column("configured", pl.Boolean, "Whether it is the size in force", kind="flag", priority=0),
), key=("shard_size",), order=("shard_size",), title="Shard sizes",
    )  # fmt: skip

OF_LOAD = frozenset(
    """load_before load_after added over_mean headroom over_capacity load write_lost_load rejected_bytes rejected_before_bytes
    rerouted_bytes moved_bytes needless_moved_bytes datasets_with_changed_shard_set datasets_touched datasets_fully_on_down
    max_over_mean coefficient_of_variation worst_instance worst_load nodes_over_capacity mean_load mean_tries load_total
    sweep_worst_load_p50 sweep_worst_load_p90 sweep_worst_load_p99 sweep_worst_load_max sweep_with_rejects""".split()  # noqa: SIM905
)
"""Columns of results, and numbers of a summary, that are unknown without a load: nothing was counted."""
OF_SEGMENT_LOAD = OF_LOAD | {"datasets", "tenants", "tenants_touched"}
"""Those of a ring of segment writers, whose load alone names the tenants."""


RESULTS = (
    NODES,
    TENANTS,
    PARTITIONS,
    SHARDS,
    PLACEMENTS,
    SWEEP,
    OBSERVED,
    STRATEGY,
    EXPLAIN,
    SIZES,
    RESTART,
)
