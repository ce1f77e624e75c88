"""The job heuristics tab on a real session: made-up histories on disk, keys pressed, text read."""

from __future__ import annotations

from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from engine.core.units import gb_hours
from engine.job_heuristics.view import VIEW
from sample_data.job_heuristics import writer
from sample_data.job_heuristics.make import END_MS, put_done
from sample_data.job_heuristics.plans import Shape, make
from sample_data.job_heuristics.shapes import HISTORY
from tests.tui.stage import SIZES, Stage, compare, opened, play, screen_styles, settle, still
from tui.glyphs import SETS
from tui.views.job_heuristics.level import ErrorLevel, OpenJob
from tui.views.job_heuristics.pane import _summary_lines
from tui.widgets.control import NumberControl
from tui.widgets.drawing.fragments import plain
from tui.widgets.table.table import LiveTable

CRAWL, HOT = "crawl-frontier", "train-features"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A done folder of thirteen jobs, one job that runs, one file that cannot be read."""
    root = tmp_path_factory.mktemp("cluster")
    for number, (shape, hours) in enumerate(HISTORY, 1):
        put_done(root, make(shape, number, END_MS - int(hours * 3_600_000), 11), binary=number % 2 == 0)
    running = make(Shape("score-models", "fay", "ml", maps=40, reduces=6, slots=10), 90, END_MS, 11)
    cut = running.launch_ms + 700_000
    place = root / "staging" / "fay" / ".staging" / running.id
    place.mkdir(parents=True)
    (place / f"{running.id}_1_conf.xml").write_bytes(writer.conf_xml(running))
    (place / f"{running.id}_1.jhist").write_bytes(
        writer.head(binary=False) + b"".join(writer.text_line(e) for e in writer.events(running) if e[0] <= cut)
    )
    (root / "job_1760000000000_0099-1-x-y-2-1-1-SUCCEEDED-q-1.jhist").write_bytes(b"Avro-Json\nnot a history\n{}\n")
    still(root)
    return root


@asynccontextmanager
async def screen(root: Path, tmp_path: Path, size=(120, 40), *, once=True, **ui):
    """The dashboard on ``root``, with its first result."""
    async with opened(root, VIEW, tmp_path, size, once=once, **ui) as s:
        await s.until(lambda: jobs(s).window is not None and jobs(s).window.height > 0, 10)
        yield s


def jobs(s: Stage) -> LiveTable:
    return s.app.pane.query_one("#jobs", LiveTable)


async def open_job(s: Stage, name: str) -> str:
    """Open the job called ``name`` by its row."""
    table = jobs(s)
    at = next(k for k, row in enumerate(table.window.rows(0, table.window.height)) if row["name"] == name)
    table.move_to(at)
    await s.press("enter")
    await s.until(lambda: shown(s) is not None and shown(s).facts.job.row["name"] == name, 10)
    await s.pilot.pause()
    return shown(s).facts.job.id


def shown(s: Stage):
    result = s.app.pane.result
    return result.detail.opened if result is not None else None


async def section(s: Stage, name: str) -> None:
    """Show a section of the open job."""
    s.app.pane.top.choose(name)
    await s.pilot.pause()


def test_the_list_shows_every_job_and_state(cluster: Path, tmp_path: Path) -> None:
    async def story() -> None:
        async with screen(cluster, tmp_path) as s:
            await settle(s)
            rows = jobs(s).window.rows(0, 99)
            assert {row["state"] for row in rows} >= {"SUCCEEDED", "FAILED", "RUNNING"}
            assert all(len(row["strip"]) == 13 for row in rows)
            crawl = next(row for row in rows if row["name"] == CRAWL)
            assert crawl["strip"][2] == "M" and crawl["severity"] == "MODERATE"  # 160 maps of 18 s
            text = s.text()
            assert "running" in text and "score-models" in text and "problem" in text
            wasted = [row["wasted_mb_s"] for row in rows]
            assert wasted == sorted(wasted, reverse=True) and wasted[0] > 0  # the most wasteful first, without a key
            best = s.app.pane.query_one("#best-advice", LiveTable).row
            saves = s.app.pane.result.tables["recommendations"]["saving_mb_s"].max()
            assert best["saving_mb_s"] == saves and gb_hours(saves) in text
            assert s.app.pane.query_one("#wasters", LiveTable).row["wasted_mb_s"] == max(
                s.app.pane.result.tables["rollup"].filter(by="user")["wasted_mb_s"]
            )
            await s.press("exclamation_mark")
            await s.see("job_1760000000000_0099")  # a file that is no history is a problem

    play(story)


def test_sort_and_filter_by_any_column(cluster: Path, tmp_path: Path) -> None:
    async def story() -> None:
        async with screen(cluster, tmp_path, (200, 50)) as s:
            table = jobs(s)
            table.choose(sort="wasted_mb_s", descending=True)
            await s.pilot.pause()
            values = [row["wasted_mb_s"] for row in table.window.rows(0, 99) if row["wasted_mb_s"] is not None]
            assert values == sorted(values, reverse=True) and values[0] > 0
            await s.press("slash", *"state=RUNNING", "enter")
            await s.until(lambda: table.window.height == 1)
            assert table.row["name"] == "score-models"
            await s.press("escape")
            await s.until(lambda: table.window.height > 1)

    play(story)


def test_enter_opens_a_job_and_escape_comes_back(cluster: Path, tmp_path: Path) -> None:
    async def story() -> None:
        async with screen(cluster, tmp_path) as s:
            job = await open_job(s, CRAWL)
            await s.see("160/160 maps")
            assert s.app.pane.parameters.job == job
            await s.press("escape")
            await s.until(lambda: shown(s) is None)
            assert s.app.pane.parameters.job is None and len(s.app.pane.levels) == 1
            assert jobs(s).row["name"] == CRAWL, "the cursor is where it was"

    play(story)


def test_a_failed_job_opens_at_its_errors_and_enter_shows_the_whole_text(cluster: Path, tmp_path: Path) -> None:
    async def story() -> None:
        async with screen(cluster, tmp_path) as s:
            job = await open_job(s, "import-events")
            await s.until(lambda: s.app.pane.top.section == "errors")
            (first, *_) = s.app.pane.result.tables["errors"].to_dicts()
            await s.press("enter")
            await s.until(lambda: isinstance(s.app.pane.top, ErrorLevel))
            whole = first["text"].splitlines()
            await s.see(whole[-1].strip()[:60])
            assert s.app.pane.open_job == s.app.pane.parameters.job == job
            await s.press("escape")
            await s.until(lambda: isinstance(s.app.pane.top, OpenJob))
            assert s.app.pane.parameters.job == job and s.app.pane.top.section == "errors"
            await section(s, "verdicts")
            await s.press("enter")  # the verdict Exception
            await s.until(lambda: s.app.pane.top.section == "errors")

    play(story)


def test_a_job_opens_at_its_worst_verdict(cluster: Path, tmp_path: Path) -> None:
    async def story() -> None:
        async with screen(cluster, tmp_path) as s:
            await open_job(s, CRAWL)
            table = s.app.pane.query_one("#job-explained", LiveTable)
            assert table.row["heuristic"] == "Mapper Time"
            table.move_to(0)  # from then on the cursor is the operator's
            for level in s.app.pane.levels:
                level.show(s.app.pane.result)
            await s.pilot.pause()
            assert table.row["heuristic"] == "Mapper Skew"
            await s.press("t")
            assert s.app.pane.top.section == "advice"

    play(story)


def test_every_section_shows_the_jobs_own_numbers(cluster: Path, tmp_path: Path) -> None:
    expected = {
        "verdicts": ("Mapper Time", "more tasks", "split.minsize"),
        "cost": ("useful", "application master", "metrics as Dr. Elephant counts them"),
        "tasks": ("160 maps", "Dr. Elephant", "natural", "Gini"),
        "time": ("first container", "containers in use", "lanes shown", "critical path"),
        "advice": ("split.minsize", "160 maps ran"),
        "what if": ("map container MB", "slow start", "change a value"),
        "history": (CRAWL, "no rows"),
        "task list": ("SUCCEEDED", "map"),
        "notes": ("assumptions", "published"),
    }

    async def story() -> None:
        async with screen(cluster, tmp_path, (120, 50)) as s:
            await open_job(s, CRAWL)
            table = s.app.pane.query_one("#job-explained", LiveTable)
            table.move_to(2)
            await s.pilot.pause()
            for name, texts in expected.items():
                await section(s, name)
                await s.until(lambda: shown(s) is not None)
                whole = s.text()
                if name == "time":  # longer than the screen
                    panel = s.app.pane.query_one("#job-time")
                    whole = "\n".join("".join(t for t, _ in line) for line in panel.content(110))
                for text in texts:
                    assert text in whole, (name, text, whole)

    play(story)


def test_what_if_and_other_limits_re_evaluate_at_once_and_can_be_undone(cluster: Path, tmp_path: Path) -> None:
    async def story() -> None:
        async with screen(cluster, tmp_path) as s:
            await open_job(s, CRAWL)
            await s.press("i")
            control = s.app.pane.query_one("#what-map-mb", NumberControl)
            await s.until(lambda: s.app.focused is control)
            before = control.value
            await s.press("minus", "minus")
            await s.until(lambda: shown(s).prediction is not None and shown(s).scenario.map_mb == before - 256)
            await s.see("wasted")
            assert s.app.pane.query_one("#job-what-if", LiveTable).window.height > 10
            await s.press("u")
            await s.until(lambda: shown(s).scenario.map_mb == before - 128)
            assert control.value == before - 128
            await s.press("x")
            await s.until(lambda: shown(s).prediction is None)
            assert control.value == before
            times = s.app.pane.query_one("#what-times", NumberControl)
            times.focus()
            times._set(0.1)
            await s.until(lambda: shown(s).prediction is not None)
            assert s.app.pane.parameters.limits == ("Mapper Time/num_tasks_severity=x0.1",)
            assert shown(s).prediction.levels["Mapper Time"] == 4  # more than 100 of 160 tasks is CRITICAL then
            await s.see("CRITICAL")

    play(story)


def test_advice_is_taken_into_the_scenario(cluster: Path, tmp_path: Path) -> None:
    async def story() -> None:
        async with screen(cluster, tmp_path) as s:
            await open_job(s, CRAWL)
            await section(s, "advice")
            table = s.app.pane.query_one("#job-advice", LiveTable)
            at = next(k for k, row in enumerate(table.window.rows(0, 9)) if row["topic"] == "split size")
            table.focus()
            table.move_to(at)
            await s.press("t")
            await s.until(lambda: shown(s).prediction is not None)
            assert shown(s).scenario.split_bytes == int(table.window.rows(at, at + 1)[0]["value"])
            assert shown(s).prediction.levels["Mapper Time"] < 2
            await s.see("maps instead of 160")

    play(story)


def test_mode_switches_and_names_the_differences(cluster: Path, tmp_path: Path) -> None:
    async def story() -> None:
        async with screen(cluster, tmp_path) as s:
            await s.see("Dr. Elephant's code, number for number")
            await s.press("m")
            await s.see("Dr. Elephant's published description; table")
            await open_job(s, CRAWL)
            await section(s, "notes")
            await s.see("shown: published")
            await s.see("the published description counts")

    play(story)


def test_rollup_groups_and_leads_to_its_jobs(cluster: Path, tmp_path: Path) -> None:
    async def story() -> None:
        async with screen(cluster, tmp_path) as s:
            await s.press("b")
            table = s.app.pane.query_one("#rollup", LiveTable)
            await s.until(lambda: table.window is not None and table.window.height > 0)
            assert {row["by"] for row in table.window.rows(0, 99)} == {"user"}
            wanted = table.row["group"]
            await s.press("b")
            await s.until(lambda: {row["by"] for row in table.window.rows(0, 99)} == {"queue"})
            for _ in range(3):
                await s.press("b")
            await s.until(lambda: {row["by"] for row in table.window.rows(0, 99)} == {"user"})
            await s.press("enter")
            await s.until(lambda: {row["user"] for row in jobs(s).window.rows(0, 99)} == {wanted})

    play(story)


def test_history_of_a_repeated_job_and_its_configuration_changes(cluster: Path, tmp_path: Path) -> None:
    async def story() -> None:
        async with screen(cluster, tmp_path) as s:
            job = await open_job(s, "daily-sessions")
            await section(s, "history")
            runs = s.app.pane.query_one("#job-runs", LiveTable)
            await s.until(lambda: runs.window is not None and runs.window.height == 5)
            ids = [row["job_id"] for row in runs.window.rows(0, 9)]
            other = next(k for k, one in enumerate(ids) if one != job)
            runs.focus()
            runs.move_to(other)
            await s.press("v")
            await s.until(lambda: s.app.pane.parameters.compare == ids[other])
            await s.press("enter")
            await s.until(lambda: shown(s) is not None and shown(s).facts.job.id == ids[other], 10)

    play(story)


def test_a_running_job_shows_what_is_certain_and_when_it_ends(cluster: Path, tmp_path: Path) -> None:
    async def story() -> None:
        async with screen(cluster, tmp_path) as s:
            await open_job(s, "score-models")
            statuses = {v.outlook.status for v in shown(s).verdicts if v.outlook}
            assert "certain" in statuses and len(statuses) > 1
            await s.see("while it runs")
            await section(s, "time")
            await s.see("not before about")

    play(story)


def test_time_travel_shows_jobs_as_they_were(cluster: Path, tmp_path: Path) -> None:
    async def story() -> None:
        async with screen(cluster, tmp_path) as s:
            now = jobs(s).window.height
            await s.press("left_parenthesis", "left_parenthesis")
            await s.until(lambda: s.app.pane.result.at_ms is not None and jobs(s).window.height < now, 10)
            states = {row["name"]: row["state"] for row in jobs(s).window.rows(0, 99)}
            assert "score-models" not in states
            await s.press("backslash")
            await s.until(lambda: jobs(s).window.height == now, 10)

    play(story)


def test_a_job_that_grows_and_ends_while_open(tmp_path: Path) -> None:
    root = tmp_path / "grow"
    job = make(Shape("grows", "ann", "etl", maps=12, reduces=2, slots=6), 5, END_MS, 3)
    place = root / "staging" / "ann" / ".staging" / job.id
    place.mkdir(parents=True)
    (place / f"{job.id}_1_conf.xml").write_bytes(writer.conf_xml(job))
    lines = [writer.text_line(e) for e in writer.events(job)]
    path = place / f"{job.id}_1.jhist"
    path.write_bytes(writer.head(binary=False) + b"".join(lines[: len(lines) // 2]))

    async def story() -> None:
        async with screen(root, tmp_path, once=False) as s:
            await open_job(s, "grows")
            assert shown(s).facts.job.running
            with path.open("ab") as out:
                out.write(b"".join(lines[len(lines) // 2 :]))
            await s.until(lambda: not shown(s).facts.job.running, 10)
            await s.see("SUCCEEDED")
            await s.see("12/12 maps")

    play(story)


def test_the_open_job_vanishes(tmp_path: Path) -> None:
    root = tmp_path / "gone"
    for number, name in ((1, "stays"), (2, "goes")):
        put_done(root, make(Shape(name, "ann", "etl", maps=4, reduces=1), number, END_MS + number, 3), binary=False)

    async def story() -> None:
        async with screen(root, tmp_path, once=False) as s:
            await open_job(s, "goes")
            for path in root.rglob("job_*_0002*"):
                path.unlink()
            await s.until(lambda: len(s.app.pane.levels) == 1, 10)
            await s.until(lambda: jobs(s).window.height == 1, 10)
            await s.see("stays")
            assert s.app.pane.parameters.job is None

    play(story)


def test_hostile_names_do_no_harm(tmp_path: Path) -> None:
    root = tmp_path / "hostile"
    name = "\x1b[2Jred[/b] [bold]x" + "w" * 400
    put_done(root, make(Shape(name, "an[n]\x07", "q[/]", maps=4, reduces=1), 1, END_MS, 3), binary=False)

    async def story() -> None:
        async with screen(root, tmp_path, (80, 24)) as s:
            await s.see("[2Jred[/b]")
            assert "\x1b" not in s.text() and "\x07" not in s.text()
            await s.press("enter")
            await s.until(lambda: shown(s) is not None)
            for each in s.app.pane.top.declared:
                await section(s, each.title)
                assert "\x1b" not in s.text()

    play(story)


def test_an_endless_name_hides_nothing_else() -> None:
    numbers = ("maps", "reduces", "used_mb_s", "wasted_mb_s", "cost_mb_s", "avoidable_mb_s", "wait_ms", "runtime_ms")
    row = dict.fromkeys(numbers, 1) | {"name": "n" * 1_000_000, "job_id": "job_1", "user": "u" * 9000, "queue": None}
    row |= {"state": "SUCCEEDED", "upstream_says": ""}
    for glyphs in SETS.values():
        lines = [plain(line) for line in _summary_lines(row, [], [], 40, 24, glyphs)]
        assert len(lines) < 20 and any(line.startswith("run time") for line in lines)
        assert all(len(line) <= 40 for line in lines)


STATES = {
    "": {"list": "", "rollup": ""},
    CRAWL: {"verdicts": "verdicts", "time": "time", "what-if": "what if"},
    HOT: {"tasks": "tasks"},
    "daily-sessions": {"history": "history"},
}
"""What is compared with goldens: by job its sections, one after the other on one screen."""


@pytest.mark.parametrize("job", STATES)
def test_screens(job: str, cluster: Path, tmp_path: Path, update: bool) -> None:
    async def story() -> None:
        async with screen(cluster, tmp_path, SIZES[0]) as s:
            if job:
                await open_job(s, job)
            for state, part in STATES[job].items():
                if part:
                    await section(s, part)
                if state == "rollup":
                    await s.press("b")
                if state == "verdicts":
                    s.app.pane.query_one("#job-explained", LiveTable).move_to(2)
                if state == "what-if":
                    s.app.pane.change(map_mb=1536, split_size=200 * 2**20)
                    await s.until(lambda: shown(s).prediction is not None)
                    await s.until(lambda: isinstance(s.app.focused, LiveTable))
                for size in SIZES if state == "list" else (SIZES[0], SIZES[-1]):
                    await s.resize(*size)
                    await settle(s)
                    compare(f"job-heuristics-{state}-{size[0]}x{size[1]}", s.text(), update)
                await s.resize(*SIZES[0])

    play(story)


def test_ascii_is_ascii(cluster: Path, tmp_path: Path) -> None:
    async def story() -> None:
        async with screen(cluster, tmp_path, (100, 30), glyphs_set="ascii") as s:
            await settle(s)
            assert s.text().isascii(), [c for c in s.text() if not c.isascii()]
            await open_job(s, HOT)
            for each in s.app.pane.top.declared:
                await section(s, each.title)
                await settle(s)
                assert s.text().isascii(), (each.title, [c for c in s.text() if not c.isascii()])

    play(story)


def test_themes_draw_severities_apart(cluster: Path, tmp_path: Path) -> None:
    async def story() -> None:
        async with screen(cluster, tmp_path, (200, 50)) as s:
            for theme in ("loadlens-dark", "loadlens-light", "ansi-dark", "ansi-light"):
                s.app.theme = theme
                await settle(s)
                rows = [k for k, line in enumerate(s.text().splitlines()) if CRAWL in line]
                line, styles = s.text().splitlines()[rows[0]], screen_styles(s.app)[rows[0]]
                at = line.index("..M")
                assert styles[at] != styles[at + 2], f"{theme}: a MODERATE letter looks like a NONE one"

    play(story)


def test_w_goes_to_the_controls_also_of_a_job_that_is_still_to_be_read(cluster: Path, tmp_path: Path) -> None:
    async def story() -> None:
        async with screen(cluster, tmp_path) as s:
            await s.press("i")
            await s.until(lambda: isinstance(s.app.focused, NumberControl))
            assert s.app.focused.id == "what-map-mb"
            assert not s.app.pane.query_one("#job-what-if", LiveTable).display, "nothing is predicted yet"
            await s.press("down", "up", "plus")
            await s.until(lambda: s.app.pane.query_one("#job-what-if", LiveTable).display)

    play(story)
