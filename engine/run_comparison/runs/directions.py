"""Tell which direction of a metric is better: the operator's word first, then its tool's, then name and unit."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase

from engine.run_comparison.parameters import DirectionRule, parse_direction_rules
from engine.run_comparison.reading.metric_kinds import BY_NAME
from engine.run_comparison.reading.series import Direction
from engine.run_comparison.runs.measurements import MetricKey, canonical_unit

_RATE_UNIT = re.compile(r"(/s|/sec|pps|iops|ops)$", re.IGNORECASE)
_TROUBLE = re.compile(
    r"lost|loss|error|fail|restart|blocked|unavailab|drop|reject|timeout|retr(y|ies|ans)|gc\.alloc", re.IGNORECASE
)
"""What is better when there is less of it, even per second."""
_HIGHER_NAME = re.compile(
    r"throughput|availab|per.second|events.per|bandwidth|iops|\bbw\b|ops\b|success|checks|hit.?rate", re.IGNORECASE
)
_LOWER_NAME = re.compile(
    r"latency|duration|lost|loss|error|fail|restart|wait|blocked|unavailab|jitter|time\b|gc\.alloc", re.IGNORECASE
)


def better_direction(name: str, unit: str, quantity: str = "") -> str:
    """Return ``lower`` or ``higher``, whichever values of a metric are better by its unit and name.

    A rate is better when higher, unless its ``quantity`` is failures: words in the names of what was run (benchmarks,
    requests, files) do not turn it round. Without a rate, words in the whole ``name`` decide. Latencies and everything
    unknown are better when lower.
    """
    if _RATE_UNIT.search(unit):
        return "lower" if _TROUBLE.search(f"{quantity} {unit}") else "higher"
    return "higher" if _HIGHER_NAME.search(name) and not _LOWER_NAME.search(name) else "lower"


def _by_rule(name: str, rules: Sequence[DirectionRule]) -> str:
    """Return what the first of the operator's ``rules`` that fits says, empty where none does."""
    lowered = name.lower()
    fitting = (
        rule.better for rule in rules if fnmatchcase(lowered, rule.pattern) or fnmatchcase(lowered, f"*{rule.pattern}*")
    )
    return next(fitting, "")


_VERB_IS_QUANTITY = frozenset({"csv", "k6", "kube-burner"})
"""Tools whose ``verb`` is the name of a metric, not of a benchmark or request."""


def _further_name(key: MetricKey) -> str:
    """Return the part of the name that ``metric`` is (``availability``); labels (``path=/retries``) say what was run."""
    return "" if "=" in key.metric else key.metric


def _quantity(key: MetricKey) -> str:
    """Return what a metric counts in its tool's words, without the names of what was run."""
    verb = key.verb if key.kind in _VERB_IS_QUANTITY else ""
    if key.kind == "jmh":
        verb = key.verb.partition(":")[2]  # a secondary metric of the benchmark before the colon
    return " ".join((verb, key.resource, _further_name(key), key.bucket))


def directions_of(keys: Sequence[MetricKey], stated: Iterable[Direction], rules: Sequence[str]) -> list[str]:
    """Return ``lower`` or ``higher`` for each metric: as the operator's ``rules`` say, else as its tool ``stated`` in a file
    (of metrics of its own only), else as its kind of report or its unit and name have it."""
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
        begin = (key.kind, key.report, key.verb, key.resource)
        directions.append(
            _by_rule(" ".join((*begin, key.metric, key.bucket)), parsed)
            or by_unit.get((key.kind, key.unit))
            or by_verb.get((key.kind, key.verb))
            or (kind.better if kind else "")
            or better_direction(" ".join((*begin, _further_name(key), key.bucket)), key.unit, _quantity(key))
        )
    return directions
