"""The sections of the ring placement tab: which tables it has, and for which kind of ring."""

from __future__ import annotations

from collections.abc import Mapping

TABLES: tuple[tuple[str, str], ...] = (
    ("Tenants", "tenants"),
    ("Partitions", "partitions"),
    ("Pairs", "pairs"),
    ("Shards", "shards"),
    ("Sweep", "sweep"),
    ("Restart", "restart"),
    ("Keys", "placements"),
    ("Explain", "explain"),
    ("Sizes", "sizes"),
    ("Drift", "observed"),
    ("Strategy", "strategy"),
)
"""Sections beside the map, and the result table each shows; Pairs is a drawing."""

BELOW = ("sweep", "shards", "observed")
"""Tables of which the first with rows stands below nodes and tenants on a large screen."""

OTHER_KINDS: Mapping[str, frozenset[str]] = {
    "segment-writer": frozenset({"partitions", "pairs", "restart", "sizes"}),
    "token-ring": frozenset({"partitions", "shards", "strategy"}),
    "partition-ring": frozenset({"pairs", "shards", "sizes", "strategy"}),
    "": frozenset(name for _, name in TABLES),
}
"""Sections that a kind of ring does not have."""

NUMBER = {name: number for number, (_, name) in enumerate(TABLES, 1)}
"""Number of the section of each table."""

HINTS = {
    "sweep": "x runs a sweep; again: the next kind",
    "restart": "x until the sweep is of nodes LEAVING: a rolling restart, step by step",
    "sizes": "v and a tenant shows its shard at other sizes",
    "explain": "v asks for a key",
    "placements": "needs a CSV of keys: tenant,token or tenant,series or tenant,stream or tenant,trace_id",
    "observed": "needs metrics: what writers or ingesters really have",
    "strategy": "needs placement_stats.binpb",
}
"""How to get a table that is only made on demand."""

KEY_HINTS = {
    "segments": 'tenant/dataset, tenant/dataset@fingerprint or tenant{service_name="x", ...}',
    "replicas": 'tenant, tenant@token, tenant/series{label="x", ...} or tenant{stream label="x", ...}',
}
"""Forms of a key that can be explained, by what a ring places."""
