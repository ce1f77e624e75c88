"""Result tables of the layout: nodes, shards, and the strategy the ruler chooses per dataset."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from engine.ring_placement import tables
from engine.ring_placement.pyroscope.balancing import decide
from engine.ring_placement.pyroscope.distribution import integer_mean, integer_std_dev
from engine.ring_placement.pyroscope.keys import weigh
from engine.ring_placement.pyroscope.limits import BY_FINGERPRINT, DEFAULTS, ROUND_ROBIN
from engine.ring_placement.scenarios.failover import Outcome, mask
from engine.ring_placement.scenarios.scenario_state import Live, Scenario, remember
from engine.view import Context


def _whole(values: np.ndarray) -> list[int]:
    """Loads as whole bytes per second."""
    whole: list[int] = (np.rint(values).astype(np.int64) if values.dtype.kind == "f" else values).tolist()
    return whole


def alive_loads(s: Scenario, outcome: Outcome) -> np.ndarray:
    """Loads after, of the nodes that take data in the scenario."""
    failed = set(s.down) if s.regime != "returned" else set()
    takes = {m.id for m in s.after.ring.members if m.state == "ACTIVE" and m.tokens > 0} - failed
    return outcome.after[[n in takes for n in outcome.nodes]]


def node_table(s: Scenario) -> pl.DataFrame:
    """Table ``nodes``: every member, and those that a scale-in removes."""
    at = {name: i for i, name in enumerate(s.outcome.nodes)}
    before, after = _whole(s.outcome.before), _whole(s.outcome.after)
    down = set(s.down)
    listed = {m.id for m in s.members}
    members = list(s.members)
    # A scale-in removes members; they are still shown with what they held.
    members += [m for m in s.before.ring.members if m.id not in listed]
    if not s.padded:
        # Members outside the home zone take no part, but they are members.
        shown = {m.id for m in members}
        members += [m for m in s.live.members if m.id not in shown]
    rows: dict[str, list[Any]] = {c.name: [] for c in tables.NODES.columns}
    written = remember(s.live.cluster.memo, "written", s.live.key, lambda: _written(s.live.cluster.observed))
    alive = alive_loads(s, s.outcome)
    mean = float(alive.mean()) if len(alive) else 0.0
    for m in members:
        i = at.get(m.id)
        is_down = m.id in down
        old = before[i] if i is not None else 0
        new = after[i] if i is not None else 0
        capacity = s.capacity.get(m.id)
        usable = capacity is not None and s.comparable and m.placed and not (is_down and new == 0)
        rows["instance"].append(m.id)
        rows["state"].append(m.state)
        rows["zone"].append(m.zone)
        rows["tokens"].append(m.tokens)
        rows["load_before"].append(old)
        rows["load_after"].append(new)
        rows["added"].append(new - old)
        rows["over_mean"].append(new / mean if mean > 0 else None)
        rows["capacity"].append(capacity)
        rows["headroom"].append(capacity - new if usable and capacity is not None else None)
        rows["over_capacity"].append(new > capacity if usable and capacity is not None else None)
        rows["down"].append(is_down or m.id in s.removed)
        rows["load_observed"].append(written.get(m.id))
        rows["address"].append(m.address)
        rows["heartbeat_ms"].append(m.heartbeat_s * 1000 if m.heartbeat_s is not None else None)
    return tables.NODES.sorted(tables.NODES.frame(rows))


def _written(seen: pl.DataFrame) -> dict[str, int]:
    """Bytes by instance in the best source that names who wrote them."""
    named = seen.filter(pl.col("instance").is_not_null())
    source = next((x for x in ("stats", "usage", "ingest", "sent", "blocks") if (named["source"] == x).any()), "")
    by = named.filter(pl.col("source") == source).group_by("instance", maintain_order=True).agg(pl.col("bytes").sum())
    return dict(by.iter_rows())


def shard_table(s: Scenario, context: Context) -> pl.DataFrame:
    """Table ``shards``: every shard of the scenario's ring with its owner and load, before and after."""
    ring = s.after.ring
    key = (s.mid_key, s.before.ring.ids, ring.ids, s.before is s.live.placement)
    frame = remember(context.memo, "shards", key, lambda: _shard_map(s))
    ids = pl.Series([*ring.ids, None], dtype=pl.String)
    takes = stored_by(s)
    taken = pl.Series(np.where(takes < 0, len(ring.ids), takes).astype(np.uint32))
    return frame.with_columns(ids.gather(taken).alias("stored_by"))


def _shard_map(s: Scenario) -> pl.DataFrame:
    ring, old = s.after.ring, s.before.ring
    total = ring.total
    ids = pl.Series(list(ring.ids) or [""], dtype=pl.String)
    old_ids = pl.Series(list(old.ids) or [""], dtype=pl.String)
    shared = min(total, old.total)
    before = pl.concat([
        old_ids.gather(pl.Series(old.owner[:shared].astype(np.uint32))),
        pl.Series([None] * (total - shared), dtype=pl.String),
    ])  # fmt: skip
    load_before = np.zeros(max(total, old.total), dtype=s.before.loads.dtype)
    load_after = np.zeros(total, dtype=s.after.loads.dtype)
    if old.total and len(s.before.groups.rows):
        load_before[: old.total] = _by_shard(s.before)
    if total and len(s.after.groups.rows):
        load_after[:] = _by_shard(s.after)
    frame = pl.DataFrame({
        "shard": pl.Series(np.arange(1, total + 1)),
        "instance": ids.gather(pl.Series(ring.owner.astype(np.uint32))),
        "instance_before": before,
        "load_before": pl.Series(_whole(load_before[:total]), dtype=pl.Int64),
        "load_after": pl.Series(_whole(load_after), dtype=pl.Int64),
    })  # fmt: skip
    return tables.SHARDS.frame(frame)


def _by_shard(placement: Any) -> np.ndarray:
    cached = placement.__dict__.get("_by_shard")
    if cached is None:
        cached = weigh(placement.positions, placement.groups.weight, placement.ring.total)
        placement.__dict__["_by_shard"] = cached
    return cached  # type: ignore[no-any-return]


def stored_by(s: Scenario) -> np.ndarray:
    """Per shard of the scenario's ring, the member index that takes most of its load; -1: it is rejected; -2: its owner
    takes nothing and it has no load that would show where requests go."""
    ring, after = s.after.ring, s.after
    total = ring.total
    down = mask(ring, s.down if _failed_now(s) else ())
    takes = ring.active & ~down
    out = np.where(takes[ring.owner], ring.owner, -2).astype(np.int64) if total else np.empty(0, dtype=np.int64)
    if not total or not len(after.groups.rows):
        return out
    first = after.first
    positions = after.positions
    # Only shards with some load at another than their owner need a closer look.
    away = np.flatnonzero(first != ring.owner[positions])
    if not len(away):
        return out
    odd = np.zeros(total, dtype=bool)
    odd[positions[away]] = True
    rows = np.flatnonzero(odd[positions])
    width = len(ring.members) + 1
    cell = positions[rows] * width + first[rows] + 1
    order = np.argsort(cell, kind="stable")
    cell, weight = cell[order], after.groups.weight[rows][order].astype(np.float64)
    starts = np.flatnonzero(np.concatenate(([True], cell[1:] != cell[:-1])))
    sums = np.add.reduceat(weight, starts)
    at, node = cell[starts] // width, cell[starts] % width - 1
    ranked = np.lexsort((node, -sums, at))
    heads = ranked[np.concatenate(([True], at[ranked][1:] != at[ranked][:-1]))]
    out[at[heads]] = node[heads]
    return out


def _failed_now(s: Scenario) -> bool:
    """Whether members of the scenario's ring are down at this moment (regime A)."""
    return s.regime == "transient" and bool(s.down)


def strategy_table(state: Live) -> pl.DataFrame:
    """Table ``strategy``: the load-balancing decision per dataset, by the stored deviation and by the true one."""
    rows: dict[str, list[Any]] = {c.name: [] for c in tables.STRATEGY.columns}
    words = {BY_FINGERPRINT: "fingerprint", ROUND_ROBIN: "round-robin"}
    grouped = state.cluster.stats.group_by("tenant", "dataset", maintain_order=True).agg(
        "usage", pl.col("std_dev").first()
    )
    for tenant, dataset, usage, stored in grouped.iter_rows():
        limits = state.cluster.limits.get(tenant, DEFAULTS)
        rule = state.cluster.rules.get((tenant, dataset))
        target = rule.dataset_limit if rule else sum(usage) // max(1, limits.unit_size) + 1
        true = integer_std_dev(usage)

        def chosen(
            std_dev: int, limits: Any = limits, rule: Any = rule, usage: Any = usage, target: int = target
        ) -> str:
            if limits.load_balancing != "dynamic":
                return str(limits.load_balancing)
            if rule is not None and rule.load_balancing == ROUND_ROBIN:
                return "round-robin"
            return words[decide(usage, std_dev, limits.unit_size, target)]

        values = (tenant, dataset, len(usage), integer_mean(usage), stored, true, target, chosen(stored), chosen(true))
        for column, value in zip(rows, values, strict=True):
            rows[column].append(value)
    return tables.STRATEGY.sorted(tables.STRATEGY.frame(rows))
