"""The shared table: any number of rows, any sort, any filter, and only changed cells go to the terminal.

``LiveTable`` adds to a ``Grid`` what an operator does with it: sort, filter, choose columns, find, export, copy. The choices
survive updates and are remembered by name.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from msgspec.structs import replace
from textual import events
from textual.actions import SkipAction
from textual.binding import BindingType
from textual.message import Message

from engine.core import units
from tui.actions import bindings
from tui.widgets.control import following
from tui.widgets.drawing.canvas import CSS_BY_COMPONENT, SCROLLING_CSS
from tui.widgets.prompt import ask
from tui.widgets.table.grid import Grid
from tui.widgets.table.layout import FilterError
from tui.widgets.table.window import Key

if TYPE_CHECKING:
    from engine.core.tables import Column, Table


FRAME = """
LiveTable { border-top: solid $panel; border-title-color: $text-muted; }
LiveTable:focus { border-top: heavy $primary; border-title-color: $foreground; border-title-style: bold; }
.-ascii LiveTable, .-ascii LiveTable:focus { border-top: ascii $panel; }
.-ascii LiveTable:focus { border-title-style: reverse; }
.-tiny LiveTable { border-top: none; }
"""


class LiveTable(Grid, can_focus=True):
    """A virtual table.

    ``spec`` declares the columns; the operator's choices are remembered under ``name`` (view/table). ``show`` shows new rows
    with their looks.
    """

    BINDINGS: ClassVar[list[BindingType]] = [*bindings("table")]
    DEFAULT_CSS = (
        SCROLLING_CSS.format(name="LiveTable", bar="scroll") + CSS_BY_COMPONENT.format(name="LiveTable") + FRAME
    )

    @dataclass
    class Selected(Message):
        """A row was opened."""

        table: LiveTable
        key: Key

    @dataclass
    class Chosen(Message):
        """The operator changed sort, filter or columns; the application remembers them."""

        table: LiveTable

    def on_click(self, event: events.Click) -> None:
        """Choose the clicked row; on the header sort by the clicked column."""
        y = event.y - self.gutter.top
        for slot in self._layout.slots if y <= 0 else ():
            if slot.x <= event.x < slot.x + slot.width:
                self.current = slot.column.name
                self.action_sort()
        if y > 0:
            self.move_to(self.scroll_offset.y + y - 1)
            if event.chain == 2:
                self.action_select()

    # -- choices ------------------------------------------------------------------------------------------------

    def choose(self, *, remember: bool = True, **fields: Any) -> None:
        """Change sort, descending, filter or columns, and show the result. ``remember``: post ``Chosen``."""
        choice = replace(self.choice, **fields)
        if choice == self.choice:
            return
        if choice.columns != self.choice.columns:
            self._offset = 0
        self.choice = choice
        self._build()
        if remember:
            self.post_message(self.Chosen(self))

    def visible_columns(self) -> tuple[Column, ...]:
        """Return the columns on screen."""
        return tuple(slot.column for slot in self._layout.slots)

    def action_sort_column(self, step: int) -> None:
        """Sort by the shown column ``step`` places right of the sorted one."""
        names = [column.name for column in (self.window.columns if self.window else ())]
        if not names:
            return
        name = following(names, self.choice.sort, step)
        if name in {column.name for column in self.visible_columns()}:
            self.current = name
        self.choose(sort=name, descending=first_descending(self.spec, name))

    def action_column(self, step: int) -> None:
        """Choose the column ``step`` places to the right; columns scroll in at the edges."""
        names = [column.name for column in self.visible_columns()]
        if not names:
            return
        index = names.index(self.current) + step if self.current in names else 0
        if index >= len(names):
            if self._layout.hidden > self._offset:
                self._offset += 1
                self.repaint()
                self.current = self.visible_columns()[-1].name
        elif self._offset and index < 2 and step < 0:
            self._offset -= 1
            self.repaint()
            self.current = self.visible_columns()[min(1, len(self.visible_columns()) - 1)].name
        else:
            self.current = names[max(index, 0)]
        self._redo_header()

    def show_column(self, name: str) -> None:
        """Sort by the column ``name``; one that is not shown is put behind the first."""
        window = self.window
        if window is None:
            return
        shown = [column.name for column in window.columns]
        if name not in {column.name for column in self.visible_columns()}:
            shown = [shown[0], name, *(other for other in shown[1:] if other != name)]
            self.choose(columns=tuple(shown))
        self.current = name
        self.choose(sort=name, descending=first_descending(self.spec, name))

    def find(self, text: str, step: int = 1) -> bool:
        """Go to the next (or previous) row that matches ``text``; return False if none does. Raises FilterError."""
        self.search = text
        position = self.window.find(text, self.cursor, step) if self.window is not None and text else None
        if position is None:
            return False
        self.move_to(position)
        return True

    # -- actions ------------------------------------------------------------------------------------------------

    def action_move(self, by: int) -> None:
        """Move the cursor down by some rows."""
        self.move_to(self.cursor + by)

    def action_edge(self, last: int) -> None:
        """Go to the first or the last row."""
        self.move_to(self.window.height - 1 if last and self.window is not None else 0)
        self.placed = bool(last)

    def action_page(self, pages: float) -> None:
        """Scroll and move the cursor by a page or half of one."""
        rows = max(int(self._page * abs(pages)), 1) * (1 if pages > 0 else -1)
        target = max(min(self.scroll_offset.y + rows, self.max_scroll_y), 0)
        if target != self.scroll_offset.y:
            self.scroll_to(y=target, animate=False)
        self.move_to(self.cursor + rows)

    def action_select(self) -> None:
        """Open the row under the cursor."""
        if self.cursor_key is not None and self.window is not None and self.window.height:
            self.post_message(self.Selected(self, self.cursor_key))

    def action_sort(self) -> None:
        """Sort by the chosen column, or reverse the order if it is sorted by it already."""
        if self.current and self.current == self.choice.sort:
            self.action_reverse()
        elif self.current:
            self.choose(sort=self.current, descending=first_descending(self.spec, self.current))

    def action_reverse(self) -> None:
        """Reverse the order."""
        self.choose(descending=not self.choice.descending)

    def action_clear(self) -> None:
        """Remove the filter; without one, Escape works as outside the table."""
        if not self.choice.filter:
            raise SkipAction()
        self.choose(filter="")

    def find_again(self, step: int) -> None:
        """Go to the next or previous match of what was searched."""
        if not self.find(self.search, step):
            self.notify(f"nothing matches {self.search!r}", markup=False)

    async def action_filter(self) -> None:
        """Ask for a filter; rows follow while it is typed. Say if it is not valid."""

        def changed(text: str) -> None:
            self.choose(remember=False, filter=text)

        def done(text: str) -> None:
            changed(text)
            self.post_message(self.Chosen(self))
            if self.window is not None and self.window.error:
                self.notify(self.window.error, severity="warning", markup=False)

        hint = "words, cpu>50, state=RUNNING, name~^etl, !not"
        await ask(self, "/", self.choice.filter, hint, changed=changed, done=done)

    async def action_find(self) -> None:
        """Ask for what to find and go to it."""

        def find(text: str) -> None:
            try:
                if text and not self.find(text):
                    self.notify(f"nothing matches {text!r}", markup=False)
            except FilterError as error:
                self.notify(str(error), severity="warning", markup=False)

        await ask(self, "find ", self.search, "words, cpu>50, state=RUNNING", done=find)

    def action_columns(self) -> None:
        """Choose the shown columns."""
        from tui.widgets.table.boxes import ColumnsScreen

        if self.window is None:
            return

        def show_columns(names: tuple[str, ...] | None) -> None:
            if names is not None:
                self.choose(columns=names)

        present = [column for column in self.window.spec.columns if column.name in self.window.frame.columns]
        self.app.push_screen(ColumnsScreen(present, [column.name for column in self.window.columns]), show_columns)

    def action_export(self) -> None:
        """Export the table as it is shown."""
        from tui.widgets.table.boxes import ExportScreen

        if self.window is not None:
            self.app.push_screen(ExportScreen(self.window, self.name))

    def action_copy(self) -> None:
        """Copy the chosen cell of the row under the cursor."""
        if (row := self.row) is not None and self.current in row:
            _copy(self, "" if row[self.current] is None else str(row[self.current]))

    def action_copy_rows(self, shown: int) -> None:
        """Copy the row under the cursor, or all rows that are ``shown``, as they are displayed, below the titles."""
        if self.row is not None:
            first, count = (self.scroll_offset.y, self._page) if shown else (self.cursor, 1)
            _copy(self, self.displayed(first, first + count))


def _copy(table: LiveTable, text: str) -> None:
    from tui.process import clipboard

    table.notify(clipboard.copy(text, table.app), markup=False, timeout=3)


def first_descending(spec: Table | None, name: str) -> bool:
    """Return whether the first sort by a column is descending: numbers and severities begin with the largest."""
    kind = spec.column(name).kind if spec is not None else "text"
    return kind in units.NUMERIC or kind in ("level", "spark", "flag")
