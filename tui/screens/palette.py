"""The command palette: type a few letters of an action's name, run it."""

from __future__ import annotations

from typing import ClassVar

from textual import on
from textual.binding import Binding, BindingType
from textual.widget import Widget
from textual.widgets import Input

from tui.actions import Action, keys_text
from tui.screens.box import Box, about
from tui.widgets.drawing.fragments import Line, fit
from tui.widgets.facts import Facts
from tui.widgets.pick import PickList
from tui.widgets.prompt import OneLine


def matches(action: Action, typed: str) -> int | None:
    """Return how well ``typed`` names an action: smaller is better, None if it does not.

    Every word must occur in title, help or id; the letters of a word may also occur in order in the title.
    """
    title, rest = action.title.lower(), f"{action.help} {action.id}".lower()
    score = 0
    for word in typed.lower().split():
        if title.startswith(word):
            score += 0
        elif word in title:
            score += 1
        elif word in rest:
            score += 4
        else:
            place = 0
            for letter in word:
                place = title.find(letter, place) + 1
                if not place:
                    return None
            score += 8
    return score


class PaletteScreen(Box[Action]):
    """An input and the actions that match; it returns the chosen action."""

    heading = "Commands"
    keys = "type to search   Up/Down choose   Enter run   Esc close"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "close", show=False),
        Binding("down", "list(1)", show=False, priority=True),
        Binding("up", "list(-1)", show=False, priority=True),
    ]

    def __init__(self, actions: list[Action]) -> None:
        super().__init__()
        self._actions = actions
        self._matching = actions

    def content(self) -> list[Widget]:
        """Return input, list, and the description of the chosen action."""
        return [OneLine(placeholder="pause, theme, export ..."), PickList(id="matching"), about()]

    def on_mount(self) -> None:
        """Show all actions at first."""
        self.query_one(Input).focus()
        self._narrow("")

    @on(Input.Changed)
    def _typed(self, event: Input.Changed) -> None:
        self._narrow(event.value)

    def _narrow(self, typed: str) -> None:
        """Show the actions that match, best first."""
        scored = [(score, action) for action in self._actions if (score := matches(action, typed)) is not None]
        self._matching = [action for _, action in sorted(scored, key=lambda pair: pair[0])]
        lines: list[Line] = [
            [(fit(keys_text(a.keys[:2]), 10), "key"), (fit(a.title, 26) + " ", "title"), (a.help, "dim")]
            for a in self._matching
        ]
        matching = self.query_one(PickList)
        matching.cursor = 0
        matching.show(lines or [[("nothing matches", "dim")]])
        self._about()

    @on(PickList.Moved)
    def _about(self) -> None:
        """Describe the action under the cursor."""
        index = self.query_one(PickList).cursor
        chosen = self._matching[index] if index < len(self._matching) else None
        self.query_one(Facts).show([(keys_text(chosen.keys), chosen.help, "")] if chosen is not None else [])

    def action_list(self, by: int) -> None:
        """Move the cursor of the list while the input has the focus."""
        self.query_one(PickList).action_move(by)

    @on(Input.Submitted)
    @on(PickList.Picked)
    def _run(self) -> None:
        """Close with the action under the cursor."""
        index = self.query_one(PickList).cursor
        self.dismiss(self._matching[index] if index < len(self._matching) else None)
