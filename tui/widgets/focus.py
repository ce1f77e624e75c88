"""Where the keys go when a level, section or tab is shown."""

from __future__ import annotations

from collections.abc import Iterable

from textual.widget import Widget

from tui.widgets.table.table import LiveTable


def focus_first(widget: Widget) -> None:
    """Focus the first widget inside that takes keys, tables before all others."""
    tables: Iterable[Widget] = [table for table in widget.query(LiveTable) if _visible(table)]
    for found in (*tables, *widget.query("*")):
        if found.focusable and _visible(found):
            found.focus(scroll_visible=False)
            return


def _visible(widget: Widget) -> bool:
    return all(node.display for node in widget.ancestors_with_self if isinstance(node, Widget))
