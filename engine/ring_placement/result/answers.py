"""What a ring answers to a scenario: the same questions for segment writers and for rings with replicas."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic

import polars as pl

from engine.core.reading import Problem
from engine.core.view import Context, Finding, Headline
from engine.ring_placement.insight.drift import replica_drift, segment_drift
from engine.ring_placement.insight.explain import Step, explain_replicas, explain_segments
from engine.ring_placement.insight.findings import many_shards, replica_findings, segment_findings, token_problems
from engine.ring_placement.insight.next_rules import strategy_table
from engine.ring_placement.parameters import RingParameters
from engine.ring_placement.pyroscope.placement import Placement
from engine.ring_placement.result.detail import ShardMapView, replica_map, segment_map
from engine.ring_placement.result.layout_tables import partition_table, replica_nodes, segment_nodes, shard_table
from engine.ring_placement.result.placements_table import replica_placements, segment_placements
from engine.ring_placement.result.summary import (
    replica_headline,
    replica_notes,
    replica_summary,
    segment_headline,
    segment_notes,
    segment_summary,
)
from engine.ring_placement.result.sweep_tables import restart_table
from engine.ring_placement.result.tenant_tables import replica_tenants, segment_tenants
from engine.ring_placement.scenarios.replica_rows import ReplicatedPlacement
from engine.ring_placement.scenarios.scenario_state import (
    KEEP,
    LiveState,
    ReplicatedScenario,
    Scenario,
    SegmentScenario,
)
from engine.ring_placement.scenarios.strategy import P, Sweep

Frames = dict[str, pl.DataFrame]


@dataclass(frozen=True)
class Answers(Generic[P]):
    """The answers of one kind of ring, each a function.

    ``frames``: its own result tables by name (adds to the notes given); ``observed``: table ``observed``, None where nothing
    was observed, and notes on it; ``explain``: the steps of a key, and table ``sizes`` (raises BadKey). ``findings`` and
    ``summary`` get the table ``observed``, ``summary`` also the sweep, if one is asked for.
    """

    notes: Callable[[Scenario[P], RingParameters], list[str]]
    problems: Callable[[LiveState[P]], list[Problem]]
    observed: Callable[[LiveState[P]], tuple[pl.DataFrame | None, list[str]]]
    frames: Callable[[Scenario[P], RingParameters, Context, list[str]], Frames]
    explain: Callable[[str, Scenario[P], RingParameters, Context], tuple[list[Step], pl.DataFrame | None]]
    findings: Callable[[Scenario[P], RingParameters, pl.DataFrame | None, Context], list[Finding]]
    summary: Callable[[Scenario[P], RingParameters, pl.DataFrame | None, Sweep | None, Context], dict[str, Any]]
    headline: Callable[[Scenario[P], dict[str, Any]], tuple[Headline, ...]]
    map_view: Callable[[Scenario[P], RingParameters, Context], ShardMapView]


def _segment_frames(s: SegmentScenario, p: RingParameters, context: Context, notes: list[str]) -> Frames:
    state, memo = s.live, context.memo
    frames = {
        "nodes": segment_nodes(s),
        "tenants": segment_tenants(s, memo),
        "shards": shard_table(s, context),
        "placements": segment_placements(s, p, memo, notes),
    }
    if state.cluster.stats.height:
        frames["strategy"] = memo.value("strategy", state.key, lambda: strategy_table(state), keep=KEEP)
    return frames


def _replica_frames(s: ReplicatedScenario, p: RingParameters, context: Context, notes: list[str]) -> Frames:
    frames = {"nodes": replica_nodes(s, context), "tenants": replica_tenants(s)}
    if len(s.planned.tenants.key_token):
        frames["placements"] = replica_placements(s, p, notes)
    if s.after.partitions is not None:
        frames["partitions"] = partition_table(s)
    if p.sweep == "leaving":
        frames["restart"] = restart_table(s, context)
    return frames


SEGMENT_WRITERS: Answers[Placement] = Answers(
    segment_notes, many_shards, segment_drift, _segment_frames, explain_segments, segment_findings, segment_summary,
    segment_headline, segment_map,
)  # fmt: skip
REPLICAS: Answers[ReplicatedPlacement] = Answers(
    replica_notes, token_problems, replica_drift, _replica_frames, explain_replicas, replica_findings, replica_summary,
    replica_headline, replica_map,
)  # fmt: skip
