"""The scenario of the ring placement tab: how key presses change the parameters, and the scenario in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from engine.ring_placement.parameters import RingParameters
    from engine.ring_placement.result.detail import ShardMapView

EMPTY: Mapping[str, Any] = {
    "fail": (), "leaving": (), "scale": None, "tokens": None, "tenant_shards": None, "dataset_shards": None,
    "home_zone": None, "regime": "transient", "cascade": False, "scale_ids": "plain",
}  # fmt: skip
"""The scenario's parameters where nothing is changed."""

REGIMES = ("transient", "left", "returned")
"""The moments of the time axis, in order."""

RING_REGIMES = ("transient", "unhealthy", "left", "returned")
"""The moments for rings with replicas, whose members stay registered while they are unhealthy."""

SWEEPS = ("nodes", "zones", "pairs", "random", "leaving")
"""The kinds of a sweep, in the order in which a key steps through them."""


def steps(p: RingParameters) -> tuple[str, ...]:
    """Describe the scenario in words, one text per change."""
    words = []
    if p.fail:
        words.append("fail " + ", ".join(p.fail))
    if p.leaving:
        words.append("leaving " + ", ".join(p.leaving))
    for field, text in (
        ("scale", "{} nodes"),
        ("tokens", "{} tokens each"),
        ("tenant_shards", "T={}"),
        ("dataset_shards", "D={}"),
        ("home_zone", "only zone {}"),
    ):
        value = getattr(p, field)
        if value is not None:
            words.append(text.format(value))
    if p.scale_ids == "padded":
        words.append("padded IDs")
    if p.cascade:
        words.append("cascade")
    if p.capacity:
        words.append("capacity " + ", ".join(p.capacity))
    elif p.cores is not None:
        words.append(f"{p.cores:g} cores")
    return tuple(words)


def changed(p: RingParameters) -> bool:
    """Whether there is a scenario to clear."""
    return any(getattr(p, name) != value for name, value in EMPTY.items())


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
    if name in fail:
        return tuple(f for f in fail if f != name)
    if f"zone:{zone}" in fail:
        return tuple(f for f in expanded(fail, map_view) if f != name)
    return (*fail, name)


def zone_toggled(fail: Sequence[str], zone: str, map_view: ShardMapView | None) -> tuple[str, ...]:
    """Return ``fail`` with the whole ``zone`` added or removed."""
    word = f"zone:{zone}"
    if word in fail:
        return tuple(f for f in fail if f != word)
    members = set(expanded([word], map_view))
    return (*(f for f in fail if f not in members), word)


def following(order: Sequence[str], now: str) -> str:
    """Return what comes after ``now`` in ``order``, or its first entry where it is not in it."""
    return order[(order.index(now) + 1) % len(order)] if now in order else order[0]


def key_of(row: Mapping[str, Any], kind: str) -> str:
    """Return the key or tenant that ``row`` of a table names, in the form in which it can be explained; "" for others."""
    if row.get("tenant") is None:
        return ""
    if kind != "segment-writer":
        return str(row["tenant"]) + (f"@{row['token']}" if row.get("token") is not None else "")
    if row.get("dataset") is None:
        return ""
    mark = f"@{row['fingerprint']}" if row.get("fingerprint") else ""
    return f"{row['tenant']}/{row['dataset']}{mark}"
