"""The overview on screen: the views above, what changed and all findings below."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.message import Message

from engine.core import units
from tui.actions import bindings
from tui.views.shared.sections import Fit
from tui.widgets.drawing.canvas import Frame
from tui.widgets.drawing.fragments import Line, cells, cut, fit, harmless, width_of
from tui.widgets.drawing.plot import spark
from tui.widgets.pick import PickList
from tui.widgets.sections import on_screen
from tui.widgets.table.table import LiveTable

if TYPE_CHECKING:
    from engine.core.view import Finding, Headline, Level
    from engine.findings.events import Feed
    from tui.glyphs import Glyphs
    from tui.overview.briefs import Brief


TITLE, AGE, PROBLEMS = 15, 7, 5  # cells for the title of a view, the age of its data and the number of its problems
HISTORY = 120  # values of a number that are remembered if the files tell only the newest one


@dataclass
class Row:
    """What is known of one view: ``brief`` of its newest result, or ``state``, why there is none; ``empty``: because there
    are no data."""

    name: str
    title: str
    reads: str
    state: str = ""
    level: str = ""
    files: int = 0
    empty: bool = False
    brief: Brief | None = None
    unseen: set[str] = field(default_factory=set)
    history: list[float | None] = field(default_factory=list)

    def take(self, brief: Brief) -> None:
        """Take a newer brief."""
        self.brief, self.state, self.empty = brief, "", False
        trend = brief.result.trend
        if trend is not None and len(trend.values) == 1:
            self.history = [*self.history, *trend.values][-HISTORY:]

    @property
    def trend(self) -> Sequence[float | None]:
        """Return the development of the view's chief number, as its files or this session know it."""
        trend = self.brief.result.trend if self.brief is not None else None
        return () if trend is None else trend.values if len(trend.values) > 1 else self.history

    @property
    def worst(self) -> str:
        """Return the worst level of its findings."""
        return self.brief.worst[0].level if self.brief is not None and self.brief.worst else ""


Target = tuple[str, tuple[str, tuple[Any, ...]] | None]
"""Where a line leads: a view, and a row of one of its result tables."""


def lines_of(row: Row, width: int, findings: int, now_s: float, glyphs: Glyphs) -> list[tuple[Line, Target]]:
    """Return the lines of one view, each with where it leads: numbers, the most useful sentence, ``findings`` findings (one more
    without a sentence)."""
    brief = row.brief
    to_view: Target = (row.name, None)
    title = [(f" {fit(row.title, TITLE, ellipsis=glyphs.ellipsis)} ", "title" if brief is not None else "dim")]
    if brief is None:
        state = [*title, (row.state, row.level or "dim")]
        reads = [(" " * (TITLE + 2), ""), (f"reads {row.reads}", "dim")]
        return [(state, to_view), (reads, to_view)]
    from engine.findings.events import and_more

    right, answer = _right(row, brief, width, now_s, glyphs), brief.result.answer
    room = max(width - width_of(title) - width_of(right), 0)
    numbers = _numbers(brief.result.headline, room, glyphs)
    first: Line = [*title, *numbers, (" " * (room - width_of(numbers)), ""), *right]
    lines: list[tuple[Line, Target]] = [(first, to_view)]
    count = f"{brief.number:,} finding{'s' if brief.number > 1 else ''}" if brief.number else ""
    if answer:
        lines.append(([(f" {fit(count, TITLE)} ", "dim"), ("  " + harmless(answer), "")], to_view))
    for place, finding in enumerate(brief.worst[: findings if answer else findings + 1]):
        new = glyphs.point if finding.subject in row.unseen else " "
        head = f" {fit('' if place or answer else count, TITLE)} "
        mark = glyphs.severity[finding.level]
        named = f"{finding.subject}{and_more(finding.count - 1)}: "
        quiet = "severe" if finding.level == "critical" else finding.level  # the mark is loud enough
        line: Line = [(f"{head}{new}", "dim"), (mark, finding.level), (f" {named}", quiet), (finding.text, "")]
        lines.append((line, (row.name, finding.row)))
    return lines


def _numbers(headline: Sequence[Headline], room: int, glyphs: Glyphs) -> Line:
    """Return the headline numbers that fit. If not all do: the first one, which says what there is, then the worst, in their
    short form if need be. What is severe is cut rather than left out."""
    parts = [_part(number.label, number.value, number.level, glyphs) for number in headline]
    if sum(map(width_of, parts)) > room:
        order = sorted(range(len(parts)), key=lambda place: (place > 0, -max(units.rank(headline[place].level), 2)))
        left, fitting = room, {}
        for place, number in ((place, headline[place]) for place in order):
            forms = [parts[place], *([_part(*number.short, number.level, glyphs)] if number.short is not None else [])]
            if units.rank(number.level) >= units.rank("severe"):
                value = cut(number.value, left - width_of(parts[place]) + cells(number.value), glyphs.ellipsis)
                forms += [_part(number.label, value, number.level, glyphs)]
            part = next((part for part in forms if width_of(part) <= left), None)
            if part is not None:
                fitting[place] = part
                left -= width_of(part)
        parts = [part for _, part in sorted(fitting.items())]
    return [fragment for part in parts for fragment in part]


def _part(label: str, value: str, level: Level, glyphs: Glyphs) -> Line:
    """Return a headline number with its mark."""
    mark = f"{glyphs.severity[level]} " if level not in ("", "ok") else ""
    return [(harmless(f"{label} " if label else ""), "dim"), (harmless(f"{mark}{value}"), level or ""), ("  ", "")]


def _right(row: Row, brief: Brief, width: int, now_s: float, glyphs: Glyphs) -> Line:
    """Return trend, age and number of problems, at the right end of a view's first line."""
    size = 8 if width < 100 else 16 if width < 160 else 24
    drawn = spark(row.trend, size, glyphs) if len(row.trend) > 1 else ""
    result = brief.result
    label = f"{result.trend.label} " if drawn and result.trend is not None and width >= 100 else ""
    seconds = now_s - (result.newest_ms or 0) / 1000
    age = units.age(seconds // 5 * 5) if result.newest_ms is not None else ""  # each tick sends a piece of each line
    return [
        (" " * (size - cells(drawn)), ""),
        (harmless(label), "dim"),
        (drawn, "bar"),
        (fit(age, AGE, "right"), "dim"),
        (fit(f"!{len(result.problems):,}" if result.problems else "", PROBLEMS, "right"), "severe"),
    ]


class ViewRows(PickList):
    """The lines of all views. Enter posts ``Picked``; ``targets`` tells where each line leads."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.rows: Sequence[Row] = ()
        self.targets: list[Target] = []
        self.findings = 0
        self.now_s = 0.0

    def draw(self, rows: Sequence[Row], findings: int, now_s: float) -> None:
        """Show these rows instead; only cells that changed are sent."""
        self.rows, self.findings, self.now_s = rows, findings, now_s
        before = self._under_cursor()
        self.repaint()
        if before is not None and self._under_cursor() != before and before in self.targets:
            self.move(self.targets.index(before))

    def _under_cursor(self) -> Target | None:
        return self.targets[self.cursor] if self.cursor < len(self.targets) else None

    def content(self, width: int) -> list[Line]:
        """Return the lines of all rows."""
        made = [pair for row in self.rows for pair in lines_of(row, width, self.findings, self.now_s, self.glyphs)]
        self.items = [line for line, _ in made]
        self.targets = [target for _, target in made]
        self.cursor = max(min(self.cursor, len(made) - 1), 0)
        return self.items


LEAST = 8  # lines that are left for what is below the views


class OverviewPane(Frame):
    """The tab of all views."""

    BINDINGS: ClassVar[list[BindingType]] = [*bindings("overview")]
    DEFAULT_CSS = """
    OverviewPane { height: 1fr; width: 1fr; }
    OverviewPane > #ov-views { height: 10; }
    """

    @dataclass
    class Open(Message):
        """Asks to show a view, and perhaps a row of one of its tables."""

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
        yield Fit(events, findings, least=LEAST // 2, share=0.6)

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

        self._titles, self._feed, self._found = titles, feed, found
        self.tick(rows, now_s)
        self.query_one("#ov-events", LiveTable).show(events_frame(feed, titles), EVENTS)
        self.query_one("#ov-findings", LiveTable).show(findings_frame(found, titles), FINDINGS)

    def tick(self, rows: Sequence[Row], now_s: float) -> None:
        """Show the views; ``now_s`` (epoch seconds) tells the age of their data."""
        self._rows, self._now_s = rows, now_s
        lines = self.query_one(ViewRows)
        height = self.size.height
        lines.draw(rows, 0 if height < 30 else 1 if height < 40 else 2, now_s)
        lines.styles.height = max(min(len(lines.items), height - LEAST), 5)

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

    @on(LiveTable.Selected)
    def _row_opened(self, event: LiveTable.Selected) -> None:
        event.stop()
        titles = self._titles
        events = self._feed.events if self._feed is not None else ()
        lines: list[tuple[tuple[Any, ...], Target]] = [
            ((e.time_ms, titles.get(e.view, e.view), e.subject, e.change), (e.view, e.row)) for e in events
        ]
        lines += [((titles.get(view, view), each.subject), (view, each.row)) for view, each in self._found]
        target = next((target for key, target in lines if key == event.key), None)
        if target is not None:
            self.post_message(self.Open(target))

    def action_section(self, step: int) -> None:
        """Go to the next or previous part that is on screen: views, what changed, findings."""
        parts = [part for part in (self.query_one(ViewRows), *self.query(LiveTable)) if on_screen(part)]
        here = next((place for place, part in enumerate(parts) if part.has_focus), 0)
        parts[(here + step) % len(parts)].focus(scroll_visible=False)

    def action_back(self) -> None:
        """Go back to the views."""
        self.focus_content()
