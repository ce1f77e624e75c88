"""The facts of the detail panel for rings with replicas: the node under the cursor, and the totals."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from engine.core import units
from tui.views.ring_placement.cells import state_of
from tui.widgets.facts import Fact


def share(value: float | None) -> str:
    """Format a share of keys."""
    return "-" if value is None else units.share(value)


def _load(value: float | None, counts: bool) -> str:
    return "-" if value is None else units.text("number" if counts else "bytes_per_s", value, 12)


def node_facts(row: Mapping[str, Any], counts: bool) -> list[Fact]:
    """List state, load, shares and the worst partner of one row of table ``nodes``."""
    facts: list[Fact] = [(str(row["instance"]), "", "title")]
    state, style = state_of(row)
    facts.append(("state", f"{state}, {row['zone'] or 'no zone'}, {row['tokens']} tokens", style))
    if row.get("replica_share") is None:
        if row.get("ownership") is not None:
            facts.append(("owns", f"{share(row['ownership'])} of its zone, as the page says", ""))
        return [*facts, ("", " ", "")]
    if row.get("ownership") is not None:
        ranges = f", {row['token_ranges']} ranges" if row.get("token_ranges") is not None else ""
        facts.append(("owns", f"{share(row['ownership'])} of its zone{ranges}", ""))
    facts.append(("holds", f"{share(row['replica_share'])} of all keys", ""))
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
        facts.append(("worst with", f"{row['worst_partner']}: {share(row['pair_lost_share'])} of keys", "moderate"))
    return [*facts, ("", " ", "")]


def totals(s: Mapping[str, Any]) -> list[Fact]:
    """List the totals of a result's summary, what decides first."""
    if "write_lost_share" not in s:
        return [("Totals", "", "title"), ("placed", "nothing: see the notes", "severe")]
    lost, reads = s["write_lost_share"], s["tenants_read_lost"]
    counts = bool(s["load_is_count"])
    facts: list[Fact] = [
        ("Totals", "", "title"), ("writes", f"{share(lost)} of all keys lost", "critical" if lost else "ok"),
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
        facts.append(("moved", f"{share(s['moved_share'])} of all keys, per replica", ""))
    if s["tenants"]:
        facts.append(("tenants", f"{s['tenants_touched']} of {s['tenants']} touched", ""))
    zones = "zones on" if s["zone_aware"] else "zones off"
    facts.append(("ring", f"RF {s['replication_factor']}, {zones}, {s['tokens']} tokens", "dim"))
    facts.append(("unit", s["load_unit"] or "no load", "dim"))
    return facts
