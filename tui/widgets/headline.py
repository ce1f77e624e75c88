"""The lines above a tab's content: its headline numbers, and the modes and assumptions in force."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tui.widgets.drawing.canvas import Canvas
from tui.widgets.drawing.fragments import Line, cells, cut, fit_line, harmless, width_of

if TYPE_CHECKING:
    from engine.core.view import Headline


class HeadlineBar(Canvas):
    """Breadcrumbs of the drill-down, then ``label value (basis)`` for as many numbers as fit in the line.

    Numbers with a short form must be shown: they are shortened if not all fit, and if that is not enough, there are two lines
    (not in a drill-down, where breadcrumbs matter more).
    """

    numbers: tuple[Headline, ...] = ()
    _crumbs: tuple[str, ...] = ()
    _rows = 1

    def show(self, headline: Sequence[Headline]) -> None:
        """Show these numbers instead."""
        self.numbers = tuple(headline)
        self._fit()
        self.repaint()

    def crumbs(self, crumbs: Sequence[str]) -> None:
        """Show the names of the open levels."""
        self._crumbs = tuple(crumbs)
        self._fit()
        self.repaint()

    def on_resize(self) -> None:
        """Fit the numbers to the new width."""
        self._fit()

    def _fit(self) -> None:
        """Take one line, or two if the numbers that must be shown need them."""
        width = self.size.width
        rows = 2 if width and not self._crumbs and len(self.paint(width, 2)) > 1 else 1
        if rows != self._rows:
            self._rows = rows
            self.styles.height = rows

    def paint(self, width: int, height: int) -> list[Line]:
        """Return the line or lines; see the class."""
        glyphs = self.glyphs
        first: Line = []
        for crumb in self._crumbs:
            first.append((f"{glyphs.arrow} {cut(harmless(crumb), max(width // 2, 8), glyphs.ellipsis)} ", "title"))
        wanted = max((i + 1 for i, number in enumerate(self.numbers) if number.short), default=0)
        lines, shown = self._spread(first, self.numbers, width, 1)
        if shown >= wanted:
            return lines
        # from the right, only as many as it takes
        brief = [number for number in self.numbers if number.short]
        for full in range(len(brief) - 1, -1, -1):
            lines, shown = self._spread(first, brief, width, 1, full)
            if shown == len(brief):
                return lines
        return lines if height == 1 else self._spread(first, brief, width, height, 0)[0]

    def _spread(
        self, first: Line, numbers: Sequence[Headline], width: int, rows: int, full: int | None = None
    ) -> tuple[list[Line], int]:
        """Spread numbers over at most ``rows`` lines; return the lines and how many of the numbers they hold.

        The basis of a number is added from the left while there is room. All but the first ``full`` numbers are shortened
        (None: none is shortened, and bases are added).
        """
        parts: list[list[Line]] = [[]]
        used = width_of(first)
        room = [width - used]
        count = 0
        for i, number in enumerate(numbers):
            short = number.short if full is not None and i >= full else None
            label, value = short or (number.label, number.value)
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

    _answer = ""
    _notes: tuple[str, ...] = ()

    def show(self, answer: str, notes: Sequence[str]) -> None:
        """Show these instead."""
        self._answer, self._notes = answer, tuple(notes)
        self.repaint()

    def paint(self, width: int, height: int) -> list[Line]:
        """Return the sentence and the notes in one line."""
        gap = f" {self.glyphs.separator} "
        notes = gap.join(self._notes)
        between = gap if self._answer and notes else ""
        line: Line = [(harmless(self._answer), "title"), (between, "dim"), (harmless(notes), "dim")]
        return [fit_line(line, width, self.glyphs.ellipsis)]
