"""Result tables of the layout: nodes, shards, and the strategy the ruler chooses per dataset."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl

from engine.ring_placement import tables
from engine.ring_placement.pyroscope.adaptive_placement import (
    DatasetStats,
    DistributionStats,
    Ruler,
    Rules,
    integer_mean,
    integer_std_dev,
)
from engine.ring_placement.pyroscope.keys import sum_cells
from engine.ring_placement.pyroscope.limits import BY_FINGERPRINT, DEFAULTS, ROUND_ROBIN, Rule
from engine.ring_placement.pyroscope.ring import Member
from engine.ring_placement.reading.cluster import Cluster
from engine.ring_placement.reading.document import columns_of
from engine.ring_placement.scenarios.failover import member_mask
from engine.ring_placement.scenarios.scenario_state import KEEP, LiveState, SegmentScenario, SegmentState
from engine.ring_placement.scenarios.strategy import P
from engine.view import Context


def _whole(values: np.ndarray) -> list[int]:
    """Round loads to whole bytes per second."""
    whole: list[int] = (np.rint(values).astype(np.int64) if values.dtype.kind == "f" else values).tolist()
    return whole


def alive_loads(s: SegmentScenario) -> np.ndarray:
    """Return the loads afterwards (bytes per second) of the nodes that take data in the scenario."""
    failed = set(s.down) if s.regime != "returned" else set()
    receives = {m.id for m in s.after.ring.members if m.state == "ACTIVE" and m.tokens > 0} - failed
    return s.outcome.after[[name in receives for name in s.outcome.nodes]]


def node_table(s: SegmentScenario) -> pl.DataFrame:
    """Build table ``nodes``: every member, and those that a scale-in removes."""
    index = {name: i for i, name in enumerate(s.outcome.nodes)}
    before, after = _whole(s.outcome.before), _whole(s.outcome.after)
    down, written = set(s.down), s.live.cluster.written
    alive = alive_loads(s)
    mean = float(alive.mean()) if len(alive) else 0.0
    rows = []
    for m in _listed_members(s):
        i = index.get(m.id)
        load_before, load_after = (0, 0) if i is None else (before[i], after[i])
        capacity = s.capacity.get(m.id)
        comparable = s.comparable and m.placed and not (m.id in down and load_after == 0)
        limit = capacity if comparable else None
        rows.append((
            m.id, m.state, m.zone, m.tokens, load_before, load_after, load_after - load_before,
            load_after / mean if mean > 0 else None, capacity, None if limit is None else limit - load_after,
            None if limit is None else load_after > limit, m.id in down or m.id in s.removed, written.get(m.id),
            *(None,) * 7, m.address, m.heartbeat_s * 1000 if m.heartbeat_s is not None else None,
        ))  # fmt: skip
    return tables.NODES.sorted(tables.NODES.frame(columns_of(tables.NODES, rows)))


def ring_names(cluster: Cluster) -> dict[str, Any]:
    """Return for the summary the ring in use and all others, by the labels of their files."""
    ring = cluster.ring
    return {"ring": ring.label if ring else "", "rings": list(ring.labels) if ring else []}


def member_table(state: LiveState[P]) -> pl.DataFrame:
    """Build table ``nodes`` of a ring that cannot be placed: the members alone, with what their page says they own."""
    frame: dict[str, list[Any]] = {
        "instance": [m.id for m in state.members],
        "state": [m.state for m in state.members],
        "zone": [m.zone for m in state.members],
        "tokens": [m.tokens for m in state.members],
        "ownership": [m.owned for m in state.members],
        "address": [m.address for m in state.members],
        "heartbeat_ms": [None if m.heartbeat_s is None else m.heartbeat_s * 1000 for m in state.members],
    }
    return tables.NODES.sorted(tables.NODES.frame(frame))


def _listed_members(s: SegmentScenario) -> list[Member]:
    """List the members of the scenario, those that a scale-in removes, and those outside the home zone."""
    listed = {m.id: m for m in s.members}
    for m in (*s.before.ring.members, *(() if s.padded else s.live.members)):
        listed.setdefault(m.id, m)
    return list(listed.values())


def shard_table(s: SegmentScenario, context: Context) -> pl.DataFrame:
    """Build table ``shards``: every shard of the scenario's ring with its owner and load, before and after."""
    ring = s.after.ring
    key = (s.planned_key, s.before.ring.ids, ring.ids, s.before is s.live.placement)
    frame = context.memo.value("shards", key, lambda: _shard_map(s), keep=KEEP)
    return frame.with_columns(ring.names(stored_by(s)).alias("stored_by"))


def _shard_map(s: SegmentScenario) -> pl.DataFrame:
    ring, old = s.after.ring, s.before.ring
    total = ring.total
    owner_before = np.full(total, -1)
    owner_before[: old.total] = old.owner[:total]
    load_before = np.zeros(max(total, old.total), dtype=s.before.loads.dtype)
    load_after = np.zeros(total, dtype=s.after.loads.dtype)
    if old.total and len(s.before.groups.datasets):
        load_before[: old.total] = s.before.shard_loads
    if total and len(s.after.groups.datasets):
        load_after[:] = s.after.shard_loads
    frame = pl.DataFrame({
        "shard": pl.Series(np.arange(1, total + 1)),
        "instance": ring.names(ring.owner),
        "instance_before": old.names(owner_before),
        "load_before": pl.Series(_whole(load_before[:total]), dtype=pl.Int64),
        "load_after": pl.Series(_whole(load_after), dtype=pl.Int64),
    })  # fmt: skip
    return tables.SHARDS.frame(frame)


def stored_by(s: SegmentScenario) -> np.ndarray:
    """Return for each shard of the scenario's ring the member (index) that takes most of its load.

    -1: it is rejected; -2: its owner takes nothing and it has no load that would show where requests go.
    """
    ring, after = s.after.ring, s.after
    total = ring.total
    receives = ring.active & ~member_mask(ring, s.down if s.regime == "transient" else ())
    out = np.where(receives[ring.owner], ring.owner, -2).astype(np.int64) if total else np.empty(0, dtype=np.int64)
    if not total or not len(after.groups.datasets):
        return out
    receivers = after.receivers
    positions = after.positions
    # Only shards with some load at another than their owner need a closer look.
    away = np.flatnonzero(receivers != ring.owner[positions])
    if not len(away):
        return out
    odd = np.zeros(total, dtype=bool)
    odd[positions[away]] = True
    rows = np.flatnonzero(odd[positions])
    width = len(ring.members) + 1
    cell = positions[rows] * width + receivers[rows] + 1
    cell, sums = sum_cells(cell, after.groups.weight[rows].astype(np.float64))
    at, node = cell // width, cell % width - 1
    ranked = np.lexsort((node, -sums, at))
    heads = ranked[np.concatenate(([True], at[ranked][1:] != at[ranked][:-1]))]
    out[at[heads]] = node[heads]
    return out


STRATEGY_NAMES = {BY_FINGERPRINT: "fingerprint", ROUND_ROBIN: "round-robin"}
NO_RULES = "no rules"
"""Stands for a strategy where the ruler fails: a unit of 0 bytes per shard is a division by zero in Pyroscope."""


def strategy_table(state: SegmentState) -> pl.DataFrame:
    """Build table ``strategy``: the rule in force of each dataset, and the one that Pyroscope's ruler writes next from the
    stored stats, by the stored deviation and by the true one.

    The ruler is one that has loaded the stored rules, as after a change of leader. See ``docs/models/ring-placement.md``,
    "Distribution stats" to "Ruler".
    """
    cluster = state.cluster
    stored = _stored_stats(cluster.stats)
    true = replace(
        stored, datasets=tuple(replace(each, std_dev=integer_std_dev(each.usage)) for each in stored.datasets)
    )
    usage = {(each.tenant, each.name): each for each in stored.datasets}
    now, corrected = (_next_rules(cluster, stats) for stats in (stored, true))
    rows = []
    for key in now or usage:
        known, rule = usage.get(key), cluster.rules.get(key)
        rows.append((
            *key, len(known.usage) if known else 0, integer_mean(known.usage) if known else None,
            known.std_dev if known else None, integer_std_dev(known.usage) if known else None,
            rule.dataset_limit if rule else None, now[key].dataset_limit if now else None,
            *(STRATEGY_NAMES.get(by[key].load_balancing, "fingerprint") if by else NO_RULES for by in (now, corrected)),
        ))  # fmt: skip
    return tables.STRATEGY.sorted(tables.STRATEGY.frame(columns_of(tables.STRATEGY, rows)))


def _stored_stats(rows: pl.DataFrame) -> DistributionStats:
    """Put the stored stats, one row per shard entry, together again."""
    key = ["tenant", "dataset"]
    datasets = rows.group_by(key, maintain_order=True).agg("shard", "instance", "usage", pl.col("std_dev").first())
    return DistributionStats(
        tuple(
            DatasetStats(tenant, name, tuple(zip(shards, owners, strict=True)), tuple(usage), std_dev)
            for tenant, name, shards, owners, usage, std_dev in datasets.iter_rows()
        ),
        rows["created_at"][0],
    )


def _next_rules(cluster: Cluster, stats: DistributionStats) -> dict[tuple[str, str], Rule]:
    """Return the rules that a ruler writes for ``stats`` after loading the stored ones; none where it fails."""
    ruler = Ruler(lambda tenant: cluster.limits.get(tenant, DEFAULTS))
    loaded_at = cluster.rule_rows["created_at"].max() if cluster.rule_rows.height else None
    created = loaded_at if isinstance(loaded_at, int) else stats.created_at
    ruler.load(Rules((), tuple(cluster.rules.values()), created))
    stats = replace(stats, created_at=max(stats.created_at, created + 1))  # the next tick: it is after the rules
    try:
        return {(rule.tenant, rule.name): rule for rule in ruler.build(stats).datasets}
    except ZeroDivisionError:
        return {}
