"""The lines above a tab's content: its headline numbers, and the modes and assumptions in force."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tui.widgets.canvas import Canvas
from tui.widgets.fragments import Line, cells, cut, harmless, width_of

if TYPE_CHECKING:
    from engine.result import Headline


class HeadlineBar(Canvas):
    """One line: breadcrumbs of the drill-down, then ``label value (basis)`` for as many numbers as fit."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._headline: tuple[Headline, ...] = ()
        self._crumbs: tuple[str, ...] = ()

    def show(self, headline: Sequence[Headline]) -> None:
        """Show other numbers."""
        self._headline = tuple(headline)
        self.repaint()

    def crumbs(self, crumbs: Sequence[str]) -> None:
        """Show where in the drill-down one is."""
        self._crumbs = tuple(crumbs)
        self.repaint()

    def paint(self, width: int, height: int) -> list[Line]:
        """Numbers first without their basis; the basis is added from the left while there is room."""
        glyphs = self.glyphs
        line: Line = []
        for crumb in self._crumbs:
            line.append((f"{glyphs.arrow} {cut(harmless(crumb), max(width // 2, 8), glyphs.ellipsis)} ", "title"))
        shown: list[Line] = []
        used = width_of(line)
        for number in self._headline:
            style = number.level or "title"
            mark = f"{glyphs.severity[number.level]} " if number.level not in ("", "ok") else ""
            part: Line = [(f"{number.label} ", "dim"), (f"{mark}{number.value}", style), ("  ", "")]
            size = width_of([(harmless(text), "") for text, _ in part])
            if used + size > width + 2 and shown:
                break
            shown.append(part)
            used += size
        for number, part in zip(self._headline, shown, strict=False):
            if number.basis and used + cells(harmless(number.basis)) + 3 <= width:
                part.insert(2, (f" ({number.basis})", "dim"))
                used += cells(harmless(number.basis)) + 3
        return [[*line, *(fragment for part in shown for fragment in part)]]


class NotesBar(Canvas):
    """One line with the modes and assumptions in force; what does not fit is counted."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._notes: tuple[str, ...] = ()

    def show(self, notes: Sequence[str]) -> None:
        """Show other notes."""
        self._notes = tuple(notes)
        self.repaint()

    def paint(self, width: int, height: int) -> list[Line]:
        """Notes behind each other."""
        text = f" {self.glyphs.separator} ".join(self._notes)
        return [[(cut(harmless(text), width, self.glyphs.ellipsis), "dim")]]
