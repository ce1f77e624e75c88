"""Result tables of the layout: nodes and shards."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from engine.core.view import Context
from engine.ring_placement import tables
from engine.ring_placement.insight.holders import against, alive_loads, fates_of, stored_by
from engine.ring_placement.pyroscope.ring import Member
from engine.ring_placement.reading.document import columns_of
from engine.ring_placement.scenarios.cluster import Cluster, RingFile
from engine.ring_placement.scenarios.scenario_state import KEEP, LiveState, Scenario, SegmentScenario
from engine.ring_placement.scenarios.strategy import P


def _whole(values: np.ndarray) -> list[int]:
    """Round loads to whole bytes per second."""
    whole: list[int] = (np.rint(values).astype(np.int64) if values.dtype.kind == "f" else values).tolist()
    return whole


def node_table(s: SegmentScenario) -> pl.DataFrame:
    """Build table ``nodes``: every member, and those that a scale-in removes."""
    index = {name: i for i, name in enumerate(s.outcome.nodes)}
    before, after = _whole(s.outcome.before), _whole(s.outcome.after)
    down, written = set(s.down), s.live.cluster.written
    fates, out = fates_of(s), out_before(s)
    alive = alive_loads(s)
    mean = float(alive.mean()) if len(alive) else 0.0
    rows = []
    for m in _listed_members(s):
        i = index.get(m.id)
        load_before, load_after = (0, 0) if i is None else (before[i], after[i])
        capacity = s.capacity.get(m.id)
        comparable = s.comparable and m.placed and not (m.id in down and load_after == 0)
        limit = capacity if comparable else None
        over_mean, headroom, over = against(load_after, mean, limit)
        rows.append((
            m.id, m.state, fates.get(m.id, ""), m.zone, m.tokens, load_before, load_after, load_after - load_before,
            over_mean, capacity, headroom, over, m.id in down or m.id in s.removed, written.get(m.id),
            *(None,) * 7, m.address, m.heartbeat_s * 1000 if m.heartbeat_s is not None else None, m.id in out,
        ))  # fmt: skip
    return tables.NODES.sorted(tables.NODES.frame(columns_of(tables.NODES, rows)))


def out_before(s: Scenario[Any]) -> frozenset[str]:
    """Return the IDs of the members that take no data before the scenario, so that no scenario moves their rows."""
    return frozenset(m.id for m in s.live.members if m.out)


def ring_names(cluster: Cluster) -> dict[str, Any]:
    """Return for the summary the ring in use and all others, by the labels of their files."""
    ring = cluster.ring
    return {"ring": ring.label if ring else "", "rings": list(ring.labels) if ring else []}


def other_rings(ring: RingFile) -> list[str]:
    """Return the note on rings in the files that are not used."""
    if not ring.others:
        return []
    return [f"{ring.others} other ring{'s' if ring.others > 1 else ''} not used; -o ring= chooses one (key b)"]


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
        "out": [m.out for m in state.members],
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
