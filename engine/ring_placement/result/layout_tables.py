"""Result tables of the layout: nodes, shards, and the strategy the ruler chooses per dataset."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from engine.ring_placement import tables
from engine.ring_placement.pyroscope.adaptive_placement import decide, integer_mean, integer_std_dev
from engine.ring_placement.pyroscope.keys import sum_cells
from engine.ring_placement.pyroscope.limits import BY_FINGERPRINT, DEFAULTS, ROUND_ROBIN, Limits, Rule
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
            *(None,) * 5, m.address, m.heartbeat_s * 1000 if m.heartbeat_s is not None else None,
        ))  # fmt: skip
    return tables.NODES.sorted(tables.NODES.frame(columns_of(tables.NODES, rows)))


def ring_names(cluster: Cluster) -> dict[str, Any]:
    """Return for the summary the ring in use and all others, by the labels of their files."""
    ring = cluster.ring
    return {"ring": ring.label if ring else "", "rings": list(ring.labels) if ring else []}


def member_table(state: LiveState[P]) -> pl.DataFrame:
    """Build table ``nodes`` of a ring whose kind is unknown: the members alone."""
    frame: dict[str, list[Any]] = {
        "instance": [m.id for m in state.members],
        "state": [m.state for m in state.members],
        "zone": [m.zone for m in state.members],
        "tokens": [m.tokens for m in state.members],
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


def strategy_table(state: SegmentState) -> pl.DataFrame:
    """Build table ``strategy``: the ruler's decision per dataset, by the stored deviation and by the true one.

    See ``docs/models/ring-placement.md``, "Distribution stats".
    """
    cluster = state.cluster
    datasets = cluster.stats.group_by("tenant", "dataset", maintain_order=True).agg("usage", pl.col("std_dev").first())
    rows = []
    for tenant, dataset, usage, stored in datasets.iter_rows():
        limits = cluster.limits.get(tenant, DEFAULTS)
        rule = cluster.rules.get((tenant, dataset))
        target = rule.dataset_limit if rule else sum(usage) // max(1, limits.unit_size) + 1
        true = integer_std_dev(usage)
        choices = [_strategy(limits, rule, usage, std_dev, target) for std_dev in (stored, true)]
        rows.append((tenant, dataset, len(usage), integer_mean(usage), stored, true, target, *choices))
    return tables.STRATEGY.sorted(tables.STRATEGY.frame(columns_of(tables.STRATEGY, rows)))


def _strategy(limits: Limits, rule: Rule | None, usage: list[int], std_dev: int, target: int) -> str:
    """Name the strategy that the ruler chooses for a dataset with this standard deviation."""
    if limits.load_balancing != "dynamic":
        return limits.load_balancing
    if rule is not None and rule.load_balancing == ROUND_ROBIN:
        return "round-robin"
    return STRATEGY_NAMES[decide(usage, std_dev, limits.unit_size, target)]
