"""Result tables of members, shards and partitions, and of sweeps over who fails."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

import numpy as np
import polars as pl

from engine.core.incremental import Memo
from engine.core.view import Context
from engine.ring_placement import tables
from engine.ring_placement.dskit.replicas import STATES
from engine.ring_placement.insight.holders import alive_loads, fates_of, mean_of, partition_loads, ring_facts, stored_by
from engine.ring_placement.parameters import RingParameters
from engine.ring_placement.pyroscope.ring import Member
from engine.ring_placement.reading.document import columns_of
from engine.ring_placement.scenarios.scenario_state import (
    KEEP,
    LiveState,
    ReplicatedScenario,
    Scenario,
    SegmentScenario,
    replicated_ring,
)
from engine.ring_placement.scenarios.segment_sweeps import random_sets
from engine.ring_placement.scenarios.strategy import LOSSES, TOTALS, P, Sweep, requests_lost


def _whole(values: np.ndarray) -> list[int]:
    return (np.rint(values).astype(np.int64) if values.dtype.kind == "f" else values).tolist()


def segment_nodes(s: SegmentScenario) -> pl.DataFrame:
    """Build table ``nodes`` of a ring of segment writers."""
    loads = dict(zip(s.outcome.nodes, _whole(s.outcome.after), strict=True))
    idle = {name for name in s.down if not loads.get(name)}
    others = () if s.padded else s.live.members
    limited = {m.id for m in (*s.members, *s.before.ring.members, *others) if m.placed} - idle
    return _nodes(s, others, mean_of(alive_loads(s)), limited, s.live.cluster.written, {})


def replica_nodes(s: ReplicatedScenario, context: Context) -> pl.DataFrame:
    """Build table ``nodes`` of a ring with replicas: also ownership, what each holds, and its most dangerous partner."""
    loads = dict(zip(s.outcome.nodes, _whole(s.outcome.after), strict=True))
    alive = {i for i, ok in zip(s.after.ring.ids, s.after.alive, strict=True) if ok}
    mean = mean_of(np.array([loads[i] for i in alive if i in loads]))
    observed = s.live.cluster.tenants.observed.group_by("instance").agg(pl.col("load").sum())
    written = {name: round(load) for name, load in observed.iter_rows()}
    return _nodes(s, s.live.members, mean, alive, written, ring_facts(s, context))


def _nodes(
    s: Scenario[Any],
    others: Iterable[Member],
    mean: float,
    limited: Collection[str],
    written: Mapping[str, int],
    facts: Mapping[str, tuple[Any, ...]],
) -> pl.DataFrame:
    """Build table ``nodes``: every member of the scenario, those that a scale-in removes, and ``others``.

    ``mean``: load of the nodes that take data; ``limited``: IDs of nodes whose load is held against their capacity;
    ``written``: observed bytes by ID; ``facts``: seven columns by ID, as ``ring_facts`` returns them.
    """
    loads = dict(zip(s.outcome.nodes, zip(_whole(s.outcome.before), _whole(s.outcome.after), strict=True), strict=True))
    fates, down = fates_of(s), {*s.down, *s.removed}
    out = {m.id for m in s.live.members if m.out}
    listed = {m.id: m for m in (*others, *s.before.ring.members, *s.members)}
    rows = []
    for m in listed.values():
        before, after = loads.get(m.id, (0, 0))
        capacity = s.capacity.get(m.id)
        limit = capacity if s.comparable and m.id in limited else None
        rows.append((
            m.id, m.state, fates.get(m.id, ""), m.zone, m.tokens, before, after, after - before,
            after / mean if mean > 0 else None, capacity, None if limit is None else limit - after,
            None if limit is None else after > limit, m.id in down, written.get(m.id), *facts.get(m.id, (None,) * 7),
            m.address, None if m.heartbeat_s is None else m.heartbeat_s * 1000, m.id in out,
        ))  # fmt: skip
    return tables.NODES.sorted(tables.NODES.frame(columns_of(tables.NODES, rows)))


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


def partition_table(s: ReplicatedScenario) -> pl.DataFrame:
    """Build table ``partitions`` of a partition ring."""
    after = s.after
    assert after.partitions is not None
    registered, readers = set(after.ring.ids), after.answering_owners
    share, load = partition_loads(after)
    listed = [
        (p.id, STATES[p.state], [o for o in p.owners if o in registered], readers[k],
         float(share[k]), float(load[k]), p.changed_s * 1000 if p.changed_s else None, p.locked)
        for k, p in enumerate(after.partitions.partitions)
    ]  # fmt: skip
    return tables.PARTITIONS.sorted(tables.PARTITIONS.frame(columns_of(tables.PARTITIONS, listed)))


def sweep_of(s: Scenario[P], p: RingParameters, context: Context) -> Sweep:
    """Compute the sweep that the parameters ask for, or return it from the memo."""
    regime = "transient" if s.live.strategy.kind != "segment-writer" or p.sweep == "leaving" else p.regime
    key = (s.planned_key, p.sweep, regime, p.capacity, p.cores, p.random_size, p.draws, p.seed)

    def step(fraction: float) -> None:
        context.check()
        context.progress(fraction, f"sweep of {p.sweep}")

    def make() -> Sweep:
        n = len(s.planned.ring.members)
        downs: list[tuple[int, ...]] = []
        if p.sweep == "zones":
            downs = list(s.zones.values())
        elif p.sweep == "random" and n:
            downs = list(random_sets(n, p.random_size, p.draws, p.seed))
        return s.live.strategy.sweep(s.planned, p.sweep, downs, regime, s.capacity_array, step)

    return context.memo.value("sweep", key, make, keep=KEEP)


def sweep_note(s: Scenario[P], p: RingParameters) -> list[str]:
    """Return a note on the regime of the sweep's rows if it is not the one in force."""
    if p.sweep == "leaving":
        return [] if p.regime == "transient" else [f"sweep: nodes that are LEAVING, not those of the regime {p.regime}"]
    stays = p.sweep and p.regime in ("left", "returned") and s.live.strategy.kind != "segment-writer"
    return [f"sweep: members that fail and stay registered, not those of the regime {p.regime}"] if stays else []


def sweep_table(s: Scenario[P], p: RingParameters, sweep: Sweep, memo: Memo) -> pl.DataFrame:
    """Build table ``sweep``, worst first, or return it from the memo."""
    key = (s.planned_key, p.sweep, p.regime, p.capacity, p.cores, p.random_size, p.draws, p.seed)
    return memo.value("sweep table", key, lambda: _sweep_rows(s, p, sweep), keep=KEEP)


def _sweep_rows(s: Scenario[P], p: RingParameters, sweep: Sweep) -> pl.DataFrame:
    order = sweep.order()
    ids = sweep.ids
    zone_of = {m.id: m.zone for m in s.planned.ring.members}

    def ordered(name: str) -> list[Any]:
        values = sweep[name]
        return [values[i] for i in order]

    down = [[ids[i] for i in sweep.down[k]] for k in order]
    frame: dict[str, Any] = {
        "rank": np.arange(1, len(order) + 1),
        "down": down,
        "zone": [zone_of.get(d[0]) if p.sweep == "zones" and d else None for d in down],
        **{name: [round(value) for value in ordered(name)] for name in (*TOTALS, "worst_load")},
        **{name: ordered(name) for name in ("max_over_mean", "coefficient_of_variation")},
        "worst_instance": [ids[i] if i >= 0 else None for i in ordered("worst")],
        "nodes_over_capacity": [v if v >= 0 else None for v in ordered("nodes_over_capacity")],
    }
    if LOSSES[0] in sweep.columns:
        frame |= {name: ordered(name) for name in LOSSES}
        frame["requests_lost_share"] = requests_lost(np.array(frame["write_lost_share"]), p.request_series)
    return tables.SWEEP.frame(frame)


def restart_table(s: ReplicatedScenario, context: Context) -> pl.DataFrame:
    """Build table ``restart``: nodes, or whole zones, leave and come back one after the other."""
    strategy, planned = replicated_ring(s.live), s.planned
    rows: list[tuple[Any, ...]] = []
    zones = s.zones

    def swept(kind: str, downs: list[tuple[int, ...]]) -> Sweep:
        return strategy.sweep(planned, kind, downs, "transient", None, lambda fraction: context.check())

    units = [("node", swept("nodes", []), planned.ring.ids)]
    if len(zones) > 1:
        units.append(("zone", swept("zones", [*zones.values()]), tuple(zones)))
    base, reading, writing = planned.losses, strategy.reading.healthy, strategy.writing.healthy
    for unit, sweep, names in units:
        if not sweep.down:
            continue
        worst = int(sweep.order()[0])
        lost = tuple(sweep[name][worst] for name in LOSSES)
        leaving = (*(base if "LEAVING" in writing else lost)[:2], *(base if "LEAVING" in reading else lost)[2:])
        gone = frozenset(planned.ring.ids[m] for m in sweep.down[worst])
        later = strategy.without(planned, gone, context.check)
        for state, totals in (("LEAVING", leaving), ("gone", later.losses), ("JOINING", lost)):
            requests = requests_lost(np.float64(totals[0]), strategy.settings.request_series)
            rows.append((len(rows) + 1, unit, state, names[worst], totals[0], requests, *totals[1:]))
    return tables.RESTART.frame(columns_of(tables.RESTART, rows))
