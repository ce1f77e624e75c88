"""Tell which direction of a metric is better: the operator's word first, then its tool's, then name and unit."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase

from engine.run_comparison.parameters import DirectionRule, parse_direction_rules
from engine.run_comparison.reading.metric_kinds import BY_NAME
from engine.run_comparison.reading.series import Direction
from engine.run_comparison.runs.measurements import MetricKey
from engine.run_comparison.runs.metric_units import canonical_unit

_HIGHER_UNIT = re.compile(r"(/s|/sec|pps|iops|ops)$", re.IGNORECASE)
_HIGHER_NAME = re.compile(
    r"throughput|availab|per.second|events.per|bandwidth|iops|\bbw\b|ops\b|success|checks|hit.?rate", re.IGNORECASE
)
_LOWER_NAME = re.compile(
    r"latency|duration|lost|loss|error|fail|restart|wait|blocked|unavailab|jitter|time\b|gc\.alloc", re.IGNORECASE
)


def better_direction(name: str, unit: str, stated: str = "", rules: Sequence[DirectionRule] = ()) -> str:
    """Return ``lower`` or ``higher``, whichever values of a metric are better.

    The operator's ``rules`` decide first, then what its tool ``stated``, then name and unit. Latencies and everything
    unknown are better when lower.
    """
    lowered = name.lower()
    for rule in rules:
        if fnmatchcase(lowered, rule.pattern) or fnmatchcase(lowered, f"*{rule.pattern}*"):
            return rule.better
    if stated:
        return stated
    if _LOWER_NAME.search(name):
        return "lower"
    if _HIGHER_UNIT.search(unit) or _HIGHER_NAME.search(name):
        return "higher"
    return "lower"


def directions_of(keys: Sequence[MetricKey], stated: Iterable[Direction], rules: Sequence[str]) -> list[str]:
    """Return ``lower`` or ``higher`` for each metric. ``stated``: by files, each of metrics of its own tool only."""
    by_unit, by_verb = {}, {}
    for direction in stated:
        if direction.field == "unit":
            by_unit[direction.kind, canonical_unit(direction.name).name] = direction.better
        else:
            by_verb[direction.kind, direction.name] = direction.better
    parsed = parse_direction_rules(rules)
    directions = []
    for key in keys:
        kind = BY_NAME.get(key.kind)
        by_file = by_unit.get((key.kind, key.unit)) or by_verb.get((key.kind, key.verb))
        name = " ".join((key.kind, key.report, key.verb, key.resource, key.metric, key.bucket))
        directions.append(better_direction(name, key.unit, by_file or (kind.better if kind else ""), parsed))
    return directions
