"""A raster of dots finer than terminal cells, and series drawn on it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tui.glyphs import Glyphs
from tui.widgets.drawing.axes import Range, place
from tui.widgets.drawing.fragments import Line, cells, harmless, join

Numbers = Sequence[Any]
"""Numbers in any sequence: list, NumPy array, Polars series. None, NaN and infinities are gaps."""


def finite(value: Any) -> float | None:
    """Return ``value`` as a finite float, else None."""
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


@dataclass(frozen=True)
class Series:
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
    """Dots: 2x4 per cell in braille, 2x2 in blocks, 1x2 in ASCII; a cell has one style, that of its last dot."""

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
        bit = _BRAILLE[sub_x][sub_y] if self.glyphs.dots else 1 << (sub_x * self.fine_y + sub_y)
        self._bits[row][column] |= bit
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


@dataclass(slots=True)
class _Column:
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
                _draw_points(raster, series, column, y_span)
            else:
                _draw_line(raster, series, before, column, y_span)
        before = column


def _draw_points(raster: Raster, series: Series, values: _Column, y_span: Range) -> None:
    """Draw the extremes of a column as dots, and its first value in the shape of the series."""
    if series.shape:
        row = raster.height - 1 - place(values.first, y_span, raster.rows) // raster.fine_y
        raster.put(values.column // raster.fine_x, row, series.shape, series.style)
    for value in (values.low, values.high):
        raster.dot(values.column, place(value, y_span, raster.rows), series.style)


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
