"""Cells, titles and declarations as the screen arranges them: pure functions, no dashboard."""

from __future__ import annotations

import polars as pl
import pytest

from engine.core import units
from engine.core.tables import Column, Table
from engine.job_heuristics.mapreduce.tables import TASKS
from engine.job_heuristics.tables import RECOMMENDATIONS
from tui.glyphs import ASCII, BLOCK, BRAILLE
from tui.views.job_heuristics.level import advice_spec, task_spec
from tui.widgets.drawing.fragments import cells, plain
from tui.widgets.sections import TitleBar
from tui.widgets.table.layout import layout
from tui.widgets.table.window import Choice, build, lines

TASK = "task_1700000000000_0038_m_000417"
SPEC = Table(
    "t",
    "Tasks.",
    (
        Column("task_id", pl.String, "Id.", kind="id", width=16),
        Column("path", pl.String, "File.", width=12),
        Column("name", pl.String, "Name.", width=8),
        Column("counted", pl.Boolean, "A flag without a kind.", width=7),
        Column("timed", pl.Boolean, "A flag.", kind="flag", width=5),
    ),
)


def shown(row: dict[str, object], width: int = 60, glyphs=BRAILLE) -> str:
    window = build(SPEC, pl.DataFrame([row], schema=SPEC.schema), Choice())
    return plain(lines(window, 0, 1, layout(window.columns, width), width, glyphs)[0])


def test_ids_and_paths_keep_their_end_names_both_ends() -> None:
    text = shown({"task_id": TASK, "path": "/a/long/way/x.jhist", "name": "nightly-sessions", "counted": True,
                  "timed": False}, 52)  # fmt: skip
    assert "_0038_m_000417" in text and "task_17" not in text
    assert "x.jhist" in text and "nig…ions" in text
    assert cells(text) == 52


def test_hostile_ids_are_harmless_when_cut() -> None:
    text = shown({"task_id": "x" * 40 + "\x1b[2J\n界界界", "path": "", "name": "", "counted": None, "timed": None}, 52)
    assert "\x1b" not in text and "\n" not in text and cells(text) == 52


def test_flags_are_yes_and_no_whatever_their_kind() -> None:
    text = shown({"task_id": TASK, "path": "p", "name": "n", "counted": True, "timed": False})
    assert text.split()[-2:] == ["yes", "no"]
    assert units.text("text", True) == "yes" and units.text("count", False) == "no"


@pytest.mark.parametrize("value", [0, 1, 3_000, 3_687, 207_771, 368_640, 10**7, 10**9])
def test_memory_over_time_fits_its_column(value: int) -> None:
    for number in (value, -value):
        assert len(units.text("mb_s", number)) <= 12
    assert units.text("mb_s", 207_771) == "0.06 GB·h" and units.text("mb_s", 0) == "0.00 GB·h"


def test_critical_shows_in_reverse_style() -> None:
    for glyphs in (BRAILLE, BLOCK, ASCII):
        assert glyphs.severity["critical"] not in ("█", " ")
        assert len(set(glyphs.severity.values())) == len(glyphs.severity)


def test_titles_lose_their_gaps_before_their_letters() -> None:
    titles = ["verdicts", "cost", "tasks", "time", "advice", "what if", "history", "task list", "notes"]
    bar = TitleBar(titles)
    for width in (120, 80):
        text = plain(bar.paint(width, 1)[0])
        assert all(title in text for title in titles) and cells(text) <= width
    assert cells(plain(bar.paint(60, 1)[0])) <= 60


def test_the_task_list_begins_with_what_makes_a_task_long() -> None:
    spec = task_spec(TASKS)
    seen = [column.name for column in spec.columns if not column.hidden]
    assert seen[:4] == ["task_id", "state", "total_ms", "input_bytes"]
    assert not {"timed", "fallback", "attempt_id", "job_id"} & set(seen)
    assert sorted(spec.schema) == sorted(TASKS.schema)


@pytest.mark.parametrize("all_jobs", [False, True])
def test_advice_shows_what_to_set_and_what_it_saves_at_eighty_columns(all_jobs: bool) -> None:
    spec = advice_spec(RECOMMENDATIONS, all_jobs)
    visible = tuple(column for column in spec.columns if not column.hidden)
    names = [slot.column.name for slot in layout(visible, 79).slots]
    assert {"key", "value", "saving_mb_s"} <= set(names)
    assert ("name" in names) == all_jobs
