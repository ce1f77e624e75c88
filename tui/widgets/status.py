"""The lines around a tab's content: its headline numbers and notes; the state of the data, and the keys that do something."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING

from msgspec.structs import replace
from textual import events
from textual.message import Message

from engine.core import units
from tui.actions import Action, key_text
from tui.widgets.drawing.canvas import Canvas
from tui.widgets.drawing.fragments import Fragment, Line, cells, cut, fit_line, harmless, width_of

if TYPE_CHECKING:
    from engine.core.view import Headline


class StatusLine(Canvas):
    """One line; it is painted only where its text changed."""

    DEFAULT_CSS = "StatusLine { background: $panel; }"

    _shown: tuple[Sequence[Fragment], str, str] = ((), "", "")

    def show(self, facts: Sequence[Fragment], work: str = "", caption: str = "") -> None:
        """Show other facts, the most important first, the work under way, and the place in the focused table."""
        self._shown = facts, work, caption
        self.repaint()

    def paint(self, width: int, height: int) -> list[Line]:
        """Return the facts that fit, then the work under way; the table's place on the right."""
        facts, busy, place = self._shown
        ellipsis = self.glyphs.ellipsis
        line: Line = [(" ", "")]
        work: Line = [(cut(harmless(busy), width // 2, ellipsis), "mark"), ("  ", "")] if busy else []
        reserved = width_of(work)  # shown at any width: what is on screen is being computed
        for text, style in facts:
            text = harmless(text)
            if width_of(line) + cells(text) + 2 + reserved > width and len(line) > 1:
                break
            line += [(text, style), ("  ", "")]
        line += work
        room = width - width_of(line)
        caption = cut(harmless(place), max(room - 1, 0), ellipsis)
        if caption:
            line += [(" " * (room - cells(caption) - 1), ""), (caption, "dim")]
        return [line]


class KeyBar(Canvas):
    """One line of keys that do something here, in the order of the registry's ``bar`` ranks. They can be clicked."""

    shown: Sequence[tuple[str, Action]] = ()
    _ends: Sequence[tuple[int, Action]] = ()

    @dataclass
    class Clicked(Message):
        """An action was clicked."""

        action: Action

    def show(self, actions: Sequence[tuple[Action, str]]) -> None:
        """Show these actions instead, each with the key that runs it now."""
        ranked = sorted(actions, key=lambda pair: pair[0].bar)
        self.shown = tuple((key_text(key), action) for action, key in ranked if action.bar)
        self.repaint()

    def paint(self, width: int, height: int) -> list[Line]:
        """Return as many actions as fit; quit and help always."""
        last = [each for each in self.shown if each[1].title in ("Help", "Quit")]
        room = width - sum(_size(each) for each in last)
        others = [each for each in self.shown if each not in last]
        fitting = [*others[: bisect_right([*accumulate(map(_size, others))], room)], *last]
        self._ends = [(end, action) for end, (_, action) in zip(accumulate(map(_size, fitting)), fitting, strict=True)]
        return [[part for key, action in fitting for part in ((f" {key}", "key"), (f" {action.title} ", ""))]]

    def on_click(self, event: events.Click) -> None:
        """Post which action was clicked."""
        clicked = next((action for end, action in self._ends if event.x < end), None)
        if clicked is not None:
            self.post_message(self.Clicked(clicked))


def _size(shown: tuple[str, Action]) -> int:
    """Return the cells of an action in the key bar."""
    key, action = shown
    return cells(key) + cells(action.title) + 3


class HeadlineBar(Canvas):
    """Breadcrumbs of the drill-down, then ``label value (basis)`` for as many numbers as fit in the line.

    Numbers with a short form must be shown: they are shortened if not all fit, and if that is not enough, there are two lines
    (not in a drill-down, where breadcrumbs matter more).
    """

    numbers: Sequence[Headline] = ()
    _crumbs: Sequence[str] = ()
    _rows = 1

    def show(self, headline: Sequence[Headline]) -> None:
        """Show these numbers instead."""
        self.numbers = headline
        self.on_resize()

    def crumbs(self, crumbs: Sequence[str]) -> None:
        """Show the names of the open levels."""
        self._crumbs = crumbs
        self.on_resize()

    def on_resize(self) -> None:
        """Take one line, or two if the numbers that must be shown need them, and draw them."""
        width = self.size.width
        rows = 2 if width and not self._crumbs and len(self.paint(width, 2)) > 1 else 1
        if rows != self._rows:
            self._rows = rows
            self.styles.height = rows
        self.repaint()

    def paint(self, width: int, height: int) -> list[Line]:
        """Return the line or lines; see the class."""
        glyphs = self.glyphs
        first: Line = []
        for crumb in self._crumbs:
            first.append((f"{glyphs.arrow} {cut(harmless(crumb), max(width // 2, 8), glyphs.ellipsis)} ", "title"))
        wanted = max((i + 1 for i, number in enumerate(self.numbers) if number.short), default=0)
        lines, shown = self._spread(first, self.numbers, width, 1)
        if shown >= wanted:
            # A bad number is not left out for one that is fine: after the first, which says what there is, the worst ones,
            # if need be only the first of its parts.
            kept: list[tuple[int, Headline]] = []
            for place, number in sorted(
                enumerate(self.numbers), key=lambda each: (each[0] > 0, -max(units.rank(each[1].level), 2))
            ):
                start, comma, _ = number.value.partition(", ")
                forms = (number, replace(number, value=start + comma + glyphs.ellipsis)) if comma else (number,)
                tried = (sorted([*kept, (place, form)], key=lambda each: each[0]) for form in forms)
                kept = next(
                    (one for one in tried if self._spread(first, [n for _, n in one], width, 1)[1] == len(one)), kept
                )
            return self._spread(first, [number for _, number in kept], width, 1)[0]
        # from the right, only as many as it takes
        shorter = [number for number in self.numbers if number.short]
        for full in range(len(shorter) - 1, -1, -1):
            lines, shown = self._spread(first, shorter, width, 1, full)
            if shown == len(shorter):
                return lines
        return lines if height == 1 else self._spread(first, shorter, width, height, 0)[0]

    def _spread(
        self, first: Line, numbers: Sequence[Headline], width: int, rows: int, full: int | None = None
    ) -> tuple[list[Line], int]:
        """Spread numbers over at most ``rows`` lines; return the lines and how many of the numbers they hold.

        The basis of a number is added from the left while there is room. All but the first ``full`` numbers are shortened
        (None: none is shortened, and bases are added).
        """
        parts: list[list[Line]] = [[]]
        room = [width - width_of(first)]
        count = 0
        for i, number in enumerate(numbers):
            label, value = (number.short if full is not None and i >= full else None) or (number.label, number.value)
            mark = f"{self.glyphs.severity[number.level]} " if number.level not in ("", "ok") else ""
            part: Line = [(f"{label} ", "dim"), (f"{mark}{value}", number.level or "title"), ("  ", "")]
            size = width_of([(harmless(text), "") for text, _ in part])
            if size > room[-1] + 2 and (count or rows > 1):
                if len(parts) == rows:
                    break
                parts.append([])
                room.append(width)
            parts[-1].append(part)
            room[-1] -= size
            count += 1
        flat = [(part, row) for row, line in enumerate(parts) for part in line]
        for number, (part, row) in zip(numbers, flat, strict=False):
            size = cells(harmless(number.basis)) + 3
            if number.basis and full is None and size <= room[row]:
                part.insert(2, (f" ({number.basis})", "dim"))
                room[row] -= size
        lines: list[Line] = [[fragment for part in line for fragment in part] for line in parts]
        return [[*first, *lines[0]], *lines[1:]], count


class NotesBar(Canvas):
    """One line: the most useful sentence, then the modes and assumptions in force, cut at the right."""

    shown: tuple[str, Sequence[str]] = ("", ())

    def paint(self, width: int, height: int) -> list[Line]:
        """Return the sentence and the notes in one line."""
        gap = f" {self.glyphs.separator} "
        answer, notes = self.shown
        between = gap if answer and notes else ""
        line: Line = [(harmless(answer), "title"), (between, "dim"), (harmless(gap.join(notes)), "dim")]
        return [fit_line(line, width, self.glyphs.ellipsis)]
