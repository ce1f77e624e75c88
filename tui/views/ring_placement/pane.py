"""The tab Ring placement: the shard map, the nodes before and after, the time axis, sweeps, and one key explained."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Container, Horizontal

from tui.actions import bindings
from tui.screens.prompt import ask
from tui.views.base import DetailPanel, ViewPane
from tui.views.ring_placement.drawing import ShardMap, TimeAxis, sign
from tui.widgets.bars import change_bar
from tui.widgets.canvas import glyphs_of
from tui.widgets.facts import Fact, Facts
from tui.widgets.focus import focus_first
from tui.widgets.fragments import Fragment, cells, cut, harmless
from tui.widgets.sections import Sections, TitleBar
from tui.widgets.table import LiveTable
from tui.widgets.window import Cell

if TYPE_CHECKING:
    from engine.result import Result
    from engine.ring_placement.picture import Picture
    from engine.tables import Table
    from engine.view import View

TABLES: tuple[tuple[str, str], ...] = (
    ("Shards", "shards"),
    ("Sweep", "sweep"),
    ("Keys", "placements"),
    ("Explain", "explain"),
    ("Drift", "observed"),
    ("Strategy", "strategy"),
    ("Compare", "comparison"),
)
"""Sections beside the map, and the result table each shows."""

EMPTY: Mapping[str, Any] = {
    "fail": (), "leaving": (), "scale": None, "tokens": None, "tenant_shards": None, "dataset_shards": None,
    "home_zone": None, "regime": "transient", "cascade": False, "scale_ids": "plain",
}  # fmt: skip
"""The scenario's parameters where nothing is changed."""

HINTS = {
    "sweep": "x runs a sweep; again: the next kind",
    "explain": "v asks for a key",
    "comparison": "y compares algorithms",
    "strategy": "needs placement_stats.binpb",
}
"""How to get a table that is only made on demand."""

LISTED = 5_000
"""Most rows of the section Keys."""

FLOWS = 5
"""Most nodes listed that take over from one node."""

SWEEPS = ("nodes", "zones", "pairs", "random", "leaving")
_CHANGE = change_bar("load_before", "load_after", limit="capacity")


@cache
def _nodes_spec(table: Table, limited: bool) -> Table:
    """The nodes' columns by what matters: the headroom with a capacity, the load before and what is added without one."""
    first = {"headroom": 0, "load_before": 2, "added": 1, "down": 4} if limited else {
        "headroom": 4, "over_capacity": 4, "capacity": 4, "added": 2, "down": 4,
    }  # fmt: skip
    return replace(table, columns=tuple(replace(c, priority=first.get(c.name, c.priority)) for c in table.columns))


@cache
def _sweep_spec(table: Table, zones: bool) -> Table:
    """The sweep's columns; the zone's only where zones fail."""
    return replace(table, columns=tuple(c for c in table.columns if zones or c.name != "zone"))


def _tail(text: str, width: int, ellipsis: str) -> str:
    """``text`` cut at its beginning: IDs differ at the end."""
    text = harmless(text)
    if cells(text) <= width:
        return text
    if not text.isascii() or width <= len(ellipsis):
        return cut(text, width, ellipsis)
    return ellipsis + text[len(text) - width + len(ellipsis) :]


class Pane(ViewPane):
    """The pane."""

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
        self._numbers: dict[str, int] = {}
        self._fates: dict[str, str] = {}
        self._drawn: dict[str, Any] = {}
        self._goto = ""

    def loaded(self, view: View, parameters: Any) -> None:
        """Fewer keys are listed here than in a report: a screen shows few, and each change lists them anew."""
        import msgspec

        rows = min(parameters.placement_rows, LISTED)
        super().loaded(view, msgspec.structs.replace(parameters, placement_rows=rows))

    def compose_view(self) -> ComposeResult:
        """The map with the nodes first, then a section per table."""
        nodes = LiveTable(
            name="ring-placement/nodes",
            id="ring-nodes",
            renderers={"instance": self._instance, "over_mean": self._bar},
            row_style=self._row_style,
        )
        sections = Sections(id="ring-sections")
        sections.add("Map", _Map(nodes, id="ring-map"))
        for title, table in TABLES:
            content = LiveTable(
                name=f"ring-placement/{table}",
                id=f"ring-{table}",
                renderers={"drift": _drift, "rejected_bytes": _rejected, "down": _names, "candidates": _names},
            )
            sections.add(title, _Explained(content, id="ring-explained") if table == "explain" else content)
        yield sections

    # -- drawing ------------------------------------------------------------------------------------------------------

    def show(self, result: Result) -> None:
        """Draw what is on screen; the other sections when they are shown."""
        picture: Picture = result.detail
        self._numbers = {node.id: number for number, node in enumerate(picture.nodes)}
        self._fates = {node.id: node.fate for node in picture.nodes}
        steps = self.scenario_steps()
        clears = any(getattr(self.parameters, name) != value for name, value in EMPTY.items())
        self.query_one(TimeAxis).show(picture, steps, self.undo_depth if steps else 0, clears)
        self.query_one(ShardMap).show(picture)
        limited = any(node.capacity is not None for node in picture.nodes)
        self.query_one("#ring-nodes", LiveTable).show(result.tables["nodes"], _nodes_spec(self.spec("nodes"), limited))
        self._show_section(result)
        self.query_one("#ring-sections > TitleBar", TitleBar).mark(2, self.parameters.sweep if self.parameters else "")
        self.refresh_detail()
        if self._goto:
            wanted, self._goto = self._goto, ""
            self._open(wanted)

    def _show_section(self, result: Result) -> None:
        sections = self.query_one("#ring-sections", Sections)
        if sections.chosen == 0:
            return
        name = TABLES[sections.chosen - 1][1]
        frame = result.tables.get(name)
        if self._drawn.get(name) is not frame or frame is None:
            self._drawn[name] = frame
            if name == "sweep" and frame is not None:
                zones = bool(self.parameters) and self.parameters.sweep == "zones"
                self.query_one("#ring-sweep", LiveTable).show(frame, _sweep_spec(self.spec("sweep"), zones))
            else:
                self.show_table(f"#ring-{name}", result, name)

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

    def _instance(self, cell: Cell) -> Sequence[Fragment]:
        name = str(cell.value)
        number = self._numbers.get(name, -1)
        mark = sign(number) if number >= 0 else " "
        shown = _tail(name, cell.width - 2, cell.glyphs.ellipsis)
        style = {
            "down": "severe",
            "gone": "severe",
            "leaving": "moderate",
            "new": "ok",
            "back": "ok",
            "over": "critical",
        }
        return [(f"{mark} ", "key" if number >= 0 else ""), (shown, style.get(self._fates.get(name, ""), ""))]

    @staticmethod
    def _bar(cell: Cell) -> Sequence[Fragment]:
        from engine import units

        label = units.text("ratio", cell.value, 6) if cell.value is not None else ""
        inner = Cell(cell.name, cell.value, cell.row, max(cell.width - 7, 0), cell.glyphs, cell.peak)
        return [(f"{label:>6} ", ""), *_CHANGE(inner)]

    def _row_style(self, row: Mapping[str, Any]) -> str:
        return "dim" if row.get("state") in ("LEFT", "UNHEALTHY") else ""

    def scenario_steps(self) -> tuple[str, ...]:
        """The scenario in words, one per change."""
        p = self.parameters
        if p is None:
            return ()
        words = []
        if p.fail:
            words.append("fail " + ", ".join(p.fail))
        if p.leaving:
            words.append("leaving " + ", ".join(p.leaving))
        for field, text in (
            ("scale", "{} nodes"),
            ("tokens", "{} tokens each"),
            ("tenant_shards", "T={}"),
            ("dataset_shards", "D={}"),
            ("home_zone", "only zone {}"),
        ):
            value = getattr(p, field)
            if value is not None:
                words.append(text.format(value))
        if p.scale_ids == "padded":
            words.append("padded IDs")
        if p.cascade:
            words.append("cascade")
        if p.capacity:
            words.append("capacity " + ", ".join(p.capacity))
        elif p.cores is not None:
            words.append(f"{p.cores:g} cores")
        return tuple(words)

    @on(LiveTable.Highlighted, "#ring-nodes")
    def refresh_detail(self) -> None:
        """Totals, and the node under the cursor."""
        if self.result is None:
            return
        self.query_one("#ring-facts", Facts).show([*self._node_facts(), *self._totals(self.result)])

    def _node_facts(self) -> list[Fact]:
        from engine import units

        row = self.query_one("#ring-nodes", LiveTable).row
        if not row:
            return []

        def rate(name: str) -> str:
            value = row.get(name)
            return "-" if value is None else units.text("bytes_per_s", value, 12)

        facts: list[Fact] = [(str(row["instance"]), "", "title")]
        facts.append(("state", f"{row['state']}, {row['zone'] or 'no zone'}, {row['tokens']} shards", ""))
        facts.append(("load", f"{rate('load_before')} → {rate('load_after')}", ""))
        if row.get("capacity") is not None:
            style = "critical" if row.get("over_capacity") else ""
            facts.append(("headroom", f"{rate('headroom')} of {rate('capacity')}", style))
        if row.get("load_observed") is not None:
            facts.append(("observed", units.text("bytes", row["load_observed"], 12), "dim"))
        facts += self._flow_facts(self._numbers.get(str(row["instance"]), -1))
        facts.append(("", " ", ""))
        return facts

    def _flow_facts(self, number: int) -> list[Fact]:
        """Who takes over from the node ``number``, or from whom it takes over."""
        from engine import units

        picture: Picture | None = self.result.detail if self.result else None
        if picture is None or number < 0:
            return []
        room = 15 if self.screen.has_class("-normal") else 30
        most = FLOWS if self.screen.has_class("-tall") else 2
        given = [("goes to", to, load) for lost, to, load in picture.flows if lost == number]
        taken = [("from", lost, load) for lost, to, load in picture.flows if to == number]
        facts: list[Fact] = []
        for flows in (given, taken):
            for place, (label, other, load) in enumerate(flows[:most]):
                rate = units.text("bytes_per_s", load, 11)
                name = "nobody: rejected"
                if other >= 0:
                    name = f"{sign(other)} {_tail(picture.nodes[other].id, room, glyphs_of(self.app).ellipsis)}"
                facts.append((label if not place else "", f"{rate} {name}", "" if other >= 0 else "critical"))
            if len(flows) > most:
                facts.append(("", f"and {len(flows) - most} more", "dim"))
        return facts

    def _totals(self, result: Result) -> list[Fact]:
        """The totals, what decides first: on a small screen the rest is below the edge."""
        from engine import units

        s = result.summary

        def rate(name: str) -> str:
            return "-" if s.get(name) is None else units.text("bytes_per_s", s[name], 12)

        facts: list[Fact] = [("Totals", "", "title"),
                             ("rejected", rate("rejected_bytes"), "critical" if s["rejected_bytes"] else "")]  # fmt: skip
        if s.get("nodes_over_capacity") is not None:
            style = "critical" if s["nodes_over_capacity"] else "ok"
            facts.append(("over capacity", f"{s['nodes_over_capacity']} nodes", style))
        if s.get("cascade_rounds"):
            facts.append(("cascade", f"{s['cascade_rounds']} rounds, {len(s['down'])} nodes down", "critical"))
        if s["drift_pairs"]:
            facts.append(("drift", f"{s['drift_pairs']} pairs differ", "severe"))
        facts += [
            ("rerouted", rate("rerouted_bytes"), ""),
            ("moved", f"{rate('moved_bytes')}, {rate('needless_moved_bytes')} needless", ""),
            ("survives", f"any node: {rate('min_capacity_any_node')} each", ""),
        ]
        if s.get("min_capacity_any_zone") is not None:
            facts.append(("", f"any zone: {rate('min_capacity_any_zone')} each", ""))
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

    # -- the scenario -------------------------------------------------------------------------------------------------

    def _node(self) -> Mapping[str, Any] | None:
        """The node under the cursor, where the map is on screen; elsewhere the row's own instance."""
        sections = self.query_one("#ring-sections", Sections) if self.levels else None
        if sections is None:
            return None
        table = self.query_one("#ring-nodes", LiveTable)
        if sections.chosen:
            current = sections.current
            row = current.row if isinstance(current, LiveTable) else None
            if row and row.get("instance"):
                return {"instance": row["instance"], "zone": self._zone_of(str(row["instance"]))}
            return None
        return table.row

    def _zone_of(self, name: str) -> str:
        picture: Picture | None = self.result.detail if self.result else None
        return next((n.zone for n in picture.nodes if n.id == name), "") if picture else ""

    def _expanded(self, names: Sequence[str]) -> tuple[str, ...]:
        """``zone:x`` written out as its members, so that one of them can be brought back."""
        picture: Picture | None = self.result.detail if self.result else None
        out: dict[str, None] = {}
        for name in names:
            if name.startswith("zone:") and picture is not None:
                out.update(dict.fromkeys(n.id for n in picture.nodes if n.zone == name[5:]))
            else:
                out[name] = None
        return tuple(out)

    async def action_back(self) -> None:
        """Stop a sweep that is under way, else as everywhere."""
        working = getattr(self.app, "working", None)
        if (
            working is not None
            and working(self.VIEW)
            and self._undo
            and getattr(self._undo[-1], "sweep", "") != getattr(self.parameters, "sweep", "")
        ):
            self.action_undo()
            self.notify("the sweep is stopped", timeout=2)
            return
        await super().action_back()

    def action_toggle_node(self) -> None:
        """The node under the cursor fails, or not any more."""
        row = self._node()
        if row is None or self.parameters is None:
            self.notify("put the cursor on a node first", timeout=2)
            return
        name = str(row["instance"])
        failing = self.parameters.fail
        zone = f"zone:{row['zone']}"
        if name in failing:
            self.change(fail=tuple(f for f in failing if f != name))
        elif zone in failing:
            self.change(fail=tuple(f for f in self._expanded(failing) if f != name))
        else:
            self.change(fail=(*failing, name))

    def action_toggle_zone(self) -> None:
        """Its whole zone fails, or not any more."""
        row = self._node()
        if row is None or self.parameters is None:
            self.notify("put the cursor on a node first", timeout=2)
            return
        zone = f"zone:{row['zone']}"
        failing = self.parameters.fail
        if zone in failing:
            self.change(fail=tuple(f for f in failing if f != zone))
        else:
            members = set(self._expanded([zone]))
            self.change(fail=(*(f for f in failing if f not in members), zone))

    def action_toggle_leaving(self) -> None:
        """The node under the cursor is LEAVING, or not any more."""
        row = self._node()
        if row is None or self.parameters is None:
            self.notify("put the cursor on a node first", timeout=2)
            return
        name = str(row["instance"])
        leaving = self.parameters.leaving
        self.change(leaving=tuple(f for f in leaving if f != name) if name in leaving else (*leaving, name))

    def action_regime(self) -> None:
        """The next moment on the time axis."""
        if self.parameters is not None:
            order = ("transient", "left", "returned")
            self.change(regime=order[(order.index(self.parameters.regime) + 1) % 3])

    def action_clear(self) -> None:
        """Nothing fails, nothing is changed."""
        if self.parameters is not None and not self.change(**EMPTY):
            self.notify("there is no scenario to clear", timeout=2)

    def _scale(self, by: int) -> None:
        if self.parameters is None or self.result is None:
            return
        now = self.parameters.scale or self.result.summary["healthy"]
        self.change(scale=max(now + by, 1))

    def action_more(self) -> None:
        """One node more."""
        self._scale(1)

    def action_fewer(self) -> None:
        """One node fewer."""
        self._scale(-1)

    def action_padded(self) -> None:
        """IDs padded or plain."""
        if self.parameters is not None:
            self.change(scale_ids="plain" if self.parameters.scale_ids == "padded" else "padded")

    def action_cascade(self) -> None:
        """Cascade on or off."""
        if self.parameters is None:
            return
        if not self.parameters.cascade and not self.parameters.capacity and self.parameters.cores is None:
            self.notify("a cascade needs a capacity: w, then capacity or cores", timeout=3)
        self.change(cascade=not self.parameters.cascade)

    def action_compare(self) -> None:
        """Other algorithms on or off."""
        if self.parameters is not None:
            self._goto = "" if self.parameters.compare else "comparison"
            self.change(compare=not self.parameters.compare)

    def action_what_if(self) -> None:
        """The what-if panel."""
        from tui.views.ring_placement.whatif import WhatIf

        if self.view is None or self.parameters is None:
            self.notify("this view is not loaded yet", timeout=2)
            return
        self.app.push_screen(WhatIf(self))

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
        following = SWEEPS[(SWEEPS.index(current) + 1) % len(SWEEPS)] if current in SWEEPS else SWEEPS[0]
        self._goto = "sweep"
        self.change(sweep=following)

    def action_explain(self) -> None:
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
        hint = 'tenant/dataset, tenant/dataset@fingerprint or tenant{service_name="x", ...}'
        ask(origin, "explain ", self.parameters.explain or self._key_under_cursor(), hint, done=done)

    def _key_under_cursor(self) -> str:
        sections = self.query_one("#ring-sections", Sections)
        current = sections.current
        row = current.row if isinstance(current, LiveTable) else None
        if row and row.get("tenant") is not None and row.get("dataset") is not None:
            mark = f"@{row['fingerprint']}" if row.get("fingerprint") else ""
            return f"{row['tenant']}/{row['dataset']}{mark}"
        return ""

    def _open(self, table: str) -> None:
        sections = self.query_one("#ring-sections", Sections)
        number = next((n for n, (_, name) in enumerate(TABLES, 1) if name == table), 0)
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
    def explain_row(self, event: LiveTable.Selected) -> None:
        """Enter on a key: follow it."""
        text = self._key_under_cursor()
        if text and self.parameters is not None:
            self._goto = "explain"
            if not self.change(explain=text):
                self._open("explain")

    @on(LiveTable.Highlighted, "#ring-explain")
    def explain_step(self) -> None:
        """The step under the cursor in full."""
        row = self.query_one("#ring-explain", LiveTable).row
        facts = [(f"{row['what']} {row['name']}", str(row["value"]), ""), ("", str(row["note"]), "dim")] if row else []
        self.query_one("#ring-step", Facts).show(facts)

    @on(LiveTable.Selected, "#ring-nodes")
    def node_chosen(self) -> None:
        """Enter on a node: its detail."""
        self.action_detail()


class _Map(Container):
    """The first section: time axis, shard map, nodes and detail."""

    DEFAULT_CSS = "_Map { height: 1fr; }"

    def __init__(self, nodes: LiveTable, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.table = nodes

    def compose(self) -> ComposeResult:
        """Its widgets."""
        yield TimeAxis(id="ring-time")
        yield ShardMap(id="ring-shard-map")
        with Horizontal(id="ring-body"):
            yield self.table
            with DetailPanel():
                yield Facts(id="ring-facts")


class _Explained(Container):
    """The steps of one key, and the one under the cursor in full."""

    DEFAULT_CSS = """
    _Explained { height: 1fr; }
    _Explained > Facts { height: 4; padding: 0 1; }
    """

    def __init__(self, table: LiveTable, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.table = table

    def compose(self) -> ComposeResult:
        """Its widgets."""
        yield self.table
        yield Facts(id="ring-step")


def _names(cell: Cell) -> Sequence[Fragment]:
    """Several IDs: in full if they fit, else without what they all begin with, else how many there are."""
    names = [harmless(str(name)) for name in cell.value or ()]
    text = ", ".join(names)
    if cells(text) > cell.width and names:
        start = names[0].rfind("-") + 1
        short = all(name.startswith(names[0][:start]) for name in names)
        text = cell.glyphs.ellipsis + ", ".join(name[start:] for name in names) if short and start else text
        if cells(text) > cell.width and len(names) > 1:
            tail = f" ({len(names)})"
            text = cut(text, cell.width - len(tail), cell.glyphs.ellipsis) + tail
        elif len(names) == 1:
            text = _tail(names[0], cell.width, cell.glyphs.ellipsis)
    return [(text, "")]


def _drift(cell: Cell) -> Sequence[Fragment]:
    return [(str(cell.value or ""), "severe" if cell.value else "")]


def _rejected(cell: Cell) -> Sequence[Fragment]:
    from engine import units

    text = units.text("bytes_per_s", cell.value or 0, cell.width)
    return [(f"{text:>{cell.width}}", "severe" if cell.value else "")]
