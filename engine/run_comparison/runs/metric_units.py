"""Units: what files write, converted to one unit per dimension, and which direction is better."""

from __future__ import annotations

import re
from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import NamedTuple


class Unit(NamedTuple):
    """A canonical unit's ``name`` and the factor from the written unit."""

    name: str
    factor: float


_TIME = {
    "ns": 1e-6, "nanoseconds": 1e-6, "nanosecond": 1e-6, "us": 1e-3, "µs": 1e-3, "μs": 1e-3, "microseconds": 1e-3,
    "ms": 1.0, "msec": 1.0, "milliseconds": 1.0, "s": 1e3, "sec": 1e3, "secs": 1e3, "second": 1e3, "seconds": 1e3,
    "min": 6e4, "minutes": 6e4, "m": 6e4, "h": 3.6e6, "hours": 3.6e6,
}  # fmt: skip
_BYTES = {
    "b": 1.0, "byte": 1.0, "bytes": 1.0, "kb": 1e3, "kbytes": 1e3, "kib": 1024.0, "mb": 1e6, "mbytes": 1e6,
    "mib": 1048576.0, "gb": 1e9, "gbytes": 1e9, "gib": 1073741824.0,
}  # fmt: skip
_SHARE = {"%": 1.0, "percent": 1.0, "percentage": 1.0, "pct": 1.0}
_ONE = {"": "", "count": "count", "counts": "count", "#": "count"}


def canonical(written: str) -> Unit:
    """Canonical unit and factor: durations in ms (per-operation times in s, as benchstat has them), sizes in bytes.

    An unknown unit stays as it is.
    """
    text = written.strip()
    lower = text.lower()
    if lower in _TIME and text != "M":
        return Unit("ms", _TIME[lower])
    if lower in _BYTES:
        return Unit("bytes", _BYTES[lower])
    if lower in _SHARE:
        return Unit("%", 1.0)
    if lower in _ONE:
        return Unit(_ONE[lower], 1.0)
    head, slash, rest = text.partition("/")
    if slash:
        if rest in ("s", "sec", "second") and head.lower() in _BYTES:
            return Unit("B/s", _BYTES[head.lower()])
        if head in ("ns", "us", "µs", "μs", "ms", "s", "sec"):
            return Unit("sec/" + rest, _TIME[head] * 1e-3)
        if head.endswith("-ns"):
            return Unit(head[:-2] + "sec/" + rest, 1e-9)
        if rest in ("s", "sec", "second"):
            return Unit(head + "/s", 1.0)
        if head in ("ops", "op") and rest in _TIME:
            return Unit("ops/s", 1e3 / _TIME[rest])
    if text.endswith("-ns"):
        return Unit(text[:-3] + "-sec", 1e-9)
    return Unit(text, 1.0)


_HIGHER_UNIT = re.compile(r"(/s|/sec|pps|iops|ops)$", re.IGNORECASE)
_HIGHER_NAME = re.compile(
    r"throughput|availab|per.second|events.per|bandwidth|iops|\bbw\b|ops\b|success|checks|hit.?rate", re.IGNORECASE
)
_LOWER_NAME = re.compile(
    r"latency|duration|lost|loss|error|fail|restart|wait|blocked|unavailab|jitter|time\b|gc\.alloc", re.IGNORECASE
)


class Rule(NamedTuple):
    """An operator's direction for metrics whose name matches ``pattern`` (``*`` and ``?``)."""

    pattern: str
    better: str


def parse_rules(texts: Sequence[str]) -> tuple[Rule, ...]:
    """``NAME=lower`` or ``NAME=higher`` per text. Raises ValueError saying what is wrong."""
    rules = []
    for text in texts:
        pattern, sign, better = text.rpartition("=")
        if not sign or better not in ("lower", "higher") or not pattern:
            raise ValueError(f"direction {text!r} is not NAME=lower or NAME=higher")
        rules.append(Rule(pattern.lower(), better))
    return tuple(rules)


def direction(name: str, unit: str, hint: str = "", rules: Sequence[Rule] = ()) -> str:
    """Whether ``lower`` or ``higher`` values of a metric are better: an operator's rule, then the reader's hint, then
    unit and name; latencies and everything unknown count as lower is better."""
    lowered = name.lower()
    for rule in rules:
        if fnmatchcase(lowered, rule.pattern) or fnmatchcase(lowered, f"*{rule.pattern}*"):
            return rule.better
    if hint:
        return hint
    if _LOWER_NAME.search(name):
        return "lower"
    if _HIGHER_UNIT.search(unit) or _HIGHER_NAME.search(name):
        return "higher"
    return "lower"
