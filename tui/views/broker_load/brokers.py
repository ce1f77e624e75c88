"""The first section: brokers by headroom, the worst loss, where the load comes from, and the history of one broker."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from textual import on
from textual.app import ComposeResult

from tui.views.broker_load import what_if
from tui.views.broker_load.cells import BROKER_CELLS, TOPIC_CELLS
from tui.views.broker_load.levels import broker_facts, group_facts
from tui.views.shared.overview import Overview
from tui.views.shared.pane import DetailPanel, ViewPane
from tui.widgets.drawing.canvas import Frame
from tui.widgets.drawing.plot import Mark, PlotView, Series, plot
from tui.widgets.facts import Facts
from tui.widgets.table.table import LiveTable

if TYPE_CHECKING:
    from engine.broker_load.result.regression_tables import Detail
    from engine.core.result import Result


class BrokersSection(Frame):
    """Brokers, hosts or racks with what explains them; ``grouping`` is the table shown."""

    SCOPED_CSS = False
    DEFAULT_CSS = """
    BrokersSection { layout: horizontal; }
    #bl-worst { height: 2; }
    #bl-top-topics { height: 1fr; }
    #bl-history { height: 1fr; display: none; }
    .-tall #bl-history { display: block; }
    """

    def __init__(self, view: str) -> None:
        super().__init__()
        self.view = view
        self.grouping = "brokers"
        self._result: Result | None = None
        self._threshold = 1.0

    def compose(self) -> ComposeResult:
        """Yield the tables with the facts beside."""
        brokers = LiveTable(
            name=f"{self.view}/brokers", id="bl-brokers", renderers=BROKER_CELLS, row_style=self._row_style
        )
        topics = LiveTable(name=f"{self.view}/top-topics", id="bl-top-topics", renderers=TOPIC_CELLS)
        yield Overview(brokers, (Facts(id="bl-worst"), topics, PlotView(id="bl-history")))
        yield DetailPanel(Facts(id="bl-broker-facts"), id="bl-broker-detail")

    def show(self, pane: ViewPane, result: Result, grouping: str) -> None:
        """Show a result: brokers that are not alive first, then those with the least headroom."""
        self._result, self.grouping = result, grouping
        self._threshold = pane.parameters.capacity_threshold("CPU")
        frame = result.tables.get(grouping)
        if frame is not None and grouping == "brokers":
            import polars as pl

            hottest = -pl.coalesce("cpu_pct", "measured_cpu_pct")  # without a model there is no headroom
            frame = frame.sort(
                pl.col("state") == "ALIVE", "headroom_pct", hottest, "broker", nulls_last=True, maintain_order=True
            )
            killed = pl.col("broker").is_in(list(result.summary.get("failed_brokers", ())))
            state = (
                pl.when(killed).then(pl.lit("FAILED")).otherwise("state")
            )  # marked where it stands, also without colour
            frame = frame.with_columns(state.alias("state"))
        pane.show_table("#bl-brokers", result, grouping, frame)
        pane.show_table("#bl-top-topics", result, "topics")
        topics = result.tables.get("topics")
        self.query_one("#bl-top-topics", LiveTable).display = topics is not None and topics.height > 0
        self.query_one("#bl-worst", Facts).show(what_if.worst_failure(result))
        self.refresh_facts()

    def is_killed(self, broker: object) -> bool:
        """Return whether the what-if lets this broker die."""
        return self._result is not None and broker in self._result.summary.get("failed_brokers", ())

    def _row_style(self, row: Mapping[str, Any]) -> str:
        """Return the style of a broker's row: killed, dead or on bad disks."""
        return "critical" if self.is_killed(row.get("broker")) else "" if _alive(row) else "severe"

    @on(LiveTable.Highlighted, "#bl-brokers")
    def refresh_facts(self) -> None:
        """Show what is known about the row under the cursor."""
        row = self.query_one("#bl-brokers", LiveTable).row
        facts = self.query_one("#bl-broker-facts", Facts)
        if row is None or self._result is None:
            facts.show([])
        elif self.grouping != "brokers":
            facts.show(group_facts(row, self.grouping))
        elif "source" in row:  # else the table still shows another grouping
            facts.show(broker_facts(row))
            self.query_one("#bl-history", PlotView).show(_chart(row, self._result.detail, self._threshold))


def _alive(row: Mapping[str, Any]) -> bool:
    return row.get("state") in ("ALIVE", None)


def _chart(row: Mapping[str, Any], detail: Detail | None, threshold: float) -> Callable[..., Any] | None:
    """Return what draws the measured CPU of broker ``row`` in % by window, with its capacity threshold (0 to 1); None without
    a history."""
    trend = row.get("cpu_trend") or ()
    if detail is None or len(trend) < 2 or len(detail.trend_ends) < len(trend):
        return None
    ends = detail.trend_ends[-len(trend) :]
    line = Series(ends, trend, f"CPU of broker {row['broker']} in % by window", "bar")
    limit = Mark(100.0 * threshold, "capacity threshold", "severe")
    return lambda width, height, glyphs: plot(
        [line], width, height, glyphs, x_kind="time_ms", y_kind="percent", rules=(limit,)
    )
