"""Boxes of a table: choose its columns; export it as it is shown (filter, sort, columns) to a file or the clipboard."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from textual import on
from textual.binding import Binding, BindingType
from textual.widget import Widget
from textual.widgets import Input

from engine.core import units
from tui.widgets.box import Box, about
from tui.widgets.drawing.fragments import Line, fit
from tui.widgets.facts import Facts
from tui.widgets.pick import PickList
from tui.widgets.prompt import OneLine

if TYPE_CHECKING:
    from engine.core.tables import Column
    from tui.widgets.table.window import Window


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


FORMATS: tuple[tuple[str, str, str], ...] = (
    ("csv", "CSV", ".csv"),
    ("json", "JSON", ".json"),
    ("markdown", "Markdown", ".md"),
)
"""Name in ``engine.output.export.FORMATS``, title, and ending of the file."""


def write_new(path: Path, text: str) -> None:
    """Create a file with ``text``, wholly or not at all. Raises OSError (FileExistsError among others), ValueError."""
    with path.open("x", encoding="utf-8") as file:
        try:
            file.write(text)
            file.flush()
        except (OSError, ValueError):
            path.unlink(missing_ok=True)
            raise


class ExportScreen(Box[None]):
    """The formats and the name of the file to write."""

    heading = "Export the table as shown"
    keys = "Up/Down format   Tab file name   Enter write   c copy   Esc leave"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("c", "copy", show=False)]
    DEFAULT_CSS = "ExportScreen PickList { height: 4; }"

    def __init__(self, window: Window, name: str | None = None) -> None:
        """``name``: the table's name (``view/table``); None for the name in its declaration."""
        super().__init__()
        self._window = window
        self._stem = (name or window.spec.name).replace("/", "-").replace("_", "-")
        self._proposed = self._free(FORMATS[0][2])

    def content(self) -> list[Widget]:
        """Return the formats, then the file name."""
        lines: list[Line] = [[(f" {title}", "")] for _, title, _ in FORMATS]
        return [PickList(lines, id="formats"), OneLine(str(self._proposed), id="path")]

    def _free(self, ending: str) -> Path:
        """Return a path named after the table that does not exist yet, in the folder the program was started in."""
        try:
            folder = Path.cwd()
        except OSError:  # it was deleted
            folder = Path.home()
        names = (self._stem + (f"-{number}" if number > 1 else "") + ending for number in range(1, 1000))
        return next((folder / name for name in names if not (folder / name).exists()), folder / (self._stem + ending))

    def on_mount(self) -> None:
        """Focus the list."""
        self.query_one(PickList).focus()

    @on(PickList.Moved)
    def _other_format(self, event: PickList.Moved) -> None:
        """Give the file name the ending of the chosen format."""
        name = self.query_one(Input)
        endings = tuple(ending for _, _, ending in FORMATS)
        ending = FORMATS[event.index][2]
        if name.value == str(self._proposed):
            self._proposed = self._free(ending)
            name.value = str(self._proposed)
        elif name.value.endswith(endings):
            name.value = name.value[: name.value.rfind(".")] + ending

    def text(self) -> str:
        """Return the table in the chosen format."""
        from engine.output.export import FORMATS as WRITERS

        return WRITERS[FORMATS[self.query_one(PickList).cursor][0]](self._window.shown(), self._window.spec)

    @on(PickList.Picked)
    @on(Input.Submitted)
    def _write(self) -> None:
        """Write the file and close; stay open with a message if that fails."""
        path = Path(os.path.expanduser(self.query_one(Input).value))  # noqa: PTH111  (unlike Path's it never raises)
        try:
            write_new(path, self.text())
        except FileExistsError:
            self.app.notify(f"{path.name} exists; give another name", severity="error", markup=False)
            return
        except (OSError, ValueError) as error:
            reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
            self.app.notify(f"{path}: {reason}; nothing is written", severity="error", markup=False)
            return
        self.app.notify(f"{units.plural(self._window.height, 'row')} written to {path}", markup=False)
        self.dismiss(None)

    def action_copy(self) -> None:
        """Copy the table instead of writing it."""
        from tui.process import clipboard

        self.app.notify(clipboard.copy(self.text(), self.app), markup=False)
        self.dismiss(None)
