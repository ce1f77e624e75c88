"""From a frame to the cells on screen: sorting, finding, choosing columns, formatting. No Textual here.

A ``Window`` is immutable: a frame, its declared ``Table``, what the operator chose (``Choice``) and the resulting order of
rows. ``build`` is the only expensive step (tens of ms for 100k rows) and may run in a thread; ``lines`` turns the few
rows on screen into fragments. Polars is imported when the first frame arrives, never at start.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import msgspec

from engine.core import units
from tui.glyphs import BRAILLE, Glyphs
from tui.widgets.drawing.fragments import (
    Fragment,
    Line,
    cells,
    cut_left,
    cut_middle,
    fit,
    fit_line,
    harmless,
    join,
    plain,
)
from tui.widgets.table.layout import FLEXIBLE, GAP, FilterError, Layout

if TYPE_CHECKING:
    import polars as pl

    from engine.core.tables import Column, Kind, Table


Key = tuple[Any, ...]  # values of a row's key columns; a row has the same key wherever it moves


class Choice(msgspec.Struct, frozen=True):
    """The operator's choices for one table.

    ``sort``: column to sort by (empty: the declared order). ``filter``: text of the filter. ``columns``: names of the shown
    columns in order (None: all that are not declared hidden).
    """

    sort: str = ""
    descending: bool = False
    filter: str = ""
    columns: tuple[str, ...] | None = None


class Cell(msgspec.Struct, frozen=True):
    """A cell to be drawn by a renderer.

    ``name``: of its column. ``row``: the whole row by column name. ``width``: cells to fill. ``peak``: returns for a column
    name the largest finite magnitude in that column of the whole frame (0 if none).
    """

    name: str
    value: Any
    row: Mapping[str, Any]
    width: int
    glyphs: Glyphs
    peak: Callable[[str], float]


Renderer = Callable[[Cell], Sequence[Fragment]]  # draws one cell; its fragments are cut or padded to the cell's width


class Looks(msgspec.Struct, frozen=True):
    """How rows are drawn. Shown and kept together with the rows, so that no cell is drawn from another result.

    ``cells`` draw the cells of some columns (by name), ``style`` returns the style of a whole row (empty: none); ``source``
    is the result that the rows are of.
    """

    cells: Mapping[str, Renderer] = msgspec.field(default_factory=dict)
    style: Callable[[Mapping[str, Any]], str] | None = None
    source: Any = None


PLAIN = Looks()

PATHS: frozenset[str] = frozenset({"path", "file"})
"""Columns that are cut on the left like ids: the end of an id or a path distinguishes it from its neighbours."""


NAMES: frozenset[str] = frozenset({"name", "topic", "subject", "group", "tenant", "dataset"})
"""Columns of names that are cut in the middle: what begins alike often differs at the end."""


SORTED_ROWS = 5_000  # rows up to which it is found out what they are sorted by
MEASURED_ROWS = 20_000  # rows among which the longest text is searched
DRAWN_ROWS = 100  # rows that are drawn to measure texts that a renderer changes
WIDEST = 400  # cells given to such a text while it is measured


def shown_columns(spec: Table, frame: pl.DataFrame, choice: Choice) -> tuple[Column, ...]:
    """Return the shown columns in order: the chosen ones, or all that are neither hidden nor empty in every row."""
    present = set(frame.columns)
    declared = {column.name: column for column in spec.columns if column.name in present}
    if choice.columns is not None:
        chosen = tuple(declared[name] for name in choice.columns if name in declared)
        if chosen:
            return chosen
    usual = [column for column in declared.values() if not column.hidden]
    return tuple(column for column in usual if column.name in spec.key or _has_values(frame, column.name)) or tuple(
        usual[:1]
    )


def _has_values(frame: pl.DataFrame, name: str) -> bool:
    """Return whether a column says anything: any value, any text that is not empty; also True without rows."""
    import polars as pl

    values = frame.get_column(name)
    if not frame.height or values.null_count() == frame.height:
        return not frame.height
    return values.dtype not in (pl.String, pl.Categorical) or bool((values != "").any())


class Window(msgspec.Struct, frozen=True, eq=False, dict=True):
    """A frame as it is shown. ``order``: row numbers of ``frame`` in shown order (UInt32). ``error``: of the filter."""

    spec: Table
    frame: pl.DataFrame
    choice: Choice
    order: pl.Series
    columns: tuple[Column, ...]
    error: str = ""
    looks: Looks = PLAIN
    _peaks: dict[str, float] = msgspec.field(default_factory=dict)

    @property
    def height(self) -> int:
        """Return the number of rows that match."""
        return self.order.len()

    def peak(self, name: str) -> float:
        """Return the largest finite magnitude in column ``name`` of the whole frame, 0.0 without any or for text."""
        if name not in self._peaks:
            self._peaks[name] = peak_of(self.frame, name)
        return self._peaks[name]

    @cached_property
    def sorted_by(self) -> tuple[str, bool] | None:
        """Title of the first column that rows are sorted by, and whether descending; None if by none, or too many."""
        from tui.widgets.table.filters import sort_key

        chosen = [column for column in self.spec.columns if column.name == self.choice.sort]
        if chosen:
            return chosen[0].header, self.choice.descending
        for column in self.columns if 1 < self.height <= SORTED_ROWS else ():
            keys = (
                self.frame.select(sort_key(column, self.frame.schema[column.name])).to_series()[self.order].drop_nulls()
            )
            for descending in (False,) if column.kind == "text" else (True, False):  # names fall by chance only
                if keys.len() > 1 and keys[0] != keys[-1] and keys.is_sorted(descending=descending):
                    return column.header, descending
        return None

    @cached_property
    def needs(self) -> dict[str, int]:
        """Return how many cells the longest text, or else the title, of each text column takes, by name of the column."""
        import polars as pl

        found: dict[str, int] = {}
        drawn = []
        for column in self.columns:
            if column.kind not in FLEXIBLE:
                continue
            found[column.name] = cells(column.header)
            values = self.frame.get_column(column.name).head(MEASURED_ROWS)
            values = values.cast(pl.String) if values.dtype == pl.Categorical else values
            if column.name in self.looks.cells or values.dtype != pl.String:
                drawn.append(column)
                continue
            size = values.str.len_bytes().max()
            if size != values.str.len_chars().max():
                drawn.append(column)  # characters may take two cells, or none
            elif isinstance(size, int):
                found[column.name] = max(found[column.name], size)
        for row in self.rows(0, DRAWN_ROWS) if drawn else ():
            for column in drawn:
                cell = Cell(column.name, row.get(column.name), row, column.grow or WIDEST, BRAILLE, self.peak)
                renderer = self.looks.cells.get(column.name)
                fragments = default_cell(column, cell) if renderer is None else renderer(cell)
                found[column.name] = max(found[column.name], cells(harmless(plain(fragments)).rstrip()))
        return found

    def rows(self, start: int, stop: int) -> list[dict[str, Any]]:
        """Return the shown rows ``start`` to ``stop`` as dicts. Meant for a screenful, not for a frame."""
        start, stop = max(start, 0), min(stop, self.height)
        return self.frame[self.order.slice(start, stop - start)].to_dicts() if start < stop else []

    def key(self, position: int) -> Key | None:
        """Return the key of the row at ``position``, None out of range. Tables without key columns use the row number."""
        if not 0 <= position < self.height:
            return None
        row = int(self.order[position])
        names = [name for name in self.spec.key if name in self.frame.columns]
        return tuple(self.frame.get_column(name)[row] for name in names) or (row,)

    def locate(self, key: Key | None, near: int = 0) -> int | None:
        """Return the position of the row with ``key``, None if it is gone or filtered out; ``near`` is tried first."""
        if key is None or not self.height:
            return None
        if self.key(near) == key:
            return near
        import polars as pl

        names = [name for name in self.spec.key if name in self.frame.columns]
        if not names:
            positions = (self.order == key[0]).arg_true()
            return int(positions[0]) if positions.len() else None
        mask = pl.repeat(True, self.frame.height, eager=True)
        try:
            for name, value in zip(names, key, strict=True):
                column = self.frame.get_column(name)
                mask &= column.eq_missing(pl.Series([value], dtype=column.dtype))
        except (pl.exceptions.PolarsError, TypeError, OverflowError, ValueError):
            return None  # a key of another type, or of other columns than there are now
        positions = mask.gather(self.order).arg_true()
        return int(positions[0]) if positions.len() else None

    def hits(self, text: str) -> Any:
        """Return the positions of the rows that match ``text``, none without a text, as an array. Raises FilterError."""
        from tui.widgets.table.filters import matching

        mask = matching(self.spec, self.frame, text, self.columns)
        return self.order[:0].to_numpy() if mask is None else mask.gather(self.order).arg_true().to_numpy()

    def find(self, text: str, start: int, step: int = 1) -> int | None:
        """Return the position of the next (``step`` 1) or previous (-1) row from ``start`` that matches ``text``.

        The search goes around the end. None if no row matches. Raises FilterError.
        """
        hits = self.hits(text)
        if not len(hits):
            return None
        ahead = hits[hits > start] if step > 0 else hits[hits < start]
        return int((ahead if len(ahead) else hits)[0 if step > 0 else -1])

    def shown(self) -> pl.DataFrame:
        """Return matching rows in shown order with the shown columns, for export."""
        return self.frame[self.order].select([column.name for column in self.columns])


def build(
    spec: Table, frame: pl.DataFrame, choice: Choice, previous: Window | None = None, looks: Looks = PLAIN
) -> Window:
    """Sort and filter. A filter that is not valid filters nothing; ``error`` of the window says why."""
    import polars as pl

    from tui.widgets.table.filters import matching, sort_key

    if previous is not None and previous.frame is frame and previous.choice == choice and previous.spec is spec:
        return msgspec.structs.replace(previous, looks=looks)
    error, mask = "", None
    if choice.filter:
        try:
            mask = matching(spec, frame, choice.filter, shown_columns(spec, frame, choice))
        except FilterError as wrong:
            error = str(wrong)
    rows = pl.int_range(frame.height, dtype=pl.UInt32, eager=True) if mask is None else mask.arg_true()
    rows = rows.cast(pl.UInt32)
    if choice.sort and choice.sort in frame.columns:
        column = next((c for c in spec.columns if c.name == choice.sort), None)
        if column is not None:
            key = frame.select(sort_key(column, frame.schema[column.name]).alias("key")).to_series()
            rows = (
                pl.DataFrame({"key": key.gather(rows), "row": rows})
                .sort("key", descending=choice.descending, nulls_last=True, maintain_order=True)
                .get_column("row")
            )
    elif choice.descending and not choice.sort:
        rows = rows.reverse()
    return Window(spec, frame, choice, rows, shown_columns(spec, frame, choice), error, looks)


def peak_of(frame: pl.DataFrame, name: str) -> float:
    """Return the largest finite magnitude in column ``name``, 0.0 without any or for text."""
    if name not in frame.columns or not frame.schema[name].is_numeric():
        return 0.0
    import numpy as np
    import polars as pl

    numbers = frame.get_column(name).cast(pl.Float64).to_numpy()
    return float(np.max(np.abs(numbers), where=np.isfinite(numbers), initial=0.0))


def as_listed(column: Column, frame: pl.DataFrame, value: Any, label: str) -> str:
    """Return a value as the table on ``frame`` shows it, with its unit unless ``label`` names that."""
    text = units.aligned(column.kind, value, peak_of(frame, column.name)) or units.text(column.kind, value)
    return f"{text} {column.unit}" if column.kind == "number" and column.unit and column.unit not in label else text


def lined_up(cell: Cell, kind: Kind, value: Any, width: int) -> str:
    """Return a value of a cell's column as text, with the unit and the decimals of the column if ``width`` cells suffice."""
    text = units.aligned(kind, value, cell.peak(cell.name)) or ""
    return text if 0 < len(text) <= width else units.text(kind, value, width)


def default_cell(column: Column, cell: Cell) -> list[Fragment]:
    """Draw a value without a renderer: text by kind; severities carry a mark, a word and a colour."""
    value = cell.value
    if value is None:
        return [(units.NOTHING if not cell.glyphs.ascii else "-", "dim")]
    if column.kind == "level":
        level = units.level_of(value)
        return [(f"{cell.glyphs.severity[level]} {units.text('level', value)}", level)]
    if column.kind == "spark" and not isinstance(value, (str, int, float)):
        from tui.widgets.drawing.plot import spark

        return [(spark(list(value), cell.width, cell.glyphs), "bar")]
    shown = lined_up(cell, column.kind, value, cell.width)
    if column.kind == "id" or column.name in PATHS:
        shown = cut_left(harmless(shown), cell.width, cell.glyphs.ellipsis)
    elif column.name in NAMES:
        shown = cut_middle(harmless(shown), cell.width, cell.glyphs.ellipsis)
    return [(shown, "")]


def lines(
    window: Window,
    start: int,
    stop: int,
    places: Layout,
    width: int,
    glyphs: Glyphs = BRAILLE,
) -> list[Line]:
    """Return the rows ``start`` to ``stop`` as lines of exactly ``width`` cells."""
    renderers, row_style = window.looks.cells, window.looks.style
    end = max((slot.x + slot.width for slot in places.slots), default=0)
    out: list[Line] = []
    for row in window.rows(start, stop):
        line: Line = []
        for slot in places.slots:
            if line:
                line.append((" " * GAP, ""))
            cell = Cell(slot.column.name, row.get(slot.column.name), row, slot.width, glyphs, window.peak)
            renderer = renderers.get(slot.column.name)
            fragments = default_cell(slot.column, cell) if renderer is None else renderer(cell)
            if len(fragments) == 1:
                text, style = fragments[0]
                align = "right" if slot.right and renderer is None else "left"
                line.append((fit(text, slot.width, align, glyphs.ellipsis), style))
            else:
                line += fit_line(list(fragments), slot.width, glyphs.ellipsis)
        line.append((" " * (width - end), ""))
        whole = row_style(row) if row_style is not None else ""
        if whole:
            line = [(text, style or whole) for text, style in line]
        out.append(join(line) if end <= width else fit_line(line, width, glyphs.ellipsis))
    return out


def header(window: Window, places: Layout, width: int, glyphs: Glyphs = BRAILLE, current: str = "") -> Line:
    """Return the header line: titles, the sort mark, a style for the sorted column and for the ``current`` one."""
    line: Line = []
    for slot in places.slots:
        if line:
            line.append((" " * GAP, "header"))
        name = slot.column.name
        title = slot.column.header
        if window.choice.sort == name:
            title = (glyphs.down if window.choice.descending else glyphs.up) + title
        style = "cursor" if name == current else "sorted" if window.choice.sort == name else "header"
        line.append((fit(title, slot.width, "right" if slot.right else "left", glyphs.ellipsis), style))
    return fit_line(join([*line, (" " * width, "header")]), width)


def heading(window: Window, glyphs: Glyphs) -> str:
    """Return what a table is, how many rows it has and what they are sorted by, as the rows themselves show."""
    count = (
        f"{window.height:,}"
        if window.height == window.frame.height
        else f"{window.height:,} of {window.frame.height:,}"
    )
    sort = window.sorted_by
    by = f", by {sort[0]} {glyphs.down if sort[1] else glyphs.up}" if sort is not None else ""
    title = window.spec.title or window.spec.name.replace("_", " ")
    return f"{title[:1].upper()}{title[1:]} {count}{by}"


def caption(window: Window, cursor: int, choice: Choice, hidden: int, glyphs: Glyphs, *, sorting: bool) -> str:
    """Return the place of the cursor and the choices in force in one line. ``hidden``: columns that do not fit."""
    of_all = f" of {window.frame.height:,}" if window.height != window.frame.height else ""
    parts = (
        (True, f"{min(cursor + 1, window.height):,}/{window.height:,}{of_all}"),
        (choice.filter, f"/{choice.filter}"),
        (window.error, f"filter: {window.error}"),
        (choice.sort, f"{glyphs.down if choice.descending else glyphs.up}{choice.sort}"),
        (hidden, f"+{units.plural(hidden, 'column')}"),
        (sorting, f"sorting{glyphs.ellipsis}"),
    )
    return "  ".join(text for applies, text in parts if applies)
