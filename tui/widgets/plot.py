"""Plots as text: pure functions from numbers to lines, for three sets of glyphs. See ``PlotView`` for the widget."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tui.glyphs import Glyphs


def finite(value: Any) -> float | None:
    """``value`` as a finite float, else None."""
    if value is None:
        return None
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def thin(values: Sequence[Any], columns: int) -> list[float | None]:
    """``values`` in at most ``columns`` points; of each bucket the value farthest from the whole's mean is kept, so that
    peaks and dips survive. Missing values stay gaps where a bucket has nothing else."""
    numbers = [finite(value) for value in values]
    if len(numbers) <= columns or columns <= 0:
        return numbers
    known = [number for number in numbers if number is not None]
    middle = sum(known) / len(known) if known else 0.0
    out: list[float | None] = []
    for index in range(columns):
        start, stop = index * len(numbers) // columns, (index + 1) * len(numbers) // columns
        bucket = [number for number in numbers[start:stop] if number is not None]
        out.append(max(bucket, key=lambda number: abs(number - middle)) if bucket else None)
    return out


def spark(
    values: Sequence[Any], width: int, glyphs: Glyphs, low: float | None = None, high: float | None = None
) -> str:
    """One line of vertical bars, oldest left; missing values are gaps; a constant series is a low line."""
    numbers = thin(values, width)
    known = [number for number in numbers if number is not None]
    if not known:
        return glyphs.gap * min(len(numbers), width)
    floor = min(known) if low is None else low
    top = max(known) if high is None else high
    steps = len(glyphs.levels) - 2
    span = top - floor
    out = []
    for number in numbers:
        if number is None:
            out.append(" ")
        elif span <= 0 or not math.isfinite(span):
            out.append(glyphs.levels[1])
        else:
            place = (min(max(number, floor), top) - floor) / span
            out.append(glyphs.levels[1 + min(int(place * (steps + 1)), steps)])
    return "".join(out)
