"""What panes, tables and boxes ask of the application: the one type that they know of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol, cast, runtime_checkable

if TYPE_CHECKING:
    from textual.dom import DOMNode

    from engine.core.reading import Problem
    from tui.actions import Action
    from tui.engine_client import EngineClient
    from tui.glyphs import Glyphs
    from tui.process.logs import Ring
    from tui.widgets.table.window import Choice


@runtime_checkable
class Host(Protocol):
    """The application as its panes, tables and boxes see it.

    ``glyphs``: the glyph set in force. ``actions_by_id``: all actions with the keys they have under the user's keymap.
    ``log_ring``: the last lines of the program's log.
    """

    glyphs: Glyphs
    actions_by_id: Mapping[str, Action]
    client: EngineClient
    log_ring: Ring

    def request(self, name: str, *, urgent: bool) -> bool:
        """Ask for a new result of a view with its pane's parameters. ``urgent``: the operator waits for it."""

    def file_counts(self) -> Sequence[tuple[str, int]]:
        """Return title and number of files of each tab, in the order of tabs."""

    def working(self, view: str) -> bool:
        """Return whether a long computation of ``view`` is under way."""

    def choice_for(self, table: str) -> Choice:
        """Return the sort, filter and columns that the operator chose for the table of this name (``view/table``)."""

    def all_problems(self) -> tuple[Problem, ...]:
        """Return every problem of settings, live path, inputs and results."""


def host_of(node: DOMNode) -> Host:
    """Return the application of ``node``, which must be mounted in the dashboard."""
    return cast(Host, node.app)
