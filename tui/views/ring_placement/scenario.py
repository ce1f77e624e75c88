"""The scenario of the ring placement tab: how key presses change the parameters, and the scenario in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from engine.core.parameters import no_what_if
from tui.views.shared.pane import ViewPane
from tui.widgets.sections import Sections
from tui.widgets.table.table import LiveTable

if TYPE_CHECKING:
    from engine.ring_placement.parameters import RingParameters
    from engine.ring_placement.result.detail import ShardMapView

REGIMES = ("transient", "left", "returned")
"""The moments of the time axis, in order."""

RING_REGIMES = ("transient", "unhealthy", "left", "returned")
"""The moments for rings with replicas, whose members stay registered while they are unhealthy."""

COUNTED = ("series", "streams", "samples", "spans")
"""What loads of rings with replicas count."""

SWEEPS = ("nodes", "zones", "pairs", "random", "leaving")
"""The kinds of a sweep, in the order in which a key steps through them."""


def steps(p: RingParameters) -> tuple[str, ...]:
    """Describe the scenario in words, one text per change."""
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


def expanded(names: Sequence[str], map_view: ShardMapView | None) -> tuple[str, ...]:
    """Replace ``zone:x`` by its members, so that one of them can be brought back."""
    out: dict[str, None] = {}
    for name in names:
        if name.startswith("zone:") and map_view is not None:
            out.update(dict.fromkeys(n.id for n in map_view.nodes if n.zone == name[5:]))
        else:
            out[name] = None
    return tuple(out)


def node_toggled(fail: Sequence[str], name: str, zone: str, map_view: ShardMapView | None) -> tuple[str, ...]:
    """Return ``fail`` with the node ``name`` of ``zone`` added or removed."""
    if name in fail:
        return tuple(f for f in fail if f != name)
    if f"zone:{zone}" in fail:
        return tuple(f for f in expanded(fail, map_view) if f != name)
    return (*fail, name)


def zone_toggled(fail: Sequence[str], zone: str, map_view: ShardMapView | None) -> tuple[str, ...]:
    """Return ``fail`` with the whole ``zone`` added or removed."""
    word = f"zone:{zone}"
    if word in fail:
        return tuple(f for f in fail if f != word)
    members = set(expanded([word], map_view))
    return (*(f for f in fail if f not in members), word)


def following(order: Sequence[str], now: str) -> str:
    """Return what comes after ``now`` in ``order``, or its first entry where it is not in it."""
    return order[(order.index(now) + 1) % len(order)] if now in order else order[0]


def key_of(row: Mapping[str, Any], kind: str) -> str:
    """Return the key or tenant that ``row`` of a table names, in the form in which it can be explained; "" for others."""
    if row.get("tenant") is None:
        return ""
    if kind != "segment-writer":
        return str(row["tenant"]) + (f"@{row['token']}" if row.get("token") is not None else "")
    if row.get("dataset") is None:
        return ""
    mark = f"@{row['fingerprint']}" if row.get("fingerprint") else ""
    return f"{row['tenant']}/{row['dataset']}{mark}"


class ScenarioPane(ViewPane):
    """A tab whose keys change the scenario of a ring."""

    _goto = ""
    """Table of the section to show with the next result."""

    def scenario_steps(self) -> tuple[str, ...]:
        """The scenario in words, one per change."""
        return () if self.parameters is None else steps(self.parameters)

    def _node(self) -> tuple[str, str] | None:
        """ID and zone of the node under the cursor, on the map or in another section; a notice where there is none."""
        row = None
        if self.levels and self.parameters is not None:
            sections = self.query_one("#ring-sections", Sections)
            table = sections.current if sections.chosen else self.query_one("#ring-nodes", LiveTable)
            row = table.row if isinstance(table, LiveTable) else None
        if not row or not row.get("instance"):
            self.notify("put the cursor on a node first", timeout=2)
            return None
        name = str(row["instance"])
        zone = row["zone"] if "zone" in row else self._zone_of(name)
        return name, str(zone)

    @property
    def _counts(self) -> bool:
        """Whether the load counts series or the like, not bytes per second."""
        return bool(self.result and self.result.summary.get("load_is_count"))

    @property
    def _counted(self) -> str:
        """What the load counts, in a word or two; empty where it is bytes per second."""
        if not self._counts:
            return ""
        unit = str(self.result.summary["load_unit"]) if self.result else ""
        words = [word for word in COUNTED if word in unit]
        return words[0] if words else "load"

    @property
    def _kind(self) -> str:
        """Kind of the ring on screen."""
        return self._map_view.kind if self._map_view is not None else "segment-writer"

    @property
    def _map_view(self) -> ShardMapView | None:
        """What the newest result draws."""
        return self.result.detail if self.result else None

    def _zone_of(self, name: str) -> str:
        map_view = self._map_view
        return next((n.zone for n in map_view.nodes if n.id == name), "") if map_view else ""

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
        if node := self._node():
            self.change(fail=node_toggled(self.parameters.fail, *node, self._map_view))

    def action_toggle_zone(self) -> None:
        """Its whole zone fails, or not any more."""
        if node := self._node():
            self.change(fail=zone_toggled(self.parameters.fail, node[1], self._map_view))

    def action_toggle_leaving(self) -> None:
        """The node under the cursor is LEAVING, or not any more."""
        if node := self._node():
            others = tuple(name for name in self.parameters.leaving if name != node[0])
            self.change(leaving=others if node[0] in self.parameters.leaving else (*others, node[0]))

    def action_regime(self) -> None:
        """The next moment on the time axis."""
        if self.parameters is not None:
            moments = REGIMES if self._kind == "segment-writer" else RING_REGIMES
            self.change(regime=following(moments, self.parameters.regime))

    def action_ring(self) -> None:
        """The next ring of the files."""
        if self.parameters is None or self.result is None:
            return
        rings, now = self.result.summary.get("rings", []), self.result.summary.get("ring", "")
        if len(rings) < 2:
            self.notify("the files hold one ring only", timeout=2)
            return
        self.change(ring=following(rings, now), sweep="", explain=None, **no_what_if(type(self.parameters)))

    def action_clear(self) -> None:
        """Nothing fails, nothing is changed."""
        if self.parameters is not None and not self.change(**no_what_if(type(self.parameters))):
            self.notify("there is no scenario to clear", timeout=2)

    def _scale(self, by: int) -> None:
        if self.parameters is None or self.result is None:
            return
        there = self.result.summary["healthy"]
        wanted = max((self.parameters.scale or there) + by, 1)
        # As many as there are is no change, and nothing to be cleared.
        self.change(scale=None if wanted == there else wanted)

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

    def action_what_if(self) -> None:
        """The what-if panel."""
        from tui.views.ring_placement.whatif import WhatIf

        if self.view is None or self.parameters is None:
            self.notify("this view is not loaded yet", timeout=2)
            return
        self.app.push_screen(WhatIf(self))
