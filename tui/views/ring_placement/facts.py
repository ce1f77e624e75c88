"""The facts of the detail panel: the node under the cursor and the totals, for segment writers and for rings with replicas."""

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
    """List the totals of a result's summary, the decisive ones first: a small screen shows only those."""
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


# -- rings with replicas ------------------------------------------------------------------------------------------------


def _share(value: float | None) -> str:
    """Format a share of keys."""
    return "-" if value is None else units.share(value)


def _load(value: float | None, counts: bool) -> str:
    return "-" if value is None else units.text("number" if counts else "bytes_per_s", value, 12)


def replica_node_facts(row: Mapping[str, Any], counts: bool) -> list[Fact]:
    """List state, load, shares and the worst partner of one row of table ``nodes``."""
    facts: list[Fact] = [(str(row["instance"]), "", "title")]
    state, style = state_of(row)
    facts.append(("state", f"{state}, {row['zone'] or 'no zone'}, {row['tokens']} tokens", style))
    if row.get("replica_share") is None:
        if row.get("ownership") is not None:
            facts.append(("owns", f"{_share(row['ownership'])} of its zone, as the page says", ""))
        return [*facts, ("", " ", "")]
    if row.get("ownership") is not None:
        ranges = f", {row['token_ranges']} ranges" if row.get("token_ranges") is not None else ""
        facts.append(("owns", f"{_share(row['ownership'])} of its zone{ranges}", ""))
    facts.append(("holds", f"{_share(row['replica_share'])} of all keys", ""))
    facts.append(("load", f"{_load(row['load_before'], counts)} → {_load(row['load_after'], counts)}", ""))
    if row.get("capacity") is not None:
        style = "critical" if row.get("over_capacity") else ""
        facts.append(("headroom", f"{_load(row['headroom'], counts)} of {_load(row['capacity'], counts)}", style))
    if row.get("load_observed") is not None:
        facts.append(("observed", f"{_load(row['load_observed'], counts)} by its own metrics", "dim"))
    names = list(row.get("largest_tenants") or ())
    more = ", …" if len(names) < row["tenants"] else ""
    facts.append(("tenants", f"{row['tenants']}: {', '.join(names)}{more}" if names else f"{row['tenants']} on it", ""))
    if row.get("worst_partner"):
        facts.append(("worst with", f"{row['worst_partner']}: {_share(row['pair_lost_share'])} of keys", "moderate"))
    return [*facts, ("", " ", "")]


def replica_totals(s: Mapping[str, Any]) -> list[Fact]:
    """List the totals of a result's summary, what decides first."""
    if "write_lost_share" not in s:
        return [("Totals", "", "title"), ("placed", "nothing: see the notes", "severe")]
    lost, reads = s["write_lost_share"], s["tenants_read_lost"]
    counts = bool(s["load_is_count"])
    facts: list[Fact] = [
        ("Totals", "", "title"), ("writes", f"{_share(lost)} of all keys lost", "critical" if lost else "ok"),
    ]  # fmt: skip
    if s["tenants"]:
        writes = s["tenants_write_lost"]
        facts.append(("", f"{writes} of {s['tenants']} tenants lose some", "critical" if writes else ""))
        facts.append(("queries", f"{reads} of {s['tenants']} tenants fail", "critical" if reads else "ok"))
    whole = "succeed" if s["reads_ok"] else "fail"
    facts.append(
        ("" if s["tenants"] else "queries", f"without a shard: {whole}", "ok" if s["reads_ok"] else "critical")
    )
    if s.get("partitions_without_readers"):
        facts.append(("partitions", f"{s['partitions_without_readers']} without readers", "critical"))
    if s.get("nodes_over_capacity") is not None:
        facts.append(
            ("over capacity", f"{s['nodes_over_capacity']} nodes", "critical" if s["nodes_over_capacity"] else "ok")
        )
    if s["load_total"]:
        facts.append(("load", f"{_load(s['load_total'], counts)} before replication", ""))
        facts.append(("lost load", _load(s["rejected_bytes"], counts), "critical" if s["rejected_bytes"] else ""))
        facts.append(("max/mean", f"{s['max_over_mean']:.3f}, cv {s['coefficient_of_variation']:.3f}", ""))
    facts.append(("key shares", f"max/mean {s['share_max_over_mean']:.3f}, cv {s['share_variation']:.3f}", ""))
    if s.get("drift_pairs"):
        facts.append(("drift", f"{s['drift_pairs']} tenants on ingesters differ", "moderate"))
    if s["moved_share"]:
        facts.append(("moved", f"{_share(s['moved_share'])} of all keys, per replica", ""))
    if s["tenants"]:
        facts.append(("tenants", f"{s['tenants_touched']} of {s['tenants']} touched", ""))
    zones = "zones on" if s["zone_aware"] else "zones off"
    facts.append(("ring", f"RF {s['replication_factor']}, {zones}, {s['tokens']} tokens", "dim"))
    facts.append(("unit", s["load_unit"] or "no load", "dim"))
    return facts
