"""How the cells of the ring placement tab are drawn, which columns its tables put first, and the facts of its detail panel."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from os.path import commonprefix
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from engine.core import units
from tui.views.ring_placement.drawing import flow_rate, sign
from tui.views.shared.cells import named, number
from tui.widgets.drawing.bars import bar, change_bar
from tui.widgets.drawing.fragments import Fragment, cells, cut, cut_left, fit_line, harmless
from tui.widgets.facts import Fact
from tui.widgets.table.window import Cell, Looks, Renderer, peak_of

if TYPE_CHECKING:
    import polars as pl

    from engine.core.tables import Kind, Table
    from engine.core.view import Result
    from engine.ring_placement.result.detail import ShardMapView

FATES: Mapping[str, str] = {
    "down": "failed",
    "gone": "failed",
    "leaving": "moderate",
    "unhealthy": "severe",
    "new": "ok",
    "back": "ok",
    "over": "critical",
}
"""Style of a node's name by its fate."""

STATES: Mapping[str, tuple[str, str]] = {
    "down": ("FAILED", "failed"), "gone": ("GONE", "failed"), "back": ("BACK", "ok"), "new": ("NEW", "ok"),
    "leaving": ("LEAVING", "moderate"),
}  # fmt: skip
"""Text and style of a node's state where a scenario decides it."""
STATE_STYLES = {"ACTIVE": "", "UNHEALTHY": "severe", "LEFT": "dim", "EXCLUDED": "dim"}
"""Styles of states as the ring has them; others are moderate."""


@cache
def nodes_spec(table: Table, limited: bool, changed: bool, longest: int, loaded: bool = True) -> Table:
    """Choose and order the nodes' columns: headroom if there is a capacity, the added load in a scenario. ``longest``:
    cells that the names need; ``loaded``: whether there is any load, else the bar shows shares of keys."""
    looks: dict[str, dict[str, Any]] = {
        "load_before": {"priority": 4, "hidden": not changed}, "zone": {"priority": 2}, "down": {"hidden": True},
        "added": {"priority": 1, "hidden": not changed}, "headroom": {"priority": 1, "hidden": not limited},
        "capacity": {"hidden": not limited}, "over_capacity": {"hidden": not limited},
        "instance": {"width": min(max(longest + 2, 10), 40)}, "worst_partner": {"width": min(max(longest, 10), 38)},
        "over_mean": {"grow": 60},
    }  # fmt: skip
    if not loaded:
        looks |= {name: {"hidden": True} for name in ("load_before", "load_after", "added", "over_mean")}
        looks["replica_share"] = {"priority": 0, "width": 20, "grow": 60}
    elif not changed:
        # the only load: without its word for before or after
        looks["load_after"] = {"title": table.column("load_after").header.removesuffix("after").strip() or "load"}
    return replace(table, columns=tuple(replace(c, **looks.get(c.name, {})) for c in table.columns))


_OF_SEGMENTS = frozenset({
    "rerouted_bytes", "needless_moved_bytes", "moved_bytes", "shards_with_changed_owner", "datasets_with_changed_shard_set",
    "datasets_touched", "datasets_fully_on_down", "dataset", "fingerprint", "tenant_shards", "dataset_shards", "offset",
    "shard", "instance", "candidates", "stored_by", "limits_from", "shard_before", "instance_before",
})  # fmt: skip
"""Columns of placements and sweeps that rings with replicas do not have."""
_OF_REPLICAS = frozenset({
    "ownership", "token_ranges", "replica_share", "tenants", "largest_tenants",
    "worst_partner", "pair_lost_share", "token", "replicas", "max_errors", "error",
    "partition", "lost", "write_lost_share", "requests_lost_share", "tenants_write_lost", "tenants_read_lost", "reads_ok",
})  # fmt: skip
"""Columns of nodes, placements and sweeps that segment writers do not have."""
_REPLICA_TENANTS = frozenset(
    {"requests_lost_share", "reads_ok", "spread", "read_instances", "partitions", "read_partitions"}
)
"""Columns of tenants that segment writers do not have."""
_LOADS = {"load_before": "{} before", "load_after": "{} after", "load": "{}", "write_lost_load": "lost {}",
          "bytes_per_s": "{}"}  # fmt: skip
"""Titles of loads that count things."""
_SHARED = ("nodes", "placements", "sweep")
_OF_TOKENS = frozenset({"tokens", "ownership", "token_ranges", "worst_partner", "pair_lost_share"})
_UNPLACED = ("instance", "state", "zone", "tokens", "ownership", "address", "heartbeat_ms")
"""Columns of the nodes of a ring that cannot be placed."""
_REPLICA_SWEEP = (
    "rank", "down", "zone", "write_lost_share", "requests_lost_share", "reads_ok", "tenants_write_lost", "tenants_read_lost",
)  # fmt: skip
"""First columns of a sweep of a ring with replicas."""


@cache
def kind_spec(table: Table, kind: str, counted: str) -> Table:
    """Choose the columns of ``table`` that a kind of ring has. ``counted``: what loads count, for their titles; empty for
    bytes per second."""
    table, columns = _of_kind(table, kind), []
    for c in table.columns:
        if c.name in _LOADS and counted:
            c = replace(c, kind="number", unit="", title=_LOADS[c.name].format(counted))
        elif table.name == "observed" and counted and c.name == "bytes":
            c = replace(c, kind="number", title=counted)
        elif c.name in _LOADS and c.kind == "number":
            c = replace(c, kind="bytes_per_s")
        elif counted and c.kind == "bytes_per_s":
            c = replace(c, kind="number", unit="")
        columns.append(c)
    return replace(table, columns=tuple(columns))


_ABSENT: Mapping[tuple[str, str], frozenset[str]] = {
    ("tenants", "segment-writer"): _REPLICA_TENANTS,
    **dict.fromkeys((("tenants", "token-ring"), ("tenants", "")), frozenset({"partitions", "read_partitions"})),
    ("observed", "segment-writer"): frozenset({"expected"}),
    **{
        ("observed", kind): frozenset({"dataset", "shard", "computed"}) for kind in ("token-ring", "partition-ring", "")
    },
    **{(table, kind): _OF_REPLICAS for table in _SHARED for kind in ("segment-writer", "")},
    **{(table, kind): _OF_SEGMENTS for table in _SHARED for kind in ("token-ring", "partition-ring")},
    ("nodes", "token-ring"): _OF_SEGMENTS - {"instance"},
    ("nodes", "partition-ring"): _OF_SEGMENTS - {"instance"} | _OF_TOKENS,
}
"""Columns that a table does not have for a kind of ring."""


def _of_kind(table: Table, kind: str) -> Table:
    if table.name == "nodes" and kind == "":
        columns = (replace(table.column(name), hidden=False, priority=k) for k, name in enumerate(_UNPLACED))
        return replace(table, columns=tuple(columns))
    shown = [c for c in table.columns if c.name not in _ABSENT.get((table.name, kind), ())]
    if table.name == "sweep" and kind not in ("segment-writer", ""):  # first what decides on a ring with replicas
        first = [replace(c, priority=0) for name in _REPLICA_SWEEP for c in shown if c.name == name]
        others = (c for c in shown if c.name not in _REPLICA_SWEEP)
        titles = {"rejected_bytes": "lost load"}
        shown = [*first, *(replace(c, priority=max(c.priority, 1), title=titles.get(c.name, c.title)) for c in others)]
    return replace(table, columns=tuple(shown))


SHARE = number(units.share, none="")  # a share of keys in percent


def held_cell(cell: Cell) -> Sequence[Fragment]:
    """Draw the share of keys that a node holds, with a bar where there is room."""
    if cell.width < 16 or cell.value is None:
        return SHARE(cell)
    text = bar(cell.value, cell.peak(cell.name), cell.width - 7, cell.glyphs)
    return [*fit_line([(text, "bar")], cell.width - 7), (f" {cell.value:>6.1%}", "")]


def node_cell(place: Callable[[str], tuple[int, str]]) -> Renderer:
    """Return a renderer of a node's sign on the map and its ID, coloured by its fate; ``place`` returns number and fate by ID."""

    def render(cell: Cell) -> Sequence[Fragment]:
        name = str(cell.value)
        number, fate = place(name)
        mark = sign(number) if number >= 0 else " "
        shown = cut_left(harmless(name), cell.width - 2, cell.glyphs.ellipsis)
        return [(f"{mark} ", "key" if number >= 0 else ""), (shown, FATES.get(fate, ""))]

    return render


def state_of(row: Mapping[str, Any]) -> Fragment:
    """Return a node's state with its style: what the scenario makes of it, else as the ring has it."""
    text = harmless(str(row.get("state") or ""))
    return STATES.get(str(row.get("fate") or ""), (text, STATE_STYLES.get(text, "moderate")))


def change_cell(mean: float | None) -> Renderer:
    """Return a renderer that draws the load before and after as a bar with a mark at the ``mean``, and the ratio to it."""
    drawn = change_bar("load_before", "load_after", "capacity", mean)

    def render(cell: Cell) -> Sequence[Fragment]:
        down = cell.row.get("fate") in ("down", "gone")
        label = "-" if down else units.text("ratio", cell.value, 6) if cell.value is not None else ""
        style = "dim" if down else "critical" if cell.row.get("over_capacity") else ""
        narrower = replace(cell, width=max(cell.width - 7, 0))
        return [*fit_line(drawn(narrower), narrower.width), (f" {label:>6}", style)]

    return render


def names_cell(cell: Cell) -> Sequence[Fragment]:
    """Draw several IDs: in full if they fit, else with their common beginning once or not at all, else with their number."""
    if isinstance(cell.value, bool):  # another table has a flag of the same name
        return [("yes" if cell.value else "no", "")]
    names = [harmless(str(name)) for name in cell.value or ()]
    text = ", ".join(names)
    if cells(text) > cell.width and names:
        start = commonprefix(names).rfind("-") + 1  # noqa: RUF071  (by characters: these are no paths)
        if start:
            ends = ", ".join(name[start:] for name in names)
            text = names[0][:start] + ends
            text = text if cells(text) <= cell.width else cell.glyphs.ellipsis + ends
        if cells(text) > cell.width and len(names) > 1:
            count = f" ({len(names)})"
            text = cut(text, cell.width - len(count), cell.glyphs.ellipsis) + count
        elif len(names) == 1:
            text = cut_left(names[0], cell.width, cell.glyphs.ellipsis)
    return [(text, "")]


def rejected_cell(kind: Kind) -> Renderer:
    """Return a renderer of rejected load, formatted as ``kind``."""

    def render(cell: Cell) -> Sequence[Fragment]:
        return [(f"{units.text(kind, cell.value, cell.width):>{cell.width}}", "severe" if cell.value else "")]

    return render


RENDERERS: Mapping[str, Renderer] = {
    **dict.fromkeys(
        ("down", "candidates", "instances", "read_instances", "partitions", "read_partitions", "owners", "readers",
         "replicas", "worst_pair"), names_cell,
    ),
    **dict.fromkeys(("pair_lost_share", "ownership", "share"), SHARE),
    **dict.fromkeys(
        ("write_lost_share", "requests_lost_share"),
        number(units.share, lambda cell: "severe" if cell.value > 0 else "", none="-"),
    ),
    "replica_share": held_cell,
    "drift": named({}, "severe"),
}  # fmt: skip
"""How the cells of the sections' tables are drawn."""


def node_looks(result: Result) -> Looks:
    """Return how the nodes of a result are drawn: their signs on its map, their fates, their load beside its mean."""
    places = {node.id: (number, node.fate) for number, node in enumerate(result.detail.nodes)}

    def style(row: Mapping[str, Any]) -> str:
        quiet = "dim" if row.get("state") in ("LEFT", "UNHEALTHY") else ""
        return "severe" if row.get("fate") in ("down", "gone") else quiet

    cells = {
        **{name: cell for name, cell in RENDERERS.items() if name != "down"},  # a flag here, IDs in sweeps
        "instance": node_cell(lambda name: places.get(name, (-1, ""))),
        "state": lambda cell: [state_of(cell.row)],
        "over_mean": change_cell(result.summary.get("mean_load")),
    }
    return Looks(cells, style)


# -- facts of the detail panel ----------------------------------------------------------------------------------------

BLANK: Fact = ("", " ", "")


def _load(value: float | None, counts: bool = False, peak: float = 0.0) -> str:
    kind: Kind = "number" if counts else "bytes_per_s"
    return "-" if value is None else units.aligned(kind, value, peak) or units.text(kind, value, 12)


def _critical(value: Any, other: str = "") -> str:
    return "critical" if value else other


def _headroom(row: Mapping[str, Any], counts: bool = False) -> Fact:
    text = (
        f"{_load(row['headroom'], counts)} of {_load(row['capacity'], counts)}"
        if (row.get("capacity") is not None)
        else None
    )
    return "headroom", text, _critical(row.get("over_capacity"))


def _state(row: Mapping[str, Any], tokens: str) -> Fact:
    state, style = state_of(row)
    return "state", f"{state}, {row['zone'] or 'no zone'}, {row['tokens']} {tokens}", style


def _change(row: Mapping[str, Any], counts: bool, nodes: pl.DataFrame) -> Fact:
    """Return the load in the units of the columns of ``nodes``."""
    told = [_load(row.get(name), counts, peak_of(nodes, name)) for name in ("load_before", "load_after")]
    return "load", " → ".join(told) if row.get("load_after") is not None else None, ""


def node_facts(row: Mapping[str, Any], nodes: pl.DataFrame) -> list[Fact]:
    """List state, load and headroom of one row of table ``nodes``."""
    observed = row.get("load_observed")
    return [
        (str(row["instance"]), "", "title"),
        _state(row, "shards"),
        _change(row, False, nodes),
        _headroom(row),
        ("observed", units.text("bytes", observed, 12) if observed is not None else None, "dim"),
    ]


def flow_facts(map_view: ShardMapView, number: int, most: int, room: int, ellipsis: str) -> list[Fact]:
    """List who takes over from the node ``number``, or from whom it takes over: at most ``most`` each, IDs in ``room`` cells."""
    lost_to = [(to, load) for lost, to, load in map_view.flows if lost == number]
    gained_from = [(lost, load) for lost, to, load in map_view.flows if to == number]
    facts: list[Fact] = []
    for label, flows in (("goes to", lost_to), ("from", gained_from)):
        for place, (other, load) in enumerate(flows[:most]):
            node = (
                f"{sign(other)} {cut_left(harmless(map_view.nodes[other].id), room, ellipsis)}"
                if other >= 0
                else "rejected"
            )
            rate = flow_rate(map_view, load)
            facts.append((label if not place else "", f"{rate} {node}", "" if other >= 0 else "critical"))
        facts.append(("", f"and {len(flows) - most} more" if len(flows) > most else None, "dim"))
    return facts


def _spread(s: Mapping[str, Any]) -> str:
    return f"{units.ratio(s['max_over_mean'])}, cv {s['coefficient_of_variation']:.2f}"


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


def replica_node_facts(row: Mapping[str, Any], counts: bool, nodes: pl.DataFrame) -> list[Fact]:
    """List state, load, shares and the worst partner of one row of table ``nodes``. If nothing is placed on the ring, only the
    share on its page is known."""
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
        _change(row, counts, nodes),
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
        ("key shares", f"max/mean {units.ratio(s['share_max_over_mean'])}, cv {s['share_variation']:.2f}", ""),
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
