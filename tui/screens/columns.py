"""The column chooser: which columns of a table are shown, and in which order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from textual import on
from textual.binding import Binding, BindingType
from textual.widget import Widget

from tui.screens.box import Box, about
from tui.widgets.drawing.fragments import Line, fit
from tui.widgets.facts import Facts
from tui.widgets.pick import PickList

if TYPE_CHECKING:
    from engine.core.tables import Column


class ColumnsScreen(Box[tuple[str, ...]]):
    """The list of all columns, shown ones first; it returns the names of the shown columns in order."""

    heading = "Columns"
    keys = "Space show/hide   J/K move   0 as declared   Enter take   Esc leave"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("space", "flip", show=False),
        Binding("J", "shift(1)", show=False),
        Binding("K", "shift(-1)", show=False),
        Binding("0", "declared", show=False),
    ]

    def __init__(self, columns: Sequence[Column], shown: Sequence[str]) -> None:
        super().__init__()
        by_name = {column.name: column for column in columns}
        rest = [column for column in columns if column.name not in shown]
        self._declared = list(columns)
        self._columns = [by_name[name] for name in shown if name in by_name] + rest
        self._shown = set(shown)

    def content(self) -> list[Widget]:
        """Return the list, and the description of the chosen column."""
        return [PickList(id="columns"), about()]

    def on_mount(self) -> None:
        """Fill and focus the list."""
        self._fill()
        self.query_one(PickList).focus()

    def _fill(self) -> None:
        """Show the columns in their order, each with a mark if it is shown."""
        lines: list[Line] = []
        for column in self._columns:
            mark = "[x] " if column.name in self._shown else "[ ] "
            # Times and sizes are shown in the unit that suits each value.
            unit = f" ({column.unit})" if column.unit and column.kind in ("number", "count", "text", "ratio") else ""
            lines.append([(mark, "key"), (fit(column.header + unit, 28) + " ", "title"), (column.meaning, "dim")])
        self.query_one(PickList).show(lines)
        self._about()

    @on(PickList.Moved)
    def _about(self) -> None:
        """Describe the column under the cursor."""
        column = self._columns[self.query_one(PickList).cursor]
        names = f"{column.header} ({column.name})"
        facts = [("column", names, ""), ("meaning", column.meaning, ""), ("unit", column.unit or None, "")]
        self.query_one(Facts).show(facts)

    def action_flip(self) -> None:
        """Show or hide the column under the cursor; one column always stays."""
        name = self._columns[self.query_one(PickList).cursor].name
        if name in self._shown and len(self._shown) > 1:
            self._shown.discard(name)
        else:
            self._shown.add(name)
        self._fill()

    def action_shift(self, by: int) -> None:
        """Move the column under the cursor."""
        columns = self.query_one(PickList)
        index = columns.cursor
        other = index + by
        if 0 <= other < len(self._columns):
            self._columns[index], self._columns[other] = self._columns[other], self._columns[index]
            columns.move(other)
            self._fill()

    def action_declared(self) -> None:
        """Show the columns that the view declares, in its order."""
        self._columns = list(self._declared)
        self._shown = {column.name for column in self._declared if not column.hidden}
        self._fill()

    @on(PickList.Picked)
    def _take(self) -> None:
        """Close with the shown columns."""
        self.dismiss(tuple(column.name for column in self._columns if column.name in self._shown))
