"""Table ``tenants`` of segment writers: which nodes store each tenant's data in the scenario, and what it loses."""

from __future__ import annotations

import numpy as np
import polars as pl

from engine.incremental import Memo
from engine.ring_placement import tables
from engine.ring_placement.pyroscope.keys import weigh
from engine.ring_placement.pyroscope.placement import Placement
from engine.ring_placement.scenarios.scenario_state import KEEP, SegmentScenario

_DENSE = 1 << 23
"""Pairs of tenant and member up to which they are marked in one array."""


def segment_tenant_table(s: SegmentScenario, memo: Memo) -> pl.DataFrame:
    """Build table ``tenants``: load, the nodes that the layout gives it, and how many of those it had before are down."""
    keys, after = s.after.keys, s.after
    count = len(keys.tenants)
    limit = np.zeros(count, dtype=np.int64)
    limit[keys.tenant_of] = keys.tenant_limit
    tenant = keys.tenant_of[after.groups.datasets]
    weight = after.groups.weight.astype(np.float64)
    load = weigh(tenant, weight, count)
    rejected = after.receivers < 0
    lost = weigh(tenant[rejected], weight[rejected], count)
    there = after.ring.total > 0
    total = load if there else weigh(keys.tenant_of[keys.row_dataset], keys.row_weight.astype(np.float64), count)
    frame = pl.DataFrame({
        "number": np.arange(count),
        "tenant": pl.Series(keys.tenants, dtype=pl.String),
        "shard_size": limit,
        "load": total,
        "write_lost_share": np.divide(lost, total, out=np.full(count, 0.0 if there else 1.0), where=total > 0),
        "write_lost_load": lost if there else total,
        "instances_down": _down(s, count),
    })  # fmt: skip
    laid_out = after if after.ring is not s.planned.ring else s.planned
    key = (s.planned_key, s.down if laid_out is after else ())
    instances = memo.value("tenants' instances", key, lambda: _instances(laid_out), keep=KEEP)
    frame = frame.join(instances, on="number", how="left", maintain_order="left").drop("number")
    return tables.TENANTS.sorted(tables.TENANTS.frame(frame))


def _instances(placement: Placement) -> pl.DataFrame:
    """Return the members that store data of each tenant (``number``) while none fails, in ring order."""
    width = max(len(placement.ring.members), 1)
    taken = placement.receivers >= 0
    tenant = placement.keys.tenant_of[placement.groups.datasets[taken]].astype(np.int64)
    cells = _distinct(tenant * width + placement.receivers[taken], len(placement.keys.tenants) * width)
    # Lists of numbers are made faster than lists of names.
    frame = pl.DataFrame({"number": cells // width, "member": (cells % width).astype(np.uint32)})
    lists = frame.group_by("number", maintain_order=True).agg("member")
    names = pl.Series(placement.ring.ids or [""], dtype=pl.String)
    return lists.select("number", pl.col("member").list.eval(pl.lit(names).gather(pl.element())).alias("instances"))


def _distinct(cells: np.ndarray, size: int) -> np.ndarray:
    """Return the distinct values of ``cells``, below ``size``, sorted."""
    if size > _DENSE:
        return np.unique(cells)
    found = np.zeros(size, dtype=bool)
    found[cells] = True
    return np.flatnonzero(found)


def _down(s: SegmentScenario, count: int) -> np.ndarray:
    """Count for each tenant the members that stored its data before and are down in the scenario."""
    before = s.before
    gone = {*s.down, *s.leaving, *s.removed} if s.regime != "returned" else set()
    is_gone = np.array([*(name in gone for name in before.ring.ids), False], dtype=bool)
    hit = is_gone[before.receivers]
    tenant = before.keys.tenant_of[before.groups.datasets[hit]].astype(np.int64)
    width = len(is_gone)
    down: np.ndarray = np.bincount(np.unique(tenant * width + before.receivers[hit]) // width, minlength=count)
    return down
