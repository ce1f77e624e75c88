"""Ring placement: which writer holds which tenant's data, how even the load is, and what a failure does to the others.

The story: the files become one cluster (``reading``), whose load is placed on its kind of ring: as Pyroscope's segment writers
do (``pyroscope``), or as the rings of Mimir, Loki and Tempo do (``dskit``); both behind one seam (``scenarios.strategy``). The
parameters change the ring or let members fail (``scenarios``), what goes beyond these systems is derived from that
(``insight``), and all of it becomes tables and texts (``result``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import isqrt
from typing import Any

import msgspec
import polars as pl

from engine.core import units
from engine.core.inputs import Inputs
from engine.core.problems import Problem, fold
from engine.core.result import Finding, Headline, Level, Result, Trend
from engine.core.view import Context, NoInput
from engine.ring_placement import tables
from engine.ring_placement.insight.drift import drift_findings, observed_table, observed_tenants
from engine.ring_placement.insight.explain import (
    BadKey,
    Step,
    explain_asked,
    explain_key,
    parse_asked,
    parse_key,
    sizes_table,
)
from engine.ring_placement.insight.findings import (
    many_shards,
    minimum_capacity,
    not_survivable,
    replica_findings,
    segment_findings,
    token_problems,
)
from engine.ring_placement.insight.next_rules import strategy_table
from engine.ring_placement.parameters import RingParameters
from engine.ring_placement.pyroscope.limits import DEFAULTS, policy_of
from engine.ring_placement.reading.document import columns_of
from engine.ring_placement.reading.kinds import KINDS
from engine.ring_placement.result import replica_summary, replica_tables
from engine.ring_placement.result.detail import NodeBar, ShardMapView, shard_map_view
from engine.ring_placement.result.gauges import GAUGES
from engine.ring_placement.result.layout_tables import member_table, node_table, other_rings, ring_names, shard_table
from engine.ring_placement.result.placements_table import placements_table
from engine.ring_placement.result.segment_tenants import segment_tenant_table
from engine.ring_placement.result.summary import headline_of, state_notes, summary_of
from engine.ring_placement.result.sweep_tables import restart_table, sweep_note, sweep_of, sweep_table
from engine.ring_placement.scenarios.cluster import Cluster, RingFile
from engine.ring_placement.scenarios.scenario_state import (
    KEEP,
    LiveState,
    ReplicatedScenario,
    SegmentScenario,
    apply_scenario,
    live_state,
    replicated_ring,
)

KEYED = frozenset({"load-table", "key-table", "block"})
"""The kinds of files that grow with the number of keys."""
MEMORY_PER_BYTE = 2.5
"""Bytes of memory for each byte of such a file: measured with 10 million keys, 1.3 of CSV with long names and 5.7 of Parquet."""
BYTES_PER_PAIR = 48
"""Bytes of memory for each pair of a ring's members, which may fail together: measured with 3,000 to 6,000 members, 40."""
PAIRS_SHARE = 4
"""Part of the memory that they may take: one in so many."""


class RingPlacement:
    """The view (see ``engine.core.view.View``)."""

    name = "ring-placement"
    title = "Ring placement"
    kinds: Sequence[Any] = KINDS
    gauges = GAUGES
    parameters = RingParameters
    tables = tables.RESULTS
    fail_on: Level = "severe"

    def compute(self, inputs: Inputs, parameters: RingParameters, context: Context) -> Result:
        """Place the load of the newest files, or of those of a moment, and apply the scenario. Raises NoInput without a ring and
        any load."""
        asked_ms, newest = context.at_ms, inputs
        inputs, at_ms = inputs.as_of(asked_ms)
        inputs, left_out = inputs.within(context.memory, MEMORY_PER_BYTE, KEYED)
        context = replace(context, at_ms=at_ms)
        state = live_state(inputs, parameters, context)
        cluster = state.cluster
        if cluster.ring is None and not any(x.height for x in (cluster.observed, cluster.stats, cluster.load)):
            raise NoInput("no ring page, memberlist key, stats, metrics, blocks or load table")
        missing = _not_placeable(cluster.ring, context.memory) if cluster.ring is not None else None
        if missing is not None:
            made = _members_only(state, *missing)
        elif cluster.ring is not None and cluster.ring.strategy != "segment-writer":
            made = _of_replicas(apply_scenario(state, parameters, context), parameters, context)
        else:
            p = parameters
            if p.regime == "unhealthy":  # writers whose heartbeat is too old are out of the layout at once
                p = msgspec.structs.replace(p, regime="left")
            made = _of_segments(apply_scenario(state, p, context), p, context)
        hottest = made.summary.get("max_over_mean")
        return Result(
            self.name,
            made.summary,
            {table.name: made.frames[table.name] for table in tables.RESULTS if table.name in made.frames},
            headline=made.headline,
            findings=tuple(made.findings),
            notes=(*made.notes, *left_out),
            problems=fold([*inputs.problems, *made.problems]),
            newest_ms=inputs.newest_ms,
            at_ms=asked_ms,
            detail=replace(made.detail, moments=_moments(newest, cluster) if asked_ms is None else ()),
            trend=None if hottest is None else Trend("hottest / mean", (hottest,)),
        )

    def upstream(self, result: Result, parameters: Any) -> str | None:
        """Return None: Pyroscope prints nothing of this."""
        return None


@dataclass(frozen=True)
class _Made:
    """What one kind of ring gives of a result."""

    summary: dict[str, Any]
    frames: dict[str, pl.DataFrame]
    headline: tuple[Headline, ...]
    findings: list[Finding]
    notes: list[str]
    problems: list[Problem]
    detail: ShardMapView


def _moments(inputs: Inputs, cluster: Cluster) -> tuple[int, ...]:
    """Return the times (epoch ms) of all rings that can be shown, the present one last: those that the files hold, and the
    versions seen before they were overwritten."""
    times = cluster.ring.times_ms if cluster.ring is not None else ()
    if not inputs.past:
        return times
    seen = (*(snapshot.since_ms for snapshot in inputs.past), inputs.since_ms)
    return (*(time for time in times[:-1] if time < seen[0]), *seen)


def _of_segments(s: SegmentScenario, p: RingParameters, context: Context) -> _Made:
    """Make the answers of a ring of segment writers."""
    state, memo = s.live, context.memo
    cluster = state.cluster
    context.check()
    notes = [*sweep_note(s, p), *state_notes(s, p), *cluster.notes, *s.notes]
    problems = [*s.problems, *many_shards(state)]
    frames = {
        "nodes": node_table(s),
        "tenants": segment_tenant_table(s, memo),
        "shards": shard_table(s, context),
        "placements": placements_table(s, p, memo, notes),
        "observed": memo.value("observed", state.key, lambda: observed_table(cluster, state.placement.ring), keep=KEEP),
    }
    if cluster.stats.height:
        frames["strategy"] = memo.value("strategy", state.key, lambda: strategy_table(state), keep=KEEP)
    sweep = sweep_of(s, p, context) if p.sweep else None
    if sweep is not None:
        frames["sweep"] = sweep_table(s, p, sweep, memo)
    if p.explain is not None:
        _add_steps(frames, problems, *_explained(s, p, p.explain))
    findings = segment_findings(s, p, frames["observed"], context)
    summary = summary_of(s, p, frames["observed"], minimum_capacity(s, p, context), sweep, memo)
    return _Made(summary, frames, headline_of(s, summary), findings, notes, problems, shard_map_view(s, p))


def _of_replicas(s: ReplicatedScenario, p: RingParameters, context: Context) -> _Made:
    """Make the answers of a token ring or a partition ring."""
    context.check()
    notes = [*sweep_note(s, p), *replica_summary.state_notes(s, p), *s.live.cluster.notes, *s.notes]
    problems = [*s.problems, *token_problems(s.live)]
    frames = {
        "nodes": replica_tables.node_table(s, context),
        "tenants": replica_tables.tenant_table(s),
    }
    if s.live.cluster.tenants.observed.height:
        drifted: list[str] = []
        make = lambda: (observed_tenants(s.live, drifted), drifted)  # noqa: E731
        frames["observed"], more = context.memo.value("observed", s.live.key, make, keep=KEEP)
        notes += more
    if len(s.planned.tenants.key_token):
        frames["placements"] = replica_tables.placements_table(s, p, notes)
    partitions = replica_tables.partition_table(s)
    if partitions is not None:
        frames["partitions"] = partitions
    sweep = sweep_of(s, p, context) if p.sweep else None
    if sweep is not None:
        frames["sweep"] = sweep_table(s, p, sweep, context.memo)
    if p.sweep == "leaving":
        frames["restart"] = restart_table(s, context)
    if p.explain is not None:
        try:
            asked = parse_asked(p.explain, replicated_ring(s.live).without_le)
        except BadKey as error:
            _add_steps(frames, problems, [], str(error))
        else:
            _add_steps(frames, problems, explain_asked(asked, s, p), "")
            frames["sizes"] = sizes_table(asked, s, p, context)
    findings = [*replica_findings(s, context), *drift_findings(frames.get("observed"))]
    summary = replica_summary.summary_of(s, p, sweep)
    summary["unsurvivable_single_failures"] = not_survivable(s, context)
    if "observed" in frames:
        summary["drift_pairs"] = int((frames["observed"]["drift"] != "").sum())
    headline = replica_summary.headline_of(s, summary)
    return _Made(summary, frames, headline, findings, notes, problems, replica_summary.ring_view(s, p, context))


def _not_placeable(ring: RingFile, memory: int) -> tuple[str, str, str] | None:
    """Return why nothing can be placed on ``ring``, what kind of ring it is, and the basis of that; None if all is there."""
    if not ring.strategy:
        if ring.component:
            return ring.why, f"of the {ring.component}", "it takes no writes"
        ask = "-o strategy=segment-writer (Pyroscope) or -o strategy=token-ring (Mimir, Loki, Tempo) says it"
        return f"the kind of this ring is unknown ({ring.why}): {ask}", "of unknown kind", ask
    kind = replica_summary.KIND_NAMES.get(ring.strategy, ring.strategy)
    if lacks_tokens(ring):
        hint = "the page gives the number of tokens only, not which; saved with ?tokens=true it has them"
        return hint, kind, f"{hint}; {ring.why}"
    most = isqrt(memory // PAIRS_SHARE // BYTES_PER_PAIR)
    if len(ring.members) > most:
        count = len(ring.members)
        why = f"the pairs of {count:,} members take more memory than there is: {most:,} members at most (memory-mb)"
        return why, kind, f"{why}; {ring.why}"
    return None


def lacks_tokens(ring: RingFile) -> bool:
    """Whether the file of a token ring tells no token of any member."""
    have = [m for m in ring.members if m.tokens]
    return ring.strategy == "token-ring" and bool(have) and all(m.values is None for m in have)


def _members_only(state: LiveState[Any], why: str, kind: str, basis: str) -> _Made:
    """Make the answer for a ring that cannot be placed: its members, and what is missing."""
    ring = state.cluster.ring
    assert ring is not None
    reason = f"{why}; nothing is placed until then"
    summary = {"strategy": "", "members": len(state.members), "healthy": 0, "regime": "transient", "down": [],
               "now_ms": state.now_ns // 1_000_000, **ring_names(state.cluster)}  # fmt: skip
    headline: tuple[Headline, ...] = (
        Headline("ring", kind, basis, "severe"),
        Headline("members", str(len(state.members)), f"{sum(m.tokens for m in state.members)} tokens"),
    )
    most = max(state.members, key=lambda m: m.owned or 0.0, default=None)
    if most is not None and most.owned is not None:
        headline = (
            *headline,
            Headline("owns most", units.share(most.owned), f"{most.id}, as the page says"),
        )
    bars = tuple(NodeBar(m.id, m.zone, None, "") for m in state.members)
    detail = ShardMapView(bars, (), (), (), "transient", (), kind="")
    return _Made(summary, {"nodes": member_table(state)}, headline, [Finding("severe", "ring", reason)],
                 [f"ring: {ring.label} ({ring.kind})", *other_rings(ring), reason], [], detail)  # fmt: skip


def _add_steps(frames: dict[str, pl.DataFrame], problems: list[Problem], steps: list[Step], error: str) -> None:
    """Add table ``explain_key``, or why there is nothing to explain_key."""
    rows = [(number, *step) for number, step in enumerate(steps, 1)]
    frames["explain"] = tables.EXPLAIN.frame(columns_of(tables.EXPLAIN, rows))
    if error:
        problems.append(Problem.at("-o explain", "bad-option", error))


def _explained(s: SegmentScenario, p: RingParameters, text: str) -> tuple[list[Step], str]:
    """Explain the key ``text``. Returns the steps and "", or no steps and why it is no key."""
    try:
        key = parse_key(text)
    except BadKey as error:
        return [], str(error)
    cluster = s.live.cluster
    policy = policy_of(key.tenant, key.dataset, cluster.rules, cluster.limits, DEFAULTS)
    policy = policy.with_limits(p.tenant_shards, p.dataset_shards)
    return explain_key(key, s.planned.ring, frozenset(s.down), policy), ""


VIEW = RingPlacement()
