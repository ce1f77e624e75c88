"""Draw the samples of a metric: both distributions, and the series over the runs."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from textual.app import ComposeResult
from textual.containers import Container

from tui.glyphs import Glyphs
from tui.widgets.drawing.fragments import Line
from tui.widgets.drawing.plot import Mark, PlotView, Series, ecdf, histogram, plot

if TYPE_CHECKING:
    from engine.core.tables import Kind

KINDS: Mapping[str, Kind] = {"ms": "ms", "bytes": "bytes", "B/s": "bytes_per_s", "%": "percent"}
"""How values of a unit are formatted."""


class MetricPlots(Container, can_focus=True):
    """Show both distributions of a metric above its series over the runs."""

    SCOPED_CSS = False
    DEFAULT_CSS = """
    MetricPlots { height: 2fr; }
    MetricPlots > PlotView { height: 1fr; }
    .-short MetricPlots > #series, .-tiny MetricPlots > #series { display: none; }
    """

    def compose(self) -> ComposeResult:
        """Compose the two plots."""
        yield PlotView(id="distribution")
        yield PlotView(id="series")

    def show(self, detail: Any, row: Mapping[str, Any] | None, bars: bool) -> None:
        """Draw the metric of ``row``; nothing without one. ``bars``: a histogram instead of distribution functions."""
        distribution, series = self.query_one("#distribution", PlotView), self.query_one("#series", PlotView)
        if row is None or detail is None:
            distribution.show(None)
            series.show(None)
            return
        kind = KINDS.get(str(row["unit"]), "number")
        number = row["row"]
        left, right = detail.sample(number)
        if bars:
            distribution.show(partial(_histogram, detail, number, kind))
        else:
            samples = [("left", left.tolist(), "bar"), ("right", right.tolist(), "bar2")]
            distribution.show(partial(_ecdf, [s for s in samples if s[1]], kind))
        places, values, sides = (part.tolist() for part in detail.series(number))
        changes = detail.change_points(number)
        marks = [Mark(float(at), "change") for at in (changes.positions if changes is not None else ())]
        series.show(partial(_series, places, values, sides, marks, kind))


def _ecdf(samples: Any, kind: Kind, width: int, height: int, glyphs: Glyphs) -> list[Line]:
    return ecdf(samples, width, height, glyphs, kind=kind) if samples else []


def _histogram(detail: Any, row: int, kind: Kind, width: int, height: int, glyphs: Glyphs) -> list[Line]:
    edges, left, right = detail.histogram(row, max(min(width // 3, 40), 4))
    return histogram(edges.tolist(), left.tolist(), width, height, glyphs, kind=kind, other=right.tolist())


def _series(
    places: list[float],
    values: list[float],
    sides: list[float],
    marks: list[Mark],
    kind: Kind,
    width: int,
    height: int,
    glyphs: Glyphs,
) -> list[Line]:
    drawn = []
    for side, name, style, shape in ((0, "left", "bar", "o"), (1, "right", "bar2", "x")):
        points = [(x, y) for x, y, of in zip(places, values, sides, strict=True) if of == side]
        if points:
            drawn.append(Series([x for x, _ in points], [y for _, y in points], name, style, points=True, shape=shape))
    return plot(drawn, width, height, glyphs, x_kind="count", y_kind=kind, marks=marks, zero=False)
