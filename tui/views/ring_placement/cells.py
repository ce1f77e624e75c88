"""How the cells of the ring placement tab are drawn, and which columns its tables put first."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any

from engine.core import units
from tui.views.ring_placement.drawing import sign
from tui.views.shared.cells import named, number
from tui.widgets.drawing.bars import bar, change_bar
from tui.widgets.drawing.fragments import Fragment, cells, cut, cut_left, fit_line, harmless
from tui.widgets.table.window import Cell, Looks, Renderer

if TYPE_CHECKING:
    from engine.core.tables import Column, Kind, Table
    from engine.core.view import Result

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
    """Order the nodes' columns by what matters: with a capacity also the headroom, in a scenario what is added. ``longest``:
    cells that the names need; ``loaded``: whether there is any load, else the bar shows shares of keys."""
    looks: dict[str, dict[str, Any]] = {
        "load_before": {"priority": 4, "hidden": not changed}, "zone": {"priority": 2}, "down": {"hidden": True},
        "added": {"priority": 1, "hidden": not changed}, "headroom": {"priority": 1, "hidden": not limited},
        "capacity": {"hidden": not limited}, "over_capacity": {"hidden": not limited},
        "instance": {"width": min(max(longest + 2, 10), 40)}, "worst_partner": {"width": min(max(longest, 10), 38)},
    }  # fmt: skip
    looks["over_mean"] = {"grow": 60}
    if not loaded:
        looks |= {name: {"hidden": True} for name in ("load_before", "load_after", "added", "over_mean")}
        looks["replica_share"] = {"priority": 0, "width": 20, "grow": 60}
    elif not changed:
        title = (
            table.column("load_after").header.removesuffix("after").strip()
        )  # the only load: without its word for before or after
        looks["load_after"] = {"title": title or "load"}
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
    columns = {c.name: c for c in table.columns if c.name not in _ABSENT.get((table.name, kind), ())}
    if table.name == "nodes" and kind == "":
        columns = {c.name: c for c in table.columns}
        columns = {n: replace(columns[n], hidden=False, priority=k) for k, n in enumerate(_UNPLACED)}
    if table.name == "sweep" and kind not in ("segment-writer", ""):
        return replace(table, columns=tuple(_losses_first([*columns.values()])))
    return replace(table, columns=tuple(columns.values()))


def _losses_first(columns: Sequence[Column]) -> list[Column]:
    """Order the columns of a sweep by what decides on a ring with replicas."""
    first = [replace(c, priority=0) for name in _REPLICA_SWEEP for c in columns if c.name == name]
    titles = {"rejected_bytes": "lost load"}
    rest = [
        replace(c, priority=max(c.priority, 1), title=titles.get(c.name, c.title))
        for c in columns
        if c.name not in _REPLICA_SWEEP
    ]
    return [*first, *rest]


SHARE = number(units.share, none="")
"""A share of keys in percent."""


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
    """Return a renderer of the load before and after as a bar, with a mark at the ``mean``, and of the ratio to it."""
    drawn = change_bar("load_before", "load_after", "capacity", mean)

    def render(cell: Cell) -> Sequence[Fragment]:
        down = cell.row.get("fate") in ("down", "gone")
        label = "-" if down else units.text("ratio", cell.value, 6) if cell.value is not None else ""
        style = "dim" if down else "critical" if cell.row.get("over_capacity") else ""
        narrower = replace(cell, width=max(cell.width - 7, 0))
        return [*fit_line(drawn(narrower), narrower.width), (f" {label:>6}", style)]

    return render


def _shared(names: Sequence[str]) -> str:
    low, high = min(names), max(names)
    return low[: next((k for k, (a, b) in enumerate(zip(low, high, strict=False)) if a != b), len(low))]


def names_cell(cell: Cell) -> Sequence[Fragment]:
    """Draw several IDs: in full if they fit, else with their common beginning once or not at all, else with their number."""
    if isinstance(cell.value, bool):  # another table has a flag of the same name
        return [("yes" if cell.value else "no", "")]
    names = [harmless(str(name)) for name in cell.value or ()]
    text = ", ".join(names)
    if cells(text) > cell.width and names:
        start = _shared(names).rfind("-") + 1
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
        text = units.text(kind, cell.value, cell.width)
        return [(f"{text:>{cell.width}}", "severe" if cell.value else "")]

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
        if row.get("fate") in ("down", "gone"):
            return "severe"
        return "dim" if row.get("state") in ("LEFT", "UNHEALTHY") else ""

    cells = {
        **{name: cell for name, cell in RENDERERS.items() if name != "down"},  # a flag here, IDs in sweeps
        "instance": node_cell(lambda name: places.get(name, (-1, ""))),
        "state": lambda cell: [state_of(cell.row)],
        "over_mean": change_cell(result.summary.get("mean_load")),
    }
    return Looks(cells, style)
