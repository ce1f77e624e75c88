"""Arithmetic and texts as Java gives them, for ``formulas``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from decimal import ROUND_HALF_UP, Decimal

MINUTE = 60_000
MIN, MAX = -(2**63), 2**63 - 1


class Lost(Exception):
    """Raised where Dr. Elephant throws and shows nothing."""


# --- arithmetic ------------------------------------------------------------------------------------------------------


def wrap(value: int) -> int:
    return (value + 2**63) % 2**64 - 2**63


def over(a: int, b: int) -> int:
    quotient = abs(a) // abs(b)
    return wrap(-quotient if (a < 0) != (b < 0) else quotient)


def whole(value: float) -> int:
    return (
        0
        if value != value
        else int(min(max(value, float(MIN)), float(MAX)))
        if abs(value) < 2.0**63
        else MIN
        if value < 0
        else MAX
    )


def divide(a: float, b: float) -> float:
    if b:
        return a / b
    return float("nan") if a == 0 or a != a else float("inf") if a > 0 else float("-inf")


def average(values: Sequence[int]) -> int:
    total = 0.0
    for value in values:
        total += float(value)
    return whole(divide(total, float(len(values))))


def median(values: Iterable[int]) -> int:
    ordered = sorted(values)
    if not ordered:
        raise Lost("no median")
    half = len(ordered) // 2
    return ordered[half] if len(ordered) % 2 else over(wrap(ordered[half - 1] + ordered[half]), 2)


def rising(value: float, *limits: float) -> int:
    return sum(value >= limit for limit in limits)


def falling(value: float, *limits: float) -> int:
    return sum(value <= limit for limit in limits)


def two_groups(values: Sequence[int]) -> tuple[list[int], list[int]]:
    middle = average(values)
    for _ in range(2):
        low, high = [v for v in values if v < middle], [v for v in values if v >= middle]
        middle = wrap(average(high) - average(low))
    return [v for v in values if v < middle], [v for v in values if v >= middle]


# --- texts -----------------------------------------------------------------------------------------------------------


def size(value: int) -> str:
    for power, unit in ((60, "EB"), (50, "PB"), (40, "TB"), (30, "GB"), (20, "MB"), (10, "KB")):
        if over(value, 2**power) > 0:
            return f"{over(value, 2**power)} {unit}"
    return f"{value} bytes"


def span(ms: int) -> str:
    if ms == 0:
        return "0 sec"
    seconds = over(ms, 1000)
    parts = ((seconds // 3600, "hr"), (seconds // 60 % 60, "min"), (seconds % 60, "sec")) if seconds > 0 else ()
    return " ".join(f"{value} {unit}" for value, unit in parts if value > 0)


def clock(ms: int) -> str:
    if ms < 1000:
        return f"{ms} msec"
    seconds = ms // 1000
    return f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d} HH:MM:SS"


def factor(value: int, base: int) -> str:
    quotient = divide(float(value), float(base))
    if quotient != quotient:
        return ""
    if quotient in (float("inf"), float("-inf")):
        return "(Infinityx)" if quotient > 0 else "(-Infinityx)"
    return f"({Decimal(repr(quotient)).quantize(Decimal('0.01'), ROUND_HALF_UP)}x)"


def double(value: float) -> str:
    if value != value or value in (float("inf"), float("-inf")):
        return "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        text = format(Decimal(repr(value)), "f")
        return text if "." in text else text + ".0"
    mantissa, _, exponent = format(Decimal(repr(value)).normalize(), "E").partition("E")
    return f"{mantissa if '.' in mantissa else mantissa + '.0'}E{int(exponent)}"


def cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 3] + "..."
