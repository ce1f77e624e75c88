"""The palette: type a few letters of what you look for (a key, section, column, option, theme, row) and go there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

from textual import on
from textual.binding import Binding, BindingType
from textual.widget import Widget
from textual.widgets import Input

from tui.screens.box import Box, about
from tui.screens.palette_entries import Found
from tui.widgets.drawing.fragments import Line, fit
from tui.widgets.facts import Facts
from tui.widgets.pick import PickList
from tui.widgets.prompt import OneLine


class PaletteScreen(Box[Found]):
    """An input and what matches; it returns the chosen one. ``rows`` returns the rows that match a text."""

    heading = "Commands"
    keys = "type to search   Up/Down choose   Enter go   Esc close"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "close", show=False),
        Binding("down", "list(1)", show=False, priority=True),
        Binding("up", "list(-1)", show=False, priority=True),
    ]

    def __init__(self, known: Sequence[Found], rows: Callable[[str], list[Found]] = lambda typed: []) -> None:
        super().__init__()
        self._known = known
        self._rows = rows
        self._matching = list(known)

    def content(self) -> list[Widget]:
        """Return input, list, and the description of the chosen line."""
        return [OneLine(placeholder="a key, section, column, option, theme or row"), PickList(id="matching"), about()]

    def on_mount(self) -> None:
        """Show everything at first."""
        self.query_one(Input).focus()
        self._narrow("")

    @on(Input.Changed)
    def _typed(self, event: Input.Changed) -> None:
        self._narrow(event.value)

    def _narrow(self, typed: str) -> None:
        """Show what matches, best first, then rows."""
        scored = [(score, found) for found in self._known if (score := found.score(typed)) is not None]
        self._matching = [found for _, found in sorted(scored, key=lambda pair: pair[0])] + self._rows(typed)
        lines: list[Line] = [
            [(fit(one.mark, 10), "key"), (fit(one.title, 26) + " ", "title"), (one.help, "dim")]
            for one in self._matching
        ]
        matching = self.query_one(PickList)
        matching.cursor = 0
        matching.show(lines or [[("nothing matches", "dim")]])
        self._about()

    @on(PickList.Moved)
    def _about(self) -> None:
        """Describe the line under the cursor."""
        index = self.query_one(PickList).cursor
        chosen = self._matching[index] if index < len(self._matching) else None
        self.query_one(Facts).show([(chosen.mark, chosen.help, "")] if chosen is not None else [])

    def action_list(self, by: int) -> None:
        """Move the cursor of the list while the input has the focus."""
        self.query_one(PickList).action_move(by)

    @on(Input.Submitted)
    @on(PickList.Picked)
    def _run(self) -> None:
        """Close with the line under the cursor."""
        index = self.query_one(PickList).cursor
        self.dismiss(self._matching[index] if index < len(self._matching) else None)
