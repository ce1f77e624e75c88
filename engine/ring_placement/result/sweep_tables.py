"""Result tables of many scenarios: sweeps, and other placement algorithms on the same keys."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from engine.incremental import Memo
from engine.ring_placement import tables
from engine.ring_placement.insight.alternatives import compare_algorithms
from engine.ring_placement.parameters import RingParameters
from engine.ring_placement.scenarios.failover import (
    member_mask,
    place_without,
    relayout_outcome,
    transient_outcome,
)
from engine.ring_placement.scenarios.scenario_state import KEEP, Scenario, SegmentScenario
from engine.ring_placement.scenarios.strategy import TOTALS, P
from engine.ring_placement.scenarios.sweep import random_sets
from engine.ring_placement.scenarios.sweep_totals import Sweep, imbalance
from engine.view import Context


def sweep_of(s: Scenario[P], p: RingParameters, context: Context) -> Sweep:
    """Compute the sweep that the parameters ask for, or return it from the memo."""
    regime = "left" if p.regime != "transient" and p.sweep != "leaving" else "transient"
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


def sweep_table(s: Scenario[P], p: RingParameters, sweep: Sweep, memo: Memo) -> pl.DataFrame:
    """Build table ``sweep``, worst first, or return it from the memo."""
    key = (s.planned_key, p.sweep, p.regime, p.capacity, p.cores, p.random_size, p.draws, p.seed)
    return memo.value("sweep table", key, lambda: _sweep_rows(s, p, sweep), keep=KEEP)


def _sweep_rows(s: Scenario[P], p: RingParameters, sweep: Sweep) -> pl.DataFrame:
    order = sweep.order()
    ids = sweep.ids
    zone_of = {m.id: m.zone for m in s.planned.ring.members}

    def ordered(name: str) -> list[Any]:
        values = getattr(sweep, name)
        return [values[i] for i in order]

    down = [[ids[i] for i in members] for members in ordered("down")]
    frame: dict[str, Any] = {
        "rank": np.arange(1, len(order) + 1),
        "down": down,
        "zone": [zone_of.get(d[0]) if p.sweep == "zones" and d else None for d in down],
        **{name: [round(value) for value in ordered(name)] for name in (*TOTALS, "worst_load")},
        **{name: ordered(name) for name in ("max_over_mean", "coefficient_of_variation")},
        "worst_instance": [ids[i] if i >= 0 else None for i in ordered("worst")],
        "nodes_over_capacity": [v if v >= 0 else None for v in ordered("nodes_over_capacity")],
    }
    for name in ("write_lost_share", "tenants_write_lost", "tenants_read_lost"):
        if getattr(sweep, name):
            frame[name] = ordered(name)
    return tables.SWEEP.frame(frame)


def comparison_table(s: SegmentScenario, p: RingParameters, context: Context) -> pl.DataFrame:
    """Build table ``comparison``: the same keys by other algorithms."""
    planned, down = s.planned, frozenset(s.down)
    before_ring = s.before.ring if s.added or p.scale is not None else planned.ring
    old = [i for i, active in zip(before_ring.ids, before_ring.active, strict=True) if active]
    new = [i for i, active in zip(planned.ring.ids, planned.ring.active, strict=True) if active and i not in down]

    def make() -> pl.DataFrame:
        context.check()
        later = place_without(planned, down) if down else planned
        own = relayout_outcome(s.before, later, down)
        ratio, variation = imbalance(own.after[[name not in down for name in own.nodes]])
        rows = [("Pyroscope (as configured)", own.moved_bytes, own.needless_moved_bytes, ratio, variation)]
        if down:
            failed = member_mask(planned.ring, down)
            now = transient_outcome(planned, failed)
            rows.append(("Pyroscope, first minute (A)", now.moved_bytes, 0, *imbalance(now.after[~failed])))
        context.check()
        rows += [
            (other.algorithm, other.moved_bytes, other.needless_moved_bytes, other.max_over_mean, other.variation)
            for other in compare_algorithms(planned.keys, planned.groups, old, new)
        ]
        total = planned.groups.total
        frame: dict[str, Any] = {
            "algorithm": [row[0] for row in rows],
            "moved_bytes": [round(row[1]) for row in rows],
            "moved_share": [float(row[1]) / total if total else 0.0 for row in rows],
            "needless_moved_bytes": [round(row[2]) for row in rows],
            "max_over_mean": [row[3] for row in rows],
            "coefficient_of_variation": [row[4] for row in rows],
        }
        return tables.COMPARISON.sorted(tables.COMPARISON.frame(frame))

    return context.memo.value("comparison", (s.planned_key, tuple(old), tuple(new)), make, keep=KEEP)
