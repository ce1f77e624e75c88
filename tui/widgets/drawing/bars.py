"""Bars within a line and below each other: shares, before and after, lanes of time. Pure functions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tui.glyphs import Glyphs
from tui.widgets.drawing.axes import Range, bottom_labels, place, span_of, tick_texts, ticks
from tui.widgets.drawing.fragments import Fragment, Line, cells, fit, fit_line, harmless, join
from tui.widgets.drawing.raster import Mark, finite
from tui.widgets.table.window import Cell, Renderer

if TYPE_CHECKING:
    from engine.tables import Kind


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
    size = max(round(min(number / peak, 1.0) * width * steps), 1)
    full, rest = divmod(size, steps)
    text = glyphs.eighths[-1] * full + (glyphs.eighths[rest] if rest else "")
    if number > peak * 1.0001:
        text = text[: width - 1] + ">"
    return text + " " * (width - len(text))


def share_bar(style: str = "bar", peak: float | None = None, text: Kind | None = None) -> Renderer:
    """Return a cell renderer: the value as a bar against the column's peak (or a fixed one).

    Its text stands before it if a kind is given: ``share_bar(text="percent", peak=100)``.
    """

    def render(cell: Cell) -> Sequence[Fragment]:
        from engine import units

        top = peak if peak is not None else cell.peak(cell.name)
        if text is None:
            return [(bar(cell.value, top, cell.width, cell.glyphs), style)]
        label = fit(units.text(text, cell.value, 8), min(8, cell.width), "right")
        return [(label + " ", ""), (bar(cell.value, top, cell.width - cells(label) - 1, cell.glyphs), style)]

    return render


def change_bar(before: str, after: str, peak: float | None = None, limit: str = "") -> Renderer:
    """Return a cell renderer for before→after: the common part of both values plain, added and removed parts apart.

    ``before``, ``after`` and ``limit`` (a mark at the capacity) are column names; the scale is the larger peak of the
    columns.
    """

    def render(cell: Cell) -> Sequence[Fragment]:
        first, second = finite(cell.row.get(before)) or 0.0, finite(cell.row.get(after)) or 0.0
        top = peak if peak is not None else max(cell.peak(before), cell.peak(after), cell.peak(limit) if limit else 0.0)
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
        capacity = finite(cell.row.get(limit)) if limit else None
        if capacity is None:
            return line
        at = min(round(capacity / top * steps), steps - 1)
        style = "critical" if second > capacity else "mark"
        out: Line = []
        x = 0
        for piece, own in line:
            for character in piece:
                out.append((cell.glyphs.vertical, style) if x == at else (character, own))
                x += 1
        return join(out)

    return render


@dataclass(frozen=True)
class Bar:
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
        fit_line(
            [
                (fit(row.label, left, ellipsis=glyphs.ellipsis) + " ", ""),
                (bar(row.value, top, inner, glyphs), row.style),
                (" " + fit(row.text, right, "right", glyphs.ellipsis), "dim"),
            ],
            width,
            glyphs.ellipsis,
        )
        for row in rows
    ]


def _lane_widths(labels: Sequence[str], texts: Sequence[str], width: int) -> tuple[int, int, int]:
    """Return the widths of labels, texts and what is drawn between them."""
    left = min(max((cells(harmless(label)) for label in labels), default=0), width // 3)
    right = min(max((cells(harmless(text)) for text in texts), default=0), width // 4)
    return left, right, max(width - left - right - 2, 1)


def _ruled_line(marks: Sequence[tuple[float, Mark]], span: Range, width: int, glyphs: Glyphs) -> Line:
    """Return ``width`` single cells, empty but for vertical ``marks`` at their positions."""
    line: Line = [(" ", "")] * width
    for at, mark in marks:
        if span[0] <= at <= span[1]:
            line[place(at, span, width)] = (glyphs.vertical, mark.style)
    return line


def _labelled(label: str, line: Line, text: str, left: int, right: int, width: int, glyphs: Glyphs) -> Line:
    """Return ``line`` between its label and its text."""
    front = (fit(label, left, ellipsis=glyphs.ellipsis) + " ", "")
    back = (" " + fit(text, right, "right", glyphs.ellipsis), "dim")
    return fit_line([front, *line, back], width)


def _axis(
    values: Sequence[float], texts: Sequence[str], span: Range, left: int, inner: int, width: int, glyphs: Glyphs
) -> list[Line]:
    """Return the two lines of an axis of ``inner`` cells behind labels of ``left`` cells."""
    front = " " * (left + 1)
    return [
        fit_line([(front + glyphs.line * inner, "dim")], width, glyphs.ellipsis),
        fit_line([(front + bottom_labels(values, texts, span, inner), "dim")], width, glyphs.ellipsis),
    ]


@dataclass(frozen=True)
class Span:
    """A piece of a lane from ``start`` to ``end`` (None: still going on); ``sign`` is its character (one cell)."""

    start: float
    end: float | None
    style: str = "bar"
    sign: str = ""
    label: str = ""


@dataclass(frozen=True)
class Lane:
    """One line of a Gantt chart or waterfall: label, pieces in drawing order, text behind."""

    label: str
    spans: Sequence[Span]
    text: str = ""


def lanes(
    rows: Sequence[Lane],
    width: int,
    glyphs: Glyphs,
    *,
    span: Range | None = None,
    kind: Kind = "time_ms",
    marks: Sequence[Mark] = (),
    axis: bool = True,
) -> list[Line]:
    """Draw pieces of time below each other on one axis: Gantt charts (many pieces per lane) and waterfalls (one each).

    A piece shorter than a cell still shows. Open pieces reach the right edge and end in an arrow. Pieces are drawn in their
    sign, so that they differ without colour. The last two lines are the axis.
    """
    if width <= 0:
        return []
    left, right, inner = _lane_widths([row.label for row in rows], [row.text for row in rows], width)
    if span is None:
        starts = [piece.start for row in rows for piece in row.spans]
        ends = [piece.end for row in rows for piece in row.spans if piece.end is not None]
        span = span_of([*starts, *ends]) or (0.0, 1.0)
    if span[1] <= span[0]:
        span = (span[0], span[0] + 1.0)
    blank = _ruled_line([(mark.at, mark) for mark in marks], span, inner, glyphs)
    out: list[Line] = []
    for row in rows:
        line = list(blank)
        for piece in row.spans:
            _draw_piece(line, piece, span, glyphs)
        out.append(_labelled(row.label, line, row.text, left, right, width, glyphs))
    if axis:
        values = ticks(span, max(inner // 12, 1), kind)
        out += _axis(values, tick_texts(values, kind, 8), span, left, inner, width, glyphs)
    return out


def _draw_piece(line: Line, piece: Span, span: Range, glyphs: Glyphs) -> None:
    """Draw a piece of time into single cells, its label in it where that fits."""
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
    label = harmless(piece.label)
    if label and cells(label) == len(label) and len(label) <= last - first - 1:
        for offset, character in enumerate(label):
            line[first + 1 + offset] = (character, piece.style)
