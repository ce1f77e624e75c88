"""The upper half of the overview: per view its headline, trend, age, problems and worst findings, as lines with a cursor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from engine.core import units
from tui.widgets.drawing.fragments import Line, cells, fit, harmless, width_of
from tui.widgets.drawing.plot import spark
from tui.widgets.pick import PickList

if TYPE_CHECKING:
    from engine.core.result import Headline, Level
    from tui.glyphs import Glyphs
    from tui.overview.briefs import Brief

TITLE, AGE, PROBLEMS = 15, 7, 5
"""Cells for the title of a view, the age of its data and the number of its problems."""
HISTORY = 120
"""Values of a number that are remembered where the files tell only the newest one."""


@dataclass
class Row:
    """What is known of one view: ``brief`` of its newest result, or ``state``, why there is none; ``empty``: for want of data."""

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
        if brief.trend is not None and len(brief.trend.values) == 1:
            self.history = [*self.history, *brief.trend.values][-HISTORY:]

    @property
    def trend(self) -> Sequence[float | None]:
        """Return the development of the view's chief number, as its files or this session know it."""
        trend = self.brief.trend if self.brief is not None else None
        return () if trend is None else trend.values if len(trend.values) > 1 else self.history

    @property
    def worst(self) -> str:
        """Return the worst level of its findings."""
        return self.brief.worst[0].level if self.brief is not None and self.brief.worst else ""


Target = tuple[str, tuple[str, tuple[Any, ...]] | None]
"""Where a line leads: a view, and a row of one of its result tables."""


def lines_of(row: Row, width: int, findings: int, now_s: float, glyphs: Glyphs) -> list[tuple[Line, Target]]:
    """Return the lines of one view, at most ``findings`` of them on findings, each with where it leads."""
    brief = row.brief
    to_view: Target = (row.name, None)
    title = [(f" {fit(row.title, TITLE, ellipsis=glyphs.ellipsis)} ", "title" if brief is not None else "dim")]
    if brief is None:
        state = [*title, (row.state, row.level or "dim")]
        reads = [(" " * (TITLE + 2), ""), (f"reads {row.reads}", "dim")]
        return [(state, to_view), (reads, to_view)]
    right = _right(row, brief, width, now_s, glyphs)
    room = max(width - width_of(title) - width_of(right), 0)
    numbers = _numbers(brief.headline, room, glyphs)
    first: Line = [*title, *numbers, (" " * (room - width_of(numbers)), ""), *right]
    lines: list[tuple[Line, Target]] = [(first, to_view)]
    for place, finding in enumerate(brief.worst[:findings]):
        new = glyphs.point if finding.subject in row.unseen else " "
        count = f"{brief.number:,} finding{'s' if brief.number > 1 else ''}" if place == 0 else ""
        head = f" {fit(count, TITLE, ellipsis=glyphs.ellipsis)} "
        mark = f"{new}{glyphs.severity[finding.level]} "
        line: Line = [(head, "dim"), (mark, finding.level), (f"{finding.subject}: ", finding.level), (finding.text, "")]
        lines.append((line, (row.name, finding.row)))
    return lines


def _numbers(headline: Sequence[Headline], room: int, glyphs: Glyphs) -> Line:
    """Return as many headline numbers as fit: if not all do, the first one, which says what is there, then the worst, in short
    where there is no room for more."""
    parts = [_part(number.label, number.value, number.level, glyphs) for number in headline]
    if sum(map(width_of, parts)) > room:
        order = sorted(range(len(parts)), key=lambda place: (place > 0, -max(units.rank(headline[place].level), 2)))
        left, fitting = room, {}
        for place in order:
            number = headline[place]
            short = [_part(*number.short, number.level, glyphs)] if number.short is not None else []
            part = next((part for part in (parts[place], *short) if width_of(part) <= left), None)
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
    label = f"{brief.trend.label} " if drawn and brief.trend is not None and width >= 100 else ""
    space = " " * (size - cells(drawn))
    age = units.age(now_s - brief.newest_ms / 1000) if brief.newest_ms is not None else ""
    problems = f"!{brief.problems:,}" if brief.problems else ""
    return [
        (space, ""),
        (harmless(label), "dim"),
        (drawn, "bar"),
        (fit(age, AGE, "right"), "dim"),
        (fit(problems, PROBLEMS, "right"), "severe"),
    ]


class ViewRows(PickList):
    """The lines of all views. Enter posts ``Picked``; ``targets`` tells where each line leads."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.rows: Sequence[Row] = ()
        self.targets: list[Target] = []
        self.findings = 1
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

    @property
    def height(self) -> int:
        """Return the number of lines."""
        return len(self.items)
