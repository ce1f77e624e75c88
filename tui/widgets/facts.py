"""Panels of text, wrapped, cleaned and never read as markup: labels with values, and paragraphs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tui.widgets.drawing.canvas import ScrollCanvas
from tui.widgets.drawing.fragments import Fragment, Line, cells, cut, fit, harmless, wrap

Fact = tuple[str, str | None, str]
"""Label, value as text, style of the value. An empty value makes the label a heading; a fact without a value is left out."""


def fact_lines(facts: Iterable[Fact], width: int, ellipsis: str = "…") -> list[Line]:
    """Return one line per fact, more where the value wraps beside its label."""
    shown = [(harmless(label), value, style) for label, value, style in facts if value is not None]
    left = min(max((cells(label) for label, value, _ in shown if value), default=0) + 1, max(width // 2, 1))
    out: list[Line] = []
    for label, value, style in shown:
        if not value:
            out.append([(cut(label, width, ellipsis), style or "title")])
            continue
        for number, part in enumerate(wrap(value, max(width - left, 1)) or [""]):
            head = fit(label, left - 1, ellipsis=ellipsis) + " " if number == 0 else " " * left
            out.append([(head, "dim"), (part, style)])
    return out


class Facts(ScrollCanvas, can_focus=False):
    """Lines of label and value; long values wrap."""

    shown: Sequence[Fact] = ()

    def content(self, width: int) -> list[Line]:
        """Return the lines of the facts."""
        return fact_lines(self.shown, width, self.glyphs.ellipsis)


class TextPanel(ScrollCanvas, can_focus=False):
    """Paragraphs, wrapped: text and style of each."""

    DEFAULT_CSS = "TextPanel { padding: 1 2; }"
    shown: Sequence[Fragment] = ()

    def content(self, width: int) -> list[Line]:
        """Return the paragraphs, wrapped."""
        return [[(part, style)] for text, style in self.shown for part in (wrap(text, width) or [""])]
