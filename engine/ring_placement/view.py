"""Ring placement: which writer holds which tenant's data, how even the load is, and what a failure does to the others.

The story: the files become one cluster (``reading``), whose load is placed on its kind of ring, as Pyroscope's segment writers
do (``pyroscope``) or as Mimir, Loki and Tempo do (``dskit``). The parameters change the ring or let members fail
(``scenarios``, behind ``strategy.Strategy``); ``insight`` derives what these systems do not say; ``result`` makes tables and
texts of it (``segments`` and ``replicas``, behind ``answers.Answers``).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from math import isqrt
from typing import Any

import msgspec
import polars as pl

from engine.core import units
from engine.core.reading import Problem, fold
from engine.core.view import LEVELS, Context, Finding, Headline, Inputs, Level, NoInput, Result, Trend
from engine.ring_placement import tables
from engine.ring_placement.insight.explain import BadKey, Step
from engine.ring_placement.parameters import RingParameters
from engine.ring_placement.reading.bucket_files import Blocks, PlacementRules, PlacementStats
from engine.ring_placement.reading.configuration import Configuration
from engine.ring_placement.reading.document import columns_of
from engine.ring_placement.reading.load_table import KeyTable, LoadTable, Metrics
from engine.ring_placement.reading.ring_exports import PartitionBinary, PartitionPage, RingHtml, StoreExport
from engine.ring_placement.reading.ring_files import Memberlist, MemberlistBinary, RingPage
from engine.ring_placement.result import replicas, segments
from engine.ring_placement.result.answers import (
    GAUGES,
    KIND_NAMES,
    Answers,
    member_table,
    other_rings,
    ring_names,
    sweep_note,
    sweep_of,
    sweep_table,
)
from engine.ring_placement.result.detail import NodeBar, ShardMapView
from engine.ring_placement.scenarios.cluster import Cluster, RingFile
from engine.ring_placement.scenarios.scenario_state import KEEP, LiveState, apply_scenario, live_state
from engine.ring_placement.scenarios.strategy import P

KINDS: tuple[Any, ...] = (
    RingPage(),
    Memberlist(),
    PartitionPage(),
    RingHtml(),
    StoreExport(),
    PlacementRules(),
    PlacementStats(),
    Blocks(),
    LoadTable(),
    KeyTable(),
    Configuration(),
    Metrics(),
    PartitionBinary(),
    MemberlistBinary(),
)
"""Every reader of this view (``engine.core.reading.FileKind``)."""


KEYED = frozenset({"load-table", "key-table", "block"})  # the kinds of files that grow with the number of keys
MEMORY_PER_BYTE = 2.5
"""Bytes of memory per byte of such a file: measured with 10 million keys, 1.3 for CSV with long names and 5.7 for Parquet."""
BYTES_PER_PAIR = 48  # bytes of memory per pair of a ring's members: measured with 3,000 to 6,000 members, 40
PAIRS_SHARE = 4  # they may take this fraction of the memory: one quarter


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
        """Place the load of the newest files, or of a past moment's, and apply the scenario. Raises NoInput if there is neither a
        ring nor a load."""
        asked_ms, newest = context.at_ms, inputs
        inputs, at_ms = inputs.as_of(asked_ms)
        inputs, left_out = inputs.within(context.memory, MEMORY_PER_BYTE, KEYED)
        context = msgspec.structs.replace(context, at_ms=at_ms)
        state = live_state(inputs, parameters, context)
        cluster = state.cluster
        if cluster.ring is None and not any(x.height for x in (cluster.observed, cluster.stats, cluster.load)):
            raise NoInput("no ring page, memberlist key, stats, metrics, blocks or load table")
        missing = _not_placeable(cluster.ring, context.memory) if cluster.ring is not None else None
        if missing is not None:
            made = _members_only(state, *missing)
        elif cluster.ring is not None and cluster.ring.strategy != "segment-writer":
            made = _answered(replicas.ANSWERS, state, parameters, context)
        else:
            p = parameters
            if p.regime == "unhealthy":  # writers whose heartbeat is too old are out of the layout at once
                p = msgspec.structs.replace(p, regime="left")
            made = _answered(segments.ANSWERS, state, p, context)
        hottest = made.summary.get("max_over_mean")
        return dataclasses.replace(
            made,
            tables={table.name: made.tables[table.name] for table in tables.RESULTS if table.name in made.tables},
            notes=(*made.notes, *left_out),
            problems=fold([*inputs.problems, *made.problems]),
            newest_ms=inputs.newest_ms,
            at_ms=asked_ms,
            detail=msgspec.structs.replace(made.detail, moments=_moments(newest, cluster) if asked_ms is None else ()),
            trend=None if hottest is None else Trend("hottest / mean", (hottest,)),
        )

    def upstream(self, result: Result, parameters: Any) -> str | None:
        """Return None: no system prints an answer like this."""
        return None


def _moments(inputs: Inputs, cluster: Cluster) -> tuple[int, ...]:
    """Return the times (epoch ms) of all rings that can be shown, the present one last: from the files, and from versions seen
    before they were overwritten."""
    times = cluster.ring.times_ms if cluster.ring is not None else ()
    if not inputs.past:
        return times
    seen = (*(snapshot.since_ms for snapshot in inputs.past), inputs.since_ms)
    return (*(time for time in times[:-1] if time < seen[0]), *seen)


def _answered(answers: Answers[P], state: LiveState[P], p: RingParameters, context: Context) -> Result:
    """Apply the scenario to a ring and collect its answers."""
    s = apply_scenario(state, p, context)
    context.check()
    observed, drift_notes = context.memo.value("observed", state.key, lambda: answers.observed(state), keep=KEEP)
    notes = [*sweep_note(s, p), *answers.notes(s, p), *state.cluster.notes, *s.notes, *drift_notes]
    problems = [*s.problems, *answers.problems(state)]
    frames = answers.frames(s, p, context, notes)
    if observed is not None:
        frames["observed"] = observed
    sweep = sweep_of(s, p, context) if p.sweep else None
    if sweep is not None:
        frames["sweep"] = sweep_table(s, p, sweep, context.memo)
    if p.explain is not None:
        steps: list[Step] = []
        try:
            steps, sizes = answers.explain(p.explain, s, p, context)
            if sizes is not None:
                frames["sizes"] = sizes
        except BadKey as error:
            problems.append(Problem.at("-o explain", "bad-option", str(error)))
        rows = [(number, *step) for number, step in enumerate(steps, 1)]
        frames["explain"] = tables.EXPLAIN.frame(columns_of(tables.EXPLAIN, rows))
    findings = answers.findings(s, p, observed, context)
    if state.strategy.kind == "segment-writer" and (doubt := state.cluster.settings.doubt):
        findings.append(Finding("moderate", "settings", f"{doubt}; defaults assumed; correct or remove the file"))
    summary = answers.summary(s, p, observed, sweep, context)
    if not state.cluster.load_source:
        unknown = tables.OF_SEGMENT_LOAD if state.strategy.kind == "segment-writer" else tables.OF_LOAD
        frames = {
            name: frame.with_columns(pl.lit(None, dtype).alias(n) for n, dtype in frame.schema.items() if n in unknown)
            for name, frame in frames.items()
        }
        summary |= dict.fromkeys(unknown & summary.keys())
    headline = answers.headline(s, summary)
    outcome = headline[0] if s.down else None
    if outcome is not None and outcome.level == "critical":
        findings.insert(0, Finding("critical", "scenario", f"{outcome.label}, {outcome.value}"))
    return Result(
        RingPlacement.name, summary, frames, headline, tuple(findings), tuple(notes), tuple(problems),
        detail=answers.map_view(s, p, context), outcome=outcome,
        answer=_worst(findings) or _holds_most(frames["nodes"], summary),
    )  # fmt: skip


def _worst(findings: Sequence[Finding]) -> str:
    """Return the first of the worst findings as a sentence, else that on settings in doubt or on a node; empty without any."""
    worst = max(findings, key=lambda finding: LEVELS.index(finding.level), default=None)
    if worst is None or worst.level not in ("severe", "critical"):
        doubts = (f.text for f in findings if f.subject == "settings" and f.level == "moderate")
        of_nodes = (
            f"{f.subject}: {f.text}" for f in findings if f.row and f.row[0] == "nodes" and f.level == "moderate"
        )
        return next(doubts, "") or next(of_nodes, "")
    return f"{worst.subject}: {worst.text}"


def _holds_most(nodes: pl.DataFrame, summary: Mapping[str, Any]) -> str:
    """Return which node of ``NODES`` has the largest load, else most of the keys, as a sentence; empty if neither is known."""
    for row in nodes.filter(pl.col("load_after") > 0).top_k(1, by="load_after").iter_rows(named=True):
        load = units.text("number" if summary.get("load_is_count") else "bytes_per_s", row["load_after"])
        return f"{row['instance']} holds most: {load}, {row['over_mean'] or 0:.2f}× the mean"
    for row in nodes.filter(pl.col("replica_share") > 0).top_k(1, by="replica_share").iter_rows(named=True):
        return f"{row['instance']} holds most: {units.share(row['replica_share'])} of the keys"
    return ""


def _not_placeable(ring: RingFile, memory: int) -> tuple[str, str, str] | None:
    """Return why nothing can be placed on ``ring``, its kind and the reason for that kind; None if it can be placed."""
    if not ring.strategy:
        if ring.component:
            return ring.why, f"of the {ring.component}", "it takes no writes"
        ask = "set -o strategy=segment-writer (Pyroscope) or -o strategy=token-ring (Mimir, Loki, Tempo)"
        return f"the kind of this ring is unknown ({ring.why}): {ask}", "of unknown kind", ask
    kind = KIND_NAMES.get(ring.strategy, ring.strategy)
    with_tokens = [m for m in ring.members if m.tokens]
    if ring.strategy == "token-ring" and with_tokens and all(m.values is None for m in with_tokens):
        hint = "the page lists only the number of tokens; save it with ?tokens=true"
        return hint, kind, f"{hint}; {ring.why}"
    most = isqrt(memory // PAIRS_SHARE // BYTES_PER_PAIR)
    if len(ring.members) > most:
        count = len(ring.members)
        why = f"the pairs of {count:,} members do not fit in memory; memory-mb allows {most:,} members"
        return why, kind, f"{why}; {ring.why}"
    return None


def _members_only(state: LiveState[Any], why: str, kind: str, basis: str) -> Result:
    """Make the result of a ring that cannot be placed: its members, and what is missing to place it."""
    ring = state.cluster.ring
    assert ring is not None
    reason = f"{why}; nothing is placed"
    healthy = sum(m.state not in ("UNHEALTHY", "LEFT", "EXCLUDED") for m in state.members)
    summary = {"strategy": "", "members": len(state.members), "healthy": healthy, "regime": "transient", "down": [],
               "now_ms": state.now_ns // 1_000_000, **ring_names(state.cluster)}  # fmt: skip
    headline = [
        Headline("ring", kind, basis, "severe"),
        Headline("members", str(len(state.members)), units.plural(sum(m.tokens for m in state.members), "token")),
    ]
    most = max(state.members, key=lambda m: m.owned or 0.0, default=None)
    if most is not None and most.owned is not None:
        headline.append(Headline("owns most", units.share(most.owned), f"{most.id}, as the page says"))
    bars = tuple(NodeBar(m.id, m.zone, None, "") for m in state.members)
    return Result(
        RingPlacement.name, summary, {"nodes": member_table(state)}, tuple(headline), (Finding("severe", "ring", reason),),
        (f"ring: {ring.label} ({ring.kind})", *other_rings(ring), reason),
        detail=ShardMapView(bars, (), (), (), "transient", (), kind=""),
    )  # fmt: skip


VIEW = RingPlacement()
