"""A level of any tab: the numbers of another scenario or moment beside those on screen, with their change."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
from textual import work
from textual.app import ComposeResult

from engine.core import units
from tui.views.shared.sections import Level
from tui.widgets.drawing.fragments import Fragment, fit
from tui.widgets.facts import TextPanel
from tui.widgets.table.table import LiveTable
from tui.widgets.table.window import Cell, Looks

if TYPE_CHECKING:
    from engine.core.view import Result


class Side(msgspec.Struct, frozen=True):
    """What is compared with the screen: ``parameters`` called ``name`` (None: those on screen), at ``at_ms`` (None: live);
    ``typed``: as the operator called it."""

    name: str
    parameters: Any
    at_ms: int | None
    typed: str = ""

    @property
    def words(self) -> str:
        """Return its name for an operator."""
        moment = units.moment(self.at_ms) if self.at_ms is not None else "now"
        return self.typed or f"{self.name} {moment}".strip()


NUMBERS = ("before", "after", "change")


def _number(cell: Cell) -> Sequence[Fragment]:
    """Draw a number as its table does: the numbers of a row have one unit and one number of decimals."""
    if cell.value is None:
        return [(units.NOTHING.rjust(cell.width), "dim")]
    kind, peak = cell.row["kind"], max(abs(cell.row[name] or 0) for name in NUMBERS)
    text = units.aligned(kind, cell.value, peak) or units.text(kind, cell.value, cell.width - 1)
    return [(fit(("+" if cell.name == "change" and cell.value > 0 else "") + text, cell.width, "right"), "")]


class SideBySide(Level):
    """``side`` beside what is on screen. ``compute`` computes a side, again for each result that comes on screen."""

    DEFAULT_CSS = "SideBySide > TextPanel { height: 4; padding: 0; }"

    def __init__(self, side: Side, compute: Callable[[Side], Awaitable[Result | None]]) -> None:
        super().__init__("side by side")
        self.side = side
        self._compute = compute
        self._what: list[tuple[str, str]] = []

    def compose(self) -> ComposeResult:
        """Yield what is compared, and the table."""
        yield TextPanel(id="side-by-side-what")
        yield LiveTable(name="side-by-side/numbers", id="side-by-side", empty="no number differs")

    def show(self, result: Result) -> None:
        """Compare ``result`` with the other side."""
        after = units.moment(result.at_ms) if result.at_ms is not None else "now"
        what = f"before: {self.side.words}    after: the options on screen, {after}"
        keys = "[ and ] step the moment before, ( and ) that on screen; a dash: not there on that side"
        self._what = [(what, "title"), (keys, "dim")]
        self.query_one(TextPanel).show(self._what)
        self._show(result)

    @work(exclusive=True, exit_on_error=False)
    async def _show(self, result: Result) -> None:
        from engine.output.side_by_side import SIDES, headlines, side_by_side

        other = await self._compute(self.side)
        view = self.pane.view
        if other is not None and view is not None and self.is_attached:
            none, arrow = units.NOTHING, self.pane.glyphs.arrow
            changed = [f"{label} {old or none} {arrow} {new or none}" for label, old, new in headlines(other, result)]
            said = "   ".join(changed) or "every headline number is the same"
            self.query_one(TextPanel).show([*self._what, (said, "")])
            table = self.query_one(LiveTable)
            if table.choice.columns is None:  # also columns that are empty on one side: that is the answer
                table.choose(columns=tuple(c.name for c in SIDES.columns if not c.hidden), remember=False)
            # as the tab shows them: what is counted depends on the data
            specs = {each.window.spec.name: each.window.spec for each in self.pane.query(LiveTable) if each.window}
            tables = [specs.get(spec.name, spec) for spec in view.tables]
            table.show(side_by_side(tables, other, result), SIDES, Looks(dict.fromkeys(NUMBERS, _number)))

    def step_section(self, step: int) -> bool:
        """Step the moment of the other side instead of a section."""
        steps = list(self.pane.steps())
        here = bisect_left(steps, self.side.at_ms) if self.side.at_ms is not None else len(steps)
        place = here + step
        if place < 0 or not steps:
            self.notify("there is nothing earlier", timeout=3)
        elif step < 0 or here < len(steps):
            self.side = msgspec.structs.replace(self.side, at_ms=steps[place] if place < len(steps) else None, typed="")
            if self.pane.result is not None:
                self.show(self.pane.result)
        return True
