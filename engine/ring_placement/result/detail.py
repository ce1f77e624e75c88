"""What the screen draws beyond the tables: the shard map of the scenario, with the three regimes on one time axis."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from engine.ring_placement.insight.holders import fates_of, stored_by
from engine.ring_placement.parameters import RingParameters
from engine.ring_placement.scenarios.failover import (
    member_mask,
    place_without,
    relayout_outcome,
    remove_members,
    takeover_flows,
    transient_outcome,
)
from engine.ring_placement.scenarios.scenario_state import SegmentScenario
from engine.ring_placement.scenarios.strategy import imbalance

TIMELINE_GROUPS = 20_000
"""Groups up to which all three regimes are computed for the time axis; beyond them only the chosen one."""

REGIMES = {"transient": "A", "left": "B", "returned": "C"}
"""Letter of each regime."""


@dataclass(frozen=True, slots=True)
class NodeBar:
    """One node: ``capacity`` in bytes per second, None where unknown; ``fate``: "" (nothing happens to it), down, gone,
    leaving, unhealthy, new, back or over."""

    id: str
    zone: str
    capacity: float | None
    fate: str


@dataclass(frozen=True, slots=True)
class RegimeTotals:
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


@dataclass(frozen=True, slots=True)
class ShardMapView:
    """The shard map before and in the scenario, as indices into ``nodes``.

    ``stored_by``: who takes each shard's load (-1: it is rejected, -2: its owner is out and it has no load). ``timeline``:
    the regimes computed for this scenario. ``flows``: who takes over from failed and leaving nodes (node, taker or -1 where
    it is rejected, bytes per second), the largest first. ``kind`` of ring; of a token ring ``matrix``: the share of all keys
    that two nodes lose together, by the nodes ``matrix_nodes`` that rows begin with.
    ``moments``: times (epoch ms) that time travel stops at, the present last; empty in the past.
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


def shard_map_view(s: SegmentScenario, p: RingParameters) -> ShardMapView:
    """Build what the screen draws of the scenario."""
    outcome = s.outcome
    index = {name: i for i, name in enumerate(outcome.nodes)}
    zones = {m.id: m.zone for m in (*s.before.ring.members, *s.planned.ring.members, *s.members)}
    fates = fates_of(s)
    limits = s.capacity if s.comparable else {}
    bars = [NodeBar(name, zones[name], limits.get(name), fates[name]) for name in outcome.nodes]
    old = np.array([index[i] for i in s.before.ring.ids], dtype=np.int64)
    new = np.array([index[i] for i in s.after.ring.ids], dtype=np.int64)
    stored = stored_by(s)
    stored_at = np.where(stored >= 0, new[np.maximum(stored, 0)], stored) if len(stored) else stored
    lost = {*s.down, *s.leaving} if p.regime != "returned" else set()
    flows = takeover_flows(s.before, s.after, lost)
    return ShardMapView(
        nodes=tuple(bars),
        owner_before=tuple(old[s.before.ring.owner].tolist()) if len(old) else (),
        owner_after=tuple(new[s.after.ring.owner].tolist()) if len(new) else (),
        stored_by=tuple(stored_at.tolist()),
        regime=p.regime,
        down=s.down,
        timeline=_timeline(s, p),
        flows=tuple((index[node], index[taker] if taker else -1, load) for node, taker, load in flows),
    )


def _timeline(s: SegmentScenario, p: RingParameters) -> tuple[RegimeTotals, ...]:
    """Compute the three regimes of the failing set, or only the chosen one on large inputs."""
    if not s.down:
        return ()
    planned, down = s.planned, frozenset(s.down)
    regimes = list(REGIMES) if len(planned.groups.datasets) <= TIMELINE_GROUPS else [p.regime]
    timeline = []
    for regime in regimes:
        ring = planned.ring
        if regime == p.regime:
            outcome, ring = s.outcome, s.after.ring
        elif regime == "transient":
            outcome = transient_outcome(planned, member_mask(ring, down))
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
        timeline.append(RegimeTotals(regime, REGIMES[regime], ratio, outcome.rejected_bytes, outcome.moved_bytes))
    return tuple(timeline)
