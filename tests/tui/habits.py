"""What every tab can do, from one implementation: ten habits of the operator."""

from __future__ import annotations

import re
from pathlib import Path

from tests.tui.process.test_type_ahead import NAMES, burst
from tests.tui.stage import Stage, screen_lines, settle
from tui.widgets.table.table import LiveTable


async def keys(s: Stage, *names: str) -> None:
    """Type keys in one write: letters, or the names of keys."""
    await burst(s, [(NAMES.get(name, name), name if len(name) == 1 else "") for name in names])


async def filter_sort_columns(s: Stage, table: LiveTable) -> None:
    name = str(table.window.columns[0].name)
    value = str(table.window.frame.get_column(name)[0])[:12].strip()  # of a statement its beginning: each key filters
    rows = table.window.height
    await keys(s, "slash", *value, "enter")
    await s.until(lambda: table.choice.filter == value and 0 < table.window.height <= rows)
    await keys(s, "escape")
    await s.until(lambda: table.window.height == rows)
    await keys(s, "s")
    await s.until(lambda: table.choice.sort == table.current != "")
    await keys(s, "r")
    shown = [column.name for column in table.window.columns]
    await keys(s, "C", "j", "space", "enter")
    await s.until(lambda: [column.name for column in table.window.columns] == [shown[0], *shown[2:]])


async def pause_and_time(s: Stage, table: LiveTable) -> None:
    await keys(s, "p")
    await s.see("PAUSED")
    await keys(s, "p")
    await s.until(lambda: "PAUSED" not in s.text())
    steps = len(s.app.pane.steps())
    await keys(s, "left_parenthesis")
    if steps > 1:
        await s.see(" AT ")
        await keys(s, "backslash")
        await s.until(lambda: " AT " not in s.text() and "going to" not in s.text())
    await s.until(lambda: s.app.pane.at_ms is None)


async def zoom(s: Stage, table: LiveTable) -> None:
    await keys(s, "z")
    await s.until(lambda: table.size.width >= 78 and table.size.height >= 20)
    await s.see("ZOOM")
    await keys(s, "escape")
    await s.until(lambda: "ZOOM" not in s.text() and s.app.pane.entry.title in screen_lines(s.app)[0])


async def export_and_copy(s: Stage, table: LiveTable) -> None:
    await keys(s, "e", "tab")
    await keys(s, "ctrl+u", *"out.csv", "enter")
    await s.until(lambda: len(s.app.screen_stack) == 1)
    assert len(Path("out.csv").read_text().splitlines()) > table.window.height
    await keys(s, "c")
    await s.until(lambda: "copied" in str([each.message for each in s.app._notifications]).lower())
    await settle(s)
    assert table.displayed(table.cursor, table.cursor + 1).splitlines()[1] in s.text()


async def help_and_palette(s: Stage, table: LiveTable) -> None:
    await keys(s, "question_mark")
    await s.see("Help")
    shown = s.app.screen.query_one("HelpText").content(100)
    text = "\n".join("".join(part for part, _ in line) for line in shown)
    for column in table.window.columns:
        assert column.header in text and column.meaning.split()[0] in text
    await keys(s, "escape")
    await keys(s, "colon", *"zoom", "enter")
    await s.see("ZOOM")
    await keys(s, "z")
    await keys(s, "colon", *re.findall(r"\w+", str(table.window.rows(0, 1)[0][table.window.columns[0].name]))[0][:8])
    await s.until(lambda: "row" in [found.kind for found in getattr(s.app.screen, "_matching", ())])
    await keys(s, "escape")


async def ten_habits(s: Stage) -> None:
    """Do on the first table of the tab what every tab can do; the files that an export writes come into the folder of work."""
    table = s.app.focused
    assert isinstance(table, LiveTable)
    table.choose(filter="", sort="", descending=False)
    for habits in (filter_sort_columns, pause_and_time, zoom, export_and_copy, help_and_palette):
        await habits(s, table)
        await s.until(lambda: s.app.focused is table and len(s.app.screen_stack) == 1)
