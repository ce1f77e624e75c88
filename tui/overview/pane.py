"""The overview on screen: the views above, what changed and all findings below."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.message import Message

from tui.actions import bindings
from tui.overview.rows import Row, Target, ViewRows
from tui.views.shared.sections import Fit
from tui.widgets.drawing.canvas import Frame
from tui.widgets.pick import PickList
from tui.widgets.sections import on_screen
from tui.widgets.table.table import LiveTable

if TYPE_CHECKING:
    from engine.core.result import Finding
    from engine.findings.events import Feed

LEAST = 8
"""Lines that are left for what is below the views."""


class OverviewPane(Frame):
    """The tab of all views."""

    BINDINGS: ClassVar[list[BindingType]] = [*bindings("overview")]
    DEFAULT_CSS = """
    OverviewPane { height: 1fr; width: 1fr; }
    OverviewPane > #ov-views { height: 10; }
    OverviewPane > Fit { border-top: hkey $panel; }
    .-ascii OverviewPane > Fit { border-top: ascii $panel; }
    """

    @dataclass
    class Open(Message):
        """A view, and perhaps a row of one of its tables, is to be shown."""

        target: Target

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._rows: Sequence[Row] = ()
        self._now_s = 0.0
        self._feed: Feed | None = None
        self._found: Sequence[tuple[str, Finding]] = ()
        self._titles: Mapping[str, str] = {}

    def compose(self) -> ComposeResult:
        """Yield the views, and below them what changed and all findings."""
        yield ViewRows(id="ov-views")
        events = LiveTable(name="overview/events", empty="nothing has changed since you last looked", id="ov-events")
        findings = LiveTable(name="overview/findings", empty="there are no findings", id="ov-findings")
        yield Fit(events, findings, least=LEAST // 2)

    # -- showing --------------------------------------------------------------------------------------------------------

    def show(
        self,
        rows: Sequence[Row],
        feed: Feed,
        found: Sequence[tuple[str, Finding]],
        titles: Mapping[str, str],
        now_s: float,
    ) -> None:
        """Show what is known of the views, the events and the findings (view and finding, worst first)."""
        from engine.findings.events import EVENTS, FINDINGS, events_frame, findings_frame

        self._titles = titles
        self.tick(rows, now_s)
        if feed is not self._feed:
            self._feed = feed
            self.query_one("#ov-events", LiveTable).show(events_frame(feed, titles), EVENTS)
        if found != self._found or not found:
            self._found = found
            self.query_one("#ov-findings", LiveTable).show(findings_frame(found, titles), FINDINGS)

    def tick(self, rows: Sequence[Row], now_s: float) -> None:
        """Show the views; ``now_s`` (epoch seconds) tells the age of their data."""
        self._rows, self._now_s = rows, now_s
        lines = self.query_one(ViewRows)
        height = self.size.height
        lines.draw(rows, 1 if height < 30 else 2 if height < 40 else 3, now_s)
        wanted = max(min(lines.height, height - LEAST), 5)
        if lines.styles.height is None or lines.styles.height.cells != wanted:
            lines.styles.height = wanted

    def on_resize(self) -> None:
        """Share the lines again."""
        if self._rows:
            self.tick(self._rows, self._now_s)

    def focus_content(self) -> None:
        """Focus the views."""
        self.query_one(ViewRows).focus(scroll_visible=False)

    # -- keys -----------------------------------------------------------------------------------------------------------

    @on(PickList.Picked)
    def _view_picked(self, event: PickList.Picked) -> None:
        event.stop()
        targets = self.query_one(ViewRows).targets
        if event.index < len(targets):
            self.post_message(self.Open(targets[event.index]))

    @on(LiveTable.Selected, "#ov-events")
    def _event_opened(self, event: LiveTable.Selected) -> None:
        event.stop()
        time_ms, title, subject, change = event.key
        for known in self._feed.events if self._feed is not None else ():
            same = (known.time_ms, known.subject, known.change) == (time_ms, subject, change)
            if same and self._titles.get(known.view, known.view) == title:
                self.post_message(self.Open((known.view, known.row)))
                return

    @on(LiveTable.Selected, "#ov-findings")
    def _finding_opened(self, event: LiveTable.Selected) -> None:
        event.stop()
        for view, finding in self._found:
            if (self._titles.get(view, view), finding.subject) == event.key:
                self.post_message(self.Open((view, finding.row)))
                return

    def action_section(self, step: int) -> None:
        """Go to the next or previous part that is on screen: views, what changed, findings."""
        parts = [part for part in (self.query_one(ViewRows), *self.query(LiveTable)) if on_screen(part)]
        here = next((place for place, part in enumerate(parts) if part.has_focus), 0)
        parts[(here + step) % len(parts)].focus(scroll_visible=False)

    def action_back(self) -> None:
        """Go back to the views."""
        self.focus_content()
