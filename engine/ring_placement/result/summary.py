"""The summary, the headline and the notes of a result."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from engine.core import units
from engine.core.incremental import Memo
from engine.core.result import Headline, Level
from engine.ring_placement.insight.holders import alive_loads
from engine.ring_placement.parameters import RingParameters
from engine.ring_placement.result.layout_tables import other_rings, ring_names
from engine.ring_placement.scenarios.member_ids import best_next_id
from engine.ring_placement.scenarios.scenario_state import (
    KEEP,
    Scenario,
    SegmentScenario,
    SegmentState,
    segment_load,
)
from engine.ring_placement.scenarios.strategy import TOTALS, Sweep, imbalance


def summary_of(
    s: SegmentScenario,
    p: RingParameters,
    observed: pl.DataFrame,
    min_capacity: tuple[float | None, float | None],
    sweep: Sweep | None,
    memo: Memo,
) -> dict[str, Any]:
    """Build the summary: totals of the scenario, then what applies of cascade, next ID and sweep.

    ``observed``: table of that name; ``min_capacity``: bytes per second that survive any one node, and any one zone.
    """
    o, ring, keys = s.outcome, s.live.placement.ring, segment_load(s.live).keys
    ratio, variation = imbalance(alive_loads(s))
    any_node, any_zone = min_capacity
    summary: dict[str, Any] = {
        **{name: round(getattr(o, name)) for name in TOTALS},
        "mean_load": mean_of(alive_loads(s)),
        "max_over_mean": ratio,
        "coefficient_of_variation": variation,
        "mean_tries": o.mean_tries,
        "rejected_before_bytes": round(o.rejected_before),
        "load_total": round(keys.row_weight.sum().item() if len(keys.row_weight) else 0),
        "load_source": s.live.cluster.load_source,
        "load_unit": s.live.cluster.unit,
        "regime": p.regime,
        "down": list(s.down),
        "members": len(s.live.members),
        **ring_names(s.live.cluster),
        "healthy": len(ring.members),
        "active": int(ring.active.sum()),
        "total_shards": s.after.ring.total,
        "total_shards_before": s.before.ring.total,
        "datasets": keys.size,
        "tenants": len(keys.tenants),
        "nodes_over_capacity": _over_capacity(s),
        "min_capacity_any_node": None if any_node is None else round(any_node),
        "min_capacity_any_zone": None if any_zone is None else round(any_zone),
        "drift_pairs": int((observed["drift"] != "").sum()),
        "now_ms": s.live.now_ns // 1_000_000,
    }
    if s.live.cluster.ring is None:  # without a ring file nothing is known to be rejected
        summary |= {"rejected_bytes": 0, "rejected_before_bytes": 0}
    if s.rounds:
        summary["cascade_rounds"] = len(s.rounds)
        summary["cascade_nodes"] = [list(failing) for failing in s.rounds]
    if (p.scale is not None or not s.down) and s.planned.ring.members:
        summary |= _next_id(s, memo)
    if sweep is not None and len(sweep.down):
        summary |= _sweep_totals(sweep)
    return summary


def _over_capacity(s: SegmentScenario) -> int | None:
    """Count the nodes above their capacity; None without one that may be compared."""
    if not s.capacity or not s.comparable:
        return None
    loads = zip(s.outcome.nodes, s.outcome.after, strict=True)
    return sum(1 for name, load in loads if name in s.capacity and load > s.capacity[name])


def _next_id(s: SegmentScenario, memo: Memo) -> dict[str, Any]:
    """Describe the plain and the best ID of one more node."""
    placed = s.planned.ring.members
    in_ring = set(s.planned.ring.ids)
    members = (*s.members, *(() if s.padded else s.live.members))
    others = [m for m in members if m.id not in in_ring and not m.is_tombstone]
    best, best_changed, plain, plain_changed = memo.value(
        "next ID", s.planned_key, lambda: best_next_id(placed, others), keep=KEEP
    )
    return {
        "next_id": plain,
        "next_id_shards_changed": plain_changed,
        "best_next_id": best,
        "best_next_id_shards_changed": best_changed,
    }


def _sweep_totals(sweep: Sweep) -> dict[str, Any]:
    """Sum up a sweep: quantiles of the hottest node's load, and the number of scenarios with rejects."""
    worst = np.array(sweep.worst_load, dtype=np.float64)
    quantiles = {f"sweep_worst_load_p{share}": float(np.percentile(worst, share)) for share in (50, 90, 99)}
    return quantiles | {
        "sweep_worst_load_max": float(worst.max()),
        "sweep_scenarios": len(worst),
        "sweep_with_rejects": int((np.array(sweep.rejected_bytes, dtype=np.float64) > 0).sum()),
    }


def _rate(value: float) -> str:
    return units.text("bytes_per_s", value)


def headline_of(s: SegmentScenario, summary: dict[str, Any]) -> tuple[Headline, ...]:
    """Build the headline: what decides first."""
    alive = alive_loads(s)
    lines = []
    loaded = bool(s.live.cluster.load_source)
    if not loaded and s.live.cluster.ring is not None:
        lines.append(Headline("load", "not known", "the files have none", short=("load", "not known")))
    if loaded and len(alive):
        hottest = _rate(float(alive.max()))
        lines.append(Headline("hottest", hottest, f"{summary['max_over_mean']:.2f} × mean", short=("hottest", hottest)))
    over = summary["nodes_over_capacity"]
    if over:
        lines.append(Headline("over capacity", f"{over}", "nodes", "severe", ("over", f"{over}")))
    rejected = summary["rejected_bytes"]
    if loaded:
        level: Level = "critical" if rejected else "ok"
        lines.append(Headline("rejected", _rate(rejected), "", level, ("rejected", _rate(rejected))))
    if summary["drift_pairs"]:
        lines.append(Headline("drift", str(summary["drift_pairs"]), "shard and owner pairs", "severe"))
    if summary["moved_bytes"] and summary["shards_with_changed_owner"]:
        lines.append(
            Headline("moved", _rate(summary["moved_bytes"]), f"{_rate(summary['needless_moved_bytes'])} needless")
        )
    if s.down and summary["regime"] == "transient":
        lines.append(Headline("rerouted", _rate(summary["rerouted_bytes"]), f"{summary['datasets_touched']} datasets"))
    if loaded and summary["min_capacity_any_node"] is not None:
        needs = _rate(summary["min_capacity_any_node"])
        lines.append(Headline("any one node needs", needs, "per node, regime A", short=("if one fails", needs)))
    lines.append(taking_data(len(alive), s, f"{summary['total_shards']} shards"))
    if s.live.cluster.ring is not None:
        lines.append(Headline("ring", "segment writers", s.live.cluster.ring.why))
    return tuple(lines)


def mean_of(loads: np.ndarray) -> float:
    """Return the mean load of nodes, 0 without any."""
    return float(loads.mean()) if len(loads) else 0.0


def taking_data(count: int, s: Scenario[Any], basis: str, do: str = "take data") -> Headline:
    """Tell how many of the scenario's nodes take data, or whatever they ``do``; tombstones are no nodes."""
    total = sum(m.state != "LEFT" for m in s.members)
    level: Level = "critical" if not count else "ok" if count >= total else "moderate"
    return Headline("nodes", f"{count} of {total} {do}", basis, level, ("nodes", f"{count}/{total}"))


def state_notes(s: SegmentScenario, p: RingParameters) -> list[str]:
    """List notes on the ring, the load and the parameters in force."""
    state = s.live
    notes = _ring_notes(state, p)
    if state.cluster.load_source:
        notes.append(f"load: {state.cluster.load_source}, {state.cluster.unit}")
    else:
        notes.append("no load in the files: placements only")
    if segment_load(state).keys.row_weight.dtype.kind == "f":
        notes.append("loads have fractions of a byte per second; node totals are rounded")
    if segment_load(state).keys.pinned is not None:
        approximate = s.after.ring.total != segment_load(state).keys.pinned_total
        notes.append(
            "load known by tenant and shard only: datasets in the totals are such pairs"
            + ("; where they lie on the new ring is approximate" if approximate else "")
        )
    if s.capacity and not s.comparable:
        notes.append(
            "cores give a capacity in uncompressed profile bytes, the load is in another unit: no headroom is computed"
        )
    if p.regime != "transient" and not s.down and p.fail:
        notes.append("no failing member is in the ring")
    if p.scale_ids == "padded":
        notes.append("IDs are taken as if their ordinals were zero-padded")
    has_what_if = p.tenant_shards is not None or p.dataset_shards is not None or p.tokens is not None
    if has_what_if and s.before is not state.placement:
        notes.append(
            "before and after both have the limits and tokens given; the difference is the failure or scale step"
        )
    return notes


def _ring_notes(state: SegmentState, p: RingParameters) -> list[str]:
    file, ring = state.cluster.ring, state.placement.ring
    if file is None:
        return ["no ring file: nothing can be placed; only what was observed is shown"]
    notes = [f"ring: {file.label} ({file.kind}), segment writers: {file.why}", f"{ring.total} shards"]
    notes += other_rings(file)
    if not ring.members:
        notes.append("empty ring: no healthy instance, Pyroscope answers UNAVAILABLE")
        notes += _stale_note(state, p)
    elif ring.total == 0:
        notes.append("the healthy instances have no tokens: every request is rejected")
    return notes


def _stale_note(state: SegmentState, p: RingParameters) -> list[str]:
    """Name the option that judges heartbeats at the time they were written, where they are old only because the file is."""
    heartbeats = [m.heartbeat_s for m in state.members if m.state == "UNHEALTHY" and m.heartbeat_s]
    if p.now is not None or not heartbeats:
        return []
    newest = max(heartbeats)
    behind = units.duration(state.now_ns / 1_000_000 - newest * 1000)
    return [
        f"the newest heartbeat is {behind} before the file's time; -o now={newest} looks at the ring as it was then"
    ]
