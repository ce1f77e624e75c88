"""Findings of a ring with replicas: what is lost now, failures that would not be survived, drift of what is observed, and fragile
settings."""

from __future__ import annotations

from collections import Counter

import numpy as np
import polars as pl

from engine.core import units
from engine.core.reading import Problem
from engine.core.view import LEVELS, Context, Finding
from engine.ring_placement import tables
from engine.ring_placement.insight.findings import MAX_NAMED, member_findings, overloads, some, with_rest
from engine.ring_placement.parameters import RingParameters
from engine.ring_placement.scenarios.load_sources import by_address
from engine.ring_placement.scenarios.replica_rows import ReplicatedPlacement
from engine.ring_placement.scenarios.replica_sweeps import PairSums, tenant_counts
from engine.ring_placement.scenarios.scenario_state import KEEP, ReplicatedScenario, ReplicatedState, replicated_ring
from engine.ring_placement.scenarios.strategy import requests_lost

ALIGNED = 20.0  # the worst pair is a finding if it loses this many times what the median pair of two zones does


FEWEST = 20  # fewest expected series of a tenant on an instance that make it odd if there are none


def findings_of(
    s: ReplicatedScenario, p: RingParameters, observed: pl.DataFrame | None, context: Context
) -> list[Finding]:
    """List all findings: of the planned ring before the failure, overload in the scenario, drift (rows ``observed``)."""
    findings = [*context.memo.value("replica findings", s.planned_key, lambda: _of_ring(s, context), keep=KEEP)]
    findings += overloads(s, "number" if s.live.cluster.tenants.is_count else "bytes_per_s")
    return findings if observed is None else [*findings, *_drift_findings(observed)]


def _of_ring(s: ReplicatedScenario, context: Context) -> list[Finding]:
    planned = s.planned
    if not planned.ring.members:
        return [Finding("critical", "ring", "empty ring: no registered instance")]
    if planned.partitions is None and not planned.ring.total:
        return [Finding("critical", "ring", "empty ring: no member has tokens")]
    findings = [*(_too_few(s) or _now(s)), *_single_failures(s, context), *_zone_failures(s, context)]
    findings += _structure(s, context) if planned.partitions is None else _unread_partitions(s)
    findings += [*member_findings(s), *_assumptions(s)]
    return sorted(findings, key=lambda finding: -LEVELS.index(finding.level))


def key_pairs(s: ReplicatedScenario, context: Context) -> PairSums:
    """Sum up the share of all keys that each node and each pair loses."""
    return context.memo.value("key pairs", s.planned_key, lambda: PairSums.of_keys(s.planned), keep=KEEP)


def _tenants(s: ReplicatedScenario, hit: np.ndarray) -> str:
    """Count and name the tenants ``hit`` (bool), the largest loads first; "" without any."""
    tenants = s.planned.tenants
    chosen = sorted(np.flatnonzero(hit).tolist(), key=lambda k: (-tenants.total[k], tenants.names[k]))
    if not chosen:
        return ""
    return f"{len(chosen)} tenant{'s' if len(chosen) > 1 else ''} ({some([tenants.names[k] for k in chosen])})"


def _keys_lost(s: ReplicatedScenario, share: float, up_to: str = "") -> str:
    """Say what a ``share`` of lost keys means for keys and for requests; "" for none."""
    if share <= 0:
        return ""
    series = replicated_ring(s.live).settings.request_series
    failing = units.share(requests_lost(share, series))
    return f"writes of {up_to}{units.share(share)} of keys fail, so {failing} of requests of {series:,} series do"


def _effects(s: ReplicatedScenario, after: ReplicatedPlacement, share: float, up_to: str = "") -> str:
    """Say what is lost in the placement ``after`` that is not lost now, and what more ``share`` of keys; "" for nothing."""
    now = s.planned
    writes, reads = _newly_hit(now, after)
    parts = (
        _queries_lost(s, reads, bool(now.reads_ok[0] and not after.reads_ok[0])),
        _keys_lost(s, share, up_to),
        f"writes of {_tenants(s, writes)} fail" if writes.any() else "",
    )
    return "; ".join(filter(None, parts))


def _newly_hit(now: ReplicatedPlacement, after: ReplicatedPlacement) -> tuple[np.ndarray, np.ndarray]:
    """Return which tenants lose writes, and queries, in the placement ``after``, and do not ``now`` (bool)."""
    rows = now.rows
    writes = (after.lost_share[rows.shard_of] > 0) & ~(now.lost_share[rows.shard_of] > 0)
    return writes, ~after.reads_ok[rows.read_of] & now.reads_ok[rows.read_of]


def _queries_lost(s: ReplicatedScenario, hit: np.ndarray, whole: bool) -> str:
    """Say whose queries fail: those of the tenants ``hit`` (bool), and of the ``whole`` ring; "" if nobody's do."""
    who = [_tenants(s, hit)] * bool(hit.any()) + ["the whole ring"] * whole
    return f"queries of {' and of '.join(who)} fail" if who else ""


def _missing(s: ReplicatedScenario) -> str:
    """Say what would bring back what is lost: the members that do not answer, and those that are starting or stopping."""
    late = {m.id for m in s.members if m.state == "UNHEALTHY"}
    away = [m for m, takes in zip(s.planned.ring.members, s.planned.ring.active, strict=True) if not takes]
    gone, busy = [m.id for m in away if m.id in late], [f"{m.id} ({m.state})" for m in away if m.id not in late]
    back = f"; bring back or forget {some(gone)}" if gone else ""
    return f"{back}; wait until {some(busy)} {'are' if busy[1:] else 'is'} ACTIVE or gone" if busy else back


def _holders(s: ReplicatedScenario) -> tuple[int, str]:
    """Count what can hold one replica each: zones, or members where these are not limited to one per zone; and name it."""
    ring = s.planned.ring
    zones = {m.zone for m in ring.members if m.tokens}
    by_zone = replicated_ring(s.live).settings.zone_aware and "" not in zones
    return (len(zones), "zone") if by_zone else (len(ring.members), "member")


def _too_few(s: ReplicatedScenario) -> list[Finding]:
    """Tell of a token ring that has fewer members, or zones, than a write needs."""
    strategy = replicated_ring(s.live)
    have, unit = _holders(s)
    needs = strategy.settings.replication // 2 + 1
    if s.planned.partitions is not None or have >= needs:
        return []
    text = (
        f"{have} {unit}{'s' if have > 1 else ''} at {strategy.settings.factor}: a write needs {needs}, so every write fails; "
        f"start {needs - have} more, or set replication_factor: {have}"
    )
    return [Finding("critical", "ring", text)]


def _now(s: ReplicatedScenario) -> list[Finding]:
    planned, findings = s.planned, []
    lost, hit = _keys_lost(s, float(planned.lost_share[0])), planned.lost_share[planned.rows.shard_of] > 0
    unread = ~planned.reads_ok[planned.rows.read_of]
    reads = _queries_lost(s, unread, not planned.reads_ok[0])
    if lost or hit.any():
        parts = [lost.removeprefix("writes of ")] if lost else []
        parts += [f"{'writes' if lost else 'those'} of {_tenants(s, hit)} fail"] if hit.any() else []
        idle = "; no partition is Active, and only such take writes: set one Active on the page of the partition ring"
        text = "; ".join(parts) + (_missing(s) if planned.partitions is None else idle) + _larger_shards(s, hit)
        findings.append(Finding("critical", "writes", text))
    if reads:
        text = f"{reads.replace('queries of', 'those of', 1)}: {_why_unread(s, unread)}{_missing(s)}"
        findings.append(Finding("critical", "queries", text + _larger_shards(s, unread)))
    return findings


def _why_unread(s: ReplicatedScenario, hit: np.ndarray) -> str:
    """Say why queries of the whole ring fail, or else those of the first of the tenants ``hit`` (bool)."""
    planned, strategy = s.planned, replicated_ring(s.live)
    if planned.partitions is not None:
        return "a partition has no owner that answers"
    shard = planned.rows.reads[0] if not planned.reads_ok[0] else planned.rows.reads[planned.rows.read_of[hit][0]]
    members = [planned.ring.members[k] for k in shard.tolist()]
    reading, replication = planned.ring.reading[shard], strategy.settings.replication
    needed = max(len(members), replication) - replication // 2
    if strategy.settings.zone_aware and needed <= len(members):
        away = sorted({m.zone for m, ok in zip(members, reading, strict=True) if not ok})
        where = f"members of {units.plural(len(away), 'zone')} ({some(away)})"
        return f"{where} do not answer, {min(len(s.zones), replication) // 2} may be missing"
    if planned.reads_ok[0]:
        return f"a shard has {int(reading.sum())} of the {needed} members that must answer"
    return f"{int(reading.sum())} of {len(members)} members answer, {needed} must"


def _of_each_node(s: ReplicatedScenario, context: Context) -> tuple[np.ndarray, ...]:
    """Return for each failing node how many more tenants lose writes, and queries ("no shard" is one), whether queries of the
    whole ring fail that do not now, and the share of keys that is lost."""
    planned = s.planned
    counts = context.memo.value("tenant counts", s.planned_key, lambda: tenant_counts(planned), keep=KEEP)
    writes, reads, whole = (np.diag(count) for count in counts)
    _, writes_now, reads_now, reads_ok = planned.losses
    return writes - writes_now, reads - reads_now, whole & reads_ok, key_pairs(s, context).single


def not_survivable(s: ReplicatedScenario, context: Context) -> int | None:
    """Count the nodes with whose failure alone tenants or keys are lost, all where some are lost already; None for an empty
    ring."""
    if not s.planned.ring.members or (s.planned.partitions is None and not s.planned.ring.total):
        return None
    if any(s.planned.losses[:3]):
        return len(s.planned.ring.members)
    writes, reads, _, shares = _of_each_node(s, context)
    return int(((writes > 0) | (reads > 0) | (shares > 0)).sum())


def _single_failures(s: ReplicatedScenario, context: Context) -> list[Finding]:
    """List the nodes whose failure alone takes tenants, or keys, down: one finding for all that have the same effect."""
    planned = s.planned
    more_writes, more_reads, whole, shares = _of_each_node(s, context)
    order = np.lexsort((np.arange(len(shares)), -more_reads, -more_writes, -shares))
    alike: dict[tuple[bool, ...], list[int]] = {}
    for k in order.tolist():
        if shares[k] > 0 or more_writes[k] > 0 or more_reads[k] > 0:
            alike.setdefault((bool(more_reads[k] > 0), bool(whole[k])), []).append(k)
    findings = []
    for nodes in alike.values():
        worst, names = nodes[0], [planned.ring.ids[n] for n in nodes]
        after = planned.with_failed(planned.failed | (np.arange(len(planned.failed)) == worst))
        effects = _effects(s, after, float(shares[worst]), "up to " if len(nodes) > 1 else "")
        effects += _remedy(s, np.logical_or(*_newly_hit(planned, after)))
        subject, text = names[0], f"if it fails, {effects}"
        if len(names) > 1:
            subject = f"{len(names)} of {len(planned.ring.members)} nodes"
            text = f"if one of them fails, {effects}; worst first: {some(names)}"
        findings.append(Finding("severe", subject, text, ("nodes", (names[0],))))
    return findings


def _remedy(s: ReplicatedScenario, hit: np.ndarray) -> str:
    """Say what would make the ring, and the tenants ``hit`` (bool), survive a single failure."""
    strategy = replicated_ring(s.live)
    if s.planned.partitions is not None:
        return "; give each partition a second owner"
    have, unit = _holders(s)
    lacking = max(strategy.settings.replication, 3) // 2 + 2 - have  # a write needs one fewer
    verb = "add" if unit == "zone" else "start"
    start = f"{verb} {lacking} more {unit}{'s' if lacking > 1 else ''}" if lacking > 0 else ""
    if strategy.settings.replication < 3:
        needs = "keeps one copy" if strategy.settings.replication == 1 else "needs both copies"
        start = f"; {strategy.settings.factor} {needs}: {f'{start} and ' if start else ''}set replication_factor: 3"
        return start + _larger_shards(s, hit)
    return f"; {start}" if start else _larger_shards(s, hit) or _missing(s)


def _larger_shards(s: ReplicatedScenario, hit: np.ndarray) -> str:
    """Say which of the tenants ``hit`` (bool) have shards with fewer members than a key has replicas, and the size to set."""
    planned, settings = s.planned, replicated_ring(s.live).settings
    size, members = max(settings.replication, 3), np.array([len(shard) for shard in planned.rows.shards])
    small = hit & (planned.tenants.sizes > 0) & (members[planned.rows.shard_of] < size)
    if planned.partitions is not None or not small.any():
        return ""
    name = "ingestion.tenant_shard_size" if settings.system == "Tempo" else "ingestion_tenant_shard_size"
    sizes = np.unique(planned.tenants.sizes[small])
    before = f" from {sizes[0]}" if len(sizes) == 1 else ""
    return f"; raise {name} of {_tenants(s, small)}{before} to {size}"


def _zone_failures(s: ReplicatedScenario, context: Context) -> list[Finding]:
    """List the zones whose failure as a whole takes tenants or keys down."""
    planned, findings = s.planned, []
    for zone, members in s.zones.items() if len(s.zones) > 1 else ():
        context.check()
        failed = planned.failed.copy()
        failed[list(members)] = True
        after = planned.with_failed(failed)
        effects = _effects(s, after, float(after.lost_share[0] - planned.lost_share[0]))
        if effects:
            subject, text = (
                (f"zone:{zone}", "if the zone fails") if zone else ("members without a zone", "if all of them fail")
            )
            findings.append(Finding("moderate", subject, f"{text}, {effects}"))
    return findings


def _assumptions(s: ReplicatedScenario) -> list[Finding]:
    """Name the settings that decide verdicts and that nothing in the files gives."""
    settings = replicated_ring(s.live).settings
    if settings.doubt:
        text = f"{settings.doubt}; {settings.factor}; correct or remove the file, or set -o replication-factor="
        return [Finding("moderate", "settings", text)]
    if settings.choice:
        return [Finding("low", "settings", f"{settings.choice}; remove what is not in force")]
    if replicated_ring(s.live).unheard:
        text = "assumed healthy: no ring of ingesters is in the files; add the output of curl http://…/ingester/ring"
        return [Finding("moderate", "owners of partitions", text)]
    if s.planned.partitions is not None or not settings.assumed:
        return []
    why = f"{settings.system}'s default" if settings.system else "the files name no system"
    text = f"{settings.assumed}, {why}; add the output of curl http://…/config, or set -o replication-factor="
    return [Finding("low", "settings", text)]


def _structure(s: ReplicatedScenario, context: Context) -> list[Finding]:
    ring, settings = s.planned.ring, replicated_ring(s.live).settings
    replication, most = settings.replication, settings.replication // 2
    zones, homeless = len({m.zone for m in ring.members if m.tokens}), [m.id for m in ring.members if not m.zone]
    findings = _aligned(s, context)
    if settings.zone_aware and not homeless:
        findings += _uneven_zones(s)
        if replication > 2 and 1 < zones == most + 1:
            text = f"{zones} hold {zones} replicas of factor {replication}: no failure is tolerated; add 1 more zone"
            findings.append(Finding("moderate", "zones", text))
    elif settings.zone_aware and zones > 1:
        text = "without a zone, but others have one: several replicas of a key may lie there; set instance_availability_zone"
        findings.append(Finding("moderate", some(homeless), text, ("nodes", (homeless[0],))))
    if not settings.zone_aware and len(ring.members) > 3 and replication >= 2 and s.planned.reads_ok[0]:
        text = f"without zones, those of the whole ring survive {most} missing of {len(ring.members)} nodes, not {most + 1}"
        findings.append(Finding("moderate", "queries", text))
    for names, what in (
        ([m.id for m in ring.members if not m.tokens],
            "without tokens: no key is placed there, but queries still count"),
        ([m.id for m in ring.members if m.read_only],
            "read-only: new data of tenants is written elsewhere, but shares of the whole ring still count"),
    ):  # fmt: skip
        if names:
            findings.append(Finding("low", some(names), f"{what} {'them' if names[1:] else 'it'}"))
    return findings


def _uneven_zones(s: ReplicatedScenario) -> list[Finding]:
    """Find the zone whose nodes hold far more keys each than those of others, as it has fewer of them."""
    share, sizes = s.planned.share, Counter(m.zone for m in s.planned.ring.members if m.tokens)
    if not share.any() or max(sizes.values()) < 2 * min(sizes.values()):
        return []
    fewest, most = min(sizes, key=lambda zone: sizes[zone]), max(sizes.values())
    times = share[list(s.zones[fewest])].max() / share[share > 0].mean()
    text = f"{units.plural(sizes[fewest], 'node')} where another zone has {most}: up to {times:.2f} × the mean share of keys each"
    text += f"; start {most - sizes[fewest]} more there"
    return [Finding("moderate", f"zone:{fewest}", text, ("nodes", (s.planned.ring.ids[s.zones[fewest][0]],)))]


def _aligned(s: ReplicatedScenario, context: Context) -> list[Finding]:
    """Find pairs of nodes that share far more keys than others, such as equal numbers in spread-minimizing zones."""
    planned = s.planned
    ring, count = planned.ring, len(planned.ring.members)
    if count < 6 or len(ring.tokens.zones) < 2:
        return []
    zone_of = ring.tokens.zone_of
    i, j = np.nonzero(np.triu(zone_of[:, None] != zone_of[None, :], 1))
    lost = key_pairs(s, context).matrix()[i, j]
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


def _unread_partitions(s: ReplicatedScenario) -> list[Finding]:
    planned = s.planned
    assert planned.partitions is not None
    asked = np.zeros(len(planned.partitions.partitions), dtype=bool)
    for shard in planned.rows.reads:
        asked[shard] = True
    silent = np.flatnonzero(asked & (planned.partition_readers == 0)).tolist()
    if not silent:
        return []
    unread = [str(planned.partitions.ids[k]) for k in silent]
    subject = f"partition {unread[0]}" if len(unread) == 1 else f"{len(unread)} partitions"
    which = "" if len(unread) == 1 else f" ({some(unread)})"
    absent = sorted({o for k in silent for o in planned.partitions.partitions[k].owners} - set(planned.ring.ids))
    start = f"; start {some(absent)}, not in the ring of ingesters" if absent else ""
    return [Finding("critical", subject, f"no owner answers{which}: every query that needs it fails{start}")]


def drift_table(state: ReplicatedState) -> tuple[pl.DataFrame | None, list[str]]:
    """Build table ``observed`` of a ring with replicas, and notes on it; None where nothing was observed.

    A row is what an ingester reports of a tenant, what it should have, and whether the tenant's queries ask it. Series stay for
    hours after a shard has changed; the lookback allows for that.
    """
    seen = state.cluster.tenants.observed
    if not seen.height:
        return None, []
    placement, members = state.placement, state.placement.ring.members
    names = pl.DataFrame(
        {"instance": placement.ring.ids, "member": range(len(members))}, schema_overrides={"member": pl.Int64}
    )
    numbers = pl.DataFrame({"tenant": placement.tenants.names, "number": range(len(placement.tenants.names))},
                           schema={"tenant": pl.String, "number": pl.Int64})  # fmt: skip
    pairs = (
        seen.with_columns(by_address(members))
        .group_by("tenant", "instance", maintain_order=True)
        .agg(pl.col("load").sum())
    )
    pairs = pairs.join(names, on="instance", how="left").join(numbers, on="tenant", how="left")
    if not pairs["member"].is_not_null().any():
        return tables.OBSERVED.empty(), ["ingesters' metrics name no member of the ring: drift is not checked"]
    expected = _expected(state)
    if expected is not None:
        reporting = (
            pairs.select("instance", "member").unique(maintain_order=True).filter(pl.col("member").is_not_null())
        )
        wanted = expected.filter(pl.col("expected") >= FEWEST).join(reporting, on="member", how="inner")
        absent = wanted.join(pairs, on=["number", "member"], how="anti").join(numbers, on="number", how="left")
        pairs = pl.concat([pairs, absent.select("tenant", "instance", pl.lit(0.0).alias("load"), "member", "number")])
        pairs = pairs.join(expected, on=["number", "member"], how="left")
    asked = pairs.select("number", "member").join(_asked(placement), on=["number", "member"], how="left")["asked"]
    drift = (
        pl.when(pl.col("member").is_null())
        .then(pl.lit("unknown-instance"))
        .when(pl.col("load") <= 0)
        .then(pl.when(pl.col("expected") >= FEWEST).then(pl.lit("missing")).otherwise(pl.lit("")))
        .when(~pl.col("in_range"))
        .then(pl.lit("outside-shard"))
        .otherwise(pl.lit(""))
    )
    if expected is None:
        pairs = pairs.with_columns(pl.lit(None, pl.Float64).alias("expected"))
    frame = pairs.with_columns(
        pl.lit("series").alias("source"),
        pl.col("load").round().cast(pl.Int64).alias("bytes"),
        asked.fill_null(False).alias("in_range"),
    )
    frame = frame.with_columns(drift.alias("drift"), pl.col("expected").round().cast(pl.Int64))
    return tables.OBSERVED.sorted(tables.OBSERVED.frame(frame.drop("member", "number", "load"))), []


def _expected(state: ReplicatedState) -> pl.DataFrame | None:
    """Return the expected series of each tenant (``number``) on each instance (``member``); None if loads come from another
    source, or if there are too many to list."""
    placement = state.placement
    shares = placement.rows.shares
    if state.cluster.tenants.source != "series" or shares is None:
        return None
    shard, member = np.nonzero(shares)
    held = pl.DataFrame({"shard": shard, "member": member, "share": shares[shard, member]})
    loads = pl.DataFrame({"shard": placement.rows.shard_of, "number": np.arange(len(placement.tenants.names)),
                          "load": placement.tenants.total})  # fmt: skip
    both = loads.join(held, on="shard", how="inner", maintain_order="left_right")
    return both.select("number", "member", (pl.col("load") * pl.col("share")).alias("expected"))


def _asked(placement: ReplicatedPlacement) -> pl.DataFrame:
    reads = placement.rows.reads
    if placement.partitions is not None:
        owners = placement.partitions.owners_among(placement.ring.ids)
        reads = tuple(np.unique(np.array([m for p in shard for m in owners[p]], dtype=np.int64)) for shard in reads)
    shards = pl.DataFrame({
        "shard": np.repeat(np.arange(len(reads)), [len(members) for members in reads]),
        "member": np.concatenate([np.empty(0, np.int64), *reads]).astype(np.int64),
    })  # fmt: skip
    tenants = pl.DataFrame({"shard": placement.rows.read_of, "number": np.arange(len(placement.rows.read_of))})
    return tenants.join(shards, on="shard", how="inner").select("number", "member", pl.lit(True).alias("asked"))


def _drift_findings(observed: pl.DataFrame) -> list[Finding]:
    """List tenants on ingesters that should not have them, and tenants missing on ingesters; the largest differences by name."""
    drifted = observed.filter(pl.col("drift") != "").sort(
        pl.max_horizontal("bytes", "expected"), "tenant", "instance", descending=[True, False, False]
    )
    findings = []
    for row in drifted.head(MAX_NAMED).iter_rows(named=True):
        text = {
            "outside-shard": f"{row['instance']} has {row['bytes']} of it, but its queries do not ask there",
            "missing": f"{row['instance']} has none of it but should have about {row['expected']}",
            "unknown-instance": f"{row['instance']} has {row['bytes']} of it but is not a member of the ring",
        }[row["drift"]]
        findings.append(Finding("moderate", f"drift {row['tenant']}", text))
    return with_rest(findings, drifted.height, "drift", "pairs differ from the ring")


def problems_of(state: ReplicatedState) -> list[Problem]:
    """Report tokens that several members hold, and a ring without any."""
    ring = state.placement.ring.tokens
    listed = sum(len(i.tokens) for i in ring.instances)
    label = state.cluster.ring.label if state.cluster.ring else ""
    if not listed and ring.instances and state.placement.partitions is None:
        return [Problem.at(label, "no-tokens", "no member of the ring has tokens: they own no key")]
    if listed == len(ring.tokens):
        return []
    reason = (
        f"{listed - len(ring.tokens)} tokens are held by several members; the system picks one by chance, here it is one "
        "that is not LEAVING, then the smallest ID"
    )
    return [Problem.at(label, "token-conflict", reason)]
