"""Word a metric, its change and the two sides: ``latency p99 of checkout``, ``25.1 → 50.7 µs``, ``new against old``."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

NAMING = ("test", "verb", "resource", "subresource", "scope", "bucket")
"""Columns whose words make up the name of a metric."""

VERB_IS_QUANTITY = frozenset({"csv", "k6", "kube-burner"})
"""Tools whose ``verb`` names a metric, not a benchmark or request."""


def pattern_of(row: Mapping[str, Any]) -> str:
    """Return a pattern that matches one row of the metrics table, by which option ``mute`` names it."""
    return " ".join(str(row[name]) for name in NAMING if row[name]).replace("[", "?").replace("*", "?")


def title_of(row: Mapping[str, Any]) -> str:
    """Name a row of the metrics table as people do: the quantity, then what was measured, then where."""
    kind, resource, bucket = row["kind"], row["resource"], re.sub("^Perc(?=[0-9])", "p", row["bucket"])
    is_tool = kind[
        :1
    ].islower()  # kinds of ClusterLoader2 begin with a capital; their resource is an object, no quantity
    labels = row["metric"] if row["metric"] != row["verb"] else ""
    if resource == labels:
        resource = ""
    part = f"{resource}/{row['subresource']}" if row["subresource"] else resource
    quantity, work = (part, row["verb"]) if is_tool else ("", f"{row['verb']} {part}")
    if kind in VERB_IS_QUANTITY:
        quantity, work = row["verb"], part
    what = " ".join(word for word in (quantity, "" if bucket == "value" else bucket) if word)
    subject = " ".join(word for word in (*work.split(" "), "" if row["scope"] == "resource" else row["scope"]) if word)
    where = ", ".join(word for word in (row["test"] if row["test"] != kind else "", labels) if word)
    text = f"{what} of {subject}" if what and subject else what or subject or "value"
    return f"{text} ({where})" if where else text


def counted(count: int, noun: str) -> str:
    """Return a number with its noun: ``1 run``, ``12 runs``."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


_SECONDS = {"ms": 1e-3, "s": 1.0, "sec": 1.0, "ns": 1e-9, "us": 1e-6, "µs": 1e-6}
_TIMES = (
    (1e-6, 1e-9, "ns"), (1e-3, 1e-6, "µs"), (1.0, 1e-3, "ms"), (600.0, 1.0, "s"), (7200.0, 60.0, "min"), (math.inf, 3600.0, "h"),
)  # fmt: skip
_SIZES = ((1e3, 1.0, "B"), (1e6, 1e3, "kB"), (1e9, 1e6, "MB"), (1e12, 1e9, "GB"), (math.inf, 1e12, "TB"))


def scaled(values: Sequence[float], unit: str) -> tuple[list[float], str]:
    """Return ``values`` in the one unit that suits the largest of them."""
    quantity, slash, per = unit.partition("/")
    factor = 1.0
    steps: tuple[tuple[float, float, str], ...] = _SIZES
    if quantity in _SECONDS:
        factor, steps = _SECONDS[quantity], _TIMES
    elif quantity not in ("bytes", "B"):
        return list(values), unit
    largest = max((abs(value) for value in values), default=0.0) * factor
    if largest == 0:
        return list(values), unit
    step, word = next((step, word) for limit, step, word in steps if largest < limit or limit == math.inf)
    return [value * factor / step for value in values], f"{word}{slash}{per}"


def ratio_text(ratio: float) -> str:
    """Return a ratio with two decimals, so that points stand below each other; a large one without any."""
    return f"{ratio:,.2f}" if ratio < 1_000 else f"{ratio:,.0f}"


def p_text(value: float | None) -> str:
    """Return a probability with three decimals, a smaller one as ``< 0.001``, a dash for none."""
    shown = math.nan if value is None else value
    return "–" if math.isnan(shown) else f"{shown:.3f}" if shown >= 0.001 else "< 0.001"


def change_text(left: float, right: float, unit: str, arrow: str = " → ") -> str:
    """Format both values of a metric with one unit and as many decimals as tell them apart: ``25.1 → 50.7 µs``."""
    texts, unit = figures((left, right), unit)
    return f"{arrow.join(texts)}{unit}"


def figures(values: Sequence[float], unit: str, digits: int = 3) -> tuple[list[str], str]:
    """Format values of a metric with as many decimals as suit the largest and tell them apart; return them and what follows
    the last: their one unit, with a space before it."""
    numbers, name = scaled(values, unit)
    texts = [_figure(value, numbers, digits) for value in numbers]
    if len(set(numbers)) > len(set(texts)) == 1 and digits < 6:
        return figures(values, unit, digits + 1)
    return texts, f"{' ' if name and name != '%' else ''}{name}"


def _figure(value: float, beside: Sequence[float], digits: int) -> str:
    largest = max(abs(each) for each in beside)
    if not math.isfinite(largest) or (largest and not 1e-4 <= largest < 1e15):
        return f"{value:.{digits - 1}e}"
    if all(each == int(each) for each in beside):
        return f"{value:,.0f}"
    decimals = digits - 1 - math.floor(math.log10(largest)) if largest else 0
    return f"{value:,.{max(decimals, 0)}f}"


def size_text(ratio: float, *, time: bool) -> str:
    """Word the ratio right / left: ``2.0 × slower``, ``5.2 % higher``. ``time``: of durations."""
    more, less = ("slower", "faster") if time else ("higher", "lower")
    if ratio >= 1.995:
        return f"{ratio:,.1f} × {more}"
    if time and 0 < ratio <= 1 / 1.995:
        return f"{1 / ratio:,.1f} × {less}"
    share = 100 * abs(ratio - 1.0)
    return f"{share:.{1 if share < 9.95 else 0}f}% {more if ratio > 1 else less}"


def side_names(left: str, right: str, room: int = 48) -> tuple[str, str]:
    """Leave out what the names of both sides begin with in common, and shorten each to ``room`` characters."""
    at = 0
    for separators in ("/", "/-_"):
        if at == 0 or len(left) + len(right) > room:
            common = next((i for i, (a, b) in enumerate(zip(left, right, strict=False)) if a != b), 0)
            at = max((left.rfind(mark, 0, common) + 1 for mark in separators), default=0)
    if "," in left + right:
        at = 0
    return _within(left[at:] or left, room), _within(right[at:] or right, room)


def _within(text: str, room: int) -> str:
    half = room // 2
    return text if len(text) <= room else f"{text[: half - 1]}…{text[-half:]}"
