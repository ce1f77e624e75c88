"""The tab Ring placement: the shard map, the nodes before and after, the time axis, sweeps, and one key explained."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType

from engine.core.parameters import asks_what_if
from tui.actions import bindings
from tui.views.ring_placement import facts, replica_facts, scenario
from tui.views.ring_placement.cells import (
    change_cell,
    drift_cell,
    held_cell,
    kind_spec,
    lost_cell,
    names_cell,
    node_cell,
    nodes_spec,
    rejected_cell,
    share_cell,
    state_cell,
    sweep_spec,
)
from tui.views.ring_placement.drawing import ShardMap
from tui.views.ring_placement.map_section import Explained, MapSection
from tui.views.ring_placement.replica_drawing import PairMatrix
from tui.views.ring_placement.tables import BELOW, HINTS, KEY_HINTS, NUMBER, OTHER_KINDS, TABLES
from tui.views.ring_placement.time_axis import TimeAxis
from tui.widgets.drawing.canvas import glyphs_of
from tui.widgets.facts import Fact, Facts
from tui.widgets.prompt import ask
from tui.widgets.sections import Sections, TitleBar, focus_first
from tui.widgets.table.table import LiveTable
from tui.widgets.table.window import Renderer

if TYPE_CHECKING:
    from engine.core.result import Result
    from engine.core.view import View
    from engine.ring_placement.result.detail import ShardMapView

LISTED = 5_000
"""Most rows of the section Keys."""

FLOWS = 5
"""Most nodes listed that take over from one node."""

RENDERERS: Mapping[str, Renderer] = {
    "drift": drift_cell,
    "down": names_cell,
    "candidates": names_cell,
    "instances": names_cell,
    "read_instances": names_cell,
    "partitions": names_cell,
    "read_partitions": names_cell,
    "owners": names_cell,
    "readers": names_cell,
    "replicas": names_cell,
    "worst_pair": names_cell,
    "write_lost_share": lost_cell,
    "pair_lost_share": share_cell,
    "ownership": share_cell,
    "replica_share": held_cell,
    "share": share_cell,
}
"""How cells of the sections' tables are drawn."""


class Pane(scenario.ScenarioPane):
    """The tab's content."""

    VIEW = "ring-placement"
    BINDINGS: ClassVar[list[BindingType]] = [*bindings("ring-placement")]
    SCOPED_CSS = False
    DEFAULT_CSS = """
    #ring-map { height: 1fr; }
    #ring-body { height: 1fr; }
    .-normal #ring-body DetailPanel { width: 40; }
    .-wide #ring-body DetailPanel { width: 52; }
    """

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self._places: dict[str, tuple[int, str]] = {}
        self._drawn: dict[str, Any] = {}
        self._moments: Sequence[int] = ()

    def loaded(self, view: View, parameters: Any) -> None:
        """List fewer keys than a report does: a screen shows few, and each change lists them again."""
        import msgspec

        rows = min(parameters.placement_rows, LISTED)
        super().loaded(view, msgspec.structs.replace(parameters, placement_rows=rows))

    def compose_view(self) -> ComposeResult:
        """The map with the nodes first, then a section per table."""
        nodes = LiveTable(
            name="ring-placement/nodes",
            id="ring-nodes",
            renderers={
                **{name: cell for name, cell in RENDERERS.items() if name != "down"},  # a flag here, IDs in sweeps
                "instance": node_cell(self._place),
                "state": state_cell,
                "over_mean": change_cell(lambda: self.result.summary.get("mean_load") if self.result else None),
            },
            row_style=self._row_style,
        )
        sections = Sections(id="ring-sections")
        tenants = LiveTable(name="ring-placement/tenants", id="ring-top-tenants", renderers=RENDERERS)
        more = LiveTable(name="ring-placement/more", id="ring-more", renderers=RENDERERS)
        sections.add("Map", MapSection(nodes, tenants, more, id="ring-map"))
        for title, table in TABLES:
            if table == "pairs":
                sections.add(title, PairMatrix(id="ring-pairs"))
                continue
            content = LiveTable(
                name=f"ring-placement/{table}",
                id=f"ring-{table}",
                renderers={**RENDERERS, "rejected_bytes": rejected_cell(lambda: self._counts)},
            )
            sections.add(title, Explained(content, id="ring-explained") if table == "explain" else content)
        yield sections

    def steps(self) -> Sequence[int]:
        """Return the times of the rings that the files hold and of the versions seen before they were overwritten."""
        return self._moments

    # -- drawing ------------------------------------------------------------------------------------------------------

    def show(self, result: Result) -> None:
        """Draw what is on screen; the other sections when they are shown."""
        map_view: ShardMapView = result.detail
        if result.at_ms is None:
            self._moments = map_view.moments
        self._places = {node.id: (number, node.fate) for number, node in enumerate(map_view.nodes)}
        steps = self.scenario_steps()
        clears = self.parameters is not None and asks_what_if(self.parameters)
        self.query_one(TimeAxis).show(map_view, steps, self.undo_depth if steps else 0, clears)
        self.query_one(ShardMap).show(map_view)
        self._show_map(result, bool(steps))
        hidden = frozenset(NUMBER[name] for name in OTHER_KINDS[map_view.kind])
        self.query_one("#ring-sections", Sections).hide(hidden)
        self._show_section(result)
        bar = self.query_one("#ring-sections > TitleBar", TitleBar)
        bar.mark(NUMBER["sweep"], self.parameters.sweep if self.parameters else "")
        self.refresh_detail()
        if self._goto:
            wanted, self._goto = self._goto, ""
            self._open(wanted)

    def _show_map(self, result: Result, changed: bool) -> None:
        """Show nodes and tenants; ``changed``: whether there is a scenario."""
        view: ShardMapView = result.detail
        limited = any(node.capacity is not None for node in view.nodes)
        longest = max((len(node.id) for node in view.nodes), default=0)
        loaded = bool(result.summary.get("load_source" if view.kind == "segment-writer" else "load_total"))
        nodes = kind_spec(self.spec("nodes"), view.kind, self._counted)
        spec = nodes_spec(nodes, limited, changed, longest, loaded)
        tenants = kind_spec(self.spec("tenants"), view.kind, self._counted)
        name = next((name for name in BELOW if name in result.tables and result.tables[name].height), BELOW[-1])
        more = kind_spec(self.spec(name), view.kind, self._counted)
        self.query_one("#ring-map", MapSection).show(
            (result.tables["nodes"], spec), (result.tables.get("tenants"), tenants), (result.tables.get(name), more)
        )

    def _show_section(self, result: Result) -> None:
        sections = self.query_one("#ring-sections", Sections)
        if sections.chosen == 0:
            return
        name = TABLES[sections.chosen - 1][1]
        if name == "pairs":
            self.query_one(PairMatrix).show(result.detail)
            return
        frame = result.tables.get(name)
        if self._drawn.get(name) is not frame or frame is None:
            self._drawn[name] = frame
            if name == "sweep" and frame is not None:
                zones = bool(self.parameters) and self.parameters.sweep == "zones"
                spec = kind_spec(self.spec("sweep"), result.detail.kind, self._counted)
                self.query_one("#ring-sweep", LiveTable).show(frame, sweep_spec(spec, zones))
            else:
                spec = kind_spec(self.spec(name), result.detail.kind, self._counted)
                self.query_one(f"#ring-{name}", LiveTable).show(spec.empty() if frame is None else frame, spec)
            if name == "explain":
                self.explain_step()

    @on(Sections.Shown, "#ring-sections")
    def _section_shown(self) -> None:
        if self.result is not None:
            self._show_section(self.result)
            self._ask_for_section()

    def _ask_for_section(self) -> None:
        """Sections whose table is only computed on demand say how to get it."""
        sections = self.query_one("#ring-sections", Sections)
        name = TABLES[sections.chosen - 1][1] if sections.chosen else ""
        if self.result is not None and name in HINTS and name not in self.result.tables:
            self.notify(HINTS[name], timeout=3, markup=False)

    def _place(self, name: str) -> tuple[int, str]:
        """Number on the map and fate of the node ``name``; -1 where it is not on it."""
        return self._places.get(name, (-1, ""))

    def _row_style(self, row: Mapping[str, Any]) -> str:
        if row.get("fate") in ("down", "gone"):
            return "severe"
        return "dim" if row.get("state") in ("LEFT", "UNHEALTHY") else ""

    @on(LiveTable.Highlighted, "#ring-nodes")
    def refresh_detail(self) -> None:
        """Totals, and the node under the cursor."""
        if self.result is None:
            return
        row = self.query_one("#ring-nodes", LiveTable).row
        if self._kind == "segment-writer":
            shown = [*facts.node_facts(row), *self._flows(str(row["instance"])), ("", " ", "")] if row else []
            self.query_one("#ring-facts", Facts).show([*shown, *facts.totals(self.result.summary)])
        else:
            shown = replica_facts.node_facts(row, self._counts) if row else []
            self.query_one("#ring-facts", Facts).show([*shown, *replica_facts.totals(self.result.summary)])

    def _flows(self, name: str) -> list[Fact]:
        """Who takes over from the node ``name``, as far as there is room."""
        number, _fate = self._place(name)
        if self._map_view is None or number < 0:
            return []
        most = FLOWS if self.screen.has_class("-tall") else 2
        room = 15 if self.screen.has_class("-normal") else 30
        return facts.flow_facts(self._map_view, number, most, room, glyphs_of(self.app).ellipsis)

    # -- sections ------------------------------------------------------------------------------------------------------

    def action_sweep(self) -> None:
        """Show the sweep; on its section, run the next kind."""
        if self.parameters is None or not self.levels:
            self.notify("nothing is read yet", timeout=2)
            return
        sections = self.query_one("#ring-sections", Sections)
        shown = sections.chosen and TABLES[sections.chosen - 1][1] == "sweep"
        current = self.parameters.sweep
        if current and not shown:
            self._open("sweep")
            return
        self._goto = "sweep"
        self.change(sweep=scenario.following(scenario.SWEEPS, current))

    async def action_explain(self) -> None:
        """Ask for a key and follow it."""
        if self.parameters is None or not self.levels:
            return

        def done(text: str | None) -> None:
            if text is None:
                return
            self._goto = "explain"
            if not self.change(explain=text.strip() or None):
                self._open("explain")

        origin = self.app.focused or self
        hint = KEY_HINTS["segments" if self._kind == "segment-writer" else "replicas"]
        await ask(origin, "explain ", self.parameters.explain or self._key_under_cursor(), hint, done=done)

    def _key_under_cursor(self) -> str:
        current = self.query_one("#ring-sections", Sections).current
        row = current.row if isinstance(current, LiveTable) else None
        return scenario.key_of(row, self._kind) if row else ""

    def _open(self, table: str) -> None:
        sections = self.query_one("#ring-sections", Sections)
        number = NUMBER.get(table, 0)
        sections.choose(number)
        if self.result is not None:
            self._show_section(self.result)
        if sections.current is not None:
            current = sections.current
            if current.focusable:
                current.focus(scroll_visible=False)
            else:
                focus_first(current)

    @on(LiveTable.Selected, "#ring-sweep")
    def open_scenario(self, event: LiveTable.Selected) -> None:
        """Enter on a sweep's row: that set fails on the map."""
        row = event.table.row
        if row is None:
            return
        down = tuple(row["down"])
        if self.parameters is not None and self.parameters.sweep == "leaving":
            self.change(leaving=down, fail=())
        elif row.get("zone"):
            self.change(fail=(f"zone:{row['zone']}",))
        else:
            self.change(fail=down)
        self._open("")

    @on(LiveTable.Selected, "#ring-placements")
    @on(LiveTable.Selected, "#ring-tenants")
    @on(LiveTable.Selected, "#ring-top-tenants")
    def explain_row(self, event: LiveTable.Selected) -> None:
        """Enter on a key or tenant: follow it; on a tenant of segment writers: its keys."""
        row = event.table.row or {}
        text = scenario.key_of(row, self._kind)
        if not text and row.get("tenant") is not None:
            self._open("placements")
            self.query_one("#ring-placements", LiveTable).choose(filter=f"tenant={row['tenant']}")
            return
        if text and self.parameters is not None:
            self._goto = "explain"
            if not self.change(explain=text):
                self._open("explain")

    @on(LiveTable.Highlighted, "#ring-explain")
    def explain_step(self) -> None:
        """The step under the cursor in full."""
        row = self.query_one("#ring-explain", LiveTable).row
        step = [(f"{row['what']} {row['name']}", str(row["value"]), ""), ("", str(row["note"]), "dim")] if row else []
        self.query_one("#ring-step", Facts).show(step)

    @on(LiveTable.Selected, "#ring-nodes")
    def node_chosen(self) -> None:
        """Enter on a node: its detail."""
        self.action_detail()
