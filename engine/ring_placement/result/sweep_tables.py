"""Result tables of many scenarios: sweeps, and other placement algorithms on the same keys."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl

from engine.ring_placement import tables
from engine.ring_placement.insight.alternatives import compare
from engine.ring_placement.insight.findings import capacity_array, whole, zones_of
from engine.ring_placement.parameters import RingParameters
from engine.ring_placement.scenarios.failover import left, mask, relaid, transient
from engine.ring_placement.scenarios.scenario import spread
from engine.ring_placement.scenarios.scenario_state import Scenario, remember
from engine.ring_placement.scenarios.sweep import Sweep, every_node, every_pair, random_sets, scenarios
from engine.view import Context


def sweep_of(s: Scenario, p: RingParameters, context: Context) -> Sweep:
    """The sweep that the parameters ask for, remembered."""
    regime = "left" if p.regime != "transient" and p.sweep != "leaving" else "transient"
    capacity = capacity_array(s)
    key = (s.mid_key, p.sweep, regime, p.capacity, p.cores, p.random_size, p.draws, p.seed)

    def step(fraction: float) -> None:
        context.check()
        context.progress(fraction, f"sweep of {p.sweep}")

    def make() -> Sweep:
        n = len(s.mid.ring.members)
        if p.sweep == "nodes" or p.sweep == "leaving":
            # One node LEAVING sends its keys where its crash would, without the failed try.
            return every_node(s.mid, regime, capacity, step)
        if p.sweep == "pairs":
            return every_pair(s.mid, regime, capacity, step)
        if p.sweep == "zones":
            index = {name: i for i, name in enumerate(s.mid.ring.ids)}
            downs = [tuple(index[i] for i in ids) for ids in zones_of(s).values()]
            return scenarios(s.mid, downs, regime, capacity, step)
        return scenarios(
            s.mid, list(random_sets(n, p.random_size, p.draws, p.seed)) if n else [], regime, capacity, step
        )

    return remember(context.memo, "sweep", key, make)


def sweep_table(s: Scenario, p: RingParameters, sweep: Sweep) -> pl.DataFrame:
    """Table ``sweep``, worst first."""
    order = sweep.order()
    ids = sweep.ids
    zone_of = {m.id: m.zone for m in s.mid.ring.members}

    def picked(values: Sequence[Any]) -> list[Any]:
        return [values[i] for i in order]

    down = [[ids[i] for i in sweep.down[k]] for k in order]
    frame: dict[str, Any] = {
        "rank": np.arange(1, len(order) + 1),
        "down": down,
        "zone": [zone_of.get(d[0]) if p.sweep == "zones" and d else None for d in down],
        "rejected_bytes": [whole(v) for v in picked(sweep.rejected)],
        "rerouted_bytes": [whole(v) for v in picked(sweep.rerouted)],
        "moved_bytes": [whole(v) for v in picked(sweep.moved)],
        "needless_moved_bytes": [whole(v) for v in picked(sweep.needless)],
        "shards_with_changed_owner": picked(sweep.owners_changed),
        "datasets_with_changed_shard_set": picked(sweep.sets_changed),
        "datasets_touched": picked(sweep.datasets),
        "datasets_fully_on_down": picked(sweep.fully),
        "tenants_touched": picked(sweep.tenants),
        "max_over_mean": picked(sweep.max_over_mean),
        "coefficient_of_variation": picked(sweep.variation),
        "worst_instance": [ids[i] if i >= 0 else None for i in picked(sweep.worst)],
        "worst_load": [whole(v) for v in picked(sweep.worst_load)],
        "nodes_over_capacity": [v if v >= 0 else None for v in picked(sweep.over)],
    }
    return tables.SWEEP.frame(frame)


def comparison_table(s: Scenario, p: RingParameters, context: Context) -> pl.DataFrame:
    """Table ``comparison``: the same keys by other algorithms."""
    mid, down = s.mid, frozenset(s.down)
    before_ring = s.before.ring if s.fresh or p.scale is not None else mid.ring
    old = [i for i, a in zip(before_ring.ids, before_ring.active, strict=True) if a]
    new = [i for i, a in zip(mid.ring.ids, mid.ring.active, strict=True) if a and i not in down]
    key = (s.mid_key, tuple(old), tuple(new))

    def make() -> pl.DataFrame:
        context.check()
        rows = []
        total = mid.groups.total
        own = relaid(s.before, left(mid, down)[1], down) if down else relaid(s.before, mid)
        survivors = own.after[[n not in down for n in own.nodes]]
        ratio, variation = spread(survivors)
        rows.append(("Pyroscope (as configured)", own.moved_bytes, own.needless_moved_bytes, ratio, variation))
        if down:
            now = transient(mid, mask(mid.ring, down))
            ratio, variation = spread(now.after[~mask(mid.ring, down)])
            rows.append(("Pyroscope, first minute (A)", now.moved_bytes, 0, ratio, variation))
        context.check()
        rows += [
            (found.algorithm, found.moved_bytes, found.needless_moved_bytes, found.max_over_mean, found.variation)
            for found in compare(mid.keys, mid.groups, old, new)
        ]
        frame: dict[str, Any] = {
            "algorithm": [r[0] for r in rows],
            "moved_bytes": [whole(r[1]) for r in rows],
            "moved_share": [float(r[1]) / total if total else 0.0 for r in rows],
            "needless_moved_bytes": [whole(r[2]) for r in rows],
            "max_over_mean": [r[3] for r in rows],
            "coefficient_of_variation": [r[4] for r in rows],
        }
        return tables.COMPARISON.sorted(tables.COMPARISON.frame(frame))

    return remember(context.memo, "comparison", key, make)
