"""What would not be survived, what has drifted, and the capacity that every single failure needs."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from engine.result import Finding, Level
from engine.ring_placement.parameters import RingParameters
from engine.ring_placement.scenarios.scenario_state import Scenario, remember
from engine.ring_placement.scenarios.sweep import Sweep, every_node, scenarios, taking, worst_case
from engine.view import Context

_NAMED = 50
"""Most findings of one kind that are named one by one."""


def whole(value: Any) -> int:
    """A load as whole bytes per second."""
    found: int = round(value)
    return found


def capacity_array(s: Scenario) -> np.ndarray | None:
    """Capacity of each member of the scenario's ring (inf: not given); None without one that may be compared."""
    if not s.capacity or not s.comparable:
        return None
    return np.array([s.capacity.get(i, np.inf) for i in s.mid.ring.ids], dtype=np.float64)


def zones_of(s: Scenario) -> dict[str, list[str]]:
    """Member IDs of the scenario's ring by zone, in order."""
    zones: dict[str, list[str]] = {}
    for m in s.mid.ring.members:
        zones.setdefault(m.zone, []).append(m.id)
    return dict(sorted(zones.items()))


def singles(s: Scenario, p: RingParameters, context: Context) -> tuple[Sweep, Sweep | None]:
    """Every node, and every zone if there are several, failing in regime A on the ring as the scenario lays it out."""
    capacity = capacity_array(s)

    def step(fraction: float) -> None:
        context.check()

    def make() -> tuple[Sweep, Sweep | None]:
        index = {name: i for i, name in enumerate(s.mid.ring.ids)}
        zones = [tuple(index[i] for i in ids) for ids in zones_of(s).values()]
        nodes = every_node(s.mid, "transient", capacity, step)
        return nodes, scenarios(s.mid, zones, "transient", capacity, step) if len(zones) > 1 else None

    return remember(context.memo, "singles", (s.mid_key, p.capacity, p.cores), make)


def minimum_capacity(s: Scenario, p: RingParameters, context: Context) -> tuple[float | None, float | None]:
    """Capacity per node that survives any one node, and any one zone, in regime A; None where nothing can be said."""
    nodes, zones = singles(s, p, context)
    takes = taking(s.mid)
    return worst_case(nodes, takes), worst_case(zones, takes) if zones is not None else None


def findings_of(s: Scenario, p: RingParameters, seen: pl.DataFrame, context: Context) -> list[Finding]:
    """All findings: an unusable ring, single failures not survived, drift (rows of ``seen``), overload in the scenario."""
    found: list[Finding] = []
    ring = s.live.placement.ring
    if s.live.cluster.ring is not None and not ring.members:
        found.append(Finding("critical", "ring", "empty ring: no healthy instance, upstream answers UNAVAILABLE"))
    elif s.live.cluster.ring is not None and not ring.active.any():
        found.append(Finding("critical", "ring", "no instance is ACTIVE: every request is rejected"))
    found += remember(context.memo, "survival", (s.mid_key, p.capacity, p.cores), lambda: survival(s, p, context))
    drifted = seen.filter(pl.col("drift") != "")
    for row in drifted.head(_NAMED).iter_rows(named=True):
        of = "/".join(part for part in (row["tenant"], row["dataset"]) if part)
        where = f"shard {row['shard']}" + (f" of {of}" if of else "")
        text = {
            "owner": f"{where} is written by {row['instance']}, the ring says {row['computed']}",
            "no-such-shard": f"{where} is written by {row['instance']}, the ring has {ring.total} shards only",
            "unknown-instance": f"{where} is written by {row['instance']}, which is no healthy member",
        }[row["drift"]]
        found.append(Finding("severe", f"drift {row['source']}", text))
    if drifted.height > _NAMED:
        found.append(Finding("severe", "drift", f"{drifted.height - _NAMED} more pairs differ from the ring"))
    if p.fail and s.capacity and s.comparable:
        for name, load in zip(s.outcome.nodes, s.outcome.after, strict=True):
            if name in s.capacity and load > s.capacity[name]:
                text = f"carries {whole(load)} B/s in the scenario, its capacity is {s.capacity[name]} B/s"
                found.append(Finding("moderate", name, text))
    return found


def survival(s: Scenario, p: RingParameters, context: Context) -> list[Finding]:
    """Which single failures (regime A) of the ring as configured would not be survived."""
    mid = s.mid
    if not len(mid.groups.rows) or len(mid.ring.members) < 2:
        return []
    capacity = capacity_array(s)
    nodes, zones = singles(s, p, context)
    takes = taking(mid)
    found: list[Finding] = []
    zone_names = list(zones_of(s))
    for sweep, kind in ((nodes, "node"), (zones, "zone")):
        if sweep is None:
            continue
        named = 0
        for k in sweep.order():
            down = sweep.down[k]
            others = takes.copy()
            others[list(down)] = False
            if not takes[list(down)].any() or not others.any():
                continue
            subject = mid.ring.ids[down[0]] if kind == "node" else f"zone:{zone_names[k]}"
            reasons = []
            lost = sweep.rejected[k] - mid.rejected
            if lost > 0:
                reasons.append(f"{whole(lost)} B/s rejected although other nodes are alive")
            if capacity is not None and sweep.over[k] > 0:
                limit = capacity[sweep.worst[k]]
                reasons.append(
                    f"{sweep.over[k]} node{'s' if sweep.over[k] > 1 else ''} over capacity, hottest "
                    f"{mid.ring.ids[sweep.worst[k]]} with {whole(sweep.worst_load[k])} B/s of {limit:.0f}"
                )
            if not reasons:
                continue
            level: Level = "severe" if kind == "node" and capacity is not None else "moderate"
            named += 1
            if named <= _NAMED:
                found.append(Finding(level, subject, f"if {subject} fails (first minute): {'; '.join(reasons)}"))
        if named > _NAMED:
            level = "severe" if kind == "node" and capacity is not None else "moderate"
            found.append(Finding(level, kind, f"{named - _NAMED} more single {kind} failures would not be survived"))
    return found
