"""Dr. Elephant's way of writing numbers, needed for equal details.

See docs/models/job-heuristics.md, "Details"; Dr. Elephant's classes are ``Utils`` and ``MapReduceStatistics``.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from decimal import ROUND_HALF_UP, Decimal, localcontext
from typing import Any

from engine.job_heuristics.dr_elephant.gates import Array

_UNITS = ((1 << 60, "EB"), (1 << 50, "PB"), (1 << 40, "TB"), (1 << 30, "GB"), (1 << 20, "MB"), (1 << 10, "KB"))


def size(value: int) -> str:
    """Write bytes in the largest unit with a non-zero whole part, truncated: ``1 GB`` for 1.99 GB."""
    return next((f"{value // unit} {word}" for unit, word in _UNITS if value >= unit), f"{value} bytes")


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
    with localcontext(prec=400):
        return f"({Decimal(repr(value / base)).quantize(Decimal('0.01'), rounding=ROUND_HALF_UP)}x)"


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
    return f"{'-' if sign else ''}{text[0]}.{text[1:] or '0'}E{(len(digits) - 1 + int(exponent))}"


def plain(values: Array) -> list[str]:
    """Write whole numbers in plain digits."""
    return list(map(str, values.tolist()))


def each(write: Callable[[Any], str], values: Array) -> list[str]:
    """Apply ``write`` to each value, once per distinct value."""
    listed = values.tolist()
    return list(map({value: write(value) for value in set(listed)}.__getitem__, listed))


MOST_LABEL, MOST_VALUE, MOST_DETAILS = 128, 255, 65535
"""Most characters of a detail's label, value and long text in Dr. Elephant's database."""


def details_json(details: Mapping[str, Any]) -> str:
    """Write details as a JSON object, labels and values cut as Dr. Elephant stores them."""
    return _ENCODER.encode(
        {
            cut(label, MOST_LABEL): cut(value, MOST_VALUE) if isinstance(value, str) else value
            for label, value in details.items()
        }
    )


_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))


def cut(text: str, most: int) -> str:
    """Cut a text to ``most`` characters as Dr. Elephant does."""
    return text if len(text) <= most else text[: most - 3] + "..."


def labels(details: str | None) -> tuple[tuple[str, str], ...]:
    """Return Dr. Elephant's labels and values of a verdict from the JSON of the heuristics result."""
    try:
        by_label = json.loads(details or "{}")
    except ValueError:
        return ()
    if not isinstance(by_label, dict):
        return ()
    return tuple(
        (str(k), " ".join(str(x) for x in v if x) if isinstance(v, list) else str(v)) for k, v in by_label.items()
    )


def split(text: str) -> list[str]:
    """Split at commas as Java does: empty parts at the end fall away, and only an empty text has one."""
    kept = text.rstrip(",")
    return kept.split(",") if kept or not text else []


_WHOLE = re.compile(r"[+-]?\d{1,4000}")


def integer(value: str | None) -> int | None:
    """Parse a whole number like Java's ``Long.parseLong``; None where that throws."""
    if value is None or not _WHOLE.fullmatch(value):
        return None
    number = int(value)
    return number if -(2**63) <= number < 2**63 else None
