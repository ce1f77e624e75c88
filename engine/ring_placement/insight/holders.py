"""What a scenario does to members and tenants: who takes data, who holds what, and what is lost."""

from __future__ import annotations

from collections.abc import Collection
from math import inf
from typing import Any

import numpy as np
import polars as pl

from engine.core.view import Context
from engine.ring_placement.dskit.token_ring import SPACE
from engine.ring_placement.insight.replica_findings import key_pairs
from engine.ring_placement.pyroscope.placement import Placement, sum_cells
from engine.ring_placement.scenarios.failover import member_mask
from engine.ring_placement.scenarios.replica_rows import ReplicatedPlacement
from engine.ring_placement.scenarios.scenario_state import (
    ReplicatedScenario,
    Scenario,
    SegmentScenario,
    replicated_ring,
)

BY_REGIME = {"transient": "down", "unhealthy": "down", "left": "gone", "returned": "back"}
"""Fate of a failing node by regime."""


def fates_of(s: Scenario[Any]) -> dict[str, str]:
    """Return the fate of each node in the scenario by ID: down, gone, back, leaving, new, over (its capacity), unhealthy (another
    state than ACTIVE), or "" if nothing happens to it."""
    members = {m.id: m for m in s.members}
    down, leaving, added = set(s.down), set(s.leaving), set(s.added)
    fates = {}
    for name, load in zip(s.outcome.nodes, s.outcome.after.tolist(), strict=True):
        state = members[name].state if name in members else ""
        applying = {
            "gone": name not in members, "leaving": name in leaving or state == "LEAVING",
            "unhealthy": state != "ACTIVE", "new": name in added, "over": s.comparable and load > s.capacity.get(name, inf),
        }  # fmt: skip
        first = next((fate for fate, applies in applying.items() if applies), "")
        fates[name] = BY_REGIME[s.regime] if name in down else first
    for m in s.members:
        if m.state == "UNHEALTHY":
            fates.setdefault(m.id, "unhealthy")
    return fates


def alive_loads(s: SegmentScenario) -> np.ndarray:
    """Return the loads after the scenario (bytes per second) of the nodes that take data in it."""
    failed = set(s.down) if s.regime != "returned" else set()
    receives = {m.id for m in s.after.ring.members if m.state == "ACTIVE" and m.tokens > 0} - failed
    return s.outcome.after[[name in receives for name in s.outcome.nodes]]


def mean_of(loads: np.ndarray) -> float:
    """Return the mean load of nodes, 0 without any."""
    return float(loads.mean()) if len(loads) else 0.0


def stored_by(s: SegmentScenario) -> np.ndarray:
    """Return for each shard of the scenario's ring the member (index) that takes most of its load.

    -1: it is rejected; -2: its owner takes nothing, and without load nobody else is known to.
    """
    ring, after = s.after.ring, s.after
    total = ring.total
    receives = ring.active & ~member_mask(ring, s.down if s.regime == "transient" else ())
    out = np.where(receives[ring.owner], ring.owner, -2).astype(np.int64) if total else np.empty(0, dtype=np.int64)
    if not total or not len(after.groups.datasets):
        return out
    receivers = after.receivers
    positions = after.positions
    # Only shards with load at another member than their owner need a closer look.
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
    """Return the first member that is not ``down`` in each row of ``candidates`` (walk order, -1: none), or -1."""
    failed = np.array([name in down for name in placement.ring.ids] + [False], dtype=bool)
    takes = (candidates >= 0) & ~failed[candidates]
    first = np.take_along_axis(candidates, takes.argmax(axis=1)[:, None], axis=1)[:, 0]
    return np.where(takes.any(axis=1), first, -1)


NAMED_TENANTS = 8  # most tenants named per node


def ring_facts(s: ReplicatedScenario, context: Context) -> dict[str, tuple[Any, ...]]:
    """Return by ID: ownership, number of token ranges and share of keys in the scenario; then number of tenants, the largest
    ones, the worst partner and what that pair loses on the planned ring."""
    planned, ring = s.planned, s.planned.ring
    count, shares = len(ring.members), planned.rows.shares
    tenants = np.zeros(count, dtype=np.int64)
    largest: list[list[str]] = [[] for _ in range(count)]
    if shares is not None:
        tenants = (shares > 0).T.astype(np.int64) @ np.bincount(planned.rows.shard_of, minlength=len(shares))
        # Tenants by load, and of each node the first ones whose shard has it.
        order = np.lexsort((np.arange(len(planned.tenants.names)), -planned.tenants.total))
        on_it = (shares > 0).T[:, planned.rows.shard_of[order]]
        for k in range(count):
            context.check()
            first = np.flatnonzero(on_it[k])[:NAMED_TENANTS]
            largest[k] = [planned.tenants.names[t] for t in order[first].tolist()]
    after, tokens = s.after.ring, planned.partitions is None
    now = {
        name: (own if tokens else None, None if r is None or not tokens else len(r), held)
        for name, own, r, held in zip(after.ids, (after.tokens.ownership / SPACE).tolist(), after.tokens.token_ranges,
                                      s.after.share.tolist(), strict=True)
    }  # fmt: skip
    gone = (0.0 if tokens else None, None, 0.0)
    partners: list[tuple[str | None, float | None]] = [(None, None)] * count
    if count > 1 and tokens:
        lost = key_pairs(s, context).matrix()
        np.fill_diagonal(lost, -1.0)
        worst = lost.argmax(axis=1).tolist()
        partners = [(ring.ids[w] if lost[k, w] > 0 else None, max(lost[k, w].item(), 0.0)) for k, w in enumerate(worst)]
    return {name: (*now.get(name, gone), int(tenants[i]), largest[i], *partners[i]) for i, name in enumerate(ring.ids)}


def lost_load(placement: ReplicatedPlacement) -> np.ndarray:
    """Return the load of each tenant that cannot be written in the placement."""
    rows, tenants = placement.rows, placement.tenants
    out: np.ndarray = tenants.loads * placement.lost_share[rows.shard_of]
    if len(tenants.key_tenant):
        lost = np.append(placement.lost, True)[rows.key_row]  # the last entry answers for -1
        out = out + np.bincount(tenants.key_tenant[lost], tenants.key_weight[lost], len(out))
    return out


def spreads(placement: ReplicatedPlacement) -> np.ndarray:
    """Return the largest share of each shard's members over the mean; 1 if nothing is placed."""
    shares = placement.rows.shares
    if shares is None:
        return np.ones(len(placement.rows.shards))
    held = (shares > 0).sum(axis=1)
    total = shares.sum(axis=1)
    return np.where(total > 0, shares.max(axis=1, initial=0.0) * held / np.where(total > 0, total, 1), 1.0)


def shard_members(placement: ReplicatedPlacement) -> tuple[list[np.ndarray], list[np.ndarray], np.ndarray]:
    """Return for each distinct shard the members that are written to, the members that queries ask (both as places in the ring),
    and how many of the first do not answer. In a ring of partitions the members are the owners of its partitions."""
    rows, ring = placement.rows, placement.ring
    held, read, answers = list(rows.shards), list(rows.reads), placement.alive
    if placement.partitions is not None:
        owners, none = placement.partitions.owners_among(ring.ids), np.empty(0, np.int64)
        held, read = (
            [np.unique(np.concatenate([none, *(owners[k] for k in shard)])) for shard in shards]
            for shards in (rows.shards, rows.reads)
        )
        answers = ring.reading & ~placement.failed
    return held, read, np.array([int((~answers[m]).sum()) for m in held], dtype=np.int64)


def partition_loads(placement: ReplicatedPlacement) -> tuple[np.ndarray, np.ndarray]:
    """Return the share of all keys and the load that are written to each partition."""
    rows, of = placement.rows, placement.rows.partition
    assert placement.partitions is not None and of is not None
    count, own = len(placement.partitions.partitions), of >= 0
    whole = own & (rows.shard == 0)
    share = np.bincount(of[whole], rows.length[whole], count) / SPACE
    return share, np.bincount(of[own], placement.weight[own], count)


def answers_of(s: ReplicatedScenario, wanted: np.ndarray) -> pl.DataFrame:
    """Return the ring's answer for each row of ``wanted``: members that take the key, how many may fail, or the error."""
    after = s.after
    ring, rows = after.ring, after.rows
    # The ring still names members whose failure it has not noticed; requests to them return errors.
    knows = ring.active if s.regime == "transient" else after.alive
    zoned = " across different availability zones" if replicated_ring(s.live).settings.zone_aware else ""
    out: dict[str, list[Any]] = {name: [] for name in ("replicas", "max_errors", "error", "partition", "lost")}
    for row in wanted.tolist():
        members = [m for m in rows.members[row].tolist() if m >= 0] if row >= 0 else []
        live = [m for m in members if knows[m]]
        error, errors = "", None
        partition = None if rows.partition is None or row < 0 else int(rows.partition[row])
        if rows.partition is not None:
            assert after.partitions is not None
            live = members
            error = "no active partition" if partition is None or partition < 0 else ""
            partition = None if error or partition is None else int(after.partitions.ids[partition])
            errors = None if error else 0
        elif row < 0:
            error = "empty ring"
        elif len(live) < rows.needed[row]:
            bad = ",".join(ring.members[m].address or ring.ids[m] for m in members if not knows[m])
            error = f"at least {rows.needed[row]} live replicas required{zoned}, could only find {len(live)}" + (
                f" - unhealthy instances: {bad}" if bad else ""
            )
        else:
            errors = len(live) - int(rows.needed[row])
        out["replicas"].append([ring.ids[m] for m in live])
        out["max_errors"].append(errors)
        out["error"].append(error)
        out["partition"].append(partition)
        out["lost"].append(bool(row < 0 or after.lost[row]))
    schema: dict[str, Any] = {"replicas": pl.List(pl.String), "max_errors": pl.Int64, "error": pl.String, "partition": pl.Int64,
              "lost": pl.Boolean}  # fmt: skip
    return pl.DataFrame(out, schema=schema).with_columns(pl.Series("row", wanted, dtype=pl.Int64))
