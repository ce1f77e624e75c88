"""The choice of what gets the keys when a level, section or tab is shown."""

from __future__ import annotations

from collections.abc import Iterable

from textual.widget import Widget

from tui.widgets.table.table import LiveTable


def focus_first(widget: Widget) -> None:
    """Focus the first widget inside that takes keys, tables before all others."""
    tables: Iterable[Widget] = [table for table in widget.query(LiveTable) if _visible(table)]
    for candidate in (*tables, *widget.query("*")):
        if candidate.focusable and _visible(candidate):
            candidate.focus(scroll_visible=False)
            return


def _visible(widget: Widget) -> bool:
    """Return whether ``widget`` and all around it are displayed."""
    return all(node.display for node in widget.ancestors_with_self if isinstance(node, Widget))
