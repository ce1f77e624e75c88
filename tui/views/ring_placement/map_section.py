"""The first section of the ring placement tab, and that of one key explained: widgets and how they share the screen."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.app import ComposeResult
from textual.containers import Container, Horizontal, Vertical

from tui.views.base import DetailPanel
from tui.views.ring_placement.drawing import ShardMap
from tui.views.ring_placement.time_axis import TimeAxis
from tui.widgets.facts import Facts
from tui.widgets.table.table import LiveTable

if TYPE_CHECKING:
    import polars as pl

    from engine.tables import Table

ABOVE = 12
"""Lines of the screen that the tables of the first section cannot have."""


class MapSection(Container):
    """Time axis, shard map, nodes and detail; below the nodes the tenants, where the screen has room for both."""

    DEFAULT_CSS = """
    MapSection { height: 1fr; }
    #ring-tables { width: 1fr; }
    #ring-top-tenants { height: 1fr; }
    """

    def __init__(self, nodes: LiveTable, tenants: LiveTable, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.table, self.tenants = nodes, tenants
        self._rows = 0, 0

    def compose(self) -> ComposeResult:
        """Its widgets."""
        yield TimeAxis(id="ring-time")
        yield ShardMap(id="ring-shard-map")
        with Horizontal(id="ring-body"):
            with Vertical(id="ring-tables"):
                yield self.table
                yield self.tenants
            with DetailPanel():
                yield Facts(id="ring-facts")

    def show(self, nodes: pl.DataFrame, nodes_spec: Table, tenants: pl.DataFrame | None, tenants_spec: Table) -> None:
        """Show the nodes and, where there are any, the tenants."""
        self._rows = nodes.height, tenants.height if tenants is not None else 0
        self._share()
        self.table.show(nodes, nodes_spec)
        if tenants is not None:
            self.tenants.show(tenants, tenants_spec)

    def on_resize(self) -> None:
        """Another screen has other room."""
        self._share()

    def _share(self) -> None:
        """Give the nodes the lines they need, at most three fifths if the tenants need the rest."""
        nodes, tenants = self._rows
        below = tenants > 0 and self.screen.has_class("-tall")
        self.tenants.display = below
        room = self.app.size.height - ABOVE
        self.table.styles.height = min(nodes + 2, max(room * 3 // 5, room - tenants - 1)) if below else "1fr"


class Explained(Container):
    """The steps of one key, and the one under the cursor in full."""

    DEFAULT_CSS = """
    Explained { height: 1fr; }
    Explained > Facts { height: 4; padding: 0 1; }
    """

    def __init__(self, table: LiveTable, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.table = table

    def compose(self) -> ComposeResult:
        """Its widgets."""
        yield self.table
        yield Facts(id="ring-step")
