"""The last two lines: the state of the data (age, files, problems, mode), and the keys that do something here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from textual import events
from textual.message import Message

from tui.actions import Action, key_text
from tui.widgets.drawing.canvas import Canvas
from tui.widgets.drawing.fragments import Fragment, Line, cells, cut, harmless, width_of


@dataclass(frozen=True, slots=True)
class StatusFacts:
    """The contents of the status line.

    ``age``: of the newest data, as text. ``stale``: files of which only the last good rows are shown. ``skipped``: files
    that no view reads. ``mode``: how files are watched. ``pending``: changes since the pause. ``at``: moment of time
    travel, as text. ``busy``: the work under way. ``error``: why the tab could not be computed. ``caption``: place in the
    focused table. ``sampling``: that these are sample data.
    """

    age: str = ""
    files: int = 0
    stale: int = 0
    problems: int = 0
    skipped: int = 0
    mode: str = ""
    paused: bool = False
    pending: int = 0
    at: str = ""
    busy: str = ""
    error: str = ""
    caption: str = ""
    sampling: str = ""


class StatusLine(Canvas):
    """One line; it is painted only where its text changed."""

    DEFAULT_CSS = "StatusLine { background: $panel; }"

    facts = StatusFacts()

    def show(self, facts: StatusFacts) -> None:
        """Show these facts instead."""
        if facts != self.facts:
            self.facts = facts
            self.repaint()

    def paint(self, width: int, height: int) -> list[Line]:
        """Return warnings first, then counts and the work under way; the table's place on the right."""
        glyphs = self.glyphs
        line: Line = [(" ", "")]
        work = [(cut(harmless(self.facts.busy), width // 2, glyphs.ellipsis), "mark")] if self.facts.busy else []
        reserved = sum(cells(text) + 2 for text, _ in work)  # shown at any width: what is on screen is being computed
        for text, style in self._facts_in_order():
            text = harmless(text)
            if width_of(line) + cells(text) + 2 + reserved > width and len(line) > 1:
                break
            line += [(text, style), ("  ", "")]
        for text, style in work:
            line += [(text, style), ("  ", "")]
        room = width - width_of(line)
        caption = cut(harmless(self.facts.caption), max(room - 1, 0), glyphs.ellipsis)
        if caption:
            line += [(" " * (room - cells(caption) - 1), ""), (caption, "dim")]
        return [line]

    def _facts_in_order(self) -> list[Fragment]:
        """Return the facts but the work under way, the most important first."""
        facts = self.facts
        waiting = f", {facts.pending} waiting" if facts.pending else ""
        age = "data now" if facts.age == "now" else f"data {facts.age} old"
        shown: list[tuple[object, str, str]] = [
            (facts.paused, f"PAUSED{waiting}", "moderate"),
            (facts.at, f"AT {facts.at}", "moderate"),
            (facts.error, f"{self.glyphs.severity['severe']} {facts.error}", "severe"),
            (facts.stale, f"{facts.stale} stale", "moderate"),
            (facts.age, age, ""),
            (facts.problems, f"! {facts.problems:,} problem{'s' if facts.problems != 1 else ''}", "severe"),
            (True, f"{facts.files:,} file{'s' if facts.files != 1 else ''}", "dim"),
            (facts.skipped, f"{facts.skipped:,} not read", "dim"),
            (facts.sampling, facts.sampling, "dim"),
            (facts.mode, facts.mode, "dim"),
        ]
        return [(text, style) for applies, text, style in shown if applies]


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
