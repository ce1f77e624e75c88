"""A Tez application opened on a real session: every section at three sizes."""

from __future__ import annotations

from pathlib import Path

from engine.job_heuristics.view import VIEW
from sample_data.job_heuristics import tez_history
from sample_data.job_heuristics.make import END_MS, put_tez, tez_id
from sample_data.job_heuristics.shapes import TEZ_LIVE
from tests.tui.stage import SIZES, opened, play, still, walk
from tui.views.job_heuristics.tez import TezLevel
from tui.widgets.table.table import LiveTable

WORDS = {
    "DAGs": "critical path", "verdicts": "Tez Mapper", "vertices": "times, sorted", "insights": "spill",
    "advice": "hive.tez.container.size", "task list": "node1", "history": "5.06 GiB", "notes": "2 DAGs: Dr. Elephant",
}  # fmt: skip


def test_every_section_is_drawn(tmp_path: Path) -> None:
    put_tez(tmp_path / "in", tez_history.events(tez_id(1), TEZ_LIVE, END_MS - 3_600_000, 5))
    still(tmp_path / "in")

    async def story() -> None:
        async with opened(tmp_path / "in", VIEW, tmp_path, SIZES[0], once=True) as s:
            await s.until(lambda: s.app.pane.query_one("#jobs", LiveTable).window is not None, 10)
            await s.press("enter")
            await s.until(lambda: isinstance(s.app.pane.top, TezLevel) and s.app.pane.top.read, 10)
            level = s.app.pane.top
            await walk(s, level, WORDS, SIZES[0], SIZES[-1])
            assert s.app.pane.open_job is None

    play(story)
