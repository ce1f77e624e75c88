"""Draw both samples of a metric in one line: the upper half of each cell is the left sample, the lower the right one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tui.glyphs import Glyphs
from tui.widgets.drawing.axes import place
from tui.widgets.drawing.fragments import Fragment, Line, join
from tui.widgets.table.window import Cell

if TYPE_CHECKING:
    from engine.run_comparison.result.detail import Detail

UNICODE = {
    (0, 0): " ", (1, 0): "▘", (0, 1): "▖", (1, 1): "▌",
    (2, 0): "▀", (0, 2): "▄", (2, 1): "▛", (1, 2): "▙", (2, 2): "█",
}  # fmt: skip
"""Characters by what a cell holds of the left and the right sample: 0 nothing, 1 values, 2 the median."""
ASCII = {
    (0, 0): " ", (1, 0): "'", (0, 1): ".", (1, 1): ":",
    (2, 0): "^", (0, 2): "v", (2, 1): "^", (1, 2): "v", (2, 2): "#",
}  # fmt: skip


def legend(glyphs: Glyphs) -> str:
    """Say what the characters of a strip mean."""
    table = ASCII if glyphs.ascii else UNICODE
    return f"left above {table[1, 0]} (median {table[2, 0]}), right below {table[0, 1]} (median {table[0, 2]}), lowest to highest"


def strip(left: Sequence[float], right: Sequence[float], width: int, glyphs: Glyphs) -> Line:
    """Draw a strip of exactly ``width`` cells over the common range; an empty sample leaves its half empty."""
    values = [*left, *right]
    if not values or width <= 0:
        return [(" " * max(width, 0), "")]
    low, high = min(values), max(values)
    if low == high:
        low, high = low - 1.0, high + 1.0
    cells = [[0, 0] for _ in range(width)]
    for half, sample in enumerate((left, right)):
        ordered = sorted(sample)
        for value in ordered:
            at = cells[place(value, (low, high), width)]
            at[half] = max(at[half], 1)
        if ordered:
            cells[place(ordered[(len(ordered) - 1) // 2], (low, high), width)][half] = 2
    table = ASCII if glyphs.ascii else UNICODE
    line: Line = []
    for one, two in cells:
        style = "mark" if one and two else "bar" if one else "bar2" if two else "dim"
        line.append((table[one, two] if one or two else glyphs.gap, style))
    return join(line)


class SampleStrips:
    """Cells of the column of samples. Another threshold leaves the samples, and their strips, as they are."""

    def __init__(self) -> None:
        self._detail: Detail | None = None
        self._drawn: dict[tuple[Any, ...], Sequence[Fragment]] = {}

    def show(self, detail: Detail) -> None:
        """Draw the samples of ``detail`` from now on."""
        if self._detail is None or self._detail.samples is not detail.samples:
            self._drawn = {}
        self._detail = detail

    def cell(self, cell: Cell) -> Sequence[Fragment]:
        """Return the strip of a row."""
        if self._detail is None:
            return [("", "")]
        key = cell.row["row"], cell.width, id(cell.glyphs)
        if key not in self._drawn:
            left, right = self._detail.sample(cell.row["row"])
            self._drawn[key] = strip(left.tolist(), right.tolist(), cell.width, cell.glyphs)
        return self._drawn[key]
