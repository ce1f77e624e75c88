"""Plots as text: pure functions from numbers to lines of fragments, for three sets of glyphs, and a thin widget.

Every function gives exactly ``height`` lines of exactly ``width`` cells. Values that are missing or not finite are gaps.
Long series are thinned so that each column keeps its smallest and largest value. Plots never depend on colour alone: a
second series is dashed, points of groups differ in shape, marks have labels.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tui.glyphs import Glyphs
from tui.widgets.drawing.axes import Range, bottom_labels, place, span_of, sticky, tick_texts, ticks
from tui.widgets.drawing.canvas import Canvas
from tui.widgets.drawing.fragments import Line, cells, cut, fit, fit_line, harmless, join

if TYPE_CHECKING:
    from engine.tables import Kind

Numbers = Sequence[Any]
"""Numbers in any sequence: list, NumPy array, Polars series. None, NaN and infinities are gaps."""


def finite(value: Any) -> float | None:
    """``value`` as a finite float, else None."""
    if value is None:
        return None
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def thin(values: Numbers, columns: int) -> list[float | None]:
    """``values`` in at most ``columns`` points; of each bucket the value farthest from the whole's mean is kept, so that
    peaks and dips survive. Missing values stay gaps where a bucket has nothing else."""
    numbers = [finite(value) for value in values]
    if len(numbers) <= columns or columns <= 0:
        return numbers
    known = [number for number in numbers if number is not None]
    middle = math.fsum(number / len(known) for number in known) if known else 0.0
    out: list[float | None] = []
    for index in range(columns):
        start, stop = index * len(numbers) // columns, (index + 1) * len(numbers) // columns
        bucket = [number for number in numbers[start:stop] if number is not None]
        out.append(max(bucket, key=lambda number: abs(number - middle)) if bucket else None)
    return out


def spark(values: Numbers, width: int, glyphs: Glyphs, low: float | None = None, high: float | None = None) -> str:
    """One line of vertical bars, oldest left; missing values are gaps; a constant series is a low line."""
    numbers = thin(values, width)
    known = [number for number in numbers if number is not None]
    if not known:
        return glyphs.gap * min(len(numbers), max(width, 0))
    floor = min(known) if low is None else low
    top = max(known) if high is None else high
    steps = len(glyphs.levels) - 2
    span = top - floor
    out = []
    for number in numbers[: max(width, 0)]:
        if number is None:
            out.append(" ")
        elif span <= 0 or not math.isfinite(span):
            out.append(glyphs.levels[1])
        else:
            share = (min(max(number, floor), top) - floor) / span
            out.append(glyphs.levels[1 + min(int(share * (steps + 1)), steps)])
    return "".join(out)


@dataclass(frozen=True)
class Series:
    """One series: ``x`` ascending and ``y`` of equal length, its ``name`` for the legend, its style. ``low`` and ``high``
    draw a band; ``step`` holds each value until the next; ``dashed`` tells it from another; ``points`` draws no line."""

    x: Numbers
    y: Numbers
    name: str = ""
    style: str = "bar"
    low: Numbers | None = None
    high: Numbers | None = None
    step: bool = False
    dashed: bool = False
    points: bool = False
    shape: str = ""


@dataclass(frozen=True)
class Mark:
    """A line across the plot at ``at`` (vertical in ``marks``, horizontal in ``rules``) with a label."""

    at: float
    label: str = ""
    style: str = "mark"


_BRAILLE = ((0x01, 0x02, 0x04, 0x40), (0x08, 0x10, 0x20, 0x80))
_QUADRANTS = " ▘▖▌▝▀▞▛▗▚▄▙▐▜▟█"  # bits: upper left 1, lower left 2, upper right 4, lower right 8
_ASCII = " '.:"  # bits: upper 1, lower 2


class Raster:
    """Dots finer than cells: 2x4 per cell in braille, 2x2 in blocks, 1x2 in ASCII; one style per cell, the last drawn."""

    def __init__(self, width: int, height: int, glyphs: Glyphs) -> None:
        self.width, self.height, self.glyphs = max(width, 0), max(height, 0), glyphs
        self.fine_x, self.fine_y = (2, 4) if glyphs.dots else (1, 2) if glyphs.ascii else (2, 2)
        self.columns, self.rows = self.width * self.fine_x, self.height * self.fine_y
        self._bits = [[0] * self.width for _ in range(self.height)]
        self._styles = [[""] * self.width for _ in range(self.height)]
        self._texts: dict[tuple[int, int], str] = {}

    def dot(self, x: int, y: int, style: str) -> None:
        """Set a dot; (0, 0) is the lower left. Outside nothing happens."""
        if not (0 <= x < self.columns and 0 <= y < self.rows):
            return
        column, sub_x = divmod(x, self.fine_x)
        row, sub_y = divmod(self.rows - 1 - y, self.fine_y)
        bit = _BRAILLE[sub_x][sub_y] if self.glyphs.dots else 1 << (sub_x * self.fine_y + sub_y)
        self._bits[row][column] |= bit
        self._styles[row][column] = style

    def put(self, column: int, row: int, text: str, style: str) -> None:
        """Write one character into a cell (row 0 at the top), over dots."""
        if 0 <= column < self.width and 0 <= row < self.height:
            self._texts[column, row] = text
            self._styles[row][column] = style

    def empty(self, column: int, row: int) -> bool:
        """Whether nothing is drawn in a cell."""
        return not self._bits[row][column] and (column, row) not in self._texts

    def segment(self, x0: int, y0: int, x1: int, y1: int, style: str, dashed: bool = False) -> None:
        """A line between two dots."""
        steps = max(abs(x1 - x0), abs(y1 - y0), 1)
        for index in range(steps + 1):
            x = round(x0 + (x1 - x0) * index / steps)
            y = round(y0 + (y1 - y0) * index / steps)
            if not dashed or (x + y) // max(self.fine_x, 2) % 2 == 0:
                self.dot(x, y, style)

    def lines(self) -> list[Line]:
        """The cells as lines."""
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


def _columns(series: Series, x_span: Range, columns: int) -> list[tuple[int, float, float, float, float] | None]:
    """Per fine column the first, smallest, largest and last value in it; None between two columns is a gap."""
    out: list[tuple[int, float, float, float, float] | None] = []
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
        if last is not None and last[0] == column:
            out[-1] = (column, last[1], min(last[2], y), max(last[3], y), y)
        else:
            out.append((column, y, y, y, y))
    return out


def _draw(raster: Raster, series: Series, x_span: Range, y_span: Range) -> None:
    def row(value: float) -> int:
        return place(value, y_span, raster.rows)

    if series.low is not None and series.high is not None:
        for raw_x, raw_low, raw_high in zip(series.x, series.low, series.high, strict=False):
            x, low, high = finite(raw_x), finite(raw_low), finite(raw_high)
            if x is None or low is None or high is None or not x_span[0] <= x <= x_span[1]:
                continue
            column = place(x, x_span, raster.columns)
            for y in range(row(min(low, high)), row(max(low, high)) + 1):
                if (column + y) % 2 == 0 or raster.glyphs.ascii:
                    raster.dot(column, y, "dim")
    found = _columns(series, x_span, raster.columns)
    before: tuple[int, float, float, float, float] | None = None
    for point in found:
        if point is None:
            before = None
            continue
        column, first, low, high, _last = point
        if series.points:
            if series.shape:
                raster.put(
                    column // raster.fine_x, raster.height - 1 - row(first) // raster.fine_y, series.shape, series.style
                )
            raster.dot(column, row(low), series.style)
            raster.dot(column, row(high), series.style)
            continue
        if low != high:
            raster.segment(column, row(low), column, row(high), series.style)
        if before is None:
            raster.dot(column, row(first), series.style)
        elif series.step:
            raster.segment(before[0], row(before[4]), column, row(before[4]), series.style, series.dashed)
            raster.segment(column, row(before[4]), column, row(first), series.style)
        else:
            raster.segment(before[0], row(before[4]), column, row(first), series.style, series.dashed)
        before = point


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
    legend: bool = True,
) -> list[Line]:
    """Lines, steps, bands and points over round axes.

    ``x_span``/``y_span`` fix the ranges (else they fit the data; with ``zero`` the y axis begins at 0); ``marks`` are
    vertical, ``rules`` horizontal lines. Named series give a legend line at the top. Small areas lose the axes first.
    """
    if width <= 0 or height <= 0:
        return []
    names = [one for one in series if one.name]
    head: list[Line] = []
    if legend and names and height >= 5:
        line: Line = []
        for one in names:
            sign = one.shape or (glyphs.point if one.points else "- -" if one.dashed else glyphs.line * 3)
            line += [(f"{sign} ", one.style), (f"{harmless(one.name)}  ", "")]
        head.append(fit_line(line, width, glyphs.ellipsis))
    found = [
        value
        for one in series
        for source in (one.y, one.low, one.high)
        if source is not None
        for value in map(finite, source)
        if value is not None
    ]
    reach = span_of([*found, *(mark.at for mark in rules)])
    xs = span_of([value for one in series for value in map(finite, one.x) if value is not None])
    if (reach is None and y_span is None) or (xs is None and x_span is None):
        empty = [fit_line([("no data", "dim")], width, glyphs.ellipsis)] if height else []
        return [*head, *empty, *([fit_line([], width, glyphs.ellipsis)] * (height - len(head) - len(empty)))][:height]
    if y_span is None:
        assert reach is not None
        y_span = sticky(None, reach[0], reach[1], y_kind, zero)
    if x_span is None:
        assert xs is not None
        x_span = xs if xs[1] > xs[0] else (xs[0] - 0.5, xs[0] + 0.5)
    body = height - len(head)
    axis = 2 if body >= 4 else 0
    rows = body - axis
    y_ticks = ticks(y_span, max(min(rows // 2 + 1, 6), 1), y_kind)
    y_texts = tick_texts(y_ticks, y_kind, 9)
    left = min(max((cells(text) for text in y_texts), default=0), max(width // 3, 0)) + 1
    if width - left < 8:
        left = 0
    inner = width - left
    raster = Raster(inner, rows, glyphs)
    for rule in rules:
        y = place(rule.at, y_span, raster.rows)
        if y_span[0] <= rule.at <= y_span[1]:
            for x in range(0, raster.columns, 2 * raster.fine_x):
                raster.dot(x, y, rule.style)
    for mark in marks:
        if x_span[0] <= mark.at <= x_span[1]:
            x = place(mark.at, x_span, raster.columns)
            for y in range(raster.rows):
                raster.dot(x, y, mark.style)
    for one in series:
        _draw(raster, one, x_span, y_span)
    for number, mark in enumerate(marks):
        if mark.label and x_span[0] <= mark.at <= x_span[1]:
            _write(raster, place(mark.at, x_span, inner) + 1, min(number, rows - 1), mark.label, mark.style)
    for rule in rules:
        if rule.label and y_span[0] <= rule.at <= y_span[1]:
            row = rows - 1 - place(rule.at, y_span, raster.rows) // raster.fine_y
            _write(raster, inner - cells(harmless(rule.label)), row, rule.label, rule.style)
    labels = {rows - 1 - place(value, y_span, rows): text for value, text in zip(y_ticks, y_texts, strict=True)}
    out = list(head)
    for index, line in enumerate(raster.lines()):
        front: Line = []
        if left:
            front = [(fit(labels.get(index, ""), left - 1, "right", glyphs.ellipsis), "dim"), (glyphs.vertical, "dim")]
        out.append(fit_line([*front, *line], width, glyphs.ellipsis))
    if axis:
        x_ticks = ticks(x_span, max(inner // 12, 1), x_kind)
        texts = tick_texts(x_ticks, x_kind, 11)
        edge = (" " * (left - 1) + glyphs.corner) if left else ""
        out.append(fit_line([(edge + glyphs.line * inner, "dim")], width, glyphs.ellipsis))
        out.append(
            fit_line([(" " * left + bottom_labels(x_ticks, texts, x_span, inner), "dim")], width, glyphs.ellipsis)
        )
    return out[:height]


def _write(raster: Raster, column: int, row: int, text: str, style: str) -> None:
    text = harmless(text)
    column = max(min(column, raster.width - len(text)), 0)
    if cells(text) != len(text):
        return  # wide characters would shift the plot
    for offset, character in enumerate(text):
        raster.put(column + offset, row, character, style)


def histogram(
    edges: Numbers,
    counts: Numbers,
    width: int,
    height: int,
    glyphs: Glyphs,
    *,
    kind: Kind = "number",
    marks: Sequence[Mark] = (),
    style: str = "bar",
    other: Numbers | None = None,
    other_style: str = "bar2",
) -> list[Line]:
    """Columns of ``counts`` between ``edges`` (one more than counts), drawn in eighths of a cell. ``other``: counts of a
    second sample over the same edges, drawn as points at their height."""
    if width <= 0 or height <= 0:
        return []
    bounds = [finite(edge) for edge in edges]
    values = [finite(count) or 0.0 for count in counts]
    second = [finite(count) or 0.0 for count in other] if other is not None else []
    known = [edge for edge in bounds if edge is not None]
    top = max([*values, *second], default=0.0)
    if len(known) < 2 or top <= 0 or known[-1] <= known[0]:
        return [fit_line([("no data", "dim")] if index == 0 else [], width, glyphs.ellipsis) for index in range(height)]
    axis = 2 if height >= 4 else 0
    rows = height - axis
    label = cut(tick_texts([top], "count", 8)[0], max(width // 3, 1), glyphs.ellipsis)
    left = cells(label) + 1 if width - cells(label) - 1 >= 8 else 0
    inner = width - left
    span = (known[0], known[-1])
    sums, points = [0.0] * inner, [0.0] * inner
    for column in range(inner):
        at = span[0] + (span[1] - span[0]) * (column + 0.5) / inner
        index = min(max(sum(1 for edge in known[1:-1] if edge <= at), 0), len(values) - 1)
        sums[column] = values[index]
        if second:
            points[column] = second[min(index, len(second) - 1)]
    marked = {place(mark.at, span, inner): mark for mark in marks if span[0] <= mark.at <= span[1]}
    eighths = len(glyphs.levels) - 1
    grid: list[list[tuple[str, str]]] = []
    for row in range(rows):
        cells_: list[tuple[str, str]] = []
        floor = rows - 1 - row
        for column in range(inner):
            level = sums[column] / top * rows - floor
            glyph = glyphs.levels[min(max(math.ceil(level * eighths - 1e-9), 0), eighths)] if level > 0 else " "
            fragment = (glyph, style if glyph != " " else "")
            if second and points[column] > 0 and place(points[column], (0.0, top), rows) == floor:
                fragment = (glyphs.point, other_style)
            if column in marked and fragment[0] == " ":
                fragment = (glyphs.vertical, marked[column].style)
            cells_.append(fragment)
        grid.append(cells_)
    for number, (column, mark) in enumerate(sorted(marked.items())):
        text = harmless(mark.label)
        if text and cells(text) == len(text) and len(text) < inner:
            start = min(column + 1, inner - len(text))
            for offset, character in enumerate(text):
                grid[min(number, rows - 1)][start + offset] = (character, mark.style)
    out: list[Line] = []
    for row, line in enumerate(grid):
        front: Line = []
        if left:
            front = [(fit(label if row == 0 else "", left - 1, "right"), "dim"), (glyphs.vertical, "dim")]
        out.append(fit_line([*front, *line], width, glyphs.ellipsis))
    if axis:
        values_ = ticks(span, max(inner // 12, 1), kind)
        edge = (" " * (left - 1) + glyphs.corner) if left else ""
        out.append(fit_line([(edge + glyphs.line * inner, "dim")], width, glyphs.ellipsis))
        out.append(
            fit_line(
                [(" " * left + bottom_labels(values_, tick_texts(values_, kind, 11), span, inner), "dim")],
                width,
                glyphs.ellipsis,
            )
        )
    return out[:height]


def ecdf(
    samples: Sequence[tuple[str, Numbers, str]],
    width: int,
    height: int,
    glyphs: Glyphs,
    *,
    kind: Kind = "number",
    marks: Sequence[Mark] = (),
) -> list[Line]:
    """Empirical distribution functions of samples (name, values, style): the share of values up to x, as steps."""
    series = []
    for index, (name, values, style) in enumerate(samples):
        known = sorted(value for value in map(finite, values) if value is not None)
        if len(known) > 4 * max(width, 1):  # quantiles are enough: no column sees the difference
            most = 4 * width
            xs = [known[int(i * (len(known) - 1) / (most - 1))] for i in range(most)]
            ys = [100 * (i + 1) / most for i in range(most)]
        else:
            xs, ys = known, [100 * (i + 1) / len(known) for i in range(len(known))]
        if xs:
            xs, ys = [xs[0], *xs], [0.0, *ys]
        series.append(Series(xs, ys, name, style, step=True, dashed=index % 2 == 1))
    return plot(series, width, height, glyphs, x_kind=kind, y_kind="percent", y_span=(0.0, 100.0), marks=marks)


class PlotView(Canvas):
    """A plot on screen: give it a function of width, height and glyphs; it is drawn anew when shown or resized.

    ``show(lambda width, height, glyphs: plot([...], width, height, glyphs))``
    """

    DEFAULT_CSS = "PlotView { height: 10; width: 1fr; }"

    def __init__(
        self,
        draw: Callable[[int, int, Glyphs], list[Line]] | None = None,
        *,
        id: str | None = None,
        classes: str | None = None,
    ) -> None:
        super().__init__(id=id, classes=classes)
        self._draw = draw

    def show(self, draw: Callable[[int, int, Glyphs], list[Line]] | None) -> None:
        """Show another plot; only differing cells are sent."""
        self._draw = draw
        self.repaint()

    def paint(self, width: int, height: int) -> list[Line]:
        """The plot."""
        return self._draw(width, height, self.glyphs) if self._draw is not None else []
