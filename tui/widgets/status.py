"""The last two lines: what the data are (age, files, problems, mode), and which keys do something here."""

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
    """What the status line says. ``age`` as text; ``stale`` files hold last good rows; ``pending`` changes wait while
    paused; ``mode`` is how files are watched; ``error`` is why the tab could not be computed; ``at`` a moment of time
    travel as text; ``busy`` what is being done."""

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

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.facts = StatusFacts()

    def show(self, facts: StatusFacts) -> None:
        """Show other facts."""
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
    """One line of keys that do something here, in the order of the registry's ``bar`` ranks. A click does it."""

    class Clicked(Message):
        """Somebody clicked on an action."""

        def __init__(self, action: Action) -> None:
            super().__init__()
            self.action = action

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.shown: tuple[tuple[str, Action], ...] = ()
        self._ends: list[tuple[int, Action]] = []

    def show(self, actions: Sequence[tuple[Action, str]]) -> None:
        """Show other actions, each with the key that triggers it now."""
        ranked = sorted(actions, key=lambda pair: pair[0].bar)
        shown = tuple((key_text(key), action) for action, key in ranked if action.bar)
        if shown != self.shown:
            self.shown = shown
            self.repaint()

    def paint(self, width: int, height: int) -> list[Line]:
        """As many as fit; quit and help always."""
        last = [one for one in self.shown if one[1].title in ("Help", "Quit")]
        room = width - sum(_size(one) for one in last)
        fitting = []
        for one in self.shown:
            if one in last:
                continue
            if _size(one) > room:
                break
            room -= _size(one)
            fitting.append(one)
        line: Line = []
        self._ends, end = [], 0
        for one in (*fitting, *last):
            key, action = one
            line += [(f" {key}", "key"), (f" {action.title} ", "")]
            end += _size(one)
            self._ends.append((end, action))
        return [line]

    def on_click(self, event: events.Click) -> None:
        """Tell which action was clicked on."""
        for end, action in self._ends:
            if event.x < end:
                self.post_message(self.Clicked(action))
                return


def _size(shown: tuple[str, Action]) -> int:
    key, action = shown
    return cells(key) + cells(action.title) + 3
