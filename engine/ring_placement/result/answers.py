"""What is answered alike for all kinds of rings: the interface, tables of members and sweeps, parts of summaries, headlines
and notes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, Generic

import msgspec
import numpy as np
import polars as pl

from engine.core import units
from engine.core.exports import Gauge
from engine.core.incremental import Memo
from engine.core.reading import Problem
from engine.core.view import Context, Finding, Headline, Level
from engine.ring_placement import tables
from engine.ring_placement.insight.explain import Step
from engine.ring_placement.insight.findings import some
from engine.ring_placement.insight.holders import fates_of, mean_of
from engine.ring_placement.parameters import RingParameters
from engine.ring_placement.pyroscope.ring import Member
from engine.ring_placement.reading.document import columns_of
from engine.ring_placement.result.detail import ShardMapView
from engine.ring_placement.scenarios.cluster import Cluster, RingFile
from engine.ring_placement.scenarios.scenario_state import KEEP, LiveState, Scenario
from engine.ring_placement.scenarios.segment_sweeps import random_sets
from engine.ring_placement.scenarios.strategy import LOSSES, TOTALS, P, Sweep, imbalance, requests_lost

Frames = dict[str, pl.DataFrame]


class Answers(msgspec.Struct, Generic[P], frozen=True):
    """The answers of one kind of ring, each a function.

    ``frames``: its own result tables by name (adds to the notes given); ``observed``: table ``observed``, None where nothing
    was observed, and notes on it; ``explain``: the steps of a key, and table ``sizes`` (raises BadKey). ``findings`` and
    ``summary`` get the table ``observed``, ``summary`` also the sweep, if one is asked for.
    """

    notes: Callable[[Scenario[P], RingParameters], list[str]]
    problems: Callable[[LiveState[P]], list[Problem]]
    observed: Callable[[LiveState[P]], tuple[pl.DataFrame | None, list[str]]]
    frames: Callable[[Scenario[P], RingParameters, Context, list[str]], Frames]
    explain: Callable[[str, Scenario[P], RingParameters, Context], tuple[list[Step], pl.DataFrame | None]]
    findings: Callable[[Scenario[P], RingParameters, pl.DataFrame | None, Context], list[Finding]]
    summary: Callable[[Scenario[P], RingParameters, pl.DataFrame | None, Sweep | None, Context], dict[str, Any]]
    headline: Callable[[Scenario[P], dict[str, Any]], tuple[Headline, ...]]
    map_view: Callable[[Scenario[P], RingParameters, Context], ShardMapView]


KIND_NAMES = {"token-ring": "token ring", "partition-ring": "partition ring"}


_NODE = {"instance": "instance", "zone": "zone"}


GAUGES = (
    Gauge("ring_node_load_bytes_per_second", "nodes", "load_after", "Load of the node, with what fails over to it.", _NODE,
          each=True),
    Gauge("ring_node_load_before_bytes_per_second", "nodes", "load_before", "Load of the node without failures.", _NODE,
          each=True),
    Gauge("ring_node_over_mean_ratio", "nodes", "over_mean", "Load over the mean of all nodes.", _NODE, each=True),
    Gauge("ring_node_headroom_bytes_per_second", "nodes", "headroom", "Capacity that is left.", _NODE, each=True),
    Gauge("ring_node_ownership_ratio", "nodes", "ownership", "Part of the key space that the node owns.", _NODE, each=True),
    Gauge("ring_node_down", "nodes", "down", "1 where the node is taken down.", _NODE, each=True),
    Gauge("ring_tenant_load", "tenants", "load", "Load of the tenant, in the unit of its source.", {"tenant": "tenant"},
          adds=True),
    Gauge("ring_tenant_write_lost_ratio", "tenants", "write_lost_share", "Part of the tenant's keys that cannot be written.",
          {"tenant": "tenant"}),
)  # fmt: skip
"""Columns that are exported to Prometheus."""


def ring_names(cluster: Cluster) -> dict[str, Any]:
    """Return for the summary the ring in use and all others, by the labels of their files."""
    ring = cluster.ring
    return {"ring": ring.label if ring else "", "rings": list(ring.labels) if ring else []}


def other_rings(ring: RingFile) -> list[str]:
    """Return a note on rings in the files that are not used."""
    if not ring.others:
        return []
    return [f"{ring.others} other ring{'s' if ring.others > 1 else ''} not used; -o ring= chooses one (key I)"]


def evenness(loads: np.ndarray) -> dict[str, Any]:
    """Sum up how evenly the nodes are loaded."""
    ratio, variation = imbalance(loads)
    return {"mean_load": mean_of(loads), "max_over_mean": ratio, "coefficient_of_variation": variation}


def setting(s: Scenario[Any]) -> dict[str, Any]:
    """Sum up the ring and the failure that the scenario assumes."""
    ring = s.live.placement.ring
    return {
        "regime": s.regime,
        "down": list(s.down),
        "members": len(s.live.members),
        **ring_names(s.live.cluster),
        "in_ring": len(ring.members),
        "healthy": sum(m.state != "UNHEALTHY" for m in ring.members),
        "active": int(ring.active.sum()),
    }


def over_capacity(s: Scenario[Any]) -> int | None:
    """Count the nodes above their capacity; None without a comparable capacity."""
    if not s.capacity or not s.comparable:
        return None
    loads = zip(s.outcome.nodes, s.outcome.after, strict=True)
    return sum(1 for name, load in loads if name in s.capacity and load > s.capacity[name])


def of_settings(doubt: str, choice: str, assumed: str) -> list[Headline]:
    """Say why the settings may be wrong, with what is ``assumed``, or which of several files was taken."""
    if doubt:
        return [Headline("settings", "uncertain", f"{doubt}; {assumed}", "moderate", ("settings", "uncertain"))]
    return [Headline("settings", "files differ", choice, "", ("settings", "differ"))] if choice else []


def counted(count: int, what: str) -> str:
    """Return a number of things without separators, with the plural in ``s``."""
    return f"{count} {what}{'s' if count != 1 else ''}"


def when_down(s: Scenario[Any]) -> str:
    """Name the failure of the scenario, as the beginning of a sentence: whole zones by their names."""
    ids, down, names = s.planned.ring.ids, set(s.down), []
    for zone, members in s.zones.items():
        own = {ids[k] for k in members}
        if zone and len(own) > 1 and own <= down:
            names.append(zone if zone.startswith("zone") else f"zone {zone}")
            down -= own
    names += [name for name in s.down if name in down]
    name, plural = some(names, 2), len(names) > 1
    if s.regime in ("left", "returned"):
        return f"once {name} {'are' if plural else 'is'} {'gone' if s.regime == 'left' else 'back'}"
    return f"if {name} fail{'' if plural else 's'}"


def nodes_line(count: int, s: Scenario[Any], basis: str, do: str = "take data") -> Headline:
    """Tell how many of the scenario's nodes take data (or ``do`` something else); tombstones are not nodes."""
    total = sum(m.state not in ("LEFT", "EXCLUDED") for m in s.members)
    level: Level = "critical" if not count else "ok" if count >= total else "moderate"
    return Headline("nodes", f"{count} of {total} {do}", basis, level, ("nodes", f"{count}/{total}"))


def applying(notes: Mapping[str, Any]) -> list[str]:
    """Return the notes that apply."""
    return [note for note, applies in notes.items() if applies]


def excluded_note(state: LiveState[Any]) -> list[str]:
    """Say which members take no part because their zones are excluded."""
    out = [m for m in state.members if m.state == "EXCLUDED"]
    zones = sorted({m.zone for m in out})
    who = "1 member takes" if len(out) == 1 else f"{len(out)} members take"
    which = f"zone {zones[0]} is" if len(zones) == 1 else f"zones {some(zones)} are" if zones else ""
    return [f"{who} no part: {which} excluded ({state.cluster.settings.label})"] if out else []


def late_note(state: LiveState[Any], p: RingParameters) -> list[str]:
    """Say how to judge heartbeats that are perhaps old only because the file is."""
    newest = max((m.heartbeat_s for m in state.members if m.state == "UNHEALTHY" and m.heartbeat_s), default=0)
    behind = units.duration(state.now_ns / 1_000_000 - newest * 1000)
    text = f"the newest heartbeat is {behind} before the file's time; -o now={newest} shows the ring at that time"
    return [text] if newest and p.now is None else []


def whole(values: np.ndarray) -> list[int]:
    """Round loads to whole numbers."""
    return (np.rint(values).astype(np.int64) if values.dtype.kind == "f" else values).tolist()


def node_table(
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
    loads = dict(zip(s.outcome.nodes, zip(whole(s.outcome.before), whole(s.outcome.after), strict=True), strict=True))
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
    """Build table ``nodes`` of a ring that cannot be placed: only its members, and what their page says they own."""
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
