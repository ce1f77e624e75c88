"""Result tables of rings with replicas: nodes, tenants, partitions, keys."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl

from engine.core.view import Context
from engine.ring_placement import tables
from engine.ring_placement.dskit.partition_ring import STATES
from engine.ring_placement.dskit.token_ring import SPACE
from engine.ring_placement.insight.holders import (
    against,
    answers_of,
    fates_of,
    lost_load,
    partition_loads,
    ring_facts,
    shard_members,
    spreads,
)
from engine.ring_placement.parameters import RingParameters
from engine.ring_placement.reading.document import columns_of
from engine.ring_placement.result.layout_tables import out_before
from engine.ring_placement.scenarios.scenario_state import ReplicatedScenario

LISTED_INSTANCES = 2_000_000
"""Instances that the table of tenants lists in all; shards of the whole ring are left out beyond."""


def node_table(s: ReplicatedScenario, context: Context) -> pl.DataFrame:
    """Build table ``nodes``: every member, with ownership, what it holds, and the partner that makes it dangerous."""
    index = {name: i for i, name in enumerate(s.outcome.nodes)}
    before, after = np.rint(s.outcome.before).astype(np.int64), np.rint(s.outcome.after).astype(np.int64)
    alive = {i for i, ok in zip(s.after.ring.ids, s.after.alive, strict=True) if ok}
    loads = [after[index[i]] for i in alive if i in index]
    mean = float(np.mean(loads)) if loads else 0.0
    facts = ring_facts(s, context)
    observed = s.live.cluster.tenants.observed.group_by("instance").agg(pl.col("load").sum())
    written = dict(observed.iter_rows())
    rows = []
    listed = {m.id: m for m in s.members}
    for m in (*s.before.ring.members, *s.live.members):
        listed.setdefault(m.id, m)
    down, fates, out = set(s.down), fates_of(s), out_before(s)
    for m in listed.values():
        i = index.get(m.id)
        load_before, load_after = (0, 0) if i is None else (int(before[i]), int(after[i]))
        capacity = s.capacity.get(m.id)
        limit = capacity if s.comparable and m.id in alive else None
        over_mean, headroom, over = against(load_after, mean, limit)
        rows.append((
            m.id, m.state, fates.get(m.id, ""), m.zone, m.tokens, load_before, load_after, load_after - load_before,
            over_mean, capacity, headroom, over, m.id in down or m.id in s.removed,
            round(written[m.id]) if m.id in written else None, *facts.get(m.id, (None,) * 7), m.address,
            m.heartbeat_s * 1000 if m.heartbeat_s is not None else None, m.id in out,
        ))  # fmt: skip
    return tables.NODES.sorted(tables.NODES.frame(columns_of(tables.NODES, rows)))


def lists_of(shards: Sequence[np.ndarray], shard_of: np.ndarray, names: pl.Series) -> pl.Series:
    """Return for each tenant the ``names`` of the members of its shard."""
    sizes = np.array([len(members) for members in shards], dtype=np.int64)
    if int(sizes[shard_of].sum()) > LISTED_INSTANCES:
        sizes = np.where(sizes == sizes.max(), 0, sizes)
    chosen = [m[:size].astype(np.uint32) for m, size in zip(shards, sizes.tolist(), strict=True)]
    listed = names.gather(pl.Series(np.concatenate([np.empty(0, np.uint32), *chosen])))  # one query, not one a shard
    starts = np.cumsum(sizes) - sizes
    parts = [listed.slice(start, size) for start, size in zip(starts.tolist(), sizes.tolist(), strict=True)]
    lists = pl.Series(parts, dtype=pl.List(names.dtype))
    return lists.gather(pl.Series(shard_of.astype(np.uint32)))


def tenant_table(s: ReplicatedScenario) -> pl.DataFrame:
    """Build table ``tenants``: the shard of each tenant in the scenario, and what it loses."""
    after, tenants = s.after, s.after.tenants
    rows = after.rows
    ids = pl.Series(after.ring.ids, dtype=pl.String)
    lost, reads = after.lost_share[rows.shard_of], after.reads_ok[rows.read_of]
    frame: dict[str, Any] = {
        "tenant": tenants.names,
        "shard_size": tenants.sizes,
        "load": tenants.total,
        "write_lost_share": lost,
        "write_lost_load": lost_load(after),
        "reads_ok": reads,
        "spread": spreads(after)[rows.shard_of],
    }
    members = shard_members(after)
    frame["instances"] = lists_of(members.instances, rows.shard_of, ids)
    frame["read_instances"] = lists_of(members.read_instances, rows.read_of, ids)
    frame["instances_down"] = members.instances_down[rows.shard_of]
    if after.partitions is not None:
        partition_ids = pl.Series(after.partitions.ids, dtype=pl.Int64)
        frame["partitions"] = lists_of(rows.shards, rows.shard_of, partition_ids)
        frame["read_partitions"] = lists_of(rows.reads, rows.read_of, partition_ids)
    return tables.TENANTS.sorted(tables.TENANTS.frame(frame))


def partition_table(s: ReplicatedScenario) -> pl.DataFrame | None:
    """Build table ``partitions``; None for a token ring."""
    after = s.after
    if after.partitions is None:
        return None
    registered, readers = set(after.ring.ids), after.answering_owners
    share, load = partition_loads(after)
    listed = [
        (p.id, STATES[p.state], [o for o in p.owners if o in registered], readers[k],
         float(share[k]), float(load[k]), p.changed_s * 1000 if p.changed_s else None, p.locked)
        for k, p in enumerate(after.partitions.partitions)
    ]  # fmt: skip
    return tables.PARTITIONS.sorted(tables.PARTITIONS.frame(columns_of(tables.PARTITIONS, listed)))


def placements_table(s: ReplicatedScenario, p: RingParameters, notes: list[str]) -> pl.DataFrame:
    """Build table ``placements``: the replica set of each key in the scenario. Equal keys of a tenant are one row."""
    after, tenants = s.after, s.after.tenants
    code = tenants.key_tenant * SPACE + tenants.key_token
    _, first, inverse = np.unique(code, return_index=True, return_inverse=True)
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
