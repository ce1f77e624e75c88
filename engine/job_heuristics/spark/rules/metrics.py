"""How Dr. Elephant's Spark side reads and writes values, and its metrics of an application.

Its classes are ``MemoryFormatUtils`` and ``SparkMetricsAggregator``. See docs/models/job-heuristics.md, "Spark: details" and
"Spark: metrics".
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from decimal import ROUND_HALF_EVEN, ROUND_HALF_UP, Decimal, localcontext

from engine.job_heuristics.dr_elephant.display import java_double
from engine.job_heuristics.spark.model.app import App

_UNITS = ((1 << 40, "TB"), (1 << 30, "GB"), (1 << 20, "MB"), (1 << 10, "KB"))
_PATTERN = r"([-+]?\d*\.?\d+(?:[eE][-+]?\d+)?)\s*((?:[T|G|M|K])?B?)?"
"""The pattern that upstream takes and names in its error;"""
_SIZE = re.compile(r"([-+]?(?:\d+(?:\.\d+)?|\.\d+)(?:[eE][-+]?\d+)?)\s*((?:[T|G|M|K])?B?)?", re.IGNORECASE | re.ASCII)
"""and one that takes the same in one way only."""
_WHOLE = re.compile(r"[+-]?[0-9]{1,10}")
_LONGEST = 400  # most characters of a size that are parsed
MOST = 2**63 - 1


class Unreadable(ValueError):
    """Raised with the text of the exception that Dr. Elephant throws."""


def bytes_of(text: str) -> int:
    """Read a size: ``1.5g``, ``2048`` (bytes), ``1,5 GB`` (15). Raises Unreadable."""
    bare = text.replace(",", "")
    found = _SIZE.fullmatch(bare) if len(bare) <= _LONGEST else None
    if found is None:
        raise Unreadable(
            f"java.lang.IllegalArgumentException: The formatted string [{text}] does not match with the regex /{_PATTERN}/"
        )
    number, unit = float(found.group(1)), (found.group(2) or "").upper()
    unit += "" if unit.endswith("B") else "B"
    if number < 0:
        raise Unreadable(
            f"java.lang.IllegalArgumentException: The number part of the memory cannot be less than zero: [{number}]."
        )
    scale = 1 if unit == "B" else next((each for each, word in _UNITS if word == unit), None)
    if scale is None:
        raise Unreadable(
            f"java.lang.IllegalArgumentException: The formatted string [{text}] 's unit part [{unit}] does not match any unit."
        )
    value = number * scale
    return MOST if value >= MOST else int(value)


def size(value: int) -> str:
    """Write bytes: ``1.5 GB``, ``1,023.99 MB``, ``0 B``."""
    for unit, word in _UNITS:
        if value >= unit:
            with localcontext() as context:
                context.prec = 400
                rounded = Decimal(value / unit).quantize(Decimal("0.01"), rounding=ROUND_HALF_EVEN)
            return f"{f'{rounded:,}'.rstrip('0').rstrip('.')} {word}"
    return f"{value:,} B"


def rate(value: float) -> str:
    """Write a number with three decimals as Java does: half up on its shortest decimal text."""
    if not math.isfinite(value):
        return java_double(value)
    with localcontext(prec=400):
        return str(Decimal(repr(value)).quantize(Decimal("0.001"), rounding=ROUND_HALF_UP))


def whole(text: str | None) -> int | None:
    """Read a 32-bit whole number as ``Integer.parseInt`` does; None for anything else."""
    if text is None or not _WHOLE.fullmatch(text):
        return None
    value = int(text)
    return value if -(2**31) <= value < 2**31 else None


def flag(text: str | None) -> bool:
    """Read true or false, in any case; missing is false. Raises Unreadable."""
    if text is None:
        return False
    if text.lower() not in ("true", "false"):
        raise Unreadable(f'java.lang.IllegalArgumentException: For input string: "{text}"')
    return text.lower() == "true"


def distribution(values: Sequence[int]) -> dict[str, int]:
    """Return minimum, quartiles and maximum of at least one whole number by nearest rank; the median of an even count is the
    truncated mean."""
    ordered = sorted(values)
    n = len(ordered)
    median = ordered[n // 2] if n % 2 else int((ordered[n // 2 - 1] + ordered[n // 2]) / 2)
    return {
        "min": ordered[0], "p25": ordered[-(-n // 4) - 1], "median": median, "p75": ordered[-(-3 * n // 4) - 1],
        "max": ordered[-1],
    }  # fmt: skip


_MB_MS = 2**20 * 1000  # byte ms in an MB s
_BUFFER = 0.5
"""Share of memory that may stay unused before it counts as wasted (allocated_memory_waste_buffer_percentage)."""


def judged_ms(app: App) -> int:
    """Return the duration used by Dr. Elephant: that of the oldest attempt, until now while running."""
    oldest = app.attempts[-1] if app.attempts else None
    if oldest is not None and oldest.start_ms is not None and oldest.end_ms is not None:
        return oldest.end_ms - oldest.start_ms
    return app.runtime_ms or 0


def metrics(app: App) -> tuple[int, int]:
    """Return used and wasted memory x time, MB s; 0 if instances or memory are unset or unreadable, or without a duration."""
    instances = whole(app.properties.get("spark.executor.instances"))
    text = app.properties.get("spark.executor.memory")
    try:
        memory = bytes_of(text) if text is not None else None
    except Unreadable:
        memory = None
    duration = judged_ms(app)
    if instances is None or memory is None or duration < 0:
        return 0, 0
    used = _cut(instances * memory * duration)
    return used, int(
        max(0.0, used - _cut(memory * sum(executor.duration_ms for executor in app.active)) * (1.0 + _BUFFER))
    )


def _cut(byte_ms: int) -> int:
    """Return MB s, truncated."""
    return byte_ms // _MB_MS if byte_ms >= 0 else -(-byte_ms // _MB_MS)


def throws(app: App) -> str:
    """Return the exception for an unreadable property, or empty."""
    instances, memory = app.properties.get("spark.executor.instances"), app.properties.get("spark.executor.memory")
    if instances is not None and whole(instances) is None:
        return f'java.lang.NumberFormatException: For input string: "{instances}"'
    try:
        if memory is not None:
            bytes_of(memory)
    except Unreadable as error:
        return str(error)
    return ""
