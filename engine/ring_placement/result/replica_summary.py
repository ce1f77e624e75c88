"""Summary, headline, notes and drawing of a ring with replicas."""

from __future__ import annotations

from typing import Any

import numpy as np

from engine.core import units
from engine.core.result import Headline, Level
from engine.core.view import Context
from engine.ring_placement.insight.findings import key_pairs
from engine.ring_placement.insight.holders import fates_of
from engine.ring_placement.parameters import RingParameters
from engine.ring_placement.result.detail import NodeBar, RegimeTotals, ShardMapView
from engine.ring_placement.result.layout_tables import other_rings, ring_names
from engine.ring_placement.result.summary import mean_of, taking_data
from engine.ring_placement.scenarios.replica_rows import ReplicatedPlacement
from engine.ring_placement.scenarios.scenario_state import KEEP, ReplicatedScenario, replicated_ring
from engine.ring_placement.scenarios.strategy import TOTALS, Sweep, imbalance

TIMELINE_TENANTS = 500
"""Tenants up to which a new layout is computed for the time axis although another moment is chosen."""

MATRIX = 60
"""Most rows and columns of the matrix of pairs that is drawn; each cell is the worst of its pairs."""

KIND_NAMES = {"token-ring": "token ring", "partition-ring": "partition ring"}


def tenants_hit(placement: ReplicatedPlacement) -> tuple[int, int]:
    """Count the tenants that lose some writes, and those whose queries fail."""
    rows = placement.rows
    writes = int((placement.lost_share > 0)[rows.shard_of].sum())
    return writes, int((~placement.reads_ok)[rows.read_of].sum())


def summary_of(s: ReplicatedScenario, p: RingParameters, sweep: Sweep | None) -> dict[str, Any]:
    """Build the summary."""
    o, after, strategy = s.outcome, s.after, replicated_ring(s.live)
    ratio, variation = imbalance(after.loads[after.alive])
    even, even_variation = imbalance(after.share[after.alive])
    writes, reads = tenants_hit(after)
    tenants = after.tenants
    over = None
    if s.capacity and s.comparable:
        loads = zip(o.nodes, o.after, strict=True)
        over = sum(1 for name, load in loads if name in s.capacity and load > s.capacity[name])
    summary: dict[str, Any] = {
        **{name: round(getattr(o, name)) for name in TOTALS},
        "strategy": strategy.kind,
        "write_lost_share": o.write_lost_share,
        "reads_ok": o.reads_ok,
        "tenants_write_lost": writes,
        "tenants_read_lost": reads,
        "moved_share": o.moved_share,
        "mean_load": mean_of(after.loads[after.alive]),
        "max_over_mean": ratio,
        "coefficient_of_variation": variation,
        "share_max_over_mean": even,
        "share_variation": even_variation,
        "rejected_before_bytes": round(o.rejected_before),
        "load_total": float(tenants.total.sum()),
        "load_source": s.live.cluster.load_source,
        "load_unit": s.live.cluster.unit,
        "load_is_count": s.live.cluster.tenants.is_count,
        "regime": p.regime,
        "down": list(s.down),
        "members": len(s.live.members),
        **ring_names(s.live.cluster),
        "healthy": len(s.live.placement.ring.members),
        "active": int(s.live.placement.ring.active.sum()),
        "tokens": after.ring.total,
        "replication_factor": strategy.replication,
        "zone_aware": strategy.zone_aware,
        "tenants": len(tenants.names),
        "nodes_over_capacity": over,
        "now_ms": s.live.now_ns // 1_000_000,
    }
    if after.partitions is not None:
        summary |= {"partitions": len(after.partitions.partitions),
                    "partitions_without_readers": int((after.partition_readers == 0).sum())}  # fmt: skip
    if s.rounds:
        summary["cascade_rounds"] = len(s.rounds)
        summary["cascade_nodes"] = [list(failing) for failing in s.rounds]
    if sweep is not None and len(sweep.down):
        lost = np.array(sweep.write_lost_share)
        summary |= {
            "sweep_scenarios": len(lost),
            "sweep_with_lost_writes": int((np.array(sweep.tenants_write_lost) + (lost > 0) > 0).sum()),
            "sweep_write_lost_share_max": float(lost.max()),
        }
    return summary


def load_text(s: ReplicatedScenario, value: float) -> str:
    """Format a load in its own unit."""
    return units.text("number" if s.live.cluster.tenants.is_count else "bytes_per_s", value)


def headline_of(s: ReplicatedScenario, summary: dict[str, Any]) -> tuple[Headline, ...]:
    """Build the headline: the kind of ring and why, then what decides first."""
    ring = s.live.cluster.ring
    assert ring is not None
    settings = f"RF {summary['replication_factor']}, zones {'on' if summary['zone_aware'] else 'off'}; {ring.why}"
    if summary["strategy"] == "partition-ring":
        settings = ring.why
    lines = [Headline("ring", KIND_NAMES[summary["strategy"]], settings)]
    lost, reads = summary["write_lost_share"], summary["tenants_read_lost"]
    level: Level = "critical" if lost or summary["tenants_write_lost"] else "ok"
    basis = f"{summary['tenants_write_lost']} of {summary['tenants']} tenants" if summary["tenants"] else "of all keys"
    lines.append(Headline("writes lost", units.share(lost), basis, level, ("lost", units.share(lost))))
    whole = "" if summary["reads_ok"] else "those without a shard too" if reads else "of tenants without a shard"
    ok = summary["reads_ok"] and not reads
    fails = f"{reads} tenant{'s fail' if reads > 1 else ' fails'}" if reads else "fail"
    said = "all succeed" if ok else fails
    lines.append(Headline("queries", said, whole, "ok" if ok else "critical", ("queries", "ok" if ok else fails)))
    fatal = summary["unsurvivable_single_failures"]
    if fatal is not None and not s.down:
        text = f"{fatal} of {len(s.planned.ring.members)} not survivable" if fatal else "each survivable"
        short = ("single failure", f"{fatal} not survivable" if fatal else "survivable")
        lines.append(Headline("single failure", text, "of a node", "severe" if fatal else "ok", short))
    if summary["load_total"]:
        lines.append(Headline("load", load_text(s, summary["load_total"]), summary["load_unit"]))
        if s.outcome.nodes:  # all members may have left
            hottest = s.outcome.nodes[int(np.argmax(s.outcome.after))]
            lines.append(Headline("hottest", f"{summary['max_over_mean']:.2f} × mean", hottest))
    elif s.after.share.any():
        lines.append(Headline("holds most", f"{summary['share_max_over_mean']:.2f}", "× mean share of keys"))
    if summary["moved_share"]:
        lines.append(Headline("moved", units.share(summary["moved_share"]), "of all keys, per replica"))
    after = s.after
    what = f"{summary['tokens']} tokens" if after.partitions is None else f"{summary['partitions']} partitions"
    if after.partitions is None:
        lines.append(taking_data(int(((after.share > 0) | (after.loads > 0)).sum()), s, what))
    else:
        lines.append(taking_data(int((after.ring.reading & ~after.failed).sum()), s, what, "answer queries"))
    return tuple(lines)


def state_notes(s: ReplicatedScenario, p: RingParameters) -> list[str]:
    """List notes on the ring, its settings and the load."""
    state, ring = s.live, s.live.cluster.ring
    assert ring is not None
    notes = [f"ring: {ring.label} ({ring.kind}), {KIND_NAMES[replicated_ring(state).kind]}: {ring.why}"]
    if not state.placement.ring.members:
        # Writes to partitions do not touch ingesters.
        fails = "query" if ring.partitions else "write and query"
        notes.append(f"empty ring: no registered member, every {fails} fails")
    elif not ring.partitions and not state.placement.ring.total:
        notes.append("empty ring: no member has tokens, every write and query fails")
    notes += other_rings(ring)
    notes += replicated_ring(state).notes
    if ring.partition_label and ring.partition_label != ring.label:
        notes.append(f"partitions: {ring.partition_label}")
    if any(m.state == "UNHEALTHY" and not m.written for m in state.members):
        notes.append(
            "the page hides the states of UNHEALTHY members: taken as ACTIVE, which matters to -o operation=write"
        )
    if not ring.lists_members and ring.partitions:
        notes.append("no ring of ingesters: the owners of partitions are taken to be healthy")
    hidden = [m.id for m in ring.members if m.tokens and m.values is None]
    if hidden:
        notes.append(
            f"{len(hidden)} members without token values (the page has them with ?tokens=true): nothing is placed on them"
        )
    if state.cluster.load_source:
        notes.append(f"load: {state.cluster.load_source}, {state.cluster.unit}")
    elif state.placement.tenants.names:
        notes.append("no load in the files: tenants and shares of the key space only")
    else:
        notes.append("no tenants in the files: shares of the key space only")
    return notes


def ring_view(s: ReplicatedScenario, p: RingParameters, context: Context) -> ShardMapView:
    """Build what the screen draws: nodes, the moments of the failure, and the matrix of pairs."""
    outcome = s.outcome
    zones = {m.id: m.zone for m in (*s.before.ring.members, *s.planned.ring.members, *s.members)}
    fates = fates_of(s)
    limits = s.capacity if s.comparable else {}
    bars = [NodeBar(name, zones[name], limits.get(name), fates[name]) for name in outcome.nodes]
    order, matrix = context.memo.value("matrix", s.planned_key, lambda: _matrix(s, context), keep=KEEP)
    return ShardMapView(
        nodes=tuple(bars), owner_before=(), owner_after=(), stored_by=(), regime=p.regime, down=s.down,
        timeline=_timeline(s, p, context), kind=replicated_ring(s.live).kind, matrix_nodes=order, matrix=matrix,
    )  # fmt: skip


def _matrix(s: ReplicatedScenario, context: Context) -> tuple[tuple[str, ...], tuple[tuple[float, ...], ...]]:
    """Return the share of all keys that each pair of nodes loses, nodes by zone and ID, folded to ``MATRIX`` cells by the
    worst pair. Returns the first node of each row, and the rows."""
    ring = s.planned.ring
    if s.planned.partitions is not None or len(ring.members) < 2:
        return (), ()
    pairs = key_pairs(s, context)
    order = sorted(range(len(ring.members)), key=lambda k: (ring.members[k].zone, ring.ids[k]))
    at = np.array(order)
    lost = pairs.matrix()[np.ix_(at, at)]
    starts = np.unique(np.linspace(0, len(at), min(len(at), MATRIX), endpoint=False).astype(np.int64))
    folded = np.maximum.reduceat(np.maximum.reduceat(lost, starts, axis=0), starts, axis=1)
    return tuple(ring.ids[k] for k in at[starts]), tuple(tuple(row) for row in np.round(folded, 9).tolist())


def _timeline(s: ReplicatedScenario, p: RingParameters, context: Context) -> tuple[RegimeTotals, ...]:
    """Compute each moment of the failure."""
    if not s.down:
        return ()
    strategy, planned = replicated_ring(s.live), s.planned
    failed = np.array([name in set(s.down) for name in planned.ring.ids], dtype=bool)
    timeline = []
    for regime, letter in (("transient", "A"), ("unhealthy", "U"), ("left", "B"), ("returned", "C")):
        if regime == p.regime:
            after, moved = s.after, s.outcome.moved_bytes
        elif regime in ("transient", "unhealthy"):
            after, moved = planned.with_failed(failed), 0.0
        elif regime == "returned":
            after, moved = planned, 0.0
        elif len(planned.tenants.names) <= TIMELINE_TENANTS:
            gone = frozenset(s.down)
            after = context.memo.value("left", (s.planned_key, s.down), lambda: _without(s, context), keep=KEEP)
            moved = strategy.compare(planned, after, gone).moved_bytes
        else:
            continue
        writes, reads = tenants_hit(after)
        ratio = imbalance(after.loads[after.alive])[0]
        timeline.append(
            RegimeTotals(regime, letter, ratio, after.rejected, moved, float(after.lost_share[0]), writes, reads,
                         bool(after.reads_ok[0]))
        )  # fmt: skip
    return tuple(timeline)


def _without(s: ReplicatedScenario, context: Context) -> ReplicatedPlacement:
    """Place the load on the planned ring without the members that are down."""
    return replicated_ring(s.live).without(s.planned, frozenset(s.down), context.check)
