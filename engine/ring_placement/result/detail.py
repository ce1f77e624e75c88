"""The detail of a result: the shard map of its scenario, with the three regimes on one time axis."""

from __future__ import annotations

import numpy as np

from engine.ring_placement.insight.explain import Explanation
from engine.ring_placement.parameters import RingParameters
from engine.ring_placement.result.layout_tables import stored_by
from engine.ring_placement.result.shard_map_view import NodeBar, RegimeTotals, ShardMapView
from engine.ring_placement.scenarios.failover import (
    imbalance,
    member_mask,
    place_without,
    relayout_outcome,
    remove_members,
    takeover_flows,
    transient_outcome,
)
from engine.ring_placement.scenarios.scenario_state import Scenario

TIMELINE_GROUPS = 20_000
"""Groups up to which all three regimes are computed for the time axis; beyond them only the chosen one."""

REGIMES = {
    "transient": ("A", "until the ring notices (60 s)"),
    "left": ("B", "while it is gone"),
    "returned": ("C", "once it is back"),
}
"""Letter of each regime, and when it holds."""


def shard_map_view(s: Scenario, p: RingParameters, explanation: Explanation | None, error: str) -> ShardMapView:
    """Build what the screen draws of the scenario; ``error`` says why there is no ``explanation``."""
    o = s.outcome
    index = {name: i for i, name in enumerate(o.nodes)}
    member_of = {m.id: m for m in (*s.before.ring.members, *s.planned.ring.members, *s.members)}
    down, leaving, added = set(s.down), set(s.leaving), set(s.added)
    here = {m.id for m in s.members}
    bars = []
    for name, before, after in zip(o.nodes, o.before.tolist(), o.after.tolist(), strict=True):
        m = member_of[name]
        capacity = s.capacity.get(name) if s.comparable else None
        if name in down:
            fate = {"transient": "down", "left": "gone", "returned": "back"}[p.regime]
        elif name not in here:
            fate = "gone"
        elif name in leaving:
            fate = "leaving"
        elif name in added:
            fate = "new"
        else:
            fate = "over" if capacity is not None and after > capacity else ""
        bars.append(NodeBar(name, m.state, m.zone, before, after, capacity, fate))
    old = np.array([index[i] for i in s.before.ring.ids], dtype=np.int64)
    new = np.array([index[i] for i in s.after.ring.ids], dtype=np.int64)
    stored = stored_by(s)
    stored_at = np.where(stored >= 0, new[np.maximum(stored, 0)], stored) if len(stored) else stored
    ring = s.live.cluster.ring
    lost = {*s.down, *s.leaving} if p.regime != "returned" else set()
    flows = takeover_flows(s.before, s.after, lost)
    return ShardMapView(
        tuple(bars),
        tuple(old[s.before.ring.owner].tolist()) if len(old) else (),
        tuple(new[s.after.ring.owner].tolist()) if len(new) else (),
        tuple(stored_at.tolist()),
        tuple(sorted({m.zone for m in s.members})),
        p.regime,
        s.down,
        _timeline(s, p),
        tuple(r.fails for r in s.rounds),
        explanation,
        error,
        tuple((index[node], index[taker] if taker else -1, load) for node, taker, load in flows),
        s.live.cluster.unit,
        ring.label if ring else "",
        s.live.now_ns // 1_000_000,
    )


def _timeline(s: Scenario, p: RingParameters) -> tuple[RegimeTotals, ...]:
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
        hottest = int(np.argmax(np.where(alive, outcome.after, -1))) if alive.any() else -1
        letter, when = REGIMES[regime]
        ratio, _ = imbalance(outcome.after[alive])
        timeline.append(
            RegimeTotals(
                regime, letter, when, outcome.nodes[hottest] if hottest >= 0 else "",
                outcome.after[hottest].item() if hottest >= 0 else 0, ratio, outcome.rejected_bytes, outcome.moved_bytes,
            )
        )  # fmt: skip
    return tuple(timeline)
