"""The tab Ring placement: the shard map, the nodes before and after, the time axis, sweeps, and one key explained."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace
from textual.containers import Container, Horizontal

from engine.core.parameters import asks_what_if, no_what_if
from tui.views.ring_placement import cells, scenario
from tui.views.ring_placement.drawing import ShardMap, pair_lines, time_lines
from tui.views.shared.pane import ViewPane
from tui.views.shared.sections import (
    Box,
    Charts,
    DetailPanel,
    FactsOf,
    Fit,
    Level,
    Part,
    PlotOf,
    Row,
    Section,
    Shown,
    TableOf,
)
from tui.widgets.control import following
from tui.widgets.drawing.canvas import Frame
from tui.widgets.drawing.plot import Draw
from tui.widgets.facts import Fact
from tui.widgets.prompt import ask
from tui.widgets.sections import focus_first
from tui.widgets.table.table import LiveTable
from tui.widgets.table.window import Looks

if TYPE_CHECKING:
    from engine.core.view import Result, View
    from engine.ring_placement.result.detail import ShardMapView

LISTED = 5_000  # most rows of the section Keys
FLOWS = 5  # most nodes listed that take over from one node
ABOVE = 12  # lines of the screen that the tables of the first section cannot have
LEAST = 6  # lines that the last of these tables has at least


class NodesFirst(Fit):
    """Nodes; below them the tenants and one table more, where the screen has room."""

    def __init__(self, nodes: LiveTable, tenants: LiveTable, more: LiveTable) -> None:
        self.table, self.tenants, self.more = nodes, tenants, more
        Frame.__init__(self, nodes, tenants, more, id="ring-tables")

    def fit(self) -> None:
        """Give the nodes the lines they need, at most three fifths if the tenants need the rest; then the tenants theirs."""
        windows = (table.window for table in (self.table, self.tenants, self.more))
        nodes, tenants, more = (window.frame.height if window is not None else 0 for window in windows)
        below = tenants > 0 and self.screen.has_class("-tall")
        room = self.app.size.height - ABOVE
        height = min(nodes + 2, max(room * 3 // 5, room - tenants - 1))
        last = more > 0 and (
            not nodes or (below and room - height - tenants - 2 >= LEAST)
        )  # without a ring all there is
        self.tenants.display, self.more.display = below, last
        if not self.table.is_maximized:
            self.table.styles.height = height if below or not nodes else "1fr"
            self.tenants.styles.height = tenants + 2 if last else "1fr"


class Root(Level):
    """The sections of the tab: the map with the nodes first, then a section per table."""

    NAME = "ring-sections"
    SCOPED_CSS = False
    DEFAULT_CSS = """
    #ring-map { height: 1fr; }
    #ring-time { height: 2; padding: 0 1; }
    #ring-pairs { padding: 0 1; }
    #ring-body { height: 1fr; }
    #ring-tables { width: 1fr; }
    #ring-more { height: 1fr; }
    #ring-explained > Facts { height: 4; padding: 0 1; }
    """

    def sections(self) -> tuple[Section, ...]:
        """The map with the nodes first, then a section per table."""
        tables = Box(
            NodesFirst,
            TableOf(
                table="nodes", id="ring-nodes", rows=self._node_rows, looks=cells.node_looks,
                open=lambda row: self.pane.action_detail(),
            ),
            self._table("tenants", "ring-top-tenants"),
            TableOf(table="more", id="ring-more", rows=self._more, cells=cells.RENDERERS),
        )  # fmt: skip
        first = Box(
            Container,
            PlotOf(self._axis, "ring-time"),
            Shown(ShardMap, lambda result: result.detail, "ring-shard-map"),
            Box(
                Horizontal,
                tables,
                Box(DetailPanel, FactsOf(self._facts, "ring-facts", of="ring-nodes")),
                id="ring-body",
            ),
            id="ring-map",
        )
        return (Section("Map", first), *(self._section(title, table) for title, table in scenario.TABLES))

    def _section(self, title: str, table: str) -> Section:
        content: Part = self._table(table, f"ring-{table}")
        if table == "pairs":
            content = Box(Charts, PlotOf(lambda result: partial(pair_lines, result.detail), "ring-pairs"))
        elif table == "explain":
            content = Box(Container, content, FactsOf(_step, "ring-step", of="ring-explain"), id="ring-explained")
        return Section(
            title,
            content,
            mark=(lambda result: (self.pane.parameters.sweep, "")) if table == "sweep" else None,
            hidden=lambda result: table in scenario.OTHER_KINDS[result.detail.kind],
            hint=scenario.HINTS.get(table, ""),
        )

    def _table(self, table: str, id: str) -> TableOf:
        def rows(result: Result) -> Any:
            spec = cells.kind_spec(self.pane.spec(table), result.detail.kind, _counted(result))
            if table == "sweep" and table in result.tables and self.pane.parameters.sweep != "zones":
                spec = replace(spec, columns=tuple(column for column in spec.columns if column.name != "zone"))
            return result.tables.get(table, spec.empty()), spec

        def looks(result: Result) -> Looks:
            rejected = cells.rejected_cell("number" if _counts(result) else "bytes_per_s")
            return Looks({**cells.RENDERERS, "rejected_bytes": rejected})

        opens = {
            "sweep": self.pane.open_scenario,
            "placements": self.pane.explain_row,
            "tenants": self.pane.explain_row,
        }
        name = id.removeprefix("ring-").replace("top-tenants", "tenants")
        return TableOf(table=table, id=id, name=name, rows=rows, looks=looks, open=opens.get(table))

    def _axis(self, result: Result) -> Draw:
        steps, undo = scenario.steps(self.pane.parameters), ""
        if steps and self.pane.undo_depth:
            clears = "; x clears" if asks_what_if(self.pane.parameters) else ""
            undo = f" (u undoes, {self.pane.undo_depth} step{'s' if self.pane.undo_depth != 1 else ''}{clears})"
        return partial(time_lines, result.detail, steps, undo)

    def _node_rows(self, result: Result) -> Any:
        view: ShardMapView = result.detail
        limited = any(node.capacity is not None for node in view.nodes)
        longest = max((len(node.id) for node in view.nodes), default=0)
        loaded = bool(result.summary.get("load_source" if view.kind == "segment-writer" else "load_total"))
        spec = cells.kind_spec(self.pane.spec("nodes"), view.kind, _counted(result))
        changed = bool(scenario.steps(self.pane.parameters))
        return result.tables["nodes"], cells.nodes_spec(spec, limited, changed, longest, loaded)

    def _more(self, result: Result) -> Any:
        """Return the first table of ``BELOW`` that has rows."""
        full = (name for name in scenario.BELOW if name in result.tables and result.tables[name].height)
        name = next(full, scenario.BELOW[-1])
        spec = cells.kind_spec(self.pane.spec(name), result.detail.kind, _counted(result))
        return result.tables.get(name, spec.empty()), spec

    def _facts(self, result: Result, row: Row | None) -> list[Fact]:
        """Return what is known of the node under the cursor, who takes over from it, and the totals."""
        if result.detail.kind != "segment-writer":
            shown = cells.replica_node_facts(row, _counts(result), result.tables["nodes"]) if row else []
            return [*shown, *cells.replica_totals(result.summary)]
        if row is None:
            return cells.totals(result.summary)
        number = next((k for k, node in enumerate(result.detail.nodes) if node.id == row["instance"]), -1)
        most = FLOWS if self.screen.has_class("-tall") else 2
        room = 15 if self.screen.has_class("-normal") else 30
        flows = cells.flow_facts(result.detail, number, most, room, self.pane.glyphs.ellipsis) if number >= 0 else []
        return [*cells.node_facts(row, result.tables["nodes"]), *flows, ("", " ", ""), *cells.totals(result.summary)]


class Pane(ViewPane):
    """The tab's content."""

    VIEW = "ring-placement"
    ROOT = Root
    root: Root
    _goto = ""  # table of the section to show with the next result

    def loaded(self, view: View, parameters: Any) -> None:
        """List fewer keys than a report does: a screen shows few, and each change lists them again."""
        import msgspec

        super().loaded(view, msgspec.structs.replace(parameters, placement_rows=min(parameters.placement_rows, LISTED)))

    # -- drawing ------------------------------------------------------------------------------------------------------

    def show(self, result: Result) -> None:
        """Show the section that was asked for."""
        if self._goto:
            wanted, self._goto = self._goto, ""
            self._open(wanted)

    def moments(self, result: Result) -> Sequence[int]:
        """Return the times of the rings that the files hold and of the versions seen before they were overwritten."""
        times: Sequence[int] = result.detail.moments
        return times

    # -- sections -----------------------------------------------------------------------------------------------------

    @property
    def _map_view(self) -> ShardMapView | None:
        return self.result.detail if self.result is not None else None

    @property
    def _kind(self) -> str:
        return self._map_view.kind if self._map_view is not None else "segment-writer"

    def _open(self, table: str) -> None:
        self.root.choose(scenario.TITLES.get(table, "Map"))
        if self.root.holder is not None:
            focus_first(self.root.holder.current)

    def action_sweep(self) -> None:
        """Show the sweep; on its section, run the next kind."""
        if self.parameters is None or not self.levels:
            self.notify("nothing is read yet", timeout=2)
        elif self.parameters.sweep and self.root.section != scenario.TITLES["sweep"]:
            self._open("sweep")
        else:
            self._goto = "sweep"
            self.change(sweep=following(scenario.SWEEPS, self.parameters.sweep))

    async def action_explain(self) -> None:
        """Ask for a key and follow it."""
        if self.parameters is None or not self.levels:
            return

        def done(text: str) -> None:
            self._explain(text.strip() or None)

        hint = scenario.KEY_HINTS["segments" if self._kind == "segment-writer" else "replicas"]
        current = self.root.holder.current if self.root.holder is not None else None
        row = current.row if isinstance(current, LiveTable) else None
        known = self.parameters.explain or (scenario.key_of(row, self._kind) if row else "")
        await ask(self.app.focused or self, "explain ", known, hint, done=done)

    def _explain(self, key: str | None) -> None:
        self._goto = "explain"
        if not self.change(explain=key):
            self._open("explain")

    def open_scenario(self, row: Row) -> None:
        """Let the set of a sweep's row fail, and show the map."""
        down = tuple(row["down"])
        if self.parameters.sweep == "leaving":
            self.change(leaving=down, fail=())
        else:
            self.change(fail=(f"zone:{row['zone']}",) if row.get("zone") else down)
        self._open("")

    def explain_row(self, row: Row) -> None:
        """Explain where a key or tenant lies; for a tenant of segment writers show its keys."""
        text = scenario.key_of(row, self._kind)
        if text:
            self._explain(text)
        elif row.get("tenant") is not None:
            self._open("placements")
            self.query_one("#ring-placements", LiveTable).choose(filter=f"tenant={row['tenant']}")

    # -- the scenario -------------------------------------------------------------------------------------------------

    def _node(self) -> tuple[str, str] | None:
        """Return ID and zone of the node under the cursor, on the map or in another section; say so if there is none."""
        row, holder = None, self.root.holder
        if self.levels and holder is not None:
            table = holder.current if holder.chosen else self.query_one("#ring-nodes")
            row = table.row if isinstance(table, LiveTable) else None
        if not row or not row.get("instance"):
            self.notify("put the cursor on a node first", timeout=2)
            return None
        name, nodes = str(row["instance"]), self.result.detail.nodes if self.result is not None else ()
        return name, str(row["zone"] if "zone" in row else next((node.zone for node in nodes if node.id == name), ""))

    async def action_back(self) -> None:
        """Stop a running sweep; else do as in every tab."""
        if self.host.working(self.VIEW) and self._undo and self._undo[-1].sweep != self.parameters.sweep:
            self.action_undo()
            self.notify("the sweep is stopped", timeout=2)
            return
        await super().action_back()

    def action_toggle_node(self) -> None:
        """Let the node under the cursor fail, or bring it back."""
        if node := self._node():
            self.change(fail=scenario.node_toggled(self.parameters.fail, *node, self._map_view))

    def action_toggle_zone(self) -> None:
        """Let its whole zone fail, or bring it back."""
        if node := self._node():
            self.change(fail=scenario.zone_toggled(self.parameters.fail, node[1], self._map_view))

    def action_toggle_leaving(self) -> None:
        """Mark the node under the cursor as LEAVING, or unmark it."""
        if node := self._node():
            others = tuple(name for name in self.parameters.leaving if name != node[0])
            self.change(leaving=others if node[0] in self.parameters.leaving else (*others, node[0]))

    def action_regime(self) -> None:
        """Go to the next moment on the time axis."""
        if self.parameters is not None:
            moments = scenario.REGIMES if self._kind == "segment-writer" else scenario.RING_REGIMES
            self.change(regime=following(moments, self.parameters.regime))

    def action_ring(self) -> None:
        """Show the next ring of the files."""
        if self.parameters is None or self.result is None:
            return
        rings, now = self.result.summary.get("rings", []), self.result.summary.get("ring", "")
        if len(rings) < 2:
            self.notify("the files hold one ring only", timeout=2)
            return
        self.change(ring=following(rings, now), sweep="", explain=None, **no_what_if(type(self.parameters)))

    def action_scale(self, by: int) -> None:
        """Add nodes to the ring, or take some away."""
        if self.parameters is None or self.result is None:
            return
        there = self.result.summary["in_ring"] or 0  # none without a ring
        wanted = max((self.parameters.scale or there) + by, 1)
        # The present number is no change, so that there is nothing to clear.
        self.change(scale=None if wanted == there else wanted)

    def action_cascade(self) -> None:
        """Switch the cascade on or off."""
        p = self.parameters
        if p is not None and not p.cascade and not p.capacity and p.cores is None:
            self.notify("a cascade needs a capacity: o, then capacity or cores", timeout=3)
        self.action_next("cascade")


def _counts(result: Result) -> bool:
    return bool(result.summary.get("load_is_count"))


def _counted(result: Result) -> str:
    """Return what the load counts, in a word or two; empty where it is bytes per second."""
    unit = str(result.summary["load_unit"]) if _counts(result) else ""
    return unit and next((word for word in scenario.COUNTED if word in unit), "load")


def _step(result: Result, row: Row | None) -> list[Fact]:
    """Return the step of a key that is under the cursor in full."""
    return [(f"{row['what']} {row['name']}", str(row["value"]), ""), ("", str(row["note"]), "dim")] if row else []
