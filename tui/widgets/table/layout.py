"""Which columns of a table fit the screen, and where: by declared widths and priorities alone. No Textual here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from engine import units

if TYPE_CHECKING:
    from engine.tables import Column

WIDTHS: Mapping[str, int] = {
    "text": 14, "id": 14, "count": 9, "number": 9, "bytes": 9, "bytes_per_s": 11, "ms": 8, "s": 8, "time_ms": 14,
    "percent": 7, "ratio": 8, "level": 10, "flag": 4, "json": 20, "spark": 12, "mb_s": 11,
}  # fmt: skip
"""Default width per kind, in cells."""

FLEXIBLE: frozenset[str] = frozenset({"text", "id", "json"})

FLEX_LIMIT = 48
"""A text column takes spare cells up to this width."""


@dataclass(frozen=True, slots=True)
class Slot:
    """A column's place on screen: from cell ``x`` on, ``width`` cells."""

    column: Column
    x: int
    width: int

    @property
    def right(self) -> bool:
        """Whether values are aligned right."""
        return self.column.kind in units.NUMERIC


@dataclass(frozen=True, slots=True)
class Layout:
    """Which columns fit: ``slots`` in order, ``hidden`` how many chosen ones did not fit, ``offset`` how many columns
    are scrolled away behind the first."""

    slots: tuple[Slot, ...]
    hidden: int
    offset: int = 0


def column_width(column: Column, default_width: int | None = None) -> int:
    """Smallest width of a column: declared, or what suits its kind, and enough for a short header."""
    if column.width:
        return column.width
    base = WIDTHS.get(column.kind, 12) if default_width is None else default_width
    return max(base, min(len(column.header) + 1, 14))


def layout(columns: Sequence[Column], width: int, offset: int = 0, gap: int = 1) -> Layout:
    """Fit ``columns`` into ``width`` cells: the least important (highest ``priority``, then last) hide first; spare
    cells go to columns that ``grow``, then to text columns. It depends on columns and width only, never on values, so
    nothing jumps as data change.

    ``offset`` > 0 scrolls: the first column stays, ``offset`` columns behind it are skipped, priorities are ignored.
    """
    if not columns:
        return Layout((), 0)
    total = len(columns)
    if offset:
        offset = min(offset, total - 1)
        columns = [columns[0], *columns[1 + offset :]]
        chosen: list[Column] = []
        used = 0
        for column in columns:
            size = column_width(column) + (gap if chosen else 0)
            if chosen and used + size > width:
                break
            chosen.append(column)
            used += size
    else:
        ranked = sorted(range(total), key=lambda i: (columns[i].priority, i))
        kept: set[int] = set()
        used = 0
        for index in ranked:
            size = column_width(columns[index]) + (gap if kept else 0)
            if kept and used + size > width:
                # An important column that does not fit ends the row: a less important one must not take its place.
                break
            kept.add(index)
            used += size
        chosen = [columns[i] for i in sorted(kept)]
    widths = {column.name: min(column_width(column), max(width, 1)) for column in chosen}
    flexible = [c for c in chosen if c.kind in FLEXIBLE and not c.width] or [c for c in chosen if c.kind in FLEXIBLE]
    spare = _grow(widths, {c.name: c.grow for c in chosen if c.grow}, width - used)
    _grow(widths, {c.name: FLEX_LIMIT for c in flexible if not c.grow}, spare)
    slots = []
    x = 0
    for column in chosen:
        slots.append(Slot(column, x, widths[column.name]))
        x += widths[column.name] + gap
    return Layout(tuple(slots), total - len(chosen), offset)


def _grow(widths: dict[str, int], limits: Mapping[str, int], spare: int) -> int:
    """Share ``spare`` cells evenly among the columns of ``limits``, none beyond its limit; returns what is left."""
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
