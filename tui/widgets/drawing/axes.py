"""Ranges and ticks of axes: round steps for numbers, durations, bytes and times."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from engine.core import units
from tui.glyphs import Glyphs
from tui.widgets.drawing.fragments import Line, cells

if TYPE_CHECKING:
    from engine.core.tables import Kind

Range = tuple[float, float]  # smallest and largest value of an axis

_MS_STEPS = (
    1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 1.5e4, 3e4, 6e4, 1.2e5, 3e5, 6e5, 9e5, 1.8e6, 3.6e6, 7.2e6,
    1.08e7, 2.16e7, 4.32e7, 8.64e7, 1.728e8, 4.32e8, 8.64e8, 2.592e9, 7.776e9, 3.1536e10,
)  # fmt: skip
"""Round durations in ms, up to a year."""


def span_of(values: Iterable[float]) -> Range | None:
    """Return the smallest and largest finite value, None without any."""
    present = [float(value) for value in values if math.isfinite(value)]
    return (min(present), max(present)) if present else None


def round_step(rough: float, kind: Kind = "number") -> float:
    """Return a round step of at least ``rough`` that suits ``kind``."""
    if not rough > 0 or not math.isfinite(rough):
        return 1.0
    scale = 1000.0 if kind == "s" else 1.0
    if kind in ("ms", "s", "time_ms") and 1 <= rough * scale <= _MS_STEPS[-1]:
        return next(step for step in _MS_STEPS if step >= rough * scale) / scale
    if kind in ("bytes", "bytes_per_s") and rough > 1:
        base = 1024.0 ** min(int(math.log(rough, 1024)), 6)
        lead = rough / base
        return base * next((s for s in (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024) if s >= lead), 1024)
    try:
        base = 10.0 ** math.floor(math.log10(rough))
    except OverflowError:
        return rough
    if base == 0:  # below the smallest normal number
        return rough
    step = base * next((s for s in (1, 2, 2.5, 5) if s >= rough / base - 1e-9), 10)
    if kind == "count":
        step = max(1.0, float(math.ceil(step)))
    return step


def ticks(span: Range, most: int, kind: Kind = "number") -> list[float]:
    """Return at most ``most`` (at least one) round values within ``span``."""
    low, high = span
    if not high > low or most < 1:
        return [low]
    step = round_step((high - low) / max(most, 1), kind)
    for _ in range(4):
        first = math.ceil(low / step - 1e-9)
        last = math.floor(high / step + 1e-9)
        if last - first + 1 <= most:
            break
        step = round_step(step * 1.01, kind)
    return [index * step for index in range(first, min(last, first + most - 1) + 1)] or [low]


def round_range(low: float, high: float, kind: Kind = "number", zero: bool = True) -> Range:
    """Return a round range around the data. With ``zero`` a range of positive values begins at 0."""
    if not (math.isfinite(low) and math.isfinite(high)):
        return (0.0, 1.0)
    if zero:
        low, high = min(low, 0.0), max(high, 0.0)
    if high == low:
        pad = abs(high) * 0.5 or 1.0
        low, high = (0.0, high + pad) if zero and low >= 0 else (low - pad, high + pad)
    if not math.isfinite(high - low):
        return (low, high)
    step = round_step((high - low) / 4, kind)
    bottom, top = math.floor(low / step + 1e-9) * step, math.ceil(high / step - 1e-9) * step
    if not (math.isfinite(bottom) and math.isfinite(top)) or top <= bottom:
        return (low, high)
    return (min(bottom, low), max(top, high))


def tick_texts(values: Sequence[float], kind: Kind, width: int = 0) -> list[str]:
    """Return the labels of ticks: times of one day without their date, plain numbers with equal decimals."""
    if kind == "time_ms":
        size = 8 if (max(values) - min(values) if values else 0) < 86_400_000 else 11
        return [units.moment(value, size) for value in values]
    if kind in ("number", "ratio", "percent") and len(values) > 1:
        step = min(abs(b - a) for a, b in pairwise(values)) or 1.0
        largest = max(abs(value) for value in values)
        if step > 1e-6 and largest < 1e9:
            least = max(0, min(8, math.ceil(-math.log10(step) + 1e-9)) - 1)
            enough = (
                digits for digits in range(least, 8) if all(abs(round(v, digits) - v) <= step * 1e-3 for v in values)
            )
            digits = next(enough, 8)
            tail = {"percent": "%", "ratio": "×"}.get(kind, "")
            return [f"{value:,.{digits}f}{tail}" for value in values]
    return [units.text(kind, value, width) for value in values]


def place(value: float, span: Range, cells_: int) -> int:
    """Return the cell (0 to ``cells_`` - 1) of ``value``; values outside go to the edges."""
    low, high = span
    if not high > low or cells_ <= 1:
        return 0
    share = value / (high - low) - low / (high - low)
    return 0 if math.isnan(share) else int(min(max(share, 0.0), 1.0) * (cells_ - 1) + 0.5)


def bottom_labels(values: Sequence[float], texts: Sequence[str], span: Range, width: int) -> str:
    """Return tick labels under an axis of ``width`` cells, centred on their ticks, never overlapping."""
    row = [" "] * width
    free = 0
    for value, text in zip(values, texts, strict=True):
        size = cells(text)
        if size > width:
            continue
        start = min(max(place(value, span, width) - size // 2, 0), width - size)
        if start < free or size != len(text):
            continue
        row[start : start + size] = list(text)
        free = start + size + 1
    return "".join(row)


def bottom_axis(span: Range, kind: Kind, front: str, inner: int, glyphs: Glyphs, size: int) -> list[Line]:
    """Return the axis of ``inner`` cells behind ``front``, and below it labels of at most ``size`` cells each."""
    values = ticks(span, max(inner // 12, 1), kind)
    labels = bottom_labels(values, tick_texts(values, kind, size), span, inner)
    return [[(front + glyphs.line * inner, "dim")], [(" " * cells(front) + labels, "dim")]]
