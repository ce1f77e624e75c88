"""A rolling restart of a ring with replicas: what each step costs while a node, or a whole zone, leaves and comes back."""

from __future__ import annotations

from typing import Any

import polars as pl

from engine.core.view import Context
from engine.ring_placement import tables
from engine.ring_placement.reading.document import columns_of
from engine.ring_placement.scenarios.scenario_state import ReplicatedScenario, replicated_ring
from engine.ring_placement.scenarios.sweep_totals import Sweep


def restart_table(s: ReplicatedScenario, context: Context) -> pl.DataFrame:
    """Build table ``restart``: nodes, and whole zones, that leave and come back one after the other."""
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
    base_reads = int((~planned.reads_ok[planned.rows.read_of]).sum())
    writes_stay = "LEAVING" in strategy.writing.healthy
    for unit, sweep, names in units:
        if not sweep.down:
            continue
        worst = _worst(sweep)
        lost = sweep.write_lost_share[worst], sweep.tenants_write_lost[worst], sweep.tenants_read_lost[worst]
        base = float(planned.lost_share[0]), int((planned.lost_share > 0)[planned.rows.shard_of].sum()), base_reads
        leaving = (*(base[:2] if writes_stay else lost[:2]), base_reads if answers else lost[2])
        gone = frozenset(planned.ring.ids[m] for m in sweep.down[worst])
        later = strategy.without(planned, gone, context.check)
        away = (float(later.lost_share[0]), int((later.lost_share > 0)[later.rows.shard_of].sum()),
                int((~later.reads_ok[later.rows.read_of]).sum()))  # fmt: skip
        for state, totals in (("LEAVING", leaving), ("gone", away), ("JOINING", lost)):
            rows.append((len(rows) + 1, unit, state, names[worst], *totals))
    return tables.RESTART.frame(columns_of(tables.RESTART, rows))


def _worst(sweep: Sweep) -> int:
    return int(sweep.order()[0])
