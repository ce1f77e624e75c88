"""What the screen draws beyond the tables: the map of the scenario's nodes, and what a failure does over time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import numpy as np

from engine.core.view import Context
from engine.ring_placement.insight.holders import fates_of, stored_by
from engine.ring_placement.insight.replica_findings import key_pairs
from engine.ring_placement.parameters import RingParameters
from engine.ring_placement.scenarios.failover import (
    fail_members,
    member_mask,
    place_without,
    relayout_outcome,
    remove_members,
    takeover_flows,
)
from engine.ring_placement.scenarios.scenario_state import KEEP, ReplicatedScenario, Scenario, SegmentScenario
from engine.ring_placement.scenarios.strategy import imbalance

TIMELINE_GROUPS = 20_000
"""Most groups up to which all regimes are computed for the time axis; beyond, only the chosen one."""

TIMELINE_TENANTS = 500
"""Most tenants up to which a new layout is computed for the time axis although another regime is chosen."""

REGIMES = {"transient": "A", "unhealthy": "U", "left": "B", "returned": "C"}  # letter of each regime

MATRIX = 60  # most rows and columns of the matrix of pairs that is drawn; each cell is the worst of its pairs


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


def segment_map(s: SegmentScenario, p: RingParameters, context: Context) -> ShardMapView:
    """Build what the screen draws of a ring of segment writers."""
    index = {name: i for i, name in enumerate(s.outcome.nodes)}
    old = np.array([index[i] for i in s.before.ring.ids], dtype=np.int64)
    new = np.array([index[i] for i in s.after.ring.ids], dtype=np.int64)
    stored = stored_by(s)
    stored_at = np.where(stored >= 0, new[np.maximum(stored, 0)], stored) if len(stored) else stored
    lost = {*s.down, *s.leaving} if p.regime != "returned" else set()
    flows = takeover_flows(s.before, s.after, lost)
    return ShardMapView(
        nodes=_bars(s),
        owner_before=tuple(old[s.before.ring.owner].tolist()) if len(old) else (),
        owner_after=tuple(new[s.after.ring.owner].tolist()) if len(new) else (),
        stored_by=tuple(stored_at.tolist()),
        regime=p.regime,
        down=s.down,
        timeline=tuple(_segment_timeline(s, p)) if s.down and s.live.cluster.load_source else (),
        has_ring=s.live.cluster.ring is not None,
        flows=tuple((index[node], index[taker] if taker else -1, load) for node, taker, load in flows),
    )


def replica_map(s: ReplicatedScenario, p: RingParameters, context: Context) -> ShardMapView:
    """Build what the screen draws of a ring with replicas: also the matrix of pairs."""
    order, matrix = context.memo.value("matrix", s.planned_key, lambda: _matrix(s, context), keep=KEEP)
    return ShardMapView(
        nodes=_bars(s), owner_before=(), owner_after=(), stored_by=(), regime=p.regime, down=s.down,
        timeline=tuple(_replica_timeline(s, p, context)) if s.down else (), kind=s.live.strategy.kind,
        matrix_nodes=order, matrix=matrix,
    )  # fmt: skip


def _bars(s: Scenario[Any]) -> tuple[NodeBar, ...]:
    zones = {m.id: m.zone for m in (*s.before.ring.members, *s.planned.ring.members, *s.members)}
    fates, limits = fates_of(s), s.capacity if s.comparable else {}
    return tuple(NodeBar(name, zones[name], limits.get(name), fates[name]) for name in s.outcome.nodes)


def _segment_timeline(s: SegmentScenario, p: RingParameters) -> Iterator[RegimeTotals]:
    """Compute the three regimes of the failing set, or only the chosen one on large inputs."""
    planned, down = s.planned, frozenset(s.down)
    for regime in [p.regime] if len(planned.groups.datasets) > TIMELINE_GROUPS else ["transient", "left", "returned"]:
        ring = planned.ring
        if regime == p.regime:
            outcome, ring = s.outcome, s.after.ring
        elif regime == "transient":
            outcome = fail_members(planned, member_mask(ring, down))[0]
        elif regime == "left":
            outcome, later = remove_members(planned, down)
            ring = later.ring
        else:
            outcome = relayout_outcome(place_without(planned, down), planned)
        receives = {i for i, active in zip(ring.ids, ring.active, strict=True) if active}
        if regime != "returned":
            receives -= down
        alive = np.array([name in receives for name in outcome.nodes], dtype=bool)
        ratio, _ = imbalance(outcome.after[alive])
        yield RegimeTotals(regime, REGIMES[regime], ratio, outcome.rejected_bytes, outcome.moved_bytes)


def _replica_timeline(s: ReplicatedScenario, p: RingParameters, context: Context) -> Iterator[RegimeTotals]:
    """Compute each regime of the failure; a new layout of many tenants only if it is chosen."""
    strategy, planned, down = s.live.strategy, s.planned, frozenset(s.down)
    failed = member_mask(planned.ring, down)
    for regime, letter in REGIMES.items():
        if regime == p.regime:
            after, moved = s.after, s.outcome.moved_bytes
        elif regime in ("transient", "unhealthy"):
            after, moved = planned.with_failed(failed), 0.0
        elif regime == "returned":
            after, moved = planned, 0.0
        elif len(planned.tenants.names) <= TIMELINE_TENANTS:
            away = lambda: strategy.without(planned, down, context.check)  # noqa: E731
            after = context.memo.value("left", (s.planned_key, s.down), away, keep=KEEP)
            moved = strategy.compare(planned, after, down).moved_bytes
        else:
            continue
        ratio, _ = imbalance(after.loads[after.alive])
        yield RegimeTotals(
            regime, letter, ratio, after.rejected, moved, float(after.lost_share[0]),
            after.tenants_write_lost, after.tenants_read_lost,
            bool(after.reads_ok[0]),
        )  # fmt: skip


def _matrix(s: ReplicatedScenario, context: Context) -> tuple[tuple[str, ...], tuple[tuple[float, ...], ...]]:
    """Return the share of all keys that each pair of nodes loses, nodes by zone and ID, folded to ``MATRIX`` cells by the
    worst pair. Returns the first node of each row, and the rows."""
    ring = s.planned.ring
    if s.planned.partitions is not None or len(ring.members) < 2:
        return (), ()
    pairs = key_pairs(s, context)
    at = np.array(sorted(range(len(ring.members)), key=lambda k: (ring.members[k].zone, ring.ids[k])))
    lost = pairs.matrix()[np.ix_(at, at)]
    starts = np.unique(np.linspace(0, len(at), min(len(at), MATRIX), endpoint=False).astype(np.int64))
    folded = np.maximum.reduceat(np.maximum.reduceat(lost, starts, axis=0), starts, axis=1)
    return tuple(ring.ids[k] for k in at[starts]), tuple(tuple(row) for row in np.round(folded, 9).tolist())
