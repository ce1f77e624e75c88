"""Convert written units to one canonical unit per dimension."""

from __future__ import annotations

from typing import NamedTuple


class Unit(NamedTuple):
    """A canonical unit and the factor that converts a written value to it."""

    name: str
    factor: float


_MS_PER_UNIT = {
    "ns": 1e-6, "nanoseconds": 1e-6, "nanosecond": 1e-6, "us": 1e-3, "µs": 1e-3, "μs": 1e-3, "microseconds": 1e-3,
    "ms": 1.0, "msec": 1.0, "milliseconds": 1.0, "s": 1e3, "sec": 1e3, "secs": 1e3, "second": 1e3, "seconds": 1e3,
    "min": 6e4, "minutes": 6e4, "m": 6e4, "h": 3.6e6, "hours": 3.6e6,
}  # fmt: skip
_BYTES_PER_UNIT = {
    "b": 1.0, "byte": 1.0, "bytes": 1.0, "kb": 1e3, "kbytes": 1e3, "kib": 1024.0, "mb": 1e6, "mbytes": 1e6,
    "mib": 1048576.0, "gb": 1e9, "gbytes": 1e9, "gib": 1073741824.0,
}  # fmt: skip
_PERCENT = frozenset({"%", "percent", "percentage", "pct"})
_COUNTS = {"": "", "count": "count", "counts": "count", "#": "count"}


def canonical_unit(written: str) -> Unit:
    """Return the canonical unit of a written one: ms for durations, bytes for sizes, s for times per operation.

    Times per operation follow benchstat. An unknown unit is returned unchanged with factor 1.
    """
    text = written.strip()
    lower = text.lower()
    if lower in _MS_PER_UNIT and text != "M":
        return Unit("ms", _MS_PER_UNIT[lower])
    if lower in _BYTES_PER_UNIT:
        return Unit("bytes", _BYTES_PER_UNIT[lower])
    if lower in _PERCENT:
        return Unit("%", 1.0)
    if lower in _COUNTS:
        return Unit(_COUNTS[lower], 1.0)
    head, slash, rest = text.partition("/")
    if slash:
        if rest in ("s", "sec", "second") and head.lower() in _BYTES_PER_UNIT:
            return Unit("B/s", _BYTES_PER_UNIT[head.lower()])
        if head in ("ns", "us", "µs", "μs", "ms", "s", "sec"):
            return Unit("sec/" + rest, _MS_PER_UNIT[head] * 1e-3)
        if head.endswith("-ns"):
            return Unit(head[:-2] + "sec/" + rest, 1e-9)
        if rest in ("s", "sec", "second"):
            return Unit(head + "/s", 1.0)
        if head in ("ops", "op") and rest in _MS_PER_UNIT:
            return Unit("ops/s", 1e3 / _MS_PER_UNIT[rest])
    if text.endswith("-ns"):
        return Unit(text[:-3] + "-sec", 1e-9)
    return Unit(text, 1.0)


def is_time(unit: str) -> bool:
    """Whether a canonical unit is one of durations, or of times per operation."""
    return unit == "ms" or unit.startswith("sec/") or unit.endswith("-sec")
