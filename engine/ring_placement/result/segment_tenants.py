"""Table ``tenants`` of segment writers: which nodes store each tenant's data in the scenario, and what it loses."""

from __future__ import annotations

import numpy as np
import polars as pl

from engine.ring_placement import tables
from engine.ring_placement.pyroscope.keys import sum_cells, weigh
from engine.ring_placement.pyroscope.placement import Placement
from engine.ring_placement.scenarios.scenario_state import SegmentScenario


def segment_tenant_table(s: SegmentScenario) -> pl.DataFrame:
    """Build table ``tenants``: load, nodes (the largest part first), and how many of the nodes it had before are down."""
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
    frame = frame.join(_instances(after), on="number", how="left", maintain_order="left").drop("number")
    return tables.TENANTS.sorted(tables.TENANTS.frame(frame))


def _cells(placement: Placement) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return tenant, member and load of each pair of them that has any load."""
    width = max(len(placement.ring.members), 1)
    taken = placement.receivers >= 0
    tenant = placement.keys.tenant_of[placement.groups.datasets[taken]].astype(np.int64)
    cell, load = sum_cells(tenant * width + placement.receivers[taken], placement.groups.weight[taken])
    return cell // width, cell % width, load


def _instances(placement: Placement) -> pl.DataFrame:
    """Return the members that store data of each tenant (``number``), the largest part first."""
    tenant, member, load = _cells(placement)
    order = np.lexsort((member, -load.astype(np.float64), tenant))
    names = placement.ring.names(member[order])
    frame = pl.DataFrame({"number": tenant[order].astype(np.int64), "instances": names})
    return frame.group_by("number", maintain_order=True).agg("instances")


def _down(s: SegmentScenario, count: int) -> np.ndarray:
    """Count for each tenant the members that stored its data before and are down in the scenario."""
    gone = np.array([name in {*s.down, *s.leaving, *s.removed} for name in s.before.ring.ids] or [False], dtype=bool)
    if s.regime == "returned" or not gone.any():
        return np.zeros(count, dtype=np.int64)
    tenant, member, _ = _cells(s.before)
    down: np.ndarray = np.bincount(tenant[gone[member]], minlength=count)
    return down
