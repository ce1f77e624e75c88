"""Who takes data in a scenario: the loads of the nodes that do, and the member that stores most of each shard."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from engine.ring_placement.pyroscope.keys import sum_cells
from engine.ring_placement.pyroscope.placement import Placement
from engine.ring_placement.scenarios.failover import member_mask
from engine.ring_placement.scenarios.scenario_state import SegmentScenario


def alive_loads(s: SegmentScenario) -> np.ndarray:
    """Return the loads afterwards (bytes per second) of the nodes that take data in the scenario."""
    failed = set(s.down) if s.regime != "returned" else set()
    receives = {m.id for m in s.after.ring.members if m.state == "ACTIVE" and m.tokens > 0} - failed
    return s.outcome.after[[name in receives for name in s.outcome.nodes]]


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


def takers(placement: Placement, candidates: np.ndarray, down: Collection[str]) -> np.ndarray:
    """Return for each row of ``candidates`` (members in walk order, -1: none) the first that is not ``down``, -1 for none."""
    failed = np.array([name in down for name in placement.ring.ids] + [False], dtype=bool)
    takes = (candidates >= 0) & ~failed[candidates]
    first = np.take_along_axis(candidates, takes.argmax(axis=1)[:, None], axis=1)[:, 0]
    taker: np.ndarray = np.where(takes.any(axis=1), first, -1)
    return taker


def against(load: int, mean: float, limit: int | None) -> tuple[float | None, int | None, bool | None]:
    """Return a node's load over the ``mean`` of those that take data, what is left to its ``limit``, whether it is above.

    None where there is no mean or no limit.
    """
    over_mean = load / mean if mean > 0 else None
    return (over_mean, None, None) if limit is None else (over_mean, limit - load, load > limit)
