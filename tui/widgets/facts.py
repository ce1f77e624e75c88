"""Panels of text, wrapped, cleaned and never read as markup: labels with values, and paragraphs."""

from __future__ import annotations

from collections.abc import Sequence

from tui.widgets.drawing.canvas import ScrollCanvas
from tui.widgets.drawing.fragments import Fragment, Line, cells, cut, fit, harmless, wrap

Fact = tuple[str, str, str]
"""Label, value as text, style of the value. An empty value makes the label a heading."""


class Facts(ScrollCanvas, can_focus=False):
    """Lines of label and value; long values wrap."""

    def __init__(self, facts: Sequence[Fact] = (), *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.facts: tuple[Fact, ...] = tuple(facts)

    def show(self, facts: Sequence[Fact]) -> None:
        """Show these facts instead."""
        self.facts = tuple(facts)
        self.repaint()

    def content(self, width: int) -> list[Line]:
        """Return one line per fact, more where the value wraps."""
        labels = [cells(harmless(label)) for label, value, _ in self.facts if value]
        left = min(max(labels, default=0) + 1, max(width // 2, 1))
        out: list[Line] = []
        for label, value, style in self.facts:
            if not value:
                out.append([(cut(harmless(label), width, self.glyphs.ellipsis), style or "title")])
                continue
            for number, part in enumerate(wrap(value, max(width - left, 1)) or [""]):
                head = fit(label, left - 1, ellipsis=self.glyphs.ellipsis) + " " if number == 0 else " " * left
                out.append([(head, "dim"), (part, style)])
        return out


class TextPanel(ScrollCanvas, can_focus=False):
    """Paragraphs with a style each, wrapped."""

    DEFAULT_CSS = "TextPanel { padding: 1 2; }"

    def __init__(self, lines: Sequence[Fragment] = (), *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.paragraphs: tuple[Fragment, ...] = tuple(lines)

    def show(self, lines: Sequence[Fragment]) -> None:
        """Show these paragraphs instead: text and style of each."""
        self.paragraphs = tuple(lines)
        self.repaint()

    def content(self, width: int) -> list[Line]:
        """Return the paragraphs, wrapped."""
        return [[(part, style)] for text, style in self.paragraphs for part in (wrap(text, width) or [""])]
