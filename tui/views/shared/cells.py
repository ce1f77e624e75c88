"""How cells of all tabs are drawn: numbers, shares, words with a style each, intervals, trends."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from engine.core import units
from tui.widgets.drawing.fragments import Fragment
from tui.widgets.drawing.plot import spark
from tui.widgets.table.window import Cell, Renderer

if TYPE_CHECKING:
    from engine.core.tables import Table

Style = str | Callable[[Cell], str]  # style of a cell, or a function of the cell that returns it


def number(format: str | Callable[[Any], str], style: Style = "", none: str = units.NOTHING) -> Renderer:
    """Return a renderer of numbers, aligned right. ``format``: a ``str.format`` pattern or a function of the value; ``none``:
    text for no value."""

    def render(cell: Cell) -> Sequence[Fragment]:
        if cell.value is None:
            return [(none.rjust(cell.width), "dim")]
        text = format.format(cell.value) if isinstance(format, str) else format(cell.value)
        return [(text.rjust(cell.width), style if isinstance(style, str) else style(cell))]

    return render


def share(format: str, style: Style = "", none: str = units.NOTHING) -> Renderer:
    """Return a renderer of a share (1 is all of it); ``format`` formats it in percent."""
    return number(lambda value: format.format(100 * value), style, none)


def named(styles: Mapping[str, str], other: str = "", none: str = "") -> Renderer:
    """Return a renderer of words, each in its style or in ``other``; ``none``: text for no word."""

    def render(cell: Cell) -> Sequence[Fragment]:
        word = str(cell.value or none)
        return [(word, styles.get(word, other))]

    return render


def interval(low: str, high: str, format: Callable[[float], str]) -> Renderer:
    """Return a renderer of the interval between columns ``low`` and ``high``: empty without one, "none" without an upper end."""

    def render(cell: Cell) -> Sequence[Fragment]:
        first, last = cell.row.get(low), cell.row.get(high)
        if first is None or last is None:
            return [("", "")]
        return [(f"{format(first)} to {format(last)}", "")] if last != float("inf") else [("none", "dim")]

    return render


def arranged(spec: Table, first: Mapping[str, Mapping[str, Any]], **others: Any) -> Table:
    """Return ``spec`` with the columns of ``first`` in front, changed as it says; ``others`` changes all others."""
    front = (replace(spec.column(name), **changes) for name, changes in first.items())
    rest = (replace(column, **others) for column in spec.columns if column.name not in first)
    return replace(spec, columns=(*front, *rest))


def trend(cell: Cell) -> Sequence[Fragment]:
    """Draw a quiet sparkline between its least and its largest value."""
    return [(spark(cell.value or (), cell.width, cell.glyphs), "dim")]
