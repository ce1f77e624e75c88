"""The scenario of the ring placement tab: how keys change it, the scenario in words, and which tables a ring has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from engine.ring_placement.parameters import RingParameters
    from engine.ring_placement.result.detail import ShardMapView

REGIMES = ("transient", "left", "returned")  # the moments of the time axis, in order

RING_REGIMES = ("transient", "unhealthy", "left", "returned")
"""The moments for rings with replicas, whose members stay registered while they are unhealthy."""

COUNTED = ("series", "streams", "samples", "spans")  # what loads of rings with replicas count

SWEEPS = ("nodes", "zones", "pairs", "random", "leaving")
"""The kinds of a sweep, in the order in which a key steps through them."""

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
"""Candidates for the table below nodes and tenants on a large screen: the first that has rows."""

OTHER_KINDS: Mapping[str, frozenset[str]] = {
    "segment-writer": frozenset({"partitions", "pairs", "restart", "sizes"}),
    "token-ring": frozenset({"partitions", "shards", "strategy"}),
    "partition-ring": frozenset({"pairs", "shards", "sizes", "strategy"}),
    "": frozenset(name for _, name in TABLES),
}
"""Sections that a kind of ring does not have."""

TITLES = {name: title for title, name in TABLES}  # title of the section of each table

HINTS = {
    "sweep": "x runs a sweep; again: the next kind",
    "restart": "x until the sweep is of nodes LEAVING: a rolling restart, step by step",
    "sizes": "v and a tenant shows its shard at other sizes",
    "explain": "v asks for a key",
    "placements": "needs a CSV of keys: tenant,token or tenant,series or tenant,stream or tenant,trace_id",
    "observed": "needs metrics: what writers or ingesters really have",
    "strategy": "needs placement_stats.binpb",
}
"""How to get a table that is made only on demand."""

NUMBERS = {
    "scale": "{} nodes", "tokens": "{} tokens each", "tenant_shards": "T={}", "dataset_shards": "D={}",
    "home_zone": "only zone {}",
}  # fmt: skip
"""Words for options that change the ring."""

KEY_HINTS = {
    "segments": 'tenant/dataset, tenant/dataset@fingerprint or tenant{service_name="x", ...}',
    "replicas": 'tenant, tenant@token, tenant/series{label="x", ...} or tenant{stream label="x", ...}',
}
"""Forms in which a key can be typed, by kind of ring."""


def steps(p: RingParameters) -> tuple[str, ...]:
    """Describe the scenario in words, one text per change."""
    cores = f"{p.cores:g} core{'' if p.cores == 1 else 's'}" if p.cores is not None else ""
    words = (
        "fail " + ", ".join(p.fail) if p.fail else "",
        "leaving " + ", ".join(p.leaving) if p.leaving else "",
        *(text.format(getattr(p, field)) for field, text in NUMBERS.items() if getattr(p, field) is not None),
        "padded IDs" if p.scale_ids == "padded" else "",
        "cascade" if p.cascade else "",
        "capacity " + ", ".join(p.capacity) if p.capacity else cores,
    )
    return tuple(filter(None, words))


def expanded(names: Sequence[str], map_view: ShardMapView | None) -> tuple[str, ...]:
    """Replace ``zone:x`` by its members, so that one of them can be brought back."""
    out: dict[str, None] = {}
    for name in names:
        if name.startswith("zone:") and map_view is not None:
            out.update(dict.fromkeys(n.id for n in map_view.nodes if n.zone == name[5:]))
        else:
            out[name] = None
    return tuple(out)


def node_toggled(fail: Sequence[str], name: str, zone: str, map_view: ShardMapView | None) -> tuple[str, ...]:
    """Return ``fail`` with the node ``name`` of ``zone`` added or removed."""
    if name in fail or f"zone:{zone}" in fail:
        return tuple(f for f in (fail if name in fail else expanded(fail, map_view)) if f != name)
    return (*fail, name)


def zone_toggled(fail: Sequence[str], zone: str, map_view: ShardMapView | None) -> tuple[str, ...]:
    """Return ``fail`` with the whole ``zone`` added or removed."""
    word = f"zone:{zone}"
    if word in fail:
        return tuple(f for f in fail if f != word)
    members = set(expanded([word], map_view))
    return (*(f for f in fail if f not in members), word)


def key_of(row: Mapping[str, Any], kind: str) -> str:
    """Return the key or tenant of ``row`` as it can be typed for an explanation; "" without one."""
    if row.get("tenant") is None:
        return ""
    if kind != "segment-writer":
        return str(row["tenant"]) + (f"@{row['token']}" if row.get("token") is not None else "")
    if row.get("dataset") is None:
        return ""
    mark = f"@{row['fingerprint']}" if row.get("fingerprint") else ""
    return f"{row['tenant']}/{row['dataset']}{mark}"
