"""Bars within a line and below each other: shares, before and after, lanes of time. Pure functions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from engine.core.units import finite
from tui.glyphs import Glyphs
from tui.widgets.drawing.axes import Range, bottom_axis, place, span_of
from tui.widgets.drawing.fragments import Fragment, Line, cells, fit, fit_line, harmless, join
from tui.widgets.table.window import Cell, Renderer

if TYPE_CHECKING:
    from engine.core.tables import Kind


def bar(value: float | None, peak: float, width: int, glyphs: Glyphs) -> str:
    """Draw ``value`` of ``peak`` as a bar of at most ``width`` cells, in eighths; a tiny value is still visible, 0 is not.

    A value over the peak ends in ``>``.
    """
    number = finite(value)
    if number is None or number <= 0 or width <= 0:
        return " " * max(width, 0)
    if not peak > 0 or not math.isfinite(peak):
        return " " * width
    steps = len(glyphs.eighths) - 1
    full, rest = divmod(max(round(min(number / peak, 1.0) * width * steps), 1), steps)
    text = glyphs.eighths[-1] * full + (glyphs.eighths[rest] if rest else "")
    if number > peak * 1.0001:
        text = text[: width - 1] + ">"
    return text + " " * (width - len(text))


def share_bar(peak: float | None = None, text: Kind | None = None) -> Renderer:
    """Return a cell renderer: the value as a bar against the column's peak (or a fixed one).

    Its text stands right of it, below a header that is aligned right, if a kind is given: ``share_bar(text="percent",
    peak=100)``.
    """

    def render(cell: Cell) -> Sequence[Fragment]:
        from engine.core import units

        top = peak if peak is not None else cell.peak(cell.name)
        if text is None:
            return [(bar(cell.value, top, cell.width, cell.glyphs), "bar")]
        label = fit(units.text(text, cell.value, 8), min(8, cell.width), "right")
        return [(bar(cell.value, top, cell.width - cells(label), cell.glyphs), "bar"), (label, "")]

    return render


def change_bar(before: str, after: str, limit: str, mean: float | None = None) -> Renderer:
    """Return a cell renderer for before→after: the common part of both values plain, added and removed parts apart.

    ``before``, ``after`` and ``limit`` (a mark at the capacity) are column names; the scale is the larger peak of the
    columns. ``mean``: position of another mark in all bars.
    """

    def render(cell: Cell) -> Sequence[Fragment]:
        first, second = finite(cell.row.get(before)) or 0.0, finite(cell.row.get(after)) or 0.0
        top = max(cell.peak(name) for name in (before, after, limit))
        if not top > 0 or cell.width <= 0:
            return [(" " * max(cell.width, 0), "")]
        steps = cell.width
        common = round(min(first, second) / top * steps)
        reach = round(max(first, second) / top * steps)
        if reach == common and first != second and common < steps:
            reach = common + 1
        mark = "+" if cell.glyphs.ascii else cell.glyphs.shades[3]
        grown = second >= first
        line: Line = [
            (cell.glyphs.eighths[-1] * min(common, steps), "bar"),
            ((mark if grown else cell.glyphs.gap) * max(min(reach, steps) - common, 0), "bar2" if grown else "dim"),
            (" " * max(steps - reach, 0), ""),
        ]
        capacity, average = finite(cell.row.get(limit)), finite(mean)
        marks: dict[int, Fragment] = {}
        if average is not None and average > 0:
            marks[min(round(average / top * steps), steps - 1)] = (":" if cell.glyphs.ascii else "╎", "title")
        if capacity is not None:
            style = "critical" if second > capacity else "mark"
            marks[min(round(capacity / top * steps), steps - 1)] = (cell.glyphs.vertical, style)
        cells_of = ((character, style) for text, style in line for character in text)
        return join(marks.get(x, each) for x, each in enumerate(cells_of)) if marks else line

    return render


class Bar(msgspec.Struct, frozen=True):
    """One horizontal bar: label, value, its text behind the bar, style."""

    label: str
    value: float | None
    text: str = ""
    style: str = "bar"


def bars(rows: Sequence[Bar], width: int, glyphs: Glyphs, peak: float | None = None) -> list[Line]:
    """Draw horizontal bars below each other on one scale: label, bar, text."""
    if width <= 0:
        return []
    left = min(max((cells(harmless(row.label)) for row in rows), default=0), width // 3)
    right = min(max((cells(harmless(row.text)) for row in rows), default=0), width // 3)
    top = peak if peak is not None else max((finite(row.value) or 0.0 for row in rows), default=0.0)
    inner = max(width - left - right - 2, 0)
    return [
        _labelled(row.label, [(bar(row.value, top, inner, glyphs), row.style)], row.text, left, right, width, glyphs)
        for row in rows
    ]


def _labelled(label: str, line: Line, text: str, left: int, right: int, width: int, glyphs: Glyphs) -> Line:
    front = (fit(label, left, ellipsis=glyphs.ellipsis) + " ", "")
    return fit_line([front, *line, (" " + fit(text, right, "right", glyphs.ellipsis), "dim")], width, glyphs.ellipsis)


class Span(msgspec.Struct, frozen=True):
    """A piece of a lane from ``start`` to ``end`` (None: still going on); ``sign`` is its character (one cell)."""

    start: float
    end: float | None
    style: str = "bar"
    sign: str = ""


class Lane(msgspec.Struct, frozen=True):
    """One line of a Gantt chart or waterfall: label, pieces in drawing order, text behind."""

    label: str
    spans: Sequence[Span]
    text: str = ""


def lanes(
    rows: Sequence[Lane], width: int, glyphs: Glyphs, *, span: Range | None = None, kind: Kind = "time_ms"
) -> list[Line]:
    """Draw pieces of time below each other on one axis: Gantt charts (many pieces per lane) and waterfalls (one each).

    A piece shorter than a cell still shows. Open pieces reach the right edge and end in an arrow. Pieces are drawn in their
    sign, so that they differ without colour. The last two lines are the axis.
    """
    if width <= 0:
        return []
    left = min(max((cells(harmless(row.label)) for row in rows), default=0), width // 3)
    right = min(max((cells(harmless(row.text)) for row in rows), default=0), width // 4)
    inner = max(width - left - right - 2, 1)
    if span is None:
        starts = [piece.start for row in rows for piece in row.spans]
        ends = [piece.end for row in rows for piece in row.spans if piece.end is not None]
        span = span_of([*starts, *ends]) or (0.0, 1.0)
    if span[1] <= span[0]:
        span = (span[0], span[0] + 1.0)
    out: list[Line] = []
    for row in rows:
        line: Line = [(" ", "")] * inner
        for piece in row.spans:
            _draw_piece(line, piece, span, glyphs)
        out.append(_labelled(row.label, line, row.text, left, right, width, glyphs))
    axis = bottom_axis(span, kind, " " * (left + 1), inner, glyphs, 8)
    return out + [fit_line(line, width, glyphs.ellipsis) for line in axis]


def _draw_piece(line: Line, piece: Span, span: Range, glyphs: Glyphs) -> None:
    """Draw a piece of time into single cells."""
    end = span[1] if piece.end is None else piece.end
    if not (math.isfinite(piece.start) and math.isfinite(end)) or piece.start > span[1] or end < span[0]:
        return
    first, last = place(piece.start, span, len(line)), place(end, span, len(line))
    if last > first and end < span[1]:
        last -= 1  # the next piece begins in the cell in which this one ends
    for x in range(first, last + 1):
        line[x] = (piece.sign or glyphs.eighths[-1], piece.style)
    if piece.end is None:
        line[last] = (">", piece.style)
