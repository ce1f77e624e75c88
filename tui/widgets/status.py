"""The last two lines: the state of the data (age, files, problems, mode), and the keys that do something here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from textual import events
from textual.message import Message

from tui.actions import Action, key_text
from tui.widgets.drawing.canvas import Canvas
from tui.widgets.drawing.fragments import Fragment, Line, cells, cut, harmless, width_of


class StatusLine(Canvas):
    """One line; it is painted only where its text changed."""

    DEFAULT_CSS = "StatusLine { background: $panel; }"

    _shown: tuple[tuple[Fragment, ...], str, str] = ((), "", "")

    def show(self, facts: Sequence[Fragment], work: str = "", caption: str = "") -> None:
        """Show other facts, the most important first, the work under way, and the place in the focused table."""
        if self._shown != (tuple(facts), work, caption):
            self._shown = tuple(facts), work, caption
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

    shown: tuple[tuple[str, Action], ...] = ()
    _ends: Sequence[tuple[int, Action]] = ()

    @dataclass
    class Clicked(Message):
        """An action was clicked."""

        action: Action

    def show(self, actions: Sequence[tuple[Action, str]]) -> None:
        """Show these actions instead, each with the key that runs it now."""
        ranked = sorted(actions, key=lambda pair: pair[0].bar)
        shown = tuple((key_text(key), action) for action, key in ranked if action.bar)
        if shown != self.shown:
            self.shown = shown
            self.repaint()

    def paint(self, width: int, height: int) -> list[Line]:
        """Return as many actions as fit; quit and help always."""
        last = [each for each in self.shown if each[1].title in ("Help", "Quit")]
        room = width - sum(_size(each) for each in last)
        fitting = []
        for each in self.shown:
            if each in last:
                continue
            if _size(each) > room:
                break
            room -= _size(each)
            fitting.append(each)
        line: Line = []
        ends: list[tuple[int, Action]] = []
        end = 0
        for each in (*fitting, *last):
            key, action = each
            line += [(f" {key}", "key"), (f" {action.title} ", "")]
            end += _size(each)
            ends.append((end, action))
        self._ends = ends
        return [line]

    def on_click(self, event: events.Click) -> None:
        """Post which action was clicked."""
        for end, action in self._ends:
            if event.x < end:
                self.post_message(self.Clicked(action))
                return


def _size(shown: tuple[str, Action]) -> int:
    """Return the cells of an action in the key bar."""
    key, action = shown
    return cells(key) + cells(action.title) + 3
