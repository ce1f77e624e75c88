"""Charts of the query profile: pure functions from what the engine's detail holds to lines."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from engine import units
from tui.glyphs import Glyphs
from tui.widgets.drawing.bars import Bar, bar, bars
from tui.widgets.drawing.fragments import Fragment, Line, fit, fit_line
from tui.widgets.drawing.plot import Mark, Series, histogram, plot, spark

if TYPE_CHECKING:
    from engine.query_profile.insight.whatif import Saving
    from engine.query_profile.result.detail import Drill, Fit
    from engine.tables import Kind
    from tui.widgets.table.window import Cell

LABELS = {"default": "time + calls", "wlr": "WLR", "ols": "OLS", "nnls": "NNLS", "ratio": "global ratio"}


def share_cell(cell: Cell) -> Sequence[Fragment]:
    """A share of the CPU: percent, then a bar against the largest."""
    if cell.value is None:
        return [(units.NOTHING.rjust(7), "dim")]
    label = fit(units.text("percent", cell.value, 7), 7, "right")
    return [(label + " ", ""), (bar(cell.value, cell.peak(cell.name), cell.width - 8, cell.glyphs), "bar")]


def trend_cell(cell: Cell) -> Sequence[Fragment]:
    """A sparkline from 0; all rows share the time axis."""
    return [(spark(cell.value or [], cell.width, cell.glyphs, low=0.0), "bar2")]


def disagree_cell(cell: Cell) -> Sequence[Fragment]:
    """How far the methods differ; a lot stands out."""
    if cell.value is None:
        return [(units.NOTHING.rjust(cell.width), "dim")]
    style = "severe" if cell.value >= 10 else "moderate" if cell.value >= 3 else "dim"
    sign = cell.glyphs.severity["moderate"] + " " if cell.value >= 3 else ""
    return [((sign + units.text("percent", cell.value, 7)).rjust(cell.width), style)]


def over_time(found: Drill, width: int, height: int, glyphs: Glyphs) -> list[Line]:
    """Time and CPU of the class over the window."""
    kind: Kind = "time_ms" if found.timed else "count"
    series = [
        Series(found.at, found.time_ms, "time", "bar2", dashed=True),
        Series(found.at, found.cpu_ms, "CPU", "bar"),
    ]
    return plot(series, width, height, glyphs, x_kind=kind, y_kind="ms")


def scatter(found: Drill, width: int, height: int, glyphs: Glyphs) -> list[Line]:
    """WLR's points of the class, its share of CPU over its time, with the line fitted through them and the diagonal."""
    xs = found.scatter_x
    if not xs:
        return [fit_line([("no interval has both this class and a CPU sample", "dim")], width)]
    top = max(xs)
    reach = max(top, max(found.scatter_z))
    series = [Series(xs, found.scatter_z, "share of CPU over time (WLR)", "bar", points=True)]
    ends = [0.0, top]
    if math.isfinite(found.slope) and math.isfinite(found.intercept_ms):
        line = [found.intercept_ms + found.slope * x for x in ends]
        series.append(Series(ends, [max(value, 0.0) for value in line], "fit", "mark"))
    both = min(top, reach)
    series.append(Series([0.0, both], [0.0, both], "1:1", "dim", dashed=True))
    return plot(series, width, height, glyphs, x_kind="ms", y_kind="ms", x_span=(0.0, top * 1.02 or 1.0))


def methods(found: Drill, width: int, glyphs: Glyphs) -> list[Line]:
    """The class' CPU by every method, side by side."""
    rows = [Bar(LABELS.get(name, name), value, units.text("s", value, 9)) for name, value in found.by_method]
    return bars(rows, width, glyphs) if rows else []


def actual(found: Fit, width: int, height: int, glyphs: Glyphs) -> list[Line]:
    """Actual against predicted at 1:1."""
    if not found.actual_s:
        return [fit_line([("no interval can be used", "dim")], width)]
    top = max(max(found.actual_s), max(found.predicted_s)) * 1.02 or 1.0
    series = [
        Series([0.0, top], [0.0, top], "1:1", "dim", dashed=True),
        Series(found.actual_s, found.predicted_s, "predicted over actual", "bar", points=True),
    ]
    return plot(series, width, height, glyphs, x_kind="s", y_kind="s", x_span=(0.0, top), y_span=(0.0, top))


def residuals(found: Fit, width: int, height: int, glyphs: Glyphs) -> list[Line]:
    """Residuals in percent over the window."""
    kind: Kind = "time_ms" if found.timed else "count"
    return plot(
        [Series(found.at, found.residual, "predicted - actual, % of actual", "bar")],
        width, height, glyphs, x_kind=kind, y_kind="percent", rules=[Mark(0.0, "", "dim")],
    )  # fmt: skip


def residual_histogram(found: Fit, width: int, height: int, glyphs: Glyphs) -> list[Line]:
    """How residuals are spread."""
    return histogram(found.edges, found.counts, width, height, glyphs, kind="percent", marks=[Mark(0.0, "0", "mark")])


def saving_lines(
    saved: Saving | None, name: str, faster: float, drop: bool, resource: str, glyphs: Glyphs
) -> list[tuple[str, str, str]]:
    """Facts about a what-if."""
    if saved is None:
        return [("Nothing is attributed to this class, so nothing can be saved.", "", "low")]

    def seconds(value: float) -> str:
        return units.text("s", value / 1e6, 12)

    facts = [
        (f"{name}: {'dropped' if drop else f'{faster:g} times faster'}", "", "title"),
        (f"{resource} saved", seconds(saved.saved), "ok"),
    ]
    if math.isfinite(saved.low):
        facts.append(("interval", f"{seconds(saved.low)} to {seconds(saved.high)}", ""))
    if math.isfinite(saved.before):
        percent = [units.text("percent", share * 100, 8) for share in (saved.before, saved.after)]
        facts.append(("utilisation of all CPUs", f"{percent[0]} {glyphs.arrow} {percent[1]}", ""))
    else:
        facts.append(("utilisation of all CPUs", "not known: no file tells times and how many CPUs there are", "dim"))
    if math.isfinite(saved.latency_factor):
        facts.append(("latency of the others", f"x {saved.latency_factor:.3f} (approximation)", ""))
    return facts


def fact_rows(found: Drill) -> list[tuple[str, str, str]]:
    """The facts of a class as label, text, style."""
    rows: list[tuple[str, str, str]] = [(found.label, "", "title")]
    for label, value, kind in found.facts:
        rows.append((label, str(value) if kind == "text" else units.text(kind, value, 14), ""))  # type: ignore[arg-type]
    return rows


def summary_rows(row: dict[str, Any]) -> list[tuple[str, str, str]]:
    """The row under the cursor for the panel beside the table."""
    rows: list[tuple[str, str, str]] = [(str(row["name"]), "", "title")]
    for label, key, kind in (
        ("CPU", "cpu_s", "s"),
        ("from - to (s)", "range_s", "text"),
        ("share of all CPU", "cpu_share", "percent"),
        ("time", "time_s", "s"),
        ("share of all time", "time_share", "percent"),
        ("calls", "calls", "count"),
        ("latency", "latency_ms", "ms"),
        ("CPU per time", "cost_per_time", "number"),
        ("CPU per call", "cost_per_call_ms", "ms"),
        ("methods disagree by", "disagreement", "percent"),
        ("rows", "rows", "count"),
        ("IO", "io_s", "s"),
        ("errors", "errors", "count"),
        ("flag", "flag", "text"),
        ("user", "user", "text"),
        ("database", "database", "text"),
        ("query id", "queryid", "text"),
        ("query", "query", "text"),
    ):
        value = row.get(key)
        if value not in (None, ""):
            rows.append((label, str(value) if kind == "text" else units.text(kind, value, 14), ""))  # type: ignore[arg-type]
    return rows
