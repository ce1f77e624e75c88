"""The summary, the headline, the notes and the exported gauges of a result."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import polars as pl

from engine.core import units
from engine.core.view import Context, Headline, Level
from engine.output.exposition import Gauge
from engine.ring_placement.insight.findings import minimum_capacity, some
from engine.ring_placement.insight.holders import alive_loads, mean_of
from engine.ring_placement.insight.replica_findings import not_survivable
from engine.ring_placement.parameters import RingParameters
from engine.ring_placement.scenarios.cluster import Cluster, RingFile
from engine.ring_placement.scenarios.failover import best_next_id
from engine.ring_placement.scenarios.scenario_state import (
    KEEP,
    LiveState,
    ReplicatedScenario,
    Scenario,
    SegmentScenario,
    SegmentState,
    replicated_ring,
    segment_load,
)
from engine.ring_placement.scenarios.strategy import TOTALS, Sweep, imbalance, requests_lost

KIND_NAMES = {"token-ring": "token ring", "partition-ring": "partition ring"}

_NODE = {"instance": "instance", "zone": "zone"}

GAUGES = (
    Gauge("ring_node_load_bytes_per_second", "nodes", "load_after", "Load of the node, with what fails over to it.", _NODE,
          each=True),
    Gauge("ring_node_load_before_bytes_per_second", "nodes", "load_before", "Load of the node without failures.", _NODE,
          each=True),
    Gauge("ring_node_over_mean_ratio", "nodes", "over_mean", "Load over the mean of all nodes.", _NODE, each=True),
    Gauge("ring_node_headroom_bytes_per_second", "nodes", "headroom", "Capacity that is left.", _NODE, each=True),
    Gauge("ring_node_ownership_ratio", "nodes", "ownership", "Part of the key space that the node owns.", _NODE, each=True),
    Gauge("ring_node_down", "nodes", "down", "1 where the node is taken down.", _NODE, each=True),
    Gauge("ring_tenant_load", "tenants", "load", "Load of the tenant, in the unit of its source.", {"tenant": "tenant"},
          adds=True),
    Gauge("ring_tenant_write_lost_ratio", "tenants", "write_lost_share", "Part of the tenant's keys that cannot be written.",
          {"tenant": "tenant"}),
)  # fmt: skip
"""Columns that are exported to Prometheus."""


def ring_names(cluster: Cluster) -> dict[str, Any]:
    """Return for the summary the ring in use and all others, by the labels of their files."""
    ring = cluster.ring
    return {"ring": ring.label if ring else "", "rings": list(ring.labels) if ring else []}


def other_rings(ring: RingFile) -> list[str]:
    """Return a note on rings in the files that are not used."""
    if not ring.others:
        return []
    return [f"{ring.others} other ring{'s' if ring.others > 1 else ''} not used; -o ring= chooses one (key I)"]


def _evenness(loads: np.ndarray) -> dict[str, Any]:
    ratio, variation = imbalance(loads)
    return {"mean_load": mean_of(loads), "max_over_mean": ratio, "coefficient_of_variation": variation}


def _setting(s: Scenario[Any]) -> dict[str, Any]:
    ring = s.live.placement.ring
    return {
        "regime": s.regime,
        "down": list(s.down),
        "members": len(s.live.members),
        **ring_names(s.live.cluster),
        "in_ring": len(ring.members),
        "healthy": sum(m.state != "UNHEALTHY" for m in ring.members),
        "active": int(ring.active.sum()),
    }


def _over_capacity(s: Scenario[Any]) -> int | None:
    """Count the nodes above their capacity; None without a comparable capacity."""
    if not s.capacity or not s.comparable:
        return None
    loads = zip(s.outcome.nodes, s.outcome.after, strict=True)
    return sum(1 for name, load in loads if name in s.capacity and load > s.capacity[name])


_OF_RING = ("members", "in_ring", "healthy", "active", "total_shards", "total_shards_before", "rejected_bytes",
            "rejected_before_bytes")  # fmt: skip
"""Numbers of a ring that has no file."""


def segment_summary(
    s: SegmentScenario, p: RingParameters, observed: pl.DataFrame | None, sweep: Sweep | None, context: Context
) -> dict[str, Any]:
    """Sum up the scenario on a ring of segment writers. ``observed``: the table of that name."""
    o, keys, cluster = s.outcome, segment_load(s.live).keys, s.live.cluster
    any_node, any_zone = minimum_capacity(s, p, context)
    summary = {
        **{name: round(getattr(s.outcome, name)) for name in TOTALS},
        **_evenness(alive_loads(s)),
        "mean_tries": o.mean_tries,
        "rejected_before_bytes": round(o.rejected_before),
        "load_total": round(keys.row_weight.sum().item() if len(keys.row_weight) else 0),
        "load_source": cluster.load_source,
        "load_unit": cluster.unit,
        **_setting(s),
        "total_shards": s.after.ring.total,
        "total_shards_before": s.before.ring.total,
        "datasets": keys.size,
        "tenants": len(keys.tenants),
        "nodes_over_capacity": _over_capacity(s),
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


def replica_summary(
    s: ReplicatedScenario, p: RingParameters, observed: pl.DataFrame | None, sweep: Sweep | None, context: Context
) -> dict[str, Any]:
    """Sum up the scenario on a ring with replicas. ``observed``: the table of that name, None where nothing was observed."""
    o, after, strategy, cluster = s.outcome, s.after, replicated_ring(s.live), s.live.cluster
    even, even_variation = imbalance(after.share[after.alive])
    summary = {
        **{name: round(getattr(s.outcome, name)) for name in TOTALS},
        "strategy": strategy.kind,
        "write_lost_share": o.write_lost_share,
        "requests_lost_share": requests_lost(o.write_lost_share, strategy.settings.request_series),
        "reads_ok": o.reads_ok,
        "tenants_write_lost": after.tenants_write_lost,
        "tenants_read_lost": after.tenants_read_lost,
        "moved_share": o.moved_share,
        **_evenness(after.loads[after.alive]),
        "share_max_over_mean": even,
        "share_variation": even_variation,
        "rejected_before_bytes": round(o.rejected_before),
        "load_total": float(after.tenants.total.sum()),
        "load_source": cluster.load_source,
        "load_unit": cluster.unit,
        "load_is_count": cluster.tenants.is_count,
        **_setting(s),
        "tokens": after.ring.total,
        "replication_factor": strategy.settings.replication,
        "zone_aware": strategy.settings.zone_aware,
        "tenants": len(after.tenants.names),
        "nodes_over_capacity": _over_capacity(s),
        "now_ms": s.live.now_ns // 1_000_000,
    }
    if after.partitions is not None:
        summary["partitions"] = len(after.partitions.partitions)
        summary["partitions_without_readers"] = int((after.partition_readers == 0).sum())
    if s.rounds:
        summary |= {"cascade_rounds": len(s.rounds), "cascade_nodes": [list(failing) for failing in s.rounds]}
    if sweep is not None and len(sweep.down):
        lost = np.array(sweep["write_lost_share"])
        summary |= {
            "sweep_scenarios": len(lost),
            "sweep_with_lost_writes": int((np.array(sweep["tenants_write_lost"]) + (lost > 0) > 0).sum()),
            "sweep_write_lost_share_max": float(lost.max()),
        }
    summary["unsurvivable_single_failures"] = not_survivable(s, context)
    if observed is not None:
        summary["drift_pairs"] = int((observed["drift"] != "").sum())
    return summary


def _rate(value: float) -> str:
    return units.text("bytes_per_s", value)


def segment_headline(s: SegmentScenario, summary: dict[str, Any]) -> tuple[Headline, ...]:
    """Build the headline of a ring of segment writers, the most important number first."""
    alive, over, rejected = alive_loads(s), summary["nodes_over_capacity"], summary["rejected_bytes"]
    ring, settings = s.live.cluster.ring, s.live.cluster.settings
    loaded = bool(s.live.cluster.load_source)
    if ring is None:
        missing = "add the answer of curl http://…/ring, or a memberlist key"
        none = Headline("ring", "no ring among the files", missing, "", ("ring", "none"))
        return (none, Headline("load", _rate(summary["load_total"]), summary["load_unit"])) if loaded else (none,)
    when = _when(s) if s.down else ""
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
        _nodes(len(alive), s, units.plural(summary["total_shards"], "shard")),
        Headline("ring", "segment writers", ring.why),
        *_of_settings(settings.doubt, settings.choice, "defaults assumed"),
    )  # fmt: skip
    return tuple(line for line in lines if line is not None)


def replica_headline(s: ReplicatedScenario, summary: dict[str, Any]) -> tuple[Headline, ...]:
    """Build the headline of a ring with replicas: the outcome of a failure, then its kind, then the most important number."""
    ring, after, strategy = s.live.cluster.ring, s.after, replicated_ring(s.live)
    assert ring is not None
    settings = strategy.settings
    fine: Level = "ok" if strategy.is_known else ""
    lost, reads, tenants = summary["write_lost_share"], summary["tenants_read_lost"], summary["tenants"]
    writes_fail = bool(lost or summary["tenants_write_lost"])
    queries_fail = bool(reads or not summary["reads_ok"])
    zones = f"zones {'on' if summary['zone_aware'] else 'off'}"
    why = ring.why if after.partitions is not None else f"{settings.factor}, {zones}; {ring.why}"
    basis = f"{summary['tenants_write_lost']} of {_counted(tenants, 'tenant')}" if tenants else "of all keys"
    if writes_fail:
        requests = units.share(summary["requests_lost_share"])
        basis = f"{requests} of requests of {settings.request_series:,} series, {basis}"
    whole = "" if summary["reads_ok"] else "the whole ring's too" if reads else "of the whole ring"
    fails = f"{_counted(reads, 'tenant')} fail{'s' if reads == 1 else ''}" if reads else "fail"
    share, ok = units.share(lost), ("queries", fails if queries_fail else "ok")
    told = Headline("writes lost", share, basis, "critical" if writes_fail else fine, ("lost", share))
    if writes_fail and not lost:  # only of tenants with a shard
        count = f"of {summary['tenants_write_lost']} of {_counted(tenants, 'tenant')}"
        told = Headline("writes lost", count, "none of the whole ring", "critical", ("lost", count))
    lines = [
        Headline("ring", KIND_NAMES[summary["strategy"]], why),
        *_of_settings(settings.doubt, settings.choice, settings.factor),
        told,
        Headline("queries", fails if queries_fail else "all succeed", whole, "critical" if queries_fail else fine, ok),
    ]
    failing = " and ".join(w for w, fails_ in (("writes", writes_fail), ("queries", queries_fail)) if fails_)
    if s.down and failing:
        short = ("outcome", f"{failing} fail")
        lines.insert(0, Headline(_when(s), f"{failing} fail", strategy.assumed, "critical", short))
    elif s.down:
        lines.insert(0, Headline(_when(s), "nothing is lost" if fine else "not known", strategy.assumed, fine))
    elif summary["unsurvivable_single_failures"] is not None:
        lines.append(_single_failure(s, summary["unsurvivable_single_failures"], bool(failing)))
    if summary["load_total"]:
        total = units.text("number" if summary["load_is_count"] else "bytes_per_s", summary["load_total"])
        lines.append(Headline("load", total, summary["load_unit"]))
        if s.outcome.nodes:  # all members may have left
            hottest = s.outcome.nodes[int(np.argmax(s.outcome.after))]
            lines.append(Headline("hottest", f"{summary['max_over_mean']:.2f}× mean", hottest))
    elif after.share.any():
        lines.append(Headline("holds most", f"{summary['share_max_over_mean']:.2f}", "× mean share of keys"))
    if summary["moved_share"]:
        lines.append(Headline("moved", units.share(summary["moved_share"]), "of all keys, per replica"))
    if after.partitions is None:
        held = int(((after.share > 0) | (after.loads > 0)).sum())
        return (*lines, _nodes(held, s, units.plural(summary["tokens"], "token")))
    answering = int((after.ring.reading & ~after.failed).sum())
    return (*lines, _nodes(answering, s, _counted(summary["partitions"], "partition"), "answer queries"))


def _of_settings(doubt: str, choice: str, assumed: str) -> list[Headline]:
    """Say why the settings may be wrong, with what is ``assumed``, or which of several files was taken."""
    if doubt:
        return [Headline("settings", "uncertain", f"{doubt}; {assumed}", "moderate", ("settings", "uncertain"))]
    return [Headline("settings", "files differ", choice, "", ("settings", "differ"))] if choice else []


def _counted(count: int, what: str) -> str:
    return f"{count} {what}{'s' if count != 1 else ''}"


def _single_failure(s: ReplicatedScenario, fatal: int, is_lost: bool) -> Headline:
    """Judge the failure of each single node. ``fatal``: how many of them are not survived; ``is_lost``: something is lost
    already."""
    strategy, label = replicated_ring(s.live), "single failure"
    if is_lost:
        return Headline(label, "already lost", "before another node fails", "critical", (label, "already lost"))
    basis = strategy.assumed or "of a node"
    if fatal:
        text = f"{fatal} of {len(s.planned.ring.members)} not survivable"
        return Headline(label, text, basis, "severe", (label, f"{fatal} not survivable"))
    if not strategy.is_known:
        return Headline(label, "not known", f"survivable, {basis}; add curl http://…/config", "", (label, "not known"))
    return Headline(label, "each survivable", basis, "ok", (label, "survivable"))


def _when(s: Scenario[Any]) -> str:
    """Name the failure of the scenario, as the beginning of a sentence: whole zones by their names."""
    ids, down, names = s.planned.ring.ids, set(s.down), []
    for zone, members in s.zones.items():
        own = {ids[k] for k in members}
        if zone and len(own) > 1 and own <= down:
            names.append(zone if zone.startswith("zone") else f"zone {zone}")
            down -= own
    names += [name for name in s.down if name in down]
    name, plural = some(names, 2), len(names) > 1
    if s.regime in ("left", "returned"):
        return f"once {name} {'are' if plural else 'is'} {'gone' if s.regime == 'left' else 'back'}"
    return f"if {name} fail{'' if plural else 's'}"


def _nodes(count: int, s: Scenario[Any], basis: str, do: str = "take data") -> Headline:
    """Tell how many of the scenario's nodes take data (or ``do`` something else); tombstones are not nodes."""
    total = sum(m.state not in ("LEFT", "EXCLUDED") for m in s.members)
    level: Level = "critical" if not count else "ok" if count >= total else "moderate"
    return Headline("nodes", f"{count} of {total} {do}", basis, level, ("nodes", f"{count}/{total}"))


def segment_notes(s: SegmentScenario, p: RingParameters) -> list[str]:
    """List notes on the ring of segment writers, its load, and the parameters in force."""
    state, keys, source = s.live, segment_load(s.live).keys, s.live.cluster.load_source
    approximate = "; where they lie on the new ring is approximate" if s.after.ring.total != keys.pinned_total else ""
    has_what_if = (p.tenant_shards, p.dataset_shards, p.tokens) != (None, None, None)
    return [
        *_ring_notes(state, p),
        f"load: {source}, {state.cluster.unit}" if source else "no load in the files: placements only",
        *_told({
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


def _told(notes: Mapping[str, Any]) -> list[str]:
    """Return the notes that apply."""
    return [note for note, applies in notes.items() if applies]


def _ring_notes(state: SegmentState, p: RingParameters) -> list[str]:
    file, ring = state.cluster.ring, state.placement.ring
    if file is None:
        return ["no ring among the files: nothing is placed, only observed data is shown"]
    return [
        f"ring: {file.label} ({file.kind}), segment writers: {file.why}",
        units.plural(ring.total, "shard"),
        *other_rings(file),
        *_excluded_note(state),
        *_told({
            "empty ring: no healthy instance, Pyroscope answers UNAVAILABLE": not ring.members,
            "the healthy instances have no tokens: every request is rejected": ring.members and ring.total == 0,
        }),
        *(_late_note(state, p) if not ring.members else ()),
    ]  # fmt: skip


def _excluded_note(state: LiveState[Any]) -> list[str]:
    """Say which members take no part because their zones are excluded."""
    out = [m for m in state.members if m.state == "EXCLUDED"]
    zones = sorted({m.zone for m in out})
    who = "1 member takes" if len(out) == 1 else f"{len(out)} members take"
    which = f"zone {zones[0]} is" if len(zones) == 1 else f"zones {some(zones)} are" if zones else ""
    return [f"{who} no part: {which} excluded ({state.cluster.settings.label})"] if out else []


def _late_note(state: LiveState[Any], p: RingParameters) -> list[str]:
    """Say how to judge heartbeats that are perhaps old only because the file is."""
    newest = max((m.heartbeat_s for m in state.members if m.state == "UNHEALTHY" and m.heartbeat_s), default=0)
    behind = units.duration(state.now_ns / 1_000_000 - newest * 1000)
    text = f"the newest heartbeat is {behind} before the file's time; -o now={newest} shows the ring at that time"
    return [text] if newest and p.now is None else []


def replica_notes(s: ReplicatedScenario, p: RingParameters) -> list[str]:
    """List notes on a ring with replicas, its settings and its load."""
    state, ring = s.live, s.live.cluster.ring
    assert ring is not None
    members, tenants = state.placement.ring.members, state.placement.tenants.names
    # Writes to partitions do not touch ingesters.
    fails = "query" if ring.partitions else "write and query"
    hidden = sum(m.tokens > 0 and m.values is None for m in ring.members)
    nothing = "load in the files: tenants and" if tenants else "tenants in the files:"
    source = state.cluster.load_source
    return [
        f"ring: {ring.label} ({ring.kind}), {KIND_NAMES[state.strategy.kind]}: {ring.why}",
        *_told({
            f"empty ring: no registered member, every {fails} fails": not members,
            "empty ring: no member has tokens, every write and query fails":
                members and not ring.partitions and not state.placement.ring.total,
        }),
        *other_rings(ring),
        *_excluded_note(state),
        *replicated_ring(state).settings.notes[1 if ring.partitions else 0 :],
        *_told({f"partitions: {ring.partition_label}": ring.partition_label not in ("", ring.label)}),
        *(_late_note(state, p) if all(m.state == "UNHEALTHY" for m in members) else ()),
        *_told({
            "the page hides the states of UNHEALTHY members: they count as ACTIVE, which matters for -o operation=write":
                any(m.state == "UNHEALTHY" and not m.written for m in state.members),
            "no ring of ingesters in the files: the owners of partitions count as healthy":
                not ring.lists_members and ring.partitions,
            f"{units.plural(hidden, 'member')} without token values (the page has them with ?tokens=true): nothing is placed "
            "on them": hidden,
        }),
        f"load: {source}, {state.cluster.unit}" if source else f"no {nothing} shares of the key space only",
    ]  # fmt: skip
