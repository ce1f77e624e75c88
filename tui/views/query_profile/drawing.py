"""Draw the charts and facts of the query profile: pure functions from the engine's detail to lines."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from engine.core import units
from tui.glyphs import Glyphs
from tui.views.shared.cells import named, number, trend
from tui.widgets.drawing.bars import Bar, bar, bars
from tui.widgets.drawing.fragments import Fragment, Line, fit_line
from tui.widgets.drawing.fragments import fit as fit_text
from tui.widgets.drawing.plot import Mark, Series, histogram, plot
from tui.widgets.facts import Fact
from tui.widgets.table.window import as_listed, lined_up, peak_of

if TYPE_CHECKING:
    import polars as pl

    from engine.core.tables import Kind
    from engine.query_profile.insight.profile import Saving
    from engine.query_profile.result.detail import Drill, Fit
    from tui.widgets.table.window import Cell, Renderer

LABELS = {"default": "time + calls", "wlr": "WLR", "ols": "OLS", "nnls": "NNLS", "ratio": "global ratio"}
"""Names of the methods in charts."""

MUCH, SOME = 10, 3  # percent of all CPU from which methods that disagree are marked


def share_cell(cell: Cell) -> Sequence[Fragment]:
    """Draw a share of the CPU as a bar relative to the largest, and its number. Where the share has an interval, the bar is full
    up to its lower end, shaded up to the share, and lightly shaded up to its upper end."""
    if cell.value is None:
        return [(units.NOTHING.rjust(cell.width), "dim")]
    number = (fit_text(f"{cell.value:.1f}", 6, "right"), "")
    width = cell.width - 6
    low, share, high = (
        units.finite(value) for value in (cell.row.get("cpu_share_low"), cell.value, cell.row.get("cpu_share_high"))
    )
    top = max(cell.peak(cell.name), cell.peak("cpu_share_high"))
    if low is None or share is None or high is None or not top > 0:
        return [(bar(cell.value, top, width, cell.glyphs), "bar"), number]
    ends = [round(min(max(value / top, 0.0), 1.0) * width) for value in (low, share, high)]
    light, medium = cell.glyphs.shades[1], cell.glyphs.shades[2]
    drawn = cell.glyphs.eighths[-1] * ends[0] + medium * (ends[1] - ends[0]) + light * (ends[2] - ends[1])
    return [(drawn.ljust(width), "bar"), number]


def disagree_cell(cell: Cell) -> Sequence[Fragment]:
    """Draw how far the methods differ; large differences stand out."""
    value = cell.value or 0
    style, sign = "dim", ""
    if value >= SOME:
        style, sign = "severe" if value >= MUCH else "moderate", cell.glyphs.severity["moderate"] + " "
    return number(lambda value: sign + units.text("percent", value, 7), style)(cell)


def change_cell(cell: Cell) -> Sequence[Fragment]:
    """Draw a change with its sign: red or green only where the interval is on one side of 0."""
    if cell.value is None:
        return [(units.NOTHING.rjust(cell.width), "dim")]
    text = ("+" if cell.value > 0 else "") + lined_up(cell, "number", cell.value, cell.width - 1)
    style = "" if not cell.row.get("y_change_sure") else "severe" if cell.value > 0 else "ok"
    return [(fit_text(text, cell.width, "right"), style)]


STATEMENT = named({})  # a statement is cut at its end, unlike other names: its beginning says what it does


def span(high: str, of: str) -> Renderer:
    """Return a renderer of an interval from the column's value to ``high``, with the decimals of column ``of``."""

    def render(cell: Cell) -> Sequence[Fragment]:
        ends = [
            shown("number", value, cell.peak(of)) for value in (cell.value, cell.row.get(high)) if value is not None
        ]
        return [(" to ".join(ends) or units.NOTHING, "")]

    return render


def shown(kind: Kind, value: float, peak: float) -> str:
    """Return a value with the unit and the decimals of a column with this peak."""
    return units.aligned(kind, value, peak) or units.text(kind, value)


CLASS_CELLS: Mapping[str, Renderer] = {
    "name": STATEMENT, "cpu_share": share_cell, "trend": trend, "disagreement": disagree_cell,
    "low_s": span("high_s", "cpu_s"),
}  # fmt: skip
INTERVAL_CELLS: Mapping[str, Renderer] = {"window": named({"now": "bar", "before": "bar2"}, "dim")}
COMPARISON_CELLS: Mapping[str, Renderer] = {
    "name": STATEMENT,
    "y_change_ms": change_cell,
    "y_change_low_ms": span("y_change_high_ms", "y_change_ms"),
}


def over_time(drill: Drill, width: int, height: int, glyphs: Glyphs) -> list[Line]:
    """Draw time and CPU of the class over the window."""
    kind: Kind = "time_ms" if drill.timed else "count"
    series = [
        Series(drill.at, drill.time_ms, "time", "bar2", dashed=True),
    ]
    if any(drill.cpu_ms):
        series.append(Series(drill.at, drill.cpu_ms, "CPU", "bar"))
    return plot(series, width, height, glyphs, x_kind=kind, y_kind="ms")


def scatter(drill: Drill, width: int, height: int, glyphs: Glyphs) -> list[Line]:
    """Draw WLR's points of the class, its share of CPU over its time, with the fitted line and the diagonal."""
    xs = drill.scatter_x
    if not xs:
        return [fit_line([("no interval has both this class and a CPU sample", "dim")], width)]
    top = max(xs)
    reach = max(top, max(drill.scatter_z))
    series = [Series(xs, drill.scatter_z, "share of CPU over time (WLR)", "bar", points=True)]
    ends = [0.0, top]
    if math.isfinite(drill.slope) and math.isfinite(drill.intercept_ms):
        line = [drill.intercept_ms + drill.slope * x for x in ends]
        series.append(Series(ends, [max(value, 0.0) for value in line], "fit", "mark"))
    both = min(top, reach)
    series.append(Series([0.0, both], [0.0, both], "1:1", "dim", dashed=True))
    return plot(series, width, height, glyphs, x_kind="ms", y_kind="ms", x_span=(0.0, top * 1.02 or 1.0))


def methods(drill: Drill, width: int, height: int, glyphs: Glyphs) -> list[Line]:
    """Draw the class' CPU by every method, side by side."""
    rows = [
        Bar(LABELS.get(name, name), value, f"{shown('number', value, drill.peak_s)} s")
        for name, value in drill.by_method
    ]
    return bars(rows, width, glyphs) if rows else []


def actual(fit: Fit, width: int, height: int, glyphs: Glyphs) -> list[Line]:
    """Draw predicted over actual, with the diagonal."""
    if not fit.actual_s:
        return [fit_line([("no interval can be used", "dim")], width)]
    top = max(max(fit.actual_s), max(fit.predicted_s)) * 1.02 or 1.0
    series = [
        Series([0.0, top], [0.0, top], "1:1", "dim", dashed=True),
        Series(fit.actual_s, fit.predicted_s, "predicted over actual", "bar", points=True),
    ]
    return plot(series, width, height, glyphs, x_kind="s", y_kind="s", x_span=(0.0, top), y_span=(0.0, top))


def residuals(fit: Fit, width: int, height: int, glyphs: Glyphs) -> list[Line]:
    """Draw residuals in percent over the window."""
    kind: Kind = "time_ms" if fit.timed else "count"
    return plot(
        [Series(fit.at, fit.residual, "predicted - actual, % of actual", "bar")],
        width, height, glyphs, x_kind=kind, y_kind="percent", rules=[Mark(0.0, "", "dim")],
    )  # fmt: skip


def residual_histogram(fit: Fit, width: int, height: int, glyphs: Glyphs) -> list[Line]:
    """Draw the distribution of the residuals."""
    return histogram(fit.edges, fit.counts, width, height, glyphs, kind="percent", marks=[Mark(0.0, "0", "mark")])


def saving_lines(
    saved: Saving | None, name: str, faster: float, drop: bool, resource: str, peak_s: float, glyphs: Glyphs
) -> list[Fact]:
    """List the facts of a what-if as text, value, style."""
    if saved is None:
        return [("Nothing is attributed to this class, so nothing can be saved.", "", "low")]

    def seconds(value: float) -> str:
        return f"{shown('number', value / 1e6, peak_s)} s"

    before, after = (units.percent(share * 100) for share in (saved.utilisation, saved.utilisation_after))
    used = (
        (f"{before} {glyphs.arrow} {after}", "")
        if math.isfinite(saved.utilisation)
        else ("not known: no file tells times and how many CPUs there are", "dim")
    )
    span = f"{seconds(saved.saved_low)} to {seconds(saved.saved_high)}" if math.isfinite(saved.saved_low) else None
    slower = f"x {saved.latency_factor:.3f} (approximation)" if math.isfinite(saved.latency_factor) else None
    return [
        (f"{name}: {'dropped' if drop else f'{faster:g} times faster'}", "", "title"),
        (f"{resource} saved", seconds(saved.saved), "ok"),
        ("interval", span, ""),
        ("utilisation of all CPUs", *used),
        ("latency of the others", slower, ""),
    ]


SUMMARY = (
    ("CPU", "cpu_s"), ("CPU s from-to", "low_s"), ("active CPUs", "active_cpus"), ("CPU share", "cpu_share"),
    ("time", "time_s"), ("time share", "time_share"), ("calls", "calls"), ("latency", "latency_ms"),
    ("model: CPU per time", "cost_per_time"), ("model: CPU per call", "cost_per_call_ms"),
    ("methods disagree by", "disagreement"), ("rows", "rows"), ("IO", "io_s"), ("locks", "lock_s"), ("errors", "errors"),
    ("flag", "flag"), ("user", "user"), ("database", "database"), ("query id", "queryid"), ("query", "query"),
)  # fmt: skip
"""Label and column of the panel beside the table."""


def summary_rows(listing: pl.DataFrame, row: Mapping[str, Any]) -> list[Fact]:
    """List the values of a class of ``listing`` in the forms of the table."""
    from engine.query_profile.result.detail import LISTING

    peak = peak_of(listing, "cpu_s")
    known = [(label, name) for label, name in SUMMARY if row.get(name) not in (None, "")]
    of_row = {name: as_listed(LISTING.column(name), listing, row[name], label) for label, name in known}
    if "low_s" in of_row:
        of_row["low_s"] = " to ".join(shown("number", row[end], peak) for end in ("low_s", "high_s"))
    return [(str(row["name"]), "", "title"), *((label, of_row[name], "") for label, name in known)]
