"""Fleet results in the job heuristics tab: the list, one job from its tables or from its own histories, a new day."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.core.view import Result
from engine.job_heuristics.parameters import JobParameters
from engine.job_heuristics.view import VIEW
from sample_data.job_heuristics import writer
from sample_data.job_heuristics.make import END_MS
from sample_data.job_heuristics.plans import Shape, make
from tests.contract.samples import opened as session_on
from tests.engine.job_heuristics.fleet.fleet_writer import write
from tests.tui.stage import Stage, opened, play, settle
from tui.views.job_heuristics.level import JobLevel
from tui.views.job_heuristics.pane import StoredLevel
from tui.widgets.sections import Sections
from tui.widgets.table.table import LiveTable


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> tuple[Result, dict[str, list[str]]]:
    """The result of three jobs, and their files."""
    root = tmp_path_factory.mktemp("histories")
    paths = {}
    for number, name in enumerate(("etl", "report", "sort"), 1):
        job = make(Shape(name, "ann", "etl", maps=20 * number, reduces=2), number, END_MS, 1)
        history, conf = root / job.file_name, root / f"{job.id}_conf.xml"
        history.write_bytes(writer.text(job))
        conf.write_bytes(writer.conf_xml(job))
        paths[job.id] = [str(history), str(conf)]
    session = session_on("job-heuristics", root)
    result = session.compute("job-heuristics", JobParameters())
    session.close()
    return result, paths


def jobs(s: Stage) -> LiveTable:
    return s.app.pane.query_one("#jobs", LiveTable)


async def listed(s: Stage, number: int) -> None:
    await s.until(lambda: jobs(s).window is not None and jobs(s).window.height == number, 15)
    await settle(s)


def test_a_job_without_histories_is_what_the_tables_hold(
    local: tuple[Result, dict[str, list[str]]], tmp_path: Path
) -> None:
    result, paths = local
    gone = {job: [f"hdfs://cluster{path}" for path in each] for job, each in paths.items()}
    write(tmp_path / "fleet" / "day=2026-01-01", result, gone)

    async def story() -> None:
        async with opened(tmp_path / "fleet", VIEW, tmp_path, (160, 50)) as s:
            await listed(s, 3)
            await s.see("3 jobs of a fleet result")
            await s.see("Mapper Speed")  # of the job under the cursor, read in a thread
            job = jobs(s).row["job_id"]
            await s.press("enter")
            await s.see("not reachable here")
            level = s.app.pane.levels[-1]
            assert isinstance(level, StoredLevel) and s.app.pane.open_job == job
            verdicts = level.query_one("#stored-verdicts", LiveTable).window
            assert verdicts.height == result.tables["heuristics"].filter(job_id=job).height
            await s.see("Number of tasks")
            for section in range(5):
                level.query_one("#stored-sections", Sections).choose(section)
                await s.pilot.pause()
            assert level.query_one("#job-runs", LiveTable).window.height == 1
            await s.press("escape")
            await s.until(lambda: len(s.app.pane.levels) == 1)
            await s.see("Mapper Speed")  # read again: no thread is left when the dashboard ends

    play(story)


def test_a_job_with_histories_opens_in_full_and_new_days_appear(
    local: tuple[Result, dict[str, list[str]]], tmp_path: Path
) -> None:
    result, paths = local
    root = tmp_path / "fleet"
    write(root / "day=2026-01-01", result, paths)

    async def story() -> None:
        async with opened(root, VIEW, tmp_path, (160, 50)) as s:
            await listed(s, 3)
            s.app.pane.change(histories="/")
            await s.press("enter")
            await s.until(lambda: isinstance(s.app.pane.levels[-1], JobLevel), 15)
            await s.until(lambda: s.app.pane.result.detail.opened is not None, 15)
            await s.see("60/60 maps")
            await s.press("escape")
            await listed(s, 3)
            write(root / "day=2026-01-02", result, {}, at="2026-01-03T00:00:00Z")
            await s.until(lambda: "3 jobs of 2 fleet results" in s.text(), 15)

    play(story)
