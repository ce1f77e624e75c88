"""The answers of a ring with replicas: of tokens, or of partitions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import polars as pl

from engine.core import units
from engine.core.view import Context, Headline, Level
from engine.ring_placement import tables
from engine.ring_placement.dskit.replicas import STATES
from engine.ring_placement.dskit.token_ring import SPACE
from engine.ring_placement.insight import replica_findings
from engine.ring_placement.insight.explain import explain_replicas
from engine.ring_placement.insight.holders import (
    answers_of,
    lost_load,
    mean_of,
    partition_loads,
    ring_facts,
    shard_members,
    spreads,
)
from engine.ring_placement.insight.replica_findings import key_pairs, not_survivable
from engine.ring_placement.parameters import RingParameters
from engine.ring_placement.reading.document import columns_of
from engine.ring_placement.result.answers import (
    KIND_NAMES,
    Answers,
    Frames,
    applying,
    counted,
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
from engine.ring_placement.scenarios.failover import member_mask
from engine.ring_placement.scenarios.replica_rows import ReplicatedPlacement
from engine.ring_placement.scenarios.scenario_state import KEEP, ReplicatedScenario, replicated_ring
from engine.ring_placement.scenarios.strategy import LOSSES, TOTALS, Sweep, imbalance, requests_lost


def _nodes(s: ReplicatedScenario, context: Context) -> pl.DataFrame:
    """Build table ``nodes`` of a ring with replicas: also ownership, what each holds, and its most dangerous partner."""
    loads = dict(zip(s.outcome.nodes, whole(s.outcome.after), strict=True))
    alive = {i for i, ok in zip(s.after.ring.ids, s.after.alive, strict=True) if ok}
    mean = mean_of(np.array([loads[i] for i in alive if i in loads]))
    observed = s.live.cluster.tenants.observed.group_by("instance").agg(pl.col("load").sum())
    written = {name: round(load) for name, load in observed.iter_rows()}
    return node_table(s, s.live.members, mean, alive, written, ring_facts(s, context))


def _partitions(s: ReplicatedScenario) -> pl.DataFrame:
    """Build table ``partitions`` of a partition ring."""
    after = s.after
    assert after.partitions is not None
    registered, readers = set(after.ring.ids), after.answering_owners
    share, load = partition_loads(after)
    listed = [
        (p.id, STATES[p.state], [o for o in p.owners if o in registered], readers[k],
         float(share[k]), float(load[k]), p.changed_s * 1000 if p.changed_s else None, p.locked)
        for k, p in enumerate(after.partitions.partitions)
    ]  # fmt: skip
    return tables.PARTITIONS.sorted(tables.PARTITIONS.frame(columns_of(tables.PARTITIONS, listed)))


def _restarts(s: ReplicatedScenario, context: Context) -> pl.DataFrame:
    """Build table ``restart``: nodes, or whole zones, leave and come back one after the other."""
    strategy, planned = replicated_ring(s.live), s.planned
    rows: list[tuple[Any, ...]] = []
    zones = s.zones

    def swept(kind: str, downs: list[tuple[int, ...]]) -> Sweep:
        return strategy.sweep(planned, kind, downs, "transient", None, lambda fraction: context.check())

    units = [("node", swept("nodes", []), planned.ring.ids)]
    if len(zones) > 1:
        units.append(("zone", swept("zones", [*zones.values()]), tuple(zones)))
    base, reading, writing = planned.losses, strategy.reading.healthy, strategy.writing.healthy
    for unit, sweep, names in units:
        if not sweep.down:
            continue
        worst = int(sweep.order()[0])
        lost = tuple(sweep[name][worst] for name in LOSSES)
        leaving = (*(base if "LEAVING" in writing else lost)[:2], *(base if "LEAVING" in reading else lost)[2:])
        later = strategy.without(planned, frozenset(planned.ring.ids[m] for m in sweep.down[worst]), context.check)
        for state, totals in (("LEAVING", leaving), ("gone", later.losses), ("JOINING", lost)):
            requests = requests_lost(np.float64(totals[0]), strategy.settings.request_series)
            rows.append((len(rows) + 1, unit, state, names[worst], totals[0], requests, *totals[1:]))
    return tables.RESTART.frame(columns_of(tables.RESTART, rows))


LISTED_INSTANCES = 2_000_000
"""Most instances listed in the table of tenants; beyond, shards of the whole ring are left out."""


def _lists(shards: Sequence[np.ndarray], shard_of: np.ndarray, names: pl.Series) -> pl.Series:
    sizes = np.array([len(members) for members in shards], dtype=np.int64)
    if int(sizes[shard_of].sum()) > LISTED_INSTANCES:
        sizes = np.where(sizes == sizes.max(), 0, sizes)
    chosen = [m[:size].astype(np.uint32) for m, size in zip(shards, sizes.tolist(), strict=True)]
    listed = names.gather(pl.Series(np.concatenate([np.empty(0, np.uint32), *chosen])))  # one query, not one a shard
    parts = [
        listed.slice(start, size)
        for start, size in zip((np.cumsum(sizes) - sizes).tolist(), sizes.tolist(), strict=True)
    ]
    return pl.Series(parts, dtype=pl.List(names.dtype)).gather(pl.Series(shard_of.astype(np.uint32)))


def _tenants(s: ReplicatedScenario) -> pl.DataFrame:
    """Build table ``tenants`` of a ring with replicas: the shard of each tenant in the scenario, and what it loses."""
    after, tenants = s.after, s.after.tenants
    rows = after.rows
    ids = pl.Series(after.ring.ids, dtype=pl.String)
    lost, reads = after.lost_share[rows.shard_of], after.reads_ok[rows.read_of]
    frame: dict[str, Any] = {
        "tenant": tenants.names,
        "shard_size": tenants.sizes,
        "load": tenants.total,
        "write_lost_share": lost,
        "requests_lost_share": requests_lost(lost, replicated_ring(s.live).settings.request_series),
        "write_lost_load": lost_load(after),
        "reads_ok": reads,
        "spread": spreads(after)[rows.shard_of],
    }
    held, read, down = shard_members(after)
    frame["instances"] = _lists(held, rows.shard_of, ids)
    frame["read_instances"] = _lists(read, rows.read_of, ids)
    frame["instances_down"] = down[rows.shard_of]
    if after.partitions is not None:
        partition_ids = pl.Series(after.partitions.ids, dtype=pl.Int64)
        frame["partitions"] = _lists(rows.shards, rows.shard_of, partition_ids)
        frame["read_partitions"] = _lists(rows.reads, rows.read_of, partition_ids)
    loads = s.live.cluster.tenants
    # Metrics leave out tenants without a load, tables any.
    told = pl.col("tenant").is_in([*loads.loads["tenant"], *loads.keys["tenant"].unique()]) | (loads.source != "table")
    known = [pl.when(told).then(name).alias(name) for name in ("load", "write_lost_load")]
    return tables.TENANTS.sorted(tables.TENANTS.frame(frame).with_columns(known))


def _placements(s: ReplicatedScenario, p: RingParameters, notes: list[str]) -> pl.DataFrame:
    """Build table ``placements``: the replica set of each key in the scenario. Equal keys of a tenant are one row."""
    after, tenants = s.after, s.after.tenants
    _, first, inverse = np.unique(
        tenants.key_tenant * SPACE + tenants.key_token, return_index=True, return_inverse=True
    )
    weight = np.bincount(inverse, tenants.key_weight, len(first))
    if len(first) > p.placement_rows:
        keep = np.sort(np.argsort(-weight, kind="stable")[: p.placement_rows])
        notes.append(f"placements lists the {len(keep)} largest of {len(first)} keys; -o placement-rows= changes that")
        first, weight = first[keep], weight[keep]
    row = after.rows.key_row[first]
    answer = answers_of(s, np.unique(row))
    frame = pl.DataFrame({
        "tenant": pl.Series(tenants.names, dtype=pl.String).gather(pl.Series(tenants.key_tenant[first].astype(np.uint32))),
        "token": tenants.key_token[first],
        "bytes_per_s": np.rint(weight).astype(np.int64),
        "row": row,
    })  # fmt: skip
    frame = frame.join(answer, on="row", how="left", maintain_order="left").drop("row")
    return tables.PLACEMENTS.sorted(tables.PLACEMENTS.frame(frame))


def _frames(s: ReplicatedScenario, p: RingParameters, context: Context, notes: list[str]) -> Frames:
    frames = {"nodes": _nodes(s, context), "tenants": _tenants(s)}
    if len(s.planned.tenants.key_token):
        frames["placements"] = _placements(s, p, notes)
    if s.after.partitions is not None:
        frames["partitions"] = _partitions(s)
    if p.sweep == "leaving":
        frames["restart"] = _restarts(s, context)
    return frames


def _summary(
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
        **evenness(after.loads[after.alive]),
        "share_max_over_mean": even,
        "share_variation": even_variation,
        "rejected_before_bytes": round(o.rejected_before),
        "load_total": float(after.tenants.total.sum()),
        "load_source": cluster.load_source,
        "load_unit": cluster.unit,
        "load_is_count": cluster.tenants.is_count,
        **setting(s),
        "tokens": after.ring.total,
        "replication_factor": strategy.settings.replication,
        "zone_aware": strategy.settings.zone_aware,
        "tenants": len(after.tenants.names),
        "nodes_over_capacity": over_capacity(s),
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


def _headline(s: ReplicatedScenario, summary: dict[str, Any]) -> tuple[Headline, ...]:
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
    basis = f"{summary['tenants_write_lost']} of {counted(tenants, 'tenant')}" if tenants else "of all keys"
    if writes_fail:
        requests = units.share(summary["requests_lost_share"])
        basis = f"{requests} of requests of {settings.request_series:,} series, {basis}"
    whole = (
        strategy.assumed * strategy.unheard
        if summary["reads_ok"]
        else "the whole ring's too"
        if reads
        else "of the whole ring"
    )
    fails = f"{counted(reads, 'tenant')} fail{'s' if reads == 1 else ''}" if reads else "fail"
    answer = fails if queries_fail else "not known" if strategy.unheard else "all succeed"
    share, ok = units.share(lost), ("queries", answer if queries_fail or strategy.unheard else "ok")
    told = Headline("writes lost", share, basis, "critical" if writes_fail else fine, ("lost", share))
    if writes_fail and not lost:  # only of tenants with a shard
        count = f"of {summary['tenants_write_lost']} of {counted(tenants, 'tenant')}"
        told = Headline("writes lost", count, "none of the whole ring", "critical", ("lost", count))
    lines = [
        Headline("ring", KIND_NAMES[summary["strategy"]], why),
        *of_settings(settings.doubt, settings.choice, settings.factor),
        told,
        Headline("queries", answer, whole, "critical" if queries_fail else fine, ok),
    ]
    failing = " and ".join(w for w, fails_ in (("writes", writes_fail), ("queries", queries_fail)) if fails_)
    if s.down and failing:
        short = ("outcome", f"{failing} fail")
        lines.insert(0, Headline(when_down(s), f"{failing} fail", strategy.assumed, "critical", short))
    elif s.down:
        lines.insert(0, Headline(when_down(s), "nothing is lost" if fine else "not known", strategy.assumed, fine))
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
    return (*lines, _members_line(s, summary))


def _members_line(s: ReplicatedScenario, summary: dict[str, Any]) -> Headline:
    """Tell how many members take data, or answer queries where their partitions are written to elsewhere."""
    after = s.after
    if after.partitions is None:
        writable = np.array([not m.read_only for m in after.ring.members], dtype=bool)
        held = int((writable & ((after.share > 0) | (after.loads > 0))).sum())
        return nodes_line(held, s, units.plural(summary["tokens"], "token"))
    if replicated_ring(s.live).unheard:
        return Headline(
            "nodes", f"{len(after.ring.members)} named", "as owners of partitions; whether they run is not known"
        )
    answering = int((after.ring.reading & ~after.failed).sum())
    return nodes_line(answering, s, counted(summary["partitions"], "partition"), "answer queries")


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
        doubt = strategy.settings.doubt and not strategy.assumed
        need = "correct the file" if doubt else f"add curl http://…/{'ring' if strategy.unheard else 'config'}"
        return Headline(label, "not known", f"survivable, {basis}; {need}", "", (label, "not known"))
    return Headline(label, "each survivable", basis, "ok", (label, "survivable"))


def _notes(s: ReplicatedScenario, p: RingParameters) -> list[str]:
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
        *applying({
            f"empty ring: no registered member, every {fails} fails": not members,
            "empty ring: no member has tokens, every write and query fails":
                members and not ring.partitions and not state.placement.ring.total,
        }),
        *other_rings(ring),
        *excluded_note(state),
        *replicated_ring(state).settings.notes[1 if ring.partitions else 0 :],
        *applying({f"partitions: {ring.partition_label}": ring.partition_label not in ("", ring.label)}),
        *(late_note(state, p) if all(m.state == "UNHEALTHY" for m in members) else ()),
        *applying({
            "the page hides the states of UNHEALTHY members: they count as ACTIVE, which matters for -o operation=write":
                any(m.state == "UNHEALTHY" and not m.written for m in state.members),
            "no ring of ingesters in the files: the owners of partitions count as healthy":
                not ring.lists_members and ring.partitions,
            f"{units.plural(hidden, 'member')} without token values (the page has them with ?tokens=true): nothing is placed "
            "on them": hidden,
        }),
        f"load: {source}, {state.cluster.unit}" if source else f"no {nothing} shares of the key space only",
    ]  # fmt: skip


TIMELINE_TENANTS = 500
"""Most tenants up to which a new layout is computed for the time axis although another regime is chosen."""


MATRIX = 60  # most rows and columns of the matrix of pairs that is drawn; each cell is the worst of its pairs


def _map_view(s: ReplicatedScenario, p: RingParameters, context: Context) -> ShardMapView:
    """Build what the screen draws of a ring with replicas: also the matrix of pairs."""
    order, matrix = context.memo.value("matrix", s.planned_key, lambda: _matrix(s, context), keep=KEEP)
    return ShardMapView(
        nodes=bars(s), owner_before=(), owner_after=(), stored_by=(), regime=p.regime, down=s.down,
        timeline=tuple(_timeline(s, p, context)) if s.down else (), kind=s.live.strategy.kind,
        matrix_nodes=order, matrix=matrix,
    )  # fmt: skip


def _timeline(s: ReplicatedScenario, p: RingParameters, context: Context) -> Iterator[RegimeTotals]:
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


ANSWERS: Answers[ReplicatedPlacement] = Answers(
    _notes, replica_findings.problems_of, replica_findings.drift_table, _frames, explain_replicas, replica_findings.findings_of,
    _summary, _headline, _map_view,
)  # fmt: skip
