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

BLANK: Fact = ("", " ", "")


def _load(value: float | None, counts: bool = False) -> str:
    return "-" if value is None else units.text("number" if counts else "bytes_per_s", value, 12)


def _critical(value: Any, other: str = "") -> str:
    return "critical" if value else other


def _headroom(row: Mapping[str, Any], counts: bool = False) -> Fact:
    known = row.get("capacity") is not None
    text = f"{_load(row['headroom'], counts)} of {_load(row['capacity'], counts)}" if known else None
    return "headroom", text, _critical(row.get("over_capacity"))


def _state(row: Mapping[str, Any], tokens: str) -> Fact:
    state, style = state_of(row)
    return "state", f"{state}, {row['zone'] or 'no zone'}, {row['tokens']} {tokens}", style


def _change(row: Mapping[str, Any], counts: bool = False) -> Fact:
    before, after = row.get("load_before"), row.get("load_after")
    return "load", f"{_load(before, counts)} → {_load(after, counts)}" if after is not None else None, ""


def node_facts(row: Mapping[str, Any]) -> list[Fact]:
    """List state, load and headroom of one row of table ``nodes``."""
    observed = row.get("load_observed")
    return [
        (str(row["instance"]), "", "title"),
        _state(row, "shards"),
        _change(row),
        _headroom(row),
        ("observed", units.text("bytes", observed, 12) if observed is not None else None, "dim"),
    ]


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
        facts.append(("", f"and {len(flows) - most} more" if len(flows) > most else None, "dim"))
    return facts


def _spread(s: Mapping[str, Any]) -> str:
    return f"{s['max_over_mean']:.3f}, cv {s['coefficient_of_variation']:.3f}"


def _over_capacity(s: Mapping[str, Any]) -> Fact:
    over = s.get("nodes_over_capacity")
    return "over capacity", units.plural(over, "node") if over is not None else None, _critical(over, "ok")


def _moving(node: str | None, shards: int) -> str:
    return f"{node}: {units.plural(shards, 'shard')} would move"


def totals(s: Mapping[str, Any]) -> list[Fact]:
    """List the totals of a result's summary, the decisive ones first: a small screen shows only those."""
    if s["members"] is None:
        return [("Totals", "", "title"), ("ring", "none among the files", ""), ("load", _load(s["load_total"]), "")]
    rounds, avoidable = s.get("cascade_rounds"), s.get("needless_moved_bytes")
    following = s.get("next_id")
    best = s["best_next_id"] if following else None
    zone = f"any zone: {_load(s['min_capacity_any_zone'])} each" if s.get("min_capacity_any_zone") is not None else None
    of_load: list[Fact] = [
        ("rejected", _load(s.get("rejected_bytes")), _critical(s["rejected_bytes"])),
        _over_capacity(s),
        ("cascade", f"{units.plural(rounds, 'round')}, then {len(s['down'])} down" if rounds else None, "critical"),
        ("drift", f"{units.plural(s['drift_pairs'], 'pair')} not as the ring says" if s["drift_pairs"] else None, "severe"),
        ("rerouted", _load(s.get("rerouted_bytes")), ""),
        ("moved", _load(s.get("moved_bytes")), ""),
        ("of it", f"{_load(avoidable)} from nodes that are up" if avoidable else None, ""),
        ("survives", f"any node: {_load(s.get('min_capacity_any_node'))} each", ""),
        ("", zone, ""),
        ("max/mean", _spread(s), ""),
        ("datasets", f"{s['datasets_touched']} of {s['datasets']} touched, {s['datasets_fully_on_down']} wholly, "
         f"{s['datasets_with_changed_shard_set']} with other shards", ""),
        ("tenants", f"{s['tenants_touched']} of {s['tenants']} touched", ""),
        ("tries", f"{s['mean_tries']:.3f} per request" if s["mean_tries"] > 1 else None, ""),
    ] if s["load_total"] is not None else []  # fmt: skip
    return [
        ("Totals", "", "title"),
        *of_load,
        ("shards", f"{s['total_shards']}, {s['shards_with_changed_owner']} with another owner", ""),
        ("next node", _moving(following, s["next_id_shards_changed"]) if following else None, ""),
        ("best ID", _moving(best, s["best_next_id_shards_changed"]) if best != following else None, ""),
        ("unit", s["load_unit"] or "no load", "dim"),
    ]  # fmt: skip


# -- rings with replicas ------------------------------------------------------------------------------------------------


def replica_node_facts(row: Mapping[str, Any], counts: bool) -> list[Fact]:
    """List state, load, shares and the worst partner of one row of table ``nodes``; of a ring that is not placed only the
    share that its page tells."""
    placed = row.get("replica_share") is not None
    owned = row.get("ownership")
    more = ", as the page says"
    if placed:
        more = f", {units.plural(row['token_ranges'], 'range')}" if row.get("token_ranges") is not None else ""
    first: list[Fact] = [
        (str(row["instance"]), "", "title"),
        _state(row, "tokens"),
        ("owns", f"{units.share(owned)} of its zone{more}" if owned is not None else None, ""),
    ]
    if not placed:
        return [*first, BLANK]
    observed = row.get("load_observed")
    partner = row.get("worst_partner")
    names = row.get("largest_tenants") or ()
    listed = f"{row['tenants']}: {', '.join(names)}{', …' if len(names) < row['tenants'] else ''}"
    return [
        *first,
        ("holds", f"{units.share(row['replica_share'])} of all keys", ""),
        _change(row, counts),
        _headroom(row, counts),
        ("observed", f"{_load(observed, counts)} by its own metrics" if observed is not None else None, "dim"),
        ("tenants", listed if names else f"{row['tenants']} on it", ""),
        ("worst with", f"{partner}: {_share(row['pair_lost_share'])} of keys" if partner else None, "moderate"),
        BLANK,
    ]


def _share(value: float | None) -> str:
    return "-" if value is None else units.share(value)


def replica_totals(s: Mapping[str, Any]) -> list[Fact]:
    """List the totals of a result's summary, what decides first."""
    if "write_lost_share" not in s:
        return [("Totals", "", "title"), ("placed", "nothing: see the notes", "severe")]
    counts = bool(s["load_is_count"])
    tenants = s["tenants"]
    loaded = s["load_total"]
    unread = s.get("partitions_without_readers")
    drift = s.get("drift_pairs")
    lost, writes, reads = (s[name] for name in ("write_lost_share", "tenants_write_lost", "tenants_read_lost"))
    whole = f"of the whole ring: {'succeed' if s['reads_ok'] else 'fail'}"
    requests = f"{_share(s['requests_lost_share'])} of requests fail" if lost else None
    return [
        ("Totals", "", "title"),
        ("writes", f"{_share(lost)} of all keys lost", _critical(lost, "ok")),
        ("", requests, "critical"),
        ("", f"{writes} of {tenants} tenants lose some" if tenants else None, _critical(writes)),
        ("queries", f"{reads} of {tenants} tenants fail" if tenants else None, _critical(reads, "ok")),
        ("" if tenants else "queries", whole, _critical(not s["reads_ok"], "ok")),
        ("partitions", f"{unread} without readers" if unread else None, "critical"),
        _over_capacity(s),
        ("load", f"{_load(loaded, counts)} before replication" if loaded else None, ""),
        ("lost load", _load(s["rejected_bytes"], counts) if loaded else None, _critical(s["rejected_bytes"])),
        ("max/mean", _spread(s) if loaded else None, ""),
        ("key shares", f"max/mean {s['share_max_over_mean']:.3f}, cv {s['share_variation']:.3f}", ""),
        ("drift", f"{units.plural(drift, 'tenant')} on other ingesters" if drift else None, "moderate"),
        ("moved", f"{_share(s['moved_share'])} of all keys, per replica" if s["moved_share"] else None, ""),
        ("tenants", f"{s['tenants_touched']} of {tenants} touched" if tenants else None, ""),
        (
            "ring",
            f"RF {s['replication_factor']}, zones {'on' if s['zone_aware'] else 'off'}, {units.plural(s['tokens'], 'token')}",
            "dim",
        ),
        ("unit", s["load_unit"] or "no load", "dim"),
    ]
