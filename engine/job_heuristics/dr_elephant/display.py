"""Dr. Elephant's way of writing numbers, needed for equal details.

See docs/models/job-heuristics.md, "Details"; Dr. Elephant's classes are ``Utils`` and ``MapReduceStatistics``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import ROUND_HALF_EVEN, ROUND_HALF_UP, Decimal, localcontext
from typing import Any

from engine.job_heuristics.mapreduce.model.arrays import Array

_UNITS = ((1 << 60, "EB"), (1 << 50, "PB"), (1 << 40, "TB"), (1 << 30, "GB"), (1 << 20, "MB"), (1 << 10, "KB"))


def size(value: int) -> str:
    """Write bytes in the largest unit with a non-zero whole part, truncated: ``1 GB`` for 1.99 GB."""
    for unit, word in _UNITS:
        if value >= unit:
            return f"{value // unit} {word}"
    return f"{value} bytes"


def span(ms: int) -> str:
    """Write a time span as ``H hr M min S sec``, zero parts left out; 0 is ``0 sec``, 1 to 999 ms (and less than 0) an
    empty text."""
    if ms == 0:
        return "0 sec"
    seconds = ms // 1000
    if seconds <= 0:
        return ""
    parts = ((seconds // 3600, "hr"), (seconds // 60 % 60, "min"), (seconds % 60, "sec"))
    return " ".join(f"{n} {word}" for n, word in parts if n)


def clock(ms: int) -> str:
    """Write a time in the skew heuristics' form: ``N msec`` below a second, else ``HH:MM:SS HH:MM:SS`` (the value, then
    that label)."""
    if ms < 1000:
        return f"{ms} msec"
    seconds = ms // 1000
    return f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d} HH:MM:SS"


def factor(value: int, base: int) -> str:
    """Write a factor as ``(0.14x)``: value / base with two decimals, half up; 0/0 is empty, x/0 ``(Infinityx)``."""
    if base == 0:
        return "(Infinityx)" if value > 0 else "(-Infinityx)" if value else ""
    return f"({_two_decimals(Decimal(repr(value / base)), ROUND_HALF_UP)}x)"


def _two_decimals(value: Decimal, how: str) -> str:
    with localcontext() as context:
        context.prec = 400
        return str(value.quantize(Decimal("0.01"), rounding=how))


def java_double(value: float) -> str:
    """Write a number as Java's ``Double.toString`` does: ``0.005``, ``1.0``, ``2.55584716796875E-4``, ``NaN``, ``Infinity``."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    if value == 0:
        return "-0.0" if math.copysign(1, value) < 0 else "0.0"
    if 1e-3 <= abs(value) < 1e7:
        text = repr(value)
        return text if "e" not in text else format(Decimal(text), "f")
    sign, digits, exponent = Decimal(repr(value)).as_tuple()
    text = "".join(map(str, digits)).rstrip("0") or "0"
    power = len(digits) - 1 + int(exponent)
    return f"{'-' if sign else ''}{text[0]}.{text[1:] or '0'}E{power}"


def percent(part: int, whole: int) -> str:
    """Write a share as ``1.72 %``: two decimals, half even, below 1 % ``0 %``; a whole of 0: ``NaN``."""
    if whole == 0:
        return "NaN"
    value = part / whole * 100
    return "0 %" if int(value) == 0 else f"{_two_decimals(Decimal(value), ROUND_HALF_EVEN)} %"


def duration(ms: int) -> str:
    """Write a time as ``H:MM:SS``, hours not wrapped."""
    seconds = ms // 1000
    return f"{seconds // 3600}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"


def plain(values: Array) -> list[str]:
    """Write whole numbers as they are."""
    return list(map(str, values.tolist()))


def each(write: Callable[[Any], str], values: Array) -> list[str]:
    """Write each value by ``write``, equal ones once."""
    listed = values.tolist()
    texts = {value: write(value) for value in set(listed)}
    return list(map(texts.__getitem__, listed))
