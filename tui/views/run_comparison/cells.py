"""Draw cells of the run comparison's tables, and shorten names that tell one metric from the next."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from engine.core import units
from tui.widgets.drawing.fragments import Fragment, cut_left
from tui.widgets.table.window import Cell

if TYPE_CHECKING:
    import polars as pl

VERDICT_STYLE = {"different": "moderate", "equivalent": "ok", "undecided": "dim", "missing": "low"}
_PERCENTILE = re.compile(r"Perc([0-9.]+)")


def effect_style(row: Mapping[str, Any]) -> str:
    """Return the style of a metric by what became of it: red only for the worse, green for the better."""
    if row.get("verdict") != "different" or row.get("muted"):
        return ""
    return {"better": "ok", "worse": "severe"}.get(row.get("effect") or "", "moderate")


def ratio_cell(cell: Cell) -> Sequence[Fragment]:
    """Draw the ratio with three digits, coloured by the verdict."""
    if cell.value is None:
        return [("–".rjust(cell.width), "dim")]
    return [(f"{cell.value:.3g}".rjust(cell.width), effect_style(cell.row))]


def means_cell(cell: Cell) -> Sequence[Fragment]:
    """Draw what the ratio compares, medians or else means of both sides, with their unit: ``195 → 405 ms``."""
    statistical = cell.row.get("median_left") is not None and cell.row.get("median_right") is not None
    left, right = (cell.row.get(f"{'median' if statistical else 'mean'}_{side}") for side in ("left", "right"))
    if left is None or right is None:
        return [("", "")]
    left, right, unit = _in_small_units(left, right, str(cell.row.get("unit") or ""))
    texts = [
        f"{value:.1e}" if 0 < abs(value) < 1e-3 else units.text("number", value, 5).strip() for value in (left, right)
    ]
    text = f"{texts[0]}{cell.glyphs.arrow}{texts[1]}"
    for shown in (unit, unit.partition("/")[0]):  # per operation goes without saying where there is no room
        if len(text) + len(shown) < cell.width:
            return [(f"{text} {shown}".rstrip().rjust(cell.width), "")]
    return [(text.rjust(cell.width), "")]


SMALLER = {"s": "ms", "sec": "ms", "ms": "µs", "us": "ns", "µs": "ns"}
"""Units of time and the next smaller ones, a thousandth each."""


def _in_small_units(left: float, right: float, unit: str) -> tuple[float, float, str]:
    """Return two times below 1 in a smaller unit: ``0.0003 ms`` as ``300 ns``; anything else as it is."""
    time, slash, per = unit.partition("/")
    while 0 < max(abs(left), abs(right)) < 0.1 and time in SMALLER:
        left, right, time = left * 1000, right * 1000, SMALLER[time]
    return left, right, f"{time}{slash}{per}"


def change_cell(cell: Cell) -> Sequence[Fragment]:
    """Draw a relative change as a percentage with its sign."""
    text = "–" if cell.value is None else f"{cell.value * 100:+.3g} %"
    return [(text.rjust(cell.width), "" if cell.value is not None else "dim")]


def share_cell(cell: Cell) -> Sequence[Fragment]:
    """Draw a share as a percentage."""
    text = "–" if cell.value is None else f"{cell.value * 100:.3g} %"
    return [(text.rjust(cell.width), "" if cell.value is not None else "dim")]


def influence_cell(cell: Cell) -> Sequence[Fragment]:
    """Draw the change of the matched share in percentage points, with its sign."""
    if cell.value is None:
        return [("", "")]
    points = cell.value * 100
    return [((f"{points:+.2f} pp" if round(points, 2) else "0").rjust(cell.width), "" if round(points, 2) else "dim")]


def interval_cell(cell: Cell) -> Sequence[Fragment]:
    """Draw the interval of the ratio; none where there are too few values."""
    low, high = cell.row.get("ratio_low"), cell.row.get("ratio_high")
    if low is None or high is None:
        return [("", "")]
    return [(f"{low:.2g} to {high:.2g}", "")] if high != float("inf") else [("none", "dim")]


def verdict_cell(cell: Cell) -> Sequence[Fragment]:
    """Draw the verdict with a mark for its level: worse or better where it is different; a change inside the margin is marked."""
    if cell.row.get("muted"):
        return [("  muted", "dim")]
    word = str(cell.value or "")
    style = VERDICT_STYLE.get(word, "")
    if word == "different":
        style = effect_style(cell.row)
        word = str(cell.row.get("effect") or word)
    sign = cell.glyphs.severity.get(style if style != "dim" else "", " ")
    if word == "equivalent" and cell.row.get("changed"):
        style, sign = "low", cell.glyphs.severity["low"]
    return [(f"{sign} ", style), (word, style)]


def bucket_cell(cell: Cell) -> Sequence[Fragment]:
    """Draw ``p99`` for Perc99, any other bucket by its name."""
    text = str(cell.value or "")
    found = _PERCENTILE.fullmatch(text)
    return [(f"p{found[1]}" if found else text, "")]


def group_cell(cell: Cell) -> Sequence[Fragment]:
    """Draw a group's label, or that its metrics have none."""
    return [(str(cell.value), "")] if cell.value else [("(none)", "dim")]


def short_ends(names: Iterable[str]) -> dict[str, str]:
    """Return the shortest end of each name, in pieces between ``_``, that no other name ends with.

    ``simple_load`` for ``APIResponsivenessPrometheus_simple_load`` where there is a ``load`` as well.
    """
    known = sorted(set(names))
    pieces = {name: name.split("_") for name in known}
    holders: dict[tuple[str, ...], int] = {}
    for parts in pieces.values():
        for size in range(1, len(parts) + 1):
            end = tuple(parts[-size:])
            holders[end] = holders.get(end, 0) + 1
    found = {}
    for name, parts in pieces.items():
        ends = (tuple(parts[-size:]) for size in range(1, len(parts) + 1))
        found[name] = next(("_".join(end) for end in ends if holders[end] == 1 and any(end)), name)
    return found


def named(frame: pl.DataFrame) -> pl.DataFrame:
    """Add a column ``name``: verb, resource/subresource, scope (unless it is ``resource``) and further labels.

    Labels that repeat verb or resource are left out, and what all metrics of a test share, labels or verb: it tells none from
    another, and what does would be cut for it.
    """
    import polars as pl

    def unless_empty(text: pl.Expr) -> pl.Expr:
        return pl.when(text != "").then(text)

    verb, resource, part = pl.col("verb"), pl.col("resource"), pl.col("subresource")
    scope, labels = pl.col("scope"), pl.col("metric")
    whole = pl.concat_str(resource, pl.when(part != "").then(pl.lit("/") + part).otherwise(pl.lit("")))
    several = pl.len().over("test") > 1
    shared = several & (labels.n_unique().over("test") == 1) & ((verb != "") | (whole != ""))
    spare = (labels == resource) | (labels == verb) | shared
    pieces = [
        unless_empty(pl.when(~(several & (verb.n_unique().over("test") == 1) & (whole != ""))).then(verb)),
        unless_empty(whole),
        pl.when(scope != "resource").then(unless_empty(scope)),
        pl.when(~spare).then(unless_empty(labels)),
    ]
    return frame.with_columns(pl.concat_str(pieces, separator=" ", ignore_nulls=True).alias("name"))


def test_cell(shorts: Mapping[str, str], cell: Cell) -> Sequence[Fragment]:
    """Draw the shortest end of a test's name that differs from the others."""
    text = str(cell.value or "")
    return [(cut_left(shorts.get(text, text), cell.width, cell.glyphs.ellipsis), "")]
