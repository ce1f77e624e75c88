"""The view's result: tables, summary, findings and the picture for the screen."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from engine import units
from engine.inputs import Inputs
from engine.problems import Problem, fold
from engine.result import Headline, Level, Result
from engine.ring_placement import tables
from engine.ring_placement.insight.drift import observed
from engine.ring_placement.insight.explain import BadKey, Explanation, explain, parse_key
from engine.ring_placement.insight.findings import findings_of, minimum_capacity, whole
from engine.ring_placement.parameters import RingParameters
from engine.ring_placement.pyroscope.limits import DEFAULTS
from engine.ring_placement.result.detail import picture_of
from engine.ring_placement.result.layout_tables import alive_loads, node_table, shard_table, strategy_table
from engine.ring_placement.result.listing import placements
from engine.ring_placement.result.sweep_tables import comparison_table, sweep_of, sweep_table
from engine.ring_placement.scenarios.scenario import best_next_id, spread
from engine.ring_placement.scenarios.scenario_state import Live, Scenario, live, remember, scenario
from engine.ring_placement.scenarios.sweep import Sweep
from engine.view import Context, NoInput


def compute(inputs: Inputs, p: RingParameters, context: Context) -> Result:
    """Everything the view shows. Raises NoInput without a ring and without anything observed."""
    state = live(inputs, p, context)
    cluster = state.cluster
    if cluster.ring is None and not cluster.observed.height and not cluster.stats.height and not cluster.load.height:
        raise NoInput("no ring page, memberlist key, stats, metrics, blocks or load table")
    s = scenario(state, p, context)
    context.check()
    notes = [*_state_notes(state, s, p), *cluster.notes, *s.notes]
    problems = list(s.problems)
    shown = {
        "nodes": node_table(s),
        "shards": shard_table(s, context),
        "placements": placements(s, p, context.memo, notes),
        "observed": remember(context.memo, "observed", state.key, lambda: observed(cluster, state.placement.ring)),
    }
    if cluster.stats.height:
        shown["strategy"] = remember(context.memo, "strategy", state.key, lambda: strategy_table(state))
    sweep: Sweep | None = None
    if p.sweep:
        sweep = found = sweep_of(s, p, context)
        key = (s.mid_key, p.sweep, p.regime, p.capacity, p.cores, p.random_size, p.draws, p.seed)
        shown["sweep"] = remember(context.memo, "sweep table", key, lambda: sweep_table(s, p, found))
    explanation, error = _explained(s, p)
    if p.explain is not None:
        shown["explain"] = _explain_table(explanation)
        if error:
            problems.append(Problem.at("-o explain", "bad-option", error))
    if p.compare:
        shown["comparison"] = comparison_table(s, p, context)
    findings = findings_of(s, p, shown["observed"], context)
    summary = _summary(s, p, shown["observed"], sweep, context)
    ordered = {t.name: shown[t.name] for t in tables.RESULTS if t.name in shown}
    return Result(
        "ring-placement",
        summary,
        ordered,
        headline=_headline(s, summary),
        findings=tuple(findings),
        notes=tuple(notes),
        problems=fold([*inputs.problems, *problems]),
        newest_ms=inputs.newest_ms,
        at_ms=context.at_ms,
        detail=picture_of(s, p, explanation, error),
    )


def _state_notes(state: Live, s: Scenario, p: RingParameters) -> list[str]:
    notes = []
    ring = state.cluster.ring
    if ring is None:
        notes.append("no ring file: nothing can be placed; only what was observed is shown")
    else:
        notes.append(f"ring: {ring.label} ({ring.kind}), {s.live.placement.ring.total} shards")
        if ring.others:
            notes.append(
                f"{ring.others} other ring file{'s' if ring.others > 1 else ''} not used; -o ring= chooses one"
            )
        if not state.placement.ring.members:
            notes.append("empty ring: no healthy instance, upstream answers UNAVAILABLE")
            notes += _stale_note(state, p)
        elif state.placement.ring.total == 0:
            notes.append("the healthy instances have no tokens: every request is rejected")
    if state.cluster.load_source:
        notes.append(f"load: {state.cluster.load_source}, {state.cluster.unit}")
    else:
        notes.append("no load in the files: placements only")
    if state.keys.row_weight.dtype.kind == "f":
        notes.append("loads have fractions of a byte per second; node totals are rounded")
    if state.keys.pinned is not None:
        notes.append(
            "load known by tenant and shard only: datasets in the totals are such pairs"
            + (
                "; where they lie on the new ring is approximate"
                if s.after.ring.total != state.keys.pinned_total
                else ""
            )
        )
    if s.capacity and not s.comparable:
        notes.append(
            "cores give a capacity in uncompressed profile bytes, the load is in another unit: no headroom is computed"
        )
    if p.regime != "transient" and not s.down and p.fail:
        notes.append("no failing member is in the ring")
    if p.scale_ids == "padded":
        notes.append("IDs are taken as if their ordinals were zero-padded")
    if (
        p.tenant_shards is not None or p.dataset_shards is not None or p.tokens is not None
    ) and s.before is not state.placement:
        notes.append(
            "before and after both have the limits and tokens given; the difference is the failure or scale step"
        )
    return notes


def _stale_note(state: Live, p: RingParameters) -> list[str]:
    """Where all heartbeats are old only because the file is: the option that judges them when they were written."""
    beats = [m.heartbeat_s for m in state.members if m.state == "UNHEALTHY" and m.heartbeat_s]
    if p.now is not None or not beats:
        return []
    newest = max(beats)
    behind = units.duration(state.now_ns / 1_000_000 - newest * 1000)
    return [
        f"the newest heartbeat is {behind} before the file's time; -o now={newest} looks at the ring as it was then"
    ]


def _explained(s: Scenario, p: RingParameters) -> tuple[Explanation | None, str]:
    if p.explain is None:
        return None, ""
    try:
        key = parse_key(p.explain)
    except BadKey as error:
        return None, str(error)
    cluster = s.live.cluster
    found = explain(
        key, s.mid.ring, frozenset(s.down), dict(cluster.rules), dict(cluster.limits), DEFAULTS, p.tenant_shards,
        p.dataset_shards,
    )  # fmt: skip
    return found, ""


def _explain_table(found: Explanation | None) -> pl.DataFrame:
    steps = found.steps if found else ()
    return tables.EXPLAIN.frame(
        {
            "step": list(range(1, len(steps) + 1)),
            "what": [x[0] for x in steps],
            "name": [x[1] for x in steps],
            "value": [x[2] for x in steps],
            "note": [x[3] for x in steps],
        }
    )


# ------------------------------------------------------------------------------------------ summary and findings


def _summary(
    s: Scenario, p: RingParameters, seen: pl.DataFrame, sweep: Sweep | None, context: Context
) -> dict[str, Any]:
    o = s.outcome
    alive = alive_loads(s, o)
    ratio, variation = spread(alive)
    ring = s.live.placement.ring
    node, zone = minimum_capacity(s, p, context)
    over = None
    known = s.live.cluster.ring is not None  # without a ring file nothing is known to be rejected
    if s.capacity and s.comparable:
        over = sum(
            1 for name, load in zip(o.nodes, o.after, strict=True) if name in s.capacity and load > s.capacity[name]
        )
    summary: dict[str, Any] = {
        "rejected_bytes": whole(o.rejected_bytes) if known else 0,
        "rerouted_bytes": whole(o.rerouted_bytes),
        "moved_bytes": whole(o.moved_bytes),
        "needless_moved_bytes": whole(o.needless_moved_bytes),
        "shards_with_changed_owner": o.shards_with_changed_owner,
        "datasets_with_changed_shard_set": o.datasets_with_changed_shard_set,
        "datasets_touched": o.datasets_touched,
        "datasets_fully_on_down": o.datasets_fully_on_down,
        "tenants_touched": o.tenants_touched,
        "max_over_mean": ratio,
        "coefficient_of_variation": variation,
        "mean_tries": o.mean_tries,
        "rejected_before_bytes": whole(o.rejected_before) if known else 0,
        "load_total": whole(s.live.keys.row_weight.sum().item() if len(s.live.keys.row_weight) else 0),
        "load_source": s.live.cluster.load_source,
        "load_unit": s.live.cluster.unit,
        "regime": p.regime,
        "down": list(s.down),
        "members": len(s.live.members),
        "healthy": len(ring.members),
        "active": int(ring.active.sum()),
        "total_shards": s.after.ring.total,
        "total_shards_before": s.before.ring.total,
        "datasets": s.live.keys.size,
        "tenants": len(s.live.keys.tenants),
        "nodes_over_capacity": over,
        "min_capacity_any_node": None if node is None else whole(node),
        "min_capacity_any_zone": None if zone is None else whole(zone),
        "drift_pairs": int((seen["drift"] != "").sum()),
        "now_ms": s.live.now_ns // 1_000_000,
    }
    if s.rounds:
        summary["cascade_rounds"] = len(s.rounds)
        summary["cascade_nodes"] = [list(r.fails) for r in s.rounds]
    if p.scale is not None or not s.down:
        placed = s.mid.ring.members
        if placed:
            inside = set(s.mid.ring.ids)
            others = [
                m
                for m in (*s.members, *(() if s.padded else s.live.members))
                if m.id not in inside and m.state != "LEFT"
            ]
            best, changed, plain, plain_changed = remember(
                context.memo, "next", s.mid_key, lambda: best_next_id(placed, others)
            )
            summary |= {
                "next_id": plain,
                "next_id_shards_changed": plain_changed,
                "best_next_id": best,
                "best_next_id_shards_changed": changed,
            }
    if sweep is not None and len(sweep.down):
        worst = np.array(sweep.worst_load, dtype=np.float64)
        lost = np.array(sweep.rejected, dtype=np.float64)
        for name, share in (("p50", 50), ("p90", 90), ("p99", 99)):
            summary[f"sweep_worst_load_{name}"] = float(np.percentile(worst, share))
        summary["sweep_worst_load_max"] = float(worst.max())
        summary["sweep_scenarios"] = len(worst)
        summary["sweep_with_rejects"] = int((lost > 0).sum())
    return summary


def _rate(value: float) -> str:
    return units.text("bytes_per_s", value)


def _headline(s: Scenario, summary: dict[str, Any]) -> tuple[Headline, ...]:
    alive = alive_loads(s, s.outcome)
    lines = []
    if len(alive):
        lines.append(Headline("hottest", _rate(float(alive.max())), f"{summary['max_over_mean']:.2f} × mean"))
    over = summary["nodes_over_capacity"]
    if over:
        lines.append(Headline("over capacity", f"{over}", "nodes", "severe"))
    rejected = summary["rejected_bytes"]
    lines.append(Headline("rejected", _rate(rejected), "", "critical" if rejected else "ok"))
    if summary["drift_pairs"]:
        lines.append(Headline("drift", str(summary["drift_pairs"]), "shard and owner pairs", "severe"))
    if summary["moved_bytes"] and summary["shards_with_changed_owner"]:
        lines.append(
            Headline("moved", _rate(summary["moved_bytes"]), f"{_rate(summary['needless_moved_bytes'])} needless")
        )
    if s.down and summary["regime"] == "transient":
        lines.append(Headline("rerouted", _rate(summary["rerouted_bytes"]), f"{summary['datasets_touched']} datasets"))
    if summary["min_capacity_any_node"] is not None:
        lines.append(Headline("any one node needs", _rate(summary["min_capacity_any_node"]), "per node, regime A"))
    nodes = f"{len(alive)} of {summary['members']} take data"
    level: Level = "ok" if len(alive) else "critical"
    lines.append(Headline("nodes", nodes, f"{summary['total_shards']} shards", level))
    return tuple(lines)
