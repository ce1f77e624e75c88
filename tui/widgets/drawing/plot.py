"""Plots as text: a raster of dots finer than cells, pure functions from numbers to lines of fragments, and a thin widget.

Every function gives exactly ``height`` lines of exactly ``width`` cells. Values that are missing or not finite are gaps.
Long series are thinned so that each column keeps its smallest and largest value. Plots never depend on colour alone: a
second series is dashed, points of groups differ in shape, marks have labels.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from engine.core.units import finite
from tui.glyphs import Glyphs
from tui.widgets.drawing.axes import Range, bottom_axis, place, round_range, span_of, tick_texts, ticks
from tui.widgets.drawing.canvas import Canvas
from tui.widgets.drawing.fragments import Line, cells, cut, fit, fit_line, harmless, join

if TYPE_CHECKING:
    from engine.core.tables import Kind

Numbers = Sequence[Any]  # numbers in any sequence: list, NumPy array, Polars series. None, NaN and infinities are gaps.


class Series(msgspec.Struct, frozen=True):
    """A series: ``x`` ascending and ``y`` of equal length, its ``name`` for the legend, its style.

    ``step`` holds each value until the next; ``dashed`` distinguishes it from another; ``points`` draws no line but points,
    in ``shape`` if that is given.
    """

    x: Numbers
    y: Numbers
    name: str = ""
    style: str = "bar"
    step: bool = False
    dashed: bool = False
    points: bool = False
    shape: str = ""


class Mark(msgspec.Struct, frozen=True):
    """A line across the plot at ``at`` (vertical in ``marks``, horizontal in ``rules``) with a label."""

    at: float
    label: str = ""
    style: str = "mark"


_BRAILLE = ((0x01, 0x02, 0x04, 0x40), (0x08, 0x10, 0x20, 0x80))
_QUADRANTS = " ▘▖▌▝▀▞▛▗▚▄▙▐▜▟█"  # bits: upper left 1, lower left 2, upper right 4, lower right 8
_ASCII = " '.:"  # bits: upper 1, lower 2


class Raster:
    """Dots: 2x4 per cell in braille, 2x2 in blocks, 1x2 in ASCII. A cell takes the style of its last dot."""

    def __init__(self, width: int, height: int, glyphs: Glyphs) -> None:
        self.width, self.height, self.glyphs = max(width, 0), max(height, 0), glyphs
        self.fine_x, self.fine_y = (2, 4) if glyphs.dots else (1, 2) if glyphs.ascii else (2, 2)
        self.columns, self.rows = self.width * self.fine_x, self.height * self.fine_y
        self._bits = [[0] * self.width for _ in range(self.height)]
        self._styles = [[""] * self.width for _ in range(self.height)]
        self._texts: dict[tuple[int, int], str] = {}

    def dot(self, x: int, y: int, style: str) -> None:
        """Set a dot; (0, 0) is the lower left. Dots outside are left out."""
        if not (0 <= x < self.columns and 0 <= y < self.rows):
            return
        column, sub_x = divmod(x, self.fine_x)
        row, sub_y = divmod(self.rows - 1 - y, self.fine_y)
        self._bits[row][column] |= _BRAILLE[sub_x][sub_y] if self.glyphs.dots else 1 << (sub_x * self.fine_y + sub_y)
        self._styles[row][column] = style

    def put(self, column: int, row: int, text: str, style: str) -> None:
        """Write one character into a cell (row 0 at the top), over dots."""
        if 0 <= column < self.width and 0 <= row < self.height:
            self._texts[column, row] = text
            self._styles[row][column] = style

    def write(self, column: int, row: int, text: str, style: str) -> None:
        """Write a text into cells from ``column`` on, moved to the left until it fits; wide characters are left out."""
        text = harmless(text)
        column = max(min(column, self.width - len(text)), 0)
        if cells(text) == len(text):
            for offset, character in enumerate(text):
                self.put(column + offset, row, character, style)

    def segment(self, x0: int, y0: int, x1: int, y1: int, style: str, dashed: bool = False) -> None:
        """Draw a line between two dots."""
        steps = max(abs(x1 - x0), abs(y1 - y0), 1)
        for index in range(steps + 1):
            x = round(x0 + (x1 - x0) * index / steps)
            y = round(y0 + (y1 - y0) * index / steps)
            if not dashed or (x + y) // max(self.fine_x, 2) % 2 == 0:
                self.dot(x, y, style)

    def lines(self) -> list[Line]:
        """Return the cells as lines."""
        out: list[Line] = []
        for row in range(self.height):
            line: Line = []
            for column in range(self.width):
                text = self._texts.get((column, row))
                if text is None:
                    bits = self._bits[row][column]
                    if not bits:
                        line.append((" ", ""))
                        continue
                    text = (
                        chr(0x2800 + bits) if self.glyphs.dots else (_ASCII if self.glyphs.ascii else _QUADRANTS)[bits]
                    )
                line.append((text, self._styles[row][column]))
            out.append(join(line))
        return out


class _Column(msgspec.Struct):
    """The values of a series in one column of dots."""

    column: int
    first: float
    low: float
    high: float
    last: float


def _columns(series: Series, x_span: Range, columns: int) -> list[_Column | None]:
    """Return the values of ``series`` by column of dots; None between two columns is a gap."""
    out: list[_Column | None] = []
    for raw_x, raw_y in zip(series.x, series.y, strict=False):
        x, y = finite(raw_x), finite(raw_y)
        if x is None or y is None:
            if out and out[-1] is not None:
                out.append(None)
            continue
        if not x_span[0] <= x <= x_span[1]:
            continue
        column = place(x, x_span, columns)
        last = out[-1] if out else None
        if last is not None and last.column == column:
            last.low, last.high, last.last = min(last.low, y), max(last.high, y), y
        else:
            out.append(_Column(column, y, y, y, y))
    return out


def draw_series(raster: Raster, series: Series, x_span: Range, y_span: Range) -> None:
    """Draw the points or the line of a series."""
    before: _Column | None = None
    for column in _columns(series, x_span, raster.columns):
        if column is not None:
            if series.points:
                if series.shape:
                    row = raster.height - 1 - place(column.first, y_span, raster.rows) // raster.fine_y
                    raster.put(column.column // raster.fine_x, row, series.shape, series.style)
                for value in (column.low, column.high):
                    raster.dot(column.column, place(value, y_span, raster.rows), series.style)
            else:
                _draw_line(raster, series, before, column, y_span)
        before = column


def _draw_line(raster: Raster, series: Series, before: _Column | None, values: _Column, y_span: Range) -> None:
    def row(value: float) -> int:
        return place(value, y_span, raster.rows)

    column, first = values.column, row(values.first)
    if values.low != values.high:
        raster.segment(column, row(values.low), column, row(values.high), series.style)
    if before is None:
        raster.dot(column, first, series.style)
    elif series.step:
        raster.segment(before.column, row(before.last), column, row(before.last), series.style, series.dashed)
        raster.segment(column, row(before.last), column, first, series.style)
    else:
        raster.segment(before.column, row(before.last), column, first, series.style, series.dashed)


Draw = Callable[[int, int, Glyphs], list[Line]]  # draws a plot in a width and a height


def thin(values: Numbers, columns: int) -> list[float | None]:
    """Thin ``values`` to at most ``columns`` points: of each bucket the value farthest from the mean of all.

    So peaks and dips survive. A bucket without values is None.
    """
    numbers = [finite(value) for value in values]
    if len(numbers) <= columns or columns <= 0:
        return numbers
    present = [number for number in numbers if number is not None]
    middle = math.fsum(number / len(present) for number in present) if present else 0.0
    out: list[float | None] = []
    for index in range(columns):
        start, stop = index * len(numbers) // columns, (index + 1) * len(numbers) // columns
        bucket = [number for number in numbers[start:stop] if number is not None]
        out.append(max(bucket, key=lambda number: abs(number - middle)) if bucket else None)
    return out


def spark(values: Numbers, width: int, glyphs: Glyphs, low: float | None = None, high: float | None = None) -> str:
    """Draw one line of vertical bars, oldest left; missing values are gaps; a constant series is a low line."""
    numbers = thin(values, width)
    present = [number for number in numbers if number is not None]
    if not present:
        return glyphs.gap * min(len(numbers), max(width, 0))
    floor = min(present) if low is None else low
    top = max(present) if high is None else high
    steps = len(glyphs.levels) - 2
    span = top - floor
    out = []
    for number in numbers[: max(width, 0)]:
        if number is None:
            out.append(" ")
        elif span <= 0 or not math.isfinite(span):
            out.append(glyphs.levels[1])
        else:
            out.append(glyphs.levels[1 + min(int((min(max(number, floor), top) - floor) / span * (steps + 1)), steps)])
    return "".join(out)


def plot(
    series: Sequence[Series],
    width: int,
    height: int,
    glyphs: Glyphs,
    *,
    x_kind: Kind = "number",
    y_kind: Kind = "number",
    x_span: Range | None = None,
    y_span: Range | None = None,
    marks: Sequence[Mark] = (),
    rules: Sequence[Mark] = (),
    zero: bool = True,
) -> list[Line]:
    """Draw lines, steps and points over round axes.

    ``x_span``/``y_span`` fix the ranges (else they fit the data; with ``zero`` the y axis begins at 0); ``marks`` are
    vertical, ``rules`` horizontal lines. Named series give a legend line at the top. Small areas lose the axes first.
    """
    if width <= 0 or height <= 0:
        return []
    head = _legend(series, width, glyphs) if height >= 5 else []
    if x_span is None:
        x_span = span_of([value for each in series for value in map(finite, each.x) if value is not None])
        if x_span is not None and x_span[1] <= x_span[0]:
            x_span = (x_span[0] - 0.5, x_span[0] + 0.5)
    if y_span is None:
        values = [value for each in series for value in map(finite, each.y) if value is not None]
        span = span_of([*values, *(rule.at for rule in rules)])
        y_span = None if span is None else round_range(span[0], span[1], y_kind, zero)
    if x_span is None or y_span is None:
        empty = [fit_line([("no data", "dim")], width, glyphs.ellipsis)]
        return [*head, *empty, *([fit_line([], width, glyphs.ellipsis)] * (height - len(head) - 1))][:height]
    body = height - len(head)
    axis = 2 if body >= 4 else 0
    rows = body - axis
    y_ticks = ticks(y_span, max(min(rows // 2 + 1, 6), 1), y_kind)
    y_texts = tick_texts(y_ticks, y_kind, 9)
    left = min(max((cells(text) for text in y_texts), default=0), max(width // 3, 0)) + 1
    if width - left < 8:
        left = 0
    raster = Raster(width - left, rows, glyphs)
    _draw_marks(raster, marks, rules, x_span, y_span)
    for each in series:
        draw_series(raster, each, x_span, y_span)
    for number, mark in enumerate(marks):
        if mark.label and x_span[0] <= mark.at <= x_span[1]:
            column = place(mark.at, x_span, raster.width) + 1
            raster.write(column, min(number, raster.height - 1), mark.label, mark.style)
    labels = {rows - 1 - place(value, y_span, rows): text for value, text in zip(y_ticks, y_texts, strict=True)}
    out = head + _with_left_axis(raster.lines(), labels, left, width, glyphs)
    if axis:
        out += bottom_axis(x_span, x_kind, _corner(left, glyphs), width - left, glyphs, 11)
    return out[:height]


def _legend(series: Sequence[Series], width: int, glyphs: Glyphs) -> list[Line]:
    """Return one line with the names of the series and how each is drawn; none without names."""
    line: Line = []
    for each in series:
        if each.name:
            sign = each.shape or (glyphs.point if each.points else "- -" if each.dashed else glyphs.line * 3)
            line += [(f"{sign} ", each.style), (f"{harmless(each.name)}  ", "")]
    return [fit_line(line, width, glyphs.ellipsis)] if line else []


def _draw_marks(raster: Raster, marks: Sequence[Mark], rules: Sequence[Mark], x_span: Range, y_span: Range) -> None:
    """Draw ``rules`` as dotted horizontal and ``marks`` as vertical lines."""
    for rule in rules:
        if y_span[0] <= rule.at <= y_span[1]:
            y = place(rule.at, y_span, raster.rows)
            for x in range(0, raster.columns, 2 * raster.fine_x):
                raster.dot(x, y, rule.style)
    for mark in marks:
        if x_span[0] <= mark.at <= x_span[1]:
            x = place(mark.at, x_span, raster.columns)
            for y in range(raster.rows):
                raster.dot(x, y, mark.style)


def _with_left_axis(
    lines: Sequence[Line], labels: Mapping[int, str], left: int, width: int, glyphs: Glyphs
) -> list[Line]:
    """Return ``lines`` behind an axis of ``left`` cells (0: none) with ``labels`` by line."""
    out: list[Line] = []
    for index, line in enumerate(lines):
        front: Line = []
        if left:
            front = [(fit(labels.get(index, ""), left - 1, "right", glyphs.ellipsis), "dim"), (glyphs.vertical, "dim")]
        out.append(fit_line([*front, *line], width, glyphs.ellipsis))
    return out


def _corner(left: int, glyphs: Glyphs) -> str:
    """Return what stands before a bottom axis under a left one of ``left`` cells (0: none)."""
    return " " * (left - 1) + glyphs.corner if left else ""


def histogram(
    edges: Numbers,
    counts: Numbers,
    width: int,
    height: int,
    glyphs: Glyphs,
    *,
    kind: Kind = "number",
    marks: Sequence[Mark] = (),
    other: Numbers | None = None,
) -> list[Line]:
    """Draw columns of ``counts`` between ``edges`` (one more than counts), in eighths of a cell.

    ``other``: counts of a second sample over the same edges, drawn as points at their height.
    """
    if width <= 0 or height <= 0:
        return []
    bounds = [edge for edge in map(finite, edges) if edge is not None]
    values = [finite(count) or 0.0 for count in counts]
    second = [finite(count) or 0.0 for count in other] if other is not None else []
    top = max([*values, *second], default=0.0)
    if len(bounds) < 2 or top <= 0 or bounds[-1] <= bounds[0]:
        return [fit_line([("no data", "dim")] if index == 0 else [], width, glyphs.ellipsis) for index in range(height)]
    axis = 2 if height >= 4 else 0
    rows = height - axis
    label = cut(tick_texts([top], "count", 8)[0], max(width // 3, 1), glyphs.ellipsis)
    left = cells(label) + 1 if width - cells(label) - 1 >= 8 else 0
    inner = width - left
    span = (bounds[0], bounds[-1])
    middles = (span[0] + (span[1] - span[0]) * (column + 0.5) / inner for column in range(inner))
    columns = [min(sum(1 for edge in bounds[1:-1] if edge <= at), len(values) - 1) for at in middles]
    grid = _bars_upright([values[index] / top * rows for index in columns], rows, glyphs)
    if second:
        for x, index in enumerate(columns):
            count = second[min(index, len(second) - 1)]
            if count > 0:
                grid[rows - 1 - place(count, (0.0, top), rows)][x] = (glyphs.point, "bar2")
    _mark_columns(grid, {place(mark.at, span, inner): mark for mark in marks if span[0] <= mark.at <= span[1]}, glyphs)
    out = _with_left_axis(grid, {0: label}, left, width, glyphs)
    if axis:
        out += bottom_axis(span, kind, _corner(left, glyphs), inner, glyphs, 11)
    return out[:height]


def _bars_upright(levels: Sequence[float], rows: int, glyphs: Glyphs) -> list[Line]:
    """Return upright bars as ``rows`` lines of single cells; ``levels`` in cells from the bottom."""
    eighths = len(glyphs.levels) - 1
    grid: list[Line] = []
    for floor in range(rows - 1, -1, -1):
        line: Line = []
        for level in levels:
            steps = math.ceil((level - floor) * eighths - 1e-9) if level > floor else 0
            glyph = glyphs.levels[min(max(steps, 0), eighths)] if level > floor else " "
            line.append((glyph, "bar" if glyph != " " else ""))
        grid.append(line)
    return grid


def _mark_columns(grid: list[Line], marked: Mapping[int, Mark], glyphs: Glyphs) -> None:
    """Draw marks as vertical lines through empty cells, and their labels right of them, each a line lower."""
    for line in grid:
        for column, mark in marked.items():
            if line[column][0] == " ":
                line[column] = (glyphs.vertical, mark.style)
    for number, (column, mark) in enumerate(sorted(marked.items())):
        text = harmless(mark.label)
        inner = len(grid[0])
        if text and cells(text) == len(text) and len(text) < inner:
            start = min(column + 1, inner - len(text))
            for offset, character in enumerate(text):
                grid[min(number, len(grid) - 1)][start + offset] = (character, mark.style)


def ecdf(
    samples: Sequence[tuple[str, Numbers, str]], width: int, height: int, glyphs: Glyphs, *, kind: Kind = "number"
) -> list[Line]:
    """Draw empirical distribution functions of samples (name, values, style): the share of values up to x, as steps."""
    series = []
    for index, (name, values, style) in enumerate(samples):
        present = sorted(value for value in map(finite, values) if value is not None)
        if len(present) > 4 * max(width, 1):  # quantiles are enough: no column sees the difference
            most = 4 * width
            xs = [present[int(i * (len(present) - 1) / (most - 1))] for i in range(most)]
            ys = [100 * (i + 1) / most for i in range(most)]
        else:
            xs, ys = present, [100 * (i + 1) / len(present) for i in range(len(present))]
        if xs:
            xs, ys = [xs[0], *xs], [0.0, *ys]
        series.append(Series(xs, ys, name, style, step=True, dashed=index % 2 == 1))
    return plot(series, width, height, glyphs, x_kind=kind, y_kind="percent", y_span=(0.0, 100.0))


class PlotView(Canvas):
    """A plot on screen: give it a function of width, height and glyphs; it is drawn again when shown or resized.

    ``show(lambda width, height, glyphs: plot([...], width, height, glyphs))``
    """

    DEFAULT_CSS = "PlotView { height: 10; width: 1fr; }"

    shown: Draw | None = None

    def paint(self, width: int, height: int) -> list[Line]:
        """Return the plot."""
        return self.shown(width, height, self.glyphs) if self.shown is not None else []
