"""A Spark application opened on a real session: every section at three sizes, the what-if by keys, and what is drawn."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from engine.core.view import Context
from engine.job_heuristics.parameters import JobParameters
from engine.job_heuristics.spark.result import AppDetail
from engine.job_heuristics.view import VIEW
from sample_data.job_heuristics.make import END_MS, put_spark
from sample_data.job_heuristics.shapes import SPARK_FINISHED
from sample_data.job_heuristics.spark_log import AppPlan, StagePlan, events, text
from tests.engine.job_heuristics.helper import inputs_of
from tests.tui.stage import SIZES, opened, play, still, walk
from tui.glyphs import ASCII, BRAILLE, Glyphs
from tui.views.job_heuristics import spark as spark_drawing
from tui.views.job_heuristics.spark import SparkLevel
from tui.widgets.control import NumberControl
from tui.widgets.table.table import LiveTable

WORDS = {
    "verdicts": "Spark Configurati", "insights": "skew", "stages": "longest tasks", "timeline": "in 2 waves",
    "executors": "busy", "sql": "HashAggregate", "advice": "spark.executor", "what if": "shuffle partitions",
    "history": "daily revenue",
    "notes": "assumptions",
}  # fmt: skip


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("spark")
    for number, (plan, hours) in enumerate(SPARK_FINISHED, 1):
        put_spark(root, plan, number, END_MS - int(hours * 3_600_000))
    still(root)
    return root


def test_every_section_is_drawn(logs: Path, tmp_path: Path) -> None:
    async def story() -> None:
        async with opened(logs, VIEW, tmp_path, SIZES[0], once=True) as s:
            level = await _open(s, "daily revenue")
            await walk(s, level, WORDS, SIZES[0])  # what is drawn in other sizes: below
            assert s.app.pane.open_job is None

    play(story)


async def _open(s: Any, name: str) -> SparkLevel:
    await s.until(lambda: s.app.pane.query_one("#jobs", LiveTable).window is not None, 10)
    table = s.app.pane.query_one("#jobs", LiveTable)
    rows = table.window.rows(0, table.window.height)
    table.move_to(next(k for k, row in enumerate(rows) if row["name"] == name))
    await s.press("enter")
    await s.until(lambda: s.app.pane.result.detail.opened is not None, 10)
    level = s.app.pane.levels[-1]
    assert isinstance(level, SparkLevel)
    return level


def test_what_if_keys_change_the_application_and_advice_is_taken(logs: Path, tmp_path: Path) -> None:
    async def story() -> None:
        async with opened(logs, VIEW, tmp_path, (160, 45), once=True) as s:

            def shown() -> AppDetail:
                found: AppDetail = s.app.pane.result.detail.opened
                return found

            level = await _open(s, "daily revenue")
            await s.press("i")
            control = s.app.pane.query_one("#what-executors", NumberControl)
            await s.until(lambda: s.app.focused is control)
            assert control.value == 6 and not level.query_one("#app-what-if", LiveTable).display
            await s.press("minus", "minus")
            await s.until(lambda: shown().prediction is not None and shown().scenario.executors == 4)
            assert level.query_one("#app-what-if", LiveTable).window.height == 4 + 5  # numbers and verdicts
            await s.press("down", "plus")
            await s.until(lambda: shown().scenario.cores == 3)
            await s.press("down", "down")
            await s.press("plus")
            await s.until(lambda: (shown().scenario.partitions or 0) > 16)
            await s.press("u", "u")
            await s.until(lambda: shown().scenario.cores is None and shown().scenario.executors == 4)
            assert s.app.pane.query_one("#what-executor-cores", NumberControl).value == 2
            await s.press("x")
            await s.until(lambda: shown().prediction is None)
            assert control.value == 6
            level.choose("advice")
            advice = level.query_one("#app-advice", LiveTable)
            await s.until(lambda: advice.window is not None)
            advised = next(row for row in advice.window.rows(0, 9) if row["key"] == "spark.executor.memory")
            assert advice.row["key"] == "spark.sql.adaptive.enabled"  # saves most, and the model does not know it
            await s.press("t")
            await s.see("what-if does not model spark.sql.adaptive.enabled")
            advice.move_to(advised["rank"] - 1)
            await s.press("t")
            await s.until(lambda: shown().scenario.memory_mb == int(advised["value"].removesuffix("m")))
            level.choose("insights")
            table = level.query_one("#app-insights", LiveTable)
            await s.until(lambda: table.window is not None)
            rows = table.window.rows(0, table.window.height)
            table.move_to(next(k for k, row in enumerate(rows) if row["key"] == "spark.executor.memory"))
            await s.press("t")
            await s.until(lambda: shown().scenario.memory_mb is not None and level.section == "what if")

    play(story)


WAVES = AppPlan("waves", "ann", "etl",
                ((StagePlan("three", 20, 5.0, spread=0), StagePlan("fails", 8, 2.0), StagePlan("one", 5, 3.0)),),
                executors=4, cores=2, table="t", files=200)  # fmt: skip
APP = "application_1760000000000_0044"


@pytest.fixture(scope="module")
def drawn() -> AppDetail:
    data = text(events(WAVES, APP, 1_760_000_000_000)).replace(
        b'"Stage Name":"fails"', b'"Stage Name":"fails","Failure Reason":"x"'
    )
    result = VIEW.compute(inputs_of({f"/{APP}": data}), JobParameters(job=APP), Context(0))
    found: AppDetail = result.detail.opened
    return found


def lines_of(drawing: list[Any]) -> list[str]:
    return ["".join(fragment for fragment, _ in line) for line in drawing]


@pytest.mark.parametrize("glyphs", (BRAILLE, ASCII), ids=("braille", "ascii"))
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_stages_are_drawn_in_waves(drawn: AppDetail, size: tuple[int, int], glyphs: Glyphs) -> None:
    width, height = size
    assert len(drawn.waves[0, 0]) == 3  # 20 tasks on 8 slots
    text = lines_of(spark_drawing.gantt(drawn, width, height, glyphs))
    assert all(len(line) <= width for line in text)
    assert text[0].startswith("stages") and "8" in text[0]
    one, other = ("#", "=") if glyphs is ASCII else ("█", "▓")
    bar = next(line for line in text if line.startswith("0.0 three"))
    signs = [sign for k, sign in enumerate(bar) if sign in (one, other) and bar[k - 1] != sign]
    assert signs == [one, other, one] and "20 tasks in 3 waves" in bar
    assert "x" in next(line for line in text if line.startswith("1.0 fails"))
    last = next(line for line in text if line.startswith("2.0 one"))
    assert other not in last and "waves" not in last
    assert glyphs is not ASCII or all(line.isascii() for line in text)


@pytest.mark.parametrize("glyphs", (BRAILLE, ASCII), ids=("braille", "ascii"))
@pytest.mark.parametrize("width", (40, 80, 200))
def test_costly_nodes_of_a_plan_are_marked(width: int, glyphs: Glyphs) -> None:
    row = {"time_ms": None, "rows": None, "bytes": None, "share": None, "costly": ""}
    rows = [
        row | {"depth": 0, "name": "HashAggregate", "time_ms": 9000, "share": 75.0, "costly": "time"},
        row | {"depth": 1, "name": "Filter", "rows": 10},
        *(row | {"depth": depth, "name": "Project"} for depth in range(2, 60)),
        row | {"depth": 60, "name": "Scan", "rows": 10**6, "bytes": 5 << 20, "costly": "rows, bytes"},
    ]
    text = lines_of(spark_drawing.plan(rows, width, glyphs))
    mark = glyphs.severity["moderate"]
    assert [mark in line for line in text[1:]] == [True, *[False] * 59, True]
    assert "9.0 s (75% of all)" in text[1] and "1,000,000 rows, 5.00 MiB" in text[-1]
    assert all(line.strip() for line in text)
