"""Findings: failures that would not be survived, drift, overload, fragile settings; and the capacity that failures need."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from engine.core import units
from engine.core.reading import Problem
from engine.core.tables import Kind
from engine.core.view import Context, Finding, Level
from engine.ring_placement.insight.drift import MAX_NAMED, drift_findings
from engine.ring_placement.parameters import RingParameters
from engine.ring_placement.pyroscope.ring import Ring
from engine.ring_placement.scenarios.replica_sweeps import PairSums, TenantCounts
from engine.ring_placement.scenarios.scenario_state import (
    KEEP,
    ReplicatedScenario,
    ReplicatedState,
    Scenario,
    SegmentScenario,
    SegmentState,
    replicated_ring,
)
from engine.ring_placement.scenarios.segment_sweeps import every_node, one_by_one, receiving_members, worst_case
from engine.ring_placement.scenarios.strategy import Sweep


def single_failures(s: SegmentScenario, p: RingParameters, context: Context) -> tuple[Sweep, Sweep | None]:
    """Sweep every node, and every zone of several, in regime A on the planned ring."""

    def step(fraction: float) -> None:
        context.check()

    def make() -> tuple[Sweep, Sweep | None]:
        zones = list(s.zones.values())
        nodes = every_node(s.planned, "transient", s.capacity_array, step)
        if len(zones) < 2:
            return nodes, None
        return nodes, one_by_one(s.planned, zones, "transient", s.capacity_array, step)

    return context.memo.value("single failures", (s.planned_key, p.capacity, p.cores), make, keep=KEEP)


def minimum_capacity(s: SegmentScenario, p: RingParameters, context: Context) -> tuple[float | None, float | None]:
    """Compute the capacity per node that survives any one node, and any one zone, in regime A; None if undefined."""
    nodes, zones = single_failures(s, p, context)
    receives = receiving_members(s.planned)
    return worst_case(nodes, receives), worst_case(zones, receives) if zones is not None else None


def segment_findings(
    s: SegmentScenario, p: RingParameters, observed: pl.DataFrame | None, context: Context
) -> list[Finding]:
    """List all findings: an unusable ring, single failures not survived, old heartbeats, drift (rows ``observed``), overload."""
    ring = s.live.placement.ring
    findings: list[Finding] = []
    if s.live.cluster.ring is not None and not ring.members:
        findings.append(Finding("critical", "ring", "empty ring: no healthy instance, Pyroscope answers UNAVAILABLE"))
    elif s.live.cluster.ring is not None and not ring.active.any():
        findings.append(Finding("critical", "ring", "no instance is ACTIVE: every request is rejected"))
    findings += survival_findings(s, p, context)
    findings += _unhealthy(s)
    findings += [] if observed is None else _drift_findings(observed, ring)
    return [*findings, *overloads(s, "bytes_per_s")]


def _unhealthy(s: SegmentScenario) -> list[Finding]:
    """List the members whose heartbeat is too old, unless all are."""
    names = [m.id for m in s.live.members if m.state == "UNHEALTHY"] if s.live.placement.ring.members else []
    text = "its heartbeat is too old: nothing is placed on it, the other nodes have its shards"
    findings = [Finding("moderate", name, text, ("nodes", (name,))) for name in names[:MAX_NAMED]]
    return _with_rest(findings, len(names), "nodes", "nodes whose heartbeat is too old")


def _with_rest(findings: list[Finding], count: int, subject: str, what: str) -> list[Finding]:
    """Return ``findings`` and, where they are only the first of ``count``, one that stands for the rest."""
    rest = count - MAX_NAMED
    return [*findings, Finding(findings[0].level, subject, f"{rest} more {what}", rest=rest)] if rest > 0 else findings


def overloads(s: Scenario[Any], kind: Kind) -> list[Finding]:
    """List the nodes above their capacity: before anything fails, or because of the scenario's failure."""
    if not s.capacity or not s.comparable:
        return []
    findings, now = [], dict(zip(s.planned.ring.ids, s.planned.loads.tolist(), strict=True))
    for name, after in zip(s.outcome.nodes, s.outcome.after.tolist(), strict=True):
        limit, load = s.capacity.get(name), now.get(name, 0)
        if limit is None:
            continue
        if load > limit:
            text = f"carries {units.text(kind, load)} before anything fails, its capacity is {units.text(kind, limit)}"
            findings.append(Finding("severe", name, text, ("nodes", (name,))))
        elif s.down and after > limit:
            text = f"carries {units.text(kind, after)} in the scenario, its capacity is {units.text(kind, limit)}"
            findings.append(Finding("moderate", name, text, ("nodes", (name,))))
    return findings


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
    return _with_rest(findings, drifted.height, "drift", "pairs differ from the ring")


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
    count = 0
    for k in sweep.order():
        down = list(sweep.down[k])
        others = receives.copy()
        others[down] = False
        reasons = _reasons(s, sweep, k) if receives[down].any() and others.any() else []
        if reasons:
            count += 1
            if count <= MAX_NAMED:
                text = f"if {subjects[k]} fails (first minute): {'; '.join(reasons)}"
                row = ("nodes", (subjects[k],)) if kind == "node" else None
                findings.append(Finding(level, subjects[k], text, row))
    return _with_rest(findings, count, kind, f"single {kind} failures would not be survived")


def _reasons(s: SegmentScenario, sweep: Sweep, k: np.intp) -> list[str]:
    """Say why scenario ``k`` of ``sweep`` is not survived; empty if it is."""
    reasons = []
    lost = sweep.rejected_bytes[k] - s.planned.rejected
    if lost > 0:
        reasons.append(f"{units.text('bytes_per_s', lost)} rejected although other nodes are alive")
    if s.capacity_array is not None:
        is_over = s.planned.loads > s.capacity_array
        is_over[list(sweep.down[k])] = False
        more = sweep.nodes_over_capacity[k] - int(is_over.sum())
        if more > 0:
            reasons.append(f"{more} more node{'s' if more > 1 else ''} over capacity")
            hottest = sweep.worst[k]
            if not is_over[hottest]:
                load, size = sweep.worst_load[k], s.capacity_array[hottest].item()
                rates = f"{units.text('bytes_per_s', load)} of {units.text('bytes_per_s', size)}"
                reasons[-1] += f", hottest {s.planned.ring.ids[hottest]} with {rates}"
    return reasons


OLD_SHARD_LIMIT = 4096
"""Shards above which Pyroscope up to v1.18.0 panics (its table of permutation steps had a fixed length)."""


def many_shards(state: SegmentState) -> list[Problem]:
    """Report a ring that an old Pyroscope cannot lay out."""
    ring = state.cluster.ring
    tokens = sum(m.tokens for m in ring.members) if ring else 0
    if ring is None or tokens <= OLD_SHARD_LIMIT:
        return []
    reason = f"{tokens} tokens: Pyroscope up to v1.18.0 panics above {OLD_SHARD_LIMIT} shards"
    return [Problem.at(ring.label, "many-shards", reason)]


NAMED_TENANTS = 3
"""Most tenants named in one finding."""
ALIGNED = 20.0
"""The worst pair is a finding if it loses this many times what the median pair of two zones does."""


def replica_findings(
    s: ReplicatedScenario, p: RingParameters, observed: pl.DataFrame | None, context: Context
) -> list[Finding]:
    """List all findings: of the planned ring before the failure, overload in the scenario, drift (rows ``observed``)."""
    findings = [*context.memo.value("replica findings", s.planned_key, lambda: _of_ring(s, context), keep=KEEP)]
    findings += overloads(s, "number" if s.live.cluster.tenants.is_count else "bytes_per_s")
    return [*findings, *drift_findings(observed)]


def _of_ring(s: ReplicatedScenario, context: Context) -> list[Finding]:
    """List the findings that do not depend on what fails in the scenario."""
    planned = s.planned
    if not planned.ring.members:
        return [Finding("critical", "ring", "empty ring: no registered instance")]
    if planned.partitions is None and not planned.ring.total:
        return [Finding("critical", "ring", "empty ring: no member has tokens")]
    findings = [*_now(s), *_single_failures(s, context), *_zone_failures(s, context)]
    findings += _structure(s, context) if planned.partitions is None else _partitions(s)
    for m in planned.ring.members:
        if m.state == "UNHEALTHY" and len(findings) < 4 * MAX_NAMED:
            text = "its heartbeat is too old: its replicas are lost until the ring forgets it"
            findings.append(Finding("moderate", m.id, text, ("nodes", (m.id,))))
    return findings


def key_pairs(s: ReplicatedScenario, context: Context) -> PairSums:
    """Sum up the share of all keys that each node and each pair loses."""
    return context.memo.value("key pairs", s.planned_key, lambda: PairSums.of_keys(s.planned), keep=KEEP)


def _names(s: ReplicatedScenario, hit: np.ndarray) -> str:
    """Name some of the tenants ``hit`` (bool), the largest loads first."""
    tenants = s.planned.tenants
    chosen = sorted(np.flatnonzero(hit).tolist(), key=lambda k: (-tenants.total[k], tenants.names[k]))
    more = f" and {len(chosen) - NAMED_TENANTS} more" if len(chosen) > NAMED_TENANTS else ""
    return ", ".join(tenants.names[k] for k in chosen[:NAMED_TENANTS]) + more


def _now(s: ReplicatedScenario) -> list[Finding]:
    """List what fails now, without any scenario."""
    planned, findings = s.planned, []
    lost = planned.lost_share[planned.rows.shard_of] > 0
    if planned.lost_share[0] > 0:
        findings.append(Finding("critical", "writes", f"{planned.lost_share[0]:.2%} of all keys cannot be written now"))
    if lost.any():
        findings.append(Finding("critical", "writes", f"tenants that lose writes now: {_names(s, lost)}"))
    reads = ~planned.reads_ok[planned.rows.read_of]
    if reads.any():
        findings.append(Finding("critical", "queries", f"tenants whose queries fail now: {_names(s, reads)}"))
    elif not planned.reads_ok[0]:
        findings.append(Finding("critical", "queries", "queries of tenants without a shard fail now"))
    return findings


def _of_each_node(s: ReplicatedScenario, context: Context) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return for each failing node how many more tenants lose writes, and queries, and the share of keys that is lost."""
    planned = s.planned
    counts = context.memo.value("tenant counts", s.planned_key, lambda: TenantCounts(planned), keep=KEEP)
    writes, reads = counts.writes_one - planned.tenants_write_lost, counts.reads_one - planned.tenants_read_lost
    return writes, reads, key_pairs(s, context).single


def not_survivable(s: ReplicatedScenario, context: Context) -> int | None:
    """Count the nodes whose failure alone takes tenants, or keys, down; None for an empty ring."""
    if not s.planned.ring.members or (s.planned.partitions is None and not s.planned.ring.total):
        return None
    writes, reads, shares = _of_each_node(s, context)
    return int(((writes > 0) | (reads > 0) | (shares > 0)).sum())


def _single_failures(s: ReplicatedScenario, context: Context) -> list[Finding]:
    """List the nodes whose failure alone takes tenants, or keys, down."""
    planned, rows = s.planned, s.planned.rows
    more_writes, more_reads, shares = _of_each_node(s, context)
    order = np.lexsort((np.arange(len(shares)), -more_reads, -more_writes, -shares))
    findings: list[Finding] = []
    hit = 0
    for k in order.tolist():
        writes, reads, share = int(more_writes[k]), int(more_reads[k]), float(shares[k])
        if writes <= 0 and reads <= 0 and share <= 0:
            continue
        hit += 1
        if hit <= MAX_NAMED:
            parts = []
            if share > 0:
                parts.append(f"{share:.2%} of all keys cannot be written")
            if writes > 0:
                parts.append(f"{writes} tenant{'s' if writes > 1 else ''} lose{'' if writes > 1 else 's'} writes")
            if reads > 0:
                failing = planned.with_failed(planned.failed | (np.arange(len(planned.failed)) == k))
                names = _names(s, ~failing.reads_ok[rows.read_of] & planned.reads_ok[rows.read_of])
                parts.append(f"queries of {reads} tenant{'s' if reads > 1 else ''} fail ({names})")
            name = planned.ring.ids[k]
            findings.append(Finding("severe", name, f"if it fails: {'; '.join(parts)}", ("nodes", (name,))))
    return _with_rest(findings, hit, "node", "single failures would not be survived")


def _zone_failures(s: ReplicatedScenario, context: Context) -> list[Finding]:
    """List the zones whose failure as a whole takes tenants or keys down."""
    planned = s.planned
    rows = planned.rows
    if len(s.zones) < 2:
        return []
    findings = []
    lost_now, reads_now = planned.lost_share[rows.shard_of] > 0, ~planned.reads_ok[rows.read_of]
    for zone, members in s.zones.items():
        context.check()
        failed = planned.failed.copy()
        failed[list(members)] = True
        after = planned.with_failed(failed)
        writes = (after.lost_share[rows.shard_of] > 0) & ~lost_now
        reads = ~after.reads_ok[rows.read_of] & ~reads_now
        share = float(after.lost_share[0] - planned.lost_share[0])
        parts = [f"{share:.2%} of all keys cannot be written"] if share > 0 else []
        if writes.any():
            parts.append(f"{int(writes.sum())} tenants lose writes ({_names(s, writes)})")
        if reads.any():
            parts.append(f"queries of {int(reads.sum())} tenants fail ({_names(s, reads)})")
        if parts:
            findings.append(Finding("moderate", f"zone:{zone}", f"if the zone fails: {'; '.join(parts)}"))
    return findings


def _structure(s: ReplicatedScenario, context: Context) -> list[Finding]:
    """List fragile settings and tokens."""
    planned, strategy = s.planned, replicated_ring(s.live)
    ring = planned.ring
    findings: list[Finding] = []

    def add(level: Level, subject: str, text: str) -> None:
        findings.append(Finding(level, subject, text))

    if strategy.replication == 2:
        add("moderate", "replication", "replication factor 2 tolerates nothing: a write needs both replicas")
    zones = [zone for zone in ring.tokens.zones if zone]
    if strategy.zone_aware and 0 < len(zones) < min(strategy.replication, 3):
        text = (
            f"{len(zones)} zones hold {len(zones)} replicas of factor {strategy.replication}: no failure is tolerated"
        )
        add("moderate", "zones", text)
    unsharded = int((planned.tenants.sizes <= 0).sum())
    if not strategy.zone_aware and len(ring.members) > 3 and strategy.replication >= 2:
        more = f" ({unsharded} tenants)" if unsharded else ""
        tolerated = strategy.replication // 2
        plural = "failures" if tolerated > 1 else "failure"
        add("moderate", "queries", f"without zones, queries of tenants without a shard{more} tolerate {tolerated} {plural} of "
            f"{len(ring.members)} nodes")  # fmt: skip
    findings += _aligned(s, context)
    missing = [m.id for m in ring.members if not m.tokens]
    if missing:
        add(
            "low",
            missing[0],
            f"{len(missing)} members have no tokens: they hold no keys, but queries still count them",
        )
    return findings


def _aligned(s: ReplicatedScenario, context: Context) -> list[Finding]:
    """Find pairs of nodes that share far more keys than others, such as equal numbers in spread-minimizing zones."""
    planned = s.planned
    ring, count = planned.ring, len(planned.ring.members)
    if count < 6 or len(ring.tokens.zones) < 2:
        return []
    pairs = key_pairs(s, context)
    i, j = np.triu_indices(count, 1)
    across = ring.tokens.zone_of[i] != ring.tokens.zone_of[j]
    i, j = i[across], j[across]
    lost = pairs.pairs(i, j) if len(i) else np.zeros(0)
    if not len(lost) or lost.max() <= 0:
        return []
    worst, median = int(lost.argmax()), float(np.median(lost))
    if lost[worst] < ALIGNED * max(median, 1e-9):
        return []
    why = "spread-minimizing tokens align the zones" if replicated_ring(s.live).spread else "their tokens are aligned"
    text = (
        f"{ring.ids[i[worst]]} and {ring.ids[j[worst]]} hold the same keys ({why}): both failing loses "
        f"{lost[worst]:.2%} of all keys, the median pair of two zones {median:.4%}"
    )
    return [Finding("moderate", "zones", text)]


def _partitions(s: ReplicatedScenario) -> list[Finding]:
    """List partitions with no owner that answers, or only one."""
    planned = s.planned
    assert planned.partitions is not None
    asked = np.zeros(len(planned.partitions.partitions), dtype=bool)
    for shard in planned.rows.reads:
        asked[shard] = True
    findings: list[Finding] = []
    for p, readers, needed in zip(
        planned.partitions.partitions, planned.partition_readers.tolist(), asked, strict=True
    ):
        if needed and readers == 0:
            findings.append(
                Finding("critical", f"partition {p.id}", "no owner answers: every query that needs it fails")
            )
        elif needed and readers == 1:
            findings.append(Finding("moderate", f"partition {p.id}", "only one owner answers for it"))
    return findings[:MAX_NAMED]


def token_problems(state: ReplicatedState) -> list[Problem]:
    """Report tokens that several members hold."""
    ring = state.placement.ring.tokens
    listed = sum(len(i.tokens) for i in ring.instances)
    label = state.cluster.ring.label if state.cluster.ring else ""
    if listed == len(ring.tokens):
        return []
    reason = (
        f"{listed - len(ring.tokens)} tokens are held by several members; the system picks one by chance, here it is one "
        "that is not LEAVING, then the smallest ID"
    )
    return [Problem.at(label, "token-conflict", reason)]
