"""A Spark application opened on a real session: every section at three sizes."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.job_heuristics.view import VIEW
from sample_data.job_heuristics.make import END_MS, put_spark
from sample_data.job_heuristics.shapes import SPARK_FINISHED
from tests.tui.fakes import SIZES, opened, play, still
from tui.views.job_heuristics.spark_level import SECTIONS, SparkLevel
from tui.widgets.sections import Sections
from tui.widgets.table.table import LiveTable

WORDS = {
    "verdicts": "Spark Configuration", "insights": "skew", "stages": "longest tasks", "timeline": "tasks at once",
    "executors": "busy", "sql": "HashAggregate", "advice": "spark.executor", "what if": "ideal", "history": "daily revenue",
    "notes": "assumptions",
}  # fmt: skip


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("spark")
    for number, (plan, hours) in enumerate(SPARK_FINISHED, 1):
        put_spark(root, plan, number, END_MS - int(hours * 3_600_000))
    still(root)
    return root


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_every_section_is_drawn(logs: Path, tmp_path: Path, size: tuple[int, int]) -> None:
    play(lambda: _walk(logs, tmp_path, size))


async def _walk(logs: Path, tmp_path: Path, size: tuple[int, int]) -> None:
    async with opened(logs, VIEW, tmp_path, size, once=True) as s:
        await s.until(lambda: s.app.pane.query_one("#jobs", LiveTable).window is not None, 10)
        table = s.app.pane.query_one("#jobs", LiveTable)
        rows = table.window.rows(0, table.window.height)
        table.move_to(next(k for k, row in enumerate(rows) if row["name"] == "daily revenue"))
        await s.press("enter")
        await s.until(lambda: s.app.pane.result.detail.app is not None, 10)
        level = s.app.pane.levels[-1]
        assert isinstance(level, SparkLevel)
        sections = level.query_one("#app-sections", Sections)
        for number, name in enumerate(SECTIONS):
            sections.choose(number)
            await s.until(lambda name=name: WORDS[name] in s.text(), 10)
        await s.press("escape")
        await s.pilot.pause()
        assert s.app.pane.open_job is None
