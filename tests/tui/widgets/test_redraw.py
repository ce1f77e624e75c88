"""What a table draws again when its rows change: the cells that differ, the cursor's line, nothing below the last row."""

from __future__ import annotations

from collections.abc import Callable

import polars as pl
import pytest
from textual.app import App, ComposeResult
from textual.geometry import Region

from tests.tui.fakes import NODES, frame
from tests.tui.stage import play
from tui.widgets.table import grid
from tui.widgets.table.table import LiveTable
from tui.widgets.table.window import Choice


class One(App[None]):
    """A table, the regions it refreshed and the number of messages about its cursor."""

    AUTO_FOCUS = ""

    def __init__(self, choice: Choice | None) -> None:
        super().__init__()
        self.table = LiveTable(NODES, choice=choice)
        self.regions: list[Region] = []
        self.posted = 0

    def compose(self) -> ComposeResult:
        yield self.table

    def on_live_table_highlighted(self) -> None:
        self.posted += 1


def redrawn(steps: list[Callable[[LiveTable], None]], choice: Choice | None = None) -> tuple[list[Region], int]:
    """Return the regions of the table that the last step refreshed, and the number of messages about its cursor."""
    app = One(choice)

    async def story() -> None:
        async with app.run_test(size=(100, 30)) as pilot:
            plain = app.table.refresh

            def spy(*regions: Region, **more: bool) -> LiveTable:
                app.regions += regions or (Region(-1, -1, 0, 0),)
                return plain(*regions, **more)

            app.table.refresh = spy  # type: ignore[method-assign]
            for step in steps:
                await app.workers.wait_for_complete()
                await pilot.pause(0.05)
                app.regions.clear()
                app.posted = 0
                step(app.table)
            await app.workers.wait_for_complete()
            await pilot.pause(0.05)

    play(story)
    return app.regions, app.posted


def test_only_cells_that_differ_are_drawn_again() -> None:
    before = frame(5)
    after = before.with_columns(cpu=pl.when(pl.col("name") == "node-002").then(99.5).otherwise(pl.col("cpu")))
    regions, posted = redrawn([lambda t: t.show(before), lambda t: t.show(after)])
    assert regions and {region.y for region in regions} == {3} and sum(region.width for region in regions) < 20
    assert not posted, "callers of show draw what depends on the row under the cursor"


def test_the_cursor_line_is_whole_wherever_its_row_goes() -> None:
    before = frame(9)
    regions, _ = redrawn(
        [lambda t: t.show(before), lambda t: t.move_to(2), lambda t: t.show(before.reverse())],
    )
    whole = {region.y for region in regions if (region.x, region.width) == (0, 99)}
    assert {3, 7} <= whole


def test_without_rows_the_first_line_says_why() -> None:
    regions, posted = redrawn([lambda t: t.show(frame(3)), lambda t: t.show(frame(0))])
    assert Region(-1, -1, 0, 0) in regions and posted == 1, "another number of rows, and no cursor any more"


def test_rows_that_were_sorted_in_a_thread_are_announced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grid, "INLINE_ROWS", 2)
    _, posted = redrawn([lambda t: t.show(frame(5)), lambda t: t.show(frame(5, seed=1))], Choice(sort="name"))
    assert posted == 1
