"""Result table of tenants: which nodes store the data of each in the scenario, and what it loses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl

from engine.core.incremental import Memo
from engine.ring_placement import tables
from engine.ring_placement.insight.holders import (
    lost_load,
    shard_members,
    spreads,
)
from engine.ring_placement.pyroscope.placement import Placement, weigh
from engine.ring_placement.scenarios.failover import member_mask
from engine.ring_placement.scenarios.scenario_state import KEEP, ReplicatedScenario, SegmentScenario

_DENSE = 1 << 23
"""Most pairs of tenant and member that are marked in one array."""


def segment_tenants(s: SegmentScenario, memo: Memo) -> pl.DataFrame:
    """Build table ``tenants`` of segment writers: load, the nodes that store it, and how many of its nodes are down.

    Columns that do not depend on the failing set come from the memo.
    """
    after = s.after
    laid_out = after if after.ring is not s.planned.ring else s.planned
    key = (s.planned_key, s.down if laid_out is after else ())
    frame = memo.value("tenants", key, lambda: _before_failure(laid_out), keep=KEEP)
    load = frame["load"].to_numpy()
    if after.ring.total > 0:
        at = np.flatnonzero(after.receivers < 0)
        lost = weigh(_tenants(after, at), after.groups.weight[at].astype(np.float64), frame.height)
        share = np.divide(lost, load, out=np.zeros(frame.height), where=load > 0)
    else:
        lost, share = load, np.ones(frame.height)
    frame = frame.with_columns(
        pl.Series("write_lost_share", share),
        pl.Series("write_lost_load", lost.astype(np.float64)),  # without any row they would be integers
        pl.Series("instances_down", _down(s)),
    )
    return tables.TENANTS.sorted(frame)


def _before_failure(placement: Placement) -> pl.DataFrame:
    """Build the columns that do not depend on who fails, one row per tenant in the order of the keys."""
    keys, groups, count = placement.keys, placement.groups, len(placement.keys.tenants)
    limit = np.zeros(count, dtype=np.int64)
    limit[keys.tenant_of] = keys.tenant_limit
    tenant, weight = keys.tenant_of[groups.datasets], groups.weight
    if placement.ring.total <= 0:
        tenant, weight = keys.tenant_of[keys.row_dataset], keys.row_weight
    frame = pl.DataFrame({
        "number": np.arange(count),
        "tenant": pl.Series(keys.tenants, dtype=pl.String),
        "shard_size": limit,
        "load": weigh(tenant, weight.astype(np.float64), count),
    })  # fmt: skip
    frame = frame.join(_instances(placement), on="number", how="left", maintain_order="left")
    return tables.TENANTS.frame(frame.drop("number"))


def _tenants(placement: Placement, groups: np.ndarray) -> np.ndarray:
    """Return the tenant (int64) of each of ``groups``."""
    return placement.keys.tenant_of[placement.groups.datasets[groups]].astype(np.int64)


def _instances(placement: Placement) -> pl.DataFrame:
    """Return the members that store data of each tenant (``number``) without failures, in ring order."""
    width = max(len(placement.ring.members), 1)
    at = np.flatnonzero(placement.receivers >= 0)
    cells = _distinct(_tenants(placement, at) * width + placement.receivers[at], len(placement.keys.tenants) * width)
    names = pl.Series(placement.ring.ids or [""], dtype=pl.String)
    rows = pl.DataFrame({
        "number": pl.Series(cells // width).set_sorted(),  # grouping sorted numbers takes a tenth of the time
        "instances": names.gather(pl.Series((cells % width).astype(np.uint32))),
    })  # fmt: skip
    return rows.group_by("number", maintain_order=True).agg("instances")


def _distinct(cells: np.ndarray, size: int) -> np.ndarray:
    """Return the distinct values of ``cells``, below ``size``, sorted."""
    if size > _DENSE:
        return np.unique(cells)
    found = np.zeros(size, dtype=bool)
    found[cells] = True
    return np.flatnonzero(found)


def _down(s: SegmentScenario) -> np.ndarray:
    """Count for each tenant the members that stored its data before and are down in the scenario."""
    before, count = s.before, len(s.before.keys.tenants)
    gone = {*s.down, *s.leaving, *s.removed} if s.regime != "returned" else set()
    is_gone = np.append(member_mask(before.ring, gone), False)  # the last entry answers for -1
    at = np.flatnonzero(is_gone[before.receivers])
    width = len(is_gone)
    cells = _distinct(_tenants(before, at) * width + before.receivers[at], count * width)
    return np.bincount(cells // width, minlength=count)


LISTED_INSTANCES = 2_000_000
"""Most instances listed in the table of tenants; beyond, shards of the whole ring are left out."""


def _lists(shards: Sequence[np.ndarray], shard_of: np.ndarray, names: pl.Series) -> pl.Series:
    """Return for each tenant the ``names`` of the members of its shard."""
    sizes = np.array([len(members) for members in shards], dtype=np.int64)
    if int(sizes[shard_of].sum()) > LISTED_INSTANCES:
        sizes = np.where(sizes == sizes.max(), 0, sizes)
    chosen = [m[:size].astype(np.uint32) for m, size in zip(shards, sizes.tolist(), strict=True)]
    listed = names.gather(pl.Series(np.concatenate([np.empty(0, np.uint32), *chosen])))  # one query, not one a shard
    starts = np.cumsum(sizes) - sizes
    parts = [listed.slice(start, size) for start, size in zip(starts.tolist(), sizes.tolist(), strict=True)]
    return pl.Series(parts, dtype=pl.List(names.dtype)).gather(pl.Series(shard_of.astype(np.uint32)))


def replica_tenants(s: ReplicatedScenario) -> pl.DataFrame:
    """Build table ``tenants`` of a ring with replicas: the shard of each tenant in the scenario, and what it loses."""
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
    held, read, down = shard_members(after)
    frame["instances"] = _lists(held, rows.shard_of, ids)
    frame["read_instances"] = _lists(read, rows.read_of, ids)
    frame["instances_down"] = down[rows.shard_of]
    if after.partitions is not None:
        partition_ids = pl.Series(after.partitions.ids, dtype=pl.Int64)
        frame["partitions"] = _lists(rows.shards, rows.shard_of, partition_ids)
        frame["read_partitions"] = _lists(rows.reads, rows.read_of, partition_ids)
    return tables.TENANTS.sorted(tables.TENANTS.frame(frame))
