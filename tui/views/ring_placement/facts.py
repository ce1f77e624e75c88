"""The facts of the detail panel of the ring placement tab: the node under the cursor, and the totals."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from engine.core import units
from tui.views.ring_placement.cells import state_of
from tui.views.ring_placement.drawing import sign
from tui.widgets.drawing.fragments import cut_left, harmless
from tui.widgets.facts import Fact

if TYPE_CHECKING:
    from engine.ring_placement.result.detail import ShardMapView


def _rate(row: Mapping[str, Any], name: str) -> str:
    return "-" if row.get(name) is None else units.text("bytes_per_s", row[name], 12)


def node_facts(row: Mapping[str, Any]) -> list[Fact]:
    """List state, load and headroom of one row of table ``nodes``."""
    facts: list[Fact] = [(str(row["instance"]), "", "title")]
    state, style = state_of(row)
    facts.append(("state", f"{state}, {row['zone'] or 'no zone'}, {row['tokens']} shards", style))
    facts.append(("load", f"{_rate(row, 'load_before')} → {_rate(row, 'load_after')}", ""))
    if row.get("capacity") is not None:
        style = "critical" if row.get("over_capacity") else ""
        facts.append(("headroom", f"{_rate(row, 'headroom')} of {_rate(row, 'capacity')}", style))
    if row.get("load_observed") is not None:
        facts.append(("observed", units.text("bytes", row["load_observed"], 12), "dim"))
    return facts


def flow_facts(map_view: ShardMapView, number: int, most: int, room: int, ellipsis: str) -> list[Fact]:
    """List who takes over from the node ``number``, or from whom it takes over: at most ``most`` each, IDs in ``room`` cells."""
    lost_to = [("goes to", to, load) for lost, to, load in map_view.flows if lost == number]
    gained_from = [("from", lost, load) for lost, to, load in map_view.flows if to == number]
    facts: list[Fact] = []
    for flows in (lost_to, gained_from):
        for place, (label, other, load) in enumerate(flows[:most]):
            rate = units.text("bytes_per_s", load, 11)
            name = "rejected"
            if other >= 0:
                name = f"{sign(other)} {cut_left(harmless(map_view.nodes[other].id), room, ellipsis)}"
            facts.append((label if not place else "", f"{rate} {name}", "" if other >= 0 else "critical"))
        if len(flows) > most:
            facts.append(("", f"and {len(flows) - most} more", "dim"))
    return facts


def totals(s: Mapping[str, Any]) -> list[Fact]:
    """List the totals of a result's summary, what decides first: on a small screen the rest is below the edge."""
    facts: list[Fact] = [("Totals", "", "title"),
                         ("rejected", _rate(s, "rejected_bytes"), "critical" if s["rejected_bytes"] else "")]  # fmt: skip
    if s.get("nodes_over_capacity") is not None:
        style = "critical" if s["nodes_over_capacity"] else "ok"
        facts.append(("over capacity", f"{s['nodes_over_capacity']} nodes", style))
    if s.get("cascade_rounds"):
        facts.append(("cascade", f"{s['cascade_rounds']} rounds, {len(s['down'])} nodes down", "critical"))
    if s["drift_pairs"]:
        facts.append(("drift", f"{s['drift_pairs']} pairs differ", "severe"))
    facts += [
        ("rerouted", _rate(s, "rerouted_bytes"), ""),
        ("moved", f"{_rate(s, 'moved_bytes')}, {_rate(s, 'needless_moved_bytes')} needless", ""),
        ("survives", f"any node: {_rate(s, 'min_capacity_any_node')} each", ""),
    ]
    if s.get("min_capacity_any_zone") is not None:
        facts.append(("", f"any zone: {_rate(s, 'min_capacity_any_zone')} each", ""))
    facts += [
        ("max/mean", f"{s['max_over_mean']:.3f}, cv {s['coefficient_of_variation']:.3f}", ""),
        ("datasets", f"{s['datasets_touched']} of {s['datasets']} touched, {s['datasets_fully_on_down']} wholly, "
         f"{s['datasets_with_changed_shard_set']} with other shards", ""),
        ("tenants", f"{s['tenants_touched']} of {s['tenants']} touched", ""),
        ("shards", f"{s['total_shards']}, {s['shards_with_changed_owner']} with another owner", ""),
        ("tries", f"{s['mean_tries']:.3f} per request", ""),
    ]  # fmt: skip
    if s.get("next_id"):
        facts.append(("next node", f"{s['next_id']}: {s['next_id_shards_changed']} shards move", ""))
        if s["best_next_id"] != s["next_id"]:
            text = f"{s['best_next_id']}: {s['best_next_id_shards_changed']} shards move"
            facts.append(("best ID", text, ""))
    facts.append(("unit", s["load_unit"] or "no load", "dim"))
    return facts
