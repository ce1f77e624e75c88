"""Findings of segment writers: failures that would not be survived, drift of what is observed; the capacity that they need."""

from __future__ import annotations

import numpy as np
import polars as pl

from engine.core import units
from engine.core.reading import Problem
from engine.core.view import Context, Finding, Level
from engine.ring_placement import tables
from engine.ring_placement.insight.findings import MAX_NAMED, member_findings, overloads, some, with_rest
from engine.ring_placement.parameters import RingParameters
from engine.ring_placement.pyroscope.adaptive_placement import DEFAULTS, policy_of
from engine.ring_placement.pyroscope.ring import Ring, jump, subrings, xxh64_each
from engine.ring_placement.scenarios.cluster import Cluster
from engine.ring_placement.scenarios.scenario_state import KEEP, SegmentScenario, SegmentState
from engine.ring_placement.scenarios.segment_sweeps import every_node, one_by_one, receiving_members, worst_case
from engine.ring_placement.scenarios.strategy import Sweep


def in_range(cluster: Cluster, ring: Ring, pairs: pl.DataFrame) -> pl.Series:
    """Return for each row of ``pairs`` (tenant, dataset, shard) whether the dataset may use that shard on ``ring``; null if
    dataset or shard are unknown or the ring is empty."""
    complete = pl.col("dataset").is_not_null() & pl.col("shard").is_not_null()
    names = pairs.filter(complete).select("tenant", "dataset").unique().sort("tenant", "dataset").with_row_index("row")
    total = ring.total
    if not names.height or total <= 0:
        return pl.Series("in_range", [None] * pairs.height, dtype=pl.Boolean)
    policies = [policy_of(t, d, cluster.rules, cluster.limits, DEFAULTS) for _, t, d in names.iter_rows()]
    ranges = subrings(
        jump(xxh64_each(names["tenant"].to_list()), total),
        xxh64_each(names["dataset"].to_list()),
        np.array([p.tenant_limit for p in policies], dtype=np.int64),
        np.array([p.dataset_limit for p in policies], dtype=np.int64),
        total,
    )
    joined = pairs.join(names, on=["tenant", "dataset"], how="left", maintain_order="left")
    _, fits = ranges.offsets_of(
        joined["row"].fill_null(0).to_numpy().astype(np.int64), joined["shard"].fill_null(0).to_numpy()
    )
    is_known = joined["row"].is_not_null() & joined["shard"].is_not_null()
    return pl.select(pl.when(is_known).then(pl.Series(fits))).to_series().alias("in_range")


def drift_table(state: SegmentState) -> tuple[pl.DataFrame, list[str]]:
    """Build table ``observed`` of segment writers, and notes on it: each observed pair, its computed owner, and the drift.

    A shard whose owner is not ACTIVE is rightly stored elsewhere, so any ACTIVE member is accepted for it. See
    ``docs/models/ring-placement.md``, "Drift".
    """
    cluster, ring = state.cluster, state.placement.ring
    pairs = cluster.observed
    total = ring.total
    if not pairs.height:
        return tables.OBSERVED.empty(), []
    shard = pairs["shard"].fill_null(0).to_numpy()
    exists = (shard >= 1) & (shard <= total)
    node = ring.owner[np.where(exists, shard - 1, 0)] if total else np.zeros(len(shard), dtype=np.int64)
    computed = ring.names(np.where(exists, node, -1))
    owner_inactive = pl.Series(np.isin(node, np.flatnonzero(~ring.active)) & exists)
    active = [i for i, a in zip(ring.ids, ring.active, strict=True) if a]
    instance = pairs["instance"]
    drift = pl.select(
        pl.when(instance.is_null() | pl.lit(total <= 0))
        .then(pl.lit(""))
        .when(~pl.lit(pl.Series(exists)))
        .then(pl.lit("no-such-shard"))
        .when(~instance.is_in(list(ring.ids)) if ring.ids else pl.Series([True] * len(instance)))
        .then(pl.lit("unknown-instance"))
        .when((instance == computed) | (owner_inactive & instance.is_in(active)))
        .then(pl.lit(""))
        .otherwise(pl.lit("owner"))
    ).to_series()
    frame = pairs.with_columns(
        computed.alias("computed"), drift.alias("drift"), in_range(cluster, ring, pairs).alias("in_range")
    )
    return tables.OBSERVED.sorted(tables.OBSERVED.frame(frame)), []


def single_failures(s: SegmentScenario, p: RingParameters, context: Context) -> tuple[Sweep, Sweep | None]:
    """Sweep every node, and every zone of several, in regime A on the planned ring."""

    def make() -> tuple[Sweep, Sweep | None]:
        capacity, zones = s.capacity_array, list(s.zones.values())
        nodes = every_node(s.planned, "transient", capacity, lambda fraction: context.check())
        if len(zones) < 2:
            return nodes, None
        return nodes, one_by_one(s.planned, zones, "transient", capacity, lambda fraction: context.check())

    return context.memo.value("single failures", (s.planned_key, p.capacity, p.cores), make, keep=KEEP)


def minimum_capacity(s: SegmentScenario, p: RingParameters, context: Context) -> tuple[float | None, float | None]:
    """Compute the capacity per node that survives any one node, and any one zone, in regime A; None if undefined."""
    nodes, zones = single_failures(s, p, context)
    receives = receiving_members(s.planned)
    return worst_case(nodes, receives), worst_case(zones, receives) if zones is not None else None


def findings_of(
    s: SegmentScenario, p: RingParameters, observed: pl.DataFrame | None, context: Context
) -> list[Finding]:
    """List all findings: an unusable ring, single failures not survived, old heartbeats, drift (rows ``observed``), overload."""
    ring, unusable = s.live.placement.ring, ""
    if s.live.cluster.ring is not None and not ring.active.any():
        none = "empty ring: no healthy instance, Pyroscope answers UNAVAILABLE"
        unusable = "no instance is ACTIVE: every request is rejected" if ring.members else none
    return [
        *([Finding("critical", "ring", unusable)] if unusable else []),
        *_idle(s),
        *survival_findings(s, p, context),
        *member_findings(s),
        *([] if observed is None else _drift_findings(observed, ring)),
        *overloads(s, "bytes_per_s"),
    ]


def _idle(s: SegmentScenario) -> list[Finding]:
    """Find members that start or stop, and the only one that takes data beside them or beside dead ones."""
    members = [m for m in s.members if m.state not in ("LEFT", "EXCLUDED")]
    busy = [f"{m.id} ({m.state})" for m in members if m.state not in ("ACTIVE", "UNHEALTHY")]
    left = [m.id for m in members if m.state == "ACTIVE"]
    told = (
        [Finding("moderate", some(busy), f"take{'s' if len(busy) == 1 else ''} no data until ACTIVE")]
        if busy and left
        else []
    )
    if len(left) == 1 < len(members):
        text = f"the only one of {len(members)} nodes that takes data: if it fails, every request is rejected"
        told.insert(0, Finding("severe", left[0], text, ("nodes", (left[0],))))
    return told


def _drift_findings(observed: pl.DataFrame, ring: Ring) -> list[Finding]:
    findings: list[Finding] = []
    drifted = observed.filter(pl.col("drift") != "")
    for row in drifted.head(MAX_NAMED).iter_rows(named=True):
        dataset = "/".join(part for part in (row["tenant"], row["dataset"]) if part)
        where = f"shard {row['shard']}" + (f" of {dataset}" if dataset else "")
        text = {
            "owner": f"{where} is written by {row['instance']}, the ring says {row['computed']}",
            "no-such-shard": f"{where} is written by {row['instance']}, the ring has {ring.total} shards only",
            "unknown-instance": f"{where} is written by {row['instance']}, which is not a healthy member",
        }[row["drift"]]
        findings.append(Finding("severe", f"drift {row['source']}", text))
    return with_rest(findings, drifted.height, "drift", "pairs differ from the ring")


def survival_findings(s: SegmentScenario, p: RingParameters, context: Context) -> list[Finding]:
    """List the single failures (regime A) of the planned ring that would not be survived."""
    if not len(s.planned.groups.datasets) or len(s.planned.ring.members) < 2:
        return []
    nodes, zones = single_failures(s, p, context)
    findings = _survival_of(s, nodes, "node", [s.planned.ring.ids[down[0]] for down in nodes.down])
    if zones is not None:
        findings += _survival_of(s, zones, "zone", [f"zone:{name}" for name in s.zones])
    return findings


def _survival_of(s: SegmentScenario, sweep: Sweep, kind: str, subjects: list[str]) -> list[Finding]:
    """List the scenarios of ``sweep`` that are not survived, worst first; ``subjects`` names what fails in each."""
    receives = receiving_members(s.planned)
    level: Level = "severe" if kind == "node" and s.capacity_array is not None else "moderate"
    findings: list[Finding] = []
    for k in sweep.order():
        others = receives.copy()
        others[list(sweep.down[k])] = False
        reasons = _reasons(s, sweep, k) if receives[list(sweep.down[k])].any() and others.any() else []
        if reasons:
            text = f"if {subjects[k]} fails (first minute): {'; '.join(reasons)}"
            findings.append(Finding(level, subjects[k], text, ("nodes", (subjects[k],)) if kind == "node" else None))
    return with_rest(findings[:MAX_NAMED], len(findings), kind, f"single {kind} failures would not be survived")


def _reasons(s: SegmentScenario, sweep: Sweep, k: np.intp) -> list[str]:
    """Say why scenario ``k`` of ``sweep`` is not survived; empty if it is."""
    reasons = []
    lost = sweep["rejected_bytes"][k] - s.planned.rejected
    if lost > 0:
        reasons.append(f"{units.text('bytes_per_s', lost)} rejected although other nodes are alive")
    if s.capacity_array is not None:
        is_over = s.planned.loads > s.capacity_array
        is_over[list(sweep.down[k])] = False
        more = sweep["nodes_over_capacity"][k] - int(is_over.sum())
        if more > 0:
            reasons.append(f"{more} more node{'s' if more > 1 else ''} over capacity")
            hottest = sweep["worst"][k]
            if not is_over[hottest]:
                load, size = sweep["worst_load"][k], s.capacity_array[hottest].item()
                rates = f"{units.text('bytes_per_s', load)} of {units.text('bytes_per_s', size)}"
                reasons[-1] += f", hottest {s.planned.ring.ids[hottest]} with {rates}"
    return reasons


OLD_SHARD_LIMIT = 4096
"""Shards above which Pyroscope up to v1.18.0 panics (its table of permutation steps had a fixed length)."""


def problems_of(state: SegmentState) -> list[Problem]:
    """Report a ring that an old Pyroscope cannot lay out."""
    ring = state.cluster.ring
    tokens = sum(m.tokens for m in ring.members) if ring else 0
    if ring is None or tokens <= OLD_SHARD_LIMIT:
        return []
    reason = f"{tokens} tokens: Pyroscope up to v1.18.0 panics above {OLD_SHARD_LIMIT} shards"
    return [Problem.at(ring.label, "many-shards", reason)]
