"""What a table says when its rows change: whether there are other values under its cursor."""

from __future__ import annotations

import polars as pl
import pytest
from textual.app import App, ComposeResult

from tests.tui.fakes import NODES, frame
from tests.tui.stage import play
from tui.widgets.table import grid
from tui.widgets.table.table import LiveTable
from tui.widgets.table.window import Choice


class One(App[None]):
    """A table, and the number of messages about its cursor."""

    AUTO_FOCUS = ""

    def __init__(self, choice: Choice | None) -> None:
        super().__init__()
        self.table = LiveTable(NODES, choice=choice)
        self.posted = 0

    def compose(self) -> ComposeResult:
        yield self.table

    def on_live_table_highlighted(self) -> None:
        self.posted += 1


def posted(before: pl.DataFrame, after: pl.DataFrame, choice: Choice | None = None) -> int:
    """Return the number of messages about the cursor of a table once it shows ``after`` instead of ``before``."""
    app = One(choice)

    async def story() -> None:
        async with app.run_test(size=(100, 30)) as pilot:
            for shown in (before, after):
                await app.workers.wait_for_complete()
                await pilot.pause(0.05)
                app.posted = 0
                app.table.show(shown)
            await app.workers.wait_for_complete()
            await pilot.pause(0.05)

    play(story)
    return app.posted


def test_other_values_of_the_row_under_the_cursor_are_not_announced() -> None:
    after = frame(5).with_columns(cpu=pl.when(pl.col("name") == "node-002").then(99.5).otherwise(pl.col("cpu")))
    assert not posted(frame(5), after), "callers of show draw what depends on the row under the cursor"


def test_a_cursor_on_no_row_is_announced() -> None:
    assert posted(frame(3), frame(0)) == 1


def test_rows_that_were_sorted_in_a_thread_are_announced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grid, "INLINE_ROWS", 2)
    assert posted(frame(5), frame(5, seed=1), Choice(sort="name")) == 1
