"""The answers of a ring of segment writers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import polars as pl

from engine.core import units
from engine.core.view import Context, Headline, Level
from engine.ring_placement import tables
from engine.ring_placement.insight import segment_findings
from engine.ring_placement.insight.explain import explain_segments
from engine.ring_placement.insight.holders import alive_loads, mean_of, stored_by
from engine.ring_placement.insight.segment_findings import minimum_capacity
from engine.ring_placement.parameters import RingParameters
from engine.ring_placement.pyroscope.placement import Placement
from engine.ring_placement.result.answers import (
    Answers,
    Frames,
    applying,
    evenness,
    excluded_note,
    late_note,
    node_table,
    nodes_line,
    of_settings,
    other_rings,
    over_capacity,
    setting,
    when_down,
    whole,
)
from engine.ring_placement.result.detail import REGIMES, RegimeTotals, ShardMapView, bars
from engine.ring_placement.result.segment_tenants import placement_table, strategy_table, tenant_table
from engine.ring_placement.scenarios.failover import (
    best_next_id,
    fail_members,
    member_mask,
    place_without,
    relayout_outcome,
    remove_members,
    takeover_flows,
)
from engine.ring_placement.scenarios.scenario_state import KEEP, SegmentScenario, SegmentState, segment_load
from engine.ring_placement.scenarios.strategy import TOTALS, Sweep, imbalance


def _nodes(s: SegmentScenario) -> pl.DataFrame:
    """Build table ``nodes`` of a ring of segment writers."""
    loads = dict(zip(s.outcome.nodes, whole(s.outcome.after), strict=True))
    idle = {name for name in s.down if not loads.get(name)}
    others = () if s.padded else s.live.members
    limited = {m.id for m in (*s.members, *s.before.ring.members, *others) if m.placed} - idle
    return node_table(s, others, mean_of(alive_loads(s)), limited, s.live.cluster.written, {})


def _shards(s: SegmentScenario, context: Context) -> pl.DataFrame:
    """Build table ``shards``: every shard of the scenario's ring with its owner and load, before and after."""
    ring = s.after.ring
    key = (s.planned_key, s.before.ring.ids, ring.ids, s.before is s.live.placement)
    frame = context.memo.value("shards", key, lambda: _shard_map(s), keep=KEEP)
    return frame.with_columns(ring.names(stored_by(s)).alias("stored_by"))


def _shard_map(s: SegmentScenario) -> pl.DataFrame:
    ring, old = s.after.ring, s.before.ring
    total = ring.total
    owner_before = np.full(total, -1)
    owner_before[: old.total] = old.owner[:total]
    load_before = np.zeros(max(total, old.total), dtype=s.before.loads.dtype)
    load_after = np.zeros(total, dtype=s.after.loads.dtype)
    if old.total and len(s.before.groups.datasets):
        load_before[: old.total] = s.before.shard_loads
    if total and len(s.after.groups.datasets):
        load_after[:] = s.after.shard_loads
    frame = pl.DataFrame({
        "shard": pl.Series(np.arange(1, total + 1)),
        "instance": ring.names(ring.owner),
        "instance_before": old.names(owner_before),
        "load_before": pl.Series(whole(load_before[:total]), dtype=pl.Int64),
        "load_after": pl.Series(whole(load_after), dtype=pl.Int64),
    })  # fmt: skip
    return tables.SHARDS.frame(frame)


def _frames(s: SegmentScenario, p: RingParameters, context: Context, notes: list[str]) -> Frames:
    state, memo = s.live, context.memo
    frames = {
        "nodes": _nodes(s),
        "tenants": tenant_table(s, memo),
        "shards": _shards(s, context),
        "placements": placement_table(s, p, memo, notes),
    }
    if state.cluster.stats.height:
        frames["strategy"] = memo.value("strategy", state.key, lambda: strategy_table(state), keep=KEEP)
    return frames


_OF_RING = ("members", "in_ring", "healthy", "active", "total_shards", "total_shards_before", "rejected_bytes",
            "rejected_before_bytes")  # fmt: skip
"""Numbers of a ring that has no file."""


def _summary(
    s: SegmentScenario, p: RingParameters, observed: pl.DataFrame | None, sweep: Sweep | None, context: Context
) -> dict[str, Any]:
    """Sum up the scenario on a ring of segment writers. ``observed``: the table of that name."""
    o, keys, cluster = s.outcome, segment_load(s.live).keys, s.live.cluster
    any_node, any_zone = minimum_capacity(s, p, context)
    summary = {
        **{name: round(getattr(s.outcome, name)) for name in TOTALS},
        **evenness(alive_loads(s)),
        "mean_tries": o.mean_tries,
        "rejected_before_bytes": round(o.rejected_before),
        "load_total": round(keys.row_weight.sum().item() if len(keys.row_weight) else 0),
        "load_source": cluster.load_source,
        "load_unit": cluster.unit,
        **setting(s),
        "total_shards": s.after.ring.total,
        "total_shards_before": s.before.ring.total,
        "datasets": keys.size,
        "tenants": len(keys.tenants),
        "nodes_over_capacity": over_capacity(s),
        "min_capacity_any_node": None if any_node is None else round(any_node),
        "min_capacity_any_zone": None if any_zone is None else round(any_zone),
        "drift_pairs": int((observed["drift"] != "").sum()) if observed is not None and observed.height else None,
        "now_ms": s.live.now_ns // 1_000_000,
    }
    if cluster.ring is None:  # nothing is known of it
        summary |= dict.fromkeys(_OF_RING)
    if s.rounds:
        summary |= {"cascade_rounds": len(s.rounds), "cascade_nodes": [list(failing) for failing in s.rounds]}
    if (p.scale is not None or not s.down) and s.planned.ring.members:
        placed = s.planned.ring.members
        in_ring = set(s.planned.ring.ids)
        members = (*s.members, *(() if s.padded else s.live.members))
        others = [m for m in members if m.id not in in_ring and not m.is_tombstone]
        best, best_changed, plain, plain_changed = context.memo.value(
            "next ID", s.planned_key, lambda: best_next_id(placed, others), keep=KEEP
        )
        summary |= {
            "next_id": plain,
            "next_id_shards_changed": plain_changed,
            "best_next_id": best,
            "best_next_id_shards_changed": best_changed,
        }
    if sweep is not None and len(sweep.down):
        worst = np.array(sweep["worst_load"], dtype=np.float64)
        summary |= {f"sweep_worst_load_p{share}": float(np.percentile(worst, share)) for share in (50, 90, 99)}
        summary |= {
            "sweep_worst_load_max": float(worst.max()),
            "sweep_scenarios": len(worst),
            "sweep_with_rejects": int((np.array(sweep["rejected_bytes"], dtype=np.float64) > 0).sum()),
        }
    return summary


def _rate(value: float) -> str:
    return units.text("bytes_per_s", value)


def _headline(s: SegmentScenario, summary: dict[str, Any]) -> tuple[Headline, ...]:
    """Build the headline of a ring of segment writers, the most important number first."""
    alive, over, rejected = alive_loads(s), summary["nodes_over_capacity"], summary["rejected_bytes"]
    ring, settings = s.live.cluster.ring, s.live.cluster.settings
    loaded = bool(s.live.cluster.load_source)
    if ring is None:
        missing = "add the answer of curl http://…/ring, or a memberlist key"
        none = Headline("ring", "no ring among the files", missing, "", ("ring", "none"))
        return (none, Headline("load", _rate(summary["load_total"]), summary["load_unit"])) if loaded else (none,)
    when = when_down(s) if s.down else ""
    outcome = Headline(when, "not known", "the files have no load")
    hottest = needs = ""
    if loaded:
        level: Level = "critical" if rejected else "severe" if over and s.down else "ok"
        told = ("rejected", _rate(rejected))
        outcome = Headline(*((when, f"{told[1]} rejected") if s.down else told), "", level, told)
        hottest = _rate(float(alive.max())) if len(alive) else ""
        needs = "" if summary["min_capacity_any_node"] is None else _rate(summary["min_capacity_any_node"])
    moved = summary["moved_bytes"] and summary["shards_with_changed_owner"]
    rerouted = loaded and s.down and summary["regime"] == "transient"
    lines = (
        outcome if s.down else None,
        None if loaded else Headline("load", "not known", "the files have none", short=("load", "not known")),
        Headline("hottest", hottest, f"{summary['max_over_mean']:.2f}× mean", short=("hottest", hottest))
        if hottest else None,
        Headline("over capacity", f"{over}", "nodes", "severe", ("over", f"{over}")) if over else None,
        outcome if loaded and not s.down else None,
        Headline("drift", str(summary["drift_pairs"]), "shard and owner pairs", "severe") if summary["drift_pairs"] else None,
        Headline("moved", _rate(summary["moved_bytes"]),
                 f"{_rate(summary['needless_moved_bytes'])} of it from nodes that are up") if moved else None,
        Headline("rerouted", _rate(summary["rerouted_bytes"]), units.plural(summary["datasets_touched"], "dataset"))
        if rerouted else None,
        Headline("any one node needs", needs, "per node, regime A", short=("if one fails", needs)) if needs else None,
        nodes_line(len(alive), s, units.plural(summary["total_shards"], "shard")),
        Headline("ring", "segment writers", ring.why),
        *of_settings(settings.doubt, settings.choice, "defaults assumed"),
    )  # fmt: skip
    return tuple(line for line in lines if line is not None)


def _notes(s: SegmentScenario, p: RingParameters) -> list[str]:
    """List notes on the ring of segment writers, its load, and the parameters in force."""
    state, keys, source = s.live, segment_load(s.live).keys, s.live.cluster.load_source
    approximate = "; where they lie on the new ring is approximate" if s.after.ring.total != keys.pinned_total else ""
    has_what_if = (p.tenant_shards, p.dataset_shards, p.tokens) != (None, None, None)
    return [
        *_ring_notes(state, p),
        f"load: {source}, {state.cluster.unit}" if source else "no load in the files: placements only",
        *applying({
            "loads have fractions of a byte per second; node totals are rounded": keys.row_weight.dtype.kind == "f",
            f"load known by tenant and shard only: datasets in the totals are such pairs{approximate}": keys.pinned is not None,
            "cores give a capacity in uncompressed profile bytes, the load is in another unit: no headroom is computed":
                s.capacity and not s.comparable,
            "no failing member is in the ring": p.regime != "transient" and not s.down and p.fail,
            "ordinals of IDs are taken as zero-padded": p.scale_ids == "padded",
            "the given limits and tokens apply before and after; the difference is the failure or scale step alone":
                has_what_if and s.before is not state.placement,
        }),
    ]  # fmt: skip


def _ring_notes(state: SegmentState, p: RingParameters) -> list[str]:
    file, ring = state.cluster.ring, state.placement.ring
    if file is None:
        return ["no ring among the files: nothing is placed, only observed data is shown"]
    return [
        f"ring: {file.label} ({file.kind}), segment writers: {file.why}",
        units.plural(ring.total, "shard"),
        *other_rings(file),
        *excluded_note(state),
        *applying({
            "empty ring: no healthy instance, Pyroscope answers UNAVAILABLE": not ring.members,
            "the healthy instances have no tokens: every request is rejected": ring.members and ring.total == 0,
        }),
        *(late_note(state, p) if not ring.members else ()),
    ]  # fmt: skip


TIMELINE_GROUPS = 20_000
"""Most groups up to which all regimes are computed for the time axis; beyond, only the chosen one."""


def _map_view(s: SegmentScenario, p: RingParameters, context: Context) -> ShardMapView:
    """Build what the screen draws of a ring of segment writers."""
    index = {name: i for i, name in enumerate(s.outcome.nodes)}
    old = np.array([index[i] for i in s.before.ring.ids], dtype=np.int64)
    new = np.array([index[i] for i in s.after.ring.ids], dtype=np.int64)
    stored = stored_by(s)
    stored_at = np.where(stored >= 0, new[np.maximum(stored, 0)], stored) if len(stored) else stored
    flows = takeover_flows(s.before, s.after, {*s.down, *s.leaving} if p.regime != "returned" else set())
    return ShardMapView(
        nodes=bars(s),
        owner_before=tuple(old[s.before.ring.owner].tolist()) if len(old) else (),
        owner_after=tuple(new[s.after.ring.owner].tolist()) if len(new) else (),
        stored_by=tuple(stored_at.tolist()),
        regime=p.regime,
        down=s.down,
        timeline=tuple(_timeline(s, p)) if s.down and s.live.cluster.load_source else (),
        has_ring=s.live.cluster.ring is not None,
        flows=tuple((index[node], index[taker] if taker else -1, load) for node, taker, load in flows),
    )


def _timeline(s: SegmentScenario, p: RingParameters) -> Iterator[RegimeTotals]:
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
        ratio, _ = imbalance(outcome.after[np.array([name in receives for name in outcome.nodes], dtype=bool)])
        yield RegimeTotals(regime, REGIMES[regime], ratio, outcome.rejected_bytes, outcome.moved_bytes)


ANSWERS: Answers[Placement] = Answers(
    _notes, segment_findings.problems_of, segment_findings.drift_table, _frames, explain_segments, segment_findings.findings_of,
    _summary, _headline, _map_view,
)  # fmt: skip
