"""The view's result: tables, summary, findings and the picture for the screen."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl

from engine import units
from engine.inputs import Inputs
from engine.problems import Problem, fold
from engine.result import Headline, Level, Result
from engine.ring_placement import tables
from engine.ring_placement.alternatives import compare
from engine.ring_placement.balancing import decide
from engine.ring_placement.distribution import integer_mean, integer_std_dev
from engine.ring_placement.drift import observed
from engine.ring_placement.explain import BadKey, Explanation, explain, parse_key
from engine.ring_placement.failover import Outcome, departed, left, mask, relaid, transient
from engine.ring_placement.findings import capacity_array, findings_of, minimum_capacity, whole, zones_of
from engine.ring_placement.limits import BY_FINGERPRINT, DEFAULTS, ROUND_ROBIN
from engine.ring_placement.listing import placements
from engine.ring_placement.parameters import RingParameters
from engine.ring_placement.picture import Moment, NodeBar, Picture
from engine.ring_placement.scenario import best_next_id, spread
from engine.ring_placement.state import Live, Scenario, live, remember, scenario
from engine.ring_placement.sweep import (
    Sweep,
    every_node,
    every_pair,
    random_sets,
    scenarios,
)
from engine.view import Context, NoInput

_TIMELINE_GROUPS = 20_000
"""Up to this many groups all three regimes are computed for the time axis, beyond it only the chosen one."""


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
        "nodes": _nodes(s),
        "shards": _shards(s, context),
        "placements": placements(s, p, context.memo, notes),
        "observed": remember(context.memo, "observed", state.key, lambda: observed(cluster, state.placement.ring)),
    }
    if cluster.stats.height:
        shown["strategy"] = remember(context.memo, "strategy", state.key, lambda: _strategy(state))
    sweep: Sweep | None = None
    if p.sweep:
        sweep = found = _sweep(s, p, context)
        key = (s.mid_key, p.sweep, p.regime, p.capacity, p.cores, p.random_size, p.draws, p.seed)
        shown["sweep"] = remember(context.memo, "sweep table", key, lambda: _sweep_table(s, p, found))
    explanation, error = _explained(s, p)
    if p.explain is not None:
        shown["explain"] = _explain_table(explanation)
        if error:
            problems.append(Problem.at("-o explain", "bad-option", error))
    if p.compare:
        shown["comparison"] = _comparison(s, p, context)
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
        detail=_picture(s, p, explanation, error),
    )


def _whole(values: np.ndarray) -> list[int]:
    """Loads as whole bytes per second."""
    whole: list[int] = (np.rint(values).astype(np.int64) if values.dtype.kind == "f" else values).tolist()
    return whole


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
        elif state.placement.ring.total == 0:
            notes.append("the healthy instances have no tokens: every request is rejected")
    if state.cluster.load_source:
        notes.append(f"load: {state.cluster.load_source}, {state.cluster.unit}")
    else:
        notes.append("no load in the files: placements only")
    if state.keys.row_weight.dtype.kind == "f":
        notes.append("loads have fractions of a byte per second; node totals are rounded")
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


# ------------------------------------------------------------------------------------------------------------ tables


def _nodes(s: Scenario) -> pl.DataFrame:
    at = {name: i for i, name in enumerate(s.outcome.nodes)}
    before, after = _whole(s.outcome.before), _whole(s.outcome.after)
    down = set(s.down)
    listed = {m.id for m in s.members}
    members = list(s.members)
    # A scale-in removes members; they are still shown with what they held.
    members += [m for m in s.before.ring.members if m.id not in listed]
    if not s.padded:
        # Members outside the home zone take no part, but they are members.
        shown = {m.id for m in members}
        members += [m for m in s.live.members if m.id not in shown]
    rows: dict[str, list[Any]] = {c.name: [] for c in tables.NODES.columns}
    written = remember(s.live.cluster.memo, "written", s.live.key, lambda: _written(s.live.cluster.observed))
    alive = _alive_loads(s, s.outcome)
    mean = float(alive.mean()) if len(alive) else 0.0
    for m in members:
        i = at.get(m.id)
        is_down = m.id in down
        old = before[i] if i is not None else 0
        new = after[i] if i is not None else 0
        capacity = s.capacity.get(m.id)
        usable = capacity is not None and s.comparable and m.placed and not (is_down and new == 0)
        rows["instance"].append(m.id)
        rows["state"].append(m.state)
        rows["zone"].append(m.zone)
        rows["tokens"].append(m.tokens)
        rows["load_before"].append(old)
        rows["load_after"].append(new)
        rows["added"].append(new - old)
        rows["over_mean"].append(new / mean if mean > 0 else None)
        rows["capacity"].append(capacity)
        rows["headroom"].append(capacity - new if usable and capacity is not None else None)
        rows["over_capacity"].append(new > capacity if usable and capacity is not None else None)
        rows["down"].append(is_down or m.id in s.removed)
        rows["load_observed"].append(written.get(m.id))
        rows["address"].append(m.address)
        rows["heartbeat_ms"].append(m.heartbeat_s * 1000 if m.heartbeat_s is not None else None)
    return tables.NODES.sorted(tables.NODES.frame(rows))


def _written(seen: pl.DataFrame) -> dict[str, int]:
    """Bytes by instance in the best source that names who wrote them."""
    named = seen.filter(pl.col("instance").is_not_null())
    source = next((x for x in ("stats", "usage", "ingest", "sent", "blocks") if (named["source"] == x).any()), "")
    by = named.filter(pl.col("source") == source).group_by("instance", maintain_order=True).agg(pl.col("bytes").sum())
    return dict(by.iter_rows())


def _shards(s: Scenario, context: Context) -> pl.DataFrame:
    ring = s.after.ring
    key = (s.mid_key, s.before.ring.ids, ring.ids, s.before is s.live.placement)
    frame = remember(context.memo, "shards", key, lambda: _shard_map(s))
    ids = pl.Series([*ring.ids, None], dtype=pl.String)
    takes = stored_by(s)
    taken = pl.Series(np.where(takes < 0, len(ring.ids), takes).astype(np.uint32))
    return frame.with_columns(ids.gather(taken).alias("stored_by"))


def _shard_map(s: Scenario) -> pl.DataFrame:
    ring, old = s.after.ring, s.before.ring
    total = ring.total
    ids = pl.Series(list(ring.ids) or [""], dtype=pl.String)
    old_ids = pl.Series(list(old.ids) or [""], dtype=pl.String)
    shared = min(total, old.total)
    before = pl.concat([
        old_ids.gather(pl.Series(old.owner[:shared].astype(np.uint32))),
        pl.Series([None] * (total - shared), dtype=pl.String),
    ])  # fmt: skip
    load_before = np.zeros(max(total, old.total), dtype=s.before.loads.dtype)
    load_after = np.zeros(total, dtype=s.after.loads.dtype)
    if old.total and len(s.before.groups.rows):
        load_before[: old.total] = _by_shard(s.before)
    if total and len(s.after.groups.rows):
        load_after[:] = _by_shard(s.after)
    frame = pl.DataFrame({
        "shard": pl.Series(np.arange(1, total + 1)),
        "instance": ids.gather(pl.Series(ring.owner.astype(np.uint32))),
        "instance_before": before,
        "load_before": pl.Series(_whole(load_before[:total]), dtype=pl.Int64),
        "load_after": pl.Series(_whole(load_after), dtype=pl.Int64),
    })  # fmt: skip
    return tables.SHARDS.frame(frame)


def _by_shard(placement: Any) -> np.ndarray:
    cached = placement.__dict__.get("_by_shard")
    if cached is None:
        from engine.ring_placement.keys import weigh

        cached = weigh(placement.positions, placement.groups.weight, placement.ring.total)
        placement.__dict__["_by_shard"] = cached
    return cached  # type: ignore[no-any-return]


def stored_by(s: Scenario) -> np.ndarray:
    """Per shard of the scenario's ring, the member index that takes most of its load; -1: it is rejected; -2: its owner
    takes nothing and it has no load that would show where requests go."""
    ring, after = s.after.ring, s.after
    total = ring.total
    down = mask(ring, s.down if _failed_now(s) else ())
    takes = ring.active & ~down
    out = np.where(takes[ring.owner], ring.owner, -2).astype(np.int64) if total else np.empty(0, dtype=np.int64)
    if not total or not len(after.groups.rows):
        return out
    first = after.first
    positions = after.positions
    # Only shards with some load at another than their owner need a closer look.
    away = np.flatnonzero(first != ring.owner[positions])
    if not len(away):
        return out
    odd = np.zeros(total, dtype=bool)
    odd[positions[away]] = True
    rows = np.flatnonzero(odd[positions])
    width = len(ring.members) + 1
    cell = positions[rows] * width + first[rows] + 1
    order = np.argsort(cell, kind="stable")
    cell, weight = cell[order], after.groups.weight[rows][order].astype(np.float64)
    starts = np.flatnonzero(np.concatenate(([True], cell[1:] != cell[:-1])))
    sums = np.add.reduceat(weight, starts)
    at, node = cell[starts] // width, cell[starts] % width - 1
    ranked = np.lexsort((node, -sums, at))
    heads = ranked[np.concatenate(([True], at[ranked][1:] != at[ranked][:-1]))]
    out[at[heads]] = node[heads]
    return out


def _failed_now(s: Scenario) -> bool:
    """Whether members of the scenario's ring are down at this moment (regime A)."""
    return s.regime == "transient" and bool(s.down)


def _strategy(state: Live) -> pl.DataFrame:
    rows: dict[str, list[Any]] = {c.name: [] for c in tables.STRATEGY.columns}
    words = {BY_FINGERPRINT: "fingerprint", ROUND_ROBIN: "round-robin"}
    grouped = state.cluster.stats.group_by("tenant", "dataset", maintain_order=True).agg(
        "usage", pl.col("std_dev").first()
    )
    for tenant, dataset, usage, stored in grouped.iter_rows():
        limits = state.cluster.limits.get(tenant, DEFAULTS)
        rule = state.cluster.rules.get((tenant, dataset))
        target = rule.dataset_limit if rule else sum(usage) // max(1, limits.unit_size) + 1
        true = integer_std_dev(usage)

        def chosen(
            std_dev: int, limits: Any = limits, rule: Any = rule, usage: Any = usage, target: int = target
        ) -> str:
            if limits.load_balancing != "dynamic":
                return str(limits.load_balancing)
            if rule is not None and rule.load_balancing == ROUND_ROBIN:
                return "round-robin"
            return words[decide(usage, std_dev, limits.unit_size, target)]

        values = (tenant, dataset, len(usage), integer_mean(usage), stored, true, target, chosen(stored), chosen(true))
        for column, value in zip(rows, values, strict=True):
            rows[column].append(value)
    return tables.STRATEGY.sorted(tables.STRATEGY.frame(rows))


# ------------------------------------------------------------------------------------------------------------ sweeps


def _sweep(s: Scenario, p: RingParameters, context: Context) -> Sweep:
    regime = "left" if p.regime != "transient" and p.sweep != "leaving" else "transient"
    capacity = capacity_array(s)
    key = (s.mid_key, p.sweep, regime, p.capacity, p.cores, p.random_size, p.draws, p.seed)

    def step(fraction: float) -> None:
        context.check()
        context.progress(fraction, f"sweep of {p.sweep}")

    def make() -> Sweep:
        n = len(s.mid.ring.members)
        if p.sweep == "nodes" or p.sweep == "leaving":
            # One node LEAVING sends its keys where its crash would, without the failed try.
            return every_node(s.mid, regime, capacity, step)
        if p.sweep == "pairs":
            return every_pair(s.mid, regime, capacity, step)
        if p.sweep == "zones":
            index = {name: i for i, name in enumerate(s.mid.ring.ids)}
            downs = [tuple(index[i] for i in ids) for ids in zones_of(s).values()]
            return scenarios(s.mid, downs, regime, capacity, step)
        return scenarios(
            s.mid, list(random_sets(n, p.random_size, p.draws, p.seed)) if n else [], regime, capacity, step
        )

    return remember(context.memo, "sweep", key, make)


def _sweep_table(s: Scenario, p: RingParameters, sweep: Sweep) -> pl.DataFrame:
    order = sweep.order()
    ids = sweep.ids
    zone_of = {m.id: m.zone for m in s.mid.ring.members}

    def picked(values: Sequence[Any]) -> list[Any]:
        return [values[i] for i in order]

    down = [[ids[i] for i in sweep.down[k]] for k in order]
    frame: dict[str, Any] = {
        "rank": np.arange(1, len(order) + 1),
        "down": down,
        "zone": [zone_of.get(d[0]) if p.sweep == "zones" and d else None for d in down],
        "rejected_bytes": [whole(v) for v in picked(sweep.rejected)],
        "rerouted_bytes": [whole(v) for v in picked(sweep.rerouted)],
        "moved_bytes": [whole(v) for v in picked(sweep.moved)],
        "needless_moved_bytes": [whole(v) for v in picked(sweep.needless)],
        "shards_with_changed_owner": picked(sweep.owners_changed),
        "datasets_with_changed_shard_set": picked(sweep.sets_changed),
        "datasets_touched": picked(sweep.datasets),
        "datasets_fully_on_down": picked(sweep.fully),
        "tenants_touched": picked(sweep.tenants),
        "max_over_mean": picked(sweep.max_over_mean),
        "coefficient_of_variation": picked(sweep.variation),
        "worst_instance": [ids[i] if i >= 0 else None for i in picked(sweep.worst)],
        "worst_load": [whole(v) for v in picked(sweep.worst_load)],
        "nodes_over_capacity": [v if v >= 0 else None for v in picked(sweep.over)],
    }
    return tables.SWEEP.frame(frame)


# ------------------------------------------------------------------------------------------- explain and comparison


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


def _comparison(s: Scenario, p: RingParameters, context: Context) -> pl.DataFrame:
    mid, down = s.mid, frozenset(s.down)
    before_ring = s.before.ring if s.fresh or p.scale is not None else mid.ring
    old = [i for i, a in zip(before_ring.ids, before_ring.active, strict=True) if a]
    new = [i for i, a in zip(mid.ring.ids, mid.ring.active, strict=True) if a and i not in down]
    key = (s.mid_key, tuple(old), tuple(new))

    def make() -> pl.DataFrame:
        context.check()
        rows = []
        total = mid.groups.total
        own = relaid(s.before, left(mid, down)[1], down) if down else relaid(s.before, mid)
        survivors = own.after[[n not in down for n in own.nodes]]
        ratio, variation = spread(survivors)
        rows.append(("Pyroscope (as configured)", own.moved_bytes, own.needless_moved_bytes, ratio, variation))
        if down:
            now = transient(mid, mask(mid.ring, down))
            ratio, variation = spread(now.after[~mask(mid.ring, down)])
            rows.append(("Pyroscope, first minute (A)", now.moved_bytes, 0, ratio, variation))
        context.check()
        rows += [
            (found.algorithm, found.moved_bytes, found.needless_moved_bytes, found.max_over_mean, found.variation)
            for found in compare(mid.keys, mid.groups, old, new)
        ]
        frame: dict[str, Any] = {
            "algorithm": [r[0] for r in rows],
            "moved_bytes": [whole(r[1]) for r in rows],
            "moved_share": [float(r[1]) / total if total else 0.0 for r in rows],
            "needless_moved_bytes": [whole(r[2]) for r in rows],
            "max_over_mean": [r[3] for r in rows],
            "coefficient_of_variation": [r[4] for r in rows],
        }
        return tables.COMPARISON.sorted(tables.COMPARISON.frame(frame))

    return remember(context.memo, "comparison", key, make)


# ------------------------------------------------------------------------------------------ summary and findings


def _alive_loads(s: Scenario, outcome: Outcome) -> np.ndarray:
    """Loads after, of the nodes that take data in the scenario."""
    failed = set(s.down) if s.regime != "returned" else set()
    takes = {m.id for m in s.after.ring.members if m.state == "ACTIVE" and m.tokens > 0} - failed
    return outcome.after[[n in takes for n in outcome.nodes]]


def _summary(
    s: Scenario, p: RingParameters, seen: pl.DataFrame, sweep: Sweep | None, context: Context
) -> dict[str, Any]:
    o = s.outcome
    alive = _alive_loads(s, o)
    ratio, variation = spread(alive)
    ring = s.live.placement.ring
    node, zone = minimum_capacity(s, p, context)
    over = None
    if s.capacity and s.comparable:
        over = sum(
            1 for name, load in zip(o.nodes, o.after, strict=True) if name in s.capacity and load > s.capacity[name]
        )
    summary: dict[str, Any] = {
        "rejected_bytes": whole(o.rejected_bytes),
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
        "rejected_before_bytes": whole(o.rejected_before),
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
            best, changed, plain, plain_changed = remember(
                context.memo, "next", s.mid_key, lambda: best_next_id(placed)
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
    alive = _alive_loads(s, s.outcome)
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
    nodes = f"{summary['active']} ACTIVE of {summary['members']}"
    level: Level = "ok" if summary["active"] else "critical"
    lines.append(Headline("nodes", nodes, f"{summary['total_shards']} shards", level))
    return tuple(lines)


# ----------------------------------------------------------------------------------------------------------- picture


def _picture(s: Scenario, p: RingParameters, explanation: Explanation | None, error: str) -> Picture:
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
