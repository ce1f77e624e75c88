"""The layout of a table: which columns fit the screen, and where, by declared widths, priorities and the longest texts.

Also what is known of filters before Polars is loaded.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING

import msgspec

from engine.core import units

if TYPE_CHECKING:
    from engine.core.tables import Column

WIDTHS: Mapping[str, int] = {
    "text": 14, "id": 14, "count": 9, "number": 9, "bytes": 9, "bytes_per_s": 11, "ms": 8, "s": 8, "time_ms": 14,
    "percent": 7, "ratio": 8, "level": 10, "flag": 4, "json": 20, "spark": 12, "mb_s": 11,
}  # fmt: skip
"""Default width of a column by kind, in cells."""

FLEXIBLE: frozenset[str] = frozenset({"text", "id", "json"})  # kinds of columns that take spare cells

WORD_KINDS: frozenset[str] = FLEXIBLE | {"level"}  # kinds of columns in which a plain word of a filter is searched

FLEX_LIMIT = 48  # width in cells up to which such a column takes spare cells

GAP = 1  # cells between two columns


class FilterError(ValueError):
    """A filter that is not valid; the message says why in a sentence."""


class Slot(msgspec.Struct, frozen=True):
    """A column's place on screen: from cell ``x`` on, ``width`` cells."""

    column: Column
    x: int
    width: int

    @property
    def right(self) -> bool:
        """Return whether values are aligned right."""
        return self.column.kind in units.NUMERIC


class Layout(msgspec.Struct, frozen=True):
    """The columns that fit, in order. ``hidden``: how many did not."""

    slots: tuple[Slot, ...]
    hidden: int


def column_width(column: Column) -> int:
    """Return the smallest width of a column: declared, or what suits its kind, and enough for a short header."""
    return column.width or max(WIDTHS.get(column.kind, 12), min(len(column.header) + 1, 14))


PANEL, WIDEST_PANEL, BEFORE_PANEL = 36, 60, 80
"""Cells of a panel beside a table, at least, and at most while the table wants more; cells of the table that come first."""


def beside(columns: Sequence[Column], width: int, needs: Mapping[str, int]) -> tuple[int, int]:
    """Share ``width`` cells between a table and a panel beside it, so that no column disappears as the width grows.

    Return the cells of the panel (0: too few) and the table's ``room`` (see ``layout``; 0: as wide as it is).
    """
    texts = (min(needs.get(column.name, 0), max(column.grow, FLEX_LIMIT)) for column in columns)
    whole = sum(max(column_width(column), column.grow, text) + GAP for column, text in zip(columns, texts, strict=True))
    kept = min(sum(column_width(column) + GAP for column in columns) - GAP, BEFORE_PANEL)
    left = width - kept - 1
    if left < PANEL:
        return 0, kept
    return max(min(PANEL + (left - PANEL) * 2 // 5, WIDEST_PANEL), width - 1 - whole), 0


def layout(
    columns: Sequence[Column], width: int, offset: int = 0, needs: Mapping[str, int] | None = None, room: int = 0
) -> Layout:
    """Fit ``columns`` into ``width`` cells: the least important (highest ``priority``, then last) hide first.

    ``needs`` says how many cells the longest text of a text column takes: a column is not wider than that unless cells are left,
    and no text is cut while there are any. What texts do not need goes to columns that ``grow``, then to text columns. Which
    columns fit does not depend on values, and no width on numbers, so that nothing jumps as these change.

    ``room``: cells that tell which columns fit, if these are fewer than ``width``.

    ``offset`` > 0 scrolls: the first column stays, ``offset`` columns behind it are skipped, priorities are ignored.
    """
    if not columns:
        return Layout((), 0)
    total = len(columns)
    offset = min(offset, total - 1)
    ranked = [0, *range(1 + offset, total)] if offset else sorted(range(total), key=lambda i: (columns[i].priority, i))
    texts = {name: need for name, need in (needs or {}).items() if need}
    fitting: list[int] = []
    used = 0
    for index in ranked:
        size = column_width(columns[index]) + (GAP if fitting else 0)
        if fitting and used + size > (room or width):
            break  # a column that does not fit ends the row: a less important one must not take its place
        fitting.append(index)
        used += size
    chosen = [columns[index] for index in sorted(fitting)]
    widths = {c.name: min(column_width(c), texts.get(c.name, width), max(width, 1)) for c in chosen}
    spare = width - sum(widths.values()) - GAP * (len(chosen) - 1)
    flexible = [c for c in chosen if c.kind in FLEXIBLE and not c.width] or [c for c in chosen if c.kind in FLEXIBLE]
    for limits in (
        {c.name: min(texts.get(c.name, 0), max(c.grow, FLEX_LIMIT)) for c in chosen},
        {c.name: c.grow for c in chosen},
        {c.name: texts.get(c.name, 0) for c in chosen},
        {c.name: FLEX_LIMIT for c in flexible if not c.grow},
    ):
        spare = _grow(widths, limits, spare)
    places = accumulate((widths[column.name] + GAP for column in chosen), initial=0)
    slots = (Slot(column, x, widths[column.name]) for column, x in zip(chosen, places, strict=False))
    return Layout(tuple(slots), total - len(chosen))


def _grow(widths: dict[str, int], limits: Mapping[str, int], spare: int) -> int:
    """Share ``spare`` cells evenly among the columns of ``limits``, none beyond its limit; return how many are left."""
    while spare > 0:
        growing = [name for name, limit in limits.items() if widths[name] < limit]
        if not growing:
            break
        share = max(spare // len(growing), 1)
        for name in growing:
            more = min(share, limits[name] - widths[name], spare)
            widths[name] += more
            spare -= more
    return spare
