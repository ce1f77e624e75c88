"""What the screen draws beyond the tables: the map of the scenario's nodes, and what a failure does over time."""

from __future__ import annotations

from typing import Any

import msgspec

from engine.ring_placement.insight.holders import fates_of
from engine.ring_placement.scenarios.scenario_state import Scenario

REGIMES = {"transient": "A", "unhealthy": "U", "left": "B", "returned": "C"}  # letter of each regime


class NodeBar(msgspec.Struct, frozen=True):
    """One node: ``capacity`` in bytes per second, None if unknown; ``fate``: "" (nothing happens to it), down, gone,
    leaving, unhealthy, new, back or over."""

    id: str
    zone: str
    capacity: float | None
    fate: str


class RegimeTotals(msgspec.Struct, frozen=True):
    """One regime on the time axis: its name, letter, and totals (bytes per second); of rings with replicas also the share of
    all keys that cannot be written, the tenants that lose writes or queries, and whether unsharded queries succeed."""

    regime: str
    letter: str
    max_over_mean: float
    rejected_bytes: float
    moved_bytes: float
    write_lost_share: float = 0.0
    tenants_write_lost: int = 0
    tenants_read_lost: int = 0
    reads_ok: bool = True


class ShardMapView(msgspec.Struct, frozen=True):
    """The shard map before and in the scenario, as indices into ``nodes``.

    ``stored_by``: the node that takes each shard's load (-1: rejected, -2: its owner is out and it has no load). ``timeline``:
    the regimes computed for this scenario. ``flows``: load that moves off failed and leaving nodes (node, taker or -1 if
    rejected, bytes per second), the largest first. ``kind`` of ring; of a token ring ``matrix``: the share of all keys
    that two nodes lose together, by the nodes ``matrix_nodes`` that rows begin with.
    ``moments``: times (epoch ms) that time travel stops at, the present last; empty in the past. ``has_ring``: whether the
    files hold one.
    """

    nodes: tuple[NodeBar, ...]
    owner_before: tuple[int, ...]
    owner_after: tuple[int, ...]
    stored_by: tuple[int, ...]
    regime: str
    down: tuple[str, ...]
    timeline: tuple[RegimeTotals, ...] = ()
    flows: tuple[tuple[int, int, float], ...] = ()
    kind: str = "segment-writer"
    matrix_nodes: tuple[str, ...] = ()
    matrix: tuple[tuple[float, ...], ...] = ()
    moments: tuple[int, ...] = ()
    has_ring: bool = True


def bars(s: Scenario[Any]) -> tuple[NodeBar, ...]:
    """Return all nodes of the scenario and what happens to each."""
    zones = {m.id: m.zone for m in (*s.before.ring.members, *s.planned.ring.members, *s.members)}
    fates, limits = fates_of(s), s.capacity if s.comparable else {}
    return tuple(NodeBar(name, zones[name], limits.get(name), fates[name]) for name in s.outcome.nodes)
