"""Result tables of many scenarios: a sweep, and a rolling restart of a ring with replicas."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from engine.core.incremental import Memo
from engine.core.view import Context
from engine.ring_placement import tables
from engine.ring_placement.parameters import RingParameters
from engine.ring_placement.reading.document import columns_of
from engine.ring_placement.scenarios.replica_rows import ReplicatedPlacement
from engine.ring_placement.scenarios.scenario_state import KEEP, ReplicatedScenario, Scenario, replicated_ring
from engine.ring_placement.scenarios.segment_sweeps import random_sets
from engine.ring_placement.scenarios.strategy import TOTALS, P, Sweep


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
    if (
        p.sweep
        and p.sweep != "leaving"
        and p.regime in ("left", "returned")
        and s.live.strategy.kind != "segment-writer"
    ):
        return [f"sweep: members that fail and stay registered, not those of the regime {p.regime}"]
    if p.sweep == "leaving" and p.regime != "transient":
        return [f"sweep: nodes that are LEAVING, not those of the regime {p.regime}"]
    return []


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


def restart_table(s: ReplicatedScenario, context: Context) -> pl.DataFrame:
    """Build table ``restart``: nodes, or whole zones, leave and come back one after the other."""
    strategy, planned = replicated_ring(s.live), s.planned

    def step(fraction: float) -> None:
        context.check()

    rows: list[tuple[Any, ...]] = []
    zones = list(s.zones.items())
    units = [("node", strategy.sweep(planned, "nodes", [], "transient", None, step), planned.ring.ids)]
    if len(zones) > 1:
        sweep = strategy.sweep(planned, "zones", [members for _, members in zones], "transient", None, step)
        units.append(("zone", sweep, tuple(name for name, _ in zones)))
    answers = "LEAVING" in strategy.reading.healthy
    writes_stay = "LEAVING" in strategy.writing.healthy
    for unit, sweep, names in units:
        if not sweep.down:
            continue
        worst = int(sweep.order()[0])
        lost = sweep.write_lost_share[worst], sweep.tenants_write_lost[worst], sweep.tenants_read_lost[worst]
        base = _lost(planned)
        leaving = (*(base if writes_stay else lost)[:2], (base if answers else lost)[2])
        gone = frozenset(planned.ring.ids[m] for m in sweep.down[worst])
        later = strategy.without(planned, gone, context.check)
        for state, totals in (("LEAVING", leaving), ("gone", _lost(later)), ("JOINING", lost)):
            rows.append((len(rows) + 1, unit, state, names[worst], *totals))
    return tables.RESTART.frame(columns_of(tables.RESTART, rows))


def _lost(placement: ReplicatedPlacement) -> tuple[float, int, int]:
    """Return the share of all keys that cannot be written, and how many tenants lose writes and queries."""
    return float(placement.lost_share[0]), placement.tenants_write_lost, placement.tenants_read_lost
