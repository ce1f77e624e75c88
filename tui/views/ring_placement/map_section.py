"""The first section of the ring placement tab, and that of one key explained: widgets and how they share the screen."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.app import ComposeResult
from textual.containers import Container, Horizontal, Vertical

from tui.views.ring_placement.drawing import ShardMap
from tui.views.ring_placement.time_axis import TimeAxis
from tui.views.shared.pane import DetailPanel
from tui.widgets.facts import Facts
from tui.widgets.table.table import LiveTable

if TYPE_CHECKING:
    import polars as pl

    from engine.core.tables import Table

ABOVE = 12
"""Lines of the screen that the tables of the first section cannot have."""
LEAST = 6
"""Lines that the last table has at least."""


class MapSection(Container):
    """Time axis, shard map, nodes and detail; below the nodes the tenants and one table more, where the screen has room."""

    DEFAULT_CSS = """
    MapSection { height: 1fr; }
    #ring-tables { width: 1fr; }
    #ring-more { height: 1fr; }
    """

    def __init__(self, nodes: LiveTable, tenants: LiveTable, more: LiveTable, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.table, self.tenants, self.more = nodes, tenants, more
        self._rows: tuple[int, ...] = (0, 0, 0)

    def compose(self) -> ComposeResult:
        """Its widgets."""
        yield TimeAxis(id="ring-time")
        yield ShardMap(id="ring-shard-map")
        with Horizontal(id="ring-body"):
            with Vertical(id="ring-tables"):
                yield self.table
                yield self.tenants
                yield self.more
            with DetailPanel():
                yield Facts(id="ring-facts")

    def show(self, *tables: tuple[pl.DataFrame | None, Table]) -> None:
        """Show the rows of nodes, tenants and what stands below them, as far as there are any."""
        self._rows = tuple(0 if frame is None else frame.height for frame, _ in tables)
        self._share()
        for table, (frame, spec) in zip((self.table, self.tenants, self.more), tables, strict=True):
            if frame is not None:
                table.show(frame, spec)

    def on_resize(self) -> None:
        """Another screen has other room."""
        self._share()

    def _share(self) -> None:
        """Give the nodes the lines they need, at most three fifths if the tenants need the rest; then the tenants theirs."""
        nodes, tenants, more = self._rows
        below = tenants > 0 and self.screen.has_class("-tall")
        room = self.app.size.height - ABOVE
        height = min(nodes + 2, max(room * 3 // 5, room - tenants - 1))
        last = more > 0 and (
            not nodes or (below and room - height - tenants - 2 >= LEAST)
        )  # without a ring all there is
        self.tenants.display, self.more.display = below, last
        self.table.styles.height = height if below or not nodes else "1fr"
        self.tenants.styles.height = tenants + 2 if last else "1fr"


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
