"""The picture of a scenario for the screen, with the three regimes on one time axis."""

from __future__ import annotations

import numpy as np

from engine.ring_placement.insight.explain import Explanation
from engine.ring_placement.parameters import RingParameters
from engine.ring_placement.result.layout_tables import stored_by
from engine.ring_placement.result.shard_map_view import Moment, NodeBar, Picture
from engine.ring_placement.scenarios.failover import departed, left, mask, relaid, taken_over, transient
from engine.ring_placement.scenarios.scenario import spread
from engine.ring_placement.scenarios.scenario_state import Scenario

_TIMELINE_GROUPS = 20_000
"""Up to this many groups all three regimes are computed for the time axis, beyond it only the chosen one."""


def picture_of(s: Scenario, p: RingParameters, explanation: Explanation | None, error: str) -> Picture:
    """What the screen draws of the scenario."""
    o = s.outcome
    at = {name: i for i, name in enumerate(o.nodes)}
    info = {m.id: m for m in (*s.before.ring.members, *s.mid.ring.members, *s.members)}
    down, leaving, fresh = set(s.down), set(s.leaving), set(s.fresh)
    here = {m.id for m in s.members}
    bars = []
    for name, before, after in zip(o.nodes, o.before.tolist(), o.after.tolist(), strict=True):
        m = info[name]
        capacity = s.capacity.get(name) if s.comparable else None
        if name in down:
            fate = {"transient": "down", "left": "gone", "returned": "back"}[p.regime]
        elif name not in here:
            fate = "gone"
        elif name in leaving:
            fate = "leaving"
        elif name in fresh:
            fate = "new"
        else:
            fate = "over" if capacity is not None and after > capacity else ""
        bars.append(NodeBar(name, m.state, m.zone, before, after, capacity, fate))
    old = np.array([at[i] for i in s.before.ring.ids], dtype=np.int64)
    new = np.array([at[i] for i in s.after.ring.ids], dtype=np.int64)
    takes = stored_by(s)
    taken = np.where(takes >= 0, new[np.maximum(takes, 0)], takes) if len(takes) else takes
    ring = s.live.cluster.ring
    lost = {*s.down, *s.leaving} if p.regime != "returned" else set()
    flows = taken_over(s.before, s.after, lost)
    return Picture(
        tuple(bars),
        tuple(old[s.before.ring.owner].tolist()) if len(old) else (),
        tuple(new[s.after.ring.owner].tolist()) if len(new) else (),
        tuple(taken.tolist()),
        tuple(sorted({m.zone for m in s.members})),
        p.regime,
        s.down,
        _timeline(s, p),
        tuple(r.fails for r in s.rounds),
        explanation,
        error,
        tuple((at[lost], at[taker] if taker else -1, load) for lost, taker, load in flows),
        s.live.cluster.unit,
        ring.label if ring else "",
        s.live.now_ns // 1_000_000,
    )


def _timeline(s: Scenario, p: RingParameters) -> tuple[Moment, ...]:
    """The three regimes of the failing set, or only the chosen one on large inputs."""
    if not s.down:
        return ()
    mid, down = s.mid, frozenset(s.down)
    flags = mask(mid.ring, down)
    times = {"transient": ("A", "until the ring notices (60 s)"), "left": ("B", "while it is gone"),
             "returned": ("C", "once it is back")}  # fmt: skip
    wanted = list(times) if len(mid.groups.rows) <= _TIMELINE_GROUPS else [p.regime]
    found = []
    for regime in wanted:
        ring = mid.ring
        if regime == p.regime:
            o, ring = s.outcome, s.after.ring
        elif regime == "transient":
            o = transient(mid, flags)
        elif regime == "left":
            o, later = left(mid, down)
            ring = later.ring
        else:
            o = relaid(departed(mid, down), mid)
        takes = {i for i, a in zip(ring.ids, ring.active, strict=True) if a}
        if regime != "returned":
            takes -= down
        alive = np.array([n in takes for n in o.nodes], dtype=bool)
        loads = np.where(alive, o.after, -1)
        top = int(np.argmax(loads)) if len(loads) and alive.any() else -1
        letter, when = times[regime]
        ratio, _ = spread(o.after[alive])
        found.append(
            Moment(
                regime, letter, when, o.nodes[top] if top >= 0 else "", o.after[top].item() if top >= 0 else 0, ratio,
                o.rejected_bytes, o.moved_bytes,
            )
        )  # fmt: skip
    return tuple(found)
